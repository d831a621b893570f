"""Swept products: a matrix too large for the caches times few rows, reading the matrix once.

    z[m, n] = f(sum k { x[m, k] * y[k, n] })   with few m
    -->  for k in steps of 8: for n: z[:, n] (+)= x[:, k] * y[k, n] + .. + x[:, k + 7] * y[k + 7, n]

Memory runs along n. A tile that keeps a sum in registers would step over a row of y for each term, a page of memory
each time. Here eight rows are read side by side, and the accumulated rows stay in the first cache. `f` is applied last.
"""

from __future__ import annotations

from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Cond, Index, Var, as_index, cond, floor_divide
from pullback.ir.traverse import Substitution
from pullback.ir.types import DType
from pullback.loops.plain.builder import KernelBuilder, Places, free_variables
from pullback.loops.product.blocking import MemoryLoop, runs, whole_levels
from pullback.loops.product.contraction import is_affine, size
from pullback.loops.product.residues import Part
from pullback.loops.program import values
from pullback.loops.program.cover import cover, is_open
from pullback.loops.program.nodes import Assign, Call, For, Kernel, Let, LetIndex, Stmt, Store, either
from pullback.loops.program.values import Binary, Broadcast, Buffer, Load, Read, Temp, Type, Value, View
from pullback.machine import Machine
from pullback.records import dataclass, replace
from pullback.state import cached

TOGETHER = 8  # rows of the matrix read side by side
FEW = 4  # rows of the other factor


@dataclass(frozen=True)
class Sweep:
    """A product to sweep: the sum, both factors with addresses, the loops, and the row distances."""

    total: ir.Reduce
    left: tuple[Buffer, Index]
    right: tuple[Buffer, Index]
    row: Var | None
    column: MemoryLoop
    columns: tuple[Var, ...]
    depth: MemoryLoop
    room: tuple[Cond, ...] = ()


def find_sweep(part: Part, places: Places, machine: Machine) -> Sweep | None:
    """The sweep that computes a part; None unless the part is a suitable product and nothing else."""
    s = part.build
    total = s.values[0]
    if len(s.outs) != 1 or not isinstance(total, ir.Reduce) or total.op != "sum" or not total.dtype.is_floating:
        return None
    factors = total.arg.args if isinstance(total.arg, ir.Mul) else ()
    ways = (_sweep(part, total, fs, places, machine) for fs in (factors, factors[::-1]) if len(fs) == 2)
    return next((found for found in ways if found is not None), None)


def _sweep(
    part: Part, total: ir.Reduce, factors: tuple[ir.Scalar, ...], places: Places, machine: Machine
) -> Sweep | None:
    """The sweep of a matrix, the second of two factors, with rows of the first."""
    x, y = factors
    if not isinstance(x, ir.Get) or not isinstance(y, ir.Get):
        return None
    columns, rows = (tuple(v for v in part.build.vars if v in f.free) for f in (y, x))
    if {*columns} & {*rows} or len(columns) + len(rows) != len(part.build.vars) or len(rows) > 1:
        return None
    left, right = (places.address(f.ref, f.indices) for f in (x, y))
    if not all(is_affine(i) for _, i in (left, right)):
        return None
    across, there = runs(whole_levels(columns), right[1]), runs(whole_levels(columns), part.position)
    deep, along = runs(whole_levels(total.vars), right[1]), runs(whole_levels(total.vars), left[1])
    single = all(len(r) == 1 for r in (across, there, deep, along))
    if not single or across[0].step is not ONE_INDEX or there[0].step is not ONE_INDEX:
        return None
    height = rows[0].extent if rows else ONE_INDEX
    found = Sweep(total, left, right, rows[0] if rows else None, across[0], columns, deep[0])
    if any(map(is_open, (*part.build.vars, *total.vars))):
        lanes = machine.lanes(total.dtype.size)
        tests = (cond(">=", TOGETHER - 1 - height), cond(">=", across[0].trips - lanes))
        return None if False in tests else replace(found, room=tuple(t for t in tests if isinstance(t, Cond)))
    element = total.dtype.size
    apart = deep[0].distance * element >= machine.page // 4  # neighbors in a column share no page
    large = size((*columns, *total.vars)) * element >= machine.caches[1] // 4  # beyond the second cache
    return found if (height.constant or 0) <= FEW and apart and large else None


def sweep(found: Sweep, part: Part, builder: KernelBuilder, machine: Machine) -> list[Stmt]:
    """The loops: blocks of columns, and in each all rows of the matrix in order."""
    dtype = found.total.dtype
    lanes = machine.lanes(dtype.size)
    origin = Substitution(variables=dict.fromkeys((*part.build.vars, *found.total.vars), ZERO_INDEX))
    (x, x_at), (y, y_at) = found.left, found.right
    rows, x_row, z_row = ONE_INDEX, ZERO_INDEX, ZERO_INDEX
    if found.row is not None:
        rows = found.row.extent
        x_row, z_row = (i.coefficient(found.row) or ZERO_INDEX for i in (x_at, part.position))
    along = runs(whole_levels(found.total.vars), x_at)[0].step
    distances = {"x_step": along, "x_row": x_row, "y_row": found.depth.step, "z_row": z_row}
    z = builder.parameter(part.build.outs[0])
    steps, width = found.depth.trips, found.column.trips

    def columns(first: Index, count: Index) -> list[Stmt]:
        vectors = floor_divide(count, as_index(lanes)) * lanes

        def some(k: Index, together: int) -> list[Stmt]:
            def at(m: Index, many: int) -> list[Stmt]:
                views = (View(x, origin.index(x_at) + k * along + m * x_row),
                         View(y, origin.index(y_at) + k * found.depth.step + first),
                         View(z, origin.index(part.position) + first + m * z_row))
                numbers = {**distances, "width": vectors, "rest": count - vectors, "begun": k}
                kernel = add_rows(dtype, lanes, many, together, (count - vectors).constant)
                return [Call.by_name(kernel, views, numbers)]

            if rows.constant is not None and rows.constant <= FEW:
                return at(ZERO_INDEX, rows.constant)
            return cover(Var("m", rows), (FEW, 2, 1) if together == TOGETHER else (1,), at)

        return cover(Var("k", steps), (TOGETHER, 1 if steps.constant is None else steps.constant % TOGETHER), some)

    sums = machine.caches[0] // 4 // dtype.size  # that stay in the first cache
    if width.constant is None or rows.constant is None:
        most, first, count = (Var(name, sums + 1) for name in ("most", "first", "count"))
        block = Var("block", floor_divide(width + as_index(most) - 1, as_index(most)))
        body = (LetIndex(first, as_index(block) * as_index(most)),
                LetIndex(count, values.smallest(as_index(most), width - as_index(first))),
                *columns(as_index(first), as_index(count)))
        loop = For(block, ZERO_INDEX, block.extent, body, independent=True)
        vectors = floor_divide(as_index(sums // lanes), rows)
        return [LetIndex(most, values.largest(as_index(lanes), vectors * lanes)), loop]
    whole = min(width.constant, sums // rows.constant // lanes * lanes)
    n, full = Var("n", width), width.constant - width.constant % whole
    loop = For(n, ZERO_INDEX, as_index(full), tuple(columns(as_index(n), as_index(whole))), whole)
    rest = width - full
    return [loop, *(columns(as_index(full), rest) if rest is not ZERO_INDEX else [])]


@cached(64)
def add_rows(dtype: DType, lanes: int, rows: int, together: int, rest: int | None) -> Kernel:
    """The kernel z[m, n] (+)= sum over j of x[m, j] * y[j, n]; m < rows, j < together, n < width + rest.

    Index parameters: width, a multiple of the lanes; rest, where it is no number here; the distances of columns and
    rows of x, of rows of y and of z; and `begun`, 0 to overwrite z.
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
        out: list[Stmt] = [Let(t, values.Literal(0.0, wide), mutable=True) for t in sums]
        old = [Assign(t, Load(z, as_index(z_row) * m + at, wide)) for m, t in enumerate(sums)]
        out += either(cond(">=", as_index(begun) - 1), old)
        for j in range(together):
            row = Temp(f"y{j}", wide)
            out.append(Let(row, Load(y, as_index(y_row) * j + at, wide), held=n > 1 and rows > 1))
            for m, t in enumerate(sums):
                factor: Value = Read(factors[m, j]) if n == 1 else Broadcast(Read(factors[m, j]), wide)
                out.append(Assign(t, Binary("+", Read(t), Binary("*", factor, Read(row), wide), wide)))
        return [*out, *(Store(z, as_index(z_row) * m + at, Read(t)) for m, t in enumerate(sums))]

    n = Var("n", big)
    body.append(For(n, ZERO_INDEX, as_index(width), tuple(step(as_index(n), lanes)), lanes))
    if rest != 0:
        r, more = Var("n", big), as_index(Var("rest", lanes) if rest is None else rest)
        body.append(For(r, as_index(width), as_index(width) + more, tuple(step(as_index(r), 1))))
    name = f"add_rows_{dtype.name}_{rows}x{together}"
    comment = (f"z[m, n] (+)= sum over j of x[m, j] * y[j, n] for m < {rows}, j < {together}",)
    return Kernel(name, (x, y, z), free_variables(tuple(body)), tuple(body), comment)
