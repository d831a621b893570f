"""Linear algebra under the names of the Python array API, and the constructors of the language M̃.

M̃ is the vector and matrix library of Shaikhha, Fitzgibbon, Vytiniotis and Peyton Jones, *Efficient differentiable
programming in a functional array-processing language* (2019), Fig. 4: 28 functions over `build` and `ifold`. All are
here; `docs/reference/linalg.md` maps the names. They are index notation, so derivatives follow from the core.
"""

from __future__ import annotations

from builtins import zip as _both
from collections.abc import Callable
from typing import Any

from pullback.arrays.by_parts import bilinear
from pullback.arrays.complex import real
from pullback.arrays.complex_parts import as_complex
from pullback.arrays.composed import diagonal, inf, trace
from pullback.arrays.creation import arange, eye, full, ones, zeros
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import add, elementwise, multiply, where
from pullback.arrays.manipulation import broadcast_to, expand_dims, matrix_transpose, roll, take
from pullback.arrays.products import matmul, outer, shared_axis, tensordot, vecdot
from pullback.arrays.reduction import max as largest
from pullback.arrays.reduction import min as smallest
from pullback.arrays.reduction import root, sum
from pullback.errors import ShapeError, counted
from pullback.ir import expr
from pullback.ir.index import as_index, cond, prove
from pullback.linalg.lu import inv
from pullback.linalg.singular import svdvals
from pullback.source import user_position
from pullback.tracing.arithmetic import dtype_from
from pullback.tracing.array import Array, shape_text
from pullback.tracing.complex_array import is_complex
from pullback.tracing.index import build
from pullback.tracing.making import as_array, describe, extent_of, view
from pullback.tracing.ranges import to_index
from pullback.tracing.tracer import current

__all__ = [
    "add",
    "arange",
    "columns",
    "cross",
    "diagonal",
    "eye",
    "full",
    "hot",
    "map",
    "map2",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_transpose",
    "multiply",
    "ones",
    "outer",
    "row",
    "rows",
    "slice",
    "sum",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
    "zeros",
    "zip",
]


def hot(shape: Any, position: Any, *, dtype: Any = None) -> Array:
    """Make an array that is 1 at one position and 0 elsewhere.

    Args:
        shape: a size or a tuple of sizes.
        position: an index for each axis: an int, an index or an integer value. Outside of the shape, all are 0.
        dtype: the element type; floating-point unless given.

    >>> import pullback as pb
    >>> @pb.function
    ... def second(n: pb.Static):
    ...     return pb.linalg.hot(n, 1)
    >>> second(3).tolist()
    [0.0, 1.0, 0.0]
    """
    extents = [extent_of(e, "hot") for e in (shape if isinstance(shape, tuple | list) else (shape,))]
    given = position if isinstance(position, tuple | list) else (position,)
    if len(given) != len(extents):
        raise ShapeError(
            "E104",
            f"hot: {counted(len(given), 'index', 'indices')} for the shape {shape_text(extents)}",
            position=user_position(),
            remedy="one index for each axis",
        )
    places = []
    for p in given:
        h = as_array(p, "hot")
        places.append(h.index if h.index is not None else to_index(h.element()))
    target = current().default_float if dtype is None else dtype_from(dtype)
    one = expr.const(1, target)
    return view(
        [current().extent(e, "hot") for e in extents],
        target,
        lambda own: expr.bracket([cond("==", i - as_index(p)) for i, p in _both(own, places)], one),
    )


def _same_rows(what: str, x: Any, y: Any) -> tuple[Array, Array]:
    a, b = as_array(x, what), as_array(y, what)
    if not a.rank or not b.rank or a.extents[0] is not b.extents[0]:
        raise ShapeError(
            "E101",
            f"{what}: the arrays differ in the size of axis 0, or have no axis",
            position=user_position(),
            facts=[describe(a, "first"), describe(b, "second")],
        )
    return a, b


def map(f: Callable[[Any], Any], x: Any) -> Any:
    """Apply `f` to each element of a vector, row of a matrix, or slice along the first axis.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def doubled(v):
    ...     return pb.linalg.map(lambda a: a * 2, v)
    >>> doubled(np.array([1., 2.])).tolist()
    [2.0, 4.0]
    """
    a: Array = as_array(x, "map")
    _same_rows("map", a, a)
    return build(a.shape[0], lambda i: f(a[i]))


def map2(f: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """Apply `f` to corresponding elements of two vectors, or slices along the first axis.

    Raises:
        ShapeError: [E101] the sizes of axis 0 differ.

    >>> pb.function(lambda x, y: pb.linalg.map2(lambda a, b: a + 2 * b, x, y))(np.arange(2), np.arange(2)).tolist()
    [0, 3]
    """
    a, b = _same_rows("map2", x, y)
    return build(a.shape[0], lambda i: f(a[i], b[i]))


def zip(x: Any, y: Any) -> tuple[Array, Array]:
    """Pair the elements of two arrays of equal length, like `map2` with pairs as results.

    An array of trees is represented as a tree of arrays: element i of `zip(v, w)` is the pair of both elements i.

    Raises:
        ShapeError: [E101] the sizes of axis 0 differ.

    >>> pb.function(lambda x, y: pb.linalg.zip(x, y)[1])(np.arange(2), np.arange(5, 7)).tolist()
    [5, 6]
    """
    return _same_rows("zip", x, y)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Array:
    """The norm of a vector: (Σ |x[i]|^ord)^(1/ord), over all or the given axes.

    Args:
        x: floating array.
        axis: the axes that make up a vector; all of them unless given.
        keepdims: whether these axes stay, with size 1.
        ord: 2 unless given; 1, inf, -inf and 0 (the number of nonzero elements) are possible too.
    Derivative:
        The gradient of the 2-norm is x / ‖x‖, and 0 at 0.

    >>> pb.function(lambda x: pb.linalg.vector_norm(x))(np.array([3.0, 4.0])).item()
    5.0
    """
    h: Array = magnitude(x) if is_complex(x) else as_array(x, "vector_norm")
    if ord == inf:
        return largest(magnitude(h), axis=axis, keepdims=keepdims)
    if ord == -inf:
        return smallest(magnitude(h), axis=axis, keepdims=keepdims)
    if ord == 0:
        counted = where(elementwise("not_equal", h, 0), _one(h), 0)
        return sum(counted, axis=axis, keepdims=keepdims)
    if ord == 1:
        return sum(magnitude(h), axis=axis, keepdims=keepdims)
    if ord == 2:
        return root(sum(elementwise("multiply", h, h), axis=axis, keepdims=keepdims))
    powers = sum(elementwise("power", magnitude(h), ord), axis=axis, keepdims=keepdims)
    return root(powers, ord)


def _one(h: Array) -> Array:
    return full((), 1, dtype=h.settled)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: float | str = "fro") -> Array:
    """The norm of matrices in the last two axes: Frobenius, 1, inf (largest sum of magnitudes), -1, -inf.

    The orders 2, -2 and "nuc" give the largest, the smallest and the sum of the singular values.

    >>> pb.function(lambda x: pb.linalg.matrix_norm(x))(np.array([[3.0, 0.0], [0.0, 4.0]])).item()
    5.0
    """
    h: Array = as_array(real(x) if is_complex(x) else x, "matrix_norm")
    if h.rank < 2:
        raise ShapeError(
            "E104",
            "matrix_norm: the array has fewer than two axes",
            position=user_position(),
            facts=[describe(h, "array")],
        )
    if is_complex(x) and ord not in (2, -2, "nuc"):
        h = magnitude(x)
    if ord == "fro":
        return vector_norm(h, axis=(-2, -1), keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        s = svdvals(x)
        found = sum(s, axis=-1) if ord == "nuc" else (largest if ord == 2 else smallest)(s, axis=-1)
        return expand_dims(found, (-2, -1)) if keepdims else found
    if ord not in (1, -1, inf, -inf):
        raise ShapeError(
            "E104",
            f"matrix_norm: there is no norm {ord!r} here",
            position=user_position(),
            remedy="'fro', 'nuc', 1, -1, 2, -2, inf or -inf",
        )
    down = ord in (1, -1)
    sums = sum(magnitude(h), axis=-2 if down else -1, keepdims=True)
    choose = largest if ord in (1, inf) else smallest
    return choose(sums, axis=(-2, -1), keepdims=keepdims)


def matrix_power(x: Any, n: int, /) -> Array:
    """The n-th power of square matrices by repeated squaring; for n < 0, of the inverse.

    Raises:
        ShapeError: [E104] the matrices are not square.

    >>> pb.function(lambda x: pb.linalg.matrix_power(x, 3))(np.array([[1, 1], [0, 1]])).tolist()
    [[1, 3], [0, 1]]
    """
    given: Array = as_complex(x) if is_complex(x) else as_array(x, "matrix_power")  # type: ignore[assignment]
    h = real(given)
    if h.rank < 2 or h.extents[-1] is not h.extents[-2]:
        raise ShapeError(
            "E104",
            f"matrix_power: power {n} of an array that must be of square matrices",
            position=user_position(),
            facts=[describe(h, "array")],
        )
    if n == 0:
        return broadcast_to(eye(h.shape[-1], dtype=given.dtype), h.shape)
    result: Array | None = None
    square, n = (given, n) if n > 0 else (inv(given), -n)
    while True:
        if n % 2:
            result = square if result is None else matmul(result, square)
        n //= 2
        if not n:
            assert result is not None
            return result
        square = matmul(square, square)


@bilinear
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The vector product of vectors of three elements; the other axes broadcast.

    Raises:
        ShapeError: [E104] the size of the axis is not 3. [E101] the other axes do not broadcast.

    >>> pb.function(lambda x, y: pb.linalg.cross(x, y))(np.array([1, 0, 0]), np.array([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    a, b = as_array(x1, "cross"), as_array(x2, "cross")
    at = shared_axis("cross", a, b, axis)
    if a.extents[at].constant != 3 or b.extents[at].constant != 3:
        raise ShapeError(
            "E104",
            "cross: the size along the axis is not 3",
            position=user_position(),
            facts=[describe(a, "left"), describe(b, "right")],
        )

    def term(shift: int, back: int) -> Array:
        return multiply(roll(a, -shift, axis=at), roll(b, -back, axis=at))

    return elementwise("subtract", term(1, 2), term(2, 1))


def slice(v: Any, start: Any, end: Any) -> Array:
    """Return the elements of a vector, or rows of a matrix, from `start` to `end` inclusive, as in M̃.

    Ends that are sizes, arguments of type `pb.Size`, are checked at run time.

    Raises:
        ShapeError: [E103] a bound is not known to be in range. [E114] the end lies before the start.
        IndexRangeError: [E401] a size is not in range.

    >>> pb.function(lambda x: pb.linalg.slice(x, 1, 3))(np.arange(5)).tolist()
    [1, 2, 3]
    >>> @pb.function
    ... def part(x, start: pb.Size["S"], end: pb.Size["E"]):
    ...     return pb.linalg.slice(x, start, end)
    >>> part(np.arange(5), 2, 4).tolist()
    [2, 3, 4]
    """
    h: Array = as_array(v, "slice")
    first, last = extent_of(start, "slice"), extent_of(end, "slice")
    tracer = current()
    extent = tracer.extent(last - first + 1, "slice")
    sizes = {s.name for s in (*first.symbols, *last.symbols)} & tracer.sizes.keys()
    if sizes and not prove(cond(">=", h.extents[0] - 1 - last), tracer.known):
        positions = build(extent, lambda i: i + as_array(first))
        return take(h, positions, axis=0)
    made: Array = build(extent, lambda i: h[i + as_array(first)])
    return made


def row(v: Any) -> Array:
    """Convert a vector to a matrix of one row.

    >>> pb.function(lambda x: pb.linalg.row(x))(np.arange(3)).tolist()
    [[0, 1, 2]]
    """
    return expand_dims(v, 0)


def _extent(m: Any, axis: int, what: str) -> Any:
    h: Array = as_array(m, what)
    if h.rank <= axis:
        raise ShapeError(
            "E104",
            f"{what}: the array has {counted(h.rank, 'axis', 'axes')}",
            position=user_position(),
            facts=[describe(h, "array")],
        )
    return h.shape[axis]


def rows(m: Any) -> Any:
    """The number of rows of a matrix, or of elements of a vector: an int or a dim.

    >>> pb.function(lambda x: pb.linalg.full((2,), pb.linalg.rows(x)))(np.zeros((3, 4))).tolist()
    [3, 3]
    """
    return _extent(m, 0, "rows")


def columns(m: Any) -> Any:
    """The number of columns of a matrix: an int or a dim.

    >>> pb.function(lambda x: pb.linalg.full((2,), pb.linalg.columns(x)))(np.zeros((3, 4))).tolist()
    [4, 4]
    """
    return _extent(m, 1, "columns")
