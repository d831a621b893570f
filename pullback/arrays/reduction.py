"""Reductions over axes: sum, prod, mean, max, min, any, all, argmax, argmin."""

from __future__ import annotations

import builtins
from typing import Any

from pullback.arrays.by_parts import by_parts
from pullback.arrays.elementwise import choose, elementwise
from pullback.errors import DTypeError, ShapeError
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.expr import ReduceOp
from pullback.ir.index import ONE_INDEX, Index, Var, as_index
from pullback.ir.types import DType
from pullback.source import user_position
from pullback.tracing.arithmetic import convert, dtype_from
from pullback.tracing.array import Array, Indices, from_index, type_text
from pullback.tracing.complex_array import is_complex
from pullback.tracing.index import empty_error, reduced
from pullback.tracing.making import as_array, axes_for, axes_text, describe, emit, scalar
from pullback.tracing.tracer import current


def normal_axes(h: Array, axis: Any, what: str) -> tuple[int, ...]:
    """Normalize axes to nonnegative ones; None stands for all."""
    return tuple(range(h.rank)) if axis is None else places(h.rank, axis, what, h)


def places(rank: int, axis: Any, what: str, h: Array) -> tuple[int, ...]:
    """Normalize the axes of an array of this rank. `h` is the function's argument."""
    out = []
    for a in axis if isinstance(axis, tuple | list) else (axis,):
        if isinstance(a, bool) or not isinstance(a, int) or not -rank <= a < rank:
            raise ShapeError(
                "E104",
                f"{what}: axis {a!r} of an array with {axes_text(rank)}",
                position=user_position(),
                facts=[describe(h, "array")],
                remedy=f"an int from 0 to {rank - 1}, or from the end as -1" if rank else "it is a single number",
            )
        out.append(a % rank)
    if len(set(out)) != len(out):
        raise ShapeError(
            "E104",
            f"{what}: an axis is given twice in {axis!r}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="each axis once",
        )
    return tuple(out)


def reduce_axes(op: ReduceOp, x: object, axis: Any, keepdims: bool, dtype: DType | None = None) -> Array:
    """Reduce `x` over axes by `op`. A sum of dtype f16 or bf16 is computed in f32."""
    if dtype is not None and dtype.is_half:
        return convert(reduce_axes(op, x, axis, keepdims, dtype.computed), dtype)
    h = as_array(x, op)
    position = user_position()
    axes = normal_axes(h, axis, op)
    source = dtype or h.settled
    if (op in ("any", "all") and not source.is_bool) or (op in ("sum", "prod") and source.is_bool):
        raise DTypeError(
            "E121",
            f"{op} takes {'bool' if op in ('any', 'all') else 'numbers'}, "
            f"not {type_text(h) if source is h.settled else source}",
            position=position,
            facts=[describe(h, "array")],
            remedy="compare the elements, e.g. `x != 0`"
            if op in ("any", "all")
            else "`astype(pb.int64)` counts true values",
        )
    if op in ("max", "min", "argmax", "argmin") and builtins.any(h.extents[a].constant == 0 for a in axes):
        raise empty_error(op)
    names = axes_for(h.extents)
    variables = tuple(Var(names[a].name, h.extents[a]) for a in axes)
    kept = [a for a in range(h.rank) if a not in axes]
    extents: list[Index] = (
        [h.extents[a] for a in kept]
        if not keepdims
        else [ONE_INDEX if a in axes else e for a, e in enumerate(h.extents)]
    )

    def rule(indices: Indices) -> ir.Scalar:
        full: list[Index] = [as_index(0)] * h.rank
        for a, v in zip(axes, variables):
            full[a] = as_index(v)
        for position_, a in enumerate(kept):
            full[a] = indices[a if keepdims else position_]
        return expr.reduce(op, variables, expr.cast(h.element(tuple(full), source), source))

    if not extents:
        result = scalar(rule(()))
        return result if current().inside else reduced(op, result, position)
    return emit(extents, rule, op, position)


def accumulator(x: object, dtype: Any) -> DType:
    """The dtype of a sum: floating-point types stay, integers use 64 bits."""
    if dtype is not None:
        return dtype_from(dtype)
    own = as_array(x).settled
    return {"signed": types.i64, "unsigned": types.u64}.get(own.kind, own)


@by_parts
def sum(x: Any, /, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """Sum of the elements over all or the given axes; integers are added in 64 bits.

    >>> pb.function(lambda x: pb.sum(x, axis=0))(np.array([[1, 2], [3, 4]])).tolist()
    [4, 6]
    """
    return reduce_axes("sum", x, axis, keepdims, accumulator(x, dtype))


def max(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Largest element over all or the given axes; NaN if any is.

    >>> pb.function(lambda x: pb.max(x, axis=0))(np.array([[1, 2], [3, 4]])).tolist()
    [3, 4]
    """
    return reduce_axes("max", x, axis, keepdims)


def min(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Smallest element over all or the given axes; NaN if any is.

    >>> pb.function(lambda x: pb.min(x, axis=1, keepdims=True))(np.array([[1, 2], [3, 4]])).tolist()
    [[1], [3]]
    """
    return reduce_axes("min", x, axis, keepdims)


def any(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether any element is true; nonzero numbers are true.

    >>> pb.function(lambda x: pb.any(x > 3, axis=1))(np.array([[1, 2], [3, 4]])).tolist()
    [False, True]
    """
    return reduce_axes("any", _truth(x, "any"), axis, keepdims)


def all(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether all elements are true; nonzero numbers are true.

    >>> pb.function(lambda x: pb.all(x > 1, axis=1))(np.array([[1, 2], [3, 4]])).tolist()
    [False, True]
    """
    return reduce_axes("all", _truth(x, "all"), axis, keepdims)


def _truth(x: Any, what: str) -> Any:
    """Convert numbers to bools: whether they are not 0."""
    if not is_complex(x) and as_array(x, what).settled.is_bool:
        return x
    return elementwise("not_equal", x, 0)


def argmax(x: Any, /, axis: int | None = None, keepdims: bool = False) -> Array:
    """Position of the largest element along an axis, or in row-major order; the first on ties.

    >>> pb.function(lambda x: pb.argmax(x, axis=1))(np.array([[1, 9], [7, 7]])).tolist()
    [1, 0]
    """
    return reduce_axes("argmax", x, axis, keepdims)


def argmin(x: Any, /, axis: int | None = None, keepdims: bool = False) -> Array:
    """Position of the smallest element along an axis, or in row-major order; the first on ties.

    >>> pb.function(lambda x: pb.argmin(x, axis=1))(np.array([[1, 9], [7, 7]])).tolist()
    [0, 0]
    """
    return reduce_axes("argmin", x, axis, keepdims)


def count(x: Array, axis: Any, what: str) -> Array:
    """The number of elements a reduction runs over, as an index."""
    total = ONE_INDEX
    for a in normal_axes(x, axis, what):
        total = total * x.extents[a]
    return from_index(total)


@by_parts
def mean(x: Any, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Arithmetic mean over all or the given axes.

    >>> pb.function(lambda x: pb.mean(x))(np.array([1.0, 2.0, 6.0])).item()
    3.0
    """
    h = as_array(x, "mean")
    if not h.settled.is_floating:
        raise DTypeError(
            "E121",
            f"mean takes floating-point values, not {type_text(h)}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy="convert with `astype(pb.float32)` first",
        )
    return elementwise("divide", sum(h, axis=axis, keepdims=keepdims), count(h, axis, "mean"))


def var(x: Any, /, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """Variance over all or the given axes; the divisor is the number of elements minus `correction`, or 0.

    >>> pb.function(lambda x: pb.var(x, correction=1))(np.array([1.0, 2.0, 3.0])).item()
    1.0
    """
    h = as_array(x, "var")
    centered = elementwise("subtract", h, mean(h, axis=axis, keepdims=True))
    total = sum(elementwise("square", centered), axis=axis, keepdims=keepdims)
    number = count(h, axis, "var")
    left = elementwise("maximum", elementwise("subtract", number, correction), 0) if correction else number
    return elementwise("divide", total, left)


def std(x: Any, /, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """Standard deviation over all or the given axes; if all elements are equal, its derivative is 0.

    >>> pb.function(lambda x: pb.std(x))(np.array([1.0, 1.0, 5.0, 5.0])).item()
    2.0
    """
    return root(var(x, axis=axis, correction=correction, keepdims=keepdims))


def root(x: Array, degree: float = 2) -> Array:
    """The root of a sum of powers, with derivative 0 at 0 as for `abs`."""
    nought = elementwise("equal", x, 0)
    positive = choose(nought, 1, x)
    taken = elementwise("sqrt", positive) if degree == 2 else elementwise("power", positive, 1 / degree)
    return choose(nought, 0, taken)
