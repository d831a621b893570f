"""Speculation: a contraction without guards where its operands are finite, else the guarded one.

Before    h = build n < N, o < O { a[n, o] > 0 ? g[n, o] : {} }
          y = build n < N, m < M { sum o < O { a[n, o] > 0 ? h[n, o] * w[o, m] : {} } }
After     w_sum = build { sum o < O, m < M { w[o, m] } }
          finite = build { isfinite(w_sum) }
          y = if finite { build .. { sum o < O { h[n, o] * w[o, m] } } } else { build .. as before }

The guard of `where` travels with a cotangent so that a NaN or infinity of the branch not taken does not enter
(`ad.reverse`). Where h is 0 outside the guard and w is finite, the guarded and the plain product are the same, and the
plain one is a contraction like any other. One pass over w decides at run time; its work must be small beside the
contraction. A sum is finite only if all its terms are, and runs at the speed of memory. If it overflows although they
are finite, the guarded product gives the same result. A guard free of the sum's variables moves around the sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import Cond, Index, Var, as_index
from pullback.ir.program import with_fields
from pullback.ir.traverse import Substitution, rewrite
from pullback.ir.walks import each_build
from pullback.passes.cost import typical_size
from pullback.rewrite.fired import fired

WORTH = 8  # least terms of a contraction for each element that is tested


def speculate_guards(program: ir.Program) -> ir.Program:
    """The program with guarded contractions chosen at run time, where that pays."""
    defined: dict[ir.Ref, ir.Build] = {}

    def change(s: ir.Build) -> list[ir.Statement]:
        s = with_fields(s, values=tuple(rewrite(v, _outside) for v in s.values))
        out = _build(s, defined)
        defined.update(dict.fromkeys(s.outs, s))
        return out

    return each_build(program, change)


def _outside(e: ir.Scalar) -> ir.Scalar | None:
    """A sum under a guard without the sum's variables as the guard around the sum."""
    if not isinstance(e, ir.Reduce) or e.op != "sum":
        return None
    conds, guard = _guard(e.arg)
    if guard is None or not guard.test.free.isdisjoint(e.vars):
        return None
    fired("speculate.outside")
    inner = expr.reduce("sum", e.vars, expr.bracket(conds, guard.then))
    return expr.select(guard.test, inner, guard.otherwise)


def _guard(e: ir.Scalar) -> tuple[tuple[Cond, ...], ir.Select | None]:
    """The conditions around a term, and the inner guard that is zero where its test fails."""
    conds, term = (e.conds, e.arg) if isinstance(e, ir.Bracket) else ((), e)
    return conds, term if isinstance(term, ir.Select) and isinstance(term.otherwise, ir.Zero) else None


def _build(s: ir.Build, defined: dict[ir.Ref, ir.Build]) -> list[ir.Statement]:
    looked_at: dict[ir.Ref, None] = {}
    values = tuple(_value(v, s, defined, looked_at) for v in s.values)
    if not looked_at:
        return [s]
    fired("speculate.guard")
    return chosen_if_finite(s, values, looked_at)


def chosen_if_finite(s: ir.Build, values: tuple[ir.Scalar, ...], arrays: Iterable[ir.Ref]) -> list[ir.Statement]:
    """The statement with other values if all elements of the arrays are finite, else unchanged."""
    sums = [_total(r) for r in arrays]
    all_finite, *others = (expr.apply("isfinite", expr.get(t.outs[0])) for t in sums)
    for t in others:
        all_finite = expr.apply("logical_and", all_finite, t)
    chosen = ir.Ref("finite", types.bool_, ())
    plain, careful = fresh(replace(s, values=values)), fresh(s)
    choice = ir.Choose(s.outs, chosen, ir.Block((plain,), plain.outs), ir.Block((careful,), careful.outs), s.positions)
    return [*sums, ir.Build((chosen,), (), (all_finite,), s.positions), choice]


def looks(block: ir.Block) -> set[ir.Ref]:
    """The arrays of a block that hold whether other arrays are finite."""
    return {s.outs[0] for s in block.statements if isinstance(s, ir.Build) and not s.vars and _is_look(s.values[0])}


def _is_look(e: ir.Scalar) -> bool:
    if isinstance(e, ir.Apply) and e.primitive.name == "logical_and":
        return all(map(_is_look, e.args))
    return isinstance(e, ir.Apply) and e.primitive.name == "isfinite"


def fresh(s: ir.Build) -> ir.Build:
    """A copy that defines fresh arrays."""
    outs = tuple(ir.Ref(o.name, o.dtype, o.shape, o.bounds) for o in s.outs)
    variables = tuple(Var(v.name, v.extent) for v in s.vars)
    m = Substitution(variables={v: as_index(w) for v, w in zip(s.vars, variables, strict=True)})
    return replace(s, outs=outs, vars=variables, values=tuple(m.scalar(v) for v in s.values))


def _total(r: ir.Ref) -> ir.Build:
    """The sum of all elements of an array."""
    variables = tuple(Var(f"i{k}", d) for k, d in enumerate(r.shape))
    value = expr.reduce("sum", variables, expr.get(r, *variables))
    return ir.Build((ir.Ref(f"{r.name}_sum", r.dtype, ()),), (), (value,))


def _value(e: ir.Scalar, s: ir.Build, defined: dict[ir.Ref, ir.Build], looked_at: dict[ir.Ref, None]) -> ir.Scalar:
    """Drop the guards of the value's sums; add the arrays that must be finite for that to `looked_at`."""

    def plain(e: ir.Scalar) -> ir.Scalar | None:
        if not isinstance(e, ir.Reduce) or e.op != "sum":
            return None
        conds, guard = _guard(e.arg)
        if guard is None:
            return None
        others = _unguarded(guard, defined)
        terms = typical_size(v.extent for v in (*s.vars, *e.vars))
        if not others or sum(typical_size(r.shape) for r in others) * WORTH > terms:
            return None
        looked_at.update(dict.fromkeys(others))
        return expr.reduce("sum", e.vars, expr.bracket(conds, guard.then))

    return rewrite(e, plain)


def _unguarded(e: ir.Select, defined: dict[ir.Ref, ir.Build]) -> list[ir.Ref]:
    """The arrays whose finiteness makes select(test, product, 0) equal the product; none if impossible.

    One factor must be an element of an array that is 0 wherever the test fails.
    """
    product = e.then.args if isinstance(e.then, ir.Mul) else (e.then,)
    if not all(isinstance(f, ir.Get | ir.Const) for f in product):
        return []
    for f in product:
        if isinstance(f, ir.Get) and _zero_outside(f, e.test, defined):
            return list(dict.fromkeys(g.ref for g in product if isinstance(g, ir.Get) and g is not f))
    return []


def _zero_outside(g: ir.Get, test: ir.Scalar, defined: dict[ir.Ref, ir.Build]) -> bool:
    """Whether the element is a structural zero wherever the test fails."""
    s = defined.get(g.ref)
    if s is None or len(s.outs) != 1:
        return False
    value = s.values[0]
    if not isinstance(value, ir.Select) or not isinstance(value.otherwise, ir.Zero):
        return False
    variables: dict[Var, Index] = dict(zip(s.vars, g.indices, strict=True))
    return Substitution(variables=variables).scalar(value.test) is test
