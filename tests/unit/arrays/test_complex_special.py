"""Complex functions at special values, over the whole range of their types, and their derivatives on the axes."""

import os
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import pullback as pb
from tests.unit.arrays.complex_cases import cases, holds

pytestmark = pytest.mark.slow

CASES = list(cases())
NAMES = sorted({name for name, *_ in CASES})
TYPES = [np.complex128, np.complex64]


@pytest.mark.parametrize("kind", TYPES)
def test_special_values(kind: Any) -> None:
    """Every row of the table, in the interpreter and in C."""
    arguments = np.array([z for _, z, _, _ in CASES]).astype(kind)
    f = pb.function(lambda z: tuple(getattr(pb, name)(z) for name in NAMES))
    for way, results in (("interpreter", f.interpret(arguments)), ("C", f(arguments))):
        by_name = dict(zip(NAMES, results, strict=True))
        wrong = []
        for k, (name, z, along, across) in enumerate(CASES):
            w = by_name[name][k]
            if not (holds(along, w.real) and holds(across, w.imag)):
                wrong.append(f"{name}({z}) = {w}, not {along}, {across}")
        assert not wrong, (way, len(wrong), wrong[:20])


REFERENCE: dict[str, Callable[[Any], Any]] = {
    "abs": lambda z: mp.mpc(abs(z)), "acos": mp.acos, "acosh": mp.acosh, "asin": mp.asin, "asinh": mp.asinh,
    "atan": mp.atan, "atanh": mp.atanh, "cos": mp.cos, "cosh": mp.cosh, "exp": mp.exp, "expm1": lambda z: mp.exp(z) - 1,
    "log": mp.log, "log1p": lambda z: mp.log(1 + z), "log2": lambda z: mp.log(z) / mp.log(2),
    "log10": lambda z: mp.log(z) / mp.log(10), "reciprocal": lambda z: 1 / z, "sign": lambda z: z / abs(z),
    "sin": mp.sin, "sinh": mp.sinh, "sqrt": mp.sqrt, "tan": mp.tan, "tanh": mp.tanh,
}  # fmt: skip
HYPERBOLIC = ("cosh", "exp", "expm1", "sinh", "tanh")  # of very large numbers nothing is left to compare
CIRCULAR = ("cos", "sin", "tan")
ENDS: dict[Any, list[float]] = {
    np.complex128: [5e-324, 1e-310, 1e-300, 1e-160, 1e-20, 1e-8, 0.3, 0.9999999, 1, 1.0000001, 1.5, 19, 350, 705, 730,
                    1e8, 1e20, 1e155, 1e300, 1.7e308],
    np.complex64: [1e-45, 1e-40, 1e-30, 1e-20, 1e-8, 0.3, 0.99999, 1, 1.00001, 1.5, 19, 60, 88, 95, 1e4, 1e8, 1e20,
                   3e38],
}  # fmt: skip
BOUND = 3.0  # units of the last place of the larger part


def over_the_range(kind: Any) -> Any:
    """All pairs of sizes with signs of all quadrants, numbers around the unit circle, and ordinary ones."""
    rng = np.random.default_rng(0)
    more = 8 if os.environ.get("PULLBACK_NIGHTLY") else 1
    count = 60 * more
    pairs = np.array([complex(a, b) for a in ENDS[kind] for b in ENDS[kind]] * min(more, 4))
    pairs.real *= rng.choice([-1, 1], len(pairs))
    pairs.imag *= rng.choice([-1, 1], len(pairs))
    if not os.environ.get("PULLBACK_NIGHTLY"):
        pairs = pairs[rng.random(len(pairs)) < 0.3]
    circle = np.exp(1j * rng.uniform(0, 6.3, count)) * (1 + 10.0 ** rng.uniform(-16, -1, count))
    beside = 10.0 ** rng.uniform(-16, -1, count) * np.exp(1j * rng.uniform(0, 6, count))
    near = rng.choice([1, -1, 1j, -1j], count) * (1 + beside)
    ordinary = (rng.normal(size=count) + 1j * rng.normal(size=count)) * np.exp(2 * rng.normal(size=count))
    return np.concatenate([pairs, circle, near, ordinary]).astype(kind)


def error(found: Any, expected: Any, eps: Any, smallest: Any, largest: Any) -> Any:
    """The difference in units of the last place of the larger part, or of two of the smallest number."""
    unit = eps * mp.sqrt(expected.real**2 + expected.imag**2) + 2 * smallest
    worst = mp.mpf(0)
    for x, e in ((float(found.real), expected.real), (float(found.imag), expected.imag)):
        if np.isinf(x) and abs(e) >= largest and (x > 0) == (e > 0):
            continue
        worst = max(worst, abs(mp.mpf(x) - e) / unit if np.isfinite(x) else mp.inf)
    return worst


@pytest.mark.parametrize("kind", TYPES)
def test_values_over_the_whole_range(kind: Any) -> None:
    """Against mpmath, in the interpreter and in C, without undue overflow or underflow."""
    z = over_the_range(kind)
    info = np.finfo(kind)
    eps, smallest, largest = (mp.mpf(float(v)) for v in (info.eps, info.smallest_subnormal, info.max))
    f = pb.function(lambda z: tuple(getattr(pb, name)(z) for name in REFERENCE))
    found = f.interpret(z), f(z)
    wrong = []
    with mp.workprec(2300 if kind is np.complex128 else 400):
        for k, value in enumerate(z):
            x, y = float(value.real), float(value.imag)
            for name, *parts in zip(REFERENCE, *found, strict=True):
                if abs(x if name in HYPERBOLIC else y if name in CIRCULAR else 0) > 2000:
                    continue
                expected = mp.mpc(REFERENCE[name](mp.mpc(x, y)))
                for way, part in zip(("interpreter", "C"), parts, strict=True):
                    off = error(part[k], expected, eps, smallest, largest * (1 - 2 * eps))
                    if off > BOUND:
                        wrong.append(f"{name}({value}) = {part[k]} in {way}, off by {mp.nstr(off, 3)}")
    assert not wrong, (len(wrong), wrong[:20])


def test_quotients_over_the_whole_range() -> None:
    z = over_the_range(np.complex128)[::3]
    w = np.random.default_rng(1).permutation(z)
    f = pb.function(lambda z, w: z / w)
    info = np.finfo(float)
    eps, smallest, largest = (mp.mpf(float(v)) for v in (info.eps, info.smallest_subnormal, info.max))
    for found in (f.interpret(z, w), f(z, w)):
        with mp.workprec(4400):
            for a, b, q in zip(z, w, found, strict=True):
                expected = mp.mpc(complex(a)) / mp.mpc(complex(b))
                assert error(q, expected, eps, smallest, largest * (1 - 2 * eps)) < BOUND, (a, b, q)


DERIVATIVES: dict[str, Callable[[Any], Any]] = {
    "acos": lambda z: -1 / (mp.sqrt(1 - z) * mp.sqrt(1 + z)), "acosh": lambda z: 1 / (mp.sqrt(z - 1) * mp.sqrt(z + 1)),
    "asin": lambda z: 1 / (mp.sqrt(1 - z) * mp.sqrt(1 + z)), "atan": lambda z: 1 / (1 + z * z),
    "asinh": lambda z: 1 / (mp.sqrt(1 - 1j * z) * mp.sqrt(1 + 1j * z)), "atanh": lambda z: 1 / (1 - z * z),
    "cos": lambda z: -mp.sin(z), "cosh": mp.sinh, "exp": mp.exp, "expm1": mp.exp, "log": lambda z: 1 / z,
    "log1p": lambda z: 1 / (1 + z), "log2": lambda z: 1 / (z * mp.log(2)), "log10": lambda z: 1 / (z * mp.log(10)),
    "reciprocal": lambda z: -1 / z**2, "sin": mp.cos, "sinh": mp.cosh, "sqrt": lambda z: 1 / (2 * mp.sqrt(z)),
    "square": lambda z: 2 * z, "tan": lambda z: 1 / mp.cos(z) ** 2, "tanh": lambda z: 1 / mp.cosh(z) ** 2,
}  # fmt: skip
PLACES = [0.25, 4.0, -0.3 + 0j, 0.5j, 0.25 - 0.0j, -0.7j, 0.3 + 0.4j, 3 + 1e-9j, 1.000001j, 1 + 1e-7j, 1e-8 + 1e-9j,
          1e5 + 1e6j, 25 + 1j, 1 - 25j, 1e-200 + 1e-200j, 1e10j + 1]  # fmt: skip


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the axes as well, where parts of formulas have no derivative: against f' in 60 digits, and f' of it."""
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    z = np.array(PLACES)
    z = z[np.abs(z) < 1e5] if name in (*CIRCULAR, *HYPERBOLIC) else z
    z = z[np.abs(z) > 1e-100] if name == "reciprocal" else z
    f = pb.function(lambda z: getattr(pb, name)(z))
    with mp.workdps(60):
        # a number on a branch cut lies above it, or below where its zero has a sign
        beside = [mp.mpc(v.real, v.imag or (-1e-300 if np.signbit(v.imag) else 1e-300)) for v in z]
        slope = np.array([complex(DERIVATIVES[name](v)) for v in beside])
        second = [complex(mp.diff(DERIVATIVES[name], v, h=mp.mpf(10) ** -15 * abs(v))) for v in beside]
    for direction in (1.0, 1j, 0.6 - 0.8j):
        d = np.full_like(z, direction)
        np.testing.assert_allclose(pb.jvp(f)((z,), (d,))[1], slope * direction, rtol=2e-13)
        np.testing.assert_allclose(pb.vjp(f)(z, cotangent=d)[1][0], slope.conj() * direction, rtol=2e-13)
    twice = pb.function(lambda z: pb.jvp(f)((z,), (pb.ones_like(z),))[1])
    ordinary = (np.abs(z) > 1e-6) & (np.abs(z) < 1e3) & (np.abs(z.imag) > 1e-6) & (np.abs(z.real) > 1e-6)
    found = pb.jvp(twice)((z,), (np.ones_like(z),))[1]
    np.testing.assert_allclose(found[ordinary], np.array(second)[ordinary], rtol=1e-9)
