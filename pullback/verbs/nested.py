"""Arguments of verbs besides arrays: size vectors and nested arrays.

APL's nested arrays hold anything. Here all elements of a nested array have the same shape. So it is an array viewed as
a frame of cells, and its shape is that of the frame:

    enclose(x)      one element, the whole of x
    enclose(x, 2)   the frame is the leading axes, the elements are the matrices of the last two
    iota((m, n))    the index vectors of an m × n array, which need no memory
    each(f)(x)      the results of f, where these are no scalars
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast, overload

from pullback.arrays.manipulation import reshape, stack
from pullback.arrays.subscript import subscript
from pullback.errors import ShapeError, counted
from pullback.source import user_position
from pullback.tracing.array import Array
from pullback.tracing.index import build
from pullback.tracing.making import as_array, describe


class Extents(Sequence[Any]):
    """A vector of numbers known when the function is defined: a shape, counts, an index vector.

    Arithmetic is element by element, with a scalar or another vector of the same length.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._items = tuple(items)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, k: int) -> Any: ...
    @overload
    def __getitem__(self, k: slice) -> Extents: ...
    def __getitem__(self, k: int | slice) -> Any:
        return Extents(self._items[k]) if isinstance(k, slice) else self._items[k]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def _with(self, other: Any, f: Callable[[Any, Any], Any]) -> Extents:
        if not isinstance(other, Sequence):
            return Extents(f(a, other) for a in self._items)
        if len(other) != len(self):
            raise ShapeError(
                "E101",
                f"vectors of {len(self)} and {counted(len(other), 'number')} do not go together",
                position=user_position(),
                remedy="a single number goes with any vector",
            )
        return Extents(f(a, b) for a, b in zip(self._items, other))

    def __add__(self, other: Any) -> Extents:
        return self._with(other, lambda a, b: a + b)

    def __radd__(self, other: Any) -> Extents:
        return self._with(other, lambda a, b: b + a)

    def __sub__(self, other: Any) -> Extents:
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Extents:
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Extents:
        return self._with(other, lambda a, b: a * b)

    def __rmul__(self, other: Any) -> Extents:
        return self._with(other, lambda a, b: b * a)

    def __floordiv__(self, other: Any) -> Extents:
        return self._with(other, lambda a, b: a // b)

    def __mod__(self, other: Any) -> Extents:
        return self._with(other, lambda a, b: a % b)

    def __neg__(self) -> Extents:
        return Extents(-a for a in self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._items == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Extents{self._items!r}"


class Nested:
    """An array whose elements are arrays of one shape.

    `shape` is that of the frame; `element(*indices)` is an element. `flat` holds the axes that a `ravel` joins. The
    ravel itself is deferred, so a reduction over all elements stays a reduction over the original axes.
    """

    __slots__ = ("_array", "element", "flat", "shape")

    def __init__(
        self, shape: Sequence[Any], element: Callable[..., Any], array: Array | None = None, flat: bool = False
    ) -> None:
        self.shape = Extents(shape)
        self.element = element
        self.flat = flat
        self._array = array

    @property
    def array(self) -> Array:
        """The array of all elements: frame axes first, then element axes."""
        if self._array is None:
            frame = tuple(self.shape)
            made = build(frame, lambda *i: cell(self.element(*i))) if frame else cell(self.element())
            self._array = cast(Array, made)
        return self._array

    def __repr__(self) -> str:
        return f"<nested array of shape {tuple(self.shape)}>"


def nested(array: Array, frame: int) -> Nested:
    """View an array as a frame, its first axes, of cells."""
    return Nested(array.shape[:frame], lambda *i: subscript(array, i) if i else array, array)


def cell(x: Any) -> Any:
    """Convert a result to an array: size vectors become arrays, scalar elements lose their nesting."""
    if isinstance(x, Extents):
        return stack([as_array(a, "vector") for a in x])
    if isinstance(x, Nested):
        return disclose(x)
    return x


def enclose(x: Any, rank: int | None = None) -> Nested:
    """Nest an array as a single element, or as a frame of elements of the given rank.

    Args:
        x: array.
        rank: the number of last axes that belong to an element; all of them unless given.
    Returns:
        A nested array with no axes, or with the leading axes of x.
    """
    a: Array = as_array(x, "enclose")
    own = a.rank if rank is None else rank
    if isinstance(own, bool) or not 0 <= own <= a.rank:
        raise ShapeError(
            "E104",
            f"enclose: elements of {counted(own, 'axis', 'axes')}, from an array of {a.rank}",
            position=user_position(),
            facts=[describe(a, "array")],
        )
    return nested(a, a.rank - own)


def disclose(x: Any) -> Array:
    """Open a nested array: frame axes first, then element axes. Other arrays stay as they are."""
    if isinstance(x, Nested):
        a = x.array
        frame = len(x.shape)
        return reshape(a, (-1, *a.shape[frame:])) if x.flat and frame != 1 else a
    return as_array(cell(x), "disclose")


def shape(x: Any) -> Extents:
    """Return the sizes of an array, or of a nested array's frame, as a vector."""
    if isinstance(x, Nested):
        return x.shape
    if isinstance(x, Extents):
        return Extents((len(x),))
    h: Array = as_array(x, "shape")
    return Extents(h.shape)
