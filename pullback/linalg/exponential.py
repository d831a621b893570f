"""Functions of square matrices: the exponential and the square root."""

from __future__ import annotations

from typing import Any

from pullback.arrays.creation import eye
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import ceil, exp, log2, maximum, where
from pullback.arrays.reduction import max as largest
from pullback.arrays.reduction import sum as total
from pullback.linalg.lu import inv, slogdet, solve
from pullback.linalg.stacks import constant, each, matrices
from pullback.tracing.array import Array
from pullback.tracing.branches import cond as either
from pullback.tracing.control import fold


def expm(x: Any, /) -> Array:
    """The exponential of square matrices, by scaling and squaring.

    Args:
        x: (..., n, n) floating-point or complex matrices.
    Returns:
        (..., n, n): the Padé approximant of order 13 of x / 2^s, squared s times, with ‖x / 2^s‖ at most 5.37 in the
        1-norm (Higham, *The scaling and squaring method for the matrix exponential revisited*, 2005).
    Derivative:
        The steps of the algorithm are differentiated.
    Cost:
        Seven products, a solve, and s products more.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def turned(a):
    ...     return pb.linalg.expm(a)
    >>> turned(np.array([[0.0, np.pi / 2], [-np.pi / 2, 0.0]])).round(12).tolist()
    [[0.0, 1.0], [-1.0, 0.0]]
    """
    out: Array = each("expm", _one_expm, matrices("expm", x))
    return out


def _one_expm(a: Array) -> Array:
    size = constant(largest(total(magnitude(a), axis=0)))
    squarings = maximum(ceil(log2(maximum(size, 1e-30) / 5.371920351148152)), 0.0)
    scale = constant(2.0**-squarings)
    b = a * scale
    c = [1.0]
    for k in range(13):  # c[k + 1] / c[k] of Padé's approximant of order 13
        c.append(c[-1] * (13 - k) / ((26 - k) * (k + 1)))
    one = eye(a.shape[0], dtype=a.dtype)
    b2 = b @ b
    b4 = b2 @ b2
    b6 = b4 @ b2
    odd = b @ (b6 @ (c[13] * b6 + c[11] * b4 + c[9] * b2) + c[7] * b6 + c[5] * b4 + c[3] * b2 + c[1] * one)
    even = b6 @ (c[12] * b6 + c[10] * b4 + c[8] * b2) + c[6] * b6 + c[4] * b4 + c[2] * b2 + c[0] * one
    first = solve(even - odd, even + odd)

    def square(y: Array, k: Any) -> Array:
        out: Array = either(k < squarings, lambda z: z @ z, lambda z: z, y)
        return out

    out: Array = fold(64, first, square)
    return out


def sqrtm(x: Any, /) -> Array:
    """The principal square root of square matrices without eigenvalues on the negative real axis or at 0.

    Args:
        x: (..., n, n) floating-point or complex matrices.
    Returns:
        (..., n, n) roots y with y @ y = x, by 20 steps of the product form of Denman and Beavers' iteration (Higham,
        *Functions of matrices*, 2008, 6.29), scaled by the determinant; NaN where there is no root.
    Derivative:
        The steps of the algorithm are differentiated.
    Cost:
        20 inverses and products.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def root(a):
    ...     return pb.linalg.sqrtm(a)
    >>> root(np.array([[4.0, 1.0], [0.0, 9.0]])).round(9).tolist()
    [[2.0, 0.2], [0.0, 3.0]]
    """
    out: Array = each("sqrtm", _one_sqrtm, matrices("sqrtm", x))
    return out


def _one_sqrtm(a: Array) -> Array:
    n = a.shape[0]
    one = eye(n, dtype=a.dtype)

    def step(state: Any, k: Any) -> Any:
        m, y = state
        scale = where(k < 6, exp(slogdet(constant(m)).logabsdet * (-0.5 / n)), 1.0)
        square = scale * scale
        inverted = inv(m) / square
        return 0.5 * (one + (square * m + inverted) / 2), 0.5 * scale * (y + y @ inverted)

    root: Array = fold(20, (a, a), step)[1]
    return root
