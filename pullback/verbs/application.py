"""Verbs that apply functions to the cells of arrays: rank, each, table, reduce, stencil, power.

The function is traced once, for a cell at symbolic indices, so all results have one shape. If the cells are Python
numbers (a tuple of shapes, say), it is called for each of them. Results of different shapes are then padded with zeros.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from itertools import product as combinations
from typing import Any, NamedTuple

from pullback.arrays import composed, reduction
from pullback.arrays import elementwise as functions
from pullback.arrays.elementwise import elementwise, where
from pullback.arrays.manipulation import expand_dims, moveaxis, reshape, stack
from pullback.arrays.reduction import normal_axes
from pullback.arrays.subscript import subscript
from pullback.errors import ShapeError, TraceError, counted
from pullback.ir.index import Index, as_index
from pullback.source import user_position
from pullback.tracing.array import Array, from_index, shape_text
from pullback.tracing.control import fold
from pullback.tracing.index import build
from pullback.tracing.making import as_array, describe, extent_of, view
from pullback.tracing.public import unguarded
from pullback.tracing.tracer import current
from pullback.verbs.nested import Nested, cell, disclose, nested
from pullback.verbs.recognize import recognized
from pullback.verbs.structure import take, vector

Verb = Callable[..., Any]


class _Cells(NamedTuple):
    """An argument as a frame of cells. `fixed` is true if the cells are Python values."""

    frame: tuple[Index, ...]
    at: Callable[..., Any]
    fixed: bool = False


def _depth(x: Any) -> int:
    """The rank of nested Python sequences."""
    return 1 + _depth(x[0]) if isinstance(x, Sequence) and len(x) else int(isinstance(x, Sequence))


def _cells(x: Any, rank: int) -> _Cells:
    """View `x` as a frame of cells of a given rank; a negative rank is the number of frame axes."""
    if isinstance(x, Nested):
        return _cells_of_nested(x)
    if isinstance(x, Sequence):
        depth = _depth(x)
        axes = max(depth - rank, 0) if rank >= 0 else min(-rank, depth)
        frame, level = list[Index](), x
        for _ in range(axes):
            frame.append(as_index(len(level)))
            level = level[0] if len(level) else ()
        return _Cells(tuple(frame), lambda *i: _pick(x, i), True)
    h: Array = as_array(x, "verb")
    axes = max(h.rank - rank, 0) if rank >= 0 else min(-rank, h.rank)
    return _Cells(h.extents[:axes], lambda *i: subscript(h, i) if i else h)


def _cells_of_nested(x: Nested) -> _Cells:
    if x.flat and len(x.shape) != 1:
        x = nested(disclose(x), 1)
    return _Cells(tuple(extent_of(e, "frame") for e in x.shape), x.element)


def _pick(x: Any, indices: Sequence[int]) -> Any:
    for i in indices:
        x = x[i]
    return x


def _apply(what: str, f: Verb, arguments: Sequence[_Cells]) -> tuple[Any, int]:
    """Apply `f` to corresponding cells; return the number of frame axes too. A shorter frame is a prefix."""
    frame = max((c.frame for c in arguments), key=len)
    for c in arguments:
        if any(e is not g for e, g in zip(c.frame, frame)):
            raise ShapeError(
                "E101",
                f"{what}: the frames {shape_text(c.frame)} and {shape_text(frame)} differ",
                position=user_position(),
                remedy="one frame must be the beginning of the other; give the ranks of the cells",
            )

    def here(i: tuple[Any, ...]) -> Any:
        return f(*(c.at(*i[: len(c.frame)]) for c in arguments))

    if not frame:
        return cell(here(())), 0
    if any(c.fixed and c.frame for c in arguments):
        return _unrolled(what, here, frame), len(frame)
    return build(tuple(map(from_index, frame)), lambda *i: cell(here(i))), len(frame)


def _unrolled(what: str, f: Callable[[tuple[int, ...]], Any], frame: tuple[Index, ...]) -> Array:
    """Call `f` for every index of the frame, and pad the results with zeros to one shape."""
    extents = [e.constant for e in frame]
    if None in extents or 0 in extents:
        raise ShapeError(
            "E106",
            f"{what}: the frame {shape_text(frame)} must have fixed positive sizes to go with Python values",
            position=user_position(),
        )
    results: list[Array] = [as_array(cell(f(i)), what) for i in combinations(*(range(e) for e in extents if e))]
    rank = max(r.rank for r in results)
    for k, r in enumerate(results):
        while r.rank < rank:
            r = expand_dims(r)
        results[k] = r
    if any(r.extents != results[0].extents for r in results):
        sizes = [[r.extents[a].constant for r in results] for a in range(rank)]
        if any(n is None for axis in sizes for n in axis):
            raise ShapeError(
                "E106", f"{what}: results of different shapes need fixed sizes", position=user_position()
            )
        largest = [max(n for n in axis if n is not None) for axis in sizes]
        results = [take(largest, r) for r in results]
    flat = stack(results)
    return reshape(flat, (*extents, *flat.shape[1:]))


def rank(f: Verb, ranks: int | Sequence[int]) -> Verb:
    """Apply `f` to cells: the sub-arrays of the last axes.

    Args:
        f: a function of one or more arrays.
        ranks: the rank of the cells, or one for each argument; a single argument takes the last one. A negative
            rank is the number of axes of the frame. A cell of an array with fewer axes is the whole array.
    Returns:
        A function of arrays. The remaining axes of each argument are its frame. Frames must be equal, or one must be a
        prefix of the other; its cells are then repeated. The results are stacked along the longest frame. Cells of
        tuples are Python values; results of different shapes are then padded with zeros at the end.
    Raises:
        ShapeError: [E101] the frames differ.

    >>> import numpy as np, pullback as pb
    >>> from pullback.verbs import rank
    >>> @pb.function
    ... def add_to_rows(v, m):
    ...     return rank(pb.add, (0, 1))(v, m)
    >>> add_to_rows(np.array([10., 20.]), np.array([[1., 2., 3.], [4., 5., 6.]])).tolist()
    [[11.0, 12.0, 13.0], [24.0, 25.0, 26.0]]
    """

    def ranked(*arguments: Any) -> Any:
        given = [ranks] * len(arguments) if isinstance(ranks, int) else list(ranks)[-len(arguments) :]
        if len(given) < len(arguments):
            raise TraceError(
                "E137",
                f"rank: {counted(len(given), 'rank')} for {counted(len(arguments), 'argument')}",
                position=user_position(),
                remedy="one rank for all arguments, or one for each",
            )
        return _apply("rank", f, [_cells(x, r) for x, r in zip(arguments, given)])[0]

    return ranked


def each(f: Verb) -> Verb:
    """Apply `f` to every element: scalars of an array, or elements of a nested array.

    Returns:
        A function of arrays of one shape; scalars broadcast. Its result is an array if f returns scalars, else
        a nested array, which `disclose` turns into an array.
    Raises:
        ShapeError: [E101] the shapes differ.
    """

    def on_each(*arguments: Any) -> Any:
        made, frame = _apply("each", f, [_cells(x, 0) for x in arguments])
        return nested(made, frame) if isinstance(made, Array) and made.rank > frame else made

    return on_each


def table(f: Verb) -> Verb:
    """Apply `f` to every pair of elements of two arrays: the outer product.

    >>> import numpy as np, pullback as pb
    >>> from pullback.verbs import table
    >>> @pb.function
    ... def products(x, y):
    ...     return table(pb.multiply)(x, y)
    >>> products(np.array([1., 2.]), np.array([3., 4., 5.])).tolist()
    [[3.0, 4.0, 5.0], [6.0, 8.0, 10.0]]
    """

    def on_all(x: Any, y: Any) -> Any:
        left, right = _cells(x, 0), _cells(y, 0)
        own = len(left.frame)
        both = (*left.frame, *right.frame)
        at = lambda *i: f(left.at(*i[:own]), right.at(*i[own:]))
        return _apply("table", lambda c: c, [_Cells(both, at, left.fixed or right.fixed)])[0]

    return on_all


_REDUCTIONS: list[tuple[tuple[Any, ...], Callable[..., Array]]] = [
    ((functions.add, operator.add), reduction.sum),
    ((functions.multiply, operator.mul), composed.prod),
    ((functions.maximum, builtins.max), reduction.max),
    ((functions.minimum, builtins.min), reduction.min),
    ((functions.logical_and,), reduction.all),
    ((functions.logical_or,), reduction.any),
]


_BY_NAME: dict[str, Callable[..., Array]] = {
    "sum": reduction.sum, "prod": composed.prod, "max": reduction.max, "min": reduction.min, "any": reduction.any,
    "all": reduction.all,
}  # fmt: skip


def reduce(f: Verb, x: Any, axis: int | None = -1) -> Any:
    """Reduce along an axis by inserting `f` between the elements.

    Args:
        f: a function of two cells. A sum, product, maximum, minimum, `and` or `or` becomes a reduction of the
            language: `pb.add`, `operator.mul`, `lambda a, b: a + b`. Any other function is folded from the right, as
            in APL: x[0] f (x[1] f x[2]).
        x: array; a nested array is reduced over its elements.
        axis: the last one unless given, 0 for the first, None for all elements.
    Returns:
        The array without the axis. A nested array gives a nested array, or its single remaining element.
    Raises:
        ShapeError: [E104] there is no such axis. [E105] the axis is empty, and f has no neutral element.
    """
    if isinstance(x, Nested):
        frame = len(x.shape)
        axes = tuple(range(frame)) if x.flat or axis is None else normal_axes(_like(x), axis, "reduce")
        made = _reduced(f, x.array, axes)
        return nested(made, frame - len(axes)) if frame > len(axes) else made
    h: Array = disclose(x)
    return _reduced(f, h, normal_axes(h, axis, "reduce")) if h.rank else h


def _like(x: Nested) -> Array:
    """Make an array with the shape of the frame, for messages."""
    h = x.array
    return view(h.extents[: len(x.shape)], h.settled, h.element)


def _reduced(f: Verb, h: Array, axes: tuple[int, ...]) -> Array:
    if not axes:
        return h
    own = unguarded(f)
    known = next((g for verbs, g in _REDUCTIONS if any(own is unguarded(v) for v in verbs)), None)
    if known is not None:
        return known(h, axis=axes)
    rows = moveaxis(h, axes, tuple(range(len(axes))))
    if len(axes) > 1:
        rows = reshape(rows, (-1, *rows.shape[len(axes) :]))
    count = rows.extents[0]
    op = None if count.constant == 1 else recognized(f, h.settled, rows.extents[1:])
    if op is not None:
        return _BY_NAME[op](h, axis=axes)
    if count.constant == 0:
        raise ShapeError(
            "E105",
            "reduce: the size of the axis is 0, and this function has no neutral element",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="of nothing the sum is 0 and the product 1; add an element that the function leaves unchanged",
        )
    if count.constant == 1:
        return subscript(rows, 0)
    last = from_index(count - 1)
    start = subscript(rows, last)
    made: Array
    if count.constant is not None:
        made = fold(last, start, lambda acc, k: f(subscript(rows, last - 1 - k), acc))
        return made

    def step(acc: Any, k: Any) -> Any:  # a neutral first step, as the size may be 1
        return where(elementwise("equal", k, 0), acc, f(subscript(rows, last - k), acc))

    made = fold(from_index(count), start, step)
    return made


def stencil(f: Verb, window: Any, step: Any = 1) -> Verb:
    """Apply `f` to a window that slides over the first axes of an array, padded with zeros.

    Args:
        f: a function of the window, an array.
        window: the window's sizes along the first axes; it spans the other axes.
        step: the stride of the window along these axes.
    Returns:
        A function of an array of sizes n. With window w and step s, it pads by ⌊(w - 1) / 2⌋ zeros on either side.
        There are ⌊(n + 2 ⌊(w - 1) / 2⌋ - w) / s⌋ + 1 windows: as many as elements if w is odd and s is 1.
    Raises:
        ShapeError: [E104] the window or the step has more axes than the array.

    >>> import numpy as np, pullback as pb
    >>> from pullback.verbs import stencil
    >>> @pb.function
    ... def neighbors(x):
    ...     return stencil(pb.sum, 3)(x)
    >>> neighbors(np.array([1., 2., 3., 4.])).tolist()
    [3.0, 6.0, 9.0, 7.0]
    """

    def slide(x: Any) -> Any:
        h: Array = disclose(x)
        w = [current().extent(e, "stencil") for e in vector(window, "stencil")]
        s = [current().extent(e, "stencil") for e in vector(step, "stencil")]
        s = s * len(w) if len(s) == 1 else s
        if len(w) > h.rank or len(s) != len(w):
            raise ShapeError(
                "E104",
                f"stencil: a window of {len(w)} and a step of {len(s)} "
                f"sizes for an array of {counted(h.rank, 'axis', 'axes')}",
                position=user_position(),
                facts=[describe(h, "array")],
            )
        padding = [(e - 1) // 2 for e in w]
        places = [(n + 2 * p - e) // t + 1 for n, p, e, t in zip(h.extents, padding, w, s)]

        def at(*place: Any) -> Any:
            start = [extent_of(i, "stencil") * t - p for i, t, p in zip(place, s, padding)]
            seen = view(
                [*w, *h.extents[len(w) :]],
                h.settled,
                lambda k: h.at(*map(from_index, (b + c for b, c in zip(start, k))), fill=0).element(k[len(w) :]),
                user_position(),
                h.name,
            )
            return cell(f(seen))

        return build(tuple(map(from_index, places)), at)

    return slide


def power(f: Verb, n: Any) -> Verb:
    """Apply `f` n times."""
    return lambda x: fold(n, x, lambda state, _: f(state))


__all__ = ["each", "power", "rank", "reduce", "stencil", "table"]
