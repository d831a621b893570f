"""Lowering of programs to the loop IR: each statement becomes a kernel of plain loops, in order.

`lower` assigns storage, writes the kernels and gives a `Function` whose body calls them. Dims without a number become
arguments. A `Chooser` decides which kernel a statement becomes; plain loops, as here, are one candidate.

    y = build n < N, k < K { sum m < M { x[n, m] * w[k, m] } }
    -->  for n, for k: float sum = 0; for m: sum += x[n * M + m] * w[k * M + m]; y[n * K + k] = sum
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from pullback.ir import nodes as ir
from pullback.ir.alpha import Key, alpha_key
from pullback.ir.dims import determined_dims
from pullback.ir.index import ZERO_INDEX, Cond, DimSymbol, Index, Var, as_index, prove_nonnegative
from pullback.ir.program import statement_reads
from pullback.ir.traverse import Substitution
from pullback.ir.types import bool_
from pullback.loops.analysis.estimates import statement_cycles
from pullback.loops.analysis.joined import elements, is_renaming
from pullback.loops.analysis.triangles import Axes, half_read
from pullback.loops.analysis.zeros import Zeros, zeros
from pullback.loops.plain.bounds import LoopNest, by_level, narrowed
from pullback.loops.plain.builder import Address, KernelBuilder, Work, flat_position
from pullback.loops.plain.candidates import Candidate, Chooser, Declined, Strategies
from pullback.loops.plain.entry import entry_checks
from pullback.loops.plain.external import check_names, external_kernel
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.plain.scatters import plain_scatter
from pullback.loops.plain.sorting import sort_kernel
from pullback.loops.plain.storage import Storage, assign_storage
from pullback.loops.plain.traps import Traps
from pullback.loops.plain.updates import changes_apart, part_cycles, update_loops, update_of, updates
from pullback.loops.program.nodes import (
    Break,
    Call,
    Comment,
    Copy,
    Fill,
    For,
    Function,
    If,
    Kernel,
    Let,
    LetIndex,
    Loop,
    Stmt,
    Store,
)
from pullback.loops.program.schedule import Chosen
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import (
    Bound,
    Buffer,
    Holds,
    Literal,
    Load,
    Read,
    Temp,
    Unary,
    View,
    bound_indices,
    largest,
    scalar,
    smallest,
)
from pullback.machine import SCALAR, Machine
from pullback.passes.arithmetic import count_operations
from pullback.records import dataclass, replace

Printer = Callable[[ir.Statement], tuple[str, ...]]
Early = Callable[[Function, Sequence[Stmt]], None]
"""A function that is called with the function being made, still without a body, and its next statements."""


def lower(
    program: ir.Program,
    comment: Printer | None = None,
    chooser: Chooser | None = None,
    needs: tuple[Cond, ...] = (),
    trapping: bool = False,
    known: Templates | None = None,
    early: Early | None = None,
) -> Function:
    """The loop program of a program.

    Args:
        comment: prints a statement as the comment of its kernel.
        chooser: chooses the kernels; plain loops by default.
        needs: the conditions on dims without a number.
        trapping: whether to test each result, see `loops.plain.traps`.
        known: kernels of programs lowered with the same settings; those of this one are added.
        early: is told of statements as they are made.
    """
    check_names(program)
    storage = assign_storage(program)
    traps = Traps(program, storage.views) if trapping else None
    exact = trapping or program.settings.exact
    lowering = Lowering(storage, comment or (lambda s: ()), chooser or PLAIN, traps, exact)
    lowering.zeros = zeros(program.body)
    lowering.halves = {} if exact else half_read(program.body)
    lowering.known = {} if known is None else known
    dims = tuple(DimSymbol(name) for name in determined_dims(program))
    function = Function(program.name, storage.inputs, storage.outputs, (), program.doc, storage.in_place,
                        count_operations(program.body), dims, needs if dims else ())
    if early is not None:
        lowering.made = partial(early, function)
    checks = entry_checks(program, storage.inputs, lowering.chooser.machine)
    entry = [*checks, *(traps.entry() if traps is not None else ())]
    return replace(function, body=(*entry, *storage.first, *lowering.block(program.body), *storage.final))


@dataclass(frozen=True)
class Template:
    """A kernel call on other arrays: the array of each argument, or working memory."""

    kernel: Kernel
    arguments: tuple[int | Buffer, ...]

    @staticmethod
    def of(s: Stmt, places: Sequence[tuple[Buffer, Index]]) -> Template | None:
        """The template of a call over arrays in these places; None if the kernel is specific to the statement.

        A kernel is specific if it reports range checks, or if it is inlined into its caller.
        """
        if not isinstance(s, Call) or s.indices is not None or not s.kernel.is_function or s.kernel.checks:
            return None
        at = {place: k for k, place in enumerate(places)}
        return Template(s.kernel, tuple(at.get((v.buffer, v.offset), v.buffer) for v in s.arguments))

    def call(self, views: Sequence[View]) -> Call:
        """The call for arrays in these views; working memory is its own."""
        arguments = (replace(a) if isinstance(a, Buffer) else views[a] for a in self.arguments)
        return Call(self.kernel, tuple(View(a) if isinstance(a, Buffer) else a for a in arguments))


# The key: statements up to names, which of their arrays share a place, where these are zero or unread, and which are
# read later.
Sides = tuple[Zeros | None, Axes | None]
Templates = dict[tuple[Key, tuple[int, ...], tuple[Sides, ...], tuple[int, ...]], list[Template]]
MOST_TOGETHER: Final = 256  # most neighboring statements considered for one loop nest


class Lowering:
    """Lowers blocks. `statement` gives the statements for one; kernels come from `kernels`."""

    def __init__(self, storage: Storage, comment: Printer, chooser: Chooser, traps: Traps | None = None,
                 exact: bool = False) -> None:
        self.storage = storage
        self.views = storage.views
        self.comment = comment
        self.chooser = chooser
        self.traps = traps
        self.exact = exact
        self.zeros: Mapping[ir.Ref, Zeros] = {}
        self.halves: Mapping[ir.Ref, Axes] = {}
        self.known: Templates = {}
        self.inner = 0  # the loops and branches around the present block
        self.made: Callable[[Sequence[Stmt]], None] = lambda statements: None  # is told of those of the program

    def inside(self, b: ir.Block) -> list[Stmt]:
        """The statements of a block in a loop or a branch."""
        self.inner += 1
        out = self.block(b)
        self.inner -= 1
        return out

    def block(self, b: ir.Block) -> list[Stmt]:
        """The statements of a block."""
        out: list[Stmt] = []
        statements = self.storage.order.get(b, b.statements)
        last = {r: k for k, s in enumerate(statements) for r in statement_reads(s)}  # the last reader of each array
        last |= dict.fromkeys(b.results, len(statements))
        k = end = 0
        while k < len(statements):
            if k >= end:
                end = next((j for j in range(k, len(statements)) if statements[j] in self.storage.joined),
                           len(statements))
            calls, count = self._together(statements[k : min(end, k + MOST_TOGETHER)], k, last)
            done = calls or self.statement(statements[k])
            if not self.inner:
                self.made(done)
            out += done
            if self.traps is not None:
                out += self.traps.after(statements[k])
            k += count
        return out

    def _together(self, statements: Sequence[ir.Statement], start: int, last: Mapping[ir.Ref, int]
                  ) -> tuple[list[Stmt], int]:
        """Return a kernel for the first statements, and their number; None and 1 if each is best alone.

        Args:
            start: the position of the first in its block.   last: the position of each array's last reader there.
        """
        count = 1 if self.inner and not self.chooser.strategies.nested else self.chooser.head(statements)
        first = tuple(statements[:count])
        stored = tuple(o for s in first for o in s.outs if last.get(o, -1) >= start + count)
        if count < 2 or not stored:
            return [], 1

        def make() -> list[Stmt]:
            call = self._chosen(Work(first, self.views, stored, self.exact), comment)
            return [] if call is None else [call]

        comment = tuple(line for s in first for line in self.comment(s))
        known = [s for s in first if isinstance(s, ir.Build | ir.Scatter)]
        calls = self._shared(known, stored, make) if len(known) == count else make()
        return calls, count if calls else 1

    def _chosen(self, work: Work, comment: tuple[str, ...]) -> Call | None:
        """A call of the kernel chosen for the work; None if there is none."""
        try:
            return Call(*self.chooser.kernel(work, comment))
        except Declined:
            return None

    def statement(self, s: ir.Statement) -> list[Stmt]:
        """The statements that do the work of `s`."""
        match s:
            case ir.Build() | ir.Scatter():
                return self.kernels(s)
            case ir.Sort():
                return [self._chosen(Work.of(s, self.views, self.exact), self.comment(s)) or self._sort(s)]
            case ir.External():
                builder = self._builder(s)
                return [Call(external_kernel(s, builder), tuple(builder.arguments))]
            case ir.Fold():
                return self._fold(s)
            case ir.While():
                return self._while(s)
            case ir.Choose():
                return self._choose(s)
            case _:
                raise AssertionError("calls are inlined by the passes")

    def kernels(self, s: ir.Build | ir.Scatter) -> list[Stmt]:
        """Calls of kernels, or a copy.

        Statements that are equal up to names, with the same sharing of places, share kernels: a deep network has few.
        """
        if isinstance(s, ir.Build):
            if s in self.storage.joined:
                return [x for part in self.storage.joined[s] for x in self.kernels(part.build)]
            copy = self._as_copy(s)
            if copy is not None:
                return copy
        return self._shared([s], s.outs, lambda: self._kernels(s))

    def _shared(self, statements: Sequence[ir.Build | ir.Scatter], stored: tuple[ir.Ref, ...],
                make: Callable[[], list[Stmt]]) -> list[Stmt]:
        """Return calls of the kernels of earlier statements of this form, or else the calls of `make`.

        Args:
            stored: the arrays that are read later.
        """
        what, refs = alpha_key(*statements)
        views = [self.views[r] for r in refs]
        places = [(v.buffer, v.offset) for v in views]
        sides = tuple((self.zeros.get(r), self.halves.get(r)) for r in refs)
        key = what, tuple(map(places.index, places)), sides, tuple(map(refs.index, stored))
        known = self.known.get(key)
        if known is not None and self.traps is None:
            return [t.call(views) for t in known]
        made = make()
        templates = [Template.of(c, places) for c in made]
        if all(t is not None for t in templates):
            self.known[key] = [t for t in templates if t is not None]
        return made

    def _kernels(self, s: ir.Build | ir.Scatter) -> list[Stmt]:
        """Calls of kernels, or a copy, for a statement whose form is new."""
        work = Work.of(s, self.views, self.exact, self.zeros, self.halves)
        if isinstance(s, ir.Build) and update_of(s, work) is None and (parts := changes_apart(s, work)) is not None:
            return self._changed(s, *parts)
        call = self._chosen(work, self.comment(s))
        assert call is not None, "plain loops do whatever it is"
        return [call]

    def _sort(self, s: ir.Sort) -> Call:
        builder = self._builder(s)
        return Call(sort_kernel(s, builder), tuple(builder.arguments))

    def _builder(self, s: ir.Statement) -> KernelBuilder:
        """The kernel builder of a statement that has one form only."""
        return KernelBuilder(Work.of(s, self.views, self.exact), self.comment(s))

    def _changed(self, s: ir.Build, rest: ir.Scalar, changes: list[ir.Bracket]) -> list[Stmt]:
        """Write the rest, then the changes; if the rest is zero, both are one kernel."""
        builder = self._builder(s)
        loops = update_loops(s, changes, builder, added=len(changes) > 1 or not isinstance(rest, ir.Zero))
        if isinstance(rest, ir.Zero):
            out = builder.parameter(s.outs[0])
            loops = (Fill(out, ZERO_INDEX, out.elements), *loops)
        before = [] if isinstance(rest, ir.Zero) else self.kernels(replace(s, values=(rest,)))
        cycles = part_cycles(s, changes, self.chooser.machine)
        kernel = replace(builder.kernel(loops), choice=Chosen("part", cycles))
        return [*before, Call(kernel, tuple(builder.arguments))]

    def _as_copy(self, s: ir.Build) -> list[Stmt] | None:
        """A copy for a build that repeats or reshapes an array; empty if it is in place already."""
        value = s.values[0]
        if not isinstance(value, ir.Get) or not is_renaming(s, value.ref):
            return None
        target, source = self.views[s.outs[0]], self.views[value.ref]
        return [] if target.same_place(source) else [Copy(target, source, elements(value.ref.shape))]

    def _fold(self, s: ir.Fold) -> list[Stmt]:
        copies = self.storage.copies[s]
        call = self._chosen(Work.of(s, self.views, self.exact), self.comment(s))
        if call is not None:
            return [*copies.before, call]
        body = (*copies.first, *self._note(s.states), *self.inside(s.body), *copies.last[0])
        return [*_headline(self.comment(s)), *copies.before, For(s.var, ZERO_INDEX, s.var.extent, body)]

    def _while(self, s: ir.While) -> list[Stmt]:
        copies = self.storage.copies[s]
        test = self.views[s.test.results[0]]
        going = Load(test.buffer, test.offset, scalar(bool_))
        leave = If(Unary("!", going, scalar(bool_)), (Break(),))
        body = (*self._note(s.states), *self.inside(s.test), leave, *self.inside(s.body), *copies.last[0])
        loop: Stmt = Loop(body)
        if s.max_trips is not None:
            loop = For(Var("trip", s.max_trips), ZERO_INDEX, s.max_trips, body)
        return [*_headline(self.comment(s)), *copies.before, loop]

    def _note(self, arrays: Sequence[ir.Ref]) -> list[Stmt]:
        """The statements that record for traps which arrays are finite when a trip begins."""
        return [] if self.traps is None else self.traps.note(arrays)

    def _choose(self, s: ir.Choose) -> list[Stmt]:
        copies = self.storage.copies[s]
        view = self.views[s.test]
        test = Load(view.buffer, view.offset, scalar(bool_))
        then = (*self.inside(s.then), *copies.last[0])
        otherwise = (*self.inside(s.otherwise), *copies.last[1])
        return [*_headline(self.comment(s)), If(test, then, otherwise)]


def _headline(lines: tuple[str, ...]) -> list[Stmt]:
    return [Comment(lines[0].removesuffix(" {"))] if lines else []


def plain_loops(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The fallback strategy for any single statement: loops as written."""
    s = work.statement

    def build(builder: KernelBuilder) -> Kernel:
        assert isinstance(s, ir.Build | ir.Scatter)
        return builder.kernel(plain_build(s, builder) if isinstance(s, ir.Build) else plain_scatter(s, builder))

    if isinstance(s, ir.Build | ir.Scatter):
        yield Candidate("plain", statement_cycles(s, machine), build, exact=True)


def bring_plain(s: ir.Build, body: Sequence[Stmt], builder: KernelBuilder, machine: Machine) -> Kernel:
    """The kernel of these statements, with a plain-loop form if the machine wants one."""
    return builder.kernel(tuple(body), plain_build(s, builder) if machine.portable else None)


# Build ----------------------------------------------------------------------------------------------------------


def plain_build(s: ir.Build, builder: KernelBuilder) -> tuple[Stmt, ...]:
    """Loops over the variables of a build in order; those of size 1 are 0."""
    if len(s.outs) == 1:
        whole = without_units(s)
        value = whole.values[0]
        out = builder.parameter(s.outs[0])
        if isinstance(value, ir.Zero) or (
            isinstance(value, ir.Const) and value.value == 0 and not _is_negative_zero(value)
        ):
            return (Fill(out, ZERO_INDEX, out.elements),)
        if isinstance(value, ir.Bracket):
            root = Scope()
            lowering = ScalarLowering(builder.parameter, builder.site, whole.values)
            _Bracketed(whole, value, out, lowering).level(0, root)
            return tuple(root.statements)
    return tuple(element_loops(s, builder.address, builder, beside=False))


def element_loops(s: ir.Build, address: Address, builder: KernelBuilder, beside: bool = True) -> list[Stmt]:
    """Loops that store a build's elements one by one at their `address`.

    Args:
        beside: whether vectors compute other elements of the statement.
    """
    loops, root = without_units(s), Scope()
    lowering = ScalarLowering(builder.parameter, builder.site, loops.values, beside)
    nest = LoopNest(lowering, root, loops.vars, ())
    kept = {v: as_index(v) for v in loops.vars}
    here = tuple(kept.get(v, ZERO_INDEX) for v in s.vars)
    _store_all(loops, [address(o, here) for o in s.outs], lowering, nest.innermost)
    nest.close()
    return root.statements


def without_units(s: ir.Build) -> ir.Build:
    """Remove variables of size 1 from a build; the outs stay, as only flat positions are used from here."""
    single: dict[Var, Index] = {v: ZERO_INDEX for v in s.vars if v.extent.constant == 1}
    if not single:
        return s
    m = Substitution(variables=single)
    return replace(s, vars=tuple(v for v in s.vars if v not in single), values=tuple(m.scalar(v) for v in s.values))


def _is_negative_zero(c: ir.Const) -> bool:
    return isinstance(c.value, float) and str(c.value)[0] == "-"


def _store_all(
    s: ir.Build, places: Sequence[tuple[Buffer, Index]], lowering: ScalarLowering, scope: Scope
) -> None:
    """Compute all values before the stores, so that no store changes another value's input."""
    values = [lowering.value(v, scope) for v in s.values]
    if len(values) > 1:
        for k, v in enumerate(values):
            if not isinstance(v, Read | Literal):
                temp = Temp(s.outs[k].name, v.type)
                scope.statements.append(Let(temp, v))
                values[k] = Read(temp)
    scope.statements += [Store(out, position, v) for (out, position), v in zip(places, values, strict=True)]


SHORT = 8  # a row with one nonzero is tested up to this size: zeros before and after it would cost more


class _Bracketed:
    """A Build whose value is a bracket: loops over where the conditions hold, zeros around them."""

    def __init__(self, s: ir.Build, value: ir.Bracket, out: Buffer, lowering: ScalarLowering) -> None:
        self.vars = s.vars
        self.arg: ir.Scalar = value.arg
        self.out = out
        self.lowering = lowering
        self.levels = by_level(s.vars, value.conds)

    def level(self, depth: int, scope: Scope, guards: list[Cond] | None = None) -> None:
        """Write the loops from `depth` on into the scope."""
        guards = self.levels[0] if guards is None else guards
        if guards:
            inner = scope.guard(guards)
            self.level(depth, inner, [])
            test = Holds(self.lowering.conditions(guards, scope))
            zeros = self._zeros(depth, ZERO_INDEX, self._rest(depth))
            scope.statements.append(If(test, tuple(inner.statements), zeros))
            return
        if depth == len(self.vars):
            value = self.lowering.value(self.arg, scope)
            scope.statements.append(Store(self.out, flat_position(self.vars), value))
            return
        v = self.vars[depth]
        conds = self.levels[depth + 1]
        lower, upper, rest = narrowed(self.lowering, scope, v, conds)
        certain = len(rest) == len(conds)
        short = depth + 1 == len(self.vars) and (v.extent.constant or SHORT) < SHORT
        if not certain and short and any(c.op == "==" for c in conds):
            lower, upper, rest, certain = ZERO_INDEX, v.extent, conds, True
        if not certain:
            lower = self._named(f"{v.name}_begin", _at_most(lower, v.extent, scope.known), v, scope)
            upper = self._named(f"{v.name}_end", _at_least(upper, lower, scope.known), v, scope)
            size = self._rest(depth + 1)
            scope.statements.extend(self._zeros(depth, ZERO_INDEX, lower * size))
        inner = scope.inside(v, certain and (v.extent.constant or 0) >= 1, [c for c in conds if c not in rest])
        self.level(depth + 1, inner, rest)
        scope.statements.append(For(v, lower, upper, tuple(inner.statements)))
        if not certain:
            assert isinstance(upper, Index)
            scope.statements.extend(self._zeros(depth, upper * size, (v.extent - upper) * size))

    def _named(self, name: str, bound: Bound, v: Var, scope: Scope) -> Index:
        """Return the bound as an index; a maximum or minimum is first assigned to a variable."""
        if isinstance(bound, Index):
            return bound
        var = Var(name, v.extent + 1)
        scope.statements.append(LetIndex(var, bound))
        return as_index(var)

    def _rest(self, depth: int) -> Index:
        """Elements of one trip of the loop above `depth`."""
        return elements(v.extent for v in self.vars[depth:])

    def _zeros(self, depth: int, start: Index, count: Index) -> tuple[Stmt, ...]:
        """Write `count` zeros from `start` into the output part given by the variables above `depth`."""
        if count is ZERO_INDEX:
            return ()
        base = flat_position(self.vars[:depth]) * self._rest(depth)
        if depth == len(self.vars):
            zero = Literal(0.0 if self.out.dtype.is_floating else 0, scalar(self.out.dtype))
            return (Store(self.out, base, zero),)
        return (Fill(self.out, base + start, count),)


def _at_most(bound: Bound, limit: Index, known: tuple[Cond, ...]) -> Bound:
    if all(prove_nonnegative(limit - i, known) for i in bound_indices(bound)):
        return bound
    return smallest(bound, limit)


def _at_least(bound: Bound, limit: Bound, known: tuple[Cond, ...]) -> Bound:
    if isinstance(limit, Index) and all(prove_nonnegative(i - limit, known) for i in bound_indices(bound)):
        return bound
    return largest(bound, limit)


PLAIN: Final = Chooser(SCALAR, Strategies(single=(updates, plain_loops)))
