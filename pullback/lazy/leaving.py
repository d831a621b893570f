"""The check of conversions of lazy arrays to Python values while a gradient depends on them.

`lazy.grad` treats a Python number as a constant. So an array that depends on an argument of an active gradient refuses
the conversion (E715). Conversions that lose no derivative are allowed: truth, `int`, comparisons, text.
"""

from __future__ import annotations

from typing import Final

from pullback.errors import DerivativeError
from pullback.lazy.elsewhere import remedy
from pullback.lazy.node import BUSY, LOCK, Array
from pullback.source import Position, called, source_text, user_position
from pullback.state import registered

__all__ = ["OPEN", "check_leaves"]

OPEN: Final[set[Array]] = registered(set(), "variables of gradients", stays="with the gradient")  # of all threads
_MODULES: Final = ("cmath", "math", "np", "numpy", "scipy")
_KEEP: Final = "operations on the array itself, or `lazy.lift(f)` of a traced function"


def check_leaves(x: Array, how: str) -> None:
    """Refuse to convert a value that an active gradient depends on; `how` names the conversion.

    Raises:
        DerivativeError: [E715] the gradient would treat the value as a constant.
    """
    if x.tracked and OPEN and _depends(x):
        position = user_position()
        raise DerivativeError(
            "E715",
            f"{source_text(position) or how}: the gradient would take the value of {x.type!r} for a constant",
            position=position,
            remedy=f"{_instead(position)}; `lazy.stop_gradient(x)` gives a constant that may leave",
        )


def _depends(x: Array) -> bool:
    """Whether an array is, or depends on, a variable of an active gradient."""
    if x.application is None:  # nothing below it waits, and so no other thread computes it
        return _reaches(x)
    with LOCK, BUSY:
        return _reaches(x)


def _reaches(x: Array) -> bool:
    stack = [x]
    seen = set(stack)
    while stack:
        x = stack.pop()
        if x in OPEN:
            return True
        if x.application is None and x.origin.__class__ is tuple:
            tape, result = x.origin
            below = tape.read_for(result)
        else:
            below = x.operands
        new = [y for y in below if y.tracked and y not in seen]
        seen.update(new)
        stack += new
    return False


def _instead(position: Position | None) -> str:
    """Return the remedy: the function to use instead of the one that receives the value."""
    module, _, name = (called(position) or "").rpartition(".")
    if module.split(".")[0] not in _MODULES:
        return _KEEP
    return f"`x.astype(lazy.{name})`" if name in ("float32", "float64") else remedy(name)


Array.check = staticmethod(check_leaves)
