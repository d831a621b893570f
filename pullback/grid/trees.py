"""Tree reductions in a fixed order: a group of threads for each result.

Thread t of T adds the terms t, t + T, .. in order. Then each thread of the first eighth adds the sums of seven others,
and so on. If there are few results and many terms, groups first reduce runs of terms, and a second launch combines
them. The order depends neither on the device's load nor on its number of multiprocessors.

    y[n] = f(sum k { x[n, k] })
    -->  group n: thread t: partial[t] = x[n, t] + x[n, t + T] + ..
                  thread t < T / 8: partial[t] += partial[t + T / 8] + ..;  thread 0: y[n] = f(partial[0] + ..)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from pullback.device import Device
from pullback.grid.reductions import Reduction, leaves, moved, reduction, store_values, stored_terms
from pullback.grid.spread import THREADS
from pullback.grid.steps import (
    Grid,
    Threads,
    Tree,
    axes_of,
    decoded,
    group_loop,
    local_buffer,
    parts_schedule,
    thread_loop,
)
from pullback.ir import nodes as ir
from pullback.ir.expr import POSITIONS, ReduceOp
from pullback.ir.index import ZERO_INDEX, Index, Var, as_index
from pullback.ir.reduction import neutral
from pullback.ir.types import bool_, i64
from pullback.loops.analysis.estimates import statement_cycles
from pullback.loops.plain.builder import KernelBuilder, Work
from pullback.loops.plain.candidates import Candidate, Declined
from pullback.loops.plain.scalar import ScalarLowering, added
from pullback.loops.program.nodes import Assign, For, If, Kernel, Let, Stmt, Store
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
    scalar,
    smallest,
)
from pullback.machine import Machine

LEAST, MOST = 32, 256  # least and most threads in a group
FAN: Final = 8  # the values that one thread combines
RUN: Final = 2048  # the terms of a group, if groups share the terms of a result
FEW: Final = 256  # with fewer groups, multiprocessors are idle
RUNS: Final = 256  # the most groups that share one result


def trees(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """The strategy for reductions with too many terms for one thread."""
    r = reduction(work.statement)
    if r is None:
        return
    for plan in plans(r, statement_cycles(r.build, machine), moved(work.statement), device):
        stored = ((Grid(axes_of((*r.build.vars, *r.total.vars))), Threads((THREADS,))),) * r.checked
        yield Candidate("tree" if plan.runs == 1 else "trees", plan.cycles + r.checked * device.launch,
                        partial(_build, r, plan), parts_schedule([*stored, *plan.parts]))  # fmt: skip


class Plan(NamedTuple):
    """A tree reduction.

    Attributes:
        cycles: the estimated cycles.   threads: the threads in a group.   runs: the groups that share a result.
        parts: the steps of each launch.
    """

    cycles: float
    threads: int
    runs: int
    parts: tuple[tuple[Step, ...], ...]


def plans(r: Reduction, whole: float, bytes_moved: float, device: Device) -> Iterator[Plan]:
    """The plans for a reduction, given the cycles that it takes on a processor core."""
    if r.terms < 2 * LEAST:
        return
    threads = LEAST
    while threads < MOST and threads * 4 <= r.terms:
        threads *= 2
    wide, axes, shared = r.total.arg.dtype.bits > 32, axes_of(r.build.vars), r.total.vars[0].name
    for runs in (1, min(RUNS, -(-r.terms // RUN))) if r.results < FEW and r.terms > 2 * RUN else (1,):
        chain, groups = whole / (r.results * runs * threads), r.results * runs
        cycles = device.cycles(whole, chain, groups, threads, 3, wide, bytes_moved) + (runs > 1) * device.launch
        if runs == 1:
            yield Plan(cycles, threads, 1, ((Grid(axes), Threads((threads,), shared), Tree()),))
        else:
            yield Plan(cycles, threads, runs, ((Grid((*axes, ("run", runs))), Threads((threads,), shared), Tree()),
                                               (Grid(axes), Threads((_second(runs),), "run"), Tree())))  # fmt: skip


def _second(runs: int) -> int:
    """The number of threads that combine the runs, a power of two."""
    return max(LEAST, 1 << (runs - 1).bit_length())


def _build(r: Reduction, plan: Plan, builder: KernelBuilder) -> Kernel:
    for ref in sorted({ref for v in r.build.values for ref in v.refs}, key=lambda ref: ref.name):
        builder.parameter(ref)
    r, stored = stored_terms(r, builder) if r.checked else (r, [])
    return builder.kernel((*stored, *tree_launches(r, plan, builder)))


def tree_launches(r: Reduction, plan: Plan, builder: KernelBuilder) -> list[For]:
    """The launches of a reduction; raise Declined if a thread may leave before a barrier."""
    length = -(-r.terms // plan.runs)
    runs = -(-r.terms // length)
    if runs == 1:
        out = [_Launch(r, builder, plan.threads).of_terms((), r.terms, ())]
    else:
        likes = [Buffer("like", t.dtype, (), "arena", as_index(1)) for t in state(r.total).types]
        partials = tuple(builder.scratch("partials", like, r.results * runs) for like in likes)
        run = Var("run", as_index(runs))
        first = _Launch(r, builder, plan.threads).of_terms((run,), length, partials)
        out = [first, _Launch(r, builder, _second(runs)).of_partials(partials, runs)]
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


Add = Callable[[Scope, Sequence[Value]], None]


@dataclass
class _Launch:
    """A launch with a group for each result, or for each run of its terms."""

    r: Reduction
    builder: KernelBuilder
    threads: int

    def __post_init__(self) -> None:
        self.lowering = ScalarLowering(self.builder.parameter, self.builder.site, self.r.build.values)
        self.lowering.sums = frozenset((self.r.total,))
        self.state = state(self.r.total)
        self.partials = [local_buffer(f"partial_{name}", t.dtype, (self.threads,), "shared")
                         for name, t in zip(self.state.names, self.state.types, strict=True)]  # fmt: skip
        self.root = Scope()
        self.left = self.threads  # partial reductions that the first thread combines

    def of_terms(self, run: tuple[Var, ...], length: int, partials: Sequence[Buffer]) -> For:
        """The launch whose groups each reduce a run of `length` terms, into `partials` or into results."""
        g, group = self._group((*self.r.build.vars, *run))
        start = as_index(run[0]) * length if run else ZERO_INDEX
        end = smallest(start + length, as_index(self.r.terms)) if run else as_index(self.r.terms)

        def term(k: Index, scope: Scope, add: Add) -> None:
            total = self.r.total
            scope.statements += decoded(k, total.vars)
            inner = Scope(scope, frozenset(total.vars), scope.known, False, True, statements=scope.statements)
            arg, conds = (
                (total.arg.arg, total.arg.conds)
                if total.op in ("sum", "any") and isinstance(total.arg, ir.Bracket) else (total.arg, ())
            )  # fmt: skip
            tests = self.lowering.conditions(conds, inner)
            body = inner.guard(conds) if conds else inner
            add(body, [self.lowering.value(arg, body), IndexValue(k, scalar(i64))])
            if conds:
                inner.statements.append(If(Holds(tests), tuple(body.statements)))

        self._threads(group, start, end, term)
        self._last(group, g, partials)
        return self._closed(g, group)

    def of_partials(self, partials: Sequence[Buffer], runs: int) -> For:
        """The launch whose groups reduce the partial results of an earlier launch to results."""
        g, group = self._group(self.r.build.vars)

        def term(k: Index, scope: Scope, add: Add) -> None:
            add(scope, self._loads(partials, as_index(g) * runs + k))

        self._threads(group, ZERO_INDEX, as_index(runs), term)
        self._last(group, g, ())
        return self._closed(g, group)

    def _loads(self, buffers: Sequence[Buffer], at: Index) -> list[Value]:
        return [Load(b, at, t) for b, t in zip(buffers, self.state.types, strict=True)]

    def _stores(self, buffers: Sequence[Buffer], at: Index, temps: Sequence[Temp]) -> list[Stmt]:
        return [Store(b, at, Read(temp)) for b, temp in zip(buffers, temps, strict=True)]

    def _group(self, variables: Sequence[Var]) -> tuple[Var, Scope]:
        count = 1
        for v in variables:
            count *= v.extent.constant or 1
        g = Var("group", as_index(count))
        outer = self.root.inside(g, True)
        outer.statements += decoded(as_index(g), variables)
        scope = Scope(outer, frozenset(variables), outer.known, loop=True, statements=outer.statements)
        return g, scope

    def _threads(self, group: Scope, start: Index, end: Bound, term: Callable[[Index, Scope, Add], None]) -> None:
        """Reduce each thread's terms, then combine the threads' states in a tree until few are left."""
        k, t = Var("term", as_index(self.r.terms)), Var("thread", as_index(self.threads))
        temps, begin = self.state.begun()
        thread = group.inside(t, True)
        inner = thread.inside(k, False)

        def add(scope: Scope, values: Sequence[Value]) -> None:
            scope.statements += self.state.add(temps, values)

        term(as_index(k), inner, add)
        thread.statements += begin
        thread.statements.append(For(k, start + as_index(t), end, tuple(inner.statements), self.threads))
        thread.statements += self._stores(self.partials, as_index(t), temps)
        group.statements.append(thread_loop(t, thread.statements))
        self.left = self.threads
        while self.left > FAN:
            self.left //= FAN
            t = Var("thread", as_index(self.left))
            temps, combine = self._combined(as_index(t), self.left, FAN)
            stores = self._stores(self.partials, as_index(t), temps)
            group.statements.append(thread_loop(t, (*combine, *stores)))

    def _combined(self, first: Index, step: int, count: int) -> tuple[list[Temp], list[Stmt]]:
        """Reduce the states of `count` threads in order: `first`, `first + step`, and so on."""
        temps, begin = self.state.begun()
        k = Var("k", as_index(count))
        add = self.state.add(temps, self._loads(self.partials, first + as_index(k) * step))
        return temps, [*begin, For(k, ZERO_INDEX, k.extent, tuple(add))]

    def _last(self, group: Scope, g: Var, partials: Sequence[Buffer]) -> None:
        """Let the first thread combine the remaining states and store the result."""
        one, total = Var("thread", as_index(1)), self.r.total
        last = Scope(group, frozenset((one,)) | total.free, group.known, loop=True)
        temps, combine = self._combined(ZERO_INDEX, 1, self.left)
        last.statements += combine
        last.temps[total] = Read(temps[-1])
        if partials:
            last.statements += self._stores(partials, as_index(g), temps)
        else:
            store_values(self.r.build, self.lowering, self.builder, last)
        group.statements.append(thread_loop(one, last.statements))

    def _closed(self, g: Var, group: Scope) -> For:
        """The finished launch; every group computes the values that depend on no variable."""
        return group_loop(g, (*self.root.statements, *group.statements))

