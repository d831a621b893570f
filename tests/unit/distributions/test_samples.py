"""Samples of every distribution: tests of their distribution for ordinary and extreme parameters, odd parameters, C."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

import pullback as pb
from pullback import random
from tests.unit.distributions.rows import REST, ROWS
from tests.unit.distributions.table import NIGHTLY, of

pytestmark = pytest.mark.slow

COUNT = 4000 if NIGHTLY else 400


def drawn(name: str, dtype: str | None) -> tuple[Any, list[Any]]:
    """A function of a key and columns of parameters, and these."""
    row = ROWS[name]
    sets = [*row.sets, *row.far]
    if name == "binomial":  # whose number is static
        sets = [p for p in sets if p[0] == 200]
        parameters = [np.array([[p] for p in (0.0, 1e-20, 0.25, 0.5, 1.0)])]
        leading: tuple[int, ...] = (200,)
    else:
        with np.errstate(over="ignore"):
            held = lambda v: np.isfinite(np.float32(v)) and (np.float32(v) or not v)
            sets = [p for p in sets if dtype is None or all(map(held, p))]
        parameters = [np.array([[v] for v in c], dtype) for c in zip(*sets, strict=True)]
        leading = ()
    extra = {} if row.whole or dtype is None else {"dtype": dtype}
    return lambda key, *p: of(name, "sample")(key, (len(p[0]), COUNT), *leading, *p, **extra), parameters


@cache
def samples(name: str, dtype: str | None) -> tuple[Any, Any]:
    """The parameters of each row, and what is drawn by them."""
    f, parameters = drawn(name, dtype)
    with np.errstate(all="ignore"):
        found = pb.function(f).interpret(random.key(3), *parameters)
    sets = [tuple(float(v) for v in p) for p in zip(*(c[:, 0] for c in parameters), strict=True)]
    return [(200.0, *p) for p in sets] if name == "binomial" else sets, found


@pytest.mark.parametrize("dtype", [None, "float32"])
@pytest.mark.parametrize("name", [n for n, r in ROWS.items() if not r.whole])
def test_samples(name: str, dtype: str | None) -> None:
    """Kolmogorov's distance to SciPy's distribution function, with ties where samples are rounded to one number."""
    row, (sets, found) = ROWS[name], samples(name, dtype)
    assert found.dtype == (dtype or "float64")
    for p, x in zip(sets, found, strict=True):
        low, high = (float(v) for v in row.support(*p))
        assert not np.isnan(x).any() and (low <= x).all() and (x <= high).all(), p
        value, counts = np.unique(x, return_counts=True)
        limits, most = np.finfo(x.dtype), float(np.finfo(x.dtype).max)
        held = np.clip(value.astype(float), -most, most)
        off = np.maximum(4 * float(limits.eps) * np.abs(held), float(limits.smallest_subnormal))  # the last places
        step, cdf = np.cumsum(counts) / COUNT, row.scipy(*p).cdf
        with np.errstate(over="ignore"):
            over = step - np.where(value == np.inf, 1, cdf(held + off))
            under = np.where(value == -np.inf, 0, cdf(held - off)) - (step - counts / COUNT)
        assert max(over.max(), under.max()) < 1.95 / COUNT**0.5, (p, over.max(), under.max())  # once in a thousand


@pytest.mark.parametrize("name", [n for n, r in ROWS.items() if r.whole])
def test_whole_samples(name: str) -> None:
    """Chi-square with up to twenty parts of the support: beyond its limit once in ten thousand."""
    row, (sets, found) = ROWS[name], samples(name, None)
    for p, x in zip(sets, found, strict=True):
        exact, whole = row.scipy(*p), x.astype(np.int64)
        low, high = (float(v) for v in row.support(*p))
        assert (low <= whole).all() and (whole <= high).all(), p
        ends = np.unique(exact.ppf(np.arange(1, 20) / 20))
        share = np.diff(np.concatenate([[0.0], exact.cdf(ends), [1.0]]))
        counts = np.bincount(np.searchsorted(ends, whole), minlength=len(share))
        assert (counts[share < 1e-9] == 0).all(), p
        parts = share * COUNT > 2
        size = (((counts - share * COUNT) ** 2)[parts] / (share * COUNT)[parts]).sum()
        assert size <= stats.chi2.ppf(1 - 1e-4, max(parts.sum() - 1, 1)), (p, counts, share * COUNT)


@pytest.mark.parametrize("name", [n for n in ROWS if n != "bernoulli"])  # whose bools have no such value
def test_samples_of_odd_parameters(name: str) -> None:
    """NaN, or -1 where samples are whole numbers, beside parameters that there are."""
    row = ROWS[name]
    good, rows = row.sets[0], [row.sets[0]]
    for k, domain in enumerate(row.domains.values()):
        rows += [(*good[:k], v, *good[k + 1 :]) for v in (math.nan, *map(float, REST[domain])) if domain != "count"]
    columns = [np.array(c, float) for c in zip(*rows, strict=True)]
    static = [int(good[0])] if name == "binomial" else []
    with np.errstate(all="ignore"):
        sample = lambda key, *p: of(name, "sample")(key, (len(rows),), *static, *p)
        found = pb.function(sample).interpret(random.key(0), *columns[len(static) :])
    assert found[0] == found[0] and (found[0] >= 0 or not row.whole)
    assert (found[1:] == -1).all() if row.whole else np.isnan(found[1:]).all(), (rows, found)


def test_samples_in_c() -> None:
    """One program of all samplers: the same numbers as in the interpreter, but for rounding."""
    every = {name: drawn(name, None) for name in ROWS}
    given = {name: p for name, (_, p) in every.items()}
    found = pb.function(lambda key, given: {n: f(key, *given[n]) for n, (f, _) in every.items()})(random.key(3), given)
    for name, x in found.items():
        wanted = samples(name, None)[1]
        if ROWS[name].whole:
            assert np.mean(x != wanted) < 1e-3, name
        else:
            off = ~np.isclose(x, wanted, rtol=1e-9, atol=1e-12 * np.abs(wanted[np.isfinite(wanted)]).max())
            assert off.mean() < 1e-3, (name, x[off], wanted[off])
