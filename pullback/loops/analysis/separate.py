"""Loops with independent iterations, proven from their statements for all sizes.

A kernel computes each element of what it writes once, or adds terms to it. So an iteration that only stores, and reads
nothing that the loop writes, depends on no other. Overlapping steps may store the same element, but then they store the
same value. Other loops are declared `independent`, or are proven so for given sizes (`footprint`).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from pullback.ir.index import Data, Index
from pullback.loops.analysis.footprint import Places, carries
from pullback.loops.program import nodes
from pullback.loops.program.nodes import Call, For, Parallel, Procedure, Stmt
from pullback.loops.program.values import Buffer, Temp
from pullback.state import weakly_cached


class _Effects(NamedTuple):
    """The effects of statements on buffers; `loose` are writes at data-dependent places."""

    stored: frozenset[Buffer]
    read: frozenset[Buffer]
    loose: frozenset[Buffer]


def separate(loop: For, places: Places, sums: Container[Temp] = ()) -> frozenset[Buffer] | None:
    """The buffers that iterations both write and read; None where they may depend on each other.

    A buffer counts as a whole. An iteration may depend on others through these buffers, unless it fills all that it
    reads of them, or the loop is declared independent.
    """
    if carries(loop, sums):
        return None
    u = _effects(loop.body)
    stored, read, loose = (frozenset(places[b].buffer if b in places else b for b in bs) for bs in u)
    return None if loose and not loop.independent else stored & read


@weakly_cached
def _effects_of(k: nodes.Kernel) -> _Effects:
    return _effects(k.body)


def _effects(body: Sequence[Stmt]) -> _Effects:
    """The effects of statements, including the kernels that they call."""
    stored: set[Buffer] = set()
    read: set[Buffer] = set()
    loose: set[Buffer] = set()
    for s in nodes.walk(tuple(body)):
        match s:
            case Call():
                inside = dict(zip(s.kernel.params, s.arguments, strict=True))
                for mine, found in zip((stored, read, loose), _effects_of(s.kernel), strict=True):
                    mine.update(inside[b].buffer if b in inside else b for b in found)
                loose.update(a.buffer for p, a in inside.items() if p.written and _from_data(a.offset))
            case Parallel():
                raise AssertionError("what is shared out already")
            case _:
                for a in nodes.accesses(s):
                    if a.adds or not a.write or isinstance(s, Procedure):  # a procedure reads its own writes: its keys
                        read.add(a.buffer)
                    if a.write:
                        stored.add(a.buffer)
                    if a.write and _from_data(a.offset):
                        loose.add(a.buffer)
    return _Effects(frozenset(stored), frozenset(read), frozenset(loose))


def _from_data(i: Index) -> bool:
    return any(isinstance(a, Data) for a in i.every_atom)
