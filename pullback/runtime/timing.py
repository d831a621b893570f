"""Timing of compiled code: interleaved calls on the same arrays, and single kernels.

A loop in C makes the calls, because many take less time than a call from Python.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pullback.codegen.target import Printing
from pullback.codegen.targets import C
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Var
from pullback.ir.program import Program
from pullback.ir.types import dtype_named
from pullback.loops.memory.plan import plan
from pullback.loops.plain.lower import lower
from pullback.loops.program.nodes import Call, For, Function, Kernel, Stmt
from pullback.loops.program.values import View
from pullback.loops.strategies.table import chooser
from pullback.machine import Machine, native
from pullback.runtime.buffer import address, aligned_bytes
from pullback.runtime.load import Entry, loaded
from pullback.runtime.record import Parameter, Record

__all__ = ["Called", "arguments", "in_turns", "kernel_seconds", "on_processor"]

SLICE: Final = 2e-4  # seconds of a measurement, long enough for the clock's resolution


class Called:
    """A compiled function as a call without arguments, with fixed inputs and its own result arrays."""

    def __init__(self, record: Record, inputs: Sequence[NDArray[Any]]) -> None:
        self.outputs = [_aligned(p) for p in record.outputs]
        arrays = [*inputs, *self.outputs, aligned_bytes(max(record.arena_bytes, 64))]
        arrays += [np.zeros(2, np.int64)] * bool(record.sites)
        pointers = [address(a) for a in arrays] + [0] * record.threaded
        self.kept = [*arrays, np.array(pointers, np.uintp)]
        names = ", ".join(f"a[{k}]" for k in range(record.arity))
        types = ", ".join(["void *"] * record.arity)
        text = (
            f"{record.units[0]}\nint repeated(int64_t count, void **a) {{\n"
            f"    int (*volatile call)({types}) = (int (*)({types})){record.name};\n"
            f"    int status = 0;\n    for (int64_t n = 0; n < count; ++n) status = call({names});\n"
            "    return status;\n}\n"
        )
        self.entry: Entry = loaded(text, record.flags).entry("repeated", 2)
        self.calls = 1

    @property
    def status(self) -> int:
        """The status of a call: 0, or that an argument is out of range."""
        return self.entry(1, address(self.kept[-1]))

    def seconds(self) -> float:
        """The seconds of one call, averaged over enough calls for the clock's resolution."""
        start = time.perf_counter()
        self.entry(self.calls, address(self.kept[-1]))
        return (time.perf_counter() - start) / self.calls


def _aligned(p: Parameter) -> NDArray[Any]:
    dtype = dtype_named(p.dtype).numpy
    size = math.prod(p.shape) * dtype.itemsize
    return aligned_bytes(max(size, 64))[:size].view(dtype).reshape(p.shape)


def arguments(record: Record, integers: int = 2) -> list[NDArray[Any]]:
    """Make reproducible arguments: floating-point numbers around 1, integers from 0 on, below `integers`."""
    rng, out = np.random.default_rng(0), []
    for p in record.inputs:
        a = _aligned(p)
        a[...] = rng.uniform(0.5, 1.5, p.shape) if a.dtype.kind == "f" else rng.integers(0, integers, p.shape)
        out.append(a)
    return out


def in_turns(called: Sequence[Called], budget: float = 1.0, rounds: int = 300) -> list[float]:
    """The minimal time of each function, measured in interleaved calls for `budget` seconds."""
    once = min(max(c.seconds() for c in called) for _ in range(2))  # the first call warms up
    for c in called:
        c.calls = max(1, min(1 << 16, int(SLICE / max(once, 1e-9))))
    best = [math.inf] * len(called)
    end = time.perf_counter() + budget
    for turn in range(rounds):
        if turn >= 3 and time.perf_counter() > end:
            break
        for k in range(len(called)):
            n = (k + turn) % len(called)
            best[n] = min(best[n], called[n].seconds())
    return best


def on_processor(program: Program, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """The results of an optimized program in C for this processor."""
    machine = native()
    function = replace(lower(program, None, chooser(machine)), machine=machine)
    source = C.source(function, plan(function), Printing("canonical", comments=False))
    called = Called(replace(Record.of(function, source), units=(source.text,), straight=False), inputs)
    called.seconds()
    return called.outputs


def kernel_seconds(kernel: Kernel, machine: Machine, budget: float = 0.05) -> float:
    """The time of a single kernel on cached arrays, with outer loop variables set to zero."""
    spaces = {b: "arena" if b in kernel.scratch else "output" if b.written else "input" for b in kernel.params}
    buffers = {b: replace(b, space=space) for b, space in spaces.items()}  # type: ignore[arg-type]
    inputs, outputs = (tuple(buffers[b] for b, own in spaces.items() if own == side) for side in ("input", "output"))
    body: Stmt = Call(kernel, tuple(View(b) for b in buffers.values()))
    for v in kernel.indices:
        assert isinstance(v, Var), "of given sizes"
        body = For(v, ZERO_INDEX, ONE_INDEX, (body,))
    function = Function("alone", inputs, outputs, (body,), machine=machine)
    source = C.source(function, plan(function), Printing("canonical", comments=False))
    record = replace(Record.of(function, source), units=(source.text,), straight=False)
    return in_turns([Called(record, arguments(record))], budget)[0]
