"""Measured limits of one core and the memory, compared with the machine model.

Small C programs measure multiply-adds on registers, chains of multiply-adds, divisions, and sums over arrays of the
cache sizes. The best of many short runs counts. A cycle is the time of a dependent integer addition, so the clock rate
need not be known.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import numpy as np

from pullback.machine import Machine, native
from pullback.records import dataclass
from pullback.runtime.compile import compiled_library
from pullback.state import cached

__all__ = ["Limit", "bandwidth", "cycle", "limits", "peak"]

CHAINS: Final = 10  # independent sums: more than the latency of a multiply-add times two per cycle
STEPS: Final = 20_000
RUNS: Final = 200
LONG: Final = 0.2  # seconds for all runs, if single runs are long
READS: Final = 8  # independent sums of the read values
READ: Final = 1 << 20  # the least bytes that a run reads
COPIED: Final = 8 * 1024  # bytes, so that both copies fit in the first cache

CYCLES: Final = """\
#include <stdint.h>
void run(int64_t steps, int64_t *result) {
    int64_t s = *result, one = 1;
    for (int64_t k = 0; k < steps; ++k) {
        STEP
    }
    *result = s;
}
""".replace("STEP", "\n        ".join(['s += one; __asm__ volatile("" : "+r"(s), "+r"(one));'] * CHAINS))

SOURCE: Final = """\
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
READING: Final = """\
#include <stdint.h>
typedef float vector __attribute__((vector_size({bytes})));
void run(int64_t passes, const vector *x, int64_t count, float *result) {{
    vector {names};
    {start}
    for (int64_t pass = 0; pass < passes; ++pass) {{
        for (int64_t k = 0; k < count; k += {chains}) {{
            {step}
        }}
        __asm__ volatile("" : : "r"(x) : "memory");
    }}
    result[0] = ({total})[0];
}}
"""
COPYING: Final = """\
#include <stdint.h>
#include <string.h>
void run(int64_t steps, char *to, const char *from, int64_t bytes) {
    for (int64_t k = 0; k < steps; ++k) {
        memcpy(to, from, bytes);
        __asm__ volatile("" : : "r"(to) : "memory");
    }
}
"""


def _best(run: Callable[[], Any]) -> float:
    """The time of the fastest of many runs, in seconds."""
    best, begin = float("inf"), time.perf_counter()
    for k in range(RUNS):
        start = time.perf_counter()
        run()
        now = time.perf_counter()
        best = min(best, now - start)
        if k >= 5 and now - begin > LONG:
            break
    return best


def _compiled(text: str) -> Any:
    return ctypes.CDLL(str(compiled_library(text))).run


@cached(1)
def cycle() -> float:
    """The seconds of a clock cycle."""
    result = ctypes.c_int64()
    run = partial(_compiled(CYCLES), ctypes.c_int64(STEPS), ctypes.byref(result))
    return _best(run) / (STEPS * CHAINS)


def _step(dtype: str, step: str, chains: int = CHAINS) -> float:
    """The seconds of an operation on the widest vectors, in several independent chains."""
    width = native().vector_bytes or 16
    kind, size = ("float", 4) if dtype == "float32" else ("double", 8)
    names = [f"s{k}" for k in range(chains)]
    text = SOURCE.format(
        type=kind,
        bytes=width,
        lanes=width // size,
        names=", ".join(names),
        start=" ".join(f"{n} = y;" for n in names),
        step=" ".join(step.format(n) for n in names),
        held=", ".join(f'"+x"({n})' for n in names),
        total=" + ".join(names),
    )
    result = (ctypes.c_double * 8)()
    return _best(partial(_compiled(text), ctypes.c_int64(STEPS), ctypes.byref(result))) / (STEPS * chains)


MULTIPLY_ADD: Final = "{0} = {0} * x + y;"


@cached(16)
def peak(dtype: str) -> float:
    """The float32 or float64 operations per second of one core, the best of many short runs."""
    size = 4 if dtype == "float32" else 8
    return 2 * ((native().vector_bytes or 16) // size) / _step(dtype, MULTIPLY_ADD)


@cached(16)
def bandwidth(size: int) -> float:
    """The bytes per second that one core reads repeatedly from an array of `size` bytes; best of many."""
    width, names = native().vector_bytes or 16, [f"s{k}" for k in range(READS)]
    text = READING.format(
        bytes=width,
        chains=READS,
        names=", ".join(names),
        start=" ".join(f"{n} = (vector){{0}};" for n in names),
        step=" ".join(f"{n} += x[k + {k}];" for k, n in enumerate(names)),
        total=" + ".join(names),
    )
    count = max(1, size // (width * READS)) * READS
    passes = max(1, READ // (count * width))
    data = np.zeros(count * width + 64, np.uint8)
    place = ctypes.c_void_p(data.ctypes.data + -data.ctypes.data % 64)
    result = ctypes.c_float()
    run = partial(_compiled(text), ctypes.c_int64(passes), place, ctypes.c_int64(count), ctypes.byref(result))
    return passes * count * width / _best(run)


def _copied() -> float:
    """The bytes copied per second within the L1 cache."""
    to, source = (np.zeros(COPIED, np.uint8) for _ in range(2))
    places = (ctypes.c_void_p(a.ctypes.data) for a in (to, source))
    return COPIED * 100 / _best(partial(_compiled(COPYING), ctypes.c_int64(100), *places, ctypes.c_int64(COPIED)))


@dataclass(frozen=True)
class Limit:
    """A measured quantity: the model's value and the measured value in the same unit."""

    name: str
    unit: str
    assumed: float
    measured: float

    @property
    def ratio(self) -> float:
        """The measured value divided by the model's."""
        return self.measured / self.assumed

    def row(self) -> dict[str, Any]:
        """The limit as JSON."""
        return asdict(self)


def limits(machine: Machine) -> Iterator[Limit]:
    """Measure this processor and compare it with the machine model; this takes some seconds.

    Raises:
        CompilerError: [E410] there is no compiler.
    """
    tick = cycle()
    vector = machine.vector_bytes or 16
    for dtype, size in (("float32", 4), ("float64", 8)):
        rate = 2 * vector // size * machine.ports / machine.operation(vector)
        yield Limit(f"peak, {dtype}", "operations a cycle", rate, peak(dtype) * tick)
    yield Limit("multiply-add", "cycles", machine.latency, _step("float32", MULTIPLY_ADD, 1) / tick)
    yield Limit("division, float32", "cycles", machine.division, _step("float32", "{0} = y / {0};") / tick)
    first, second, third = machine.caches
    reads = [tick * bandwidth(size) for size in (first // 2, second // 2, third // 2, 4 * third)]
    yield Limit("read from the first cache", "bytes a cycle", vector * machine.ports, reads[0])
    for name, wait, rate in zip(("second", "third"), machine.waits, reads[1:3], strict=True):
        assumed = 1 / (1 / (vector * machine.ports) + wait / machine.line)
        yield Limit(f"read from the {name} cache", "bytes a cycle", assumed, rate)
    yield Limit("read from memory", "bytes a cycle", machine.fetched, reads[3])
    yield Limit("copy in the first cache", "bytes a cycle", machine.copied, tick * _copied())
