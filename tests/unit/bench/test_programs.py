"""The cases of `pullback bench programs`: C, compiled code and the interpreter agree; rows become a table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import programs
from benchmarks.harness import Row
from benchmarks.systems import programs_c, programs_pullback

needs_c = pytest.mark.skipif(not any(shutil.which(name) for name in ("cc", "gcc", "clang")), reason="no C compiler")

LABELS = np.array([3, 0, 2], np.uint8)
SMALL: dict[str, Callable[[np.random.Generator], programs.Arrays]] = {
    "softmax-regression": lambda r: (r.normal(size=(4, 7)), r.normal(size=4), r.normal(size=(3, 7)), LABELS),
    "nnmf-20": lambda r: (0.5 + r.random((6, 3)), 0.5 + r.random((3, 5)), 0.5 + r.random((6, 5))),
    "mlp": lambda r: (
        r.normal(size=(5, 6)), r.normal(size=5), r.normal(size=(6, 5)), r.normal(size=6), r.normal(size=(4, 6)),
        r.normal(size=4), r.normal(size=(3, 6)), LABELS,
    ),
    "log-sum-exp": lambda r: (r.normal(size=37),),
    "mixture": lambda r: (r.normal(size=3), r.normal(size=(3, 4)), r.normal(size=(3, 4)), r.normal(size=(9, 4))),
    "lstm": lambda r: (
        r.normal(size=(4, 6, 3)), r.normal(size=(4, 6, 6)), r.normal(size=(4, 6)), r.normal(size=(3, 2, 3)),
    ),
    "max-pool": lambda r: (r.normal(size=(2, 3, 6, 8)), r.normal(size=(2, 3, 3, 4))),
}  # fmt: skip


@needs_c
@pytest.mark.parametrize("name", SMALL)
def test_c_and_the_compiled_function_are_the_interpreter(name: str) -> None:
    case = replace(next(c for c in programs.CASES if c.name == name), inputs=SMALL[name])
    function, arguments = programs_pullback.FUNCTIONS[name](case), case.make()
    keywords = {} if name != "max-pool" else {"cotangent": arguments[1]}
    value, gradients = function.interpret(*arguments[: case.parameters if keywords else None], **keywords)
    expected = (value, *gradients) if isinstance(gradients, tuple) else (value, gradients)
    routes = [programs_pullback.prepare(case, "function")()]
    routes += [programs_c.prepare(case, form)() for form in programs_c.FORMS.get(name, ())]
    for found in routes:
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)
    assert programs_pullback.operations(case) > 0


def rows(*times: tuple[str, float]) -> list[Row]:
    return [
        Row(case="mlp", system=s, form="form", dtype="float32", threads=1, median=t, minimum=t, maximum=t, first_call=t)
        for s, t in times
    ]


def test_the_table_has_ratios_of_the_fastest_forms() -> None:
    found = rows(("pullback", 2e-6), ("jax", 9e-6), ("jax", 8e-6), ("torch", 9e-6), ("c", 1e-6), ("roofline", 5e-7))
    assert programs.cells(found) == [("mlp", "1", "2", "8", "9", "25 %", "2.00", "4.00")]


def test_a_plot_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    programs.plot(rows(("pullback", 2e-6), ("jax", 8e-6), ("roofline", 5e-7)), tmp_path / "times.svg")
    assert (tmp_path / "times.svg").read_text().startswith("<?xml")


def test_cases_are_the_same_each_time() -> None:
    for case in programs.CASES[:1]:
        a: Any
        for a, b in zip(case.make(), case.make(), strict=True):
            np.testing.assert_array_equal(a, b)
