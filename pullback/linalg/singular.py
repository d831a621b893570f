"""Singular values, and their uses: rank, condition, pseudoinverse."""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.arrays.complex import imag, real
from pullback.arrays.complex import make_complex as complex
from pullback.arrays.composed import diagonal
from pullback.arrays.creation import asarray
from pullback.arrays.dtypes import finfo
from pullback.arrays.elementwise import maximum, where
from pullback.arrays.manipulation import broadcast_to
from pullback.arrays.reduction import max as largest
from pullback.arrays.reduction import min as smallest
from pullback.arrays.reduction import sum as total
from pullback.ir.index import cond as condition
from pullback.ir.index import prove
from pullback.linalg.bidiagonal import singular_factors, singular_values
from pullback.linalg.qr import complete
from pullback.linalg.spectra import gaps
from pullback.linalg.stacks import adjoint, constant, each, matrices, rescaled
from pullback.tracing.array import Array
from pullback.tracing.complex_array import is_complex
from pullback.tracing.custom import emit_call
from pullback.tracing.tracer import current


class SVDResult(NamedTuple):
    """The factors U, S and Vh: orthonormal columns, descending singular values, orthonormal rows."""

    U: Any
    S: Any
    Vh: Any


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """The singular value decomposition: x = (U[..., :k] * S) @ Vh[..., :k, :].

    Args:
        x: (..., m, n) floating-point or complex matrices. If the sizes are unknown at definition, m must be at least n.
        full_matrices: whether U and Vh are square; their first k columns and rows belong to the singular values.
            Otherwise U has k columns and Vh k rows, and x = (U * S) @ Vh.
    Returns:
        U (..., m, m) or (..., m, k) with orthonormal columns, S (..., k) in descending order, Vh (..., n, n) or
        (..., k, n) with orthonormal rows, with k the smaller of m and n.
    Raises:
        ShapeError: [E104] the arrays have fewer than two axes; [E114] n > m, known only at a call.
        DTypeError: [E121] they are not floating-point.
    Derivative:
        Ṡ = Re diag(Ṗ), U̇ = U (F ∘ (Ṗ S + S Ṗᴴ)) + (I - U Uᴴ) ẋ V S⁻¹ with Ṗ = Uᴴ ẋ V and
        F[i, j] = 1 / (s[j]² - s[i]²) (Giles 2008, singular value decomposition; Townsend, *Differentiating the
        singular value decomposition*, 2016; with the phases of complex vectors Wan and Zhang, *Automatic
        differentiation for complex valued SVD*, 2019). F is 0 where two singular values are equal up to rounding;
        Ṡ holds there too. Columns that complete a basis, and the phases of V, have the smallest possible tangent. The
        derivative is correct for functions that do not depend on their choice.
    Cost:
        About 5 m n² + 3 n³ multiply-adds: 3 m n² for the bidiagonal form, 4 n³ / 3 for its vectors by divide and
        conquer, and 2 m n² and 2 n³ for those of x. Up to 100 columns, some 2 n QR steps of 4 n (m + n). 6 m² n more
        for full matrices. `svdvals` costs half. Errors are of the order of the machine precision times the largest
        singular value, as with LAPACK.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def values(a):
    ...     return pb.linalg.svd(a, full_matrices=False).S
    >>> values(np.array([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]])).round(12).tolist()
    [3.0, 2.0]
    """
    h = matrices("svd", x, square=False)
    wide = _is_wide(h)
    square = real(h).extents[-1] is real(h).extents[-2]

    def one(a: Array) -> Any:
        x, _, back = rescaled(a)
        u, s, v = _thin(x)
        return complete(u, True) if full_matrices and not square else u, s * back, v

    u, s, v = each("svd", one, adjoint(h) if wide else h, in_turn=True)
    return SVDResult(v, s, adjoint(u)) if wide else SVDResult(u, s, adjoint(v))


def _is_wide(h: Array) -> bool:
    """Whether there are more columns than rows; if unknown, require that there are not."""
    rows, columns = real(h).extents[-2:]
    if prove(condition(">=", columns - rows - 1), current().known):
        return True
    current().require(condition(">=", rows - columns))
    return False


def _thin(a: Array) -> Any:
    """The thin SVD (U, S, V) of one matrix."""
    return emit_call("svd", _decomposed, (a,), _svd_jvp)


def _decomposed(a: Array) -> tuple[Array, Array, Array]:
    if real(a).extents[1].constant == 0:
        return a, total(real(a), axis=0), adjoint(a) @ a
    return singular_factors(a)


def _values(a: Array) -> Array:
    return total(real(a), axis=0) if real(a).extents[1].constant == 0 else singular_values(a)


def _values_jvp(primals: Any, s: Array, tangents: Any) -> Array:
    u, _, v = _thin(primals[0])
    return real(diagonal(adjoint(u) @ tangents[0] @ v))


def _svd_jvp(primals: Any, out: Any, tangents: Any) -> Any:
    u, s, v = out
    moved = tangents[0] @ v
    p = adjoint(u) @ moved
    inverse = where(s > 0, 1 / where(s > 0, s, 1.0), 0.0)
    between = gaps(s, squares=True)
    scaled = p * s[None, :]  # Ṗ S
    crossed = p * s[:, None]  # S Ṗ
    u_dot = u @ (between * (scaled + adjoint(scaled))) + (moved - u @ p) * inverse[None, :]
    v_dot = v @ (between * (crossed + adjoint(crossed)))
    if is_complex(u):  # the phases of a pair of vectors change by Im p[i, i] / s[i] against each other
        u_dot = u_dot + u * complex(0.0, imag(diagonal(p)) * inverse)
    return u_dot, real(diagonal(p)), v_dot


def svdvals(x: Any, /) -> Array:
    """The singular values in descending order, without vectors; else as `svd`.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def values(a):
    ...     return pb.linalg.svdvals(a)
    >>> values(np.array([[0.0, 2.0], [3.0, 0.0]])).round(12).tolist()
    [3.0, 2.0]
    """
    s, back = _scaled_values("svdvals", x)
    return s * back


def _scaled_values(what: str, x: Any) -> tuple[Array, Array]:
    """The singular values of scaled matrices, and the factors (..., 1) that undo the scales."""

    def one(a: Array) -> tuple[Array, Array]:
        matrix, _, back = rescaled(a)
        return emit_call("svdvals", _values, (matrix,), _values_jvp), broadcast_to(back, (1,))

    h = matrices(what, x, square=False)
    return each(what, one, adjoint(h) if _is_wide(h) else h, in_turn=True)  # type: ignore[no-any-return]


def _threshold(s: Array, rows: Any, columns: Any, rtol: Any) -> Array:
    """The threshold below which singular values count as zero."""
    if s.extents[-1].constant == 0:
        return s
    if rtol is None:
        rtol = maximum(asarray(rows, dtype=s.dtype), asarray(columns, dtype=s.dtype)) * finfo(s.dtype).eps
    return largest(s, axis=-1, keepdims=True) * rtol  # type: ignore[no-any-return]


def _is_each(rtol: Any) -> bool:
    """Whether a tolerance is an array of one number for each matrix."""
    return rtol is not None and asarray(rtol).ndim > 0


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Array:
    """The number of singular values above `rtol` times the largest; by default the larger size times eps.

    Args:
        x: (..., m, n) floating-point or complex matrices.
        rtol: a number, or one for each matrix.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def rank(a):
    ...     return pb.linalg.matrix_rank(a)
    >>> rank(np.array([[1.0, 2.0], [2.0, 4.0]])).item()
    1
    """
    s, _ = _scaled_values("matrix_rank", x)
    rows, columns = matrices("matrix_rank", x, square=False).shape[-2:]
    if _is_each(rtol):
        rtol = asarray(rtol)[..., None]
    return total((s > _threshold(s, rows, columns, rtol)).astype("int64"), axis=-1)


def cond(x: Any, /) -> Array:
    """The condition number: the largest singular value over the smallest.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def condition(a):
    ...     return pb.linalg.cond(a)
    >>> condition(np.array([[4.0, 0.0], [0.0, 2.0]])).item()
    2.0
    """
    s, _ = _scaled_values("cond", x)
    return largest(s, axis=-1) / smallest(s, axis=-1)


def pinv(x: Any, /, *, rtol: Any = None) -> Array:
    """The pseudoinverse of Moore and Penrose.

    Args:
        x: (..., m, n) floating-point or complex matrices.
        rtol: singular values up to `rtol` times the largest count as 0; by default the larger size times eps. A number,
            or one for each matrix.
    Derivative:
        With y the pseudoinverse: ẏ = -y ẋ y + y yᴴ ẋᴴ (I - x y) + (I - y x) ẋᴴ yᴴ y, if the rank is locally constant
        (Golub and Pereyra 1973).
    Cost:
        As for `svd`.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def inverse(a):
    ...     return pb.linalg.pinv(a)
    >>> inverse(np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0]])).round(12).tolist()
    [[0.5, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    h = matrices("pinv", x, square=False)

    wide = _is_wide(h)

    def one(x: Array, *own: Array) -> Array:
        a, factor, _ = rescaled(x)
        u, s, v = _thin(constant(adjoint(a) if wide else a))
        limit = _threshold(s, a.shape[0], a.shape[1], own[0][0, 0] if own else rtol)
        inverse = where(s > limit, 1 / where(s > limit, s, 1.0), 0.0)
        made = (v * inverse) @ adjoint(u)
        out: Array = emit_call("pinv", _second, (a, adjoint(made) if wide else made), _pinv_jvp)
        return out * factor

    out: Array = each("pinv", one, h, *((asarray(rtol)[..., None, None],) if _is_each(rtol) else ()), in_turn=True)
    return out


def _second(a: Array, made: Array) -> Array:
    return made


def _pinv_jvp(primals: Any, y: Array, tangents: Any) -> Array:
    a, moved = primals[0], adjoint(tangents[0])
    flipped = adjoint(y)
    upper = y @ flipped @ (moved - moved @ a @ y)
    lower = (moved - y @ a @ moved) @ flipped @ y
    return upper + lower - y @ tangents[0] @ y  # type: ignore[no-any-return]
