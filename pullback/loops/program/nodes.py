"""The loop IR: imperative programs over flat buffers, one step away from C.

Indices are `ir.index.Index` polynomials whose variables are loop variables or are bound by `LetIndex`. Computed values
are in `values`.

    Function      parameters, kernels and the statements of the whole program
    Kernel        a static function over its own parameter buffers; `Call` hands it views of the program's buffers
    Statement     For Let LetIndex Assign Store StoreRows If Loop Break Check Copy Fill Prefetch EndBatch Wait Multiply
                  Finish Procedure Call Parallel Comment

Nodes are compared by identity; nothing here is interned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal as Lit
from typing import NamedTuple, TypeVar

from pullback.ir.foreign import Foreign
from pullback.ir.index import Cond, Data, DimSymbol, Index, Var, as_index
from pullback.ir.types import DType
from pullback.loops.program.ahead import EndBatch, Finish, Prefetch, Run, Wait, WarpTile
from pullback.loops.program.schedule import Chosen
from pullback.loops.program.values import (
    Bound,
    Buffer,
    Extreme,
    Gather,
    Holds,
    IndexValue,
    Load,
    Read,
    Temp,
    Value,
    View,
    bound_indices,
    walk_value,
)
from pullback.loops.program.vendor import LibraryCall
from pullback.machine import GENERIC, Machine
from pullback.records import dataclass, field, replace
from pullback.source import Position
from pullback.state import cached

Kind = Lit["serial", "vector", "unrolled", "group", "thread"]
WORKERS = Var("workers", 1 << 16)  # the number of workers at run time; it must not change any result


# Statements -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class For:
    """A counted loop, `for (var = lower; var < upper; var += step) body`.

    In an `independent` loop no iteration reads or adds to an element that another one changes. Working memory is an
    exception: each iteration fills the part it reads. The writer of a loop declares this; else `separate` finds it.
    On a device the iterations of a "group" loop are groups of threads, in any order or at once. Those of a "thread"
    loop are the threads of a group, which all meet after it.
    """

    var: Var
    lower: Bound
    upper: Bound
    body: tuple[Stmt, ...]
    step: int = 1
    kind: Kind = "serial"
    independent: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Let:
    """A new temporary with its first value; only a `mutable` one may be assigned to.

    A `held` vector stays in a register between its uses; a compiler may otherwise load it again for each.
    """

    temp: Temp
    value: Value
    mutable: bool = False
    held: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class LetIndex:
    """An index variable bound to a bound, or an atom of `loaded_index` to an integer."""

    var: Var | Data
    value: Bound | Value


@dataclass(frozen=True, eq=False, slots=True)
class Assign:
    """An assignment `temp = value`.

    A `held` number stays in a register of its own afterwards. Otherwise compilers may combine parallel sums into
    vectors, whose products are rounded before they are added.
    """

    temp: Temp
    value: Value
    held: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Store:
    """A store of all lanes, `buffer[offset ..] = value`; with `accumulate`, `+=`."""

    buffer: Buffer
    offset: Index
    value: Value
    accumulate: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class StoreRows:
    """Stores `buffer[offset + lane * step + k]` = lane of values[k]: one vector, or one per lane."""

    buffer: Buffer
    offset: Index
    step: int
    values: tuple[Value, ...]


@dataclass(frozen=True, eq=False, slots=True)
class If:
    """A branch: one of two lists of statements runs."""

    test: Value
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()


def either(test: Cond | bool, then: Iterable[Stmt], otherwise: Iterable[Stmt] = ()) -> list[Stmt]:
    """A branch between two lists of statements, without a test if the outcome is known."""
    if isinstance(test, bool):
        return list(then if test else otherwise)
    return [If(Holds((test,)), tuple(then), tuple(otherwise))]


@dataclass(frozen=True, eq=False, slots=True)
class Loop:
    """Repeats the body until a `Break`."""

    body: tuple[Stmt, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Break:
    """Leaves the innermost `Loop` or `For`."""


@dataclass(frozen=True, eq=False, slots=True)
class Site:
    """The subject of a run-time check for its message: array, axis, statement and position.

    With a `shape` the check is that the values of the array are finite. With `ends` it is that a loop ended within its
    limit of trips. `of_call` checks the arguments of a call.
    """

    array: str
    axis: int | None
    statement: str
    position: Position | None = None
    shape: tuple[int, ...] | None = None
    ends: bool = False
    of_call: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Check:
    """Leave the function with the site's code unless 0 <= index < extent (or lower <= index < extent)."""

    index: Index
    extent: Index
    site: Site
    lower: Index = field(default_factory=lambda: as_index(0))


@dataclass(frozen=True, eq=False, slots=True)
class Copy:
    """A copy of `count` elements; both places are disjoint, or with `maybe_same` possibly equal."""

    target: View
    source: View
    count: Index
    maybe_same: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Fill:
    """A fill of `count` elements from `offset` on with zeros; `count` may depend on loop variables."""

    buffer: Buffer
    offset: Index
    count: Index


@dataclass(frozen=True, eq=False, slots=True)
class Multiply:
    """Products of two panels in shared memory, added to the sums of a thread.

    `body` is the meaning for one thread. All threads of a group run the statement, so a device may have instructions
    for warps, which add in another order.

    Attributes:
        tile: the parts of the sums that warps and their threads have.
        sums: the registers.   left, right: the panels.   along: whether a line of each panel runs along the terms.
        panel: the number of the panels.
        pending: panels of earlier multiplications that may still be read while later statements run.
    """

    body: tuple[Stmt, ...]
    tile: WarpTile
    sums: Buffer
    left: View
    right: View
    along: tuple[bool, bool]
    panel: Index
    pending: tuple[Run, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Sorting:
    """A sort of a row: it reads the row, and writes the values or their old positions, keys and counts.

    The buffer of keys holds twice the row and 32 more, in unsigned integers of 32 bits. They have 64 bits if elements
    or positions do not fit, and 128 if both are needed. There are 256 counts for each byte of a key.
    """

    dtype: DType
    what: Lit["values", "positions"]


@dataclass(frozen=True, eq=False, slots=True)
class Procedure:
    """A call of a user's function or a sort. It takes places in buffers, then numbers."""

    work: Sorting | Foreign
    reads: tuple[Run, ...]
    writes: tuple[Run, ...]
    numbers: tuple[Index, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Comment:
    """A comment line."""

    text: str


@dataclass(frozen=True, eq=False)
class Kernel:
    """A static function: loops over parameter buffers, which do not overlap where one is written.

    Attributes:
        name: the preferred name.
        params: its buffers, space "parameter"; `written` marks the ones it stores to.
        indices: dims without a number and index variables of enclosing loops that it uses.
        body: the work.
        comment: its mathematics, lines of IR text.
        portable: other statements with the same effect in plain scalar C, for compilers without vector extensions; None
            where `body` is that already.
        scratch: params whose content is not used before or after a call.
        fresh: params that it overwrites without reading their old content.
        positions: source locations of its statement and of the statements fused into it; its own is first.
        apart: whether to compile it without specializing on the numbers it is called with.
        choice: its candidate among those for its statement.
        vendor: the product or the convolution that its launches compute, if a library may do it.
    """

    name: str
    params: tuple[Buffer, ...]
    indices: tuple[DimSymbol | Var, ...]
    body: tuple[Stmt, ...]
    comment: tuple[str, ...] = ()
    portable: tuple[Stmt, ...] | None = None
    scratch: tuple[Buffer, ...] = ()
    fresh: frozenset[Buffer] = frozenset()
    positions: tuple[Position, ...] = ()
    apart: bool = False
    choice: Chosen | None = None
    vendor: LibraryCall | None = None

    @property
    def position(self) -> Position | None:
        """The source location of the kernel's statement."""
        return self.positions[0] if self.positions else None

    @cached_property
    def checks(self) -> bool:
        """Whether it contains a run-time check."""
        return any(isinstance(s, Check) or (isinstance(s, Call) and s.kernel.checks) for s in walk(self.body))

    @cached_property
    def is_function(self) -> bool:
        """Whether it is printed as a separate function: it has loops, or two forms."""
        return self.portable is not None or any(isinstance(s, For | Fill | Procedure) for s in walk(self.body))

    @cached_property
    def gathers(self) -> bool:
        """Whether lanes of a vector come from separate places."""
        return any(isinstance(v, Gather) for s in walk(self.body) for v in values_in(s))

    @cached_property
    def only_vectors(self) -> bool:
        """Whether it needs a compiler with vector extensions."""
        return self.portable is None and any(v.type.lanes > 1 for s in walk(self.body) for v in values_in(s))


T = TypeVar("T")


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """A kernel applied to views, in parameter order, and to `indices`, its index arguments.

    Without `indices` the variables of the caller are passed by name. Kernels may call kernels.
    """

    kernel: Kernel
    arguments: tuple[View, ...]
    indices: tuple[Index, ...] | None = None

    @staticmethod
    def by_name(kernel: Kernel, arguments: tuple[View, ...], indices: Mapping[str, Index | int]) -> Call:
        """A call with the numbers that the kernel takes, by name."""
        return Call(kernel, arguments, tuple(as_index(indices[v.name]) for v in kernel.indices))

    @property
    def index_values(self) -> tuple[Index, ...]:
        """The value of each index variable of the kernel."""
        return tuple(as_index(v) for v in self.kernel.indices) if self.indices is None else self.indices


@dataclass(frozen=True, eq=False, slots=True)
class Task:
    """A call for each value of `chunk`, an index variable of the kernel of constant or variable size."""

    call: Call
    chunk: Var

    @property
    def chunks(self) -> Index:
        """The number of calls."""
        return self.chunk.extent

    @property
    def most(self) -> int:
        """The maximal number of calls."""
        return most_chunks(self.chunk)


def most_chunks(chunk: Var) -> int:
    """The maximal number of chunks of a chunk variable."""
    counted = chunk.extent.single
    n = counted.extent.constant if isinstance(counted, Var) else None
    return (chunk.extent.constant or 0) if n is None else n - 1


@dataclass(frozen=True, eq=False, slots=True)
class Parallel:
    """A statement that runs all chunks of all tasks, concurrently or in any order; they do not conflict.

    Views of "worker" buffers belong to each worker.
    """

    tasks: tuple[Task, ...]


Stmt = (For | Let | LetIndex | Assign | Store | StoreRows | If | Loop | Break | Check | Copy | Fill | Prefetch
        | EndBatch | Wait | Multiply | Finish | Procedure | Comment | Call | Parallel)


@dataclass(frozen=True, eq=False)
class Function:
    """A program in the loop IR.

    Attributes:
        params: inputs, then outputs.
        body: statements; the work is in calls of kernels.
        in_place: pairs (output, input) positions that may be the same memory.
        operations: the number of operations.
        dims: dims without a number: integer arguments after the arrays.
        needs: conditions on these dims, tested at entry.
        constants: the elements of inputs that the C contains as tables, in order; these are no arguments.
        machine: the machine it was lowered for.
    """

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    body: tuple[Stmt, ...]
    doc: str = ""
    in_place: tuple[tuple[int, int], ...] = ()
    operations: Index = field(default_factory=lambda: as_index(0))
    dims: tuple[DimSymbol, ...] = ()
    needs: tuple[Cond, ...] = ()
    constants: Mapping[Buffer, Sequence[bool | int | float]] = field(default_factory=dict)
    machine: Machine = GENERIC

    @property
    def given(self) -> tuple[Buffer, ...]:
        """The inputs that are arguments."""
        return tuple(b for b in self.inputs if b not in self.constants)

    @property
    def checks(self) -> bool:
        """Whether a run-time range check occurs."""
        return any(isinstance(s, Check) or (isinstance(s, Call) and s.kernel.checks) for s in walk(self.body))


def kernels_of(body: tuple[Stmt, ...]) -> list[Kernel]:
    """The kernels that statements call, in order, each once."""
    return list(dict.fromkeys(s.kernel for s in walk(body) if isinstance(s, Call)))


# Walks ----------------------------------------------------------------------------------------------------------


def walk(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, inner ones after the enclosing one; kernels are not entered."""
    for s in body:
        yield s
        match s:
            case For() | Loop() | Multiply():
                yield from walk(s.body)
            case Parallel():
                yield from (t.call for t in s.tasks)
            case If():
                yield from walk(s.then)
                yield from walk(s.otherwise)
            case _:
                pass


def without_unread(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Remove temporaries that no statement reads, such as masks that proved full."""
    return _read_later(body, set())


def _read_later(body: tuple[Stmt, ...], read: set[Temp]) -> tuple[Stmt, ...]:
    """Remove temporaries not in `read` and not read later in the body, whose reads are added to `read`."""
    out: list[Stmt] = []
    for s in reversed(body):
        match s:
            case Let() if s.temp not in read:
                continue
            case Assign():
                read.add(s.temp)
            case For() | Loop() | Multiply():
                inner = _read_later(s.body, read)
                s = s if inner == s.body else replace(s, body=inner)
            case If():
                then, otherwise = _read_later(s.then, read), _read_later(s.otherwise, read)
                s = s if (then, otherwise) == (s.then, s.otherwise) else replace(s, then=then, otherwise=otherwise)
            case _:
                pass
        read |= temps_read(s)
        out.append(s)
    return tuple(reversed(out))


def values_in(s: Stmt) -> Iterator[Value]:
    """The values in a statement, and their operands."""
    for v in _values_of(s):
        yield from walk_value(v)


def temps_read(s: Stmt) -> set[Temp]:
    """The temporaries in the values of a statement."""
    return {v.temp for v in values_in(s) if isinstance(v, Read)}


class Access(NamedTuple):
    """The elements of a buffer that a statement accesses: `offset`, and `more` after; `adds` marks `+=`."""

    buffer: Buffer
    offset: Index
    more: Index | int
    write: bool = False
    adds: bool = False


@cached(1 << 14)
def accesses(s: Stmt) -> tuple[Access, ...]:
    """The reads of a statement, then its writes, without those of kernels that it calls."""
    out: list[Access] = []
    for v in values_in(s):
        if isinstance(v, Load):
            out.append(Access(v.buffer, v.offset, v.type.lanes - 1))
        elif isinstance(v, Gather):
            out += (Access(v.buffer, i, 0) for i in v.offsets)
    match s:
        case Store():
            out.append(Access(s.buffer, s.offset, s.value.type.lanes - 1, True, s.accumulate))
        case StoreRows():
            last = (s.values[0].type.lanes - 1) * s.step + len(s.values) - 1
            out.append(Access(s.buffer, s.offset, last, True))
        case Fill():
            out.append(Access(s.buffer, s.offset, s.count - 1, True))
        case Copy():
            out += (Access(v.buffer, v.offset, s.count - 1, v is s.target) for v in (s.source, s.target))
        case Prefetch():
            out += (Access(v.buffer, v.offset, s.count - 1, v is s.target) for v in (s.source, s.target))
        case Wait():
            out += (Access(r.buffer, r.offset, r.count - 1, True) for r in s.runs)
        case Multiply():
            out += (Access(r.buffer, r.offset, r.count - 1) for r in s.pending)
        case Procedure():
            runs = (*((r, False) for r in s.reads), *((r, True) for r in s.writes))
            out += (Access(r.buffer, r.offset, r.count - 1, write) for r, write in runs)
        case _:
            pass
    return tuple(out)


def _values_of(s: Stmt) -> tuple[Value, ...]:
    """The values written directly in a statement."""
    match s:
        case Let() | Assign() | Store():
            return (s.value,)
        case StoreRows():
            return s.values
        case LetIndex() if not isinstance(s.value, Index | Extreme):
            return (s.value,)
        case If():
            return (s.test,)
        case Prefetch() if s.test is not None:
            return (s.test,)
        case _:
            return ()


def statement_indices(s: Stmt) -> tuple[Index, ...]:
    """The indices in a statement and its values, without inner statements."""
    out: list[Index] = []
    match s:
        case For():
            out += (*bound_indices(s.lower), *bound_indices(s.upper))
        case LetIndex() if isinstance(s.value, Index | Extreme):
            out += bound_indices(s.value)
        case Store() | StoreRows():
            out.append(s.offset)
        case Check():
            out += (s.index, s.extent, s.lower)
        case Copy():
            out += (s.target.offset, s.source.offset, s.count)
        case Fill():
            out += (s.offset, s.count)
        case Prefetch():
            out += (s.target.offset, s.source.offset)
        case Wait():
            out += (i for run in s.runs for i in (run.offset, run.count))
        case Multiply():
            out += (s.left.offset, s.right.offset, s.panel)
            out += (i for run in s.pending for i in (run.offset, run.count))
        case Procedure():
            out += (i for run in (*s.reads, *s.writes) for i in (run.offset, run.count))
            out += s.numbers
        case Call():
            out += (a.offset for a in s.arguments)
            out += s.index_values
        case Parallel():
            for t in s.tasks:
                out += (i for i in statement_indices(t.call) if i is not as_index(t.chunk))
        case _:
            pass
    for v in values_in(s):
        match v:
            case Load():
                out.append(v.offset)
            case Gather():
                out += v.offsets
            case IndexValue():
                out.append(v.index)
            case Holds():
                out += (c.index for c in v.conds)
            case _:
                pass
    return tuple(out)
