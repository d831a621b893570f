"""An array, and the error that a call raises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pullback.errors import PullbackError

X = np.array([1.0, 2.0, 4.0])


def refused(f: Any, *args: Any) -> Any:
    with pytest.raises(PullbackError) as caught:
        f(*args)
    return caught.value
