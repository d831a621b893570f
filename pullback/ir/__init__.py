"""The core: the semantics of programs, independent of all other rooms."""

from pullback.ir.primitives import PRIMITIVES

__all__ = ["PRIMITIVES"]
