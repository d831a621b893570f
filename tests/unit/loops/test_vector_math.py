"""The vector functions against NumPy in wider precision: error in units of the last place, and special values."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback.ir import types
from pullback.loops.vector_math import VECTOR_FUNCTIONS, vector_source
from pullback.runtime.compile import find_compiler

LANES = {"f32": 8, "f64": 4}
ULPS = {"exp": 1.1, "log": 1.0, "logistic": 1.5, "tanh": 1.5}
EXACT: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "log": np.log,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


def source(dtype: types.DType) -> str:
    """One C file with a loop for each function."""
    n, t = LANES[dtype.name], dtype.name
    i = "i32" if t == "f32" else "i64"
    v, m = f"pb_{t}x{n}", f"pb_{i}x{n}"
    text = (
        "#include <stdint.h>\n"
        f"typedef {dtype.c} {v} __attribute__((vector_size(32)));\n"
        f"typedef {dtype.c} {v}u __attribute__((vector_size(32), aligned({dtype.size}), may_alias));\n"
        f"typedef int{dtype.bits}_t {m} __attribute__((vector_size(32)));\n"
        f"static inline {v} pb_choose_{t}x{n}({m} mask, {v} a, {v} b) {{\n"
        f"    return ({v})((mask & ({m})a) | (~mask & ({m})b));\n}}\n"
    )
    done: set[str] = set()
    for name in VECTOR_FUNCTIONS:
        for function, definition in vector_source(name, dtype, n):
            text += "" if function in done else definition
            done.add(function)
        text += (
            f"void run_{name}(const {dtype.c} *x, {dtype.c} *y, int n) {{\n"
            f"    for (int k = 0; k < n; k += {n}) *({v}u *)(y + k) = pb_{name}_{t}x{n}(*(const {v}u *)(x + k));\n}}\n"
        )
    return text


@pytest.fixture(scope="module", params=["f32", "f64"])
def library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[types.DType, ctypes.CDLL]:
    dtype = types.dtype_named(request.param)
    folder: Path = tmp_path_factory.mktemp("vectors")
    (folder / "v.c").write_text(source(dtype))
    compiler = find_compiler()
    subprocess.run(
        [*compiler.command, *compiler.flags, "-Werror", str(folder / "v.c"), "-o", str(folder / "v.so"), "-lm"],
        check=True,
    )
    return dtype, ctypes.CDLL(str(folder / "v.so"))


def evaluate(library: tuple[types.DType, ctypes.CDLL], name: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    y = np.empty_like(x)
    getattr(library[1], f"run_{name}")(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), len(x))
    return y


@pytest.mark.parametrize("name", VECTOR_FUNCTIONS)
def test_error_in_units_of_the_last_place(library: tuple[types.DType, ctypes.CDLL], name: str) -> None:
    dtype, _ = library
    rng = np.random.default_rng(0)
    wide = np.float64 if dtype.name == "f32" else np.longdouble
    limit = 85 if dtype.name == "f32" else 700
    x = rng.uniform(-limit, limit, 1 << 16)
    x[::2] = rng.uniform(-2, 2, 1 << 15)
    if name == "log":
        x = np.exp(x)
    x = x.astype(dtype.numpy)
    expected = EXACT[name](x.astype(wide))
    spacing = np.spacing(np.abs(expected).astype(dtype.numpy)).astype(wide)
    error = np.abs(evaluate(library, name, x).astype(wide) - expected) / spacing
    assert float(error.max()) <= ULPS[name]


@pytest.mark.parametrize("name", VECTOR_FUNCTIONS)
def test_special_values(library: tuple[types.DType, ctypes.CDLL], name: str) -> None:
    dtype, _ = library
    tiny = 1e-40 if dtype.name == "f32" else 1e-310
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, tiny, 1.0, -1.0], dtype.numpy)
    with np.errstate(all="ignore"):
        expected = EXACT[name](x.astype(np.longdouble)).astype(dtype.numpy)
    found = evaluate(library, name, x)
    np.testing.assert_allclose(found, expected, rtol=1e-5 if name == "tanh" else 1e-6)
    assert np.array_equal(np.signbit(found[:2]), np.signbit(expected[:2]))
