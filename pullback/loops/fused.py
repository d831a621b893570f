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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pullback.ir import expr
from pullback.ir.expr import Add, Apply, Const, FromIndex, Get, Mul, Ref, Scalar, Select, Zero
from pullback.ir.index import ZERO_INDEX, Index, Var, as_index
from pullback.ir.traverse import Substitution, children, rebuilt, rewrite, walk
from pullback.ir.types import DType, bool_, dtype_named
from pullback.loops import nodes
from pullback.loops.group import CLASSES, COMPARISONS, Group
from pullback.loops.nest import Address, narrower, stride
from pullback.loops.nodes import (
    Across,
    Assign,
    Binary,
    Broadcast,
    Buffer,
    Choice,
    Fill,
    For,
    Gather,
    IndexValue,
    Invoke,
    Let,
    Literal,
    Load,
    Read,
    Stmt,
    Store,
    StoreRows,
    Temp,
    Type,
    Value,
)
from pullback.loops.vector_math import VECTOR_FUNCTIONS, vector_source

Scratch = Callable[[int, str, int], Buffer]
NEUTRAL: Final[Mapping[str, float]] = {"sum": 0.0, "max": -float("inf"), "min": float("inf")}
OPERATOR: Final[Mapping[str, nodes.BinaryOp]] = {"sum": "+", "max": "max", "min": "min"}
ROWS = 4  # of an outer variable taken together where that saves loads and stores
MANY = 100  # nodes at a point above which rows are not taken together
WAYS = 4  # vectors taken together where a sum would wait for itself
LIGHT = 16  # operations of a point below which that is so
TALL = 8  # what nests deeper than this gets a name


@dataclass(eq=False)
class _Out:
    """One element of an output at a point of the space, or what is summed into it."""

    buffer: Buffer
    offset: Index
    value: Scalar
    over: frozenset[Var] = frozenset()
    op: str = ""
    total: Scalar | None = None
    whole: Scalar | None = None


def fused_loops(
    group: Group, address: Address, stored: frozenset[Ref], vector_bytes: int, scratch: Scratch
) -> tuple[Stmt, ...] | None:
    """The loops of a group, or None where its outputs cannot be written while it runs.

    Args:
        address: where an element lies.
        stored: the arrays of the group that are read after it.
        vector_bytes: size of a vector register; the size of an element for plain loops.
        scratch: gives working memory: which one, its name and number of elements.
    """
    flat: dict[Buffer, Ref] = {}
    buffers: dict[Ref, Buffer] = {}

    def element(ref: Ref, indices: tuple[Index, ...]) -> Scalar:
        buffer, offset = address(ref, indices)
        if buffer not in flat:
            flat[buffer] = Ref(buffer.name, ref.dtype, (buffer.elements,))
            buffers[flat[buffer]] = buffer
        return expr.get(flat[buffer], offset)

    shared = _shared(group, stored)
    definitions: dict[Ref, Scalar] = {}

    def known(ref: Ref, indices: tuple[Index, ...]) -> Scalar:
        if ref in totals:
            return expr.get(ref)
        if ref not in group.definitions:
            return element(ref, indices)
        value = m.scalar(group.definitions[ref])
        if ref not in shared:
            return value
        definitions[ref] = value
        return expr.get(ref, *indices)

    totals = {i.total.ref for i in group.items if isinstance(i.total, Get)}
    m = Substitution(get=known)
    outs = []
    for i in group.items:
        if i.out in stored:
            buffer, offset = address(i.out, i.indices)
            whole = None if i.whole is None else m.scalar(i.whole)
            outs.append(_Out(buffer, offset, m.scalar(i.value), i.over, i.op, i.total, whole))
    loops = _Loops(group.space, group.dtype, outs, definitions, buffers, vector_bytes // group.dtype.size)
    loops.merge()
    return tuple(loops.statements(scratch)) if loops.possible() else None


def _shared(group: Group, stored: frozenset[Ref]) -> set[Ref]:
    """The definitions that are used more than once."""
    counts: dict[Ref, int] = {}
    pending = [i.value for i in group.items if i.out in stored]
    for v in pending:  # grows: a definition is looked into when it is first met
        uses = [v] if isinstance(v, Get) else [c for n in walk(v) for c in children(n)]
        for c in uses:
            if isinstance(c, Get) and c.ref in group.definitions:
                counts[c.ref] = counts.get(c.ref, 0) + 1
                if counts[c.ref] == 1:
                    pending.append(group.definitions[c.ref])
    return {r for r, n in counts.items() if n > 1}


@dataclass
class _Place:
    """Where values are written: inside so many loops, for so many lanes, with the space's variables so."""

    depth: int
    lanes: int
    at: dict[Var, Index]
    out: list[Stmt]
    memo: dict[Scalar, Value] = field(default_factory=dict)
    shared: dict[Scalar, Value] = field(default_factory=dict)


@dataclass
class _Row:
    """One value of each outer variable: the places of values on the way inwards, outermost first, and accumulators."""

    at: dict[Var, Index]
    places: list[_Place] = field(default_factory=list)
    sums: dict[_Out, _Sum] = field(default_factory=dict)

    def at_row(self, at: dict[Var, Index]) -> _Row:
        """The row one loop further in."""
        return _Row(at, list(self.places), dict(self.sums))


class _Loops:
    def __init__(
        self,
        space: tuple[Var, ...],
        dtype: DType,
        outs: list[_Out],
        definitions: dict[Ref, Scalar],
        buffers: Mapping[Ref, Buffer],
        widest: int,
    ) -> None:
        self.space = space
        self.dtype = dtype
        self.outs = outs
        self.definitions = definitions
        self.buffers = buffers
        self.widest = max(widest, 1)
        self.order: tuple[Var, ...] = space
        self.uses: dict[Scalar, int] = {}
        self.heights: dict[Value, int] = {}

    # The space ------------------------------------------------------------------------------------------------------

    def _values(self) -> list[Scalar]:
        """All that is computed at a point."""
        return [*(o.value for o in self.outs), *self.definitions.values()]

    def _gets(self) -> list[Get]:
        """The elements that are loaded."""
        wholes = [o.whole for o in self.outs if o.whole is not None]
        found = dict.fromkeys(n for v in (*self._values(), *wholes) for n in walk(v) if isinstance(n, Get))
        return [g for g in found if g.ref in self.buffers]

    def _addresses(self) -> list[Index]:
        return [*(o.offset for o in self.outs), *(g.indices[0] for g in self._gets())]

    def merge(self) -> None:
        """Make one variable of two neighbours that every address sees as one."""
        while True:
            pairs = zip(self.space, self.space[1:], strict=False)
            found = next(((a, b) for a, b in pairs if self._mergeable(a, b)), None)
            if found is None:
                break
            outer, inner = found
            joint = Var(inner.name, outer.extent * inner.extent)
            m = Substitution(variables={outer: ZERO_INDEX, inner: as_index(joint)})
            for o in self.outs:
                o.offset, o.value = m.index(o.offset), m.scalar(o.value)
                if inner in o.over:
                    o.over = (o.over - {outer, inner}) | {joint}
                if o.whole is not None:
                    o.whole = m.scalar(o.whole)
            self.definitions = {r: m.scalar(v) for r, v in self.definitions.items()}
            self.space = tuple(joint if v is inner else v for v in self.space if v is not outer)
        axis = self._axis()
        self.order = (*(v for v in self.space if v is not axis), axis)

    def _mergeable(self, outer: Var, inner: Var) -> bool:
        for o in self.outs:
            if (outer in o.over) != (inner in o.over):
                return False
        for i in self._addresses():
            a, b = i.coefficient(outer), i.coefficient(inner)
            if a is None or b is None or a is not b * inner.extent:
                return False
        return True

    def _axis(self) -> Var:
        """The variable along the lanes: the one that most addresses step along by one."""

        def score(v: Var) -> tuple[int, int]:
            steps = [stride(i, v) for i in self._addresses() if v in i.free]
            return sum(1 if s == 1 else -1 for s in steps), self.space.index(v)

        return max(self.space, key=score)

    @property
    def axis(self) -> Var:
        """The vector variable."""
        return self.order[-1]

    def possible(self) -> bool:
        """Whether each output can be written as soon as it is known, without harm to what is read."""
        written: dict[Buffer, list[_Out]] = {}
        for o in self.outs:
            written.setdefault(o.buffer, []).append(o)
        for g in self._gets():
            mine = written.get(self.buffers[g.ref])
            if mine and (any(self._gathered(o) for o in mine) or all(o.offset is not g.indices[0] for o in mine)):
                return False
        for o in self.outs:
            if o.offset.coefficient(self.axis) is None or (not o.over and stride(o.offset, self.axis) is None):
                return False
            if self._gathered(o) and (o.op != "sum" or o.whole is not o.total or self.axis in o.over):
                return False
        return all(i.coefficient(v) is not None for i in self._addresses() for v in i.free)

    def _first(self, o: _Out) -> int:
        """How many loops are around the sum of a reduction."""
        return min(self.order.index(v) for v in o.over)

    def _gathered(self, o: _Out) -> bool:
        """Whether a reduction adds up in its output: a loop over an element of the output is inside one over terms."""
        return bool(o.over) and any(v not in o.over for v in self.order[self._first(o) :])

    # Loops ----------------------------------------------------------------------------------------------------------

    def statements(self, scratch: Scratch) -> list[Stmt]:
        """All of it."""
        reciprocals = Reciprocals(self.order, self._values(), self.definitions)
        self._map(reciprocals.scalar)
        self.definitions |= reciprocals.made
        rows = self._tables(scratch)
        self._count()
        fills: dict[Buffer, None] = {o.buffer: None for o in self.outs if self._gathered(o)}
        start: list[Stmt] = [Fill(b, ZERO_INDEX, b.elements) for b in fills]
        return rows + start + self._level(0, [_Row({})])

    def _map(self, f: Callable[[Scalar], Scalar]) -> None:
        """Replace what is computed at a point."""
        for o in self.outs:
            o.value = f(o.value)
        self.definitions = {r: f(v) for r, v in self.definitions.items()}

    def _tables(self, scratch: Scratch) -> list[Stmt]:
        """Loops that fill a row with each costly value that depends on the vector variable alone, before all others."""
        if len(self.order) < 2:
            return []
        tables: dict[Scalar, Scalar] = {}
        out: list[Stmt] = []
        for value in self._values():
            for n in walk(value):
                costly = isinstance(n, Apply) and (n.primitive.name == "divide" or n.primitive.transcendental)
                if costly and self._own(n) == {self.axis} and n not in tables and not self._reads_written(n):
                    name = _hint(n)
                    ref = Ref(name, self.dtype, (self.axis.extent,))
                    buffer = scratch(len(tables), name, self.axis.extent.constant or 1)
                    row = _Loops((self.axis,), self.dtype, [_Out(buffer, as_index(self.axis), n)], self.definitions,
                                 self.buffers, self.widest)  # fmt: skip
                    row._count()
                    out += row._level(0, [_Row({})])
                    tables[n] = expr.get(ref, self.axis)
                    self.buffers = {**self.buffers, ref: buffer}
        self._map(lambda v: rewrite(v, tables.get))
        return out

    def _reads_written(self, e: Scalar) -> bool:
        """Whether a value reads what the group writes, or what it defines."""
        written = {o.buffer for o in self.outs}
        gets = [n.ref for n in walk(e) if isinstance(n, Get)]
        return any(r in self.definitions or self.buffers[r] in written for r in gets)

    def _count(self) -> None:
        seen: set[Scalar] = set()
        for value in self._values():
            self.uses[value] = self.uses.get(value, 0) + 1
            for n in walk(value):
                if n not in seen:
                    seen.add(n)
                    for c in children(n):
                        self.uses[c] = self.uses.get(c, 0) + 1

    def _level(self, depth: int, rows: list[_Row]) -> list[Stmt]:
        """Everything inside the first `depth` loops: values known there, accumulators, the next loop, results."""
        for row in rows:
            row.places.append(_Place(depth, 1, row.at, []))
        mine = [o for o in self.outs if o.over and not self._gathered(o) and self._first(o) == depth]
        sums = [(row, o) for row in rows for o in mine]
        for row, o in sums:
            row.sums[o] = _Sum(o, self.dtype)
        loops = self._vectors(rows) if depth == len(self.order) - 1 else self._outer(depth, rows[0])
        begin = [s for row, o in sums for s in row.sums[o].start()]
        end = [s for row, o in sums for s in self._finish(o, row)]
        return [s for row in rows for s in row.places.pop().out] + begin + loops + end

    def _outer(self, depth: int, row: _Row) -> list[Stmt]:
        """The loop over an outer variable; several of its rows together where the innermost loop adds to an output."""
        v = self.order[depth]
        extent = v.extent.constant or 1
        together = 1
        if depth == len(self.order) - 2 and extent >= 2 * ROWS and any(self._gathered(o) for o in self.outs):
            together = ROWS if len(self.uses) <= MANY else 1
        out: list[Stmt] = []
        done = 0
        for count in dict.fromkeys((together, 1)):
            trips = (extent - done) // count
            if trips:
                loop = Var(v.name, v.extent)
                rows = [row.at_row({**row.at, v: as_index(loop) + k}) for k in range(count)]
                end = done + trips * count
                out.append(For(loop, as_index(done), as_index(end), tuple(self._level(depth + 1, rows)), count))
                done = end
        return out

    def _finish(self, o: _Out, row: _Row) -> list[Stmt]:
        """The result of a reduction, what is done with it, and its store."""
        assert o.whole is not None
        assert o.total is not None
        out: list[Stmt] = []
        place = _Place(len(row.at), 1, row.at, out, {o.total: row.sums[o].total(out)})
        value = self.value(o.whole, place, row)
        return [*out, Store(o.buffer, Substitution(variables=row.at).index(o.offset), value)]

    def _vectors(self, rows: list[_Row]) -> list[Stmt]:
        """The loop over the vector variable: several vectors at a time, one at a time, then narrower ones."""
        extent = self.axis.extent.constant or 1
        out: list[Stmt] = []
        done = 0
        for together in dict.fromkeys((self._ways(extent) if len(rows) == 1 else 1, 1)):
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
        summed = any(self.axis in o.over for o in self.outs)
        work = sum(10 if isinstance(n, Apply) and n.primitive.transcendental else 1 for n in self.uses)
        return WAYS if summed and work <= LIGHT and extent >= 2 * WAYS * self.widest else 1

    def _points(self, rows: list[_Row], start: Index, together: int, lanes: int) -> list[Stmt]:
        """One step: the values of `together` vectors of each row, then their stores."""
        out: list[Stmt] = []
        stores = [] if self._overwrites() else out  # what is overwritten is read first
        for way in range(together):
            here = start + way * lanes
            shared: dict[Scalar, Value] = {}  # what is the same for all rows
            added: dict[tuple[Buffer, Index], list[Value]] = {}
            for row in rows:
                place = _Place(len(self.order), lanes, {**row.at, self.axis: here}, out, shared=shared)
                m = Substitution(variables=place.at)
                strided: list[tuple[_Out, Index, Value]] = []
                for o in self.outs:
                    value = widened(self.value(o.value, place, row), lanes)
                    if o.over and not self._gathered(o):
                        t = row.sums[o].temp(lanes, way)
                        out.append(Assign(t, Binary(OPERATOR[o.op], Read(t), value, t.type)))
                        continue
                    offset = m.index(o.offset)
                    if o.over:
                        added.setdefault((o.buffer, offset), []).append(value)
                    elif lanes == 1 or stride(o.offset, self.axis) == 1:
                        stores.append(Store(o.buffer, offset, self._named(value, "value", out)))
                    else:
                        strided.append((o, offset, self._named(value, "value", out)))
                stores += self._rows(strided, lanes)
            stores += [Store(b, i, chain("+", values), accumulate=True) for (b, i), values in added.items()]
        return out + stores if stores is not out else out

    def _overwrites(self) -> bool:
        """Whether something is both read and written."""
        return not {o.buffer for o in self.outs}.isdisjoint(self.buffers[g.ref] for g in self._gets())

    def _rows(self, rows: list[tuple[_Out, Index, Value]], lanes: int) -> list[Stmt]:
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

    # Values ---------------------------------------------------------------------------------------------------------

    def _depth(self, e: Scalar) -> int:
        """How many loops are around what e depends on."""
        return max((k + 1 for k, v in enumerate(self.order) if v in e.free), default=0)

    def value(self, e: Scalar, place: _Place, row: _Row) -> Value:
        """The value of e at a place; what an outer loop can compute is computed there, once."""
        if isinstance(e, Const):
            return Literal(e.value, Type(self.dtype))
        if isinstance(e, Zero):
            return Literal(0.0, Type(self.dtype))
        memo = place.shared if place.depth == len(self.order) and self._own(e) == {self.axis} else place.memo
        found = memo.get(e)
        if found is not None:
            return found
        depth = self._depth(e)
        if depth < place.depth and not self._late(e):
            home = row.places[depth]
            found = home.memo[e] = self._named(self.value(e, home, row), _hint(e), home.out)
            return found
        if isinstance(e, Get) and e.ref in self.definitions:
            found = memo[e] = self._named(self.value(self.definitions[e.ref], place, row), e.ref.name, place.out)
            return found
        made = self._make(e, place, row)
        height = 1 + max((self.heights.get(v, 1) for v in nodes.operands(made)), default=0)
        shared = self.uses.get(e, 1) > 1 or memo is place.shared
        if shared or isinstance(made, Load | Gather | Invoke) or height > TALL:
            made = self._named(made, _hint(e), place.out)
            height = 1
        self.heights[made] = height
        memo[e] = made
        return made

    def _own(self, e: Scalar) -> frozenset[Var]:
        """The variables of the space in e: those of loops around the kernel are fixed here."""
        return e.free & frozenset(self.order)

    def _late(self, e: Scalar) -> bool:
        """Whether e needs the result of a reduction."""
        return any(isinstance(n, Get) and n.ref not in self.buffers and n.ref not in self.definitions for n in walk(e))

    @staticmethod
    def _named(value: Value, name: str, out: list[Stmt]) -> Value:
        if isinstance(value, Read | Literal):
            return value
        t = Temp(name, value.type)
        out.append(Let(t, value))
        return Read(t)

    def _make(self, e: Scalar, place: _Place, row: _Row) -> Value:
        match e:
            case Get():
                return self._load(e, place)
            case FromIndex():
                return IndexValue(Substitution(variables=place.at).index(e.index), Type(self.dtype))
            case Add() | Mul():
                parts = self._by_depth(e)
                return chain("+" if isinstance(e, Add) else "*", [self.value(a, place, row) for a in parts])
            case Apply():
                return self._apply(e, [self.value(a, place, row) for a in e.args], place)
            case Select():
                return self._select(e, place, row)
            case _:
                raise AssertionError(f"no vector form: {type(e).__name__}")

    def _by_depth(self, e: Add | Mul) -> list[Scalar]:
        """The operands, those of outer loops joined so that they are computed there."""
        own = self._depth(e)
        outer = [a for a in e.args if self._depth(a) < own]
        if len(outer) < 2 or any(self._late(a) for a in e.args):
            return list(e.args)
        join = expr.add if isinstance(e, Add) else expr.mul
        return [join(*outer), *(a for a in e.args if self._depth(a) == own)]

    def _load(self, e: Get, place: _Place) -> Value:
        m = Substitution(variables=place.at)
        first = m.index(e.indices[0])
        buffer = self.buffers[e.ref]
        step = stride(e.indices[0], self.axis) if place.depth == len(self.order) else 0
        if place.lanes == 1 or step == 0:
            return Load(buffer, first, Type(self.dtype))
        type_ = Type(self.dtype, place.lanes)
        if step == 1:
            return Load(buffer, first, type_)
        assert step is not None
        return Gather(buffer, tuple(first + k * step for k in range(place.lanes)), type_)

    def _apply(self, e: Apply, args: list[Value], place: _Place) -> Value:
        name = e.primitive.name
        if e.dtype is bool_:
            return self._test(e, args, place)
        if name == "divide":
            return chain("/", args)
        if name in ("maximum", "minimum"):
            return chain("max" if name == "maximum" else "min", args)
        lanes = max(a.type.lanes for a in args)
        type_ = Type(self.dtype, lanes)
        if lanes == 1:
            return nodes.Apply(e.primitive, tuple(args), type_)
        assert name in VECTOR_FUNCTIONS
        return Invoke(f"pb_{name}_{type_}", tuple(args), type_, vector_source(name, self.dtype, lanes))

    def _test(self, e: Apply, args: list[Value], place: _Place) -> Value:
        """A comparison or logic: a mask of lanes, or one bool."""
        name = e.primitive.name
        lanes = max(a.type.lanes for a in args)
        if lanes == 1:
            return self._named(nodes.Apply(e.primitive, tuple(args), Type(bool_)), name, place.out)
        mask = mask_of(self.dtype, lanes)
        if name in COMPARISONS:
            return Binary(COMPARISONS[name], widened(args[0], lanes), widened(args[1], lanes), mask)  # type: ignore[arg-type]
        if name in CLASSES:
            x = self._named(args[0], "x", place.out)
            if name == "isnan":
                return Binary("!=", x, x, mask)
            finite = Binary("==", Binary("-", x, x, x.type), Literal(0.0, x.type), mask)
            if name == "isfinite":
                return finite
            return Binary("&", Binary("==", finite, Literal(0, mask), mask), Binary("==", x, x, mask), mask)
        sides = [a if a.type.lanes > 1 else Broadcast(mask_from(a, self.dtype), mask) for a in args]
        if name == "logical_not":
            return Binary("==", sides[0], Literal(0, mask), mask)
        return Binary({"logical_and": "&", "logical_or": "|", "logical_xor": "^"}[name], sides[0], sides[1], mask)  # type: ignore[arg-type]

    def _select(self, e: Select, place: _Place, row: _Row) -> Value:
        test, a, b = (self.value(x, place, row) for x in (e.test, e.then, e.otherwise))
        lanes = max(test.type.lanes, a.type.lanes, b.type.lanes)
        if lanes > 1 and test.type.lanes == 1:
            test = Broadcast(mask_from(test, self.dtype), mask_of(self.dtype, lanes))
        return Choice(test, widened(a, lanes), widened(b, lanes), Type(self.dtype, lanes))


class Reciprocals:
    """Divisions that become products with a reciprocal: by what is divided by again, or by less than the whole point.

    a[m, n] / (w[m] * h[n])  -->  a[m, n] * (1 / w[m]) * (1 / h[n]), of which one leaves a loop and one becomes a row.
    A reciprocal that is used again is a definition: it is not taken apart, and so overflows only where 1 / d does. The
    result differs by units of the last place, and for divisors (or factors of one) whose reciprocal overflows.
    """

    def __init__(
        self, order: tuple[Var, ...], values: Sequence[Scalar], definitions: Mapping[Ref, Scalar]
    ) -> None:
        self.order = order
        self.definitions = definitions
        self.made: dict[Ref, Scalar] = {}
        self.memo: dict[Scalar, Scalar] = {}
        self.known: dict[Scalar, Scalar] = {}
        self.times: dict[Scalar, int] = {}
        for n in dict.fromkeys(n for v in values for n in walk(v)):
            if isinstance(n, Apply) and n.primitive.name == "divide":
                self.times[n.args[1]] = self.times.get(n.args[1], 0) + 1

    def scalar(self, e: Scalar) -> Scalar:
        """The expression with its divisions so."""
        for n in walk(e, into_indices=False):
            if n not in self.memo:
                made = rebuilt(n, self.memo)
                self.memo[n] = self._divided(n, made) if isinstance(n, Apply) and n.primitive.name == "divide" else made
        return self.memo[e]

    def _divided(self, before: Apply, made: Scalar) -> Scalar:
        if not (isinstance(made, Apply) and made.primitive.name == "divide"):
            return made
        x, d = made.args
        if d not in self.known:
            parts = self._parts(d)
            again = self.times.get(before.args[1], 0) > 1
            if len(parts) < 2 and not again and not d.free < before.free:
                return made
            one = expr.const(1, made.dtype)
            r = expr.mul(*(expr.apply("divide", one, p) for p in parts))
            if again:
                free = [v for v in self.order if v in r.free]
                ref = Ref("reciprocal", r.dtype, tuple(v.extent for v in free))
                self.made[ref], r = r, expr.get(ref, *free)
            self.known[d] = r
        return expr.mul(x, self.known[d])

    def _parts(self, d: Scalar) -> list[Scalar]:
        """The divisor as factors of different variables."""
        value = self.definitions.get(d.ref, d) if isinstance(d, Get) else d
        factors = value.args if isinstance(value, Mul) else (value,)
        kinds = list(dict.fromkeys(f.free for f in factors))
        return [expr.mul(*(f for f in factors if f.free == k)) for k in kinds] if len(kinds) > 1 else [d]


class _Sum:
    """The accumulators of one reduction, made as they are needed."""

    def __init__(self, o: _Out, dtype: DType) -> None:
        self.op = o.op
        self.dtype = dtype
        self.temps: dict[tuple[int, int], Temp] = {}

    def temp(self, lanes: int, way: int) -> Temp:
        """The accumulator of this width, one for each of several vectors taken together."""
        key = (lanes, way)
        if key not in self.temps:
            self.temps[key] = Temp(self.op, Type(self.dtype, lanes))
        return self.temps[key]

    def start(self) -> list[Stmt]:
        """All of them with the neutral value."""
        return [Let(t, Literal(NEUTRAL[self.op], t.type), mutable=True) for t in self.temps.values()]

    def total(self, out: list[Stmt]) -> Value:
        """All of them and their lanes combined."""
        op = OPERATOR[self.op]
        by_lanes: dict[int, Value] = {}
        for t in self.temps.values():
            before = by_lanes.get(t.type.lanes)
            by_lanes[t.type.lanes] = Read(t) if before is None else Binary(op, before, Read(t), t.type)
        result: Value | None = None
        for lanes, wide in by_lanes.items():
            value = wide if lanes == 1 else Across(op, wide)  # type: ignore[arg-type]
            result = value if result is None else Binary(op, result, value, value.type)
        assert result is not None
        t = Temp("total", result.type)
        out.append(Let(t, result))
        return Read(t)


def mask_of(dtype: DType, lanes: int) -> Type:
    """What a comparison of vectors gives."""
    return Type(dtype_named(f"i{dtype.bits}"), lanes)


def mask_from(test: Value, dtype: DType) -> Value:
    """A bool as a number with all bits set or none."""
    one = Type(dtype_named(f"i{dtype.bits}"))
    return nodes.Unary("-", nodes.Convert(test, one), one)


def chain(op: str, args: list[Value]) -> Value:
    """Operands joined in order, scalars among themselves first where the order is free."""
    lanes = max(a.type.lanes for a in args)
    if op in ("+", "*") and lanes > 1:
        args = [*(a for a in args if a.type.lanes == 1), *(a for a in args if a.type.lanes > 1)]
    value = args[0]
    for a in args[1:]:
        wide = max(value.type.lanes, a.type.lanes)
        value = Binary(op, widened(value, wide), widened(a, wide), Type(a.type.dtype, wide))  # type: ignore[arg-type]
    return value


def widened(value: Value, lanes: int) -> Value:
    """The value in all lanes."""
    if value.type.lanes == lanes:
        return value
    if isinstance(value, Literal):
        return Literal(value.value, Type(value.type.dtype, lanes))
    return Broadcast(value, Type(value.type.dtype, lanes))


def _runs(numbers: list[int]) -> list[list[int]]:
    """Maximal runs of consecutive numbers."""
    out: list[list[int]] = []
    for n in numbers:
        if out and n == out[-1][-1] + 1:
            out[-1].append(n)
        else:
            out.append([n])
    return out


def _hint(e: Scalar) -> str:
    match e:
        case Get():
            return e.ref.name
        case Apply():
            return {"divide": "quotient"}.get(e.primitive.name, e.primitive.name)
        case Add():
            return "sum"
        case Mul():
            return "product"
        case Select():
            return "chosen"
        case _:
            return "value"
