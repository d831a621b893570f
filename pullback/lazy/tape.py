"""Tapes: the data kept by executed pieces for their backward passes, and the walk over the tapes.

A tape knows the leaves of its piece, and the residuals of its forward kernel. Cotangents of its results are added up
until all readers have run backward. Then its backward kernel runs, once, and gives cotangents of its leaves. The walk
counts the readers of each tape, and keeps a list of tapes that are ready: there is no recursion.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pullback.errors import DerivativeError
from pullback.lazy.counts import COUNTS
from pullback.lazy.node import added
from pullback.source import user_position

if TYPE_CHECKING:
    from pullback.lazy.node import Array
    from pullback.lazy.piece import Piece

__all__ = ["Cotangents", "Kept", "Tape", "released", "walk_back"]

_next: Final = itertools.count().__next__
_number: Final = attrgetter("number")
Pulled = list[tuple["Array", Any]]
Together = Callable[[Sequence[tuple[float, Callable[[], Pulled]]]], Sequence[Pulled]]


class Kept:
    """The data that an executed operation keeps for its backward pass.

    Attributes:
        number: the number in execution order.   leaves: the inputs, until the data is released.
        count: the number of results.   released: whether the data was released.
    """

    __slots__ = ("__weakref__", "_bytes", "count", "leaves", "number", "released")

    def __init__(self, leaves: Sequence[Array], count: int, saved: int) -> None:
        self.number = _next()
        self.leaves = tuple(leaves)
        self.count = count
        self.released = False
        self._bytes = saved + sum([x.type.bytes for x in leaves])
        COUNTS.live_bytes += self._bytes
        COUNTS.tapes += 1

    @property
    def work(self) -> float:
        """The approximate number of operations of the backward pass; infinite if it may block."""
        return float("inf")

    def pull(self, cotangents: list[Any]) -> Pulled:
        """Return the cotangents of the leaves, given those of the results; None for zero."""
        raise NotImplementedError

    def read_for(self, k: int) -> Sequence[Array]:
        """The leaves that result k may have derivatives by."""
        return self.leaves

    def release(self) -> None:
        """Release the kept data."""
        if not self.released:
            self.released = True
            self.leaves = ()
            COUNTS.live_bytes -= self._bytes
            COUNTS.tapes -= 1

    def __del__(self) -> None:
        if hasattr(self, "released"):
            self.release()


class Tape(Kept):
    """The data that a piece keeps for its backward pass.

    Attributes:
        residuals: the values saved by the forward kernel; None if the backward pass recomputes them.
    """

    __slots__ = ("piece", "residuals", "wrt")

    def __init__(self, piece: Piece, wrt: tuple[int, ...], leaves: Sequence[Array], residuals: Any) -> None:
        self.piece = piece
        self.wrt = wrt
        self.residuals = residuals
        super().__init__(leaves, len(piece.types), sum([r.nbytes for r in residuals or ()]))

    @property
    def work(self) -> float:
        """The approximate number of operations of the backward pass."""
        return 2.0 * self.piece.work

    def pull(self, cotangents: list[Any]) -> Pulled:
        """Return the cotangents of the leaves, given those of the results."""
        given = tuple([k for k, d in enumerate(cotangents) if d is not None])
        seeds = [d if self.piece.device else np.asarray(d) for d in cotangents if d is not None]
        values = [x.value for x in self.leaves]
        if self.residuals is None:
            made = self.piece.again(self.wrt, given)
            arguments = [*values, *seeds]
        else:
            made = self.piece.backward(self.wrt, given)
            arguments = [*self.residuals, *seeds, *values]
        if made.kernel is None:
            return []
        leaves = self.leaves
        return [(leaves[k], d) for k, d in zip(made.places, made.kernel(arguments))]

    def read_for(self, k: int) -> Sequence[Array]:
        """The leaves that result k may have derivatives by."""
        return [self.leaves[n] for n in self.piece.smooth_leaves(k)] if self.leaves else ()

    def release(self) -> None:
        """Release the kept data."""
        self.residuals = None
        super().release()


def released() -> DerivativeError:
    """The error for a backward pass whose data was released."""
    return DerivativeError(
        "E702", "the backward pass comes to a part of the network that has been run backward and released",
        position=user_position(), remedy="`retain=True` in the first backward pass keeps it for another",
    )  # fmt: skip


class Cotangents:
    """The pending cotangents of tapes' results, and the final cotangents of leaves.

    Args:
        stops: arrays at which the backward pass stops.
    """

    def __init__(self, stops: Sequence[Array] = ()) -> None:
        self.arrived: dict[Array, Any] = {}
        self._waiting: dict[Kept, list[Any]] = {}
        self._stops = frozenset(stops)
        self._users: dict[Kept, int] = {}  # the number of pending tapes that read a tape's results
        self._below: dict[Kept, set[Kept]] = {}  # the tapes whose results a tape reads
        self._ready: list[Kept] = []

    def add(self, node: Array, cotangent: Any) -> None:
        """Add a cotangent of a leaf: to the leaf's tape if there is one, else to the final cotangents."""
        origin = node.origin
        if origin.__class__ is not tuple or node in self._stops:
            known = self.arrived.get(node)
            self.arrived[node] = cotangent if known is None else added(node, known, cotangent)
        else:
            tape, k = origin
            waiting = self._waiting.get(tape)
            if waiting is None:
                waiting = self._waiting[tape] = [None] * tape.count
            waiting[k] = cotangent if waiting[k] is None else added(node, waiting[k], cotangent)

    def start(self) -> None:
        """Find the tapes that cotangents can reach, and count the readers of each tape."""
        stack = list(self._waiting)
        seen = set(stack)
        users = self._users
        while stack:
            tape = stack.pop()
            users.setdefault(tape, 0)
            found = self._below[tape] = self._read_by(tape)
            for below in found:
                users[below] = users.get(below, 0) + 1
                if below not in seen:
                    seen.add(below)
                    stack.append(below)
        self._ready = [t for t, count in users.items() if not count]

    def _read_by(self, tape: Kept) -> set[Kept]:
        if tape.released:
            raise released()
        stops = self._stops
        return {x.origin[0] for x in tape.leaves if x.origin.__class__ is tuple and x.tracked and x not in stops}

    def ready(self) -> list[Kept]:
        """Remove and return the tapes whose results have all their cotangents, latest first."""
        found, self._ready = self._ready, []
        found.sort(key=_number, reverse=True)
        return found

    def take(self, tape: Kept) -> list[Any] | None:
        """The cotangents of a tape's results, or None."""
        return self._waiting.pop(tape, None)

    def done(self, tape: Kept) -> None:
        """Record that a tape has run."""
        for below in self._below.pop(tape):
            self._users[below] -= 1
            if not self._users[below]:
                self._ready.append(below)


def walk_back(cotangents: Cotangents, retain: bool, together: Together) -> dict[Array, Any]:
    """Run all reachable tapes backward; return the leaves' cotangents.

    Tapes that are ready run in parallel; their cotangents are added in order of their numbers, so that sums are
    reproducible.
    """
    cotangents.start()
    while tapes := cotangents.ready():
        own = [(tape, found) for tape in tapes if (found := cotangents.take(tape)) is not None]
        calls = [(tape.work, partial(tape.pull, found)) for tape, found in own]
        results = together(calls)
        for result in results:
            for leaf, cotangent in result:
                cotangents.add(leaf, cotangent)
        for tape in tapes:
            cotangents.done(tape)
            if not retain:
                tape.release()
    return cotangents.arrived
