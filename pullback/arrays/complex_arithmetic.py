"""Arithmetic of complex arrays by their parts, without undue overflow or underflow.

Operands near the ends of their range are first multiplied by a power of two, which is exact.
"""

from __future__ import annotations

from typing import Any, Final

from pullback.arrays.complex_parts import pair
from pullback.ir import types
from pullback.ir.types import DType
from pullback.records import dataclass
from pullback.tracing.arithmetic import choose, convert, elementwise
from pullback.tracing.array import Array
from pullback.tracing.complex_array import ComplexArray
from pullback.tracing.making import as_array


def real(name: str, *values: Any) -> Array:
    """Apply an elementwise function to parts."""
    return elementwise(name, *values)


@dataclass(frozen=True)
class Range:
    """The safe range of a floating-point type, with factors to scale into it, powers of four.

    Attributes:
        top: twice a larger number may overflow; `down` scales it below.
        bottom: a smaller number may be subnormal; `up` scales it so that even its last bit is normal.
        exponent: a bound x for which e^x and e^-x are normal numbers.
    """

    top: float
    down: float
    bottom: float
    up: float
    exponent: float


_RANGES: Final[dict[DType, Range]] = {
    types.f32: Range(2.0**124, 2.0**-4, 2.0**-80, 2.0**50, 80.0),
    types.f64: Range(2.0**1020, 2.0**-4, 2.0**-900, 2.0**110, 700.0),
}  # fmt: skip


def range_of(x: Array) -> Range:
    """The safe range of an array's type."""
    return _RANGES[x.settled]


def number(value: float, x: Array) -> Any:
    """A number of the type of x."""
    return value if x.weak is not None else convert(as_array(value), x.settled)


def both(a: Any, b: Any) -> Array:
    """Whether both conditions hold."""
    return real("logical_and", a, b)


def either(a: Any, b: Any) -> Array:
    """Whether at least one condition holds."""
    return real("logical_or", a, b)


def is_zero(x: Any) -> Array:
    """Whether x is 0 or -0."""
    return real("equal", x, 0.0)


def is_infinite(z: ComplexArray) -> Array:
    """Whether a part is infinite."""
    return either(real("isinf", z.real), real("isinf", z.imag))


def scaled(z: ComplexArray, by: Any) -> ComplexArray:
    """The product with a real number."""
    return pair(z.real * by, z.imag * by)


def balanced(z: ComplexArray) -> tuple[ComplexArray, Array, Array]:
    """Scale a number by a power of four away from overflow and underflow; return power and inverse too."""
    ends = range_of(z.real)
    size = real("maximum", real("abs", z.real), real("abs", z.imag))
    huge, tiny = real("greater", size, ends.top), real("less", size, ends.bottom)

    def power(down: float, up: float) -> Array:
        low, one, high = (number(v, z.real) for v in (down, 1.0, up))
        return choose(huge, low, choose(tiny, high, one))

    by = power(ends.down, ends.up)
    return scaled(z, by), by, power(1.0 / ends.down, 1.0 / ends.up)


def multiply(z: ComplexArray, w: ComplexArray) -> ComplexArray:
    """The product."""
    return pair(z.real * w.real - z.imag * w.imag, z.real * w.imag + z.imag * w.real)


def square(z: ComplexArray) -> ComplexArray:
    """The square."""
    twice = z.real * z.imag
    return pair((z.real - z.imag) * (z.real + z.imag), twice + twice)


def divide(z: ComplexArray, w: ComplexArray) -> ComplexArray:
    """The quotient; both parts are first divided by the larger part of the divisor (R. Smith, 1962).

    A finite number divided by an infinite one is 0. Division by 0 divides each part by 0.
    """
    (w, grown, _), (z, _, back) = balanced(w), balanced(z)
    by_real = real("greater_equal", real("abs", w.real), real("abs", w.imag))
    large, small = choose(by_real, w.real, w.imag), choose(by_real, w.imag, w.real)
    extreme = either(is_zero(large), real("isinf", large))
    ratio = choose(extreme, 0.0, small / choose(extreme, 1.0, large))
    below = large + small * ratio
    up, down = choose(by_real, z.real, z.imag), choose(by_real, z.imag, z.real)
    across = choose(by_real, down - up * ratio, up * ratio - down)
    factor = grown * back
    return pair((up + down * ratio) / below * factor, across / below * factor)


def absolute(z: ComplexArray) -> Array:
    """The absolute value."""
    return real("hypot", z.real, z.imag)


def sign(z: ComplexArray) -> ComplexArray:
    """The number of absolute value 1 in the direction of `angle`; 0 for 0."""
    z, _, _ = balanced(z)
    endless = is_infinite(z)

    def direction(a: Array) -> Array:
        return choose(endless, choose(real("isinf", a), real("copysign", number(1.0, a), a), 0.0 * a), a)

    z = pair(direction(z.real), direction(z.imag))
    size = absolute(z)
    nothing = is_zero(size)
    return pair(*(choose(nothing, 0.0, a / choose(nothing, 1.0, size)) for a in (z.real, z.imag)))
