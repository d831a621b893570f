"""Kernels: programs that run in the interpreter until their compiled code is ready.

A kernel that this or another process compiled is loaded from disk at its first call. Other kernels are interpreted.
At its second call, such a kernel enters the queue of the compiling thread. A light kernel has no program before.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pullback.calls import policy
from pullback.calls.mistakes import out_of_memory
from pullback.errors import CompilerError, PullbackError
from pullback.ir import nodes as ir
from pullback.ir.dims import has_empty_extent
from pullback.ir.interpret import interpret
from pullback.lazy.counts import COUNTS
from pullback.lazy.quick import is_wanted, prepare
from pullback.lazy.types import ArrayType
from pullback.state import cached, context_variable

if TYPE_CHECKING:
    from pullback.runtime.record import CacheEntry

__all__ = ["Kernel", "alone", "finish_compiling", "joined", "parts", "thread_count"]


class Kernel:
    """A program as a function from a list of arrays to a tuple of arrays."""

    __slots__ = ("_cache", "_calls", "_entry", "_inputs", "_light", "_outputs", "_program", "_slowly", "_state",
                 "_stepwise")  # fmt: skip

    def __init__(
        self, program: ir.Program | Callable[[], ir.Program], inputs: Sequence[ArrayType], outputs: Sequence[ArrayType],
        stepwise: Callable[[Sequence[Any]], tuple[Any, ...]] | None = None, light: bool = False,
    ) -> None:  # fmt: skip
        """Create a kernel.

        Args:
            program: the program, or a function that gives it.
            stepwise: a function that computes the results without the program; by default the interpreter does.
            light: whether such a call takes less time than making the program.
        """
        self._program = program
        self._stepwise = stepwise or self.interpret
        self._light = light
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._entry: Callable[..., Any] | None = None
        self._slowly: Callable[..., Any]  # for arrays that the compiled entry does not accept
        self._cache: CacheEntry | None = None  # the location of the code on disk
        self._calls = 0
        self._state = "new"  # new, interpreted, queued, compiled, or refused

    def __call__(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results for contiguous row-major arrays of the inputs' types."""
        COUNTS.kernels += 1
        try:
            entry = self._entry
            if entry is None:
                found = self._without_entry(values)
                if found is not None:
                    return found
                entry = self._entry
                assert entry is not None
            results: tuple[Any, ...] = entry(*values)
            return self._slowly(*values) if results is NotImplemented else results
        except PullbackError:
            raise
        except MemoryError as error:
            raise out_of_memory("lazy arrays", None, error, "smaller arrays, or a part of them at a time") from None

    def _without_entry(self, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """Run the interpreter; None if compiled code is ready now."""
        self._calls += 1
        if self._state == "new":
            self._state = "interpreted"
            is_wanted()  # its error belongs to this thread, not to the one that compiles
            if policy.backend() != "c":
                self._state = "refused"
            elif _waits_for_code() or (not (self._light or self._is_empty()) and self._is_on_disk()):
                self.compile()
        elif self._state == "interpreted" and self._calls > 1:
            self._state = "queued"
            _COMPILER.put(self)
        if self._entry is not None:
            return None
        COUNTS.interpreted += 1
        return self._stepwise(values)

    @property
    def entry(self) -> Callable[..., Any] | None:
        """The compiled code, as a function of the values; None before there is any."""
        return self._entry

    @property
    def program(self) -> ir.Program:
        """The program, made on first use."""
        own = self._program
        if not isinstance(own, ir.Program):
            own = self._program = own()  # two threads may both do so
        return own

    def _is_empty(self) -> bool:
        """Whether a loop is empty, for which there is no code."""
        if has_empty_extent(self.program, {}):
            self._state = "refused"
        return self._state == "refused"

    def interpret(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results, computed by the interpreter."""
        given = [part for v, t in zip(values, self._inputs) for part in parts(v, t)]
        found = interpret(self.program, [*given, *self.program.settings.captured], contracts=True)
        return tuple([np.asarray(x) for x in joined(found, self._outputs)])

    def _is_on_disk(self) -> bool:
        from pullback.runtime.record import CacheEntry

        self._cache = CacheEntry(self.program, {})
        return self._cache.record is not None

    def compile(self) -> None:
        """Compile the kernel, or load its code from disk."""
        from pullback.runtime.executor import compile_program

        if self._state in ("compiled", "refused") or self._is_empty():
            return
        try:
            made = compile_program(self.program, {}, 1, self._cache)
        except CompilerError as error:
            policy.warn_without_compiler(error.what)
            self._state = "refused"
            return
        from pullback.runtime.shim import Look

        complex_inputs = any(t.form for t in self._inputs)
        look = Look(form=tuple(t.form for t in self._inputs) if complex_inputs else None)
        form = tuple(t.form + 1 for t in self._outputs)  # arrays, even of rank 0
        captured = self.program.settings.captured

        def entry_of(threads: int) -> Callable[..., Any]:
            own = made if threads == 1 else made.on(threads)
            return own.entry(form, look, captured) or self._slow_entry(own)

        self._slowly = self._slow_entry(made)
        self._entry = _threaded(entry_of) if made.record.threaded else entry_of(1)
        self._state = "compiled"
        prepare()
        COUNTS.compiled += 1

    def _slow_entry(self, executable: Any) -> Callable[..., Any]:
        captured = self.program.settings.captured

        def call(*values: Any) -> tuple[Any, ...]:
            given = [p for v, t in zip(values, self._inputs) for p in parts(v, t)]
            return tuple(joined(executable.run([*given, *captured]), self._outputs))

        return call


def _waits_for_code() -> bool:
    """Whether each piece is compiled at its first call, as for tests of its code.

    Raises:
        UsageError: [E602] PULLBACK_LAZY is neither `background` nor `wait`.
    """
    return policy.word("PULLBACK_LAZY", ("background", "wait"), "is no way to compile") == "wait"


def _threaded(entry_of: Callable[[int], Callable[..., Any]]) -> Callable[..., Any]:
    """The function that runs a kernel on the threads that its call may use."""
    entries: dict[int, Callable[..., Any]] = {}

    def call(*values: Any) -> Any:
        threads = 1 if _SHARED.get() else thread_count()
        entry = entries.get(threads)
        if entry is None:
            entry = entries[threads] = entry_of(threads)
        return entry(*values)

    return call


_SHARED: Final[ContextVar[bool]] = context_variable("kernels side by side", False)


def alone() -> None:
    """Let kernels of this thread use no other one, as others run beside them."""
    _SHARED.set(True)


def thread_count() -> int:
    """The threads that kernels may use, from the enclosing block, environment or processors."""
    if policy.ASKED_THREADS.get() is None and "PULLBACK_THREADS" not in os.environ:
        return _processors()
    return policy.thread_count(None)


@cached(1)
def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parts(value: Any, type: ArrayType) -> tuple[Any, ...]:
    """The arrays that a program takes for an array: two for a complex one."""
    return (np.array(value.real), np.array(value.imag)) if type.form else (value,)


def joined(found: Sequence[Any], types: Sequence[ArrayType]) -> list[Any]:
    """The arrays that a program's results stand for: each complex one of two results."""
    rest = iter(found)
    made = []
    for t in types:
        value = next(rest)
        if t.form:
            whole = np.empty(t.shape, t.numpy)
            whole.real, whole.imag = value, next(rest)
            value = whole
        made.append(value)
    return made


class _Compiler:
    """The compiling thread, started on demand."""

    def __init__(self) -> None:
        self._queue: queue.Queue[Kernel | None] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def put(self, kernel: Kernel) -> None:
        """Queue this kernel for compilation."""
        self._queue.put(kernel)
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                import pullback.runtime.cache  # noqa: F401  # its folders go at exit, after `stop`, as it is registered first

                atexit.register(self.stop)
                self._thread = threading.Thread(target=self._work, name="pullback lazy compiler", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Let the thread end after the current kernel: at exit it could be killed while it holds a lock."""
        if self._thread is None:
            return
        try:
            while True:
                self._queue.get_nowait()
                self._queue.task_done()
        except queue.Empty:
            self._queue.put(None)
        self._thread.join()

    def wait(self) -> None:
        """Wait until nothing is left to compile."""
        self._queue.join()

    def _work(self) -> None:
        while True:
            kernel = self._queue.get()
            try:
                if kernel is None:
                    return
                kernel.compile()
            except Exception as error:  # the interpreter continues to run the kernel
                if threading.main_thread().is_alive():  # at the end of the program Python refuses more threads
                    policy.warn_without_compiler(f"a piece of a lazy program was not compiled: {error}")
            finally:
                self._queue.task_done()


_COMPILER: Final = _Compiler()


def finish_compiling() -> None:
    """Wait until all queued kernels are compiled; for measurements.

    Cost:
        The C compiler takes from 0.1 s to some seconds for each queued kernel.

    >>> from pullback import lazy
    >>> lazy.finish_compiling()
    """
    _COMPILER.wait()
