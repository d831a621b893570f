"""Ends of supports, distributions of vectors and categories, logarithms of gamma numbers."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import pullback as pb
from pullback import distributions, random
from tests.unit.distributions.table import function_of

pytestmark = pytest.mark.slow

ENDS = [  # distribution, parameters, x, the derivative by x of the logarithm from inside, of the distribution function
    ("exponential", (2.0,), 0.0, -2.0, 2.0),
    ("gamma", (1.0, 0.5), 0.0, -2.0, 2.0),
    ("gamma", (0.5, 0.5), 0.0, -np.inf, np.inf),
    ("gamma", (2.5, 0.5), 0.0, np.inf, 0.0),
    ("chi2", (2.0,), 0.0, -0.5, 0.5),
    ("weibull", (1.0, 0.5), 0.0, -2.0, 2.0),
    ("weibull", (0.5, 0.5), 0.0, -np.inf, np.inf),
    ("weibull", (2.5, 0.5), 0.0, np.inf, 0.0),
    ("beta", (1.0, 3.0), 0.0, -2.0, 3.0),
    ("beta", (3.0, 1.0), 1.0, 2.0, 3.0),
    ("beta", (0.5, 3.0), 0.0, -np.inf, np.inf),
    ("beta", (3.0, 0.5), 1.0, np.inf, np.inf),
    ("half_normal", (2.0,), 0.0, 0.0, math.sqrt(2 / math.pi) / 2),
    ("uniform", (-1.0, 3.0), 3.0, 0.0, 0.25),
    ("uniform", (-1.0, 3.0), -1.0, 0.0, 0.25),
    ("pareto", (2.0, 0.5), 0.5, -6.0, 4.0),
    ("student_t", (4.0, 0.0, 2.0), 0.0, 0.0, 0.1875),
    ("cauchy", (0.0, 2.0), 0.0, 0.0, 0.5 / math.pi),
]


@pytest.mark.parametrize("case", ENDS, ids=str)
def test_derivatives_at_the_ends(case: Any) -> None:
    name, p, x, by_log, by_share = case
    given = [np.array([v]) for v in (x, *p)]
    with np.errstate(all="ignore"):
        found = [function_of(name, what, 1).interpret(*given)[0][0] for what in ("logpdf", "cdf")]
    np.testing.assert_allclose(found, [by_log, by_share], rtol=1e-12, atol=1e-15)


def test_categories() -> None:
    """Positions that are none have no probability; NaN and infinite logits give NaN."""
    inf = np.inf
    f = pb.function(lambda k, logits: distributions.categorical.logpmf(k, logits))
    for route in (f, f.interpret):
        with np.errstate(all="ignore"):
            found = route(np.array([0, 1, -1, 2, 5, 0, 1]), np.array([[0.0, -inf]] * 5 + [[math.nan, 0.0], [inf, 0.0]]))
            np.testing.assert_array_equal(found, [0.0, -inf, -inf, -inf, -inf, math.nan, math.nan])
            np.testing.assert_allclose(route(np.array([1, -1, 2, 9]), np.zeros(2)), [-math.log(2), *[-inf] * 3])
            assert np.isnan(route(0, np.full(2, -inf)))


def test_shares() -> None:
    """Dirichlet's density at the ends and outside, NaN, and samples for small parameters."""
    f = pb.function(lambda x, alpha: distributions.dirichlet.logpdf(x, alpha))
    x = np.array([[0.0, 1.0], [0.5, 0.5], [-0.5, 1.5], [0.5, 0.6], [math.nan, 1.0], [0.0, 1.0], [1.0, 0.0]])
    with np.errstate(all="ignore"):
        for alpha, by_row in (
            ((1.0, 2.0), (2, 1, 0, 0, math.nan, 2, 0)),
            ((0.5, 1.0), (mp.inf, 0.5**0.5, 0, 0, math.nan, mp.inf, 0.5)),
        ):
            wanted = [float(mp.log(v)) for v in by_row]
            for route in (f, f.interpret):
                np.testing.assert_allclose(route(x, np.array(alpha)), wanted, rtol=1e-13, atol=1e-13)
        for alpha in ((0.0, 1.0), (-1.0, 1.0), (math.nan, 1.0), (mp.inf, 1.0)):
            assert np.isnan(f.interpret(x, np.array(alpha, float))).all()
    draw = pb.function(lambda key, alpha: distributions.dirichlet.sample(key, 4000, alpha))
    for size in (1.0, 1e-2, 1e-5, 1e-100):
        alpha = np.array([1.0, 2.0, 5.0]) * size
        shares = draw.interpret(random.key(2), alpha)
        np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-12)
        np.testing.assert_allclose(shares.mean(0), [0.125, 0.25, 0.625], atol=0.032)  # four standard deviations
    assert np.isnan(draw.interpret(random.key(2), np.array([1.0, 0.0, 1.0]))).all()


def test_vectors_that_are_not_numbers() -> None:
    """NaN in each argument, and covariances that are none."""
    f = pb.function(lambda x, mean, c: distributions.multivariate_normal.logpdf(x, mean, c))
    sample = pb.function(lambda key, mean, c: distributions.multivariate_normal.sample(key, 3, mean, c))
    x, mean, c = np.zeros(2), np.ones(2), np.array([[2.0, 0.5], [0.5, 1.0]])
    odd = np.array([math.nan, 0.0])
    none = [np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[-1.0, 0.0], [0.0, 1.0]]), np.diag(odd), np.zeros((2, 2))]
    with np.errstate(all="ignore"):
        assert np.isfinite(f.interpret(x, mean, c)) and np.isfinite(sample.interpret(random.key(0), mean, c)).all()
        for arguments in ((odd, mean, c), (x, odd, c), *((x, mean, n) for n in none)):
            assert np.isnan(f.interpret(*arguments))
        assert f.interpret(np.array([np.inf, 0.0]), mean, c) == -np.inf
        for n in none[:3]:
            assert np.isnan(sample.interpret(random.key(0), mean, n)).any(1).all()


def test_the_derivative_of_logarithms_of_gamma_numbers() -> None:
    """The logarithm for which F(x; a) stays as it is moves with a; for small a it is far below the numbers."""
    from pullback.distributions.gammas import log_gamma_sample

    draw = pb.function(lambda key, a: pb.sum(log_gamma_sample(key, a.shape, a, None)))
    one = pb.function(lambda key, a: log_gamma_sample(key, a.shape, a, None))
    a = np.array([0.002, 0.03, 0.5, 1.75, 30.0])
    found, logs = pb.grad(draw, wrt="a").interpret(random.key(1), a), one.interpret(random.key(1), a)
    for b, y, slope in zip(map(mp.mpf, a), map(mp.mpf, logs), found, strict=True):
        share = lambda b, y: mp.exp(b * y) / mp.gamma(b + 1) * mp.hyp1f1(b, b + 1, -mp.exp(y))  # DLMF 8.5.1
        wanted = -mp.diff(lambda t, y=y: share(t, y), b) / mp.diff(lambda t, b=b: share(b, t), y)
        np.testing.assert_allclose(slope, float(wanted), rtol=1e-10)
