"""`Array`: what the user's function works on, with the operators and methods of the array API.

While tracing it is given by a rule for its elements, and is one of
    an array of the program       a Ref, and reading is an element of it
    a view                        slices, transposes, broadcasts, rows: a rule over another array, no statement
    a scalar                      rank 0: the expression of one element
    a weak scalar                 a Python number, an index or dim, a plain `int` or `float` argument, or arithmetic
                                  on these: it takes the dtype of what it meets
Reading is `element(indices)`; `extents` is the shape as dims. `pullback.lang.making` makes them.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NoReturn

import numpy as np

from pullback.errors import TraceError, UnknownNameError
from pullback.ir import types
from pullback.ir.expr import Ref, Scalar
from pullback.ir.index import Index
from pullback.ir.reduction import COMBINING
from pullback.ir.types import DType
from pullback.lang import elsewhere
from pullback.lang.devices import CPU, check_device
from pullback.lang.trace import current, ended, is_tracing
from pullback.source import Position, called, source_text, user_position

Weak = Literal["bool", "integer", "floating"]
Indices = tuple[Index, ...]
Rule = Callable[[Indices], Scalar]


@dataclass(frozen=True)
class Operations:
    """What the operators and methods of arrays do. `pullback.lang.methods` says it, as the functions make arrays."""

    elementwise: Callable[..., Array]  # by the name of a primitive
    reduced: Callable[..., Array]  # by the name of a reduction
    convert: Callable[[Array, Any], Array]
    matmul: Callable[[Any, Any], Array]
    transpose: Callable[[Array], Array]
    matrix_transpose: Callable[[Array], Array]
    permute_dims: Callable[[Array, tuple[int, ...]], Array]
    reshape: Callable[[Array, Any], Array]
    subscript: Callable[[Array, Any], Array]
    at: Callable[[Array, tuple[Any, ...], Any], Array]
    rows: Callable[[Array], Iterable[Array]]
    changed: Callable[[Array, Any, Any, Literal["set", "add"]], Array]
    extent: Callable[[Index], Any]


class Array:
    """A traced array, scalar or index.

    Indexing, slicing, operators and methods follow the Python array API standard. A traced value has no truth
    value and no number: `if`, `and`, `range(n)` and `0 <= i < n` raise a TraceError that says what to write.
    """

    __slots__ = ("_dtype", "_rule", "extents", "index", "literal", "make", "name", "position", "ref", "stored", "weak")

    extents: Indices
    ref: Ref | None
    weak: Weak | None
    make: Callable[[DType], Scalar] | None
    index: Index | None
    literal: bool | int | float | None
    name: str | None
    position: Position | None
    stored: DType | None
    _dtype: DType | None
    _rule: Rule
    _do: ClassVar[Operations]

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.extents)

    @property
    def strong(self) -> DType | None:
        """The dtype, None where it depends on what the value meets."""
        return None if self.weak else self._dtype

    @property
    def settled(self) -> DType:
        """The dtype it has when it meets nothing."""
        if self.weak is None:
            assert self._dtype is not None
            return self._dtype
        if self.ref is not None:
            return self.ref.dtype
        return {"bool": types.bool_, "integer": types.i64}.get(self.weak) or current().default_float

    @property
    def storage(self) -> DType:
        """The dtype in which it lies in memory: f16 or bf16 where its elements, when they are read, are f32."""
        return self.stored or self.settled

    def element(self, indices: Indices = (), dtype: DType | None = None) -> Scalar:
        """The element at these indices; `dtype` is what a weak value becomes."""
        if self.make is not None:
            return self.make(dtype or self.settled)
        return self._rule(indices)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents: ints where they are fixed, else dims, on which arithmetic and comparison work."""
        return tuple(self._do.extent(e) for e in self.extents)

    @property
    def dtype(self) -> DType:
        """The element type; of arrays stored as float16 or bfloat16 that, and what is read from them is float32."""
        return self.storage

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
        """Where arrays are: on the processor."""
        return CPU

    def to_device(self, device: Any, /, *, stream: Any = None) -> Array:
        """The array, on the only device there is."""
        check_device("to_device", device)
        return self

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        return sys.modules[__name__.partition(".")[0]]

    @property
    def T(self) -> Array:
        """The transpose of a matrix; other arrays have none: see `mT`, `transpose`."""
        return self._do.transpose(self)

    @property
    def mT(self) -> Array:
        """The last two axes exchanged."""
        return self._do.matrix_transpose(self)

    def __getitem__(self, key: Any) -> Array:
        return self._do.subscript(self, key)

    def at(self, *indices: Any, fill: Any = 0) -> Array:
        """The element at these indices, `fill` where they leave the array. Fewer indices than axes give a row."""
        return self._do.at(self, indices, fill)

    def set(self, index: Any, value: Any) -> Array:
        """A new array with the elements that `self[index]` selects set to the value; of several writes the last stays.

        Args:
            index: what stands in a subscript: integers, slices, `...`, integer arrays; or a mask of bools.
            value: a number, or an array that broadcasts to what is selected.

        >>> import pullback as pb
        >>> pb.function(lambda x: x.set(slice(1, None), 0.0))(np.array([1.0, 2.0, 3.0])).tolist()
        [1.0, 0.0, 0.0]
        """
        return self._do.changed(self, index, value, "set")

    def add(self, index: Any, value: Any) -> Array:
        """A new array with the value added to the elements that `self[index]` selects, once for each time it names one.

        Args:
            index: what stands in a subscript: integers, slices, `...`, integer arrays; or a mask of bools.
            value: a number, or an array that broadcasts to what is selected.

        >>> import pullback as pb
        >>> pb.function(lambda x, i: x.add(i, 1.0))(np.zeros(3), np.array([2, 0, 2])).tolist()
        [1.0, 0.0, 2.0]
        """
        return self._do.changed(self, index, value, "add")

    def astype(self, dtype: Any) -> Array:
        """Every element converted: floating to integer saturates, NaN gives 0."""
        return self._do.convert(self, dtype)

    # Operators ----------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Array:
        return self._do.elementwise("add", self, other)

    def __radd__(self, other: Any) -> Array:
        return self._do.elementwise("add", other, self)

    def __sub__(self, other: Any) -> Array:
        return self._do.elementwise("subtract", self, other)

    def __rsub__(self, other: Any) -> Array:
        return self._do.elementwise("subtract", other, self)

    def __mul__(self, other: Any) -> Array:
        return self._do.elementwise("multiply", self, other)

    def __rmul__(self, other: Any) -> Array:
        return self._do.elementwise("multiply", other, self)

    def __truediv__(self, other: Any) -> Array:
        return self._do.elementwise("divide", self, other)

    def __rtruediv__(self, other: Any) -> Array:
        return self._do.elementwise("divide", other, self)

    def __floordiv__(self, other: Any) -> Array:
        return self._do.elementwise("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Array:
        return self._do.elementwise("floor_divide", other, self)

    def __mod__(self, other: Any) -> Array:
        return self._do.elementwise("remainder", self, other)

    def __rmod__(self, other: Any) -> Array:
        return self._do.elementwise("remainder", other, self)

    def __divmod__(self, other: Any) -> tuple[Array, Array]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Array, Array]:
        return other // self, other % self

    def __pow__(self, other: Any) -> Array:
        return self._do.elementwise("power", self, other)

    def __rpow__(self, other: Any) -> Array:
        return self._do.elementwise("power", other, self)

    def __matmul__(self, other: Any) -> Array:
        return self._do.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Array:
        return self._do.matmul(other, self)

    def __neg__(self) -> Array:
        return self._do.elementwise("negative", self)

    def __pos__(self) -> Array:
        return self

    def __abs__(self) -> Array:
        return self._do.elementwise("abs", self)

    def __invert__(self) -> Array:
        return self._do.elementwise("logical_not" if self.settled.is_bool else "bitwise_invert", self)

    def __and__(self, other: Any) -> Array:
        return self._do.elementwise(_logic("and", self, other), self, other)

    def __rand__(self, other: Any) -> Array:
        return self._do.elementwise(_logic("and", self, other), other, self)

    def __or__(self, other: Any) -> Array:
        return self._do.elementwise(_logic("or", self, other), self, other)

    def __ror__(self, other: Any) -> Array:
        return self._do.elementwise(_logic("or", self, other), other, self)

    def __xor__(self, other: Any) -> Array:
        return self._do.elementwise(_logic("xor", self, other), self, other)

    def __rxor__(self, other: Any) -> Array:
        return self._do.elementwise(_logic("xor", self, other), other, self)

    def __rlshift__(self, other: Any) -> Array:
        return self._do.elementwise("bitwise_left_shift", other, self)

    def __rrshift__(self, other: Any) -> Array:
        return self._do.elementwise("bitwise_right_shift", other, self)

    def __lshift__(self, other: Any) -> Array:
        return self._do.elementwise("bitwise_left_shift", self, other)

    def __rshift__(self, other: Any) -> Array:
        return self._do.elementwise("bitwise_right_shift", self, other)

    def __lt__(self, other: Any) -> Array:
        return self._do.elementwise("less", self, other)

    def __le__(self, other: Any) -> Array:
        return self._do.elementwise("less_equal", self, other)

    def __gt__(self, other: Any) -> Array:
        return self._do.elementwise("greater", self, other)

    def __ge__(self, other: Any) -> Array:
        return self._do.elementwise("greater_equal", self, other)

    def __eq__(self, other: Any) -> Array:  # type: ignore[override]
        return self._do.elementwise("equal", self, other)

    def __ne__(self, other: Any) -> Array:  # type: ignore[override]
        return self._do.elementwise("not_equal", self, other)

    # Methods ------------------------------------------------------------------------------------------------

    def sum(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Sum over all elements, or over the given axes."""
        return self._do.reduced("sum", self, axis=axis, keepdims=keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Product over all elements, or over the given axes."""
        return self._do.reduced("prod", self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Mean over all elements, or over the given axes."""
        return self._do.reduced("mean", self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Largest element, or over the given axes."""
        return self._do.reduced("max", self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Smallest element, or over the given axes."""
        return self._do.reduced("min", self, axis=axis, keepdims=keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Whether any element is true."""
        return self._do.reduced("any", self, axis=axis, keepdims=keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Whether all elements are true."""
        return self._do.reduced("all", self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Array:
        """Position of the largest element, the first on ties."""
        return self._do.reduced("argmax", self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Array:
        """Position of the smallest element, the first on ties."""
        return self._do.reduced("argmin", self, axis=axis, keepdims=keepdims)

    def reshape(self, *shape: Any) -> Array:
        """The elements in row-major order in another shape; one extent may be -1."""
        return self._do.reshape(self, shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape)

    def transpose(self, *axes: int) -> Array:
        """Axes permuted; without arguments reversed."""
        return self._do.permute_dims(self, axes or tuple(reversed(range(self.rank))))

    # What a traced value cannot do --------------------------------------------------------------------------

    def _refused(self, what: str, remedy: str, code: str = "E134") -> TraceError:
        if not is_tracing():
            return ended(self, user_position())
        return TraceError(code, what, position=user_position(), remedy=remedy)

    def _kind(self) -> str:
        return f"the {'dim' if self.index.is_dim else 'index'} {self.index}" if self.index else type_text(self)

    def __bool__(self) -> NoReturn:
        what = f"the truth of a traced value ({type_text(self)}) is not known when the function is defined"
        remedy = _truth_remedy(user_position())
        if self.weak == "bool" and self.name:
            remedy = f"`{self.name}: pb.Static` makes it a Python value; `cond` chooses when the function runs"
        raise self._refused(what, remedy)

    def __index__(self) -> NoReturn:
        what = f"a traced value ({self._kind()}) is no Python int, so `range` and the like cannot use it"
        raise self._refused(what, _number_remedy(user_position()))

    def _number(self, what: str) -> NoReturn:
        found = f"{what}() of a traced value ({type_text(self)}): its value is not known when the function is defined"
        raise self._refused(found, _number_remedy(user_position()))

    def __float__(self) -> NoReturn:
        self._number("float")

    def __int__(self) -> NoReturn:
        self._number("int")

    def __complex__(self) -> NoReturn:
        self._number("complex")

    def __round__(self, digits: int | None = None) -> Array:
        if digits is None:
            return self._do.elementwise("round", self)
        raise self._refused("round to digits of a traced value", f"`pb.round(x * 1e{digits}) / 1e{digits}`")

    def __format__(self, wanted: str) -> str:
        if not wanted:
            return repr(self)
        what = f"a traced value ({type_text(self)}) cannot be written as {wanted!r}: its value is not known"
        raise self._refused(what, "return it, and print what the call gives")

    def __hash__(self) -> int:
        what = "a traced value is no key of a dict or set: its value is not known"
        raise self._refused(what, "an int, a str or a tuple of these")

    def __iter__(self) -> Iterator[Array]:
        return iter(self._do.rows(self))

    def __len__(self) -> int:
        if self.rank and self.extents[0].constant is not None:
            return self.extents[0].constant
        if not self.rank:
            raise self._refused(f"len() of {type_text(self)}, which has no axes", "`x.size` is 1")
        what = f"len() is a Python int, and {self.name or 'the array'} has {self.extents[0]} rows"
        raise self._refused(what, f"`{self.name or 'x'}.shape[0]` is their number")

    def __contains__(self, item: object) -> NoReturn:
        what = "`in` on a traced value is not known when the function is defined"
        raise self._refused(what, "`any_over(n, lambda i: x[i] == value)`")

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise self._refused(f"{_subscript(self, user_position())} = ...: an array never changes", _WRITING, "E147")

    def __delitem__(self, key: Any) -> NoReturn:
        what = f"del {_subscript(self, user_position())}: an array never changes"
        raise self._refused(what, "`pb.concat([x[:i], x[i + 1:]])` is the array without one element", "E147")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or name in Array.__slots__:
            raise AttributeError(name)
        package = elsewhere.public_names()
        if name in package.__all__ and callable(getattr(package, name)):
            remedy = f"`pb.{name}({self.name or 'x'})`: it is a function"
        elif close := elsewhere.nearest(name, [n for n in dir(type(self)) if not n.startswith("_")]):
            remedy = f"did you mean `{close[0]}`?"
        else:
            remedy = elsewhere.remedy(name)
        raise UnknownNameError(
            "E146", f"a traced array has no attribute {name!r}", position=user_position(), remedy=remedy
        )

    # What NumPy does with one -------------------------------------------------------------------------------

    def __array__(self, *args: Any, **keywords: Any) -> NoReturn:
        position = user_position()
        text = source_text(position)
        if subscripted := _subscripted(text):
            known = self.index is not None and not self.index.is_dim
            own = self._kind() if known else self.name or f"this {self._kind()}"
            raise self._refused(
                f"{text}: {subscripted[0]} is a NumPy array, whose indices are numbers, and {own} is a traced value",
                f"`pb.asarray({subscripted[0]}){subscripted[1]}`",
                "E136",
            )
        name = (called(position) or "").split(".")[-1]
        remedy = "return it: the call of the function gives NumPy arrays"
        if name in ("array", "stack", "asarray"):
            remedy = "`pb.stack([a, b])` makes an array of traced values"
        raise self._refused("a traced array was given to NumPy, which needs its values", remedy, "E136")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        name = ufunc.__name__
        if "out" in keywords or method == "at":
            raise self._refused(
                f"numpy.{name} would write a traced value into a NumPy array",
                "`y = y + x` inside the function, and return it: arrays of the language never change",
                "E136",
            )
        found = elsewhere.counterpart("bitwise_invert" if name == "invert" else name) if method == "__call__" else None
        if method == "reduce":
            found = elsewhere.counterpart(COMBINING.get(name, "?"))
        return self._as_here(f"{name}{'' if method == '__call__' else '.' + method}", found, inputs, keywords)

    def __array_function__(self, function: Any, types: Any, inputs: Any, keywords: Any) -> Any:
        own = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
        found = elsewhere.counterpart(function.__name__, own.rpartition(".")[0])
        return self._as_here(own, found, inputs, keywords)

    def _as_here(self, name: str, found: Any, inputs: Any, keywords: Any) -> Any:
        """What the function of NumPy with this name gives here; TraceError where there is none, or not of these."""
        if found is None:
            raise self._refused(
                f"numpy.{name} was given a traced array, whose values it needs",
                elsewhere.remedy(name.split(".")[-1], misspelt=False),
                "E136",
            )
        try:
            inspect.signature(found).bind(*inputs, **keywords)
        except TypeError as error:
            raise self._refused(
                f"numpy.{name} is `pb.{found.__name__}` here, which takes other arguments: {error}",
                f"`{elsewhere.form('pb.' + found.__name__, found)}`",
                "E136",
            ) from None
        return found(*inputs, **keywords)

    def __repr__(self) -> str:
        name = f"{self.name} : " if self.name else ""
        return f"<{name}{self.index if self.index is not None else type_text(self)}>"


_WRITING = "`x = x.set(index, value)` or `x = x.add(index, value)` gives the array with that element changed"
_BUILTINS = {
    "max": "`pb.maximum(a, b)`, `pb.max(x)`",
    "min": "`pb.minimum(a, b)`, `pb.min(x)`",
    "sum": "`pb.sum(x)`",
    "any": "`pb.any(x)`",
    "all": "`pb.all(x)`",
}


def _truth_remedy(position: Position | None) -> str:
    """What to write instead, after what the line of the user does with the truth."""
    line = (position.source_line or "").strip() if position else ""
    name = called(position)
    if name in _BUILTINS:
        return _BUILTINS[name]
    if line.startswith("while "):
        return "`pb.while_loop(test, body, state)`"
    if line.startswith("assert "):
        return "check arguments before the call; `pb.in_range(i, n)` declares what indices are"
    return "`where(condition, a, b)` or `cond` for `if`, `&` `|` `~` for and, or, not, `(0 <= i) & (i < n)` for a chain"


def _number_remedy(position: Position | None) -> str:
    """What to write instead, after what the user gives a traced value to in the place of a number."""
    module, _, name = (called(position) or "").rpartition(".")
    if module == "math" or module.split(".")[0] in ("np", "numpy"):
        return elsewhere.remedy("random" if "random" in module else name)
    if subscripted := _subscripted(source_text(position)):
        return f"`pb.asarray({subscripted[0]}){subscripted[1]}`"
    if name in ("float", "int"):
        return "`astype` converts; `pb.Static` makes an argument a Python value"
    return "`fold`, `build` or `sum_over` run over an extent; `pb.Static` makes an argument a Python value"


def _subscripted(text: str) -> tuple[str, str] | None:
    """What is subscripted in `W[i, 0]` or `(a + b)[i]`, without brackets of its own, and the subscript."""
    depth = 0
    for k in range(len(text) - 1, 0, -1):
        depth += (text[k] == "]") - (text[k] == "[")
        if not depth:
            base = text[:k]
            return (base[1:-1] if base[0] + base[-1] == "()" else base, text[k:]) if text[k] == "[" else None
    return None


def _subscript(x: Array, position: Position | None) -> str:
    """`x[0]`, as the user wrote it."""
    found = re.match(r"(?:del )?([\w.]+\[[^=]*\])", source_text(position))
    return found.group(1) if found else f"{x.name or 'x'}[...]"


def _logic(operation: str, a: Array, b: Any) -> str:
    """`&` on bools is logical, on integers bitwise."""
    return f"logical_{operation}" if a.settled.is_bool else f"bitwise_{operation}"


def shape_text(extents: Sequence[Index]) -> str:
    """A shape in messages: [N, M]."""
    return "[" + ", ".join(map(str, extents)) + "]"


def type_text(h: Array) -> str:
    """A type in messages: f32[N, M]; a weak value by its kind."""
    name = {"bool": "a Python bool", "integer": "an index or Python int", "floating": "a Python float"}
    if h.weak is not None:
        return name[h.weak]
    return f"{h.storage}{shape_text(h.extents) if h.extents else ''}"
