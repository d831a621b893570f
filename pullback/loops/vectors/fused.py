"""A group as loops: vectors along one variable of its space, temporaries for what is shared, sums on the way.

    for m < M:                                    -- outer variables of the space, in order
        what depends on m alone
        sum = 0                                   -- sums over inner variables
        for n < N in vectors:                     -- the vector variable
            loads, values, stores; sum += ..;  h[n ..] += .. (a sum over m alone)
        w[m] = the lanes of sum added

Outputs with a stride along the vector variable, as the coordinates of points, are stored by rows: neighbouring
elements of one point together, the vectors transposed in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pullback.ir import expr
from pullback.ir.expr import Apply, Get, Ref, Scalar
from pullback.ir.index import ZERO_INDEX, Index, Var, as_index
from pullback.ir.traverse import Substitution, rewrite, walk
from pullback.loops.analysis.estimates import points_cycles
from pullback.loops.plain.scalar import hint
from pullback.loops.program.cover import cover, halves, is_open, typical
from pullback.loops.program.nodes import Assign, Binary, Buffer, Fill, For, Read, Stmt, Store, StoreRows, Value
from pullback.loops.program.schedule import Exchange, Schedule, Vector
from pullback.loops.vectors.fused_values import OPERATOR, Place, PlaceWriter, PointRow, Sum
from pullback.loops.vectors.group_nest import GroupNest, Out
from pullback.loops.vectors.lanes import chain, widened
from pullback.loops.vectors.nest import narrower, stride
from pullback.loops.vectors.reciprocals import Reciprocals
from pullback.machine import Machine

Scratch = Callable[[int, str, Index], Buffer]
ROWS = 4  # of an outer variable taken together where that saves loads and stores
MANY = 100  # nodes at a point above which rows are not taken together
LIGHT = 16  # operations of a point below which that is so


def nest_loops(nest: GroupNest, machine: Machine, scratch: Scratch) -> tuple[Stmt, ...]:
    """The loops of a nest, which is used up by it.

    Args:
        machine: what they are for; one without vectors for plain loops.
        scratch: gives working memory: which one, its name and number of elements.
    """
    return tuple(_GroupWriter(nest, machine).statements(scratch))


def nest_cycles(nest: GroupNest, machine: Machine) -> float:
    """What the loops are estimated to take."""
    return points_cycles(nest.values(), nest.space, machine, machine.lanes(nest.dtype.size), nest.axis)


def nest_schedule(nest: GroupNest, machine: Machine) -> Schedule:
    """What the loops do."""
    lanes, axis = machine.lanes(nest.dtype.size), nest.axis
    moved = axis is not nest.space[-1]
    exchanged = (Exchange(nest.space[-1].name, axis.name),) if moved else ()
    rest = tuple(narrower(typical(axis) % lanes, lanes)) if not is_open(axis) else ()
    return Schedule((*exchanged, Vector(axis.name, lanes, rest=rest)))


class _GroupWriter:
    def __init__(self, nest: GroupNest, machine: Machine) -> None:
        self.nest = nest
        self.machine = machine
        self.dtype = nest.dtype
        self.order = nest.order
        self.axis = nest.axis
        self.widest = machine.lanes(nest.dtype.size)
        self.writer = PlaceWriter(nest)

    def statements(self, scratch: Scratch) -> list[Stmt]:
        """All of it."""
        reciprocals = Reciprocals(self.order, self.nest.values(), self.nest.definitions)
        self.nest.map(reciprocals.scalar)
        self.nest.definitions |= reciprocals.made
        rows = self._tables(scratch)
        self.writer.count_uses(self.nest.values())
        fills: dict[Buffer, None] = {o.buffer: None for o in self.nest.outs if self.nest.gathered(o)}
        start: list[Stmt] = [Fill(b, ZERO_INDEX, b.elements) for b in fills]
        return rows + start + self._level(0, [PointRow({})])

    def _tables(self, scratch: Scratch) -> list[Stmt]:
        """Loops that fill a row with each costly value that depends on the vector variable alone, before all others."""
        if len(self.order) < 2:
            return []
        tables: dict[Scalar, Scalar] = {}
        out: list[Stmt] = []
        for value in self.nest.values():
            for n in walk(value):
                costly = isinstance(n, Apply) and (n.primitive.name == "divide" or n.primitive.transcendental)
                if costly and self.writer.own(n) == {self.axis} and n not in tables and not self._reads_written(n):
                    name = hint(n)
                    ref = Ref(name, self.dtype, (self.axis.extent,))
                    buffer = scratch(len(tables), name, self.axis.extent)
                    outs = [Out(buffer, as_index(self.axis), n)]
                    nest = replace(self.nest, space=(self.axis,), order=(self.axis,), outs=outs)
                    row = _GroupWriter(nest, self.machine)
                    row.writer.count_uses(row.nest.values())
                    out += row._level(0, [PointRow({})])
                    tables[n] = expr.get(ref, self.axis)
                    self.nest.buffers = {**self.nest.buffers, ref: buffer}
        self.nest.map(lambda v: rewrite(v, tables.get))
        return out

    def _reads_written(self, e: Scalar) -> bool:
        """Whether a value reads what the group writes, or what it defines."""
        written = {o.buffer for o in self.nest.outs}
        gets = [n.ref for n in walk(e) if isinstance(n, Get)]
        return any(r in self.nest.definitions or self.nest.buffers[r] in written for r in gets)

    def _level(self, depth: int, rows: list[PointRow]) -> list[Stmt]:
        """Everything inside the first `depth` loops: values known there, accumulators, the next loop, results."""
        for row in rows:
            row.places.append(Place(depth, 1, row.at, []))
        mine = [o for o in self.nest.outs if o.over and not self.nest.gathered(o) and self.nest.first(o) == depth]
        sums = [(row, o) for row in rows for o in mine]
        for row, o in sums:
            row.sums[o] = Sum(o, self.dtype)
        loops = self._vectors(rows) if depth == len(self.order) - 1 else self._outer(depth, rows[0])
        begin = [s for row, o in sums for s in row.sums[o].start()]
        end = [s for row, o in sums for s in self._finish(o, row)]
        return [s for row in rows for s in row.places.pop().out] + begin + loops + end

    def _outer(self, depth: int, row: PointRow) -> list[Stmt]:
        """The loop over an outer variable; several of its rows together where the innermost loop adds to an output."""
        v = self.order[depth]
        extent = typical(v)
        together = 1
        if depth == len(self.order) - 2 and extent >= 2 * ROWS and any(self.nest.gathered(o) for o in self.nest.outs):
            together = ROWS if len(self.writer.uses) <= MANY else 1

        def several(start: Index, count: int) -> list[Stmt]:
            return self._level(depth + 1, [row.at_row({**row.at, v: start + k}) for k in range(count)])

        if is_open(v):
            return cover(v, tuple(dict.fromkeys((together, 1))), several)
        out: list[Stmt] = []
        done = 0
        for count in dict.fromkeys((together, 1)):
            trips = (extent - done) // count
            if trips:
                loop = Var(v.name, v.extent)
                end = done + trips * count
                out.append(For(loop, as_index(done), as_index(end), tuple(several(as_index(loop), count)), count))
                done = end
        return out

    def _finish(self, o: Out, row: PointRow) -> list[Stmt]:
        """The result of a reduction, what is done with it, and its store."""
        assert o.whole is not None
        assert o.total is not None
        out: list[Stmt] = []
        place = Place(len(row.at), 1, row.at, out, {o.total: row.sums[o].total(out)})
        value = self.writer.value(o.whole, place, row)
        return [*out, Store(o.buffer, Substitution(variables=row.at).index(o.offset), value)]

    def _vectors(self, rows: list[PointRow]) -> list[Stmt]:
        """The loop over the vector variable: several vectors at a time, one at a time, then narrower ones."""
        extent = typical(self.axis)
        ways = self._ways(extent) if len(rows) == 1 else 1
        if is_open(self.axis):

            def points(start: Index, size: int) -> list[Stmt]:
                return self._points(rows, start, max(size // self.widest, 1), min(size, self.widest))

            return cover(self.axis, tuple(dict.fromkeys((ways * self.widest, *halves(self.widest)))), points, "vector")
        out: list[Stmt] = []
        done = 0
        for together in dict.fromkeys((ways, 1)):
            step = together * self.widest
            trips = (extent - done) // step
            if trips > 1:
                loop = Var(self.axis.name, self.axis.extent)
                body = self._points(rows, as_index(loop), together, self.widest)
                out.append(For(loop, as_index(done), as_index(done + trips * step), tuple(body), step, "vector"))
            elif trips:
                out += self._points(rows, as_index(done), together, self.widest)
            done += trips * step
        for lanes in narrower(extent - done, self.widest):
            out += self._points(rows, as_index(done), 1, lanes)
            done += lanes
        return out

    def _ways(self, extent: int) -> int:
        """Vectors taken together."""
        summed = any(self.axis in o.over for o in self.nest.outs)
        work = sum(10 if isinstance(n, Apply) and n.primitive.transcendental else 1 for n in self.writer.uses)
        ways = self.machine.chains
        return ways if summed and work <= LIGHT and extent >= 2 * ways * self.widest else 1

    def _points(self, rows: list[PointRow], start: Index, together: int, lanes: int) -> list[Stmt]:
        """One step: the values of `together` vectors of each row, then their stores."""
        out: list[Stmt] = []
        stores = [] if self._overwrites() else out  # what is overwritten is read first
        for way in range(together):
            here = start + way * lanes
            shared: dict[Scalar, Value] = {}  # what is the same for all rows
            added: dict[tuple[Buffer, Index], list[Value]] = {}
            for row in rows:
                place = Place(len(self.order), lanes, {**row.at, self.axis: here}, out, shared=shared)
                m = Substitution(variables=place.at)
                strided: list[tuple[Out, Index, Value]] = []
                for o in self.nest.outs:
                    value = widened(self.writer.value(o.value, place, row), lanes)
                    if o.over and not self.nest.gathered(o):
                        t = row.sums[o].temp(lanes, way)
                        out.append(Assign(t, Binary(OPERATOR[o.op], Read(t), value, t.type)))
                        continue
                    offset = m.index(o.offset)
                    if o.over:
                        added.setdefault((o.buffer, offset), []).append(value)
                    elif lanes == 1 or stride(o.offset, self.axis) == 1:
                        stores.append(Store(o.buffer, offset, self.writer.named(value, "value", out)))
                    else:
                        strided.append((o, offset, self.writer.named(value, "value", out)))
                stores += self._rows(strided, lanes)
            stores += [Store(b, i, chain("+", values), accumulate=True) for (b, i), values in added.items()]
        return out + stores if stores is not out else out

    def _overwrites(self) -> bool:
        """Whether something is both read and written."""
        return not {o.buffer for o in self.nest.outs}.isdisjoint(self.nest.buffers[g.ref] for g in self.nest.gets())

    def _rows(self, rows: list[tuple[Out, Index, Value]], lanes: int) -> list[Stmt]:
        """Stores with a stride: neighbouring elements of a point together where there are enough of them."""
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
