"""Unchecked builders for rows and passes: elementwise functions by their mathematical names.

Nothing here checks dtypes or ranges beyond what `expr` does; `tracing` is the checked surface. Addition, product
and negation are the operators of `Scalar`.
"""

from __future__ import annotations

from pullback.ir.expr import Scalar, apply, const


def one(like: Scalar) -> Scalar:
    """The number 1 in the dtype of `like`."""
    return const(1, like.dtype)


def number(value: float, like: Scalar) -> Scalar:
    """A number in the dtype of `like`."""
    return const(value, like.dtype)


def divide(a: Scalar, b: Scalar) -> Scalar:
    """Quotient a / b."""
    return apply("divide", a, b)


def floor_divide(a: Scalar, b: Scalar) -> Scalar:
    """floor(a / b)."""
    return apply("floor_divide", a, b)


def power(a: Scalar, b: Scalar) -> Scalar:
    """Power a ** b."""
    return apply("power", a, b)


def exp(x: Scalar) -> Scalar:
    """Exponential e ** x."""
    return apply("exp", x)


def log(x: Scalar) -> Scalar:
    """Natural logarithm."""
    return apply("log", x)


def sin(x: Scalar) -> Scalar:
    """Sine of x in radians."""
    return apply("sin", x)


def cos(x: Scalar) -> Scalar:
    """Cosine of x in radians."""
    return apply("cos", x)


def sinh(x: Scalar) -> Scalar:
    """Hyperbolic sine."""
    return apply("sinh", x)


def cosh(x: Scalar) -> Scalar:
    """Hyperbolic cosine."""
    return apply("cosh", x)


def sqrt(x: Scalar) -> Scalar:
    """Square root."""
    return apply("sqrt", x)


def copysign(a: Scalar, b: Scalar) -> Scalar:
    """The magnitude of a with the sign of b."""
    return apply("copysign", a, b)


def hypot(a: Scalar, b: Scalar) -> Scalar:
    """Length of the vector (a, b)."""
    return apply("hypot", a, b)


def sign(x: Scalar) -> Scalar:
    """-1, 0 or 1."""
    return apply("sign", x)


def equal(a: Scalar, b: Scalar) -> Scalar:
    """Whether a == b."""
    return apply("equal", a, b)


def not_equal(a: Scalar, b: Scalar) -> Scalar:
    """Whether a != b."""
    return apply("not_equal", a, b)


def less(a: Scalar, b: Scalar) -> Scalar:
    """Whether a < b."""
    return apply("less", a, b)


def less_equal(a: Scalar, b: Scalar) -> Scalar:
    """Whether a <= b."""
    return apply("less_equal", a, b)


def greater(a: Scalar, b: Scalar) -> Scalar:
    """Whether a > b."""
    return apply("greater", a, b)


def greater_equal(a: Scalar, b: Scalar) -> Scalar:
    """Whether a >= b."""
    return apply("greater_equal", a, b)


def logical_and(a: Scalar, b: Scalar) -> Scalar:
    """Both a and b."""
    return apply("logical_and", a, b)


def isfinite(x: Scalar) -> Scalar:
    """Neither infinite nor NaN."""
    return apply("isfinite", x)


def logical_or(a: Scalar, b: Scalar) -> Scalar:
    """The one or the other or both."""
    return apply("logical_or", a, b)


def logical_not(a: Scalar) -> Scalar:
    """Not a."""
    return apply("logical_not", a)
