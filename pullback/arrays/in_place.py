"""Writes in place to traced arrays: `x[key] = value`, `x += value`, and `x.at[key].set(value)`.

A program has no writes. A write makes another array, and gives it to the object x (`assign`). True views, as slices and
transposes, read x whenever they are used, so they see the write; a write to a view writes the array that it shows.
Other expressions over x without a statement, such as `pb.take(x, i)`, are stored before x changes (`_settle`).

Only arrays that the function makes may change, in the body that made them: an argument belongs to the caller, and the
body of a loop runs more often than it is traced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final
from weakref import ref

import numpy as np

from pullback.arrays import manipulation
from pullback.arrays.elementwise import elementwise
from pullback.arrays.writing import changed
from pullback.errors import DTypeError, PullbackError, ShapeError, TraceError
from pullback.ir.index import as_index
from pullback.source import user_position
from pullback.tracing.arithmetic import convert
from pullback.tracing.array import Array, shape_value, type_text
from pullback.tracing.complex_array import ComplexArray
from pullback.tracing.making import as_array, axes_for, from_ref, ref_of
from pullback.tracing.refusals import subscript_text
from pullback.tracing.tracer import Tracer, current

__all__ = ["OPERATORS", "At", "in_place", "set_item", "unlike"]

COPY: Final = "`{0} = +{0}` is a copy that may be written; `{0} = {0}.set(index, value)` gives another array"


def set_item(self: Any, key: Any, value: Any) -> None:
    """Write a value in place: the elements that the key selects change, also in bases and views.

    Args:
        key: a subscript, as for reading; a mask takes one number as the value.
        value: a number, or an array that broadcasts to the selection; it converts within its kind.
    Raises:
        TraceError: [E147] the array is an argument, or was made outside of the loop body.
        DTypeError: [E120] the element type does not convert.   ShapeError: [E104] the value does not fit.
    """
    what = f"{subscript_text(self, user_position())} = ..."
    if isinstance(self, ComplexArray):
        z = value if isinstance(value, ComplexArray) else None
        number = complex(value) if isinstance(value, complex | np.complexfloating) else None
        real = z.real if z is not None else number.real if number is not None else value
        imag = z.imag if z is not None else number.imag if number is not None else 0.0
        set_item(self.real, key, real)
        set_item(self.imag, key, imag)
        return
    _check(self, what)
    new = _fitting(self, value, what)
    if _is_view(new, self, key):
        return  # x[key] += y has written the view x[key]
    if isinstance(key, Array) and key.settled.is_bool and key.rank and new.rank:
        raise ShapeError("E104", f"{what}: a mask takes one number as the value, not {type_text(new)}",
                         position=user_position(), remedy="`x[...] = pb.where(mask, value, x)`")  # fmt: skip
    assign(self, changed(self, key, new, "set"))


def in_place(sign: str, operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The method of an operator in place. Numbers, of rank 0, do not change: it returns the result."""

    def method(self: Any, other: Any) -> Any:
        made = operation(self, other)
        if made is NotImplemented or (not self.extents and self.base is None):
            return made
        what = f"{self.name or 'x'} {sign}= ..."
        if tuple(made.extents) != tuple(self.extents):
            raise ShapeError("E104", f"{what}: the result is {type_text(made)}, the array is {type_text(self)}",
                             position=user_position(), remedy=f"`x = x {sign} ...` makes another array")  # fmt: skip
        if isinstance(self, ComplexArray):
            for part, new in ((self.real, made.real), (self.imag, made.imag)):
                _check(part, what)
                assign(part, new)
            return self
        _check(self, what)
        assign(self, _fitting(self, made, what))
        return self

    return method


OPERATORS: Final = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip


# Checks -------------------------------------------------------------------------------------------------------------


def _chain(h: Array) -> Iterator[Array]:
    """A view, the array that it shows, and so on to the array that has the elements."""
    yield h
    while h.base is not None:
        h = h.base[0]
        yield h


def _root(h: Array) -> Array:
    *_, root = _chain(h)
    return root


def _check(h: Array, what: str) -> None:
    """Check that an array may be written here."""
    root = _root(h)
    name = root.name or re.split(r"\W", what)[0]

    def refused(why: str, remedy: str) -> TraceError:
        return TraceError("E147", f"{what}: {why}", position=user_position(), remedy=remedy)

    if not h.extents and h.base is None:
        raise refused(f"{type_text(h)} has no axes, and numbers do not change", "`x = ...` names another value")
    for x in _chain(h):
        if x.base is not None and x.base[1] == "read-only":
            raise refused("a view that `broadcast_to` or `diagonal` made is read-only", COPY.format(name))
        if x.base is not None and x.base[1] == "unclear":
            raise refused(
                "whether a reshape of a view is a view depends on strides",
                f"reshape before the slice or transpose; or `{name} = +{name}`, a copy",
            )
    tracer: Tracer = current()
    if root.home is None or root.home[0] is not tracer:
        raise refused(f"{name} belongs to the function around this one", COPY.format(name))
    if root.ref is not None and not root.home[3]:
        if root.ref in tracer.inputs:
            raise refused(f"{name} is an argument, which belongs to the caller", COPY.format(name))
        if any(root.ref is captured for captured, _ in tracer.captured.values()):
            raise refused(f"{name} is a captured array of NumPy, which a function does not change", COPY.format(name))
    if root.home[1] is not tracer.scope or root.home[2] != len(tracer.lifted):
        raise refused(f"{name} was made outside of the body of this loop or branch",
                      "`fold` and `scan` carry what changes: return the new array from the body")  # fmt: skip
    if any(x.base is not None and x.base[1] == "unclear" and _root(x) is root for x in _live(tracer)):
        raise refused("a reshape of one of its views is in use, and may be a view or a copy",
                      "reshape `+view`, a copy of the view")  # fmt: skip


def _fitting(h: Array, value: Any, what: str) -> Array:
    """The value as an array of the element type that is written."""
    if isinstance(value, ComplexArray | complex | np.complexfloating) or (
        isinstance(value, np.ndarray) and value.dtype.kind == "c"
    ):
        raise unlike(what, "complex", h.settled)
    new = as_array(value, what)
    if new.weak is not None:
        kinds = ("bool", "integer", "floating")
        own = "bool" if h.settled.is_bool else "integer" if h.settled.is_integer else "floating"
        if kinds.index(new.weak) > kinds.index(own):
            raise unlike(what, type_text(new), h.settled)
        return new
    if new.settled is h.settled:
        return new
    if not np.can_cast(new.settled.numpy, h.settled.numpy, "same_kind"):
        raise unlike(what, type_text(new), h.settled)
    return convert(new, h.settled)


def unlike(what: str, found: str, dtype: object) -> DTypeError:
    """The error for a value whose element type does not convert to that of the array."""
    return DTypeError("E120", f"{what}: the value is {found}, the elements are {dtype}", position=user_position(),
                      remedy="convert the value with `astype`, or the array before the write")  # fmt: skip


def _is_view(value: Any, h: Array, key: Any) -> bool:
    """Whether a value is the view h[key]."""
    base = value.base
    return base is not None and base[0] is h and base[1] == "subscript" and _same(base[2], key)


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, slice):
        return _same((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    return isinstance(a, int) and a == b


# Changes ------------------------------------------------------------------------------------------------------------


def assign(h: Array, new: Array) -> None:
    """Give an array other elements; of a view, those of the array that it shows."""
    while h.base is not None:
        parent, kind, given = h.base
        new = _PUT[kind](parent, given, new)
        h = parent
    _settle(h)
    made = from_ref(ref_of(new, h.name))
    h.ref = made.ref if h.stored is None else None
    h._rule = made._rule


_PUT: Final[dict[str, Callable[[Array, Any, Array], Array]]] = {
    "subscript": lambda parent, key, new: changed(parent, key, new, "set"),
    "permute": lambda parent, order, new: manipulation.permute_dims(new, [order.index(a) for a in range(len(order))]),
    "reshape": lambda parent, _, new: manipulation.reshape(new, tuple(map(shape_value, parent.extents))),
    "flip": lambda parent, axes, new: manipulation.flip(new, axis=tuple(axes)),
}


def _live(tracer: Tracer) -> list[Array]:
    """The arrays without a statement that exist."""
    found = [(r, x) for r in tracer.closures if (x := r()) is not None]
    tracer.closures = [r for r, _ in found]
    return [x for _, x in found]


def _settle(root: Array) -> None:
    """Store the arrays that are expressions over an array, and that are no views of it."""
    tracer = current()
    read: list[bool] = []
    rule = root._rule

    def noting(indices: Any) -> Any:
        read.append(True)
        return rule(indices)

    kept = []
    for x in _live(tracer):
        if x is root:
            continue
        if x.base is None:
            read.clear()
            root._rule = noting
            try:
                x.element(tuple(as_index(v) for v in axes_for(x.extents)))
            except PullbackError:
                pass  # of a body that has ended: nothing can use it
            finally:
                root._rule = rule
            if read:
                x._rule = from_ref(ref_of(x))._rule
                continue
        kept.append(ref(x))
    tracer.closures = kept


# x.at[key] ----------------------------------------------------------------------------------------------------------


class At:
    """The elements of an array by key, as in JAX: `x.at[key]` has methods that return another array.

    `x.at(i, fill=0)` reads an element, with a fill outside of the array.

    >>> pb.function(lambda x: x.at[1:].add(10.0))(np.array([1.0, 2.0, 3.0])).tolist()
    [1.0, 12.0, 13.0]
    """

    __slots__ = ("_array", "_changed", "_read")

    def __init__(self, array: Any, read: Callable[..., Any], changed: Callable[..., Any]) -> None:
        self._array = array
        self._read = read
        self._changed = changed

    def __call__(self, *indices: Any, fill: Any = 0) -> Any:
        """The element at these indices, or `fill` outside the array. Fewer indices than axes give a row.

        >>> pb.function(lambda x: x.at(3, fill=0.5))(np.array([2.0])).item()
        0.5
        """
        return self._read(self._array, *indices, fill=fill)

    def __getitem__(self, key: Any) -> Place:
        return Place(self._array, key, self._changed)


class Place:
    """The elements that a key selects: each method returns a copy of the array in which they are changed."""

    __slots__ = ("_array", "_changed", "_key")

    def __init__(self, array: Any, key: Any, changed: Callable[..., Any]) -> None:
        self._array = array
        self._key = key
        self._changed = changed

    def get(self) -> Any:
        """The elements."""
        return self._array[self._key]

    def set(self, value: Any) -> Any:
        """Set the elements; of several values for one, the last counts."""
        return self._array.set(self._key, value)

    def add(self, value: Any) -> Any:
        """Add to the elements, once per occurrence."""
        return self._array.add(self._key, value)

    def subtract(self, value: Any) -> Any:
        """Subtract from the elements, once per occurrence."""
        return self._array.add(self._key, -value)

    def multiply(self, value: Any) -> Any:
        """Multiply the elements, once per occurrence."""
        return self._changed(self._array, self._key, value, "multiply")

    def divide(self, value: Any) -> Any:
        """Divide the elements, once per occurrence."""
        return self._changed(self._array, self._key, value, "divide")

    def power(self, value: Any) -> Any:
        """Raise the elements to a power, once per occurrence."""
        return self._changed(self._array, self._key, value, "power")

    def min(self, value: Any) -> Any:
        """Take the smaller of the elements and the value."""
        return self._changed(self._array, self._key, value, "minimum")

    def max(self, value: Any) -> Any:
        """Take the larger of the elements and the value."""
        return self._changed(self._array, self._key, value, "maximum")


def combined(x: Any, key: Any, value: Any, name: str) -> Any:
    """A copy of `x` in which a primitive combines the elements that a key selects with a value."""
    if isinstance(x, ComplexArray):
        return x.set(key, elementwise(name, x[key], value))
    return changed(x, key, value, name)
