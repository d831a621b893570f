"""The tables compare with NumPy's own functions of the array API, which NumPy has since 2.1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tables where NumPy is older."""
    if np.lib.NumpyVersion(np.__version__) < "2.1.0":
        skip = pytest.mark.skip(reason="NumPy before 2.1 lacks functions of the array API")
        for item in items:
            if item.path.is_relative_to(HERE):
                item.add_marker(skip)
