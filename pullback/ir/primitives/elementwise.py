"""Arithmetic, rounding and choice: divide, floor_divide, remainder, power, abs, sign, floor and more.

Addition, multiplication and negation are nodes of the IR and have no row. Integers wrap, `//` and `%` floor,
division by zero gives 0.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from pullback.ir import nodes as ir
from pullback.ir import semantics
from pullback.ir.expr import apply, select, zero
from pullback.ir.notation import (
    copysign,
    divide,
    equal,
    floor_divide,
    greater_equal,
    isfinite,
    less,
    less_equal,
    log,
    logical_and,
    logical_or,
    not_equal,
    number,
    one,
    power,
    sign,
)
from pullback.ir.primitive import PRIMITIVES, Primitive

NDArray = np.ndarray[Any, Any]
Partial = tuple[ir.Scalar | None, ...]

NUMBERS: Final = ("floating", "signed", "unsigned")
STEPS: Final = "piecewise constant: its derivative is zero wherever it exists"


def _divide_partials(a: ir.Scalar, b: ir.Scalar, out: ir.Scalar) -> Partial:
    # d(a/b) = da/b - (a/b) db/b
    return one(a) / b, -(out / b)


DIVIDE: Final = PRIMITIVES.add(Primitive(
    "divide", "Quotient a / b of floating-point numbers.", 2, np.divide,
    partials=_divide_partials, infix="/", cost=4, domain=(0.5, 3.0),
))

FLOOR_DIVIDE: Final = PRIMITIVES.add(Primitive(
    "floor_divide", "Largest integer not above a / b; 0 for integers where b is 0.", 2, semantics.floor_divide,
    kinds=NUMBERS, no_derivative=STEPS, infix="//", cost=8, domain=(-9.0, 9.0),
))


def _remainder_partials(a: ir.Scalar, b: ir.Scalar, out: ir.Scalar) -> Partial:
    # a - b floor(a / b), where the floor is locally constant
    return one(a), -floor_divide(a, b)


REMAINDER: Final = PRIMITIVES.add(Primitive(
    "remainder", "a - b * floor(a / b), with the sign of b; 0 for integers where b is 0.", 2, semantics.remainder,
    kinds=NUMBERS, partials=_remainder_partials, infix="%", cost=8, domain=(0.6, 9.0),
))


def _power(a: NDArray, b: NDArray) -> NDArray:
    """Power a ** b. Integers wrap; negative exponents give 0 unless a is 1 or -1."""
    if a.dtype.kind != "i":
        # NumPy takes the square root for one exponent of 0.5, which differs at -infinity and -0
        return np.asarray(np.power(a, np.array(np.broadcast_to(b, np.broadcast_shapes(a.shape, b.shape)))))
    unit = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0))
    return np.asarray(np.where(b < 0, unit, np.power(a, np.where(b < 0, 0, b))), a.dtype)


def _power_partials(x: ir.Scalar, y: ir.Scalar, out: ir.Scalar) -> Partial:
    # d/dx = y x^(y-1), which is 0 for y = 0 and any x; d/dy = x^y log x, which is 0 at x = 0 for y >= 0. At y = 0 the
    # first is no constant 0: it has a derivative by y, and is guarded only where 0 * x^-1 would be NaN
    if isinstance(y, ir.Const):
        return _constant_power_partial(x, float(y.value)), None
    nought = number(0, x)
    plain = select(logical_or(not_equal(y, nought), isfinite(divide(one(x), x))), y * power(x, y - 1), zero(x.dtype))
    # for small y by x^y y / x: x^(y-1) and its derivatives overflow where x^y is near 1
    small = logical_and(less(apply("abs", y), number(0.5, y)), not_equal(x, nought))
    by_x = select(small, out * divide(y, x), plain)
    if isinstance(x, ir.Const) and x.value > 0:
        return None, out * log(x)
    by_y = select(logical_or(not_equal(x, nought), less(y, nought)), out * log(x), zero(x.dtype))
    return (None if isinstance(x, ir.Const) else by_x), by_y


def _constant_power_partial(x: ir.Scalar, c: float) -> ir.Scalar:
    if c == 0:
        return zero(x.dtype)
    if c == 1:
        return one(x)
    if c == 2:
        return 2 * x
    if c == 3:
        return 3 * (x * x)
    return c * power(x, number(c - 1, x))


POWER: Final = PRIMITIVES.add(Primitive(
    "power", "a raised to the power b; integers wrap, and negative exponents give 0 but for bases 1 and -1.", 2, _power,
    kinds=NUMBERS, partials=_power_partials, transcendental=True, infix="**", cost=40, domain=(0.2, 3.0),
))

ABS: Final = PRIMITIVES.add(Primitive(
    "abs", "Absolute value; the smallest signed integer stays as it is. The derivative at 0 is 0.", 1, np.abs,
    kinds=NUMBERS, partials=lambda x, out: (sign(x),),
))

SIGN: Final = PRIMITIVES.add(Primitive(
    "sign", "-1, 0 or 1 by the sign of x; NaN for NaN.", 1, np.sign,
    kinds=NUMBERS, no_derivative=STEPS,
))

COPYSIGN: Final = PRIMITIVES.add(Primitive(
    "copysign", "The magnitude of a with the sign of b, which -0.0 and NaN have too. At a = 0 the derivative is 0.", 2,
    np.copysign, partials=lambda a, b, out: (sign(a) * copysign(one(a), b), None),
    domain=(-3.0, 3.0),
))

NEXTAFTER: Final = PRIMITIVES.add(Primitive(
    "nextafter", "The number next to a on the way to b; b where they are equal. It moves with a.", 2, np.nextafter,
    partials=lambda a, b, out: (one(a), None), domain=(-3.0, 3.0),
))

FLOOR: Final = PRIMITIVES.add(Primitive(
    "floor", "Largest integer not above x.", 1, np.floor, no_derivative=STEPS))
CEIL: Final = PRIMITIVES.add(Primitive(
    "ceil", "Smallest integer not below x.", 1, np.ceil, no_derivative=STEPS))
ROUND: Final = PRIMITIVES.add(Primitive(
    "round", "Nearest integer, halves to the even one.", 1, np.rint, no_derivative=STEPS))
TRUNC: Final = PRIMITIVES.add(Primitive(
    "trunc", "x without its fraction.", 1, np.trunc, no_derivative=STEPS))


def _maximum_partials(a: ir.Scalar, b: ir.Scalar, out: ir.Scalar) -> Partial:
    return select(greater_equal(a, b), one(a), zero(a.dtype)), select(less(a, b), one(a), zero(a.dtype))


def _minimum_partials(a: ir.Scalar, b: ir.Scalar, out: ir.Scalar) -> Partial:
    return select(less_equal(a, b), one(a), zero(a.dtype)), select(less(b, a), one(a), zero(a.dtype))


MAXIMUM: Final = PRIMITIVES.add(Primitive(
    "maximum", "The larger of a and b; NaN if either is. On ties the derivative goes to a.", 2, np.maximum,
    kinds=NUMBERS, partials=_maximum_partials,
))

MINIMUM: Final = PRIMITIVES.add(Primitive(
    "minimum", "The smaller of a and b; NaN if either is. On ties the derivative goes to a.", 2, np.minimum,
    kinds=NUMBERS, partials=_minimum_partials,
))

def _hypot_partials(a: ir.Scalar, b: ir.Scalar, out: ir.Scalar) -> Partial:
    # a / out and b / out; both are 0 where out is 0, a kink like that of abs. An operand alone infinite gives ±1
    length = select(equal(out, number(0, out)), one(out), out)

    def share(x: ir.Scalar, other: ir.Scalar) -> ir.Scalar:
        alone = logical_and(equal(apply("abs", x), number(math.inf, x)), isfinite(other))
        return select(alone, sign(x), divide(x, length))

    return share(a, b), share(b, a)


HYPOT: Final = PRIMITIVES.add(Primitive(
    "hypot", "Length sqrt(a² + b²) without undue overflow. The derivative at 0 is 0.", 2, np.hypot,
    partials=_hypot_partials, cost=10, domain=(0.3, 3.0),
))
