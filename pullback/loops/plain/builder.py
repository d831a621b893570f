"""Planning and building kernels: the work, and a builder of parameters, working memory and sites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, DimSymbol, Index, Var, as_index
from pullback.ir.program import statement_reads
from pullback.loops.analysis.joined import elements
from pullback.loops.analysis.triangles import Axes
from pullback.loops.analysis.zeros import Zeros
from pullback.loops.program import nodes
from pullback.loops.program.nodes import For, Kernel, LetIndex, Site, Stmt
from pullback.loops.program.schedule import PLAIN, Schedule
from pullback.loops.program.side_by_side import side_by_side
from pullback.loops.program.values import Buffer, View
from pullback.records import dataclass, field


@dataclass(frozen=True, eq=False)
class Work:
    """The statements of one kernel, with the facts that a plan may need.

    Each place in memory has one name here, its parameter, for all candidates and all arrays in that place. So the
    addresses in a plan hold for the kernel built from it.

    Attributes:
        statements: one statement, or neighbors.
        views: the locations of arrays.
        outs: the written arrays.
        exact: whether results must round as the statements are written.
        zeros: where arrays are zero.
        halves: arrays that nothing reads on one side of a diagonal.
        wish: schedule steps that a plan must have if a kind of kernel has several plans.
    """

    statements: tuple[ir.Statement, ...]
    views: Mapping[ir.Ref, View]
    outs: tuple[ir.Ref, ...]
    exact: bool = False
    zeros: Mapping[ir.Ref, Zeros] = field(default_factory=dict)
    halves: Mapping[ir.Ref, Axes] = field(default_factory=dict)
    wish: Schedule = PLAIN
    _parameters: dict[tuple[Buffer, Index], Buffer] = field(default_factory=dict, repr=False)
    _places: dict[Buffer, View] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(
        s: ir.Statement,
        views: Mapping[ir.Ref, View],
        exact: bool = False,
        zeros: Mapping[ir.Ref, Zeros] | None = None,
        halves: Mapping[ir.Ref, Axes] | None = None,
    ) -> Work:
        """The work of one statement."""
        return Work((s,), views, s.outs, exact, zeros or {}, halves or {})

    def __post_init__(self) -> None:
        for out in self.outs:
            self.parameter(self._old(out), written=True)

    @property
    def statement(self) -> ir.Statement:
        """The statement; of several the last."""
        return self.statements[-1]

    def _old(self, out: ir.Ref) -> ir.Ref:
        """The array that `out` overwrites elementwise, if any; its name is more informative."""
        view = self.views[out]
        return next((r for r in statement_reads(self.statement) if self.views[r].same_place(view)), out)

    def holds(self, ref: ir.Ref, out: ir.Ref) -> bool:
        """Whether two arrays are in one place."""
        return ref in self.views and self.views[ref].same_place(self.views[out])

    def parameter(self, ref: ir.Ref, written: bool = False) -> Buffer:
        """The parameter of an array; arrays in the same place share one."""
        view = self.views[ref]
        key = (view.buffer, view.offset)
        if key not in self._parameters:
            made = Buffer(ref.name, ref.dtype, ref.shape, "parameter", elements(ref.shape), written)
            self._parameters[key] = made
            self._places[made] = view
        return self._parameters[key]

    def place(self, parameter: Buffer) -> View:
        """The place of a parameter."""
        return self._places[parameter]

    def address(self, ref: ir.Ref, indices: tuple[Index, ...]) -> tuple[Buffer, Index]:
        """The address of an element: the parameter and the flat index."""
        return self.parameter(ref), flat_index(ref, indices)


Address = Callable[[ir.Ref, tuple[Index, ...]], tuple[Buffer, Index]]
"""Where an element lies: its buffer and the flat index in it."""


class Places(Protocol):
    """The source of array locations: the work while planning, a builder while writing a kernel."""

    def parameter(self, ref: ir.Ref, /) -> Buffer:
        """The parameter of an array."""

    def address(self, ref: ir.Ref, indices: tuple[Index, ...], /) -> tuple[Buffer, Index]:
        """The address of an element."""


def flat_index(ref: ir.Ref, indices: tuple[Index, ...]) -> Index:
    """The flat index of an element in its array."""
    flat = ZERO_INDEX
    for i, extent in zip(indices, ref.shape, strict=True):
        flat = flat * extent + i
    return flat


def flat_position(variables: tuple[Var, ...]) -> Index:
    """The row-major position of the element at the variables."""
    out = ZERO_INDEX
    for v in variables:
        out = out * v.extent + as_index(v)
    return out


class KernelBuilder:
    """The state for writing one kernel: parameters for views, with written ones marked and last."""

    def __init__(self, work: Work, comment: tuple[str, ...] = ()) -> None:
        self.work = work
        self.views = work.views
        self.statement = work.statement
        self.comment = comment
        self.params: dict[tuple[Buffer, Index], Buffer] = {}
        self.arguments: list[View] = []
        self.scratches: list[Buffer] = []
        self.outs = work.outs
        self.own: dict[ir.Ref, Buffer] = {}  # arrays that are alive while the kernel runs
        for out in self.outs:
            self.parameter(out)

    def address(self, ref: ir.Ref, indices: tuple[Index, ...]) -> tuple[Buffer, Index]:
        """The address of an element: the parameter and the flat index."""
        return self.parameter(ref), flat_index(ref, indices)

    def parameter(self, ref: ir.Ref) -> Buffer:
        """The parameter of an array, which becomes one of the kernel's."""
        if ref in self.own:
            return self.own[ref]
        view = self.views[ref]
        key = (view.buffer, view.offset)
        if key not in self.params:
            self.params[key] = self.work.parameter(ref)
            self.arguments.append(view)
        return self.params[key]

    def take(self, planned: Iterable[Buffer]) -> None:
        """Add the parameters that a plan found for its reads, in the plan's order."""
        for b in planned:
            view = self.work.place(b)
            key = (view.buffer, view.offset)
            if key not in self.params:
                self.params[key] = b
                self.arguments.append(view)

    def scratch(self, name: str, like: Buffer, count: Index | int) -> Buffer:
        """A parameter for working memory of the kernel; it lives in the arena while the kernel runs."""
        buffer = Buffer(name, like.dtype, (as_index(count),), "arena", as_index(count))
        param = Buffer(name, like.dtype, buffer.shape, "parameter", buffer.elements, True)
        self.params[buffer, ZERO_INDEX] = param
        self.arguments.append(View(buffer))
        self.scratches.append(param)
        return param

    def rows(self) -> Callable[[int, str, Index], Buffer]:
        """A function that returns working memory by row number; all forms of the kernel share it."""
        made: dict[int, Buffer] = {}

        def row(which: int, name: str, count: Index) -> Buffer:
            if which not in made:
                made[which] = self.scratch(name, self.parameter(self.outs[0]), count)
            return made[which]

        return row

    def enlarge(self, param: Buffer, count: int) -> None:
        """Enlarge working memory given by `scratch` to at least `count` elements."""
        for (buffer, _), found in self.params.items():
            if found is param:
                buffer.enlarge(count)
        param.enlarge(count)

    def site(self, array: str, axis: int | None) -> Site:
        """The site of a range check of this statement."""
        positions = self.statement.positions
        names = ", ".join(r.name for r in self.statement.outs)
        return Site(array, axis, names, positions[0] if positions else None)

    def kernel(self, body: tuple[Stmt, ...], portable: tuple[Stmt, ...] | None = None) -> Kernel:
        """The kernel with this body; its index parameters are the variables the body leaves free."""
        body = side_by_side(nodes.without_unread(body))
        used = free_variables((*body, *(portable or ())))
        pairs = sorted(zip(self.params.values(), self.arguments, strict=True), key=lambda p: p[0].written)
        self.arguments = [view for _, view in pairs]
        params = tuple(b for b, _ in pairs)
        return Kernel(self.outs[0].name, params, used, body, self.comment, portable,
                      tuple(self.scratches), self._fresh(), self.statement.positions)

    def _fresh(self) -> frozenset[Buffer]:
        """The buffers that the statements write, and read only what they wrote themselves."""
        made = {o for s in self.work.statements for o in s.outs}
        read = {r for s in self.work.statements for r in statement_reads(s)} - made
        before = {(self.views[r].buffer, self.views[r].offset) for r in read}
        written = {(self.views[o].buffer, self.views[o].offset) for o in self.outs}
        return frozenset(self.params[place] for place in written - before)


def free_variables(body: tuple[Stmt, ...]) -> tuple[DimSymbol | Var, ...]:
    """Open dims by name, and index variables used but not bound in the statements, by first use."""
    bound: set[Var] = set()
    used: dict[Var, None] = {}
    dims: set[DimSymbol] = set()
    for s in nodes.walk(body):
        if isinstance(s, For | LetIndex) and isinstance(s.var, Var):
            bound.add(s.var)
        for i in nodes.statement_indices(s):
            used.update(dict.fromkeys(sorted(i.free, key=lambda v: v.serial)))
            dims.update(i.symbols)
    return (*sorted(dims, key=lambda d: d.name), *(v for v in used if v not in bound))
