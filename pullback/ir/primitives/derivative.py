"""Primitives that only derivatives see."""

from __future__ import annotations

from typing import Final

import numpy as np

from pullback.ir.primitive import PRIMITIVES, Primitive

STOP_GRADIENT: Final = PRIMITIVES.add(Primitive(
    "stop_gradient", "The operand itself, with a derivative of zero.", 1,
    lambda a: np.array(a, copy=True), cost=0,
    no_derivative="it is asked to be a constant: its derivative is zero",
))
