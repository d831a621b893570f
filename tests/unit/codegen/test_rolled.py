"""C to read: loops over registers and shared functions compute what the statements written out do, bit by bit."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32

import pullback as pb
from pullback import Array
from pullback.codegen.c.vectors.shared import shared
from pullback.codegen.target import Target
from pullback.codegen.targets import C_TO_READ, C
from pullback.runtime.compile import compiler_command
from pullback.runtime.export import library

needs_compiler = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")


@pb.function
def product(x: Float32[Array, "M K"], y: Float32[Array, "K N"]) -> Any:
    return x @ y


@pb.function
def turned(x: Float32[Array, "M K"], y: Float32[Array, "N K"]) -> Any:
    return pb.matrix_transpose(x @ pb.matrix_transpose(y))


@pb.function
def pooled(x: Float32[Array, "N 20 20"], w: Float32[Array, "3 3"]) -> Any:
    n = x.shape[0]
    y = pb.build((n, 18, 18), lambda k, i, j: pb.sum_over((3, 3), lambda u, v: w[u, v] * x[k, i + u, j + v]))
    return pb.build((n, 9, 9), lambda k, i, j: pb.max_over((2, 2), lambda u, v: y[k, 2 * i + u, 2 * j + v]))


@pb.function
def column_sums(x: Float32[Array, "M K"]) -> Any:
    return pb.sum(x, axis=0), pb.max(x, axis=1), pb.exp(x)


PROGRAMS: dict[str, tuple[Any, dict[str, int]]] = {
    "product": (product, {"M": 43, "K": 150, "N": 45}),
    "turned": (turned, {"M": 45, "K": 70, "N": 30}),
    "pooled": (pooled, {"N": 5}),
    "column_sums": (column_sums, {"M": 37, "K": 43}),
}


def results(f: Any, dims: dict[str, int], target: Target, folder: Path) -> list[bytes]:
    """The results of the exported function, compiled by the compiler of calls."""
    program, found = f.for_dims(dims)
    made = library(program, found, target=target)
    folder.mkdir()
    for name, text in made.files.items():
        (folder / name).write_text(text)
    command = compiler_command()
    assert command
    flags = ("-std=gnu99", "-O2", "-march=native", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-fPIC", "-shared")
    source, file = folder / f"{made.name}.c", folder / "library.so"
    subprocess.run([*command, *flags, str(source), "-o", str(file), "-lm"], check=True)
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(a.shape).astype(np.float32) for a in made.arrays]
    arena = np.zeros(made.source.arena_bytes + 64, np.uint8)
    start = arena.ctypes.data + -arena.ctypes.data % 64
    addresses = (*(a.ctypes.data for a in arrays), start)
    assert ctypes.CDLL(str(file))[made.name](*map(ctypes.c_void_p, addresses)) == 0
    return [a.tobytes() for a, passed in zip(arrays, made.arrays, strict=True) if passed.out]


@needs_compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_exports_have_the_bits_of_statements_written_out(name: str, tmp_path: Path) -> None:
    f, dims = PROGRAMS[name]
    rolled, written = (results(f, dims, t, tmp_path / str(k)) for k, t in enumerate((C_TO_READ, C)))
    assert rolled == written


def text(f: Any, dims: dict[str, int]) -> str:
    program, found = f.for_dims(dims)
    return library(program, found, target=C_TO_READ).text


def test_a_tile_is_a_loop_over_registers() -> None:
    found = text(*PROGRAMS["product"])
    assert re.search(r"PB_EACH\(s, 3\) \w+\[r \* 3 \+ s\] \+= \w+ \* \w+\[s\];", found)
    assert "c3_1" not in found


def test_squares_of_registers_are_transposed_by_one_function() -> None:
    found = text(*PROGRAMS["turned"])
    assert found.count("void pb_transpose_f32x8(") == 1 and "pb_transpose_f32x8(r0" in found


def test_elements_at_equal_distances_are_loaded_by_one_function() -> None:
    assert re.search(r"= pb_spread_f32x8\(y \+ .*, 2\);", text(*PROGRAMS["pooled"]))


ONE = """\
/* of five */
static void f_of_5(const float *restrict a, float *restrict b) {
    float r[5];
    for (int64_t k = 0; k < 40; ++k) {
        PB_EACH(r, 5) b[k * 5 + r] = a[k * 5 + r] + 1.0f;
        b[k] += 1.0f;
        b[k + 1] += 1.0f;
        b[k + 2] += 1.0f;
        b[k + 3] += 1.0f;
        b[k + 4] += 1.0f;
    }
}
"""


def test_functions_that_differ_in_numbers_share_one() -> None:
    """The length of an array is the largest; a number of the text of both stays."""
    two = ONE.replace("5", "7").replace("five", "seven")
    made = shared({"f_of_5": ONE, "f_of_7": two}, dict.fromkeys(("f_of_5", "f_of_7"), "the same but for numbers"))
    assert list(made) == ["f_of_any", "f_of_5", "f_of_7"]
    assert "float r[7];" in made["f_of_any"] and "k < 40" in made["f_of_any"] and "PB_EACH(r, n1)" in made["f_of_any"]
    assert made["f_of_7"].splitlines()[-2:] == ["    f_of_any(a, b, 7);", "}"] and "seven" in made["f_of_7"]


def test_functions_that_differ_in_places_of_lanes_share_none() -> None:
    one = ONE.replace("a[k * 5 + r] + 1.0f", "PB_SHUFFLE_i32x4(a, b, 0, 4, 2, 6)")
    two = one.replace("0, 4, 2, 6", "1, 5, 3, 7").replace("f_of_5", "f_of_7")
    kernels = {"f_of_5": one, "f_of_7": two}
    assert shared(kernels, dict.fromkeys(kernels, "the same but for numbers")) == kernels
