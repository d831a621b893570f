"""Traced arrays: `Array`, with the operators and methods of the array API.

While tracing, an array is given by an expression for its elements. It is one of
    an array of the program       a Ref; reading gives an element of it
    a view                        slices, transposes, broadcasts, rows: an expression over another array, no statement
    a scalar                      rank 0: the expression of one element
    a weak scalar                 a Python number, an index or dim, a plain `int` or `float` argument, or arithmetic
                                  on these: it takes the dtype of its partner
`element(indices)` reads an element; `extents` is the shape as dims. `pullback.tracing.making` makes arrays.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Literal, Self

from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var, as_index
from pullback.ir.types import DType
from pullback.source import Position
from pullback.tracing.active import current, default_float, place
from pullback.tracing.devices import CPU, check_device
from pullback.tracing.methods import Bare, DTypeT, Methods, ShapeT
from pullback.tracing.refusals import Refusals

Weak = Literal["bool", "integer", "floating"]
Indices = tuple[Index, ...]
Rule = Callable[[Indices], ir.Scalar]


_WEAK: Final = {"bool": "a Python bool", "integer": "an index or Python int", "floating": "a Python float"}


class TracedArray(Methods[Bare], Refusals):
    """A traced array, real or complex. `pullback.arrays.operators` gives it operators and methods."""

    __slots__ = ()

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.extents)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of the axes: ints if fixed, else dims, which support arithmetic and comparison."""
        return tuple(shape_value(e) for e in self.extents)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.rank

    @property
    def size(self) -> Any:
        """The number of elements."""
        total = 1
        for n in self.shape:
            total = total * n
        return total

    @property
    def device(self) -> str:
        """The device of the array: the processor."""
        return CPU

    def to_device(self, device: Any, /, *, stream: Any = None) -> Self:
        """The array itself, on the only device."""
        check_device("to_device", device)
        return self

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        return sys.modules[__name__.partition(".")[0]]


class Array(TracedArray["Array[Any, Any]"], Generic[ShapeT, DTypeT]):
    """A traced array, scalar or index.

    Indexing, slicing, operators and methods follow the Python array API standard. A traced value cannot become a bool
    or a number: `if`, `and`, `range(n)` and `0 <= i < n` raise a TraceError with a remedy.
    """

    __slots__ = ("__weakref__", "_dtype", "_rule", "base", "extents", "home", "index", "literal", "make", "name",
                 "position", "ref", "stored", "weak")  # fmt: skip

    extents: Indices
    ref: ir.Ref | None
    weak: Weak | None
    make: Callable[[DType], ir.Scalar] | None
    index: Index | None
    literal: bool | int | float | None
    name: str | None
    position: Position | None
    stored: DType | None
    base: tuple[Array, str, Any] | None  # of a view: the array that it shows, how, and by what
    home: tuple[Any, Any, int, bool] | None  # where it was made: tracer, scope, depth; and whether it is a copy
    _dtype: DType | None
    _rule: Rule

    @property
    def strong(self) -> DType | None:
        """The dtype; None for weak values."""
        return None if self.weak else self._dtype

    @property
    def settled(self) -> DType:
        """The dtype of the value without a partner."""
        if self.weak is None:
            assert self._dtype is not None
            return self._dtype
        if self.ref is not None:
            return self.ref.dtype
        return {"bool": types.bool_, "integer": types.i64}.get(self.weak) or default_float()

    @property
    def storage(self) -> DType:
        """The storage dtype: f16 or bf16 for arrays whose elements are read as f32."""
        return self.stored or self.settled

    def element(self, indices: Indices = (), dtype: DType | None = None) -> ir.Scalar:
        """Read the element at these indices; weak values take `dtype`."""
        if self.make is not None:
            return self.make(dtype or self.settled)
        return self._rule(indices)

    @property
    def dtype(self) -> DType:
        """The element type; float16 and bfloat16 are storage types, read as float32."""
        return self.storage

    @property
    def type_text(self) -> str:
        """The type in messages, as f32[N, M]; for a weak value its kind."""
        if self.weak is not None:
            return _WEAK[self.weak]
        return f"{self.storage}{shape_text(self.extents) if self.extents else ''}"

    def __repr__(self) -> str:
        name = f"{self.name} : " if self.name else ""
        return f"<{name}{self.index if self.index is not None else self.type_text}>"


def shape_text(extents: Sequence[Index]) -> str:
    """A shape in messages: [N, M]."""
    return "[" + ", ".join(map(str, extents)) + "]"


def type_text(h: TracedArray) -> str:
    """A type in messages: f32[N, M]; of a weak value its kind."""
    return h.type_text


def blank() -> Array:
    """Return an array without properties."""
    h = object.__new__(Array)
    h.ref = h.weak = h.make = h.index = h.literal = h.name = h.position = h.stored = h.base = h.home = None
    return h


def twin(h: Array) -> Array:
    """Another object for an array: writes to one of both leave the other as it is."""
    made = blank()
    for name in Array.__slots__[1:]:
        if hasattr(h, name):
            setattr(made, name, getattr(h, name))
    found = place()
    if found is not None:
        made.home = (*found[:3], True)
        if h.ref is None and h.extents:
            found[0].closures.append(weakref.ref(made))
    return made


def contiguous(h: Array) -> bool:
    """Whether the elements lie in memory in row-major order without gaps, as NumPy would have them."""
    while h.base is not None:
        h, kind, given = h.base
        if kind not in ("reshape", "subscript") or (kind == "subscript" and not _leads(given)):
            return False
    return True


def _leads(key: Any) -> bool:
    """Whether a key selects one range of elements: integers, then at most one slice without step."""
    ended = False
    for k in key if isinstance(key, tuple) else (key,):
        if k is None:
            continue
        whole = k is Ellipsis or (isinstance(k, slice) and k.start is k.stop is k.step is None)
        if not whole and (ended or (isinstance(k, slice) and not (k.step is None or _is_one(k.step)))):
            return False
        ended = ended or whole or isinstance(k, slice)
    return True


def _is_one(x: Any) -> bool:
    return isinstance(x, int) and x == 1


def weak(kind: Weak, make: Callable[[DType], ir.Scalar]) -> Array:
    """A weak value of rank 0, which takes the dtype of its partner."""
    current()  # raises outside of a trace
    h = blank()
    h.extents, h._dtype, h.weak, h.make = (), None, kind, make
    return h


def from_index(index: Index | Var | int) -> Array:
    """An index or dim as a value."""
    index = as_index(index)
    h = weak("integer", lambda dtype: expr.from_index(index, dtype))
    h.index = index
    return h


def shape_value(extent: Index) -> Any:
    """A size as shown in `x.shape`: an int if fixed, else a dim."""
    value = extent.constant
    return from_index(extent) if value is None else value
