"""Triangular systems, and the Cholesky decomposition."""

from __future__ import annotations

from typing import Any, Literal

from pullback.arrays.complex import conj, real
from pullback.arrays.composed import diagonal
from pullback.arrays.creation import zeros
from pullback.arrays.elementwise import sqrt, where
from pullback.arrays.manipulation import matrix_transpose
from pullback.errors import ShapeError
from pullback.linalg.stacks import adjoint, each, each_solved, matrices, system
from pullback.source import user_position
from pullback.tracing.array import Array
from pullback.tracing.control import fold
from pullback.tracing.custom import emit_call
from pullback.tracing.index import build, sum_over


def cholesky(x: Any, /, *, upper: bool = False) -> Array:
    """The lower triangular L with L @ Lᴴ = x, for symmetric or Hermitian positive definite matrices.

    Args:
        x: (..., n, n) floating-point or complex matrices. The Hermitian part (x + xᴴ) / 2 is decomposed, which is the
            symmetric part of real matrices.
        upper: give Lᴴ instead.
    Returns:
        (..., n, n) triangular matrices with positive diagonals, zero on the other side. If x is not positive definite,
        the result is NaN or infinite from the first affected column on, without an error.
    Raises:
        ShapeError: [E104] the matrices are not square.
        DTypeError: [E121] they are not floating-point.
    Derivative:
        L̇ = L Φ(L⁻¹ ẋ L⁻ᴴ), where Φ keeps the lower triangle and half of the diagonal: two triangular solves (Murray,
        *Differentiation of the Cholesky decomposition*, 2016, section 3). As a function of the Hermitian part, the
        gradient is Hermitian.
    Cost:
        n³ / 2 multiply-adds, in rows that vectorize; 2 n³ for the derivative in either direction.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def factor(a):
    ...     return pb.linalg.cholesky(a)
    >>> factor(np.array([[4.0, 2.0], [2.0, 10.0]])).tolist()
    [[2.0, 0.0], [1.0, 3.0]]
    """
    lower: Array = each("cholesky", cholesky_factor, matrices("cholesky", x))
    return adjoint(lower) if upper else lower


def solve_triangular(
    a: Any, b: Any, /, *, trans: Literal[0, 1] = 0, lower: bool = False, unit_diagonal: bool = False
) -> Array:
    """Solve a @ x = b for triangular matrices: SciPy's `solve_triangular`, for stacks.

    Args:
        a: (..., n, n) matrices; only one triangle is read.
        b: (n,) or (..., n, k) right-hand sides. Leading axes of a and b broadcast.
        trans: 1 solves a.T @ x = b.
        lower: whether the lower triangle of a is read; the upper one unless given.
        unit_diagonal: take the diagonal as 1 without reading it.
    Returns:
        (..., n) or (..., n, k) solutions. A zero on the diagonal gives infinity or NaN.
    Raises:
        ShapeError: [E104] the matrices are not square. [E102] their rows and those of b differ.
        DTypeError: [E121] the element types are not floating-point.
    Derivative:
        With x̄ the cotangent of x: b̄ = a⁻ᵀ x̄ and ā = -b̄ xᵀ, in the triangle that is read (Giles, *Collected matrix
        derivative results for forward and reverse mode algorithmic differentiation*, 2008, matrix inverse product).
    Cost:
        n² k / 2 multiply-adds; as many for the derivative, and n² k for ā.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def solved(a, b):
    ...     return pb.linalg.solve_triangular(a, b, lower=True)
    >>> solved(np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([2.0, 9.0])).tolist()
    [1.0, 2.0]
    """
    left, right = system("solve_triangular", a, b)
    if trans not in (0, 1):
        raise ShapeError(
            "E104", f"solve_triangular: trans is 0 or 1, not {trans!r}", position=user_position(), remedy="`trans=1`"
        )

    def one(m: Array, r: Array) -> Array:
        if unit_diagonal:
            m = build(m.shape, lambda i, k, m=m: where(i == k, 1, m[i, k]))
        solved = solve_lower if lower != bool(trans) else solve_upper
        return solved(matrix_transpose(m) if trans else m, r)

    return each_solved("solve_triangular", one, left, right)


def solve_lower(m: Array, b: Array) -> Array:
    """m⁻¹ b for a lower triangular matrix."""
    out: Array = emit_call("solve_lower", forward_substitution, (m, b), _lower_jvp, _lower_vjp)
    return out


def solve_upper(m: Array, b: Array) -> Array:
    """m⁻¹ b for an upper triangular matrix."""
    out: Array = emit_call("solve_upper", back_substitution, (m, b), _upper_jvp, _upper_vjp)
    return out


def forward_substitution(m: Array, b: Array) -> Array:
    """Forward substitution x[i] = (b[i] - Σ k < i: m[i, k] x[k]) / m[i, i], all columns side by side."""

    def step(x: Array, i: Any) -> Any:
        known = build(b.shape[1], lambda c: sum_over(i, lambda k: m[i, k] * x[k, c]))
        return build(b.shape, lambda r, c: x[r, c] + where(r == i, (b[i, c] - known[c]) / m[i, i], 0))

    out: Array = fold(b.shape[0], zeros(b.shape, dtype=b.dtype), step)
    return out


def back_substitution(m: Array, b: Array) -> Array:
    """Back substitution x[i] = (b[i] - Σ k > i: m[i, k] x[k]) / m[i, i], from the last row to the first."""
    n = b.shape[0]

    def step(x: Array, t: Any) -> Any:
        i = n - 1 - t
        known = build(b.shape[1], lambda c: sum_over(n, lambda k: where(k > i, m[i, k] * x[k, c], 0)))
        return build(b.shape, lambda r, c: x[r, c] + where(r == i, (b[i, c] - known[c]) / m[i, i], 0))

    out: Array = fold(n, zeros(b.shape, dtype=b.dtype), step)
    return out


# Giles 2008, matrix inverse product X = M⁻¹ B.  Ẋ = M⁻¹ (Ḃ - Ṁ X);  B̄ = M⁻ᴴ X̄, M̄ = -B̄ Xᴴ, in the triangle of M.


def _lower_jvp(primals: Any, x: Array, tangents: Any) -> Array:
    (m, _), (m_dot, b_dot) = primals, tangents
    return solve_lower(m, b_dot - lower_part(m_dot) @ x)


def _lower_vjp(primals: Any, x: Array, x_bar: Array) -> tuple[Array, Array]:
    b_bar = solve_upper(adjoint(primals[0]), x_bar)
    return -lower_part(b_bar @ adjoint(x)), b_bar


def _upper_jvp(primals: Any, x: Array, tangents: Any) -> Array:
    (m, _), (m_dot, b_dot) = primals, tangents
    return solve_upper(m, b_dot - upper_part(m_dot) @ x)


def _upper_vjp(primals: Any, x: Array, x_bar: Array) -> tuple[Array, Array]:
    b_bar = solve_lower(adjoint(primals[0]), x_bar)
    return -upper_part(b_bar @ adjoint(x)), b_bar


def lower_part(x: Array) -> Array:
    """The triangle on and below the diagonal."""
    part: Array = build(x.shape, lambda i, k: where(i >= k, x[i, k], 0))
    return part


def upper_part(x: Array) -> Array:
    """The triangle on and above the diagonal."""
    part: Array = build(x.shape, lambda i, k: where(i <= k, x[i, k], 0))
    return part


def cholesky_factor(x: Array) -> Array:
    """The Cholesky factor L of one matrix."""
    half: Array = (x + adjoint(x)) / 2
    out: Array = emit_call("cholesky", _cholesky, (half,), _cholesky_jvp)
    return out


def _cholesky(x: Array) -> Array:
    """Compute u = Lᴴ row by row: u[j, i] u[j, j] = x[j, i] - Σ k < j: conj(u[k, j]) u[k, i]."""
    n = x.shape[0]

    def step(u: Array, j: Any) -> Any:
        rest = build(n, lambda i: x[j, i] - sum_over(j, lambda k: conj(u[k, j]) * u[k, i]))
        root = sqrt(real(rest[j]))
        return build((n, n), lambda k, i: u[k, i] + where((k == j) & (i >= j), rest[i] / root, 0))

    return adjoint(fold(n, zeros((n, n), dtype=x.dtype), step))


def _cholesky_jvp(primals: Any, factor: Array, tangents: Any) -> Array:
    # Murray 2016, section 3: from Ẋ = L̇ Lᴴ + L L̇ᴴ follows L⁻¹ Ẋ L⁻ᴴ = S + Sᴴ with S = L⁻¹ L̇ lower triangular, so
    # S = Φ(L⁻¹ Ẋ L⁻ᴴ) and L̇ = L S.  Ẋ is Hermitian, hence L⁻¹ (L⁻¹ Ẋ)ᴴ is the same matrix.
    both = solve_lower(factor, adjoint(solve_lower(factor, tangents[0])))
    return factor @ (lower_part(both) - _on_diagonal(diagonal(both) / 2))


def _on_diagonal(d: Array) -> Array:
    n = d.shape[0]
    out: Array = build((n, n), lambda i, k: where(i == k, d[i], 0))
    return out
