"""Tree reductions in a fixed order: some threads of a group for each result.

Lane t of T adds the terms t, t + T, .. in order. Then each lane of the first eighth adds the sums of seven others,
and so on. If there are few results and many terms, groups first reduce runs of terms, and a second launch combines
them. The order depends neither on the device's load nor on its number of multiprocessors.

    y[n] = f(sum k { x[n, k] })
    -->  group n: thread t: partial[t] = x[n, t] + x[n, t + T] + ..
                  thread t < T / 8: partial[t] += partial[t + T / 8] + ..;  thread 0: y[n] = f(partial[0] + ..)

A group may have several results. Neighboring threads are lanes of one result, or they belong to neighboring results,
as for sums along columns: whichever lets them read neighboring elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from pullback.device import Device
from pullback.grid.accesses import WARP, Warp, in_order, orders
from pullback.grid.lanes import FAN, Combined, Lanes, argument, state
from pullback.grid.reductions import (
    Reduction,
    leaves,
    places,
    reduction,
    regular_reads,
    store_values,
    stored_terms,
    traffic,
)
from pullback.grid.spread import THREADS
from pullback.grid.steps import (
    Grid,
    Inside,
    Several,
    Threads,
    Tree,
    axes_of,
    below,
    count_of,
    decoded,
    group_loop,
    local_buffer,
    parts_schedule,
    thread_loop,
    unrolled,
    within,
)
from pullback.grid.wide import BYTES, is_aligned
from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Index, Var, as_index, floor_divide, modulo
from pullback.ir.traverse import Substitution, walk
from pullback.ir.types import i64
from pullback.loops.analysis.estimates import statement_cycles
from pullback.loops.plain.builder import KernelBuilder, Work, flat_index
from pullback.loops.plain.candidates import Candidate, Declined
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.program.nodes import Copy, For, If, Kernel, Let, LetIndex, Store
from pullback.loops.program.schedule import EVERY, Step
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import (
    Bound,
    Buffer,
    Holds,
    IndexValue,
    Load,
    Read,
    Value,
    View,
    scalar,
    smallest,
)
from pullback.machine import Machine

LEAST, MOST = 32, 256  # least and most threads in a group
RUN: Final = 2048  # the terms of a group for each result, if groups share the terms of a result
FEW: Final = 256  # with fewer groups, multiprocessors are idle
RUNS: Final = 1024  # the most groups that share one result
OWN: Final = 16  # the least terms of a thread along columns, if groups share the terms of a result
MANY: Final = 1024  # the groups that share results along columns
FLIGHT: Final = 16.0  # bytes that a thread waits for at once


def trees(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """The strategy for reductions with too many terms for one thread."""
    r = reduction(work.statement)
    if r is None:
        return
    for plan in plans(r, statement_cycles(r.build, machine), device, work.wish is EVERY):
        stored = ((Grid(axes_of((*r.build.vars, *r.total.vars))), Threads((THREADS,))),) * r.checked
        yield Candidate("tree" if plan.runs == 1 else "trees", plan.cycles + r.checked * device.launch,
                        partial(_build, r, plan), parts_schedule([*stored, *plan.parts]))  # fmt: skip


class Plan(NamedTuple):
    """A tree reduction.

    Attributes:
        cycles: the estimated cycles.
        variables: the variables of results; neighboring results differ in the last one.
        lanes: the threads of a group.   runs: the groups that share a result.   second: those that combine the runs.
        parts: the steps of each launch.
    """

    cycles: float
    variables: tuple[Var, ...]
    lanes: Lanes
    runs: int
    second: Lanes
    parts: tuple[tuple[Step, ...], ...]


def plans(r: Reduction, whole: float, device: Device, every: bool = False) -> Iterator[Plan]:
    """The plans for a reduction, given the cycles that it takes on a processor core.

    Args:
        every: whether to give groups of all sizes, for tuners.
    """
    wide = r.total.arg.dtype.bits > 32
    for variables, lanes in _lanes(r, every):
        blocks = -(-r.results // lanes.results)
        asked = traffic(r.build, _warp(r, variables, lanes))
        for runs in {1, _runs(r, blocks, lanes)}:
            second = replace(lanes, width=1, results=min(lanes.results, WARP)) if lanes.across else Lanes(
                max(LEAST, min(MOST, 1 << (runs - 1).bit_length())))  # fmt: skip
            chain = whole / (r.results * runs * lanes.count) * lanes.width
            cycles = device.cycles(whole, chain, blocks * runs, lanes.threads, lanes.levels, wide, asked.moved,
                                   FLIGHT * lanes.width, 0, asked.lines)  # fmt: skip
            cycles += (runs > 1) * (device.launch + 2 * second.levels * device.meeting)
            yield Plan(cycles, variables, lanes, runs, second, _parts(r, variables, lanes, runs, second))


def _lanes(r: Reduction, every: bool) -> Iterator[tuple[tuple[Var, ...], Lanes]]:
    """Orders of results, and threads of a group, that may be worthwhile."""
    own = r.build.vars
    if r.terms >= 2 * LEAST:
        threads = LEAST
        while threads < MOST and threads * 4 <= r.terms:
            if every:
                yield own, Lanes(threads)
            threads *= 2
        yield own, Lanes(threads)
    if not any(g.free.issuperset((*r.build.vars, *r.total.vars)) for g in walk(r.total.arg) if isinstance(g, ir.Get)):
        return  # a product, whose operands have fewer elements than it has terms
    for count, most in ((2, 16), (4, 32), (FAN, 128), (FAN * FAN, 1 << 31)):  # more lanes read longer runs
        if count <= r.terms <= most and r.results * count >= MOST:
            yield own, Lanes(count, MOST // count)
    side = min(WARP, 1 << (r.results - 1).bit_length())
    if side < FAN // 2 or r.terms < 2 * MOST // side or r.checked:  # stored terms have other places
        return
    for variables in orders(r.build.vars, places(r.total)):
        found = neighbors(r, variables[-1])
        half = 0 if found is None else min(WARP, 1 << (r.results // found.count).bit_length() >> 1)
        if found is not None and half >= FAN:
            yield variables, Lanes(MOST // half, half * found.count, True, found.count)
        else:
            yield variables, Lanes(MOST // side, side, True)


def _runs(r: Reduction, blocks: int, lanes: Lanes) -> int:
    """The groups that share the terms of a result."""
    if not lanes.across:
        return min(RUNS, -(-r.terms // RUN)) if lanes.results == 1 and blocks < FEW and r.terms > 2 * RUN else 1
    return max(1, min(-(-MANY // blocks), r.terms // (OWN * lanes.count)))


def _warp(r: Reduction, variables: Sequence[Var], lanes: Lanes) -> Warp:
    """The first warp of a group."""
    t, found = np.arange(min(WARP, lanes.threads)), None if lanes.across else run_of_terms(r, lanes, r.terms)
    by, run = lanes.results // lanes.width if lanes.across else lanes.count, 1 if found is None else found.count
    result, lane = (t % by, t // by) if lanes.across else (t // by, t % by)
    values = {**in_order(r.total.vars, lane * run).values, **in_order(variables, result * lanes.width).values}
    return replace(in_order(r.total.vars, lane), values=values, run=max(run, lanes.width))


def _parts(r: Reduction, variables: Sequence[Var], lanes: Lanes, runs: int, second: Lanes) -> tuple[
        tuple[Step, ...], ...]:  # fmt: skip
    """The steps of each launch."""
    axes = axes_of(variables)

    def part(run: tuple[tuple[str, int], ...], lanes: Lanes, axis: str) -> tuple[Step, ...]:
        several = (Several(lanes.results, lanes.across),) * (lanes.results > 1)
        return (Grid((*axes, *run)), *several, Threads((lanes.count,), axis), Tree())

    if runs == 1:
        return (part((), lanes, r.total.vars[0].name),)
    return part((("run", runs),), lanes, r.total.vars[0].name), part((), second, "run")


def _build(r: Reduction, plan: Plan, builder: KernelBuilder) -> Kernel:
    for ref in sorted({ref for v in r.build.values for ref in v.refs}, key=lambda ref: ref.name):
        builder.parameter(ref)
    r, stored = stored_terms(r, builder) if r.checked else (r, [])
    return builder.kernel((*stored, *tree_launches(r, plan, builder)))


def tree_launches(r: Reduction, plan: Plan, builder: KernelBuilder) -> list[For]:
    """The launches of a reduction; raise Declined if a thread may leave before a barrier."""
    length = -(-r.terms // plan.runs)
    if length >= RUN:
        length = -(-length // BYTES) * BYTES  # whole accesses
    runs = -(-r.terms // length)
    first = partial(_Launch, r, builder, plan.variables, runs)
    if runs == 1:
        out = [first(plan.lanes).of_terms(r.terms, ())]
    else:
        likes = [Buffer("like", t.dtype, (), "arena", as_index(1)) for t in state(r.total).types]
        partials = tuple(builder.scratch("partials", like, r.results * runs) for like in likes)
        out = [first(plan.lanes).of_terms(length, partials), first(plan.second).of_partials(partials)]
    if any(map(leaves, out)):
        raise Declined
    return out


@dataclass(frozen=True)
class Run:
    """Neighboring terms that a thread reads at once: their number, and the reads of neighboring elements."""

    count: int
    reads: tuple[ir.Get, ...]


def neighbors(r: Reduction, v: Var) -> Run | None:
    """The elements along a variable that a thread reads at once; None if there is at most one."""
    reads = [g for g in regular_reads([r.total.arg], (*r.build.vars, *r.total.vars))
             if flat_index(g.ref, g.indices).coefficient(v) is ONE_INDEX]  # fmt: skip
    count = BYTES // max((g.ref.storage.size for g in reads), default=BYTES)
    if count < 2 or (v.extent.constant or 1) % count:
        return None
    whole = all(is_aligned(flat_index(g.ref, g.indices), v, count) for g in reads)
    return Run(count, tuple(reads)) if whole else None


def run_of_terms(r: Reduction, lanes: Lanes, length: int) -> Run | None:
    """The neighboring terms that a lane reads at once, of `length` terms for all lanes."""
    found = neighbors(r, r.total.vars[-1])
    return found if found is not None and length % found.count == 0 and length >= lanes.count * found.count else None


Add = Callable[[Scope, Sequence[Value]], None]
Term = Callable[[Index, Index, Var, Scope, Add], None]
"""A function that adds a term to a thread's state, given its number, the result, the thread and a scope."""


@dataclass
class _Launch:
    """A launch with a group for some results, or for a run of their terms."""

    r: Reduction
    builder: KernelBuilder
    variables: tuple[Var, ...]
    runs: int
    lanes: Lanes

    def __post_init__(self) -> None:
        self.lowering = ScalarLowering(self.builder.parameter, self.builder.site, self.r.build.values)
        self.lowering.sums = frozenset((self.r.total,))
        self.tree = Combined(state(self.r.total), self.lanes)
        self.root = Scope()

    def of_terms(self, length: int, partials: Sequence[Buffer]) -> For:
        """The launch whose groups each reduce a run of `length` terms, into `partials` or into results."""
        run = (Var("run", as_index(self.runs)),) * bool(partials)
        g, group = self._group(run)
        start = as_index(run[0]) * length if run else ZERO_INDEX
        end: Bound = start + length
        if self.r.terms % length:
            end = smallest(start + length, as_index(self.r.terms))

        if self.lanes.width > 1:
            self._columns(g, group, start, end)
            self._last(g, group, partials, as_index(run[0]) if run else ZERO_INDEX)
            return self._closed(g, group)
        run_of = None if self.lanes.across else run_of_terms(self.r, self.lanes, length)
        self._threads(g, group, start, end, partial(self._of_run, run_of) if run_of else self._term, run_of)
        self._last(g, group, partials, as_index(run[0]) if run else ZERO_INDEX)
        return self._closed(g, group)

    def of_partials(self, partials: Sequence[Buffer]) -> For:
        """The launch whose groups reduce the partial results of an earlier launch to results."""
        g, group = self._group(())

        def term(k: Index, result: Index, t: Var, scope: Scope, add: Add) -> None:
            at = self._partial(result, k)
            add(scope, [Load(b, at, t) for b, t in zip(partials, self.tree.state.types, strict=True)])

        self._threads(g, group, ZERO_INDEX, as_index(self.runs), term, None)
        self._last(g, group, (), ZERO_INDEX)
        return self._closed(g, group)

    def _term(self, k: Index, result: Index, t: Var, scope: Scope, add: Add) -> None:
        """Add a term, given its number."""
        total = self.r.total
        scope.statements += decoded(k, total.vars)
        self._added(k, Scope(scope, frozenset(total.vars), scope.known, False, True, statements=scope.statements), add)

    def _of_run(self, own: Run, k: Index, result: Index, t: Var, scope: Scope, add: Add) -> None:
        """Read the elements of neighboring terms at once, then add the terms, from the number `k` on."""
        *others, v = self.r.total.vars
        first, e, row = Var(f"{v.name}_first", v.extent), Var("e", as_index(own.count)), as_index(t) * own.count
        scope.statements += decoded(k, (*others, first))
        inside = Scope(scope, frozenset((*others, first)), scope.known, False, True, statements=scope.statements)
        each = inside.inside(e, True)
        inner = self._read(own, v, first, e, row, inside, each)
        self._added(k + as_index(e), inner, add)
        inside.statements.append(unrolled(e, each.statements))

    def _added(self, k: Index, inner: Scope, add: Add) -> None:
        """Add a term in a scope that knows its indices."""
        arg, conds = argument(self.r.total)
        tests = self.lowering.conditions(conds, inner)
        body = inner.guard(conds) if conds else inner
        add(body, [self.lowering.value(arg, body), IndexValue(k, scalar(i64))])
        if conds:
            inner.statements.append(If(Holds(tests), tuple(body.statements)))

    def _partial(self, result: Index, run: Index) -> Index:
        """The place of the partial result of a run."""
        return run * self.r.results + result if self.lanes.across else result * self.runs + run

    def _group(self, run: tuple[Var, ...]) -> tuple[Var, Scope]:
        """A scope for a group, which knows its result if it has one, or else the block of its results."""
        self.block = Var("block", as_index(-(-self.r.results // self.lanes.results)))
        variables = (*self.variables, *run) if self.lanes.results == 1 else (*run, self.block)
        g = Var("group", as_index(count_of(variables) or 1))
        outer = self.root.inside(g, True)
        outer.statements += decoded(as_index(g), variables)
        scope = Scope(outer, frozenset(variables), outer.known, loop=True, statements=outer.statements)
        return g, scope

    def _result(self, g: Var, thread: Scope, own: Index) -> tuple[Index, Inside]:
        """The number of a thread's result, and a scope that knows its indices."""
        many = self.lanes.results
        if many == 1:
            return as_index(g), within(thread, (), ())
        result, at = Var("result", as_index(self.r.results)), as_index(self.block) * many + own
        lets = [LetIndex(result, at), *decoded(as_index(result), self.variables)]
        return as_index(result), within(thread, below(at, self.r.results, many), lets)

    def _threads(self, g: Var, group: Scope, start: Index, end: Bound, term: Term, run: Run | None) -> None:
        """Reduce each thread's terms, then combine the threads' states in a tree until few are left."""
        k, tree, count = Var("term", as_index(self.r.terms)), self.tree, 1 if run is None else run.count
        t, thread, own, lane = tree.begin(group)
        temps, begin = tree.state.begun()
        thread.statements += begin
        result, inside = self._result(g, thread, own)
        inner = inside.scope.inside(k, False)

        def add(scope: Scope, values: Sequence[Value]) -> None:
            scope.statements += tree.state.add(temps, values)

        term(as_index(k), result, t, inner, add)
        loop = For(k, start + lane * count, end, tuple(inner.statements), self.lanes.count * count)
        inside.scope.statements.append(loop)
        inside.close()
        group.statements.append(thread_loop(t, (*thread.statements, *tree.stores(as_index(t), temps))))
        tree.combine(group)

    def _columns(self, g: Var, group: Scope, start: Index, end: Bound) -> None:
        """Reduce the terms of each thread's neighboring results, whose elements it reads at once."""
        lanes, tree, v = self.lanes, self.tree, self.variables[-1]
        found = neighbors(self.r, v)
        assert found is not None
        t, k = Var("thread", as_index(lanes.threads)), Var("term", as_index(self.r.terms))
        e, width = Var("e", as_index(lanes.width)), lanes.width
        thread = group.inside(t, True)
        by = as_index(lanes.results // width)
        own, lane = modulo(as_index(t), by) * width, floor_divide(as_index(t), by)
        totals = [local_buffer(f"total_{name}", x.dtype, (lanes.threads, width), "registers")
                  for name, x in zip(tree.state.names, tree.state.types, strict=True)]  # fmt: skip
        row = as_index(t) * width
        temps, begin = tree.state.begun()
        stores = [Store(b, row + as_index(e), Read(temp)) for b, temp in zip(totals, temps, strict=True)]
        thread.statements.append(unrolled(e, (*begin, *stores)))
        result, first = Var("result", as_index(self.r.results)), Var(f"{v.name}_first", v.extent)
        at = as_index(self.block) * lanes.results + own
        lets = [LetIndex(result, at), *decoded(as_index(result), (*self.variables[:-1], first))]
        inside = within(thread, below(at, self.r.results, lanes.results), lets)
        terms = inside.scope.inside(k, False)
        terms.statements += decoded(as_index(k), self.r.total.vars)
        term = Scope(terms, frozenset(self.r.total.vars), terms.known, False, True, statements=terms.statements)
        each = term.inside(e, True)
        inner = self._read(found, v, first, e, row, term, each)
        loads = [Let(temp, Load(b, row + as_index(e), temp.type), mutable=True)
                 for b, temp in zip(totals, temps, strict=True)]  # fmt: skip
        inner.statements += loads

        def add(scope: Scope, values: Sequence[Value]) -> None:
            scope.statements += tree.state.add(temps, values)

        self._added(as_index(k), inner, add)
        inner.statements += stores
        term.statements.append(unrolled(e, each.statements))
        inside.scope.statements.append(For(k, start + lane, end, tuple(terms.statements), lanes.count))
        inside.close()
        place = lanes.place(own + as_index(e), lane)
        thread.statements.append(unrolled(e, [Store(p, place, Load(b, row + as_index(e), scalar(b.dtype)))
                                              for p, b in zip(tree.partials, totals, strict=True)]))  # fmt: skip
        group.statements.append(thread_loop(t, thread.statements))
        tree.combine(group)

    def _read(self, found: Run, v: Var, first: Var, e: Var, row: Index, scope: Scope, each: Scope) -> Scope:
        """Read neighbors along `v` at once, from `first` on: a scope for each of them, within `each`."""
        each.statements.append(LetIndex(v, as_index(first) + as_index(e)))
        inner = Scope(each, frozenset((v,)), each.known, True, True, statements=each.statements)
        at = Substitution(variables={v: as_index(first)}).index
        for g in found.reads:
            b = self.builder.parameter(g.ref)
            to = local_buffer(f"{b.name}_own", b.dtype, (self.lanes.threads, found.count), "registers")
            place = at(flat_index(g.ref, g.indices))
            scope.statements.append(Copy(View(to, row), View(b, place), as_index(found.count)))
            inner.temps[g] = Load(to, row + as_index(e), scalar(g.dtype))
        return inner

    def _last(self, g: Var, group: Scope, partials: Sequence[Buffer], run: Index) -> None:
        """Let the first lane combine the remaining states and store the result."""
        total = self.r.total
        t, thread, own, _ = self.lanes.begin(group, 1)
        result, inside = self._result(g, thread, own)
        last = Scope(inside.scope, total.free, inside.scope.known, loop=True, statements=inside.scope.statements)
        temps, combine = self.tree.rest(own)
        last.statements += combine
        last.temps[total] = Read(temps[-1])
        if partials:
            at = as_index(g) if self.lanes.results == 1 else self._partial(result, run)
            last.statements += [Store(b, at, Read(temp)) for b, temp in zip(partials, temps, strict=True)]
        else:
            store_values(self.r.build, self.lowering, self.builder, last)
        inside.close()
        group.statements.append(thread_loop(t, thread.statements))

    def _closed(self, g: Var, group: Scope) -> For:
        """The finished launch; every group computes the values that depend on no variable."""
        return group_loop(g, (*self.root.statements, *group.statements))
