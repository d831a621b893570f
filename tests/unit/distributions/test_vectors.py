"""Distributions of vectors and categories beside SciPy's, and derivatives of samples, in the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special as sp
from scipy import stats

import pullback as pb
from pullback import distributions, random
from pullback.distributions import gammas

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


@pytest.mark.parametrize("alpha", [[0.5, 2.0, 1.5], [1e-3, 2e-3, 5e-3]])
def test_samples_of_dirichlet(alpha: list[float]) -> None:
    """The first share is beta distributed; once in a thousand its distance is above this."""
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
