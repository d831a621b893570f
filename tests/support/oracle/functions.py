"""The oracle's functions of the array API, each by positions or from others."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.support.oracle import trees
from tests.support.oracle.arrays import DTYPES as _DTYPES
from tests.support.oracle.arrays import (
    WEAK_INT,
    Array,
    DType,
    OracleError,
    as_array,
    convert,
    default_float,
    dtype_of,
    index,
    integer,
    moved,
    promote,
    settled,
    subscript,
)
from tests.support.oracle.elementwise import astype, choose, elementwise, strong
from tests.support.oracle.notation import first_extreme
from tests.support.oracle.numbers import number


def _axes(a: Array, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(a.ndim))
    return tuple(k % a.ndim for k in (axis if isinstance(axis, tuple | list) else (axis,)))


# ---------------------------------------------------------------- reductions


def _reduced(x: Any, axis: Any, keepdims: bool, f: Callable[[list[Any], DType], Any], dtype: DType | None) -> Array:
    a = strong(x)
    axes = _axes(a, axis)
    kept = [k for k in range(a.ndim) if k not in axes]
    turned = permute_dims(a, [*kept, *axes])
    count = math.prod(a.shape[k] for k in axes)
    rows = [f(turned.data[k * count : (k + 1) * count], a.dtype) for k in range(math.prod(a.shape[k] for k in kept))]
    shape = tuple(1 if k in axes else n for k, n in enumerate(a.shape)) if keepdims else tuple(a.shape[k] for k in kept)
    return Array(shape, dtype or a.dtype, rows)


def _chain(name: str, start: Any) -> Callable[[list[Any], DType], Any]:
    def reduce(items: list[Any], dtype: DType) -> Any:
        if not items:
            if start is None:
                raise OracleError(f"{name} of nothing")
            return convert(as_array(start), dtype).data[0]
        total = Array((), dtype, [items[0]])
        for item in items[1:]:
            total = elementwise(name, total, Array((), dtype, [item]))
        return total.data[0]

    return reduce


def _accumulated(x: Any, dtype: Any) -> Array:
    a = strong(x)
    wide = {"signed": "int64", "unsigned": "uint64"}.get(a.dtype.kind)
    return convert(a, dtype_of(dtype) if dtype is not None else _DTYPES[wide] if wide else a.dtype)


def sum(x: Any, /, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """Sum."""
    return _reduced(_accumulated(x, dtype), axis, keepdims, _chain("add", 0), None)


def prod(x: Any, /, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """Product."""
    return _reduced(_accumulated(x, dtype), axis, keepdims, _chain("multiply", 1), None)


def max(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Largest."""
    return _reduced(x, axis, keepdims, _chain("maximum", None), None)


def min(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Smallest."""
    return _reduced(x, axis, keepdims, _chain("minimum", None), None)


def any(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether any holds."""
    return _reduced(x, axis, keepdims, _chain("logical_or", 0), None)


def all(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether all hold."""
    return _reduced(x, axis, keepdims, _chain("logical_and", 1), None)


def argmax(x: Any, /, axis: int | None = None, keepdims: bool = False) -> Array:
    """Position of the first largest."""
    return _reduced(x, axis, keepdims, lambda items, d: first_extreme("greater", items, d), settled(WEAK_INT))


def argmin(x: Any, /, axis: int | None = None, keepdims: bool = False) -> Array:
    """Position of the first smallest."""
    return _reduced(x, axis, keepdims, lambda items, d: first_extreme("less", items, d), settled(WEAK_INT))


def _count(a: Array, axis: Any) -> Array:
    return index(math.prod(a.shape[k] for k in _axes(a, axis)))


def mean(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Sum by number."""
    a = strong(x)
    return sum(a, axis=axis, keepdims=keepdims) / _count(a, axis)  # type: ignore[operator,no-any-return]


def var(x: Any, /, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """Mean square distance from the mean."""
    a: Any = strong(x)
    centered = a - mean(a, axis=axis, keepdims=True)
    total: Any = sum(centered * centered, axis=axis, keepdims=keepdims)
    return total / (_count(a, axis) - correction)  # type: ignore[operator,no-any-return]


def std(x: Any, /, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """Root of the variance."""
    return _root(var(x, axis=axis, correction=correction, keepdims=keepdims))


def _root(x: Array) -> Array:
    """The root, whose derivative at 0 is 0."""
    nought = elementwise("equal", x, 0)
    return choose(nought, 0, elementwise("sqrt", choose(nought, 1, x)))


def _lowered(x: Any, axis: Any) -> tuple[Array, Array]:
    """The largest as a constant, and the distances from it; equal infinities have none."""
    a = strong(x)
    high = stop_gradient(max(a, axis=axis, keepdims=True))
    endless = elementwise("logical_and", elementwise("isinf", high), elementwise("equal", a, high))
    return high, choose(endless, 0, elementwise("subtract", a, high))


def logsumexp(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Log of the sum of exp."""
    high, low = _lowered(x, axis)
    rest = elementwise("log", sum(elementwise("exp", low), axis=axis, keepdims=True))
    a = strong(x)
    top = choose(elementwise("isinf", high), max(a, axis=axis, keepdims=True), high)
    out = elementwise("add", rest, top)
    return out if keepdims else squeeze(out, _axes(a, axis))


def softmax(x: Any, /, axis: int = -1) -> Array:
    """Exp by the sum of exp."""
    grown = elementwise("exp", _lowered(x, axis)[1])
    return elementwise("divide", grown, sum(grown, axis=axis, keepdims=True))


def count_nonzero(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Count nonzero elements."""
    a = strong(x)
    return sum(astype(a if a.dtype.kind == "bool" else elementwise("not_equal", a, 0), "int64"), axis, None, keepdims)


def _running(name: str, x: Any, axis: int | None, dtype: Any, include_initial: bool) -> Array:
    a = _accumulated(x, dtype)
    (at,) = _axes(a, 0 if axis is None else axis)
    rows = [subscript(a, (*(slice(None),) * at, k)) for k in range(a.shape[at])]
    for k in range(1, len(rows)):
        rows[k] = elementwise(name, rows[k - 1], rows[k])
    if include_initial:
        rows.insert(0, full_like(rows[0], 0 if name == "add" else 1))
    return stack(rows, axis=at)


def cumulative_sum(x: Any, /, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False) -> Array:
    """Sums so far."""
    return _running("add", x, axis, dtype, include_initial)


def cumulative_prod(x: Any, /, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False) -> Array:
    """Products so far."""
    return _running("multiply", x, axis, dtype, include_initial)


# ---------------------------------------------------------------- compositions


def clip(x: Any, /, min: Any = None, max: Any = None) -> Array:
    """No smaller than min, no larger than max."""
    out = as_array(x)
    out = out if min is None else elementwise("maximum", out, min)
    return out if max is None else elementwise("minimum", out, max)


def relu(x: Any, /) -> Array:
    """Return `x` where it is positive, else 0."""
    return elementwise("maximum", 0, as_array(x))


def reciprocal(x: Any, /) -> Array:
    """1 / x."""
    return elementwise("divide", 1, x)


def logaddexp(x1: Any, x2: Any, /) -> Array:
    """Log of the sum of two exp."""
    high, low = elementwise("maximum", x1, x2), elementwise("minimum", x2, x1)
    rest = elementwise("log1p", elementwise("exp", elementwise("subtract", low, high)))
    return choose(elementwise("isinf", high), high, elementwise("add", high, rest))


def diff(x: Any, /, axis: int = -1, *, n: int = 1, prepend: Any = None, append: Any = None) -> Array:
    """Each less the one before."""
    a = concat([part for part in (prepend, x, append) if part is not None], axis)
    lead = (slice(None),) * _axes(a, axis)[0]
    for _ in range(n):
        a = elementwise("subtract", subscript(a, (*lead, slice(1, None))), subscript(a, (*lead, slice(None, -1))))
    return a


def where(condition: Any, x1: Any, x2: Any, /) -> Array:
    """Return `x1` where the condition holds, else `x2`."""
    return choose(condition, x1, x2)


def stop_gradient(x: Any, /) -> Any:
    """The same numbers as constants."""
    return trees.mapped(lambda a: elementwise("stop_gradient", strong(a)), x)


# ---------------------------------------------------------------- creation


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(integer(e) for e in (shape if isinstance(shape, tuple | list) else (shape,)))


def full(shape: Any, fill_value: Any, *, dtype: Any = None) -> Array:
    """One value everywhere."""
    value = as_array(fill_value)
    value = convert(value, settled(value.dtype) if dtype is None else dtype_of(dtype))
    extents = _shape(shape)
    return Array(extents, value.dtype, value.data * math.prod(extents))


def zeros(shape: Any, *, dtype: Any = None) -> Array:
    """Zeros."""
    return full(shape, 0, dtype=dtype or default_float())


def ones(shape: Any, *, dtype: Any = None) -> Array:
    """Ones."""
    return full(shape, 1, dtype=dtype or default_float())


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None) -> Array:
    """One value in the shape of x."""
    a = strong(x)
    return full(a.shape, fill_value, dtype=dtype or a.dtype)


def zeros_like(x: Any, /, *, dtype: Any = None) -> Array:
    """Zeros in the shape of x."""
    return full_like(x, 0, dtype=dtype)


def ones_like(x: Any, /, *, dtype: Any = None) -> Array:
    """Ones in the shape of x."""
    return full_like(x, 1, dtype=dtype)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None) -> Array:
    """Numbers from start to before stop."""
    first, last = (0, start) if stop is None else (start, stop)
    if builtins.any(isinstance(v, float) for v in (first, last, step)):
        target = default_float() if dtype is None else dtype_of(dtype)
        count = builtins.max(0, math.ceil((last - first) / step))
        return Array((count,), target, [number(first + k * step, target.unit) for k in range(count)])
    values = range(*map(integer, (first, last, step)))
    return convert(Array((len(values),), WEAK_INT, list(values)), dtype_of(dtype or "int64"))


def linspace(start: Any, stop: Any, /, num: Any, *, dtype: Any = None, endpoint: bool = True) -> Array:
    """Evenly spaced values."""
    target = default_float() if dtype is None else dtype_of(dtype)
    low, high = (convert(as_array(v), target) for v in (start, stop))
    count = integer(num)
    gaps = count - 1 if endpoint else count
    way = elementwise("subtract", high, low)
    rows = [low] + [elementwise("add", low, elementwise("divide", elementwise("multiply", k, way), gaps))
                    for k in range(1, count)]  # fmt: skip
    if endpoint and count > 1:
        rows[-1] = high
    return stack(rows[:count])


def eye(n_rows: Any, n_cols: Any = None, /, *, k: int = 0, dtype: Any = None) -> Array:
    """Ones on a diagonal."""
    target = default_float() if dtype is None else dtype_of(dtype)
    places = np.eye(integer(n_rows), None if n_cols is None else integer(n_cols), k, bool)
    return convert(as_array(places), target)


def asarray(x: Any, /, *, dtype: Any = None) -> Array:
    """An array of what is given; lists become vectors."""
    if isinstance(x, list | tuple):
        return stack([asarray(v, dtype=dtype) for v in x])
    return as_array(x) if dtype is None else astype(x, dtype)


# ---------------------------------------------------------------- moving


def reshape(x: Any, /, shape: Any) -> Array:
    """The elements in row-major order in another shape."""
    a = strong(x)
    try:
        return moved(a, lambda places: places.reshape(_shape(shape)))
    except ValueError as error:
        raise OracleError(str(error)) from error


def permute_dims(x: Any, /, axes: Sequence[int]) -> Array:
    """Axis k of the result is axis axes[k] of x."""
    return moved(strong(x), lambda places: np.transpose(places, tuple(axes)))


def matrix_transpose(x: Any, /) -> Array:
    """The last two axes exchanged."""
    return moved(strong(x), lambda places: np.swapaxes(places, -1, -2))


def moveaxis(x: Any, source: Any, destination: Any, /) -> Array:
    """Axes at other places."""
    return moved(strong(x), lambda places: np.moveaxis(places, source, destination))


def expand_dims(x: Any, /, axis: Any = 0) -> Array:
    """An axis of extent 1."""
    return moved(strong(x), lambda places: np.expand_dims(places, axis))


def squeeze(x: Any, /, axis: Any) -> Array:
    """Axes of extent 1 removed."""
    return moved(strong(x), lambda places: np.squeeze(places, axis))


def broadcast_to(x: Any, /, shape: Any) -> Array:
    """Stretched to a shape."""
    return moved(strong(x), lambda places: np.broadcast_to(places, _shape(shape)))


def flip(x: Any, /, axis: Any = None) -> Array:
    """Turned round along axes."""
    return moved(strong(x), lambda places: np.flip(places, axis))


def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Array:
    """Moved along axes and in again at the other end."""
    steps = tuple(map(integer, shift)) if isinstance(shift, tuple | list) else integer(shift)
    return moved(strong(x), lambda places: np.roll(places, steps, axis))


def concat(arrays: Sequence[Any], /, axis: int | None = 0) -> Array:
    """Joined along an axis."""
    return _joined(arrays, lambda places: np.concatenate(places, axis))


def stack(arrays: Sequence[Any], /, axis: int = 0) -> Array:
    """Joined along a new axis."""
    return _joined(arrays, lambda places: np.stack(places, axis))


def _joined(arrays: Sequence[Any], join: Callable[[list[Any]], Any]) -> Array:
    """The elements of several arrays where NumPy puts their positions."""
    made = [as_array(a) for a in arrays]
    dtype = settled(promote(made))
    made = [convert(a, dtype) for a in made]
    data: list[Any] = []
    places = []
    for a in made:
        places.append(np.arange(len(data), len(data) + a.size).reshape(a.shape))
        data += a.data
    try:
        joined = join(places)
    except ValueError as error:
        raise OracleError(str(error)) from error
    return Array(joined.shape, dtype, [data[k] for k in joined.ravel().tolist()])


def unstack(x: Any, /, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis."""
    return tuple(moveaxis(x, axis, 0))


def take(x: Any, indices: Any, /, axis: int | None = None) -> Array:
    """Slices at positions along an axis."""
    a = strong(x)
    return subscript(a, (*(slice(None),) * ((axis or 0) % a.ndim), indices))


def take_along_axis(x: Any, indices: Any, /, axis: int = -1) -> Array:
    """Elements at positions along an axis."""
    i = as_array(indices)
    at = np.array(i.data, np.int64).reshape(i.shape)

    def move(places: Any) -> Any:
        wanted = list(np.broadcast_shapes(*(tuple(np.delete(v.shape, axis)) for v in (places, at))))
        k = axis % places.ndim
        table, wide = (np.broadcast_to(v, (*wanted[:k], v.shape[k], *wanted[k:])) for v in (places, at))
        return np.take_along_axis(table, wide, axis)

    return moved(strong(x), move)


def repeat(x: Any, repeats: Any, /, axis: int) -> Array:
    """Every slice several times."""
    return moved(strong(x), lambda places: np.repeat(places, integer(repeats), axis))


def tile(x: Any, repetitions: Sequence[Any], /) -> Array:
    """Side by side."""
    return moved(strong(x), lambda places: np.tile(places, tuple(map(integer, repetitions))))


def diagonal(x: Any, /, *, offset: int = 0) -> Array:
    """The elements (..., i, i + offset)."""
    return moved(strong(x), lambda places: np.diagonal(places, offset, axis1=-2, axis2=-1))


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sum of a diagonal."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def _triangle(x: Any, mask: Callable[[Any], Any]) -> Array:
    a = strong(x)
    return choose(as_array(mask(np.ones(a.shape, bool))), a, 0)


def tril(x: Any, /, *, k: int = 0) -> Array:
    """Zeros above diagonal k."""
    return _triangle(x, lambda inside: np.tril(inside, k))


def triu(x: Any, /, *, k: int = 0) -> Array:
    """Zeros below diagonal k."""
    return _triangle(x, lambda inside: np.triu(inside, k))


# ---------------------------------------------------------------- products


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Array:
    """Sum of products over pairs of axes."""
    return _products(x1, x2, lambda a, b: np.tensordot(a, b, axes))


def matmul(x1: Any, x2: Any, /) -> Array:
    """Matrix product."""
    return _products(x1, x2, np.matmul)


class _Terms:
    """A sum of products of elements, by their positions: what NumPy multiplies and adds."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: tuple[tuple[int, int], ...]) -> None:
        self.pairs = pairs

    def __add__(self, other: _Terms) -> _Terms:
        return _Terms(self.pairs + other.pairs)


class _Left:
    """The position of an element of the first operand."""

    __slots__ = ("at",)

    def __init__(self, at: int) -> None:
        self.at = at

    def __mul__(self, other: int) -> _Terms:
        return _Terms(((self.at, other),))


def _products(x1: Any, x2: Any, multiply: Callable[[Any, Any], Any]) -> Array:
    """A product of arrays, whose sums NumPy says."""
    a, b = strong(x1), strong(x2)
    dtype = promote([a, b])
    a, b = convert(a, dtype), convert(b, dtype)
    left, right = np.empty(a.size, object), np.empty(b.size, object)
    left[:], right[:] = [_Left(k) for k in range(a.size)], list(range(b.size))
    try:
        found = np.asarray(multiply(left.reshape(a.shape), right.reshape(b.shape)), object)
    except ValueError as error:
        raise OracleError(str(error)) from error
    add = _chain("add", 0)
    sums = []
    for terms in found.ravel().tolist():
        left_side, right_side = ([d[k] for k in side] for d, side in zip((a.data, b.data), zip(*terms.pairs)))
        count = (len(left_side),)
        products = elementwise("multiply", Array(count, dtype, left_side), Array(count, dtype, right_side))
        sums.append(add(products.data, dtype))
    return Array(found.shape, dtype, sums)


def vecdot(x1: Any, x2: Any, /, axis: int = -1) -> Array:
    """Sum of products along one axis."""
    products = elementwise("multiply", x1, x2)
    return sum(products, axis=axis, dtype=products.dtype)


def outer(x1: Any, x2: Any, /) -> Array:
    """All products."""
    return tensordot(x1, x2, axes=0)


def _method(f: Callable[..., Array]) -> Callable[..., Array]:
    return lambda self, *args, **keywords: f(self, *args, **keywords)


for _f in (sum, prod, mean, max, min, any, all, argmax, argmin):
    setattr(Array, _f.__name__, _method(_f))
_NO_TYPE: Any = Array
_NO_TYPE.reshape = lambda self, *shape: reshape(self, shape[0] if isinstance(shape[0], tuple | list) else shape)
_NO_TYPE.transpose = lambda self, *axes: permute_dims(self, axes or tuple(reversed(range(self.ndim))))
_NO_TYPE.T = _NO_TYPE.mT = property(matrix_transpose)
_NO_TYPE.__matmul__ = lambda self, other: matmul(self, other)
_NO_TYPE.__rmatmul__ = lambda self, other: matmul(other, self)

__all__ = [
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "asarray",
    "broadcast_to",
    "clip",
    "concat",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diagonal",
    "diff",
    "expand_dims",
    "eye",
    "flip",
    "full",
    "full_like",
    "linspace",
    "logaddexp",
    "logsumexp",
    "matmul",
    "matrix_transpose",
    "max",
    "mean",
    "min",
    "moveaxis",
    "ones",
    "ones_like",
    "outer",
    "permute_dims",
    "prod",
    "reciprocal",
    "relu",
    "repeat",
    "reshape",
    "roll",
    "softmax",
    "squeeze",
    "stack",
    "std",
    "stop_gradient",
    "sum",
    "take",
    "take_along_axis",
    "tensordot",
    "tile",
    "trace",
    "tril",
    "triu",
    "unstack",
    "var",
    "vecdot",
    "where",
    "zeros",
    "zeros_like",
]
