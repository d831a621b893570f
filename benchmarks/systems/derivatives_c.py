"""Derivatives by hand-written vector C, compiled and called like compiled functions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.runtime.compile import compiled_library
from pullback.runtime.entry import fast_entry
from pullback.runtime.record import Parameter
from pullback.runtime.shim import extension

if TYPE_CHECKING:
    from benchmarks.derivatives import DerivativeCase

__all__ = ["FORMS", "entry", "prepare"]

NAMES = {
    "dot": ("dot", 1), "max": ("max", 1), "plus": ("plus", 1), "scale": ("scale", 1), "lse": ("lse", 1),
    "nnmf": ("nnmf", 1), "nnmf-10": ("nnmf_rank", 10), "nnmf-50": ("nnmf_rank", 50),
    "project": ("project", 1), "blocks": ("blocks", 1),
}  # fmt: skip
FORMS = dict.fromkeys(NAMES, ("hand-written vectors",))


def entry(
    path: Any, name: str, inputs: tuple[Any, ...], outputs: tuple[tuple[int, ...], ...], arena_bytes: int
) -> Callable[..., Any]:
    """A C function of a library as a callable on float64 arrays, with as little between as for our own.

    Raises:
        ImportError: there is no Python.h.
    """
    if extension() is None:
        raise ImportError("C functions cannot be called without Python.h")
    function = getattr(ctypes.CDLL(str(path)), name)
    form = 0 if len(outputs) == 1 else (0,) * len(outputs)
    slots = [Parameter(f"x{k}", "f64", shape) for k, shape in enumerate((*(x.shape for x in inputs), *outputs))]
    made = fast_entry(function, slots[: len(inputs)], slots[len(inputs) :], form, arena_bytes, None)
    assert made is not None
    return made


def call(
    function: Callable[..., Any], inputs: tuple[Any, ...], outputs: tuple[tuple[int, ...], ...]
) -> Callable[[], Any]:
    """The function on these inputs, writing into the same arrays each time."""
    made = tuple(np.empty(shape) for shape in outputs)
    out = made[0] if len(made) == 1 else made
    return lambda: function(*inputs, out=out)


def prepare(case: DerivativeCase, n: int, form: str) -> Callable[[], Any]:
    """A call of the reference for a case, compiled for its size."""
    name, rank = NAMES[case.name]
    text = files("benchmarks").joinpath("reference", "derivatives.c").read_text(encoding="utf-8")
    path = compiled_library(f"#define N {n}\n#define K {rank}\n{text}")
    inputs, outputs = case.make(n), case.outputs(n)
    return call(entry(path, name, inputs, outputs, 8 * max(n, 1024)), inputs, outputs)
