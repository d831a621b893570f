"""Claims that the solver leaves open are few, in each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.proofs.smt import COUNTS


@pytest.fixture(autouse=True)
def few_left_open() -> Iterator[None]:
    """Print what was decided, and fail where more than one claim in ten was not."""
    COUNTS.clear()
    yield
    if COUNTS:
        print(", ".join(f"{name} {count}" for name, count in COUNTS.items()))
    assert COUNTS["open"] <= 1 + COUNTS.total() / 10
