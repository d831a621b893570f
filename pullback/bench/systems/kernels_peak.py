"""What one core and the memory can do: fused multiply-adds on registers alone, and a sum over memory."""

from __future__ import annotations

import ctypes
import time
from functools import lru_cache

import numpy as np

from pullback.machine import native
from pullback.runtime.compile import compiled_library

__all__ = ["bandwidth", "peak"]

SOURCE = """\
#include <stdint.h>
typedef {type} vector __attribute__((vector_size({bytes})));
void run(int64_t steps, {type} *result) {{
    vector {names};
    vector x = ((vector){{0}}) + ({type})0.999, y = ((vector){{0}}) + ({type})0.001;
    {start}
    for (int64_t k = 0; k < steps; ++k) {{
        {step}
        __asm__ volatile("" : {held});
    }}
    vector total = {total};
    for (int k = 0; k < {lanes}; ++k) result[k] = total[k];
}}
"""
CHAINS = 10  # independent sums: more than the latency of a multiply-add times two a cycle
STEPS = 100_000


@lru_cache
def peak(dtype: str) -> float:
    """Operations a second of one core for float32 or float64, the best of many short runs."""
    width = native().vector_bytes
    kind, size = ("float", 4) if dtype == "float32" else ("double", 8)
    names = [f"s{k}" for k in range(CHAINS)]
    text = SOURCE.format(
        type=kind,
        bytes=width,
        lanes=width // size,
        names=", ".join(names),
        start=" ".join(f"{n} = y;" for n in names),
        step=" ".join(f"{n} = {n} * x + y;" for n in names),
        held=", ".join(f'"+x"({n})' for n in names),
        total=" + ".join(names),
    )
    run = ctypes.CDLL(str(compiled_library(text))).run
    result = (ctypes.c_double * 8)()
    best = float("inf")
    for _ in range(200):
        start = time.perf_counter()
        run(ctypes.c_int64(STEPS), ctypes.byref(result))
        best = min(best, time.perf_counter() - start)
    return STEPS * CHAINS * 2 * (width // size) / best


READING = """\
#include <stdint.h>
typedef float vector __attribute__((vector_size({bytes})));
void run(const vector *x, int64_t count, float *result) {{
    vector a = {{0}}, b = a, c = a, d = a;
    for (int64_t k = 0; k < count; k += 4) a += x[k], b += x[k + 1], c += x[k + 2], d += x[k + 3];
    result[0] = ((a + b) + (c + d))[0];
}}
"""


@lru_cache
def bandwidth(size: int) -> float:
    """Bytes a second that one core reads from an array of `size` bytes, again and again; the best of many runs."""
    width = native().vector_bytes
    count = max(4, size // width // 4 * 4)
    data = np.zeros(count * width + 64, np.uint8)
    start_at = data.ctypes.data + -data.ctypes.data % 64
    run = ctypes.CDLL(str(compiled_library(READING.format(bytes=width)))).run
    result = ctypes.c_float()
    best = float("inf")
    for _ in range(50):
        start = time.perf_counter()
        run(ctypes.c_void_p(start_at), ctypes.c_int64(count), ctypes.byref(result))
        best = min(best, time.perf_counter() - start)
    return count * width / best
