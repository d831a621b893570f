"""Comparisons, logic and bits: functions without a derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from pullback.ir.primitive import PRIMITIVES, Primitive

NDArray = np.ndarray[Any, Any]

ALL: Final = ("floating", "signed", "unsigned", "bool")
NUMBERS: Final = ("floating", "signed", "unsigned")
INTEGERS: Final = ("signed", "unsigned")
DISCRETE: Final = "its result is not a real number that varies smoothly: the derivative is zero wherever it exists"


def _comparison(name: str, infix: str, doc: str, evaluate: Callable[..., NDArray],
                kinds: tuple[str, ...] = NUMBERS) -> Primitive:
    return PRIMITIVES.add(Primitive(name, doc, 2, evaluate, kinds=kinds, result="bool", no_derivative=DISCRETE,
                                    infix=infix, domain=(-3.0, 3.0)))


EQUAL: Final = _comparison("equal", "==", "Whether a equals b; NaN equals nothing.", np.equal, ALL)
NOT_EQUAL: Final = _comparison("not_equal", "!=", "Whether a differs from b.", np.not_equal, ALL)
LESS: Final = _comparison("less", "<", "Whether a is less than b.", np.less)
LESS_EQUAL: Final = _comparison("less_equal", "<=", "Whether a is at most b.", np.less_equal)
GREATER: Final = _comparison("greater", ">", "Whether a is greater than b.", np.greater)
GREATER_EQUAL: Final = _comparison("greater_equal", ">=", "Whether a is at least b.", np.greater_equal)


def _logical(name: str, doc: str, evaluate: Callable[..., NDArray], arity: int = 2,
             infix: str | None = None) -> Primitive:
    return PRIMITIVES.add(Primitive(name, doc, arity, evaluate, kinds=("bool",), result="bool",
                                    no_derivative=DISCRETE, infix=infix))


LOGICAL_AND: Final = _logical("logical_and", "Both a and b.", np.logical_and, infix="&&")
LOGICAL_OR: Final = _logical("logical_or", "a or b or both.", np.logical_or, infix="||")
LOGICAL_XOR: Final = _logical("logical_xor", "Exactly one of a and b.", np.logical_xor)
LOGICAL_NOT: Final = _logical("logical_not", "Not a.", np.logical_not, arity=1)


def _bitwise(name: str, doc: str, evaluate: Callable[..., NDArray], infix: str | None = None, *,
             arity: int = 2, kinds: tuple[str, ...] = ("signed", "unsigned", "bool"),
             domain: tuple[float, float] = (-100.0, 100.0)) -> Primitive:
    return PRIMITIVES.add(Primitive(name, doc, arity, evaluate, kinds=kinds, no_derivative=DISCRETE,
                                    infix=infix, domain=domain))


BITWISE_AND: Final = _bitwise("bitwise_and", "Bits set in both a and b.", np.bitwise_and, "&")
BITWISE_OR: Final = _bitwise("bitwise_or", "Bits set in a or b.", np.bitwise_or, "|")
BITWISE_XOR: Final = _bitwise("bitwise_xor", "Bits set in exactly one of a and b.", np.bitwise_xor, "^")
BITWISE_INVERT: Final = _bitwise("bitwise_invert", "All bits of a flipped.", np.bitwise_not, arity=1)

# A shift by the width or more, or by a negative count, pushes every bit out.
BITWISE_LEFT_SHIFT: Final = _bitwise(
    "bitwise_left_shift", "Bits of a moved up by b, which wraps.", np.left_shift,
    "<<", kinds=INTEGERS, domain=(0.0, 70.0))
BITWISE_RIGHT_SHIFT: Final = _bitwise(
    "bitwise_right_shift", "Bits of a moved down by b, the sign spreading.", np.right_shift,
    ">>", kinds=INTEGERS, domain=(0.0, 70.0))


def _classify(name: str, doc: str, evaluate: Callable[..., NDArray]) -> Primitive:
    return PRIMITIVES.add(Primitive(name, doc, 1, evaluate, result="bool", no_derivative=DISCRETE))


ISNAN: Final = _classify("isnan", "Whether x is not a number.", np.isnan)
ISINF: Final = _classify("isinf", "Whether x is infinite.", np.isinf)
ISFINITE: Final = _classify("isfinite", "Whether x is neither infinite nor NaN.", np.isfinite)
