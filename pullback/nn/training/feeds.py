"""The parts of a batch for workers, by where a worker finds them.

A ticket stands for a batch: its epoch and its number, which is all that the driver sends. The driver loads the batches
of an iterable itself, as nobody else has it. Then the ticket is a worker's part of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from pullback.data import Batches, Splits, batches_of
from pullback.data.loader import Samples, Stream
from pullback.data.order import random_bits
from pullback.data.shards import Shards
from pullback.errors import UsageError
from pullback.tracing import tree

__all__ = ["Ahead", "Feed", "Given", "OfShards", "Rows", "ShardBatches", "edges", "given"]

Ticket = Any


class Feed(Protocol):
    """Loads parts of batches."""

    def part(self, ticket: Ticket, part: int, parts: int) -> Any:
        """The samples of a part; None if there are none."""

    def sizes(self, ticket: Ticket, parts: int) -> Sequence[int] | None:
        """The numbers of samples of all parts; None if each worker knows only its own."""

    def following(self, ticket: Ticket) -> Ticket | None:
        """The ticket to load ahead, if it is known."""

    def is_quick(self, ticket: Ticket) -> bool:
        """Whether a part loads in less time than it takes to hand it to a thread."""


def edges(size: int, parts: int) -> list[int]:
    """The ends of the parts of a batch.

    >>> from pullback.nn.training.feeds import edges
    >>> edges(8, 3)
    [0, 2, 5, 8]
    """
    return [size * k // parts for k in range(parts + 1)]


@dataclass(frozen=True)
class Rows:
    """Parts of data that every worker has: rows of each batch, in the order of one process."""

    source: Samples

    def part(self, ticket: Ticket, part: int, parts: int) -> Any:
        """The rows of a part."""
        epoch, number = ticket
        start, ends = number * self.source.items, edges(self._size(number), parts)
        low, high = start + ends[part], start + ends[part + 1]
        return self.source.rows(epoch, low, high) if high > low else None

    def sizes(self, ticket: Ticket, parts: int) -> Sequence[int]:
        """The numbers of rows."""
        return [int(n) for n in np.diff(edges(self._size(ticket[1]), parts))]

    def following(self, ticket: Ticket) -> Ticket:
        """The next batch of the epoch, or the first of the next epoch."""
        epoch, number = ticket
        return (epoch, number + 1) if number + 1 < (self.source.steps or 0) else (epoch + 1, 0)

    def is_quick(self, ticket: Ticket) -> bool:
        """Whether the rows are views of arrays in memory, or small copies."""
        epoch, number = ticket
        return self.source.is_quick(epoch, number, 1)

    def _size(self, number: int) -> int:
        return min(self.source.items, self.source.count - number * self.source.items)


class Given:
    """Parts that the driver sends: a ticket is their sizes, and this worker's parts."""

    def part(self, ticket: Ticket, part: int, parts: int) -> Any:
        """The part."""
        return ticket[1].get(part)

    def sizes(self, ticket: Ticket, parts: int) -> Sequence[int]:
        """The sizes."""
        found: Sequence[int] = ticket[0]
        return found

    def following(self, ticket: Ticket) -> None:
        """None: the driver sends it."""

    def is_quick(self, ticket: Ticket) -> bool:
        """True: it is here."""
        return True


def given(batch: Any, mine: Sequence[int], parts: int) -> Ticket:
    """The ticket of a batch for a worker with these parts."""
    leaves, structure = tree.flatten(batch)
    ends = edges(len(leaves[0]), parts)
    rows = {p: tree.unflatten(structure, [x[ends[p] : ends[p + 1]] for x in leaves]) for p in mine}
    return [int(n) for n in np.diff(ends)], {p: x for p, x in rows.items() if ends[p + 1] > ends[p]}


class ShardBatches:
    """The batches of one shard (`Batches`), as many as it has.

    Args:
        shards: the data.   part, parts: the number of the shard, and of all.
        batch_size, order: as in `fit`, for all shards together.
    """

    steps: int | None = None
    whole: int | None = None
    items = 0

    def __init__(self, shards: Shards, part: int, parts: int, batch_size: int | None, **order: Any) -> None:
        self.name = f"shard {part} of {parts} of the data"
        data = shards.load(part, parts)
        if isinstance(data, Splits):
            raise UsageError("E518", f"{self.name} is two data sets", remedy="`validation_data=` for the second one")
        if batch_size is not None or not isinstance(batches_of(data, None), Stream):
            size = batch_size or 32
            batch_size = max(1, size * (part + 1) // parts - size * part // parts)
        own = {**order, "seed": int(random_bits(order["seed"], part) >> np.uint64(1))} if parts > 1 else order
        self._inner = batches_of(data, batch_size, **own)
        self._inner.name = self.name
        self.check: Callable[[Any, str], None] | None = None

    def stacked(self, epoch: int, first: int, count: int) -> Any:
        """Return a batch as a stack of one; None at the end of the epoch."""
        if self._inner.steps is not None and first >= self._inner.steps:
            return None
        found = self._inner.stacked(epoch, first, 1)
        if self.check is not None and found is not None:
            self.check(tree.map_leaves(lambda x: x[0], found), f" in batch {first + 1} of epoch {epoch + 1}")
        return found

    def is_quick(self, epoch: int, first: int, count: int) -> bool:
        """Whether a batch is a view of arrays in memory, or a small copy."""
        return self._inner.is_quick(epoch, first, 1)

    def fingerprint(self, batch: Any) -> tuple[str, str]:
        """Return a description of the arrays, without values and sizes: other shards are not here."""
        return Stream((batch,)).fingerprint(batch)


@dataclass
class OfShards:
    """Parts that are batches of shards, which workers load.

    Attributes:
        shards, batch_size, order: as in `ShardBatches`.
        check_source: prepares the checks of a shard's batches.
    """

    shards: Shards
    batch_size: int | None
    order: dict[str, Any]
    check_source: Callable[[Batches], None]
    _made: dict[tuple[int, int], ShardBatches] = field(default_factory=dict)

    def part(self, ticket: Ticket, part: int, parts: int) -> Any:
        """The next batch of the shard; None at its end."""
        if (part, parts) not in self._made:
            self._made[part, parts] = made = ShardBatches(self.shards, part, parts, self.batch_size, **self.order)
            self.check_source(made)
        epoch, number = ticket
        found = self._made[part, parts].stacked(epoch, number, 1)
        return None if found is None else tree.map_leaves(lambda x: x[0], found)

    def sizes(self, ticket: Ticket, parts: int) -> None:
        """None: a worker knows only its own shards."""

    def following(self, ticket: Ticket) -> Ticket:
        """The next batch of the epoch, if it has one."""
        return ticket[0], ticket[1] + 1

    def is_quick(self, ticket: Ticket) -> bool:
        """Whether all shards here are quick."""
        epoch, number = ticket
        return bool(self._made) and all(made.is_quick(epoch, number, 1) for made in self._made.values())


class Ahead:
    """The parts of one worker: the next ones are loaded while the current ones are in use.

    Args:
        feed: the source.   mine: the worker's parts.   parts: the number of all parts.
    """

    def __init__(self, feed: Feed, mine: Sequence[int], parts: int) -> None:
        self.feed, self.mine, self.parts = feed, mine, parts
        self._pool = ThreadPoolExecutor(1, "pullback-load")  # starts its thread with the first load
        self._next: tuple[Ticket, Future[dict[int, Any]]] | None = None

    def take(self, ticket: Ticket) -> dict[int, Any]:
        """The parts of a batch that have samples."""
        waiting, self._next = self._next, None
        found = waiting[1].result() if waiting is not None and waiting[0] == ticket else None
        if found is None:
            found = self._pool.submit(self._load, ticket).result() if waiting is not None else self._load(ticket)
        following = self.feed.following(ticket)
        if following is not None and not self.feed.is_quick(following):
            self._next = following, self._pool.submit(self._load, following)
        return found

    def _load(self, ticket: Ticket) -> dict[int, Any]:
        found = {p: self.feed.part(ticket, p, self.parts) for p in self.mine}
        return {p: x for p, x in found.items() if x is not None}

    def end(self) -> None:
        """Stop loading."""
        self._pool.shutdown(wait=True, cancel_futures=True)
