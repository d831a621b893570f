"""What is done to every element, and along the last axis: functions of arrays, which are layers as they are."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback import Array

__all__ = ["relu"]


def relu(x: Any) -> Array:
    """The larger of x and 0; its derivative at 0 is 0.

    >>> from pullback import nn
    >>> pb.function(lambda x: nn.relu(x))(np.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    y: Array = pb.relu(x)
    return y
