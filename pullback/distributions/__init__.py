"""Distributions: densities, cdfs with a closed form, and samples.

Each distribution is a name with functions of one form:

    normal.logpdf(x, mean, scale)          the logarithm of the density; for integers `logpmf`, of the probability
    normal.cdf(x, mean, scale)             the probability of a number up to x
    normal.sample(key, shape, mean, scale) random numbers by `pullback.random`

Parameters are numbers or arrays that broadcast. Outside of the support a density is 0, and its logarithm -infinity; at
the ends of the support it is the limit from inside. NaN gives NaN, and so does a parameter outside of its domain, such
as a scale that is not positive. Integer samples are -1 there.

Everything has derivatives by x and by all parameters, samples included. Normal samples are differentiated by their
formula, gamma and related samples by implicit reparameterization (Figurnov, Mohamed and Mnih 2018). Integer samples
have no derivative.
"""

from pullback.distributions.continuous import (
    cauchy,
    exponential,
    half_normal,
    laplace,
    logistic,
    lognormal,
    normal,
    pareto,
    uniform,
    weibull,
)
from pullback.distributions.discrete import bernoulli, binomial, categorical, poisson
from pullback.distributions.gammas import beta, chi2, gamma, student_t
from pullback.distributions.vectors import dirichlet, multivariate_normal
from pullback.tracing.public import public_module as _public_module

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

_public_module(__name__)
