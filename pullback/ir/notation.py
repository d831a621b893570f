"""Unchecked builders for rows and passes: elementwise functions by their mathematical names.

Nothing here checks dtypes or ranges beyond what `expr` does; `tracing` is the checked surface. Addition, product
and negation are the operators of `Scalar`.
"""

from __future__ import annotations

from pullback.ir import nodes as ir
from pullback.ir.expr import apply, const


def one(like: ir.Scalar) -> ir.Scalar:
    """The number 1 in the dtype of `like`."""
    return const(1, like.dtype)


def number(value: float, like: ir.Scalar) -> ir.Scalar:
    """A number in the dtype of `like`."""
    return const(value, like.dtype)


def divide(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """Quotient a / b."""
    return apply("divide", a, b)


def floor_divide(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """floor(a / b)."""
    return apply("floor_divide", a, b)


def power(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """Power a ** b."""
    return apply("power", a, b)


def exp(x: ir.Scalar) -> ir.Scalar:
    """Exponential e ** x."""
    return apply("exp", x)


def log(x: ir.Scalar) -> ir.Scalar:
    """Natural logarithm."""
    return apply("log", x)


def sin(x: ir.Scalar) -> ir.Scalar:
    """Sine of x in radians."""
    return apply("sin", x)


def cos(x: ir.Scalar) -> ir.Scalar:
    """Cosine of x in radians."""
    return apply("cos", x)


def sinh(x: ir.Scalar) -> ir.Scalar:
    """Hyperbolic sine."""
    return apply("sinh", x)


def cosh(x: ir.Scalar) -> ir.Scalar:
    """Hyperbolic cosine."""
    return apply("cosh", x)


def sqrt(x: ir.Scalar) -> ir.Scalar:
    """Square root."""
    return apply("sqrt", x)


def copysign(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """The magnitude of a with the sign of b."""
    return apply("copysign", a, b)


def hypot(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """Length of the vector (a, b)."""
    return apply("hypot", a, b)


def sign(x: ir.Scalar) -> ir.Scalar:
    """-1, 0 or 1."""
    return apply("sign", x)


def equal(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """Whether a == b."""
    return apply("equal", a, b)


def not_equal(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """Whether a != b."""
    return apply("not_equal", a, b)


def less(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """Whether a < b."""
    return apply("less", a, b)


def less_equal(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """Whether a <= b."""
    return apply("less_equal", a, b)


def greater(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """Whether a > b."""
    return apply("greater", a, b)


def greater_equal(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """Whether a >= b."""
    return apply("greater_equal", a, b)


def logical_and(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """Both a and b."""
    return apply("logical_and", a, b)


def isfinite(x: ir.Scalar) -> ir.Scalar:
    """Neither infinite nor NaN."""
    return apply("isfinite", x)


def logical_or(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """One or both."""
    return apply("logical_or", a, b)


def logical_not(a: ir.Scalar) -> ir.Scalar:
    """Not a."""
    return apply("logical_not", a)
