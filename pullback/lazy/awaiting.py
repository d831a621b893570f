"""`await` of lazy arrays: in asyncio, in notebooks, and in plain scripts by `lazy.run`.

Arrays that several coroutines await at the same time are computed together. Independent pieces run in parallel, and
shared ones run once.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from pullback.errors import TraceError
from pullback.lazy.node import Array
from pullback.lazy.plugins import PLUGGED, having
from pullback.lazy.running import force
from pullback.source import user_position
from pullback.state import PerThread, registered

__all__ = ["gather", "run", "trampoline"]

T = TypeVar("T")
P = ParamSpec("P")


class _Wanted:
    """A coroutine's request to its driver: the arrays that it awaits."""

    __slots__ = ("arrays",)

    def __init__(self, arrays: list[Array]) -> None:
        self.arrays = arrays


class _Called(Awaitable[T]):
    """A call of a `trampoline` function: its driver runs the coroutine, and sends the result."""

    __slots__ = ("coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self.coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, T]:
        if not _THREAD.depth and _loop() is not None:
            return (yield from asyncio.ensure_future(self.coroutine).__await__())
        result: T = yield self
        return result

    def send(self, value: Any) -> Any:
        """Begin or continue, for `lazy.run` of the call itself."""
        return self.coroutine.send(value)

    def throw(self, error: BaseException) -> Any:
        """Continue with an error."""
        return self.coroutine.throw(error)

    def close(self) -> None:
        """End the coroutine."""
        self.coroutine.close()


class _Stack:
    """A coroutine and the calls of `trampoline` functions inside it, the latest last.

    Args:
        context: that of the coroutine, if it is not its driver's.
    """

    __slots__ = ("calls", "context")

    def __init__(self, first: Any, context: Context | None = None) -> None:
        self.calls = [first]
        self.context = context

    def advance(self, error: BaseException | None) -> Any:
        """Continue to the next request that is not a call; raise StopIteration with the result at the end."""
        value: Any = None
        while True:
            try:
                wanted = self.calls[-1].send(value) if error is None else self.calls[-1].throw(error)
            except StopIteration as end:
                if len(self.calls) == 1:
                    raise
                value, error = end.value, None
            except BaseException as raised:
                if len(self.calls) == 1:
                    error = None  # its traceback holds this frame
                    raise
                value, error = None, raised
            else:
                if not isinstance(wanted, _Called):
                    return wanted
                self.calls.append(wanted.coroutine)
                value = error = None
                continue
            self.calls.pop()

    def close(self) -> None:
        """End all coroutines, the latest first."""
        while self.calls:
            self.calls.pop().close()


class _Thread(PerThread):
    def __init__(self) -> None:
        self.depth = 0  # number of active `lazy.run` calls


_THREAD: Final = _Thread()


def _loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def awaited(arrays: list[Array]) -> Generator[Any, Any, None]:
    """Wait for arrays: the driver of `lazy.run` computes them, or a thread while asyncio continues."""
    if _THREAD.depth:
        yield _Wanted(arrays)
    elif (loop := _loop()) is not None:
        if PLUGGED and having("forward"):
            return (yield from asyncio.to_thread(_finish, arrays).__await__())
        yield from _batch_of(loop).add(arrays).__await__()
    else:
        raise TraceError(
            "E705",
            "await of a lazy array, and neither asyncio nor `lazy.run` is running",
            position=user_position(),
            remedy="`lazy.run(main())`, or `float(x)` and `x.numpy()`, which need no loop",
        )


# asyncio ------------------------------------------------------------------------------------------------------------


class _Batch:
    """The arrays that the tasks of an event loop await since its last check."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.waiting: list[tuple[list[Array], asyncio.Future[None]]] = []

    def add(self, arrays: list[Array]) -> asyncio.Future[None]:
        """Return a future that completes when the arrays are computed."""
        future: asyncio.Future[None] = self.loop.create_future()
        if not self.waiting:
            self.loop.call_soon(lambda: self.loop.create_task(self._compute()))
        self.waiting.append((arrays, future))
        return future

    async def _compute(self) -> None:
        waiting = [w for w in self.waiting if not w[1].cancelled()]
        self.waiting = []
        try:
            await self.loop.run_in_executor(None, _finish, [x for arrays, _ in waiting for x in arrays])
            while waiting:
                _settle(waiting.pop(0)[1], None)
        except Exception as error:
            if len(waiting) == 1:
                _settle(waiting.pop()[1], error)  # the error's traceback holds this frame, so drop the future
        while waiting:  # each of several arrays has its own error, or none
            arrays, future = waiting.pop()
            try:
                await self.loop.run_in_executor(None, _finish, arrays)
                _settle(future, None)
            except Exception as error:
                _settle(future, error)
            finally:
                del arrays, future


def _finish(arrays: list[Array]) -> None:
    """Compute arrays, and wait for those on a device."""
    force(arrays)
    for x in arrays:
        if x.type.device:
            x.value.ready()


def _settle(future: asyncio.Future[None], error: Exception | None) -> None:
    """Complete the future, with an error if there is one."""
    if future.cancelled():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


_BATCHES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Batch]] = registered(
    WeakKeyDictionary(), "one for each event loop", stays="with the event loop"
)


def _batch_of(loop: asyncio.AbstractEventLoop) -> _Batch:
    return _BATCHES.setdefault(loop, _Batch(loop))


# Plain scripts ------------------------------------------------------------------------------------------------------


def run(coroutine: Awaitable[T]) -> T:
    """Run a coroutine that awaits lazy arrays, in a plain script.

    Args:
        coroutine: the result of calling an `async def`. It may await lazy arrays, `lazy.gather`, and such
            coroutines. For other awaitables, use asyncio.
    Returns:
        The coroutine's result.
    Raises:
        TraceError: [E706] the argument is not a coroutine; asyncio is running, as in a notebook (use `await`); or the
            coroutine awaits an object of asyncio.
    Cost:
        The cost of the awaited values, and a microsecond or two per `await`.

    >>> from pullback import lazy
    >>> async def chosen(x):
    ...     largest = await lazy.max(x)
    ...     return lazy.exp(-x) if largest > 1.0 else x
    >>> lazy.run(chosen(lazy.asarray([0.0, 0.5]))).tolist()
    [0.0, 0.5]
    """
    first: Any = coroutine
    if not hasattr(first, "send"):
        what = f"lazy.run: {type(coroutine).__name__} is no coroutine"
        remedy = "call the `async def`: `lazy.run(main())`; the value of an array is `x.numpy()`"
        raise TraceError("E706", what, position=user_position(), remedy=remedy)
    if _loop() is not None:
        first.close()
        raise TraceError("E706", "lazy.run, where asyncio is running", position=user_position(),
                         remedy="`await` the coroutine")  # fmt: skip
    _THREAD.depth += 1
    error: BaseException | None = None
    stack = _Stack(first)
    try:
        while True:
            try:
                wanted = stack.advance(error)
            except StopIteration as end:
                found: T = end.value
                return found
            error = _computed(wanted)
    finally:
        error = None  # its traceback holds this frame
        _THREAD.depth -= 1
        stack.close()


def _computed(wanted: Any) -> BaseException | None:
    """Compute the arrays that a coroutine awaits; return an exception, if any."""
    if not isinstance(wanted, _Wanted):
        return TraceError("E706", f"a coroutine in lazy.run awaits {type(wanted).__name__}, which is asyncio's",
                          position=user_position(), remedy="`asyncio.run(...)`")  # fmt: skip
    try:
        force(wanted.arrays)
    except BaseException as error:
        return error
    return None


class _Together:
    """Concurrent coroutines of `lazy.run`."""

    def __init__(self, awaitables: tuple[Awaitable[Any], ...]) -> None:
        self._running = [_Stack(a.__await__(), copy_context()) for a in awaitables]

    def __await__(self) -> Generator[Any, Any, list[Any]]:
        results: list[Any] = [None] * len(self._running)
        active = dict(enumerate(self._running))
        while active:
            wanted: list[Array] = []
            for k, stack in list(active.items()):
                try:
                    wanted += _in_context(stack)
                except StopIteration as end:
                    results[k] = end.value
                    del active[k]
            if wanted:
                yield _Wanted(wanted)
        return results


def _in_context(stack: _Stack) -> list[Array]:
    """Continue a coroutine in its context; return the arrays that it awaits.

    Those that its own plugins are to see are computed there.
    """
    assert stack.context is not None
    arrays: list[Array] = stack.context.run(stack.advance, None).arrays
    if PLUGGED and stack.context.run(having, "forward") != having("forward"):
        stack.context.run(force, arrays)
        return []
    return arrays


def trampoline(f: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Awaitable[T]]:
    """Let calls of an `async def` nest to any depth.

    Python runs an `await` of a coroutine on its own stack, so some thousand nested calls end in RecursionError. Calls
    of a decorated function lie in a list instead. `lazy.run`, `lazy.gather` and asyncio run them.

    Args:
        f: an `async def`.
    Cost:
        About a microsecond for each call; in asyncio a task for each call.

    >>> from pullback import lazy
    >>> @lazy.trampoline
    ... async def count(n):
    ...     return 0 if n == 0 else 1 + await count(n - 1)
    >>> lazy.run(count(20_000))
    20000
    """

    @functools.wraps(f)
    def call(*args: P.args, **named: P.kwargs) -> Awaitable[T]:
        return _Called(f(*args, **named))

    return call


async def gather(*awaitables: Awaitable[Any]) -> list[Any]:
    """Await arrays and coroutines together: all pending arrays are computed in one batch.

    Cost:
        The cost of the awaited values; shared parts count once.

    >>> from pullback import lazy
    >>> async def both(x):
    ...     return await lazy.gather(lazy.sum(x), lazy.max(x))
    >>> [float(v) for v in lazy.run(both(lazy.asarray([1.0, 2.0])))]
    [3.0, 2.0]
    """
    if _THREAD.depth:
        return await _Together(awaitables)
    return list(await asyncio.gather(*(_task(a) for a in awaitables)))


async def _task(awaitable: Awaitable[T]) -> T:
    return await awaitable


Array.awaited = staticmethod(awaited)
