"""Training of lazy weights with the optimizers of `pullback.nn`."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator, Sequence
from contextvars import copy_context
from typing import Any, Final

import numpy as np

from pullback.errors import DeviceError, TraceError
from pullback.lazy.device_kernel import DeviceKernel, kernel_of
from pullback.lazy.gradients import backward_into
from pullback.lazy.kernel import Kernel
from pullback.lazy.node import Array
from pullback.lazy.operation import traced_program
from pullback.lazy.places import leaf_at, put
from pullback.lazy.plugins import PLUGGED, chosen
from pullback.lazy.quick import hold
from pullback.lazy.types import ArrayType
from pullback.lazy.weight import Weight
from pullback.nn.optimizers import Optimizer, check_descends
from pullback.nn.optimizers.leaves import leaves_of, rebuilt
from pullback.nn.optimizers.optimizer import Chain
from pullback.source import user_position
from pullback.tracing import tree

__all__ = ["Trainer", "weights"]

Path = tuple[str, ...]
MOST: Final = 1024  # cached update plans for sets of weights that are updated together


def weights(parameters: Any, device: str | None = None) -> Any:
    """Convert a tree of arrays to a tree of weights, named by their paths, such as "conv1/w".

    Args:
        parameters: the tree.
        device: the device of the weights, a name of `pb.devices`; by default that of each array, or of new arrays.

    Cost:
        A copy of each array.

    >>> import numpy as np
    >>> from pullback import lazy
    >>> lazy.weights({"dense": {"w": np.zeros((2, 3)), "b": np.zeros(3)}})["dense"]["w"]
    Weight(dense/w : f64[2, 3])
    """
    return rebuilt(parameters, {name: Weight(x, name, device=device) for name, x in leaves_of(parameters).items()})


class Trainer:
    """A set of weights with its optimizer. Several trainers may each own part of a network's weights.

    Only weights with a cotangent are updated, so a step does not train unused weights. A trainer of given weights warns
    (E717) of others that a loss reads, if no trainer has them.

    Copies and pickles have the optimizer's state, so training continues from them. In one pickle with the network, its
    weights are those of the network.

    Args:
        weights: a tree of weights. Without it, the trainer takes the weights of each loss that it trains. A weight that
            it meets later begins with the optimizer's initial state.
        optimizer: one of `pullback.nn`, such as `nn.clip_by_global_norm(1.0) >> nn.adam(1e-3)`. Its state is on the
            weights' device.
    Attributes:
        steps: the number of updates.
    Raises:
        TraceError: [E171] there is no optimizer, or it does not turn gradients into updates. [E707] Two weights have
            the same name.
        DeviceError: [E422] the weights are on two devices.
    Cost:
        A step: forward and backward, then one kernel that reads weights, cotangents and optimizer state, and writes
        weights and state. The formulas are those of `pullback.nn`, with their sources.

    >>> import numpy as np
    >>> from pullback import lazy, nn
    >>> w = lazy.Weight(np.array([3.0, 4.0]))
    >>> trainer = lazy.Trainer([w], nn.sgd(0.25))
    >>> trainer.step(lazy.sum(w * w)), w.tolist()
    (25.0, [1.5, 2.0])
    >>> trainer = lazy.Trainer(optimizer=nn.sgd(0.25))
    >>> trainer.step(lazy.sum(w * w)), list(trainer.weights.values()) == [w]
    (6.25, True)
    """

    def __init__(self, weights: Any = None, optimizer: Optimizer | None = None) -> None:
        if optimizer is None:
            raise TraceError("E171", "Trainer: there is no optimizer", position=user_position(),
                             remedy="`lazy.Trainer(weights, nn.sgd(0.1))`, or `lazy.Trainer(optimizer=nn.sgd(0.1))` "
                             "to find the weights")  # fmt: skip
        check_descends("Trainer", optimizer)
        self.weights: dict[str, Weight] = {}
        self.optimizer = optimizer
        self.steps = 0
        self._finds = weights is None
        self._named = _reads_names(optimizer)
        self._place = ""
        self._kept: dict[Path, Any] = {}
        self._others: dict[Optimizer, Trainer] = {}  # of weights for which a plugin chose another optimizer
        self._kernels: dict[Any, Kernel | DeviceKernel] = {}
        self._plans: dict[Any, tuple[list[Path], Kernel | DeviceKernel]] = {}
        self._own([x for x in tree.flatten(weights)[0] if isinstance(x, Weight)])

    def _own(self, found: Sequence[Weight]) -> None:
        """Take further weights; each begins with the optimizer's initial state."""
        everything = self.weights | {w.name: w for w in found}
        if len(everything) < len({id(w) for w in (*self.weights.values(), *found)}):
            raise TraceError("E707", "Trainer: two weights have one name", position=user_position(),
                             facts=sorted(w.name for w in found), remedy="`lazy.Weight(x, name=...)`")  # fmt: skip
        self._place = _place_of(list(everything.values()))
        state = dict(_leaves(self.optimizer.init({name: w.numpy() for name, w in everything.items()})))
        self._kept = {path: put(x, self._place) for path, x in state.items()} | self._kept
        self.weights = everything
        self._plans.clear()
        for w in found:
            w.trained = True

    @property
    def state(self) -> dict[str, Any]:
        """The state of the optimizer as NumPy arrays, in the form of `pullback.nn`."""
        return _nested({path: put(x, "") for path, x in self._kept.items()})

    def step(self, loss: Array) -> float:
        """Make one training step: backward from the loss, and an update; return the loss."""
        found, below = backward_into(loss)
        if not self._finds:
            _warn_of_untrained(below)
        elif any(self.weights.get(w.name) is not w for w in below):
            self._own(below)
        self.update()
        return found

    async def train(self, loss: Array) -> float:
        """Make one training step as a coroutine: other asyncio tasks continue while it computes."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return self.step(loss)
        return await loop.run_in_executor(None, copy_context().run, self.step, loss)

    def update(self) -> None:
        """Update the weights that have a cotangent, and clear the cotangents."""
        changed = [w for w in self.weights.values() if w.grad is not None]
        if not changed:
            return
        if PLUGGED:
            self._update_each(changed)
        else:
            self._update(changed)

    def _update_each(self, changed: Sequence[Weight]) -> None:
        """Update each weight by the optimizer that the active plugins choose."""
        groups: dict[Optimizer, list[Weight]] = {}
        for w in changed:
            optimizer = chosen(w, self.optimizer)
            if optimizer is None:
                w.grad = None
            else:
                groups.setdefault(optimizer, []).append(w)
        for optimizer in groups:
            check_descends("Plugin.optimizer", optimizer)
        own = groups.pop(self.optimizer, [])
        if own:
            self._update(own)
        elif groups:
            self.steps += 1
        for optimizer, others in groups.items():
            trainer = self._others.get(optimizer) or self._others.setdefault(optimizer, Trainer([], optimizer))
            if any(trainer.weights.get(w.name) is not w for w in others):
                trainer._own(others)
            trainer._update(others)

    def _update(self, changed: list[Weight]) -> None:
        paths, kernel = self._plan(changed)
        given = [w.value for w in changed]
        given += [_dense(w) for w in changed]
        given += [self._kept[p] for p in paths]
        given.append(np.array(self.steps))
        results = kernel(given)
        if not hold(changed, results):
            for w, value in zip(changed, results):
                w.hold(value)
                w.grad = None
        self._kept.update(zip(paths, results[len(changed) :]))
        self.steps += 1

    def __getstate__(self) -> dict[str, Any]:
        kept = {path: put(x, "") for path, x in self._kept.items()}
        return {**vars(self), "weights": dict(self.weights), "_kept": kept, "_others": dict(self._others),
                "_kernels": {}, "_plans": {}}  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._place = _place_of([*self.weights.values()])  # unpickled weights are where new arrays are
        self._kept = {path: put(x, self._place) for path, x in self._kept.items()}
        for w in self.weights.values():
            w.trained = True

    def _plan(self, changed: Sequence[Weight]) -> tuple[list[Path], Kernel | DeviceKernel]:
        """The state paths that an update of these weights reads and writes, and its kernel.

        Weights of equal types share a kernel if names do not matter.
        """
        names = tuple([w.name for w in changed])
        types = tuple([w.type for w in changed])
        found = self._plans.get((names, types))
        if found is None:
            own: dict[str, list[Path]] = {n: [] for n in names}
            for p in self._kept:
                own.setdefault(p[-1] if p[-1] in self.weights else "", []).append(p)
            paths = [p for n in (*names, "") for p in own.get(n, ())]
            alike = (names if self._named else len(names), types)
            if alike not in self._kernels:
                self._kernels[alike] = self._kernel(names, types, paths)
            if len(self._plans) >= MOST:
                self._plans.clear()
            found = self._plans[names, types] = paths, self._kernels[alike]
        return found

    def _kernel(self, names: Sequence[str], of: Sequence[ArrayType], paths: Sequence[Path]) -> Kernel | DeviceKernel:
        """The kernel of an update of weights with these names and types."""
        count = len(names)

        def body(handles: list[Any]) -> Any:
            p, g = dict(zip(names, handles)), dict(zip(names, handles[count:]))
            state = _nested(dict(zip(paths, handles[2 * count : -1])))
            updates, after = self.optimizer.update(g, state, p, handles[-1])
            changed, kept = self.optimizer.apply(p, updates), dict(_leaves(after))
            return [*(changed[n] for n in names), *(kept[p] for p in paths)]

        rest = [leaf_at(x).type for x in (*(self._kept[p] for p in paths), np.array(self.steps))]
        types = [*of, *of, *rest]
        program, results, _ = traced_program("update", types, body)
        return kernel_of(program, types, [t.on(self._place) for t in results], self._place)


def _warn_of_untrained(below: Sequence[Weight]) -> None:
    """Warn, once for each, of weights that a loss reads and that no trainer has."""
    found = [w for w in below if not w.trained]
    if found:
        for w in found:
            w.trained = True
        names = ", ".join(w.name for w in found)
        warnings.warn(
            f"the loss reads {names}, which no trainer was given: its gradients add up, and no step changes it. "
            f"Give it to a trainer, or read `lazy.stop_gradient({found[0].name})` [E717]", RuntimeWarning, stacklevel=4,
        )  # fmt: skip


def _place_of(weights: Sequence[Weight]) -> str:
    """The place of weights.

    Raises:
        DeviceError: [E422] they are at two places.
    """
    for w in weights:
        if w.type.device != (first := weights[0]).type.device:
            raise DeviceError("E422", f"Trainer: {first.name} is on {first.device}, and {w.name} is on {w.device}",
                              position=user_position(), remedy="a trainer for the weights of each device")  # fmt: skip
    return weights[0].type.device if weights else ""


def _dense(w: Weight) -> Any:
    """A weight's cotangent as an array of the weight's type, converted by `__array__` if necessary."""
    gradient = w.grad
    if gradient.__class__ is np.ndarray and gradient.dtype is w.type.numpy and gradient.shape == w.type.shape:
        return gradient
    if w.type.device:
        return put(gradient, w.type.device)
    return np.ascontiguousarray(gradient, w.type.numpy).reshape(w.type.shape)


def _reads_names(optimizer: Optimizer) -> bool:
    """Whether an optimizer's effect on a weight depends on the weight's name."""
    if isinstance(optimizer, Chain):
        return any(map(_reads_names, optimizer.parts))
    own = type(optimizer)
    return own.check_names is not Optimizer.check_names or own.visible is not Optimizer.visible


def _leaves(state: dict[str, Any], above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The arrays of a state, with the paths of keys to them."""
    for k, v in state.items():
        if isinstance(v, dict):
            yield from _leaves(v, (*above, k))
        else:
            yield (*above, k), np.asarray(v) if isinstance(v, np.generic | int | float) else v


def _nested(leaves: dict[Path, Any]) -> dict[str, Any]:
    """The state, as nested dicts of these arrays."""
    state: dict[str, Any] = {}
    for path, value in leaves.items():
        inner = state
        for k in path[:-1]:
            inner = inner.setdefault(k, {})
        inner[path[-1]] = value
    return state
