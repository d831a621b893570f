"""Forcing: what is wanted and not yet computed, collected, cut into straight pieces, and run."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from operator import attrgetter
from sys import getrefcount
from typing import Any, Final

from pullback.lazy.array import Array
from pullback.lazy.foreign import ForeignApplication, ForeignTape
from pullback.lazy.piece import Piece, piece_of
from pullback.lazy.tape import Kept, Tape

__all__ = ["LOCK", "Straight", "force", "planned"]

LOCK: Final = threading.RLock()
LONGEST: Final = 128  # nodes of a piece
SHORTEST: Final = 24
HELD: Final = 3  # references to a node that are not its users': a chunk, `places`, an argument
_serial: Final = attrgetter("serial")
Chunk = list[Array]


def collect(wanted: Sequence[Array]) -> Chunk:
    """The arrays to compute for these, in the order in which they were built."""
    seen: dict[Array, None] = {}
    stack = list(wanted)
    while stack:
        node = stack.pop()
        if node.value is None and node not in seen:
            seen[node] = None
            stack += node.operands
            if node.application.type is None:  # several results: all that somebody still has
                stack += [x for ref in node.origin if (x := ref()) is not None]
    return sorted(seen, key=_serial)


def planned(wanted: Sequence[Array]) -> list[Chunk]:
    """What is to run, as chunks that are straight pieces, or one operation in Python each."""
    nodes = collect(wanted)
    if len(nodes) <= LONGEST and not any(n.application.foreign for n in nodes):
        return [nodes] if nodes else []
    return _cut(nodes)


def _cut(nodes: Chunk) -> list[Chunk]:
    """Nodes in pieces that are not too long, cut where the operations are such and such.

    What decides is in the last three operations alone, so that a loop is cut at the same places in each of its rounds,
    however many come before.
    """
    chunks: list[Chunk] = []
    chunk: Chunk = []
    a = b = 0
    for node in nodes:
        application = node.application
        assert application is not None
        if application.foreign:
            chunks += [chunk, [node]] if chunk else [[node]]
            chunk = []
            continue
        if application.item >= 0 and not chunk:
            chunks[-1].append(node)  # of an operation in Python
            continue
        count = len(chunk)
        if count >= LONGEST or (count >= SHORTEST and (a * 31 + b * 7 + application.number) % 32 == 0):
            if application.item < 0:
                chunks.append(chunk)
                chunk = []
        chunk.append(node)
        a, b = b, application.number
    return [*chunks, chunk] if chunk else chunks


class Straight:
    """A chunk that is a straight piece, found by its structure.

    Attributes:
        piece: the piece.   leaves: what it reads.   outputs: the nodes that it gives.
        wrt: the leaves that derivatives are wanted by.
    """

    __slots__ = ("leaves", "outputs", "piece", "wrt")
    piece: Piece

    def __init__(self, chunk: Chunk, wanted: Sequence[Array]) -> None:
        places: dict[Array, int] = {}
        leaves: list[Array] = []
        key: list[int] = []
        uses = [0] * len(chunk)
        x = node = None
        for k, node in enumerate(chunk):
            places[node] = k
            key.append(node.application.number)
            for x in node.operands:
                p = places.get(x)
                if p is None:
                    leaves.append(x)
                    p = places[x] = -len(leaves)
                elif p >= 0:
                    uses[p] += 1
                key.append(p)
        del x, node
        found = [
            k
            for k in range(len(chunk))
            if getrefcount(chunk[k]) - uses[k] > HELD and chunk[k].application.type is not None
        ]
        for node in wanted:
            k = places.get(node, -1)
            if k >= 0 and k not in found:
                found.append(k)
        key.append(-1 - len(leaves))
        key += found
        self.piece = piece_of(key, chunk, places, leaves, found)
        self.leaves = leaves
        self.outputs = [chunk[k] for k in found]
        self.wrt = tuple([k for k, x in enumerate(leaves) if x.tracked])

    @property
    def tracked(self) -> bool:
        """Whether derivatives pass through it."""
        return bool(self.wrt) and any(x.tracked for x in self.outputs)

    def run(self) -> None:
        """Compute what it gives."""
        values = [x.value for x in self.leaves]
        if self.tracked:
            results = self.piece.forward(self.wrt)(values)
            count = len(self.outputs)
            self.settle(results[:count], Tape(self.piece, self.wrt, self.leaves, results[count:]))
        else:
            self.settle(self.piece.value()(values), None)

    def settle(self, results: Sequence[Any], tape: Tape | None) -> None:
        """The outputs have these values, and come from this tape."""
        for k, (node, value) in enumerate(zip(self.outputs, results)):
            settle(node, value, (tape, k) if tape is not None and node.tracked else None)


def settle(node: Array, value: Any, origin: tuple[Kept, int] | None) -> None:
    """The node has this value, and is a leaf from now on."""
    value.flags.writeable = False
    node.value = value
    node.origin = origin
    node.application = None
    node.operands = ()


def force(wanted: Sequence[Array]) -> None:
    """Compute arrays."""
    with LOCK:
        chunks = planned(wanted)
        chunks.reverse()
        while chunks:
            run_chunk(chunks.pop(), wanted)


def run_chunk(chunk: Chunk, wanted: Sequence[Array]) -> None:
    """Run a chunk: a straight piece, or an operation in Python."""
    if isinstance(chunk[0].application, ForeignApplication):
        run_foreign(chunk[0], chunk[1:])
    else:
        Straight(chunk, wanted).run()


def run_foreign(node: Array, items: Chunk) -> None:
    """Run an operation in Python; `items` are its results where there are several."""
    application, leaves = node.application, node.operands
    assert isinstance(application, ForeignApplication)
    results, saved = application.call([x.value for x in leaves])
    tape = ForeignTape(application, leaves, saved) if node.tracked else None
    if tape is None:
        application.operation.release(saved)
    for x in items or [node]:
        k = max(x.application.item, 0)
        settle(x, results[k], (tape, k) if tape is not None and x.tracked else None)


Array.forced = staticmethod(force)
