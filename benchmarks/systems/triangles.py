"""The order of the elements below a diagonal that peers' programs share."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["places_below"]


def places_below(n: int) -> tuple[Any, Any]:
    """The rows and columns below the diagonal of an n × n matrix, column by column."""
    columns, rows = np.triu_indices(n, 1)
    return rows, columns
