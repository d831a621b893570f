"""Tapes: what a piece that has run keeps for its backward pass, and the walk over them.

A tape knows the leaves of its piece, and the residuals that its forward kernel gave. Deltas of its results are added up
until all who read them have run backward; then its backward kernel runs, once, and gives deltas of its leaves. Tapes
are numbered in the order in which they ran, so a heap of those that are ready is all that the walk needs: whoever read
something ran after it.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pullback.errors import DerivativeError
from pullback.lazy.stats import COUNTS
from pullback.source import user_position

if TYPE_CHECKING:
    from pullback.lazy.array import Array
    from pullback.lazy.piece import Piece

__all__ = ["Deltas", "Kept", "Tape", "walk_back"]

_next: Final = itertools.count().__next__


class Kept:
    """What an operation that ran keeps for its backward pass.

    Attributes:
        number: which it is in the order of running.   leaves: what it read, until it is released.
        count: how many results it has.   released: whether it has let go.
    """

    __slots__ = ("__weakref__", "_bytes", "count", "leaves", "number", "released")

    def __init__(self, leaves: Sequence[Array], count: int, saved: int) -> None:
        self.number = _next()
        self.leaves = tuple(leaves)
        self.count = count
        self.released = False
        self._bytes = saved + sum([x.value.nbytes for x in leaves])
        COUNTS.live_bytes += self._bytes
        COUNTS.tapes += 1

    def pull(self, deltas: list[Any]) -> list[tuple[Array, Any]]:
        """Deltas of its leaves for deltas of its results, None where there is none."""
        raise NotImplementedError

    def release(self) -> None:
        """Let go of all that it keeps."""
        if not self.released:
            self.released = True
            self.leaves = ()
            COUNTS.live_bytes -= self._bytes
            COUNTS.tapes -= 1

    def __del__(self) -> None:
        if hasattr(self, "released"):
            self.release()


class Tape(Kept):
    """What a straight piece keeps.

    Attributes:
        residuals: what its forward kernel kept; None where the backward pass computes it again.
    """

    __slots__ = ("piece", "residuals", "wrt")

    def __init__(self, piece: Piece, wrt: tuple[int, ...], leaves: Sequence[Array], residuals: Any) -> None:
        self.piece = piece
        self.wrt = wrt
        self.residuals = residuals
        super().__init__(leaves, len(piece.types), sum([r.nbytes for r in residuals or ()]))

    def pull(self, deltas: list[Any]) -> list[tuple[Array, Any]]:
        """Deltas of its leaves for deltas of its results."""
        given = tuple([k for k, d in enumerate(deltas) if d is not None])
        seeds = [np.asarray(d) for d in deltas if d is not None]
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

    def release(self) -> None:
        """Let go of all that it keeps."""
        self.residuals = None
        super().release()


class Deltas:
    """Deltas on their way: those of tapes' results, and those that have arrived at leaves."""

    def __init__(self) -> None:
        self.arrived: dict[Array, Any] = {}
        self._waiting: dict[Kept, list[Any]] = {}
        self._heap: list[tuple[int, Kept]] = []
        self.stops: frozenset[Array] = frozenset()

    def add(self, node: Array, delta: Any) -> None:
        """Add a delta of a leaf."""
        origin = node.origin
        if type(origin) is tuple and node not in self.stops:
            tape, k = origin
            waiting = self._waiting.get(tape)
            if waiting is None:
                waiting = self._waiting[tape] = [None] * tape.count
                heapq.heappush(self._heap, (-tape.number, tape))
            waiting[k] = delta if waiting[k] is None else waiting[k] + delta
        else:
            known = self.arrived.get(node)
            self.arrived[node] = delta if known is None else known + delta

    def pop(self) -> tuple[Kept, list[Any]] | None:
        """The next tape whose results have all their deltas."""
        if not self._heap:
            return None
        _, tape = heapq.heappop(self._heap)
        if tape.released:
            raise DerivativeError(
                "E702",
                "the backward pass comes to a part of the network that has been run backward and released",
                position=user_position(),
                remedy="`retain=True` in the first backward pass keeps it for another",
            )
        return tape, self._waiting.pop(tape)


def walk_back(deltas: Deltas, retain: bool) -> dict[Array, Any]:
    """Run all tapes backward that deltas come to; the deltas of leaves."""
    while (found := deltas.pop()) is not None:
        tape, own = found
        for leaf, delta in tape.pull(own):
            deltas.add(leaf, delta)
        if not retain:
            tape.release()
    return deltas.arrived
