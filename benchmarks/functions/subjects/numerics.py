"""Test functions of optimizers, quadrature, differential equations and interpolation."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pullback as pb
from benchmarks.functions.cases import between, case, rising


@case("scipy.optimize.rosen", between(-1.0, 1.5))
def rosen(x: Any) -> Any:
    return pb.sum_over(x.shape[0] - 1, lambda i: 100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2)


@case("scipy.optimize.rosen_der", between(-1.0, 1.5), note="by grad")
def rosen_der(x: Any) -> Any:
    return pb.grad(rosen)(x)


@case("scipy.optimize.rosen_hess_prod", between(-1.0, 1.5), between(-1.0, 1.0), note="by hvp")
def rosen_hess_prod(x: Any, p: Any) -> Any:
    return pb.hvp(rosen)((x,), p)


@case("scipy.optimize.differential_evolution", between(-2.0, 2.0), note="its example: Ackley's function")
def ackley(x: Any) -> Any:
    away = pb.exp(-0.2 * pb.sqrt(pb.mean(x**2)))
    return -20 * away - pb.exp(pb.mean(pb.cos(2 * math.pi * x))) + 20 + math.e


@case("scipy.optimize.dual_annealing", between(-5.0, 5.0), note="its example: Rastrigin's function")
def rastrigin(x: Any) -> Any:
    return pb.sum(x * x - 10 * pb.cos(2 * math.pi * x)) + 10 * x.shape[0]


@case("scipy.optimize.shgo", between(-500.0, 500.0, "2"), sizes=(2,), note="its example: the eggholder")
def eggholder(x: Any) -> Any:
    y = x[1] + 47.0
    return -y * pb.sin(pb.sqrt(pb.abs(x[0] / 2 + y))) - x[0] * pb.sin(pb.sqrt(pb.abs(x[0] - y)))


@case("scipy.optimize.basinhopping", between(-1.0, 1.0, "2"), sizes=(2,), note="its two-dimensional example")
def basinhopping_example(x: Any) -> Any:
    return pb.cos(14.5 * x[0] - 0.3) + (x[1] + 0.2) * x[1] + (x[0] + 0.2) * x[0]


@case("scipy.optimize.newton", between(0.5, 3.0), lacking=True, note="the root of y³ + y = x by its iteration")
def newton(x: Any) -> Any:
    return pb.fold(8, x / 2, lambda y, i: y - (y**3 + y - x) / (3 * y * y + 1))


@case(
    "scipy.optimize.fixed_point", between(0.5, 1.5), lacking=True, tolerance=1e-8, note="y = cos(a y), while it moves"
)
def fixed_point(a: Any) -> Any:
    def step(state: Any) -> Any:
        y, _ = state
        return pb.cos(0.5 * a * y), y

    moving = lambda state: pb.max(pb.abs(state[0] - state[1])) > 1e-13
    return pb.while_loop(moving, step, (pb.ones_like(a), pb.zeros_like(a)), max_trips=200)[0]


@case("scipy.integrate.simpson", between(-1.0, 1.0, "2*n+1"), lacking=True, note="dx = 0.1")
def simpson(y: Any) -> Any:
    n = (y.shape[0] - 1) // 2
    return 0.1 / 3 * pb.sum_over(n, lambda i: y[2 * i] + 4 * y[2 * i + 1] + y[2 * i + 2])


@case("scipy.integrate.cumulative_trapezoid", between(-1.0, 1.0), rising(0.0, 2.0), lacking=True)
def cumulative_trapezoid(y: Any, x: Any) -> Any:
    return pb.cumulative_sum(pb.build(x.shape[0] - 1, lambda i: (x[i + 1] - x[i]) * (y[i] + y[i + 1]) / 2))


@case("scipy.integrate.romb", between(-1.0, 1.0, "17"), sizes=(5,), lacking=True)
def romb(y: Any) -> Any:
    def trapezoid(step: int) -> Any:
        return step * (pb.sum(y[::step]) - (y[0] + y[16]) / 2)

    column = [trapezoid(2**k) for k in (4, 3, 2, 1, 0)]
    for order in range(1, 5):
        column = [b + (b - a) / (4**order - 1) for a, b in pairwise(column)]
    return column[0]


@case("scipy.integrate.fixed_quad", between(0.0, 1.0), between(1.0, 3.0), lacking=True, note="of exp(-x²), n = 5")
def fixed_quad(a: Any, b: Any) -> Any:
    import numpy as np

    nodes, weights = np.polynomial.legendre.leggauss(5)
    half = (b - a) / 2
    return half * sum(w * pb.exp(-((half * (x + 1) + a) ** 2)) for x, w in zip(nodes.tolist(), weights.tolist()))


@case(
    "scipy.integrate.quad",
    between(0.5, 3.0),
    lacking=True,
    note="∫ exp(-a x²) over all x, by tanh-sinh",
    tolerance=1e-9,
)
def quad(a: Any) -> Any:
    def f(i: Any, k: Any) -> Any:
        t = (k - 80) / 24
        x = pb.sinh(math.pi / 2 * pb.sinh(t))
        return math.pi / 48 * pb.cosh(t) * pb.cosh(math.pi / 2 * pb.sinh(t)) * pb.exp(-a[i] * x * x)

    return pb.build(a.shape[0], lambda i: pb.sum_over(161, lambda k: f(i, k)))


@case(
    "scipy.integrate.solve_ivp",
    between(0.5, 1.5, "2"),
    between(0.5, 1.5, "4"),
    sizes=(2,),
    lacking=True,
    note="predator and prey, 60 steps of the classical Runge–Kutta rule",
)
def solve_ivp(start: Any, rates: Any) -> Any:
    def slope(y: Any) -> Any:
        return pb.stack([y[0] * (rates[0] - rates[1] * y[1]), y[1] * (rates[2] * y[0] - rates[3])])

    def step(y: Any, i: Any) -> Any:
        h = 0.05
        a = slope(y)
        b = slope(y + h / 2 * a)
        c = slope(y + h / 2 * b)
        d = slope(y + h * c)
        y = y + h / 6 * (a + 2 * b + 2 * c + d)
        return y, y

    return pb.scan(60, start, step)[1]


@case(
    "scipy.interpolate.lagrange",
    rising(-1.0, 1.0, "6"),
    between(-1.0, 1.0, "6"),
    between(-1.0, 1.0),
    lacking=True,
    tolerance=1e-8,
)
def lagrange(nodes: Any, values: Any, x: Any) -> Any:
    def basis(i: Any, k: Any) -> Any:
        return pb.prod_over(
            6, lambda j: pb.where(j == k, 1.0, (x[i] - nodes[j]) / pb.where(j == k, 1.0, nodes[k] - nodes[j]))
        )

    return pb.build(x.shape[0], lambda i: pb.sum_over(6, lambda k: values[k] * basis(i, k)))


@case(
    "scipy.interpolate.barycentric_interpolate",
    rising(-1.0, 1.0, "6"),
    between(-1.0, 1.0, "6"),
    between(-1.0, 1.0),
    lacking=True,
    tolerance=1e-8,
)
def barycentric_interpolate(nodes: Any, values: Any, x: Any) -> Any:
    gaps = pb.build((6, 6), lambda k, j: pb.where(j == k, 1.0, nodes[k] - nodes[j]))
    weights = 1 / pb.prod(gaps, axis=1)
    shares = pb.build((x.shape[0], 6), lambda i, k: weights[k] / (x[i] - nodes[k]))
    return shares @ values / pb.sum(shares, axis=1)


@case(
    "scipy.interpolate.CubicSpline",
    between(-1.0, 1.0, "n+3"),
    lacking=True,
    note="natural, knots 0, 1, ...: values in the middles",
)
def cubic_spline(y: Any) -> Any:
    n = y.shape[0]

    def down(state: Any, i: Any) -> Any:
        c, d = state
        right = 6 * (y.at(i + 2) - 2 * y.at(i + 1) + y.at(i))
        pivot = 4 - c
        state = (1 / pivot, (right - d) / pivot)
        return state, state

    _, (c, d) = pb.scan(n - 2, (pb.asarray(0.0), pb.asarray(0.0)), down)

    def up(m: Any, i: Any) -> Any:
        m = d[n - 3 - i] - c[n - 3 - i] * m
        return m, m

    inner = pb.flip(pb.scan(n - 2, pb.asarray(0.0), up)[1])
    return pb.build(n - 1, lambda i: (y[i] + y[i + 1]) / 2 - (inner.at(i - 1) + inner.at(i)) / 16)


@case(
    "scipy.interpolate.CubicHermiteSpline",
    rising(0.0, 2.0, "7"),
    between(-1.0, 1.0, "7"),
    between(-1.0, 1.0, "7"),
    between(0.15, 1.7),
    lacking=True,
    tolerance=1e-9,
)
def cubic_hermite_spline(x: Any, y: Any, slopes: Any, at: Any) -> Any:
    place = pb.build(at.shape[0], lambda i: pb.sum_over(5, lambda k: (at[i] >= x[k + 1]).astype(pb.int64)))
    k = pb.in_range(place, 6)

    def value(i: Any) -> Any:
        left = k[i]
        h = x[left + 1] - x[left]
        t = (at[i] - x[left]) / h
        ends = y[left] * (1 + 2 * t) * (1 - t) ** 2 + y[left + 1] * t * t * (3 - 2 * t)
        return ends + h * (slopes[left] * t * (1 - t) ** 2 - slopes[left + 1] * t * t * (1 - t))

    return pb.build(at.shape[0], value)


@case(
    "scipy.interpolate.BSpline",
    between(-1.0, 1.0, "8"),
    between(3.1, 7.9),
    lacking=True,
    note="cubic, knots 0, 1, ..., 11; de Boor",
)
def bspline(c: Any, x: Any) -> Any:
    low = pb.floor(x)
    k = pb.in_range(low.astype(pb.int64) - 3, 5)
    t = x - low
    d = [pb.build(x.shape[0], lambda i, j=j: c[k[i] + j]) for j in range(4)]
    for r in range(1, 4):
        for j in range(3, r - 1, -1):
            share = (t + 3 - j) / (4 - r)
            d[j] = (1 - share) * d[j - 1] + share * d[j]
    return d[3]


@case(
    "scipy.interpolate.RBFInterpolator",
    between(-1.0, 1.0, "6 2"),
    between(-1.0, 1.0, "6"),
    between(-1.0, 1.0, "n 2"),
    lacking=True,
    tolerance=1e-6,
    note="Gaussian kernel; an ill-conditioned system",
)
def rbf_interpolator(y: Any, d: Any, x: Any) -> Any:
    def kernel(a: Any, b: Any) -> Any:
        return pb.build(
            (a.shape[0], b.shape[0]), lambda i, j: pb.exp(-4 * pb.sum_over(2, lambda k: (a[i, k] - b[j, k]) ** 2))
        )

    return kernel(x, y) @ pb.linalg.solve(kernel(y, y), d)


@case(
    "scipy.interpolate.RegularGridInterpolator",
    between(-1.0, 1.0, "5 6"),
    between(0.1, 0.9, "n 2"),
    lacking=True,
    note="linear on a unit square",
)
def regular_grid_interpolator(values: Any, at: Any) -> Any:
    # a sum over all grid points of products of hats: no place is looked up
    def hat(u: Any, k: Any) -> Any:
        return pb.maximum(1 - pb.abs(u - k), 0.0)

    return pb.build(
        at.shape[0],
        lambda i: pb.sum_over((5, 6), lambda k, l: values[k, l] * hat(4 * at[i, 0], k) * hat(5 * at[i, 1], l)),
    )
