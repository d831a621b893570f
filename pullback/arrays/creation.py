"""Array creation: zeros, ones, full, arange, linspace, eye and similar functions, all as views."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.arrays.by_parts import by_parts, of_type
from pullback.arrays.complex_parts import as_complex, copied
from pullback.arrays.elementwise import convert
from pullback.errors import DTypeError, ShapeError, TraceError
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Index, as_index, cond, prove_nonnegative
from pullback.ir.types import DType
from pullback.source import user_position
from pullback.tracing.arithmetic import dtype_from
from pullback.tracing.array import Array, Indices, type_text
from pullback.tracing.complex_array import ComplexArray, is_complex
from pullback.tracing.devices import check_device
from pullback.tracing.making import as_array, extent_of, from_number, view
from pullback.tracing.tracer import current


def _shape(shape: Any, what: str) -> list[Index]:
    items = shape if isinstance(shape, tuple | list) else (shape,)
    return [current().extent(extent_of(e, what), what) for e in items]


@of_type(1)
def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """An array of one value; a Python float is f32 if all floating inputs are, otherwise f64.

    >>> pb.function(lambda: pb.full((2,), 7))().tolist()
    [7, 7]
    """
    return _filled(shape, fill_value, dtype, "full")


def _filled(shape: Any, fill_value: Any, dtype: Any, what: str) -> Array:
    """A constant array; `what` is the user-facing function."""
    value = as_array(fill_value, what)
    if value.rank:
        raise _several(what, value)
    target = value.settled if dtype is None else dtype_from(dtype)
    return view(_shape(shape, what), target, lambda _: expr.cast(value.element((), target), target))


@of_type()
def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """An array of zeros, floating-point unless `dtype` is given.

    >>> pb.function(lambda: pb.zeros((2,)))().tolist()
    [0.0, 0.0]
    """
    return _filled(shape, 0 if dtype is not None and not dtype_from(dtype).is_bool else 0.0, dtype, "zeros")


@of_type()
def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """An array of ones, floating-point unless `dtype` is given.

    >>> pb.function(lambda: pb.ones((2,)))().tolist()
    [1.0, 1.0]
    """
    return _filled(shape, 1 if dtype is not None and not dtype_from(dtype).is_bool else 1.0, dtype, "ones")


@of_type()
def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """Return an array of zeros, as programs have no uninitialized memory.

    >>> pb.function(lambda x: pb.empty(2))(0.0).tolist()
    [0.0, 0.0]
    """
    return full(shape, 0, dtype=current().default_float if dtype is None else dtype)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Zeros with the shape and dtype of x.

    >>> pb.function(lambda x: pb.empty_like(x))(np.array([3, 4])).tolist()
    [0, 0]
    """
    return full_like(x, 0, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """An array of one value with the shape and, unless given, the dtype of x.

    >>> pb.function(lambda x: pb.full_like(x, 7))(np.zeros(2)).tolist()
    [7.0, 7.0]
    """
    given = as_complex(x) if is_complex(x) else None
    h = as_array(x, "full_like") if given is None else given.real
    own = h.settled if given is None else given.dtype
    return full(tuple(h.extents), fill_value, dtype=own if dtype is None else dtype, device=device)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Zeros with the shape and dtype of x.

    >>> pb.function(lambda x: pb.zeros_like(x))(np.arange(2)).tolist()
    [0, 0]
    """
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Ones with the shape and dtype of x.

    >>> pb.function(lambda x: pb.ones_like(x))(np.arange(2)).tolist()
    [1, 1]
    """
    return full_like(x, 1, dtype=dtype, device=device)


@of_type()
def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Array:
    """Numbers from start up to, not including, stop.

    Args:
        start: an int, a dim or arithmetic on these, or a Python float. A single argument is `stop`, with start 0.
        stop: the end, of the same kinds.
        step: the distance between numbers; negative counts down.
        dtype: by default int64, or floating if one of the numbers is.
    Raises:
        ShapeError: [E104] the step is 0, or a dim whose sign is not known.

    >>> pb.function(lambda: pb.arange(4))().tolist()
    [0, 1, 2, 3]
    >>> pb.function(lambda: pb.arange(1.0, 0.0, -0.25))().tolist()
    [1.0, 0.75, 0.5, 0.25]
    """
    first, last = (0, start) if stop is None else (start, stop)
    if any(isinstance(v, float) for v in (first, last, step)):
        return _float_range(first, last, step, dtype)
    low, high, by = (extent_of(v, "arange") for v in (first, last, step))
    if prove_nonnegative(by - 1):
        count = (high - low + by - 1) // by
    elif prove_nonnegative(-by - 1):
        count = (low - high - by - 1) // -by
    else:
        raise _no_step(by)
    if count.constant is not None and count.constant < 0:
        count = ZERO_INDEX
    target = _number_type("arange", dtype, types.i64)
    return view(_shape(count, "arange"), target, lambda i: expr.from_index(low + i[0] * by, target))


def _no_step(step: Index) -> ShapeError:
    return ShapeError(
        "E104",
        "arange: a step of 0 reaches no stop" if step.constant == 0 else f"arange: is the step {step} above 0?",
        position=user_position(),
        remedy="a number above 0, or below",
    )


def _float_range(start: Any, stop: Any, step: Any, dtype: Any) -> Array:
    """`arange` of Python numbers."""
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in (start, stop, step)):
        raise TraceError(
            "E135",
            "arange: floats and dims do not mix: the number of elements must be known when the function is defined",
            position=user_position(),
            remedy="`arange(n)` times the step, plus the start",
        )
    if step == 0:
        raise _no_step(ZERO_INDEX)
    target = _number_type("arange", dtype, current().default_float)
    count = max(0, math.ceil((stop - start) / step))
    first, by = expr.const(start, types.f64), expr.const(step, types.f64)
    rule = lambda i: expr.cast(expr.add(first, expr.mul(expr.from_index(i[0], types.f64), by)), target)
    return view([as_index(count)], target, rule)


def _number_type(what: str, dtype: Any, default: DType) -> DType:
    """The requested dtype, which must be numeric."""
    target = default if dtype is None else dtype_from(dtype)
    if target.is_bool:
        raise DTypeError("E121", f"{what} gives numbers, not bool", position=user_position(), remedy="compare them")
    return target


@of_type(0, 1)
def linspace(
    start: Any, stop: Any, /, num: Any, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Array:
    """`num` evenly spaced values from start to stop, which is the last of them unless `endpoint` is False.

    >>> pb.function(lambda: pb.linspace(0.0, 1.0, 3))().tolist()
    [0.0, 0.5, 1.0]
    """
    target = _number_type("linspace", dtype, current().default_float)
    floating = target if target.is_floating else types.f64
    (count,) = _shape(num, "linspace")
    a, b = (_one_value("linspace", v, floating) for v in (start, stop))
    gaps = expr.from_index(count - 1 if endpoint else count, floating)

    def rule(indices: Indices) -> ir.Scalar:
        i = indices[0]
        way = expr.apply("divide", expr.mul(expr.from_index(i, floating), expr.add(b, expr.negative(a))), gaps)
        value = expr.add(a, expr.bracket([cond(">=", i - 1)], way))  # with one value there is no gap to divide by
        if endpoint:  # rounding may miss `stop`
            at_stop = [cond(">=", i - 1), cond("==", i - (count - 1))]
            value = expr.select(expr.test(at_stop), b, value)
        return value if target.is_floating else expr.cast(expr.apply("floor", value), target)

    return view([count], target, rule)


def _one_value(what: str, x: Any, dtype: DType) -> ir.Scalar:
    h = as_array(x, what)
    if h.rank:
        raise _several(what, h)
    return convert(h, dtype).element()


def _several(what: str, h: Array) -> DTypeError:
    return DTypeError("E121", f"{what} takes one value, not {type_text(h)}", position=user_position())


@of_type()
def eye(n_rows: Any, n_cols: Any = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Array:
    """Ones on a diagonal, `k` above the main one, zeros elsewhere.

    >>> pb.function(lambda: pb.eye(2))().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    target = current().default_float if dtype is None else dtype_from(dtype)
    extents = _shape((n_rows, n_rows if n_cols is None else n_cols), "eye")
    one = expr.const(1, target)
    return view(extents, target, lambda i: expr.bracket([cond("==", i[1] - i[0] - k)], one))


def _matrices(x: Any, what: str) -> Array:
    """Check that `x` has the two axes of a matrix.

    Raises:
        ShapeError: [E104] `x` has fewer than two axes.
    """
    h = as_array(x, what)
    if h.rank < 2:
        raise ShapeError(
            "E104",
            f"{what} takes matrices, and {type_text(h)} was given",
            position=user_position(),
            remedy="`x[None, :]` is a matrix of one row",
        )
    return h


@by_parts
def tril(x: Any, /, *, k: int = 0) -> Array:
    """The lower triangle of x, zeros above diagonal k.

    >>> pb.function(lambda x: pb.tril(x))(np.array([[1, 2], [3, 4]])).tolist()
    [[1, 0], [3, 4]]
    """
    h = _matrices(x, "tril")
    return view(
        h.extents, h.settled, lambda i: expr.bracket([cond(">=", i[-2] + k - i[-1])], h.element(i)), None, h.name
    )


@by_parts
def triu(x: Any, /, *, k: int = 0) -> Array:
    """The upper triangle of x, zeros below diagonal k.

    >>> pb.function(lambda x: pb.triu(x))(np.array([[1, 2], [3, 4]])).tolist()
    [[1, 2], [0, 4]]
    """
    h = _matrices(x, "triu")
    return view(
        h.extents, h.settled, lambda i: expr.bracket([cond(">=", i[-1] - i[-2] - k)], h.element(i)), None, h.name
    )


def asarray(x: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Array:
    """Convert a number, NumPy array or traced array to a traced array; lists of values become vectors.

    With `copy=True`, writes to the result leave x as it is.

    >>> pb.function(lambda x: pb.asarray([10.0, 20.0]) + x)(1.0).tolist()
    [11.0, 21.0]
    """
    check_device("asarray", device)
    if isinstance(x, list | tuple) and _is_plain(x):
        found = _as_numpy(x)
        if found is not None and not found.size:
            return zeros(found.shape, dtype=dtype)
        if found is not None:
            x = found if found.dtype.kind == "c" else found.tolist()  # of one kind
    made: Array = _asarray(x, dtype=dtype)
    return copied(made) if copy and made is x else made


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Import an array of a DLPack library while tracing; it is captured like a NumPy array.

    Raises:
        TraceError: [E145] another device is requested.

    >>> pb.function(lambda: pb.from_dlpack(np.arange(3)))().tolist()
    [0, 1, 2]
    """
    return asarray(x if isinstance(x, Array | ComplexArray) else np.from_dlpack(x), device=device, copy=copy)


@of_type(0)
def _asarray(x: Any, *, dtype: Any = None) -> Array:
    if isinstance(x, list | tuple):
        from pullback.arrays.manipulation import stack

        return stack([asarray(v, dtype=dtype) for v in x])
    h = as_array(x if not isinstance(x, bool | int | float) else from_number(x), "asarray")
    return h if dtype is None else convert(h, dtype)


def _is_plain(x: Any) -> bool:
    """Whether a list, nested or not, holds only Python numbers."""
    return all(_is_plain(v) if isinstance(v, list | tuple) else type(v) in (bool, int, float, complex) for v in x)


def _as_numpy(x: Any) -> np.ndarray[Any, Any] | None:
    """Convert a list as NumPy does; None if its rows have different lengths, which `stack` reports."""
    try:
        return np.asarray(x)
    except ValueError:
        return None
