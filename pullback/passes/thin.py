"""Thin terms: what a sum adds to few of its results is summed apart.

Before    y = build k < 20, i < 4 { sum j < 4 { a[i, j] * x[k, j] + [k == t] b[i, j] * x[0, j] } }
After     y = build k < 20, i < 4 { sum j < 4 { a[i, j] * x[k, j] } + [k == t] sum j < 4 { b[i, j] * x[0, j] } }

A derivative in many directions has such terms: a number that a step of a loop reads is one of the arguments. Inside the
sum the condition is tested for every term of every result. Apart, loops over the results where it holds add it
(`loops/plain/updates.py`), and the sum of the others has vectors. Terms are added in another order, so `exact` programs
stay as they are.
"""

from __future__ import annotations

from dataclasses import replace

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Cond, Var
from pullback.ir.walks import each_build
from pullback.rewrite.fired import fired

FEW = 8  # least extent of an axis that a condition fixes, and most terms that are summed apart


def separate_thin_terms(program: ir.Program) -> ir.Program:
    """The program with sums apart for terms that hold at one place of an axis."""
    return each_build(program, _separated)


def _separated(s: ir.Build) -> list[ir.Statement]:
    e = s.values[0]
    if len(s.values) > 1 or not isinstance(e, ir.Reduce) or e.op != "sum" or not isinstance(e.arg, ir.Add):
        return [s]
    kept: list[ir.Scalar] = []
    apart: list[ir.Scalar] = []
    for term in e.arg.args:
        conds, rest = _guarded(term)
        outer = [c for c in conds if c.free.isdisjoint(e.vars)]
        if any(_fixes(c, v) for c in outer for v in s.vars):
            inner = expr.bracket([c for c in conds if c not in outer], rest)
            apart.append(expr.bracket(outer, expr.reduce("sum", e.vars, inner)))
        else:
            kept.append(term)
    if not kept or not apart or len(apart) > FEW or not e.dtype.is_floating:
        return [s]
    fired("thin.apart")
    return [replace(s, values=(expr.add(expr.reduce("sum", e.vars, expr.add(*kept)), *apart),))]


def _guarded(term: ir.Scalar) -> tuple[list[Cond], ir.Scalar]:
    """The conditions around a term, and the term."""
    conds: list[Cond] = []
    while isinstance(term, ir.Bracket):
        conds, term = [*conds, *term.conds], term.arg
    return conds, term


def _fixes(c: Cond, v: Var) -> bool:
    """Whether a condition leaves one value of a long axis."""
    step = c.index.coefficient(v) if c.op == "==" and v in c.free else None
    return step is not None and step.constant in (1, -1) and (v.extent.constant or 0) >= FEW
