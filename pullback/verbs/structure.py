"""Structural verbs: take, drop, reshape, ravel, catenate, replicate, transpose, iota, index_of.

Counts and shapes come first, as in APL. All verbs except `catenate` and `index_of` are views: they cost nothing, and
their derivatives are gathers.
"""

from __future__ import annotations

from builtins import sum as builtins_sum
from collections.abc import Sequence
from typing import Any

from pullback.arrays import manipulation
from pullback.arrays.creation import arange, zeros
from pullback.arrays.elementwise import elementwise, where
from pullback.arrays.manipulation import concat, join, product, split
from pullback.arrays.reduction import normal_axes
from pullback.arrays.subscript import subscript
from pullback.errors import DTypeError, ShapeError, counted
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Cond, Index, cond, prove
from pullback.source import user_position
from pullback.tracing.array import Array, Indices, shape_text
from pullback.tracing.index import build, min_over
from pullback.tracing.making import as_array, describe, extent_of, view
from pullback.tracing.tracer import current
from pullback.verbs.nested import Extents, Nested, disclose


def vector(x: Any, what: str) -> list[Index]:
    """Convert a number or a sequence of numbers, known at definition, to a list of indices."""
    if isinstance(x, Sequence):
        return [extent_of(e, what) for e in x]
    if isinstance(x, Array) and x.rank == 1 and x.extents[0].constant is not None:
        return [extent_of(e, what) for e in as_array(x)]
    return [extent_of(x, what)]


def _counts(what: str, counts: Any, x: Array) -> list[Index | None]:
    """Return one count for each axis of x, None for axes without a count."""
    given: list[Index | None] = [*vector(counts, what)]
    if len(given) > x.rank:
        raise ShapeError(
            "E104",
            f"{what}: {counted(len(given), 'count')} for an array of {counted(x.rank, 'axis', 'axes')}",
            position=user_position(),
            facts=[describe(x, "array")],
        )
    return given + [None] * (x.rank - len(given))


def _negative(what: str, count: Index, x: Array) -> bool:
    """Whether a count is negative, from the end. A count of dims with unknown sign is assumed not to be."""
    known = current().known
    if prove(cond(">=", count), known):
        return False
    if prove(cond(">=", -count), known):
        return True
    if count.is_dim:
        return False
    raise ShapeError(
        "E106",
        f"{what}: whether the count {count} is negative is not known at definition",
        position=user_position(),
        facts=[describe(x, "array")],
        remedy="a negative count means the end: give one whose sign follows from the ranges of its indices",
    )


def _require(count: Index) -> None:
    """Require in the function's type that a count of dims is not negative."""
    if not count.free:
        current().require(cond(">=", count))


def _extent(count: Index, what: str) -> Index:
    """Check the size of a result. A size that depends on an index is only valid in intermediate steps."""
    return count if count.free else current().extent(count, what)


def take(counts: Any, x: Any) -> Array:
    """Take the first elements along each axis, the last for negative counts; pad with zeros.

    Args:
        counts: a number or a vector of numbers, for the first axes of x; the other axes are taken whole. A difference
            of dims is assumed to be positive; the type of the function then requires it.
        x: array.
    Returns:
        An array whose first sizes are the magnitudes of the counts.
    Raises:
        ShapeError: [E104] more counts than axes. [E106] the sign of a count depends on an index.
    """
    h: Array = disclose(x)
    parts: list[tuple[Index, Index | None]] = []  # the size, and the index of its first element in x
    for n, count in zip(h.extents, _counts("take", counts, h)):
        if count is None:
            parts.append((n, None))
        elif _negative("take", count, h):
            parts.append((_extent(-count, "take"), n + count))
        else:
            parts.append((_extent(count, "take"), ZERO_INDEX))

    def rule(indices: Indices) -> ir.Scalar:
        own, conds = [], list[Cond | bool]()
        for i, n, (_, start) in zip(indices, h.extents, parts):
            if start is not None:
                i = i + start
                inside = (cond(">=", i), cond(">=", n - 1 - i))
                conds += [c for c in inside if not prove(c, current().known)]
            own.append(i)
        return expr.bracket(conds, h.element(tuple(own)))

    return view([e for e, _ in parts], h.settled, rule, user_position(), h.name)


def drop(counts: Any, x: Any) -> Array:
    """Drop the first elements along each axis, or the last for negative counts.

    Args:
        counts: a number or a vector of numbers, for the first axes of x; other axes are kept.
        x: array.
    Returns:
        The remaining elements; empty if the count reaches the size.
    Raises:
        ShapeError: [E104] more counts than axes. [E106] the sign of a count depends on an index.
    """
    h: Array = disclose(x)
    extents, starts = list[Index](), list[Index]()
    for n, count in zip(h.extents, _counts("drop", counts, h)):
        from_end = count is not None and _negative("drop", count, h)
        if count is not None and not from_end:
            _require(count)
        left = n if count is None else n + count if from_end else n - count
        if left.constant is not None and left.constant < 0:
            left = ZERO_INDEX
        extents.append(_extent(left, "drop"))
        starts.append(ZERO_INDEX if count is None or from_end else count)
    rule = lambda indices: h.element(tuple(i + s for i, s in zip(indices, starts)))
    return view(extents, h.settled, rule, user_position(), h.name)


def reshape(shape: Any, x: Any) -> Array:
    """Reshape in row-major order; drop surplus elements, and fill missing ones cyclically from the first.

    Args:
        shape: a size or a vector of sizes.
        x: array with at least one element.
    Raises:
        ShapeError: [E104] x has no elements, but the result would have some.
    """
    h: Array = disclose(x)
    extents = [current().extent(e, "reshape") for e in vector(shape, "reshape")]
    wanted, size = product(extents), product(h.extents)
    if size.constant == 0 and wanted.constant != 0:
        raise ShapeError(
            "E104",
            f"reshape: {shape_text(h.extents)} holds no elements to fill {shape_text(extents)} with",
            position=user_position(),
            facts=[describe(h, "array")],
        )
    enough = prove(cond(">=", size - wanted), current().known)

    def rule(indices: Indices) -> ir.Scalar:
        flat = join(indices, extents)
        return h.element(split(flat if enough else flat % size, h.extents))

    return view(extents, h.settled, rule, user_position(), h.name)


def ravel(x: Any) -> Any:
    """Return all elements in row-major order, as a vector; for a nested array, its elements."""
    if isinstance(x, Nested):
        return Nested(x.shape, x.element, x.array, flat=True)
    return manipulation.reshape(x, (-1,))


def catenate(x: Any, y: Any, axis: int = -1) -> Array:
    """Join two arrays along an axis, the last one unless given.

    A scalar is repeated to fit. An array with one axis less than the other has size 1 along the axis.
    """
    a, b = disclose(x), disclose(y)
    if not a.rank and not b.rank:
        a, b = (manipulation.expand_dims(h) for h in (a, b))
    larger = a if a.rank >= b.rank else b
    (at,) = normal_axes(larger, axis, "catenate")
    one = [e if k != at else 1 for k, e in enumerate(larger.shape)]

    def fitted(h: Array) -> Array:
        if not h.rank:
            return manipulation.broadcast_to(h, one)
        return manipulation.expand_dims(h, at) if h.rank == larger.rank - 1 else h

    return concat([fitted(a), fitted(b)], axis=at)


def replicate(counts: Any, x: Any, axis: int = -1) -> Array:
    """Repeat every slice along an axis.

    Args:
        counts: the repetitions of each slice: one number, or a vector of Python ints; 0 omits a slice.
        x: array.
        axis: the last one unless given; 0 repeats rows.
    """
    h: Array = disclose(x)
    (at,) = normal_axes(h, axis, "replicate")
    if not isinstance(counts, Sequence):
        return manipulation.repeat(h, counts, axis=at)
    numbers = [extent_of(c, "replicate").constant for c in counts]
    if h.extents[at].constant != len(numbers) or any(n is None or n < 0 for n in numbers):
        raise ShapeError(
            "E104",
            f"replicate: {counted(len(numbers), 'count')} for {counted(h.extents[at], 'slice')}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="one non-negative number for each slice, or a single one for all",
        )
    lead = (slice(None),) * at
    parts = [
        manipulation.repeat(subscript(h, (*lead, slice(k, k + 1))), n, axis=at) for k, n in enumerate(numbers) if n
    ]
    if not parts:
        return zeros([*h.shape[:at], 0, *h.shape[at + 1 :]], dtype=h.settled)
    return concat(parts, axis=at)


def transpose(x: Any, axes: Sequence[int] | None = None) -> Array:
    """Reverse the order of the axes, or move axis k of x to axis axes[k] of the result.

    Axes of x that move to the same axis of the result give a diagonal: `transpose(m, (0, 0))`.

    Raises:
        ShapeError: [E104] an axis of the result is missing, or axes of one diagonal differ in size.
    """
    h: Array = disclose(x)
    places = tuple(reversed(range(h.rank))) if axes is None else tuple(axes)
    rank = max(places, default=-1) + 1
    extents = [{h.extents[k] for k, p in enumerate(places) if p == a} for a in range(rank)]
    if len(places) != h.rank or min(places, default=0) < 0 or any(len(e) != 1 for e in extents):
        raise ShapeError(
            "E104",
            f"transpose: axes {places} for an array of {counted(h.rank, 'axis', 'axes')}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="one place in the result for each axis, none left out, a diagonal of axes of equal size",
        )
    rule = lambda indices: h.element(tuple(indices[p] for p in places))
    return view([e for (e,) in extents], h.settled, rule, user_position(), h.name)


def reverse(x: Any, axis: int = -1) -> Array:
    """Reverse the elements along an axis, the last one unless given.

    Raises:
        ShapeError: [E104] there is no such axis.

    >>> import numpy as np, pullback as pb
    >>> from pullback.verbs import reverse
    >>> pb.function(lambda x: reverse(x))(np.array([1.0, 2.0, 3.0])).tolist()
    [3.0, 2.0, 1.0]
    """
    h: Array = disclose(x)
    (at,) = normal_axes(h, axis, "reverse")
    rule = lambda i: h.element((*i[:at], h.extents[at] - 1 - i[at], *i[at + 1 :]))
    return view(h.extents, h.settled, rule, user_position(), h.name)


def rotate(count: Any, x: Any, axis: int = -1) -> Array:
    """Rotate the elements along an axis toward the front by a count, toward the back if it is negative.

    Args:
        count: a number known at definition.
        x: array.
        axis: the last one unless given.
    Raises:
        ShapeError: [E104] there is no such axis.

    >>> import numpy as np, pullback as pb
    >>> from pullback.verbs import rotate
    >>> pb.function(lambda x: rotate(1, x))(np.array([1.0, 2.0, 3.0])).tolist()
    [2.0, 3.0, 1.0]
    """
    h: Array = disclose(x)
    (at,) = normal_axes(h, axis, "rotate")
    (by,) = vector(count, "rotate")
    rule = lambda i: h.element((*i[:at], (i[at] + by) % h.extents[at], *i[at + 1 :]))
    return view(h.extents, h.settled, rule, user_position(), h.name)


def expand(counts: Sequence[int], x: Any, axis: int = -1) -> Array:
    """Spread the slices along an axis, with zeros between them.

    Args:
        counts: Python ints. A positive count repeats the next slice. A count of 0 or -1 inserts one slice of zeros,
            a count of -n inserts n.
        x: array with as many slices as there are positive counts.
        axis: the last one unless given.
    Raises:
        ShapeError: [E104] there are more or fewer slices.

    >>> import numpy as np, pullback as pb
    >>> from pullback.verbs import expand
    >>> pb.function(lambda x: expand((1, 0, 2), x))(np.array([5.0, 7.0])).tolist()
    [5.0, 0.0, 7.0, 7.0]
    """
    h: Array = disclose(x)
    (at,) = normal_axes(h, axis, "expand")
    numbers = [int(c) for c in counts]
    slices = builtins_sum(n > 0 for n in numbers)
    if h.extents[at].constant != slices:
        raise ShapeError(
            "E104",
            f"expand: {slices} positive counts for {counted(h.extents[at], 'slice')}",
            position=user_position(),
            facts=[describe(h, "array")],
        )
    lead, parts, used = (slice(None),) * at, list[Array](), 0

    def gap(n: int) -> Array:
        return zeros([*h.shape[:at], n, *h.shape[at + 1 :]], dtype=h.settled)

    for n in numbers:
        if n > 0:
            parts.append(manipulation.repeat(subscript(h, (*lead, slice(used, used + 1))), n, axis=at))
            used += 1
        else:
            parts.append(gap(max(-n, 1)))
    return concat(parts, axis=at) if parts else gap(0)


def iota(n: Any) -> Any:
    """The integers from 0 to n - 1; for a vector of sizes, the nested array of index vectors.

    >>> import pullback as pb
    >>> from pullback.verbs import disclose, iota
    >>> @pb.function
    ... def indices(rows: pb.Static):
    ...     return disclose(iota((rows, 2)))
    >>> indices(2).tolist()
    [[[0, 0], [0, 1]], [[1, 0], [1, 1]]]
    """
    if not isinstance(n, Sequence):
        return arange(n)
    return Nested(n, lambda *i: Extents(i))


def index_of(x: Any, y: Any) -> Array:
    """Return the first position of each element of y in the vector x, or the size of x if absent.

    Raises:
        ShapeError: [E104] x is no vector.
        DTypeError: [E121] the elements cannot be compared.
    """
    a, b = disclose(x), disclose(y)
    if a.rank != 1:
        raise ShapeError(
            "E104",
            f"index_of: the first argument has {counted(a.rank, 'axis', 'axes')}, not one",
            position=user_position(),
            facts=[describe(a, "array")],
            remedy="`ravel` makes a vector of an array",
        )
    if a.settled.is_bool != b.settled.is_bool:
        raise DTypeError(
            "E121",
            "index_of: truth values and numbers are never equal",
            position=user_position(),
            facts=[describe(a, "first"), describe(b, "second")],
        )
    (n,) = a.shape

    def first(*j: Any) -> Any:
        return min_over(n, lambda i: where(elementwise("equal", a[i], b[j] if j else b), i, n))

    found: Array = build(b.shape, first) if b.rank else first()
    return found


__all__ = [
    "catenate",
    "drop",
    "expand",
    "index_of",
    "iota",
    "ravel",
    "replicate",
    "reshape",
    "reverse",
    "rotate",
    "take",
    "transpose",
]
