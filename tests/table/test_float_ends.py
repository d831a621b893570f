"""Zeros, subnormals, the largest numbers, infinities and NaN through every elementwise primitive, at every length.

One compiled program for open sizes has all primitives as results and serves arrays of 1 to 130 elements; a few given
sizes are compiled besides. What an element gives may depend on its values alone, not on its place.
"""

import os
from functools import cache
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32, Float64

import pullback as pb
from pullback.ir.primitive import PRIMITIVES

TYPES = ["float64", "float32"]
LENGTHS = range(1, 131)
GIVEN = (1, 7, 33, 64, 130) if os.environ.get("PULLBACK_NIGHTLY") else (33,)
FLOATING = sorted(p.name for p in PRIMITIVES if "floating" in p.kinds and p.arity <= 2 and p.name != "stop_gradient")
NAMES = [*FLOATING, "add", "subtract", "multiply", "negative", "square"]
BINARY = {p.name for p in PRIMITIVES if p.arity == 2} | {"add", "subtract", "multiply"}
ROUNDED = {p.name for p in PRIMITIVES if p.transcendental} | {"hypot", "logistic"}  # libm's, NumPy's or our vectors'
UNITS = 4.0  # of the last place, for those


def logistic(x: Any) -> Any:
    """The function that NumPy has not."""
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


@cache
def values(kind: str) -> Any:
    """The ends of a type, and some numbers between them, with both signs."""
    info = np.finfo(kind)
    some = [0, info.smallest_subnormal, 3 * info.smallest_subnormal, info.tiny / 3, info.tiny, info.eps, 0.3, 1, 1.5,
            2.5, 3, 20, 1e4, 1 / info.tiny, info.max / 3, info.max, np.inf, np.nan]  # fmt: skip
    return np.array([s * v for v in some for s in (1, -1)], kind)


def primitive(name: str, x: Any, y: Any) -> Any:
    """A primitive of one or both arrays."""
    return getattr(pb, name)(x, y) if name in BINARY else getattr(pb, name)(x)


def annotated(kind: str, extent: str) -> Any:
    """All primitives of arrays of a type and length, and divisions by one number."""
    of = Float64 if kind == "float64" else Float32

    def ends(x: of[pb.Array, extent], y: of[pb.Array, extent], s: of[pb.Array, ""]) -> Any:  # type: ignore[valid-type]
        return tuple(primitive(n, x, y) for n in NAMES), (x / s, y / s, (x + y) / s, s / x)

    return pb.function(specialize="never")(ends)


def equal(a: Any, b: Any) -> Any:
    """Where elements are the same, NaN and the signs of zeros included."""
    return ((a == b) & ((a != 0) | (np.signbit(a) == np.signbit(b)))) | ((a != a) & (b != b))


def close(name: str, found: Any, wanted: Any) -> Any:
    """Where elements are the same, or as near as two functions of libm are."""
    same = equal(found, wanted)
    if name not in ROUNDED or found.dtype == bool:
        return same
    with np.errstate(all="ignore"):
        return same | (np.abs(found - wanted) <= UNITS * np.spacing(np.abs(wanted)))


def at(kind: str, n: int) -> tuple[Any, Any]:
    """Places in `values` of n pairs: over all lengths every pair, and every value in every lane, comes up."""
    count = len(values(kind))
    k = np.arange(n) + 7 * n
    return k % count, (k + k // count + n) % count


@pytest.mark.slow
@pytest.mark.parametrize("kind", TYPES)
def test_every_length(kind: str) -> None:
    """In C for all sizes as in the interpreter, which takes all pairs at once."""
    v = values(kind)
    pairs = [a.ravel() for a in np.meshgrid(v, v, indexing="ij")]
    f = annotated(kind, "N")
    wanted, _ = f.interpret(*pairs, v[0])
    given = {n: annotated(kind, str(n)) for n in GIVEN}
    for n in LENGTHS:
        a, b = at(kind, n)
        place, s = a * len(v) + b, v[n % len(v)]
        for g in [f, *([given[n]] if n in given else [])]:
            found, quotients = g(v[a], v[b], s)
            for name, got, want in zip(NAMES, found, wanted, strict=True):
                ok = close(name, got, want[place])
                assert ok.all(), (name, n, v[a][~ok][:3], v[b][~ok][:3], got[~ok][:3], want[place][~ok][:3])
            check_quotients(quotients, v[a], v[b], s)


def check_quotients(found: Any, x: Any, y: Any, s: Any) -> None:
    """Quotients by one number are those of NumPy but for a unit of the last place."""
    with np.errstate(all="ignore"):
        for got, want in zip(found, (x / s, y / s, (x + y) / s, s / x), strict=True):
            ok = equal(got, want) | (np.abs(got - want) <= np.spacing(np.abs(want)))
            assert ok.all(), (s, x[~ok][:3], y[~ok][:3], got[~ok][:3], want[~ok][:3])


@pytest.mark.parametrize("kind", TYPES)
def test_rows(kind: str) -> None:
    """Rows that are divided by a number of their own, near the ends of the type too."""
    v = values(kind)
    f = pb.function(lambda x, d: (x / d[:, None], (x + 1) / d[:, None], x / (d[:, None] * x[:1])))
    for n in (5, 33, 130):
        x = np.resize(v, (len(v), n))
        found, same = f(x, v), f.interpret(x, v)
        with np.errstate(all="ignore"):
            wanted = x / v[:, None], (x + 1) / v[:, None], x / (v[:, None] * x[:1])
            for got, want, interpreted in zip(found, wanted, same, strict=True):
                ok = equal(got, want) | (np.abs(got - want) <= np.spacing(np.abs(want)))
                assert ok.all(), (n, np.argwhere(~ok)[:3], got[~ok][:3], want[~ok][:3])
                assert equal(interpreted, want).all()


def shared(kind: str, extent: str) -> Any:
    """Sums of quotients in which the reciprocal of a divisor is a term, in a loop with sums over the same elements."""
    of = Float64 if kind == "float64" else Float32

    def quotients(a: of[pb.Array, extent], w: of[pb.Array, ""], h: of[pb.Array, extent]) -> Any:  # type: ignore[valid-type]
        p = w * h
        terms = 1 / p - a / p / p, 1 / h - a / h / h
        return terms, tuple(pb.sum(t) for t in terms)

    return pb.function(specialize="never")(quotients)


@pytest.mark.parametrize("kind", TYPES)
def test_quotients_that_share_a_reciprocal(kind: str) -> None:
    """Where 1 / p overflows the sum did so before; elsewhere it is as good as with divisions."""
    v = values(kind)
    f, given = shared(kind, "N"), {n: shared(kind, str(n)) for n in GIVEN}
    for n in LENGTHS:
        a, b = at(kind, n)
        x, h, w = v[a], v[b], v.dtype.type((1, 0.7, -3)[n % 3])
        for g in [f, *([given[n]] if n in given else [])]:
            check_sums(g(x, w, h)[0], x, w, h)


def check_sums(found: Any, x: Any, w: Any, h: Any) -> None:
    """Sums are within units of their terms, and finite where NumPy's are."""
    info = np.finfo(x.dtype)
    with np.errstate(all="ignore"):
        p = w * h
        expected = (1 / p, x / p / p), (1 / h, x / h / h)
        for got, (first, second), divisor in zip(found, expected, (p, h), strict=True):
            want = first - second
            bound = 8 * info.eps * (np.abs(first) + np.abs(second)) + 8 * info.smallest_subnormal
            fits = (np.abs(got - want) <= bound) | ~np.isfinite(want)
            ok = fits & (np.isfinite(got) == np.isfinite(want))
            assert ok.all(), (x[~ok][:3], divisor[~ok][:3], got[~ok][:3], want[~ok][:3])


@pytest.mark.parametrize("kind", TYPES)
def test_the_interpreter_agrees_with_wider_numbers(kind: str) -> None:
    """Functions that round, with NumPy's in extended precision."""
    v = values(kind)
    x, y = (a.ravel() for a in np.meshgrid(v, v, indexing="ij"))
    names = sorted(ROUNDED & set(NAMES) - {"erf"})
    f = pb.function(lambda x, y: tuple(primitive(n, x, y) for n in names))
    wide = [a.astype(np.longdouble if kind == "float64" else np.float64) for a in (x, y)]
    with np.errstate(all="ignore"):
        for name, found in zip(names, f.interpret(x, y), strict=True):
            reference = logistic if name == "logistic" else getattr(np, name)
            wanted = reference(*wide[: 2 if name in BINARY else 1]).astype(found.dtype)
            ok = close(name, found, wanted)
            assert ok.all(), (name, x[~ok][:4], y[~ok][:4], found[~ok][:4], wanted[~ok][:4])
