"""One row for each distribution: its density and distribution function in mpmath, SciPy's, domains and parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath as mp
from scipy import special, stats

INF = mp.inf
REST = {  # numbers outside of the domain of a parameter
    "any": (),
    "positive": (0.0, -0.0, -1.0, -mp.inf, mp.inf),
    "rate": (-1.0, -mp.inf, mp.inf),
    "probability": (-0.25, 1.25, -mp.inf, mp.inf),
    "count": (-1.0, 2.5, mp.inf),
    "low": (mp.inf, -mp.inf),
    "high": (mp.inf, -mp.inf, -1e9),
}


@dataclass(frozen=True)
class Row:
    """A distribution of numbers.

    Args:
        domains: of each parameter, by its name.
        log: the logarithm of the density in mpmath, inside the support.
        cdf: the distribution function in mpmath, inside the support.
        scipy: the distribution of SciPy.
        sets: parameters to try.
        far: parameters for samples alone.
        support: its ends.
        terms: what the largest terms are that the density is the sum of, where they cancel.
        whole: of whole numbers.
    """

    domains: dict[str, str]
    log: Callable[..., Any]
    cdf: Callable[..., Any] | None
    scipy: Callable[..., Any]
    sets: Sequence[tuple[float, ...]]
    far: Sequence[tuple[float, ...]] = ()
    support: Callable[..., tuple[Any, Any]] = lambda *p: (-INF, INF)
    terms: Callable[..., Any] = lambda x, *p: 0
    whole: bool = False


def xlog(c: Any, y: Any) -> Any:
    """C log y, 0 where c is."""
    return mp.mpf(0) if c == 0 else c * mp.log(y)


def normal_log(z: Any) -> Any:
    """Return the logarithm of the standard normal density."""
    return -z * z / 2 - mp.log(2 * mp.pi) / 2


def normal_cdf(z: Any) -> Any:
    """The lower share."""
    return mp.mpf(z > 0) if abs(z) > 1e3 else mp.erfc(-z / mp.sqrt(2)) / 2


def gamma_cdf(z: Any, a: Any) -> Any:
    """The share below z: for large a SciPy's, for small z one term."""
    if z > 1e4 + 2 * a:
        return mp.mpf(1)
    if a > 1e4:
        return mp.mpf(float(special.gammainc(float(a), float(z))))
    if z < 1e-40:
        return z**a / mp.gamma(a + 1)
    return mp.gammainc(a, 0, z, regularized=True)


def gamma_log(x: Any, a: Any, s: Any) -> Any:
    """Return the logarithm of the gamma density."""
    return xlog(a - 1, x / s) - x / s - mp.loggamma(a) - mp.log(s)


def poisson_cdf(k: Any, r: Any) -> Any:
    """The share up to k: 1 far beyond the rate, for large ones SciPy's."""
    if r == 0 or k > 1e4 + 2 * r:
        return mp.mpf(1)
    if r > 1e4:
        return mp.mpf(float(special.gammaincc(float(k + 1), float(r))))
    return mp.gammainc(k + 1, r, INF, regularized=True)


def beta_log(x: Any, a: Any, b: Any) -> Any:
    """Return the logarithm of the beta density."""
    return xlog(a - 1, x) + xlog(b - 1, 1 - x) - mp.loggamma(a) - mp.loggamma(b) + mp.loggamma(a + b)


def student_log(z: Any, v: Any) -> Any:
    """Return the logarithm of Student's density."""
    rest = mp.loggamma((v + 1) / 2) - mp.loggamma(v / 2) - mp.log(v * mp.pi) / 2
    return -(v + 1) / 2 * mp.log1p(z * z / v) + rest


def student_cdf(z: Any, v: Any) -> Any:
    """The lower share, by the tail beyond |z|."""
    tail = mp.betainc(v / 2, mp.mpf(1) / 2, 0, v / (v + z * z), regularized=True) / 2
    return tail if z < 0 else 1 - tail


def location(log: Any, cdf: Any, scipy: Any, sets: Any = ((0.5, 2.0),), *more: str, **other: Any) -> Row:
    """A distribution of z = (x - mean) / scale."""
    domains = {**dict.fromkeys(more, "positive"), "loc": "any", "scale": "positive"}
    return Row(
        domains,
        lambda x, *p: log((x - p[-2]) / p[-1], *p[:-2]) - mp.log(p[-1]),
        lambda x, *p: cdf((x - p[-2]) / p[-1], *p[:-2]),
        scipy,
        sets,
        **other,
    )


SCALES = ((0.5, 2.0), (0.0, 1.0), (-1e3, 1e-3), (0.0, 1e30), (1e30, 1e25))
ABOVE = lambda *p: (mp.mpf(0), INF)
SHARE = lambda *p: (mp.mpf(0), mp.mpf(1))
SHAPES = ((2.5, 1.25), (1.0, 0.5), (0.5, 2.0), (0.0078125, 1.0), (60.0, 8.0), (1e-20, 1.0), (1e6, 1.0))

ROWS: dict[str, Row] = {
    "normal": location(normal_log, normal_cdf, lambda m, s: stats.norm(m, s), SCALES),
    "cauchy": location(
        lambda z: -mp.log(mp.pi) - mp.log1p(z * z),
        lambda z: mp.atan2(1, -z) / mp.pi,
        lambda m, s: stats.cauchy(m, s),
        SCALES,
    ),
    "laplace": location(
        lambda z: -abs(z) - mp.log(2),
        lambda z: mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2,
        lambda m, s: stats.laplace(m, s),
        SCALES,
    ),
    "logistic": location(
        lambda z: -abs(z) - 2 * mp.log1p(mp.exp(-abs(z))),
        lambda z: 1 / (1 + mp.exp(-z)),
        lambda m, s: stats.logistic(m, s),
        SCALES,
    ),
    "student_t": location(
        student_log,
        student_cdf,
        lambda v, m, s: stats.t(v, m, s),
        ((4.5, 0.25, 2.0), (1.0, 0.0, 1.0), (0.5, 0.0, 1.0), (40.0, -1.0, 0.5), (0.015625, 0.0, 1.0)),
        "df",
        far=((0.25, 0.0, 1.0), (1e5, 0.0, 1.0)),
    ),
    "lognormal": Row(
        {"loc": "any", "scale": "positive"},
        lambda x, m, s: normal_log((mp.log(x) - m) / s) - mp.log(s) - mp.log(x) if x else -INF,
        lambda x, m, s: normal_cdf((mp.log(x) - m) / s) if x else mp.mpf(0),
        lambda m, s: stats.lognorm(s, scale=mp.exp(m)),
        ((0.5, 0.75), (0.0, 1.0), (-3.0, 10.0)),
        support=ABOVE,
    ),
    "half_normal": Row(
        {"scale": "positive"},
        lambda x, s: normal_log(x / s) - mp.log(s) + mp.log(2),
        lambda x, s: mp.mpf(1) if x / s > 1e3 else mp.erf(x / s / mp.sqrt(2)),
        lambda s: stats.halfnorm(scale=s),
        ((1.5,), (1e-3,), (1e30,)),
        support=ABOVE,
    ),
    "uniform": Row(
        {"low": "low", "high": "high"},
        lambda x, a, b: -mp.log(b - a),
        lambda x, a, b: (x - a) / (b - a),
        lambda a, b: stats.uniform(a, b - a),
        ((-1.0, 3.0), (0.0, 1.0), (-1e30, 2e30)),
        support=lambda a, b: (mp.mpf(a), mp.mpf(b)),
    ),
    "exponential": Row(
        {"rate": "positive"},
        lambda x, r: mp.log(r) - r * x,
        lambda x, r: -mp.expm1(-r * x),
        lambda r: stats.expon(scale=1 / r),
        ((1.75,), (1e-20,), (1e20,)),
        support=ABOVE,
    ),
    "gamma": Row(
        {"a": "positive", "scale": "positive"},
        gamma_log,
        lambda x, a, s: gamma_cdf(x / s, a),
        lambda a, s: stats.gamma(a, scale=s),
        SHAPES,
        far=((0.001, 1.0), (1e12, 1.0), (1e18, 1.0)),
        support=ABOVE,
    ),
    "chi2": Row(
        {"df": "positive"},
        lambda x, v: gamma_log(x, v / 2, 2),
        lambda x, v: gamma_cdf(x / 2, v / 2),
        lambda v: stats.chi2(v),
        ((5.0,), (2.0,), (1.0,), (0.03125,), (1e6,)),
        support=ABOVE,
    ),
    "beta": Row(
        {"a": "positive", "b": "positive"},
        beta_log,
        lambda x, a, b: mp.betainc(a, b, 0, x, regularized=True),
        lambda a, b: stats.beta(a, b),
        ((2.5, 1.25), (1.0, 1.0), (0.5, 0.5), (1.0, 3.0), (60.0, 7.0), (0.0078125, 2.0)),
        far=((0.001, 0.001), (1e-5, 2.0), (1e-30, 3e-30), (1e8, 1e6), (0.25, 1e5)),
        support=SHARE,
        terms=lambda x, a, b: abs(mp.loggamma(a)) + abs(mp.loggamma(b)) + abs(mp.loggamma(a + b)),
    ),
    "weibull": Row(
        {"c": "positive", "scale": "positive"},
        lambda x, a, s: mp.log(a / s) + xlog(a - 1, x / s) - (x / s) ** a,
        lambda x, a, s: -mp.expm1(-((x / s) ** a)),
        lambda a, s: stats.weibull_min(a, scale=s),
        ((1.75, 2.0), (1.0, 0.5), (0.5, 2.0), (0.0625, 1.0), (60.0, 8.0)),
        far=((0.01, 1.0), (1e6, 1.0)),
        support=ABOVE,
    ),
    "pareto": Row(
        {"b": "positive", "scale": "positive"},
        lambda x, a, s: mp.log(a / s) - (a + 1) * mp.log(x / s),
        lambda x, a, s: -mp.expm1(-a * mp.log(x / s)),
        lambda a, s: stats.pareto(a, scale=s),
        ((1.75, 0.5), (0.0625, 1.0), (60.0, 1e-10), (1e-20, 1.0)),
        far=((0.01, 1.0),),
        support=lambda a, s: (mp.mpf(s), INF),
    ),
    "bernoulli": Row(
        {"p": "probability"},
        lambda k, p: xlog(k, p) + xlog(1 - k, 1 - p),
        None,
        lambda p: stats.bernoulli(p),
        ((0.25,), (0.0,), (1.0,), (1e-20,)),
        support=lambda p: (mp.mpf(0), mp.mpf(1)),
        whole=True,
    ),
    "binomial": Row(
        {"n": "count", "p": "probability"},
        lambda k, n, p: mp.log(mp.binomial(n, k)) + xlog(k, p) + xlog(n - k, 1 - p),
        lambda k, n, p: mp.betainc(n - k, k + 1, 0, 1 - p, regularized=True) if k < n else mp.mpf(1),
        lambda n, p: stats.binom(int(n), p),
        ((9.0, 0.25), (9.0, 0.0), (9.0, 1.0), (0.0, 0.5), (200.0, 0.5), (9.0, 1e-20)),
        support=lambda n, p: (mp.mpf(0), mp.mpf(n)),
        terms=lambda k, n, p: mp.loggamma(n + 1),
        whole=True,
    ),
    "poisson": Row(
        {"mu": "rate"},
        lambda k, r: xlog(k, r) - r - mp.loggamma(k + 1),
        lambda k, r: poisson_cdf(k, r),
        lambda r: stats.poisson(r),
        ((3.75,), (0.0,), (1e-20,), (90.0,), (1e6,)),
        far=((12.0,), (99.0,), (101.0,), (250.0,), (1e5,), (1e12,)),
        support=ABOVE,
        whole=True,
    ),
}

VECTORS = ("categorical", "dirichlet", "multivariate_normal")
"""Distributions whose values or parameters are vectors: `test_distribution_net.py` has a test of each."""
