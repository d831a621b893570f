"""Distributions of numbers by elementary functions and the normal distribution function."""

from __future__ import annotations

import math
from typing import Any

from pullback import random
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import atan, convert, elementwise, exp, expm1, log, log1p, square, where
from pullback.distributions.domains import LOG_ROOT_TWO_PI, LOG_TWO, given, inside, log1p_square
from pullback.special import expit, ndtr, xlogy
from pullback.special.elements import floating


class normal:
    """The normal distribution.

    >>> @pb.function
    ... def likelihood(x, loc):
    ...     return pb.sum(pb.distributions.normal.logpdf(x, loc, 2.0))
    >>> pb.grad(likelihood, wrt="loc")(np.array([1.0, 3.0]), 0.0).item()
    1.0
    """

    @staticmethod
    def logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """-((x - loc) / scale)² / 2 - log(scale √(2π))."""
        x, loc, scale = floating("normal", (x, loc, given(scale)))
        return square((x - loc) / scale) * -0.5 - log(scale) - LOG_ROOT_TWO_PI

    @staticmethod
    def cdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Φ((x - loc) / scale)."""
        x, loc, scale = floating("normal", (x, loc, given(scale)))
        return ndtr((x - loc) / scale)

    @staticmethod
    def sample(key: Any, shape: Any = (), loc: Any = 0.0, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """Return loc + scale times standard normal numbers."""
        return loc + given(scale) * random.normal(key, shape, dtype=dtype)


class lognormal:
    """The log-normal distribution, of exp(x) for normal x."""

    @staticmethod
    def logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Return the normal log density at log x, minus log x."""
        x, loc, scale = floating("lognormal", (x, loc, given(scale)))
        logarithm = log(where(x > 0, x, 1.0))
        return inside(x > 0, normal.logpdf(logarithm, loc, scale) - logarithm, x, loc, scale)

    @staticmethod
    def cdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Return the normal cdf at log x."""
        x, loc, scale = floating("lognormal", (x, loc, given(scale)))
        found = normal.cdf(log(where(x > 0, x, 1.0)), loc, scale)
        return inside(x > 0, found, x, loc, scale, outside=0.0)

    @staticmethod
    def sample(key: Any, shape: Any = (), loc: Any = 0.0, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """Return exp of normal samples."""
        return exp(normal.sample(key, shape, loc, scale, dtype=dtype))


class half_normal:
    """The half-normal distribution, of |x| for normal x with mean 0."""

    @staticmethod
    def logpdf(x: Any, scale: Any = 1.0) -> Any:
        """Return the normal log density plus log 2."""
        x, scale = floating("half_normal", (x, given(scale)))
        return inside(x >= 0, normal.logpdf(x, 0.0, scale) + LOG_TWO, x, scale)

    @staticmethod
    def cdf(x: Any, scale: Any = 1.0) -> Any:
        """2 Φ(x / scale) - 1."""
        x, scale = floating("half_normal", (x, given(scale)))
        return inside(x >= 0, elementwise("erf", x / scale * math.sqrt(0.5)), x, scale, outside=0.0)

    @staticmethod
    def sample(key: Any, shape: Any = (), scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """Return magnitudes of normal samples."""
        return given(scale) * magnitude(random.normal(key, shape, dtype=dtype))


class uniform:
    """The uniform distribution on [low, high]."""

    @staticmethod
    def logpdf(x: Any, low: Any = 0.0, high: Any = 1.0) -> Any:
        """-log(high - low)."""
        x, low, high = floating("uniform", (x, low, high))
        first, last, unit = _interval(low, high)
        return inside((x >= low) & (x <= high), log(unit) - log(last - first), x, first, last)

    @staticmethod
    def cdf(x: Any, low: Any = 0.0, high: Any = 1.0) -> Any:
        """The share of the interval below x."""
        x, low, high = floating("uniform", (x, low, high))
        first, last, unit = _interval(low, high)
        share = (x * unit - first) / (last - first)
        return inside((x >= low) & (x <= high), share, x, first, last, outside=where(x < low, 0.0, 1.0))

    @staticmethod
    def sample(key: Any, shape: Any = (), low: Any = 0.0, high: Any = 1.0, *, dtype: Any = None) -> Any:
        """Return `random.uniform`, or NaN unless low < high."""
        if all(isinstance(v, int | float) for v in (low, high)):
            return random.uniform(key, shape, low=low, high=high if low < high else math.nan, dtype=dtype)
        known = (low < high) & (high < math.inf)  # low = -inf gives NaN anyway
        last = where(known, high, elementwise("multiply", high, math.nan))
        return random.uniform(key, shape, low=low, high=last, dtype=dtype)


def _interval(low: Any, high: Any) -> tuple[Any, Any, Any]:
    """Scale both ends by 1 or 1/2 so that their distance does not overflow; NaN if they are invalid."""
    known = (low < high) & (low > -math.inf) & (high < math.inf)
    unit = convert(where(elementwise("isinf", high - low), 0.5, 1.0), low.settled)
    return low * unit, where(known, high, high * math.nan) * unit, unit


class exponential:
    """The exponential distribution with a given rate."""

    @staticmethod
    def logpdf(x: Any, rate: Any = 1.0) -> Any:
        """log(rate) - rate x."""
        x, rate = floating("exponential", (x, given(rate)))
        return inside(x >= 0, log(rate) - rate * x, x, rate)

    @staticmethod
    def cdf(x: Any, rate: Any = 1.0) -> Any:
        """1 - exp(-rate x)."""
        x, rate = floating("exponential", (x, given(rate)))
        return inside(x >= 0, -expm1(-rate * x), x, rate, outside=0.0)

    @staticmethod
    def sample(key: Any, shape: Any = (), rate: Any = 1.0, *, dtype: Any = None) -> Any:
        """Return standard exponential samples divided by the rate."""
        return random.exponential(key, shape, dtype=dtype) / given(rate)


class cauchy:
    """Cauchy's distribution."""

    @staticmethod
    def logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """-log(π scale (1 + z²)), z = (x - loc) / scale."""
        x, loc, scale = floating("cauchy", (x, loc, given(scale)))
        return -math.log(math.pi) - log(scale) - log1p_square(x - loc, scale)

    @staticmethod
    def cdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Return 1/2 + atan(z) / π; for z < -1, atan(-1 / z) / π."""
        x, loc, scale = floating("cauchy", (x, loc, given(scale)))
        z = (x - loc) / scale
        low = z < -1
        return where(low, atan(-1 / where(low, z, -1.0)) / math.pi, 0.5 + atan(z) / math.pi)

    @staticmethod
    def sample(key: Any, shape: Any = (), loc: Any = 0.0, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """Return quotients of normal samples."""
        keys = random.split(key)
        x, y = (random.normal(keys[k], shape, dtype=dtype) for k in (0, 1))
        return loc + given(scale) * (x / y)


class laplace:
    """Laplace's distribution, exponential on both sides."""

    @staticmethod
    def logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """-|z| - log(2 scale), z = (x - loc) / scale."""
        x, loc, scale = floating("laplace", (x, loc, given(scale)))
        return -magnitude((x - loc) / scale) - log(scale) - LOG_TWO

    @staticmethod
    def cdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Return exp(-|z|) / 2 below loc, and 1 - exp(-|z|) / 2 above."""
        x, loc, scale = floating("laplace", (x, loc, given(scale)))
        z = (x - loc) / scale
        tail = 0.5 * exp(-magnitude(z))
        return where(z > 0, 1 - tail, tail)

    @staticmethod
    def sample(key: Any, shape: Any = (), loc: Any = 0.0, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """`random.laplace`."""
        return loc + given(scale) * random.laplace(key, shape, dtype=dtype)


class logistic:
    """The logistic distribution."""

    @staticmethod
    def logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """-|z| - 2 log(1 + exp(-|z|)) - log(scale), z = (x - loc) / scale."""
        x, loc, scale = floating("logistic", (x, loc, given(scale)))
        z = (x - loc) / scale
        size = where(z < 0, -z, z)
        return -size - 2 * log1p(exp(-size)) - log(scale)

    @staticmethod
    def cdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """1 / (1 + exp(-z))."""
        x, loc, scale = floating("logistic", (x, loc, given(scale)))
        return expit((x - loc) / scale)

    @staticmethod
    def sample(key: Any, shape: Any = (), loc: Any = 0.0, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """Return differences of Gumbel samples."""
        keys = random.split(key)
        x, y = (random.gumbel(keys[k], shape, dtype=dtype) for k in (0, 1))
        return loc + given(scale) * (x - y)


class weibull:
    """Weibull's distribution with exponent c."""

    @staticmethod
    def logpdf(x: Any, c: Any, scale: Any = 1.0) -> Any:
        """log(c / scale) + (c - 1) log z - z^c, z = x / scale."""
        x, c, scale = floating("weibull", (x, given(c), given(scale)))
        support = (x >= 0) & (x < math.inf)
        z = where(support, x / scale, 1.0)
        return inside(support, log(c) - log(scale) + xlogy(c - 1, z) - z**c, x, c, scale)

    @staticmethod
    def cdf(x: Any, c: Any, scale: Any = 1.0) -> Any:
        """1 - exp(-z^c)."""
        x, c, scale = floating("weibull", (x, given(c), given(scale)))
        z = where(x >= 0, x / scale, 1.0)
        return inside(x >= 0, -expm1(-(z**c)), x, c, scale, outside=0.0)

    @staticmethod
    def sample(key: Any, shape: Any, c: Any, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """Return exponential samples to the power 1 / c."""
        return given(scale) * exp(log(random.exponential(key, shape, dtype=dtype)) / given(c))


class pareto:
    """The Pareto distribution on [scale, ∞) with exponent b."""

    @staticmethod
    def logpdf(x: Any, b: Any, scale: Any = 1.0) -> Any:
        """log(b / scale) - (b + 1) log z, z = x / scale."""
        x, b, scale = floating("pareto", (x, given(b), given(scale)))
        support = x >= scale
        return inside(support, log(b) - log(scale) - (b + 1) * log(where(support, x / scale, 1.0)), x, b, scale)

    @staticmethod
    def cdf(x: Any, b: Any, scale: Any = 1.0) -> Any:
        """1 - z^-b."""
        x, b, scale = floating("pareto", (x, given(b), given(scale)))
        support = x >= scale
        found = -expm1(-b * log(where(support, x / scale, 1.0)))
        return inside(support, found, x, b, scale, outside=0.0)

    @staticmethod
    def sample(key: Any, shape: Any, b: Any, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """Return scale times exp(x / b) for exponential samples x."""
        return given(scale) * exp(random.exponential(key, shape, dtype=dtype) / given(b))
