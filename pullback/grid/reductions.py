"""Statements with a single reduction, as device strategies analyze them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from pullback.grid.accesses import WARP, Warp
from pullback.grid.spread import spread
from pullback.grid.steps import count_of
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, Data, Index, Var, as_index
from pullback.ir.program import statement_reads
from pullback.ir.traverse import children, indices_of, rewrite, walk
from pullback.loops.analysis.intervals import interval
from pullback.loops.analysis.joined import elements
from pullback.loops.plain.builder import KernelBuilder, flat_index, flat_position
from pullback.loops.plain.lower import element_loops, without_units
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.program import nodes
from pullback.loops.program.cover import typical_count
from pullback.loops.program.nodes import Check, For, Kernel, Let, Stmt, Store
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import OPERATORS, Buffer, Read, Temp


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

    @property
    def checked(self) -> bool:
        """Whether a term has an index that is checked at run time."""
        indices = (i for n in walk(self.total.arg) for i in indices_of(n))
        return any(isinstance(a, Data) and a.checked for i in indices for a in i.every_atom)


def reduction(s: ir.Statement) -> Reduction | None:
    """The reduction of a statement with known sizes; None if the statement has none, or several."""
    if not isinstance(s, ir.Build):
        return None
    build = without_units(s)
    found = dict.fromkeys(n for v in build.values for n in walk(v) if isinstance(n, ir.Reduce))
    if len(found) != 1:
        return None
    total = next(iter(found))
    results, terms = count_of(build.vars), count_of(total.vars)
    if total.op not in (*OPERATORS, "argmax", "argmin") or results is None or terms is None:  # a search is serial
        return None
    return Reduction(build, total, results, terms)


def element(term: ir.Scalar) -> ir.Get | None:
    """The array element that an operand is, or whose value it is in f32."""
    if isinstance(term, ir.Cast) and term.arg.dtype.is_half:
        term = term.arg
    return term if isinstance(term, ir.Get) else None


def moved(s: ir.Statement) -> float:
    """The bytes of the arrays that a statement reads and writes."""
    return sum(r.dtype.size * typical_count(elements(r.shape)) for r in {*statement_reads(s), *s.outs})


class Traffic(NamedTuple):
    """The traffic of a build: the bytes of sectors, and the lines of the cache that its warps touch."""

    moved: float
    lines: float


def traffic(build: ir.Build, warp: Warp, whole: Collection[ir.Get] = ()) -> Traffic:
    """The traffic of a build with such warps.

    Args:
        whole: reads that use sectors whole.
    """
    waste = dict.fromkeys((*statement_reads(build), *build.outs), 1.0)
    points, lines = count_of(build.vars) or 1, 0.0
    reads = dict.fromkeys(n for v in build.values for n in walk(v) if isinstance(n, ir.Get | ir.Reduce))
    inner = {v: v.extent.constant or 1 for n in reads if isinstance(n, ir.Reduce) for v in n.vars}
    at = [(g.ref, flat_index(g.ref, g.indices), prod(n for v, n in inner.items() if v in g.free))
          for g in reads if isinstance(g, ir.Get)]  # fmt: skip
    at += ((o, flat_position(build.vars), 1) for o in build.outs)
    for ref, place, times in at:
        own, touched = warp.touched(place, ref.dtype.size)
        waste[ref] = max(waste[ref], own)
        lines += touched * times * points / WARP
    for g in whole:
        waste[g.ref] = 1.0
    return Traffic(sum(r.dtype.size * typical_count(elements(r.shape)) * n for r, n in waste.items()), lines)


def places(e: ir.Scalar) -> list[Index]:
    """The flat indices of the elements that an expression reads."""
    return list(dict.fromkeys(flat_index(g.ref, g.indices) for g in walk(e) if isinstance(g, ir.Get)))


def regular_reads(values: Sequence[ir.Scalar], variables: Sequence[Var]) -> list[ir.Get]:
    """The elements that values read outside of reductions, at sums of multiples of variables.

    They are in range for all values of the variables, so they can be read where conditions around them do not hold.
    """
    stack, out = [*values], dict[ir.Get, None]()
    seen = set[ir.Scalar]()
    while stack:
        e = stack.pop()
        if e in seen or isinstance(e, ir.Reduce):
            continue
        seen.add(e)
        if isinstance(e, ir.Get) and _is_regular(e, variables):
            out[e] = None
        stack += children(e)
    return list(out)


def _is_regular(g: ir.Get, variables: Sequence[Var]) -> bool:
    ranges = [(interval(i, {}), extent.constant) for i, extent in zip(g.indices, g.ref.shape, strict=True)]
    inside = all(found is not None and n is not None and found[0] >= 0 and found[1] < n for found, n in ranges)
    return inside and all(len(m) <= 1 and all(a in variables for a in m)
                          for i in g.indices for m, _ in i.terms)  # fmt: skip


def named_values(build: ir.Build, lowering: ScalarLowering, scope: Scope) -> list[Read]:
    """Compute the values of a build's element."""
    values = [lowering.value(v, scope) for v in build.values]
    kept = [Temp(o.name, v.type) for o, v in zip(build.outs, values, strict=True)]
    scope.statements += [Let(temp, v) for temp, v in zip(kept, values, strict=True)]
    return [Read(temp) for temp in kept]


def store_values(build: ir.Build, lowering: ScalarLowering, builder: KernelBuilder, scope: Scope) -> None:
    """Compute the values of a build's element, then store them."""
    values, place = named_values(build, lowering, scope), flat_position(build.vars)
    scope.statements += [Store(builder.parameter(o), place, v) for o, v in zip(build.outs, values, strict=True)]


def stored_terms(r: Reduction, builder: KernelBuilder) -> tuple[Reduction, list[For]]:
    """A launch that stores the terms, and the reduction of the stored terms.

    A thread whose index is out of range leaves. Inside the reduction, others would wait for it at a barrier.
    """
    variables = (*r.build.vars, *r.total.vars)
    terms = ir.Ref("terms", r.total.arg.dtype, tuple(v.extent for v in variables))
    like = Buffer("like", terms.dtype, (), "arena", ONE_INDEX)
    builder.own[terms] = builder.scratch("terms", like, r.results * r.terms)
    loops = element_loops(ir.Build((terms,), variables, (r.total.arg,)), builder.address, builder, beside=False)
    term = expr.get(terms, *map(as_index, variables))
    total = expr.reduce(r.total.op, r.total.vars, term)
    assert isinstance(total, ir.Reduce)
    changed: dict[ir.Scalar, ir.Scalar] = {r.total: total}
    values = tuple(rewrite(v, changed.get) for v in r.build.values)
    return replace(r, build=replace(r.build, values=values), total=total), spread_loops(loops, variables, builder)


def independent_loops(body: Sequence[Stmt], variables: Sequence[Var]) -> list[Stmt]:
    """Declare the loops over the elements of a build independent, which they are by definition."""
    return [replace(s, body=tuple(independent_loops(s.body, variables)), independent=True)
            if isinstance(s, For) and s.var in variables else s for s in body]  # fmt: skip


def spread_loops(body: Sequence[Stmt], variables: Sequence[Var], builder: KernelBuilder) -> list[For]:
    """The launches of loops over the elements of a build, as parts of a kernel."""
    k = spread(Kernel("part", tuple(builder.params.values()), (), tuple(independent_loops(body, variables))))
    return [s for s in k.body if isinstance(s, For)]


def leaves(group: For) -> bool:
    """Whether a thread may leave before a barrier, at a failed check."""
    threads = (s for s in nodes.walk(group.body) if isinstance(s, For) and s.kind == "thread")
    return any(isinstance(s, Check) for t in threads for s in nodes.walk(t.body))
