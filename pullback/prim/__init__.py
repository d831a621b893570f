"""The one table of elementwise primitives: importing this package fills `PRIMITIVES`."""

from pullback.ir.primitive import PRIMITIVES, Primitive
from pullback.prim import elementwise, logic, transcendental

__all__ = ["PRIMITIVES", "Primitive", "elementwise", "logic", "transcendental"]
