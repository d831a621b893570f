"""The core: the meaning of programs, and nothing above it."""

from pullback.ir.primitives import PRIMITIVES

__all__ = ["PRIMITIVES"]
