"""Training of weights by the optimisers of `pullback.nn`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from pullback.errors import TraceError
from pullback.lang import tree
from pullback.lazy.array import Array
from pullback.lazy.gradient import backward
from pullback.lazy.kernel import Kernel
from pullback.lazy.operation import traced_program
from pullback.lazy.types import type_of_value
from pullback.lazy.weight import Weight
from pullback.nn.optimisers import Optimiser, check_descends
from pullback.nn.optimisers.leaves import leaves_of, rebuilt
from pullback.source import user_position

__all__ = ["Trainer", "weights"]

_STEP: Final = type_of_value(np.array(0))


def weights(parameters: Any) -> Any:
    """A tree of arrays as a tree of weights, named after their places, such as "conv1/w".

    >>> import numpy as np
    >>> from pullback import lazy
    >>> lazy.weights({"dense": {"w": np.zeros((2, 3)), "b": np.zeros(3)}})["dense"]["w"]
    Weight(dense/w : f64[2, 3])
    """
    return rebuilt(parameters, {name: Weight(x, name) for name, x in leaves_of(parameters).items()})


class Trainer:
    """Weights and the optimiser that changes them. Several trainers may each have some of a network's weights.

    Only weights that have a delta are changed: what a step did not run, it does not train.

    Args:
        weights: a tree of weights.
        optimiser: one of `pullback.nn`, such as `nn.clip_by_norm(1.0) >> nn.adam(1e-3)`.
    Attributes:
        state: what the optimiser keeps.   steps: how many updates there were.
    Raises:
        TraceError: [E171] the optimiser makes no updates of gradients. [E707] two weights have one name.

    >>> import numpy as np
    >>> from pullback import lazy, nn
    >>> w = lazy.Weight(np.array([3.0, 4.0]))
    >>> trainer = lazy.Trainer([w], nn.sgd(0.25))
    >>> trainer.step(lazy.sum(w * w)), w.tolist()
    (25.0, [1.5, 2.0])
    """

    def __init__(self, weights: Any, optimiser: Optimiser) -> None:
        check_descends("Trainer", optimiser)
        found = [x for x in tree.flatten(weights)[0] if isinstance(x, Weight)]
        self.weights = {w.name: w for w in found}
        if len(self.weights) < len({id(w) for w in found}):
            raise TraceError("E707", "Trainer: two weights have one name", position=user_position(),
                             facts=sorted(w.name for w in found), remedy="`lazy.Weight(x, name=...)`")  # fmt: skip
        self.optimiser = optimiser
        self.state = optimiser.init({name: w.numpy() for name, w in self.weights.items()})
        self.steps = 0
        self._kernels: dict[Any, tuple[Kernel, tree.Structure]] = {}

    def step(self, loss: Array) -> float:
        """One step of training: backward from the loss, and an update. The loss."""
        found = backward(loss)
        self.update()
        return found

    async def train(self, loss: Array) -> float:
        """The same as a coroutine: while it computes, other tasks of asyncio go on."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return self.step(loss)
        return await loop.run_in_executor(None, self.step, loss)

    def update(self) -> None:
        """Change the weights that have a delta, and forget the deltas."""
        changed = [w for w in self.weights.values() if w.delta is not None]
        if not changed:
            return
        names = [w.name for w in changed]
        values = [w.numpy() for w in changed]
        deltas = [np.ascontiguousarray(w.delta, w.type.numpy) for w in changed]
        kept = _of(self.state, self.weights.keys() - set(names))
        leaves, structure = tree.flatten(kept)
        given = [*values, *deltas, *map(np.asarray, leaves), np.array(self.steps)]
        key = (tuple(names), tuple(type_of_value(x) for x in given))
        if key not in self._kernels:
            self._kernels[key] = self._kernel(names, structure, given)
        kernel, after = self._kernels[key]
        results = kernel(given)
        for w, value in zip(changed, results):
            w.set_value(value)
            w.delta = None
        self.state = _merged(self.state, tree.unflatten(after, results[len(names) :]))
        self.steps += 1

    def _kernel(
        self, names: Sequence[str], structure: tree.Structure, given: Iterable[Any]
    ) -> tuple[Kernel, tree.Structure]:
        """The kernel of an update of some weights, and the structure of the state that it gives."""
        count = len(names)
        found: list[tree.Structure] = []

        def body(handles: list[Any]) -> Any:
            p, g = dict(zip(names, handles)), dict(zip(names, handles[count:]))
            state = tree.unflatten(structure, handles[2 * count : -1])
            updates, after = self.optimiser.update(g, state, p, handles[-1])
            leaves, own = tree.flatten(after)
            found.append(own)
            changed = self.optimiser.apply(p, updates)
            return [*(changed[n] for n in names), *leaves]

        types = [t for x in given if (t := type_of_value(x)) is not None]
        program, results, _ = traced_program("update", types, body)
        return Kernel(program, types, results), found[0]


def _of(state: Any, without: Iterable[str]) -> Any:
    """A state without what belongs to some weights."""
    left = set(without)
    return {
        k: _of(v, left) if isinstance(v, dict) else v for k, v in state.items() if isinstance(v, dict) or k not in left
    }


def _merged(old: Any, new: Any) -> Any:
    """A state with new entries in the place of old ones."""
    return {k: (_merged(v, new[k]) if isinstance(v, dict) else new[k]) if k in new else v for k, v in old.items()}
