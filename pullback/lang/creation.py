"""Arrays from nothing: zeros, ones, full, arange, linspace, eye, and their likes. All are views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback.errors import DTypeError
from pullback.ir import expr
from pullback.ir.expr import Scalar
from pullback.ir.index import Index, cond
from pullback.lang.elementwise import convert, dtype_from, elementwise
from pullback.lang.handle import Indices, as_array, extent_of, from_number, type_text, view
from pullback.lang.trace import current
from pullback.source import user_position

if TYPE_CHECKING:
    from pullback.lang.array import Array


def _shape(shape: Any, what: str) -> list[Index]:
    items = shape if isinstance(shape, tuple | list) else (shape,)
    return [current().extent(extent_of(e, what), what) for e in items]


def full(shape: Any, fill_value: Any, *, dtype: Any = None) -> Array:
    """An array of one value; a Python float is f32 where all floating inputs are, else f64.

    >>> pb.function(lambda: pb.full((2,), 7))().tolist()
    [7, 7]
    """
    value = as_array(fill_value, "full")
    if value.rank:
        raise DTypeError("E121", f"full takes one value, not {type_text(value)}", position=user_position())
    target = value.settled if dtype is None else dtype_from(dtype)
    return view(_shape(shape, "full"), target, lambda _: expr.cast(value.element((), target), target))


def zeros(shape: Any, *, dtype: Any = None) -> Array:
    """An array of zeros, floating unless `dtype` says otherwise.

    >>> pb.function(lambda: pb.zeros((2,)))().tolist()
    [0.0, 0.0]
    """
    return full(shape, 0 if dtype is not None and not dtype_from(dtype).is_bool else 0.0, dtype=dtype)


def ones(shape: Any, *, dtype: Any = None) -> Array:
    """An array of ones, floating unless `dtype` says otherwise.

    >>> pb.function(lambda: pb.ones((2,)))().tolist()
    [1.0, 1.0]
    """
    return full(shape, 1 if dtype is not None and not dtype_from(dtype).is_bool else 1.0, dtype=dtype)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None) -> Array:
    """An array of one value with the shape and, unless given, the dtype of x.

    >>> pb.function(lambda x: pb.full_like(x, 7))(np.zeros(2)).tolist()
    [7.0, 7.0]
    """
    h = as_array(x, "full_like")
    return full(tuple(h.extents), fill_value, dtype=dtype or h.settled)


def zeros_like(x: Any, /, *, dtype: Any = None) -> Array:
    """Zeros with the shape and dtype of x.

    >>> pb.function(lambda x: pb.zeros_like(x))(np.arange(2)).tolist()
    [0, 0]
    """
    return full_like(x, 0, dtype=dtype)


def ones_like(x: Any, /, *, dtype: Any = None) -> Array:
    """Ones with the shape and dtype of x.

    >>> pb.function(lambda x: pb.ones_like(x))(np.arange(2)).tolist()
    [1, 1]
    """
    return full_like(x, 1, dtype=dtype)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None) -> Array:
    """Integers from start up to, not including, stop.

    >>> pb.function(lambda: pb.arange(4))().tolist()
    [0, 1, 2, 3]
    """
    first, last = (0, start) if stop is None else (start, stop)
    low, high, by = (extent_of(v, "arange") for v in (first, last, step))
    rising = by.constant is not None and by.constant > 0
    count = (high - low + by - 1) // by if rising else (low - high - by - 1) // -by
    target = dtype_from(dtype or "int64")
    return view(_shape(count, "arange"), target, lambda i: expr.from_index(low + i[0] * by, target))


def linspace(start: Any, stop: Any, /, num: Any, *, dtype: Any = None, endpoint: bool = True) -> Array:
    """`num` evenly spaced values from start to stop.

    >>> pb.function(lambda: pb.linspace(0.0, 1.0, 3))().tolist()
    [0.0, 0.5, 1.0]
    """
    target = current().default_float if dtype is None else dtype_from(dtype)
    (count,) = _shape(num, "linspace")
    a, b = convert(as_array(start), target), convert(as_array(stop), target)
    gaps = expr.from_index(count - 1 if endpoint else count, target)
    step = elementwise("subtract", b, a).element()

    def rule(indices: Indices) -> Scalar:
        return expr.add(a.element(), expr.apply("divide", expr.mul(expr.from_index(indices[0], target), step), gaps))

    return view([count], target, rule)


def eye(n_rows: Any, n_cols: Any = None, /, *, k: int = 0, dtype: Any = None) -> Array:
    """Ones on a diagonal, `k` above the main one, zeros elsewhere.

    >>> pb.function(lambda: pb.eye(2))().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    target = current().default_float if dtype is None else dtype_from(dtype)
    extents = _shape((n_rows, n_rows if n_cols is None else n_cols), "eye")
    one = expr.const(1, target)
    return view(extents, target, lambda i: expr.bracket([cond("==", i[1] - i[0] - k)], one))


def tril(x: Any, /, *, k: int = 0) -> Array:
    """The lower triangle of x, zeros above diagonal k.

    >>> pb.function(lambda x: pb.tril(x))(np.array([[1, 2], [3, 4]])).tolist()
    [[1, 0], [3, 4]]
    """
    h = as_array(x, "tril")
    return view(
        h.extents, h.settled, lambda i: expr.bracket([cond(">=", i[-2] + k - i[-1])], h.element(i)), None, h.name
    )


def triu(x: Any, /, *, k: int = 0) -> Array:
    """The upper triangle of x, zeros below diagonal k.

    >>> pb.function(lambda x: pb.triu(x))(np.array([[1, 2], [3, 4]])).tolist()
    [[1, 2], [0, 4]]
    """
    h = as_array(x, "triu")
    return view(
        h.extents, h.settled, lambda i: expr.bracket([cond(">=", i[-1] - i[-2] - k)], h.element(i)), None, h.name
    )


def asarray(x: Any, /, *, dtype: Any = None) -> Array:
    """A number, NumPy array or traced array as a traced array; lists of values become vectors.

    >>> pb.function(lambda x: pb.asarray([10.0, 20.0]) + x)(1.0).tolist()
    [11.0, 21.0]
    """
    if isinstance(x, list | tuple):
        from pullback.lang.manipulation import stack

        return stack([asarray(v, dtype=dtype) for v in x])
    h = as_array(x if not isinstance(x, bool | int | float) else from_number(x), "asarray")
    return h if dtype is None else convert(h, dtype)
