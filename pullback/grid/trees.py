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
from pullback.grid.wide import BYTES
from pullback.ir import nodes as ir
from pullback.ir.expr import POSITIONS, ReduceOp
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Cond, Index, Var, as_index, floor_divide, modulo
from pullback.ir.reduction import neutral
from pullback.ir.traverse import Substitution, walk
from pullback.ir.types import bool_, i64
from pullback.loops.analysis.estimates import statement_cycles
from pullback.loops.plain.builder import KernelBuilder, Work, flat_index
from pullback.loops.plain.candidates import Candidate, Declined
from pullback.loops.plain.scalar import ScalarLowering, added
from pullback.loops.program.nodes import Assign, Copy, For, If, Kernel, Let, LetIndex, Stmt, Store
from pullback.loops.program.schedule import Step
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import (
    Binary,
    Bound,
    Buffer,
    Holds,
    IndexValue,
    Literal,
    Load,
    Read,
    Temp,
    Type,
    Unary,
    Value,
    View,
    scalar,
    smallest,
)
from pullback.machine import Machine

LEAST, MOST = 32, 256  # least and most threads in a group
FAN: Final = 8  # the values that one thread combines
RUN: Final = 2048  # the terms of a group for each result, if groups share the terms of a result
FEW: Final = 256  # with fewer groups, multiprocessors are idle
RUNS: Final = 256  # the most groups that share one result
OWN: Final = 16  # the least terms of a thread along columns, if groups share the terms of a result
MANY: Final = 1024  # the groups that share results along columns
FLIGHT: Final = 16.0  # bytes that a thread waits for at once


def trees(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """The strategy for reductions with too many terms for one thread."""
    r = reduction(work.statement)
    if r is None:
        return
    for plan in plans(r, statement_cycles(r.build, machine), device):
        stored = ((Grid(axes_of((*r.build.vars, *r.total.vars))), Threads((THREADS,))),) * r.checked
        yield Candidate("tree" if plan.runs == 1 else "trees", plan.cycles + r.checked * device.launch,
                        partial(_build, r, plan), parts_schedule([*stored, *plan.parts]))  # fmt: skip


@dataclass(frozen=True)
class Lanes:
    """The threads of a group.

    Attributes:
        count: the threads for each result, its lanes.   results: the results of a group.
        across: whether neighboring threads have neighboring results; else they are neighboring lanes.
    """

    count: int
    results: int = 1
    across: bool = False

    @property
    def threads(self) -> int:
        """The number of threads."""
        return self.count * self.results

    @property
    def levels(self) -> int:
        """The number of barriers: the levels of the tree."""
        return 1 if self.count <= FAN else 1 + replace(self, count=self.count // FAN).levels

    def of(self, t: Index, lanes: int) -> tuple[Index, Index]:
        """The result within the group, and the lane, of a thread, if only some lanes are left."""
        if self.results == 1:
            return ZERO_INDEX, t
        by = as_index(self.results if self.across else lanes)
        one, two = floor_divide(t, by), modulo(t, by)
        return (two, one) if self.across else (one, two)

    def begin(self, group: Scope, left: int) -> tuple[Var, Scope, Index, Index]:
        """A thread loop over the lanes that are left: its variable, its scope, the result and the lane."""
        t = Var("thread", as_index(self.results * left))
        thread = group.inside(t, True)
        own, lane = self.of(as_index(t), left)
        if self.results > 1 and left > 1:
            names = Var("own", as_index(self.results)), Var("lane", as_index(left))
            thread.statements += map(LetIndex, names, (own, lane))
            own, lane = map(as_index, names)
        return t, thread, own, lane

    def place(self, result: Index, lane: Index) -> Index:
        """The place of a lane's state in shared memory."""
        return lane * self.results + result if self.across else result * self.count + lane


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


def plans(r: Reduction, whole: float, device: Device) -> Iterator[Plan]:
    """The plans for a reduction, given the cycles that it takes on a processor core."""
    wide = r.total.arg.dtype.bits > 32
    for lanes in _lanes(r):
        for variables in orders(r.build.vars, places(r.total)) if lanes.across else [r.build.vars]:
            blocks = -(-r.results // lanes.results)
            asked = traffic(r.build, _warp(r, variables, lanes))
            for runs in {1, _runs(r, blocks, lanes)}:
                second = lanes if lanes.across else Lanes(max(LEAST, 1 << (runs - 1).bit_length()))
                chain = whole / (r.results * runs * lanes.count)
                cycles = device.cycles(whole, chain, blocks * runs, lanes.threads, lanes.levels, wide, asked.moved,
                                       FLIGHT, 0, asked.lines)  # fmt: skip
                cycles += (runs > 1) * (device.launch + 2 * second.levels * device.meeting)
                yield Plan(cycles, variables, lanes, runs, second, _parts(r, variables, lanes, runs, second))


def _lanes(r: Reduction) -> Iterator[Lanes]:
    """The threads of a group that may be worthwhile."""
    if r.terms >= 2 * LEAST:
        threads = LEAST
        while threads < MOST and threads * 4 <= r.terms:
            threads *= 2
        yield Lanes(threads)
    if not any(g.free.issuperset((*r.build.vars, *r.total.vars)) for g in walk(r.total.arg) if isinstance(g, ir.Get)):
        return  # a product, whose operands have fewer elements than it has terms
    for count, most in ((2, 64), (4, 128), (FAN, 256), (FAN * FAN, 1 << 31)):  # more lanes read longer runs
        if count <= r.terms <= most and r.results * count >= MOST:
            yield Lanes(count, MOST // count)
    side = min(WARP, 1 << (r.results - 1).bit_length())
    if side >= FAN // 2 and r.terms >= 2 * MOST // side and not r.checked:  # stored terms have other places
        yield Lanes(MOST // side, side, True)


def _runs(r: Reduction, blocks: int, lanes: Lanes) -> int:
    """The groups that share the terms of a result."""
    if not lanes.across:
        return min(RUNS, -(-r.terms // RUN)) if lanes.results == 1 and blocks < FEW and r.terms > 2 * RUN else 1
    return max(1, min(-(-MANY // blocks), r.terms // (OWN * lanes.count)))


def _warp(r: Reduction, variables: Sequence[Var], lanes: Lanes) -> Warp:
    """The first warp of a group."""
    t = np.arange(min(WARP, lanes.threads))
    by = lanes.results if lanes.across else lanes.count
    result, lane = (t % by, t // by) if lanes.across else (t // by, t % by)
    return replace(in_order(r.total.vars, lane), values={**in_order(r.total.vars, lane).values,
                                                         **in_order(variables, result).values})  # fmt: skip


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
class State:
    """The state of a reduction: a value, and for argmax and argmin also its position.

    Attributes:
        op: the reduction.   types: the types of its temporaries.   names: their names.
    """

    op: ReduceOp
    types: tuple[Type, ...]
    names: tuple[str, ...]

    def begun(self) -> tuple[list[Temp], list[Stmt]]:
        """New temporaries with their initial values."""
        extreme: ReduceOp = {"argmax": "max", "argmin": "min"}.get(self.op, self.op)  # type: ignore[assignment]
        first = (neutral(extreme, self.types[0].dtype), 0)
        temps = [Temp(name, t) for name, t in zip(self.names, self.types, strict=True)]
        return temps, [Let(temp, Literal(n, temp.type), mutable=True) for temp, n in zip(temps, first, strict=False)]

    def add(self, temps: Sequence[Temp], values: Sequence[Value]) -> list[Stmt]:
        """Add a value with its position; of equal extremes, or of several NaN, the first one stays."""
        if len(temps) == 1:
            return [added(temps[0], self.op, values[0], beside=False)]
        best, where, truth = Read(temps[0]), Read(temps[1]), scalar(bool_)
        new, at = (Temp(f"new_{name}", t) for name, t in zip(self.names, self.types, strict=True))
        v = Read(new)
        better: Value = Binary(">" if self.op == "argmax" else "<", v, best, truth)
        equal: Value = Binary("==", v, best, truth)
        if v.type.dtype.is_floating:
            none, own = Binary("!=", v, v, truth), Binary("!=", best, best, truth)
            better = Binary("||", better, Binary("&&", none, Unary("!", own, truth), truth), truth)
            equal = Binary("||", equal, Binary("&&", none, own, truth), truth)
        earlier = Binary("&&", equal, Binary("<", Read(at), where, truth), truth)
        test = Binary("||", better, earlier, truth)
        taken = (Assign(temps[0], v), Assign(temps[1], Read(at)))
        return [Let(new, values[0]), Let(at, values[1]), If(test, taken)]


def state(total: ir.Reduce) -> State:
    """Describe the state of a reduction."""
    if total.op in POSITIONS:
        return State(total.op, (scalar(total.arg.dtype), scalar(i64)), ("best", "position"))
    return State(total.op, (scalar(total.dtype),), ("total",))


@dataclass
class Combined:
    """Trees over the lanes of a group's results, in shared memory.

    Attributes:
        partials: the states of lanes.   left: the lanes that are left.
    """

    state: State
    lanes: Lanes

    def __post_init__(self) -> None:
        self.partials = [local_buffer(f"partial_{name}", t.dtype, (self.lanes.threads,), "shared")
                         for name, t in zip(self.state.names, self.state.types, strict=True)]  # fmt: skip
        self.left = self.lanes.count

    def begin(self, group: Scope) -> tuple[Var, Scope, Index, Index]:
        """A thread loop over the lanes that are left, see `Lanes.begin`."""
        return self.lanes.begin(group, self.left)

    def stores(self, at: Index, temps: Sequence[Temp]) -> list[Stmt]:
        """Store the state of a thread."""
        return [Store(b, at, Read(temp)) for b, temp in zip(self.partials, temps, strict=True)]

    def combine(self, group: Scope) -> None:
        """Combine the states of lanes until few are left."""
        while self.left > FAN:
            self.left //= FAN
            t, thread, own, lane = self.begin(group)
            temps, combine = self._of(own, lane, self.left, FAN)
            stores = self.stores(self.lanes.place(own, lane), temps)
            group.statements.append(thread_loop(t, (*thread.statements, *combine, *stores)))

    def rest(self, own: Index) -> tuple[list[Temp], list[Stmt]]:
        """Combine the states that are left, in one thread for each result."""
        left, self.left = self.left, 1
        return self._of(own, ZERO_INDEX, 1, left)

    def _of(self, own: Index, lane: Index, step: int, count: int) -> tuple[list[Temp], list[Stmt]]:
        """Reduce the states of `count` lanes in order, from `lane` on in steps."""
        temps, begin = self.state.begun()
        k = Var("k", as_index(count))
        at = self.lanes.place(own, lane + as_index(k) * step)
        loads = [Load(b, at, t) for b, t in zip(self.partials, self.state.types, strict=True)]
        return temps, [*begin, For(k, ZERO_INDEX, k.extent, tuple(self.state.add(temps, loads)))]


def argument(total: ir.Reduce) -> tuple[ir.Scalar, tuple[Cond, ...]]:
    """The terms of a reduction, and conditions without which they change nothing."""
    if total.op in ("sum", "any") and isinstance(total.arg, ir.Bracket):
        return total.arg.arg, total.arg.conds
    return total.arg, ()


class Run(NamedTuple):
    """Neighboring terms that a thread reads at once: their number, and the reads of neighboring elements."""

    count: int
    reads: tuple[ir.Get, ...]


def run_of_terms(r: Reduction, lanes: Lanes, length: int) -> Run | None:
    """The neighboring terms that a lane reads at once, of `length` terms for all lanes."""
    v = r.total.vars[-1]
    reads = [g for g in regular_reads([r.total.arg], (*r.build.vars, *r.total.vars))
             if flat_index(g.ref, g.indices).coefficient(v) is ONE_INDEX]  # fmt: skip
    count = BYTES // max((g.ref.storage.size for g in reads), default=BYTES)
    trips = v.extent.constant or 1
    if lanes.across or count < 2 or trips % count or length % count or length < lanes.count * count:
        return None
    return Run(count, tuple(reads))


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

        run_of = run_of_terms(self.r, self.lanes, length)
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
        """Read the elements of neighboring terms at once, then add the terms, given the number of the first one."""
        *others, v = self.r.total.vars
        first, e, row = Var(f"{v.name}_first", v.extent), Var("e", as_index(own.count)), as_index(t) * own.count
        scope.statements += decoded(k, (*others, first))
        inside = Scope(scope, frozenset((*others, first)), scope.known, False, True, statements=scope.statements)
        each = inside.inside(e, True)
        each.statements.append(LetIndex(v, as_index(first) + as_index(e)))
        inner = Scope(each, frozenset((v,)), each.known, True, True, statements=each.statements)
        at = Substitution(variables={v: as_index(first)}).index
        for g in own.reads:
            b = self.builder.parameter(g.ref)
            to = local_buffer(f"{b.name}_own", b.dtype, (self.lanes.threads, own.count), "registers")
            place = at(flat_index(g.ref, g.indices))
            inside.statements.append(Copy(View(to, row), View(b, place), as_index(own.count)))
            inner.temps[g] = Load(to, row + as_index(e), scalar(g.dtype))
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
        """A scope for a group, which knows its result if it has a single one, or else the block of its results."""
        self.block = Var("block", as_index(-(-self.r.results // self.lanes.results)))
        variables = (*(self.variables if self.lanes.results == 1 else (self.block,)), *run)
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
