"""Transposes in registers: copies between an array and one with its axes swapped."""

from __future__ import annotations

from typing import Final

from pullback.ir.index import ZERO_INDEX, Index, Var, as_index, cond
from pullback.ir.types import DType
from pullback.loops.plain.builder import free_variables
from pullback.loops.program.nodes import For, Kernel, Let, Stmt, Store, either
from pullback.loops.program.values import Binary, Buffer, Load, Read, Shuffle, Temp, Type, Value
from pullback.state import cached

WIDEST_TURN: Final = 32  # bytes of the transposed vectors
NARROWEST_TURN: Final = 16


def _let(name: str, value: Value, body: list[Stmt], held: bool = False) -> Value:
    t = Temp(name, value.type)
    body.append(Let(t, value, held=held))
    return Read(t)


def _turned(rows: list[Value], name: str, body: list[Stmt]) -> list[Value]:
    """The columns of a square of as many vectors as each has lanes.

    For each bit of a lane's number, rows whose numbers differ in that bit alone exchange the lanes that have it
    (Eklundh, A fast computer method for matrix transposing, 1972).
    """
    n = len(rows)
    rows = list(rows)
    for bit in (1 << e for e in range(n.bit_length() - 1)):
        low = tuple(n + x - bit if x & bit else x for x in range(n))
        high = tuple(n + x if x & bit else x + bit for x in range(n))
        for j in (j for j in range(n) if not j & bit):
            a, b = rows[j], rows[j | bit]
            rows[j] = _let(f"{name}{j}", Shuffle(a, b, low, a.type), body)
            rows[j | bit] = _let(f"{name}{j | bit}", Shuffle(a, b, high, a.type), body)
    return rows


@cached(16)
def turn(dtype: DType, n: int) -> Kernel:
    """The kernel to[k * width + j] = source[at_j + k], for k < steps (a multiple of n) and j < n.

    Index parameters: at_0 .. at_{n-1}, steps, width.
    """
    at = tuple(Var(f"at{j}", 1 << 40) for j in range(n))
    k, steps, width = (Var(name, 1 << 40) for name in ("k", "steps", "width"))
    source, to = (
        Buffer(name, dtype, (steps.extent,), "parameter", steps.extent * n, name == "to") for name in ("source", "to")
    )
    body: list[Stmt] = []
    loads = (Load(source, as_index(v) + as_index(k), Type(dtype, n)) for v in at)
    rows = _turned([_let(f"r{j}", v, body) for j, v in enumerate(loads)], "t", body)
    body += [Store(to, (as_index(k) + j) * as_index(width), row) for j, row in enumerate(rows)]
    comment = (f"to[k, j] = source[at_j + k] for k < steps, j < {n}",)
    loop = For(k, ZERO_INDEX, as_index(steps), tuple(body), n)
    return Kernel(f"turn_{dtype.name}_{n}", (source, to), (*at, steps, width), (loop,), comment)


@cached(64)
def store_across(dtype: DType, rows: int, apart: int, lanes: int) -> Kernel:
    """Writes a tile across: to[j * stride + i * apart] (+)= tile[i * width + j] for i < rows, j < columns.

    Rows that become neighbors are transposed in squares, and the last square may overlap the one before. Others move
    one by one. Index parameters: `columns`, a multiple of a square's columns if there are squares, `width`, `stride`,
    and `begun`, 0 to overwrite.
    """
    columns, width, stride, begun = (Var(name, 1 << 40) for name in ("columns", "width", "stride", "begun"))
    j = Var("j", columns.extent)
    tile, to = (Buffer(name, dtype, (columns.extent,), "parameter", columns.extent * rows, name == "to")
                for name in ("tile", "to"))
    n = square(dtype, rows, apart, lanes)
    body: list[Stmt] = []
    stores: list[tuple[Index, Value]] = []
    for first in sorted({*range(0, rows - n + 1, n), rows - n}):
        loads = (Load(tile, as_index(width) * (first + i) + as_index(j), Type(dtype, n)) for i in range(n))
        read = [_let(f"r{first + i}", v, body, held=n == 1) for i, v in enumerate(loads)]
        for c, v in enumerate(_turned(read, f"t{first}_", body)):
            stores.append(((as_index(j) + c) * as_index(stride) + first * apart, v))
    added: list[Stmt] = []  # squares may overlap: old values are read before any of them changes
    sums = [_let(f"s{k}", Binary("+", Load(to, at, v.type), v, v.type), added) for k, (at, v) in enumerate(stores)]
    added += [Store(to, at, s) for (at, _), s in zip(stores, sums, strict=True)]
    body += either(cond(">=", as_index(begun) - 1), added, [Store(to, at, v) for at, v in stores])
    loop = For(j, ZERO_INDEX, as_index(columns), tuple(body), n)
    distance = "" if apart == 1 else f" * {apart}"
    comment = (f"to[j, i{distance}] (+)= tile[i, j] for i < {rows}, j < columns",)
    name = f"store_across_{dtype.name}_{rows}" + (f"_by_{apart}" if apart > 1 else "") + ("" if n > 1 else "_each")
    return Kernel(name, (tile, to), free_variables((loop,)), (loop,), comment)


def square(dtype: DType, rows: int, apart: int, lanes: int) -> int:
    """The rows and columns of the squares that `store_across` transposes; 1 for single elements."""
    n = min(lanes, WIDEST_TURN // dtype.size)
    while n > rows:
        n //= 2
    return n if apart == 1 and n * dtype.size >= NARROWEST_TURN else 1
