"""Index notation: build, and reductions over index variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.errors import DTypeError, ShapeError, TraceError
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.expr import ReduceOp, get
from pullback.ir.index import Cond, Index, Var, as_index, cond, extreme, prove
from pullback.ir.reduction import REDUCTIONS, neutral
from pullback.ir.traverse import Substitution
from pullback.ir.types import DType
from pullback.source import Position, user_position
from pullback.tracing import tree
from pullback.tracing.array import Array, Indices, from_index, type_text
from pullback.tracing.making import as_array, axes_for, emit, extent_of, from_ref, scalar, view
from pullback.tracing.naming import assigned_name, axis_names, check_callable, parameter_names
from pullback.tracing.tracer import current


def build(shape: Any, f: Callable[..., Any]) -> Any:
    """The array whose element at (i, j, ...) is f(i, j, ...).

    Args:
        shape: a size, or a tuple of sizes: ints, dims such as `x.shape[0]`, arithmetic on these.
        f: a function of one index per axis that returns an element. An array adds axes; a tuple or dict gives one
            array for each of its leaves.
    Returns:
        The array, or the tree of arrays.
    Raises:
        ShapeError: [E103] an element that f reads is not known to be in range. [E106] a size depends on data.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def table(x: pb.Static):
    ...     return pb.build((2, 3), lambda i, j: i * 10 + j)
    >>> table(0).tolist()
    [[0, 1, 2], [10, 11, 12]]
    """
    tracer = current()
    position = user_position()
    extents = [tracer.extent(e, "build") for e in _extents(shape, "build")]
    for e in extents:
        if e.free:
            raise ShapeError(
                "E106",
                f"build: the size {e} depends on an index, so rows would differ in length",
                position=position,
                remedy="build the largest size, with `where` for the rest",
            )
    variables = [Var(n, e) for n, e in zip(parameter_names(f, len(extents)), extents)]
    with tracer.under(variables):
        result = _call(f, variables, "build")
        leaves, structure = tree.flatten(result)
        handles = [as_array(leaf, "build") for leaf in leaves]
        axes = [axes_for(h.extents) for h in handles]
        elements = [h.element(tuple(as_index(v) for v in inner)) for h, inner in zip(handles, axes)]
    default = assigned_name(position) or "value"
    names = [default] if structure == tree.LEAF else tree.leaf_names(structure, default)
    made: dict[int, Array] = {}
    shared: list[int] = []
    for k, (inner, value, name) in enumerate(zip(axes, elements, names)):
        array = _itself(value, (*variables, *inner))
        if array is not None:
            made[k] = array
        elif inner:
            own = tuple(Var(v.name, v.extent) for v in variables)
            moved = Substitution({v: as_index(w) for v, w in zip(variables, own)}).scalar(value)
            made[k] = from_ref(tracer.build((*own, *inner), [moved], [name], position)[0])
        else:
            shared.append(k)
    if shared:
        refs = tracer.build(variables, [elements[k] for k in shared], [names[k] for k in shared], position)
        made.update(zip(shared, map(from_ref, refs)))
    return tree.unflatten(structure, [made[k] for k in range(len(elements))])


def _itself(value: ir.Scalar, variables: tuple[Var, ...]) -> Array | None:
    """The array whose elements are `value` over the variables; None if that needs a statement."""
    own = tuple(map(as_index, variables))
    if not isinstance(value, ir.Get) or value.indices[len(value.indices) - len(own) :] != own:
        return None
    ref, lead = value.ref, value.indices[: len(value.indices) - len(own)]
    if any(not i.free.isdisjoint(variables) for i in lead):
        return None
    if not lead and current().holds(ref) and ref.shape == tuple(v.extent for v in variables):
        return from_ref(ref)
    if lead and current().inside:
        return view([v.extent for v in variables], ref.dtype, lambda i: get(ref, *lead, *i), None, ref.name)
    return None


def _extents(shape: Any, what: str) -> list[Index]:
    items = shape if isinstance(shape, tuple | list) else (shape,)
    return [extent_of(e, what) for e in items]


def _call(f: Callable[..., Any], variables: Sequence[Var], what: str) -> Any:
    """Call `f` on the index variables; check its parameters first, and that it returns something."""
    check_callable(f, what, axis_names(len(variables)))
    result = f(*(from_index(v) for v in variables))
    if result is None:
        raise TraceError(
            "E137", f"{what}: the function gives None", position=user_position(), remedy="is a `return` missing in it?"
        )
    return result


def _over(op: ReduceOp, shape: Any, f: Callable[..., Any]) -> Any:
    tracer = current()
    position = user_position()
    what = f"{op}_over"
    wanted = _extents(shape, what)
    names = parameter_names(f, len(wanted))
    variables: list[Var] = []
    guards: list[Cond | bool] = []
    for name, extent in zip(names, wanted):
        largest = _largest(extent, what)
        v = Var(name, largest)
        if largest is not extent:
            guards.append(cond(">=", extent - 1 - as_index(v)))
        elif extent.constant == 0 and op in ("max", "min", "argmax", "argmin"):
            raise empty_error(what)
        variables.append(v)
    with tracer.under(variables):
        result = _call(f, variables, what)
        leaves, structure = tree.flatten(result)
        handles = [as_array(leaf, what) for leaf in leaves]
        made = [_reduce_leaf(op, variables, guards, h, position) for h in handles]
    if not tracer.inside:
        made = [_settle(op, h, position) for h in made]
    return tree.unflatten(structure, made)


def _largest(extent: Index, what: str) -> Index:
    """The size, or a bound over the ranges of its indices."""
    tracer = current()
    if not extent.free and extent.is_dim:
        return tracer.extent(extent, what)
    bound = extreme(extent, upper=True)
    if bound is None:
        raise ShapeError(
            "E106",
            f"{what}: the size {extent} has no bound known at definition",
            position=user_position(),
            remedy="sum over a dim, with the condition in `where`",
        )
    if not prove(cond(">=", bound - 1), tracer.known):
        bound = bound + 1  # the largest value may be 0: one more keeps the axis at 1, and the guard excludes it
    return tracer.extent(bound, what)


def _reduce_leaf(op: ReduceOp, variables: Sequence[Var], guards: Sequence[Cond | bool], h: Array, position: Any) -> Any:
    dtype = h.settled
    check_reduction(op, h)

    def rule(indices: Indices) -> ir.Scalar:
        return expr.reduce(op, variables, _guarded(op, guards, h.element(indices), dtype))

    if h.rank == 0:
        return scalar(rule(()))
    return emit(h.extents, rule, op, position)


def check_reduction(op: ReduceOp, h: Array) -> None:
    """Refuse element types for which a reduction is meaningless."""
    dtype = h.settled
    of_bools = REDUCTIONS[op].of_bools
    if of_bools != dtype.is_bool and (of_bools or op in ("sum", "prod")):
        takes = "bool" if of_bools else "numbers"
        remedy = "compare the elements, e.g. `x != 0`" if takes == "bool" else "`astype(pb.int64)` counts true values"
        raise DTypeError("E121", f"{op} takes {takes}, not {type_text(h)}", position=user_position(), remedy=remedy)


def _guarded(op: ReduceOp, guards: Sequence[Cond | bool], e: ir.Scalar, dtype: DType) -> ir.Scalar:
    """The value `e` where the guards hold, else the reduction's neutral element."""
    if not guards or op in ("sum", "any", "search"):
        return expr.bracket(guards, e)
    return expr.select(expr.test(guards), e, expr.const(neutral(op, dtype), dtype))


def empty_error(what: str) -> ShapeError:
    """The error for a maximum over an empty range."""
    return ShapeError(
        "E105", f"{what}: the size is 0, and there is no largest or smallest of nothing", position=user_position()
    )


def reduced(op: ReduceOp, h: Array, position: Position | None) -> Array:
    """Emit a scalar reduction as a statement."""
    e = h.element()
    return emit((), lambda _: e, op, position)


def _settle(op: ReduceOp, h: Any, position: Any) -> Any:
    """Emit a reduction at statement level unless it is an array already."""
    return h if h.ref is not None else reduced(op, h, position)


def _document(op: str, what: str, empty: str, element: str, result: str) -> str:
    return f"""{what} over index variables.

    Args:
        shape: a size or a tuple of sizes. A size may depend on the indices around it.
        f: gives the element from as many indices. An array or a tree is reduced elementwise.
    Returns:
        The value, of rank 0 where f gives elements. {empty}
    Raises:
        ShapeError: [E103] an element that f reads is not known to be in range.

    >>> pb.function(lambda x: pb.{op}_over(3, lambda i: {element}))(np.array([2.0, 5.0, 3.0])).item()
    {result}
    """


def sum_over(shape: Any, f: Callable[..., Any]) -> Any:  # noqa: D103
    return _over("sum", shape, f)


def prod_over(shape: Any, f: Callable[..., Any]) -> Any:  # noqa: D103
    return _over("prod", shape, f)


def max_over(shape: Any, f: Callable[..., Any]) -> Any:  # noqa: D103
    return _over("max", shape, f)


def min_over(shape: Any, f: Callable[..., Any]) -> Any:  # noqa: D103
    return _over("min", shape, f)


def argmax_over(shape: Any, f: Callable[..., Any]) -> Any:  # noqa: D103
    return _over("argmax", shape, f)


def argmin_over(shape: Any, f: Callable[..., Any]) -> Any:  # noqa: D103
    return _over("argmin", shape, f)


def any_over(shape: Any, f: Callable[..., Any]) -> Any:  # noqa: D103
    return _over("any", shape, f)


def all_over(shape: Any, f: Callable[..., Any]) -> Any:  # noqa: D103
    return _over("all", shape, f)


def search_over(size: Any, f: Callable[..., Any]) -> Any:
    """Count by bisection how often a test holds before it first fails.

    The test must hold up to some index and fail from there on, as `x[i] < v` does for sorted elements. Otherwise the
    result is unspecified.

    Args:
        size: the number of indices, a dim or a number.
        f: the test, a function from an index to a bool.
    Returns:
        The first index at which the test fails, or the size if it holds for all; int64.
    Derivative:
        Positions have none.
    Cost:
        As many tests as the size has binary digits.

    >>> pb.function(lambda x: pb.search_over(3, lambda i: x[i] < 4.0))(np.array([2.0, 3.0, 5.0])).item()
    2
    """
    return _over("search", size, f)


sum_over.__doc__ = _document("sum", "Sum", "An empty sum is 0.", "x[i]", "10.0")
prod_over.__doc__ = _document("prod", "Product", "An empty product is 1.", "x[i]", "30.0")
max_over.__doc__ = _document("max", "Largest value", "NaN if any is; an empty maximum is an error.", "x[i]", "5.0")
min_over.__doc__ = _document("min", "Smallest value", "NaN if any is; an empty minimum is an error.", "x[i]", "2.0")
argmax_over.__doc__ = _document("argmax", "Row-major position of the largest value", "The first on ties.", "x[i]", "1")
argmin_over.__doc__ = _document("argmin", "Row-major position of the smallest value", "The first on ties.", "x[i]", "0")
any_over.__doc__ = _document("any", "Whether any is true", "False where there are none.", "x[i] > 4.0", "True")
all_over.__doc__ = _document("all", "Whether all are true", "True where there are none.", "x[i] > 4.0", "False")


def in_range(indices: Any, size: Any) -> Array:
    """Declare that 0 <= indices < size for all elements of an argument, checked once per call.

    Args:
        indices: an integer array that is an argument of the function.
        size: an int or dim.
    Returns:
        The same array. Reading another array at its elements then needs no check at run time.

    >>> from jaxtyping import Int64
    >>> from pullback import Array
    >>> @pb.function
    ... def pick(table, i: Int64[Array, "M"]):
    ...     i = pb.in_range(i, table.shape[0])
    ...     return pb.build(i.shape[0], lambda m: table[i[m]])
    >>> pick(np.array([10.0, 20.0]), np.array([1, 1, 0])).tolist()
    [20.0, 20.0, 10.0]
    """
    h = as_array(indices, "in_range")
    tracer = current()
    if not h.settled.is_integer:
        raise DTypeError("E121", f"in_range takes integers, not {type_text(h)}", position=user_position())
    limit = extent_of(size, "in_range")
    if h.ref is not None and h.ref in tracer.inputs and h.weak is None:
        h.ref.bounds = (as_index(0), limit)
    return h


__all__ = [
    "all_over",
    "any_over",
    "argmax_over",
    "argmin_over",
    "build",
    "in_range",
    "max_over",
    "min_over",
    "prod_over",
    "search_over",
    "sum_over",
    "types",
]
