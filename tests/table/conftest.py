"""The tables compare with NumPy's own functions of the array API, which NumPy has since 2.1."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.versions import ARRAY_API

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tables where NumPy is older."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(ARRAY_API)
