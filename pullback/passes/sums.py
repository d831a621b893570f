"""Cheaper sums: through an index table, and by splitting a product over independent variables.

Three rewrites of a statement in normal form, `y = build I { sum V { s } }`, when sizes are numbers:

    scatter     sum over v of [j == data(v)] s(v, j)  becomes  y[data(v)] += s(v, data(v)): each term goes to its
                place, in the same order. The sum would look for its terms at every j.
    band        sum over v of [..] s(i - f(v), v), with f not linear and few places read for i - f(v),
                becomes y[w + f(v)] += s(w, v) over the places w: few of the i have a term for a v.
    split       sum over u, w of a(w, k) * b(u, w)  becomes  sum over w of a(w, k) * t(w), t(w) = sum over u of b(u, w),
                where t lacks an index of the result: the order of products of a chain, for sums.

Before    n = build j < K, d < D { sum i < N { [j == data(near[i], K)] x[i, d] } }
          l = build t < T { sum j < D { [0 <= t - f(j) < D, ..] q[t - f(j), j] } }
          m = build k < K, c < D { sum i < N, r < D { z[i, k, r] * Q[k, r, c] } }
After     n: f64[K, D] = scatter i < N, d < D { [data(near[i], K), d] += x[i, d] }
          l: f64[..] = scatter j < D, w < D { [w + f(j)] += [0 <= w + f(j) < .., ..] q[w, j] }
          m_part = build k < K, r < D { sum i < N { z[i, k, r] } }
          m = build k < K, c < D { sum r < D { m_part[k, r] * Q[k, r, c] } }

The first two do as many additions as there are terms. They serve the derivative of a read at a minimum's position, and
of a triangular matrix packed into a row. The third adds products in another order, so it is off under `exact()`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from math import prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Atom, Cond, Data, Index, Var, as_index, cond
from pullback.ir.traverse import Substitution, walk
from pullback.ir.walks import each_build
from pullback.rewrite.fired import fired

FEW = 4  # least number of places of a result for each place that a term can be read from

def rearrange_sums(program: ir.Program) -> ir.Program:
    """The program with the three rewrites applied wherever they save work."""
    return each_build(program, partial(_rearranged, exact=program.settings.exact))


def _rearranged(s: ir.Build, exact: bool) -> list[ir.Statement]:
    value = s.values[0]
    if len(s.values) != 1 or not isinstance(value, ir.Reduce) or value.op != "sum":
        return [s]
    placed = _scatter(s, value) or _band(s, value)
    if placed is not None:
        return [placed]
    parts = None if exact else _split(s, value)
    return [s] if parts is None else [q for p in parts for q in _rearranged(p, exact)]


def _scatter(s: ir.Build, value: ir.Reduce) -> ir.Scatter | None:
    """The sum as a scatter, where a condition says that one index of the result is a datum of the terms."""
    conds, term = _guarded(value.arg)
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
            return ir.Scatter(s.outs[0], (*value.vars, *others), indices, put, s.positions)
    return None


def _guarded(term: ir.Scalar) -> tuple[tuple[Cond, ...], ir.Scalar]:
    """The conditions around a term, and the term."""
    conds: tuple[Cond, ...] = ()
    while isinstance(term, ir.Bracket):
        conds, term = (*conds, *term.conds), term.arg
    return conds, term


def _band(s: ir.Build, value: ir.Reduce) -> ir.Scatter | None:
    """The sum as a scatter over the places it reads, if these are few compared to an index's values."""
    conds, term = _guarded(value.arg)
    if not conds or any(isinstance(n, ir.Bracket | ir.Select | ir.Reduce) for n in walk(term)):
        return None  # elements read under further conditions need not be in range under these
    for g in walk(term):
        for index, extent in zip(g.indices, g.ref.shape, strict=True) if isinstance(g, ir.Get) else ():
            for i in s.vars:
                if extent.constant and FEW * extent.constant <= (i.extent.constant or 0):
                    there = _shifted(index, i, value.vars)
                    if there is not None:
                        return _placed(s, value, i, index, Var(i.name, extent), there)
    return None


def _shifted(index: Index, i: Var, summed: tuple[Var, ...]) -> Index | None:
    """The index `index` - i, or `index` + i negated, if free of i and only over the sum's indices."""
    factor = index.coefficient(i)
    if factor is None or factor.constant not in (1, -1) or index.data:
        return None
    rest = index - as_index(i) if factor.constant == 1 else -(index + as_index(i))
    linear = all((c := rest.coefficient(v)) is not None and c.constant is not None for v in rest.free)
    return rest if not linear and rest.free <= set(summed) else None  # linear ones are narrowed by `windows`


def _placed(s: ir.Build, value: ir.Reduce, i: Var, index: Index, w: Var, rest: Index) -> ir.Scatter:
    """Put each term in its place: for w = `index`, i is ±w less the rest."""
    factor = index.coefficient(i)
    assert factor is not None
    there = as_index(w) * (factor.constant or 1) - rest
    inside = (cond(">=", there), cond(">=", i.extent - 1 - there))
    put = expr.bracket(inside, Substitution(variables={i: there}).scalar(value.arg))
    others = tuple(v for v in s.vars if v is not i)
    fired("sums.band")
    at = tuple(there if v is i else as_index(v) for v in s.vars)
    return ir.Scatter(s.outs[0], (*others, *value.vars, w), at, put, s.positions)


def _solved(equation: Index, j: Var) -> Atom | None:
    """The atom that j equals where `equation` is zero, if it implies nothing else."""
    factor = equation.coefficient(j)
    if factor is None or factor.constant not in (1, -1):
        return None
    rest = as_index(j) - equation if factor.constant == 1 else equation + as_index(j)
    return rest.single if j not in rest.free else None


def _split(s: ir.Build, value: ir.Reduce) -> tuple[ir.Build, ir.Build] | None:
    """Inner and outer sum of a product, where the inner one does not need every index of the result."""
    if not isinstance(value.arg, ir.Mul):
        return None
    factors = value.arg.args
    sizes = {v: v.extent.constant for v in (*s.vars, *value.vars)}
    if any(n is None for n in sizes.values()):
        return None

    def size(variables: Iterable[Var]) -> int:
        return prod(sizes[v] or 0 for v in variables)

    best: tuple[int, tuple[Var, ...], list[ir.Scalar], list[Var]] | None = None
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
    out = ir.Ref(f"{s.outs[0].name}_part", s.outs[0].dtype, [v.extent for v in fresh])
    part = expr.reduce("sum", away, expr.mul(*within))
    fired("sums.split")
    left = expr.mul(*(g for g in factors if g not in within), expr.get(out, *kept))
    rest = tuple(v for v in value.vars if v not in away)
    return (
        ir.Build((out,), fresh, (rename.scalar(part),), s.positions),
        replace(s, values=(expr.reduce("sum", rest, left),)),
    )
