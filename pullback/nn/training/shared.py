"""Data-parallel updates: several processes compute gradients, each for a part of the batch.

A process holds only the loss. At each update, a process receives the parameters and its part of the batch. It returns
the loss, the gradients and the state of that part. As the loss is a mean over the batch, their means, weighted by
part sizes, are those of the batch. The update itself is made once, in this process. So optimizers, checkpoints and
evaluation work as in one process. Parameters are sent once to each machine, for any number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from pullback.cluster import Process, answer, sent
from pullback.nn.optimizers import Optimizer
from pullback.nn.training.step import SLOW, Carry, Updates, pair
from pullback.tracing import tree

__all__ = ["SharedUpdates"]

REMEDY: Final = '`fit(…, save="folder")`: called again, it goes on from the last checkpoint there'


class Part:
    """The gradients of a loss, computed in a separate process."""

    def __init__(self, loss: Callable[..., Any], options: dict[str, Any]) -> None:
        def of_part(parameters: Any, state: Any, batch: Any) -> Any:
            return pair(loss(parameters, state, batch))

        derived = pb.value_and_grad(of_part, wrt="parameters", has_aux=True)

        def both(parameters: Any, state: Any, batch: Any) -> Any:
            return derived(parameters, state, batch)

        self.function = pb.function(**options)(both)

    def gradient(self, held: Any, batch: Any) -> tuple[float, list[Any], list[Any] | None]:
        """The loss, the gradient leaves, and the leaves of the next state if there is one."""
        (value, after), gradients = self.function(*held, batch)
        return float(value), tree.flatten(gradients)[0], None if after is None else tree.flatten(after)[0]


class SharedUpdates(Updates):
    """Parallel updates, equal to those of one process within rounding.

    Args:
        workers: the number of processes.
        loss, optimizer, carry, options: as for `Updates`.
    """

    def __init__(self, loss: Callable[..., Any], optimizer: Any, carry: Carry, workers: int, **options: Any) -> None:
        super().__init__(loss, optimizer, carry, **options)
        self.processes = [Process(f"part {k} of the batch", Part, loss, options, options={}) for k in range(workers)]

    def seconds(self, batch: Any) -> float:
        """Return a duration large enough that each update is a separate call."""
        return SLOW

    def __call__(self, batches: Any, step: int) -> NDArray[Any]:
        """Run an update for each of the stacked batches; return the loss before each."""
        count = len(tree.flatten(batches)[0][0])
        return np.array([self._shared(tree.map_leaves(lambda x, s=s: x[s], batches), step + s) for s in range(count)])

    def end(self) -> None:
        """End the processes."""
        for p in self.processes:
            p.end()

    def _shared(self, batch: Any, step: int) -> float:
        leaves, structure = tree.flatten(batch)
        size = len(leaves[0])
        edges = [size * k // len(self.processes) for k in range(len(self.processes) + 1)]
        own = self.carry
        held = sent((own.parameters, own.state))
        asked = [
            (high - low, p, p.ask("gradient", held, tree.unflatten(structure, [x[low:high] for x in leaves])))
            for p, low, high in zip(self.processes, edges, edges[1:])
            if high > low
        ]
        found = [answer(reference, p.what, REMEDY) for _, p, reference in asked]
        weights = [n / size for n, _, _ in asked]
        gradients = _means([g for _, g, _ in found], weights)
        state = own.state if found[0][2] is None else tree.unflatten(
            tree.flatten(own.state)[1], _means([s for _, _, s in found if s is not None], weights)
        )  # fmt: skip
        given = tree.unflatten(tree.flatten(own.parameters)[1], gradients)
        self._applied(self.arrays, given, state, np.array(step, np.int64), out=self.arrays)
        return float(sum(w * value for w, (value, _, _) in zip(weights, found, strict=True)))

    @cached_property
    def _applied(self) -> pb.Function:
        """Apply given gradients; return the carry after the update."""

        def applied(carry: Any, gradients: Any, state: Any, step: Any) -> Any:
            parameters, _, memory = tree.unflatten(self.structure, carry)
            change, memory = self.optimizer.update(gradients, memory, parameters, step)
            return tuple(tree.flatten(Carry(Optimizer.apply(parameters, change), state, memory))[0])

        return pb.function(donate=("carry",), **self.options)(applied)


def _means(parts: Sequence[Sequence[Any]], weights: Sequence[float]) -> list[Any]:
    """The weighted means of the parts' arrays, by leaf; integers (counts) are those of the first part."""
    return [_mean(leaves, weights) for leaves in zip(*parts, strict=True)]


def _mean(arrays: Sequence[Any], weights: Sequence[float]) -> Any:
    first = np.asarray(arrays[0])
    if first.dtype.kind != "f":
        return first
    total = first * first.dtype.type(weights[0])
    for a, w in zip(arrays[1:], weights[1:], strict=True):
        total += np.asarray(a) * first.dtype.type(w)
    return total
