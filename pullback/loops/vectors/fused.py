"""A group as loops: vectors along one variable, shared temporaries, and sums.

    for m < M:                                    -- outer variables of the space, in order
        values that depend on m alone
        sum = 0                                   -- sums over inner variables
        for n < N in vectors:                     -- the vector variable
            loads, values, stores; sum += ..;  h[n ..] += .. (a sum over m alone)
        w[m] = the lanes of sum added

Outputs with a stride along the vector variable, such as coordinates of points, are stored by rows. Neighboring elements
of one point are stored together, and vectors are transposed in registers.
"""

from __future__ import annotations

from collections.abc import Callable

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Index, Var, as_index
from pullback.ir.traverse import Substitution, count_uses, rewrite, walk
from pullback.loops.analysis.estimates import points_cycles
from pullback.loops.plain.scalar import hint, named
from pullback.loops.program.cover import cover, halves, is_open, narrower, typical
from pullback.loops.program.nodes import Fill, Stmt, Store, StoreRows
from pullback.loops.program.schedule import Exchange, Schedule, Vector
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Buffer, Value
from pullback.loops.vectors.accumulators import Accumulators
from pullback.loops.vectors.lanes import chain, widened
from pullback.loops.vectors.nest import Nest, Out, stride
from pullback.loops.vectors.reciprocals import with_reciprocals
from pullback.loops.vectors.writer import Writer
from pullback.machine import Machine
from pullback.records import dataclass, field, replace

Scratch = Callable[[int, str, Index], Buffer]
ROWS = 4  # rows of an outer variable processed together to save loads and stores
MANY = 100  # rows are not processed together if a point has more nodes
LIGHT = 16  # most operations of a point at which sums take several vectors together


def nest_loops(nest: Nest, machine: Machine, scratch: Scratch) -> tuple[Stmt, ...]:
    """The loops of a nest.

    Args:
        machine: the target; a machine without vectors gives plain loops.
        scratch: gives working memory by key, name and number of elements.
    """
    return tuple(_GroupWriter(nest, machine).statements(scratch))


def nest_cycles(nest: Nest, machine: Machine) -> float:
    """The estimated cycles of the loops."""
    values, stored = with_reciprocals(nest, nest.order).values, sum(not o.over for o in nest.outs)
    return points_cycles(values, nest.order, machine, machine.lanes(nest.dtype.size), nest.axis, stored)


def nest_schedule(nest: Nest, machine: Machine) -> Schedule:
    """The schedule of the loops."""
    lanes, axis = machine.lanes(nest.dtype.size), nest.axis
    moved = axis is not nest.variables[-1]
    exchanged = (Exchange(nest.variables[-1].name, axis.name),) if moved else ()
    rest = tuple(narrower(typical(axis) % lanes, lanes)) if not is_open(axis) else ()
    return Schedule((*exchanged, Vector(axis.name, lanes, rest=rest)))


@dataclass
class PointRow:
    """A value for each outer variable so far, and the sums over inner ones."""

    at: dict[Var, Index]
    sums: dict[Out, Accumulators] = field(default_factory=dict)

    def further(self, v: Var, value: Index) -> PointRow:
        """The row one loop further in."""
        return PointRow({**self.at, v: value}, dict(self.sums))


class _GroupWriter:
    def __init__(self, nest: Nest, machine: Machine) -> None:
        self.nest = nest
        self.machine = machine
        self.dtype = nest.dtype
        self.order = nest.order
        self.axis = nest.axis
        self.widest = machine.lanes(nest.dtype.size)

    def statements(self, scratch: Scratch) -> list[Stmt]:
        """All statements of the loops."""
        self.nest = with_reciprocals(self.nest, self.order)
        rows = self._tables(scratch)
        fills: dict[Buffer, None] = {o.buffer: None for o in self.nest.outs if self.nest.gathered(o)}
        start: list[Stmt] = [Fill(b, ZERO_INDEX, b.elements) for b in fills]
        return [*rows, *start, *self.loops()]

    def loops(self) -> list[Stmt]:
        """The loops over all points."""
        self.writer = Writer.of_group(self.nest)
        self.nodes = count_uses(self.nest.values)
        root = Scope()
        self._level(0, [PointRow({})], root)
        return root.statements

    def _tables(self, scratch: Scratch) -> list[Stmt]:
        """Loops that precompute rows of costly values that depend on the vector variable alone."""
        if len(self.order) < 2:
            return []
        tables: dict[ir.Scalar, ir.Scalar] = {}
        buffers = dict(self.nest.buffers)
        out: list[Stmt] = []
        for value in self.nest.values:
            for n in walk(value):
                costly = isinstance(n, ir.Apply) and (n.primitive.name == "divide" or n.primitive.transcendental)
                own = n.free & frozenset(self.order)
                if costly and own == {self.axis} and n not in tables and not self._reads_written(n):
                    name = hint(n)
                    ref = ir.Ref(name, self.dtype, (self.axis.extent,))
                    buffer = scratch(len(tables), name, self.axis.extent)
                    row = (Out(buffer, as_index(self.axis), n),)
                    out += _GroupWriter(replace(self.nest, variables=(self.axis,), outs=row), self.machine).loops()
                    tables[n] = expr.get(ref, self.axis)
                    buffers[ref] = buffer
        self.nest = replace(self.nest.map(lambda v: rewrite(v, tables.get)), buffers=buffers)
        return out

    def _reads_written(self, e: ir.Scalar) -> bool:
        """Whether a value reads arrays that the group writes or defines."""
        written = {o.buffer for o in self.nest.outs}
        gets = [n.ref for n in walk(e) if isinstance(n, ir.Get)]
        return any(r in self.nest.definitions or self.nest.buffers[r] in written for r in gets)

    def _level(self, depth: int, rows: list[PointRow], scope: Scope) -> None:
        """Everything inside the first `depth` loops: accumulators, the next loop, results."""
        mine = [o for o in self.nest.outs if o.over and not self.nest.gathered(o) and self.nest.first(o) == depth]
        sums = [(row, o) for row in rows for o in mine]
        for row, o in sums:
            row.sums[o] = Accumulators(o.op, self.dtype)
        mark = len(scope.statements)
        if depth == len(self.order) - 1:
            self._vectors(rows, scope)
        else:
            self._outer(depth, rows[0], scope)
        scope.statements[mark:mark] = [s for row, o in sums for s in row.sums[o].start()]
        for row, o in sums:
            self._finish(o, row, scope)

    def _outer(self, depth: int, row: PointRow, scope: Scope) -> None:
        """Loop over an outer variable, several rows at once if the innermost loop adds to an output."""
        v = self.order[depth]
        together = self._together if depth == len(self.order) - 2 else 1

        def several(start: Index, count: int) -> list[Stmt]:
            inside = scope.step(start, not is_open(v))
            self._level(depth + 1, [row.further(v, start + k) for k in range(count)], inside)
            return inside.statements

        scope.statements += cover(v, (together, 1), several)

    @property
    def _together(self) -> int:
        """The number of rows, of the variable around the vectors, that are processed together."""
        far = self.nest.elements * self.dtype.size >= self.machine.caches[0]
        streams = far and any(not o.over for o in self.nest.outs)  # rows that are written are as many, to memory
        if len(self.order) < 2 or typical(self.order[-2]) < 2 * ROWS or len(self.nodes) > MANY or streams:
            return 1
        return ROWS if any(map(self.nest.gathered, self.nest.outs)) else 1

    def _finish(self, o: Out, row: PointRow, scope: Scope) -> None:
        """The result of a reduction, its epilogue, and its store."""
        assert o.whole is not None
        assert o.total is not None
        m = Substitution(variables=row.at)
        after = scope.after(o.total, row.sums[o].total(scope.statements))
        value = self.writer.value(m.scalar(o.whole), after)
        scope.statements.append(Store(o.buffer, m.index(o.offset), value))

    def _vectors(self, rows: list[PointRow], scope: Scope) -> None:
        """The loop over the vector variable: several vectors at a time, one at a time, then narrower ones."""
        ways = self._ways(typical(self.axis)) if self._together == 1 else 1  # the same for single and joint rows

        def points(start: Index, size: int) -> list[Stmt]:
            inside = scope.step(start, not is_open(self.axis))
            self._points(rows, start, (max(size // self.widest, 1), min(size, self.widest)), inside)
            return inside.statements

        scope.statements += cover(self.axis, (ways * self.widest, *halves(self.widest)), points, "vector")

    def _ways(self, extent: int) -> int:
        """The number of vectors processed together."""
        summed = any(self.axis in o.over for o in self.nest.outs)
        work = sum(10 if isinstance(n, ir.Apply) and n.primitive.transcendental else 1 for n in self.nodes)
        ways = self.machine.chains
        return ways if summed and work <= LIGHT and extent >= 2 * ways * self.widest else 1

    def _points(self, rows: list[PointRow], start: Index, vectors: tuple[int, int], scope: Scope) -> None:
        """A step: vectors of values for each row, then their stores."""
        together, lanes = vectors
        stores = [] if self._overwrites() else scope.statements  # overwritten values are read first
        for way in range(together):
            inside, here = self.writer.inside(scope, start + way * lanes, lanes)
            places = [Substitution(variables={**row.at, self.axis: here}) for row in rows]
            values = [[m.scalar(o.value) for o in self.nest.outs] for m in places]
            self.writer.count(v for row in values for v in row)
            added: dict[tuple[Buffer, Index], list[Value]] = {}
            for row, m, of_row in zip(rows, places, values, strict=True):
                strided: list[tuple[Out, Index, Value]] = []
                for o, e in zip(self.nest.outs, of_row, strict=True):
                    value = widened(self.writer.value(e, inside), lanes)
                    offset = self.writer.first(m.index(o.offset), lanes)
                    if o.over and not self.nest.gathered(o):
                        scope.statements.append(row.sums[o].add(value, lanes, way))
                    elif o.over:
                        added.setdefault((o.buffer, offset), []).append(value)
                    elif lanes == 1 or stride(o.offset, self.axis) == 1:
                        stores.append(Store(o.buffer, offset, named(value, "value", inside)))
                    else:
                        strided.append((o, offset, named(value, "value", inside)))
                stores += self._rows(strided, lanes)
            stores += [Store(b, i, chain("+", values), accumulate=True) for (b, i), values in added.items()]
        if stores is not scope.statements:
            scope.statements += stores

    def _overwrites(self) -> bool:
        """Whether an array is both read and written."""
        return not {o.buffer for o in self.nest.outs}.isdisjoint(self.nest.buffers[g.ref] for g in self.nest.gets)

    def _rows(self, rows: list[tuple[Out, Index, Value]], lanes: int) -> list[Stmt]:
        """Strided stores: neighboring elements of a point together if there are enough."""
        out: list[Stmt] = []
        left = list(rows)
        while left:
            first, base, _ = left[0]
            step = stride(first.offset, self.axis)
            near: dict[int, Value] = {}
            rest = []
            for o, offset, value in left:
                distance = (offset - base).constant
                if o.buffer is first.buffer and distance is not None and stride(o.offset, self.axis) == step:
                    near[distance] = value
                else:
                    rest.append((o, offset, value))
            left = rest
            assert step is not None
            for run in _runs(sorted(near)):
                at = 0
                while len(run) - at >= lanes:
                    values = tuple(near[d] for d in run[at : at + lanes])
                    out.append(StoreRows(first.buffer, base + run[at], step, values))
                    at += lanes
                if at < len(run) and len(run) >= lanes:
                    at = len(run) - lanes
                    out.append(StoreRows(first.buffer, base + run[at], step, tuple(near[d] for d in run[at:])))
                    continue
                out += [StoreRows(first.buffer, base + d, step, (near[d],)) for d in run[at:]]
        return out


def _runs(numbers: list[int]) -> list[list[int]]:
    """Maximal runs of consecutive numbers."""
    out: list[list[int]] = []
    for n in numbers:
        if out and n == out[-1][-1] + 1:
            out[-1].append(n)
        else:
            out.append([n])
    return out
