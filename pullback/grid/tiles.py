"""Launches of a scan: groups that go through a row, or a run of its terms, tile by tile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pullback.grid.reductions import spread_loops
from pullback.grid.states import Scan, ScanState
from pullback.grid.steps import count_of, decoded, group_loop, local_buffer, thread_loop
from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Cond, Index, Var, as_index, cond, floor_divide
from pullback.loops.analysis.joined import elements
from pullback.loops.plain.bounds import LoopNest
from pullback.loops.plain.builder import KernelBuilder, flat_index
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.program.nodes import Assign, For, If, Let, Stmt, Store
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Bound, Buffer, Holds, Literal, Load, Read, Temp, Type, Value, scalar, smallest

WIDTH: Final = 16  # the threads whose terms one thread combines; also the most terms of a thread in a tile


class Sizes(NamedTuple):
    """The sizes of a scan.

    Attributes:
        rows: the number of rows.   terms: the terms of a row.   threads: the threads in a group.
        own: the terms of a thread in a tile.   runs: the groups that share a row.
    """

    rows: int
    terms: int
    threads: int
    own: int
    runs: int

    @property
    def length(self) -> int:
        """The terms of a group."""
        return -(-self.terms // self.runs)

    @property
    def tile(self) -> int:
        """The terms of a tile."""
        return self.threads * self.own


def step(scan: Scan, states: Mapping[ir.Ref, Temp], lowering: ScalarLowering, scope: Scope,
         builder: KernelBuilder) -> None:
    """Write a step of the loop as it is: its values, rows and new states."""
    scope.temps |= {scan.get(ref): Read(temp) for ref, temp in states.items()}
    lowering.sums = frozenset(scan.get(ref) for ref in (*states, *dict(scan.values)))
    for ref, element in scan.values:
        made = Temp(ref.name, Type(ref.dtype))
        scope.statements.append(Let(made, lowering.value(element, scope)))
        scope.temps[scan.get(ref)] = Read(made)
    results, n = [scope.temps[scan.get(r)] for r in scan.fold.body.results], len(states)
    for row, value in zip(scan.fold.outs[n:], results[n:], strict=True):
        at = as_index(scan.fold.var) * elements(row.shape[1:]) + flat_index(scan.fold.states[0], scan.here)
        scope.statements.append(Store(builder.parameter(row), at, value))
    scope.statements += map(Assign, states.values(), results[:n])


def begun(scan: Scan, state: ir.Ref, out: ir.Ref, builder: KernelBuilder) -> Value:
    """An element of the initial state, which lies where the last state or its first row will be."""
    ref = out
    if not builder.work.holds(state, out):  # it moves along its rows
        n = len(scan.fold.states)
        ref = dict(zip(scan.fold.body.results[n:], scan.fold.outs[n:], strict=True))[state]
    return Load(builder.parameter(ref), flat_index(state, scan.here), scalar(state.dtype))


def walked(scan: Scan, builder: KernelBuilder) -> list[For]:
    """The launch with a thread for each element, which takes all steps."""
    lowering, root = ScalarLowering(builder.parameter, builder.site, [v for _, v in scan.values]), Scope()
    nest = LoopNest(lowering, root, scan.vars, ())
    inner, outer = nest.innermost.inside(scan.fold.var, False), nest.innermost
    states = {ref: Temp(ref.name, scalar(ref.dtype)) for ref in scan.fold.states}
    step(scan, states, lowering, inner, builder)
    outer.statements += [Let(states[ref], begun(scan, ref, out, builder), mutable=True)
                         for ref, out in zip(scan.fold.states, scan.fold.outs, strict=False)]  # fmt: skip
    outer.statements.append(For(scan.fold.var, ZERO_INDEX, scan.fold.var.extent, tuple(inner.statements)))
    outer.statements += [Store(builder.parameter(out), flat_index(ref, scan.here), Read(states[ref]))
                         for ref, out in zip(scan.fold.states, scan.fold.outs, strict=False)]  # fmt: skip
    nest.close()
    return spread_loops(root.statements, scan.vars, builder)


@dataclass
class Tiles:
    """The launches of a scan. A list has a buffer for each state, or for each value of combined terms."""

    scan: Scan
    sizes: Sizes
    builder: KernelBuilder

    def __post_init__(self) -> None:
        self.var = self.scan.fold.var
        self.lowering = ScalarLowering(self.builder.parameter, self.builder.site, [v for _, v in self.scan.values])
        self.root = Scope()
        self.partial = [self._shared("partial", x, self.sizes.threads, len(x.begun)) for x in self.scan.states]
        self.totals = [self._shared("total", x, self.sizes.threads // WIDTH, len(x.begun)) for x in self.scan.states]

    def combined(self, totals: Sequence[Sequence[Buffer]]) -> For:
        """The launch whose groups combine the terms of their runs."""
        g, group, start = self._group(True)
        k = Var("k", as_index(self.sizes.threads // WIDTH))
        own = -(-self.sizes.length // self.sizes.threads)
        group.statements += [self._composed(group, start, self._end(start), own), self._combined()]
        begin, each, after = list[Stmt](), list[Stmt](), list[Stmt]()
        for x, total, to in zip(self.scan.states, self.totals, totals, strict=True):
            temps, lets = _none(x)
            begin += lets
            each += x.combined(temps, _loads(total, as_index(k), x))
            after += _stores(to, as_index(g), map(Read, temps))
        group.statements.append(_one_thread([*begin, For(k, ZERO_INDEX, k.extent, tuple(each)), *after]))
        return self._closed(g, group)

    def starts(self, totals: Sequence[Sequence[Buffer]], before: Sequence[Buffer]) -> For:
        """The launch that finds the state before each run, with a thread for each row."""
        g, group, _ = self._group(False)
        run = Var("run", as_index(self.sizes.runs))
        at = as_index(g) * self.sizes.runs + as_index(run)
        first, each = list[Stmt](), list[Stmt]()
        for x, to, own in zip(self.scan.states, before, totals, strict=True):
            state = Temp(x.ref.name, x.type)
            first.append(Let(state, begun(self.scan, x.ref, x.out, self.builder), mutable=True))
            each += [Store(to, at, Read(state)), *x.combined([state], _loads(own, at, x))]
        group.statements.append(_one_thread([*first, For(run, ZERO_INDEX, run.extent, tuple(each))]))
        return self._closed(g, group)

    def scanned(self, before: Sequence[Buffer]) -> For:
        """The launch whose groups scan rows tile by tile, or their runs from the states before them."""
        s = self.sizes
        g, group, start = self._group(s.runs > 1)
        tile = Var("tile", as_index(-(-s.length // s.tile)))
        carry = [self._shared("carry", x, 1, 1) for x in self.scan.states]
        loaded: list[Value] = [Load(b, as_index(g), x.type) for x, b in zip(self.scan.states, before, strict=False)]
        first = loaded or [begun(self.scan, x.ref, x.out, self.builder) for x in self.scan.states]
        group.statements.append(_one_thread([Store(b, ZERO_INDEX, v) for [b], v in zip(carry, first, strict=True)]))
        several = s.length > s.tile
        each = group.inside(tile, True) if several else group
        at, end = start + as_index(tile) * s.tile if several else start, self._end(start)
        starts = [self._shared("start", x, s.threads // WIDTH, 1) for x in self.scan.states]
        each.statements += [self._composed(each, at, end, s.own), self._combined()]
        each.statements += [self._carried(carry, starts), self._walked(each, start, at, starts)]
        if several:
            group.statements.append(For(tile, ZERO_INDEX, tile.extent, tuple(each.statements)))
        return self._closed(g, group)

    def _group(self, shared: bool) -> tuple[Var, Scope, Index]:
        """A group for each row, or for each run of its terms, and the first term."""
        run = (Var("run", as_index(self.sizes.runs)),) * shared
        variables = (*self.scan.vars, *run)
        g = Var("group", as_index(count_of(variables) or 1))
        outer = self.root.inside(g, True)
        outer.statements += decoded(as_index(g), variables)
        group = Scope(outer, frozenset(variables), outer.known, loop=True, statements=outer.statements)
        return g, group, as_index(run[0]) * self.sizes.length if run else ZERO_INDEX

    def _closed(self, g: Var, group: Scope) -> For:
        return group_loop(g, (*self.root.statements, *group.statements))

    def _shared(self, name: str, x: ScanState, count: int, parts: int) -> list[Buffer]:
        return [local_buffer(f"{x.ref.name}_{name}", x.ref.dtype, (count,), "shared") for _ in range(parts)]

    def _end(self, start: Index) -> Bound:
        return smallest(start + self.sizes.length, as_index(self.sizes.terms))

    def _composed(self, group: Scope, first: Index, end: Bound, own: int) -> For:
        """Let each thread combine a number of neighboring terms in order."""
        t = Var("thread", as_index(self.sizes.threads))
        thread = group.inside(t, True)
        inner, begin, after = thread.inside(self.var, False), list[Stmt](), list[Stmt]()
        for x, each in zip(self.scan.states, self.partial, strict=True):
            temps, lets = _none(x)
            scale = [Literal(x.scale, x.type)] * (len(temps) - 1)
            inner.statements += x.combined(temps, [*scale, self.lowering.value(x.term, inner)])
            begin += lets
            after += _stores(each, as_index(t), map(Read, temps))
        return thread_loop(t, (*thread.statements, *begin, self._run(first, t, end, own, inner), *after))

    def _combined(self) -> For:
        """Let one of 16 threads combine their terms: a prefix for each of them, and the total."""
        u, k = Var("thread", as_index(self.sizes.threads // WIDTH)), Var("k", as_index(WIDTH))
        at = as_index(u) * WIDTH + as_index(k)
        begin, each, after = list[Stmt](), list[Stmt](), list[Stmt]()
        for x, own, total in zip(self.scan.states, self.partial, self.totals, strict=True):
            temps, lets = _none(x)
            loaded = [Temp("next", x.type) for _ in temps]
            begin += lets
            each += map(Let, loaded, _loads(own, at, x))
            each += [*_stores(own, at, map(Read, temps)), *x.combined(temps, [*map(Read, loaded)])]
            after += _stores(total, as_index(u), map(Read, temps))
        return thread_loop(u, (*begin, For(k, ZERO_INDEX, k.extent, tuple(each)), *after))

    def _carried(self, carry: Sequence[Sequence[Buffer]], starts: Sequence[Sequence[Buffer]]) -> For:
        """Let the first thread find the state before each 16 threads, and carry the last one to the next tile."""
        k = Var("k", as_index(self.sizes.threads // WIDTH))
        begin, each, after = list[Stmt](), list[Stmt](), list[Stmt]()
        for x, [last], [to], total in zip(self.scan.states, carry, starts, self.totals, strict=True):
            state = Temp(x.ref.name, x.type)
            begin.append(Let(state, Load(last, ZERO_INDEX, x.type), mutable=True))
            each += [Store(to, as_index(k), Read(state)), *x.combined([state], _loads(total, as_index(k), x))]
            after.append(Store(last, ZERO_INDEX, Read(state)))
        return _one_thread((*begin, For(k, ZERO_INDEX, k.extent, tuple(each)), *after))

    def _walked(self, group: Scope, start: Index, first: Index, starts: Sequence[Sequence[Buffer]]) -> For:
        """Let each thread run the loop as it is written over its terms, from the state before them."""
        scan, t, begin = self.scan, Var("thread", as_index(self.sizes.threads)), list[Stmt]()
        thread = group.inside(t, True)
        states = {x.ref: Temp(x.ref.name, x.type) for x in scan.states}
        for x, own, [before] in zip(scan.states, self.partial, starts, strict=True):
            state = Load(before, floor_divide(as_index(t), as_index(WIDTH)), x.type)
            begin.append(Let(states[x.ref], state, mutable=True))
            begin += x.combined([states[x.ref]], _loads(own, as_index(t), x))
        inner = thread.inside(self.var, False)
        step(scan, states, self.lowering, inner, self.builder)
        run, last = self._run(first, t, self._end(start), self.sizes.own, inner), self._last(start, first, t, states)
        return thread_loop(t, (*thread.statements, *begin, run, last))

    def _last(self, start: Index, first: Index, t: Var, states: Mapping[ir.Ref, Temp]) -> If:
        """Store the last state, by the thread that has the last term."""
        own, term = first + as_index(t) * self.sizes.own, as_index(self.sizes.terms - 1)
        conds = (cond(">=", i) for i in (term - own, own + (self.sizes.own - 1) - term,
                                         start + (self.sizes.length - 1) - term))  # fmt: skip
        stores = [Store(self.builder.parameter(x.out), flat_index(x.ref, self.scan.here), Read(states[x.ref]))
                  for x in self.scan.states]  # fmt: skip
        return If(Holds(tuple(c for c in conds if isinstance(c, Cond))), tuple(stores))

    def _run(self, first: Index, t: Var, end: Bound, own: int, body: Scope) -> For:
        """The loop over a thread's neighboring terms."""
        start = first + as_index(t) * own
        return For(self.var, start, smallest(start + own, end), tuple(body.statements))


def _none(x: ScanState) -> tuple[list[Temp], list[Stmt]]:
    """The identity of the combination, in new temporaries."""
    temps = [Temp(name, x.type) for name in ("scale", x.op)[-len(x.begun) :]]
    return temps, [Let(temp, Literal(n, x.type), mutable=True) for temp, n in zip(temps, x.begun, strict=True)]


def _loads(buffers: Sequence[Buffer], at: Index, x: ScanState) -> list[Value]:
    return [Load(b, at, x.type) for b in buffers]


def _stores(buffers: Sequence[Buffer], at: Index, values: Iterable[Value]) -> list[Stmt]:
    return [Store(b, at, v) for b, v in zip(buffers, values, strict=True)]


def _one_thread(body: Sequence[Stmt]) -> For:
    return thread_loop(Var("thread", ONE_INDEX), body)
