"""Distributions of vectors."""

from __future__ import annotations

from typing import Any

from pullback import random
from pullback.arrays.composed import diagonal
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import elementwise, exp, log, square, where
from pullback.arrays.manipulation import expand_dims, squeeze
from pullback.arrays.products import matmul
from pullback.arrays.reduction import all as every
from pullback.arrays.reduction import max as largest
from pullback.arrays.reduction import sum as total
from pullback.distributions.domains import LOG_ROOT_TWO_PI, given, inside
from pullback.distributions.gammas import log_gamma_sample
from pullback.ir.types import f64
from pullback.linalg import cholesky, solve_triangular
from pullback.special import lgamma, xlogy
from pullback.special.elements import floating


class multivariate_normal:
    """The normal distribution of vectors.

    >>> @pb.function
    ... def f(x, c):
    ...     return pb.distributions.multivariate_normal.logpdf(x, 0.0, c)
    >>> f(np.zeros(2), np.eye(2)).round(9).item()
    -1.837877066
    """

    @staticmethod
    def logpdf(x: Any, mean: Any, cov: Any) -> Any:
        """Return the log density by the Cholesky factor of cov; x is (..., n), cov is (n, n)."""
        h, center, c = floating("multivariate_normal", (x, mean, cov))
        factor = cholesky(c)
        rest = h - center
        rows = expand_dims(rest, 0) if rest.rank == 1 else rest.reshape(-1, rest.shape[-1])
        z = solve_triangular(factor, rows.T, lower=True)
        size = total(square(z), axis=0).reshape(*rest.shape[:-1])
        return size * -0.5 - total(log(diagonal(factor))) - LOG_ROOT_TWO_PI * rest.shape[-1]

    @staticmethod
    def sample(key: Any, shape: Any, mean: Any, cov: Any) -> Any:
        """Sample mean + L z with the Cholesky factor L; `shape` excludes the last axis."""
        center, c = floating("multivariate_normal", (mean, cov))
        own = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        z = random.normal(key, (*own, c.shape[-1]), dtype=c.dtype)
        return center + squeeze(matmul(cholesky(c), expand_dims(z, -1)), -1)


class dirichlet:
    """The Dirichlet distribution, of shares that sum to 1 along the last axis."""

    @staticmethod
    def logpdf(x: Any, alpha: Any) -> Any:
        """Return `Σ (alpha - 1) log x - Σ log Γ(alpha) + log Γ(Σ alpha)` if x sums to 1 up to rounding."""
        x, alpha = floating("dirichlet", (x, given(alpha)))
        whole = total(x, axis=-1)
        shares = every((x >= 0) & (x <= 1), axis=-1) & (magnitude(whole - 1) < (1e-7 if x.settled is f64 else 1e-3))
        terms = xlogy(alpha - 1, where((x >= 0) & (x <= 1), x, 1.0)) - lgamma(alpha)
        size = total(alpha, axis=-1)
        return inside(shares, total(terms, axis=-1) + lgamma(size), whole, size)

    @staticmethod
    def sample(key: Any, shape: Any, alpha: Any, *, dtype: Any = None) -> Any:
        """Sample normalized gamma numbers; `shape` excludes the last axis."""
        (h,) = floating("dirichlet", (given(alpha),))
        own = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        x = log_gamma_sample(key, (*own, h.shape[-1]), h, dtype)
        parts = exp(x - elementwise("stop_gradient", largest(x, axis=-1, keepdims=True)))
        return parts / total(parts, axis=-1, keepdims=True)
