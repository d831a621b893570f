"""Checks on entry: integer inputs keep their declared bounds, so indices read from them are in range.

0 <= t < 10   -->  the least and the greatest element are in range, or else: for n < N: return if t[n] is not
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pullback.ir import nodes as ir
from pullback.ir.expr import ReduceOp
from pullback.ir.index import ZERO_INDEX, Index, Var, as_index
from pullback.ir.reduction import neutral
from pullback.ir.types import bool_, i64
from pullback.loops.plain.builder import free_variables
from pullback.loops.plain.scalar import added
from pullback.loops.program.nodes import Call, Check, For, If, Kernel, Let, LetIndex, Site, Stmt
from pullback.loops.program.values import (
    Binary,
    BinaryOp,
    Buffer,
    Convert,
    IndexValue,
    Literal,
    Load,
    Read,
    Temp,
    Value,
    View,
    loaded_index,
    scalar,
)
from pullback.machine import Machine

ENDS: Final[tuple[ReduceOp, ...]] = ("min", "max")
SIGNS: Final[tuple[BinaryOp, ...]] = ("<", ">=")
FEW: Final = 16  # fewer elements are no vectors


def entry_checks(program: ir.Program, inputs: Sequence[Buffer], machine: Machine) -> list[Stmt]:
    """Tests that integer inputs keep their declared bounds."""
    out: list[Stmt] = []
    for ref, buffer in zip(program.inputs, inputs, strict=True):
        if ref.bounds is None:
            continue
        low, high = ref.bounds
        param = Buffer(ref.name, ref.dtype, ref.shape, "parameter", buffer.elements, False)
        each = _each(param, low, high)
        few = (buffer.elements.constant or FEW) < FEW
        body = (each,) if few or not machine.vector_bytes else _ends(param, low, high, each)
        if not body:
            continue  # no element of its type is out of range
        kernel = Kernel(f"check_{ref.name}", (param,), free_variables(body), body, (f"{low} <= {ref.name} < {high}",))
        out.append(Call(kernel, (View(buffer),)))
    return out


def _each(array: Buffer, low: Index, high: Index) -> For:
    """The loop that leaves the function at the first element out of range."""
    i, v = Var("i", array.elements), loaded_index("value", None)
    load = LetIndex(v, Load(array, as_index(i), scalar(array.dtype)))
    check = Check(as_index(v), high, Site(array.name, None, "the call", of_call=True), low)
    return For(i, ZERO_INDEX, array.elements, (load, check))


def _ends(array: Buffer, low: Index, high: Index, each: For) -> tuple[Stmt, ...]:
    """A search for the ends, which compilers turn into vectors, and `each` if one is out of range."""
    kind, i = scalar(array.dtype), Var("i", array.elements)
    ends = {op: Temp(f"{op}imum", kind) for op in ENDS}
    start = [Let(end, Literal(neutral(op, array.dtype), kind), mutable=True) for op, end in ends.items()]
    element = Load(array, as_index(i), kind)
    search = For(i, ZERO_INDEX, array.elements, tuple(added(end, op, element) for op, end in ends.items()))
    whole = i64 if array.dtype.size == i64.size else array.dtype  # as i64, the greatest u64 are negative
    possible = {"<": low.constant is None or whole.minimum < low.constant, ">=": (high.constant or 0) <= whole.maximum}
    outside: list[Value] = [
        Binary(sign, Convert(Read(end), scalar(i64)), IndexValue(bound, scalar(i64)), scalar(bool_))
        for end in ends.values()
        for sign, bound in zip(SIGNS, (low, high), strict=True)
        if possible[sign]
    ]
    if not outside:
        return ()
    return (*start, search, If(reduce(lambda a, b: Binary("||", a, b, scalar(bool_)), outside), (each,)))
