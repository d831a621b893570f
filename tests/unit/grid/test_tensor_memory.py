"""The text of `tcgen05` in C++: its descriptors name the elements of panels, and its barriers never wait for ever.

The instructions are read as the manual of PTX describes them (ISA 8.7, sections "Matrix descriptor", "Instruction
descriptor" and "Data path layout"); no device of this kind has run them.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from typing import Any

import numpy as np
import pytest

from pullback.codegen.device.tensor import TENSOR
from pullback.ir.halves import from_half, to_half
from pullback.ir.types import dtype_named

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("g++"), reason="no g++")]

# Instructions as the manual has them: shared memory of 64 KiB, 512 columns of 128 lanes, barriers with phases.
INSTRUCTIONS = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define __device__
#define __forceinline__ inline
#define __shared__
#define require(x) if (!(x)) fault = __LINE__
static int fault, own;
static unsigned char shared[1 << 18];
static float lanes[128][512];
struct pb_memory { uint64_t done[2]; unsigned place; };
static unsigned pb_shared(const void *x) { return (unsigned)((const unsigned char *)x - shared); }
template <int columns> static void pb_reserve(pb_memory &m, int thread) {
    require(columns >= 32 && columns <= 512 && (columns & columns - 1) == 0);
    if (thread == 0) m.place = 256, m.done[0] = m.done[1] = 0; /* the phases that are completed */
}
template <int columns> static void pb_release(pb_memory &m, int) { require(m.place == 256); }
static void pb_commit(uint64_t *done) { ++*done; }
static void pb_await(uint64_t *done, int parity) { require(parity < 2 && (int)(*done & 1) != parity); }
static unsigned field(uint64_t x, int low, int bits) { return x >> low & (1ull << bits) - 1; }
/* An element of a matrix: k-major lines run along the terms, the others along rows (or columns). */
static float element(uint64_t matrix, bool across, unsigned type, int i, int k) {
    const unsigned start = field(matrix, 0, 14) << 4, leading = field(matrix, 16, 14) << 4;
    const unsigned stride = field(matrix, 32, 14) << 4;
    require(field(matrix, 46, 3) == 1 && field(matrix, 49, 12) == 0 && field(matrix, 61, 3) == 2);
    unsigned at = start + (across ? i / 64 * leading + k / 8 * stride + k % 8 * 128 + i % 64 * 2
                                  : i / 8 * stride + i % 8 * 128 + k * 2);
    at ^= (at >> 7 & 7) << 4; /* 128-byte swizzle */
    uint16_t bits;
    memcpy(&bits, shared + at, 2);
    if (type == 0) {
        _Float16 half;
        return memcpy(&half, &bits, 2), half;
    }
    require(type == 1);
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    return memcpy(&x, &wide, 4), x;
}
static void pb_product(unsigned to, uint64_t a, uint64_t b, unsigned form, int adds) {
    const int rows = field(form, 24, 5) << 4, columns = field(form, 17, 6) << 3;
    require(field(form, 0, 4) == 0 && field(form, 4, 2) == 1 && field(form, 13, 2) == 0 && field(form, 29, 3) == 0);
    require(rows == 128 && columns % 16 == 0 && columns <= 256);
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) {
            float &sum = lanes[(to >> 16) + i][(to & 0xffff) + j];
            sum = adds ? sum : 0;
            for (int k = 0; k < 16; ++k)
                sum += element(a, field(form, 15, 1), field(form, 7, 3), i, k) *
                       element(b, field(form, 16, 1), field(form, 10, 3), j, k);
        }
}
static void pb_columns(float *sums, unsigned from) { /* a warp reaches 32 lanes: those of its number modulo 4 */
    require((from >> 16) == own / 32 % 4 * 32);
    for (int k = 0; k < 16; ++k) sums[k] = lanes[(from >> 16) + own % 32][(from & 0xffff) + k];
}
template <int count> static void pb_arrived(float *) {}
"""
CALL = """
extern "C" int run@n(const uint16_t *x, const uint16_t *y, float *z) {
    constexpr int threads = @threads, columns = @columns, panels = @panels, depth = 64;
    float none[1];
    fault = 0;
    for (int panel = 0; panel < panels; ++panel) {
        uint16_t *const left = (uint16_t *)shared + panel % 2 * 8192, *const right = left + 16384 + panel % 2 * 8192;
        for (int i = 0; i < 128; ++i) for (int k = 0; k < depth; ++k)
            left[pb_swizzled<2>(@left ? i * 64 + k : (i / 64 * depth + k) * 64 + i % 64)] =
                x[(panel * depth + k) * 128 + i];
        for (int i = 0; i < columns; ++i) for (int k = 0; k < depth; ++k)
            right[pb_swizzled<2>(@right ? i * 64 + k : (i / 64 * depth + k) * 64 + i % 64)] =
                y[(panel * depth + k) * columns + i];
        for (int thread = 0; thread < threads; ++thread)
            pb_multiply_128<@kind, columns, depth, @left, @right>(none, left, right, thread, panel);
    }
    for (own = 0; own < threads; ++own) {
        float sums[128];
        pb_finish_128<columns, panels>(sums, own);
        for (int k = 0; k < 128; ++k) z[own % 128 * columns + own / 128 * 128 + k] = sums[k];
    }
    return fault;
}
"""
WAYS = [(kind, left, right, columns, panels) for kind in ("PB_BF16", "PB_F16") for left in (1, 0) for right in (1, 0)
        for columns, panels in ((128, 1), (256, 7))]  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The functions of all ways."""
    folder = tmp_path_factory.mktemp("memory")
    calls = []
    for n, (kind, left, right, columns, panels) in enumerate(WAYS):
        text, words = CALL, {"n": n, "kind": kind, "left": left, "right": right, "columns": columns, "panels": panels,
                             "threads": columns}  # fmt: skip
        for word, value in words.items():
            text = text.replace(f"@{word}", str(value))
        calls.append(text)
    names = "PB_BF16", "pb_swizzled", "pb_panel", "pb_multiply_128", "pb_finish_128"
    (folder / "m.cpp").write_text("\n".join((INSTRUCTIONS, *(TENSOR[name] for name in names), *calls)))
    subprocess.run(
        ["g++", "-std=c++17", "-w", "-shared", "-fPIC", "-O1", "m.cpp", "-o", "m.so"], cwd=folder, check=True
    )
    return ctypes.CDLL(str(folder / "m.so"))


@pytest.mark.parametrize("way", range(len(WAYS)), ids=map(str, WAYS))
def test_descriptors(library: Any, way: int) -> None:
    """The sums that threads get are those of the product."""
    kind, _, _, columns, panels = WAYS[way]
    random = np.random.default_rng(way)
    dtype = dtype_named(kind[3:].lower())
    x, y = (to_half(random.integers(-8, 9, (64 * panels, n)).astype(np.float32), dtype) for n in (128, columns))
    z = np.zeros((128, columns), np.float32)
    places = [a.ctypes.data_as(ctypes.c_void_p) for a in (x, y, z)]
    assert library[f"run{way}"](*places) == 0
    np.testing.assert_array_equal(z, from_half(x, dtype).T @ from_half(y, dtype))
