"""Plugins: code around layers, forward passes, gradients and updates of lazy arrays.

    with Logging() >> Clip(1.0):         # `docs/howto/plugins.md` has these
        trainer.step(loss(x))

A plugin is active in its block, for the thread or task that runs it. Where no block is open in the process, nothing of
this runs: who has a hook looks at `PLUGGED`, a list that is empty then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, ClassVar, Final

from numpy import ndarray

from pullback.errors import TraceError
from pullback.source import user_position
from pullback.state import context_variable, registered

__all__ = ["PLUGGED", "Plugin", "applied", "chosen", "having", "mistaken", "unseen", "watched"]

PLUGGED: Final[list[Plugin]] = registered([], "plugins of open blocks", stays="until their blocks end")
_ACTIVE: Final[ContextVar[tuple[Plugin, ...]]] = context_variable("plugins", ())
_CHANGE: Final = threading.Lock()


class Plugin:
    """Code around layers, forward passes, gradients and updates of lazy arrays, active in a `with` block.

    A subclass overrides the methods that it needs. `a >> b` is both: what goes into a layer passes a first and b next,
    what comes out passes b first. Gradients and optimizers pass a first. Yang (2019), *Monadic deep learning*, mixes
    plugins into its networks in the same way.

    Blocks of asyncio tasks and of coroutines in `lazy.gather` are their own. Processes of `lazy.remote` have none.

    Cost:
        Nothing where no block is open; otherwise what the methods do. While there is a `forward` in the process, values
        are computed one piece after another, without the quick calls of known structures: 13 µs more for each.

    >>> import numpy as np
    >>> from pullback import lazy, nn
    >>> class Signs(lazy.Plugin):
    ...     def backward(self, gradients):
    ...         return {w: lazy.sign(g) for w, g in gradients.items()}
    >>> w = lazy.Weight(np.array([3.0, -4.0]))
    >>> trainer = lazy.Trainer([w], nn.sgd(0.5))
    >>> with Signs():
    ...     loss = trainer.step(lazy.sum(w * w))
    >>> w.tolist()
    [2.5, -3.5]
    """

    watching: ClassVar[Callable[[bool], None]]  # whether forward passes are intercepted; `lazy.quick` sets it

    def layer(self, name: str, call: Callable[..., Any], /, *args: Any, **keywords: Any) -> Any:
        """The result of a layer: a call of a function of `@lazy.layer` or `lazy.lift`.

        Arrays that it builds are part of the network, and derivatives pass through them. Annotated types hold outside:
        arguments are checked before, and the result afterwards.

        Args:
            name: the layer's name, after those of layers around it: "encoder/head".
            call: the layer, inside the plugins that come next.
            args, keywords: its arguments.
        """
        return call(*args, **keywords)

    def forward(self, operations: tuple[str, ...], run: Callable[[], Any]) -> Any:
        """The values of a piece, which is computed here: call `run` once, and return what it gives.

        Values are to look at, and cannot be replaced. The last piece of a loss computes its derivative, too.

        Args:
            operations: the names of the operations of the piece.
            run: it computes the piece and returns a tuple of NumPy arrays, or of arrays on a device.
        """
        return run()

    def backward(self, gradients: dict[Any, Any]) -> dict[Any, Any]:
        """The gradients of a backward pass, which are then added to `weight.grad`.

        Args:
            gradients: a lazy array for each weight below the loss. A weight that is left out gets no gradient.
        """
        return gradients

    def optimizer(self, weight: Any, optimizer: Any) -> Any:
        """The optimizer of a weight at an update.

        Equal optimizers share a state, which the trainer keeps.

        Args:
            weight: the weight.
            optimizer: that of the trainer, or of the plugin before.
        Returns:
            An optimizer of `pullback.nn`; None leaves the weight as it is.
        """
        return optimizer

    @property
    def parts(self) -> tuple[Plugin, ...]:
        """The plugins of a chain, in order; of a single one, itself."""
        return (self,)

    def __rshift__(self, other: Any) -> Plugin:
        return _Chain((*self.parts, *other.parts)) if isinstance(other, Plugin) else NotImplemented

    def __enter__(self) -> Plugin:
        with _CHANGE:
            PLUGGED.extend(self.parts)
            _watch(self.parts)
        _ACTIVE.set((*_ACTIVE.get(), *self.parts))
        return self

    def __exit__(self, *error: object) -> None:
        active = list(_ACTIVE.get())
        with _CHANGE:
            for own in reversed(self.parts):
                for plugins in (active, PLUGGED):
                    _drop(plugins, own)
            _watch(self.parts)
        _ACTIVE.set(tuple(active))


class _Chain(Plugin):
    """Plugins in sequence, made by `>>`."""

    def __init__(self, parts: tuple[Plugin, ...]) -> None:
        self._parts = parts

    @property
    def parts(self) -> tuple[Plugin, ...]:
        return self._parts

    def __repr__(self) -> str:
        return " >> ".join(map(repr, self._parts))


def _drop(plugins: list[Plugin], own: Plugin) -> None:
    """Remove the last entry that is this plugin, if there is one."""
    for k in reversed(range(len(plugins))):
        if plugins[k] is own:
            del plugins[k]
            return


def _has(plugin: Plugin, hook: str) -> bool:
    return getattr(type(plugin), hook) is not getattr(Plugin, hook)


def _watch(changed: Sequence[Plugin]) -> None:
    if any(_has(p, "forward") for p in changed):
        Plugin.watching(any(_has(p, "forward") for p in PLUGGED))


def having(hook: str) -> list[Plugin]:
    """The active plugins that override a method, in order."""
    return [p for p in _ACTIVE.get() if _has(p, hook)]


@contextmanager
def unseen() -> Iterator[None]:
    """A block in which no plugin is active: what plugins compute does not come back to them."""
    token = _ACTIVE.set(())
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def applied(name: str, call: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The result of a layer, by way of the active plugins."""
    for own in reversed(having("layer")):
        call = partial(own.layer, name, call)
    return call(*args, **keywords)


def watched(operations: tuple[str, ...], compute: Callable[[], Sequence[Any]], count: int) -> Sequence[Any]:
    """The results of a computation, by way of the active plugins, which see the first `count` of them.

    Raises:
        TraceError: [E716] a plugin returns something else.
    """
    plugins = having("forward")
    if not plugins:
        return compute()
    results: Sequence[Any] = ()
    seen: tuple[Any, ...] | None = None

    def run() -> tuple[Any, ...]:
        nonlocal results, seen
        results = compute()
        seen = tuple(results[:count])
        for x in seen:
            if x.__class__ is ndarray:
                x.setflags(write=False)
        return seen

    call: Callable[[], Any] = run
    for own in reversed(plugins):
        call = partial(own.forward, operations, call)
    with unseen():
        found = call()
    if seen is None or found is not seen:
        raise mistaken(plugins, "forward", "does not return what `run()` gives", "`found = run()` … `return found`")
    return results


def chosen(weight: Any, optimizer: Any) -> Any:
    """The optimizer that the active plugins choose for a weight, or None."""
    for own in having("optimizer"):
        if optimizer is not None:
            optimizer = own.optimizer(weight, optimizer)
    return optimizer


def mistaken(plugins: Sequence[Plugin], hook: str, what: str, remedy: str) -> TraceError:
    """The error for a method that does not do what it is for."""
    names = " >> ".join(f"{type(p).__name__}.{hook}" for p in plugins)
    return TraceError("E716", f"{names} {what}", position=user_position(), remedy=remedy)
