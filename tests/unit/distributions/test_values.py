"""Every distribution of the namespace: values, derivatives, NaN and domains, in the interpreter and in C."""

from __future__ import annotations

import inspect
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import pullback as pb
from pullback import distributions
from tests.unit.distributions.rows import REST, ROWS, VECTORS
from tests.unit.distributions.table import (
    CASES,
    EPS,
    LONG,
    NIGHTLY,
    SHORT,
    arguments,
    check,
    columns,
    density_of,
    function_of,
    inner,
    limit,
    of,
    real_arguments,
    slopes,
)

pytestmark = pytest.mark.slow

METHODS = ("logpdf", "logpmf", "cdf", "sample")


def test_every_distribution_has_a_row() -> None:
    assert set(ROWS) | set(VECTORS) == set(distributions.__all__)
    for name in distributions.__all__:
        methods = [m for m, f in vars(getattr(distributions, name)).items() if callable(f) and m[0] != "_"]
        assert set(methods) <= set(METHODS), name
        assert {"sample", "logpmf"} <= set(methods) or {"sample", "logpdf"} <= set(methods)
        if name in ROWS:
            for m in methods:
                names = list(inspect.signature(of(name, m)).parameters)
                own = [p for p in names if p not in ("key", "shape", "dtype", "largest")]
                assert own[m != "sample" :] == list(ROWS[name].domains), (name, m)
            assert ("cdf" in methods) == (ROWS[name].cdf is not None)


@pytest.mark.parametrize(("name", "what"), CASES)
def test_values(name: str, what: str) -> None:
    for dtype in ("float64", "float32"):
        given, exact, error = columns(name, what, dtype)
        with np.errstate(all="ignore"):
            found = function_of(name, what).interpret(*given)
        assert found.dtype == dtype
        check(found, given, exact, error, 300 if what == "cdf" else 30)


def derived(name: str, what: str, order: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Inner points, and the exact derivatives by each argument and their errors."""
    row, points, exact, error = ROWS[name], [], [], []
    beside = 2.0**-6 * ((name, what) in LONG and order == 2 and not row.whole)  # whole parameters are a known gap
    for own in row.sets[: None if NIGHTLY else 3]:
        p = [v + beside if (k in real_arguments(row)) else v for k, v in enumerate(own, 1)]
        for x in (0.0, 1.0, 2.0, 7.0) if row.whole else (-20.0, -1.1, -0.3, 0.1, 0.6, 1.2, 1.9, 7.0, 40.0):
            if inner(row, x, p):
                moved = slopes(row, what, x, p, order)
                each = [max(abs(mp.mpf(v)), mp.mpf(10) ** -3) for v in arguments(row, x, p)]
                least = min(each) if order == 2 else 1
                size = 1 + abs(limit(row, what, x, p))
                size += max(v * least * abs(s) for v, s in zip(each, moved, strict=True))
                points.append((x, *p))
                exact.append(moved)
                error.append([abs(s) + size / v / least for v, s in zip(each, moved, strict=True)])
    return points, exact, error


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("name", "what"), SHORT)
def test_derivatives(name: str, what: str, order: int) -> None:
    """By each argument, against differences in mpmath; of whole numbers there are none."""
    points, exact, error = derived(name, what, order)
    given = [np.array(c) for c in zip(*points, strict=True)]
    with np.errstate(all="ignore"):
        found = function_of(name, what, order).interpret(*given)
    for k, column in enumerate(found):
        check(column, [*given, np.full(len(points), k)], [e[k] for e in exact], [e[k] for e in error], 3e3)


def odd_columns(name: str) -> list[Any]:
    """NaN in every place, and each parameter outside of its domain: at points inside, at the ends and outside."""
    row, rows = ROWS[name], []
    for p in row.sets[:2]:
        for x in (0.5, 0.0, 1.0, 2.0, -1.0, np.inf, -np.inf):
            given = [x, *p]
            for k in range(len(given)):
                domain = [] if k == 0 else REST[list(row.domains.values())[k - 1]]
                rows += [[*given[:k], float(v), *given[k + 1 :]] for v in (mp.nan, *domain)]
    return [np.array(c) for c in zip(*rows, strict=True)]


@pytest.mark.parametrize(("name", "what"), CASES)
def test_nan(name: str, what: str) -> None:
    """NaN in, NaN out; so for parameters outside of their domain: values and derivatives."""
    given = odd_columns(name)
    with np.errstate(all="ignore"):
        found = [function_of(name, what).interpret(*given)]
        if (name, what) in SHORT:
            found += function_of(name, what, 1).interpret(*given)
    for column in found:
        wrong = [tuple(map(float, r)) for r in zip(*given, column, strict=True) if r[-1] == r[-1]]
        assert not wrong, (len(wrong), wrong[:9])


@pytest.mark.parametrize("what", ["density", "cdf"])
def test_numbers_given_outside_of_the_domain(what: str) -> None:
    """Numbers of Python are tested while the function is traced."""

    @pb.function
    def every(x):
        out = {}
        for name, row in ROWS.items():
            for k, domain in enumerate(row.domains.values()):
                p = list(row.sets[0])
                p[k] = float((*REST[domain], mp.nan)[0])
                if what == "density" or (name, what) in SHORT:
                    out[f"{name} {p}"] = of(name, density_of(name) if what == "density" else what)(x, *p)
        return out

    with np.errstate(all="ignore"):
        for case, found in every.interpret(np.array([0.5, 1.0, -1.0, np.inf])).items():
            assert np.isnan(found).all(), case


@pytest.mark.parametrize("whats", [("logpdf", "logpmf"), ("cdf",)])
def test_c_agrees(whats: tuple[str, ...]) -> None:
    """One program of all distributions: values at all points, NaN and domains."""
    cases = [c for c in SHORT if c[1] in whats]
    join = lambda a, b, dtype: [np.concatenate([v, w.astype(dtype)]) for v, w in zip(a, b, strict=True)]
    given = {
        dtype: {name: join(columns(name, what, dtype)[0], odd_columns(name), dtype) for name, what in cases}
        for dtype in list(EPS)[: 1 + NIGHTLY]
    }

    @pb.function
    def every(given):
        return {d: {name: of(name, what)(*columns[name]) for name, what in cases} for d, columns in given.items()}

    found = every(given)
    for dtype in given:
        for name, what in cases:
            _, exact, error = columns(name, what, dtype)
            known = len(exact)
            assert found[dtype][name].dtype == dtype, name
            x, *_ = own = [a[:known] for a in given[dtype][name]]
            held = (x == 0) | (np.abs(x) >= np.finfo(dtype).tiny) | ((name, what) not in LONG)  # a known gap of C
            wanted = [[v for v, k in zip(column, held, strict=True) if k] for column in (*own, exact, error)]
            check(found[dtype][name][:known][held], wanted[:-2], *wanted[-2:], 300 if what == "cdf" else 30)
            assert np.isnan(found[dtype][name][known:]).all(), (name, dtype)
