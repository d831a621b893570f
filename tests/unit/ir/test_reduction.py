"""The table of reductions: an element that is ignored leaves every other as it is, in every element type."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.reduction import COMBINING, REDUCTIONS, neutral
from pullback.ir.types import DTYPES


@pytest.mark.parametrize("ufunc", COMBINING)
def test_neutral_elements_leave_others_as_they_are(ufunc: str) -> None:
    op = COMBINING[ufunc]
    for dtype in DTYPES:
        if REDUCTIONS[op].of_bools and not dtype.is_bool:
            continue
        one = np.array(neutral(op, dtype), dtype.numpy)
        ends = [False, True] if dtype.is_bool else [0, 1, -np.inf, np.inf] if dtype.is_floating else \
            [0, 1, dtype.minimum, dtype.maximum]
        for x in np.array(ends, dtype.numpy):
            if ufunc in ("add", "multiply") and dtype.is_bool:
                continue
            assert getattr(np, ufunc)(one, x) == x, (op, dtype, x)


def test_positions_are_of_what_the_extreme_would_ignore() -> None:
    for op, r in REDUCTIONS.items():
        if r.position is not None:
            assert REDUCTIONS[r.position].start == r.start, op
