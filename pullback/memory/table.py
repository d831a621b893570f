"""The table of `f.memory`: arguments, results, a row per statement with its memory, and the peak."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

from pullback.loops.memory.plan import Lifetimes, MemoryPlan, uses
from pullback.loops.program.nodes import Call, Comment, Copy, Fill, For, Function, If, Loop, Parallel, Stmt
from pullback.loops.program.values import Buffer
from pullback.memory.rows import BufferRow, StatementRow
from pullback.memory.swap import SwapPlan, swap_plan
from pullback.tables import Rows, Tables

if TYPE_CHECKING:
    from pullback.pictures import Picture

Build = Literal["call", "export"]
NAME, MATHEMATICS = 28, 44  # most characters shown of a statement's name and of its formula


@dataclass(frozen=True, repr=False)
class MemoryTable(Tables):
    """The memory of a program.

    Attributes:
        program, mode: the program's name, and its memory mode.
        inputs, outputs: arguments and results, which are not in the arena.
        constants: arrays that exported C contains as tables.
        in_place: names of results that may share the memory of an argument.
        buffers: arrays and working memory in the arena.
        statements: one row for each statement, in execution order.
        peak_bytes: the used bytes of the arena.
        rounded_bytes: the size of the arena as allocated for calls and stated in the C header, a multiple of 64.
        find_modes: a function that returns the tables of all modes.
        workers, worker_bytes: the number of threads, and the bytes that each thread after the first adds to the peak.
        find_swaps: a function that returns the result of `swap_plan`.
        swapped: the copies of arrays that move out of memory, with `swap=`; they may lie in a file.
        swap_bytes: the bytes for all of them; copies that are out at different times may share bytes.
    """

    program: str
    mode: str
    inputs: tuple[BufferRow, ...]
    outputs: tuple[BufferRow, ...]
    in_place: tuple[str, ...]
    buffers: tuple[BufferRow, ...]
    statements: tuple[StatementRow, ...]
    peak_bytes: int
    find_modes: Callable[[], Mapping[str, MemoryTable]] | None = None
    workers: int = 1
    worker_bytes: int = 0
    rounded_bytes: int = 0
    build: Build = "call"
    constants: tuple[BufferRow, ...] = ()
    find_swaps: Callable[[int], SwapPlan] | None = None
    swapped: tuple[BufferRow, ...] = ()
    swap_bytes: int = 0

    def swap_plan(self, limit: int) -> SwapPlan:
        """Plan which arena arrays to move out of memory, and until when, to stay within `limit` bytes.

        The plan is only a description: no array is moved. It also states the number of bytes to move. With
        `pb.function(memory_limit=limit, swap=True)` they move.

        >>> import pullback as pb
        >>> from jaxtyping import Float64
        >>> from pullback import Array
        >>> @pb.function
        ... def loss(x: Float64[Array, "N N"]):
        ...     y = pb.tanh(x @ x)
        ...     z = pb.tanh(y @ y)
        ...     return pb.sum(pb.tanh(z @ z))
        >>> table = pb.grad(loss).memory(N=40)
        >>> plan = table.swap_plan(table.live_bytes - 1)
        >>> plan.fits, len(plan.moves) > 0, plan.peak_bytes < plan.live_bytes
        (True, True, True)
        """
        assert self.find_swaps is not None
        return self.find_swaps(limit)

    def plot(self) -> Picture:
        """Plot memory over time: a box for each arena array's lifetime, and the live bytes as a curve.

        A notebook shows the picture, and its `save` writes SVG.

        >>> import pullback as pb
        >>> from jaxtyping import Float64
        >>> from pullback import Array
        >>> @pb.function
        ... def loss(x: Float64[Array, "N N"]):
        ...     return pb.sum(pb.tanh(x @ x) @ x)
        >>> pb.grad(loss).memory(None, "export", N=40).plot().title
        'Memory of loss_grad over time: 50 KiB in the arena at most, 5 arrays, 5 statements'
        """
        from pullback.memory.picture import picture  # loads HTML helpers, which only pictures need

        return picture(self.program, self.peak_bytes, self.buffers, self.statements)

    @property
    def arena_bytes(self) -> int:
        """The bytes of the arena for all workers, as in a call or in `ARENA_BYTES` of the exported header."""
        return self.rounded_bytes + (self.workers - 1) * self.worker_bytes

    @property
    def resident_bytes(self) -> int:
        """The bytes of the arena that must be memory; those of `swapped` may lie in a file."""
        return self.arena_bytes - self.swap_bytes

    @property
    def input_bytes(self) -> int:
        """Bytes of all inputs."""
        return sum(r.bytes for r in self.inputs)

    @property
    def output_bytes(self) -> int:
        """Bytes of all outputs."""
        return sum(r.bytes for r in self.outputs)

    @property
    def live_bytes(self) -> int:
        """The most bytes alive at once: the peak without gaps between arrays."""
        return max((r.live for r in self.statements), default=0)

    @cached_property
    def modes(self) -> Mapping[str, MemoryTable]:
        """The tables of all modes without a limit, planned on first use."""
        return {self.mode: self} if self.find_modes is None else self.find_modes()

    @property
    def peaks(self) -> Mapping[str, int]:
        """The peak in every mode."""
        return {mode: table.peak_bytes for mode, table in self.modes.items()}

    def _parts(self) -> list[str | tuple[Rows, Collection[int]]]:
        """The parts of the table: arguments, then statements."""
        return [(self._arguments(), (2,)), "", (self._statements(), (3, 4, 5, 6)), "", "\n".join(self._foot())]

    def _repr_html_(self) -> str:
        return (self.plot().svg if self.buffers else "") + super()._repr_html_()

    def _arguments(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("inputs", "dims", "bytes")]
        rows += [(f"  {r.name}", r.dims, f"{r.bytes:,}") for r in self.inputs]
        rows.append(("outputs", "", ""))
        rows += [(f"  {r.name}" + " (in place)" * (r.name in self.in_place), r.dims, f"{r.bytes:,}")
                 for r in self.outputs]
        if self.constants:
            rows.append(("constants", "", ""))
        rows += [(f"  {r.name}", r.dims, f"{r.bytes:,}") for r in self.constants]
        if self.swapped:
            rows.append(("swapped out", "", ""))
        rows += [(f"  {r.name}", r.dims, f"{r.bytes:,}") for r in self.swapped]
        return rows

    def _statements(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("statement", "", "dims", "workspace", "allocated", "live", "total", "")]
        most = self.live_bytes
        marked = False
        for r in self.statements:
            peak = r.live == most and not marked and most > 0
            marked |= peak
            workspace, allocated = (f"{n:,}" if n else "" for n in (r.workspace, r.allocated))
            rows.append(("  " * r.depth + r.name, r.mathematics, r.dims, workspace, allocated, f"{r.live:,}",
                         f"{r.total:,}", "<- peak" if peak else ""))
        return rows

    def _foot(self) -> list[str]:
        unused = self.peak_bytes - self.live_bytes
        resident = self.rounded_bytes - self.swap_bytes
        whole = "" if resident == self.peak_bytes else f" of {resident:,}"
        of = "" if self.build == "call" else " of exported C"
        out = [f"peak {self.peak_bytes:,} bytes in the arena{whole}{of}: {self.live_bytes:,} alive at once, "
               f"{unused:,} between arrays, which begin at multiples of 64",
               f"inputs {self.input_bytes:,} bytes, outputs {self.output_bytes:,}"]
        if self.swap_bytes:
            out.append(f"{self.swap_bytes:,} bytes more for what is swapped out")
        if self.workers > 1:
            out.append(f"{self.workers} threads: {self.arena_bytes:,} bytes, as each but the first has "
                       f"{self.worker_bytes:,} more")
        if self.find_modes is not None:
            out.append("modes " + ", ".join(f"{mode} {n:,}" for mode, n in self.peaks.items()))
        return out


def memory_table(function: Function, memory: MemoryPlan, mode: str = "fastest",
                 find_modes: Callable[[], Mapping[str, MemoryTable]] | None = None, workers: int = 1,
                 build: Build = "call") -> MemoryTable:
    """The table of a planned function, with formulas if kernels carry them."""
    buffers = tuple(BufferRow(b.name, _dims(b), b.bytes, offset, *memory.lives[b])
                    for b, offset in memory.resident.items())
    swapped = tuple(BufferRow(b.name, _dims(b), b.bytes) for b in memory.offsets if b.space == "swap")
    inputs, outputs, constants = (tuple(BufferRow(b.name, _dims(b), b.bytes) for b in side)
                                  for side in (function.given, function.outputs, function.constants))
    in_place = tuple(function.outputs[o].name for o, _ in function.in_place)
    return MemoryTable(function.name, mode, inputs, outputs, in_place, buffers, tuple(_rows(function, memory)),
                       memory.peak, find_modes, workers if memory.worker_bytes else 1, memory.worker_bytes,
                       memory.bytes, build, constants, partial(_swap_plan, function, memory), swapped,
                       memory.swap_bytes)


def _swap_plan(function: Function, memory: MemoryPlan, limit: int) -> SwapPlan:
    walk = Lifetimes()
    walk.body(function.body)
    names: dict[int, str] = {}
    headline = ""
    for now, depth, s in walk.timeline:
        if depth == 0 and not isinstance(s, Comment):
            names[now] = _head(_described(s, headline)[0], NAME)
        headline = s.text if isinstance(s, Comment) else ""
    return swap_plan(function, memory, names, limit)


def _rows(function: Function, memory: MemoryPlan) -> Iterator[StatementRow]:
    walk = Lifetimes()
    walk.body(function.body)
    lives = {b: life for b, life in memory.lives.items() if b.space != "swap"}
    offsets, total = memory.resident, 0
    headline = ""
    for now, depth, s in walk.timeline:
        if isinstance(s, Comment):
            headline = s.text
            continue
        scratch = _scratch(s)
        begun = [b for b, (first, _) in lives.items() if first == now]
        total = max([total, *(offsets[b] + b.bytes for b in begun)])
        live = sum(b.bytes for b, (first, last) in lives.items() if first <= now <= last)
        workspace = sum(b.bytes for b in scratch)
        name, mathematics, written = _described(s, headline)
        name = _head(name, NAME)
        headline = ""
        yield StatementRow(name, mathematics, depth, written, workspace,
                           sum(b.bytes for b in begun if b not in scratch), live, total, now)


def _scratch(s: Stmt) -> set[Buffer]:
    """The working memory of a statement."""
    calls = (s,) if isinstance(s, Call) else [t.call for t in s.tasks] if isinstance(s, Parallel) else ()
    return {a.buffer for c in calls for p, a in zip(c.kernel.params, c.arguments, strict=True) if p in c.kernel.scratch}


def _described(s: Stmt, headline: str) -> tuple[str, str, str]:
    """The name, beginning of the formula, and dims of a statement's results."""
    scratch = _scratch(s)
    written = next((b for b in uses(s)[1] if b not in scratch), None)
    dims = "" if written is None else _dims(written)
    match s:
        case Call() | Parallel():
            kernel = s.kernel if isinstance(s, Call) else s.tasks[0].call.kernel
            maths = kernel.comment[0] if kernel.comment else ""
            return kernel.name, _head(maths.partition(" = ")[2] or maths), dims
        case Copy():
            return f"{s.target.buffer}", f"copy of {s.source.buffer}", dims
        case Fill():
            return f"{s.buffer}", "zeros", dims
        case For() | Loop() | If():
            kind = "if" if isinstance(s, If) else "loop"
            maths = headline.partition(" = ")[2] or headline
            return (headline.partition(" = ")[0] if " = " in headline else kind), _head(maths or kind), ""
        case _:
            return type(s).__name__.lower(), "", dims


def _head(text: str, most: int = MATHEMATICS) -> str:
    return text if len(text) <= most else text[: most - 2] + " …"


def _dims(b: Buffer) -> str:
    return f"{b.dtype.name}[{', '.join(str(d) for d in b.shape)}]"
