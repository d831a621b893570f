"""The vector functions against NumPy in wider precision: error in units of the last place, and special values."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback.codegen.c.types import c_type
from pullback.codegen.c.vectors.words import VectorWords
from pullback.ir import types
from pullback.ir.primitive import PRIMITIVES
from pullback.ir.semantics import floor_divide
from pullback.loops.program.values import Type
from pullback.loops.vectors.lanes import VECTOR_FUNCTIONS
from pullback.runtime.compile import find_compiler
from tests.strict import WARNINGS

Values = np.ndarray[Any, Any]
Library = tuple[types.DType, ctypes.CDLL]
BARE = ("-mno-fma", "-mno-avx512f", "-mno-avx", "-ffp-contract=off")  # no instruction but those of every x86


def erf(x: Values) -> Values:
    """2 / sqrt(pi) e^(-x^2) sum of 2^n x^(2n+1) / (1 3 5 ..): no terms that cancel."""
    a = np.minimum(np.abs(x), 7)
    term = total = a
    for n in range(1, 260):
        term = term * 2 * a * a / (2 * n + 1)
        total = total + term
    return np.asarray(np.copysign(np.minimum(total * np.exp(-a * a) / np.sqrt(np.arctan(x.dtype.type(1))), 1), x))


def logistic(x: Values) -> Values:
    return np.asarray(np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x))))


# name -> what is right, and the error allowed
FUNCTIONS: dict[str, tuple[Callable[..., Any], float]] = {
    "abs": (np.abs, 0),
    "sign": (np.sign, 0),
    "copysign": (np.copysign, 0),
    "sqrt": (np.sqrt, 0.5),
    "round": (np.rint, 0),
    "floor": (np.floor, 0),
    "ceil": (np.ceil, 0),
    "trunc": (np.trunc, 0),
    "floor_divide": (floor_divide, 0),
    "exp": (np.exp, 1.05),
    "expm1": (np.expm1, 1.25),
    "tanh": (np.tanh, 1.2),
    "logistic": (logistic, 1.1),
    "log": (np.log, 0.85),
    "log2": (np.log2, 0.85),
    "log10": (np.log10, 0.85),
    "log1p": (np.log1p, 0.85),
    "sin": (np.sin, 0.85),
    "cos": (np.cos, 0.85),
    "power": (np.power, 1.0),
    "erf": (erf, 1.2),
}
BINARY = ("power", "floor_divide", "copysign")


def source(dtype: types.DType, size: int) -> str:
    """One C file with a loop for each function."""
    t = Type(dtype, size // dtype.size)
    words = VectorWords()
    c, loops = c_type(dtype), ""
    for name in VECTOR_FUNCTIONS:
        words.primitive(PRIMITIVES[name], t)
        second = f", *(const pb_{t}u *)(y + k)" if name in BINARY else ""
        loops += (
            f"void run_{name}(const {c} *x, const {c} *y, {c} *z, int n) {{\n    (void)y;\n"
            f"    for (int k = 0; k < n; k += {t.lanes})\n"
            f"        *(pb_{t}u *)(z + k) = pb_{name}_{t}(*(const pb_{t}u *)(x + k){second});\n}}\n"
        )
    return "#include <math.h>\n#include <stdint.h>\n" + "\n".join(words.vector.values()) + loops


def supported(flags: tuple[str, ...]) -> bool:
    command = (*find_compiler().command, *flags, "-x", "c", "-fsyntax-only", "-")
    return subprocess.run(command, input="int x;", text=True, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module", params=[f"{t}-{form}" for t in ("f32", "f64") for form in (64, 32, 16, "bare")])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    name, _, form = request.param.partition("-")
    dtype = types.dtype_named(name)
    more = BARE if form == "bare" else ()
    if not supported(more):
        pytest.skip("the compiler has no such flags")
    folder: Path = tmp_path_factory.mktemp("vectors")
    (folder / "v.c").write_text(source(dtype, 16 if form == "bare" else int(form)))
    compiler = find_compiler()
    subprocess.run(
        [*compiler.command, *compiler.flags, "-shared", *more, *WARNINGS,
         str(folder / "v.c"), "-o", str(folder / "v.so"), "-lm"],
        check=True,
    )  # fmt: skip
    return dtype, ctypes.CDLL(str(folder / "v.so"))


def evaluate(library: Library, name: str, *x: Values) -> Values:
    z = np.empty_like(x[0])
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x[0], x[-1], z)]
    getattr(library[1], f"run_{name}")(*pointers, len(z))
    return z


def points(dtype: types.DType, n: int) -> Values:
    """All exponents, and more where functions are interesting."""
    rng = np.random.default_rng(0)
    every = rng.integers(0, 1 << 64, n, dtype=np.uint64).view(dtype.numpy)[:n]
    near = rng.uniform(-2, 2, n)
    middle = rng.normal(size=n) * 10
    far = 10 ** rng.uniform(-6, 5, n) * rng.choice([-1, 1], n)
    return np.concatenate([every, near.astype(dtype.numpy), middle.astype(dtype.numpy), far.astype(dtype.numpy)])


def operands(name: str, dtype: types.DType) -> tuple[Values, ...]:
    x = points(dtype, 1 << 12)
    if name == "floor_divide":
        return x, np.full_like(x, 0.375)
    if name == "copysign":
        return x, x[::-1].copy()
    if name != "power":
        return (x,)
    x = np.abs(x)
    x[1::4] = 1 + np.linspace(-1e-3, 1e-3, len(x) // 4)  # where the logarithm must be right to many places
    limit = 85 if dtype.name == "f32" else 700
    wanted = np.random.default_rng(1).uniform(-limit, limit, len(x))
    with np.errstate(all="ignore"):
        return x, (wanted / np.log(x.astype(np.longdouble))).astype(dtype.numpy)


@pytest.mark.parametrize("name", VECTOR_FUNCTIONS)
def test_error_in_units_of_the_last_place(library: Library, name: str) -> None:
    dtype, _ = library
    exact, allowed = FUNCTIONS[name]
    x = operands(name, dtype)
    with np.errstate(all="ignore"):
        found = evaluate(library, name, *x).astype(np.longdouble)
        wide = np.float64 if dtype.name == "f32" and name != "power" else np.longdouble
        expected = exact(*(x if name == "floor_divide" else (a.astype(wide) for a in x)))
        rounded = expected.astype(dtype.numpy)
        error = np.abs(found - expected) / np.spacing(np.abs(rounded))
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    bad = ~same & ~(error <= allowed)
    assert not bad.any(), (name, [(a[bad][:3]) for a in x], found[bad][:3], expected[bad][:3], error[bad].max())


@pytest.mark.parametrize("name", VECTOR_FUNCTIONS)
def test_special_values(library: Library, name: str) -> None:
    dtype, _ = library
    exact, _ = FUNCTIONS[name]
    tiny, huge = (1e-40, 1e38) if dtype.name == "f32" else (1e-310, 1e300)
    odd = 2.0 ** (dtype.numpy.itemsize * 6) + 1
    some = [0.0, np.inf, np.nan, tiny, 1.0, 0.5, 2.5, 3.0, odd, 1.5 * odd, huge, 20000.0]
    x = np.array([*some, *(-v for v in some), *([1.0] * 8)], dtype.numpy)
    given: tuple[Values, ...] = (x,)
    if name in BINARY:
        given = np.repeat(x, len(x)), np.tile(x, len(x))
    with np.errstate(all="ignore"):
        if name == "floor_divide":
            expected = exact(*given)
        else:
            wide = np.float64 if name == "power" or dtype.name == "f32" else np.longdouble
            expected = exact(*(a.astype(wide) for a in given)).astype(dtype.numpy)
    found = evaluate(library, name, *given)
    smallest = np.finfo(dtype.numpy).smallest_subnormal
    np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype.numpy).eps, atol=2 * smallest)
    ordinary = ~np.isnan(expected) & (name != "sign")
    assert np.array_equal(np.signbit(found[ordinary]), np.signbit(expected[ordinary]))
