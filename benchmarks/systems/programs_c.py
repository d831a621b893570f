"""Whole programs by hand-written C: plain loops, compiled as a C programmer would for speed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.runtime.compile import compiled_library

if TYPE_CHECKING:
    from benchmarks.program_cases import ProgramCase

__all__ = ["FORMS", "prepare"]

FORMS = dict.fromkeys(("log-sum-exp", "max-pool", "mixture"), ("plain loops, -O3, fast mathematics",))
# -ffast-math itself would switch subnormal numbers off in the whole process
FAST = ("-O3", "-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-ffinite-math-only", "-D__FAST_MATH__")


def _sizes(case: ProgramCase) -> dict[str, int]:
    shapes = [a.shape for a in case.make()]
    if case.name == "log-sum-exp":
        return {"N": shapes[0][0]}
    if case.name == "max-pool":
        *lead, h, w = shapes[0]
        return {"P": int(np.prod(lead)), "H": h, "W": w}
    return {"N": shapes[3][0], "K": shapes[1][0], "D": shapes[1][1]}


def prepare(case: ProgramCase, form: str) -> Callable[[], Any]:
    """A call of the reference for a case, compiled for its sizes."""
    sizes, arrays = _sizes(case), case.make()
    head = "".join(f"#define {name} {n}\n" for name, n in sizes.items())
    text = files("benchmarks").joinpath("reference", "programs.c").read_text(encoding="utf-8")
    body = _function_text(text, case.name.replace("-", "_"))
    path = compiled_library(f"{head}{body}", FAST)
    function = getattr(ctypes.CDLL(str(path)), case.name.replace("-", "_"))
    value = np.zeros(case.make()[1].shape if case.name == "max-pool" else (), np.float32)
    gradients = [np.zeros_like(a) for a in arrays[: case.parameters]]
    work = np.zeros(2 * sizes.get("K", 0) + 4 * sizes.get("K", 0) * sizes.get("D", 0) + 1, np.float32)
    held = (*arrays, value, *gradients, work)
    addresses = [ctypes.c_void_p(a.ctypes.data) for a in held]

    def call() -> Any:
        function(*addresses)
        return held[len(arrays) : -1]

    return call


def _function_text(text: str, name: str) -> str:
    """The includes and one function of the reference: the others want other sizes."""
    head, *functions = text.split("\n/* ")
    return head + "\n/* " + next(f for f in functions if f"int {name}(" in f)
