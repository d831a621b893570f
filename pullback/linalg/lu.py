"""General square systems by elimination with row pivoting: solve, inv, det, slogdet."""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.arrays.complex import conj, imag, real
from pullback.arrays.complex import make_complex as complex
from pullback.arrays.composed import diagonal, prod
from pullback.arrays.creation import eye, full, ones, zeros
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import log, sign, where
from pullback.arrays.manipulation import matrix_transpose
from pullback.arrays.reduction import sum
from pullback.linalg.stacks import adjoint, constant, each, each_solved, matrices, system
from pullback.linalg.triangular import back_substitution, forward_substitution
from pullback.tracing.array import Array
from pullback.tracing.complex_array import is_complex
from pullback.tracing.control import scan
from pullback.tracing.custom import emit_call
from pullback.tracing.index import argmax_over, build, sum_over


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its magnitude."""

    sign: Any
    logabsdet: Any


class Factors(NamedTuple):
    """LU factors with `a[order] = lower @ upper`, as constants; only the matrix carries a derivative.

    Attributes:
        lower: unit lower triangular, (n, n).
        upper: upper triangular, (n, n).
        order: the row of a at each row of the factors, (n,).
        place: the inverse permutation of `order`: the new row of each row of a.
    """

    lower: Any
    upper: Any
    order: Any
    place: Any


def solve(x1: Any, x2: Any, /) -> Array:
    """Solve x1 @ x = x2 for x.

    Args:
        x1: (..., n, n) floating-point or complex matrices.
        x2: (n,) or (..., n, k) right-hand sides. Leading axes of x1 and x2 broadcast.
    Returns:
        (..., n) or (..., n, k) solutions; infinity or NaN for a singular x1, without an error.
    Raises:
        ShapeError: [E104] the matrices are not square. [E102] their rows and those of x2 differ.
        DTypeError: [E121] the element types are not floating-point.
    Derivative:
        With x̄ the cotangent of x: x̄2 = x1⁻ᴴ x̄ and x̄1 = -x̄2 xᴴ (Giles, *Collected matrix derivative results for forward
        and reverse mode algorithmic differentiation*, 2008, matrix inverse product). The factors are reused.
    Cost:
        n³ multiply-adds for the factors, in rows that vectorize; n² k for each solve. The derivative adds a solve.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def solved(a, b):
    ...     return pb.linalg.solve(a, b)
    >>> solved(np.array([[0.0, 2.0], [4.0, 0.0]]), np.array([2.0, 4.0])).tolist()
    [1.0, 1.0]
    """
    left, right = system("solve", x1, x2)
    return each_solved("solve", lambda a, b: _solved(a, eliminated(a), b), left, right)


def inv(x: Any, /) -> Array:
    """The inverse of square matrices.

    Args:
        x: (..., n, n) floating-point or complex matrices.
    Returns:
        (..., n, n) inverses; infinity or NaN for a singular x, without an error.
    Raises:
        ShapeError: [E104] the matrices are not square.
        DTypeError: [E121] they are not floating-point.
    Derivative:
        With y the inverse: ẏ = -y ẋ y (Giles 2008, inverse).
    Cost:
        2 n³ multiply-adds; 2 n³ for the derivative. To apply an inverse, `solve` is cheaper and more accurate.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def inverse(a):
    ...     return pb.linalg.inv(a)
    >>> inverse(np.array([[0.0, 2.0], [4.0, 0.0]])).tolist()
    [[0.0, 0.25], [0.5, 0.0]]
    """

    def one(a: Array) -> Array:
        out: Array = emit_call("inv", _inverse, (a, eliminated(a)), _inverse_jvp)
        return out

    out: Array = each("inv", one, matrices("inv", x))
    return out


def det(x: Any, /) -> Array:
    """The determinant of square matrices.

    Args:
        x: (..., n, n) floating-point or complex matrices.
    Returns:
        (...) determinants, 0 for singular matrices up to rounding. `slogdet` neither overflows nor underflows.
    Raises:
        ShapeError: [E104] the matrices are not square.
        DTypeError: [E121] they are not floating-point.
    Derivative:
        Jacobi's formula, ẏ = Σ C ∘ ẋ with the cofactors C (Giles 2008, determinant). They are computed without
        division by a pivot, so the gradient holds for singular matrices too. Second derivatives divide by the
        determinant, so they are NaN for singular matrices.
    Cost:
        n³ multiply-adds; 2 n³ for the gradient.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def volume(a):
    ...     return pb.linalg.det(a)
    >>> float(volume(np.array([[0.0, 2.0], [4.0, 1.0]])))
    -8.0
    >>> pb.grad(volume)(np.array([[0.0, 0.0], [4.0, 1.0]])).tolist()
    [[1.0, -4.0], [0.0, 0.0]]
    """

    def one(a: Array) -> Array:
        out: Array = emit_call("det", _determinant, (a, eliminated(a)), _determinant_jvp)
        return out

    out: Array = each("det", one, matrices("det", x))
    return out


def slogdet(x: Any, /) -> SlogdetResult:
    """The sign of the determinant of square matrices, and the logarithm of its magnitude.

    Args:
        x: (..., n, n) floating-point or complex matrices.
    Returns:
        A pair (sign, logabsdet) of shape (...): sign * exp(logabsdet) is the determinant; (0, -inf) where it is 0.
    Raises:
        ShapeError: [E104] the matrices are not square.
        DTypeError: [E121] they are not floating-point.
    Derivative:
        The logarithm has the tangent trace(x⁻¹ ẋ) (Giles 2008, determinant); the sign has 0.
    Cost:
        n³ multiply-adds; as many for the gradient, which is x⁻ᵀ.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def logarithm(a):
    ...     return pb.linalg.slogdet(a)
    >>> sign, value = logarithm(np.array([[0.0, 2.0], [0.5, 1.0]]))
    >>> float(sign), float(value)
    (-1.0, 0.0)
    """

    def one(a: Array) -> Any:
        return emit_call("slogdet", _log_determinant, (a, eliminated(a)), _log_determinant_jvp)

    return each("slogdet", one, matrices("slogdet", x))  # type: ignore[no-any-return]


# Elimination --------------------------------------------------------------------------------------------------------


def eliminated(a: Array) -> Factors:
    """Compute the LU factors of a matrix without moving its rows.

    In step j, partial pivoting chooses among the remaining rows. It takes the row with the largest element in column
    j after subtracting the previous steps. Column j of the lower and row j of the upper factor follow from a and
    those steps. Nothing else is written: both factors are stored with the step as first axis, the row or column last.
    """
    a = constant(a)
    n = a.shape[0]
    if real(a).extents[0].constant == 0:  # an empty matrix has no pivot
        nothing = zeros((0,), dtype="int64")
        return Factors(a, a, nothing, nothing)

    def step(state: Any, j: Any) -> Any:
        down, upper, used = state  # down[k, i] = lower[place of row i, k]
        column = build(n, lambda i: a[i, j] - sum_over(j, lambda k: upper[k, j] * down[k, i]))
        pivot = argmax_over(n, lambda i: where(used[i], -1, magnitude(column[i])))
        left, right = build(n, lambda k: (down[k, pivot], a[pivot, k]))
        row = build(n, lambda c: right[c] - sum_over(j, lambda k: left[k] * upper[k, c]))
        top = column[pivot]
        open_rows = build(n, lambda i: used[i] | (i == pivot))
        share = build(n, lambda i: where(open_rows[i] | (top == 0), 0, column[i] / top))
        down = build((n, n), lambda k, i: down[k, i] + where(k == j, share[i], 0))
        upper = build((n, n), lambda k, c: upper[k, c] + where((k == j) & (c >= j), row[c], 0))
        return (down, upper, open_rows), pivot

    start = (zeros((n, n), dtype=a.dtype), zeros((n, n), dtype=a.dtype), full(n, False))
    (down, upper, _), order = scan(n, start, step)
    lower = build((n, n), lambda i, k: where(i == k, 1, where(i > k, down[k, order[i]], 0)))
    place = build(n, lambda r: argmax_over(n, lambda i: where(order[i] == r, 1, 0)))
    return Factors(lower, upper, order, place)


def _apply(f: Factors, b: Array) -> Array:
    """A⁻¹ b: L y = b[order], U x = y."""
    return back_substitution(f.upper, forward_substitution(f.lower, build(b.shape, lambda i, c: b[f.order[i], c])))


def _apply_adjoint(f: Factors, b: Array) -> Array:
    """A⁻ᴴ b: Uᴴ y = b, Lᴴ z = y, and x[order] = z."""
    y = forward_substitution(adjoint(f.upper), b)
    return _unordered(f, back_substitution(adjoint(f.lower), y))


def _unordered(f: Factors, z: Array) -> Array:
    out: Array = build(z.shape, lambda r, c: z[f.place[r], c])
    return out


# Giles 2008, matrix inverse product X = A⁻¹ B.  Ẋ = A⁻¹ (Ḃ - Ȧ X);  B̄ = A⁻ᴴ X̄, Ā = -B̄ Xᴴ.  The same for Y = A⁻ᴴ B.


def _solved(a: Array, f: Factors, b: Array) -> Array:
    out: Array = emit_call("solve", _solution, (a, f, b), _solve_jvp, _solve_vjp)
    return out


def _solved_adjoint(a: Array, f: Factors, b: Array) -> Array:
    out: Array = emit_call("solve_adjoint", _adjoint_solution, (a, f, b), _solve_adjoint_jvp, _solve_adjoint_vjp)
    return out


def _solution(a: Array, f: Factors, b: Array) -> Array:
    return _apply(f, b)


def _adjoint_solution(a: Array, f: Factors, b: Array) -> Array:
    return _apply_adjoint(f, b)


def _solve_jvp(primals: Any, x: Array, tangents: Any) -> Array:
    (a, f, _), (a_dot, _, b_dot) = primals, tangents
    return _solved(a, f, b_dot - a_dot @ x)


def _solve_vjp(primals: Any, x: Array, x_bar: Array) -> Any:
    a, f, _ = primals
    b_bar = _solved_adjoint(a, f, x_bar)
    return -(b_bar @ adjoint(x)), None, b_bar


def _solve_adjoint_jvp(primals: Any, x: Array, tangents: Any) -> Array:
    (a, f, _), (a_dot, _, b_dot) = primals, tangents
    return _solved_adjoint(a, f, b_dot - adjoint(a_dot) @ x)


def _solve_adjoint_vjp(primals: Any, x: Array, x_bar: Array) -> Any:
    a, f, _ = primals
    b_bar = _solved(a, f, x_bar)
    return -(x @ adjoint(b_bar)), None, b_bar


def _inverse(a: Array, f: Factors) -> Array:
    return _apply(f, eye(a.shape[0], dtype=a.dtype))


def _inverse_jvp(primals: Any, inverse: Array, tangents: Any) -> Array:
    return -(inverse @ tangents[0] @ inverse)  # type: ignore[no-any-return]  # Giles 2008, inverse: from Ȧ A⁻¹ + A (A⁻¹)˙ = 0


# Determinants -------------------------------------------------------------------------------------------------------


def _parity(order: Array, dtype: Any) -> Array:
    """The sign of a permutation: -1 to the power of the number of inversions."""
    n = order.shape[0]
    out_of_order = sum_over((n, n), lambda i, k: where((i < k) & (order[i] > order[k]), 1, 0))
    return 1 - 2 * (out_of_order % 2).astype(dtype)  # type: ignore[no-any-return]


def _determinant(a: Array, f: Factors) -> Array:
    return _parity(f.order, real(a).dtype) * prod(diagonal(f.upper))


def _determinant_jvp(primals: Any, determinant: Array, tangents: Any) -> Array:
    a, f = primals  # Giles 2008, determinant, with det(A) A⁻ᵀ = C
    return sum(_cofactors(a, determinant, f) * tangents[0])


def _cofactors(a: Array, determinant: Array, f: Factors) -> Array:
    out: Array = emit_call("cofactors", _cofactors_of, (a, determinant, f), _cofactors_jvp)
    return out


def _cofactors_of(a: Array, determinant: Array, f: Factors) -> Array:
    """The cofactors C = adj(A)ᵀ = ±Pᵀ L⁻ᵀ adj(U)ᵀ, without dividing by a pivot.

    U = D (I + N) with D its diagonal: row i of (I + N)⁻¹ comes from Σ k: N[i, k] E[k, :], and multiplying out the
    denominators, adj(U)[i, k] = Π p < i: u[p] · Π p > k: u[p] · E[i, k] with E the inverse of the unit upper triangular
    matrix of u[i, k] Π i < p < k: u[p].
    """
    n = a.shape[0]
    pivots = diagonal(f.upper)
    one = ones(n, dtype=a.dtype)
    before = scan(n, one[0], lambda product, i: (product * pivots[i], product))[1]
    after = scan(n, one[0], lambda product, i: (product * pivots[n - 1 - i], product))[1][::-1]

    def widen(product: Array, k: Any) -> tuple[Array, Array]:
        return build(n, lambda i: product[i] * where(i < k, pivots[k], 1)), product

    between = scan(n, one, widen)[1]  # between[k, i] = Π i < p < k: u[p]
    scaled = build((n, n), lambda i, k: where(i < k, f.upper[i, k] * between[k, i], where(i == k, 1, 0)))
    inverse = back_substitution(scaled, eye(n, dtype=a.dtype))
    sign_of = _parity(f.order, real(a).dtype)
    adjugate = build((n, n), lambda i, k: sign_of * before[i] * after[k] * inverse[i, k])
    return _unordered(f, back_substitution(matrix_transpose(f.lower), matrix_transpose(adjugate)))


def _cofactors_jvp(primals: Any, cofactors: Array, tangents: Any) -> Array:
    # With C = det(A) A⁻ᵀ:  Ċ = tr(A⁻¹ Ȧ) C - A⁻ᵀ Ȧᵀ C = (⟨C, Ȧ⟩ C - C Ȧᵀ C) / det(A).
    _, determinant, _ = primals
    moved: Array = tangents[0]
    return (sum(cofactors * moved) * cofactors - cofactors @ matrix_transpose(moved) @ cofactors) / determinant  # type: ignore[no-any-return]


def _log_determinant(a: Array, f: Factors) -> SlogdetResult:
    pivots = diagonal(f.upper)
    return SlogdetResult(_parity(f.order, real(a).dtype) * prod(sign(pivots)), sum(log(magnitude(pivots))))


def _log_determinant_jvp(primals: Any, out: Any, tangents: Any) -> SlogdetResult:
    a, f = primals  # Giles 2008, determinant: (log |det A|)˙ = tr(A⁻¹ Ȧ)
    inverse = _solved_adjoint(a, f, eye(a.shape[0], dtype=a.dtype))
    change = sum(conj(inverse) * tangents[0])  # the change of log det, whose imaginary part is the phase
    turn = out.sign * complex(0.0, imag(change)) if is_complex(a) else None
    return SlogdetResult(turn, real(change))
