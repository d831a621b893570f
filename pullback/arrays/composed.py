"""Functions of the array API that are composed of other functions."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from pullback.arrays.by_parts import by_parts
from pullback.arrays.complex_parts import as_complex
from pullback.arrays.creation import ones, zeros
from pullback.arrays.elementwise import choose, convert, elementwise
from pullback.arrays.manipulation import concat, expand_dims, moveaxis, permute_dims, reshape
from pullback.arrays.reduction import accumulator, normal_axes, reduce_axes
from pullback.arrays.reduction import any as any_of
from pullback.arrays.reduction import max as largest
from pullback.arrays.reduction import sum as total
from pullback.arrays.subscript import subscript
from pullback.errors import DTypeError, ShapeError, counted
from pullback.ir.index import ZERO_INDEX, prove_nonnegative
from pullback.source import user_position
from pullback.tracing.array import Array, twin, type_text
from pullback.tracing.complex_array import complex_type, is_complex
from pullback.tracing.control import fold, scan
from pullback.tracing.making import as_array, describe, view
from pullback.tracing.tracer import current

e: Final = math.e
inf: Final = math.inf
nan: Final = math.nan
pi: Final = math.pi
newaxis: Final = None


def reciprocal(x: Any, /) -> Array:
    """1 / x. Elementwise.

    >>> pb.function(lambda x: pb.reciprocal(x))(np.array([2.0, 4.0])).tolist()
    [0.5, 0.25]
    """
    return elementwise("divide", 1, x)


def logaddexp(x1: Any, x2: Any, /) -> Array:
    """log(exp(x1) + exp(x2)) without overflow. Elementwise; operands broadcast.

    If the larger one is infinite, it is the result.

    >>> pb.function(lambda x, y: pb.logaddexp(x, y))(np.array([0.0, -np.inf]), np.array([-1000.0, -np.inf])).tolist()
    [0.0, -inf]
    """
    high, low = elementwise("maximum", x1, x2), elementwise("minimum", x2, x1)  # if equal, one is x1 and one is x2
    rest = elementwise("log1p", elementwise("exp", elementwise("subtract", low, high)))
    return choose(elementwise("isinf", high), high, elementwise("add", high, rest))


def _lowered(h: Array, axis: Any, what: str) -> tuple[Array, Array]:
    """The largest element along the axes, and x minus it, so that no exponential overflows.

    Equal infinities differ by 0. The subtraction changes no derivative.
    """
    if not h.settled.is_floating:
        raise DTypeError(
            "E121",
            f"{what} takes floating-point values, not {type_text(h)}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="convert with `astype(pb.float64)` first",
        )
    axes = normal_axes(h, axis, what)
    high = largest(h, axis=axes)
    beside = expand_dims(elementwise("stop_gradient", high), axes)
    endless = elementwise("logical_and", elementwise("isinf", beside), elementwise("equal", h, beside))
    return high, choose(endless, 0, elementwise("subtract", h, beside))


def logsumexp(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Log of the sum of exp(x) over all or the given axes, without overflow.

    If the largest element is infinite, it is the result.

    >>> pb.function(lambda x: pb.logsumexp(x))(np.array([1000.0, -1000.0])).item()
    1000.0
    """
    h = as_array(x, "logsumexp")
    high, lowered = _lowered(h, axis, "logsumexp")
    rest = elementwise("log", total(elementwise("exp", lowered), axis=axis))
    out = elementwise("add", rest, choose(elementwise("isinf", high), high, elementwise("stop_gradient", high)))
    return expand_dims(out, normal_axes(h, axis, "logsumexp")) if keepdims else out


def count_nonzero(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Count nonzero elements, over all or the given axes.

    >>> pb.function(lambda x: pb.count_nonzero(x))(np.array([0, 3, 0, 4])).item()
    2
    """
    h = elementwise("not_equal", x, 0) if is_complex(x) else as_array(x, "count_nonzero")
    return total(
        convert(h if h.settled.is_bool else elementwise("not_equal", h, 0), "int64"), axis=axis, keepdims=keepdims
    )


def diff(x: Any, /, n: int = 1, axis: int = -1, *, prepend: Any = None, append: Any = None) -> Array:
    """Differences of neighboring elements along an axis, taken n times.

    Args:
        x: numbers.
        n: the number of differences; for 0 the result is x.
        axis: by default the last one.
        prepend: an array to join before x first.
        append: an array to join after x first.

    >>> pb.function(lambda x: pb.diff(x))(np.array([1, 4, 9])).tolist()
    [3, 5]
    """
    if n < 0:
        raise ShapeError("E104", f"diff: {n} differences are to be taken", position=user_position())
    if prepend is not None or append is not None:
        x = concat([part for part in (prepend, x, append) if part is not None], axis)
    return _differences(x, axis, n)


@by_parts
def _differences(x: Any, axis: int, n: int) -> Array:
    h = as_array(x, "diff")
    (at,) = normal_axes(h, axis, "diff")
    lead = (slice(None),) * at
    for _ in range(n):
        after, before = subscript(h, (*lead, slice(1, None))), subscript(h, (*lead, slice(None, -1)))
        h = elementwise("subtract", after, before)
    return h


def _one_axis(what: str, h: Array, axis: int | None) -> int:
    """The axis, which is optional for a vector."""
    if axis is None and h.rank != 1:
        raise ShapeError(
            "E104",
            f"{what}: the axis is needed for an array of {counted(h.rank, 'axis', 'axes')}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy=f"`axis={h.rank - 1}` goes along the rows; `x.reshape(-1)` makes a vector",
        )
    return normal_axes(h, axis or 0, what)[0]


def _running_product(x: Any, axis: int | None, include_initial: bool) -> Any:
    """Running products of complex numbers."""
    z = as_complex(x)
    axis = _one_axis("cumulative_prod", z.real, axis)
    rows = moveaxis(z, axis, 0)
    start = ones(tuple(rows.shape[1:]), dtype=z.dtype)

    def step(state: Any, i: Any) -> tuple[Any, Any]:
        state = elementwise("multiply", state, rows[i])
        return state, state

    made = scan(rows.shape[0], start, step)[1]
    if include_initial:
        made = concat([expand_dims(start, 0), made])
    return moveaxis(made, 0, axis)


def prod(x: Any, /, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """Product of the elements over all or the given axes; integers are multiplied in 64 bits.

    >>> pb.function(lambda x: pb.prod(x, axis=1))(np.array([[1, 2], [3, 4]])).tolist()
    [2, 12]
    """
    if is_complex(x) or complex_type(dtype) is not None:
        return _complex_product(x if dtype is None else convert(x, dtype), axis, keepdims)  # type: ignore[no-any-return]
    return reduce_axes("prod", x, axis, keepdims, accumulator(x, dtype))


def _complex_product(x: Any, axis: Any, keepdims: bool) -> Any:
    """The product of complex numbers over axes."""
    z = as_complex(x)
    axes = normal_axes(z.real, axis, "prod")
    if not axes:
        return z
    rest = [k for k in range(z.ndim) if k not in axes]
    count = math.prod(z.shape[k] for k in axes)
    rows = reshape(permute_dims(z, (*axes, *rest)), (count, *(z.shape[k] for k in rest)))
    start = ones(tuple(rows.shape[1:]), dtype=z.dtype)
    out = fold(rows.shape[0], start, lambda state, i: elementwise("multiply", state, rows[i]))
    return expand_dims(out, axes) if keepdims else out



def _running(name: str, what: str, x: Any, axis: int | None, dtype: Any, include_initial: bool) -> Array:
    h = as_array(x, what)
    axis = _one_axis(what, h, axis)
    if h.settled.is_bool:
        raise DTypeError(
            "E121",
            f"{what} takes numbers, not {type_text(h)}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="convert with `astype` first",
        )
    target = accumulator(h, dtype)
    rows = moveaxis(convert(h, target.computed), axis, 0)
    start = (zeros if name == "add" else ones)(tuple(rows.extents[1:]), dtype=rows.settled)

    def step(state: Any, i: Any) -> tuple[Any, Any]:
        state = elementwise(name, state, subscript(rows, i))
        return state, state

    made: Array = scan(rows.shape[0], start, step)[1]
    if include_initial:
        made = concat([expand_dims(start, 0), made])
    return convert(moveaxis(made, 0, axis), target)


@by_parts
def cumulative_sum(x: Any, /, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False) -> Array:
    """Running sums along an axis; integers are added in 64 bits.

    Args:
        x: numbers.
        axis: the axis; optional for a vector.
        dtype: the dtype in which elements are added.
        include_initial: whether to start with 0, which makes the result one longer.

    >>> pb.function(lambda x: pb.cumulative_sum(x))(np.arange(4)).tolist()
    [0, 1, 3, 6]
    """
    return _running("add", "cumulative_sum", x, axis, dtype, include_initial)


def cumulative_prod(x: Any, /, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False) -> Array:
    """Running products along an axis; integers are multiplied in 64 bits.

    Args:
        x: numbers.
        axis: the axis; optional for a vector.
        dtype: the dtype in which elements are multiplied.
        include_initial: whether to start with 1, which makes the result one longer.

    >>> pb.function(lambda x: pb.cumulative_prod(x))(np.arange(1, 5)).tolist()
    [1, 2, 6, 24]
    """
    if complex_type(dtype) is not None:
        x = convert(x, dtype)
    if is_complex(x):
        return _running_product(x, axis, include_initial)  # type: ignore[no-any-return]
    return _running("multiply", "cumulative_prod", x, axis, dtype, include_initial)


@by_parts
def diagonal(x: Any, /, *, offset: int = 0) -> Array:
    """The diagonal (..., i, i + offset) of matrices.

    >>> pb.function(lambda x: pb.diagonal(x))(np.array([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    h = as_array(x, "diagonal")
    if h.rank < 2:
        raise ShapeError(
            "E104",
            "diagonal: the array has fewer than two axes",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="`pb.eye(n) * x` is a matrix with x on its diagonal",
        )
    down, across = max(-offset, 0), max(offset, 0)
    rows, columns = h.extents[-2] - down, h.extents[-1] - across
    if not (prove_nonnegative(columns - rows) or prove_nonnegative(rows - columns)):
        raise ShapeError(
            "E104",
            f"diagonal: whether {rows} or {columns} is smaller is not known, and so not how many elements there are",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="cut the matrix to as many rows as columns, e.g. `x[:n, :n]`",
        )
    extent = rows if prove_nonnegative(columns - rows) else columns
    if extent.constant is not None and extent.constant < 0:
        extent = ZERO_INDEX
    extents = [*h.extents[:-2], current().extent(extent, "diagonal")]
    rule = lambda i: h.element((*i[:-1], i[-1] + down, i[-1] + across))
    return view(extents, h.settled, rule, user_position(), h.name, (h, "read-only", None))


@by_parts
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sum of the main or another diagonal of matrices; integers are summed in 64 bits.

    >>> pb.function(lambda x: pb.trace(x))(np.array([[1, 2], [3, 4]])).item()
    5
    """
    return total(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def softmax(x: Any, /, axis: int = -1) -> Array:
    """exp(x) divided by its sum along an axis, without overflow.

    Elements equal to an infinite maximum have equal probabilities.

    >>> pb.function(lambda x: pb.softmax(x))(np.array([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    grown = elementwise("exp", _lowered(as_array(x, "softmax"), axis, "softmax")[1])
    return elementwise("divide", grown, total(grown, axis=axis, keepdims=True))


def signbit(x: Any, /) -> Array:
    """Whether the sign bit of x is set, as for -0.0 and some NaN. Elementwise.

    >>> pb.function(lambda x: pb.signbit(x))(np.array([-0.0, 0.0, -3.0])).tolist()
    [True, False, True]
    """
    return elementwise("less", elementwise("copysign", 1, x), 0)


def nan_to_num(x: Any, /, *, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    """Replace NaN and infinities by numbers, with derivative 0. Elementwise.

    Args:
        x: numbers.
        nan: the replacement of NaN.
        posinf: the replacement of infinity; by default the largest number of the element type.
        neginf: the replacement of -infinity; by default the smallest number of the element type.

    >>> pb.function(lambda x: pb.nan_to_num(x, posinf=9.0))(np.array([1.0, np.nan, np.inf])).tolist()
    [1.0, 0.0, 9.0]
    """
    h = as_array(x, "nan_to_num")
    if not h.settled.is_floating:
        return twin(h)
    largest = float(np.finfo(str(h.settled.numpy)).max)
    high, low = (largest if posinf is None else posinf), (-largest if neginf is None else neginf)
    out = choose(elementwise("isinf", h), choose(elementwise("less", h, 0), low, high), h)
    return choose(elementwise("isnan", h), nan, out)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Array:
    """Whether each element of x1 is in x2, or is not in it with `invert`. All pairs are compared.

    >>> pb.function(lambda x, y: pb.isin(x, y))(np.array([1, 2, 3]), np.array([3, 1])).tolist()
    [True, False, True]
    """
    h, among = as_array(x1, "isin"), as_array(x2, "isin")
    among = reshape(among, (-1,)) if among.rank else expand_dims(among, 0)
    found = any_of(elementwise("equal", expand_dims(h, -1), among), axis=-1)
    return elementwise("logical_not", found) if invert else found


def _extreme_so_far(name: str, what: str, x: Any, axis: int | None) -> Array:
    h = as_array(x, what)
    at = _one_axis(what, h, axis)
    rows = moveaxis(h, at, 0)

    def step(state: Any, i: Any) -> tuple[Any, Any]:
        state = elementwise(name, state, subscript(rows, i))
        return state, state

    made: Array = scan(rows.shape[0], subscript(rows, 0), step)[1]
    return moveaxis(made, 0, at)


def cumulative_max(x: Any, /, axis: int | None = None) -> Array:
    """Running maxima along an axis; NaN from the first NaN on.

    Derivative:
        Among equal elements, the first has the derivative.

    >>> pb.function(lambda x: pb.cumulative_max(x))(np.array([1, 3, 2, 4])).tolist()
    [1, 3, 3, 4]
    """
    return _extreme_so_far("maximum", "cumulative_max", x, axis)


def cumulative_min(x: Any, /, axis: int | None = None) -> Array:
    """Running minima along an axis; NaN from the first NaN on.

    Derivative:
        Among equal elements, the first has the derivative.

    >>> pb.function(lambda x: pb.cumulative_min(x))(np.array([4, 2, 3, 1])).tolist()
    [4, 2, 2, 1]
    """
    return _extreme_so_far("minimum", "cumulative_min", x, axis)
