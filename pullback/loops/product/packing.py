"""Packing: copy a block of an operand to panels that a register tile reads sequentially.

    panel[p][k][w] = A(m = p * width + w, k)        zero where A's conditions fail and where there is no such m

The copy evaluates the operand, so transposes, strides, conditions and gathers end here. Elements at affine addresses
are copied as rows of vectors where memory runs along the lanes. If the lanes consist of several short runs, the rows
are first joined in a line buffer. Where memory runs along the sum, squares are transposed in registers. Other elements
are copied singly. Terms of several elements are evaluated by a vector kernel first, conditions and gathers per element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Cond, Index, Var, as_index, cond, floor_divide, modulo
from pullback.ir.traverse import Substitution, walk
from pullback.ir.types import DType, i64
from pullback.loops.analysis.joined import elements
from pullback.loops.plain.bounds import LoopNest
from pullback.loops.plain.builder import KernelBuilder, flat_position
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.product.blocking import SHORT, FlatAxis, MemoryLoop, form, runs, whole_levels
from pullback.loops.product.contraction import Operand
from pullback.loops.product.turn import NARROWEST_TURN, WIDEST_TURN, turn
from pullback.loops.program import values
from pullback.loops.program.cover import cover, halves, narrower
from pullback.loops.program.nodes import Call, Fill, For, If, Let, LetIndex, Stmt, Store, either
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Bound, Buffer, Holds, Literal, Load, Type, Value, View, largest, smallest
from pullback.loops.vectors.lanes import mask_of
from pullback.loops.vectors.nest import stride
from pullback.loops.vectors.tile import tile
from pullback.machine import Machine
from pullback.records import dataclass, replace

TOGETHER = 32  # most vectors of a line that are unrolled
PANEL = 32  # lanes that form panels of any width


@dataclass(frozen=True)
class PanelBlock:
    """A block of a group: its loop positions, and its inner variables with trips, outermost first.

    Attributes:
        at: the group's variables at the block's first element.
        start: that element's place on the flat axis.
        size: elements of the block.
    """

    group: FlatAxis
    at: dict[Var, Index]
    start: Index
    levels: list[tuple[Var, Index]]
    size: Index


@dataclass(frozen=True)
class Panels:
    """The layout of a block in its packing buffer: full panels of `width`, and one of `last` lanes.

    If the size of the block is open, the last panel is as wide as the others, and may be unused.
    """

    width: int
    full: Index
    last: int
    used: Index

    @staticmethod
    def of(elements: Index | int, width: int, lanes: int) -> Panels:
        """Panels for a block; the last is rounded up to whole vectors."""
        elements = as_index(elements)
        full = floor_divide(elements, as_index(width))
        used = elements - full * width
        return Panels(width, full, width if used.constant is None else -(-used.constant // lanes) * lanes, used)

    @property
    def is_open(self) -> bool:
        """Whether the size of the block is known only when the program runs."""
        return self.used.constant is None

    @property
    def packed(self) -> Index:
        """Elements of all panels for one step of the sum."""
        return self.full * self.width + self.last


@dataclass(frozen=True)
class _Copy:
    """A plain block of an operand to copy to panels: `base`, loops across lanes, loops along steps."""

    buffer: Buffer
    base: Index
    across: Sequence[MemoryLoop]
    along: Sequence[MemoryLoop]
    depth: PanelBlock
    panels: Panels
    into: Buffer


@dataclass(frozen=True)
class _Panel:
    """A panel being filled, from `start` in a buffer: first lane, width, and lanes in use."""

    into: Buffer
    start: Index
    first: Index
    width: int
    used: Index


def blocks(g: FlatAxis, make: Callable[[PanelBlock], list[Stmt]], independent: bool = True) -> list[Stmt]:
    """Loops over the blocks of a group; a smaller last block is written out if sizes are known."""
    if g.most:
        return _open_blocks(g, make, independent)
    outer = {v: as_index(Var(v.name, v.extent)) for v in g.outer}
    extent = g.cut.extent.constant or 1
    full = extent - extent % g.chunk
    place = ZERO_INDEX
    for v in g.outer:
        place = place * v.extent + outer[v]

    def one(first: Index, count: int) -> list[Stmt]:
        at = {**outer, g.cut: first, **dict.fromkeys(g.inner, ZERO_INDEX)}
        levels = [(g.cut, as_index(count)), *whole_levels(g.inner)]
        return make(PanelBlock(g, at, (place * g.cut.extent + first) * g.run, levels, as_index(count * g.run)))

    body: list[Stmt] = []
    if full == g.chunk:
        body += one(ZERO_INDEX, g.chunk)
    elif full:
        loop = Var(g.cut.name, g.cut.extent)
        block = tuple(one(as_index(loop), g.chunk))
        body.append(For(loop, ZERO_INDEX, as_index(full), block, g.chunk, independent=independent))
    if extent > full:
        body += one(as_index(full), extent - full)
    return around(outer, body, independent)


def _open_blocks(g: FlatAxis, make: Callable[[PanelBlock], list[Stmt]], independent: bool) -> list[Stmt]:
    """Loops over the blocks of a group of open size: each variable takes the steps that fit.

        most_j = min(J, most)              first_i = most_i * i        count_i = min(most_i, I - first_i)
        most_i = min(I, most / most_j)     ..

    A block spans several values of a variable only if it spans all values of the inner variables. So it is a run of the
    axis. Independent blocks, which threads share, are smaller if there are only two or three, down to half.
    """
    outer = {v: as_index(Var(v.name, v.extent)) for v in g.outer}
    lets: list[Stmt] = []

    def let(name: str, end: Index | int, value: Bound) -> Index:
        if isinstance(value, Index) and (value.constant is not None or value.single is not None):
            return value
        v = Var(name, end)
        lets.append(LetIndex(v, value))
        return as_index(v)

    own = (g.cut, *g.inner)
    most: dict[Var, Index] = {}
    room = as_index(g.most)
    if independent:
        whole = elements(v.extent for v in own)
        quarter = floor_divide(whole + 4 * PANEL - 1, as_index(4 * PANEL)) * PANEL + floor_divide(room, whole) * room
        room = let("room", g.most + 1, smallest(room, largest(as_index(g.most // 2), quarter)))
    for v in reversed(own):
        most[v] = let(f"{v.name}_most", g.most + 1, smallest(room, v.extent))
        if not independent:  # blocks of the sum are about equal
            blocks_of = let(f"{v.name}_blocks", v.extent + 1, floor_divide(v.extent + most[v] - 1, most[v]))
            most[v] = let(f"{v.name}_even", g.most + 1, floor_divide(v.extent + blocks_of - 1, blocks_of))
        room = floor_divide(room, most[v])
    head, lets = lets, []
    loops = {v: Var(v.name, floor_divide(v.extent + most[v] - 1, most[v])) for v in own if most[v] is not v.extent}
    first = dict.fromkeys(own, ZERO_INDEX)
    first |= {v: let(f"{v.name}_first", v.extent, as_index(loop) * most[v]) for v, loop in loops.items()}
    count = {v: let(f"{v.name}_count", g.most + 1, smallest(most[v], v.extent - first[v])) for v in own}
    start = ZERO_INDEX
    for v, i in {**outer, **first}.items():
        start = start * v.extent + i
    size = let("size", g.most + 1, elements(count.values()))
    body = [*lets, *make(PanelBlock(g, {**outer, **first}, start, list(count.items()), size))]
    for loop in reversed(loops.values()):
        body = [For(loop, ZERO_INDEX, loop.extent, tuple(body), independent=independent)]
    return around(outer, [*head, *body], independent)


def around(loops: dict[Var, Index], body: list[Stmt], independent: bool = True) -> list[Stmt]:
    """Loops over whole variables around a body, which receives their indices."""
    for v, i in reversed(loops.items()):
        loop = i.single
        assert isinstance(loop, Var)
        body = [For(loop, ZERO_INDEX, v.extent, tuple(body), independent=independent)]
    return body


@dataclass(frozen=True)
class Packer:
    """The writer of one kernel's copies. `memory` gives working memory by name and minimal size."""

    builder: KernelBuilder
    lanes: int
    memory: Callable[[str, int, DType | None], Buffer]
    machine: Machine

    def pack(
        self, o: Operand, block: PanelBlock, depth: PanelBlock, panels: Panels, into: Buffer, at: dict[Var, Index]
    ) -> list[Stmt]:
        """Copy a block of the operand; `at` gives the values of all other variables."""
        if o.plain is None:
            formed = self._formed(o, block, depth, panels, into, at)
            return self._evaluated(o, block, depth, panels, into, at) if formed is None else formed
        buffer, address = o.plain
        base = Substitution(variables={**at, **block.at, **depth.at}).index(address)
        across, along = runs(block.levels, address), runs(depth.levels, address)
        copy = _Copy(buffer, base, across, along, depth, panels, into)
        found = form(across, along)
        if found == "rows":
            return self._rows(copy)
        if found == "turned" or (panels.is_open and along):
            return self._turned(copy)
        return self._lines(copy) if found == "lines" else self._evaluated(o, block, depth, panels, into, at)

    def _rows(self, c: _Copy) -> list[Stmt]:
        """Copy lanes that are neighbors in memory as vectors, panel by panel."""
        def panel(first: Index, width: int, used: Index) -> list[Stmt]:
            def step(offset: Index, k: Index) -> list[Stmt]:
                to = first * c.depth.size + k * width
                copied = self._copy(c.buffer, c.base + first + offset, c.into, to, used)
                return [*copied, *(self._zeros(c.into, to, used.constant or width, width))]

            return _loops(c.along, "k", step)

        return over_panels(c.panels, "panel", panel)

    def _lines(self, c: _Copy) -> list[Stmt]:
        """Join lanes from several contiguous runs in a line, then cut the line into panels."""
        *outer, last = c.across
        used, packed = ((c.panels.full * c.panels.width + n).constant for n in (c.panels.used, c.panels.last))
        assert used is not None and packed is not None
        line = self.memory("line", packed, None)

        def step(offset: Index, k: Index) -> list[Stmt]:
            def run(there: Index, here: Index) -> list[Stmt]:
                if last.step is ONE_INDEX:
                    return self._copy(c.buffer, c.base + offset + there, line, here, last.trips)
                x = Var("x", last.trips)
                one = Load(c.buffer, c.base + offset + there + as_index(x) * last.step, Type(c.into.dtype))
                return [For(x, ZERO_INDEX, last.trips, (Store(line, here + as_index(x), one),))]

            def panel(first: Index, width: int, _: Index) -> list[Stmt]:
                return self._copy(line, first, c.into, first * c.depth.size + k * width, as_index(width))

            return [*_loops(outer, "run", run), *over_panels(c.panels, "panel", panel)]

        return [*self._zeros(line, ZERO_INDEX, used, packed), *_loops(c.along, "k", step)]

    def _turned(self, c: _Copy) -> list[Stmt]:
        """Copy where memory runs along the sum: read square blocks as rows and write them as columns."""
        across = c.across
        *outer, last = c.along
        near = bool(outer and across) and abs(outer[-1].distance) > abs(across[0].distance)  # lanes lie nearer
        outside, inside = (outer, [last]) if near and not c.panels.is_open else ([], c.along)

        def panels_at(offset: Index, k: Index) -> list[Stmt]:
            def panel(first: Index, width: int, used: Index) -> list[Stmt]:
                source = c.buffer, c.base + offset
                panel = _Panel(c.into, first * c.depth.size + k * width, first, width, used)
                return self._runs_or(source, across, inside, panel, self._groups(source, across, inside, panel))

            return over_panels(c.panels, "panel", panel)

        table: list[Stmt] = []
        if len(inside) > 1 and c.panels.is_open and _in_runs(across):
            places = self.memory("places", c.depth.group.block, i64)
            table = _loops(inside, "k", lambda at, k: [Store(places, k, values.IndexValue(at, Type(i64)))])
        return [*self._padding(c.depth, c.panels, c.into), *table, *_loops(outside, "k", panels_at)]

    def _groups(
        self, source: tuple[Buffer, Index], across: Sequence[MemoryLoop], along: Sequence[MemoryLoop], panel: _Panel
    ) -> list[Stmt]:
        """Copy the lanes of a panel in groups of a square's width; one or two runs are copied as vectors."""
        buffer, base = source
        size = panel.into.dtype.size
        widest = min(self.lanes, WIDEST_TURN // size)

        def group(at: Index, count: int) -> list[Stmt]:
            lanes = [Var(f"lane{k}", 1 << 40) for k in range(count)]
            places = [LetIndex(v, _offset(across, panel.first + at + k)) for k, v in enumerate(lanes)]

            def step(offset: Index, k: Index) -> list[Stmt]:
                to = panel.start + k * panel.width + at
                return self._turned_run((buffer, base + offset), lanes, along[-1], (panel.into, to), panel.width)

            turned = [*places, *_loops(along[:-1], "k", step)]
            mine = replace(panel, start=panel.start + at, first=panel.first + at, used=as_index(count))
            return turned if count == 1 else self._runs_or(source, across, along, mine, turned)

        lanes = Var("group", panel.used)
        steps = [n for n in (widest, widest // 2) if n * size >= NARROWEST_TURN]
        return cover(lanes, (*steps, 1), group)

    def _runs_or(
        self, source: tuple[Buffer, Index], across: Sequence[MemoryLoop], along: Sequence[MemoryLoop], lanes: _Panel,
        otherwise: list[Stmt],
    ) -> list[Stmt]:
        """Copy lanes that turn out to lie in at most two runs, for open sizes; else use `otherwise`.

        Each vector is joined from one that starts with the first run and one that ends with the second.
        """
        if not _in_runs(across) or lanes.used.constant is None:
            return otherwise
        count, run, (buffer, base) = lanes.used.constant, across[-2].weight, source
        n = min(count, self.lanes)
        kind = mask_of(lanes.into.dtype, n)
        lets: list[Stmt] = []
        masks: list[Stmt] = []
        tests: list[Cond | bool] = []
        vectors: list[tuple[Var, Var, Value]] = []
        for at in range(0, count, n):
            first, last = (Var(name, 1 << 40) for name in ("first", "last"))
            own, mask = Var("own", n + 1), values.Temp("mask", kind)
            begin, end = lanes.first + at, lanes.first + at + n - 1
            row = floor_divide(begin, run)
            lets += [LetIndex(first, _offset(across, begin)), LetIndex(last, _offset(across, end) - (n - 1))]
            tests += [cond(">=", as_index(last) - as_index(first)), cond(">=", row + 1 - floor_divide(end, run))]
            number = values.Broadcast(values.IndexValue(as_index(own), Type(kind.dtype)), kind)
            masks += [LetIndex(own, smallest(as_index(n), (row + 1) * run - begin)),
                      Let(mask, values.Binary("<", values.Steps(1, kind), number, kind))]
            vectors.append((first, last, values.Read(mask)))

        def step(offset: Index, k: Index) -> list[Stmt]:
            to, wide = lanes.start + k * lanes.width, Type(lanes.into.dtype, n)
            out: list[Stmt] = []
            for at, (first, last, mask) in enumerate(vectors):
                a, b = (Load(buffer, base + as_index(v) + offset, wide) for v in (first, last))
                out.append(Store(lanes.into, to + at * n, values.Choice(mask, a, b, wide)))
            return out

        loops = _loops(along, "k", step)
        if len(along) > 1:  # one loop, with a table of the offsets of its steps
            k, place = Var("k", elements(r.trips for r in along)), values.loaded_index("place", None)
            there = LetIndex(place, Load(self.memory("places", 1, i64), as_index(k), Type(i64)))
            loops = [For(k, ZERO_INDEX, k.extent, (there, *step(as_index(place), as_index(k))))]
        near = (*masks, *loops)
        return [*lets, If(Holds(tuple(t for t in tests if isinstance(t, Cond))), near, tuple(otherwise))]

    @staticmethod
    def _turned_run(
        source: tuple[Buffer, Index], lanes: list[Var], run: MemoryLoop, target: tuple[Buffer, Index], width: int
    ) -> list[Stmt]:
        """Copy one run of memory for each lane, transposed."""
        (buffer, base), (into, to) = source, target
        out: list[Stmt] = []
        count, length = len(lanes), run.trips
        square = count * into.dtype.size >= NARROWEST_TURN and run.step is ONE_INDEX
        done = floor_divide(length, as_index(count)) * count if square else ZERO_INDEX
        if done is not ZERO_INDEX:
            views = (View(buffer, base), View(into, to))
            out.append(Call(turn(into.dtype, count), views, (*map(as_index, lanes), done, as_index(width))))
        if done is not length:
            t = Var("k", length)
            loads = [Load(buffer, base + as_index(v) + as_index(t) * run.step, Type(into.dtype)) for v in lanes]
            stores = [Store(into, to + as_index(t) * width + j, v) for j, v in enumerate(loads)]
            out.append(For(t, done, length, tuple(stores)))
        return out

    def _formed(
        self, o: Operand, block: PanelBlock, depth: PanelBlock, panels: Panels, into: Buffer, at: dict[Var, Index]
    ) -> list[Stmt] | None:
        """Evaluate a term in vectors, panel by panel; None if vectors cannot evaluate it.

        With memory along the lanes it is written in place; along the sum it goes through a buffer and is transposed in
        squares.
        """
        lanes, deep, term = _local(o, block, depth, at)
        long = [v for v in lanes if v.extent.constant != 1]
        steps = depth.size.constant
        if self.lanes < 2 or steps is None or panels.is_open or len(long) != 1:
            return None
        if any(isinstance(n, ir.Bracket | ir.Select) for n in walk(term)):
            return None
        gets = [self.builder.address(n.ref, n.indices)[1] for n in walk(term) if isinstance(n, ir.Get)]
        there, along = (sum(stride(i, v) == 1 for i in gets) for v in (long[0], deep[-1]))
        if there < along and (deep[-1].extent.constant or 0) < 2 * SHORT:
            return None
        run = MemoryLoop(depth.size, ONE_INDEX, ONE_INDEX)
        possible = True

        def panel(first: Index, width: int, used: Index) -> list[Stmt]:
            nonlocal possible
            lane = Var(long[0].name, used)
            here = dict.fromkeys(lanes, ZERO_INDEX) | {long[0]: first + as_index(lane)}
            value = Substitution(variables=here).scalar(term)
            start, k = first * steps, flat_position(tuple(deep))
            if there >= along:
                body = self._vectors(value, [*deep, lane], into, start + k * width + as_index(lane))
                possible &= body is not None
                return list(body or ())
            beside = self.memory("line", width * steps, None)
            body = self._vectors(value, [lane, *deep], beside, as_index(lane) * steps + k)
            possible &= body is not None
            across = [MemoryLoop(used, as_index(steps), ONE_INDEX)]
            panel = _Panel(into, start, ZERO_INDEX, width, used)
            return [*(body or ()), *self._groups((beside, ZERO_INDEX), across, [run], panel)]

        out = [*self._padding(depth, panels, into), *over_panels(panels, "panel", panel)]
        return out if possible else None

    def _vectors(self, value: ir.Scalar, order: list[Var], into: Buffer, to: Index) -> tuple[Stmt, ...] | None:
        """A kernel that writes a value for all variables to the offsets `to`; None if vectors cannot."""
        formed = ir.Ref("formed", into.dtype, [v.extent for v in order])

        def place(ref: ir.Ref, indices: tuple[Index, ...]) -> tuple[Buffer, Index]:
            if ref is not formed:
                return self.builder.address(ref, indices)
            return into, Substitution(variables=dict(zip(order, indices, strict=True))).index(to)

        machine = self.machine.narrowed(self.lanes * into.dtype.size)
        return tile(ir.Build((formed,), tuple(order), (value,)), place, machine)

    def _evaluated(
        self, o: Operand, block: PanelBlock, depth: PanelBlock, panels: Panels, into: Buffer, at: dict[Var, Index]
    ) -> list[Stmt]:
        """Evaluate any term element by element, with zeros where its conditions fail."""
        lanes, deep, term = _local(o, block, depth, at)
        root = Scope()
        lowering = ScalarLowering(self.builder.parameter, self.builder.site, (term,))
        nest = LoopNest(lowering, root, [*lanes, *deep], ())
        value = lowering.value(term, nest.innermost)
        k = flat_position(tuple(deep))

        def copies(first: Index, within: Index, width: int) -> list[Stmt]:
            return [Store(into, first * depth.size + k * width + within, value)]

        nest.innermost.statements += _by_panel(panels, flat_position(tuple(lanes)), copies)
        nest.close()
        return [*self._padding(depth, panels, into), *root.statements]

    def _padding(self, depth: PanelBlock, panels: Panels, into: Buffer) -> list[Stmt]:
        """Write zeros to the last panel if some of its lanes have no element."""
        if panels.is_open or panels.used.constant == panels.last:
            return []
        return [Fill(into, depth.size * (panels.full * panels.width), depth.size * panels.last)]

    def _copy(self, source: Buffer, start: Index, into: Buffer, to: Index, count: Index) -> list[Stmt]:
        """Copy a run in vectors, then narrower ones; a loop if there are many."""
        return pieces(count, self.lanes, lambda done, n: [
            Store(into, to + done, Load(source, start + done, Type(into.dtype, n)))])

    @staticmethod
    def _zeros(into: Buffer, to: Index, start: int, stop: int) -> list[Stmt]:
        return [Store(into, to + k, Literal(0.0, Type(into.dtype))) for k in range(start, stop)]


def _local(
    o: Operand, block: PanelBlock, depth: PanelBlock, at: dict[Var, Index]
) -> tuple[list[Var], list[Var], ir.Scalar]:
    """Variables of the lanes and steps of a block, and the operand's term in these."""
    lanes, deep = ([Var(v.name, trips) for v, trips in b.levels] for b in (block, depth))
    where = {**at, **block.at, **depth.at}
    for b, own in ((block, lanes), (depth, deep)):
        for (v, _), local in zip(b.levels, own, strict=True):
            where[v] = where[v] + as_index(local)
    return lanes, deep, Substitution(variables=where).scalar(o.term)


def pieces(count: Index, lanes: int, make: Callable[[Index, int], list[Stmt]]) -> list[Stmt]:
    """Cover neighbors by vectors, then narrower ones; an open rest one by one."""
    if count.constant is None or count.constant > lanes * TOGETHER:
        return cover(Var("w", count), (lanes, 1) if count.constant is None else halves(lanes), make)
    out: list[Stmt] = []
    done = 0
    for n in narrower(count.constant, lanes):
        out += make(as_index(done), n)
        done += n
    return out


def over_panels(panels: Panels, name: str, make: Callable[[Index, int, Index], list[Stmt]]) -> list[Stmt]:
    """A loop over the full panels, then the last; `make` gets first lane, width and lanes in use."""
    out: list[Stmt] = []
    end, whole = panels.full * panels.width, as_index(panels.width)
    if panels.full is ONE_INDEX:
        out += make(ZERO_INDEX, panels.width, whole)
    elif panels.full is not ZERO_INDEX:
        first = Var(name, end)
        body = tuple(make(as_index(first), panels.width, whole))
        out.append(For(first, ZERO_INDEX, end, body, panels.width, independent=True))
    if panels.is_open:
        used = Var("used", panels.width)
        some = make(end, panels.width, as_index(used))
        out += [LetIndex(used, panels.used), *either(cond(">=", as_index(used) - 1), some)]
    elif panels.last:
        out += make(end, panels.last, panels.used)
    return out


def _by_panel(panels: Panels, place: Index, make: Callable[[Index, Index, int], list[Stmt]]) -> list[Stmt]:
    """Statements for the lane at `place`; `make` gets its panel's first lane, the offset and the width."""
    full = panels.full * panels.width
    last = make(full, place - full, panels.last) if panels.last and not panels.is_open else []
    if full is ZERO_INDEX:
        return last
    first = floor_divide(place, as_index(panels.width)) * panels.width
    inside = make(first, modulo(place, as_index(panels.width)), panels.width)
    if not last:
        return inside
    return either(cond(">=", place - full), last, inside)


def _loops(levels: Sequence[MemoryLoop], name: str, make: Callable[[Index, Index], list[Stmt]]) -> list[Stmt]:
    """Loops over runs; `make` gets the offset in memory and the place on the flat axis."""
    variables = [Var(name if k == len(levels) - 1 else f"{name}{k}", r.trips) for k, r in enumerate(levels)]
    offset = place = ZERO_INDEX
    for v, r in zip(variables, levels, strict=True):
        offset, place = offset + as_index(v) * r.step, place + as_index(v) * r.weight
    body = make(offset, place)
    for v, r in zip(reversed(variables), reversed(levels), strict=True):
        body = [For(v, ZERO_INDEX, r.trips, tuple(body))]
    return body


def _offset(across: Sequence[MemoryLoop], lane: Index) -> Index:
    """The memory offset of a lane."""
    out = ZERO_INDEX
    for position, r in enumerate(across):
        i = floor_divide(lane, as_index(r.weight))
        out = out + (i if position == 0 else modulo(i, r.trips)) * r.step
    return out


def _in_runs(across: Sequence[MemoryLoop]) -> bool:
    """Whether lanes are in contiguous runs of open lengths."""
    return across[-1].step is ONE_INDEX and any(r.trips.constant is None for r in across)
