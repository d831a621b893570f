"""The rows of the table of primitives. Importing `pullback.ir` brings them."""

from pullback.ir.primitive import PRIMITIVES, Primitive
from pullback.ir.primitives import derivative, elementwise, logic, transcendental

__all__ = ["PRIMITIVES", "Primitive", "derivative", "elementwise", "logic", "transcendental"]
