"""Sums that cost more than they need: through a table of places, and of a product that falls apart.

Two rewrites of a statement in normal form, `y = build I { sum V { s } }`, when sizes are numbers:

    scatter     sum over v of [j == data(v)] s(v, j)  becomes  y[data(v)] += s(v, data(v)): each term is put in its
                place, in the same order, where the sum would look for its terms at every j.
    split       sum over u, w of a(w, k) * b(u, w)  becomes  sum over w of a(w, k) * t(w), t(w) = sum over u of b(u, w),
                where t lacks an index of the result: the order of products of a chain, for sums.

Before    n = build j < K, d < D { sum i < N { [j == data(near[i], K)] x[i, d] } }
          m = build k < K, c < D { sum i < N, r < D { z[i, k, r] * Q[k, r, c] } }
After     n: f64[K, D] = scatter i < N, d < D { [data(near[i], K), d] += x[i, d] }
          m_part = build k < K, r < D { sum i < N { z[i, k, r] } }
          m = build k < K, c < D { sum r < D { m_part[k, r] * Q[k, r, c] } }

The first does as many additions as there are terms; it is how the derivative of a minimum's position reaches what the
position chose. The second adds products in another order, so it is off under `exact()`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from pullback.ir import expr
from pullback.ir.expr import Bracket, Mul, Reduce, Ref, Scalar
from pullback.ir.index import Atom, Data, Index, Var, as_index, cond
from pullback.ir.program import Block, Build, Program, Scatter, Statement, map_blocks
from pullback.ir.traverse import Substitution
from pullback.rewrite.fired import fired


def rearrange_sums(program: Program) -> Program:
    """The program with the two rewrites applied wherever they save work."""
    return program.with_body(_block(program.body, bool(program.notes.get("exact"))))


def _block(block: Block, exact: bool) -> Block:
    statements: list[Statement] = []
    for s in block.statements:
        if isinstance(s, Build):
            statements += _rearranged(s, exact)
        else:
            statements.append(map_blocks(s, lambda b: _block(b, exact)))
    return replace(block, statements=tuple(statements))


def _rearranged(s: Build, exact: bool) -> list[Statement]:
    value = s.values[0]
    if len(s.values) != 1 or not isinstance(value, Reduce) or value.op != "sum":
        return [s]
    placed = _scatter(s, value)
    if placed is not None:
        return [placed]
    parts = None if exact else _split(s, value)
    return [s] if parts is None else [q for p in parts for q in _rearranged(p, exact)]


def _scatter(s: Build, value: Reduce) -> Scatter | None:
    """The sum as a scatter, where a condition says that one index of the result is a datum of the terms."""
    if not isinstance(value.arg, Bracket):
        return None
    inner = value.arg
    conds, term = inner.conds, inner.arg
    while isinstance(term, Bracket):
        conds, term = (*conds, *term.conds), term.arg
    for c in conds:
        for j in s.vars:
            place = None if c.op != "==" else _solved(c.index, j)
            if place is None or not isinstance(place, Data) or place.free.isdisjoint(value.vars):
                continue
            if j.extent.constant is None or j.extent.constant < 2:
                continue
            there = as_index(place)
            inside = () if place.extent is j.extent else (cond(">=", there), cond(">=", j.extent - 1 - there))
            rest = [k for k in conds if k is not c]
            m = Substitution(variables={j: there})
            put = expr.bracket(inside, m.scalar(expr.bracket(rest, term)) if rest else m.scalar(term))
            others = tuple(v for v in s.vars if v is not j)
            indices = tuple(there if v is j else as_index(v) for v in s.vars)
            fired("sums.scatter")
            return Scatter(s.outs[0], (*value.vars, *others), indices, put, s.positions)
    return None


def _solved(equation: Index, j: Var) -> Atom | None:
    """The atom that j equals where `equation` is zero, if it says j == atom and nothing else."""
    factor = equation.coefficient(j)
    if factor is None or factor.constant not in (1, -1):
        return None
    rest = as_index(j) - equation if factor.constant == 1 else equation + as_index(j)
    return rest.single if j not in rest.free else None


def _split(s: Build, value: Reduce) -> tuple[Build, Build] | None:
    """Inner and outer sum of a product, where the inner one does not need every index of the result."""
    if not isinstance(value.arg, Mul):
        return None
    factors = value.arg.args
    sizes = {v: v.extent.constant for v in (*s.vars, *value.vars)}
    if any(n is None for n in sizes.values()):
        return None

    def size(variables: Iterable[Var]) -> int:
        return prod(sizes[v] or 0 for v in variables)

    best: tuple[int, tuple[Var, ...], list[Scalar], list[Var]] | None = None
    for f in factors:
        away = tuple(v for v in value.vars if v not in f.free)
        if not away or len(away) == len(value.vars):
            continue
        within = [g for g in factors if not g.free.isdisjoint(away)]
        if not within:
            continue  # all terms of these are alike
        free = frozenset().union(*(g.free for g in within)) - set(away)
        kept = [v for v in (*s.vars, *value.vars) if v in free]
        work = size(kept) * size(away) + size(s.vars) * size(value.vars) // max(1, size(away))
        if best is None or work < best[0]:
            best = work, away, within, kept
    if best is None or 2 * best[0] > size(s.vars) * size(value.vars):
        return None
    _, away, within, kept = best
    fresh = tuple(Var(v.name, v.extent) for v in kept)
    rename = Substitution(variables={v: as_index(w) for v, w in zip(kept, fresh, strict=True)})
    out = Ref(f"{s.outs[0].name}_part", s.outs[0].dtype, [v.extent for v in fresh])
    part = expr.reduce("sum", away, expr.mul(*within))
    fired("sums.split")
    left = expr.mul(*(g for g in factors if g not in within), expr.get(out, *kept))
    rest = tuple(v for v in value.vars if v not in away)
    return (
        Build((out,), fresh, (rename.scalar(part),), s.positions),
        replace(s, values=(expr.reduce("sum", rest, left),)),
    )
