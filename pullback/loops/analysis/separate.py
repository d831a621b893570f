"""Loops whose iterations may run in any order, seen from what their statements are, whatever the sizes.

A kernel computes each element of what it writes once, or adds terms to it. So an iteration that only stores, and reads
nothing that the loop writes, depends on no other, and where two store the same element, as steps do that overlap at an
end, they store the same. Other loops say themselves that they are `independent`, or are proven so for sizes that are
numbers (`footprint`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

from pullback.ir.index import Data, Index
from pullback.loops.analysis.footprint import Places
from pullback.loops.program import nodes
from pullback.loops.program.nodes import (
    Assign,
    Break,
    Call,
    Copy,
    Fill,
    For,
    Let,
    Parallel,
    Procedure,
    Stmt,
    Store,
    StoreRows,
)
from pullback.loops.program.values import Buffer, Gather, Load, Temp, walk_value


class _Effects(NamedTuple):
    """What statements do to buffers; `loose` are writes at places that come from data."""

    stored: frozenset[Buffer]
    read: frozenset[Buffer]
    loose: frozenset[Buffer]


def separate(loop: For, places: Places, sums: Container[Temp] = ()) -> frozenset[Buffer] | None:
    """The buffers that iterations both write and read; None where they may depend on each other.

    What is in one buffer counts as one. Through these an iteration may depend on others, unless it fills what it reads
    of them, or the loop says that it is independent.
    """
    if carries(loop, sums):
        return None
    u = _effects(loop.body)
    stored, read, loose = (frozenset(places[b].buffer if b in places else b for b in bs) for bs in u)
    return None if loose and not loop.independent else stored & read


def carries(loop: For, sums: Container[Temp] = ()) -> bool:
    """Whether an iteration may leave the loop, or changes a temporary from outside it but for `sums`."""
    declared = {s.temp for s in nodes.walk(loop.body) if isinstance(s, Let)}
    return any(
        isinstance(s, Break) or (isinstance(s, Assign) and s.temp not in declared and s.temp not in sums)
        for s in nodes.walk(loop.body)
    )


@nodes.once_for_each
def _effects_of(k: nodes.Kernel) -> _Effects:
    return _effects(k.body)


def _effects(body: Sequence[Stmt]) -> _Effects:
    """What statements do, through the kernels that they call."""
    stored: set[Buffer] = set()
    read: set[Buffer] = set()
    loose: set[Buffer] = set()
    for s in nodes.walk(tuple(body)):
        for top in nodes.values_of(s):
            read.update(v.buffer for v in walk_value(top) if isinstance(v, Load | Gather))
        match s:
            case Call():
                inside = dict(zip(s.kernel.params, s.arguments, strict=True))
                for mine, found in zip((stored, read, loose), _effects_of(s.kernel), strict=True):
                    mine.update(inside[b].buffer if b in inside else b for b in found)
                loose.update(a.buffer for p, a in inside.items() if p.written and _from_data(a.offset))
            case Parallel():
                raise AssertionError("what is shared out already")
            case _:
                for buffer, at in _writes(s):
                    stored.add(buffer)
                    if _from_data(at):
                        loose.add(buffer)
                read.update(_also_read(s))
    return _Effects(frozenset(stored), frozenset(read), frozenset(loose))


def _from_data(i: Index) -> bool:
    return any(isinstance(a, Data) for a in i.every_atom)


def _writes(s: Stmt) -> Iterator[tuple[Buffer, Index]]:
    """The buffers that a statement itself writes, and where."""
    match s:
        case Store() | StoreRows() | Fill():
            yield s.buffer, s.offset
        case Copy():
            yield s.target.buffer, s.target.offset
        case Procedure():
            yield from ((run.buffer, run.offset) for run in s.writes)
        case _:
            pass


def _also_read(s: Stmt) -> Iterator[Buffer]:
    """The buffers that it reads otherwise than in values; `+=` reads."""
    match s:
        case Store(accumulate=True):
            yield s.buffer
        case Copy():
            yield s.source.buffer
        case Procedure():
            yield from (run.buffer for run in s.reads)
        case _:
            pass
