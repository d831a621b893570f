"""The incomplete gamma and beta functions, by series and continued fractions of a fixed number of steps.

Every element takes the same steps, so that there is no branch; how many are enough depends on the parameters alone. The
derivative by a parameter is that of the steps: they are taken by numbers that carry it (`Moving`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pullback.lang.array import Array
from pullback.lang.control import fold
from pullback.lang.creation import ones_like, zeros_like
from pullback.lang.custom import emit_call
from pullback.lang.elementwise import broadcast_extents, convert
from pullback.lang.functions import exp, log, log1p
from pullback.lang.index import where
from pullback.lang.making import from_index
from pullback.lang.manipulation import broadcast_to
from pullback.source import user_position
from pullback.special.elements import floating
from pullback.special.gamma import plain_betaln as betaln
from pullback.special.gamma import plain_digamma as digamma
from pullback.special.gamma import plain_lgamma as lgamma

STEPS: Final = 300  # of the series and the fraction of the gamma function
LARGEST: Final = 1000.0  # the largest a that they are enough for
PAIRS: Final = 150  # of steps of the beta function's fraction
LARGEST_OF_BETA: Final = 5000.0  # the largest a and b that they are enough for


@dataclass(frozen=True)
class Moving:
    """A number with its derivatives by some parameters."""

    value: Any
    slopes: tuple[Any, ...]

    def __add__(self, other: Any) -> Moving:
        if isinstance(other, Moving):
            return Moving(self.value + other.value, tuple(s + t for s, t in zip(self.slopes, other.slopes)))
        return Moving(self.value + other, self.slopes)

    __radd__ = __add__

    def __neg__(self) -> Moving:
        return Moving(-self.value, tuple(-s for s in self.slopes))

    def __sub__(self, other: Any) -> Moving:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Moving:
        return (-self).__add__(other)

    def __mul__(self, other: Any) -> Moving:
        if isinstance(other, Moving):
            slopes = tuple(s * other.value + self.value * t for s, t in zip(self.slopes, other.slopes))
            return Moving(self.value * other.value, slopes)
        return Moving(self.value * other, tuple(s * other for s in self.slopes))

    __rmul__ = __mul__

    def inverse(self) -> Moving:
        """1 over it."""
        value = 1 / self.value
        return Moving(value, tuple(-s * value * value for s in self.slopes))

    def __truediv__(self, other: Any) -> Moving:
        return self.__mul__(other.inverse() if isinstance(other, Moving) else 1 / other)

    def __rtruediv__(self, other: Any) -> Moving:
        return self.inverse().__mul__(other)


def _loop(steps: int, init: tuple[Moving, ...], step: Callable[..., tuple[Moving, ...]]) -> tuple[Moving, ...]:
    """A fold over numbers that move."""

    def pack(state: tuple[Moving, ...]) -> Any:
        return tuple((m.value, *m.slopes) for m in state)

    def unpack(state: Any) -> tuple[Moving, ...]:
        return tuple(Moving(s[0], tuple(s[1:])) for s in state)

    return unpack(fold(steps, pack(init), lambda state, n: pack(step(unpack(state), n))))


def _constant(value: Array, count: int) -> Moving:
    return Moving(value, tuple(zeros_like(value) for _ in range(count)))


def _together(name: str, *values: Any) -> list[Array]:
    """The operands in f64, broadcast, and the element type of the result's last."""
    operands = floating(name, values)
    shape = tuple(map(from_index, broadcast_extents(name, operands, user_position())))
    return [broadcast_to(h, shape) for h in operands]


# Gamma --------------------------------------------------------------------------------------------------------------


def _density(a: Array, x: Array) -> Array:
    """x^a e^-x / Γ(a + 1): from a = 8 on by Stirling's formula, with a (μ - log(1 + μ)) for x = a (1 + μ)."""
    large = a >= 8.0
    safe = where(large, a, 8.0)
    mu = (x - safe) / safe
    rest = 1 / (12 * safe) - 1 / (360 * safe * safe * safe) + 1 / (1260 * safe**5) - 1 / (1680 * safe**7)
    rest = rest + 1 / (1188 * safe**9) - 691 / (360360 * safe**11)  # DLMF 5.11.1
    far = safe * (log(x / safe) - mu) - rest
    near = a * log(x) - x - lgamma(where(large, 8.0, a) + 1)
    scale = where(large, 1 / (math.sqrt(2 * math.pi) * (safe**0.5)), 1.0)
    return scale * exp(where(large, far, near))


def _series(a: Moving, x: Array, count: int) -> Moving:
    """Σ n ≥ 0: x^n / ((a + 1) ... (a + n)), DLMF 8.11.4."""

    def step(state: Any, n: Any) -> Any:
        term, total = state
        term = term * x / (a + (n + 1))
        return term, total + term

    one = _constant(ones_like(x), count)
    return _loop(STEPS, (one, one), step)[1]


def _fraction(a: Moving, x: Array, count: int) -> Moving:
    """The fraction of Legendre, DLMF 8.9.2, from its end: x + 1 - a + 1 (a - 1) / (x + 3 - a + 2 (a - 2) / ..."""

    def step(state: Any, n: Any) -> Any:
        k = STEPS - n  # as indices, which are exact: sums of numbers may be taken in another order
        return (-a + (x + (2 * k - 1)) + (a - k) * k / state[0],)

    last = _constant(x + (2 * STEPS + 1.0), count) - a
    return _loop(STEPS, (last,), step)[0]


def _gamma_parts(a: Array, x: Array, moves: bool) -> tuple[Array, Moving]:
    """Where the series serves, and there the lower part, elsewhere the upper one."""
    count = int(moves)
    low = x < a + 1
    positive = (x > 0) & (x < math.inf)
    x = where(positive, x, 1.0)
    moving = Moving(a, (ones_like(a),) * count)
    series = _series(moving, where(low, x, 1.0), count)
    apart = Moving(where(low, 0.5, a), moving.slopes)
    fraction = _fraction(apart, where(low, 2.0, x), count).inverse() * a
    density = _density(a, x)
    slopes = (density * (log(x) - digamma(a + 1)),) * count
    both = Moving(
        where(low, series.value, fraction.value),
        tuple(where(low, s, t + fraction.value / a) for s, t in zip(series.slopes, fraction.slopes)),
    )
    return low, both * Moving(density, slopes)


def _gamma_domain(a: Array, x: Array, value: Any) -> Array:
    """The value where a and x are in the domain and a within its limit, NaN elsewhere and for NaN."""
    return where((a > 0) & (a <= LARGEST) & (x >= 0), value, math.nan)


def _lower(a: Array, x: Array) -> Array:
    low, part = _gamma_parts(a, x, moves=False)
    out = where(low, part.value, 1 - part.value)
    return _gamma_domain(a, x, where(x == 0, 0.0, where(x == math.inf, 1.0, out)))


def _upper(a: Array, x: Array) -> Array:
    low, part = _gamma_parts(a, x, moves=False)
    out = where(low, 1 - part.value, part.value)
    return _gamma_domain(a, x, where(x == 0, 1.0, where(x == math.inf, 0.0, out)))


def lower_by_a(a: Array, x: Array) -> Array:
    """The derivative of `gammainc` by a."""
    low, part = _gamma_parts(a, x, moves=True)
    inside = (x > 0) & (x < math.inf)
    return _gamma_domain(a, x, where(inside, where(low, part.slopes[0], -part.slopes[0]), 0.0))


def density_by_x(a: Array, x: Array) -> Array:
    """x^(a - 1) e^-x / Γ(a), DLMF 8.8.13."""
    inside = (x > 0) & (x < math.inf)
    safe = where(inside, x, 1.0)
    edge = where((x > 0) | (a > 1), 0.0, where(a == 1, 1.0, math.inf))
    return _gamma_domain(a, x, where(inside, _density(a, safe) * a / safe, edge))


def _lower_jvp(primals: Any, out: Array, tangents: Any) -> Array:
    (a, x), (a_dot, x_dot) = primals, tangents
    return density_by_x(a, x) * x_dot + lower_by_a(a, x) * a_dot  # type: ignore[no-any-return]


def _upper_jvp(primals: Any, out: Array, tangents: Any) -> Array:
    return -_lower_jvp(primals, out, tangents)


def gammainc(a: Any, x: Any, /) -> Array:
    """The lower incomplete gamma function over Γ(a), which rises from 0 to 1, for a > 0, x >= 0. Operands broadcast.

    A series for x < a + 1 and Legendre's continued fraction beyond (DLMF 8.11.4, 8.9.2), 300 steps each, which are
    enough for a up to 1000; NaN beyond and outside of the domain. Error: 150 units of the last place for a up to 100,
    above that 1000. Derivative: by x the density (8.8.13), by a that of the steps.

    >>> pb.function(lambda a, x: pb.special.gammainc(a, x))(np.array([1.0]), np.array([1.0])).round(9).tolist()
    [0.632120559]
    """
    return _wide("gammainc", _lower, _lower_jvp, a, x)


def gammaincc(a: Any, x: Any, /) -> Array:
    """The upper incomplete gamma function over Γ(a): 1 - `gammainc`, accurate where it is small. Operands broadcast.

    >>> pb.function(lambda a, x: pb.special.gammaincc(a, x))(np.array([1.0]), np.array([1.0])).round(9).tolist()
    [0.367879441]
    """
    return _wide("gammaincc", _upper, _upper_jvp, a, x)


def _wide(name: str, body: Any, jvp: Any, *values: Any) -> Array:
    """The function in f64, whatever its operands are."""
    operands = _together(name, *values)
    dtype = operands[0].settled
    out: Array = emit_call(name, body, tuple(convert(h, "float64") for h in operands), jvp)
    return convert(out, dtype)


# Beta ---------------------------------------------------------------------------------------------------------------


def _beta_fraction(a: Moving, b: Moving, x: Array) -> Moving:
    """1 + d[1] / (1 + d[2] / ...), DLMF 8.17.22 from its end, two steps at a time."""

    def step(state: Any, n: Any) -> Any:
        m = PAIRS - n
        even = (b - m) * m * x / ((a + (2 * m - 1)) * (a + 2 * m))
        k = m - 1
        odd = -((a + k) * (a + b + k) * x / ((a + 2 * k) * (a + (2 * k + 1))))
        return (1 + odd / (1 + even / state[0]),)

    return _loop(PAIRS, (_constant(ones_like(x), len(a.slopes)),), step)[0]


def _beta_parts(a: Array, b: Array, x: Array, moves: bool) -> tuple[Array, Moving]:
    """Where x stays, and there I(a, b, x), elsewhere I(b, a, 1 - x)."""
    low = x <= (a + 1) / (a + b + 2)
    inside = (x > 0) & (x < 1)
    x = where(inside, x, 0.5)
    zero, one = zeros_like(a), ones_like(a)
    p, q, y = where(low, a, b), where(low, b, a), where(low, x, 1 - x)
    slopes: tuple[Array, ...] = (where(low, one, zero), where(low, zero, one)) if moves else ()
    first, second = Moving(p, slopes), Moving(q, slopes[::-1])
    fraction = _beta_fraction(first, second, where(inside, y, 0.25))
    front = exp(a * log(x) + b * log1p(-x) - betaln(a, b)) / p
    if not moves:
        return low, Moving(front, ()) / fraction
    total = digamma(a + b)
    by_a, by_b = log(x) - digamma(a) + total, log1p(-x) - digamma(b) + total
    own = (by_a - slopes[0] / p, by_b - slopes[1] / p)
    return low, Moving(front, tuple(front * s for s in own)) / fraction


def _beta(a: Array, b: Array, x: Array) -> Array:
    low, part = _beta_parts(a, b, x, moves=False)
    out = where(low, part.value, 1 - part.value)
    return _beta_domain(a, b, x, where(x == 0, 0.0, where(x == 1, 1.0, out)))


def _beta_domain(a: Array, b: Array, x: Array, value: Any) -> Array:
    """The value where all are in the domain and the parameters within their limit, NaN elsewhere and for NaN."""
    parameters = (a > 0) & (a <= LARGEST_OF_BETA) & (b > 0) & (b <= LARGEST_OF_BETA)
    return where(parameters & (x >= 0) & (x <= 1), value, math.nan)


def _beta_by_parameters(a: Array, b: Array, x: Array) -> Any:
    low, part = _beta_parts(a, b, x, moves=True)
    inside = (x > 0) & (x < 1)
    return tuple(_beta_domain(a, b, x, where(inside, where(low, s, -s), 0.0)) for s in part.slopes)


def _beta_by_x(a: Array, b: Array, x: Array) -> Array:
    """x^(a - 1) (1 - x)^(b - 1) / B(a, b), DLMF 8.17.1."""
    inside = (x > 0) & (x < 1)
    safe = where(inside, x, 0.5)
    density = exp((a - 1) * log(safe) + (b - 1) * log1p(-safe) - betaln(a, b))
    own, other = where(x == 0, a, b), where(x == 0, b, a)
    edge = where(own > 1, 0.0, where(own == 1, other, math.inf))
    return _beta_domain(a, b, x, where(inside, density, edge))


def _beta_jvp(primals: Any, out: Array, tangents: Any) -> Array:
    (a, b, x), (a_dot, b_dot, x_dot) = primals, tangents
    by_a, by_b = _beta_by_parameters(a, b, x)
    return _beta_by_x(a, b, x) * x_dot + by_a * a_dot + by_b * b_dot  # type: ignore[no-any-return]


def betainc(a: Any, b: Any, x: Any, /) -> Array:
    """The incomplete beta function over B(a, b), which rises from 0 to 1, for a, b > 0. Operands broadcast.

    The continued fraction of DLMF 8.17.22, of 300 steps, at x or by 8.17.4 at 1 - x, for a and b up to 5000; NaN beyond
    and outside of the domain. Error: 250 units of the last place for a and b up to 100, 6000 up to 3000. Derivative: by
    x the density (8.17.1), by a and b that of the steps.

    >>> @pb.function
    ... def half(a, x):
    ...     return pb.special.betainc(a, 2.0, x)
    >>> half(np.array([1.0, 2.0]), np.array([0.5, 0.25])).round(9).tolist()
    [0.75, 0.15625]
    """
    return _wide("betainc", _beta, _beta_jvp, a, b, x)


__all__ = ["betainc", "gammainc", "gammaincc"]
