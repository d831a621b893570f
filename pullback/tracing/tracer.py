"""Tracing: recording the user's Python function as a program.

A `Tracer` collects statements while the user's function runs on traced arrays (`pullback.tracing.array`). It knows the
block under construction and the index variables in scope.

Lifting. The core has no local arrays. A statement made inside the function given to `build` or `sum_over` may depend
on the index variables there. It is emitted at the level of the enclosing block, with those variables as leading axes.
Reading it supplies them again:

    build(N, lambda n: sum(exp(x[n])))   -->   e = build n < N, m < M { exp(x[n, m]) }
                                               build n < N { sum m < M { e[n, m] } }

Only the variables that a statement depends on are added. fold, while and cond have their own blocks. The variables
around them are fixed while they run, and the finished statement is lifted as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from pullback.errors import PullbackError, ShapeError, TraceError, together
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Cond, DimSymbol, Index, Var, as_index, cond, prove
from pullback.ir.program import needed_for, statement_reads
from pullback.ir.settings import DEFAULT, Settings
from pullback.ir.traverse import Substitution
from pullback.ir.types import DType, bits_of, dtype_of, f64, i64
from pullback.source import Position, user_position
from pullback.tracing import active
from pullback.tracing.deferred import Deferred, outline_of
from pullback.tracing.lift import free_variables, lift_statement
from pullback.tracing.naming import captured_name
from pullback.tracing.printing import Entry, Prints, arrays_of, refuse
from pullback.tracing.ranges import Obligation, RangeChecker, range_error, range_of
from pullback.tracing.scope import Recipe, Scope

NDArray = np.ndarray[Any, Any]


class Tracer:
    """The program under construction. One is active per thread; see `current`.

    A function traced inside another may be a closure over values of the outer one. Each array of `parent` that it reads
    becomes a further input (`foreign`: the parent's array -> the input). Indices in scope there are fixed here.
    """

    def __init__(self, name: str, default_float: DType = f64, parent: Tracer | None = None) -> None:
        self.name = name
        self.default_float = default_float
        self.parent = parent
        self.foreign: dict[ir.Ref, ir.Ref] = {}
        self.scopes = [Scope(parent.guardable if parent else frozenset())]
        self.scopes[0].prints = []
        self.printed: Prints | None = None  # its prints, when it is finished
        self.inputs: list[ir.Ref] = []
        self.requires: dict[Cond, None] = {}
        self.positions: dict[ir.Scalar, Position] = {}
        self.origins: dict[ir.Ref, Position] = {}
        self.captured: dict[int, tuple[ir.Ref, NDArray]] = {}
        self.errors: list[PullbackError] = []
        self.ruled: list[Any] = [] if parent is None else parent.ruled  # calls whose rules are being traced
        self.sizes: dict[str, None] = {}
        self.deferred: list[Deferred] = []
        self.closures: list[Any] = []  # the arrays without a statement, as weak references
        self.place = ""  # the prefix of the names of new arrays
        self._dims: set[str] = set()  # those of the inputs
        self._owner: dict[ir.Ref, Scope] = {}
        self._views: dict[ir.Ref, tuple[ir.Ref, tuple[Var, ...]]] = {}
        self._recipes: dict[ir.Ref, Recipe] = {}
        self._checked: dict[ir.Ref, ir.Ref] = {}
        self._seen: dict[ir.Ref, ir.Ref] = {}
        self._obligations: dict[ir.Ref, tuple[tuple[Var, ...], tuple[Obligation, ...]]] = {}

    # Scopes -------------------------------------------------------------------------------------------------

    @property
    def scope(self) -> Scope:
        """The block under construction."""
        return self.scopes[-1]

    @property
    def inside(self) -> bool:
        """Whether an index variable of a build or a reduction of this block is in scope."""
        return bool(self.scope.lifted)

    @property
    def lifted(self) -> Sequence[Var]:
        """The index variables in scope in this block, outermost first."""
        return self.scope.lifted

    @property
    def guardable(self) -> frozenset[Var]:
        """The variables in scope: a condition on one of them may be known where a value is used."""
        return self.scope.parameters.union(self.scope.lifted)

    @property
    def dim_names(self) -> set[str]:
        """The names of dims usable in this function: those of its arguments and of enclosing functions."""
        own = self._dims | self.sizes.keys()
        return own | self.parent.dim_names if self.parent else own

    @contextmanager
    def under(self, variables: Sequence[Var]) -> Iterator[None]:
        """Put the variables in scope while the body of their binder is traced."""
        scope = self.scope
        depth = len(scope.lifted)
        scope.lifted.extend(variables)
        try:
            yield
        finally:
            del scope.lifted[depth:]

    @contextmanager
    def block(self, *variables: Var) -> Iterator[Scope]:
        """Open a new block; the surrounding variables are its parameters, `variables` are its own."""
        scope = Scope(self.guardable.union(variables))
        self.scopes.append(scope)
        try:
            yield scope
        finally:
            self.scopes.pop()

    # Arrays -------------------------------------------------------------------------------------------------

    def define(
        self, name: str, dtype: DType, shape: Sequence[Index], bounds: tuple[Index, Index] | None = None
    ) -> ir.Ref:
        """Define a new array in the current block."""
        return self.own(ir.Ref(name, dtype, shape, bounds))

    def own(self, ref: ir.Ref) -> ir.Ref:
        """`ref` as an array of the current block."""
        self._owner[ref] = self.scope
        return ref

    def input(self, name: str, dtype: DType, shape: Sequence[Index]) -> ir.Ref:
        """Add a new input to the program."""
        ref = self.own(ir.Ref(name, dtype.computed, shape, storage=dtype))
        self.inputs.append(ref)
        self._dims.update(s.name for e in ref.shape for s in e.symbols)
        return ref

    def capture(self, array: Any, name: str | None = None) -> ir.Ref:
        """Capture an outer array, of NumPy or on a device, as an input; functions inside gave it a `name`."""
        found = self.captured.get(id(array))
        if found is None:
            storage = dtype_of(array.dtype) if isinstance(array, np.ndarray) else array.storage
            assert storage is not None
            dtype = storage.computed
            shape = [as_index(int(n)) for n in array.shape]
            bounds = None  # the current range of its integers: indices then need no check, as with in_range
            is_known = dtype.is_integer and isinstance(array, np.ndarray) and array.size
            if is_known and array.max() < i64.maximum:  # larger integers cannot be indices
                bounds = as_index(int(array.min())), as_index(int(array.max()) + 1)
            name = name or captured_name(array) or f"captured_{len(self.captured)}"
            ref = ir.Ref(name, dtype, shape, bounds, storage)
            self._owner[ref] = self.scopes[0]
            found = self.captured[id(array)] = (ref, bits_of(array))
        return found[0]

    def read(self, ref: ir.Ref, indices: Sequence[Index]) -> ir.Scalar:
        """Read an element of an array, supplying the axes that lifting added."""
        if self.is_foreign(ref):
            return self._read_foreign(ref, indices)
        self.visible(ref)
        view = self._views.get(ref)
        if view is None:
            return expr.get(ref, *indices)
        lifted, variables = view
        return expr.get(lifted, *(as_index(v) for v in variables), *indices)

    def is_foreign(self, ref: ir.Ref) -> bool:
        """Whether the array belongs to the function around this one."""
        return self.parent is not None and ref not in self._owner

    def _read_foreign(self, ref: ir.Ref, indices: Sequence[Index]) -> ir.Scalar:
        assert self.parent is not None
        e = self.parent.read(self.parent.whole(ref), indices)  # an outer guard does not hold inside a closure
        assert isinstance(e, ir.Get)
        mine = self.foreign.get(e.ref)
        if mine is None:
            mine = self.foreign[e.ref] = ir.Ref(e.ref.name, e.ref.dtype, e.ref.shape, e.ref.bounds, e.ref.storage)
            self._owner[mine] = self.scopes[0]
            self._obligations[mine] = self.parent.obligations(e.ref)
        return expr.get(mine, *e.indices)

    def holds(self, ref: ir.Ref) -> bool:
        """Whether the array is in the current block without obligations, so that it can be used as is."""
        return self._owner.get(ref) is self.scope and ref not in self._obligations and not self.inside

    def is_view(self, ref: ir.Ref) -> bool:
        """Whether lifting gave the array more axes than the user sees."""
        return ref in self._views

    def visible(self, ref: ir.Ref) -> None:
        """Refuse arrays of a finished block, and arrays that depend on an index out of scope."""
        view = self._views.get(ref)
        if view is not None and not self.guardable.issuperset(view[1]):
            self._foreign([v for v in view[1] if v not in self.guardable], user_position())
        owner = self._owner.get(ref)
        if owner is not self.scopes[-1] and (owner is None or not any(owner is s for s in self.scopes)):
            raise TraceError(
                "E130",
                f"{ref.name} is used outside of the function that computed it",
                position=user_position(),
                remedy="return it: `fold`, `scan`, `cond` and `while_loop` hand out what their functions return",
            )

    # Statements ---------------------------------------------------------------------------------------------

    def build(
        self,
        variables: Sequence[Var],
        values: Sequence[ir.Scalar],
        names: Sequence[str],
        position: Position | None,
        bounds: Sequence[tuple[Index, Index] | None] | None = None,
        strict: bool = False,
    ) -> list[ir.Ref]:
        """Emit arrays with these elements as one statement; with `strict`, data checks ignore later guards."""
        names = [self.place + name for name in names]
        if self.scope.lifted and not strict:  # a statement without outer variables is not lifted, and no guard follows
            stand_in = ir.Build(
                tuple(ir.Ref(n, v.dtype, ()) for n, v in zip(names, values)), tuple(variables), tuple(values)
            )
            strict = free_variables(stand_in, self._views).isdisjoint(self.scope.lifted)
        checker = RangeChecker(self, frozenset(variables), strict)
        checked = tuple(checker.scalar(v, ()) for v in values)
        shape = tuple(v.extent for v in variables)
        known = bounds or [None] * len(checked)
        outs = tuple(ir.Ref(n, v.dtype, shape, b or range_of(v)) for n, v, b in zip(names, checked, known))
        if position is not None:
            for out in outs:
                self.origins[out] = position
        self.emit(
            ir.Build(outs, tuple(variables), checked, () if position is None else (position,)), checker.obligations
        )
        if any(o.data for o in checker.obligations):
            recipe = Recipe(
                outs,
                tuple(variables),
                tuple(values),
                tuple(names),
                position,
                bounds,
                self.scope,
                tuple(self.scope.lifted),
            )
            for out in outs:
                self._recipes[out] = self._recipes[self._views[out][0]] = recipe
        return list(outs)

    @contextmanager
    def at_place(self, place: str) -> Iterator[None]:
        """Set the name prefix of arrays that are made inside."""
        before, self.place = self.place, place
        try:
            yield
        finally:
            self.place = before

    def with_checks(self, ref: ir.Ref) -> tuple[ir.Ref, ir.Ref]:
        """Replace an array that relied on a guard by one with run-time checks.

        Returns the array as the user's code sees it, and as the program has it.
        """
        recipe = self._recipes[ref]
        if recipe.outs[0] not in self._checked:
            copies = tuple(Var(v.name, v.extent) for v in recipe.variables)
            s = Substitution({v: as_index(c) for v, c in zip(recipe.variables, copies)})
            values = [s.scalar(v) for v in recipe.values]
            depth = next(k for k, scope in enumerate(self.scopes) if scope is recipe.scope)
            scopes, lifted = self.scopes, recipe.scope.lifted
            self.scopes, recipe.scope.lifted = scopes[: depth + 1], list(recipe.lifted)
            try:
                made = self.build(copies, values, recipe.names, recipe.position, recipe.bounds, strict=True)
            finally:
                self.scopes, recipe.scope.lifted = scopes, lifted
            self._checked.update(zip(recipe.outs, made))
        position = next(k for k, out in enumerate(recipe.outs) if ref in (out, self._views[out][0]))
        found = self._checked[recipe.outs[position]]
        return found, self._views[found][0]

    def whole(self, ref: ir.Ref) -> ir.Ref:
        """The array to use if all elements are read and no guard is known."""
        if ref in self._recipes and any(o.data for o in self.obligations(self._views[ref][0])[1]):
            return self.with_checks(ref)[0]
        return ref

    def emit(self, statement: ir.Statement, obligations: Sequence[Obligation] = ()) -> None:
        """Add a statement to the current block, with an axis for each variable in scope that it depends on."""
        scope = self.scope
        free = free_variables(statement, self._views)
        needed = tuple([v for v in scope.lifted if v in free])
        if free and (foreign := free.difference(needed) - scope.parameters):
            self._foreign(foreign, statement.positions[0] if statement.positions else user_position())
        for out in statement.outs:
            self._owner[out] = scope
        if not needed:
            scope.statements.append(statement)
            self._owe(statement.outs, (), obligations)
            return
        mapping: dict[ir.Ref, ir.Ref] = {}
        scope.statements.extend(lift_statement(statement, needed, mapping, self._views))
        for new in mapping.values():
            self._owner[new] = scope
        copies = tuple(Var(v.name, v.extent) for v in needed)
        s = Substitution({v: as_index(c) for v, c in zip(needed, copies)})
        moved = [o.substitute(s) for o in obligations]
        for out in statement.outs:
            self._views[out] = (mapping[out], needed)
            self._seen[mapping[out]] = out
            if out in self.origins:
                self.origins[mapping[out]] = self.origins[out]
            self._owe((mapping[out],), copies, moved)

    def _foreign(self, variables: Iterable[Var], position: Position | None) -> NoReturn:
        names = ", ".join(sorted(v.name for v in variables))
        raise TraceError(
            "E131",
            f"index {names} is used outside of the function it belongs to",
            position=position,
            remedy="use an index only inside the function given to `build`, `sum_over` or `fold`",
        )

    def adopt(self, block: ir.Block) -> tuple[ir.Ref, ...]:
        """Add the statements of an instantiated block (a call) to the current one."""
        if not self.inside and not self._obligations:
            for s in block.statements:
                for out in s.outs:
                    self._owner[out] = self.scope
                self.scope.statements.append(s)
            return block.results

        def get(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
            return self.read(ref, indices) if ref in self._views else expr.get(ref, *indices)

        sub = Substitution(get=get)
        for original in block.statements:
            statement = sub.statement(original)
            owing = [r for r in statement_reads(statement) if r in self._obligations]
            if not owing:
                self.emit(statement)
            elif isinstance(statement, ir.Build):
                names = [r.name for r in statement.outs]
                position = statement.positions[0] if statement.positions else None
                bounds = [r.bounds for r in statement.outs]
                made = self.build(statement.vars, statement.values, names, position, bounds)
                sub.refs.update(zip(original.outs, made))
            else:
                self.emit(statement, self.settle(*(self._seen.get(r, r) for r in owing)))
        return tuple(sub.ref(r) for r in block.results)

    def defer(
        self, callee: ir.Outline, operands: Sequence[ir.Ref], dims: Mapping[DimSymbol, Index]
    ) -> list[ir.Ref] | None:
        """The results of a call whose statements join later; None if they cannot be deferred.

        They can be deferred at the top level of a function, over plain arrays. Elsewhere they may fuse with other code.
        """
        if self.parent is not None or len(self.scopes) > 1 or not all(map(self.holds, operands)):
            return None
        call = Deferred.of(callee, operands, dims, len(self.scope.statements))
        self.deferred.append(call)
        return [self.own(r) for r in call.outs]

    # Ranges and assumptions ---------------------------------------------------------------------------------

    def require(self, condition: Cond | bool) -> None:
        """Assume a condition on dims in the rest of the program; every call checks it."""
        if isinstance(condition, Cond) and not prove(condition, self.known):
            self.requires[condition] = None

    @property
    def known(self) -> tuple[Cond, ...]:
        """The assumptions about the dims."""
        return tuple(self.requires)

    def extent(self, extent: Index, what: str) -> Index:
        """Use a size for an axis; the rest of the program assumes that it is at least 1."""
        if extent.constant is not None and extent.constant < 0:
            raise ShapeError("E105", f"{what}: the size {extent} is negative", position=user_position())
        if extent.constant is None:
            condition = cond(">=", extent - 1)
            if condition is False:
                raise ShapeError("E105", f"{what}: the size {extent} is never positive", position=user_position())
            self.require(condition)
        return extent

    def obligations(self, ref: ir.Ref) -> tuple[tuple[Var, ...], tuple[Obligation, ...]]:
        """The conditions for reading `ref`, in variables for its leading indices."""
        return self._obligations.get(ref, ((), ()))

    def _owe(self, outs: Sequence[ir.Ref], lead: tuple[Var, ...], obligations: Sequence[Obligation]) -> None:
        if obligations:
            for out in outs:
                self._obligations[out] = (lead, tuple(obligations))

    def settle(self, *refs: ir.Ref, facts: tuple[Cond, ...] = ()) -> list[Obligation]:
        """Settle obligations for using whole arrays: prove, report, or pass on to users of the result.

        `facts` are conditions that hold wherever they are used.
        """
        left: list[Obligation] = []
        for ref in refs:
            view = self._views.get(ref)
            lead, owed = self.obligations(view[0] if view else ref)
            s = Substitution({a: as_index(v) for a, v in zip(lead, view[1])}) if view else None
            for o in owed:
                o = o.substitute(s) if s else o
                if prove(o.condition, (*self.known, *o.known, *facts)):
                    continue
                if isinstance(o.condition, Cond) and o.condition.free & self.guardable:
                    left.append(o)
                else:
                    self.report(range_error(o.access))
        return left

    def settle_block(self, results: Sequence[ir.Ref], facts: tuple[Cond, ...] = ()) -> list[Obligation]:
        """Settle the results' obligations at the end of a block, where the surrounding variables decide.

        An obligation on a variable of the block itself is an error, because nothing can discharge it later.
        """
        around = self.scopes[-2].parameters.union(self.scopes[-2].lifted)
        left: list[Obligation] = []
        for o in self.settle(*results, facts=facts):
            if isinstance(o.condition, Cond) and o.condition.free <= around:
                left.append(o)
            else:
                self.report(range_error(o.access))
        return left

    def prints(self, *entries: Entry) -> None:
        """Record prints in the current block.

        Raises:
            TraceError: [E133] the number of prints is unknown.
        """
        if entries and any(s.prints is None or s.lifted for s in self.scopes):
            refuse()
        if self.scope.prints is not None:
            self.scope.prints += entries

    def report(self, error: PullbackError) -> None:
        """Keep an error and continue, to report all errors of a function together."""
        if all(error.message != e.message for e in self.errors):
            self.errors.append(error)

    # The end ------------------------------------------------------------------------------------------------

    def finish(
        self,
        results: Sequence[ir.Ref],
        output_names: Sequence[str] = (),
        doc: str = "",
        settings: Settings = DEFAULT,
    ) -> ir.Known:
        """Finish the program; return an outline if calls wait to join it."""
        prints = tuple(self.scopes[0].prints or ())
        more = arrays_of(prints)
        for o in self.settle(*results, *more):
            self.report(range_error(o.access))
        if self.errors:
            raise together(self.errors)
        known = self._known(results, output_names, doc, settings)
        if prints:
            self.printed = Prints(prints, known, self._known((*results, *more), (), doc, settings))
        return known

    def _known(
        self, results: Sequence[ir.Ref], output_names: Sequence[str], doc: str, settings: Settings
    ) -> ir.Known:
        captured = list(self.captured.values())
        statements = self.scope.statements
        kept = tuple(statements) if self.deferred else needed_for(statements, results)
        program = ir.Program(
            self.name,
            (*self.inputs, *self.foreign.values(), *(ref for ref, _ in captured)),
            ir.Block(kept, tuple(results)),
            tuple(output_names),
            tuple(self.requires),
            tuple(self.sizes),
            doc,
            replace(settings, captured=tuple(array for _, array in captured)),
        )
        return outline_of(program, self.deferred) if self.deferred else program


def current() -> Tracer:
    """The active tracer."""
    found: Tracer = active.current()
    return found
