"""Which values of a traced function have the bits that a session would compute, and how small they can be.

Compiled code adds and multiplies in another order than NumPy, fuses a multiplication with an addition, and has other
functions of libm. The last digits of such a *rough* value differ from a session's. Under `pb.exact()` they do only for
reductions and libm.
"""

from __future__ import annotations

from math import inf, prod
from typing import Any, Final

from pullback.ir import nodes as ir
from pullback.ir.index import as_index
from pullback.tracing.array import Array
from pullback.tracing.making import axes_for
from pullback.tracing.tracer import current

KEPT: Final = frozenset(
    ("abs", "maximum", "minimum", "floor", "ceil", "round", "trunc", "sign", "copysign", "remainder")
)
"""Primitives whose result has the right bits if their arguments have."""
IN_ORDER: Final = frozenset(("divide", "sqrt"))  # such primitives under `pb.exact()`


def element_of(x: Array) -> ir.Scalar:
    """The expression of any element."""
    return x.element(tuple(as_index(v) for v in axes_for(x.extents)))


def defined(x: Array) -> ir.Scalar:
    """The expression of any element; that of the statement which makes the array, if there is one."""
    e = element_of(x)
    return (_defined(e.ref) or e) if isinstance(e, ir.Get) else e


def is_rough(x: Any, exact: bool) -> bool:
    """Whether the bits of a floating-point array may differ from a session's."""
    return isinstance(x, Array) and _rough(element_of(x), exact)


def least(x: Any) -> float:
    """A number that no element is below."""
    return _least(element_of(x)) if isinstance(x, Array) else float(x)


def _defined(ref: ir.Ref) -> ir.Scalar | None:
    """The expression of the elements of an array that a statement makes; None for others."""
    for scope in current().scopes:
        for statement in reversed(scope.statements):
            if isinstance(statement, ir.Build) and ref in statement.outs:
                return statement.values[statement.outs.index(ref)]
    return None


def _is_given(ref: ir.Ref) -> bool:
    tracer = current()
    return ref in tracer.inputs or any(ref is own for own, _ in tracer.captured.values())


def _rough(e: ir.Scalar, exact: bool) -> bool:
    if not e.dtype.is_floating:
        return False
    match e:
        case ir.Get():
            if _is_given(e.ref):
                return False
            value = _defined(e.ref)
            return value is None or _rough(value, exact)
        case ir.Cast() | ir.Bracket():
            return _rough(e.arg, exact)
        case ir.Select():
            return _rough(e.then, exact) or _rough(e.otherwise, exact)
        case ir.Mul(args=(ir.Const(value=1.0 | -1.0), x)):
            return _rough(x, exact)
        case ir.Add() | ir.Mul():
            return not exact or any(_rough(a, exact) for a in e.args)
        case ir.Apply():
            keeps = e.primitive.name in KEPT or (exact and e.primitive.name in IN_ORDER)
            return not keeps or any(_rough(a, exact) for a in e.args)
        case ir.Reduce():
            return e.op not in ("max", "min") or _rough(e.arg, exact)
        case ir.Const() | ir.Zero() | ir.FromIndex():
            return False
        case _:
            return True


def _least(e: ir.Scalar) -> float:
    match e:
        case ir.Const():
            return float(e.value)
        case ir.Zero():
            return 0.0
        case ir.Get():
            value = None if _is_given(e.ref) else _defined(e.ref)
            return -inf if value is None else _least(value)
        case ir.Cast():
            return 0.0 if e.arg.dtype.is_bool else _least(e.arg)
        case ir.Bracket():
            return min(0.0, _least(e.arg))
        case ir.Select():
            return min(_least(e.then), _least(e.otherwise))
        case ir.Add():
            return sum(_least(a) for a in e.args)
        case ir.Mul(args=(a, b)) if a is b:
            return 0.0
        case ir.Mul():
            found = [_least(a) for a in e.args]
            return prod(found) if min(found) >= 0 else -inf
        case ir.Apply():
            match e.primitive.name:
                case "exp" | "abs" | "sqrt":
                    return 0.0
                case "maximum":
                    return max(_least(a) for a in e.args)
                case "minimum":
                    return min(_least(a) for a in e.args)
            return -inf
        case ir.Reduce():
            low = _least(e.arg)
            return low if e.op in ("max", "min") else 0.0 if e.op == "sum" and low >= 0 else -inf
        case _:
            return -inf
