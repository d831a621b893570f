"""The one table of elementwise primitives: `PRIMITIVES` imports this package when first asked, which fills it."""

from pullback.ir.primitive import PRIMITIVES, Primitive
from pullback.prim import derivative, elementwise, logic, transcendental

__all__ = ["PRIMITIVES", "Primitive", "derivative", "elementwise", "logic", "transcendental"]
