"""`Array`: what the user's function works on, with the operators and methods of the array API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from pullback.errors import TraceError
from pullback.ir.types import DType
from pullback.lang import elementwise as _e
from pullback.lang import linalg as _l
from pullback.lang import manipulation as _m
from pullback.lang import reduction as _r
from pullback.lang import subscript as _s
from pullback.lang.handle import Handle, shape_value, type_text
from pullback.source import user_position


class Array(Handle):
    """A traced array, scalar or index.

    Indexing, slicing, operators and methods follow the Python array API standard. A traced value has no truth
    value and no number: `if`, `and`, `range(n)` and `0 <= i < n` raise a TraceError that says what to write.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents: ints where they are fixed, else dims, on which arithmetic and comparison work."""
        return tuple(shape_value(e) for e in self.extents)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.settled

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
    def T(self) -> Array:
        """The transpose of a matrix; other arrays have none: see `mT`, `transpose`."""
        return _m.transpose(self)

    @property
    def mT(self) -> Array:
        """The last two axes exchanged."""
        return _m.matrix_transpose(self)

    def __getitem__(self, key: Any) -> Array:
        return _s.subscript(self, key)

    def at(self, *indices: Any, fill: Any = 0) -> Array:
        """The element at these indices, `fill` where they leave the array. Fewer indices than axes give a row."""
        return _s.at(self, indices, fill)

    def astype(self, dtype: Any) -> Array:
        """Every element converted: floating to integer saturates, NaN gives 0."""
        return _e.convert(self, dtype)

    # Operators ----------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Array:
        return _e.elementwise("add", self, other)

    def __radd__(self, other: Any) -> Array:
        return _e.elementwise("add", other, self)

    def __sub__(self, other: Any) -> Array:
        return _e.elementwise("subtract", self, other)

    def __rsub__(self, other: Any) -> Array:
        return _e.elementwise("subtract", other, self)

    def __mul__(self, other: Any) -> Array:
        return _e.elementwise("multiply", self, other)

    def __rmul__(self, other: Any) -> Array:
        return _e.elementwise("multiply", other, self)

    def __truediv__(self, other: Any) -> Array:
        return _e.elementwise("divide", self, other)

    def __rtruediv__(self, other: Any) -> Array:
        return _e.elementwise("divide", other, self)

    def __floordiv__(self, other: Any) -> Array:
        return _e.elementwise("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Array:
        return _e.elementwise("floor_divide", other, self)

    def __mod__(self, other: Any) -> Array:
        return _e.elementwise("remainder", self, other)

    def __rmod__(self, other: Any) -> Array:
        return _e.elementwise("remainder", other, self)

    def __pow__(self, other: Any) -> Array:
        return _e.elementwise("power", self, other)

    def __rpow__(self, other: Any) -> Array:
        return _e.elementwise("power", other, self)

    def __matmul__(self, other: Any) -> Array:
        return _l.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Array:
        return _l.matmul(other, self)

    def __neg__(self) -> Array:
        return _e.elementwise("negative", self)

    def __pos__(self) -> Array:
        return self

    def __abs__(self) -> Array:
        return _e.elementwise("abs", self)

    def __invert__(self) -> Array:
        return _e.elementwise("logical_not" if self.settled.is_bool else "bitwise_invert", self)

    def __and__(self, other: Any) -> Array:
        return _e.elementwise(_logic("and", self, other), self, other)

    def __rand__(self, other: Any) -> Array:
        return _e.elementwise(_logic("and", self, other), other, self)

    def __or__(self, other: Any) -> Array:
        return _e.elementwise(_logic("or", self, other), self, other)

    def __ror__(self, other: Any) -> Array:
        return _e.elementwise(_logic("or", self, other), other, self)

    def __xor__(self, other: Any) -> Array:
        return _e.elementwise(_logic("xor", self, other), self, other)

    def __rxor__(self, other: Any) -> Array:
        return _e.elementwise(_logic("xor", self, other), other, self)

    def __lshift__(self, other: Any) -> Array:
        return _e.elementwise("bitwise_left_shift", self, other)

    def __rshift__(self, other: Any) -> Array:
        return _e.elementwise("bitwise_right_shift", self, other)

    def __lt__(self, other: Any) -> Array:
        return _e.elementwise("less", self, other)

    def __le__(self, other: Any) -> Array:
        return _e.elementwise("less_equal", self, other)

    def __gt__(self, other: Any) -> Array:
        return _e.elementwise("greater", self, other)

    def __ge__(self, other: Any) -> Array:
        return _e.elementwise("greater_equal", self, other)

    def __eq__(self, other: Any) -> Array:  # type: ignore[override]
        return _e.elementwise("equal", self, other)

    def __ne__(self, other: Any) -> Array:  # type: ignore[override]
        return _e.elementwise("not_equal", self, other)

    # Methods ------------------------------------------------------------------------------------------------

    def sum(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Sum over all elements, or over the given axes."""
        return _r.sum(self, axis=axis, keepdims=keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Product over all elements, or over the given axes."""
        return _r.prod(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Mean over all elements, or over the given axes."""
        return _r.mean(self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Largest element, or over the given axes."""
        return _r.max(self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Smallest element, or over the given axes."""
        return _r.min(self, axis=axis, keepdims=keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Whether any element is true."""
        return _r.any(self, axis=axis, keepdims=keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Whether all elements are true."""
        return _r.all(self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Array:
        """Position of the largest element, the first on ties."""
        return _r.argmax(self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Array:
        """Position of the smallest element, the first on ties."""
        return _r.argmin(self, axis=axis, keepdims=keepdims)

    def reshape(self, *shape: Any) -> Array:
        """The elements in row-major order in another shape; one extent may be -1."""
        return _m.reshape(self, shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape)

    def transpose(self, *axes: int) -> Array:
        """Axes permuted; without arguments reversed."""
        return _m.permute_dims(self, axes or tuple(reversed(range(self.rank))))

    # What a traced value cannot do --------------------------------------------------------------------------

    def __bool__(self) -> NoReturn:
        raise TraceError(
            "E134",
            f"the truth of a traced value ({type_text(self)}) is not known when the function is defined",
            position=user_position(),
            remedy="`where(condition, a, b)` or `cond` for `if`, `&` `|` `~` for and, or, not, "
            "`(0 <= i) & (i < n)` for a chain",
        )

    def __index__(self) -> NoReturn:
        raise TraceError(
            "E134",
            f"a traced value ({type_text(self)}) is no Python int, so `range` and the like cannot use it",
            position=user_position(),
            remedy="`fold`, `build` or `sum_over` run over an extent; `pb.Static` makes an argument a Python value",
        )

    def _number(self, what: str) -> NoReturn:
        raise TraceError(
            "E134",
            f"{what}() of a traced value ({type_text(self)}): its value is not known when the function is defined",
            position=user_position(),
            remedy="`astype` converts; `pb.Static` makes an argument a Python value",
        )

    def __float__(self) -> NoReturn:
        self._number("float")

    def __int__(self) -> NoReturn:
        self._number("int")

    def __iter__(self) -> Iterator[Array]:
        return iter(_s.rows(self))

    def __len__(self) -> int:
        return len(_s.rows(self))

    def __contains__(self, item: object) -> NoReturn:
        raise TraceError(
            "E134",
            "`in` on a traced value is not known when the function is defined",
            position=user_position(),
            remedy="`any_over(n, lambda i: x[i] == value)`",
        )

    def __array__(self, *args: Any, **keywords: Any) -> NoReturn:
        raise TraceError(
            "E136",
            "a traced array was given to NumPy, which needs its values",
            position=user_position(),
            remedy="use the function of the same name in pullback, or call NumPy outside",
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Array:
        name = _UFUNCS.get(ufunc.__name__, ufunc.__name__)
        if method == "__call__" and not keywords and name in _e.NAMES:
            return _e.elementwise(name, *inputs)
        if method == "__call__" and name == "matmul":
            return _l.matmul(*inputs)
        raise TraceError(
            "E136",
            f"numpy.{ufunc.__name__} was given a traced array, whose values it needs",
            position=user_position(),
            remedy="use the function of pullback that does this",
        )

    def __array_function__(self, function: Any, *arguments: Any) -> NoReturn:
        raise TraceError(
            "E136",
            f"numpy.{function.__name__} was given a traced array, whose values it needs",
            position=user_position(),
            remedy="use the function of pullback that does this",
        )

    def __repr__(self) -> str:
        name = f"{self.name} : " if self.name else ""
        return f"<{name}{self.index if self.index is not None else type_text(self)}>"


_UFUNCS = {
    "true_divide": "divide",
    "absolute": "abs",
    "invert": "bitwise_invert",
    "mod": "remainder",
    "rint": "round",
    "bitwise_count": "",
    "float_power": "power",
}

Handle.kind = Array


def _logic(operation: str, a: Handle, b: Any) -> str:
    """`&` on bools is logical, on integers bitwise."""
    return f"logical_{operation}" if a.settled.is_bool else f"bitwise_{operation}"
