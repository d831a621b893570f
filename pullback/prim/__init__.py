"""The one table of elementwise primitives: importing this package fills `PRIMITIVES`."""

from pullback.ir.primitive import PRIMITIVES, Primitive
from pullback.prim import derivative, elementwise, logic, transcendental

__all__ = ["PRIMITIVES", "Primitive", "derivative", "elementwise", "logic", "transcendental"]
