"""Distributions of vectors, samples with their derivatives, and parts of densities, beside SciPy, interpreted."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.special as sp
from scipy import stats

import pullback as pb
from pullback import distributions, random
from pullback.distributions import domains, gammas
from tests.unit.distributions.table import function_of

pytestmark = pytest.mark.slow

INF, NAN = np.inf, np.nan
KEY = random.key(3)


def interpreted(f: Any, *given: Any) -> Any:
    with np.errstate(all="ignore"):
        return pb.function(f).interpret(*given)


def test_multivariate_normal() -> None:
    r = np.random.default_rng(0)
    a = r.normal(size=(3, 3))
    c, mean, x = a @ a.T + np.eye(3), r.normal(size=3), r.normal(size=(2, 4, 3))
    log = lambda x, mean, c: distributions.multivariate_normal.logpdf(x, mean, c)
    wanted = stats.multivariate_normal(mean, c).logpdf(x)
    np.testing.assert_allclose(interpreted(log, x, mean, c), wanted, rtol=1e-13)
    np.testing.assert_allclose(interpreted(log, x[0, 1], mean, c), wanted[0, 1], rtol=1e-13)
    sample = distributions.multivariate_normal.sample
    factor = np.linalg.cholesky(c)
    for shape, z in ((5, (5, 3)), ((2, 4), (2, 4, 3)), ([2], (2, 3)), ((), (3,))):
        standard = interpreted(lambda key: random.normal(key, z), KEY)
        found = interpreted(lambda key, mean, c: sample(key, shape, mean, c), KEY, mean, c)
        np.testing.assert_allclose(found, mean + standard @ factor.T, rtol=1e-12)
    assert interpreted(lambda key, c: sample(key, 2, 0.0, c), KEY, c.astype("f4")).dtype == np.float32


def test_dirichlet() -> None:
    log = lambda x, alpha: distributions.dirichlet.logpdf(x, alpha)
    for alpha in ([0.5, 2.0, 1.5], [1.0, 1.0, 1.0], [30.0, 0.1, 4.0]):
        shares = [[0.2, 0.5, 0.3], [0.8, 0.1, 0.1]]
        wanted = [stats.dirichlet(alpha).logpdf(s) for s in shares]
        np.testing.assert_allclose(interpreted(log, np.array(shares), np.array(alpha)), wanted, rtol=1e-12)
    x = np.array([[0.0, 1.0], [1.0, 0.0], [-0.5, 1.5], [0.5, 0.6], [0.5, 0.5 + 1e-8], [0.5, 0.5 + 1e-6], [NAN, 1.0]])
    for alpha, wanted in (([1.0, 2.0], [2, 0, 0, 0, 1, 0, NAN]), ([0.5, 1.0], [INF, 0.5, 0, 0, 0.5**0.5, 0, NAN])):
        found = np.exp(interpreted(log, x, np.array(alpha)))
        np.testing.assert_allclose(found, wanted, rtol=1e-7)
    near = np.array([[0.5, 0.5 + 5e-4], [0.5, 0.5 + 2e-3]], "f4")
    assert np.isfinite(interpreted(log, near, np.array([2.0, 2.0], "f4"))).tolist() == [True, False]
    assert np.isnan(interpreted(log, x[:2], np.array([1.0, 0.0]))).all()


def test_samples_of_dirichlet() -> None:
    """The first share is beta distributed; once in a thousand its distance is above this."""
    alpha = [0.02, 0.2, 1.5]
    sample = distributions.dirichlet.sample
    x = interpreted(lambda key, alpha: sample(key, 800, alpha), KEY, np.array(alpha))
    assert x.shape == (800, 3)
    np.testing.assert_allclose(x.sum(1), 1, rtol=1e-14)
    value, counts = np.unique(x[:, 0], return_counts=True)
    off = np.abs(stats.beta(alpha[0], sum(alpha[1:])).cdf(value) - (np.cumsum(counts) - counts / 2) / 800)
    assert (off < 0.069 + counts / 1600).all()
    np.testing.assert_allclose(x.mean(0), np.array(alpha) / sum(alpha), atol=0.06)
    pair = interpreted(lambda key: sample(key, (2, 5), np.array(alpha, "f4"), dtype="float32"), KEY)
    assert (pair.dtype, pair.shape) == (np.float32, (2, 5, 3))


def test_categories() -> None:
    log = lambda k, logits: distributions.categorical.logpmf(k, logits)
    logits = np.array([[0.0, 1.0, 2.0], [3.0, 1.0, -INF], [NAN, 0.0, 1.0], [INF, 0.0, 1.0]])
    with np.errstate(all="ignore"):
        share = logits - sp.logsumexp(logits, axis=1, keepdims=True)
    for places in ([2, 0, 1, 1], [1, 2, 0, 0], [-1, 3, 0, 0]):
        wanted = [share[i, k] if 0 <= k < 3 else -INF for i, k in enumerate(places)]
        wanted[3] = NAN
        np.testing.assert_allclose(interpreted(log, np.array(places), logits), wanted, rtol=1e-14)
    one = np.array([0.1, 0.7, 0.2])
    found = interpreted(log, np.array([[1, 0], [2, 3]]), np.log(one))
    np.testing.assert_allclose(np.exp(found), [[0.7, 0.1], [0.2, 0]], rtol=1e-14)
    assert interpreted(log, 1, np.log(one)) == pytest.approx(np.log(0.7), rel=1e-14)
    drawn = interpreted(lambda key, l: distributions.categorical.sample(key, l, (5,)), KEY, np.log(one))
    assert drawn.tolist() == interpreted(lambda key, l: random.categorical(key, l, (5,)), KEY, np.log(one)).tolist()


def test_derivatives_of_gamma_numbers() -> None:
    """A number moves with a so that its share stays: SciPy's quantiles at two neighbors of a."""
    a = np.array([0.3, 1.0, 4.5, 24.0, 26.0, 200.0])
    draw = lambda key, a: distributions.gamma.sample(key, 6, a)
    x = interpreted(draw, KEY, a)
    found = pb.grad(lambda key, a: pb.sum(draw(key, a)), wrt="a").interpret(KEY, a)
    share = sp.gammainc(a, x)
    above, below = (sp.gammaincinv(a * (1 + s), share) for s in (1e-4, -1e-4))
    np.testing.assert_allclose(found, (above - below) / (2e-4 * a), rtol=1e-6)


def test_derivatives_of_logarithms_of_gamma_numbers() -> None:
    """Where numbers vanish their logarithm is (log u + log Γ(a + 1)) / a for a share u, which stays."""
    a = np.array([1e-4, 5e-4, 2e-3, 0.5, 3.0])
    draw = lambda key, a: gammas.log_gamma_sample(key, 5, a, None)
    y = interpreted(draw, KEY, a)
    assert (y[:3] < -500).any() and (y[3:] > -500).all()
    found = pb.grad(lambda key, a: pb.sum(draw(key, a)), wrt="a").interpret(KEY, a)
    share = sp.gammainc(a, np.exp(y))
    with np.errstate(all="ignore"):
        above, below = (np.log(sp.gammaincinv(a * (1 + s), share)) for s in (1e-4, -1e-4))
        wanted = np.where(y < -500, (sp.digamma(a + 1) - y) / a, (above - below) / (2e-4 * a))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_bernoulli_is_binomial_of_one() -> None:
    p = np.array([0.0, 0.25, 1.0, NAN])
    for k in (0.0, 1.0, 0.5, 2.0):
        found = interpreted(lambda p, k: distributions.bernoulli.logpmf(k, p), p, k)
        with np.errstate(all="ignore"):
            wanted = np.where(np.isnan(p), NAN, np.log(np.where(k == 1, p, 1 - p)) if k in (0, 1) else -INF)
        np.testing.assert_allclose(found, wanted, rtol=1e-14)
    drawn = interpreted(lambda key: distributions.bernoulli.sample(key, 9, 0.25), KEY)
    assert drawn.tolist() == interpreted(lambda key: random.bernoulli(key, 9, p=0.25), KEY).tolist()


OUTSIDE = {  # parameters, points at the lower end and outside, and beyond the upper end
    "lognormal": ((0.5, 0.75), [0.0, -1.0]),
    "half_normal": ((1.5,), [-1.0]),
    "uniform": ((-1.0, 3.0), [-2.0, 4.0]),
    "exponential": ((1.75,), [-1.0]),
    "weibull": ((1.75, 2.0), [-1.0]),
    "pareto": ((1.75, 0.5), [0.25, 0.0, -1.0]),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_derivatives_outside_of_the_support_are_zero(name: str) -> None:
    p, points = OUTSIDE[name]
    given = [np.array(points), *(np.full(len(points), v) for v in p)]
    for what in ("logpdf", "cdf"):
        with np.errstate(all="ignore"):
            found = function_of(name, what, 1).interpret(*given)
        np.testing.assert_array_equal(found, np.zeros((len(given), len(points))))


ENDS = [  # ends of the support, and the derivatives by x from inside: of the logarithm, of the distribution function
    ("exponential", (2.0,), [0.0], -2.0, 2.0),
    ("gamma", (1.0, 0.5), [0.0], -2.0, 2.0),
    ("weibull", (1.0, 0.5), [0.0], -2.0, 2.0),
    ("half_normal", (2.0,), [0.0], 0.0, np.sqrt(2 / np.pi) / 2),
    ("uniform", (-1.0, 3.0), [3.0, -1.0], 0.0, 0.25),
    ("pareto", (2.0, 0.5), [0.5], -6.0, 4.0),
]


def test_derivatives_at_ends_of_supports() -> None:
    for name, p, x, *wanted in ENDS:
        own = getattr(distributions, name)
        for f, slope in zip((own.logpdf, own.cdf), wanted, strict=True):
            found = along(f, np.array(x), p)
            np.testing.assert_allclose(found, [slope] * len(x), rtol=1e-12, atol=1e-15, err_msg=f"{name} {p}")


def along(f: Any, x: Any, p: Any) -> Any:
    """The derivative by x."""
    with np.errstate(all="ignore"):
        return pb.grad(lambda x: pb.sum(f(x, *p)), wrt="x").interpret(x)


def test_a_number_of_a_sample_depends_on_its_place_alone() -> None:
    """Shapes are ints, tuples or lists; without axes a sample is one number, parameters may be whole numbers."""

    def drawn(shape: Any) -> Any:
        def every(key: Any) -> Any:
            d = distributions
            return {
                "normal": d.normal.sample(key, shape, 1, 2), "lognormal": d.lognormal.sample(key, shape, 1, 2),
                "half_normal": d.half_normal.sample(key, shape, 2), "uniform": d.uniform.sample(key, shape, -1, 2),
                "exponential": d.exponential.sample(key, shape, 3), "cauchy": d.cauchy.sample(key, shape, 1, 2),
                "laplace": d.laplace.sample(key, shape, 1, 2), "logistic": d.logistic.sample(key, shape, 1, 2),
                "weibull": d.weibull.sample(key, shape, 2, 3), "pareto": d.pareto.sample(key, shape, 2, 3),
                "bernoulli": d.bernoulli.sample(key, shape, 0.25), "gamma": d.gamma.sample(key, shape, 2, 3),
            }  # fmt: skip

        return interpreted(every, KEY)

    six, square, one = drawn(6), drawn([2, 3]), drawn(())
    for name, x in six.items():
        assert (x.shape, square[name].shape, one[name].shape) == ((6,), (2, 3), ()), name
        assert x.dtype == square[name].dtype == one[name].dtype
        np.testing.assert_allclose(square[name].ravel(), x, rtol=1e-15, err_msg=name)
        np.testing.assert_allclose(one[name], x[0], rtol=1e-15, err_msg=name)
    of = lambda p: six[p]
    standard = interpreted(lambda key: random.normal(key, 6), KEY)
    np.testing.assert_allclose(of("normal"), 1 + 2 * standard, rtol=1e-14)
    np.testing.assert_allclose(of("lognormal"), np.exp(1 + 2 * standard), rtol=1e-14)
    np.testing.assert_allclose(of("half_normal"), 2 * np.abs(standard), rtol=1e-14)


def test_parameters_given_as_numbers() -> None:
    """A number of Python is tested at once, an array where it runs; whole numbers are as they are."""
    for domain, good, bad in (
        (domains.positive, (1e-300, 3, 1e300), (0.0, -1, -INF, INF, NAN)),
        (domains.probability, (0, 0.5, 1.0), (-1e-9, 1 + 1e-9, INF, NAN)),
        (domains.rate, (0.0, 2, 1e300), (-1e-9, INF, NAN)),
        (domains.count, (0, 3.0, 1e15), (-1.0, 2.5, INF, NAN)),
    ):
        for v in (*good, *bad):
            own = domains.given(v, domain)
            assert own == v if v in good else np.isnan(own), (domain, v)
        column = np.array([*map(float, good), *bad])
        found = interpreted(lambda x: domains.given(x, domain), column)
        np.testing.assert_array_equal(found, [*map(float, good), *[NAN] * len(bad)])
        trials = interpreted(lambda k: distributions.binomial.logpmf(k, bad[-2], 0.5), np.ones(2))
        assert np.isnan(trials).all()
    whole = np.array([3, -1])
    assert interpreted(lambda x: domains.given(x), whole).tolist() == [3, -1]


def test_log_densities_on_both_sides_of_their_borders() -> None:
    """(a - 1) log z - z - log Γ(a), from a = 17 on by Stirling's formula; and log(1 + z²) beyond 1e8."""
    a, z = (v.ravel() for v in np.meshgrid([0.5, 16.9, 17.0, 17.1, 40.0, 1e3], [1e-3, 0.99, 1.0, 8.1, 24.0, 100.0]))
    found = interpreted(lambda a, z: domains.log_density(a, z, a - 1), a, z)
    np.testing.assert_allclose(found, stats.gamma(a).logpdf(z), rtol=3e-14, atol=1e-14)
    x = np.array([0.0, 1e-9, 0.5, -3.0, 9e7, 1.1e8, -1e9, 1e200, INF])
    for scale in (1.0, 1e-3, 1e150):
        found = interpreted(lambda x, s: domains.log1p_square(x, s), x, np.float64(scale))
        with np.errstate(all="ignore"):
            wanted = 2 * np.log(np.hypot(1, x / scale))
        np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=1e-16)


def uniforms(attempt: int, count: int) -> tuple[Any, Any]:
    """The even numbers of an attempt, from its two keys; and the first key."""
    keys = interpreted(lambda key: random.split(random.fold_in(key, attempt)), KEY)
    return keys[0], interpreted(lambda key: random.uniform(key, count), keys[1])


def test_poisson_numbers_are_the_first_that_is_accepted() -> None:
    """Hörmann's PTRS, with SciPy's probabilities; small rates by sums of them."""
    rates = np.repeat([150.0, 1e3, 1e5], 20)
    b = 0.931 + 2.53 * np.sqrt(rates)
    a, inverse = -0.059 + 0.02483 * b, 1.1239 + 1.1328 / (b - 3.4)
    wanted = np.full(60, np.nan)
    for attempt in range(16):
        first, v = uniforms(attempt, 60)
        u = interpreted(lambda key: random.uniform(key, 60), first) - 0.5
        rest = 0.5 - np.abs(u)
        k = np.floor((2 * a / rest + b) * u + rates + 0.43)
        fits = np.log((1 - v) * inverse / (a / rest**2 + b)) <= stats.poisson(rates).logpmf(k)
        wanted = np.where(np.isnan(wanted) & fits, k, wanted)
    draw = lambda key, rates: distributions.poisson.sample(key, (len(rates),), rates)
    assert interpreted(draw, KEY, rates).tolist() == wanted.tolist()
    small = np.repeat([0.0, 0.3, 9.0, 99.0], 15)
    shares = interpreted(lambda key: random.uniform(key, 60), KEY)
    assert interpreted(draw, KEY, small).tolist() == np.maximum(stats.poisson(small).ppf(shares), 0).tolist()


def test_gamma_numbers_are_the_first_that_is_accepted() -> None:
    """Marsaglia and Tsang's method for a + 1, times u^(1/a)."""
    a = np.repeat([0.1, 0.9, 4.0, 50.0], 15)
    d = a + 2 / 3
    wanted = np.full(60, np.nan)
    for attempt in range(16):
        first, u = uniforms(attempt, 60)
        z = interpreted(lambda key: random.normal(key, 60), first)
        v = (1 + z / np.sqrt(9 * d)) ** 3
        with np.errstate(all="ignore"):
            fits = (v > 0) & (np.log(1 - u) < 0.5 * z * z + d * (1 - v + np.log(v)))
        wanted = np.where(np.isnan(wanted) & fits, d * v, wanted)
    last = interpreted(lambda key: random.uniform(random.fold_in(key, 16), 60), KEY)
    draw = lambda key, a: distributions.gamma.sample(key, 60, a, 2.0)
    np.testing.assert_allclose(interpreted(draw, KEY, a), 2 * wanted * (1 - last) ** (1 / a), rtol=1e-11)


def test_whole_numbers_are_named_with_the_distribution() -> None:
    """Arguments that are arrays of integers are refused."""
    x = np.arange(2)
    for name in distributions.__all__:
        for what in ("logpdf", "logpmf", "cdf"):
            f = getattr(getattr(distributions, name), what, None)
            if f is not None:
                given = [x] * len(inspect.signature(f).parameters)
                with pytest.raises(pb.DTypeError) as caught:
                    interpreted(partial(f, *given))
                assert caught.value.what.startswith(f"{name} takes floating-point values, not i64[2]"), (name, what)

