"""The incomplete gamma and beta functions: their domains, and large parameters, held to mpmath."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array, special

pytestmark = pytest.mark.slow

INF, NAN = np.inf, np.nan


COUNT = 24  # points of each call, so that one program serves all tests


@cache
def of_gamma() -> Any:
    """Both functions, and the derivatives of the first by its arguments."""

    @pb.function
    def f(a: Float64[Array, "N"], x: Float64[Array, "N"]):
        both = special.gammainc(a, x), special.gammaincc(a, x)
        ones, zeros = pb.ones_like(a), pb.zeros_like(a)
        moved = pb.jvp(special.gammainc)((a, x), (ones, zeros))[1], pb.jvp(special.gammaincc)((a, x), (zeros, ones))[1]
        return *both, *moved

    return f


@cache
def of_beta() -> Any:
    """The function and its derivatives by each argument."""

    @pb.function
    def f(a: Float64[Array, "N"], b: Float64[Array, "N"], x: Float64[Array, "N"]):
        ones, zeros = pb.ones_like(a), pb.zeros_like(a)
        slopes = [pb.jvp(special.betainc)((a, b, x), t)[1] for t in ((ones, zeros, zeros), (zeros, ones, zeros))]
        return special.betainc(a, b, x), *slopes, pb.jvp(special.betainc)((a, b, x), (zeros, zeros, ones))[1]

    return f


def routes(f: Any, *given: Any) -> list[list[Any]]:
    """The results of C and of the interpreter at these points, which are repeated to a length that all tests share."""
    repeated = [np.resize(g, COUNT) for g in given]
    return [[r[: len(given[0])] for r in route(*repeated)] for route in (f, f.interpret)]


@pytest.mark.parametrize(
    ("f", "outside"),
    [
        (of_gamma, [*product([NAN, -1.0, -INF], [0.0, 0.5, 2.0, INF, NAN]), *product([0.5, 2.0], [NAN, -1.0, -INF])]),
        (
            of_beta,
            [
                *product([NAN, -1.0], [2.0], [0.0, 0.5, 1.0]),
                *product([2.0], [NAN, -1.0], [0.0, 0.5, 1.0]),
                *product([0.5, 2.0], [3.0], [NAN, -0.1, 1.1, INF, -INF]),
            ],
        ),
    ],
)
def test_nan_and_arguments_outside_of_the_domain_give_nan(f: Any, outside: list[tuple[float, ...]]) -> None:
    given = tuple(np.array(c) for c in zip(*outside, strict=True))
    assert len(outside) <= COUNT
    for results in routes(f(), *given):
        for found in results:
            np.testing.assert_array_equal(found, np.full(len(outside), NAN))


def _upper_by_temme(a: Any, x: Any) -> Any:
    """DLMF 8.12.4 with two coefficients of 8.12.7, whose error is of order a^-2."""
    mu = (x - a) / a
    eta = mp.sign(mu) * mp.sqrt(2 * (mu - mp.log1p(mu)))
    first, second = 1 / mu - 1 / eta, 1 / eta**3 - 1 / mu**3 - 1 / mu**2 - 1 / (12 * mu)
    rest = mp.exp(-a * eta * eta / 2) / mp.sqrt(2 * mp.pi * a) * (first + second / a)
    return mp.erfc(eta * mp.sqrt(a / 2)) / 2 + rest


def _upper_by_series(a: Any, x: Any) -> Any:
    """DLMF 8.11.4."""
    term, total, n = mp.mpf(1), mp.mpf(1), 0
    while term > total * mp.eps:
        n += 1
        term *= x / (a + n)
        total += term
    return 1 - mp.exp(a * mp.log(x) - x - mp.loggamma(a + 1)) * total


def _beta_by_series(a: Any, b: Any, x: Any) -> Any:
    """DLMF 8.17.8 with 15.5.1."""
    term, total, n = mp.mpf(1), mp.mpf(1), 0
    while term > total * mp.eps:
        term *= (a + b + n) * x / (a + 1 + n)
        total += term
        n += 1
    scale = mp.loggamma(a + b) - mp.loggamma(a + 1) - mp.loggamma(b)
    return mp.exp(a * mp.log(x) + b * mp.log1p(-x) + scale) * total


def _held(found: Any, exact: Any, given: tuple[float, ...], case: Any) -> None:
    """Compare a value to 20 units of the last place of it, and of what a unit in each argument changes."""
    with mp.workdps(35):
        point = tuple(mp.mpf(v) for v in given)
        value = exact(*point)
        scale = abs(value)
        for k, v in enumerate(point):
            moved = exact(*point[:k], v * (1 + mp.mpf(10) ** -14), *point[k + 1 :])
            scale += abs(moved - value) * mp.mpf(10) ** 14
        assert abs(mp.mpf(float(found)) - value) <= 20 * mp.mpf(2) ** -53 * scale, (case, given, found, value)


@pytest.mark.parametrize("a", [24.9, 25.0, 1e3, 1e8, 1e15])
def test_gamma_functions_of_large_parameters(a: float) -> None:
    points = [a + k * np.sqrt(a) for k in (-6, -4, 0.3, 2.0, 5.0) if a + k * np.sqrt(a) > 0]
    given = np.full(len(points), a), np.array(points)
    exact = _upper_by_temme if a > 1e7 else _upper_by_series
    for lower, upper, by_a, by_x in routes(of_gamma(), *given):
        for k, x in enumerate(points):
            _held(upper[k], exact, (a, x), "upper")
            _held(lower[k], lambda a, x: 1 - exact(a, x), (a, x), "lower")
            if a < 1e7:
                with mp.workdps(35):
                    slope = mp.diff(lambda t, x=x: 1 - exact(t, mp.mpf(x)), a, h=mp.mpf(10) ** -14 * a)
                assert abs(by_a[k] / slope - 1) < 1e-12 * (1 + abs(x - a) / np.sqrt(a)) ** 2
        np.testing.assert_array_equal(by_x < 0, True)


@pytest.mark.parametrize(("a", "b"), [(0.3, 30.0), (24.9, 2.0), (25.0, 30.0), (1e3, 30.0), (30.0, 1e5), (3e3, 1e4)])
def test_beta_functions_of_large_parameters(a: float, b: float) -> None:
    mean, spread = a / (a + b), np.sqrt(a * b / (a + b + 1)) / (a + b)
    points = [x for k in (-30, -3, 0.01) if (x := mean + k * spread) > 0]
    given = np.full(len(points), a), np.full(len(points), b), np.array(points)
    with mp.workdps(35):
        moved = [lambda t, x=x: _beta_by_series(t, mp.mpf(b), mp.mpf(x)) for x in points]
        other = [lambda t, x=x: _beta_by_series(mp.mpf(a), t, mp.mpf(x)) for x in points]
        first = np.array([float(mp.diff(f, a, h=a * mp.mpf(10) ** -14)) for f in moved])
        second = np.array([float(mp.diff(f, b, h=b * mp.mpf(10) ** -14)) for f in other])
    compiled, interpreted = routes(of_beta(), *given)
    for one, two in zip(compiled, interpreted, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-11)
    for k, x in enumerate(points):
        _held(compiled[0][k], _beta_by_series, (a, b, x), "beta")
    np.testing.assert_allclose(compiled[1], first, rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(compiled[2], second, rtol=1e-9, atol=1e-300)


def test_halves() -> None:
    a = np.array([1e11, 1e20, 1e100, 1e300])
    half = np.full(4, 0.5)
    for found in routes(of_gamma(), a, a):
        np.testing.assert_allclose(found[0], 0.5 + 1 / (3 * np.sqrt(2 * np.pi * a)), rtol=1e-15)
    for found in routes(of_beta(), a, a, half):
        np.testing.assert_allclose(found[0], 0.5, rtol=1e-15)


WHOLE = [(1.0, 0.5), (2.0, 2.0), (8.0, 2.0)]


def test_second_derivatives_at_whole_parameters() -> None:
    of_a = pb.hessian(lambda v: special.gammainc(v[0], v[1]))
    for a, x in WHOLE:
        with mp.workdps(40):
            lower = lambda t, s: mp.gammainc(t, 0, s, regularized=True)
            wanted = [mp.diff(lower, (a, x), n) for n in ((2, 0), (1, 1), (0, 2))]
        found = of_a.interpret(np.array([a, x]))
        np.testing.assert_allclose([found[0, 0], found[0, 1], found[1, 1]], np.array(wanted, float), rtol=1e-11)
    of_both = pb.hessian(lambda v: special.betainc(v[0], v[1], 0.3))
    for a, b in [(0.5, 0.5), (2.0, 3.0)]:
        with mp.workdps(40):
            part = lambda t, s: mp.betainc(t, s, 0, mp.mpf(0.3), regularized=True)
            wanted = [mp.diff(part, (a, b), n) for n in ((2, 0), (1, 1), (0, 2))]
        found = of_both.interpret(np.array([a, b]))
        np.testing.assert_allclose([found[0, 0], found[0, 1], found[1, 1]], np.array(wanted, float), rtol=1e-11)
