"""The operators and methods of real and complex arrays, installed on their classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pullback.arrays import elementwise, manipulation, reduction
from pullback.arrays.by_parts import by_parts
from pullback.arrays.complex_parts import as_complex, copied, pair
from pullback.arrays.in_place import OPERATORS, At, combined, in_place, set_item
from pullback.arrays.products import matmul
from pullback.arrays.subscript import at, rows, subscript
from pullback.arrays.writing import changed
from pullback.tracing.array import Array, TracedArray
from pullback.tracing.complex_array import ComplexArray

Method = Callable[..., Any]

_BINARY: Final = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip
_COMPARISONS: Final = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
_UNARY: Final = {"neg": "negative", "abs": "abs"}
_REDUCTIONS: Final = (reduction.sum, reduction.mean, reduction.max, reduction.min, reduction.any, reduction.all,
                      reduction.argmax, reduction.argmin)  # fmt: skip

_transposed, _subscript, _rows = by_parts(manipulation.transpose), by_parts(subscript), by_parts(rows)


def _both(operation: Callable[[Any, Any], Any]) -> tuple[Method, Method]:
    """The methods of an operator and of its reflected operator."""
    return lambda self, other: operation(self, other), lambda self, other: operation(other, self)


def _primitive(name: str) -> Callable[[Any, Any], Any]:
    return lambda a, b: elementwise.elementwise(name, a, b)


def _logic(name: str) -> Callable[[Any, Any], Any]:
    """The operators `&`, `|` and `^`: logical on bools, bitwise on integers."""
    return lambda a, b: elementwise.elementwise(f"{'logical' if _is_bool(a, b) else 'bitwise'}_{name}", a, b)


def _is_bool(a: Any, b: Any) -> bool:
    first = a if isinstance(a, TracedArray) else b
    return isinstance(first, Array) and first.settled.is_bool


def _reduction(function: Callable[..., Any]) -> Method:
    def method(self: TracedArray, axis: Any = None, keepdims: bool = False) -> Any:
        return function(self, axis=axis, keepdims=keepdims)

    method.__name__ = function.__name__
    method.__doc__ = (function.__doc__ or "").partition("\n")[0]
    return method


def _prod(self: TracedArray, axis: Any = None, keepdims: bool = False) -> Any:
    """Product of the elements over all or the given axes; integers are multiplied in 64 bits."""
    from pullback.arrays.composed import prod  # few programs need it, and its import is large

    return prod(self, axis=axis, keepdims=keepdims)


def _invert(self: TracedArray) -> Any:
    return elementwise.elementwise("logical_not" if _is_bool(self, self) else "bitwise_invert", self)


def _round(self: TracedArray, digits: int | None = None) -> Any:
    if digits is None:
        return elementwise.elementwise("round", self)
    raise self._refused("round to digits of a traced value", f"`pb.round(x * 1e{digits}) / 1e{digits}`")


def _iter(self: TracedArray) -> Iterator[Any]:
    return iter(_rows(self))  # type: ignore[arg-type]


def _at(self: TracedArray, *indices: Any, fill: Any = 0) -> Any:
    """The element at these indices, or `fill` outside the array. Fewer indices than axes give a row.

    >>> pb.function(lambda x: x.at(3, fill=0.5))(np.array([2.0])).item()
    0.5
    """
    if isinstance(self, ComplexArray):
        other = complex(fill)
        return pair(at(self.real, indices, other.real), at(self.imag, indices, other.imag))
    return at(self, indices, fill)  # type: ignore[arg-type]


def _set(self: TracedArray, index: Any, value: Any) -> Any:
    """A copy of the array with `self[index]` set to the value; of several writes the last one counts.

    Args:
        index: a subscript: integers, slices, `...`, integer arrays; or a mask of bools.
        value: a number, or an array that broadcasts to the selection.

    >>> pb.function(lambda x: x.set(slice(1, None), 0.0))(np.array([1.0, 2.0, 3.0])).tolist()
    [1.0, 0.0, 0.0]
    """
    return _changed(self, index, value, "set")


def _add(self: TracedArray, index: Any, value: Any) -> Any:
    """A copy of the array with the value added to `self[index]`, once per occurrence.

    Args:
        index: a subscript: integers, slices, `...`, integer arrays; or a mask of bools.
        value: a number, or an array that broadcasts to the selection.

    >>> pb.function(lambda x, i: x.add(i, 1.0))(np.zeros(3), np.array([2, 0, 2])).tolist()
    [1.0, 0.0, 2.0]
    """
    return _changed(self, index, value, "add")


def _changed(x: TracedArray, index: Any, value: Any, what: str) -> Any:
    if not isinstance(x, ComplexArray):
        return changed(x, index, value, what)  # type: ignore[arg-type]
    z = as_complex(value)
    return pair(changed(x.real, index, z.real, what), changed(x.imag, index, z.imag, what))


def _astype(self: TracedArray, dtype: Any) -> Any:
    """Convert every element: floating-point to integer saturates, NaN gives 0."""
    return elementwise.convert(self, dtype)


def _reshape(self: TracedArray, *shape: Any) -> Any:
    """Reshape in row-major order; one size may be -1."""
    return manipulation.reshape(self, shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape)


def _transpose(self: TracedArray, *axes: int) -> Any:
    """Permute the axes; without arguments, reverse them."""
    return manipulation.permute_dims(self, axes or tuple(reversed(range(self.rank))))


def _matrix_transposed(self: TracedArray) -> Any:
    """Exchange the last two axes."""
    return manipulation.matrix_transpose(self)


def _methods() -> dict[str, Any]:
    """All operators and methods by name."""
    found: dict[str, Any] = {
        "__getitem__": _subscript, "__iter__": _iter, "__invert__": _invert, "__round__": _round,
        "__pos__": copied, "__setitem__": set_item, "__divmod__": lambda self, other: (self // other, self % other),
        "__rdivmod__": lambda self, other: (other // self, other % self),
        "T": property(_transposed), "mT": property(_matrix_transposed),
        "prod": _prod, "at": property(lambda self: At(self, _at, combined)), "set": _set,
        "add": _add, "astype": _astype, "reshape": _reshape, "transpose": _transpose,
    }  # fmt: skip
    operations = {name: _primitive(primitive) for name, primitive in _BINARY.items()}
    operations |= {"and": _logic("and"), "or": _logic("or"), "xor": _logic("xor"), "matmul": matmul}
    for name, operation in operations.items():
        found[f"__{name}__"], found[f"__r{name}__"] = _both(operation)
        found[f"__i{name}__"] = in_place(OPERATORS[name], operation)
    for name, primitive in _COMPARISONS.items():
        found[f"__{name}__"] = _both(_primitive(primitive))[0]
    for name, primitive in _UNARY.items():
        found[f"__{name}__"] = lambda self, primitive=primitive: elementwise.elementwise(primitive, self)
    return found | {f.__name__: _reduction(f) for f in _REDUCTIONS}


for _name, _method in _methods().items():
    if not isinstance(_method, property):
        _method.__name__, _method.__qualname__ = _name, f"Array.{_name}"
    setattr(TracedArray, _name, _method)
