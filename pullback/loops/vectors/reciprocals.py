"""Products with a reciprocal: for slowly changing divisors, and where the reciprocal is a term."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeGuard

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.expr import apply, select
from pullback.ir.index import Var
from pullback.ir.traverse import rebuilt, rewrite, walk
from pullback.ir.types import f32, f64
from pullback.loops.vectors.nest import Nest

# Below the first and above the second number a reciprocal is infinite or loses bits; the third moves either inside.
LIMITS: Final = {f32: (2.0**-125, 2.0**124, 2.0**32), f64: (2.0**-1021, 2.0**1020, 2.0**64)}


def with_reciprocals(nest: Nest, order: tuple[Var, ...]) -> Nest:
    """The nest with divisions as products; `order` is the loop order."""
    reciprocals = Reciprocals(order)
    made = nest.map(lambda value: reciprocals.scalar(with_terms_shared(value)))
    return replace(made, definitions={**made.definitions, **reciprocals.made})


def with_terms_shared(e: ir.Scalar) -> ir.Scalar:
    """The expression with one division for each divisor of a sum that has its reciprocal as a term.

    1 / p - a / p / p  -->  r - a * r * r,  r = 1 / p

    Each term is within two units in the last place. Where r overflows the sum is not finite, before and after. Where r
    is subnormal, what it loses is below the last place of that term.
    """

    def shared(s: ir.Scalar) -> ir.Scalar | None:
        if not isinstance(s, ir.Add) or not s.dtype.is_floating:
            return None
        found = dict.fromkeys(d for t in s.args if (d := _inverted(t)) is not None and d.free == s.free)
        return expr.add(*(_multiplied(t, frozenset(found)) for t in s.args)) if found else None

    return rewrite(e, shared)


def _inverted(term: ir.Scalar) -> ir.Scalar | None:
    """The divisor that a term is the reciprocal of, but for a sign."""
    quotient = _unsigned(term)
    return quotient.args[1] if _is_division(quotient) and _is_unit(quotient.args[0]) else None


def _multiplied(term: ir.Scalar, divisors: frozenset[ir.Scalar]) -> ir.Scalar:
    """A term x / d / d as x * r * r; products keep their order, as they may overflow in another."""
    quotient = _unsigned(term)
    if quotient is not term and isinstance(term, ir.Mul):
        return expr.mul(term.args[0], _multiplied(quotient, divisors))
    if not _is_division(quotient):
        return term
    x, d = _multiplied(quotient.args[0], divisors), quotient.args[1]
    if d not in divisors or _is_unit(x):
        return apply("divide", x, d)
    return expr.mul(x, apply("divide", expr.const(1, d.dtype), d))


def _unsigned(term: ir.Scalar) -> ir.Scalar:
    return term.args[1] if isinstance(term, ir.Mul) and len(term.args) == 2 and _is_unit(term.args[0]) else term


def _is_division(e: ir.Scalar) -> TypeGuard[ir.Apply]:
    return isinstance(e, ir.Apply) and e.primitive.name == "divide"


def _is_unit(e: ir.Scalar) -> bool:
    return isinstance(e, ir.Const) and abs(e.value) == 1


class Reciprocals:
    """Divisions replaced by products with a reciprocal that depends on fewer variables.

    a[m, n] / w[m]  -->  a[m, n] * r[m],  r = 1 / w;  where w is near an end of its type, (s a) * r,  r = 1 / (s w)

    for a power of two s. The result differs from the quotient by at most one unit in the last place.
    """

    def __init__(self, order: tuple[Var, ...]) -> None:
        self.order = order
        self.made: dict[ir.Ref, ir.Scalar] = {}
        self.memo: dict[ir.Scalar, ir.Scalar] = {}
        self.known: dict[ir.Scalar, tuple[ir.Scalar, ir.Scalar]] = {}

    def scalar(self, e: ir.Scalar) -> ir.Scalar:
        """The expression with its divisions replaced."""
        for n in walk(e, into_indices=False):
            if n not in self.memo:
                made = rebuilt(n, self.memo)
                self.memo[n] = self._divided(n, made) if _is_division(n) else made
        return self.memo[e]

    def _divided(self, before: ir.Apply, made: ir.Scalar) -> ir.Scalar:
        if not (_is_division(made) and made.args[1].free < before.free):
            return made
        x, d = made.args
        if d not in self.known:
            whole = self._named("divisor", d) if isinstance(d, ir.Mul) else d
            low, high, step = (expr.const(v, d.dtype) for v in LIMITS[d.dtype])
            one, size = expr.const(1, d.dtype), apply("abs", whole)
            down = select(apply("greater", size, high), apply("divide", one, step), one)
            scale = self._named("scale", select(apply("less", size, low), step, down))
            self.known[d] = scale, self._named("reciprocal", apply("divide", one, expr.mul(scale, whole)))
        scale, inverse = self.known[d]
        usual = apply("equal", scale, expr.const(1, d.dtype))
        return expr.mul(select(usual, x, expr.mul(scale, x)), inverse)

    def _named(self, name: str, value: ir.Scalar) -> ir.Scalar:
        free = [v for v in self.order if v in value.free]
        ref = ir.Ref(name, value.dtype, tuple(v.extent for v in free))
        self.made[ref] = value
        return expr.get(ref, *free)
