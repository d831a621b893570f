"""The singular values of matrices: a real bidiagonal form, and QR steps on it."""

from __future__ import annotations

from typing import Any

from pullback.arrays.complex import conj, real
from pullback.arrays.creation import eye
from pullback.arrays.dtypes import finfo
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import sqrt, where
from pullback.arrays.manipulation import matrix_transpose
from pullback.arrays.sorting import sort
from pullback.linalg.divide import halvings
from pullback.linalg.divide_bidiagonal import conquered
from pullback.linalg.qr import product_of, products, reflection
from pullback.linalg.rotations import PASSES, WIDE, joined, last_block, parted, turned
from pullback.linalg.spectra import if_finite, order
from pullback.tracing.array import Array
from pullback.tracing.branches import cond as either
from pullback.tracing.control import fold, scan
from pullback.tracing.index import build, max_over, sum_over


def singular_factors(a: Array) -> tuple[Array, Array, Array]:
    """Return the columns of U, the singular values, descending, and the columns of V.

    There are at least as many rows as columns.
    """
    m, n = a.shape
    d, e, columns, rows = _bidiagonal(a)
    size = real(a).extents[1].constant
    if halvings(size):
        assert size is not None
        s, u, v = conquered(d, e, size, _whole)
        spare = (s.extents[0].constant or size) - size
    else:
        (u, s, v), spare = _whole(d, e), 0
    rank_of = order(-s)

    def chosen(x: Array, shape: Any) -> Array:
        """The vectors in this order, with zeros below."""
        return build(shape, lambda i, k: x.at(i, rank_of[k + spare])).astype(a.dtype)  # type: ignore[no-any-return]

    values = if_finite(build(n, lambda k: s[rank_of[k + spare]]), d, e)
    return product_of(columns, chosen(u, (m, n))), values, product_of(rows, chosen(v, (n, n)))


def singular_values(a: Array) -> Array:
    """Return the singular values alone, descending."""
    d, e, _, _ = _bidiagonal(a)
    return if_finite(sort(_values(d, e), descending=True), d, e)


def _whole(d: Array, e: Array) -> tuple[Array, Array, Array]:
    """The columns of U, the singular values in any order, and the columns of V, by QR steps.

    A pass takes several steps, and then applies all their rotations to the vectors.
    """
    n = d.shape[0]

    def steps(d: Array, e: Array, u: Array, v: Array) -> Any:
        (d, e), (c, s, c2, s2) = scan(WIDE, (d, e), lambda state, _: _step_if_any(*state))
        return d, e, turned(u, c2, s2), turned(v, c, s)

    def go(state: Any, _: Any) -> Any:
        return either(_block(*state[:2])[1] > 0, steps, lambda *same: same, *state)

    start = parted(eye(n, dtype=d.dtype))
    d, e, u, v = fold(PASSES * n, (d, e, start, start), go)
    s = magnitude(d) + where(_block(d, e)[1] == 0, 0.0, float("nan"))
    left, right = joined(u, d), joined(v, d)
    v = build((n, n), lambda i, k: where(d[k] < 0, -right[k, i], right[k, i]))
    return matrix_transpose(left), s, v


def _values(d: Array, e: Array) -> Array:
    """The singular values of a bidiagonal matrix alone, in any order, by steps of the rows of blocks."""
    n = d.shape[0]

    def step(d: Array, e: Array, first: Array, last: Array) -> Any:
        d, e = _step_of_values(d, e, first, last)
        return d, e, *_block(d, e)

    def go(state: Any, _: Any) -> Any:
        return either(state[3] > 0, step, lambda *same: same, *state)

    d, _, _, last = fold(PASSES * WIDE * n, (d, e, *_block(d, e)), go)
    return magnitude(d) + where(last == 0, 0.0, float("nan"))


def _bidiagonal(a: Array) -> tuple[Array, Array, Any, Any]:
    """The real diagonal and superdiagonal of H a Gᴴ, and the reflections whose products are H and G.

    A step reflects a column, I - s vᴴ, and then the adjoint of a row, I - t uᴴ. Both together are an update of rank
    two, a - s p - q tᴴ with p = vᴴ a and q = (a - s p) u (Golub and Van Loan, *Matrix computations*, 5.4.8). Row j of
    s p, `change`, stays in range, and the other rows are its multiples by the elements of v.
    """
    m, n = a.shape

    def step(x: Array, j: Any) -> Any:
        v, s = reflection(build(m, lambda i: x[i, j]), j)
        p = products(v, x, j)
        change, top = build(n, lambda k: s.at(j) * p[k]), v.at(j)
        u, t = reflection(build(n, lambda k: conj(x.at(j, k) - change[k])), j + 1)
        along = sum_over(n, lambda k: change[k] * u[k]) / where(top == 0, 1.0, top)
        q = build(m, lambda i: sum_over(n, lambda k: where(i >= j, x[i, k] * u[k], 0)) - v[i] * along)

        def changed(i: Any, k: Any) -> Any:
            return x[i, k] - where((i >= j) & (k >= j), s[i] * p[k] + q[i] * conj(t[k]), 0)

        return build((m, n), changed), ((v, s), (u, t))

    x, (left, right) = scan(n, a, step)
    above = build(n, lambda k: where(k < n - 1, real(x.at(k, k + 1)), 0.0))
    return build(n, lambda k: real(x.at(k, k))), above, left, right


def _block(d: Array, e: Array) -> tuple[Array, Array]:
    """Return the first and last row of the last block that is not yet diagonal; 0 and 0 for none."""
    eps = finfo(d.dtype).eps
    least = _least(d, e)
    return last_block(
        d.shape[0], lambda k: ~(magnitude(e[k]) > eps * (magnitude(d[k]) + magnitude(d.at(k + 1))) + least)
    )


def _least(d: Array, e: Array) -> Array:
    """The size below which an element is far less than the rounding of the largest one."""
    n, eps = d.shape[0], finfo(d.dtype).eps
    return build((), lambda: eps * eps * max_over(n, lambda k: magnitude(d[k]) + magnitude(e[k])))  # type: ignore[no-any-return]


def _step_if_any(d: Array, e: Array) -> Any:
    """One QR step of the last block, or none; return the state, and the rotations of V and of U."""
    first, last = _block(d, e)
    n = d.shape[0]
    one, none = build(n, lambda k: 1 + 0 * e[k]), build(n, lambda k: 0 * e[k])
    d, e, *rotations = either(
        last > 0, lambda d, e: _step(d, e, first, last), lambda d, e: (d, e, one, none, one, none), d, e
    )
    return (d, e), tuple(rotations)


def _step(given: Array, e: Array, first: Array, last: Array) -> Any:
    """Take an implicit QR step of rows `first` to `last`; return the rotations of V and of U, too."""
    n = given.shape[0]
    d, start = _started(given, e, first, last)

    def inside(k: Any) -> Any:
        return (k >= first) & (k < last)

    def step(state: Any, k: Any) -> Any:
        state = tuple(where(k == first, x, old) for x, old in zip(start, state))
        after, done, rotations = _chased(d, e, k, *state)
        here = inside(k)
        state = tuple(where(here, x, old) for x, old in zip(after, state))
        return state, (*done, *(where(here, x, 1.0 - i % 2) for i, x in enumerate(rotations)))

    none = build((), lambda: 0 * start[0])
    (f, _, low, _), (size, r, *rotations) = scan(n, (none,) * 4, step)
    main = build(n, lambda k: where(inside(k), size[k], where(k == last, low, d[k])))
    above = build(n, lambda k: where(k + 1 == last, f, where(inside(k), r.at(k + 1), e[k])))
    return (main, above, *rotations)


def _step_of_values(given: Array, e: Array, first: Array, last: Array) -> tuple[Array, Array]:
    """Take the same step without the rotations, down the rows of the block alone."""
    n = given.shape[0]
    d, start = _started(given, e, first, last)

    def down(k: Any, d: Array, e: Array, f: Array, g: Array, main: Array, beside: Array) -> Any:
        after, (size, r), _ = _chased(d, e, k, f, g, main, beside)
        before = build((), lambda: where(k > first, r, 0.0))  # the block's first row is coupled to none
        d = build(n, lambda i: where(i == k, size, d[i]))
        return d, build(n, lambda i: where(i == k - 1, before, e[i])), *after

    def row(state: Any, k: Any) -> Any:
        inside = build((), lambda: (k >= first) & (k < last))
        return either(inside, lambda *state: down(k, *state), lambda *same: same, *state)

    d, e, f, _, low, _ = fold(n, (d, e, *start), row)
    d = build(n, lambda i: where(i == last, low, d[i]))
    return d, build(n, lambda i: where(i == last - 1, f, e[i]))


def _started(given: Array, e: Array, first: Array, last: Array) -> tuple[Array, tuple[Array, ...]]:
    """The diagonal with numbers far below rounding for zeros, which a step cannot have, and its start."""
    n, least = given.shape[0], _least(given, e)
    d = build(n, lambda k: where((k >= first) & (k < last) & (magnitude(given[k]) < least), least, given[k]))
    shift = _shift(d, e, first, last)

    def at() -> Any:
        top, beside = d.at(first), e.at(first)
        sign = where(top < 0, -1.0, 1.0)
        return (magnitude(top) - shift) * (sign + where(shift > 0, shift / top, 0.0)), beside, top, beside

    return d, build((), at)


def _chased(d: Array, e: Array, k: Any, f: Any, g: Any, main: Any, beside: Any) -> Any:
    """Move the element outside of the form by a row; return the next state, two elements, the rotations.

    Golub and Kahan 1965, in the form of LAPACK's dbdsqr. A rotation of columns k and k + 1 takes (f, g) to (r, 0) and
    leaves an element below the diagonal; one of rows moves it past the superdiagonal.
    """

    def rotation(f: Any, g: Any) -> tuple[Any, Any, Any]:
        size = sqrt(f * f + g * g)
        inverse = where(size > 0, 1 / where(size > 0, size, 1.0), 0.0)
        return size, where(size > 0, f * inverse, 1.0), g * inverse

    def columns() -> Any:
        r, c, s = rotation(f, g)
        return r, c, s, c * main + s * beside, c * beside - s * main, d.at(k + 1), e.at(k + 1)

    r, c, s, above, other, next_, right = build((), columns)

    def rows() -> Any:
        low, bulge = c * next_, s * next_
        size, c2, s2 = rotation(above, bulge)
        return size, c2, s2, c2 * other + s2 * low, s2 * right, c2 * low - s2 * other, c2 * right

    size, c2, s2, *after = build((), rows)
    return tuple(after), (size, r), (c, s, c2, s2)


def _shift(d: Array, e: Array, first: Array, last: Array) -> Array:
    """The smaller singular value of the trailing 2 × 2 part, or 0 if it is negligible at the top.

    For f, g and h as |d[-2]|, |e[-2]| and |d[-1]|: the larger one is (√((f + h)² + g²) + √((f - h)² + g²)) / 2, and
    their product is f h.
    """
    f, g, h = magnitude(d.at(last - 1)), magnitude(e.at(last - 1)), magnitude(d.at(last))
    larger = (sqrt((f + h) * (f + h) + g * g) + sqrt((f - h) * (f - h) + g * g)) / 2
    smaller = build((), lambda: where(larger > 0, f * (h / where(larger > 0, larger, 1.0)), 0.0))
    part = smaller / where(d.at(first) == 0, 1.0, d.at(first))
    return build((), lambda: where(part * part > finfo(d.dtype).eps, smaller, 0.0))  # type: ignore[no-any-return]
