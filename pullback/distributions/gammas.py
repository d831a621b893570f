"""The gamma distribution, and distributions based on it."""

from __future__ import annotations

import math
from typing import Any

from pullback import random
from pullback.arrays.creation import zeros
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import convert, elementwise, exp, log, log1p, sqrt, where
from pullback.arrays.manipulation import broadcast_to
from pullback.distributions.domains import given, inside, log1p_square, log_density
from pullback.special import betainc, betaln, digamma, gammainc, xlog1py, xlogy
from pullback.special.elements import floating
from pullback.special.incomplete import density_by_x, lower_by_a
from pullback.tracing.array import Array
from pullback.tracing.control import fold
from pullback.tracing.custom import emit_call
from pullback.tracing.making import as_array

ATTEMPTS = 16  # candidates for a sample; each is accepted with probability 0.95


class gamma:
    """The gamma distribution with shape a and density proportional to x^(a-1) e^(-x / scale)."""

    @staticmethod
    def logpdf(x: Any, a: Any, scale: Any = 1.0) -> Any:
        """(a - 1) log z - z - log Γ(a) - log(scale), z = x / scale."""
        x, a, scale = floating("gamma", (x, given(a), given(scale)))
        support = (x >= 0) & (x < math.inf)
        z = where(support, x / scale, 1.0)
        return inside(support, log_density(a, z, a - 1) - log(scale), x, a, scale)

    @staticmethod
    def cdf(x: Any, a: Any, scale: Any = 1.0) -> Any:
        """`special.gammainc(a, x / scale)`."""
        x, a, scale = floating("gamma", (x, given(a), given(scale)))
        return inside(x >= 0, gammainc(a, where(x >= 0, x / scale, 1.0)), x, a, scale, outside=0.0)

    @staticmethod
    def sample(key: Any, shape: Any = (), a: Any = 1.0, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """Sample by Marsaglia and Tsang (2000) for a + 1, times u^(1/a): the first accepted of 16."""
        return given(scale) * _draw("gamma.sample", _number, _number_jvp, key, shape, given(a), dtype)


def log_gamma_sample(key: Any, shape: Any, a: Any, dtype: Any) -> Array:
    """The logarithms of gamma samples, finite where the samples underflow."""
    return _draw("gamma.log_sample", _logarithm, _logarithm_jvp, key, shape, a, dtype)


def _draw(name: str, body: Any, jvp: Any, key: Any, shape: Any, a: Any, dtype: Any) -> Array:
    extents = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    h = as_array(a)
    target = dtype or (h.settled if h.settled.is_floating else None) or "float64"
    spread = broadcast_to(convert(h, target), extents) if extents else convert(h, target)
    out: Array = emit_call(name, body, (as_array(key), spread), jvp)
    return out


def _number(key: Array, a: Array) -> Array:
    value, share = _marsaglia(key, a)
    return value * exp(share / a)


def _logarithm(key: Array, a: Array) -> Array:
    value, share = _marsaglia(key, a)
    return log(value) + share / a


def _marsaglia(key: Array, a: Array) -> tuple[Array, Array]:
    """Return a gamma sample for a + 1, and log u for a uniform u in (0, 1].

    A candidate d v, v = (1 + c z)³, is accepted if log u < z² / 2 + d (1 - v + log v); d = a + 2/3, c = 1 / √(9 d).
    With y = c z, d (1 - v + log v) = d (3 (log(1 + y) - y) - 3 y² - y³), whose terms cancel less.
    """
    d = a + 2 / 3
    c = 1 / sqrt(9 * d)

    def attempt(state: Any, i: Any) -> Any:
        value, done = state
        keys = random.split(random.fold_in(key, i))
        z = random.normal(keys[0], a.shape, dtype=a.dtype)
        u = random.uniform(keys[1], a.shape, dtype=a.dtype)
        y = where(c * z > -1, c * z, 0.0)
        bound = 0.5 * z * z + d * (3 * (log1p(y) - y) - y * y * (3 + y))
        fits = (c * z > -1) & (log(1 - u) < bound)
        return where(done | ~fits, value, d * (1 + y) ** 3), done | fits

    start = (d, zeros(a.shape, dtype="bool"))
    value = fold(ATTEMPTS, start, attempt)[0]
    return value, log(1 - random.uniform(random.fold_in(key, ATTEMPTS), a.shape, dtype=a.dtype))


def _number_jvp(primals: Any, out: Array, tangents: Any) -> Array:
    """Differentiate implicitly: the cdf F(x; a) stays constant, so ẋ = -(∂F/∂a) / p ȧ."""
    a, moved = primals[1], tangents[1]
    wide = [convert(h, "float64") for h in (a, out)]
    return -convert(lower_by_a(*wide) / density_by_x(*wide), a.settled) * moved  # type: ignore[no-any-return]


def _logarithm_jvp(primals: Any, out: Array, tangents: Any) -> Array:
    """(log x)˙ = ẋ / x; for small x, where F = x^a / Γ(a + 1), it is (ψ(a + 1) - log x) / a ȧ."""
    a, moved = primals[1], tangents[1]
    wide, y = (convert(h, "float64") for h in (a, out))
    tiny = y < -500
    x = exp(where(tiny, 0.0, y))
    slope = where(tiny, (digamma(wide + 1) - y) / wide, -lower_by_a(wide, x) / (density_by_x(wide, x) * x))
    return convert(slope, a.settled) * moved  # type: ignore[no-any-return]


class chi2:
    """The chi-squared distribution with `df` degrees of freedom: gamma(df / 2, 2)."""

    @staticmethod
    def logpdf(x: Any, df: Any) -> Any:
        """Return the log density of gamma(df / 2, 2)."""
        x, df = floating("chi2", (x, df))
        return gamma.logpdf(x, df / 2, 2.0)

    @staticmethod
    def cdf(x: Any, df: Any) -> Any:
        """`special.gammainc(df / 2, x / 2)`."""
        x, df = floating("chi2", (x, df))
        return gamma.cdf(x, df / 2, 2.0)

    @staticmethod
    def sample(key: Any, shape: Any, df: Any, *, dtype: Any = None) -> Any:
        """Return twice gamma samples."""
        return gamma.sample(key, shape, elementwise("divide", df, 2), 2.0, dtype=dtype)


class beta:
    """The beta distribution on (0, 1)."""

    @staticmethod
    def logpdf(x: Any, a: Any, b: Any) -> Any:
        """(a - 1) log x + (b - 1) log(1 - x) - log B(a, b)."""
        x, a, b = floating("beta", (x, given(a), given(b)))
        support = (x >= 0) & (x <= 1)
        y = where(support, x, 0.5)
        return inside(support, xlogy(a - 1, y) + xlog1py(b - 1, -y) - betaln(a, b), x, a, b)

    @staticmethod
    def cdf(x: Any, a: Any, b: Any) -> Any:
        """`special.betainc(a, b, x)`."""
        x, a, b = floating("beta", (x, given(a), given(b)))
        support = (x >= 0) & (x <= 1)
        found = betainc(a, b, where(support, x, 0.5))
        return inside(support, found, x, a, b, outside=where(x < 0, 0.0, 1.0))

    @staticmethod
    def sample(key: Any, shape: Any, a: Any, b: Any, *, dtype: Any = None) -> Any:
        """Return g / (g + h) for gamma samples g and h, computed from their logarithms."""
        keys = random.split(key)
        x, y = (log_gamma_sample(k, shape, given(v), dtype) for k, v in ((keys[0], a), (keys[1], b)))
        rest = x - y
        low = where(rest < 0, rest, 0.0)  # 1 / (1 + exp(-rest)) would skip subnormal results
        return exp(low - log1p(exp(-magnitude(rest))))


class student_t:
    """Student's distribution with df degrees of freedom."""

    @staticmethod
    def logpdf(x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """-(df + 1) / 2 log(1 + z² / df) - log B(df / 2, 1 / 2) - log(scale √df), z = (x - loc) / scale."""
        x, df, loc, scale = floating("student_t", (x, given(df), loc, given(scale)))
        size = log1p_square(x - loc, scale * sqrt(df))
        return (df + 1) * -0.5 * size - betaln(df / 2, 0.5) - log(scale) - 0.5 * log(df)

    @staticmethod
    def cdf(x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """The cdf from `special.betainc(df / 2, 1 / 2, df / (df + z²))`, with series at both ends."""
        x, df, loc, scale = floating("student_t", (x, given(df), loc, given(scale)))
        z = (x - loc) / scale
        size = magnitude(z)
        central, far = (df + 1) * (z / df) * z < 1e-4, size > 1e8 * sqrt(df)
        tail = where(far, _student_far(size, df), _student_tail(where(central | far, sqrt(df), size), df))
        return where(central, 0.5 + _student_center(where(central, z, 0.0), df), where(z > 0, 1 - tail, tail))

    @staticmethod
    def sample(key: Any, shape: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """Sample normal numbers over root mean squares e^(y / 2), from logarithms y of gamma numbers."""
        keys = random.split(key)
        half = elementwise("divide", given(df), 2)
        size = log_gamma_sample(keys[0], shape, half, dtype)
        normal = random.normal(keys[1], shape, dtype=size.settled)
        return loc + given(scale) * (normal * exp(0.5 * (log(convert(half, size.settled)) - size)))


def _student_tail(z: Array, df: Array) -> Array:
    """The probability above z, from whichever of z² and df has the smaller share in df + z²."""
    near, square = z * z < df, z * z
    share = where(near, square, df) / (df + square)
    half = 0.5 * betainc(where(near, 0.5, df / 2), where(near, df / 2, 0.5), share)
    return where(near, 0.5 - half, half)


def _student_far(z: Array, df: Array) -> Array:
    """The first term of the tail's series; the other terms are below rounding."""
    return 0.5 * exp(df * -0.5 * log1p_square(z, sqrt(df)) - log(df / 2) - betaln(df / 2, 0.5))


def _student_center(z: Array, df: Array) -> Array:
    """The density at 0 times z ₂F₁(1/2, (df + 1) / 2; 3/2; -z² / df), by four terms."""
    r = z * z / df
    series = 1 - (df + 1) / 6 * r * (1 - (df + 3) * 3 / 20 * r * (1 - (df + 5) * 5 / 42 * r))
    return z * exp(-betaln(df / 2, 0.5) - 0.5 * log(df)) * series
