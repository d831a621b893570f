"""Lanes: the threads that share a result, and trees that combine their states in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pullback.grid.steps import local_buffer, thread_loop
from pullback.ir import nodes as ir
from pullback.ir.expr import POSITIONS, ReduceOp
from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index, floor_divide, modulo
from pullback.ir.reduction import neutral
from pullback.ir.types import bool_, i64
from pullback.loops.plain.scalar import added
from pullback.loops.program.nodes import Assign, For, If, Let, LetIndex, Stmt, Store
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Binary, Literal, Load, Read, Temp, Type, Unary, Value, scalar

FAN: Final = 8  # the values that one thread combines


@dataclass(frozen=True)
class Lanes:
    """The threads of a group.

    Attributes:
        count: the threads for each result, its lanes.   results: the results of a group.
        across: whether neighboring threads have neighboring results; else they are neighboring lanes.
        width: the neighboring results of a thread while it goes through its terms.
    """

    count: int
    results: int = 1
    across: bool = False
    width: int = 1

    @property
    def threads(self) -> int:
        """The number of threads."""
        return self.count * self.results // self.width

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
        self.partials = [local_buffer(f"partial_{name}", t.dtype, (self.lanes.count * self.lanes.results,), "shared")
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
