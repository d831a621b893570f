"""Index notation, loops and choices of the oracle: Python's own loops over positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from tests.support.oracle import trees
from tests.support.oracle.arrays import (
    OUTSIDE,
    WEAK_INT,
    Array,
    DType,
    Element,
    OracleError,
    as_array,
    convert,
    index,
    integer,
    probe,
    promote,
    settled,
)
from tests.support.oracle.elementwise import elementwise, strong


def _extents(shape: Any) -> tuple[int, ...]:
    items = shape if isinstance(shape, tuple | list) else (shape,)
    return tuple(integer(e) for e in items)


def build(shape: Any, f: Callable[..., Any]) -> Any:
    """The array of f of the indices; arrays that f gives add axes, trees give one array for each leaf."""
    extents = _extents(shape)
    if 0 in extents:
        with probe():
            inner = f(*(index(0) for _ in extents))
        return trees.mapped(lambda a: Array((*extents, *as_array(a).shape), settled(as_array(a).dtype), []), inner)
    return stacked(extents, [f(*map(index, p)) for p in product(*map(range, extents))])


def stacked(extents: tuple[int, ...], results: Sequence[Any]) -> Any:
    """Equal trees as one tree whose arrays have these axes in front."""
    if not results:
        raise OracleError("an empty array of unknown shape")

    def one(*leaves: Any) -> Array:
        arrays = [as_array(a) for a in leaves]
        dtype = settled(promote(arrays))
        return Array((*extents, *arrays[0].shape), dtype, [e for a in arrays for e in convert(a, dtype).data])

    return trees.mapped(one, *results)


def _over(f: Callable[..., Any], extents: Any, reduce: Callable[[list[Array], tuple[int, ...]], Array]) -> Any:
    wanted = tuple(max(e, 0) for e in _extents(extents))
    results = [f(*map(index, p)) for p in product(*map(range, wanted))]
    if not results:  # what f gives is known from a call that reads nothing that counts
        with probe():
            inner = f(*(index(0) for _ in wanted))
        return trees.mapped(lambda a: _of_none(as_array(a), reduce, wanted), inner)
    return trees.mapped(lambda *leaves: reduce([as_array(a) for a in leaves], wanted), *results)


def _of_none(like: Array, reduce: Callable[..., Array], wanted: tuple[int, ...]) -> Array:
    made = reduce([], wanted)
    return Array(like.shape, settled(like.dtype) if made.dtype is WEAK_INT else made.dtype,
                 convert(made, settled(like.dtype) if made.dtype is WEAK_INT else made.dtype).data * like.size)


def _folded(name: str, start: int) -> Callable[[list[Array], tuple[int, ...]], Array]:
    def reduce(items: list[Array], wanted: tuple[int, ...]) -> Array:
        if not items:
            return index(start)
        total = strong(items[0])
        for item in items[1:]:
            total = elementwise(name, total, item)
        return total

    return reduce


def _extreme(name: str) -> Callable[[list[Array], tuple[int, ...]], Array]:
    def reduce(items: list[Array], wanted: tuple[int, ...]) -> Array:
        if not items:
            raise OracleError(f"{name} of nothing")
        return _folded(name, 0)(items, wanted)

    return reduce


def _position(name: str) -> Callable[[list[Array], tuple[int, ...]], Array]:
    def reduce(items: list[Array], wanted: tuple[int, ...]) -> Array:
        if not items:
            raise OracleError("a position among nothing")
        dtype = promote(items)
        rows = [convert(a, dtype).data for a in items]
        found = [first_extreme(name, [r[k] for r in rows], dtype) for k in range(len(rows[0]))]
        return Array(items[0].shape, settled(WEAK_INT), list(found))

    return reduce


def first_extreme(name: str, elements: Sequence[Element], dtype: DType) -> int:
    """The position of the first largest (`greater`) or smallest (`less`) element; of NaN if any."""
    best = 0
    for k in range(1, len(elements)):
        a, b = (Array((), dtype, [elements[n]]) for n in (k, best))
        if b.data[0] is not OUTSIDE and dtype.floating and bool(elementwise("isnan", b)):
            break
        if bool(elementwise(name, a, b)) or (dtype.floating and bool(elementwise("isnan", a))):
            best = k
    return best


def sum_over(extents: Any, f: Callable[..., Any]) -> Any:
    """The sum over indices."""
    return _over(f, extents, _folded("add", 0))


def prod_over(extents: Any, f: Callable[..., Any]) -> Any:
    """The product over indices."""
    return _over(f, extents, _folded("multiply", 1))


def max_over(extents: Any, f: Callable[..., Any]) -> Any:
    """The largest over indices; the first of equal ones has the derivative."""
    return _over(f, extents, _extreme("maximum"))


def min_over(extents: Any, f: Callable[..., Any]) -> Any:
    """The smallest over indices; the first of equal ones has the derivative."""
    return _over(f, extents, _extreme("minimum"))


def argmax_over(extents: Any, f: Callable[..., Any]) -> Any:
    """The position of the first largest."""
    return _over(f, extents, _position("greater"))


def argmin_over(extents: Any, f: Callable[..., Any]) -> Any:
    """The position of the first smallest."""
    return _over(f, extents, _position("less"))


def any_over(extents: Any, f: Callable[..., Any]) -> Any:
    """Whether any holds."""
    return _over(f, extents, _folded("logical_or", 0))


def all_over(extents: Any, f: Callable[..., Any]) -> Any:
    """Whether all hold."""
    return _over(f, extents, _folded("logical_and", 1))


def in_range(indices: Any, extent: Any) -> Array:
    """The indices, which must be in range."""
    a = as_array(indices)
    if not all(0 <= i < integer(extent) for i in a.data):
        raise OracleError("in_range: an index is not")
    return a


# ---------------------------------------------------------------- loops and choices


def fold(n: Any, init: Any, f: Callable[[Any, Any], Any]) -> Any:
    """The state after n steps."""
    state = init
    for k in range(integer(n)):
        state = _kept(f(state, index(k)), state)
    return trees.mapped(strong, state)


def scan(n: Any, init: Any, f: Callable[[Any, Any], tuple[Any, Any]]) -> tuple[Any, Any]:
    """The state after n steps, and what every step gave besides."""
    state, rows = init, []
    for k in range(integer(n)):
        new, row = f(state, index(k))
        state = _kept(new, state)
        rows.append(row)
    return trees.mapped(strong, state), stacked((len(rows),), rows)


def _kept(new: Any, old: Any) -> Any:
    """A state in the dtypes it had; of those that were weak in its own."""

    def one(a: Any, b: Any) -> Array:
        a, b = as_array(a), as_array(b)
        return convert(a, settled(a.dtype) if b.dtype.weak else b.dtype)

    return trees.mapped(one, new, old)


def while_loop(test: Callable[[Any], Any], body: Callable[[Any], Any], init: Any, max_trips: Any = None) -> Any:
    """The state when the test no longer holds."""
    state, trips = init, 0
    most = math.inf if max_trips is None else integer(max_trips)
    while trips < most and bool(as_array(test(state))):
        state = _kept(body(state), state)
        trips += 1
        if trips > 10_000:
            raise OracleError("a loop that does not end")
    if trips == most and bool(as_array(test(state))):
        raise OracleError("while_loop: the test still holds after max_trips steps")
    return trees.mapped(strong, state)


def cond(test: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any) -> Any:
    """Call one of two functions by a test."""
    return (then if bool(as_array(test)) else otherwise)(*operands)

__all__ = [
    "all_over",
    "any_over",
    "argmax_over",
    "argmin_over",
    "build",
    "cond",
    "fold",
    "in_range",
    "max_over",
    "min_over",
    "prod_over",
    "scan",
    "sum_over",
    "while_loop",
]
