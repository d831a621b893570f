"""Linear algebra by index notation: matmul, vecdot, tensordot, outer."""

from __future__ import annotations

from typing import Any

from pullback.arrays.by_parts import bilinear
from pullback.arrays.complex import conj, real
from pullback.arrays.elementwise import elementwise
from pullback.arrays.reduction import normal_axes
from pullback.arrays.reduction import sum as sum_axes
from pullback.errors import ShapeError, counted
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Index, Var, as_index
from pullback.source import Position, user_position
from pullback.tracing.arithmetic import broadcast_extents, common_dtype
from pullback.tracing.array import Array, Indices
from pullback.tracing.complex_array import is_complex
from pullback.tracing.index import reduced
from pullback.tracing.making import as_array, axes_for, describe, emit, scalar, view
from pullback.tracing.tracer import current


def _sum_statement(extents: list[Index], rule: Any, name: str, position: Position | None) -> Array:
    if extents:
        return emit(extents, rule, name, position)
    value = scalar(rule(()))
    return value if current().inside else reduced("sum", value, position)


@bilinear
def matmul(x1: Any, x2: Any, /) -> Array:
    """Matrix product over the last axis of x1 and the second to last of x2; leading axes broadcast.

    Args:
        x1: (..., n, k) or (k,).
        x2: (..., k, m) or (k,).
    Returns:
        (..., n, m), without the axes of an operand of rank 1.
    Raises:
        ShapeError: [E102] the inner sizes differ.
        DTypeError: [E120] the element types have no common type.
    Cost:
        n k m multiply-adds for each pair of matrices.

    >>> pb.function(lambda x, y: pb.matmul(x, y))(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])).tolist()
    [[11.0]]
    """
    a, b = as_array(x1, "matmul"), as_array(x2, "matmul")
    position = user_position()
    if not a.rank or not b.rank:
        raise ShapeError(
            "E104",
            "matmul takes arrays of at least one axis",
            position=position,
            facts=[describe(a, "left"), describe(b, "right")],
            remedy="`*` multiplies by a scalar",
        )
    inner, other = a.extents[-1], b.extents[-2 if b.rank > 1 else -1]
    if inner is not other:
        first = f"columns of {a.name or 'the left'}" if a.rank > 1 else f"length of {a.name or 'the left'}"
        second = f"rows of {b.name or 'the right'}" if b.rank > 1 else f"length of {b.name or 'the right'}"
        raise ShapeError(
            "E102",
            f"matmul: the inner sizes differ: {first} = {inner}, {second} = {other}",
            position=position,
            facts=[describe(a, "left"), describe(b, "right")],
            remedy="transpose one side (`w.T`), or give equal dims one name in the annotations",
        )
    dtype = common_dtype("matmul", [a, b], position)
    assert dtype is not None
    nothing = lambda indices: expr.zero(dtype)
    lead = list(
        broadcast_extents(
            "matmul",
            [view(a.extents[:-2], dtype, nothing, name=a.name), view(b.extents[:-2], dtype, nothing, name=b.name)],
            position,
        )
    )
    rows = [a.extents[-2]] if a.rank > 1 else []
    columns = [b.extents[-1]] if b.rank > 1 else []
    (named,) = axes_for([inner])
    k = Var(named.name, inner)

    def rule(indices: Indices) -> ir.Scalar:
        batch, rest = indices[: len(lead)], list(indices[len(lead) :])
        row = [rest.pop(0)] if rows else []
        left = h_element(a, batch, (*row, as_index(k)), dtype)
        right = h_element(b, batch, (as_index(k), *rest), dtype)
        return expr.reduce("sum", (k,), expr.mul(left, right))

    return _sum_statement([*lead, *rows, *columns], rule, "matmul", position)


def h_element(h: Array, batch: Indices, own: Indices, dtype: Any) -> ir.Scalar:
    """The element of h at broadcast batch indices and its own last ones."""
    count = max(h.rank - len(own), 0)
    lead = batch[len(batch) - count :]
    lead = tuple(ZERO_INDEX if e.constant == 1 else i for i, e in zip(lead, h.extents))
    return expr.cast(h.element((*lead, *own), dtype), dtype)


@bilinear
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Array:
    """Sum of products over pairs of axes.

    Args:
        x1: array.
        x2: array.
        axes: the number of last axes of x1 paired with the first axes of x2, or two lists of axes.

    >>> pb.function(lambda x, y: pb.tensordot(x, y, axes=1))(np.array([[1.0, 2.0]]), np.array([3.0, 4.0])).tolist()
    [11.0]
    """
    a, b = as_array(x1, "tensordot"), as_array(x2, "tensordot")
    position = user_position()
    if isinstance(axes, int):
        first, second = tuple(range(a.rank - axes, a.rank)), tuple(range(axes))
    else:
        first, second = (normal_axes(h, t, "tensordot") for h, t in zip((a, b), axes))
    for s, t in zip(first, second):
        if a.extents[s] is not b.extents[t]:
            raise ShapeError(
                "E102",
                f"tensordot: the inner sizes differ: axis {s} of {a.name or 'the left'} = "
                f"{a.extents[s]}, axis {t} of {b.name or 'the right'} = {b.extents[t]}",
                position=position,
                facts=[describe(a, "left"), describe(b, "right")],
                remedy="`axes=([...], [...])` says which axes of each are summed over",
            )
    dtype = common_dtype("tensordot", [a, b], position)
    assert dtype is not None
    names = axes_for([a.extents[s] for s in first])
    variables = tuple(Var(v.name, v.extent) for v in names)
    keep_a, keep_b = ([t for t in range(h.rank) if t not in used] for h, used in ((a, first), (b, second)))

    def rule(indices: Indices) -> ir.Scalar:
        left: list[Index] = [ZERO_INDEX] * a.rank
        right: list[Index] = [ZERO_INDEX] * b.rank
        for s, t, v in zip(first, second, variables):
            left[s] = right[t] = as_index(v)
        for t, i in zip(keep_a, indices):
            left[t] = i
        for t, i in zip(keep_b, indices[len(keep_a) :]):
            right[t] = i
        product = expr.mul(
            expr.cast(a.element(tuple(left), dtype), dtype), expr.cast(b.element(tuple(right), dtype), dtype)
        )
        return expr.reduce("sum", variables, product)

    extents = [a.extents[t] for t in keep_a] + [b.extents[t] for t in keep_b]
    return _sum_statement(extents, rule, "tensordot", position)


def vecdot(x1: Any, x2: Any, /, axis: int = -1) -> Array:
    """Sum products along one axis of both; other axes broadcast. Complex x1 is conjugated.

    >>> pb.function(lambda x, y: pb.vecdot(x, y))(np.array([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]])).tolist()
    [5, 25]
    """
    if is_complex(x1) or is_complex(x2):
        return sum_axes(elementwise("multiply", conj(x1), x2), axis=shared_axis("vecdot", real(x1), real(x2), axis))
    a, b = as_array(x1, "vecdot"), as_array(x2, "vecdot")
    position = user_position()
    at = shared_axis("vecdot", a, b, axis)
    if a.extents[at] is not b.extents[at]:
        raise ShapeError(
            "E102",
            "vecdot: the sizes along the axis differ",
            position=position,
            facts=[describe(a, "left"), describe(b, "right")],
            remedy="give equal dims one name in the annotations, or say the `axis`",
        )
    products = elementwise("multiply", a, b)
    return sum_axes(products, axis=at, dtype=products.dtype)


def shared_axis(what: str, a: Array, b: Array, axis: int) -> int:
    """The axis that two broadcasting arrays share, counted from the last."""
    (first,) = normal_axes(a, axis, what)
    (second,) = normal_axes(b, axis, what)
    if first - a.rank != second - b.rank:
        raise ShapeError(
            "E104",
            f"{what}: axis {axis} of arrays with {a.rank} and {counted(b.rank, 'axis', 'axes')} is not the same one",
            position=user_position(),
            facts=[describe(a, "left"), describe(b, "right")],
            remedy=f"count from the last: `axis={first - a.rank}` or `axis={second - b.rank}`",
        )
    return first - a.rank


@bilinear
def outer(x1: Any, x2: Any, /) -> Array:
    """The product of every element of a vector with every element of another.

    >>> pb.function(lambda x, y: pb.outer(x, y))(np.arange(2), np.arange(3)).tolist()
    [[0, 0, 0], [0, 1, 2]]
    """
    return tensordot(x1, x2, axes=0)
