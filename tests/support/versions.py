"""Tests that need a version of a dependency."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

__all__ = ["ARRAY_API"]

# NumPy has the functions of the array API, with which tests compare, since 2.1.
ARRAY_API: Final = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="NumPy before 2.1 lacks functions of the array API"
)
