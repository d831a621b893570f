"""The node tests of the package onnx, run in the interpreter. `python -m tests.unit.onnx.nodes` runs all and counts.

A test is passed, refused with an error, wrong, or out of reach: what it takes or gives is no array of numbers of a type
that arrays here have.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from pullback.errors import DataError, PullbackError
from pullback.onnx import load
from pullback.onnx.operators.common import DTYPES, NARROW

PRECISION = {"float16": 2e-3, "bfloat16": 1.6e-2}
HELD = {name: DTYPES[code] for code, name in NARROW.items()}
REACHED = ("biuf", "bfloat16")  # kinds of element types


def cases_of(modules: Iterable[str]) -> list[Any]:
    """The test cases of some operators, by the names of onnx's modules."""
    node = importlib.import_module("onnx.backend.test.case.node")
    before = len(node._NodeTestCases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in modules:  # whose classes run when they are made
            importlib.import_module(f"onnx.backend.test.case.node.{name}")
    return list(node._NodeTestCases[before:])


def outcome(case: Any) -> str:
    """What became of a test."""
    inputs = [i.name for i in case.model.graph.input]
    for given, wanted in case.data_sets:
        given, wanted = [list(map(_array, group)) for group in (given, wanted)]
        if any(a is None for a in (*given, *wanted)):
            return "out of reach"
        try:
            found = _results(case.model, dict(zip(inputs, given, strict=True)))
        except PullbackError as error:
            types = ("is no array of numbers", "which arrays here do not have")
            return "out of reach" if any(t in error.what for t in types) else f"refused: {error.what}"
        for ours, theirs in zip(found, wanted, strict=True):
            if wrong := _difference(np.asarray(ours), theirs, case.rtol, case.atol):
                return f"wrong: {wrong}"
    return "passed"


def _array(value: Any) -> Any:
    if type(value).__name__ == "TensorProto":
        from onnx import numpy_helper

        value = numpy_helper.to_array(value)
    if isinstance(value, list | dict | type(None)):
        return None
    array = np.asarray(value)
    if array.dtype.name in HELD:  # arrays here hold narrow types in wider ones
        return array.astype(HELD[array.dtype.name])
    return array if array.dtype.kind in REACHED[0] or array.dtype.name == REACHED[1] else None


def _results(model: Any, given: dict[str, Any]) -> tuple[Any, ...]:
    """The results, with inputs that shapes follow from as constants."""
    known: dict[str, Any] = {}
    while True:
        try:
            f, parameters = load(model, known=known)
            found = f.interpret(parameters, *(a for n, a in given.items() if n not in known))
            return found if isinstance(found, tuple) else (found,)
        except DataError as error:
            names = error.what.rpartition("the argument ")[2].split(", ")
            if error.code != "E523" or not set(names) <= given.keys() - known.keys():
                raise
            known |= {n: given[n] for n in names}


def _difference(ours: Any, theirs: Any, rtol: float, atol: float) -> str:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.dtype}{list(ours.shape)}, not {theirs.dtype}{list(theirs.shape)}"
    if theirs.dtype.kind in "biu":
        return "" if np.array_equal(ours, theirs) else "other values"
    rtol = max(rtol, PRECISION.get(theirs.dtype.name, 1e-3))
    wide, wanted = ours.astype(np.float64), theirs.astype(np.float64)
    rounding = 2**-23 * float(np.max(np.abs(wanted), initial=0.0, where=np.isfinite(wanted)))  # sums that cancel
    if np.allclose(wide, wanted, rtol=rtol, atol=max(atol, 1e-6, rounding), equal_nan=True):
        return ""
    return f"off by {np.nanmax(np.abs(wide - wanted)):.3g}"


def main() -> int:
    """Run all and print what did not pass."""
    os.environ["PULLBACK_BACKEND"] = "interpreter"
    from onnx.backend.test.case.node import collect_testcases

    warnings.simplefilter("ignore")
    found = {case.name: outcome(case) for case in collect_testcases(None)}
    for name, what in sorted(found.items(), key=lambda pair: pair[1]):
        if what != "passed":
            print(f"{name}: {what}")
    print(dict(Counter(what.partition(":")[0] for what in found.values())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
