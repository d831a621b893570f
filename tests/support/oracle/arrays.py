"""The oracle's arrays: a shape, a dtype and the elements one after another in a Python list.

Numbers written in Python, indices and extents are weak, as in the language: they take the dtype of what they meet.
Integers are Python's and wrap at the dtype's width, division by zero gives 0, floating to integer saturates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tests.support.oracle import numbers
from tests.support.oracle.numbers import UNITS, Number

Element = Any  # a Number, an int, a bool, or Outside


class OracleError(Exception):
    """The error for a question that the oracle cannot answer."""


@dataclass(frozen=True, eq=False, slots=True)
class DType:
    """An element type; weak ones, of Python numbers and indices, have no bits."""

    name: str
    kind: str
    bits: int = 0

    @property
    def weak(self) -> bool:
        """Whether it gives way to what it meets."""
        return self.bits == 0

    @property
    def floating(self) -> bool:
        """Whether elements are real numbers."""
        return self.kind == "floating"

    @property
    def integer(self) -> bool:
        """Whether elements are integers."""
        return self.kind in ("signed", "unsigned")

    @property
    def unit(self) -> float:
        """The unit roundoff; that of a weak number is of the dtype it would have alone."""
        return UNITS[self.bits or default_float().bits]

    @property
    def lowest(self) -> int:
        """The smallest integer."""
        return -(1 << (self.bits - 1)) if self.kind == "signed" else 0

    @property
    def highest(self) -> int:
        """The largest integer."""
        return (1 << (self.bits - (self.kind == "signed"))) - 1

    def wrap(self, value: int) -> int:
        """The integer modulo 2^bits; weak ones have 64."""
        bits = self.bits or 64
        value &= (1 << bits) - 1
        return value - (1 << bits) if self.kind == "signed" and value >> (bits - 1) else value

    def __repr__(self) -> str:
        return self.name


BOOL: Final = DType("bool", "bool", 1)
INT8, INT16, INT32, INT64 = (DType(f"int{n}", "signed", n) for n in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (DType(f"uint{n}", "unsigned", n) for n in (8, 16, 32, 64))
FLOAT32, FLOAT64 = (DType(f"float{n}", "floating", n) for n in (32, 64))
WEAK_INT, WEAK_FLOAT, WEAK_BOOL = DType("int", "signed"), DType("float", "floating"), DType("truth", "bool")
DTYPES: Final = {
    d.name: d
    for d in (BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT32, FLOAT64)
}

_default_float = [FLOAT64]


def default_float() -> DType:
    """The dtype of floating numbers that meet nothing else."""
    return _default_float[-1]


class Outside:
    """A placeholder for an integer or bool outside of an array: it may only be discarded."""

    def _same(self, *_: Any) -> Outside:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = __and__ = __or__ = __xor__ = _same
    __lt__ = __le__ = __gt__ = __ge__ = _same

    def __bool__(self) -> bool:
        raise OracleError("a decision about what was read outside of an array")


OUTSIDE: Final = Outside()


class Array:
    """An array; of rank 0 it is a number, an index or a truth value, too."""

    __slots__ = ("_shape", "data", "dtype")
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 1000

    def __init__(self, shape: tuple[int, ...], dtype: DType, data: list[Element]) -> None:
        self._shape, self.dtype, self.data = shape, dtype, data

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self._shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self._shape)

    def __getitem__(self, key: Any) -> Array:
        return subscript(self, key)

    def at(self, *indices: Any, fill: Any = 0) -> Array:
        """The element at these indices, `fill` outside; fewer indices give a row."""
        positions = [integer(i) for i in indices]
        rest = self._shape[len(positions) :]
        if any(i is OUTSIDE for i in positions):
            return Array(rest, self.dtype, [nothing(self.dtype)] * math.prod(rest))
        if all(0 <= i < n for i, n in zip(positions, self._shape)):
            return _row(self, positions)
        element = convert(as_array(fill), self.dtype).data[0]
        return Array(rest, self.dtype, [element] * math.prod(rest))

    def __iter__(self) -> Iterator[Array]:
        return (_row(self, [k]) for k in range(self._shape[0]))

    def __len__(self) -> int:
        return self._shape[0]

    def __index__(self) -> int:
        if self._shape or self.dtype.floating:
            raise OracleError("an index is a single integer")
        return int(self.data[0])

    def __bool__(self) -> bool:
        if self._shape or self.dtype.kind != "bool":
            raise OracleError("the truth of what is no single bool")
        return bool(self.data[0])

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self._shape)} {self.data}>"


# ---------------------------------------------------------------- in and out


def as_array(x: Any) -> Array:
    """An array from an array, a Python number or a NumPy array."""
    if type(x) is Array:
        return x
    if isinstance(x, bool):
        return Array((), WEAK_BOOL, [x])
    if isinstance(x, int):
        return Array((), WEAK_INT, [x])
    if isinstance(x, float) and not isinstance(x, np.generic):
        return Array((), WEAK_FLOAT, [numbers.number(x, default_float().unit)])
    array = np.asarray(x)
    dtype = DTYPES.get(array.dtype.name)
    if dtype is None:
        raise OracleError(f"{type(x).__name__} is no array")
    flat = array.ravel().tolist()
    return Array(array.shape, dtype, [numbers.number(v, dtype.unit, given=True) for v in flat] if dtype.floating
                 else flat)


def index(value: int) -> Array:
    """An index or extent as a value."""
    return Array((), WEAK_INT, [value])


def integer(x: Any) -> Any:
    """An index as a Python integer."""
    if type(x) is int:
        return x
    found = x.data[0] if type(x) is Array else x
    return found if found is OUTSIDE else int(found)


def settled(dtype: DType) -> DType:
    """The dtype of a result that may be weak."""
    if not dtype.weak:
        return dtype
    return default_float() if dtype.floating else BOOL if dtype.kind == "bool" else INT64


# ---------------------------------------------------------------- dtypes of elements


def nothing(dtype: DType) -> Element:
    """A placeholder for an element outside of an array: it may only be discarded."""
    return numbers.number(math.nan, dtype.unit) if dtype.floating else OUTSIDE


def converted(e: Element, source: DType, target: DType) -> Element:
    """An element in another dtype."""
    if source is target or e is OUTSIDE:
        return nothing(target) if e is OUTSIDE else e
    if target.floating:
        if not source.floating:
            return numbers.number(int(e), target.unit)
        return numbers.cast(e, target.unit)
    if target.kind == "bool":
        return numbers.compare(e, numbers.lift(0.0, e)) != 0 if source.floating else bool(e)
    if source.floating:
        return _saturated(numbers.apply("trunc", e), target)
    return target.wrap(int(e))


def _saturated(x: Number, target: DType) -> int:
    value = numbers.value_of(x)
    if math.isnan(value):
        return 0
    if value <= target.lowest:
        return target.lowest
    return target.highest if value >= target.highest else int(value)


def convert(a: Array, dtype: DType) -> Array:
    """The array in another dtype."""
    if a.dtype is dtype:
        return a
    return Array(a.shape, dtype, [converted(e, a.dtype, dtype) for e in a.data])


def dtype_of(x: Any) -> DType:
    """A dtype from the oracle's own, NumPy's or a name."""
    if type(x) is DType:
        return x
    return DTYPES[np.dtype(x).name]


def promote(arrays: Sequence[Array]) -> DType:
    """The dtype in which arrays meet; weak where all are."""
    strong: DType | None = None
    for a in arrays:
        if a.dtype.bits:
            strong = a.dtype if strong is None else _meet(strong, a.dtype)
    if strong is not None:
        return strong
    return next((d for kind in (WEAK_FLOAT, WEAK_INT) for d in (kind,) if any(a.dtype is d for a in arrays)), WEAK_BOOL)


def _meet(a: DType, b: DType) -> DType:
    if a is b:
        return a
    if a.kind == b.kind:
        return a if a.bits > b.bits else b
    if a.integer and b.integer:
        signed, unsigned = (a, b) if a.kind == "signed" else (b, a)
        return DTYPES[f"int{signed.bits if signed.bits > unsigned.bits else 2 * unsigned.bits}"]
    raise OracleError(f"{a} and {b} have no common dtype")


# ---------------------------------------------------------------- shapes


def _row(a: Array, lead: Sequence[int]) -> Array:
    """The sub-array at the first indices."""
    rest = a.shape[len(lead) :]
    size, at = math.prod(rest), 0
    for i, n in zip(lead, a.shape):
        at = at * n + i
    return Array(rest, a.dtype, a.data[at * size : (at + 1) * size])


def broadcast_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The common shape; axes are aligned at the right, extents of 1 stretch."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise OracleError(str(error)) from error


def broadcast(a: Array, shape: tuple[int, ...]) -> list[Element]:
    """The elements of the array stretched to a shape."""
    if a.shape == shape:
        return a.data
    if a.size == 1:
        return a.data * math.prod(shape)
    return moved(a, lambda places: np.broadcast_to(places, shape)).data


# ---------------------------------------------------------------- subscripts


def moved(a: Array, move: Callable[[Any], Any]) -> Array:
    """The elements where NumPy puts their positions."""
    places = move(np.arange(a.size).reshape(a.shape))
    return Array(places.shape, a.dtype, [a.data[k] for k in places.ravel().tolist()])


_probes = [0]  # how many calls are under way whose values do not count


@contextmanager
def probe() -> Iterator[None]:
    """Allow reads of elements of empty arrays: results have the right shape and no meaning."""
    _probes[0] += 1
    try:
        yield
    finally:
        _probes[0] -= 1


def subscript(a: Array, key: Any) -> Array:
    """Return `a[key]` for indices, slices, new axes, an ellipsis, and integer arrays."""
    items = list(key) if isinstance(key, tuple) else [key]
    if len(items) <= a.ndim and all(type(i) is Array and not i.shape for i in items):
        lead = [i.data[0] for i in items]
        if all(i is not OUTSIDE and 0 <= i < n for i, n in zip(lead, a.shape)):
            return _row(a, lead)
    plain = [_item(i) for i in items]
    used = [k for k in plain if k is not None and k is not Ellipsis]
    shown = [Ellipsis if k is Ellipsis else k for k in plain]
    extents = list(a.shape)
    for _, axis in _axes_of(shown, a.ndim) if _probes[0] else ():
        extents[axis] = max(extents[axis], 1)
    shape = np.empty(extents, bool)[tuple(0 if k is OUTSIDE else k for k in _clipped(shown, a.shape))].shape
    if any(k is OUTSIDE for k in used) or _is_outside(shown, a.shape):
        return Array(shape, a.dtype, [nothing(a.dtype)] * math.prod(shape))
    return moved(a, lambda places: places[tuple(plain)])


def _item(item: Any) -> Any:
    """An item of a key as NumPy takes it."""
    if type(item) is Array:
        return np.array(item.data, np.int64).reshape(item.shape) if item.shape else integer(item)
    if isinstance(item, slice):
        return slice(*(None if b is None else integer(b) for b in (item.start, item.stop, item.step)))
    return item


def _axes_of(items: Sequence[Any], rank: int) -> list[tuple[int, int]]:
    """For each single index or array of them its place in the key, and its axis."""
    out, axis = [], 0
    used = sum(i is not None and i is not Ellipsis for i in items)
    for place, item in enumerate(items):
        if item is Ellipsis:
            axis += rank - used
        elif item is not None:
            if not isinstance(item, slice):
                out.append((place, axis))
            axis += 1
    return out


def _is_outside(items: Sequence[Any], shape: tuple[int, ...]) -> bool:
    return any(
        np.any((np.asarray(items[place]) < -shape[axis]) | (np.asarray(items[place]) >= shape[axis]))
        for place, axis in _axes_of(items, len(shape))
        if items[place] is not OUTSIDE
    )


def _clipped(items: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    """The key with positions that are in range, for the shape of its result."""
    out = list(items)
    for place, _ in _axes_of(items, len(shape)):
        out[place] = 0 if items[place] is OUTSIDE else np.zeros_like(items[place]) if np.ndim(items[place]) else 0
    return out
