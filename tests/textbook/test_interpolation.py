"""Polynomials, splines and quadrature from the textbook."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import pullback as pb
from tests.textbook.harness import Algorithm, check

RNG = np.random.default_rng(2)


def horner(c: Any, x: Any) -> Any:
    n = c.shape[0]
    return pb.fold(n, pb.zeros_like(x), lambda p, k: p * x + c[n - 1 - k])


def plain_horner(c: Any, x: Any) -> Any:
    return sum(c[k] * x**k for k in range(len(c)))


def clenshaw(c: Any, x: Any) -> Any:
    """A sum of Chebyshev polynomials."""
    n = c.shape[0]
    b1, b2 = pb.fold(n - 1, (0.0 * x, 0.0 * x), lambda b, k: (c[n - 1 - k] + 2.0 * x * b[0] - b[1], b[0]))
    return c[0] + x * b1 - b2


def plain_clenshaw(c: Any, x: Any) -> Any:
    t = [1 + 0 * x, x]
    while len(t) < len(c):
        t.append(2 * x * t[-1] - t[-2])
    return sum(a * b for a, b in zip(c, t, strict=True))


def divided_differences(x: Any, y: Any) -> Any:
    """Newton's coefficients, each order in the place of the one before."""
    n = x.shape[0]
    difference = lambda d, k, i: (d[i] - d.at(i - 1)) / (x[i] - x.at(i - k - 1))
    return pb.fold(n - 1, y, lambda d, k: pb.build(n, lambda i: pb.where(i > k, difference(d, k, i), d[i])))


def plain_divided_differences(x: Any, y: Any) -> Any:
    d = y.copy()
    for k in range(1, len(x)):
        d[k:] = (d[k:] - d[k - 1 : -1]) / (x[k:] - x[:-k])
    return d


def neville(x: Any, y: Any, z: Any) -> Any:
    n = x.shape[0]

    def order(p: Any, k: Any) -> Any:
        def element(i: Any) -> Any:
            far = x.at(i + k + 1)
            new = ((z - far) * p[i] + (x[i] - z) * p.at(i + 1)) / (x[i] - far)
            return pb.where(i + k + 1 < n, new, p[i])

        return pb.build(n, element)

    return pb.fold(n - 1, y, order)[0]


def plain_neville(x: Any, y: Any, z: Any) -> Any:
    weights = [np.prod([(z - a) / (b - a) for a in x if a != b]) for b in x]
    return sum(w * v for w, v in zip(weights, y, strict=True))


def de_casteljau(points: Any, t: Any) -> Any:
    n = points.shape[0]
    halfway = lambda p, i, j: (1.0 - t) * p[i, j] + t * p.at(i + 1, j)
    step = lambda p, k: pb.build((n, 2), lambda i, j: pb.where(i + k + 1 < n, halfway(p, i, j), p[i, j]))
    return pb.fold(n - 1, points, step)[0]


def plain_de_casteljau(points: Any, t: Any) -> Any:
    p = list(points)
    while len(p) > 1:
        p = [(1 - t) * a + t * b for a, b in pairwise(p)]
    return p[0]


def natural_spline(x: Any, y: Any, z: Any) -> Any:
    """Second derivatives by a tridiagonal system, then the cubic of the interval in which each z lies."""
    n = x.shape[0]
    h = pb.build(n - 1, lambda i: x[i + 1] - x[i])
    slope = pb.build(n - 1, lambda i: (y[i + 1] - y[i]) / h[i])

    def down(state: Any, i: Any) -> Any:
        c, d = state
        pivot = 2.0 * (h[i] + h[i + 1]) - h[i] * c
        new = h[i + 1] / pivot, (6.0 * (slope[i + 1] - slope[i]) - h[i] * d) / pivot
        return new, new

    _, (c, d) = pb.scan(n - 2, (0.0, 0.0), down)

    def up(m: Any, t: Any) -> Any:
        new = d[n - 3 - t] - c[n - 3 - t] * m
        return new, new

    inner = pb.scan(n - 2, 0.0, up)[1]
    m = pb.build(n, lambda i: pb.where((i > 0) & (i < n - 1), inner.at(n - 2 - i), 0.0))

    def value(k: Any) -> Any:
        i = pb.sum_over(n - 2, lambda j: pb.where(z[k] > x[j + 1], 1, 0))
        a, b, width = x[i + 1] - z[k], z[k] - x[i], h[i]
        cubic = (m[i] * a**3 + m[i + 1] * b**3) / (6.0 * width)
        return cubic + (y[i] / width - m[i] * width / 6.0) * a + (y[i + 1] / width - m[i + 1] * width / 6.0) * b

    return pb.build(z.shape[0], value)


def plain_natural_spline(x: Any, y: Any, z: Any) -> Any:
    n, h = len(x), np.diff(x)
    system, right = np.eye(n, dtype=x.dtype), np.zeros_like(x)
    for i in range(1, n - 1):
        system[i, i - 1 : i + 2] = h[i - 1], 2 * (h[i - 1] + h[i]), h[i]
        right[i] = 6 * ((y[i + 1] - y[i]) / h[i] - (y[i] - y[i - 1]) / h[i - 1])
    for k in range(n):  # elimination, as LAPACK has no long doubles
        for i in range(k + 1, n):
            f = system[i, k] / system[k, k]
            system[i] -= f * system[k]
            right[i] -= f * right[k]
    m = np.zeros_like(x)
    for k in reversed(range(n)):
        m[k] = (right[k] - system[k] @ m) / system[k, k]
    out = []
    for q in z:
        i = min(max(int(np.sum(x < q)) - 1, 0), n - 2)
        t = q - x[i]
        b = (y[i + 1] - y[i]) / h[i] - h[i] * (2 * m[i] + m[i + 1]) / 6
        out.append(y[i] + t * (b + t * (m[i] / 2 + t * (m[i + 1] - m[i]) / (6 * h[i]))))
    return np.array(out)


def barycentric(x: Any, y: Any, z: Any) -> Any:
    n = x.shape[0]
    w = pb.build(n, lambda i: 1.0 / pb.prod_over(n, lambda j: pb.where(j == i, 1.0, x[i] - x[j])))
    above = pb.sum_over(n, lambda i: w[i] * y[i] / (z - x[i]))
    return above / pb.sum_over(n, lambda i: w[i] / (z - x[i]))


def simpson(a: Any, b: Any) -> Any:
    n = 40
    h = (b - a) / n
    weight = lambda i: pb.where((i == 0) | (i == n), 1.0, pb.where(i % 2 == 1, 4.0, 2.0))
    return h / 3.0 * pb.sum_over(n + 1, lambda i: weight(i) * pb.exp(-((a + h * i) ** 2)))


def plain_simpson(a: Any, b: Any) -> Any:
    x = a + (b - a) * np.arange(41) / np.longdouble(40)
    y = np.exp(-(x**2))
    return (b - a) / 120 * (y[0] + 4 * np.sum(y[1::2]) + 2 * np.sum(y[2:-1:2]) + y[-1])


def romberg(a: Any, b: Any) -> Any:
    """Trapezia halved, each row extrapolated from the row before."""
    f = lambda x: 1.0 / (1.0 + x * x)
    row = [(b - a) * (f(a) + f(b)) / 2.0]
    for k in range(6):
        h = (b - a) / 2**k
        inside = pb.sum_over(2**k, lambda i: f(a + h * (i + 0.5)))
        new = [(row[0] + h * inside) / 2.0]
        for j in range(k + 1):
            new.append(new[-1] + (new[-1] - row[j]) / (4.0 ** (j + 1) - 1.0))
        row = new
    return row[-1]


def plain_romberg(a: Any, b: Any) -> Any:
    return np.arctan(b) - np.arctan(a)


@pytest.mark.slow
def test_polynomials() -> None:
    x = np.arange(7.0) + RNG.uniform(-0.3, 0.3, 7)
    check(
        Algorithm(horner, plain_horner, (RNG.uniform(-1, 1, 37), RNG.uniform(-1, 1, 5))),
        Algorithm(clenshaw, plain_clenshaw, (RNG.uniform(-1, 1, 37), RNG.uniform(-1, 1, 41))),
        Algorithm(divided_differences, plain_divided_differences, (x, RNG.uniform(-1, 1, 7))),
        Algorithm(neville, plain_neville, (x, RNG.uniform(-1, 1, 7), 2.7)),
        Algorithm(barycentric, plain_neville, (x, RNG.uniform(-1, 1, 7), 2.7)),
        Algorithm(de_casteljau, plain_de_casteljau, (RNG.uniform(-1, 1, (35, 2)), 0.3)),
    )


@pytest.mark.slow
def test_splines_and_quadrature() -> None:
    knots = np.arange(37.0) + RNG.uniform(-0.3, 0.3, 37)
    inside = RNG.uniform(0.5, 35.5, 20)
    check(
        Algorithm(natural_spline, plain_natural_spline, (knots, RNG.uniform(-1, 1, 37), inside)),
        Algorithm(simpson, plain_simpson, (-0.4, 0.9)),
        Algorithm(romberg, plain_romberg, (0.1, 0.9)),
    )
