"""Scatters: loops that add values where indices point; neighbors may share a loop nest.

    a = scatter k < K, j < J { [data(at[k, j])] y[k] * b[data(from[k, j])] }
    c = scatter k < K, j < J { [data(from[k, j])] y[k] * d[data(at[k, j])] }
    --> for k, j: p = at[k, j]; q = from[k, j]; a[p] += y[k] * b[q]; c[q] += y[k] * d[p]

Reverse mode makes such neighbors: the cotangents of both factors of a product. Each array gets its terms in the old
order. Rows that are added as a whole, at positions of outer loops, stay apart: compilers make vectors of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from pullback.ir import nodes as ir
from pullback.ir.expr import read_by
from pullback.ir.index import ZERO_INDEX, Cond, as_index
from pullback.ir.program import statement_reads
from pullback.ir.traverse import Substitution, walk
from pullback.loops.analysis.estimates import points_cycles
from pullback.loops.plain.bounds import LoopNest
from pullback.loops.plain.builder import KernelBuilder, Work
from pullback.loops.plain.candidates import Candidate, Declined
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.program.nodes import Fill, If, Kernel, Stmt, Store
from pullback.loops.program.schedule import Fuse, Schedule
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Holds
from pullback.machine import Machine
from pullback.rewrite.normal_form import Guard, peel_guards

MOST = 4  # arrays that one nest adds to


def scatters_size(statements: Sequence[ir.Statement]) -> int:
    """The number of first statements that may be one nest of scatters."""
    return max(1, len(_neighbors(statements)))


def scatters(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for neighboring scatters as one loop nest."""
    found = _neighbors(work.statements)
    places = [work.parameter(s.out) for s in found]
    read = {work.parameter(r) for s in found for r in statement_reads(s)}
    if len(found) < len(work.statements) or not read.isdisjoint(places):
        return

    def build(builder: KernelBuilder) -> Kernel:
        kernel = builder.kernel(_loops(found, builder))
        if kernel.checks:  # they would name the last statement
            raise Declined
        return kernel

    cycles = points_cycles([s.value for s in found], found[0].vars, machine)
    yield Candidate("scatters", cycles, build, Schedule((Fuse(len(found)),)))


def plain_scatter(s: ir.Scatter, builder: KernelBuilder) -> tuple[Stmt, ...]:
    """Zeros, then loops that add each value where its indices point."""
    return _loops([s], builder)


def _neighbors(statements: Sequence[ir.Statement]) -> list[ir.Scatter]:
    """The first scatters over one space that read the same positions, in the variables of the first."""
    out: list[ir.Scatter] = []
    seen: set[ir.Scalar] = set()
    for s in statements[:MOST]:
        if not isinstance(s, ir.Scatter) or isinstance(s.value, ir.Zero):
            break
        first = out[0] if out else s
        if [v.extent for v in s.vars] != [v.extent for v in first.vars]:
            break
        m = Substitution(variables={v: as_index(own) for v, own in zip(s.vars, first.vars, strict=True)})
        own = replace(s, vars=first.vars, value=m.scalar(s.value), indices=tuple(map(m.index, s.indices)))
        read = set(_positions(own))
        if out and (
            _conditions(own) != _conditions(first)
            or seen.isdisjoint(read)
            or any(o.out in statement_reads(s) for o in out)
        ):
            break
        out.append(own)
        seen |= read
    return out


def _positions(s: ir.Scatter) -> Iterator[ir.Scalar]:
    """The elements of arrays of positions that a scatter reads in its innermost loop."""
    inner = s.vars[-1:]
    for e in (s.value, *(read_by(a) for i in s.indices for a in i.data)):
        reads = (n for n in walk(e) if isinstance(n, ir.Get) and n.dtype.is_integer)
        yield from (n for n in reads if not n.free.isdisjoint(inner))


def _conditions(s: ir.Scatter) -> tuple[Cond, ...]:
    return s.value.conds if isinstance(s.value, ir.Bracket) else ()


def _loops(scatters: Sequence[ir.Scatter], builder: KernelBuilder) -> tuple[Stmt, ...]:
    lowering = ScalarLowering(builder.parameter, builder.site, [s.value for s in scatters])
    outs = [builder.parameter(s.out) for s in scatters]
    root = Scope()
    root.statements += [Fill(out, ZERO_INDEX, out.elements) for out in outs]
    if isinstance(scatters[0].value, ir.Zero):  # terms that are zero may have out-of-range indices
        return tuple(root.statements)
    nest = LoopNest(lowering, root, scatters[0].vars, _conditions(scatters[0]))
    for s in scatters:
        guards, value = peel_guards(s.value.arg if isinstance(s.value, ir.Bracket) else s.value)

        def add(scope: Scope, s: ir.Scatter = s, value: ir.Scalar = value) -> None:
            position = lowering.flat(s.out, s.indices, scope)
            term = lowering.value(value, scope)
            scope.statements.append(Store(builder.parameter(s.out), position, term, accumulate=True))

        guarded(guards, lowering, nest.innermost, add)
    nest.close()
    return tuple(root.statements)


def guarded(guards: Sequence[Guard], lowering: ScalarLowering, scope: Scope, write: Callable[[Scope], None]) -> None:
    """Write statements where guards hold; elsewhere indices in them may be out of range."""
    if not guards:
        write(scope)
        return
    g, *rest = guards
    conds = lowering.conditions((g,), scope) if isinstance(g, Cond) else ()
    test = lowering.value(g, scope) if isinstance(g, ir.Scalar) else Holds(conds)
    inner = scope.guard(conds)
    guarded(rest, lowering, inner, write)
    scope.statements.append(If(test, tuple(inner.statements)))
