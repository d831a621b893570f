"""pb.distributions: densities written out in mpmath, distribution functions as their integrals, samples."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from jaxtyping import Float64, UInt32

import pullback as pb
from pullback import Array, distributions, random
from pullback.testing import check_grads

pytestmark = pytest.mark.slow

ROOT = lambda v: mp.sqrt(v)
Z = lambda x, m, s: (x - m) / s
INF = mp.inf

# name: density in mpmath, support, parameters, points
CONTINUOUS: dict[str, tuple[Any, tuple[Any, Any], list[float], list[float]]] = {
    "normal": (
        lambda x, m, s: mp.exp(-(Z(x, m, s) ** 2) / 2) / (s * ROOT(2 * mp.pi)), (-INF, INF), [0.5, 2.0], [-3, 1]
    ),
    "lognormal": (
        lambda x, m, s: mp.exp(-(Z(mp.log(x), m, s) ** 2) / 2) / (x * s * ROOT(2 * mp.pi)),
        (0, INF),
        [0.5, 0.7],
        [0.3, 2],
    ),
    "half_normal": (lambda x, s: 2 * mp.exp(-(x**2) / (2 * s**2)) / (s * ROOT(2 * mp.pi)), (0, INF), [1.5], [0.3, 2]),
    "uniform": (lambda x, a, b: 1 / (b - a), (-1, 3), [-1.0, 3.0], [-0.5, 2.5]),
    "exponential": (lambda x, r: r * mp.exp(-r * x), (0, INF), [1.7], [0.3, 2]),
    "gamma": (lambda x, a, s: (x / s) ** (a - 1) * mp.exp(-x / s) / (s * mp.gamma(a)), (0, INF), [2.5, 1.3], [0.3, 5]),
    "chi2": (
        lambda x, k: x ** (k / 2 - 1) * mp.exp(-x / 2) / (2 ** (k / 2) * mp.gamma(k / 2)), (0, INF), [5.0], [0.3, 7]
    ),
    "beta": (lambda x, a, b: x ** (a - 1) * (1 - x) ** (b - 1) / mp.beta(a, b), (0, 1), [2.5, 1.3], [0.1, 0.8]),
    "student_t": (
        lambda x, v, m, s: (1 + Z(x, m, s) ** 2 / v) ** (-(v + 1) / 2) / (s * ROOT(v) * mp.beta(v / 2, mp.mpf(1) / 2)),
        (-INF, INF),
        [4.5, 0.3, 2.0],
        [-3, 2],
    ),
    "cauchy": (lambda x, m, s: 1 / (mp.pi * s * (1 + Z(x, m, s) ** 2)), (-INF, INF), [0.5, 2.0], [-3, 1]),
    "laplace": (lambda x, m, s: mp.exp(-abs(Z(x, m, s))) / (2 * s), (-INF, INF), [0.5, 2.0], [-3, 1]),
    "logistic": (
        lambda x, m, s: mp.exp(-Z(x, m, s)) / (s * (1 + mp.exp(-Z(x, m, s))) ** 2), (-INF, INF), [0.5, 2.0], [-3, 1]
    ),
    "weibull": (lambda x, a, s: a / s * (x / s) ** (a - 1) * mp.exp(-((x / s) ** a)), (0, INF), [1.7, 2.0], [0.3, 3]),
    "pareto": (lambda x, a, s: a * s**a / x ** (a + 1), (0.5, INF), [1.7, 0.5], [0.6, 3]),
}
DISCRETE: dict[str, tuple[Any, list[float], list[int]]] = {
    "poisson": (lambda k, r: r**k * mp.exp(-r) / mp.factorial(k), [3.7], [0, 2, 9]),
    "binomial": (lambda k, n, p: mp.binomial(n, k) * p**k * (1 - p) ** (n - k), [9.0, 0.3], [0, 4, 9]),
    "bernoulli": (lambda k, p: p**k * (1 - p) ** (1 - k), [0.3], [0, 1]),
}


def form(name: str, what: str, count: int) -> Any:
    """A function of x and the parameters, each of its own."""
    names = ", ".join(f"p{k}" for k in range(count))
    space: dict[str, Any] = {"f": getattr(getattr(distributions, name), what)}
    exec(f"def form(x, {names}):\n    return f(x, {names})", space)
    space["form"].__annotations__ = {
        "x": Float64[Array, "N"],
        **{f"p{k}": Float64[Array, ""] for k in range(count)},
    }
    return pb.function(space["form"])


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities(name: str) -> None:
    density, (low, high), parameters, points = CONTINUOUS[name]
    given = (np.array(points, float), *map(np.float64, parameters))
    f = form(name, "logpdf", len(parameters))
    wanted = [float(mp.log(density(mp.mpf(x), *parameters))) for x in points]
    for route in (f, f.interpret):
        np.testing.assert_allclose(route(*given), wanted, rtol=1e-13, atol=1e-13)
    outside = [float(low) - 1] if low != -INF else []
    outside += [float(high) + 1] if high != INF else []
    if outside:
        np.testing.assert_array_equal(f(np.array(outside), *given[1:]), -np.inf)
    if name not in ("uniform", "beta", "student_t"):  # the last two are betaln, whose derivative has its own test
        check_grads(f, given, modes=("reverse",), order=1, elements=2)
    cdf = form(name, "cdf", len(parameters))
    for k in range(len(given)):
        odd = [np.full_like(v, np.nan) if j == k else v for j, v in enumerate(given)]
        assert np.isnan(f(*odd)).all() and np.isnan(cdf(*odd)).all()
    start = low if low != -INF else -mp.mpf(10) ** 9
    for x, found in zip(points, cdf(*given), strict=True):
        pieces = [start, *(p for p in (-1e4, -100, -10, 0, parameters[0]) if start < p < x), x]
        np.testing.assert_allclose(found, float(mp.quad(lambda t: density(t, *parameters), pieces)), rtol=1e-8)


@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities(name: str) -> None:
    mass, parameters, points = DISCRETE[name]
    given = (np.array(points, float), *map(np.float64, parameters))
    f = form(name, "logpmf", len(parameters))
    wanted = [float(mp.log(mass(k, *parameters))) for k in points]
    np.testing.assert_allclose(f(*given), wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(f(np.array([0.5, -1.0]), *given[1:]), -np.inf)
    if name != "bernoulli":
        sums = [float(sum(mass(j, *parameters) for j in range(k + 1))) for k in points]
        cdf = form(name, "cdf", len(parameters))
        np.testing.assert_allclose(cdf(*given), sums, rtol=1e-12)
        for k in range(len(given)):
            assert np.isnan(cdf(*(np.full_like(v, np.nan) if j == k else v for j, v in enumerate(given)))).all()


N = 4000


@pytest.mark.parametrize("name", CONTINUOUS)
def test_samples(name: str) -> None:
    """Kolmogorov's distance of 4000 numbers: above 0.031 once in a thousand."""
    _, _, parameters, _ = CONTINUOUS[name]
    sample, cdf = getattr(distributions, name).sample, getattr(distributions, name).cdf

    @pb.function
    def draw(key: UInt32[Array, "2"]):
        x = sample(key, N, *parameters)
        return x, cdf(x, *parameters)

    x, share = draw(random.key(5))
    assert x.shape == (N,)
    assert np.abs(np.sort(share) - (np.arange(N) + 0.5) / N).max() < 0.031


def test_samples_of_whole_numbers_and_vectors() -> None:
    c = np.array([[2.0, 0.6], [0.6, 0.5]])

    @pb.function
    def draw(key: UInt32[Array, "2"], c: Float64[Array, "2 2"]):
        return (
            distributions.poisson.sample(key, N, 3.7),
            distributions.binomial.sample(key, N, 9, 0.3),
            distributions.categorical.sample(key, pb.log(np.array([0.2, 0.8])), (N,)),
            distributions.multivariate_normal.sample(key, N, np.array([1.0, -1.0]), c),
            distributions.dirichlet.sample(key, N, np.array([0.5, 2.0, 1.5])),
            distributions.gamma.sample(key, N, 0.05),
        )

    counts, chosen, category, vectors, shares, small = draw(random.key(9), c)
    assert abs(counts.mean() - 3.7) < 0.13 and abs(counts.var() - 3.7) < 0.4
    assert abs(chosen.mean() - 2.7) < 0.1 and chosen.max() <= 9
    assert abs(category.mean() - 0.8) < 0.03
    np.testing.assert_allclose(np.cov(vectors.T), c, atol=0.15)
    np.testing.assert_allclose(vectors.mean(0), [1, -1], atol=0.1)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(shares.mean(0), [0.125, 0.5, 0.375], atol=0.02)
    assert abs(small.mean() - 0.05) < 0.02 and (small >= 0).all()


def test_vectors() -> None:
    a = np.random.default_rng(0).normal(size=(3, 3))
    c, x, mean = a @ a.T + np.eye(3), np.array([0.3, -1.0, 2.0]), np.array([1.0, 0.0, 0.5])

    @pb.function
    def f(x: Float64[Array, "*B N"], mean: Float64[Array, "N"], c: Float64[Array, "N N"]):
        return distributions.multivariate_normal.logpdf(x, mean, c)

    wanted = -0.5 * (x - mean) @ np.linalg.solve(c, x - mean) - 0.5 * np.linalg.slogdet(2 * np.pi * c)[1]
    np.testing.assert_allclose(f(x, mean, c), wanted)
    np.testing.assert_allclose(f(np.stack([x, mean]), mean, c)[0], wanted)
    check_grads(f, (x, mean, c), modes=("reverse",), order=1, elements=4)
    share, alpha = np.array([0.2, 0.5, 0.3]), np.array([0.5, 2.0, 1.5])
    found = pb.function(lambda x, a: distributions.dirichlet.logpdf(x, a))(share, alpha)
    factors = (mp.mpf(s) ** (a - 1) / mp.gamma(a) for s, a in zip(share, alpha, strict=True))
    exact = mp.gamma(sum(alpha)) * mp.fprod(factors)
    np.testing.assert_allclose(found, float(mp.log(exact)), rtol=1e-12)
    logits = np.array([[0.0, 1.0, 2.0], [3.0, 1.0, 0.0]])
    mass = pb.function(lambda k, l: distributions.categorical.logpmf(k, l))(np.array([2, 0]), logits)
    np.testing.assert_allclose(mass, logits[[0, 1], [2, 0]] - np.log(np.exp(logits).sum(1)))


def test_the_derivative_of_a_gamma_sample() -> None:
    """The x for which F(x; a) stays as it is moves with a."""

    @pb.function
    def draw(key: UInt32[Array, "2"], a: Float64[Array, ""]):
        return pb.sum(distributions.gamma.sample(key, 3, a))

    samples = pb.function(lambda key, a: distributions.gamma.sample(key, 3, a))(random.key(1), 1.7)
    with mp.workdps(30):
        share = [mp.gammainc(1.7, 0, float(x), regularized=True) for x in samples]
        quantile = lambda a: sum(
            mp.findroot(lambda x, p=p: mp.gammainc(a, 0, x, regularized=True) - p, float(s))
            for p, s in zip(share, samples, strict=True)
        )
        h = mp.mpf(10) ** -8
        wanted = float((quantile(1.7 + h) - quantile(1.7 - h)) / (2 * h))
    np.testing.assert_allclose(pb.grad(draw, wrt="a")(random.key(1), 1.7), wanted, rtol=1e-7)
