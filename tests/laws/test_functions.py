"""Functions of SciPy's and JAX's documentation against the numbers that JAX gave (`benchmarks/functions`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import pullback as pb
from benchmarks.functions import CASES
from benchmarks.functions.check import error, examine, interpreted, load_numbers, wanted_of

NUMBERS = load_numbers()
KNOWN = [name for name, case in CASES.items() if f"{name}/{case.sizes[-1]}/value/0" in NUMBERS]
TOGETHER = 10
"""Functions that one compilation holds."""


@pytest.mark.parametrize("name", KNOWN)
def test_values_and_gradients(name: str) -> None:
    case = CASES[name]
    size = case.sizes[-1]
    (value,) = wanted_of(case, size, "value", NUMBERS) or ()
    out, bars = case.reverse.interpret(case.arguments(size), case.cotangent(size, value.shape))
    assert error(out, value) <= case.tolerance
    for bar, wanted in zip(bars, wanted_of(case, size, "reverse", NUMBERS) or (), strict=True):
        assert error(bar, wanted) <= case.tolerance


@pytest.mark.parametrize("name", KNOWN[::12])
def test_tangents_and_how_gradients_move(name: str) -> None:
    case = CASES[name]
    assert examine(case, NUMBERS, (interpreted,), ("forward", "second"), case.sizes[-1:]).verdict == "agrees"


@pytest.mark.slow
@pytest.mark.parametrize("names", [KNOWN[k :: len(KNOWN) // TOGETHER][:TOGETHER] for k in range(2)])
def test_in_c(names: Sequence[str]) -> None:
    chosen = [CASES[n] for n in names]
    values = {c.name: (wanted_of(c, c.sizes[0], "value", NUMBERS) or [None])[0] for c in chosen}

    @pb.function
    def together(arguments: Any, weights: Any) -> Any:
        return {c.name: c.reverse(arguments[c.name], weights[c.name]) for c in chosen}

    arguments = {c.name: c.arguments(c.sizes[0]) for c in chosen}
    weights = {c.name: c.cotangent(c.sizes[0], values[c.name].shape) for c in chosen}
    for name, (out, bars) in together(arguments, weights).items():
        case = CASES[name]
        assert error(out, values[name]) <= case.tolerance, name
        for bar, wanted in zip(bars, wanted_of(case, case.sizes[0], "reverse", NUMBERS) or (), strict=True):
            assert error(bar, wanted) <= case.tolerance, name
