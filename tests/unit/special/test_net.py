"""Every elementwise function with a derivative: values and three derivatives on a log grid, limits, NaN, domains."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from jaxtyping import Float32, Float64

import pullback as pb
from pullback import Array
from tests.unit.special.rows import NIGHTLY, OF_MANY, ROWS, Row, smooth

NAMES = list(ROWS)
Arrays = list[Float64[Array, "..."]]


def test_each_function_of_the_namespaces_has_a_row() -> None:
    assert smooth() == set(ROWS) | OF_MANY


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
    """The value and derivatives, by central differences in steps of 1e-15 of the scale on which the function varies."""
    far = max(1.0, 0.0 if row.waves else abs(x))
    scale = min(far, x - row.low, row.high - x, *(abs(x - k) for k in row.kinks))
    digits = 110 + 2 * abs(int(np.log10(abs(x or 1.0)))) if row.waves or (abs(x) < 1e-3 and row.low) else 110
    with mp.workdps(digits + row.digits):
        at, step = mp.mpf(x), mp.mpf(scale) * mp.mpf(10) ** -15
        values = [row.exact(at + k * step) for k in range(-2, 3)]
        tables = [[0, 0, 1, 0, 0], [0, -0.5, 0, 0.5, 0], [0, 1, -2, 1, 0], [-0.5, 1, 0, -1, 0.5], [1, -4, 6, -4, 1]]
        return [mp.re(sum(c * v for c, v in zip(table, values, strict=True))) / step**k
                for k, table in enumerate(tables[:count])]


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


@pytest.fixture(scope="module")
def references() -> dict[str, list[list[Any]]]:
    return {n: [exact_derivatives(r, x, 5) for x in r.points()] for n, r in ROWS.items()}


@pytest.mark.parametrize("order", range(4 if NIGHTLY else 3))
def test_on_a_log_grid(order: int, references: dict[str, list[list[Any]]]) -> None:
    f = all_of(order)
    given = [np.array(ROWS[n].points()) for n in NAMES]
    routes = {"interpreter": f.interpret(given)}
    if order == 0 or NIGHTLY:
        routes["C"] = f(given)
    wrong = [
        (route, n, x, found, float(exact[order]), units)
        for route, results in routes.items()
        for n, xs, values in zip(NAMES, given, results, strict=True)
        for x, found, exact in zip(xs.tolist(), values.tolist(), references[n], strict=True)
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
    for route in (f, f.interpret):
        for n, row, xs, values in zip(NAMES, rows, given, route(given), strict=True):
            with mp.workdps(60):
                wanted = [mp.re(row.exact(mp.mpf(x))) for x in xs.tolist()]
            for x, found, want in zip(xs.tolist(), values.tolist(), wanted, strict=True):
                if 1e-37 < abs(want) < 3e38:
                    assert abs(found - want) <= 4 * 2.0**-24 * (abs(want) + row.floor[0]), (n, x, found, want)


def test_limits_zeros_and_subnormals() -> None:
    f, slope = all_of(0), all_of(1)
    ends = [np.array([*ROWS[n].ends]) for n in NAMES]
    for route in (f, f.interpret):
        for n, values in zip(NAMES, route(ends), strict=True):
            wanted = np.array([*ROWS[n].ends.values()])
            np.testing.assert_allclose(values, wanted, rtol=1e-15, err_msg=n)
    tiny = [np.array([5e-324, 1e-310]) if ROWS[n].low < 1e-310 < ROWS[n].high else np.array([2.0, 2.0]) for n in NAMES]
    for one, two in zip(f(tiny), f.interpret(tiny), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-14)
    assert [n for n, v in zip(NAMES, slope.interpret(tiny), strict=True) if np.isnan(v).any()] == []


def test_nan_and_arguments_outside_of_the_domain_give_nan() -> None:
    f = all_of(0)
    outside = [
        np.array([np.nan, *([] if n == "entr" else [x for x in (r.low - 0.5, r.low - 1e9, r.high + 0.5, r.high + 1e9)
                                                 if np.isfinite(x) and n != "erfcx"])])
        for n, r in ROWS.items()
    ]
    for route in (f, f.interpret):
        for n, xs, values in zip(NAMES, outside, route(outside), strict=True):
            np.testing.assert_array_equal(values, np.full(len(xs), np.nan), err_msg=n)


INSIDE = {"betainc": (2.0, 3.0, 0.5), "remainder": (2.0, 3.0), "zeta": (2.0, 3.0)}
PASSING = {("copysign", 1), ("power", 0), ("power", 1)}  # where IEEE 754 has a number: 1**nan, nan**0, a sign


@pytest.mark.parametrize("name", sorted(OF_MANY))
def test_nan_in_any_operand_gives_nan(name: str) -> None:
    call = getattr(pb, name, None) or getattr(pb.special, name)
    if name == "polygamma":
        call = lambda x: pb.special.polygamma(2, x)
    inside = (2.0,) if name == "polygamma" else INSIDE.get(name, (2.0, 3.0))
    rows = [[np.nan if j == k else v for j, v in enumerate(inside)] for k in range(len(inside))]
    given = [np.array(c) for c in zip(*rows, strict=True)]

    def of_rows(x):
        return call(*(x[k] for k in range(len(inside))))

    of_rows.__annotations__ = {"x": Float64[Array, f"{len(inside)} N"]}
    f = pb.function(of_rows)
    for route in (f, f.interpret):
        found = np.isnan(route(np.array(given)))
        assert [bool(v) or (name, k) in PASSING for k, v in enumerate(found)] == [True] * len(inside)
