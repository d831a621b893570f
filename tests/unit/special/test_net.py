"""Every elementwise function with a derivative: values and three derivatives on a log grid, limits, NaN, domains."""

from __future__ import annotations

import functools
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from jaxtyping import Float32, Float64

import pullback as pb
from pullback import Array
from tests.unit.special import jets
from tests.unit.special.rows import NAN, NIGHTLY, ROWS, Row

pytestmark = pytest.mark.slow

NAMES = list(ROWS)
Arrays = list[Float64[Array, "..."]]


def derived(f: Any, order: int) -> Any:
    if order == 0:
        return f
    lower = derived(f, order - 1)
    return lambda x: pb.jvp(lower)((x,), (pb.ones_like(x),))[1]


def all_of(order: int) -> Any:
    def every(x: Arrays):
        return [derived(ROWS[n].call, order)(v) for n, v in zip(NAMES, x, strict=True)]

    return pb.function(every)


def exact_derivatives(row: Row, x: float, count: int) -> list[Any]:
    """The value and derivatives, so many in all."""
    with mp.workdps(60 + row.digits):
        return jets.derivatives(row.exact, mp.mpf(x), count)


def off(row: Row, order: int, x: float, found: float, exact: list[Any], unit: float = 2.0**-53) -> float:
    """The error in units of the last place and of the change that one unit in x makes."""
    want = exact[order]
    if abs(want) > 1e307:
        return 0.0 if found == float(mp.sign(want)) * np.inf or abs(found) > 1e306 else np.inf
    scale = abs(want) + abs(mp.mpf(x) * exact[order + 1]) + row.floor[order]
    least = mp.mpf(2) ** -1000
    if not np.isfinite(found):
        return np.inf
    return float(abs(mp.mpf(float(found)) - want) / (mp.mpf(unit) * max(scale, least)))


ORDERS = range(4 if NIGHTLY else 3)
COMPILED = ORDERS if NIGHTLY else range(1)  # orders that run in C, too
PARTS = ("points", "ends", "tiny", "outside")


def places(name: str) -> tuple[list[float], ...]:
    """The grid, the ends, subnormals, and arguments outside of the domain."""
    row = ROWS[name]
    tiny = [5e-324, 1e-310] if row.low < 1e-310 < row.high else [2.0]
    beyond = [] if name == "entr" else [row.low - 0.5, row.low - 1e9, row.high + 0.5, row.high + 1e9]
    outside = [NAN, *(x for x in beyond if np.isfinite(x) and name != "erfcx")]
    return row.points(), [*row.ends], tiny, outside


@functools.cache
def results(order: int, route: str) -> dict[str, dict[str, Any]]:
    """The derivatives of this order at all places: one program, run once by each route."""
    f = all_of(order)
    every = [np.array([x for part in places(n) for x in part]) for n in NAMES]
    found = f(every) if route == "C" else f.interpret(every)
    cuts = [np.cumsum([len(part) for part in places(n)])[:-1] for n in NAMES]
    return {n: dict(zip(PARTS, np.split(v, c), strict=True)) for n, v, c in zip(NAMES, found, cuts, strict=True)}


@functools.cache
def references(name: str) -> list[list[Any]]:
    return [exact_derivatives(ROWS[name], x, len(ORDERS) + 1) for x in ROWS[name].points()]


ROUTES = [(k, "interpreter") for k in ORDERS] + [(k, "C") for k in COMPILED]


@pytest.mark.parametrize(("order", "route"), ROUTES)
def test_on_a_log_grid(order: int, route: str) -> None:
    wrong = [
        (n, x, found, float(exact[order]), units)
        for n, parts in results(order, route).items()
        for x, found, exact in zip(ROWS[n].points(), parts["points"].tolist(), references(n), strict=True)
        if not ROWS[n].open(x, order)
        and not (units := off(ROWS[n], order, x, found, exact)) <= ROWS[n].bounds[order]
    ]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.filterwarnings("ignore:overflow")
def test_single_precision() -> None:
    def every(x: list[Float32[Array, "..."]]):
        return [ROWS[n].call(v) for n, v in zip(NAMES, x, strict=True)]

    f = pb.function(every)
    rows = [ROWS[n] for n in NAMES]
    given = [np.array([x for x in r.points() if 1e-30 < abs(x) < 1e30 and abs(x) not in r.kinks], "f4") for r in rows]
    given = [xs[(xs > max(r.low, r.above)) & (xs < r.high)] for r, xs in zip(rows, given, strict=True)]
    exact = [[exact_derivatives(r, x, 2) for x in xs.tolist()] for r, xs in zip(rows, given, strict=True)]
    for route in (f, f.interpret):
        for n, row, xs, values, wanted in zip(NAMES, rows, given, route(given), exact, strict=True):
            for x, found, (want, slope) in zip(xs.tolist(), values.tolist(), wanted, strict=True):
                if 1e-37 < abs(want) < 3e38:
                    scale = abs(want) + abs(x * slope) + row.floor[0]
                    assert abs(found - want) <= 4 * 2.0**-24 * scale, (n, x, found, want)


@pytest.mark.parametrize("route", ["interpreter", "C"])
def test_limits_and_zeros(route: str) -> None:
    for n, parts in results(0, route).items():
        np.testing.assert_allclose(parts["ends"], [*ROWS[n].ends.values()], rtol=1e-15, err_msg=n)


def test_subnormals() -> None:
    for n, parts in results(0, "C").items():
        np.testing.assert_allclose(parts["tiny"], results(0, "interpreter")[n]["tiny"], 1e-14, 1e-323, err_msg=n)
    assert [n for n, parts in results(1, "interpreter").items() if np.isnan(parts["tiny"]).any()] == []


@pytest.mark.parametrize("route", ["interpreter", "C"])
def test_nan_and_arguments_outside_of_the_domain_give_nan(route: str) -> None:
    for n, parts in results(0, route).items():
        np.testing.assert_array_equal(parts["outside"], np.full(len(parts["outside"]), NAN), err_msg=n)
