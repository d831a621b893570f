"""Running a program's C at every vector width, and as plain loops."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.codegen.target import Source
from pullback.ir.dims import evaluate
from pullback.ir.program import Program
from pullback.machine import of_width
from pullback.runtime.emit import emit_c
from tests.joined import compiled
from tests.strict import STRICT

Array = np.ndarray[Any, Any]
PORTABLE = ("-DPB_NO_VECTORS",)
# vector bytes, and what the compiler is told besides
WIDTHS: tuple[tuple[int, tuple[str, ...]], ...] = ((16, ()), (32, ()), (64, ()), (32, PORTABLE))


Run = tuple[Program, dict[str, int], Sequence[Array]]
"""A program, its dims and inputs."""


def run_at(
    program: Program, dims: dict[str, int], inputs: Sequence[Array], vector_bytes: int, flags: tuple[str, ...] = ()
) -> list[Array]:
    """The outputs of the program's C with vectors of so many bytes."""
    return run_all_at([(program, dims, inputs)], vector_bytes, flags)[0]


def run_all_at(runs: Sequence[Run], vector_bytes: int, flags: tuple[str, ...] = ()) -> list[list[Array]]:
    """The outputs of each program's C with vectors of so many bytes, compiled together."""
    sources = [emit_c(program, dims, machine=of_width(vector_bytes)) for program, dims, _ in runs]
    functions = compiled([(s.text, s.name) for s in sources], (*STRICT, "-D_GNU_SOURCE", *flags))
    return [_called(f, s, *run) for f, s, run in zip(functions, sources, runs, strict=True)]


def _called(function: Any, source: Source, program: Program, dims: dict[str, int], inputs: Sequence[Array]
            ) -> list[Array]:
    outputs = [np.full([evaluate(d, dims) for d in r.shape], 77, r.dtype.numpy) for r in program.outputs]
    arena = np.full(source.arena_bytes + 64, 0xFF, np.uint8)
    aligned = arena.ctypes.data + -arena.ctypes.data % 64
    given = [np.ascontiguousarray(a, r.dtype.numpy) for a, r in zip(inputs, program.inputs, strict=True)]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*given, *outputs)]
    fault = [ctypes.c_void_p(0)] if source.sites else []
    code = function(*pointers, ctypes.c_void_p(aligned), *fault)
    assert code == 0, f"range check {code} failed"
    return outputs
