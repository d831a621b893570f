"""f16 and bf16: every pattern of bits both ways, and rounding against NumPy and exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pullback.ir import expr, types
from pullback.ir.expr import cast, const
from pullback.ir.halves import from_half, to_half
from pullback.ir.index import Var
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.verify import verify
from pullback.passes.halves import store_halves

ALL = np.arange(1 << 16, dtype=np.uint16)


def quiet(bits, dtype):
    """NaN with its first bit set, as conversions give it."""
    mantissa, exponent, first = (0x3FF, 0x7C00, 0x200) if dtype is types.f16 else (0x7F, 0x7F80, 0x40)
    is_nan = ((bits & exponent) == exponent) & ((bits & mantissa) != 0)
    return np.where(is_nan, bits | first, bits).astype(np.uint16)


@pytest.mark.parametrize("dtype", types.HALVES, ids=str)
def test_every_number_comes_back(dtype):
    assert np.array_equal(to_half(from_half(ALL, dtype), dtype), quiet(ALL, dtype))


def test_f16_is_that_of_numpy():
    ours, theirs = from_half(ALL, types.f16), ALL.view(np.float16).astype(np.float32)
    number = ~np.isnan(theirs)
    assert np.array_equal(ours.view(np.uint32)[number], theirs.view(np.uint32)[number])
    assert np.isnan(ours[~number]).all()


def values(dtype):
    """A million numbers: any bits, near the least number, near the largest, half-way between two and next to that."""
    rng = np.random.default_rng(0)
    random = rng.integers(0, 1 << 32, 400_000, dtype=np.uint32).view(np.float32)
    small, large = rng.normal(size=200_000) * 1e-7, rng.uniform(-66_000, 66_000, 100_000)
    middles = from_half(rng.integers(0, 0x7BFF, 150_000).astype(np.uint16), types.f16).astype(np.float64)
    middles = middles + np.spacing(middles.astype(np.float16)).astype(np.float64) / 2
    near = middles * (1 + rng.choice([-1, 1], 150_000) * (2.0**-40 if dtype == np.float64 else 2.0**-23))
    return np.concatenate([random[np.isfinite(random)], small, large, middles, near]).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_to_f16_is_that_of_numpy(dtype):
    x = values(dtype)
    with np.errstate(over="ignore"):
        assert np.array_equal(to_half(x, types.f16), x.astype(np.float16).view(np.uint16))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_to_bf16_is_to_the_nearest(dtype):
    x = values(dtype)
    x = x[np.isfinite(x)][::400]
    for number, bits in zip(x, to_half(x, types.bf16), strict=True):
        exact = abs(Fraction(float(number)))
        around = from_half(np.array([max((bits & 0x7FFF) - 1, 0), bits & 0x7FFF]), types.bf16)
        (below, mine), above = (Fraction(float(a)) for a in around), float(from_half((bits & 0x7FFF) + 1, types.bf16))
        away = abs(mine - exact)
        assert away <= abs(exact - below)
        assert np.isinf(above) or away < abs(Fraction(above) - exact) or (bits & 1) == 0
        assert bits >> 15 == np.signbit(number)


def test_f64_is_rounded_once():
    tie = 1 + 2.0**-8  # half-way between two of bf16; next to it in f64, and the same in f32
    assert from_half(to_half(np.float64(tie + 2.0**-40), types.bf16), types.bf16) == 1 + 2.0**-7
    assert from_half(to_half(np.float64(tie), types.bf16), types.bf16) == 1


def test_conversions_of_expressions():
    x = expr.get(expr.Ref("x", types.f32, (4,)), Var("i", 4))
    stored = cast(x, types.f16)
    assert cast(cast(stored, types.f32), types.f16) is stored
    assert cast(stored, types.f64) is cast(cast(stored, types.f32), types.f64)
    assert expr.rounded(x, types.f16) is cast(stored, types.f32)
    assert const(1 / 3, types.f16).value == float(np.float16(1 / 3))
    assert expr.rounded(const(1e6, types.f32), types.f16).value == np.inf


TEXT = """\
f(x as f16: f32[N], y as bf16: f32[N]) {
  z as f16 = build n < N { f32(f16(x[n] * y[n])) }
  w = build n < N { 2.0 * z[n] }
  return z, w, x }
"""


def test_the_text_says_how_arrays_are_stored():
    program = parse_program(TEXT)
    assert [r.storage for r in program.inputs] == [types.f16, types.bf16]
    assert print_program(program) == TEXT.rstrip("\n") or print_program(program) == TEXT
    made = store_halves(program)
    verify(made)
    assert [str(r.dtype) for r in (*made.inputs, *made.outputs)] == ["f16", "bf16", "f16", "f32", "f16"]
    assert "f32(x[n]) * f32(y[n])" in print_program(made)
    verify(parse_program(print_program(made)))
