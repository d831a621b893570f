"""Running a program's C at every vector width, and as plain loops."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.ir.dims import evaluate
from pullback.ir.program import Program
from pullback.machine import of_width
from pullback.runtime.compile import compiled_library
from pullback.runtime.emit import emit_c
from tests.strict import STRICT

Array = np.ndarray[Any, Any]
PORTABLE = ("-DPB_NO_VECTORS",)
# vector bytes, and what the compiler is told besides
WIDTHS: tuple[tuple[int, tuple[str, ...]], ...] = ((16, ()), (32, ()), (64, ()), (32, PORTABLE))


def run_at(
    program: Program, dims: dict[str, int], inputs: Sequence[Array], vector_bytes: int, flags: tuple[str, ...] = ()
) -> list[Array]:
    """The outputs of the program's C with vectors of so many bytes."""
    source = emit_c(program, dims, machine=of_width(vector_bytes))
    function = getattr(ctypes.CDLL(str(compiled_library(source.text, (*STRICT, "-D_GNU_SOURCE", *flags)))), source.name)
    outputs = [np.full([evaluate(d, dims) for d in r.shape], 77, r.dtype.numpy) for r in program.outputs]
    arena = np.full(source.arena_bytes + 64, 0xFF, np.uint8)
    aligned = arena.ctypes.data + -arena.ctypes.data % 64
    given = [np.ascontiguousarray(a, r.dtype.numpy) for a, r in zip(inputs, program.inputs, strict=True)]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*given, *outputs)]
    fault = [ctypes.c_void_p(0)] if source.sites else []
    code = function(*pointers, ctypes.c_void_p(aligned), *fault)
    assert code == 0, f"range check {code} failed"
    return outputs
