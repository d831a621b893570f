"""The QR decomposition by Householder's reflections, and least squares."""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.errors import ShapeError
from pullback.ir.index import cond, prove
from pullback.lang.array import Array
from pullback.lang.control import fold, scan
from pullback.lang.custom import emit_call
from pullback.lang.functions import abs as magnitude
from pullback.lang.functions import sqrt
from pullback.lang.handle import describe, from_index, shape_text
from pullback.lang.index import build, sum_over, where
from pullback.lang.manipulation import concat, matrix_transpose
from pullback.lang.trace import current
from pullback.linalg.stacks import each, each_solved, matrices, system
from pullback.linalg.triangular import solve_lower, solve_upper
from pullback.source import user_position


class QRResult(NamedTuple):
    """Orthonormal columns and an upper triangular matrix."""

    Q: Any
    R: Any


def qr(x: Any, /) -> QRResult:
    """The reduced QR decomposition: x = Q @ R.

    Args:
        x: (..., m, n) floating-point matrices. Where it is not known which extent is larger, m has to be at least n.
    Returns:
        A pair (Q, R) with k the smaller extent: Q (..., m, k) with orthonormal columns, R (..., k, n) upper triangular,
        with the signs of LAPACK: those on the diagonal of R are what the reflections leave.
    Raises:
        ShapeError: [E104] the arrays have fewer than two axes; [E114] a call has n > m where that was not known.
        DTypeError: [E121] they are not floating-point.
    Derivative:
        With C = Qᵀ ẋ R⁻¹ and Ω the antisymmetric matrix of its strict lower triangle: Ṙ = (C - Ω) R and
        Q̇ = ẋ R⁻¹ - Q (C - Ω) (Walter and Lehmann, *Algorithmic differentiation of linear algebra functions with
        application in optimum experimental design*, 2010). It needs full column rank; NaN or infinity without.
    Cost:
        4 m n² multiply-adds at most; m n² + n³ more for the derivative.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def factors(a):
    ...     return pb.linalg.qr(a)
    >>> q, r = factors(np.array([[3.0, 1.0], [4.0, 2.0]]))
    >>> (q @ r).round(12).tolist(), r.round(12).tolist()
    ([[3.0, 1.0], [4.0, 2.0]], [[-5.0, -2.2], [0.0, 0.4]])
    """
    h = matrices("qr", x, square=False)
    if not prove(cond(">=", h.extents[-1] - h.extents[-2] - 1), current().known):
        return each("qr", _factors, _tall("qr", h))  # type: ignore[no-any-return]
    rows = from_index(h.extents[-2])
    q, first = each("qr", _factors, h[..., :rows])  # of the first columns; the others are turned by it
    return QRResult(q, concat([first, matrix_transpose(q) @ h[..., rows:]], axis=-1))


def lstsq(a: Any, b: Any, /) -> Array:
    """The x for which a @ x is nearest to b in the 2-norm, for matrices of full column rank.

    Args:
        a: (..., m, n) floating-point matrices, m >= n.
        b: (m,) or (..., m, k) right-hand sides. Leading axes of a and b broadcast.
    Returns:
        (..., n) or (..., n, k) solutions alone, where NumPy's `lstsq` gives residuals, rank and singular values too.
        NaN or infinity where columns of a depend on one another.
    Raises:
        ShapeError: [E104] a has fewer than two axes, or more columns than rows; [E114] a call has. [E102] the rows of a
            and b differ.
        DTypeError: [E121] the element types are not floating-point.
    Derivative:
        With r = b - a x: ẋ = a⁺ (ḃ - ȧ x) + (aᵀ a)⁻¹ ȧᵀ r (Golub and Pereyra, *The differentiation of pseudo-inverses
        and nonlinear least squares problems whose variables separate*, 1973), by the factors of a.
    Cost:
        4 m n² multiply-adds at most for the factors; m n k + n² k / 2 for a solution; m n k + n² k for the derivative.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def line(a, b):
    ...     return pb.linalg.lstsq(a, b)
    >>> x = np.array([0.0, 1.0, 2.0, 3.0])
    >>> line(np.stack([x, np.ones(4)], axis=1), 2 * x + 1).round(12).tolist()
    [2.0, 1.0]
    """
    left, right = system("lstsq", a, b, square=False)

    def one(m: Array, r: Array) -> Array:
        out: Array = emit_call("lstsq", _least, (m, _factors(m), r), _least_jvp)
        return out

    return each_solved("lstsq", one, _tall("lstsq", left), right)


def _tall(what: str, h: Array) -> Array:
    """The matrices, which have at least as many rows as columns from here on."""
    more = cond(">=", h.extents[-2] - h.extents[-1])
    if more is False or prove(cond(">=", h.extents[-1] - h.extents[-2] - 1)):
        raise ShapeError(
            "E104",
            f"{what} takes matrices with at least as many rows as columns, and {h.name or 'the array'} is "
            f"{shape_text(h.extents)}",
            position=user_position(),
            facts=[describe(h, "array")],
        )
    current().require(more)
    return h


def _factors(a: Array) -> QRResult:
    return emit_call("qr", _householder, (a,), _qr_jvp)  # type: ignore[no-any-return]


def _householder(a: Array) -> QRResult:
    """Reflections I - scale v vᵀ that bring a to triangular form, and their product.

    Golub and Van Loan, *Matrix computations*, chapter 5: v is column j from its diagonal on, with ±norm added to its
    first element, in whose sign nothing cancels. Where nothing is below the diagonal, nothing is reflected.
    """
    m, n = a.shape

    def reflect(x: Array, j: Any) -> Any:
        below = sum_over(m, lambda i: where(i > j, x[i, j] * x[i, j], 0))
        norm = sqrt(x[j, j] * x[j, j] + below)
        corner = where(x[j, j] < 0, x[j, j] - norm, x[j, j] + norm)
        v = build(m, lambda i: where(i > j, x[i, j], where(i == j, corner, 0)))
        scale = where(below == 0, 0, 1 / (norm * magnitude(corner)))  # 2 / (vᵀ v)
        scaled = build(m, lambda i: v[i] * scale)
        return _reflected(x, v, scaled, j), (v, scaled)

    triangle, (vs, scaled) = scan(n, a, reflect)

    def back(q: Array, t: Any) -> Array:
        j = n - 1 - t
        return _reflected(q, vs[j], scaled[j], j)

    columns = build((m, n), lambda i, k: where(i == k, 1, 0)).astype(a.dtype)
    r = build((n, n), lambda i, k: where(i <= k, triangle[i, k], 0))
    return QRResult(fold(n, columns, back), r)


def _reflected(x: Array, v: Array, scaled: Array, first: Any) -> Array:
    """X - scaled (vᵀ x), where both vectors are zero before `first`."""
    m, n = x.shape
    along = build(n, lambda k: sum_over(m, lambda i: where(i >= first, v[i] * x[i, k], 0)))
    out: Array = build((m, n), lambda i, k: x[i, k] - where(i >= first, scaled[i] * along[k], 0))
    return out


def _qr_jvp(primals: Any, out: QRResult, tangents: Any) -> QRResult:
    # Walter and Lehmann 2010: from Ȧ = Q̇ R + Q Ṙ follows Qᵀ Ȧ R⁻¹ = Qᵀ Q̇ + Ṙ R⁻¹, antisymmetric plus upper triangular.
    q, r = out
    x = matrix_transpose(solve_lower(r, matrix_transpose(tangents[0]), transpose=True))  # Ȧ R⁻¹
    c = matrix_transpose(q) @ x
    strict: Array = build(c.shape, lambda i, k: where(i > k, c[i, k], 0))
    upper = c - strict + matrix_transpose(strict)
    return QRResult(x - q @ upper, upper @ r)


def _least(a: Array, f: QRResult, b: Array) -> Array:
    return solve_upper(f.R, matrix_transpose(f.Q) @ b)


def _least_jvp(primals: Any, x: Array, tangents: Any) -> Array:
    # Golub and Pereyra 1973, from aᵀ (b - a x) = 0; with a = Q R, a⁺ = R⁻¹ Qᵀ and (aᵀ a)⁻¹ = R⁻¹ R⁻ᵀ. How the factors
    # change follows from ȧ, so their tangents are not read.
    (a, (q, r), b), (a_dot, _, b_dot) = primals, tangents
    inner = solve_lower(r, matrix_transpose(a_dot) @ (b - a @ x), transpose=True)
    return solve_upper(r, matrix_transpose(q) @ (b_dot - a_dot @ x) + inner)
