"""Divisions of a group that become products with a reciprocal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pullback.ir import expr
from pullback.ir.expr import Apply, Get, Mul, Ref, Scalar
from pullback.ir.index import Var
from pullback.ir.traverse import rebuilt, walk
from pullback.loops.vectors.nest import Nest


def with_reciprocals(nest: Nest, order: tuple[Var, ...]) -> Nest:
    """The nest with divisions as products; `order` is that of the loops around its points."""
    reciprocals = Reciprocals(order, nest.values, nest.definitions)
    made = nest.map(reciprocals.scalar)
    return replace(made, definitions={**made.definitions, **reciprocals.made})


class Reciprocals:
    """Divisions that become products with a reciprocal: by what is divided by again, or by less than the whole point.

    a[m, n] / (w[m] * h[n])  -->  a[m, n] * (1 / w[m]) * (1 / h[n]), of which one leaves a loop and one becomes a row.
    A reciprocal that is used again is a definition: it is not taken apart, and so overflows only where 1 / d does. The
    result differs by units of the last place, and for divisors (or factors of one) whose reciprocal overflows.
    """

    def __init__(
        self, order: tuple[Var, ...], values: Sequence[Scalar], definitions: Mapping[Ref, Scalar]
    ) -> None:
        self.order = order
        self.definitions = definitions
        self.made: dict[Ref, Scalar] = {}
        self.memo: dict[Scalar, Scalar] = {}
        self.known: dict[Scalar, Scalar] = {}
        self.times: dict[Scalar, int] = {}
        for n in dict.fromkeys(n for v in values for n in walk(v)):
            if isinstance(n, Apply) and n.primitive.name == "divide":
                self.times[n.args[1]] = self.times.get(n.args[1], 0) + 1

    def scalar(self, e: Scalar) -> Scalar:
        """The expression with its divisions so."""
        for n in walk(e, into_indices=False):
            if n not in self.memo:
                made = rebuilt(n, self.memo)
                self.memo[n] = self._divided(n, made) if isinstance(n, Apply) and n.primitive.name == "divide" else made
        return self.memo[e]

    def _divided(self, before: Apply, made: Scalar) -> Scalar:
        if not (isinstance(made, Apply) and made.primitive.name == "divide"):
            return made
        x, d = made.args
        if d not in self.known:
            parts = self._parts(d)
            again = self.times.get(before.args[1], 0) > 1
            if len(parts) < 2 and not again and not d.free < before.free:
                return made
            one = expr.const(1, made.dtype)
            r = expr.mul(*(expr.apply("divide", one, p) for p in parts))
            if again:
                free = [v for v in self.order if v in r.free]
                ref = Ref("reciprocal", r.dtype, tuple(v.extent for v in free))
                self.made[ref], r = r, expr.get(ref, *free)
            self.known[d] = r
        return expr.mul(x, self.known[d])

    def _parts(self, d: Scalar) -> list[Scalar]:
        """The divisor as factors of different variables."""
        value = self.definitions.get(d.ref, d) if isinstance(d, Get) else d
        factors = value.args if isinstance(value, Mul) else (value,)
        kinds = list(dict.fromkeys(f.free for f in factors))
        return [expr.mul(*(f for f in factors if f.free == k)) for k in kinds] if len(kinds) > 1 else [d]
