"""Planning: collect the arrays to compute, and cut them into chunks.

A chunk is a straight-line piece or one Python operation. Chunks are in an executable order. Independent chunks may run
in parallel.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from pullback.lazy.node import Array
from pullback.lazy.operation import Application
from pullback.lazy.types import IN_USE
from pullback.state import registered

__all__ = ["BLOCKING", "HEAVY", "Chunk", "planned"]

LONGEST: Final = 128  # maximal nodes of a piece
SHORTEST: Final = 24
ROUNDS: Final = 48  # maximal nodes of a piece that covers some iterations of a loop
UNIT: Final = 20  # maximal nodes of a repeated unit
MOST_SEEN: Final = 4096
_SEEN: Final[set[tuple[int, ...]]] = registered(set(), MOST_SEEN)  # the operations of earlier long pieces
HEAVY: Final = 6e5  # operations that justify a thread: some 200 microseconds
BLOCKING: Final = float("inf")  # the work of Python operations, which may block
_serial: Final = attrgetter("serial")
_rank: Final = attrgetter("rank")
Chunk = list[Array]


def planned(wanted: Sequence[Array], threads: int) -> list[Chunk]:
    """Split the nodes to run into chunks."""
    nodes = _collected(wanted)
    work = 0.0
    for n in nodes:
        work += n.application.work
    if IN_USE and any(n.application.device for n in nodes):
        parts = _levels(nodes) if work == BLOCKING else [nodes]
        return [own for part in parts for there in _by_device(part) for chunk in _cut(there) for own in _parts(chunk)]
    if len(nodes) <= LONGEST and (work < 2 * HEAVY or (threads == 1 and work < BLOCKING)):
        return _parts(nodes) if nodes else []
    parts = _levels(nodes) if work == BLOCKING else [nodes]
    del nodes
    if threads > 1:
        parts = [region for part in parts for region in _regions(part)]
    return [own for part in parts for chunk in _cut(part) for own in _parts(chunk)]


def _by_device(nodes: Chunk) -> list[Chunk]:
    """Separate nodes by their device; those of the processor come first, as others may read them."""
    found: dict[str, Chunk] = {"": []}
    for n in nodes:
        found.setdefault(n.application.device, []).append(n)
    return [own for own in found.values() if own]


def _collected(wanted: Sequence[Array]) -> Chunk:
    """The arrays to compute for the requested ones, in the order in which they were built."""
    seen: dict[Array, None] = {}
    stack = list(wanted)
    while stack:
        node = stack.pop()
        if node.value is None and node not in seen:
            seen[node] = None
            stack += node.operands
            if node.application.type is None:  # several results: keep those still referenced
                stack += [x for ref in node.origin if (x := ref()) is not None]
    return sorted(seen, key=_serial)


def _levels(nodes: Chunk) -> list[Chunk]:
    """Group nodes by the depth of Python operations below them; each Python operation is its own chunk.

    All nodes that can run before the first Python operations are together. These operations then run in parallel.
    """
    level: dict[Array, int] = {}
    straight: dict[int, Chunk] = {}
    foreign: dict[int, list[Chunk]] = {}
    home: dict[Array, Chunk] = {}
    for node in nodes:
        application = node.application
        own = max([level.get(x, 0) for x in node.operands], default=0)
        if application.foreign:
            home[node] = [node]
            foreign.setdefault(own, []).append(home[node])
            own += 1
        elif application.item >= 0 and node.operands[0] in home:
            home[node.operands[0]].append(node)
        else:
            straight.setdefault(own, []).append(node)
        level[node] = own
    found: list[Chunk] = []
    for k in range(max(level.values()) + 1):
        found += [straight[k]] if k in straight else []
        found += foreign.get(k, [])
    return found


def _regions(nodes: Chunk) -> list[Chunk]:
    """Separate groups of nodes that are expensive and independent.

    Take a node with two or more operands, each with much work below it that nothing else reads. Each such operand
    starts a region. A region has one exit, its root, so regions cannot wait for each other in a cycle. (They are the
    maximal fan-out-free cones of circuit design.)
    """
    work = sum(n.application.work for n in nodes)
    if work < 2 * HEAVY or work == BLOCKING or any(n.application.type is None for n in nodes):
        return [nodes]  # results of one operation stay together
    users: dict[Array, int] = {}
    for n in nodes:
        for x in n.operands:
            users[x] = users.get(x, 0) + 1
    cone: dict[Array, float] = {}  # the work below a node that nothing else needs
    for n in nodes:
        cone[n] = n.application.work + sum([cone[x] for x in n.operands if x in cone and users[x] == 1])
    region: dict[Array, int] = {}
    for n in reversed(nodes):
        own = region.setdefault(n, n.serial)
        heavy = {x for x in n.operands if x in cone and users[x] == 1 and cone[x] >= HEAVY}
        for x in n.operands:
            if x in cone:
                apart = len(heavy) > 1 and x in heavy
                region[x] = x.serial if apart or region.get(x, own) != own else own
    parts: dict[int, Chunk] = {}
    for n in nodes:
        parts.setdefault(region[n], []).append(n)
    return sorted(parts.values(), key=lambda part: part[-1].serial)


def _cut(nodes: Chunk) -> list[Chunk]:
    """Cut nodes into bounded pieces at loop iterations, so that loops of any length share pieces."""
    if len(nodes) <= LONGEST:
        return [nodes]
    rounds: list[Chunk] = [[]]
    for unit in _units(nodes):
        if len(rounds[-1]) >= ROUNDS:
            rounds.append([])
        rounds[-1] += unit
    return [chunk for own in rounds for chunk in _cut_anywhere(own)]


def _cut_anywhere(nodes: Chunk) -> list[Chunk]:
    """Cut nodes into pieces of bounded length, at positions chosen by a hash of the operations.

    Only the last three operations decide, so a repeated sequence is cut at the same places, whatever precedes it.
    """
    if len(nodes) <= LONGEST:
        return [nodes]
    chunks: list[Chunk] = []
    chunk: Chunk = []
    a = b = 0
    for node in nodes:
        application = node.application
        count = len(chunk)
        if count >= LONGEST or (count >= SHORTEST and (a * 31 + b * 7 + application.rank) % 32 == 0):
            if application.item < 0:
                chunks.append(chunk)
                chunk = []
        chunk.append(node)
        a, b = b, application.rank
    return [*chunks, chunk]


def _parts(chunk: Chunk) -> list[Chunk]:
    """Keep a long chunk as one piece if it occurred before; otherwise cut it into short pieces.

    A chunk that occurs once, such as each of many trees, would be traced for one use. Short pieces recur soon.
    """
    if len(chunk) <= SHORTEST or chunk[0].application.foreign:
        return [chunk]
    own = tuple([n.application.number for n in chunk])
    if own in _SEEN:
        return [chunk]
    if len(_SEEN) >= MOST_SEEN:
        _SEEN.clear()
    _SEEN.add(own)
    return _units(chunk)


def _units(chunk: Chunk) -> list[Chunk]:
    """Cut a chunk after each node of one operation that occurs about once per repetition of a loop."""
    counts: dict[Application, int] = {}
    for node in chunk:
        counts[node.application] = counts.get(node.application, 0) + 1
    n = len(chunk)
    often = [a for a, count in counts.items() if n <= count * UNIT and count * 3 <= n and a.item < 0]
    if not often:
        return [chunk]
    last = min(often, key=_rank)
    units: list[Chunk] = [[]]
    for node in chunk:
        if units[-1] and units[-1][-1].application is last and node.application.item < 0:
            units.append([])
        units[-1].append(node)
    return units
