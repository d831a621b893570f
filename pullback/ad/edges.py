"""Local derivatives: each statement as a list of edges.

An edge is the linear operator by which a change of one operand changes the result of one statement:

    d out[target] = sum over the edge's variables of  weight * d operand[source]

`weight` is a scalar over the variables, of the operand's dtype; `source` and `target` are indices over them.
Forward mode applies edges, reverse mode transposes them: `transpose` gives

    sum over V of [M = source] * weight * cotangent[target]

with the bracket solved for as many of V as possible (`rewrite.brackets`).

The weights are the partial derivatives of the scalar rules of DeepDSL (8 log, 9 exp, 10 +, 11 *, 12 power,
14 sum, 15 element) and dF~ (D-Add, D-Mult, D-Div, D-Pow, D-Sin, ...), which the primitive table holds as rows.
Guards travel with them: under `where(c, f(x), g(x))` the weight of f is select(c, f', 0) with a structural zero,
so a NaN or infinity of the branch not taken never meets the cotangent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index, cond, floor_divide, modulo, prove
from pullback.ir.reduction import REDUCTIONS
from pullback.ir.traverse import Substitution, walk
from pullback.records import dataclass
from pullback.rewrite.fired import fired, step
from pullback.rewrite.normal_form import guarded_sum, peel_guards
from pullback.rewrite.steps import Local, LocalDerivative


@dataclass(frozen=True, eq=False)
class Edge:
    """The derivative of one statement's result with respect to one element expression of one operand."""

    operand: ir.Ref
    source: tuple[Index, ...]
    result: ir.Ref
    target: tuple[Index, ...]
    variables: tuple[Var, ...]
    weight: ir.Scalar


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of a statement, and statements that their weights need (argmax, suffix products).

    `instead`, if not empty, replaces the statement and gives such arrays besides its result.
    """

    edges: tuple[Edge, ...]
    helpers: tuple[ir.Statement, ...] = ()
    instead: tuple[ir.Statement, ...] = ()


def edges_of(s: ir.Build | ir.Scatter, active: set[ir.Ref]) -> Edges:
    """The edges from the active operands of a statement in normal form."""
    found = _edges_of(s, active)
    step(
        lambda: Local(
            s,
            tuple(LocalDerivative(e.result, e.operand, e.source, e.weight) for e in found.edges),
            (*found.instead, *found.helpers),
        )
    )
    return found


def _edges_of(s: ir.Build | ir.Scatter, active: set[ir.Ref]) -> Edges:
    if isinstance(s, ir.Scatter):
        fired("derivative.scatter")
        weights = partials(s.value, active, None)
        return Edges(tuple(Edge(g.ref, g.indices, s.out, s.indices, s.vars, w) for g, w in weights.items()))
    edges: list[Edge] = []
    helpers: list[ir.Statement] = []
    instead: list[ir.Statement] = []
    for out, value in zip(s.outs, s.values, strict=True):
        if value.refs.isdisjoint(active):
            continue
        fired("derivative.build")
        target = tuple(as_index(v) for v in s.vars)
        variables, body, weight = s.vars, value, None
        result: ir.Scalar | None = expr.get(out, *s.vars)
        if isinstance(value, ir.Get):
            fired("derivative.copy")
        if isinstance(value, ir.Reduce):
            fired("derivative." + value.op)
            variables, body, result = (*s.vars, *value.vars), value.arg, None  # the summed value is not the sum
            if value.op == "prod":
                weight, result, products = _products(value, s, out, helpers)
                instead += products
            else:
                weight = _reduction_weight(value, s, out, helpers)
        for g, w in partials(body, active, result).items():
            if weight is not None:
                w = expr.mul(expr.cast(weight, w.dtype), w)
            edges.append(Edge(g.ref, g.indices, out, target, variables, w))
    return Edges(tuple(edges), tuple(helpers), tuple(instead))


def unsolved(e: Edge, variables: tuple[Var, ...], term: ir.Scalar) -> ir.Scalar:
    """Sum over V of [M = source] * term: the transposed edge before its brackets are solved."""
    deltas = [cond("==", as_index(m) - i) for m, i in zip(variables, e.source, strict=True)]
    return expr.reduce("sum", e.variables, expr.bracket(deltas, term))


def _reduction_weight(value: ir.Reduce, s: ir.Build, out: ir.Ref, helpers: list[ir.Statement]) -> ir.Scalar | None:
    """The derivative d out / d argument for one argument of the reduction; None for a sum, where it is 1."""
    dtype = value.dtype
    match value.op:
        case "sum":
            return None
        case "max" | "min":
            position = argument_position(value, s, out)
            helpers.append(position)
            flat, total = ZERO_INDEX, as_index(1)
            for v in value.vars:
                flat = flat * v.extent + as_index(v)
                total = total * v.extent
            chosen = expr.data_index(expr.get(position.outs[0], *s.vars), total)
            return expr.bracket((cond("==", flat - chosen),), expr.const(1, dtype))
        case _:
            return expr.zero(dtype)


def _products(
    value: ir.Reduce, s: ir.Build, out: ir.Ref, helpers: list[ir.Statement]
) -> tuple[ir.Scalar, ir.Scalar, list[ir.Statement]]:
    """The product of all other arguments as prefix times suffix products: exact even at zeros.

        before[l] = a[0] .. a[l - 1]      after[l] = a[l + 1] .. a[L - 1]      d out / d a[l] = before[l] * after[l]

    Both are scans; the last state of the first is the product itself. With the arguments' own derivatives this takes
    four multiplications per argument. The quotient out / a[l] would fail at zeros.

    Returns:
        The weight, the stored argument, and statements that compute `out` and their operands.
    """
    variables = (*s.vars, *value.vars)
    fresh = tuple(Var(v.name, v.extent) for v in variables)
    rename = Substitution(variables={v: as_index(w) for v, w in zip(variables, fresh, strict=True)})
    elements = ir.Ref(f"{out.name}_factors", value.dtype, [v.extent for v in variables])
    made: list[ir.Statement] = [ir.Build((elements,), fresh, (rename.scalar(value.arg),), s.positions)]
    flat, total = ZERO_INDEX, as_index(1)
    for v in value.vars:
        flat = flat * v.extent + as_index(v)
        total = total * v.extent
    single = len(s.outs) == 1  # then the scan replaces the statement
    result = out if single else ir.Ref(out.name, out.dtype, out.shape)
    before = ir.Ref(f"{out.name}_before", value.dtype, (total, *out.shape))
    after = ir.Ref(f"{out.name}_after", value.dtype, (total, *out.shape))
    made += _running_product(elements, value.vars, total, (result, before), lambda t: t, s)
    if not single:
        made.insert(0, s)
    last = ir.Ref(f"{out.name}_all", value.dtype, out.shape)
    helpers += _running_product(elements, value.vars, total, (last, after), lambda t: total - 1 - t, s)
    weight = expr.mul(expr.get(before, flat, *s.vars), expr.get(after, total - 1 - flat, *s.vars))
    return weight, expr.get(elements, *variables), made


def _running_product(
    elements: ir.Ref,
    inner: Sequence[Var],
    total: Index,
    outs: tuple[ir.Ref, ir.Ref],
    at: Callable[[Index], Index],
    s: ir.Build,
) -> list[ir.Statement]:
    """The scan that gives the product so far at step t, in row-major order of the elements at(t)."""
    shape = elements.shape[: elements.rank - len(inner)]

    def build(name: str, value: Callable[..., ir.Scalar]) -> ir.Build:
        fresh = tuple(Var(f"i{k}", d) for k, d in enumerate(shape))
        return ir.Build((ir.Ref(name, elements.dtype, shape),), fresh, (value(*fresh),), s.positions)

    var = Var("t", total)
    place, digits = at(as_index(var)), []
    for v in reversed(inner[1:]):
        digits.append(modulo(place, v.extent))
        place = floor_divide(place, v.extent)
    digits.append(place)
    start = build(f"{outs[0].name}_one", lambda *i: expr.const(1, elements.dtype))
    so_far = ir.Ref(f"{outs[0].name}_so_far", elements.dtype, shape)
    step = build(so_far.name, lambda *i: expr.mul(expr.get(so_far, *i), expr.get(elements, *i, *reversed(digits))))
    body = ir.Block((step,), (step.outs[0], so_far))
    return [start, ir.Fold(outs, var, (so_far,), start.outs, body, s.positions)]


def argument_position(value: ir.Reduce, s: ir.Build, out: ir.Ref) -> ir.Build:
    """The statement that finds where a maximum or minimum is attained first."""
    op = REDUCTIONS[value.op].position
    assert op is not None
    total = as_index(1)
    for v in value.vars:
        total = total * v.extent
    fresh = [Var(v.name, v.extent) for v in s.vars]
    rename = Substitution(variables={v: as_index(w) for v, w in zip(s.vars, fresh, strict=True)})
    ref = ir.Ref(f"{out.name}_{op}", types.i64, [v.extent for v in fresh], (ZERO_INDEX, total))
    return ir.Build((ref,), tuple(fresh), (rename.scalar(expr.reduce(op, value.vars, value.arg)),), s.positions)


def partials(e: ir.Scalar, active: set[ir.Ref], result: ir.Scalar | None) -> dict[ir.Get, ir.Scalar]:
    """The derivative of e with respect to each active element it reads, in order of first use.

    `result` stands for e where its top is a primitive whose derivative reuses it. One backward walk over the
    expression, so shared subexpressions are visited once.
    """
    order = list(walk(e, into_indices=False))
    core = peel_guards(e)[1]
    adjoint: dict[ir.Scalar, list[ir.Scalar]] = {e: [expr.const(1, e.dtype)]} if e.dtype.is_floating else {}
    out: dict[ir.Get, ir.Scalar] = {}

    def give(node: ir.Scalar, weight: ir.Scalar | None) -> None:
        if node.refs.isdisjoint(active):
            fired("derivative.constant")
        if weight is not None and not isinstance(weight, expr.Zero) and not node.refs.isdisjoint(active):
            adjoint.setdefault(node, []).append(weight)

    for node in reversed(order):
        parts = adjoint.pop(node, None)
        if parts is None or not node.dtype.computed.is_floating:
            continue
        w = guarded_sum(parts)
        match node:
            case ir.Get():
                if node.ref in active:
                    fired("derivative.element")
                    out[node] = where_readable(w, node.ref, node.indices)
            case ir.Add():
                fired("derivative.add")
                for a in node.args:
                    give(a, w)
            case ir.Mul():
                fired("derivative.negative" if node.args[0] is expr.const(-1, node.dtype) else "derivative.multiply")
                for k, a in enumerate(node.args):
                    give(a, expr.mul(w, *node.args[:k], *node.args[k + 1 :]))
            case ir.Bracket():
                fired("derivative.bracket")
                give(node.arg, expr.bracket(node.conds, w))
            case ir.Select():
                fired("derivative.select")
                give(node.then, expr.select(node.test, w, expr.zero(w.dtype)))
                give(node.otherwise, expr.select(expr.apply("logical_not", node.test), w, expr.zero(w.dtype)))
            case ir.Cast():
                if node.arg.dtype.computed.is_floating:
                    fired("derivative.cast")
                    give(node.arg, expr.cast(w, node.arg.dtype.computed))
            case ir.Apply():
                fired("derivative." + node.primitive.name)
                if node.primitive.partials is not None:
                    stands = result if node is core and result is not None else node
                    for a, p in zip(node.args, node.primitive.partials(*node.args, out=stands), strict=True):
                        if isinstance(p, ir.Scalar) and not a.refs.isdisjoint(active):
                            give(a, expr.mul(w, p))
            case ir.Reduce():
                raise AssertionError("a reduction below the top: not in normal form")
            case _:
                pass
    return dict(reversed(out.items()))


def where_readable(weight: ir.Scalar, operand: ir.Ref, source: Sequence[Index]) -> ir.Scalar:
    """Guard the weight by the range of its source if only inner guards imply it.

    A sum of guarded terms, [i >= 1] a + [i >= 2] b, is zero where x[i - 1] is out of range. Without a guard its product
    would read x_dot[i - 1] there.
    """
    guards, core = peel_guards(weight)
    if not _each_guarded(core):
        return weight
    known = tuple(g for g in guards if isinstance(g, Cond))
    needed = [cond(">=", i) for s, d in zip(source, operand.shape, strict=True) for i in (s, d - 1 - s)]
    return expr.bracket([c for c in needed if not prove(c, known)], weight)


def _each_guarded(e: ir.Scalar) -> bool:
    """Whether every term of e is under a guard."""
    match e:
        case ir.Bracket():
            return True
        case ir.Select():
            return isinstance(e.otherwise, expr.Zero)
        case ir.Add():
            return all(map(_each_guarded, e.args))
        case ir.Mul():
            return any(map(_each_guarded, e.args))
        case ir.Cast():
            return _each_guarded(e.arg)
        case _:
            return False


def data_dependent(indices: tuple[Index, ...], variables: tuple[Var, ...]) -> bool:
    """Whether an index reads data at a place that depends on the variables."""
    return any(not a.free.isdisjoint(variables) for i in indices for a in i.data)
