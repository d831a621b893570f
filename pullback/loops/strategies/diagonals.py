"""Diagonals: sums along diagonals run over the array in memory order, and add to a row of results.

Before    x = build i < N { sum j < C { [i >= j, j + R >= i + 1] g[i - j, j] } }
After     x = 0; for r < R, for j < C: x[r + j] += g[r, j]

The adjoint of a Toeplitz or Hankel matrix is such a sum: each element of the array is a term of one result. Result by
result, every term is on another line of memory and neighbors are in different lanes; row by row, both the terms and the
results are neighbors.
"""

from __future__ import annotations

from collections.abc import Iterator

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var, as_index, cond
from pullback.ir.traverse import Substitution, walk
from pullback.loops.analysis.estimates import points_cycles
from pullback.loops.plain.builder import KernelBuilder, Work
from pullback.loops.plain.candidates import Candidate
from pullback.loops.plain.scatters import plain_scatter
from pullback.loops.program.cover import typical_count
from pullback.loops.program.nodes import Kernel
from pullback.loops.program.schedule import Exchange, Schedule
from pullback.machine import Machine

LEAST = 16  # least length of the rows


def diagonals(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for sums along diagonals."""
    s = work.statement
    found = _by_rows(s) if isinstance(s, ir.Build) else None
    if found is None or any(work.holds(n.ref, found.out) for n in walk(found.value) if isinstance(n, ir.Get)):
        return  # zeros would overwrite what is read

    def build(builder: KernelBuilder) -> Kernel:
        return builder.kernel(plain_scatter(found, builder))

    *_, outer, inner = found.vars
    cycles = points_cycles((found.value,), found.vars, machine, machine.lanes(found.out.dtype.size), inner)
    yield Candidate("diagonals", cycles, build, Schedule((Exchange(outer.name, inner.name),)))


def _by_rows(s: ir.Build) -> ir.Scatter | None:
    """The sum with each term added to its result, in the order of an array that it reads, or None."""
    value = s.values[0]
    if len(s.outs) != 1 or not s.vars or not isinstance(value, ir.Reduce) or value.op != "sum":
        return None
    term = value.arg.arg if isinstance(value.arg, ir.Bracket) else value.arg
    if not all(isinstance(n, ir.Get | ir.Const | ir.Add | ir.Mul) for n in walk(term)):
        return None  # no vectors by the C compiler, or read under further conditions
    gets = (n for n in walk(term) if isinstance(n, ir.Get))
    return next((found for g in gets if (found := _rows(s, value, g)) is not None), None)


def _rows(s: ir.Build, value: ir.Reduce, g: ir.Get) -> ir.Scatter | None:
    """The sum in the order of the array that `g` reads, if each element is in one term of one result.

    One index of g is a i + b v + c for the last index i of the result, with a = 1 or -1; the others are variables, v
    among them. With w in place of that index, the term belongs to i = a (w - b v - c).
    """
    i = s.vars[-1]
    at = next((k for k, x in enumerate(g.indices) if i in x.free), None)
    a = 0 if at is None else _step(g.indices[at], i)
    if at is None or a not in (1, -1) or typical_count(g.ref.shape[-1]) < LEAST:
        return None
    variables = [x.single for k, x in enumerate(g.indices) if k != at]
    rest = g.indices[at] - as_index(i) * a
    if len({*variables}) != len(variables) or {*variables, i} != {*s.vars, *value.vars} or not rest.free:
        return None
    w = Var(i.name, g.ref.shape[at])
    order = tuple(v for v in (*variables[:at], w, *variables[at:]) if isinstance(v, Var))
    place = (as_index(w) - rest) * a
    if not _step(place, order[-1]):
        return None
    there = Substitution(variables={i: place})
    put = expr.bracket((cond(">=", place), cond(">=", i.extent - 1 - place)), there.scalar(value.arg))
    return ir.Scatter(s.outs[0], order, (*map(as_index, s.vars[:-1]), place), put, s.positions)


def _step(index: Index, v: Var) -> int:
    """The constant step of an index in v; 0 where it has none."""
    step = index.coefficient(v)
    return 0 if step is None else step.constant or 0
