"""Edges as linear operators: application, transpose, matrix, composition, addition, simplification.

For an edge  d out[T] = sum over U of  w * d x[S],  U being its variables except those of its target T:

    apply       out_dot[T]  =  sum over U of  w * x_dot[S]
    transpose   x_bar[M]    =  sum over T, U of  [M = S] * w * out_bar[T]
    matrix      J[T, M]     =  sum over U of  [M = S] * w
    compose     d z[R] = sum over P of  u * d out[Q]  after it is  sum over P, U of  u * w(T := Q) * d x[S(T := Q)]
    add         edges with one source add their weights

A composition substitutes the later edge's source for the earlier edge's target. This solves the bracket [T = Q], and
its range conditions hold because the later edge reads `out` there. Variables that the composed source does not fix are
summed in the weight. `settled` stores such a weight, and any that takes arithmetic, in an array. So a product is
computed once, and the next product reads one element. Guards stay on the edge, in front of the array, so later products
never read excluded values. Deltas on summed variables are solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pullback.ad.edges import Edge, data_dependent, where_readable
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Cond, Index, Mod, Var, as_index, cond, prove_nonnegative
from pullback.ir.traverse import Substitution
from pullback.rewrite.brackets import Solution, solve
from pullback.rewrite.kronecker import simplify
from pullback.rewrite.normal_form import guarded_sum, peel_guards, under_guards

TESTS = 4
"""Tests of data that a weight is kept under; more become one array of bools."""

_LETTERS = "ijklmnpqrstuvw"


def axes(r: ir.Ref, source: tuple[Index, ...] = ()) -> tuple[Var, ...]:
    """Variables for the axes of an array: named as in its reads, then by free letters."""
    used: list[str] = []
    for k in range(r.rank):
        atom = source[k].single if source else None
        name = atom.name if isinstance(atom, Var) else ""
        used.append(name if name not in used else "")
    letters = (c for c in _LETTERS if c not in used)
    return tuple(Var(n or next(letters, f"i{k}"), d) for k, (n, d) in enumerate(zip(used, r.shape, strict=True)))


def identity(operand: ir.Ref, result: ir.Ref) -> Edge:
    """The edge of a copy."""
    variables = axes(operand)
    indices = tuple(map(as_index, variables))
    return Edge(operand, indices, result, indices, variables, expr.const(1, operand.dtype))


def apply(e: Edge, tangent: ir.Ref) -> ir.Scalar:
    """The summand of `out_dot`, over the edge's variables."""
    return expr.cast(expr.mul(e.weight, expr.get(tangent, *e.source)), e.result.dtype)


def transpose(e: Edge, element: ir.Scalar, variables: Sequence[Var]) -> Solution | None:
    """The element of `x_bar` at `variables` as a sum; None where a scatter is needed or cheaper.

    This is so if data choose the place, or if it must be found by trial, as for x[s * i + d * k] with sizes s and d.

    Args:
        element: out_bar[target].
    """
    if data_dependent(e.source, e.variables):
        return None
    m = Substitution(variables={v: ZERO_INDEX for v in (*e.variables, *variables) if v.extent is ONE_INDEX})
    places = [m.index(as_index(v) - i) for v, i in zip(variables, e.source, strict=True)]
    summed = tuple(v for v in e.variables if v.extent is not ONE_INDEX)
    found = solve(summed, places, m.scalar(cotangent_term(e, element)))
    if found is None or _is_tried(found):
        return None
    return replace(found, found={**m.variables, **found.found})


def _is_tried(found: Solution) -> bool:
    """Whether a remaining summed variable contributes only at multiples of a size."""
    guards, _ = peel_guards(found.term)
    equations = (g.index for g in guards if isinstance(g, Cond) and g.op == "==")
    atoms = (a for e in equations if not e.free.isdisjoint(found.variables) for a in e.atoms)
    return any(isinstance(a, Mod) and a.denominator.constant is None for a in atoms)


def cotangent_term(e: Edge, element: ir.Scalar) -> ir.Scalar:
    """The term that a transposed edge adds at its source, over the edge's variables."""
    return expr.mul(expr.cast(element, e.weight.dtype), e.weight)


def matrix(e: Edge, columns: Sequence[Var | Index]) -> ir.Scalar:
    """The element of the edge's Jacobian at its target and `columns`."""
    found = _solved(e, _summed(e), columns, e.weight)
    if found is not None:
        return simplify(expr.reduce("sum", found.variables, found.term))
    agree = [cond("==", as_index(m) - s) for m, s in zip(columns, e.source, strict=True)]
    return expr.reduce("sum", _summed(e), expr.bracket(agree, e.weight))


def onto(rows: Sequence[Var], e: Edge) -> Edge:
    """The edge with these variables for the axes of its target."""
    targets = _targets(e)
    if targets == tuple(rows):
        return e
    m = Substitution(variables=dict(zip(targets, map(as_index, rows), strict=True)))
    variables = (*rows, *(v for v in e.variables if v not in targets))
    source, target = tuple(map(m.index, e.source)), tuple(map(as_index, rows))
    return replace(e, source=source, target=target, variables=variables, weight=m.scalar(e.weight))


def compose(later: Edge, earlier: Edge) -> Edge:
    """The edge of `later` after `earlier`, whose target is its result's own axes."""
    summed = _summed(earlier)
    fresh = tuple(Var(v.name, v.extent) for v in summed)
    at = dict(zip((t.single for t in earlier.target), later.source, strict=True))
    at |= {v: as_index(w) for v, w in zip(summed, fresh, strict=True)}
    m = Substitution(variables={v: i for v, i in at.items() if isinstance(v, Var)})
    weight = m.scalar(earlier.weight)
    return normalized(
        Edge(
            earlier.operand,
            tuple(map(m.index, earlier.source)),
            later.result,
            later.target,
            (*later.variables, *fresh),
            expr.mul(expr.cast(later.weight, weight.dtype), weight),
        )
    )


def add(edges: Sequence[Edge]) -> list[Edge]:
    """Merge edges between two arrays that share a target and a source."""
    out: list[Edge] = []
    for e in edges:
        for k, other in enumerate(out):
            rename = _same_source(other, e)
            if rename is not None:
                out[k] = replace(other, weight=_sum(other, rename.scalar(e.weight)))
                break
        else:
            out.append(e)
    return [e for e in out if not isinstance(e.weight, expr.Zero)]


def _same_source(a: Edge, b: Edge) -> Substitution | None:
    """The renaming of b's summed variables that equates both sources, or None."""
    ours, theirs = _summed(a), _summed(b)
    if len(ours) != len(theirs):
        return None
    singles = [(s.single, t.single) for s, t in zip(a.source, b.source, strict=True)]
    pairs = {t: s for s, t in singles if isinstance(t, Var) and t in theirs and isinstance(s, Var)}
    pairs |= dict(
        zip((v for v in theirs if v not in pairs), (v for v in ours if v not in pairs.values()), strict=False)
    )
    found = {v: w for v, w in pairs.items() if v.extent is w.extent}
    if len(set(found.values()) & set(ours)) < len(theirs):
        return None
    rename = Substitution(variables={v: as_index(w) for v, w in found.items()})
    return rename if all(rename.index(t) is s for s, t in zip(a.source, b.source, strict=True)) else None


def normalized(e: Edge) -> Edge:
    """Solve deltas on summed variables, and sum inside over variables that the source leaves free."""
    summed = _summed(e)
    guards, core = peel_guards(e.weight)
    equations = [g for g in guards if isinstance(g, Cond) and g.op == "==" and not g.free.isdisjoint(summed)]
    if equations:
        rest = under_guards(core, [g for g in guards if g not in equations])
        found = solve(summed, [c.index for c in equations], rest)
        if found is not None:
            m = Substitution(variables=found.found)
            source = tuple(map(m.index, e.source))
            e = replace(e, source=source, variables=(*_targets(e), *found.variables), weight=found.term)
            summed = found.variables
    fixed = frozenset().union(*(i.free for i in e.source))
    free = tuple(v for v in summed if v not in fixed)
    if free:
        guards, core = peel_guards(e.weight)
        inside = [g for g in guards if not g.free.isdisjoint(free)]
        weight = simplify(expr.reduce("sum", free, under_guards(core, inside)))
        weight = under_guards(weight, [g for g in guards if g not in inside])
        e = replace(e, variables=tuple(v for v in e.variables if v not in free), weight=in_range(weight, e))
    return e


def in_range(weight: ir.Scalar, e: Edge) -> ir.Scalar:
    """Guard the weight by the range of the edge's source, unless its own guards imply it."""
    needed = []
    for s, d in zip(e.source, e.operand.shape, strict=True):
        needed += [cond(">=", i) for i in (s, d - 1 - s) if not prove_nonnegative(i)]
    return expr.bracket(needed, weight)


def settled(e: Edge, out: list[ir.Statement]) -> Edge:
    """The edge with a weight that is one element or a multiple of it, under a few tests of data."""
    guards, core = peel_guards(e.weight)
    conds = [g for g in guards if isinstance(g, Cond)]
    tests = list(dict.fromkeys(g for g in guards if isinstance(g, ir.Scalar)))
    if _is_light(core) and len(tests) <= TESTS:
        return e
    if not _is_light(core):
        core = stored(f"{e.result.name}_by_{e.operand.name}", e.weight, e.variables, out)
    if len(tests) > TESTS:
        rest = expr.const(True, types.bool_)
        for t in tests[TESTS - 1 :]:
            rest = expr.apply("logical_and", rest, t)
        rest = stored(f"{e.result.name}_where", expr.bracket(conds, rest), e.variables, out)
        tests = [*tests[: TESTS - 1], rest]
    return replace(e, weight=under_guards(core, [*conds, *tests]))


def dense(edges: Sequence[Edge], out: list[ir.Statement]) -> Edge:
    """Edges between two arrays as one, whose weight is an array of all derivatives."""
    rows = _targets(edges[0])
    operand, result = edges[0].operand, edges[0].result
    columns = tuple(Var(f"m{k}", d) for k, d in enumerate(operand.shape))
    value = expr.add(*(expr.cast(matrix(e, columns), operand.dtype) for e in edges))
    weight = stored(f"{result.name}_by_{operand.name}", value, (*rows, *columns), out, every=True)
    return replace(edges[0], source=tuple(map(as_index, columns)), variables=(*rows, *columns), weight=weight)


def stored(
    name: str, value: ir.Scalar, variables: Sequence[Var], out: list[ir.Statement], every: bool = False
) -> ir.Scalar:
    """The element of a new array that holds the value, over the variables it depends on."""
    kept = [v for v in variables if every or v in value.free]
    fresh = tuple(Var(v.name, v.extent) for v in kept)
    rename = Substitution(variables={v: as_index(w) for v, w in zip(kept, fresh, strict=True)})
    ref = ir.Ref(name, value.dtype, [v.extent for v in fresh])
    out.append(ir.Build((ref,), fresh, (rename.scalar(value),)))
    return expr.get(ref, *kept)


def _is_light(e: ir.Scalar) -> bool:
    """Whether a scalar is a number, an element, or a multiple of an element."""
    if isinstance(e, ir.Mul):
        return len(e.args) == 2 and isinstance(e.args[0], ir.Const) and isinstance(e.args[1], ir.Get)
    return isinstance(e, ir.Const | ir.Get)


def _sum(e: Edge, other: ir.Scalar) -> ir.Scalar:
    """The sum of two edges' weights, with common guards in front."""
    return where_readable(guarded_sum((e.weight, other)), e.operand, e.source)


def _targets(e: Edge) -> tuple[Var, ...]:
    return tuple(t.single for t in e.target if isinstance(t.single, Var))


def _summed(e: Edge) -> tuple[Var, ...]:
    own = _targets(e)
    return tuple(v for v in e.variables if v not in own)


def _solved(e: Edge, unknown: tuple[Var, ...], columns: Sequence[Var | Index], term: ir.Scalar) -> Solution | None:
    return solve(unknown, [as_index(m) - i for m, i in zip(columns, e.source, strict=True)], term)
