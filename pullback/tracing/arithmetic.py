"""Arithmetic of real arrays: broadcasting, and dtypes for Python numbers and indices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pullback.errors import DTypeError, ShapeError
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Cond, Index, cond, prove_nonnegative
from pullback.ir.primitive import PRIMITIVES
from pullback.ir.types import DType, promote
from pullback.source import Position, user_position
from pullback.tracing.array import Array, Indices, Rule, from_index, shape_text, twin, type_text, weak
from pullback.tracing.making import as_array, describe, emit, operands_text, scalar, view
from pullback.tracing.ranges import compare, to_index
from pullback.tracing.tracer import current

_COMPARISONS = frozenset(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"))
_ROUNDING = ("ceil", "floor", "round", "trunc")  # primitives that leave integers unchanged
_CLASSES = ("isfinite", "isinf", "isnan")  # tests of floating-point numbers; integers are always finite
_OF_NUMBERS = ("add", "subtract", "multiply", "negative", "positive", "square", *_ROUNDING, *_CLASSES)
NAMES = frozenset((*_OF_NUMBERS, *(p.name for p in PRIMITIVES)))


def _kinds(name: str) -> tuple[str, ...]:
    return ("floating", "signed", "unsigned") if name in _OF_NUMBERS else PRIMITIVES[name].kinds


def apply_scalars(name: str, args: Sequence[ir.Scalar]) -> ir.Scalar:
    """Apply the operation to elements of one dtype."""
    match name:
        case "add":
            return expr.add(*args)
        case "subtract":
            return expr.add(args[0], expr.negative(args[1]))
        case "multiply":
            return expr.mul(*args)
        case "negative":
            return expr.negative(args[0])
        case "positive":
            return args[0]
        case "square":
            return expr.mul(args[0], args[0])
        case _ if name in _ROUNDING and args[0].dtype.is_integer:
            return args[0]
        case _ if name in _CLASSES and args[0].dtype.is_integer:
            return expr.const(name == "isfinite", types.bool_)
        case "equal":
            condition = _equation(*args)
            if condition is not None:
                return expr.test([condition])
        case "logical_and":
            for test, other in ((args[0], args[1]), (args[1], args[0])):
                conds = expr.conditions_of(test)
                if conds is not None:
                    return expr.bracket(conds, other)
        case "logical_not":
            conds = expr.conditions_of(args[0])
            if conds is not None and len(conds) == 1:
                return expr.test([conds[0].negate()])
        case "power":
            exponent = args[1]
            if isinstance(exponent, ir.Const) and exponent.value in (1, 2, 3, 4):
                return expr.mul(*[args[0]] * int(exponent.value))
        case _:
            pass
    return expr.apply(name, *args)


def _equation(a: ir.Scalar, b: ir.Scalar) -> Cond | bool | None:
    """Write a == b as an index condition, if both are sums with indices; else None.

    The other part is data. Its arithmetic wraps as before, and an index is no larger than memory. So both sides are
    equal as indices if they are equal as 64-bit integers.
    """
    if a.dtype is not types.i64:
        return None
    index, rest = ZERO_INDEX, []
    for side, sign in ((a, 1), (b, -1)):
        for t in side.args if isinstance(side, ir.Add) else (side,):
            negative = isinstance(t, ir.Mul) and len(t.args) == 2 and t.args[0] is expr.const(-1, types.i64)
            inner = t.args[1] if isinstance(t, ir.Mul) and negative else t
            if isinstance(inner, ir.FromIndex):
                index += inner.index * (-sign if negative else sign)
            else:
                rest.append(t if sign == -1 else expr.negative(t))
    if not index.free or not rest:
        return None
    return cond("==", index - expr.data_index(expr.add(*rest)))


def _on_indices(name: str, a: Index, b: Index) -> Array | None:
    """The operation on two indices; None if the result is not an index."""
    match name:
        case "add":
            return from_index(a + b)
        case "subtract":
            return from_index(a - b)
        case "multiply":
            return from_index(a * b)
        case "floor_divide" if prove_nonnegative(b - 1):
            return from_index(a // b)
        case "remainder" if prove_nonnegative(b - 1):
            return from_index(a % b)
        case _ if name in _COMPARISONS:
            return scalar(expr.test([compare(name, a, b)]))
        case _:
            return None


def _meets_index(operands: Sequence[Array]) -> bool:
    """Whether an index is compared with an integer scalar of the program."""
    return (
        len(operands) == 2
        and all(h.rank == 0 for h in operands)
        and any(h.index is not None and not h.index.is_dim for h in operands)
        and all(h.index is not None or (h.strong is not None and h.strong.is_integer) for h in operands)
    )


def index_of(h: Array) -> Index:
    """Convert an integer value of rank 0 to an index."""
    return h.index if h.index is not None else to_index(h.element())


def common_dtype(name: str, operands: Sequence[Array], position: Position | None) -> DType | None:
    """The common dtype of the operands; None if all are weak."""
    common: DType | None = None
    for h in operands:
        if h.strong is None:
            continue
        found = h.strong if common is None else promote(common, h.strong)
        if found is None:
            raise _mixed(name, operands, position)
        common = found
    if common is None:
        return None
    for h in operands:
        if (
            (h.weak == "floating" and not common.is_floating)
            or (h.weak == "integer" and common.is_bool)
            or (h.weak == "bool" and not common.is_bool)
        ):
            raise _mixed(name, operands, position)
    return common


def _mixed(name: str, operands: Sequence[Array], position: Position | None) -> DTypeError:
    names = operands_text(position, len(operands))
    return DTypeError(
        "E120",
        f"{name}: {' and '.join(type_text(h) for h in operands)} have no common element type",
        position=position,
        facts=[describe(h, n) for h, n in zip(operands, names)],
        remedy=_together(operands),
    )


def _together(operands: Sequence[Array]) -> str:
    """The remedy that converts operands of several kinds to one kind."""
    dtypes = [h.settled for h in operands]
    if any(d.is_bool for d in dtypes) and not all(d.is_bool for d in dtypes):
        return "`pb.where(condition, x, 0)` keeps x where the condition holds; `condition.astype(...)` is 1 or 0"
    target = next((h.settled for h in operands if h.strong is not None and h.settled.is_floating), types.f64)
    odd = next((h for h in operands if h.strong is not None and h.settled is not target), None)
    name = odd.name if odd is not None and odd.name else "x"
    return f"`{name}.astype(pb.{target.numpy})` converts one side"


def _check_kind(name: str, dtype: DType, operands: Sequence[Array], position: Position | None) -> None:
    kinds = _kinds(name)
    if dtype.kind in kinds:
        return
    remedy = "convert with `astype` first"
    if name == "divide" and dtype.is_integer:
        remedy = "`//` divides integers; for a quotient convert with `astype(pb.float32)` first"
    names = operands_text(position, len(operands))
    wanted = {"floating": "floating-point", "signed": "integer", "unsigned": "integer", "bool": "bool"}
    accepted = " or ".join(dict.fromkeys(wanted[k] for k in kinds))
    raise DTypeError(
        "E121",
        f"{name} takes {accepted} values, not {dtype}",
        position=position,
        facts=[describe(h, n) for h, n in zip(operands, names)],
        remedy=remedy,
    )


def broadcast_extents(name: str, operands: Sequence[Array], position: Position | None) -> Indices:
    """The common shape of operands; axes align at the right, and size 1 stretches."""
    shapes = [h.extents for h in operands if h.extents]
    if not shapes or shapes.count(shapes[0]) == len(shapes):  # nearly all
        return shapes[0] if shapes else ()
    rank = max(map(len, shapes))
    out: list[Index] = []
    for axis in range(-rank, 0):
        extent: Index | None = None
        holder: Array | None = None
        for h in operands:
            if -axis > h.rank:
                continue
            mine = h.extents[axis]
            if extent is None or (extent.constant == 1 and mine.constant != 1):
                extent, holder = mine, h
            elif mine is not extent and mine.constant != 1:
                assert holder is not None
                raise _disagree(name, operands, holder, h, axis, position)
        assert extent is not None
        out.append(extent)
    return tuple(out)


def _disagree(
    name: str, operands: Sequence[Array], a: Array, b: Array, axis: int, position: Position | None
) -> ShapeError:
    names = dict(zip(map(id, operands), operands_text(position, len(operands))))
    first, second = a.name or names[id(a)], b.name or names[id(b)]
    remedy = "give both the same dim name in the annotations if they are equal, or reshape one of them"
    for dim, array, whose in ((a, b, first), (b, a, second)):
        size = array.extents[axis].constant
        if size is not None and dim.extents[axis].symbols and _is_captured(array):
            remedy = f"`{size}` for `{dim.extents[axis]}` in the annotation of {whose}, if they are equal"
    return ShapeError(
        "E101",
        f"{name}: shapes {shape_text(a.extents)} and {shape_text(b.extents)} do not broadcast: "
        f"axis {axis + a.rank} of {first} = {a.extents[axis]}, axis {axis + b.rank} of {second} = {b.extents[axis]}",
        position=position,
        facts=[describe(a, names[id(a)]), describe(b, names[id(b)])],
        remedy=remedy,
    )


def _is_captured(h: Array) -> bool:
    """Whether an array is a captured NumPy array."""
    return any(ref is h.ref for ref, _ in current().captured.values())


def aligned(h: Array, indices: Indices, dtype: DType | None = None) -> ir.Scalar:
    """The element of h that broadcasting reads at `indices`."""
    extents = h.extents
    if not extents:
        return h.element((), dtype)
    own = indices[len(indices) - len(extents) :]
    return h.element(tuple([ZERO_INDEX if e.constant == 1 else i for i, e in zip(own, extents)]), dtype)


def elementwise(name: str, *values: object, position: Position | None = None) -> Array:
    """The primitive `name` on every element, operands broadcast."""
    operands = [as_array(v, name) for v in values]
    position = position or user_position()
    if len(operands) == 2:
        a, b = operands[0].index, operands[1].index
        if a is not None and b is not None:
            found = _on_indices(name, a, b)
            if found is not None:
                return found
        if name in _COMPARISONS and _meets_index(operands):
            condition = compare(name, index_of(operands[0]), index_of(operands[1]))
            return scalar(expr.test([condition]))
    elif name == "negative" and operands[0].index is not None:
        return from_index(-operands[0].index)
    elif name in _ROUNDING and operands[0].index is not None:
        return operands[0]
    dtype = common_dtype(name, operands, position)
    if dtype is None:
        return _weakly(name, operands)
    _check_kind(name, dtype, operands, position)
    fixed: DType = dtype

    def rule(indices: Indices) -> ir.Scalar:
        return apply_scalars(name, [expr.cast(aligned(h, indices, fixed), fixed) for h in operands])

    extents = broadcast_extents(name, operands, position)
    if not extents:
        return scalar(rule(()))
    return emit(extents, rule, name, position)


def _weakly(name: str, operands: Sequence[Array]) -> Array:
    """An operation on only Python numbers and indices, whose dtype stays open."""
    kinds = _kinds(name)
    weaks = [h.weak for h in operands]

    def at(dtype: DType) -> ir.Scalar:
        return apply_scalars(name, [h.element((), dtype) for h in operands])

    if name in PRIMITIVES and PRIMITIVES[name].result == "bool":
        if "bool" in weaks:
            return scalar(at(types.bool_))
        return scalar(at(current().default_float if "floating" in weaks else types.i64))
    if "floating" in weaks or "signed" not in kinds:
        return weak("floating", at)
    if "bool" in weaks:
        raise _mixed(name, operands, user_position())
    return weak("integer", lambda dtype: expr.cast(at(types.i64), dtype))


def choose(condition: object, then: object, otherwise: object, position: Position | None = None) -> Array:
    """Choose elements of `then` where the condition holds, else of `otherwise`."""
    position = position or user_position()
    test, a, b = as_array(condition, "where"), as_array(then, "where"), as_array(otherwise, "where")
    if test.settled is not types.bool_:
        raise DTypeError(
            "E121",
            f"where: the condition is {type_text(test)}, not bool",
            position=position,
            facts=[describe(test, "condition")],
            remedy="compare it, e.g. `x != 0`",
        )
    dtype = common_dtype("where", [a, b], position)
    extents = broadcast_extents("where", [test, a, b], position)

    def rule(indices: Indices, dtype: DType) -> ir.Scalar:
        guard = aligned(test, indices)
        pure = expr.conditions_of(guard) is not None
        sides = [
            expr.zero(dtype) if pure and _is_zero(h) else expr.cast(aligned(h, indices, dtype), dtype) for h in (a, b)
        ]
        return expr.select(guard, *sides)

    if dtype is None and not extents:
        if a.weak == b.weak == "bool":
            return scalar(rule((), types.bool_))
        kind = "floating" if "floating" in (a.weak, b.weak) else "integer"
        return weak(kind, lambda d: rule((), d))  # type: ignore[arg-type]
    fixed = dtype or (a.settled if a.settled is b.settled else common_settled(a, b))
    if not extents:
        return scalar(rule((), fixed))
    return emit(extents, lambda indices: rule(indices, fixed), "where", position)


def common_settled(*handles: Array) -> DType:
    """The common dtype of weak values."""
    return next((h.settled for h in handles if h.settled.is_floating), handles[0].settled)


def _is_zero(h: Array) -> bool:
    return h.literal is not None and not isinstance(h.literal, bool) and h.literal == 0


def convert(value: object, dtype: object) -> Array:
    """Convert every element: floating-point to integer saturates, NaN gives 0."""
    h, target = as_array(value, "astype"), dtype_from(dtype)
    if target.is_half:
        return _stored(h, target)
    if h.weak is not None:
        if target.is_floating or (h.weak == "integer" and target.is_integer):
            return scalar(h.element((), target))
        return scalar(expr.cast(h.element(()), target))
    if h.strong is target:
        return twin(h) if h.stored is None else view(h.extents, target, h.element)
    rule: Rule = lambda indices: expr.cast(h.element(indices), target)
    return scalar(rule(())) if h.rank == 0 else emit(h.extents, rule, "astype")


def _stored(h: Array, target: DType) -> Array:
    """Round an array to f16 or bf16 as storing it does."""
    if h.storage is target:
        return twin(h)
    rule: Rule = lambda indices: expr.rounded(h.element(indices), target)
    made = scalar(rule(())) if h.rank == 0 else emit(h.extents, rule, "astype")
    made.stored = target
    if made.ref is not None:
        made.ref.storage = target
    return made


_ALL = (*types.DTYPES, *types.HALVES)
_BY_ALIAS = {d.title: d for d in _ALL} | {d.name: d for d in _ALL}


def dtype_from(x: object) -> DType:
    """Convert a dtype of the language or of NumPy, a type or a name to a dtype."""
    if isinstance(x, DType):
        return x
    if isinstance(x, str) and x in _BY_ALIAS:
        return _BY_ALIAS[x]
    try:
        found = types.dtype_of(np.dtype(x))  # type: ignore[call-overload]
    except TypeError:
        found = None
    if found is None:
        raise DTypeError(
            "E122",
            f"{x!r} is not an element type of the language",
            position=user_position(),
            remedy="one of " + ", ".join(d.title for d in _ALL),
        )
    return found
