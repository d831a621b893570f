"""The eigenvalues of Hermitian matrices: a real tridiagonal form, and QR steps on it."""

from __future__ import annotations

from typing import Any

from pullback.arrays.complex import conj, real
from pullback.arrays.creation import eye
from pullback.arrays.dtypes import finfo
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import sqrt, where
from pullback.arrays.manipulation import matrix_transpose
from pullback.arrays.sorting import sort
from pullback.linalg.divide import conquered
from pullback.linalg.qr import product_of, products, reflection
from pullback.linalg.rotations import PASSES, WIDE, joined, last_block, parted, turned
from pullback.linalg.spectra import if_finite, order
from pullback.tracing.array import Array
from pullback.tracing.branches import cond as either
from pullback.tracing.control import fold, scan
from pullback.tracing.index import build, sum_over


def diagonalized(a: Array) -> tuple[Array, Array]:
    """Return the eigenvalues of a Hermitian matrix, ascending, and the eigenvectors as columns."""
    n = a.shape[0]
    d, e, reflections = _tridiagonal(a)
    values, vectors = conquered(d, e, real(a).extents[0].constant, _whole)
    rank_of = order(values)
    start = build((n, n), lambda i, k: vectors.at(i, rank_of.at(k)))
    ordered = build(n, lambda k: values[rank_of.at(k)])
    return if_finite(ordered, d, e), product_of(reflections, start.astype(a.dtype))


def eigenvalues(a: Array) -> Array:
    """Return the eigenvalues of a Hermitian matrix alone, ascending."""
    d, e, _ = _tridiagonal(a)
    return if_finite(sort(_values(d, e)), d, e)


def _whole(d: Array, e: Array) -> tuple[Array, Array]:
    """The eigenvalues of a tridiagonal matrix in any order and the eigenvectors as columns, by QR steps.

    A pass takes several steps, and then applies all their rotations to the vectors.
    """
    n = d.shape[0]

    def steps(d: Array, e: Array, rows: Array) -> Any:
        (d, e), (c, s) = scan(WIDE, (d, e), lambda state, _: _step_if_any(*state))
        return d, e, turned(rows, c, s)

    def go(state: Any, _: Any) -> Any:
        d, e, _ = state
        return either(_block(d, e * e)[1] > 0, steps, lambda *same: same, *state)

    d, e, rows = fold(PASSES * n, (d, e, parted(eye(n, dtype=d.dtype))), go)
    return d + where(_block(d, e * e)[1] == 0, 0.0, float("nan")), matrix_transpose(joined(rows, d))


def _values(d: Array, e: Array) -> Array:
    """The eigenvalues of a tridiagonal matrix alone, in any order, by QR steps without roots."""
    n, squares = d.shape[0], e * e

    def step(d: Array, squares: Array, first: Array, last: Array) -> Any:
        d, squares = _rootless_step(d, squares, first, last)
        return d, squares, *_block(d, squares)

    def go(state: Any, _: Any) -> Any:
        return either(state[3] > 0, step, lambda *same: same, *state)

    d, _, _, last = fold(PASSES * WIDE * n, (d, squares, *_block(d, squares)), go)
    return d + where(last == 0, 0.0, float("nan"))


def _tridiagonal(a: Array) -> tuple[Array, Array, tuple[Array, Array]]:
    """The diagonal and the real subdiagonal of H a Hᴴ, and the reflections whose product is H.

    A reflection I - s vᴴ from both sides is an update of rank two, a - s wᴴ - w sᴴ with p = a v and
    w = p - (vᴴ p / 2) s (Golub and Van Loan, *Matrix computations*, 8.3.1). Since s is a multiple of v, the last term
    is also (pᴴ s / 2) v, which stays in range.
    """
    n = a.shape[0]

    def step(x: Array, j: Any) -> Any:
        v, s = reflection(build(n, lambda i: x[i, j]), j + 1)
        p = conj(products(v, x, j + 1))
        half = sum_over(n, lambda i: conj(p[i]) * s[i]) / 2
        w = build(n, lambda i: p[i] - half * v[i])

        def changed(i: Any, k: Any) -> Any:
            return x[i, k] - where((i > j) & (k >= j), s[i] * conj(w[k]) + w[i] * conj(s[k]), 0)

        return build((n, n), changed), (v, s)

    x, reflections = scan(n, a, step)
    below = build(n, lambda k: where(k < n - 1, real(x.at(k + 1, k)), 0.0))
    return build(n, lambda k: real(x[k, k])), below, reflections


def _block(d: Array, squares: Array) -> tuple[Array, Array]:
    """Return the first and last row of the last block that is not yet diagonal; 0 and 0 for none.

    `squares` are those of the subdiagonal.

    An element is negligible by the test of LAPACK's dsteqr. Its square may also have no digits.
    """
    n, info = d.shape[0], finfo(d.dtype)
    limit = build(n, lambda k: info.eps**2 * magnitude(d[k] * d.at(k + 1)) + info.smallest_normal)
    return last_block(n, lambda k: ~(squares[k] > limit[k]))


def _step_if_any(d: Array, e: Array) -> Any:
    """One QR step of the last block, or none; return the state, and cosines and sines of rotations."""
    first, last = _block(d, e * e)
    n = d.shape[0]
    same = lambda d, e: (d, e, build(n, lambda k: 1 + 0 * e[k]), build(n, lambda k: 0 * e[k]))
    d, e, c, s = either(last > 0, lambda d, e: _step(d, e, first, last), same, d, e)
    return (d, e), (c, s)


def _step(d: Array, e: Array, first: Array, last: Array) -> tuple[Array, Array, Array, Array]:
    """Take an implicit QR step of rows `first` to `last`.

    Golub and Van Loan, 8.3.5, in the form of LAPACK's dsteqr. Going down, g is the diagonal element that comes to the
    next rotation, less the shift, and p its change so far.
    """
    n = d.shape[0]
    shift = _shift(d, e * e, last)
    start = build((), lambda: d.at(first) - shift)

    def inside(k: Any) -> Any:
        return (k >= first) & (k < last)

    def step(state: Any, k: Any) -> Any:
        def at() -> Any:
            here = inside(k)
            g = where(k == first, start, state[0])
            c, s = (where(k <= first, 1.0, x) for x in state[1:3])
            main = d[k] - where(k <= first, 0.0, state[3])
            along, beside = s * e[k], c * e[k]
            r = sqrt(along * along + g * g)
            inverse = where(r > 0, 1 / where(r > 0, r, 1.0), 0.0)
            c, s = where(here, where(r > 0, g * inverse, 1.0), 1.0), where(here, along * inverse, 0.0)
            q = (d.at(k + 1) - main) * s + 2 * c * beside
            g, p = where(here, c * q - beside, state[0]), where(here, s * q, state[3])
            return g, where(here, c, state[1]), where(here, s, state[2]), p, main + p, r, c, s

        *state, above, r, c, s = build((), at)
        return tuple(state), (above, r, c, s)

    none = build((), lambda: 0 * shift)
    (g, _, _, p), (above, r, c, s) = scan(n, (none,) * 4, step)
    main = build(n, lambda k: where(inside(k), above[k], where(k == last, d[k] - p, d[k])))
    below = build(n, lambda k: where(k + 1 == last, g, where(inside(k), r.at(k + 1), e[k])))
    return main, below, c, s


def _rootless_step(d: Array, squares: Array, first: Array, last: Array) -> tuple[Array, Array]:
    """Take a QR step of rows `first` to `last` of a diagonal and the squares beside it.

    Ortega and Kaiser 1963. The stable form is that of Pal, Walker and Kahan (Parlett, *The symmetric eigenvalue
    problem*, 8.15; LAPACK's dsterf). c and s are the squares of the rotation's cosine and sine. For p = g² / c stands
    g² r / p, which waits for no quotient of the row. Where it would overflow, c is below rounding, and the next p is
    b times the c before.
    """
    n, least = d.shape[0], finfo(d.dtype).smallest_normal
    shift = _shift(d, squares, last)

    def down(k: Any, d: Array, squares: Array, g: Array, p: Array, c: Array, s: Array) -> Any:
        def at() -> Any:
            b, after = squares[k], d.at(k + 1)
            r = p + b
            along, beside = p / r, b / r
            change = along * (after - shift) - beside * g
            next_ = where(along > least, change * change * (r / p), b * c)
            return g + (after - change), s * r, change, next_, along, beside

        main, before, *state = build((), at)
        d = build(n, lambda i: where(i == k, main, d[i]))
        return d, build(n, lambda i: where(i == k - 1, before, squares[i])), *state

    def row(state: Any, k: Any) -> Any:
        inside = build((), lambda: (k >= first) & (k < last))
        return either(inside, lambda *state: down(k, *state), lambda *same: same, *state)

    g = build((), lambda: d.at(first) - shift)
    p, c, s = build((), lambda: (g * g, 0 * shift + 1, 0 * shift))
    d, squares, g, p, _, s = fold(n, (d, squares, g, p, c, s), row)
    d = build(n, lambda i: where(i == last, g + shift, d[i]))
    return d, build(n, lambda i: where(i == last - 1, s * p, squares[i]))


def _shift(d: Array, squares: Array, last: Array) -> Array:
    """Wilkinson's shift: the eigenvalue of the trailing 2 × 2 part that is nearer to its last element."""
    a, b, c = d.at(last - 1), squares.at(last - 1), d.at(last)
    half = (a - c) / 2
    root = sqrt(half * half + b)
    far = where(half < 0, half - root, half + root)
    return build((), lambda: c - where(far != 0, b / where(far != 0, far, 1.0), 0.0))  # type: ignore[no-any-return]
