"""The rows as tables of arguments, exact values and errors, and the functions that are held to them."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np

import pullback as pb
from pullback import distributions
from tests.unit.distributions.rows import ROWS, Row

NIGHTLY = bool(os.environ.get("PULLBACK_NIGHTLY"))
LARGE = [1e-300, 1e-100, 1e-38, 1e-20, 1e-10, 1e10, 1e20, 1e38, 1e100, 1e300]
POINTS = [0.0, -0.0, 5e-324, 2e-310, -1.0, -20.0, 0.125, 0.5, 1.0, 1.5, 2.0, 7.0, 40.0, 1e3, 1 - 2**-24]
POINTS += [np.inf, -np.inf, *LARGE, *(-v for v in LARGE)]
WHOLE = [0.0, -0.0, 1.0, 2.0, 7.0, 9.0, 100.0, 1e3, 1e6, 1e15, 0.5, 8.5, -1.0, 5e-324, np.inf, -np.inf]
EPS = {"float64": 2.0**-52, "float32": 2.0**-23}
mp.mp.dps = 30


def of(name: str, method: str) -> Any:
    return getattr(getattr(distributions, name), method)


def density_of(name: str) -> str:
    return "logpmf" if ROWS[name].whole else "logpdf"


def real_arguments(row: Row) -> range:
    """Places of the arguments that are not whole numbers, and so have derivatives."""
    return range(row.whole + ("n" in row.domains), 1 + len(row.domains))


@cache
def function_of(name: str, method: str, order: int = 0) -> Any:
    """The function of columns; with an order its derivatives by each, of the second order summed over the other."""
    names = [f"v{k}" for k in range(1 + len(ROWS[name].domains))]
    own, given = tuple(names[k] for k in real_arguments(ROWS[name])), ", ".join(names)
    space: dict[str, Any] = {"f": of(name, method), "pb": pb}
    exec(f"def value({given}):\n    return f({given})", space)
    if order == 0:
        return pb.function(space["value"])
    exec(f"def whole({given}):\n    return pb.sum(f({given}))", space)
    first = space["g"] = pb.grad(space["whole"], wrt=own)
    if order == 1:
        return first
    exec(f"def steepness({given}):\n    return sum(pb.sum(v) for v in g({given}))", space)
    return pb.grad(space["steepness"], wrt=own)


def within(row: Row, x: Any, p: Any) -> bool:
    low, high = row.support(*p)
    return bool(low <= x <= high and abs(x) != mp.inf and (not row.whole or x == mp.floor(x)))


def limit(row: Row, what: str, x: float, p: Any) -> Any:
    """The exact value."""
    x, p = mp.mpf(x), [mp.mpf(v) for v in p]
    if within(row, x, p):
        f = row.log if what != "cdf" else row.cdf
        assert f is not None
        return f(x, *p)
    if what != "cdf":
        return -mp.inf
    low, high = row.support(*p)
    if row.whole and low <= x <= high:
        assert row.cdf is not None
        return row.cdf(mp.floor(x), *p) if x != mp.inf else mp.mpf(1)
    return mp.mpf(0) if x < low or x == -mp.inf else mp.mpf(1)


def slopes(row: Row, what: str, x: float, p: Any, order: int = 1) -> list[Any]:
    """Exact derivatives by each argument, inside the support; of the second order summed over the other."""
    f: Any = row.log if what != "cdf" else row.cdf
    given = [mp.mpf(x), *map(mp.mpf, p)]
    scale = [abs(v) or mp.mpf(1) for v in given]

    def slope(k: int, at: list[Any]) -> Any:
        return mp.diff(lambda t: f(*at[:k], at[k] + t * scale[k], *at[k + 1 :]), 0) / scale[k]

    own = real_arguments(row)
    if order == 1:
        return [slope(k, given) for k in own]
    step = min(scale[k] for k in own) * mp.mpf(10) ** -12  # of central differences in 60 digits
    with mp.workdps(60):
        ends = [[v + way * step * (k in own) for k, v in enumerate(given)] for way in (1, -1)]
        return [(slope(k, ends[0]) - slope(k, ends[1])) / (2 * step) for k in own]


def arguments(row: Row, x: float, p: Any) -> list[float]:
    """The arguments that have derivatives."""
    return [(x, *p)[k] for k in real_arguments(row)]


def inner(row: Row, x: float, p: Any) -> bool:
    """Whether x and all parameters lie inside their domains, away from the ends."""
    low, high = row.support(*p) if not row.whole else (-1, mp.inf)
    ends = {"probability": (0, 1), "count": (0, mp.inf), "rate": (0, mp.inf)}
    open_ = all(not (d in ends and (v in ends[d] or 1 - v == 1)) for d, v in zip(row.domains.values(), p, strict=True))
    return bool(low < x < high) and open_ and within(row, x, p)


@cache
def table(name: str, what: str) -> list[tuple[tuple[float, ...], Any, Any]]:
    """Arguments, the exact value, and how large an error may be in units of the last place."""
    row, out = ROWS[name], []
    for p in row.sets:
        for x in WHOLE if row.whole else POINTS:
            exact = limit(row, what, x, p) if not overflows(name, what, (x, *p)) else mp.nan
            error = mp.inf
            if mp.isfinite(exact):
                error = abs(exact) + (what != "cdf")
                if what != "cdf":
                    error += abs(row.terms(mp.mpf(x), *map(mp.mpf, p)))
                if inner(row, x, p) and what == "cdf":
                    middle = p[list(row.domains).index("loc")] if "loc" in row.domains else 0
                    error += (abs(x) + abs(middle)) * mp.exp(row.log(mp.mpf(x), *map(mp.mpf, p)))
                elif inner(row, x, p):
                    moved = slopes(row, what, x, p)
                    error += sum(abs(given * s) for given, s in zip(arguments(row, x, p), moved, strict=True))
            out.append(((x, *p), exact, error))
    return out


def columns(name: str, what: str, dtype: str) -> tuple[list[Any], Any, Any]:
    """The rows of a table whose numbers are those of the dtype."""
    with np.errstate(over="ignore"):
        held = lambda v: float(np.dtype(dtype).type(v)) == v
        fit = [r for r in table(name, what) if all(map(held, r[0])) and whole_quotient(name, r[0], dtype)]
        given, exact, error = zip(*fit, strict=True)
        return [np.array(c, dtype) for c in zip(*given, strict=True)], exact, np.array(error, float)


def overflows(name: str, what: str, given: tuple[Any, ...]) -> bool:
    """Whether x / a of the incomplete gamma function is too large to be a number, where it is NaN: a known gap."""
    return name == "gamma" and what == "cdf" and bool(mp.mpf(2) ** 1024 < mp.mpf(given[0]) / given[1] < mp.inf)


def whole_quotient(name: str, given: tuple[float, ...], dtype: str) -> bool:
    """Whether x / scale is a number with all its digits: a known gap where not."""
    scale = given[-1] if "scale" in ROWS[name].domains and "loc" not in ROWS[name].domains else 1.0 + (name == "chi2")
    limits = np.finfo(dtype)
    quotient = abs(mp.mpf(given[0])) / scale
    return bool(scale == 1 or quotient in (0, mp.inf) or limits.tiny <= quotient <= limits.max)


def check(found: Any, given: Any, exact: Any, error: Any, units: float) -> None:
    """Each number is within so many units of its error; infinite and NaN where the exact one is."""
    eps = EPS[found.dtype.name]
    largest = float(np.finfo(found.dtype).max)
    wrong = []
    for v, e, size, *arguments in zip(found, exact, error, *given, strict=True):
        if mp.isnan(e):
            right = bool(np.isnan(v))
        elif not mp.isfinite(e) or abs(e) > largest:
            right = v == float(mp.sign(e)) * np.inf
        else:
            right = abs(mp.mpf(float(v)) - e) <= units * eps * size + np.finfo(found.dtype).tiny
        if not right:
            wrong.append((*map(float, arguments), float(v), mp.nstr(e, 12)))
    assert not wrong, f"{len(wrong)} of {len(found)}: {wrong[:12]}"


CASES = [(n, density_of(n)) for n in ROWS] + [(n, "cdf") for n, r in ROWS.items() if r.cdf]
LONG = {(n, "cdf") for n in ("beta", "binomial", "chi2", "gamma", "poisson", "student_t")}
"""Distribution functions by loops, whose derivatives and C take seconds each: theirs are for the nightly run."""
SHORT = [c for c in CASES if NIGHTLY or c not in LONG]
