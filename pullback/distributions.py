"""Distributions: densities, distribution functions where there is a closed form, and samples.

Each distribution is a name with functions of one form:

    normal.logpdf(x, mean, scale)          the logarithm of the density; `logpmf` of a probability for whole numbers
    normal.cdf(x, mean, scale)             how likely a number up to x is
    normal.sample(key, shape, mean, scale) random numbers by `pullback.random`

Parameters are numbers or arrays that broadcast; outside of the support a density is 0, and its logarithm -infinity.
Everything has derivatives by x and by all parameters, samples too: those of a normal distribution by their formula, of
gamma and what is made from it by implicit reparameterisation (Figurnov, Mohamed and Mnih 2018). Samples that are whole
numbers have none.
"""

from __future__ import annotations

import math
from typing import Any

from pullback import random
from pullback.lang.array import Array
from pullback.lang.composed import diagonal, logsumexp
from pullback.lang.control import fold
from pullback.lang.creation import zeros
from pullback.lang.custom import emit_call
from pullback.lang.elementwise import convert, elementwise
from pullback.lang.functions import abs as magnitude
from pullback.lang.functions import atan, exp, expm1, floor, log, log1p, sqrt, square
from pullback.lang.index import where
from pullback.lang.linalg import matmul
from pullback.lang.making import as_array
from pullback.lang.manipulation import broadcast_to, expand_dims, squeeze, take, take_along_axis
from pullback.lang.reduction import sum as total
from pullback.linalg import cholesky, solve_triangular
from pullback.special import (
    betainc,
    betaln,
    expit,
    gammainc,
    gammaincc,
    lgamma,
    ndtr,
    xlog1py,
    xlogy,
)
from pullback.special.elements import floating
from pullback.special.incomplete import density_by_x, lower_by_a

__all__ = [
    "bernoulli",
    "beta",
    "binomial",
    "categorical",
    "cauchy",
    "chi2",
    "dirichlet",
    "exponential",
    "gamma",
    "half_normal",
    "laplace",
    "logistic",
    "lognormal",
    "multivariate_normal",
    "normal",
    "pareto",
    "poisson",
    "student_t",
    "uniform",
    "weibull",
]

LOG_ROOT_TWO_PI = math.log(2 * math.pi) / 2
ATTEMPTS = 16  # of which each is accepted nineteen times in twenty


def _inside(support: Any, value: Any) -> Any:
    return where(support, value, -math.inf)


class normal:
    """The normal distribution.

    >>> @pb.function
    ... def likelihood(x, mean):
    ...     return pb.sum(pb.distributions.normal.logpdf(x, mean, 2.0))
    >>> pb.grad(likelihood, wrt="mean")(np.array([1.0, 3.0]), 0.0).item()
    1.0
    """

    @staticmethod
    def logpdf(x: Any, mean: Any = 0.0, scale: Any = 1.0) -> Any:
        """-((x - mean) / scale)² / 2 - log(scale √(2π))."""
        x, mean, scale = floating("normal", (x, mean, scale))
        return square((x - mean) / scale) * -0.5 - log(scale) - LOG_ROOT_TWO_PI

    @staticmethod
    def cdf(x: Any, mean: Any = 0.0, scale: Any = 1.0) -> Any:
        """Φ((x - mean) / scale)."""
        x, mean, scale = floating("normal", (x, mean, scale))
        return ndtr((x - mean) / scale)

    @staticmethod
    def sample(key: Any, shape: Any = (), mean: Any = 0.0, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """Mean + scale times standard normal numbers."""
        return mean + scale * random.normal(key, shape, dtype=dtype)


class multivariate_normal:
    """The normal distribution of vectors.

    >>> @pb.function
    ... def f(x, c):
    ...     return pb.distributions.multivariate_normal.logpdf(x, 0.0, c)
    >>> f(np.zeros(2), np.eye(2)).round(9).item()
    -1.837877066
    """

    @staticmethod
    def logpdf(x: Any, mean: Any, covariance: Any) -> Any:
        """By Cholesky's factor of the covariance; x is (..., n), the covariance (n, n)."""
        h, centre, c = floating("multivariate_normal", (x, mean, covariance))
        factor = cholesky(c)
        rest = h - centre
        rows = expand_dims(rest, 0) if rest.rank == 1 else rest.reshape(-1, rest.shape[-1])
        z = solve_triangular(factor, rows.T, lower=True)
        size = total(square(z), axis=0).reshape(*rest.shape[:-1]) if rest.rank > 1 else total(square(z))
        return size * -0.5 - total(log(diagonal(factor))) - LOG_ROOT_TWO_PI * rest.shape[-1]

    @staticmethod
    def sample(key: Any, shape: Any, mean: Any, covariance: Any) -> Any:
        """Mean + L z with Cholesky's factor L; `shape` is that of the result without its last axis."""
        centre, c = floating("multivariate_normal", (mean, covariance))
        own = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        z = random.normal(key, (*own, c.shape[-1]), dtype=c.dtype)
        return centre + squeeze(matmul(cholesky(c), expand_dims(z, -1)), -1)


class lognormal:
    """The distribution of exp of normal numbers."""

    @staticmethod
    def logpdf(x: Any, mean: Any = 0.0, scale: Any = 1.0) -> Any:
        """That of log x, less log x."""
        x, mean, scale = floating("lognormal", (x, mean, scale))
        logarithm = log(where(x > 0, x, 1.0))
        return _inside(x > 0, normal.logpdf(logarithm, mean, scale) - logarithm)

    @staticmethod
    def cdf(x: Any, mean: Any = 0.0, scale: Any = 1.0) -> Any:
        """That of log x."""
        x, mean, scale = floating("lognormal", (x, mean, scale))
        return where(x > 0, normal.cdf(log(where(x > 0, x, 1.0)), mean, scale), 0.0)

    @staticmethod
    def sample(key: Any, shape: Any = (), mean: Any = 0.0, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """Exp of normal numbers."""
        return exp(normal.sample(key, shape, mean, scale, dtype=dtype))


class half_normal:
    """The distribution of |x| for normal numbers x with mean 0."""

    @staticmethod
    def logpdf(x: Any, scale: Any = 1.0) -> Any:
        """Log 2 more than the normal one."""
        x, scale = floating("half_normal", (x, scale))
        return _inside(x >= 0, normal.logpdf(x, 0.0, scale) + math.log(2))

    @staticmethod
    def cdf(x: Any, scale: Any = 1.0) -> Any:
        """2 Φ(x / scale) - 1."""
        x, scale = floating("half_normal", (x, scale))
        return where(x > 0, elementwise("erf", x / scale * math.sqrt(0.5)), 0.0)

    @staticmethod
    def sample(key: Any, shape: Any = (), scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """Magnitudes of normal numbers."""
        return scale * magnitude(random.normal(key, shape, dtype=dtype))


class uniform:
    """The distribution with one density from low up to high."""

    @staticmethod
    def logpdf(x: Any, low: Any = 0.0, high: Any = 1.0) -> Any:
        """-log(high - low)."""
        x, low, high = floating("uniform", (x, low, high))
        return _inside((x >= low) & (x <= high), -log(high - low))

    @staticmethod
    def cdf(x: Any, low: Any = 0.0, high: Any = 1.0) -> Any:
        """How far x is on the way."""
        x, low, high = floating("uniform", (x, low, high))
        return where(x < low, 0.0, where(x > high, 1.0, (x - low) / (high - low)))

    @staticmethod
    def sample(key: Any, shape: Any = (), low: Any = 0.0, high: Any = 1.0, *, dtype: Any = None) -> Any:
        """`random.uniform`."""
        return random.uniform(key, shape, low=low, high=high, dtype=dtype)


class exponential:
    """The distribution of waiting times, by their rate."""

    @staticmethod
    def logpdf(x: Any, rate: Any = 1.0) -> Any:
        """log(rate) - rate x."""
        x, rate = floating("exponential", (x, rate))
        return _inside(x >= 0, log(rate) - rate * x)

    @staticmethod
    def cdf(x: Any, rate: Any = 1.0) -> Any:
        """1 - exp(-rate x)."""
        x, rate = floating("exponential", (x, rate))
        return where(x > 0, -expm1(-rate * x), 0.0)

    @staticmethod
    def sample(key: Any, shape: Any = (), rate: Any = 1.0, *, dtype: Any = None) -> Any:
        """Standard ones over the rate."""
        return random.exponential(key, shape, dtype=dtype) / rate


class gamma:
    """The gamma distribution with shape a, its density x^(a-1) e^(-x / scale) but for a factor."""

    @staticmethod
    def logpdf(x: Any, a: Any, scale: Any = 1.0) -> Any:
        """(a - 1) log z - z - log Γ(a) - log(scale), z = x / scale."""
        x, a, scale = floating("gamma", (x, a, scale))
        z = where(x > 0, x / scale, 1.0)
        edge = where((x == 0) & (a == 1), 0.0, -math.inf)
        return where(x > 0, xlogy(a - 1, z) - z - lgamma(a), edge) - log(scale)

    @staticmethod
    def cdf(x: Any, a: Any, scale: Any = 1.0) -> Any:
        """`special.gammainc(a, x / scale)`."""
        x, a, scale = floating("gamma", (x, a, scale))
        return gammainc(a, where(x > 0, x / scale, 0.0))

    @staticmethod
    def sample(key: Any, shape: Any = (), a: Any = 1.0, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """By Marsaglia and Tsang (2000) for a + 1, times u^(1/a): the first of 16 that is accepted."""
        return scale * _gamma_sample(key, shape, a, dtype)


def _gamma_sample(key: Any, shape: Any, a: Any, dtype: Any) -> Array:
    extents = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    h = as_array(a)
    target = dtype or (h.settled if h.settled.is_floating else None) or "float64"
    spread = broadcast_to(convert(h, target), extents) if extents else convert(h, target)
    out: Array = emit_call("gamma.sample", _marsaglia, (as_array(key), spread), _gamma_sample_jvp)
    return out


def _marsaglia(key: Array, a: Array) -> Array:
    """D v with v = (1 + c z)³, accepted where log u < z² / 2 + d (1 - v + log v); d = a + 2/3, c = 1 / √(9 d)."""
    d = a + 2 / 3
    c = 1 / sqrt(9 * d)

    def attempt(state: Any, i: Any) -> Any:
        value, done = state
        keys = random.split(random.fold_in(key, i))
        z = random.normal(keys[0], a.shape, dtype=a.dtype)
        u = random.uniform(keys[1], a.shape, dtype=a.dtype)
        root = 1 + c * z
        v = where(root > 0, root, 1.0) ** 3
        fits = (root > 0) & (log(1 - u) < 0.5 * z * z + d * (1 - v + log(v)))
        return where(done | ~fits, value, d * v), done | fits

    start = (d, zeros(a.shape, dtype="bool"))
    value = fold(ATTEMPTS, start, attempt)[0]
    u = random.uniform(random.fold_in(key, ATTEMPTS), a.shape, dtype=a.dtype)
    return value * exp(log(1 - u) / a)  # type: ignore[no-any-return]


def _gamma_sample_jvp(primals: Any, out: Array, tangents: Any) -> Array:
    """Implicit reparameterisation: F(x; a) stays, so ẋ = -(∂F/∂a) / p ȧ."""
    a, moved = primals[1], tangents[1]
    wide = [convert(h, "float64") for h in (a, out)]
    return -convert(lower_by_a(*wide) / density_by_x(*wide), a.settled) * moved  # type: ignore[no-any-return]


class chi2:
    """The distribution of the sum of the squares of so many normal numbers: gamma(df / 2, 2)."""

    @staticmethod
    def logpdf(x: Any, df: Any) -> Any:
        """That of gamma(df / 2, 2)."""
        x, df = floating("chi2", (x, df))
        return gamma.logpdf(x, df / 2, 2.0)

    @staticmethod
    def cdf(x: Any, df: Any) -> Any:
        """`special.gammainc(df / 2, x / 2)`."""
        x, df = floating("chi2", (x, df))
        return gamma.cdf(x, df / 2, 2.0)

    @staticmethod
    def sample(key: Any, shape: Any, df: Any, *, dtype: Any = None) -> Any:
        """Twice gamma numbers."""
        return gamma.sample(key, shape, elementwise("divide", df, 2), 2.0, dtype=dtype)


class beta:
    """The beta distribution on (0, 1)."""

    @staticmethod
    def logpdf(x: Any, a: Any, b: Any) -> Any:
        """(a - 1) log x + (b - 1) log(1 - x) - log B(a, b)."""
        x, a, b = floating("beta", (x, a, b))
        inside = (x >= 0) & (x <= 1)
        y = where(inside, x, 0.5)
        return _inside(inside, xlogy(a - 1, y) + xlog1py(b - 1, -y) - betaln(a, b))

    @staticmethod
    def cdf(x: Any, a: Any, b: Any) -> Any:
        """`special.betainc(a, b, x)`."""
        x, a, b = floating("beta", (x, a, b))
        return betainc(a, b, x)

    @staticmethod
    def sample(key: Any, shape: Any, a: Any, b: Any, *, dtype: Any = None) -> Any:
        """The share of one gamma number in two."""
        keys = random.split(key)
        x, y = gamma.sample(keys[0], shape, a, dtype=dtype), gamma.sample(keys[1], shape, b, dtype=dtype)
        return x / (x + y)


class dirichlet:
    """The distribution of shares that sum to 1, along the last axis."""

    @staticmethod
    def logpdf(x: Any, alpha: Any) -> Any:
        """Σ (alpha - 1) log x - Σ log Γ(alpha) + log Γ(Σ alpha)."""
        x, alpha = floating("dirichlet", (x, alpha))
        terms = xlogy(alpha - 1, x) - lgamma(alpha)
        return total(terms, axis=-1) + lgamma(total(alpha, axis=-1))

    @staticmethod
    def sample(key: Any, shape: Any, alpha: Any, *, dtype: Any = None) -> Any:
        """The shares of gamma numbers; `shape` is that of the result without its last axis."""
        (h,) = floating("dirichlet", (alpha,))
        own = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        x = gamma.sample(key, (*own, h.shape[-1]), h, dtype=dtype)
        return x / total(x, axis=-1, keepdims=True)


class student_t:
    """Student's distribution with df degrees of freedom."""

    @staticmethod
    def logpdf(x: Any, df: Any, mean: Any = 0.0, scale: Any = 1.0) -> Any:
        """-(df + 1) / 2 log(1 + z² / df) - log B(df / 2, 1 / 2) - log(scale √df), z = (x - mean) / scale."""
        x, df, mean, scale = floating("student_t", (x, df, mean, scale))
        z = (x - mean) / scale
        return (df + 1) * -0.5 * log1p(z * z / df) - betaln(df / 2, 0.5) - log(scale) - 0.5 * log(df)

    @staticmethod
    def cdf(x: Any, df: Any, mean: Any = 0.0, scale: Any = 1.0) -> Any:
        """By `special.betainc(df / 2, 1 / 2, df / (df + z²))`, which is twice the smaller tail."""
        x, df, mean, scale = floating("student_t", (x, df, mean, scale))
        z = (x - mean) / scale
        tail = 0.5 * betainc(df / 2, 0.5, df / (df + z * z))
        return where(z > 0, 1 - tail, tail)

    @staticmethod
    def sample(key: Any, shape: Any, df: Any, mean: Any = 0.0, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """Normal numbers over the roots of means of squares."""
        keys = random.split(key)
        size = chi2.sample(keys[0], shape, df, dtype=dtype) / df
        return mean + scale * (random.normal(keys[1], shape, dtype=size.settled) / sqrt(size))


class cauchy:
    """Cauchy's distribution."""

    @staticmethod
    def logpdf(x: Any, mean: Any = 0.0, scale: Any = 1.0) -> Any:
        """-log(π scale (1 + z²)), z = (x - mean) / scale."""
        x, mean, scale = floating("cauchy", (x, mean, scale))
        return -math.log(math.pi) - log(scale) - log1p(square((x - mean) / scale))

    @staticmethod
    def cdf(x: Any, mean: Any = 0.0, scale: Any = 1.0) -> Any:
        """1/2 + atan(z) / π."""
        x, mean, scale = floating("cauchy", (x, mean, scale))
        return 0.5 + atan((x - mean) / scale) / math.pi

    @staticmethod
    def sample(key: Any, shape: Any = (), mean: Any = 0.0, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """Quotients of normal numbers."""
        keys = random.split(key)
        x, y = (random.normal(keys[k], shape, dtype=dtype) for k in (0, 1))
        return mean + scale * (x / y)


class laplace:
    """Laplace's distribution, exponential on both sides."""

    @staticmethod
    def logpdf(x: Any, mean: Any = 0.0, scale: Any = 1.0) -> Any:
        """-|z| - log(2 scale), z = (x - mean) / scale."""
        x, mean, scale = floating("laplace", (x, mean, scale))
        return -magnitude((x - mean) / scale) - log(2 * scale)

    @staticmethod
    def cdf(x: Any, mean: Any = 0.0, scale: Any = 1.0) -> Any:
        """exp(-|z|) / 2 below the mean, 1 less that above."""
        x, mean, scale = floating("laplace", (x, mean, scale))
        z = (x - mean) / scale
        tail = 0.5 * exp(-magnitude(z))
        return where(z > 0, 1 - tail, tail)

    @staticmethod
    def sample(key: Any, shape: Any = (), mean: Any = 0.0, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """`random.laplace`."""
        return mean + scale * random.laplace(key, shape, dtype=dtype)


class logistic:
    """The logistic distribution."""

    @staticmethod
    def logpdf(x: Any, mean: Any = 0.0, scale: Any = 1.0) -> Any:
        """-|z| - 2 log(1 + exp(-|z|)) - log(scale), z = (x - mean) / scale."""
        x, mean, scale = floating("logistic", (x, mean, scale))
        z = (x - mean) / scale
        size = where(z < 0, -z, z)
        return -size - 2 * log1p(exp(-size)) - log(scale)

    @staticmethod
    def cdf(x: Any, mean: Any = 0.0, scale: Any = 1.0) -> Any:
        """1 / (1 + exp(-z))."""
        x, mean, scale = floating("logistic", (x, mean, scale))
        return expit((x - mean) / scale)

    @staticmethod
    def sample(key: Any, shape: Any = (), mean: Any = 0.0, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """Differences of Gumbel's numbers."""
        keys = random.split(key)
        return mean + scale * (random.gumbel(keys[0], shape, dtype=dtype) - random.gumbel(keys[1], shape, dtype=dtype))


class weibull:
    """Weibull's distribution with exponent a."""

    @staticmethod
    def logpdf(x: Any, a: Any, scale: Any = 1.0) -> Any:
        """log(a / scale) + (a - 1) log z - z^a, z = x / scale."""
        x, a, scale = floating("weibull", (x, a, scale))
        z = where(x > 0, x / scale, 1.0)
        return _inside(x > 0, log(a / scale) + (a - 1) * log(z) - exp(a * log(z)))

    @staticmethod
    def cdf(x: Any, a: Any, scale: Any = 1.0) -> Any:
        """1 - exp(-z^a)."""
        x, a, scale = floating("weibull", (x, a, scale))
        z = where(x > 0, x / scale, 1.0)
        return where(x > 0, -expm1(-exp(a * log(z))), 0.0)

    @staticmethod
    def sample(key: Any, shape: Any, a: Any, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """Exponential numbers to the power 1 / a."""
        return scale * exp(log(random.exponential(key, shape, dtype=dtype)) / a)


class pareto:
    """Pareto's distribution with exponent a, from `scale` on."""

    @staticmethod
    def logpdf(x: Any, a: Any, scale: Any = 1.0) -> Any:
        """log(a / scale) - (a + 1) log z, z = x / scale."""
        x, a, scale = floating("pareto", (x, a, scale))
        inside = x >= scale
        return _inside(inside, log(a / scale) - (a + 1) * log(where(inside, x / scale, 1.0)))

    @staticmethod
    def cdf(x: Any, a: Any, scale: Any = 1.0) -> Any:
        """1 - z^-a."""
        x, a, scale = floating("pareto", (x, a, scale))
        inside = x >= scale
        return where(inside, -expm1(-a * log(where(inside, x / scale, 1.0))), 0.0)

    @staticmethod
    def sample(key: Any, shape: Any, a: Any, scale: Any = 1.0, *, dtype: Any = None) -> Any:
        """Exp of exponential numbers over a."""
        return scale * exp(random.exponential(key, shape, dtype=dtype) / a)


class bernoulli:
    """1 with probability p, else 0."""

    @staticmethod
    def logpmf(k: Any, p: Any) -> Any:
        """K log p + (1 - k) log(1 - p)."""
        return binomial.logpmf(k, 1.0, p)

    @staticmethod
    def sample(key: Any, shape: Any = (), p: Any = 0.5) -> Any:
        """`random.bernoulli`: bools."""
        return random.bernoulli(key, shape, p=p)


class binomial:
    """How many of n are, each with probability p."""

    @staticmethod
    def logpmf(k: Any, n: Any, p: Any) -> Any:
        """K log p + (n - k) log(1 - p) - log B(k + 1, n - k + 1) - log(n + 1), k in floating point."""
        k, n, p = floating("binomial", (k, n, p))
        inside = (k >= 0) & (k <= n) & (k == floor(k))
        j = where(inside, k, 0.0)
        ways = -betaln(j + 1, n - j + 1) - log1p(n)
        return _inside(inside, ways + xlogy(j, p) + xlog1py(n - j, -p))

    @staticmethod
    def cdf(k: Any, n: Any, p: Any) -> Any:
        """`special.betainc(n - k, k + 1, 1 - p)`."""
        k, n, p = floating("binomial", (k, n, p))
        j = floor(k)
        inside = (j >= 0) & (j < n)
        found = betainc(where(inside, n - j, 1.0), where(inside, j + 1, 1.0), 1 - p)
        return where(inside, found, where(j < 0, 0.0, 1.0))

    @staticmethod
    def sample(key: Any, shape: Any, n: Any, p: Any) -> Any:
        """The number of true ones among n of `random.bernoulli`; n is an int or dim."""
        own = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        h = as_array(p)
        chosen = random.bernoulli(key, (*own, n), p=expand_dims(h, -1) if h.rank else h)
        return total(convert(chosen, "int64"), axis=-1)


class poisson:
    """How often what has a rate happens."""

    @staticmethod
    def logpmf(k: Any, rate: Any) -> Any:
        """K log(rate) - rate - log k!, k in floating point."""
        k, rate = floating("poisson", (k, rate))
        inside = (k >= 0) & (k == floor(k))
        j = where(inside, k, 0.0)
        return _inside(inside, xlogy(j, rate) - rate - lgamma(j + 1))

    @staticmethod
    def cdf(k: Any, rate: Any) -> Any:
        """`special.gammaincc(k + 1, rate)`."""
        k, rate = floating("poisson", (k, rate))
        j = floor(k)
        return where(j >= 0, gammaincc(where(j >= 0, j, 0.0) + 1, rate), 0.0)

    @staticmethod
    def sample(key: Any, shape: Any, rate: Any, *, largest: int = 200) -> Any:
        """How many partial sums of the probabilities are below u, of `largest`: for rates up to half of that."""
        (h,) = floating("poisson", (rate,))
        u = random.uniform(key, shape, dtype="float64")
        own = broadcast_to(convert(h, "float64"), u.shape) if u.rank else convert(h, "float64")
        first = exp(-own)

        def step(state: Any, k: Any) -> Any:
            term, below, count = state
            return term * own / (k + 1), below + term, count + convert(below + term <= u, "int64")

        start = (first, own * 0, convert(own * 0, "int64"))
        out: Array = fold(largest, start, step)[2]
        return out


class categorical:
    """One of n, with probabilities in proportion to exp(logits), along the last axis."""

    @staticmethod
    def logpmf(k: Any, logits: Any) -> Any:
        """logits[k] - log Σ exp(logits); k is an integer, or an array of the leading axes of the logits."""
        (h,) = floating("categorical", (logits,))
        place = as_array(k)
        norm = logsumexp(h, axis=-1)
        if h.rank == 1:
            return take(h, place) - norm
        return squeeze(take_along_axis(h, expand_dims(place, -1)), -1) - norm

    @staticmethod
    def sample(key: Any, logits: Any, shape: Any = None) -> Any:
        """`random.categorical`."""
        return random.categorical(key, logits, shape)
