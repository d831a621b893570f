"""Products with a matrix too large for the caches and few rows on the other side: the matrix is read once, in order.

    z[m, n] = f(sum k { x[m, k] * y[k, n] })   with few m
    -->  for k in steps of 8: for n: z[:, n] (+)= x[:, k] * y[k, n] + .. + x[:, k + 7] * y[k + 7, n]

Memory runs along n. A tile that keeps a sum in registers would step over a row of y for each term, a page of memory
each time; here eight rows are read side by side, and what is summed stays in the first cache. `f` comes last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pullback.ir.expr import Bracket, Get, Mul, Reduce
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Index, Var, as_index, cond
from pullback.ir.traverse import Substitution
from pullback.ir.types import DType
from pullback.loops.plain.builder import KernelBuilder, Places, free_variables
from pullback.loops.product.blocking import MemoryLoop, runs, whole_levels
from pullback.loops.product.contraction import size
from pullback.loops.product.residues import Part
from pullback.loops.program.cover import is_open
from pullback.loops.program.nodes import Assign, Call, For, If, Kernel, Let, Stmt, Store
from pullback.loops.program.values import Binary, Broadcast, Buffer, Holds, Literal, Load, Read, Temp, Type, Value, View
from pullback.loops.vectors.nest import stride
from pullback.machine import Machine

TOGETHER = 8  # rows of the matrix read side by side
FEW = 4  # rows of the other factor


@dataclass(frozen=True)
class Sweep:
    """A product to be swept: the sum, both factors with their addresses, the loops, and the distance of rows."""

    total: Reduce
    left: tuple[Buffer, Index]
    right: tuple[Buffer, Index]
    row: Var | None
    column: MemoryLoop
    columns: tuple[Var, ...]
    depth: MemoryLoop


def find_sweep(part: Part, places: Places, machine: Machine) -> Sweep | None:
    """The sweep a part is, if it is one and its value is the sum alone."""
    s = part.build
    total = s.values[0]
    if len(s.outs) != 1 or not isinstance(total, Reduce) or total.op != "sum" or isinstance(total.arg, Bracket):
        return None
    if not isinstance(total.arg, Mul) or len(total.arg.args) != 2 or not total.dtype.is_floating:
        return None
    for x, y in (total.arg.args, total.arg.args[::-1]):
        if isinstance(x, Get) and isinstance(y, Get):
            columns = tuple(v for v in s.vars if v in y.free)
            rows = tuple(v for v in s.vars if v in x.free)
            if set(columns).isdisjoint(rows) and len(columns) + len(rows) == len(s.vars) and len(rows) <= 1:
                found = _sweep(part, places, (x, y), rows[0] if rows else None, columns, machine)
                if found is not None:
                    return found
    return None


def _sweep(
    part: Part, places: Places, factors: tuple[Get, Get], row: Var | None, columns: tuple[Var, ...], machine: Machine
) -> Sweep | None:
    total = part.build.values[0]
    assert isinstance(total, Reduce)
    left, right = (places.address(f.ref, f.indices) for f in factors)
    if any(len(m) > 1 or any(not isinstance(a, Var) for a in m) for _, i in (left, right) for m, _ in i.terms):
        return None
    if any(map(is_open, (*part.build.vars, *total.vars))) or (row is not None and (row.extent.constant or 0) > FEW):
        return None
    across, there = runs(whole_levels(columns), right[1]), runs(whole_levels(columns), part.position)
    deep, along = runs(whole_levels(total.vars), right[1]), runs(whole_levels(total.vars), left[1])
    single = all(len(r) == 1 for r in (across, there, deep, along))
    if not single or across[0].step is not ONE_INDEX or there[0].step is not ONE_INDEX:
        return None
    element = total.dtype.size
    if deep[0].distance * element < machine.page // 4:  # neighbours in a column may share something
        return None
    if size((*columns, *total.vars)) * element < machine.caches[1] // 4:  # it stays in the second cache
        return None
    return Sweep(total, left, right, row, across[0], columns, deep[0])


def sweep(found: Sweep, part: Part, builder: KernelBuilder, machine: Machine) -> list[Stmt]:
    """The loops: blocks of columns, and in each all rows of the matrix in order."""
    dtype = found.total.dtype
    lanes = machine.lanes(dtype.size)
    sums = machine.caches[0] // 4  # bytes of them that stay in the first cache
    steps, width = found.depth.trips.constant or 0, found.column.trips.constant or 0
    origin = Substitution(variables=dict.fromkeys((*part.build.vars, *found.total.vars), ZERO_INDEX))
    (x, x_at), (y, y_at) = found.left, found.right
    rows, x_row, z_row = 1, 0, 0
    if found.row is not None:
        rows = found.row.extent.constant or 1
        x_row, z_row = (stride(i, found.row) or 0 for i in (x_at, part.position))
    along = runs(whole_levels(found.total.vars), x_at)[0].step
    z = builder.parameter(part.build.outs[0])

    def some(first: Index, count: int, k: Index, together: int) -> Stmt:
        views = (
            View(x, origin.index(x_at) + k * along),
            View(y, origin.index(y_at) + k * found.depth.step + first),
            View(z, origin.index(part.position) + first),
        )
        numbers: dict[str, Index | int] = {
            "width": count // lanes * lanes,
            "x_step": along,
            "x_row": x_row,
            "y_row": found.depth.step,
            "z_row": z_row,
            "begun": k,
        }
        return Call.by_name(add_rows(dtype, lanes, rows, together, count % lanes), views, numbers)

    def columns(first: Index, count: int) -> list[Stmt]:
        whole = steps - steps % TOGETHER
        k = Var("k", steps)
        out: list[Stmt] = []
        if whole:
            out.append(For(k, ZERO_INDEX, as_index(whole), (some(first, count, as_index(k), TOGETHER),), TOGETHER))
        if steps > whole:
            out.append(some(first, count, as_index(whole), steps - whole))
        return out

    block = min(width, sums // (dtype.size * rows) // lanes * lanes)
    full = width - width % block
    n = Var("n", width)
    loop = For(n, ZERO_INDEX, as_index(full), tuple(columns(as_index(n), block)), block)
    return [loop, *(columns(as_index(full), width - full) if width > full else [])]


@lru_cache(maxsize=64)
def add_rows(dtype: DType, lanes: int, rows: int, together: int, rest: int) -> Kernel:
    """z[m, n] (+)= sum over j of x[m, j] * y[j, n], for m < rows, j < together, n < width + rest.

    Index parameters: width, a multiple of the lanes; the distances of columns and rows of x, of rows of y and of z;
    and `begun`, 0 where z is to be overwritten.
    """
    width, x_step, x_row, y_row, z_row, begun = (
        Var(name, 1 << 40) for name in ("width", "x_step", "x_row", "y_row", "z_row", "begun")
    )
    big = as_index(1 << 40)
    x, y, z = (Buffer(name, dtype, (big,), "parameter", big, name == "z") for name in ("x", "y", "z"))
    one = Type(dtype)
    body: list[Stmt] = []
    factors: dict[tuple[int, int], Temp] = {}
    for m in range(rows):
        for j in range(together):
            factors[m, j] = Temp(f"x{m}_{j}", one)
            at = as_index(x_row) * m + as_index(x_step) * j
            body.append(Let(factors[m, j], Load(x, at, one)))

    def step(at: Index, n: int) -> list[Stmt]:
        """The sums at n columns; old ones are added first, so that terms come in order."""
        wide = Type(dtype, n)
        sums = [Temp(f"z{m}", wide) for m in range(rows)]
        out: list[Stmt] = [Let(t, Literal(0.0, wide), mutable=True) for t in sums]
        more = cond(">=", as_index(begun) - 1)
        assert not isinstance(more, bool)
        old = tuple(Assign(t, Load(z, as_index(z_row) * m + at, wide)) for m, t in enumerate(sums))
        out.append(If(Holds((more,)), old))
        for j in range(together):
            row = Temp(f"y{j}", wide)
            out.append(Let(row, Load(y, as_index(y_row) * j + at, wide), held=n > 1 and rows > 1))
            for m, t in enumerate(sums):
                factor: Value = Read(factors[m, j]) if n == 1 else Broadcast(Read(factors[m, j]), wide)
                out.append(Assign(t, Binary("+", Read(t), Binary("*", factor, Read(row), wide), wide)))
        return [*out, *(Store(z, as_index(z_row) * m + at, Read(t)) for m, t in enumerate(sums))]

    n = Var("n", big)
    body.append(For(n, ZERO_INDEX, as_index(width), tuple(step(as_index(n), lanes)), lanes))
    if rest:
        r = Var("n", big)
        body.append(For(r, as_index(width), as_index(width) + rest, tuple(step(as_index(r), 1))))
    name = f"add_rows_{dtype.name}_{rows}x{together}"
    comment = (f"z[m, n] (+)= sum over j of x[m, j] * y[j, n] for m < {rows}, j < {together}",)
    return Kernel(name, (x, y, z), free_variables(tuple(body)), tuple(body), comment)
