"""Shared parts of the decompositions: argument checks, and mapping over stacks of matrices.

Real and complex matrices share one implementation: for real ones `adjoint` is the transpose, and `conj` and `real`
do nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.arrays.complex import conj, imag, real
from pullback.arrays.complex_parts import as_complex, pair
from pullback.arrays.elementwise import convert, elementwise, where
from pullback.arrays.manipulation import concat, matrix_transpose
from pullback.arrays.reduction import sum as total
from pullback.errors import DTypeError, ShapeError, counted
from pullback.source import user_position
from pullback.tracing.arithmetic import broadcast_extents, common_dtype
from pullback.tracing.array import Array, from_index, shape_text, type_text
from pullback.tracing.complex_array import is_complex
from pullback.tracing.control import scan
from pullback.tracing.index import build
from pullback.tracing.making import as_array, describe, view


def matrices(what: str, x: Any, *, square: bool = True) -> Array:
    """Check an argument: floating-point matrices in its last two axes."""
    if is_complex(x):
        z: Any = as_complex(x)
        matrices(what, z.real, square=square)
        return z  # type: ignore[no-any-return]
    h: Array = as_array(x, what)
    if h.rank < 2 or (square and h.extents[-1] is not h.extents[-2]):
        raise ShapeError(
            "E104",
            f"{what} takes {'square ' * square}matrices, and {h.name or 'the array'} is {shape_text(h.extents)}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="the last two axes make up a matrix, axes in front of them a stack",
        )
    return _floating(what, h)


def _floating(what: str, h: Array) -> Array:
    if not h.settled.is_floating:
        raise DTypeError(
            "E121",
            f"{what} takes floating-point matrices, not {type_text(h)}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="convert with `astype(pb.float64)`",
        )
    return h


def system(what: str, a: Any, b: Any, *, square: bool = True) -> tuple[Any, Any]:
    """Check the matrices and right-hand sides of a linear system; convert them to one element type.

    Complex matrices make the right-hand sides complex.
    """
    if is_complex(a) or is_complex(b):
        m, r = as_complex(a), as_complex(b)
        (m_real, r_real), (m_imag, r_imag) = (
            system(what, *parts, square=square) for parts in ((m.real, r.real), (m.imag, r.imag))
        )
        return pair(m_real, m_imag) if is_complex(a) else m_real, pair(r_real, r_imag)
    left, right = matrices(what, a, square=square), _floating(what, as_array(b, what))
    if not right.rank or left.extents[-2] is not right.extents[-2 if right.rank > 1 else 0]:
        rows = counted(right.extents[-2 if right.rank > 1 else 0], "row") if right.rank else "no axes"
        raise ShapeError(
            "E102",
            f"{what}: {left.name or 'the matrix'} has {counted(left.extents[-2], 'row')}, "
            f"{right.name or 'the right-hand side'} has {rows}",
            position=user_position(),
            facts=[describe(left, "left"), describe(right, "right")],
            remedy="a right-hand side of rank 1 is one vector, of higher rank a stack of matrices",
        )
    dtype = common_dtype(what, [left, right], user_position())
    assert dtype is not None
    return (left if left.strong is dtype else convert(left, dtype)), (
        right if right.strong is dtype else convert(right, dtype)
    )


def each(what: str, f: Callable[..., Any], *stacks: Array, in_turn: bool = False) -> Any:
    """Apply `f` to every matrix of the stacks, whose leading axes broadcast.

    With `in_turn` one matrix comes after another, so each takes the steps it needs; else all take steps at once.
    """
    parts = [real(h) for h in stacks]
    lead = [view(h.extents[:-2], h.settled, h.element, name=h.name) for h in parts]
    extents = broadcast_extents(what, lead, user_position())
    if not extents:
        return f(*stacks)

    def one(h: Array, indices: Sequence[Any]) -> Array:
        own = real(h).extents[:-2]
        kept = indices[len(indices) - len(own) :]
        return h[tuple(0 if e.constant == 1 else i for e, i in zip(own, kept))] if own else h

    def at(*i: Any) -> Any:
        return f(*(one(h, i) for h in stacks))

    if not in_turn:
        return build(tuple(map(from_index, extents)), at)

    def rows(rest: Sequence[Any], *i: Any) -> Any:
        return scan(rest[0], (), lambda _, k: ((), rows(rest[1:], *i, k)))[1] if rest else at(*i)

    return rows(tuple(map(from_index, extents)))


def each_solved(what: str, f: Callable[[Array, Array], Array], a: Array, b: Any) -> Array:
    """Apply `f` to each matrix and its right-hand sides; a vector b is a matrix of one column."""
    if is_complex(b) and not is_complex(a):  # real and imaginary parts become right-hand sides side by side
        if b.ndim == 1:
            return each_solved(what, f, a, b[:, None])[..., 0]
        k = b.shape[-1]
        x = each_solved(what, f, a, concat([b.real, b.imag], axis=-1))
        return pair(x[..., :k], x[..., k:])  # type: ignore[return-value]
    if b.ndim > 1:
        return each(what, f, a, b)  # type: ignore[no-any-return]
    return each(what, lambda m: f(m, b[:, None])[:, 0], a)  # type: ignore[no-any-return]


def adjoint(h: Array) -> Array:
    """Return the conjugate transpose of matrices."""
    return conj(matrix_transpose(h))  # type: ignore[no-any-return]


def square_magnitude(z: Array) -> Array:
    """Return |z|², without a square root."""
    return real(z) * real(z) + imag(z) * imag(z) if is_complex(z) else z * z


def constant(h: Array) -> Array:
    """Return the array as a constant, without a derivative."""
    return elementwise("stop_gradient", h)


_SCALES = {64: (600, -660, -600, 660), 32: (100, -75, -60, 88)}
"""By the bits of an element, exponents of two: where the sum of squares is above the first, matrices are scaled by the
second; where it is below the third, by the fourth. Squares then stay in range down to eps times the norm."""


def rescaled(a: Array) -> tuple[Array, Array, Array]:
    """Scale a matrix by a power of two k so that squares stay in range; return it, k and 1 / k.

    k is 1 unless the matrix is very large or very small, so ordinary matrices keep their bits. Derivatives take it as a
    constant. The sum of squares decides, also where it is infinite or 0.
    """
    size = total(square_magnitude(constant(a)))
    high, down, low, up = _SCALES[size.dtype.bits]

    def power(sign: int) -> Array:  # a product of choices: one inside the other would compute the sum twice
        large = where(size > 2.0**high, 2.0 ** (sign * down), 1.0)
        small = where(size < 2.0**low, 2.0 ** (sign * up), 1.0)
        return (large * small).astype(size.dtype)

    return a * power(1), power(1), power(-1)
