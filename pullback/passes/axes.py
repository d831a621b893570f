"""Axes that statements of a block share: axes of arrays and variables, joined by reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Var
from pullback.ir.program import scalars_of, statement_reads
from pullback.ir.traverse import walk
from pullback.records import dataclass

Cut = ir.Build | ir.Scatter  # statements that can run a stretch at a time
Place = tuple[object, object]  # (array, axis), or (position of a statement, variable)


@dataclass(frozen=True)
class Axis:
    """The axes of arrays and variables of statements that run together, and each statement's reads."""

    extent: int
    of_array: Mapping[ir.Ref, int]
    variables: frozenset[tuple[int, Var]]
    reads: Sequence[Mapping[ir.Ref, None]]


def axes(block: ir.Block, least: int) -> Iterator[Axis]:
    """The axes of at least so many elements, joined where a variable reads or writes a whole axis."""
    parent: dict[Place, Place] = {}

    def root(p: Place) -> Place:
        while parent.setdefault(p, p) != p:
            parent[p] = p = parent[parent[p]]
        return p

    made = {o for s in block.statements if isinstance(s, Cut) for o in s.outs}
    for k, s in enumerate(block.statements):
        if not isinstance(s, Cut):
            continue
        for o in s.outs if isinstance(s, ir.Build) else ():
            for axis, v in enumerate(s.vars):
                parent[root((o, axis))] = root((k, v))
        for g in gets(s):
            if g.ref in made:
                for axis, i in enumerate(g.indices):
                    if isinstance(i.single, Var):
                        parent[root((g.ref, axis))] = root((k, i.single))
    reads = [statement_reads(s) for s in block.statements] if parent else []
    joined: dict[Place, list[Place]] = {}
    for p in parent:
        joined.setdefault(root(p), []).append(p)
    for places in joined.values():
        arrays: dict[ir.Ref, int] = {}
        for p in sorted((p for p in places if isinstance(p[0], ir.Ref)), key=lambda p: (p[0].serial, p[1])):  # type: ignore[attr-defined]
            arrays.setdefault(p[0], p[1])  # type: ignore[arg-type]
        extents = {r.shape[axis].constant for r, axis in arrays.items()}
        if len(extents) == 1 and (extent := extents.pop()) is not None and extent >= least:
            here = frozenset(p for p in places if isinstance(p[0], int))
            yield Axis(extent, arrays, here, reads)  # type: ignore[arg-type]


def gets(s: Cut) -> list[ir.Get]:
    """The elements that a statement reads, and the element that a scatter adds to."""
    written = [expr.get(s.out, *s.indices)] if isinstance(s, ir.Scatter) else []
    return [n for v in (*scalars_of(s), *written) for n in walk(v) if isinstance(n, ir.Get)]


def factors(e: ir.Scalar) -> tuple[ir.Scalar, ...]:
    """The factors of a term under conditions, without numbers."""
    term = e.arg if isinstance(e, ir.Bracket) else e
    return tuple(f for f in (term.args if isinstance(term, ir.Mul) else (term,)) if not isinstance(f, ir.Const))


def bytes_of(r: ir.Ref) -> int:
    """The bytes of an array."""
    return prod(d.constant or 0 for d in r.shape) * r.dtype.size
