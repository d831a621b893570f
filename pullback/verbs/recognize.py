"""Recognition of two-cell functions that are language operations, by what they compute.

`lambda a, b: a + b` is recognized as a sum, like `operator.add`. The function is traced once for two cells of the
given type. Its node for one element is compared with the node of each operation. A function that reads other values,
or other positions of its operands, matches no operation. A maximum or minimum must have its operands in order: the
derivative goes to the first of equal elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Index, as_index
from pullback.ir.traverse import Substitution
from pullback.ir.types import DType
from pullback.tracing.array import Array
from pullback.tracing.making import axes_for, from_ref
from pullback.tracing.tracer import current

_COMPARES: Final = {"max": "maximum", "min": "minimum"}
_LOGICAL: Final = {"any": "logical_or", "all": "logical_and"}


def recognized(f: Callable[..., Any], dtype: DType, extents: Sequence[Index]) -> str | None:
    """The reduction that f computes: "sum", "prod", "max", "min", "any" or "all"; else None."""
    tracer = current()
    with tracer.block() as scope:
        cells = [tracer.own(ir.Ref(name, dtype, tuple(extents))) for name in ("a", "b")]
        found = f(*map(from_ref, cells))
        if not isinstance(found, Array) or found.strong is not dtype or found.extents != tuple(extents):
            return None
        places = [ZERO_INDEX if n.constant == 1 else as_index(v) for n, v in zip(extents, axes_for(extents))]
        value = _written(found.element(tuple(places)), scope.statements)
        a, b = (expr.get(r, *places) for r in cells)
    ways: dict[str, tuple[ir.Scalar, ...]]
    if dtype.is_bool:
        ways = {op: (expr.apply(name, a, b), expr.apply(name, b, a)) for op, name in _LOGICAL.items()}
    else:
        ways = {op: (expr.apply(name, a, b),) for op, name in _COMPARES.items()}
        ways |= {"sum": (expr.add(a, b), expr.add(b, a)), "prod": (expr.mul(a, b), expr.mul(b, a))}
    return next((op for op, nodes in ways.items() if value in nodes), None)


def _written(value: ir.Scalar, statements: Sequence[ir.Statement]) -> ir.Scalar:
    """Return the value, or the value of the single statement that writes it."""
    match statements:
        case [ir.Build(outs=(out,), values=(written,)) as s] if isinstance(value, ir.Get) and value.ref is out:
            return Substitution(variables=dict(zip(s.vars, value.indices, strict=True))).scalar(written)
        case _:
            return value


__all__ = ["recognized"]
