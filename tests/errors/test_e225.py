"""E225: a sparse Jacobian of more than one array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb


def test_message() -> None:
    def both(x: Any) -> Any:
        return x * 2.0, x + 1.0

    with pytest.raises(pb.DerivativeError) as error:
        pb.jacobian(both, sparse=True)(np.ones(3))
    lines = str(error.value).splitlines()
    assert lines[0] == (
        "DerivativeError [E225] sparse_jacobian(both): 2 results by 1 arrays, "
        "and a sparse Jacobian is that of one array by one"
    )
    assert lines[-1] == "  try: one call for each pair      See docs/reference/errors.md#E225"
