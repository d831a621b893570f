"""Several divisions by one square root become products with its reciprocal.

Before    y = build n < N { 1 / sqrt(s[n]) / sqrt(s[n]) * (0.5 / sqrt(s[n])) }
After     y = build n < N { r * r * (0.5 * r) },  r = 1 / sqrt(s[n])

Forces between bodies, lengths and their derivatives divide by a distance several times, and each division waits for the
one before. A result is within a unit in the last place of the quotient. A reciprocal of other numbers may be infinite
where the quotient is not (`loops.vectors.reciprocals`). That of a root is not: a root lies between 1e-162 and 1e155
(f32: 1e-23 and 1e20), or is 0, infinite or NaN, where quotient and product are the same. Factors keep the order of the
divisions, as they may overflow in another.
"""

from __future__ import annotations

from collections import Counter

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.traverse import rebuilt, walk
from pullback.ir.walks import each_scalar
from pullback.rewrite.fired import fired


def share_reciprocals(program: ir.Program) -> ir.Program:
    """The program with one division for each root that divides several times."""
    return each_scalar(program, _shared)


def _shared(e: ir.Scalar) -> ir.Scalar:
    """The expression with shared reciprocals of roots."""
    times = Counter(d for n in walk(e, into_indices=False) if (d := _root(n)) is not None)
    if max(times.values(), default=0) < 2:
        return e
    made: dict[ir.Scalar, ir.Scalar] = {}
    for n in walk(e, into_indices=False):
        made[n], d = rebuilt(n, made), _root(n)
        if d is not None and times[d] > 1 and isinstance(n, ir.Apply):
            fired("roots.reciprocal")
            made[n] = expr.mul(made[n.args[0]], expr.apply("divide", expr.const(1, d.dtype), made[d]))
    return made[e]


def _root(n: ir.Scalar) -> ir.Scalar | None:
    """The square root that a quotient is divided by."""
    if not isinstance(n, ir.Apply) or n.primitive.name != "divide" or not n.dtype.is_floating:
        return None
    d = n.args[1]
    return d if isinstance(d, ir.Apply) and d.primitive.name == "sqrt" else None
