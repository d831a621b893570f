"""Every test begins without structures that C knows: what it patches in Python is called."""

from __future__ import annotations

import pytest

from pullback.lazy import quick


@pytest.fixture(autouse=True)
def _no_structures() -> None:
    quick.STRUCTURES.clear()
