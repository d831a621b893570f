"""The incomplete gamma and beta functions, for all parameters, in a fixed number of steps.

Every element takes the same steps, without branches. Where a parameter is small, series and continued fractions are
used; the number of steps does not depend on the argument. Where all parameters are large, the Gauss-Legendre rule
integrates the density from the argument to where it vanishes. The steps are differentiated by the parameters: they
compute with numbers that carry derivatives (`Moving`).
"""

from __future__ import annotations

import math
from typing import Any, Final

from pullback.arrays.creation import ones_like, zeros_like
from pullback.arrays.elementwise import convert, elementwise, exp, expm1, log, maximum, minimum, sqrt, where
from pullback.arrays.manipulation import broadcast_to
from pullback.source import user_position
from pullback.special.elements import floating
from pullback.special.gamma import lgamma_above, stirling_ratio, stirling_slope
from pullback.special.moving import DECAY, Moving, constant, excess, integral, logarithm, loop
from pullback.tracing.arithmetic import broadcast_extents
from pullback.tracing.array import Array, from_index
from pullback.tracing.custom import emit_call

STEPS: Final = 100  # terms of the series and of the fractions
LEAST: Final = 1e-300  # smaller parameters are replaced by it: quotients by them would overflow
LARGE: Final = 25.0  # the integral is used for parameters from here on


def _together(name: str, *values: Any) -> list[Array]:
    """Convert the operands to their common floating-point type and broadcast them."""
    operands = floating(name, values)
    shape = tuple(map(from_index, broadcast_extents(name, operands, user_position())))
    return [broadcast_to(h, shape) for h in operands]


# Gamma --------------------------------------------------------------------------------------------------------------


def _gamma_logarithms(a: Array, x: Array) -> tuple[Array, Array]:
    """For x = a (1 + μ): a (μ - log(1 + μ)), and log(1 + μ)."""
    mu, ratio = (x - a) / a, x / a
    return a * excess(mu, ratio), logarithm(mu, ratio)


def _gamma_front(a: Array, x: Array, count: int) -> Moving:
    """x^a e^-x / Γ(a + 1)."""
    a = maximum(a, LEAST)
    decay, ratio = _gamma_logarithms(a, x)
    value = exp(-decay) / stirling_ratio(a)
    return Moving(value, (value * (ratio - stirling_slope(a)),) * count)


def _series(a: Moving, x: Array, count: int) -> Moving:
    """The series Σ n ≥ 0: x^n / ((a + 1) ... (a + n)), DLMF 8.11.4."""

    def step(state: Any, n: Any) -> Any:
        term, total = state
        term = term * x / (a + (n + 1))
        return term, total + term

    one = constant(ones_like(x), count)
    return loop(STEPS, (one, one), step)[1]


def _fraction(a: Moving, x: Array, count: int) -> Moving:
    """The reciprocal of Legendre's continued fraction (DLMF 8.9.2), evaluated from its end.

    The fraction is x + 1 - a + 1 (a - 1) / (x + 3 - a + ...).
    """

    def step(state: Any, n: Any) -> Any:
        k = STEPS - n  # as indices, which are exact: sums of numbers may be taken in another order
        return (-a + (x + (2 * k - 1)) + (a - k) * k / state[0],)

    last = constant(x + (2 * STEPS + 1.0), count) - a
    return loop(STEPS, (last,), step)[0].inverse()


def _gamma_integral(a: Moving, x: Array, low: Array, count: int) -> Moving:
    """The integral of the density below or above x, divided by x times the density at x."""
    side = where(low, -1.0, 1.0)
    # a select here and a quotient below, since sums may be reordered: x - a must be computed first
    gap = Moving(where(low, a.value - x, x - a.value), tuple(-side * s for s in a.slopes))
    slope, bend = gap + side, a - 1
    p, q = slope.value, bend.value
    # the lower integral ends where p t + q t² / 2 = 40 or t = 1, the upper where p t + q t² / (2 + 2 t) = 40
    down = minimum(2 * DECAY / (p + sqrt(p * p + 2 * DECAY * q)), 1.0)
    root = sqrt((p - DECAY) * (p - DECAY) + 2 * DECAY * (2 * p + q))
    up = where(p > DECAY, 2 * DECAY / (p - DECAY + root), (root - (p - DECAY)) / (2 * p + q))
    end = elementwise("stop_gradient", where(low, down, up))
    return integral(lambda t: slope * t + bend * excess(side * t), end, count)


def _gamma_parts(a: Array, x: Array, moves: bool) -> tuple[Array, Moving]:
    """Return whether x is low, and the lower function where it is, the upper function elsewhere."""
    count = int(moves)
    low, large = x < a + 1, a >= LARGE
    x = where((x > 0) & (x < math.inf), x, 1.0)

    def moved(value: Array) -> Moving:
        return Moving(value, (ones_like(a),) * count)

    series = _series(moved(where(large, 1.0, a)), where(low & ~large, x, 1.0), count)
    own = moved(where(low | large, 0.5, a))
    fraction = _fraction(own, where(low, 2.0, x), count) * own
    whole = moved(where(large, a, LARGE))
    tail = _gamma_integral(whole, x, low & large, count) * whole
    return low, _choose(large, tail, _choose(low, series, fraction)) * _gamma_front(a, x, count)


def _choose(condition: Array, first: Moving, second: Moving) -> Moving:
    slopes = tuple(where(condition, s, t) for s, t in zip(first.slopes, second.slopes))
    return Moving(where(condition, first.value, second.value), slopes)


def _gamma_value(a: Array, x: Array, value: Array, start: float) -> Array:
    """The value inside of the domain, its limits at the ends, and NaN elsewhere."""
    lower = where((a == 0) | (x == math.inf), 1.0 - start, where((x == 0) | (a == math.inf), start, value))
    ends = ((a == 0) & (x == 0)) | ((a == math.inf) & (x == math.inf))
    return where((a >= 0) & (x >= 0) & ~ends, lower, math.nan)


def _lower(a: Array, x: Array) -> Array:
    low, part = _gamma_parts(a, x, moves=False)
    return _gamma_value(a, x, where(low, part.value, 1 - part.value), 0.0)


def _upper(a: Array, x: Array) -> Array:
    low, part = _gamma_parts(a, x, moves=False)
    above = where(low, where(a < 1, _upper_of_small(a, x), 1 - part.value), part.value)
    return _gamma_value(a, x, above, 1.0)


def _upper_of_small(a: Array, x: Array) -> Array:
    """1 - x^a / Γ(a + 1) (1 + a Σ n ≥ 1: (-x)^n / ((a + n) n!)), DLMF 8.7.1, for a < 1 and x < 2."""
    inside = (a < 1) & (x > 0) & (x < 2)
    a, x = where(inside, a, 0.5), where(inside, x, 1.0)
    total: Any = 0.0
    for n in range(25, 0, -1):
        total = (total + 1 / (a + n)) * (-x / n)
    power = a * log(x) - lgamma_above(a)
    return -expm1(power) - exp(power) * a * total  # type: ignore[no-any-return]


def lower_by_a(a: Array, x: Array) -> Array:
    """The derivative of `gammainc` by a."""
    low, part = _gamma_parts(a, x, moves=True)
    inside = (x > 0) & (x < math.inf)
    slope = where(inside, where(low, part.slopes[0], -part.slopes[0]), 0.0)
    return where((a > 0) & (a < math.inf) & (x >= 0), slope, math.nan)


def density_by_x(a: Array, x: Array) -> Array:
    """x^(a - 1) e^-x / Γ(a), DLMF 8.8.13."""
    inside = (x > 0) & (x < math.inf)
    safe = where(inside, x, 1.0)
    edge = where((x > 0) | (a > 1), 0.0, where(a == 1, 1.0, math.inf))
    decay, ratio = _gamma_logarithms(maximum(a, LEAST), safe)
    value = where(inside, exp(-decay - ratio) / stirling_ratio(a), edge)
    return where((a > 0) & (a < math.inf) & (x >= 0), value, math.nan)


def _lower_jvp(primals: Any, out: Array, tangents: Any) -> Array:
    (a, x), (a_dot, x_dot) = primals, tangents
    return density_by_x(a, x) * x_dot + lower_by_a(a, x) * a_dot  # type: ignore[no-any-return]


def _upper_jvp(primals: Any, out: Array, tangents: Any) -> Array:
    return -_lower_jvp(primals, out, tangents)


def gammainc(a: Any, x: Any, /) -> Array:
    """The regularized lower incomplete gamma function, 0 to 1, for a > 0, x >= 0. Operands broadcast.

    For a below 25 it is a series where x < a + 1, and Legendre's continued fraction beyond (DLMF 8.11.4, 8.9.2). From
    25 on, the Gauss-Legendre rule integrates the density. NaN for NaN and outside of the domain. Error: 10 units in the
    last place, plus the effect of one unit in a and x. Derivative: by x the density (8.8.13); by a, the steps are
    differentiated.

    >>> a = np.array([1.0, 1e8])
    >>> pb.function(lambda a, x: pb.special.gammainc(a, x))(a, a).round(9).tolist()
    [0.632120559, 0.500013298]
    """
    return _wide("gammainc", _lower, _lower_jvp, a, x)


def gammaincc(a: Any, x: Any, /) -> Array:
    """The regularized upper incomplete gamma function, 1 - `gammainc`, accurate when small. Broadcasts.

    >>> pb.function(lambda a, x: pb.special.gammaincc(a, x))(np.array([1.0]), np.array([1.0])).round(9).tolist()
    [0.367879441]
    """
    return _wide("gammaincc", _upper, _upper_jvp, a, x)


def _wide(name: str, body: Any, jvp: Any, *values: Any) -> Array:
    """Compute the function in f64 for operands of any type."""
    operands = _together(name, *values)
    dtype = operands[0].settled
    out: Array = emit_call(name, body, tuple(convert(h, "float64") for h in operands), jvp)
    return convert(out, dtype)


# Beta ---------------------------------------------------------------------------------------------------------------


def _beta_logarithms(a: Array, b: Array, x: Array) -> tuple[Array, Array, Array]:
    """Return a (u - log(1 + u)) + b (v - log(1 + v)), log(1 + u) and log(1 + v).

    Here x = (1 + u) a / (a + b) and 1 - x = (1 + v) b / (a + b): u and v are the relative distances from the means.
    """
    off = b * x - a * (1 - x)
    u, v, total = off / a, -off / b, a + b
    own, other = x * (total / a), (1 - x) * (total / b)
    return a * excess(u, own) + b * excess(v, other), logarithm(u, own), logarithm(v, other)


def _beta_ratio(a: Array, b: Array) -> Array:
    return stirling_ratio(a + b) / (stirling_ratio(a) * stirling_ratio(b))


def _beta_front(a: Array, b: Array, x: Array, count: int) -> Moving:
    """(a + b) / (a b) x^a (1 - x)^b / B(a, b)."""
    decay, own, other = _beta_logarithms(a, b, x)
    value = _beta_ratio(a, b) * exp(-decay)
    slope = stirling_slope(a + b)
    slopes = own + (slope - stirling_slope(a)), other + (slope - stirling_slope(b))
    return Moving(value, tuple(value * s for s in slopes[:count]))


def _beta_fraction(a: Moving, b: Moving, x: Array) -> Moving:
    """Evaluate the fraction of Didonato and Morris (1992, 4.5) from its end, without cancellation."""
    off = a * (1 - x) - b * x + 1

    def denominator(n: Any) -> Moving:
        first: Moving = (b - n) * (n * x) / (a + (2 * n - 1))
        second: Moving = (a + n) * (off + n * (2 - x)) / (a + (2 * n + 1))
        total: Moving = first + second + n
        return total

    def step(state: Any, k: Any) -> Any:
        n = STEPS - k
        root = a + (2 * n - 1)
        numerator = (a + (n - 1)) * (a + b + (n - 1)) * ((b - n) * n * (x * x)) / (root * root)
        return (denominator(n - 1) + numerator / state[0],)

    rest = loop(STEPS - 1, (denominator(STEPS),), step)[0]
    first = (a + b) * ((b - 1) * (x * x)) / ((a + 1) * (a + 1))  # both terms of n = 1 are divided by a
    return (off / (a + 1) + first / rest).inverse()


def _beta_integral(a: Moving, b: Moving, x: Array) -> Moving:
    """The integral of the density from 0 to x, divided by x times the density at x."""
    odds = x / (1 - x)
    slope, own, other = (a * (1 - x) - b * x) / (1 - x) + (odds - 1), a - 1, b - 1
    p, q, r = slope.value, own.value, other.value
    # as for gamma: either part of the decay alone ends the integral
    first = 2 * DECAY / (p + sqrt(p * p + 2 * DECAY * q))
    low, bend = p / odds, r
    root = sqrt((low - DECAY) * (low - DECAY) + 2 * DECAY * (2 * low + bend))
    second = where(low > DECAY, 2 * DECAY / (low - DECAY + root), (root - (low - DECAY)) / (2 * low + bend)) / odds
    end = elementwise("stop_gradient", minimum(minimum(first, second), 1.0))
    return integral(lambda t: slope * t + own * excess(-t) + other * excess(odds * t), end, len(a.slopes))


def _beta_parts(a: Array, b: Array, x: Array, moves: bool) -> tuple[Array, Moving]:
    """Return whether x is not mirrored, and I(a, b, x) where it is not, I(b, a, 1 - x) elsewhere."""
    a, b = maximum(a, LEAST), maximum(b, LEAST)
    low, large = x <= (a + 1) / (a + b + 2), minimum(a, b) >= LARGE
    x = where((x > 0) & (x < 1), x, 0.5)
    zero, one = zeros_like(a), ones_like(a)
    p, q, y = where(low, a, b), where(low, b, a), where(low, x, 1 - x)
    slopes: tuple[Array, ...] = (where(low, one, zero), where(low, zero, one)) if moves else ()
    fraction = _beta_fraction(
        Moving(where(large, 2.0, p), slopes), Moving(where(large, 2.0, q), slopes[::-1]), where(large, 0.25, y)
    )
    first, second = Moving(where(large, p, 2 * LARGE), slopes), Moving(where(large, q, 2 * LARGE), slopes[::-1])
    tail = _beta_integral(first, second, where(large, y, 0.25)) * first / (1 - y)
    share = Moving(q, slopes[::-1]) / (Moving(p, slopes) + Moving(q, slopes[::-1]))
    return low, _choose(large, tail, fraction) * share * _beta_front(a, b, x, 2 * int(moves))


def _beta_value(a: Array, b: Array, x: Array, value: Array) -> Array:
    """The value inside of the domain, its limits at the ends, and NaN elsewhere."""
    up = (a == 0) | (b == math.inf)
    down = (b == 0) | (a == math.inf)
    inner = where(up, 1.0, where(down, 0.0, value))
    inside = (a >= 0) & (b >= 0) & (x >= 0) & (x <= 1) & ~(up & down)
    return where(inside, where(x == 0, 0.0, where(x == 1, 1.0, inner)), math.nan)


def _beta(a: Array, b: Array, x: Array) -> Array:
    low, part = _beta_parts(a, b, x, moves=False)
    return _beta_value(a, b, x, where(low, part.value, 1 - part.value))


def _beta_domain(a: Array, b: Array, x: Array) -> Array:
    return (a > 0) & (a < math.inf) & (b > 0) & (b < math.inf) & (x >= 0) & (x <= 1)


def _beta_by_parameters(a: Array, b: Array, x: Array) -> Any:
    low, part = _beta_parts(a, b, x, moves=True)
    inside, domain = (x > 0) & (x < 1), _beta_domain(a, b, x)
    return tuple(where(domain, where(inside, where(low, s, -s), 0.0), math.nan) for s in part.slopes)


def _beta_by_x(a: Array, b: Array, x: Array) -> Array:
    """x^(a - 1) (1 - x)^(b - 1) / B(a, b), DLMF 8.17.1."""
    inside = (x > 0) & (x < 1)
    safe = where(inside, x, 0.5)
    p, q = maximum(a, LEAST), maximum(b, LEAST)
    decay, first, second = _beta_logarithms(p, q, safe)
    density = (p + q) * _beta_ratio(p, q) * exp(-decay - first - second)
    own, other = where(x == 0, a, b), where(x == 0, b, a)
    edge = where(own > 1, 0.0, where(own == 1, other, math.inf))
    return where(_beta_domain(a, b, x), where(inside, density, edge), math.nan)


def _beta_jvp(primals: Any, out: Array, tangents: Any) -> Array:
    (a, b, x), (a_dot, b_dot, x_dot) = primals, tangents
    by_a, by_b = _beta_by_parameters(a, b, x)
    return _beta_by_x(a, b, x) * x_dot + by_a * a_dot + by_b * b_dot  # type: ignore[no-any-return]


def betainc(a: Any, b: Any, x: Any, /) -> Array:
    """The regularized incomplete beta function, which rises from 0 to 1, for a, b > 0. Operands broadcast.

    It is evaluated at x, or by DLMF 8.17.4 at 1 - x. Where a or b is below 25, a continued fraction of 100 steps is
    used (Didonato and Morris 1992), else the Gauss-Legendre rule. NaN for NaN and outside of the domain. Error: 20
    units in the last place (above the mean, of the larger of the result and 1), plus the effect of one unit in a, b
    and x. Derivative: by x the density (8.17.1); by a and b, the steps are differentiated.

    >>> @pb.function
    ... def half(a, x):
    ...     return pb.special.betainc(a, 2.0, x)
    >>> half(np.array([1.0, 2.0]), np.array([0.5, 0.25])).round(9).tolist()
    [0.75, 0.15625]
    """
    return _wide("betainc", _beta, _beta_jvp, a, b, x)


__all__ = ["betainc", "gammainc", "gammaincc"]
