"""Eigenvalues and eigenvectors of symmetric and Hermitian matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.arrays.complex import conj, imag, real
from pullback.arrays.complex import make_complex as complex
from pullback.arrays.composed import diagonal
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import where
from pullback.linalg.spectra import gaps
from pullback.linalg.stacks import adjoint, each, matrices, rescaled, square_magnitude
from pullback.linalg.tridiagonal import diagonalized, eigenvalues
from pullback.tracing.array import Array
from pullback.tracing.complex_array import is_complex
from pullback.tracing.custom import emit_call
from pullback.tracing.index import argmax_over, build


class EighResult(NamedTuple):
    """The eigenvalues in ascending order, and the orthonormal eigenvectors as columns of a matrix."""

    eigenvalues: Any
    eigenvectors: Any


def eigh(x: Any, /) -> EighResult:
    """Eigenvalues and eigenvectors of symmetric or Hermitian matrices: x @ v = v * w.

    Args:
        x: (..., n, n) floating-point or complex matrices. The Hermitian part (x + xᴴ) / 2 is decomposed, which is the
            symmetric part of real matrices.
    Returns:
        A pair (eigenvalues, eigenvectors): (..., n) real, in ascending order, and (..., n, n) with orthonormal columns.
        The largest element of each column is real and positive.
    Raises:
        ShapeError: [E104] the matrices are not square.
        DTypeError: [E121] they are not floating-point.
    Derivative:
        ẇ = diag(vᴴ ẋ v), v̇ = v (F ∘ vᴴ ẋ v) with F[i, j] = 1 / (w[j] - w[i]) (Giles 2008, eigenvalues), with a
        phase that keeps the largest element of complex vectors real. Where eigenvalues are equal up to rounding,
        their vectors have no derivative: those parts of F are 0. This is correct for functions of the matrix that do
        not depend on the choice of vectors.
    Cost:
        About 4 n³ multiply-adds: 4 n³ / 3 for the tridiagonal form, 2 n³ / 3 for its vectors by divide and conquer, and
        2 n³ for those of x. Up to 100 rows, some 2 n QR steps of 4 n² each. `eigvalsh` costs half. Complex matrices
        cost twice to four times as much.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def spectrum(a):
    ...     return pb.linalg.eigh(a)
    >>> w, v = spectrum(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> w.round(12).tolist(), (v * w @ v.T).round(12).tolist()
    ([1.0, 3.0], [[2.0, 1.0], [1.0, 2.0]])
    """

    def one(a: Array) -> Any:
        x, _, back = rescaled(a)
        w, v = emit_call("eigh", _decomposed, ((x + adjoint(x)) / 2,), _eigh_jvp)
        return EighResult(w * back, v)

    return each("eigh", one, matrices("eigh", x), in_turn=True)  # type: ignore[no-any-return]


def eigvalsh(x: Any, /) -> Array:
    """The eigenvalues of symmetric or Hermitian matrices, ascending, without vectors; else as `eigh`.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def spectrum(a):
    ...     return pb.linalg.eigvalsh(a)
    >>> spectrum(np.array([[2.0, 1.0], [1.0, 2.0]])).round(12).tolist()
    [1.0, 3.0]
    """

    def one(a: Array) -> Any:
        x, _, back = rescaled(a)
        return emit_call("eigvalsh", _values, ((x + adjoint(x)) / 2,), _eigvalsh_jvp) * back

    return each("eigvalsh", one, matrices("eigvalsh", x), in_turn=True)  # type: ignore[no-any-return]


def _decomposed(a: Array) -> EighResult:
    if real(a).extents[0].constant == 0:
        return EighResult(diagonal(real(a)), a)
    values, vectors = diagonalized(a)
    return EighResult(values, upright(vectors))


def _values(a: Array) -> Array:
    return diagonal(real(a)) if real(a).extents[0].constant == 0 else eigenvalues(a)


def _eigvalsh_jvp(primals: Any, w: Array, tangents: Any) -> Array:
    v = eigh(primals[0]).eigenvectors
    return real(diagonal(adjoint(v) @ tangents[0] @ v))


def _eigh_jvp(primals: Any, out: EighResult, tangents: Any) -> EighResult:
    # Giles 2008, eigenvalues: from Ẋ V + X V̇ = V̇ W + V Ẇ with V̇ = V C, C antihermitian: Vᴴ Ẋ V = C W - W C + Ẇ.
    w, v = out
    turned = adjoint(v) @ tangents[0] @ v
    return EighResult(real(diagonal(turned)), held_upright(v, v @ (gaps(w) * turned)))


# The phase of vectors -----------------------------------------------------------------------------------------------


def upright(v: Array) -> Array:
    """Scale each column by a phase that makes its largest element real and positive."""
    n, columns = v.shape
    if real(v).extents[0].constant == 0:
        return v
    peak = _peaks(v)
    if not is_complex(v):
        below = build(columns, lambda k: v[peak[k], k] < 0)
        return build((n, columns), lambda i, k: where(below[k], -v[i, k], v[i, k]))  # type: ignore[no-any-return]
    size = build(columns, lambda k: magnitude(v[peak[k], k]))
    phase = build(columns, lambda k: where(size[k] > 0, conj(v[peak[k], k]) / where(size[k] > 0, size[k], 1.0), 1.0))
    return build((n, columns), lambda i, k: v[i, k] * phase[k])  # type: ignore[no-any-return]


def held_upright(v: Array, v_dot: Array) -> Array:
    """Adjust the phase of a tangent of vectors so that their largest elements stay real."""
    if not is_complex(v) or real(v).extents[0].constant == 0:
        return v_dot
    peak = _peaks(v)
    turn = build(v.shape[1], lambda k: imag(v_dot[peak[k], k]) / real(v[peak[k], k]))
    return v_dot - v * complex(0.0, turn)


def _peaks(v: Array) -> Array:
    """The row of the largest element of each column."""
    size = square_magnitude if is_complex(v) else magnitude  # of complex elements, a square needs no root
    return build(v.shape[1], lambda k: argmax_over(v.shape[0], lambda i: size(v[i, k])))  # type: ignore[no-any-return]
