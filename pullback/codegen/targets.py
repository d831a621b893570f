"""The available targets."""

from __future__ import annotations

from typing import Final

from pullback.codegen.c.plain import PlainC
from pullback.codegen.c.vectors.rolled import RolledC
from pullback.codegen.c.vectors.target import VectorC
from pullback.codegen.target import Target

C: Final = VectorC()
PLAIN_C: Final[Target] = PlainC()
C_TO_READ: Final[Target] = RolledC()
TARGETS: Final = (C, PLAIN_C, C_TO_READ)
