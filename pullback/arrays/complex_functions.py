"""Analytic functions of complex arrays in terms of real and imaginary parts.

Each has the special values, branch cuts and signs of zero of C99, Annex G, where these are specified. The derivative is
a rule, because parts of a formula have none near the real axis, such as the absolute value of the imaginary part.

Sources: W. Kahan, Branch cuts for complex elementary functions, 1987 (inverse functions); T. E. Hull, T. F. Fairgrieve
and P. T. P. Tang, Implementing complex elementary functions using exception handling, 1994 (scaling).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from pullback.arrays.complex_arithmetic import (
    absolute,
    balanced,
    both,
    divide,
    either,
    is_infinite,
    is_zero,
    multiply,
    number,
    range_of,
    real,
    scaled,
)
from pullback.arrays.complex_parts import pair
from pullback.tracing.arithmetic import choose
from pullback.tracing.array import Array
from pullback.tracing.complex_array import ComplexArray
from pullback.tracing.custom import emit_call

Function = Callable[[ComplexArray], ComplexArray]
FAR: Final = 1e9  # beyond this, adding 1 to z or z² changes nothing


# Exponentials and hyperbolic functions ------------------------------------------------------------------------------


def _lost(z: ComplexArray) -> Array:
    """Whether the angle of an infinite or vanishing exponential is unknown."""
    return both(real("isinf", z.real), real("logical_not", real("isfinite", z.imag)))


def _in_steps(x: Array) -> tuple[Array, Array, Callable[[Array, Array], Array]]:
    """Whether x is large, the reduced exponent, and `grown(a, f(rest))`: a e^x without early overflow.

    A small number a is first multiplied by the powers of e that were split off. Each is under a choice, so that no
    rewrite can reorder the product.
    """
    limit = range_of(x).exponent
    once, twice = real("greater", x, limit), real("greater", x, 2 * limit)
    step = number(math.exp(limit), x)
    rest = x - choose(twice, number(2 * limit, x), choose(once, number(limit, x), number(0.0, x)))

    def grown(a: Array, f: Array) -> Array:
        a = choose(once, a * step, a)
        return choose(twice, a * step, a) * f

    return once, rest, grown


def _exp(z: ComplexArray) -> ComplexArray:
    (_, rest, grown), lost = _in_steps(z.real), _lost(z)
    size, zero = real("exp", rest), both(lost, real("less", z.real, 0.0))
    cos = choose(lost, 1.0, real("cos", z.imag))
    sin = choose(zero, 1.0, real("sin", z.imag))
    return pair(grown(cos, size), choose(is_zero(z.imag), z.imag, grown(sin, size)))


def _expm1(z: ComplexArray) -> ComplexArray:
    half, grown = real("sin", 0.5 * z.imag), _exp(z)
    turned = choose(is_zero(z.real), 0.0, real("expm1", z.real) * real("cos", z.imag))  # -0 becomes 0
    near = turned - 2.0 * half * half
    return pair(choose(real("less", real("abs", z.real), 1.0), near, grown.real - 1.0), grown.imag)


def _hyperbolic(z: ComplexArray) -> tuple[Callable[[Array], Array], Callable[[Array], Array], Array, Array]:
    """The products of a number with sinh x and with cosh x, then cos y and sin y, of z = x + i y.

    With m = e^|x| - 1 the first two are (m + m / (m + 1)) / 2 and (m + 1 + 1 / (m + 1)) / 2.
    """
    far, rest, grown = _in_steps(real("abs", z.real))
    less = real("expm1", rest)
    more = less + 1.0
    small = choose(far, 0.0, less / choose(far, 1.0, more))
    sinh = real("copysign", 0.5 * (choose(far, more, less) + small), z.real)
    cosh = 0.5 * (more + choose(far, 0.0, 1.0 / more))
    cos = choose(_lost(z), 1.0, real("cos", z.imag))
    return lambda a: grown(a, sinh), lambda a: grown(a, cosh), cos, real("sin", z.imag)


def _sinh(z: ComplexArray) -> ComplexArray:
    by_sinh, by_cosh, cos, sin = _hyperbolic(z)
    endless = both(is_zero(z.real), real("logical_not", real("isfinite", z.imag)))
    return pair(choose(endless, z.real, by_sinh(cos)), choose(is_zero(z.imag), z.imag, by_cosh(sin)))


def _cosh(z: ComplexArray) -> ComplexArray:
    by_sinh, by_cosh, cos, sin = _hyperbolic(z)
    endless = both(is_zero(z.real), real("logical_not", real("isfinite", z.imag)))
    zero = choose(endless, z.real, z.imag * real("copysign", number(1.0, z.real), z.real))
    return pair(by_cosh(cos), choose(either(endless, is_zero(z.imag)), zero, by_sinh(sin)))


def _tanh(z: ComplexArray) -> ComplexArray:
    """(1 - q²) / d + i 4 q sin y cos y / d, where q = e^(-2 |x|) and d = (1 - q)² + 4 q cos² y."""
    twice = -2.0 * real("abs", z.real)
    q, p, lost = real("exp", twice), real("expm1", twice), _lost(z)
    cos = choose(lost, 1.0, real("cos", z.imag))
    below = p * p + 4.0 * q * cos * cos
    along = real("copysign", p * (1.0 + q) / below, z.real)
    across = 4.0 * q * (real("sin", z.imag) * cos) / below
    across = choose(real("isinf", z.real), real("copysign", number(0.0, z.imag), z.imag), across)
    return pair(choose(is_zero(z.real), z.real, along), choose(is_zero(z.imag), z.imag, across))


# Logarithms and roots -----------------------------------------------------------------------------------------------


def _log_size(z: ComplexArray) -> Array:
    """The logarithm of |z|; near the unit circle log1p((x - 1) (x + 1) + y²) / 2, x the larger part."""
    a, b = real("abs", z.real), real("abs", z.imag)
    large, small = real("maximum", a, b), real("minimum", b, a)
    near = both(real("greater", large, 0.7), real("less", large, 1.2))
    close = 0.5 * real("log1p", choose(near, (large - 1.0) * (large + 1.0) + small * small, 0.0))
    w, by, _ = balanced(z)
    return choose(near, close, real("log", absolute(w)) - real("log", by))


def _log(z: ComplexArray) -> ComplexArray:
    return pair(_log_size(z), real("atan2", z.imag, z.real))


def _log1p(z: ComplexArray) -> ComplexArray:
    near = both(real("less", real("abs", z.real), 0.5), real("less", real("abs", z.imag), 0.5))
    shifted = _log(pair(z.real + 1.0, z.imag))
    inside = choose(near, z.real * (z.real + 2.0) + z.imag * z.imag, 0.0)
    return pair(choose(near, 0.5 * real("log1p", inside), shifted.real), shifted.imag)


def _sqrt(z: ComplexArray) -> ComplexArray:
    """The square root in the right half plane; the imaginary part has the sign of z's."""
    w, _, back = balanced(z)
    back = real("sqrt", back)
    nothing, endless = both(is_zero(z.real), is_zero(z.imag)), real("isinf", z.imag)
    size = real("sqrt", choose(nothing, 1.0, 0.5 * (real("abs", w.real) + absolute(w))))
    half = 0.5 * (real("abs", w.imag) / size)
    size, half = (choose(endless, real("abs", z.imag), v * back) for v in (size, half))
    right = either(real("greater_equal", z.real, 0.0), real("isnan", z.real))
    along, across = choose(right, size, half), real("copysign", choose(right, half, size), z.imag)
    return pair(choose(nothing, 0.0, along), choose(nothing, z.imag, across))


# Inverse functions --------------------------------------------------------------------------------------------------


def _one_less(z: ComplexArray) -> ComplexArray:
    return pair(1.0 - z.real, -z.imag)


def _one_more(z: ComplexArray) -> ComplexArray:
    return pair(1.0 + z.real, z.imag)


def _is_far(z: ComplexArray) -> Array:
    return either(*(real("greater", real("abs", a), FAR) for a in (z.real, z.imag)))


def _inside(z: ComplexArray) -> tuple[Array, ComplexArray]:
    """Whether z is far from the origin, and z with 0 in place of far values."""
    far = _is_far(z)
    return far, pair(choose(far, 0.0, z.real), choose(far, 0.0, z.imag))


def _acos(z: ComplexArray) -> ComplexArray:
    """Complex acos; far from the origin, the angle of z and log |2 z|."""
    far, w = _inside(z)
    u, v = _sqrt(_one_less(w)), _sqrt(_one_more(w))
    outside = real("copysign", _log_size(z) + math.log(2.0), -z.imag)
    along = choose(far, real("atan2", real("abs", z.imag), z.real), 2.0 * real("atan2", u.real, v.real))
    nothing = both(is_zero(z.real), real("isnan", z.imag))
    return pair(
        choose(nothing, math.pi / 2, along), choose(far, outside, real("asinh", v.real * u.imag - v.imag * u.real))
    )


def _asin(z: ComplexArray) -> ComplexArray:
    far, w = _inside(z)
    u, v = _sqrt(_one_less(w)), _sqrt(_one_more(w))
    outside = real("copysign", _log_size(z) + math.log(2.0), z.imag)
    angle = real("atan2", w.real, u.real * v.real - u.imag * v.imag)
    along = choose(far, real("atan2", z.real, real("abs", z.imag)), angle)
    return pair(
        choose(is_zero(z.real), z.real, along), choose(far, outside, real("asinh", u.real * v.imag - u.imag * v.real))
    )


def _acosh(z: ComplexArray) -> ComplexArray:
    """Complex acosh: acos rotated by a right angle into the right half plane."""
    w = _acos(z)
    return pair(real("abs", w.imag), real("copysign", w.real, z.imag))


def _atanh(z: ComplexArray) -> ComplexArray:
    """Complex atanh; its real part is log1p(4 |x| / ((1 - |x|)² + y²)) / 4.

    Near 1 and -1 it is the difference of two logarithms. Far from the origin it is atanh of 1 / z.
    """
    far, w = _inside(z)
    x, y = real("abs", w.real), w.imag
    rest = 1.0 - x
    near = both(real("less", real("abs", rest), 1.0 / FAR), real("less", real("abs", y), 1.0 / FAR))
    square = choose(near, 1.0, rest * rest + y * y)
    quotient = 0.25 * real("log1p", 4.0 * x / square)
    logs = 0.5 * (_log_size(pair(1.0 + x, y)) - _log_size(pair(rest, y)))
    turn = real("atan2", 2.0 * y, rest * (1.0 + x) - y * y)
    inverse = _inverse(z)
    along = real("copysign", choose(far, real("abs", inverse.real), choose(near, logs, quotient)), z.real)
    across = 0.5 * choose(far, real("atan2", 2.0 * inverse.imag, -1.0), turn)
    return pair(choose(is_zero(z.real), z.real, along), across)


def _inverse(z: ComplexArray) -> ComplexArray:
    """Return `z / |z|²`: zeros for infinite z; NaN parts stay."""
    half, endless = scaled(z, 0.5), is_infinite(z)
    size = absolute(half)
    known = choose(either(endless, is_zero(size)), 1.0, size)
    x, y = (0.5 * (a / known) / known for a in (half.real, half.imag))
    zero = real("copysign", number(0.0, z.real), z.real), real("copysign", number(0.0, z.imag), z.imag)
    return pair(choose(endless, zero[0], x), choose(both(endless, real("equal", z.imag, z.imag)), zero[1], y))


def _turned(f: Function) -> Function:
    """-i f(i z): sin from sinh, and so on."""

    def g(z: ComplexArray) -> ComplexArray:
        w = f(pair(-z.imag, z.real))
        return pair(w.imag, -w.real)

    return g


def _cos(z: ComplexArray) -> ComplexArray:
    return _cosh(pair(-z.imag, z.real))


# Derivatives --------------------------------------------------------------------------------------------------------


def analytic(name: str, f: Function, derivative: Callable[..., ComplexArray]) -> Function:
    """Give a function the derivative rule `derivative(z, f(z))`."""

    def jvp(primals: Any, out: ComplexArray, tangents: Any) -> ComplexArray:
        return multiply(derivative(primals[0], out), tangents[0])

    def function(z: ComplexArray) -> ComplexArray:
        out: ComplexArray = emit_call(name, f, (z,), jvp) if z.real.weak is None else f(z)
        return out

    return function


def _over(*divisors: ComplexArray) -> ComplexArray:
    """Return 1 divided by one number after another."""
    x = divisors[0].real
    out = pair(number(1.0, x), number(0.0, x))
    for d in divisors:
        out = divide(out, d)
    return out


def _times_i(z: ComplexArray) -> ComplexArray:
    return pair(-z.imag, z.real)


def _negative(z: ComplexArray) -> ComplexArray:
    return pair(-z.real, -z.imag)


exp: Final = analytic("exp", _exp, lambda z, w: w)
expm1: Final = analytic("expm1", _expm1, lambda z, w: exp(z))
log: Final = analytic("log", _log, lambda z, w: _over(z))
log1p: Final = analytic("log1p", _log1p, lambda z, w: _over(_one_more(z)))
sqrt: Final = analytic("sqrt", _sqrt, lambda z, w: _over(scaled(w, 2.0)))
sinh: Final = analytic("sinh", _sinh, lambda z, w: cosh(z))
cosh: Final[Function] = analytic("cosh", _cosh, lambda z, w: sinh(z))
sin: Final = analytic("sin", _turned(_sinh), lambda z, w: cos(z))
cos: Final[Function] = analytic("cos", _cos, lambda z, w: _negative(sin(z)))
tanh: Final = analytic("tanh", _tanh, lambda z, w: _over(cosh(z), cosh(z)))
tan: Final = analytic("tan", _turned(_tanh), lambda z, w: _over(cos(z), cos(z)))


def _roots(z: ComplexArray) -> ComplexArray:
    """1 / sqrt(1 - z²), without a square."""
    return _over(sqrt(_one_less(z)), sqrt(_one_more(z)))


def _poles(z: ComplexArray) -> ComplexArray:
    """1 / (1 - z²), without a square."""
    return _over(_one_less(z), _one_more(z))


asin: Final = analytic("asin", _asin, lambda z, w: _roots(z))
acos: Final = analytic("acos", _acos, lambda z, w: _negative(_roots(z)))
asinh: Final = analytic("asinh", _turned(_asin), lambda z, w: _roots(_times_i(z)))
acosh: Final = analytic("acosh", _acosh, lambda z, w: _over(sqrt(_negative(_one_less(z))), sqrt(_one_more(z))))
atanh: Final = analytic("atanh", _atanh, lambda z, w: _poles(z))
atan: Final = analytic("atan", _turned(_atanh), lambda z, w: _poles(_times_i(z)))
