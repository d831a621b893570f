"""Distributions of integers."""

from __future__ import annotations

import math
from typing import Any

from pullback import random
from pullback.arrays.composed import logsumexp
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import convert, elementwise, exp, floor, log, log1p, sqrt, where
from pullback.arrays.manipulation import broadcast_to, expand_dims
from pullback.arrays.reduction import sum as total
from pullback.distributions.domains import count, given, inside, log_density, probability, rate
from pullback.distributions.gammas import ATTEMPTS
from pullback.special import betainc, betaln, gammaincc, xlog1py, xlogy
from pullback.special.elements import floating
from pullback.tracing.array import Array
from pullback.tracing.control import fold
from pullback.tracing.index import build
from pullback.tracing.making import as_array

LARGEST_RATE = 2.0**62  # counts of larger rates may not fit i64


class bernoulli:
    """The Bernoulli distribution: 1 with probability p, else 0."""

    @staticmethod
    def logpmf(k: Any, p: Any) -> Any:
        """Return `k log p + (1 - k) log(1 - p)`."""
        k, p = floating("bernoulli", (k, p))
        return binomial.logpmf(k, 1.0, p)

    @staticmethod
    def sample(key: Any, shape: Any = (), p: Any = 0.5) -> Any:
        """`random.bernoulli`: bools."""
        return random.bernoulli(key, shape, p=p)


class binomial:
    """The binomial distribution: successes in n trials, each with probability p."""

    @staticmethod
    def logpmf(k: Any, n: Any, p: Any) -> Any:
        """Return `k log p + (n - k) log(1 - p) - log B(k + 1, n - k + 1) - log(n + 1)`, in floating point."""
        k, n, p = floating("binomial", (k, given(n, count), given(p, probability)))
        support = (k >= 0) & (k <= n) & (k == floor(k))
        j = where(support, k, 0.0)
        ways = -betaln(j + 1, n - j + 1) - log1p(n)
        return inside(support, ways + xlogy(j, p) + xlog1py(n - j, -p), k, n, p)

    @staticmethod
    def cdf(k: Any, n: Any, p: Any) -> Any:
        """`special.betainc(n - k, k + 1, 1 - p)`."""
        k, n, p = floating("binomial", (k, given(n, count), given(p, probability)))
        j = floor(k)
        within = (j >= 0) & (j < n)
        found = betainc(where(within, n - j, 1.0), where(within, j + 1, 1.0), 1 - p)
        return inside(within, found, k, n, p, outside=where(j < 0, 0.0, 1.0))

    @staticmethod
    def sample(key: Any, shape: Any, n: Any, p: Any) -> Any:
        """Count successes in n draws of `random.bernoulli`; n is an int or dim. -1 for an invalid p."""
        own = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        h = as_array(p)
        chosen = random.bernoulli(key, (*own, n), p=expand_dims(h, -1) if h.rank else h)
        return where(probability(h), total(convert(chosen, "int64"), axis=-1), -1)


class poisson:
    """The Poisson distribution: the number of events, with mean mu."""

    @staticmethod
    def logpmf(k: Any, mu: Any) -> Any:
        """Return `k log(mu) - mu - log k!`, in floating point."""
        k, mu = floating("poisson", (k, given(mu, rate)))
        support = (k >= 0) & (k < math.inf) & (k == floor(k))
        j = where(support, k, 0.0)
        return inside(support, log_density(j + 1, mu, j), k, mu)

    @staticmethod
    def cdf(k: Any, mu: Any) -> Any:
        """`special.gammaincc(k + 1, mu)`."""
        k, mu = floating("poisson", (k, given(mu, rate)))
        j = floor(k)
        within = (j >= 0) & (j < math.inf)
        found = gammaincc(where(within, j, 0.0) + 1, mu)
        return inside(within, found, k, mu, outside=where(j < 0, 0.0, 1.0))

    @staticmethod
    def sample(key: Any, shape: Any, mu: Any, *, largest: int = 200) -> Any:
        """Sample by inversion with `largest` terms for small mu, else by rejection. -1 for an invalid mu.

        Inversion counts the partial sums below a uniform number, for mu up to (√(largest - 4) - 4)². Larger mu use
        Hörmann's PTRS (*The transformed rejection method for generating Poisson random variables*, 1993): the first
        accepted of 16 candidates. A mu above 2^62 gives -1, as its counts may not fit i64.
        """
        (h,) = floating("poisson", (mu,))
        largest = max(largest, 60)  # rejection requires a mu of at least 10
        limit = (math.sqrt(largest - 4) - 4) ** 2
        u = random.uniform(key, shape, dtype="float64")
        own = broadcast_to(convert(h, "float64"), u.shape) if u.rank else convert(h, "float64")
        known = rate(own) & (own <= LARGEST_RATE)
        small = own <= limit
        found = where(small, _by_sums(u, where(small, own, 1.0), largest), _rejected(key, where(small, limit, own)))
        return where(known, found, -1)



def _by_sums(u: Array, rates: Array, largest: int) -> Array:
    """The number of partial sums of the probabilities that are at most u."""

    def step(state: Any, k: Any) -> Any:
        term, below, found = state
        return term * rates / (k + 1), below + term, found + convert(below + term <= u, "int64")

    start = (exp(-rates), rates * 0, convert(rates * 0, "int64"))
    out: Array = fold(largest, start, step)[2]
    return out


def _rejected(key: Any, rates: Array) -> Array:
    """Sample k = ⌊(2 a / (1/2 - |u|) + b) u + rate + 0.43⌋, u uniform in (-1/2, 1/2), by rejection."""
    b = 0.931 + 2.53 * sqrt(rates)
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)

    def attempt(state: Any, i: Any) -> Any:
        value, done = state
        keys = random.split(random.fold_in(key, i))
        u = random.uniform(keys[0], rates.shape, dtype="float64") - 0.5
        v = 1 - random.uniform(keys[1], rates.shape, dtype="float64")
        rest = elementwise("maximum", 0.5 - magnitude(u), 1e-300)
        k = floor((2 * a / rest + b) * u + rates + 0.43)
        counts = k >= 0
        j = where(counts, k, 0.0)
        fits = counts & (log(v * inverse / (a / (rest * rest) + b)) <= log_density(j + 1, rates, j))
        return where(done | ~fits, value, k), done | fits

    return convert(fold(ATTEMPTS, (floor(rates), rates < 0), attempt)[0], "int64")


class categorical:
    """The categorical distribution, with probabilities proportional to exp(logits) along the last axis."""

    @staticmethod
    def logpmf(k: Any, logits: Any) -> Any:
        """Return `logits[k] - log Σ exp(logits)`; k is an integer or an array over the leading axes."""
        (h,) = floating("categorical", (given(logits, lambda h: h < math.inf),))
        place = as_array(k)

        def at(*i: Any) -> Array:
            leading = i if h.rank > 1 else ()
            return h.at(*leading, place[i] if i else place, fill=-math.inf)

        return (build(place.shape, at) if place.rank else at()) - logsumexp(h, axis=-1)

    @staticmethod
    def sample(key: Any, logits: Any, shape: Any = None) -> Any:
        """`random.categorical`."""
        return random.categorical(key, logits, shape)
