"""Every elementwise function of several arguments: values and mixed derivatives on a log grid, ends, NaN, domains."""

from __future__ import annotations

import contextlib
import functools
from itertools import combinations, combinations_with_replacement
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from jaxtyping import Float32, Float64

import pullback as pb
from pullback import Array, nn, special
from tests.unit.special import jets, rows
from tests.unit.special.rows import NAN, NIGHTLY
from tests.unit.special.rows_of_many import ROWS, Many, Point

pytestmark = pytest.mark.slow

NAMES = list(ROWS)
# not smooth, or sums and products of arithmetic, which have tables of their own
OTHERS = {"add", "angle", "asarray", "ceil", "clip", "conj", "empty_like", "floor", "floor_divide", "from_dlpack",
          "imag", "multiply", "nan_to_num", "negative", "ones_like", "positive", "pow", "real", "round", "sign",
          "stop_gradient", "subtract", "trunc", "zeros_like", "sigmoid", "tanh", "logistic", "relu"}
TINY = 5e-324


def elementwise(space: Any) -> set[str]:
    """The public functions of a module that map each element by itself, found by trying them on some arrays."""
    values = np.array([[0.3, 0.7, 0.45], [0.6, 0.9, 0.25], [0.2, 0.5, 0.4]])
    found = set()
    for name in dir(space):
        f = getattr(space, name)
        if name.startswith("_") or isinstance(f, type) or not callable(f):
            continue
        for count in (1, 2, 3):
            def of_rows(x: list[Float64[Array, "N"]]):
                return f(*x)

            with contextlib.suppress(Exception):
                traced = pb.function(of_rows)
                whole, turned = (np.asarray(traced.interpret([*v])) for v in (values[:count], values[:count, ::-1]))
                one = np.asarray(traced.interpret([*values[:count, :1]]))
                if whole.shape == (3,) and whole.dtype == "f8" and np.array_equal(whole[::-1], turned, True):
                    found |= {name} if np.array_equal(whole[:1], one, True) else set()
    return found


def test_each_elementwise_function_of_the_namespaces_has_a_row() -> None:
    named = {n.split()[0] for n in (*ROWS, *rows.ROWS)} - {"polygamma"}  # whose order is no array
    assert elementwise(special) | elementwise(pb) | elementwise(nn) == named | OTHERS


def derived(f: Any, by: tuple[int, ...]) -> Any:
    """The derivative by these arguments, one after another, while the others stay."""
    if not by:
        return f
    lower, k = derived(f, by[1:]), by[0]

    def moved(*x: Any) -> Any:
        return pb.jvp(lambda v: lower(*x[:k], v, *x[k + 1 :]))((x[k],), (pb.ones_like(x[k]),))[1]

    return moved


def orders_of(row: Many, order: int) -> list[tuple[int, ...]]:
    return list(combinations_with_replacement(range(len(row.grids)), order))


def all_of(order: int, names: list[str]) -> Any:
    def every(x: list[list[Float64[Array, "N"]]]):
        return [
            [derived(ROWS[n].call, by)(*v) for by in orders_of(ROWS[n], order)]
            for n, v in zip(names, x, strict=True)
        ]

    return pb.function(every)


@functools.cache
def exact(name: str, x: Point) -> dict[tuple[int, ...], Any]:
    """All derivatives, of one order more than is looked at, by the arguments that they are by."""
    row = ROWS[name]
    count, found = row.orders + 2, {}
    with mp.workdps(60 + int(row.digits(*x))):
        at = [mp.mpf(v) for v in x]
        if len(at) == 1:
            return {(0,) * k: v for k, v in enumerate(jets.derivatives(row.exact, at[0], count))}
        for i, j in combinations(range(len(at)), 2):
            for p, line in enumerate(jets.mixed(row.exact, at, i, j, count)):
                found |= {(i,) * p + (j,) * q: v for q, v in enumerate(line) if p + q < count}
    return found


def off(row: Many, x: Point, by: tuple[int, ...], found: float, known: dict[tuple[int, ...], Any],
        unit: float = 2.0**-53) -> float:
    """The error in units of the last place and of the changes that one unit in each argument makes."""
    want = known[by]
    if abs(want) > 1e307:
        return 0.0 if found == float(mp.sign(want)) * np.inf or abs(found) > 1e306 else np.inf
    if not np.isfinite(found):
        return np.inf
    scale = abs(want) + row.floor[len(by)] + row.beside(x, by)
    scale += sum(abs(v * known[tuple(sorted((*by, k)))]) for k, v in enumerate(x))
    return float(abs(mp.mpf(found) - want) / (mp.mpf(unit) * max(scale, mp.mpf(2) ** -1000)))


def columns(points: list[list[Point]], dtype: str = "f8") -> list[list[np.ndarray[Any, Any]]]:
    """An array for each argument of each function, all as long as the longest: points are repeated."""
    count = max(map(len, points))
    return [[np.resize(np.array(c, dtype), count) for c in zip(*p, strict=True)] for p in points]


@pytest.mark.parametrize(("order", "route"), [(0, "interpreter"), (0, "C"), (1, "interpreter"), (2, "interpreter"),
                                              *([(1, "C"), (2, "C")] if NIGHTLY else [])])
def test_on_a_log_grid(order: int, route: str) -> None:
    names = [n for n in NAMES if ROWS[n].orders >= order]
    f = all_of(order, names)
    given = columns([ROWS[n].points() for n in names])
    results = f(given) if route == "C" else f.interpret(given)
    wrong = [
        (n, x, by, found, float(exact(n, x)[by]), units)
        for n, lines in zip(names, results, strict=True)
        for by, values in zip(orders_of(ROWS[n], order), lines, strict=True)
        for x, found in zip(ROWS[n].points(), values.tolist())  # the rest is repeated
        if not ROWS[n].open(x, by)
        and not (units := off(ROWS[n], x, by, found, exact(n, x))) <= ROWS[n].bounds[order]
    ]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.filterwarnings("ignore:overflow")
def test_single_precision() -> None:
    def every(x: list[list[Float32[Array, "N"]]]):
        return [ROWS[n].call(*v) for n, v in zip(NAMES, x, strict=True)]

    f = pb.function(every)
    points = [[p for p in ROWS[n].points()
               if all(1e-30 < abs(v) < 1e30 and np.float32(v) != 1 for v in p)] for n in NAMES]
    given = columns(points, "f4")
    for route in (f, f.interpret):
        for n, v, values in zip(NAMES, given, route(given), strict=True):
            for x, found in zip(zip(*(c.tolist() for c in v), strict=True), values.tolist(), strict=True):
                known = exact(n, x)
                if n != "nextafter" and 1e-37 < abs(known[()]) < 3e38:
                    assert off(ROWS[n], x, (), found, known, 2.0**-24) <= 4, (n, x, found, float(known[()]))


@pytest.mark.parametrize("name", NAMES)
def test_ends_nan_and_arguments_outside_of_the_domain(name: str) -> None:
    row = ROWS[name]
    inside = row.points()[0]
    nan = [tuple(NAN if j == k else v for j, v in enumerate(inside)) for k in range(len(inside))]
    tiny = [tuple(TINY if j == k else abs(v) for j, v in enumerate(row.points()[-1]))
            for k, grid in enumerate(row.grids) if min(map(abs, grid)) < 1e-200]
    (given,) = columns([[*row.ends, *row.outside, *nan, *tiny]])

    def of_rows(x: list[Float64[Array, "N"]]):
        return row.call(*x)

    f = pb.function(of_rows)
    cuts = np.cumsum([len(row.ends), len(row.outside), len(nan)])
    routes = [np.split(route(given), cuts) for route in (f, f.interpret)]
    for ends, outside, missing, subnormal in routes:
        np.testing.assert_allclose(ends, [*row.ends.values()], rtol=1e-15)
        np.testing.assert_array_equal(outside, np.full(len(row.outside), NAN))
        assert [bool(np.isnan(v)) or k in row.passing for k, v in enumerate(missing)] == [True] * len(nan)
        assert not np.isnan(subnormal).any()
    np.testing.assert_allclose(routes[0][3], routes[1][3], 1e-14, 1e-323)
