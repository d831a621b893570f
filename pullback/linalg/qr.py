"""The QR decomposition by Householder's reflections, and least squares."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

from pullback.arrays.complex import conj, imag, real
from pullback.arrays.complex import make_complex as complex
from pullback.arrays.composed import diagonal
from pullback.arrays.creation import eye
from pullback.arrays.dtypes import finfo
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import sqrt, where
from pullback.arrays.manipulation import concat, matrix_transpose
from pullback.errors import ShapeError
from pullback.ir.index import cond, prove
from pullback.linalg.stacks import adjoint, each, each_solved, matrices, rescaled, square_magnitude, system
from pullback.linalg.triangular import solve_lower, solve_upper
from pullback.source import user_position
from pullback.tracing.array import Array, from_index, shape_text
from pullback.tracing.complex_array import is_complex
from pullback.tracing.control import fold, scan
from pullback.tracing.custom import emit_call
from pullback.tracing.index import build, sum_over
from pullback.tracing.making import describe
from pullback.tracing.tracer import current

BLOCK: Final = 32  # reflections applied at once
BLOCKED: Final = 192  # fewer reflections are applied one by one
PARTS: Final = 4  # of the rows; those before a part stay out of its products


class QRResult(NamedTuple):
    """The factors Q, with orthonormal columns, and R, upper triangular."""

    Q: Any
    R: Any


def qr(x: Any, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """The QR decomposition: x = Q @ R.

    Args:
        x: (..., m, n) floating-point or complex matrices. If the sizes are unknown at definition, m must be at least n.
        mode: "complete" gives all m columns of Q, a basis whose first columns span those of x.
    Returns:
        A pair (Q, R) with k the smaller size, or k = m for "complete": Q (..., m, k) with orthonormal columns,
        R (..., k, n) upper triangular. The diagonal of R is real. Its signs are those of LAPACK and are not
        normalized.
    Raises:
        ShapeError: [E104] the arrays have fewer than two axes, or the mode is unknown. [E114] a call has n > m, but
            the sizes were unknown at definition.
        DTypeError: [E121] they are not floating-point.
    Derivative:
        With C = Qᴴ ẋ R⁻¹ and Ω the antihermitian matrix of its strict lower triangle and imaginary diagonal:
        Ṙ = (C - Ω) R and Q̇ = ẋ R⁻¹ - Q (C - Ω) (Walter and Lehmann, *Algorithmic differentiation of linear algebra
        functions with application in optimum experimental design*, 2010). Without full column rank it is NaN or
        infinity. The columns that complete the basis have the smallest possible tangent. The derivative is correct
        for functions that do not depend on the choice of these columns.
    Cost:
        4 m n² multiply-adds at most, 4 m² n more for "complete"; m n² + n³ more for the derivative.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def factors(a):
    ...     return pb.linalg.qr(a)
    >>> q, r = factors(np.array([[3.0, 1.0], [4.0, 2.0]]))
    >>> (q @ r).round(12).tolist(), r.round(12).tolist()
    ([[3.0, 1.0], [4.0, 2.0]], [[-5.0, -2.2], [0.0, 0.4]])
    """
    h = matrices("qr", x, square=False)
    if mode not in ("reduced", "complete"):
        raise ShapeError(
            "E104", f"qr: there is no mode {mode!r}", position=user_position(), remedy='"reduced" or "complete"'
        )
    if prove(cond(">=", real(h).extents[-1] - real(h).extents[-2] - 1), current().known):
        rows = from_index(real(h).extents[-2])
        q, first = each("qr", _factors, h[..., :rows])  # factor the first columns; Qᴴ is applied to the others
        return QRResult(q, concat([first, adjoint(q) @ h[..., rows:]], axis=-1))
    return each("qr", _factors if mode == "reduced" else _all_factors, _tall("qr", h))  # type: ignore[no-any-return]


def lstsq(a: Any, b: Any, /) -> Array:
    """Find x with a @ x nearest to b in the 2-norm, for matrices of full column rank.

    Args:
        a: (..., m, n) floating-point or complex matrices, m >= n.
        b: (m,) or (..., m, k) right-hand sides. Leading axes of a and b broadcast.
    Returns:
        (..., n) or (..., n, k) solutions only; NumPy's `lstsq` also returns residuals, rank and singular values.
        NaN or infinity where the columns of a are linearly dependent.
    Raises:
        ShapeError: [E104] a has fewer than two axes, or more columns than rows; [E114] likewise, known only at a call.
            [E102] the rows of a and b differ.
        DTypeError: [E121] the element types are not floating-point.
    Derivative:
        With r = b - a x: ẋ = a⁺ (ḃ - ȧ x) + (aᴴ a)⁻¹ ȧᴴ r (Golub and Pereyra, *The differentiation of pseudo-inverses
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
        a, factor, _ = rescaled(m)
        out: Array = emit_call("lstsq", _least, (a, _scaled_factors(a), r), _least_jvp)
        return out * factor

    return each_solved("lstsq", one, _tall("lstsq", left), right)


def _tall(what: str, matrix: Array) -> Array:
    """Require that the matrices have at least as many rows as columns; return them."""
    h = real(matrix)
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
    return matrix


def _factors(a: Array) -> QRResult:
    x, _, back = rescaled(a)
    q, r = _scaled_factors(x)
    return QRResult(q, r * back)


def _scaled_factors(a: Array) -> QRResult:
    return emit_call("qr", _householder, (a,), _qr_jvp)  # type: ignore[no-any-return]


def _all_factors(a: Array) -> QRResult:
    q, r = _factors(a)
    m, n = a.shape
    square = real(a).extents[0] is real(a).extents[1]
    return QRResult(complete(q, not square), r if square else build((m, n), r.at))


def _householder(a: Array) -> QRResult:
    m, n = a.shape
    triangle, reflections = _triangular(a)
    r = build((n, n), lambda i, k: where(i <= k, triangle[i, k], 0))
    return QRResult(product_of(reflections, eye(m, n, dtype=a.dtype)), r)


def _triangular(a: Array) -> tuple[Array, tuple[Array, Array]]:
    """Reduce the columns to triangular form by reflections; return the result and the reflections."""
    m, n = a.shape

    def reflect(x: Array, j: Any) -> Any:
        v, scaled = reflection(build(m, lambda i: x[i, j]), j)
        return reflected(x, v, scaled, j), (v, scaled)

    return scan(n, a, reflect)


def product_of(reflections: tuple[Array, Array], start: Array) -> Array:
    """Apply the inverses of the reflections, the last one first, to the columns of a matrix.

    Vector j of the reflections is zero before element j, so a reflection changes no rows before. Many reflections are
    applied in blocks by matrix products: the last ones first, to the last rows.
    """
    vs, scales = reflections
    n, count = vs.shape[0], vs.extents[0].constant or 0
    if count < BLOCKED:
        back = lambda q, t: reflected(q, scales[n - 1 - t], vs[n - 1 - t], n - 1 - t)
        return fold(n, start, back)  # type: ignore[no-any-return]
    part = -(-count // (PARTS * BLOCK)) * BLOCK
    ends = [*range(0, count, part), count]
    done = start[count:]
    for low, high in reversed([*pairwise(ends)]):
        whole = concat([start[low:high], done])
        vectors, others = (x[low:high, low:] for x in (vs, scales))
        done = fold(-(-(high - low) // BLOCK), whole, partial(_block_applied, vectors, others))
    return done


def _block_applied(vs: Array, scales: Array, x: Array, t: Any) -> Array:
    """Apply the inverses of a block of reflections, counted from the last.

    The product of all I - v scaledᴴ is I - V T Sᴴ with T the inverse of I + the strict upper triangle of Sᴴ V (Bischof
    and Van Loan, *The WY representation for products of Householder matrices*, 1987).
    """
    n, m = vs.shape
    first = (n - 1) // BLOCK * BLOCK - t * BLOCK
    v = build((BLOCK, m), lambda c, i: vs.at(first + c, i))
    s = build((BLOCK, m), lambda c, i: conj(scales.at(first + c, i)))
    between = s @ matrix_transpose(v)

    def column(inverse: Array, c: Any) -> Array:
        def at(a: Any, k: Any) -> Any:
            known = sum_over(BLOCK, lambda j: where(j < c, inverse[a, j] * between[j, c], 0))
            return inverse[a, k] - where(k == c, known, 0)

        return build((BLOCK, BLOCK), at)  # type: ignore[no-any-return]

    along = fold(BLOCK, eye(BLOCK, dtype=v.dtype), column) @ (s @ x)
    return x - matrix_transpose(v) @ along  # type: ignore[no-any-return]


def reflection(column: Array, j: Any) -> tuple[Array, Array]:
    """The vector v and `scaled` of the unitary reflection I - scaled vᴴ.

    It makes a column zero below element j, and element j real.

    Golub and Van Loan, *Matrix computations*, chapter 5: v is the column from j on, with ±norm added to its first
    element; the sign avoids cancellation. A column that is already zero below j, or whose squares underflow there, is
    not reflected. For complex columns the factor is complex, as in LAPACK; the inverse is the adjoint I - v scaledᴴ.
    """
    m = column.shape[0]
    top = column.at(j)
    below = sum_over(m, lambda i: where(i > j, square_magnitude(column[i]), 0))
    rest = below + imag(top) * imag(top) if is_complex(top) else below
    norm = sqrt(real(top) * real(top) + rest)
    found = where(real(top) < 0, norm, -norm)
    corner = top - found
    v = build(m, lambda i: where(i > j, column[i], where(i == j, corner, 0)))
    scale = where(rest < finfo(norm.dtype).smallest_normal, 0, -1 / (found * corner))
    return v, build(m, lambda i: v[i] * scale)


def products(v: Array, x: Array, first: Any) -> Array:
    """The products vᴴ x with the columns from `first` on, for a vector that is zero before `first`.

    Columns of a large matrix come in blocks; the products of the blocks before are left out, and are 0.
    """
    m, n = x.shape
    count = real(x).extents[1].constant or 0

    def product(k: Any, needed: Any) -> Any:
        return sum_over(m, lambda i: where((i >= first) & needed, conj(v[i]) * x[i, k], 0))

    if count < BLOCKED:
        return build(n, lambda k: product(k, True))  # type: ignore[no-any-return]
    whole = count // BLOCK * BLOCK
    blocks = build((count // BLOCK, BLOCK), lambda b, k: product(b * BLOCK + k, (b + 1) * BLOCK >= first))
    parts = [build(whole, lambda k: blocks[k // BLOCK, k % BLOCK])]
    if whole < count:
        parts.append(build(count - whole, lambda k: product(whole + k, True)))
    return concat(parts)


def reflected(x: Array, v: Array, scaled: Array, first: Any) -> Array:
    """Apply a reflection, x - scaled (vᴴ x), whose vectors are zero before `first`."""
    m, n = x.shape
    along = build(n, lambda k: sum_over(m, lambda i: where(i >= first, conj(v[i]) * x[i, k], 0)))
    out: Array = build((m, n), lambda i, k: x[i, k] - where(i >= first, scaled[i] * along[k], 0))
    return out


def _qr_jvp(primals: Any, out: QRResult, tangents: Any) -> QRResult:
    # Walter and Lehmann 2010: from Ȧ = Q̇ R + Q Ṙ follows Qᴴ Ȧ R⁻¹ = Qᴴ Q̇ + Ṙ R⁻¹, antihermitian plus upper triangular
    # with a real diagonal.
    q, r = out
    x = adjoint(solve_lower(adjoint(r), adjoint(tangents[0])))  # Ȧ R⁻¹
    c = adjoint(q) @ x
    strict: Array = build(c.shape, lambda i, k: where(i > k, c[i, k], 0))
    upper = c - strict + adjoint(strict)
    if is_complex(c):
        turn = imag(diagonal(c))
        upper = upper - complex(0.0, build(c.shape, lambda i, k: where(i == k, turn[i], 0)))
    return QRResult(x - q @ upper, upper @ r)


# Bases --------------------------------------------------------------------------------------------------------------


def complete(q: Array, whole: bool) -> Array:
    """Replace zero columns so that all are orthonormal; with `whole`, add columns up to the row count."""
    out: Array = emit_call("complete", _basis, (q, whole), _complete_jvp)
    return out


def _basis(q: Array, whole: bool) -> Array:
    m, n = q.shape
    columns = m if whole else n
    triangle, reflections = _triangular(q)
    others = product_of(reflections, eye(m, columns, dtype=q.dtype))
    given = build(columns, lambda k: magnitude(triangle.at(k, k)) > 0.5)  # columns have norm 1 or 0
    return build((m, columns), lambda i, k: where(given[k], q.at(i, k), others[i, k]))  # type: ignore[no-any-return]


def _complete_jvp(primals: Any, out: Array, tangents: Any) -> Array:
    # From Qᴴ Q = I: q̇ᴴ Q₂ + qᴴ Q̇₂ = 0 for the other columns Q₂; Q₂ᴴ Q̇₂ is chosen to be 0.
    (q, whole), (q_dot, _) = primals, tangents
    if not whole:
        return q_dot  # type: ignore[no-any-return]
    others = q @ (adjoint(q_dot) @ out)
    return build(out.shape, lambda i, k: where(k < q.shape[1], q_dot.at(i, k), -others[i, k]))  # type: ignore[no-any-return]


# Least squares ------------------------------------------------------------------------------------------------------


def _least(a: Array, f: QRResult, b: Array) -> Array:
    return solve_upper(f.R, adjoint(f.Q) @ b)


def _least_jvp(primals: Any, x: Array, tangents: Any) -> Array:
    # Golub and Pereyra 1973, from aᴴ (b - a x) = 0; with a = Q R, a⁺ = R⁻¹ Qᴴ and (aᴴ a)⁻¹ = R⁻¹ R⁻ᴴ. The tangents
    # of the factors follow from ȧ, so they are not read.
    (a, (q, r), b), (a_dot, _, b_dot) = primals, tangents
    inner = solve_lower(adjoint(r), adjoint(a_dot) @ (b - a @ x))
    return solve_upper(r, adjoint(q) @ (b_dot - a_dot @ x) + inner)
