"""Steps of device schedules, and loop builders that all strategies share.

grid n 96 × h 80 | threads 128
grid n 10 | threads k 256 | tree
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index, cond, floor_divide, modulo
from pullback.ir.types import DType
from pullback.loops.program.nodes import For, If, LetIndex, Stmt
from pullback.loops.program.schedule import Numbered, Schedule, Step
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Buffer, Holds, Space


@dataclass(frozen=True)
class Grid(Step):
    """The step that distributes the iterations of these axes over groups of threads."""

    axes: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return f"grid {' × '.join(f'{name} {n}' for name, n in self.axes) or '1'}"


@dataclass(frozen=True)
class Threads(Step):
    """The number of threads in a group, and the axis that they divide if it is not in the grid."""

    counts: tuple[int, ...]
    axis: str = ""

    def __str__(self) -> str:
        return f"threads {self.axis + ' ' if self.axis else ''}{' × '.join(map(str, self.counts))}"


@dataclass(frozen=True)
class Several(Step):
    """The step that gives a group several results, `across` if neighboring threads have neighbors."""

    results: int
    across: bool = False

    def __str__(self) -> str:
        return f"results {self.results}{' across' * self.across}"


@dataclass(frozen=True)
class Own(Step):
    """The step that gives a thread several neighboring elements, which it reads and writes together."""

    count: int

    def __str__(self) -> str:
        return f"own {self.count}"


@dataclass(frozen=True)
class Tree(Step):
    """The step that combines the values of threads in a tree."""

    def __str__(self) -> str:
        return "tree"


@dataclass(frozen=True)
class Merge(Step):
    """The step that merges sorted runs."""

    def __str__(self) -> str:
        return "merge"


@dataclass(frozen=True)
class InOrder(Step):
    """The step in which each thread processes a number of neighboring terms in order."""

    terms: int

    def __str__(self) -> str:
        return f"in order {self.terms}"


@dataclass(frozen=True)
class Shared(Step):
    """The step that copies panels of operands to shared memory."""

    panels: tuple[tuple[str, int, int], ...]

    def __str__(self) -> str:
        return "shared " + ", ".join(f"{name} {rows} × {columns}" for name, rows, columns in self.panels)


@dataclass(frozen=True)
class Registers(Step):
    """The step that keeps several results of one thread in registers."""

    rows: int
    columns: int

    def __str__(self) -> str:
        return f"registers {self.rows} × {self.columns}"


@dataclass(frozen=True)
class Alone(Step):
    """The step that runs everything on one thread."""

    def __str__(self) -> str:
        return "one thread"


@dataclass(frozen=True)
class Repeat(Step):
    """The step that repeats the next ones, once for each value of an axis, or until a condition fails."""

    axis: str
    count: int | None

    def __str__(self) -> str:
        return f"repeat {self.axis}{'' if self.count is None else f' {self.count}'}"


@dataclass(frozen=True)
class When(Step):
    """The step that runs the next ones only where a condition holds, which the kernel reads from memory."""

    condition: str

    def __str__(self) -> str:
        return f"when {self.condition}"


def group_loop(v: Var, body: Sequence[Stmt]) -> For:
    """A launch: a loop over groups of threads, one for each value of a variable."""
    return For(v, ZERO_INDEX, v.extent, tuple(body), kind="group", independent=True)


def thread_loop(v: Var, body: Sequence[Stmt], independent: bool = True) -> For:
    """A loop over the threads of a group."""
    return For(v, ZERO_INDEX, v.extent, tuple(body), kind="thread", independent=independent)


def unrolled(v: Var, body: Sequence[Stmt]) -> For:
    """A loop that the device compiler unrolls."""
    return For(v, ZERO_INDEX, v.extent, tuple(body), kind="unrolled")


def local_buffer(name: str, dtype: DType, shape: tuple[int, ...], space: Space) -> Buffer:
    """A buffer that exists while a group runs."""
    return Buffer(name, dtype, tuple(map(as_index, shape)), space, as_index(prod(shape)))


@dataclass(frozen=True)
class Inside:
    """Statements that threads run where conditions hold: `scope`, a part of `outer` once it is closed."""

    outer: Scope
    scope: Scope
    conds: tuple[Cond, ...]

    def close(self) -> None:
        """Add the statements to the outer scope."""
        if self.conds:
            self.outer.statements.append(If(Holds(self.conds), tuple(self.scope.statements)))


def within(outer: Scope, conds: Sequence[Cond], lets: Sequence[LetIndex]) -> Inside:
    """A scope in which conditions hold and index variables are bound."""
    own = outer.guard(conds) if conds else outer
    own.statements += lets
    bound = frozenset(s.var for s in lets if isinstance(s.var, Var))
    return Inside(outer, Scope(own, bound, own.known, not conds, True, statements=own.statements), tuple(conds))


def below(i: Index, count: int, by: int) -> list[Cond]:
    """The condition that an index is below `count`; none if `count` is a multiple of `by`."""
    found = cond(">=", as_index(count) - 1 - i) if count % by else True
    return [] if isinstance(found, bool) else [found]


def count_of(variables: Sequence[Var]) -> int | None:
    """The number of combinations of the variables' values; None if a size is open or 0."""
    sizes = [v.extent.constant for v in variables]
    return None if not all(sizes) else prod(n for n in sizes if n)


def decoded(flat: Index, variables: Sequence[Var]) -> list[LetIndex]:
    """Bind variables to the indices of a row-major position."""
    below, out = count_of(variables), list[LetIndex]()
    for k, v in enumerate(variables):
        assert below is not None and v.extent.constant
        above, below = below, below // v.extent.constant
        if k and below > 1:
            rest = Var("rest", as_index(above))
            out.append(LetIndex(rest, modulo(flat, rest.extent)))
            out.append(LetIndex(v, floor_divide(as_index(rest), as_index(below))))
        else:
            out.append(LetIndex(v, modulo(flat, v.extent) if k else floor_divide(flat, as_index(below))))
    return out


def parts_schedule(parts: Sequence[Sequence[Step]]) -> Schedule:
    """The schedule of several launches, each numbered; for a single launch, its steps."""
    many = len(parts) > 1
    return Schedule(tuple(s for n, own in enumerate(parts, 1) for s in ((Numbered(n, len(parts)),) * many + (*own,))))


def axes_of(variables: Sequence[Var]) -> tuple[tuple[str, int], ...]:
    """The axes of a grid over variables."""
    return tuple((v.name, v.extent.constant or 0) for v in variables)
