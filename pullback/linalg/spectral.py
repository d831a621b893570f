"""Symmetric eigenvalue problems and singular values by Jacobi's rotations, and functions of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.errors import ShapeError
from pullback.ir.index import cond as condition
from pullback.ir.index import prove
from pullback.lang.array import Array
from pullback.lang.complex import real
from pullback.lang.composed import diagonal
from pullback.lang.control import cond as either
from pullback.lang.control import fold
from pullback.lang.creation import asarray
from pullback.lang.custom import emit_call
from pullback.lang.dtypes import finfo
from pullback.lang.functions import abs as magnitude
from pullback.lang.functions import ceil, exp, log2, maximum, sqrt
from pullback.lang.handle import describe
from pullback.lang.index import argmax_over, build, sum_over, where
from pullback.lang.manipulation import matrix_transpose
from pullback.lang.reduction import max as largest
from pullback.lang.reduction import min as smallest
from pullback.lang.reduction import sum as total
from pullback.lang.trace import current
from pullback.linalg.embedding import by_embedding, by_pairs
from pullback.linalg.lu import inv, slogdet, solve
from pullback.linalg.stacks import constant, each, matrices
from pullback.source import user_position

SWEEPS = 10  # over all pairs; convergence is quadratic, and six suffice for matrices of some hundred rows


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and orthonormal eigenvectors in the columns of a matrix."""

    eigenvalues: Any
    eigenvectors: Any


class SVDResult(NamedTuple):
    """Orthonormal columns, singular values in descending order, orthonormal rows."""

    U: Any
    S: Any
    Vh: Any


def eigh(x: Any, /) -> EighResult:
    """Eigenvalues and eigenvectors of symmetric matrices: x @ v = v * w.

    Args:
        x: (..., n, n) floating-point matrices, of which the symmetric part (x + x.T) / 2 is decomposed.
    Returns:
        A pair (eigenvalues, eigenvectors): (..., n) in ascending order, and (..., n, n) with orthonormal columns, each
        of which has its largest element positive.
    Raises:
        ShapeError: [E104] the matrices are not square.
        DTypeError: [E121] they are not floating-point.
    Derivative:
        ẇ = diag(vᵀ ẋ v), v̇ = v (F ∘ vᵀ ẋ v) with F[i, j] = 1 / (w[j] - w[i]) (Giles 2008, eigenvalues). Where
        eigenvalues are equal their vectors have no derivative: those parts of F are 0, which is right for functions of
        the matrix that do not depend on the choice of vectors.
    Cost:
        Ten sweeps of Jacobi's rotations, in rounds of n / 2 pairs that do not touch: 40 n³ multiply-adds or so.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def spectrum(a):
    ...     return pb.linalg.eigh(a)
    >>> w, v = spectrum(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> w.round(12).tolist(), (v * w @ v.T).round(12).tolist()
    ([1.0, 3.0], [[2.0, 1.0], [1.0, 2.0]])
    """

    def one(a: Array) -> Any:
        half = (a + matrix_transpose(a)) / 2
        return emit_call("eigh", _jacobi, (half,), _eigh_jvp)

    return each("eigh", one, matrices("eigh", x))  # type: ignore[no-any-return]


@by_pairs
def eigvalsh(x: Any, /) -> Array:
    """The eigenvalues of symmetric matrices in ascending order: the first result of `eigh`.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def spectrum(a):
    ...     return pb.linalg.eigvalsh(a)
    >>> spectrum(np.array([[2.0, 1.0], [1.0, 2.0]])).round(12).tolist()
    [1.0, 3.0]
    """
    out: Array = eigh(x).eigenvalues
    return out


def _jacobi(a: Array) -> EighResult:
    """Rotations in planes (p, q) that make a[p, q] zero, round by round (Brent and Luk 1985).

    In each round every index has one partner, q = (r - p) mod m for an odd number m of indices, of which one is left
    alone: so a round is one orthogonal matrix, of which row p has its only other element in column q, and m rounds meet
    every pair. Golub and Van Loan, *Matrix computations*, 8.5: of the two angles the smaller one.
    """
    n = a.shape[0]

    def round_of(state: Any, t: Any) -> Any:
        x, v = state
        partner = _partners(t, m)

        main = build(n, lambda p: x[p, p])
        c, s = build(n, lambda p: _rotation(p, partner(p), n, main, x.at))
        rows = build((n, n), lambda i, j: c[i] * x[i, j] + s[i] * x.at(partner(i), j))
        both = build((n, n), lambda i, j: c[j] * rows[i, j] + s[j] * rows.at(i, partner(j)))
        vectors = build((n, n), lambda i, j: c[j] * v[i, j] + s[j] * v.at(i, partner(j)))
        return both, vectors

    m = n + (n + 1) % 2
    start = (a, build((n, n), lambda i, j: where(i == j, 1, 0)).astype(a.dtype))
    x, v = fold(SWEEPS, start, lambda state, _: fold(m, state, round_of))
    values = build(n, lambda i: x[i, i])
    rank_of = _order(values)
    peak = build(n, lambda k: largest(build(n, lambda i: magnitude(v[i, k]))))
    first = build(n, lambda k: sum_over(n, lambda i: where(magnitude(v[i, k]) == peak[k], v[i, k], 0.0)))
    sign = build(n, lambda k: where(first[k] < 0, -1.0, 1.0))
    return EighResult(
        build(n, lambda k: values[rank_of[k]]), build((n, n), lambda i, k: v[i, rank_of[k]] * sign[rank_of[k]])
    )


def _partners(t: Any, m: Any) -> Callable[[Any], Any]:
    """The index that each one meets in round t of m."""
    return lambda p: (t + m - p) % m


def _rotation(p: Any, q: Any, n: Any, diagonal_of: Array, off: Callable[[Any, Any], Array]) -> tuple[Array, Array]:
    """Cosine and signed sine: row p becomes c x[p] + s x[q].

    Both rows of a pair read the same numbers, those of the smaller index first, so that their turns belong together to
    the last bit, though rounding leaves x[p, q] and x[q, p] different.
    """
    first = p < q
    own = where(first, diagonal_of[p], diagonal_of.at(q))
    other = where(first, diagonal_of.at(q), diagonal_of[p])
    beside = where(first, off(p, q), off(q, p))
    apart = (own - other) / (2 * beside)
    tangent = where(apart < 0, -1.0, 1.0) / (magnitude(apart) + sqrt(apart * apart + 1))
    tangent = where((beside != 0) & (p != q) & (q < n), tangent, 0.0)
    cosine = 1 / sqrt(tangent * tangent + 1)
    return cosine, where(first, tangent, -tangent) * cosine


def _order(values: Array) -> Array:
    """The place of the k-th smallest; of equal ones the first. NaN come in some order."""
    n = values.shape[0]

    def before(i: Any, j: Any) -> Any:
        return (values[j] < values[i]) | (~(values[i] < values[j]) & (j < i))

    place = build(n, lambda i: sum_over(n, lambda j: where(before(i, j), 1, 0)))
    out: Array = build(n, lambda k: argmax_over(n, lambda i: where(place[i] == k, 1, 0)))
    return out


def _gaps(values: Array) -> Array:
    """F[i, j] = 1 / (values[j] - values[i]), 0 where they are equal."""
    n = values.shape[0]

    def at(i: Any, j: Any) -> Any:
        gap = values[j] - values[i]
        return where(gap == 0, 0.0, 1 / where(gap == 0, 1.0, gap))

    out: Array = build((n, n), at)
    return out


def _eigh_jvp(primals: Any, out: EighResult, tangents: Any) -> EighResult:
    # Giles 2008, eigenvalues: from Ẋ V + X V̇ = V̇ W + V Ẇ with V̇ = V C, C antisymmetric: Vᵀ Ẋ V = C W - W C + Ẇ.
    w, v = out
    turned = matrix_transpose(v) @ tangents[0] @ v
    return EighResult(diagonal(turned), v @ (_gaps(w) * turned))


# Singular values ----------------------------------------------------------------------------------------------------


def svd(x: Any, /, *, full_matrices: bool = False) -> SVDResult:
    """The singular value decomposition: x = (U * S) @ Vh.

    Args:
        x: (..., m, n) floating-point matrices. Where it is not known which extent is larger, m has to be at least n.
        full_matrices: only False, where NumPy's default is True: U and Vh have as many columns and rows as there are
            singular values.
    Returns:
        U (..., m, k), S (..., k) in descending order, Vh (..., k, n) with k the smaller of m and n. Where a singular
        value is 0 the column of U, for m < n the row of Vh, is 0.
    Raises:
        ShapeError: [E104] the arrays have fewer than two axes, or full matrices are asked for; [E114] a call has n > m.
        DTypeError: [E121] they are not floating-point.
    Derivative:
        Ṡ = diag(Ṗ), U̇ = U (F ∘ (Ṗ S + S Ṗᵀ)) + (I - U Uᵀ) ẋ V S⁻¹ with Ṗ = Uᵀ ẋ V and
        F[i, j] = 1 / (s[j]² - s[i]²) (Giles 2008, singular value decomposition; Townsend, *Differentiating the
        singular value decomposition*, 2016), 0 where two are equal. That of S alone holds there too.
    Cost:
        Ten sweeps of one-sided rotations (Hestenes 1958), accurate for small singular values too: 60 m n² or so.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def values(a):
    ...     return pb.linalg.svd(a).S
    >>> values(np.array([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]])).round(12).tolist()
    [3.0, 2.0]
    """
    h = matrices("svd", x, square=False)
    if full_matrices and h.extents[-1] is not h.extents[-2]:
        raise ShapeError(
            "E104",
            "svd: full matrices of a matrix that is not square",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="`full_matrices=False`; `pb.linalg.qr` completes no basis either",
        )
    wide = _is_wide("svd", h)
    u, s, v = each("svd", _one_svd, matrix_transpose(h) if wide else h)
    return SVDResult(v, s, matrix_transpose(u)) if wide else SVDResult(u, s, matrix_transpose(v))


def _one_svd(a: Array) -> Any:
    return emit_call("svd", _hestenes, (a,), _svd_jvp)


def _is_wide(what: str, h: Array) -> bool:
    """Whether there are more columns than rows, which is known or from here on not the case."""
    if prove(condition(">=", h.extents[-1] - h.extents[-2] - 1), current().known):
        return True
    current().require(condition(">=", h.extents[-2] - h.extents[-1]))
    return False


def _hestenes(a: Array) -> tuple[Array, Array, Array]:
    """Rotations of columns until all are orthogonal: U S = x V. The rounds are those of `_jacobi`."""
    rows, n = a.shape
    m = n + (n + 1) % 2

    def round_of(state: Any, t: Any) -> Any:
        x, v = state
        partner = _partners(t, m)
        square = build(n, lambda p: sum_over(rows, lambda i: x[i, p] * x[i, p]))
        off = build(n, lambda p: sum_over(rows, lambda i: x[i, p] * x.at(i, partner(p))))
        c, s = build(n, lambda p: _rotation(p, partner(p), n, square, lambda i, _: off.at(i)))
        turned = build((rows, n), lambda i, j: c[j] * x[i, j] + s[j] * x.at(i, partner(j)))
        return turned, build((n, n), lambda i, j: c[j] * v[i, j] + s[j] * v.at(i, partner(j)))

    start = (a, build((n, n), lambda i, j: where(i == j, 1, 0)).astype(a.dtype))
    x, v = fold(SWEEPS, start, lambda state, _: fold(m, state, round_of))
    norms = build(n, lambda p: sqrt(sum_over(rows, lambda i: x[i, p] * x[i, p])))
    rank_of = _order(-norms)
    values = build(n, lambda k: norms[rank_of[k]])
    inverse = build(n, lambda k: where(values[k] > 0, 1 / where(values[k] > 0, values[k], 1.0), 0.0))
    left = build((rows, n), lambda i, k: x[i, rank_of[k]] * inverse[k])
    return left, values, build((n, n), lambda i, k: v[i, rank_of[k]])


def _svd_jvp(primals: Any, out: Any, tangents: Any) -> Any:
    u, s, v = out
    moved = tangents[0] @ v
    p = matrix_transpose(u) @ moved
    inverse = where(s > 0, 1 / where(s > 0, s, 1.0), 0.0)
    gaps = _gaps(s * s)
    scaled = p * s[None, :]  # Ṗ S
    crossed = p * s[:, None]  # S Ṗ
    u_dot = u @ (gaps * (scaled + matrix_transpose(scaled))) + (moved - u @ p) * inverse[None, :]
    v_dot = v @ (gaps * (crossed + matrix_transpose(crossed)))
    return u_dot, diagonal(p), v_dot


@by_pairs
def svdvals(x: Any, /) -> Array:
    """The singular values in descending order: the second result of `svd`.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def values(a):
    ...     return pb.linalg.svdvals(a)
    >>> values(np.array([[0.0, 2.0], [3.0, 0.0]])).round(12).tolist()
    [3.0, 2.0]
    """
    out: Array = svd(x).S
    return out


def _threshold(s: Array, rows: Any, columns: Any, rtol: Any) -> Array:
    """What a singular value must exceed to count."""
    if rtol is None:
        rtol = maximum(asarray(rows, dtype=s.dtype), asarray(columns, dtype=s.dtype)) * finfo(s.dtype).eps
    return largest(s, axis=-1, keepdims=True) * rtol  # type: ignore[no-any-return]


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Array:
    """How many singular values exceed `rtol` times the largest; the larger extent times eps unless given.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def rank(a):
    ...     return pb.linalg.matrix_rank(a)
    >>> rank(np.array([[1.0, 2.0], [2.0, 4.0]])).item()
    1
    """
    s = svdvals(x)
    rows, columns = matrices("matrix_rank", real(x), square=False).shape[-2:]
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
    s = svdvals(x)
    return largest(s, axis=-1) / smallest(s, axis=-1)


@by_embedding
def pinv(x: Any, /, *, rtol: Any = None) -> Array:
    """The pseudoinverse of Moore and Penrose.

    Args:
        x: (..., m, n) floating-point matrices.
        rtol: singular values up to `rtol` times the largest count as 0; the larger extent times eps unless given.
    Derivative:
        With y the pseudoinverse: ẏ = -y ẋ y + y yᵀ ẋᵀ (I - x y) + (I - y x) ẋᵀ yᵀ y, where the rank stays as it is
        (Golub and Pereyra 1973).
    Cost:
        As `svd`.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def inverse(a):
    ...     return pb.linalg.pinv(a)
    >>> inverse(np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0]])).round(12).tolist()
    [[0.5, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    h = matrices("pinv", x, square=False)

    def one(a: Array) -> Array:
        left, s, right = svd(constant(a))
        limit = _threshold(s, a.shape[0], a.shape[1], rtol)
        inverse = where(s > limit, 1 / where(s > limit, s, 1.0), 0.0)
        made = matrix_transpose(right) @ (inverse[:, None] * matrix_transpose(left))
        out: Array = emit_call("pinv", _second, (a, made), _pinv_jvp)
        return out

    out: Array = each("pinv", one, h)
    return out


def _second(a: Array, made: Array) -> Array:
    return made


def _pinv_jvp(primals: Any, y: Array, tangents: Any) -> Array:
    a, moved = primals[0], matrix_transpose(tangents[0])
    flipped = matrix_transpose(y)
    upper = y @ flipped @ (moved - moved @ a @ y)
    lower = (moved - y @ a @ moved) @ flipped @ y
    return upper + lower - y @ tangents[0] @ y  # type: ignore[no-any-return]


# Functions of matrices ----------------------------------------------------------------------------------------------


@by_embedding
def expm(x: Any, /) -> Array:
    """The exponential of square matrices, by scaling and squaring.

    Args:
        x: (..., n, n) floating-point matrices.
    Returns:
        (..., n, n). With s so that ‖x / 2^s‖ is at most 5.37 in the 1-norm, the approximant of Padé of order 13 of
        x / 2^s, squared s times (Higham, *The scaling and squaring method for the matrix exponential revisited*, 2005).
    Derivative:
        Of the steps.
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
    n = a.shape[0]
    one = build((n, n), lambda i, j: where(i == j, 1, 0)).astype(a.dtype)
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


@by_embedding
def sqrtm(x: Any, /) -> Array:
    """The principal square root of square matrices without eigenvalues on the negative real axis or at 0.

    Args:
        x: (..., n, n) floating-point matrices.
    Returns:
        (..., n, n) y with y @ y = x, by 20 steps of the product form of Denman and Beavers' iteration (Higham,
        *Functions of matrices*, 2008, 6.29), scaled by the determinant; NaN where there is none.
    Derivative:
        Of the steps.
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
    one = build((n, n), lambda i, j: where(i == j, 1, 0)).astype(a.dtype)

    def step(state: Any, k: Any) -> Any:
        m, y = state
        scale = where(k < 6, exp(slogdet(constant(m)).logabsdet * (-0.5 / n)), 1.0)
        square = scale * scale
        inverted = inv(m) / square
        return 0.5 * (one + (square * m + inverted) / 2), 0.5 * scale * (y + y @ inverted)

    root: Array = fold(20, (a, a), step)[1]
    return root
