"""Partial sums of a parallel loop: chunks sum separately, and are added in chunk order.

    sum = 0; for n < N: sum += f(n)
    -->  parallel for chunk < C: { sum = 0; for n in the chunk: sum += f(n); partial[chunk] = sum }
         sum = 0; for chunk < C: sum += partial[chunk]

The same for buffers that the loop only adds to. The number of chunks follows from the work, so the order of additions
and the bits of a sum do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pullback.ir.index import ZERO_INDEX, Atom, Var, as_index
from pullback.ir.reduction import neutral
from pullback.ir.types import f64
from pullback.loops.analysis.footprint import Footprint, Places
from pullback.loops.analysis.intervals import Interval
from pullback.loops.program import nodes
from pullback.loops.program.nodes import Assign, Call, Fill, For, If, Let, Loop, Parallel, Stmt, Store, Task
from pullback.loops.program.values import (
    OPERATORS,
    Binary,
    BinaryOp,
    Buffer,
    Literal,
    Load,
    Read,
    Temp,
    Value,
    View,
    scalar,
)

NEUTRAL: Final[Mapping[str, float]] = {OPERATORS[op]: neutral(op, f64) for op in ("sum", "prod", "max", "min")}
MOST_SUMS = 16  # chunks of a sum
CHEAP = 8  # least work of a loop, as a multiple of adding up its partial sums


def accumulators(loop: For, declared: Sequence[Let]) -> dict[Temp, BinaryOp] | None:
    """The temporaries that a loop accumulates, with the operation; None if it does anything else."""
    outside = {s.temp: s for s in declared if s.mutable}
    found: dict[Temp, BinaryOp] = {}
    for s in nodes.walk(loop.body):
        reads = [v.temp for v in nodes.values_in(s) if isinstance(v, Read)]
        if isinstance(s, Assign) and s.temp in outside:
            v = s.value
            if not (isinstance(v, Binary) and v.op in NEUTRAL and isinstance(v.a, Read) and v.a.temp is s.temp):
                return None
            if found.setdefault(s.temp, v.op) != v.op or not _is_neutral(outside[s.temp].value, v.op):
                return None
            reads.remove(s.temp)
        if any(t in outside for t in reads):
            return None
    return found


def _is_neutral(v: Value, op: str) -> bool:
    return isinstance(v, Literal) and v.type.dtype.is_floating and v.value == NEUTRAL[op]


def temporary_sums(
    ops: Mapping[Temp, BinaryOp], chunk: Var, buffers: Mapping[str, Buffer]
) -> tuple[list[Stmt], list[Stmt], For]:
    """The statements before a chunk's loop, those that save its sums, and the loop that adds these up."""
    start: list[Stmt] = []
    keep: list[Stmt] = []
    add: list[Stmt] = []
    other = Var("chunk", chunk.extent)
    widths = temporaries(ops)
    done = dict.fromkeys(widths, 0)
    for t, op in ops.items():
        name = t.type.dtype.name
        start.append(Let(t, Literal(NEUTRAL[op], t.type), mutable=True))
        keep.append(Store(buffers[name], as_index(chunk) * widths[name] + done[name], Read(t)))
        part = Load(buffers[name], as_index(other) * widths[name] + done[name], t.type)
        add.append(Assign(t, Binary(op, Read(t), part, t.type)))
        done[name] += t.type.lanes
    return start, keep, For(other, ZERO_INDEX, other.extent, tuple(add))


def temporaries(ops: Mapping[Temp, BinaryOp]) -> dict[str, int]:
    """The number of elements of temporaries by element type."""
    out: dict[str, int] = {}
    for t in ops:
        out[t.type.dtype.name] = out.get(t.type.dtype.name, 0) + t.type.lanes
    return out


def added_buffers(
    loop: For, buffers: frozenset[Buffer], places: Places, ranges: Mapping[Atom, Interval], values: Interval
) -> dict[Buffer, bool] | None:
    """Whether iterations only add to these buffers; for each, whether the first one overwrites it."""
    later = {**ranges, loop.var: (values[0] + loop.step, values[1])}
    f = Footprint(loop.body, places, later)
    out: dict[Buffer, bool] = {}
    for a in f.accesses:
        if a.buffer in buffers:
            if not (a.adds or a.begins):
                return None
            out[a.buffer] = out.get(a.buffer, False) or a.begins
    return out


def moved(body: Iterable[Stmt], to: Callable[[View], View]) -> tuple[Stmt, ...]:
    """The statements with redirected stores and kernel arguments."""
    out: list[Stmt] = []
    for s in body:
        match s:
            case For() | Loop():
                out.append(replace(s, body=moved(s.body, to)))
            case If():
                out.append(replace(s, then=moved(s.then, to), otherwise=moved(s.otherwise, to)))
            case Store():
                place = to(View(s.buffer, s.offset))
                out.append(replace(s, buffer=place.buffer, offset=place.offset))
            case Call():
                out.append(replace(s, arguments=tuple(map(to, s.arguments))))
            case Parallel():
                calls = (replace(t.call, arguments=tuple(map(to, t.call.arguments))) for t in s.tasks)
                out.append(Parallel(tuple(map(Task, calls, (t.chunk for t in s.tasks)))))
            case _:
                out.append(s)
    return tuple(out)


def buffer_sum(target: Buffer, partial: Buffer, chunks: int, begins: bool) -> For:
    """Add up the partial sums of all chunks, into the target or over it."""
    type_ = scalar(target.dtype)
    j = Var("j", target.elements)
    total: Value = Load(partial, as_index(j), type_)
    for c in range(1, chunks):
        total = Binary("+", total, Load(partial, as_index(j) + target.elements * c, type_), type_)
    store = Store(target, as_index(j), total, accumulate=not begins)
    return For(j, ZERO_INDEX, target.elements, (store,))


def zeros(partial: Buffer, target: Buffer, chunk: Var) -> Fill:
    """Set a chunk's own part to zero."""
    return Fill(partial, target.elements * as_index(chunk), target.elements)
