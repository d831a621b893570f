"""A worker of training: a replica of parameters and states, with its parts of every batch.

In each step a worker computes the gradients of its parts, and the workers add them up (`reduction`). All make the same
update of their replicas. The driver sends numbers of batches and gets losses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from pullback.calls import policy
from pullback.cluster import host
from pullback.nn.optimizers import Optimizer
from pullback.nn.training.feeds import Ahead, Feed
from pullback.nn.training.links import Address, LinkLostError, Links
from pullback.nn.training.reduction import Layout, parts_of, reduce
from pullback.nn.training.step import Carry, pair
from pullback.tracing import tree

__all__ = ["Done", "Replica"]


class Done(NamedTuple):
    """The result of steps.

    Attributes:
        losses: those of the completed updates.
        intact: whether no peer was lost.
        left: if a shard of the data has ended, the number of samples that each one has left for the next batch.
    """

    losses: list[float]
    intact: bool = True
    left: Sequence[int] = ()


class Replica:
    """Parameters and states with their updates, in one process.

    Args:
        loss: a traced function (parameters, state, batch) -> the loss, or the loss and the next state.
        stateful: whether the loss gives the next state.
        optimizer: as for `Updates`.
        structure: that of the carry.
        feed: loads parts of batches.
        options: the options of `pb.function`. With a device that ends with "!", the arrays stay there.
    """

    def __init__(
        self, loss: Callable[..., Any], stateful: bool, optimizer: Any, structure: Any, feed: Feed,
        options: dict[str, Any],
    ) -> None:  # fmt: skip
        self.loss, self.stateful, self.optimizer, self.options = loss, stateful, optimizer, options
        self.structure, self.feed = structure, feed
        self._device = policy.device(options.get("device"))
        self.parts = 1
        self._here: tuple[NDArray[Any], ...] = ()
        self.arrays: tuple[Any, ...] = self._here
        self.links = Links(host())
        self._loaded: Ahead | None = None
        self._vectors: dict[int, NDArray[np.uint8]] = {}

    # Between steps --------------------------------------------------------------------------------------------

    def listen(self) -> Address:
        """Give up earlier connections; return the address for new ones."""
        self.links.close()
        self.links = Links(host())
        return self.links.address

    def join(self, rank: int, addresses: Sequence[Address], token: bytes, parts: int) -> bool:
        """Connect to the other workers; return whether all are there."""
        if self._loaded is not None:
            self._loaded.end()
        self.parts, mine = parts, parts_of(rank, len(addresses), parts)
        self._loaded = Ahead(self.feed, mine, parts)
        self._vectors.clear()
        try:
            self.links.join(rank, addresses, token)
        except LinkLostError:
            return False
        return True

    def take(self, arrays: Sequence[Any]) -> bool:
        """Take the arrays of the carry."""
        self._here = tuple(np.array(x, order="C") for x in arrays)
        there = self._device.removesuffix("!") if self._device.endswith("!") else "cpu"
        self.arrays = tuple(pb.device_put(x, there) for x in self._here) if there != "cpu" else self._here
        return True

    @property
    def carry(self) -> Carry:
        """The arrays where they are: in memory, where updates are in place, or on the device."""
        found: Carry = tree.unflatten(self.structure, self.arrays)
        return found

    def held(self) -> tuple[NDArray[Any], ...]:
        """The arrays of the carry, in memory."""
        if self.arrays is not self._here:
            for own, there in zip(self._here, self.arrays, strict=True):
                own[...] = there
        return self._here

    def digest(self) -> str:
        """A digest of the carry, the same for all workers."""
        state = hashlib.blake2b(digest_size=16)
        for x in self.held():
            state.update(x.reshape(-1).view(np.uint8).data)
        return state.hexdigest()

    # Steps ----------------------------------------------------------------------------------------------------

    def steps(self, tickets: Sequence[Any], step: int) -> Done:
        """Make an update for each ticket.

        Args:
            tickets: the batches.
            step: the number of earlier updates.
        """
        losses: list[float] = []
        try:
            for ticket in tickets:
                sizes, own = self._sized(ticket)
                if 0 in sizes and self.feed.sizes(ticket, self.parts) is None:
                    return Done(losses, left=sizes)
                losses.append(self._step(sizes, own, step + len(losses)))
        except LinkLostError:
            return Done(losses, intact=False)
        except BaseException:
            self.links.close()  # the others wait for this worker
            raise
        return Done(losses)

    def _sized(self, ticket: Any) -> tuple[Sequence[int], dict[int, Any]]:
        """The number of samples of every part, and the parts of this worker."""
        assert self._loaded is not None
        own = self._loaded.take(ticket)
        if (known := self.feed.sizes(ticket, self.parts)) is not None:
            return known, own
        layout = Layout([np.zeros(self.parts, np.float64)])
        vectors = {p: layout.empty() for p in self._loaded.mine}
        for p, batch in own.items():
            layout.arrays(vectors[p])[0][p] = len(tree.flatten(batch)[0][0])
        total = layout.empty()
        reduce(self.links, layout, vectors, total, self.parts)
        return [int(n) for n in layout.arrays(total)[0]], own

    def _step(self, sizes: Sequence[int], own: dict[int, Any], step: int) -> float:
        """Compute, add up, update; return the loss."""
        assert self._loaded is not None
        first = next(p for p, n in enumerate(sizes) if n)
        carry = self.carry
        for p in self._loaded.mine:
            vector = self._vectors.setdefault(p, self._layout.empty())
            if p in own:
                found = self._gradient(carry.parameters, carry.state, own[p])
                self._layout.put(vector, tree.flatten(found)[0], sizes[p] / sum(sizes), p == first)
            else:
                vector[...] = 0
        reduce(self.links, self._layout, self._vectors, self._total, self.parts)
        value, gradients, state = self._sum
        given = self.arrays, gradients, state if self.stateful else carry.state, np.array(step, np.int64)
        if self.arrays is self._here:
            self._applied(*given, out=self.arrays)
        else:
            self.arrays = self._applied(*given)
        return float(value)

    @cached_property
    def _layout(self) -> Layout:
        return Layout(tree.flatten(self._parts_of(np.zeros(()), *self._like[:2]))[0])

    @property
    def _like(self) -> Carry:
        found: Carry = tree.unflatten(self.structure, self._here)
        return found

    @cached_property
    def _total(self) -> NDArray[np.uint8]:
        return self._layout.empty()

    @cached_property
    def _sum(self) -> Any:
        """The loss, gradients and state in the sum over all parts."""
        structure = tree.flatten(self._parts_of(np.zeros(()), *self._like[:2]))[1]
        return tree.unflatten(structure, self._layout.arrays(self._total))

    def _parts_of(self, value: Any, gradients: Any, state: Any) -> Any:
        """The contribution of a part: what is added over all parts."""
        return value, gradients, state if self.stateful else ()

    @cached_property
    def _gradient(self) -> Callable[..., Any]:
        """The loss of a part, its gradients, and the next state."""

        def of_part(parameters: Any, state: Any, batch: Any) -> Any:
            return pair(self.loss(parameters, state, batch))

        derived = pb.value_and_grad(of_part, wrt="parameters", has_aux=True)

        def both(parameters: Any, state: Any, batch: Any) -> Any:
            (value, after), gradients = derived(parameters, state, batch)
            return self._parts_of(value, gradients, after)

        return pb.function(**self.options)(both)

    @cached_property
    def _applied(self) -> pb.Function:
        """Apply given gradients; return the carry after the update."""

        def applied(carry: Any, gradients: Any, state: Any, step: Any) -> Any:
            parameters, _, memory = tree.unflatten(self.structure, carry)
            change, memory = self.optimizer.update(gradients, memory, parameters, step)
            return tuple(tree.flatten(Carry(Optimizer.apply(parameters, change), state, memory))[0])

        return pb.function(donate=("carry",), **self.options)(applied)
