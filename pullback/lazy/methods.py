"""The operators and methods of lazy arrays, made from those of traced arrays.

If the operation was already built for these operand types, a node costs one dictionary lookup.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from copy import copy
from typing import Any, Final

import numpy as np

from pullback.arrays.in_place import At, combined
from pullback.device import is_on_device
from pullback.ir import types
from pullback.lazy.node import Array, leaf
from pullback.lazy.numpy_calls import array_function, array_ufunc
from pullback.lazy.operation import Application, Operation, apply, node_of, quick_key
from pullback.lazy.promotion import as_numpy
from pullback.lazy.subscripts import selected, taken
from pullback.lazy.types import ArrayType
from pullback.lazy.views import View
from pullback.tracing import array as traced
from pullback.tracing.complex_array import ComplexArray

__all__ = ["OPERATORS", "installed"]

_BINARY: Final = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift",
                  "rshift")  # fmt: skip
_COMPARISONS: Final = ("lt", "le", "gt", "ge", "eq", "ne")
_UNARY: Final = ("neg", "pos", "abs", "invert")
_PROPERTIES: Final = ("T", "mT", "real", "imag")
OPERATORS: Final = frozenset(f"__{side}{name}__" for name in (*_BINARY, *_COMPARISONS) for side in ("", "r"))
_OWN: Final = frozenset({"to_device", "shape", "dtype", "ndim", "size", "device"})  # known without running


NUMBERS: Final = 16  # the count of constants per operator and type
ROWS: Final = 4


class _Numbers:
    """The choice whether numbers become constants of a structure or values passed to it.

    The first few are constants, so `2 * x` and `x ** 2` behave as in a traced function. A number that keeps changing,
    such as a rate, would create a new structure each time, so it becomes a value.
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[ArrayType, set[Any]] = {}

    def operand(self, x: Array, number: Any) -> Any:
        """The number itself, or a one-element array that replaces it as an operand."""
        kind = x.type.numpy.kind
        if number.__class__ is float:
            fits = kind == "f" and x.type.dtype in (types.f32, types.f64)
        else:
            fits = number.__class__ is int and (kind == "f" or (kind in "iu" and _holds(x.type.numpy, number)))
        if not fits or self._is_fixed(x.type, number):
            return number
        return leaf(np.asarray(number, x.type.numpy))

    def _is_fixed(self, type: ArrayType, number: Any) -> bool:
        seen = self._seen.setdefault(type, set())
        if number not in seen and len(seen) < NUMBERS:
            seen.add(number)
        return number in seen


def _holds(dtype: np.dtype[Any], number: int) -> bool:
    limits = np.iinfo(dtype)
    return int(limits.min) <= number <= int(limits.max)


def binary(operation: Operation) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """Make the methods of an operator and of its reflected operator."""
    known: dict[Any, Any] = {}

    def method(self: Array, other: Any) -> Any:
        if other.__class__ is Array:
            application = known.get((self.type, other.type))
            if application is not None:
                return Array(application, (self, other), self.tracked or other.tracked)
        elif other.__class__ is float and other:
            application = known.get((self.type, other))
            if application is not None:
                return Array(application, (self,), self.tracked)
        elif isinstance(other, Array):
            other = other.leaf  # of a weight, or of an array that was written
            application = known.get((self.type, other.type))
            if application is not None:
                return Array(application, (self, other), self.tracked or other.tracked)
        return slow(self, other)

    def slow(self: Array, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        value = right.operand(self, other)
        if value is not other:
            return method(self, value)
        node = apply(operation, (self, other), {})
        if node.application.quick:
            if len(node.operands) == 2:
                known[node.operands[0].type, node.operands[1].type] = node.application
            elif other.__class__ is float and other and other == other:
                known[self.type, other] = node.application
        return node

    def reflected(self: Array, other: Any) -> Any:
        if other.__class__ is Array:
            return method(other, self)
        if isinstance(other, Array):
            return method(other.leaf, self)  # of a weight: Python tries the subclass first
        if other.__class__ is float and other:
            application = backward.get((self.type, other))
            if application is not None:
                return Array(application, (self,), self.tracked)
        if not _is_operand(other):
            return NotImplemented
        value = left.operand(self, other)
        if value is not other:
            return method(value, self)
        node = apply(operation, (other, self), {})
        if other.__class__ is float and other and other == other and node.application.quick:
            backward[self.type, other] = node.application
        return node

    backward: dict[Any, Any] = {}
    left, right = _Numbers(), _Numbers()
    method.known = known, known, False  # type: ignore[attr-defined]  # for `lazy.quick`
    reflected.known = known, backward, True  # type: ignore[attr-defined]
    return method, reflected


def _is_operand(x: Any) -> bool:
    return isinstance(x, Array | bool | int | float | complex | np.ndarray | np.generic) or is_on_device(x)


def unary(operation: Operation) -> Callable[[Any], Any]:
    """Make a method without arguments."""
    known: dict[Any, Any] = {}

    def method(self: Array) -> Any:
        application = known.get(self.type)
        if application is not None:
            return Array(application, (self,), self.tracked)
        node = apply(operation, (self,), {})
        if isinstance(node, Array) and node.application.quick:
            known[self.type] = node.application
        return node

    method.known = known, known, False  # type: ignore[attr-defined]
    return method


def general(operation: Operation) -> Callable[..., Any]:
    """Make a method with arbitrary arguments."""
    known: dict[Any, Any] = {}

    def method(self: Array, *args: Any, **keywords: Any) -> Any:
        operands = [self]
        key = None if keywords else quick_key(args, operands)
        application = known.get((self.type, key))
        if application is not None:
            return node_of(application, operands)
        node = apply(operation, (self, *args), keywords)
        if key is not None and isinstance(node, Array) and node.application.quick:
            known[self.type, key] = node.application
        return node

    return method


class _Rows:
    """The nodes for rows of arrays by index.

    The first few indices for a type are part of the structure. With more indices, all rows become values, the first
    ones included. Otherwise each combination of rows would create its own structure.
    """

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self._fixed: dict[ArrayType, dict[int, Application]] = {}
        self._open: dict[ArrayType, Application] = {}  # by array type, for an index in range, which cannot fail

    def node(self, x: Array, number: int) -> Any:
        """The node of a row."""
        fixed = self._fixed.setdefault(x.type, {})
        application = fixed.get(number)
        if application is not None:
            return Array(application, (x,), x.tracked)
        extent = x.type.shape[0] if x.type.shape else 0
        if not -extent <= number < extent or (len(fixed) < ROWS and x.type not in self._open):
            node = apply(self._operation, (x, number), {})  # an error, or one of the first indices
            fixed[number] = node.application
            return node
        row = leaf(np.asarray(number % extent))
        application = self._open.get(x.type)
        if application is None:
            fixed.clear()
            application = self._open[x.type] = _viewing(apply(self._operation, (x, row), {}).application)
        return Array(application, (x, row), x.tracked)


def _viewing(application: Application) -> Application:
    """The operation of a row by number, which is a view if it has axes; by an array, it is a copy."""
    if application.type is None or not application.type.shape:
        return application
    made = copy(application)
    made.view = View(lambda a, number: a[number])
    return made


def subscript() -> Callable[[Any, Any], Any]:
    """Make the indexing method, with a cache of operations by key."""
    known: dict[Any, Any] = {}
    operation = Operation("operator.getitem", taken)
    rows = _Rows(operation)

    def method(self: Array, key: Any) -> Any:
        if key.__class__ is int:
            return rows.node(self, key)
        operands = [self]
        quick = quick_key((key,), operands) if key.__class__ is not list else None
        application = known.get((self.type, quick))
        if quick is not None and application is not None:
            return node_of(application, operands)
        node = apply(operation, selected(self.leaf, key), {})
        if quick is not None and len(operands) == 1 and node.application.quick:
            known[self.type, quick] = node.application
        return node

    return method


def at(read: Operation, change: Operation) -> Callable[[Any], At]:
    """Make the property `x.at`."""
    reading, changing = general(read), general(change)
    return lambda self: At(self, reading, changing)


def _calls(name: str) -> Callable[..., Any]:
    return lambda x, *args, **keywords: getattr(x, name)(*args, **keywords)


def installed() -> dict[str, Any]:
    """Install the operators and methods on the class; return them by name."""
    made: dict[str, Any] = {}
    for name in _BINARY:
        function = as_numpy(f"operator.{name}", getattr(operator, f"__{name}__"))
        made[f"__{name}__"], made[f"__r{name}__"] = binary(Operation(f"operator.{name}", function))
    for name in _COMPARISONS:
        function = as_numpy(f"operator.{name}", getattr(operator, f"__{name}__"))
        made[f"__{name}__"] = binary(Operation(f"operator.{name}", function))[0]
    for name in _UNARY:
        made[f"__{name}__"] = unary(Operation(f"operator.{name}", getattr(operator, f"__{name}__")))
    for name in _PROPERTIES:
        made[name] = property(unary(Operation(f"array.{name}", operator.attrgetter(name))))
    made["at"] = property(at(Operation("array.at", _calls("at")), Operation("array.at.key", combined)))
    made["__getitem__"] = subscript()
    for name in ("__divmod__", "__rdivmod__", "__round__"):
        made[name] = general(Operation(f"array.{name}", _calls(name)))
    made["ravel"] = general(Operation("array.ravel", lambda x: x.reshape(-1)))
    for kind in (traced.TracedArray, traced.Array, ComplexArray):
        for name, value in vars(kind).items():
            if callable(value) and not name.startswith("_") and name not in (*_OWN, "real", "imag"):
                made.setdefault(name, general(Operation(f"array.{name}", as_numpy(f"array.{name}", _calls(name)))))
    for name, method in made.items():
        if callable(method):
            method.__name__ = name
            method.__doc__ = getattr(getattr(traced.Array, name, None), "__doc__", None)
        setattr(Array, name, method)
    return made


setattr(Array, "__array_ufunc__", array_ufunc)  # noqa: B010
setattr(Array, "__array_function__", array_function)  # noqa: B010
