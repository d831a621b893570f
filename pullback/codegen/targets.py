"""The available targets."""

from __future__ import annotations

from typing import Final

from pullback.codegen.c.plain import PlainC
from pullback.codegen.c.vectors.target import VectorC
from pullback.codegen.target import Target

C: Final[Target] = VectorC()
PLAIN_C: Final[Target] = PlainC()
TARGETS: Final = (C, PLAIN_C)
