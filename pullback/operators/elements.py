"""Element arithmetic with a structural zero and an identity that cost nothing.

Only this module distinguishes them from other elements, so element types need no support for them. Combined with a
number the identity is 1; combined with a square array it is an identity matrix.
"""

from __future__ import annotations

from numbers import Number
from operator import eq
from typing import Any

import numpy as np

from pullback.operators.hooks import inverse, left_divide, product
from pullback.operators.operator import ZERO, I


def is_zero(element: Any) -> bool:
    """Whether a place is empty: it holds ZERO, None, or a number equal to 0."""
    return element is ZERO or element is None or (isinstance(element, Number) and bool(eq(element, 0)))


def is_one(element: Any) -> bool:
    """Whether an element is the identity or the number 1. Other operators do not count as identities."""
    return element is I or (isinstance(element, Number) and bool(eq(element, 1)))


def plus(left: Any, right: Any) -> Any:
    """`left + right`."""
    if left is ZERO or right is ZERO:
        return right if left is ZERO else left
    return _like(left, right) + _like(right, left)


def minus(left: Any, right: Any) -> Any:
    """`left - right`."""
    if left is ZERO or right is ZERO:
        return left if right is ZERO else -right
    return _like(left, right) - _like(right, left)


def times(left: Any, right: Any) -> Any:
    """`product(left, right)`, in this order."""
    if left is ZERO or right is ZERO:
        return ZERO
    return right if left is I else left if right is I else product(left, right)


def divide(divisor: Any, element: Any) -> Any:
    """`left_divide(divisor, element)`, the factor on the left."""
    if element is ZERO or is_one(divisor):
        return element
    return inverse(divisor) if element is I else left_divide(divisor, element)


def _like(element: Any, other: Any) -> Any:
    if element is I and isinstance(other, Number):
        return 1
    if element is I and isinstance(other, np.ndarray) and other.ndim == 2:
        return np.eye(*other.shape)
    return element
