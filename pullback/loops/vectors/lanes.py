"""Vector forms of operations: joined widths, lane masks, tests and functions.

A comparison of vectors gives a mask: integers of the same size with all bits set where it holds. A bool common to all
lanes becomes a mask by negation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

from pullback.ir import nodes as ir
from pullback.ir.index import Atom, Data, Floor, Index, Mod, Var
from pullback.ir.traverse import indices_of, walk
from pullback.ir.types import DType, dtype_named
from pullback.loops.program.values import Apply as ApplyValue
from pullback.loops.program.values import Binary, BinaryOp, Broadcast, Convert, Literal, Type, Unary, Value

VECTOR_FUNCTIONS: Final = (
    "abs", "sign", "sqrt", "round", "floor", "ceil", "trunc", "floor_divide", "exp", "expm1", "tanh", "logistic", "log",
    "log2", "log10", "log1p", "sin", "cos", "power", "erf", "copysign",
)  # fmt: skip
"""Primitives of f32 and f64 of which a target with vectors has a form for any number of lanes."""

BITS: Final = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "maximum": "max", "minimum": "min"}
"""Primitives of integers that are operators of vectors."""
FLOATING: Final = (*VECTOR_FUNCTIONS, "divide", "maximum", "minimum")
"""Primitives of floating-point numbers that have a form for vectors."""


def mask_of(dtype: DType, lanes: int) -> Type:
    """The mask type of a vector comparison: integers of the elements' size."""
    return Type(dtype_named(f"i{8 * dtype.size}"), lanes)


def mask_from(test: Value, dtype: DType) -> Value:
    """A bool as a number with all bits set or none."""
    one = mask_of(dtype, 1)
    return Unary("-", Convert(test, one), one)


def chain(op: str, args: list[Value]) -> Value:
    """Operands joined in order, scalars among themselves first where the order is free."""
    lanes = max(a.type.lanes for a in args)
    if op in ("+", "*") and lanes > 1:
        args = [*(a for a in args if a.type.lanes == 1), *(a for a in args if a.type.lanes > 1)]
    if op == "+" and args[0].type.dtype.is_floating:
        return _sum(args)
    value = args[0]
    for a in args[1:]:
        value = _joined(op, value, a)  # type: ignore[arg-type]
    return value


def _joined(op: BinaryOp, a: Value, b: Value) -> Value:
    wide = max(a.type.lanes, b.type.lanes)
    return Binary(op, widened(a, wide), widened(b, wide), Type(a.type.dtype, wide))


def _sum(args: Sequence[Value]) -> Value:
    """A sum; a term with the factor -1 is subtracted, which does not occupy the multiplier."""
    first = next((k for k, a in enumerate(args) if _positive(a) is None), 0)
    value = args[first]
    for a in (*args[:first], *args[first + 1 :]):
        positive = _positive(a)
        value = _joined("+", value, a) if positive is None else _joined("-", value, positive)
    return value


def _positive(v: Value) -> Value | None:
    """The operand that is multiplied by -1; None if there is none."""
    match v:
        case Broadcast():
            inner = _positive(v.value)
            return None if inner is None else Broadcast(inner, v.type)
        case Binary(op="*", a=Literal(value=-1.0)):
            return v.b
        case Binary(op="*"):
            inner = _positive(v.a)
            return None if inner is None else Binary("*", inner, v.b, v.type)
    return None


def widened(value: Value, lanes: int) -> Value:
    """The value in all lanes."""
    if value.type.lanes == lanes:
        return value
    if isinstance(value, Literal):
        return Literal(value.value, Type(value.type.dtype, lanes))
    return Broadcast(value, Type(value.type.dtype, lanes))


def function(e: ir.Apply, args: list[Value], dtype: DType) -> Value:
    """The value of a floating-point primitive: an operator, or a function for this many lanes."""
    name = e.primitive.name
    if name == "divide":
        return chain("/", args)
    if name in ("maximum", "minimum"):
        return chain("max" if name == "maximum" else "min", args)
    lanes = max(a.type.lanes for a in args)
    type_ = Type(dtype, lanes)
    if lanes == 1:
        return ApplyValue(e.primitive, tuple(args), type_)
    assert name in VECTOR_FUNCTIONS
    return ApplyValue(e.primitive, tuple(widened(a, lanes) for a in args), type_)


COMPARISONS: Final[Mapping[str, BinaryOp]] = {
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=",
}  # fmt: skip
LOGIC: Final[Mapping[str, BinaryOp]] = {"logical_and": "&", "logical_or": "|", "logical_xor": "^"}
CLASSES: Final = ("isnan", "isfinite", "isinf")


def compared(name: str, args: Sequence[Value], dtype: DType) -> Value:
    """A comparison of vectors, or a test of one vector: a mask."""
    lanes = max(a.type.lanes for a in args)
    mask = mask_of(dtype, lanes)
    if name in COMPARISONS:
        return Binary(COMPARISONS[name], widened(args[0], lanes), widened(args[1], lanes), mask)
    (x,) = args
    if name == "isnan":
        return Binary("!=", x, x, mask)
    finite = Binary("==", Binary("-", x, x, x.type), Literal(0.0, x.type), mask)
    if name == "isfinite":
        return finite
    return Binary("&", Binary("==", finite, Literal(0, mask), mask), Binary("==", x, x, mask), mask)


def logic(name: str, masks: Sequence[Value], mask: Type) -> Value:
    """A connective of masks."""
    if name == "logical_not":
        return Binary("==", masks[0], Literal(0, mask), mask)
    return Binary(LOGIC[name], masks[0], masks[1], mask)


def is_small(i: Index, dtype: DType, lane: Var) -> bool:
    """Whether an index, computed in lanes, is known to fit a type."""
    most = _largest(i, lane)
    return most is not None and most < 2 ** (dtype.bits - 2)


def _largest(i: Index, lane: Var) -> int | None:
    """A bound on the magnitude of an index; None if unknown."""
    total = 0
    for monomial, c in i.terms:
        sizes = [_size(a, lane) for a in monomial]
        if any(s is None for s in sizes):
            return None
        total += abs(c) * prod(s or 0 for s in sizes)
    return total


def _size(a: Atom, lane: Var) -> int | None:
    match a:
        case Var():
            return a.extent.constant
        case Data():
            return None if a.checked or a.extent is None else a.extent.constant
        case Mod():
            return None if lane in a.free and _largest(a.numerator, lane) is None else a.denominator.constant
        case Floor():
            return _largest(a.numerator, lane)
        case _:
            return None


def has_vector_form(e: ir.Scalar, dtype: DType) -> bool:
    """Whether `Writer` can write all parts of an expression in vectors of `dtype`'s lanes.

    Elements of other types must be as large, or be converted when loaded. Reductions are assumed to be written
    separately.
    """
    loaded = {
        n.arg for n in walk(e) if isinstance(n, ir.Cast) and isinstance(n.arg, ir.Get) and converts(n.arg.dtype, dtype)
    }
    return all((n in loaded or _has_form(n, dtype)) and not any(i.data for i in indices_of(n)) for n in walk(e))


def _has_form(n: ir.Scalar, dtype: DType) -> bool:
    fits = not n.dtype.is_half and not n.dtype.is_bool and n.dtype.size == dtype.size
    match n:
        case ir.Apply():
            name = n.primitive.name
            if name in (*LOGIC, "logical_not"):
                return True
            if name in COMPARISONS or name in CLASSES:
                return n.args[0].dtype.size == dtype.size and not n.args[0].dtype.is_bool
            return fits and (name in (BITS if n.dtype.is_integer else FLOATING) or not n.free)
        case ir.Cast():
            return fits and not n.arg.dtype.is_bool and (n.dtype.is_floating or n.arg.dtype.is_integer)
        case ir.Get():
            return n.dtype.computed is dtype or (n.dtype is n.dtype.computed and fits)
        case ir.Const() | ir.Zero() | ir.Add() | ir.Mul() | ir.Select() | ir.FromIndex() | ir.Bracket() | ir.Reduce():
            return fits
        case _:
            return False


def converts(source: DType, target: DType) -> bool:
    """Whether vectors of stored elements can be converted to a type at least as large."""
    return source.size <= target.size and (source.is_integer or (source.is_floating and target.is_floating))
