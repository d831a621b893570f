"""The complementary and inverse error functions; the normal cdf, its inverse and its logarithm."""

from __future__ import annotations

import math
from typing import Any

from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import exp as exp_of
from pullback.arrays.elementwise import where
from pullback.ir import nodes as ir
from pullback.ir.expr import apply, select
from pullback.ir.notation import equal, exp, greater, less, log, logical_and, sqrt
from pullback.special.elements import Kernel, between, fitted, gaussian, horner, number, special
from pullback.special.tables import (
    ERFCX,
    ERFCX_1,
    ERFCX_2,
    ERFCX_3,
    ERFINV_FAR,
    ERFINV_MIDDLE,
    ERFINV_NEAR,
    ERFINV_TAIL,
)
from pullback.tracing.array import Array

ROOT_PI, ROOT_TWO = math.sqrt(math.pi), math.sqrt(2)


def _erfcx_positive(x: ir.Scalar, n: int = 0) -> ir.Scalar:
    """exp(x²) iⁿerfc(x) for x >= 0, a fit in t = (x - 4) / (x + 4); erfcx for n = 0."""
    t = select(greater(x, number(1e16)), number(1.0), (x - 4) / (x + 4))
    value = horner((ERFCX, ERFCX_1, ERFCX_2, ERFCX_3)[n], t)
    for _ in range(n + 1):  # a power would overflow
        value = value / (1 + 2 * x)
    return value


def _integral(n: int) -> Kernel:
    """exp(x²) iⁿerfc(x); below 0 by the recurrence of DLMF 7.18.7, which is free of cancellation there."""

    def kernel(x: ir.Scalar, scale: ir.Scalar) -> ir.Scalar:
        values = [number(2 / ROOT_PI), _erfcx(x, scale)]
        for k in range(1, n + 1):
            values.append((values[-2] - 2 * x * values[-1]) / (2.0 * k))
        below = less(x, number(0.0))
        return select(below, values[-1], _erfcx_positive(select(below, number(0.0), x), n))

    return kernel


def _erfc(x: ir.Scalar, scale: ir.Scalar) -> ir.Scalar:
    upper = scale * _erfcx_positive(apply("abs", x))
    return select(less(x, number(0.0)), 2 - upper, upper)


def _erfcx(x: ir.Scalar, scale: ir.Scalar) -> ir.Scalar:
    upper = _erfcx_positive(apply("abs", x))
    return select(less(x, number(0.0)), 2 / scale - upper, upper)


def _inverse(w: ir.Scalar, s: ir.Scalar, tail: bool) -> ir.Scalar:
    """erf⁻¹(y) / y, by fits in w = -log((1 - y)(1 + y)) and its square root."""
    parts = [
        fitted(ERFINV_NEAR, w, 0, 5),
        fitted(ERFINV_MIDDLE, s, math.sqrt(5), 4),
        fitted(ERFINV_FAR, s, 4, 7),
        s * fitted(ERFINV_TAIL, 1 / s, 1 / 28, 1 / 7),
    ]
    return between(w, [5, 16, 49], parts) if tail else between(w, [5, 16], parts[:3])


def _with_root(w: ir.Scalar) -> tuple[ir.Scalar, ir.Scalar]:
    return w, sqrt(w)


def _erfinv(y: ir.Scalar, w: ir.Scalar, s: ir.Scalar) -> ir.Scalar:
    inside = y * _inverse(w, s, tail=False)
    return select(equal(apply("abs", y), number(1.0)), y * math.inf, inside)


def _ndtr(x: ir.Scalar, scale: ir.Scalar) -> ir.Scalar:
    lower = scale * _erfcx_positive(apply("abs", x) * (1 / ROOT_TWO)) * 0.5
    return select(greater(x, number(0.0)), 1 - lower, lower)


def _logarithms(x: ir.Scalar) -> tuple[ir.Scalar, ir.Scalar]:
    size = apply("abs", x)
    scaled = _erfcx_positive(size * (1 / ROOT_TWO)) * 0.5
    lower = gaussian(size, 0.5) * scaled
    return log(scaled), apply("log1p", -select(greater(x, number(0.0)), lower, 1 - lower))


def _log_ndtr(x: ir.Scalar, scaled: ir.Scalar, whole: ir.Scalar) -> ir.Scalar:
    return select(less(x, number(-1.0)), scaled - 0.5 * (x * x), whole)


def _rest(p: ir.Scalar) -> ir.Scalar:
    return apply("minimum", p, 1 - p)


def _ndtri(p: ir.Scalar, w: ir.Scalar, s: ir.Scalar) -> ir.Scalar:
    rest = _rest(p)
    upper = (1 - 2 * rest) * _inverse(w, s, tail=True) * ROOT_TWO
    found = select(equal(rest, number(0.0)), number(math.inf), upper)
    return select(less(p, number(0.5)), -found, found)


_erfc_of = special(
    "erfc",
    _erfc,
    lambda x, out: (exp_of(-(x * x)) * (-2 / ROOT_PI),),
    lambda x: (gaussian(apply("abs", x)),),
)


def _scaled_size(x: ir.Scalar) -> tuple[ir.Scalar, ...]:
    return (gaussian(apply("abs", x)),)


# the derivative of exp(x²) iⁿerfc(x) is -2 (n + 1) times that of n + 1: no difference of large numbers
_integral_3 = special("erfcx", _integral(3), None, _scaled_size)
_integral_2 = special("erfcx", _integral(2), lambda x, out: (-6 * _integral_3(x),), _scaled_size)
_integral_1 = special("erfcx", _integral(1), lambda x, out: (-4 * _integral_2(x),), _scaled_size)
_erfcx_of = special("erfcx", _erfcx, lambda x, out: (-2 * _integral_1(x),), _scaled_size)
_erfinv_of = special(
    "erfinv",
    _erfinv,
    lambda y, out: (exp_of(out * out) * (ROOT_PI / 2),),
    lambda y: _with_root(-log((1 - y) * (1 + y))),
)
_ndtr_of = special(
    "ndtr",
    _ndtr,
    lambda x, out: (exp_of(x * x * -0.5) * (1 / math.sqrt(2 * math.pi)),),
    lambda x: (gaussian(apply("abs", x), 0.5),),
)


def _ndtri_slope(p: ir.Scalar, x: ir.Scalar) -> ir.Scalar:
    """The derivative 1 / density; in the tails erfcx(|x| / √2) √(π/2) / r, as x² is inexact.

    Here r is the smaller of p and 1 - p.
    """
    rest, size = _rest(p), apply("abs", x)
    far = _erfcx_positive(size * (1 / ROOT_TWO)) * math.sqrt(math.pi / 2) / rest
    tail = logical_and(greater(rest, number(0.0)), less(rest, number(0.25)))
    return select(tail, far, exp(0.5 * (x * x)) * math.sqrt(2 * math.pi))


_ndtri_slope_of = special("ndtri", _ndtri_slope, lambda p, x, out: (0.0, x * out))
_ndtri_of = special(
    "ndtri",
    _ndtri,
    lambda p, out: (_ndtri_slope_of(p, out),),
    lambda p: _with_root(-log(4 * (_rest(p) * (1 - _rest(p))))),
)


def _log_ndtr_partials(x: Array, out: Array) -> tuple[Any]:
    """The density over the cdf: exp(-x² / 2 - log Φ(x)) / √(2π), and below 0 by erfcx."""
    far = x < -1e9  # here the result is -x to the last place
    upper = exp_of(x * x * -0.5 - out) * (1 / math.sqrt(2 * math.pi))
    below = math.sqrt(2 / math.pi) / _erfcx_of(where(far, 1.0, magnitude(x)) * (1 / ROOT_TWO))
    below = where(far, -x, below)
    return (where(x < 0, below, upper),)


_log_ndtr_of = special("log_ndtr", _log_ndtr, _log_ndtr_partials, _logarithms)


def erfc(x: Any, /) -> Array:
    """1 - erf(x), accurate where it is small. Elementwise.

    It is exp(-x²) / (1 + 2 x) times a fit to (1 + 2 x) exp(x²) erfc(x) in (x - 4) / (x + 4). x² is split in two parts.
    Error: 4 units in the last place. Derivative: -2 exp(-x²) / √π (DLMF 7.2.2).

    >>> pb.function(lambda x: pb.special.erfc(x))(np.array([0.0, 0.5])).round(9).tolist()
    [1.0, 0.479500122]
    """
    return _erfc_of(x)


def erfcx(x: Any, /) -> Array:
    """exp(x²) erfc(x), which neither overflows nor vanishes for large x. Elementwise.

    Error: 5 units in the last place. Derivative: -2 exp(x²) i¹erfc(x) (DLMF 7.18.3), a separate fit.

    >>> pb.function(lambda x: pb.special.erfcx(x))(np.array([1.0, 1000.0])).round(9).tolist()
    [0.427583576, 0.000564189]
    """
    return _erfcx_of(x)


def erfinv(y: Any, /) -> Array:
    """The x for which erf(x) = y: infinite at -1 and 1, NaN outside. Elementwise.

    It is y times fits in w = -log(1 - y²) and in √w (Giles, *Approximating the erfinv function*, 2010; with other
    coefficients). Error: 3 units in the last place. Derivative: √π exp(x²) / 2, from DLMF 7.2.1.

    >>> pb.function(lambda x: pb.special.erfinv(x))(np.array([0.0, 0.5, 1.0])).round(9).tolist()
    [0.0, 0.476936276, inf]
    """
    return _erfinv_of(y)


def ndtr(x: Any, /) -> Array:
    """The standard normal cdf: the probability of a number below x. Elementwise.

    Error: 5 units in the last place, in the lower tail too. Derivative: the density exp(-x² / 2) / √(2π).

    >>> pb.function(lambda x: pb.special.ndtr(x))(np.array([0.0, -1.0])).round(9).tolist()
    [0.5, 0.158655254]
    """
    return _ndtr_of(x)


def ndtri(p: Any, /) -> Array:
    """The inverse of the standard normal cdf: infinite at 0 and 1, NaN outside. Elementwise.

    Error: 3 units in the last place, for the smallest p too. Derivative: √(2π) exp(x² / 2); in the tails
    √(π/2) erfcx(|x| / √2) over the smaller of p and 1 - p, whose error does not grow.

    >>> pb.function(lambda p: pb.special.ndtri(p))(np.array([0.5, 0.975, 1e-300])).round(9).tolist()
    [0.0, 1.959963985, -37.047096299]
    """
    return _ndtri_of(p)


def log_ndtr(x: Any, /) -> Array:
    """The logarithm of `ndtr`, accurate even where `ndtr` underflows. Elementwise.

    Error: 6 units in the last place. Derivative: the density over the cdf; below 0 √(2/π) / erfcx(-x/√2).

    >>> pb.function(lambda x: pb.special.log_ndtr(x))(np.array([-100.0, 1.0])).round(9).tolist()
    [-5005.524208694, -0.172753779]
    """
    return _log_ndtr_of(x)


__all__ = ["erfc", "erfcx", "erfinv", "log_ndtr", "ndtr", "ndtri"]

