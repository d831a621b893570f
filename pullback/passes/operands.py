"""Operands of contractions as arrays: lookups and tests happen once instead of for each term.

Before    y = build n < N, i < I { sum o < O, p < P {
              [i >= p, ...] a[n, o, i - p] > 0 ? h[n, o, (i - p) // 2] * w[o, p] : {} } }
After     g = build n < N, o < O, u < U { a[n, o, u] > 0 ? h[n, o, u // 2] : {} }
          w_sum = build { sum o < O, p < P { w[o, p] } }
          finite = build { isfinite(w_sum) }
          y = if finite { build n < N, i < I { sum o < O, p < P { [i >= p, ...] g[n, o, i - p] * w[o, p] } } }
              else { as before }

Fusion brings the guards of activations and the positions of pooling into the sums of convolutions' gradients. A factor
with its guards becomes an array if that has fewer elements than the sum has terms. The sum becomes a contraction. A
variable of the output and one of the sum that occur only as i - p are one axis of the array. The guards are then zeros,
as in `speculate`: the other factors must be finite, which is tested at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Cond, Data, Index, Var, as_index
from pullback.ir.program import map_blocks, with_fields
from pullback.ir.traverse import Substitution, indices_of, rewrite, walk
from pullback.passes.cost import is_inside, range_of, typical_size
from pullback.passes.speculate import WORTH, chosen_if_finite, looks
from pullback.records import dataclass
from pullback.rewrite.fired import fired

STEPS = (1, -1, 2, -2, 3, -3, 4, -4)  # of a sum's variable to one of the output's


def separate_operands(program: ir.Program) -> ir.Program:
    """Store guarded operands of contractions in separate arrays."""
    return program.with_body(_block(program.body))


def _block(block: ir.Block) -> ir.Block:
    out: list[ir.Statement] = []
    finite = looks(block)
    for s in block.statements:
        if isinstance(s, ir.Build):
            out += _build(s)
        elif isinstance(s, ir.Choose) and s.test in finite:
            out.append(with_fields(s, then=_block(s.then)))  # the other branch handles values that are not finite
        else:
            out.append(map_blocks(s, _block))
    return with_fields(block, statements=tuple(out))


def _build(s: ir.Build) -> list[ir.Statement]:
    sums = dict.fromkeys(n for v in s.values for n in walk(v) if isinstance(n, ir.Reduce))
    if len(sums) != 1:
        return [s]
    (total,) = sums
    found = _separated(s, total)
    if found is None:
        return [s]
    fired("operand.array")
    operand, term, others = found
    made = expr.reduce("sum", total.vars, term)
    values = tuple(rewrite(v, lambda e: made if e is total else None) for v in s.values)
    return [operand, *chosen_if_finite(s, values, others)]


@dataclass(frozen=True)
class _Guarded:
    """A sum's term: index conditions, guards that read data from the outside in, and factors."""

    conds: tuple[Cond, ...]
    guards: tuple[ir.Bracket | ir.Select, ...]
    factors: tuple[ir.Scalar, ...]


def _guarded(term: ir.Scalar) -> _Guarded:
    conds: list[Cond] = []
    guards: list[ir.Bracket | ir.Select] = []
    while True:
        match term:
            case ir.Bracket():
                if any(isinstance(a, Data) for c in term.conds for a in c.index.every_atom):
                    guards.append(term)
                else:
                    conds += term.conds
                term = term.arg
            case ir.Select() if isinstance(term.otherwise, ir.Zero):
                guards.append(term)
                term = term.then
            case _:
                return _Guarded(tuple(conds), tuple(guards), term.args if isinstance(term, ir.Mul) else (term,))


def _separated(s: ir.Build, total: ir.Reduce) -> tuple[ir.Build, ir.Scalar, list[ir.Ref]] | None:
    """The array of a guarded factor, the term that reads it, and the arrays that must be finite."""
    if total.op != "sum" or not total.dtype.is_floating:
        return None
    parts = _guarded(total.arg)
    terms = typical_size(v.extent for v in (*s.vars, *total.vars))
    if not parts.guards or not all(isinstance(f, ir.Get | ir.Const) for f in parts.factors):
        return None
    for f in parts.factors:
        free = f.free.union(*(_test_of(g) for g in parts.guards))
        if not _in_range(f, free, parts):
            continue
        others = [g for g in parts.factors if g is not f]
        read = list(dict.fromkeys(g.ref for g in others if isinstance(g, ir.Get)))
        if isinstance(f, ir.Const) or not read:
            continue
        operand, element = _operand(f, free, parts, s, total)
        if all(typical_size(r.shape) * WORTH <= terms for r in (operand.outs[0], *read)):
            return operand, expr.bracket(parts.conds, expr.mul(element, *others)), read
    return None


def _in_range(f: ir.Scalar, free: frozenset[Var], parts: _Guarded) -> bool:
    """Whether an operand's reads are in range without the conditions that involve other factors."""
    if all(c.free <= free or not c.free & free for c in parts.conds):
        return True
    own = [c for c in parts.conds if c.free <= free]
    return all(is_inside(g, own) for g in walk(_under(parts.guards, f)))


def _under(guards: Sequence[ir.Bracket | ir.Select], e: ir.Scalar) -> ir.Scalar:
    """A factor under all guards of its term."""
    for g in reversed(guards):
        e = expr.bracket(g.conds, e) if isinstance(g, ir.Bracket) else expr.select(g.test, e, g.otherwise)
    return e


def _operand(
    f: ir.Scalar, free: frozenset[Var], parts: _Guarded, s: ir.Build, total: ir.Reduce
) -> tuple[ir.Build, ir.Scalar]:
    """A factor with the guards as an array over the free variables of both, and its element in the sum."""
    value = expr.bracket([c for c in parts.conds if c.free <= free], _under(parts.guards, f))
    axes: dict[Var, Index] = {v: as_index(v) for v in (*s.vars, *total.vars) if v in free}
    for p in (v for v in total.vars if v in free):
        for i in (v for v in s.vars if v in axes):
            joined = next(_joined(value, i, p), None)
            if joined is not None:
                value, axis, index = joined
                axes = {(axis if v is i else v): (index if v is i else at) for v, at in axes.items() if v is not p}
                break
    places = _places(f, value)
    axes = {v: axes[v] for v in sorted(axes, key=lambda v: places.get(v, len(places)))}
    own = {v: Var(v.name, v.extent) for v in axes}
    value = Substitution(variables={v: as_index(w) for v, w in own.items()}).scalar(value)
    name = f.ref.name if isinstance(f, ir.Get) else "operand"
    out = ir.Ref(f"{name}_guarded", total.dtype, [v.extent for v in own.values()])
    return ir.Build((out,), tuple(own.values()), (value,), s.positions), expr.get(out, *axes.values())


def _places(f: ir.Scalar, value: ir.Scalar) -> dict[Var, int]:
    """The memory axis of each variable: of the factor's array, else of its guards' arrays.

    An operand in this order is computed and read in memory order, and all sums share one array.
    """
    gets = [g for g in walk(value) if isinstance(g, ir.Get)]
    own = [g for g in gets if isinstance(f, ir.Get) and g.ref is f.ref]
    places: dict[Var, int] = {}
    for g in (*own, *gets):
        for axis, index in enumerate(g.indices):
            for v in index.free:
                places.setdefault(v, axis)
    return places


def _test_of(g: ir.Bracket | ir.Select) -> frozenset[Var]:
    if isinstance(g, ir.Select):
        return g.test.free
    return frozenset[Var]().union(*(c.free for c in g.conds))


def _joined(value: ir.Scalar, i: Var, p: Var) -> Iterator[tuple[ir.Scalar, Var, Index]]:
    """The value over u = i - c p, if i and p occur only so: the value, u, and its definition."""
    first, last = i.extent.constant, p.extent.constant
    if first is None or last is None:
        return
    for c in _steps(value, i, p):
        least, greatest = min(0, -c * (last - 1)), first - 1 + max(0, -c * (last - 1))
        u = Var(i.name, greatest - least + 1)
        made = Substitution(variables={i: as_index(u) + least + as_index(p) * c}).scalar(value)
        if p in made.free:
            continue
        inside = range_of(u, made.conds if isinstance(made, ir.Bracket) else ())
        narrow = Var(i.name, inside[1] - inside[0] + 1)
        made = Substitution(variables={u: as_index(narrow) + inside[0]}).scalar(made)
        yield made, narrow, as_index(i) - as_index(p) * c - least - inside[0]


def _steps(value: ir.Scalar, i: Var, p: Var) -> list[int]:
    """The steps after which no index that is linear in i and p depends on p."""
    indices = dict.fromkeys(e for n in walk(value) for e in indices_of(n) if p in e.free)
    slopes = [(e.coefficient(i), e.coefficient(p)) for e in indices]
    linear = [(a, b) for a, b in slopes if a is not None and b is not None]
    return [c for c in STEPS if all(b + a * c is ZERO_INDEX for a, b in linear)]
