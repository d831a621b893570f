"""Element operations for multiplication, transpose and division, open to all types by dispatch.

Matrices of this package hold elements of any kind: numbers, arrays, finite-field elements, quaternions, other matrices,
operators. An element needs only `+`, `-` and these hooks. A type with the usual protocols needs no registration;
another type registers once:

>>> class Word(str):
...     "Strings under concatenation."
>>> _ = product.register(Word, lambda left, right: Word(left + right))
>>> product(Word("ab"), Word("cd"))
'abcd'
"""

from __future__ import annotations

import math
from functools import singledispatch
from numbers import Complex, Integral, Number, Rational
from typing import Any

import numpy as np

from pullback.errors import DerivativeError
from pullback.operators.arrays import is_array, rank


@singledispatch
def product(left: Any, right: Any) -> Any:
    """Multiply two elements, in this order: `left @ right` where `left` defines `@`, else `left * right`.

    Arrays multiply as matrices; a number times an array scales it.

    >>> product(2, 3)
    6
    >>> product(np.array([[0, 1], [1, 0]]), np.array([5, 7])).tolist()
    [7, 5]
    """
    if is_array(left):
        numbers = rank(left) == 0 or isinstance(right, Number) or (is_array(right) and rank(right) == 0)
        return left * right if numbers else left @ right
    return left @ right if hasattr(type(left), "__matmul__") else left * right


@singledispatch
def adjoint(element: Any) -> Any:
    """The adjoint of an element.

    A real number is its own adjoint. The adjoint of a complex number or quaternion is its conjugate, that of a matrix
    the transposed matrix of adjoints. A one-dimensional array counts as a column. A type takes part through an
    attribute `T` or a method `conjugate`; a type with neither is taken as real.

    >>> adjoint(2 + 1j)
    (2-1j)
    >>> adjoint(np.array([[1.0, 2.0]])).tolist()
    [[1.0], [2.0]]
    """
    if hasattr(element, "__array_namespace__"):  # of another library, or traced
        return _adjoint_of_array(element, element.__array_namespace__())
    if hasattr(element, "T"):
        return element.T
    return element.conjugate() if hasattr(element, "conjugate") else element


@adjoint.register
def _(element: Complex) -> Any:
    return element.conjugate()


@adjoint.register
def _(element: np.ndarray) -> Any:
    if element.dtype == object:
        turned = element.reshape(1, -1) if element.ndim == 1 else element.T
        return np.array([adjoint(e) for e in turned.ravel()] + [None], dtype=object)[:-1].reshape(turned.shape)
    return element.conj().reshape(1, -1) if element.ndim == 1 else element.conj().T


def _adjoint_of_array(x: Any, xp: Any) -> Any:
    x = xp.conj(x) if xp.isdtype(x.dtype, "complex floating") else x
    return xp.reshape(x, (1, -1)) if x.ndim == 1 else x if x.ndim == 0 else xp.matrix_transpose(x)


@singledispatch
def inverse(element: Any) -> Any:
    """The inverse of an element: its method `inverse()` where it has one, else `1 / element`.

    No element is treated as an identity.

    Raises:
        DerivativeError: [E212] no inverse is known. [E213] the element is singular.

    >>> inverse(4.0)
    0.25
    """
    if is_array(element) and rank(element):
        if not hasattr(element, "__array_namespace__"):
            raise no_inverse(element)
        return element.__array_namespace__().linalg.inv(element)
    try:
        return element.inverse() if hasattr(element, "inverse") else 1 / element
    except (ZeroDivisionError, ValueError):  # `pow(0, -1, 7)` raises the second
        raise singular(element) from None
    except TypeError:
        raise no_inverse(element) from None


@inverse.register
def _(element: Complex) -> Any:
    if element == 0:
        raise singular(element)
    return 1 / element


@inverse.register
def _(element: np.ndarray) -> Any:
    if element.ndim != 2 or element.shape[0] != element.shape[1]:
        raise no_inverse(element)
    try:
        return np.linalg.inv(element)
    except np.linalg.LinAlgError:
        raise singular(element) from None


@singledispatch
def left_divide(divisor: Any, element: Any) -> Any:
    """The backslash of elements: `divisor⁻¹ element`, the factor on the left.

    Raises:
        DerivativeError: as `inverse` does.

    >>> left_divide(np.diag([2.0, 4.0]), np.array([2.0, 2.0])).tolist()
    [1.0, 0.5]
    """
    return product(inverse(divisor), element)


@left_divide.register
def _(divisor: Complex, element: Any) -> Any:
    if divisor == 0:
        raise singular(divisor)
    return element / divisor


@left_divide.register
def _(divisor: np.ndarray, element: Any) -> Any:
    if not isinstance(element, np.ndarray):
        return product(inverse(divisor), element)
    try:
        return np.linalg.solve(divisor, element)
    except np.linalg.LinAlgError:
        raise singular(divisor) from None


@singledispatch
def pivot_size(element: Any) -> float:
    """The fitness of an element as a pivot: 0 if elimination cannot divide by it, more if it is better.

    Rounded numbers have their magnitude, a square array its least singular value. All others are exact or unknown to
    the program, such as traced arrays and operators: 1. A type whose elements differ in fitness registers a function;
    for intervals it is the distance from 0.

    >>> from fractions import Fraction
    >>> pivot_size(-0.5), pivot_size(Fraction(1, 9)), round(pivot_size(np.diag([3.0, 2.0])), 9)
    (0.5, 1.0, 2.0)
    """
    return 1.0


@pivot_size.register
def _(element: Complex) -> float:
    size = float(abs(element))
    return size if size == size else math.inf  # NaN: as a pivot it shows in the result


@pivot_size.register
def _(element: Rational) -> float:
    return float(element != 0)


@pivot_size.register
def _(element: Integral) -> float:
    return float(abs(element))  # quotients of integers are rounded


@pivot_size.register
def _(element: np.ndarray) -> float:
    if element.ndim == 0:
        return pivot_size(element.item())
    if element.ndim != 2 or element.shape[0] != element.shape[1]:
        return 0.0
    if element.dtype == object:
        return 1.0
    return float(np.linalg.svd(element, compute_uv=False).min()) if np.isfinite(element).all() else math.inf


def describe(element: Any) -> str:
    """A short name for an element in messages."""
    if isinstance(element, np.ndarray):
        return f"an array of shape {element.shape}"
    return str(element).replace("\n", ";")


def singular(element: Any) -> DerivativeError:
    """The error for a singular divisor."""
    return DerivativeError(
        "E213",
        f"{describe(element)} is singular: it has no inverse",
        remedy="every element of the diagonal needs an inverse",
    )


def no_inverse(element: Any) -> DerivativeError:
    """The error for a divisor without a known inverse."""
    return DerivativeError(
        "E212",
        f"no inverse is known for {describe(element)}",
        facts=(f"it is a {type(element).__name__}",),
        remedy="give its type an `inverse()`, or put the identity on the diagonal",
    )
