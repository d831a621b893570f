"""Statements with a single reduction, as device strategies analyze them."""

from __future__ import annotations

from dataclasses import dataclass

from pullback.grid.steps import count_of
from pullback.ir import nodes as ir
from pullback.ir.expr import POSITIONS
from pullback.ir.program import statement_reads
from pullback.ir.traverse import walk
from pullback.loops.analysis.joined import elements
from pullback.loops.plain.builder import KernelBuilder, Work, flat_position
from pullback.loops.plain.lower import without_units
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.program import nodes
from pullback.loops.program.cover import typical_count
from pullback.loops.program.nodes import Check, For, Let, Store
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import OPERATORS, Read, Temp


@dataclass(frozen=True)
class Reduction:
    """A build with a single reduction.

    Attributes:
        build: the statement without variables of size 1.
        total: the reduction.
        results: the number of elements of the build.   terms: the number of terms of the reduction.
    """

    build: ir.Build
    total: ir.Reduce
    results: int
    terms: int


def reduction(work: Work) -> Reduction | None:
    """The reduction of a statement with known sizes; None if the statement has none, or several."""
    s = work.statement
    if not isinstance(s, ir.Build):
        return None
    build = without_units(s)
    found = dict.fromkeys(n for v in build.values for n in walk(v) if isinstance(n, ir.Reduce))
    if len(found) != 1:
        return None
    total = next(iter(found))
    results, terms = count_of(build.vars), count_of(total.vars)
    if total.op not in (*OPERATORS, *POSITIONS) or results is None or terms is None:
        return None
    return Reduction(build, total, results, terms)


def moved(s: ir.Statement) -> float:
    """The bytes of the arrays that a statement reads and writes."""
    return sum(r.dtype.size * typical_count(elements(r.shape)) for r in {*statement_reads(s), *s.outs})


def store_values(build: ir.Build, lowering: ScalarLowering, builder: KernelBuilder, scope: Scope) -> None:
    """Compute the values of a build's element, then store them."""
    values = [lowering.value(v, scope) for v in build.values]
    kept = [Temp(o.name, v.type) for o, v in zip(build.outs, values, strict=True)]
    scope.statements += [Let(temp, v) for temp, v in zip(kept, values, strict=True)]
    place = flat_position(build.vars)
    scope.statements += [Store(builder.parameter(o), place, Read(temp))
                         for o, temp in zip(build.outs, kept, strict=True)]  # fmt: skip


def leaves(group: For) -> bool:
    """Whether a thread may leave before a barrier, at a failed check."""
    threads = (s for s in nodes.walk(group.body) if isinstance(s, For) and s.kind == "thread")
    return any(isinstance(s, Check) for t in threads for s in nodes.walk(t.body))
