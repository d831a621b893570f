"""pb.special: values and derivatives to the second order, forward and reverse, held to mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from jaxtyping import Float, Float32, Float64

import pullback as pb
from pullback import Array, special

pytestmark = pytest.mark.slow

INF, NAN = np.inf, np.nan
NEAR = [-2.3, -0.6, 1e-5, 0.3, 1.0, 1.7]
POSITIVE = [1e-4, 0.3, 0.9, 1.0, 1.4616, 2.0, 3.7, 7.9, 8.1, 30.0, 1e5]
WAVES = [0.01, 0.7, 2.4, 4.99, 5.01, 11.3, 40.0]

# name: how it is called, what mpmath says, where, units of the last place of the larger of it and 1, derivatives
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[Any], float, int]] = {
    "erfc": (special.erfc, mp.erfc, [*NEAR, 5.0, 20.0], 6, 2),
    "erfcx": (special.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), [*NEAR, 8.0, 1e4], 8, 2),
    "erfinv": (special.erfinv, mp.erfinv, [-0.99, -0.3, 1e-6, 0.5, 0.9999], 4, 2),
    "ndtr": (special.ndtr, mp.ncdf, [*NEAR, -20.0, 5.0], 6, 2),
    "ndtri": (special.ndtri, lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), [0.001, 0.2, 0.5, 0.8, 0.9999], 5, 2),
    "log_ndtr": (special.log_ndtr, lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2), [*NEAR, -30.0, 6.0], 8, 2),
    "lgamma": (special.lgamma, lambda x: mp.re(mp.loggamma(x)), [*POSITIVE, -0.5, -3.3], 4, 1),
    "digamma": (special.digamma, mp.digamma, [*POSITIVE, -0.5, -3.3], 6, 1),
    "polygamma": (lambda x: special.polygamma(3, x), lambda x: mp.polygamma(3, x), POSITIVE[1:8], 10, 1),
    "betaln": (
        special.betaln,
        lambda a, b: mp.log(mp.beta(a, b)),
        [(0.5, 0.2), (1.0, 9.0), (40.0, 30.0), (1000.0, 2.0)],
        8,
        1,
    ),
    "beta": (special.beta, mp.beta, [(0.5, 0.2), (2.0, 3.0)], 10, 0),
    "zeta": (special.zeta, mp.zeta, [(1.1, 1.0), (2.0, 0.3), (7.5, 4.0)], 8, 1),
    "gammainc": (
        special.gammainc,
        lambda a, x: mp.gammainc(a, 0, x, regularized=True),
        [(0.5, 0.1), (0.5, 3.0), (3.0, 2.0), (12.0, 15.0), (12.0, 9.0)],
        30,
        1,
    ),
    "gammaincc": (
        special.gammaincc,
        lambda a, x: mp.gammainc(a, x, mp.inf, regularized=True),
        [(0.5, 0.1), (3.0, 9.0), (12.0, 40.0)],
        30,
        1,
    ),
    "betainc": (
        special.betainc,
        lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True),
        [(0.5, 2.0, 0.3), (2.0, 3.0, 0.9), (20.0, 5.0, 0.7)],
        60,
        1,
    ),
    "j0": (special.j0, lambda x: mp.besselj(0, x), [-3.0, 0.0, *WAVES], 6, 2),
    "j1": (special.j1, lambda x: mp.besselj(1, x), [-3.0, *WAVES], 6, 2),
    "y0": (special.y0, lambda x: mp.bessely(0, x), WAVES, 6, 2),
    "y1": (special.y1, lambda x: mp.bessely(1, x), WAVES, 6, 2),
    "i0": (special.i0, lambda x: mp.besseli(0, x), [-3.0, 0.0, *WAVES], 8, 1),
    "i1": (special.i1, lambda x: mp.besseli(1, x), [-3.0, *WAVES], 8, 1),
    "i0e": (special.i0e, lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), WAVES, 5, 1),
    "i1e": (special.i1e, lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), WAVES, 5, 1),
    "k0": (special.k0, lambda x: mp.besselk(0, x), WAVES, 5, 1),
    "k1": (special.k1, lambda x: mp.besselk(1, x), WAVES, 5, 1),
    "expit": (special.expit, lambda x: 1 / (1 + mp.exp(-x)), [-30.0, 0.0, 4.0], 4, 2),
    "logit": (special.logit, lambda p: mp.log(p / (1 - p)), [1e-4, 0.5, 0.99], 4, 2),
    "xlogy": (special.xlogy, lambda x, y: x * mp.log(y), [(0.5, 2.0), (3.0, 0.1)], 4, 2),
    "xlog1py": (special.xlog1py, lambda x, y: x * mp.log1p(y), [(0.5, 2.0), (3.0, -0.1)], 4, 2),
    "entr": (special.entr, lambda x: -x * mp.log(x), [0.1, 1.0, 4.0], 4, 2),
    "sinc": (special.sinc, mp.sincpi, [-1.3, 0.0, 0.01, 0.049, 0.5, 2.2], 4, 2),
}


def operands(points: list[Any]) -> tuple[Any, ...]:
    columns = zip(*(p if isinstance(p, tuple) else (p,) for p in points), strict=True)
    return tuple(np.array(c) for c in columns)


def derivative(f: Callable[..., Any], at: tuple[Any, ...], orders: tuple[int, ...]) -> float:
    with mp.workdps(50):
        point = tuple(mp.mpf(float(v)) for v in at)
        if not any(orders):
            return float(f(*point))
        if sum(orders) == 1 or len(point) == 1:
            k = next(k for k, n in enumerate(orders) if n)
            one = lambda t: f(*point[:k], t, *point[k + 1 :])
            return float(mp.re(mp.diff(one, point[k], orders[k], h=mp.mpf(10) ** -12)))
        return float(mp.re(mp.diff(f, point, orders, h=mp.mpf(10) ** -10)))


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, exact, points, ulps, order = CASES[name]
    given = operands(points)
    count = len(given)
    names = ", ".join(f"x{k}" for k in range(count))
    space: dict[str, Any] = {"call": f, "pb": pb}
    exec(f"def value({names}):\n    return call({names})\ndef total({names}):\n    return pb.sum(call({names}))", space)
    for form in space["value"], space["total"]:
        form.__annotations__ = {f"x{k}": Float64[Array, "N"] for k in range(count)}
    value, total = pb.function(space["value"]), pb.function(space["total"])
    wanted = np.array([derivative(exact, p, (0,) * count) for p in zip(*given, strict=True)])
    for route in (value, value.interpret):
        off = np.abs(route(*given) - wanted) / np.spacing(np.maximum(np.abs(wanted), 1.0))
        assert off.max() <= ulps, (name, given, off)
    if not order:
        return
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")  # what is derived is the same, and its C has tests of its own
    every = tuple(range(count))
    gradient = pb.grad(total, wrt=every)
    reverse = [gradient(*given)]
    ones, zeros = np.ones_like(given[0]), np.zeros_like(given[0])
    forward = [
        tuple(pb.jvp(value)(given, tuple(ones if j == k else zeros for j in every))[1] for k in every)
    ]
    first = [
        np.array([derivative(exact, p, tuple(int(j == k) for j in every)) for p in zip(*given, strict=True)])
        for k in every
    ]
    for found in (*reverse, *forward):
        for a, b in zip(found if isinstance(found, tuple) else (found,), first, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-11, atol=1e-13)
    if order > 1:
        for k in every:
            moved = lambda *x, k=k: pb.sum(pb.grad(total, wrt=every)(*x)[k])
            bound = f"def second({names}):\n    return moved({names})"
            space["moved"] = moved
            exec(bound, space)
            space["second"].__annotations__ = space["value"].__annotations__
            found = pb.grad(pb.function(space["second"]), wrt=k)(*given)
            double = tuple(2 * int(j == k) for j in every)
            exact_second = [derivative(exact, p, double) for p in zip(*given, strict=True)]
            np.testing.assert_allclose(found, exact_second, rtol=2e-8, atol=1e-9)


SINGLE = [n for n, c in CASES.items() if not isinstance(c[2][0], tuple)]


def test_single_precision_is_rounded_once() -> None:
    @pb.function
    def every(x: list[Float32[Array, "..."]]):
        return [CASES[n][0](v) for n, v in zip(SINGLE, x, strict=True)]

    given = [np.array(CASES[n][2], np.float32) for n in SINGLE]
    for name, x, found in zip(SINGLE, given, every(given), strict=True):
        wanted = np.array([derivative(CASES[name][1], (v,), (0,)) for v in x]).astype(np.float32)
        assert found.dtype == np.float32
        np.testing.assert_array_max_ulp(found, wanted, 2 if name in ("expit", "logit", "entr", "sinc") else 1)


def test_limits() -> None:
    cases: list[tuple[Any, list[Any], list[Any]]] = [
        (special.erfc, [INF, -INF, NAN, 0.0], [0, 2, NAN, 1]),
        (special.erfinv, [1.0, -1.0, 1.1, NAN], [INF, -INF, NAN, NAN]),
        (special.ndtri, [0.0, 1.0, -0.1], [-INF, INF, NAN]),
        (special.ndtr, [-INF, INF], [0, 1]),
        (special.lgamma, [0.0, -3.0, INF, 1.0, 2.0, NAN], [INF, INF, INF, 0, 0, NAN]),
        (special.j0, [INF, -INF, NAN], [0, 0, NAN]),
        (special.k0, [0.0, INF], [INF, 0]),
        (special.i0, [-INF, INF], [INF, INF]),
        (special.zeta, [1.0, 0.5], [INF, NAN]),
        (special.entr, [0.0, -1.0], [0, -INF]),
        (special.expit, [-INF, INF], [0, 1]),
        (lambda x: special.gammainc(2.0, x), [0.0, INF], [0, 1]),
        (lambda x: special.gammaincc(2.0, x), [0.0, INF], [1, 0]),
        (lambda x: special.betainc(2.0, 3.0, x), [0.0, 1.0], [0, 1]),
    ]

    @pb.function
    def every(x: list[Float[Array, "..."]]):
        return [f(v) for (f, _, _), v in zip(cases, x, strict=True)]

    given = [np.array(x) for _, x, _ in cases]
    for route in (every, every.interpret):
        for found, (_, _, wanted) in zip(route(given), cases, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_it_reads_scalars_and_stands_inside_build() -> None:
    @pb.function
    def f(x: Float64[Array, "N"]):
        return pb.build(x.shape[0], lambda i: special.lgamma(x[i]) + special.erfc(0.5)), special.j0(x[0])

    x = np.array([0.5, 4.0])
    a, b = f(x)
    np.testing.assert_allclose(a, [float(mp.loggamma(v) + mp.erfc(0.5)) for v in x], rtol=1e-14)
    np.testing.assert_allclose(b, float(mp.besselj(0, 0.5)), rtol=1e-14)


def test_integers_are_refused() -> None:
    with pytest.raises(pb.DTypeError, match="E121"):
        pb.function(lambda x: special.lgamma(x))(np.arange(3))
    with pytest.raises(pb.ShapeError, match="polygamma: the order 9"):
        pb.function(lambda x: special.polygamma(9, x))(np.ones(3))
