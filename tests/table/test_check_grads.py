"""Every smooth primitive in every mode, first and second derivatives, in C and in the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pullback.arrays.elementwise import elementwise
from pullback.ir.primitives import PRIMITIVES
from pullback.testing import check_grads

SMOOTH = {row.name: row for row in PRIMITIVES if row.partials is not None}
PLACES = {1: [(0.3, 0.8)], 2: [(0.35, 0.9), (0.6, 0.45)]}  # in a row's domain, away from ties, jumps and kinks


def points(name: str) -> list[Any]:
    low, high = SMOOTH[name].domain
    return [low + (high - low) * np.array(places) for places in PLACES[SMOOTH[name].arity]]


def apply_all(operands: dict[str, list[Any]]) -> Any:
    """Every primitive of its own operands, so that a message names the one that is wrong."""
    return {name: elementwise(name, *args) for name, args in operands.items()}


@pytest.mark.slow
@pytest.mark.parametrize("arity", [1, 2])
def test_every_smooth_primitive(arity: int) -> None:
    names = [name for name, row in SMOOTH.items() if row.arity == arity]
    assert names
    check_grads(apply_all, ({name: points(name) for name in names},))
