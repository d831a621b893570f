"""Exponentials, logarithms, trigonometric and hyperbolic functions, sqrt, logistic, erf.

Their derivatives use the result where that is cheaper: exp, tan, tanh, sqrt, logistic. Nothing
cancels in (1 - x) (1 + x) near 1, as it does in 1 - x², and no square of x overflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from pullback.ir import nodes as ir
from pullback.ir.expr import apply, select
from pullback.ir.notation import cos, cosh, exp, greater, hypot, number, one, sin, sinh, sqrt
from pullback.ir.primitive import PRIMITIVES, Partials, Primitive

NDArray = np.ndarray[Any, Any]


def _row(name: str, doc: str, evaluate: Callable[..., NDArray], partials: Partials, *, cost: int = 20,
         domain: tuple[float, float] = (-2.0, 2.0), transcendental: bool = True, arity: int = 1) -> Primitive:
    """A row for a floating-point function."""
    return PRIMITIVES.add(Primitive(name, doc, arity, evaluate, partials=partials, transcendental=transcendental,
                                    cost=cost, domain=domain))


EXP: Final = _row("exp", "e to the power x.", np.exp, lambda x, out: (out,))
EXPM1: Final = _row("expm1", "exp(x) - 1, accurate near 0.", np.expm1, lambda x, out: (exp(x),))
LOG: Final = _row("log", "Natural logarithm.", np.log, lambda x, out: (1 / x,), domain=(0.1, 4.0))
LOG1P: Final = _row("log1p", "log(1 + x), accurate near 0.", np.log1p, lambda x, out: (1 / (1 + x),),
                    domain=(-0.8, 4.0))
LOG2: Final = _row("log2", "Logarithm to base 2.", np.log2, lambda x, out: (1 / (x * math.log(2)),), domain=(0.1, 4.0))
LOG10: Final = _row("log10", "Logarithm to base 10.", np.log10, lambda x, out: (1 / (x * math.log(10)),),
                    domain=(0.1, 4.0))

SIN: Final = _row("sin", "Sine of x, in radians.", np.sin, lambda x, out: (cos(x),), domain=(-10.0, 10.0))
COS: Final = _row("cos", "Cosine of x, in radians.", np.cos, lambda x, out: (-sin(x),), domain=(-10.0, 10.0))
TAN: Final = _row("tan", "Tangent of x, in radians.", np.tan, lambda x, out: (1 + out * out,), domain=(-1.3, 1.3))


def _complement(x: ir.Scalar) -> ir.Scalar:
    # 1 - x²: near 1 as a product, near 0 as a difference, where the derivative of the product cancels
    return select(greater(apply("abs", x), number(0.5, x)), (1 - x) * (1 + x), 1 - x * x)


ASIN: Final = _row("asin", "Angle whose sine is x.", np.arcsin, lambda x, out: (1 / sqrt(_complement(x)),),
                   domain=(-0.9, 0.9))
ACOS: Final = _row("acos", "Angle whose cosine is x.", np.arccos, lambda x, out: (-(1 / sqrt(_complement(x))),),
                   domain=(-0.9, 0.9))


def _atan_partials(x: ir.Scalar, out: ir.Scalar) -> tuple[ir.Scalar]:
    # 1 / (1 + x²), for large x by 1 / x: its derivatives at infinity are 0
    large = greater(apply("abs", x), one(x))
    inverse = one(x) / select(large, x, one(x))
    square = inverse * inverse
    return (select(large, square / (1 + square), 1 / (1 + x * x)),)


ATAN: Final = _row("atan", "Angle whose tangent is x.", np.arctan, _atan_partials)


def _atan2_partials(y: ir.Scalar, x: ir.Scalar, out: ir.Scalar) -> tuple[ir.Scalar, ir.Scalar]:
    radius = hypot(x, y)  # whose square may overflow or vanish
    return x / radius / radius, -(y / radius / radius)


ATAN2: Final = _row("atan2", "Angle of the point (b, a) from the first axis, a being the ordinate.", np.arctan2,
                    _atan2_partials, arity=2, cost=30, domain=(0.2, 3.0))

SINH: Final = _row("sinh", "Hyperbolic sine.", np.sinh, lambda x, out: (cosh(x),))
COSH: Final = _row("cosh", "Hyperbolic cosine.", np.cosh, lambda x, out: (sinh(x),))
TANH: Final = _row("tanh", "Hyperbolic tangent.", np.tanh, lambda x, out: (1 - out * out,))
ASINH: Final = _row("asinh", "Number whose hyperbolic sine is x.", np.arcsinh, lambda x, out: (1 / hypot(x, one(x)),))
ACOSH: Final = _row("acosh", "Number whose hyperbolic cosine is x.", np.arccosh,
                    lambda x, out: (1 / sqrt(x - 1) / sqrt(x + 1),), domain=(1.2, 4.0))
ATANH: Final = _row("atanh", "Number whose hyperbolic tangent is x.", np.arctanh,
                    lambda x, out: (1 / _complement(x),), domain=(-0.9, 0.9))

SQRT: Final = _row("sqrt", "Square root.", np.sqrt, lambda x, out: (0.5 / out,), cost=5, domain=(0.1, 4.0),
                   transcendental=False)


def _logistic(x: NDArray) -> NDArray:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


# exp(-x) may overflow to infinity, for which the quotient is the right 0. The derivative is by the result, so that x
# need not be kept: 1 - out is 0 from x = 37 on, where `special.expit` has all digits.
LOGISTIC: Final = _row("logistic", "1 / (1 + exp(-x)).", _logistic, lambda x, out: (out * (1 - out),),
                       cost=25, domain=(-6.0, 6.0))


def _erf(x: NDArray) -> NDArray:
    flat = [math.erf(v) for v in np.asarray(x, np.float64).ravel().tolist()]
    return np.array(flat, x.dtype).reshape(x.shape)


ERF: Final = _row("erf", "Error function: 2 / sqrt(pi) times the integral of exp(-t²) from 0 to x.", _erf,
                  lambda x, out: (number(2 / math.sqrt(math.pi), x) * exp(-(x * x)),), cost=30)
