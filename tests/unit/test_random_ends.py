"""pb.random at the ends: integers of all dtypes and intervals, the last words, tails."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from jaxtyping import Int64, UInt32

import pullback as pb
from pullback import Array, random

pytestmark = pytest.mark.slow

KEY = random.key(0)
N = 20_000

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
COUNT = 40


def intervals(dtype: str) -> list[tuple[int, int]]:
    """The ends of a dtype and their neighbors, and widths around what a signed one holds."""
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max) + 1
    half = (high - low) // 2
    return [(low, high), (low, high - 1), (low + 1, high), (low, low + 1), (high - 1, high), (low, low + half + 1),
            (high - half - 1, high), (low + 28, high - 28), (3, 3 + half - 7)]  # fmt: skip


def wanted(words: Any, low: int, high: int) -> list[int]:
    """By the definition, in Python's integers: low plus the upper word of a word times how many there are."""
    return [low + (int(w) * (high - low) >> 64) for w in words]


def rows(dtype: str) -> tuple[list[tuple[int, int]], Any, Any]:
    """The intervals whose ends fit the dtype, and so can be data; their ends as columns."""
    fit = [ends for ends in intervals(dtype) if ends[1] <= np.iinfo(dtype).max]
    low, high = (np.array(v, dtype)[:, None] for v in zip(*fit, strict=True))
    return fit, low, high


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_at_all_ends(dtype: str) -> None:
    every, (fit, lows, highs), above = intervals(dtype), rows(dtype), int(np.iinfo(dtype).max) + 1

    @pb.function
    def draw(key: UInt32[Array, "2"], lows, highs):
        of = lambda low, high: random.integers(key, COUNT, low=low, high=high, dtype=dtype)
        first, last = [low for low, _ in fit], [high for _, high in fit]
        return random.bits(key, COUNT, dtype="uint64"), {
            "given": pb.stack([of(*ends) for ends in every]),
            "low given": pb.stack([of(low, highs[k, 0]) for k, low in enumerate(first)]),
            "high given": pb.stack([of(lows[k, 0], high) for k, high in enumerate(last)]),
            "largest": of(lows[0, 0], above),
        }

    words, found = draw.interpret(KEY, lows, highs)
    assert all(f.dtype == dtype for f in found.values())
    assert found["given"].tolist() == [wanted(words, *ends) for ends in every]
    assert found["low given"].tolist() == found["high given"].tolist() == [wanted(words, *ends) for ends in fit]
    assert found["largest"].tolist() == wanted(words, fit[0][0], above)


def test_integers_in_c() -> None:
    table = {dtype: rows(dtype)[1:] for dtype in INTEGERS}

    @pb.function
    def draw(key: UInt32[Array, "2"], table):
        return random.bits(key, 8 * COUNT, dtype="uint64"), {
            dtype: (
                random.integers(key, (low.shape[0], COUNT), low=low, high=high, dtype=dtype),
                random.integers(key, COUNT, low=intervals(dtype)[0][0], high=intervals(dtype)[0][1], dtype=dtype),
            )
            for dtype, (low, high) in table.items()
        }

    for route in (draw, draw.interpret):
        words, found = route(KEY, table)
        for dtype, (both, full) in found.items():
            for k, ends in enumerate(rows(dtype)[0]):
                assert both[k].tolist() == wanted(words[k * COUNT : (k + 1) * COUNT], *ends), (dtype, ends)
            assert full.tolist() == wanted(words[:COUNT], *intervals(dtype)[0])


def test_integers_where_there_is_none() -> None:
    """Ends that are data are not checked: the result is low."""
    draw = pb.function(lambda key, low, high: random.integers(key, 3, low=low, high=high, dtype=low.dtype))
    for dtype in ("int8", "uint8", "int64", "uint64"):
        i = np.iinfo(dtype)
        for low, high in [(5, 5), (5, 3), (i.min, i.min), (i.max, i.min), (i.max, i.max)]:
            np.testing.assert_array_equal(draw.interpret(KEY, np.array(low, dtype), np.array(high, dtype)), low)


def test_integers_are_even() -> None:
    """Chi-square of 256 numbers, of which 20,000 are drawn: above 330 once in a thousand."""

    @pb.function
    def draw(key: UInt32[Array, "2"], low: Int64[Array, ""], high: Int64[Array, ""]):
        return (
            random.integers(key, N, low=-128, high=128, dtype="int8") + np.int64(0),
            random.integers(key, N, low=low, high=high, dtype="int16") + np.int64(0),
        )

    for whole, low in zip(draw(random.key(4), -2000, -1744), (-128, -2000), strict=True):
        counts = np.bincount(whole - low, minlength=256)
        assert counts.size == 256
        assert ((counts - N / 256) ** 2).sum() / (N / 256) < 330


def test_no_number_is_infinite() -> None:
    """The largest word of this key is rounded up in f32, to a share of 1."""
    key, f32 = random.key(20192286), "float32"
    assert pb.function(lambda key: random.bits(key, 1))(key)[0] >> 8 == 2**24 - 1
    draws = (random.normal, random.exponential, random.gumbel, random.laplace)
    draw = pb.function(lambda key: pb.concat([f(key, 1, dtype=f32) for f in draws]))
    for route in (draw, draw.interpret):
        np.testing.assert_allclose(route(key), [5.2947, 16.6355, 16.6355, 15.9424], rtol=1e-5)


def test_uniform_ends_far_apart() -> None:
    draw = pb.function(lambda key, low, high: (random.uniform(key, 500, low=low, high=high),
                                               random.uniform(key, 500, low=-1e308, high=1.5e308)))  # fmt: skip
    for route in (draw, draw.interpret):
        for x in route(KEY, -1e308, 1.5e308):
            assert -1e308 <= x.min() < -0.9e308 and 1.4e308 < x.max() < 1.5e308


TAILS = [(40.0, 41.0), (-41.0, -40.0), (29.99, 31.0), (30.01, 31.0), (12.0, np.inf), (1e3, np.inf), (-np.inf, -60.0),
         (-1e4, -1e4 + 1e-2), (9.9, 10.2), (10.1, 10.2), (-0.5, 60.0)]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_truncated_normal_in_the_tails(dtype: str) -> None:
    """Kolmogorov's distance of 400 numbers to mpmath's distribution function: above 0.0975 once in a thousand."""
    low, high = (np.array(v, dtype)[:, None] for v in zip(*TAILS, strict=True))
    draw = pb.function(lambda key, low, high: random.truncated_normal(key, low, high, (len(TAILS), 400), dtype=dtype))
    found = draw(random.key(8), low, high)
    rounding = 64 * np.finfo(dtype).eps
    np.testing.assert_allclose(draw.interpret(random.key(8), low, high), found, rtol=rounding, atol=rounding)
    beyond = lambda x: mp.erfc(mp.mpf(float(x)) / mp.sqrt(2))
    for x, (a,), (b,) in zip(found, low, high, strict=True):
        if a < -1:
            x, a, b = -x, -b, -a
        assert (a <= x).all() and (x <= b).all()
        first, last = beyond(a), beyond(b)
        share = np.sort([float((first - beyond(v)) / (first - last)) for v in x])
        steps = np.spacing(a) * abs(a) if a > 1 else 0  # how much of the distribution lies between two numbers
        assert np.abs(share - (np.arange(400) + 0.5) / 400).max() < 0.0975 + steps, (a, b)
    odd = draw(KEY, *(np.full((len(TAILS), 1), v, dtype) for v in (3, 1)))
    assert np.isnan(odd).all()
    whole = pb.function(lambda key, low, high: pb.sum(random.truncated_normal(key, low, high, 5)))
    for low, high in [(40.0, 40.1), (35.0, np.inf), (-0.5, 0.5), (-np.inf, -33.0)]:
        for wrt, step in (("low", (1e-6, 0)), ("high", (0, 1e-6))):
            up, down = (whole(KEY, *(np.array([low, high]) + s * np.array(step))) for s in (1, -1))
            found = pb.grad(whole, wrt=wrt)(KEY, low, high)
            np.testing.assert_allclose(found, (up - down) / 2e-6, rtol=1e-5, atol=1e-8)
