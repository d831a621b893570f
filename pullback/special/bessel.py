"""Bessel functions of the orders 0 and 1: J, Y, I and K.

Up to a limit they are fits in x², with the logarithm of DLMF 10.8.1 and 10.31.1 as a separate factor. Beyond it they
are fits to modulus and phase (10.17.3), or to the factor of e^±x / √x (10.40).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import exp as exp_of
from pullback.arrays.elementwise import sign as sign_of
from pullback.arrays.elementwise import where
from pullback.ir import nodes as ir
from pullback.ir.expr import apply, select
from pullback.ir.notation import cos, equal, exp, less, log, sign, sin, sqrt
from pullback.special import tables as t
from pullback.special.elements import Function, Kernel, fitted, number, special
from pullback.tracing.array import Array

BY_PI = 2 / math.pi
LIMIT = 5.0  # of J and Y
FAR = 8.0  # of I
NEAR = 2.0  # of K


def _waves(order: int, x: ir.Scalar) -> tuple[ir.Scalar, ir.Scalar]:
    """Bessel functions J and Y above the limit, from sin x and cos x with angle x - π/4 or x - 3π/4."""
    inverse = LIMIT / x
    square = inverse * inverse
    p = fitted((t.P0, t.P1)[order], square, 0, 1)
    q = fitted((t.Q0, t.Q1)[order], square, 0, 1) / x
    scale, s, c = sqrt(1 / (math.pi * x)), sin(x), cos(x)
    cosine, sine = (c + s, s - c) if order == 0 else (s - c, -(s + c))
    return scale * (p * cosine - q * sine), scale * (p * sine + q * cosine)


def _low(x: ir.Scalar) -> ir.Scalar:
    """The square of `x`, clamped to the limit: fits evaluated outside their interval must not overflow."""
    low = apply("minimum", x, number(LIMIT))
    return low * low


def _j(order: int) -> Kernel:
    def kernel(x: ir.Scalar) -> ir.Scalar:
        size = apply("abs", x)
        near = fitted((t.J0, t.J1)[order], _low(size), 0, LIMIT**2)
        far = _waves(order, size)[0]
        far = select(less(number(1e300), size), number(0.0), far)
        if order:
            near, far = x * near, sign(x) * far
        return select(less(size, number(LIMIT)), near, far)

    return kernel


def _y0(x: ir.Scalar) -> ir.Scalar:
    low = _low(x)
    near = BY_PI * (log(x) * fitted(t.J0, low, 0, LIMIT**2)) + fitted(t.Y0, low, 0, LIMIT**2)
    return select(less(x, number(LIMIT)), near, select(less(number(1e300), x), number(0.0), _waves(0, x)[1]))


def _y1(x: ir.Scalar) -> ir.Scalar:
    low = _low(x)
    logarithm = log(select(equal(x, number(0.0)), number(1.0), x))  # times 0
    inner = BY_PI * (logarithm * (x * fitted(t.J1, low, 0, LIMIT**2)) - 1 / x)
    near = inner + x * fitted(t.Y1, low, 0, LIMIT**2)
    return select(less(x, number(LIMIT)), near, select(less(number(1e300), x), number(0.0), _waves(1, x)[1]))


def _i_scaled(order: int) -> Kernel:
    """exp(-|x|) I(x)."""

    def kernel(x: ir.Scalar) -> ir.Scalar:
        size = apply("abs", x)
        near = fitted((t.I0E, t.I1E)[order], apply("minimum", size, number(FAR)), 0, FAR)
        far = fitted((t.I0E_FAR, t.I1E_FAR)[order], FAR / size, 0, 1) / sqrt(size)
        if order:
            near, far = x * near / (1 + size), sign(x) * far
        return select(less(size, number(FAR)), near, far)

    return kernel


def _i(order: int) -> Kernel:
    scaled = _i_scaled(order)

    def kernel(x: ir.Scalar) -> ir.Scalar:
        size = apply("abs", x)
        half = exp(0.5 * apply("minimum", size, number(1000.0)))  # exp(|x|) itself overflows before the result does
        return half * (scaled(apply("maximum", apply("minimum", x, number(1000.0)), number(-1000.0))) * half)

    return kernel


def _k(order: int, scaled: bool) -> Kernel:
    def kernel(x: ir.Scalar) -> ir.Scalar:
        low = apply("minimum", x, number(NEAR))
        square = low * low
        grown = fitted((t.I0, t.I1)[order], square, 0, NEAR**2)
        rest = fitted((t.K0, t.K1)[order], square, 0, NEAR**2)
        tiny = less(low, number(1e-300))  # whose half may vanish
        half = low * select(tiny, number(2.0**100), number(0.5))
        if order:  # times 0
            half = select(equal(low, number(0.0)), number(1.0), half)
        logarithm = log(half) - select(tiny, number(101 * math.log(2)), number(0.0))
        near = rest - logarithm * grown if order == 0 else x * (rest + logarithm * grown) + 1 / x
        far = fitted((t.K0_FAR, t.K1_FAR)[order], NEAR / apply("maximum", x, number(NEAR)), 0, 1) / sqrt(x)
        if scaled:
            return select(less(x, number(NEAR)), exp(low) * near, far)
        return select(less(x, number(NEAR)), near, exp(-x) * far)

    return kernel


def _even(name: str, row: tuple[float, ...], limit: float, odd: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Make the function odd(x) / x; near 0 it is a fit in x², with correct derivatives of any order."""

    def kernel(x: ir.Scalar) -> ir.Scalar:
        near = select(less(apply("abs", x), number(limit)), x, number(0.0))
        return fitted(row, near * near, 0, limit**2)

    fit = special(name, kernel)

    def function(x: Array) -> Array:
        near = magnitude(x) < limit
        return where(near, fit(x), odd(where(near, limit, x)) / where(near, limit, x))

    return function


_j1_over = _even("j1", t.J1, LIMIT, lambda x: _j1(x))
_i1_over = _even("i1", t.I1, NEAR, lambda x: _i1(x))


def _i1e_over(x: Array) -> Array:
    near = magnitude(x) < NEAR
    safe = where(near, NEAR, x)
    return where(near, exp_of(-magnitude(x)) * _i1_over(where(near, x, 0.0)), _i1e(safe) / safe)


_j0: Function = special("j0", _j(0), lambda x, out: (-_j1(x),))
_j1: Function = special("j1", _j(1), lambda x, out: (_j0(x) - _j1_over(x),))
_y0_of: Function = special("y0", _y0, lambda x, out: (-_y1_of(x),))
_y1_of: Function = special("y1", _y1, lambda x, out: (_y0_of(x) - out / x,))
_i0: Function = special("i0", _i(0), lambda x, out: (_i1(x),))
_i1: Function = special("i1", _i(1), lambda x, out: (_i0(x) - _i1_over(x),))
_i0e: Function = special("i0e", _i_scaled(0), lambda x, out: (_i1e(x) - sign_of(x) * out,))
_i1e: Function = special("i1e", _i_scaled(1), lambda x, out: (_i0e(x) - sign_of(x) * out - _i1e_over(x),))
_k0: Function = special("k0", _k(0, False), lambda x, out: (-_k1(x),))
_k1: Function = special("k1", _k(1, False), lambda x, out: (-_k0(x) - out / x,))


def j0(x: Any, /) -> Array:
    """Bessel's function of the first kind of order 0. Elementwise.

    Error: 6 units in the last place of the larger of the result and the amplitude √(2 / (π x)). Derivative: -j1
    (DLMF 10.6.3).

    >>> pb.function(lambda x: pb.special.j0(x))(np.array([0.0, 2.0])).round(9).tolist()
    [1.0, 0.223890779]
    """
    return _j0(x)


def j1(x: Any, /) -> Array:
    """Bessel's function of the first kind of order 1. Elementwise.

    Error: as for `j0`. Derivative: j0 - j1 / x (DLMF 10.6.2).

    >>> pb.function(lambda x: pb.special.j1(x))(np.array([0.0, 2.0])).round(9).tolist()
    [0.0, 0.576724808]
    """
    return _j1(x)


def y0(x: Any, /) -> Array:
    """Bessel's function of the second kind of order 0, for x > 0. Elementwise.

    Error: as for `j0`. Derivative: -y1 (DLMF 10.6.3).

    >>> pb.function(lambda x: pb.special.y0(x))(np.array([2.0])).round(9).tolist()
    [0.510375673]
    """
    return _y0_of(x)


def y1(x: Any, /) -> Array:
    """Bessel's function of the second kind of order 1, for x > 0. Elementwise.

    Error: as for `j0`. Derivative: y0 - y1 / x (DLMF 10.6.2).

    >>> pb.function(lambda x: pb.special.y1(x))(np.array([2.0])).round(9).tolist()
    [-0.107032432]
    """
    return _y1_of(x)


def i0(x: Any, /) -> Array:
    """The modified Bessel function of the first kind of order 0. Elementwise.

    Error: 6 units in the last place. Derivative: i1 (DLMF 10.29.3).

    >>> pb.function(lambda x: pb.special.i0(x))(np.array([0.0, 2.0])).round(9).tolist()
    [1.0, 2.279585302]
    """
    return _i0(x)


def i1(x: Any, /) -> Array:
    """The modified Bessel function of the first kind of order 1. Elementwise.

    Error: 4 units in the last place. Derivative: i0 - i1 / x (DLMF 10.29.2).

    >>> pb.function(lambda x: pb.special.i1(x))(np.array([0.0, 2.0])).round(9).tolist()
    [0.0, 1.590636855]
    """
    return _i1(x)


def i0e(x: Any, /) -> Array:
    """exp(-|x|) i0(x). Elementwise.

    Error: 4 units in the last place. Derivative: i1e - sign(x) i0e.

    >>> pb.function(lambda x: pb.special.i0e(x))(np.array([0.0, 1e4])).round(9).tolist()
    [1.0, 0.003989473]
    """
    return _i0e(x)


def i1e(x: Any, /) -> Array:
    """exp(-|x|) i1(x). Elementwise.

    Error: 3 units in the last place. Derivative: i0e - (sign(x) + 1 / x) i1e.

    >>> pb.function(lambda x: pb.special.i1e(x))(np.array([0.0, 1e4])).round(9).tolist()
    [0.0, 0.003989273]
    """
    return _i1e(x)


def k0(x: Any, /) -> Array:
    """The modified Bessel function of the second kind of order 0, for x > 0. Elementwise.

    Error: 4 units in the last place. Derivative: -k1 (DLMF 10.29.3).

    >>> pb.function(lambda x: pb.special.k0(x))(np.array([2.0])).round(9).tolist()
    [0.113893873]
    """
    return _k0(x)


def k1(x: Any, /) -> Array:
    """The modified Bessel function of the second kind of order 1, for x > 0. Elementwise.

    Error: 4 units in the last place. Derivative: -k0 - k1 / x (DLMF 10.29.2).

    >>> pb.function(lambda x: pb.special.k1(x))(np.array([2.0])).round(9).tolist()
    [0.139865882]
    """
    return _k1(x)


__all__ = ["i0", "i0e", "i1", "i1e", "j0", "j1", "k0", "k1", "y0", "y1"]
