"""Accumulators of a reduction: one per vector width, and several to hide latency."""

from __future__ import annotations

from pullback.ir.expr import ReduceOp
from pullback.ir.reduction import neutral
from pullback.ir.types import DType, dtype_named
from pullback.loops.plain.scalar import added
from pullback.loops.program.nodes import Assign, Let, Stmt
from pullback.loops.program.values import OPERATORS, Across, Binary, BinaryOp, Convert, Literal, Read, Temp, Type, Value
from pullback.loops.vectors.lanes import widened


class Accumulators:
    """The accumulators of one result, made as they are needed."""

    def __init__(self, op: ReduceOp, dtype: DType) -> None:
        self.op = op
        self.dtype = dtype
        self.temps: dict[tuple[int, int], Temp] = {}

    def add(self, value: Value, lanes: int = 1, way: int = 0) -> Assign:
        """Add a term to the accumulator of its width; vectors side by side have one each."""
        t = self.temps.setdefault((lanes, way), Temp(self.op, Type(self.dtype, lanes)))
        return added(t, self.op, widened(value, lanes))

    def start(self) -> list[Stmt]:
        """Initialize all accumulators with the neutral element."""
        first = neutral(self.op, self.dtype)
        return [Let(t, Literal(first, t.type), mutable=True) for t in self.temps.values()]

    def total(self, out: list[Stmt]) -> Value:
        """Combine all accumulators to one number: equal widths first, then across the lanes."""
        op = OPERATORS[self.op]
        wide: dict[Type, Value] = {}
        for t in self.temps.values():
            wide[t.type] = Binary(op, wide[t.type], Read(t), t.type) if t.type in wide else Read(t)
        total: Value | None = None
        for type_, both in wide.items():
            value = both if type_.lanes == 1 else _across(op, both)
            total = value if total is None else Binary(op, total, value, value.type)
        assert total is not None
        result = Temp("total", total.type)
        out.append(Let(result, total))
        return Read(result)


def _across(op: BinaryOp, value: Value) -> Value:
    """Combine the lanes of a vector; integers wrap like unsigned ones."""
    dtype = value.type.dtype
    if not dtype.is_integer or op in ("max", "min"):
        return Across(op, value)  # type: ignore[arg-type]
    wide = Convert(value, Type(dtype_named(f"u{dtype.bits}"), value.type.lanes))
    return Convert(Across(op, wide), Type(dtype))  # type: ignore[arg-type]
