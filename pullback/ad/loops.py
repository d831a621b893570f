"""The derivative of a loop: tangents as further states, and its steps in reverse.

A fold is a chain of maps, one for each step. Its tangents are further states; its transpose runs the steps backward.
The forward fold stacks the incoming states, and other values of the body that the backward fold reads. Step t of the
backward fold is the part of the body's own vjp that depends on cotangents:

    forward    s_{t+1}, r_t = f(s_t, x[t], w)                            s_t and r_t are stacked
    backward   (s_bar, x_bar[t], dw) = vjp f (s_t, r_t, x[t], w)(s_bar)   for t = T - 1 .. 0,  w_bar += dw

Values that take one operation are recomputed instead.

An array read only in rows x[t, ..], x[t + 1, ..] or x[T - 1 - t, ..] has its cotangent written row by row, which is a
scan; any other captured array accumulates. If cotangents can be structurally zero (`ad.guards`), an array of bools
accompanies them, as a state if they are states. Values that the backward pass does not read are not stacked (dead
code). A while loop with a bound on its trips is a fold whose states stop changing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pullback.ad.cotangents import Cotangents, Test, element_of
from pullback.ad.linear import LinearMap, Tangents, emit, loop_active, zeros
from pullback.errors import DerivativeError
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var, as_index, cond, prove_nonnegative
from pullback.ir.program import block_reads, scalars_of, statement_reads
from pullback.ir.traverse import Substitution, walk
from pullback.rewrite.brackets import solve
from pullback.rewrite.fired import fired, step
from pullback.rewrite.steps import Looped
from pullback.source import Position, called

Row = tuple[ir.Ref, Index]  # an array, and the index on its first axis that a step reads

FEW_ROWS = 4  # most rows of one array per step whose cotangents are written row by row


class LoopMap(LinearMap[ir.Fold | ir.While]):
    """The maps of the steps, one after another."""

    def apply(self, tangents: Tangents) -> list[ir.Statement]:
        """The loop with the tangents of its moving states as further states."""
        s = self.s
        fired("derivative.fold")
        step(lambda: Looped(s))
        before: list[ir.Statement] = []
        inside = loop_active(s, self.active)
        moving = [k for k, r in enumerate(s.states) if r in inside]
        inits = [tangents.of(s.inits[k], before) for k in moving]
        dots = [ir.Ref(f"{s.states[k].name}_dot", s.states[k].dtype, s.states[k].shape) for k in moving]
        tangents.known |= dict(zip((s.states[k] for k in moving), dots, strict=True))
        body = tangents.block(s.body, inside)
        new = [tangents.of(s.body.results[k], body) for k in moving]
        count = len(s.states)
        rows = [k for k, o in enumerate(s.outs) if k >= count and o.dtype.is_floating and o in self.active]
        row_dots = [tangents.of(s.body.results[k], body) for k in rows]
        outs = [ir.Ref(f"{s.outs[k].name}_dot", s.outs[k].dtype, s.outs[k].shape) for k in (*moving, *rows)]
        results = (*s.body.results[:count], *new, *s.body.results[count:], *row_dots)
        after = (*s.outs[:count], *outs[: len(moving)], *s.outs[count:], *outs[len(moving) :])
        tangents.known |= dict(zip((s.outs[k] for k in (*moving, *rows)), outs, strict=True))
        states, block = (*s.states, *dots), ir.Block(tuple(body), results)
        return [*before, replace(s, outs=after, states=states, inits=(*s.inits, *inits), body=block)]

    def transpose(self, cotangents: Cotangents) -> tuple[ir.Statement, ...]:
        """The backward fold; the forward one stacks its inputs."""
        s = self.s
        if isinstance(s, ir.While):
            raise DerivativeError(
                "E203",
                f"reverse mode needs a bound on the trips of a {_loop_name(s)}: {s.outs[0].name} depends on "
                f"{', '.join(r.name for r in cotangents.sources)}",
                position=s.positions[0] if s.positions else None,
                remedy="`max_trips=n`, the most steps it may take: its states are stored for each",
            )
        given = cotangents.of_all(s.outs)
        fired("derivative.fold")
        step(lambda: Looped(s))
        wheres = {o: cotangents.where(c) for o, c in given.items() if c in cotangents.guards}
        backward = _Backward(s, given, wheres, cotangents)
        forward, parts = backward.run()
        cotangents.backward += backward.before
        for r, cotangent, test in parts:
            cotangents.give(r, cotangent, test)
        return (forward,)


class Step:
    """A step of a fold for the backward pass: row reads of outer arrays become its own rows.

    Attributes:
        moving: the states that change with active arrays.
        rows: the arrays that represent rows read by the step.
        shared: other active arrays that the step reads.
        body: the block of the step, over the rows.
        var, now: the variable of the backward fold, and the forward step it corresponds to.
    """

    def __init__(self, s: ir.Fold, active: set[ir.Ref]) -> None:
        self.s, self.active = s, active
        self.count = len(s.states)
        self.trips = s.var.extent
        self.var = Var(f"{s.var.name}_back", self.trips)
        self.now = self.trips - 1 - as_index(self.var)
        inside = loop_active(s, active)
        captured = [r for r in block_reads(s.body) if r in active and r not in s.states]
        slices = {r: firsts for r in captured if (firsts := _rows_read(s, r))}
        self.shared = [r for r in captured if r not in slices]
        self.moving = [k for k in range(self.count) if s.states[k] in inside]
        self.rows: dict[Row, ir.Ref] = {
            (r, at): ir.Ref(f"{r.name}_row", r.dtype, r.shape[1:]) for r, firsts in slices.items() for at in firsts
        }
        self.body = self._over_rows(set(slices)) if self.rows else s.body
        self.inner: list[ir.Statement] = []  # of the fold that goes backward

    def _over_rows(self, sliced: set[ir.Ref]) -> ir.Block:
        def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
            return expr.get(self.rows[ref, indices[0]], *indices[1:]) if ref in sliced else expr.get(ref, *indices)

        return Substitution(get=element).block(self.s.body)

    def stacked(self, refs: dict[ir.Ref, ir.Ref], parts: Parts, results: Sequence[ir.Ref]) -> ir.Fold:
        """The fold with stacked incoming states, and with step values that the backward fold would recompute.

        `refs` receives the locations of stacked values and of the rows that the step reads.
        """
        s = self.s
        own = dict(zip(results[self.count :], s.outs[self.count :], strict=True))  # existing rows
        stacks = {
            r: own.get(r) or ir.Ref(f"{r.name}_steps", r.dtype, (self.trips, *r.shape), r.bounds)
            for r in (*s.states, *parts.stored)
        }
        more = [r for r in stacks if r not in own]
        source = {row: place for place, row in self.rows.items()}

        def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
            r, *first = source.get(ref, (ref,))
            return _in_row(r, (*first, *indices)) if first else expr.get(ref, *indices)

        block = Substitution(get=element).block(ir.Block(tuple(parts.ahead), (*results, *more)))
        for r, stack in stacks.items():
            refs[r] = emit(self.inner, element_copy(r.name, stack, (self.now,)))
        at_now = Substitution(variables={s.var: self.now})
        for (r, at), row in self.rows.items():
            refs[row] = emit(self.inner, element_copy(row.name, r, (at_now.index(at),)))
        return replace(s, outs=(*s.outs, *(stacks[r] for r in more)), body=block)


class _Backward(Step):
    """The backward fold under construction; `before` holds the statements up to it and its inputs.

    `wheres` say where cotangents are not structurally zero. If one can be zero, or a step makes it so for a state, the
    backward fold carries such an array for each state.
    """

    def __init__(
        self, s: ir.Fold, given: Mapping[ir.Ref, ir.Ref], wheres: Mapping[ir.Ref, ir.Ref], cotangents: Cotangents
    ) -> None:
        super().__init__(s, cotangents.active)
        self.given, self.wheres = given, wheres
        self.wrt = [*(s.states[k] for k in self.moving), *self.rows.values(), *self.shared]
        self._derive(cotangents)
        self.before: list[ir.Statement] = []
        self.states: list[ir.Ref] = []
        self.inits: list[ir.Ref] = []

    def _derive(self, cotangents: Cotangents) -> None:
        """Differentiate a step in reverse, and split it by dependence on cotangents."""
        s, body = self.s, self.body
        inputs = (*s.states, *self.rows.values(), *self.shared)
        one = ir.Program("step", inputs, body, tuple(r.name for r in body.results))
        sources = [inputs.index(r) for r in self.wrt]
        derived, told = cotangents.guarded_vjp(one, sources, ())
        guarded: list[int] = []
        if self.wheres or any(k < len(self.moving) for k in told):
            guarded = [
                k
                for k, r in enumerate(body.results)
                if r.dtype.is_floating and (k in self.moving if k < self.count else s.outs[k] in self.wheres)
            ]
            derived, told = cotangents.guarded_vjp(one, sources, guarded)
        given_in = derived.inputs[len(inputs) :]
        parted = len(given_in) - len(guarded)
        self.derived, self.told, self.guarded = derived, told, guarded
        self.seeds, self.tests = given_in[:parted], given_in[parted:]
        self.parts = Parts(derived.body.statements, set(given_in), derived.outputs)

    def run(self) -> tuple[ir.Fold, list[tuple[ir.Ref, ir.Ref, Test | None]]]:
        """The forward fold, and the cotangents of its inputs."""
        refs = {r: r for r in self.shared}
        forward = self.stacked(refs, self.parts, self.derived.outputs[: len(self.body.results)])
        self._carry_cotangents()
        carried, gathered = self._carry_tests()
        for k, r in zip(self.guarded, self.tests, strict=True):
            where = carried.get(k)
            refs[r] = where or emit(self.inner, element_copy(r.name, self.wheres[self.s.outs[k]], (self.now,)))
        self._seed(refs)
        found, open_at = self._one_step(refs)
        told_rows = {place: row for place, row in self.rows.items() if row in open_at}
        results = self._results(found, open_at, carried, gathered)
        results += [open_at[row] for row in told_rows.values()]
        outs = [ir.Ref(x.name, x.dtype, x.shape) for x in self.states]
        outs += [ir.Ref(f"{r.name}_bar_rows", r.dtype, (self.trips, *row.shape)) for (r, _), row in self.rows.items()]
        outs += [ir.Ref(f"{r.name}_where_rows", types.bool_, (self.trips, *x.shape)) for (r, _), x in told_rows.items()]
        block, states = ir.Block(tuple(self.inner), tuple(results)), tuple(self.states)
        self.before.append(ir.Fold(tuple(outs), self.var, states, tuple(self.inits), block, self.s.positions))
        count = len(states) + len(self.rows)
        after = dict(zip(states, outs, strict=False))
        parts = self._parts_of_states(after, carried, gathered)
        wheres = dict(zip(told_rows, outs[count:], strict=True))
        return forward, parts + self._parts_of_rows(outs[len(states) : count], wheres)

    def _state(self, state: ir.Ref, init: ir.Ref) -> None:
        self.states.append(state)
        self.inits.append(init)

    def _carry_cotangents(self) -> None:
        """Carry the cotangents of moving states and of accumulating arrays as states."""
        for k in self.moving:
            r, given = self.s.states[k], self.given.get(self.s.outs[k])
            init = given if given is not None else emit(self.before, zeros(f"{r.name}_bar0", r))
            self._state(ir.Ref(f"{r.name}_bar", r.dtype, r.shape), init)
        for r in self.shared:
            self._state(ir.Ref(f"{r.name}_bar", r.dtype, r.shape), emit(self.before, zeros(f"{r.name}_bar0", r)))

    def _carry_tests(self) -> tuple[dict[int, ir.Ref], dict[ir.Ref, ir.Ref]]:
        """Carry arrays that say where those cotangents are nonzero, as further states."""
        s = self.s
        carried = {
            k: ir.Ref(f"{s.states[k].name}_where", types.bool_, s.states[k].shape)
            for k in self.guarded
            if k < self.count
        }
        for k, where in carried.items():
            known = self.wheres.get(s.outs[k])
            self._state(where, known or emit(self.before, filled(where, s.outs[k] in self.given)))
        gathered = {
            r: ir.Ref(f"{r.name}_where", types.bool_, r.shape)
            for k, r in enumerate(self.wrt) if r in self.shared and k in self.told
        }  # fmt: skip
        for where in gathered.values():
            self._state(where, emit(self.before, filled(where, False)))
        return carried, gathered

    def _seed(self, refs: dict[ir.Ref, ir.Ref]) -> None:
        """The cotangents of the step's results."""
        floating = ((k, r) for k, r in enumerate(self.body.results) if r.dtype.is_floating)
        for (k, result), seed in zip(floating, self.seeds, strict=True):
            given = self.given.get(self.s.outs[k])
            if k < self.count:
                known = self.states[self.moving.index(k)] if k in self.moving else None
            elif given is None:
                known = None
            else:
                known = emit(self.inner, element_copy(f"{result.name}_bar", given, (self.now,)))
            refs[seed] = known if known is not None else emit(self.inner, zeros(f"{result.name}_bar", result))

    def _one_step(self, refs: dict[ir.Ref, ir.Ref]) -> tuple[dict[ir.Ref, ir.Ref], dict[ir.Ref, ir.Ref]]:
        """The cotangent part of a step: its results, and where they are nonzero."""
        results = self.derived.outputs[len(self.body.results) :]
        rest = ir.Block(self.parts.behind_alone(results), results)
        block = Substitution(variables={self.s.var: self.now}, refs=refs).block(rest)
        self.inner += block.statements
        said = iter(block.results[len(self.wrt) :])
        open_at = {
            self.wrt[k]: next(said) if some else emit(self.inner, filled(self.wrt[k], False))
            for k, some in sorted(self.told.items())
        }
        return dict(zip(self.wrt, block.results, strict=False)), open_at

    def _results(
        self,
        found: dict[ir.Ref, ir.Ref],
        open_at: dict[ir.Ref, ir.Ref],
        carried: dict[int, ir.Ref],
        gathered: dict[ir.Ref, ir.Ref],
    ) -> list[ir.Ref]:
        """The step's new states and rows."""
        s, inner = self.s, self.inner
        results = [found[s.states[k]] for k in self.moving]
        for r, total in zip(self.shared, self.states[len(self.moving) :], strict=False):
            results.append(emit(inner, _combined("add", total, found[r])))
        results += [open_at.get(s.states[k]) or emit(inner, filled(where, True)) for k, where in carried.items()]
        results += [emit(inner, _combined("logical_or", where, open_at[r])) for r, where in gathered.items()]
        return results + [found[row] for row in self.rows.values()]

    def _parts_of_states(
        self, after: dict[ir.Ref, ir.Ref], carried: dict[int, ir.Ref], gathered: dict[ir.Ref, ir.Ref]
    ) -> list[tuple[ir.Ref, ir.Ref, Test | None]]:
        """The cotangents of the initial states and of accumulating arrays."""
        parts: list[tuple[ir.Ref, ir.Ref, Test | None]] = []
        for k, state in zip(self.moving, self.states, strict=False):
            if self.s.inits[k] in self.active:
                test = element_of(after[carried[k]]) if k in carried else None
                parts.append((self.s.inits[k], after[state], test))
        for r, state in zip(self.shared, self.states[len(self.moving) :], strict=False):
            parts.append((r, after[state], element_of(after[gathered[r]]) if r in gathered else None))
        return parts

    def _parts_of_rows(
        self, outs: Sequence[ir.Ref], wheres: Mapping[Row, ir.Ref]
    ) -> list[tuple[ir.Ref, ir.Ref, Test | None]]:
        """The cotangents of arrays read in rows."""
        parts: list[tuple[ir.Ref, ir.Ref, Test | None]] = []
        for place, out in zip(self.rows, outs, strict=True):
            said = wheres.get(place)
            test = None if said is None else element_of(emit(self.before, _rows_in_place(*place, self.s.var, said)))
            parts.append((place[0], emit(self.before, _rows_in_place(*place, self.s.var, out)), test))
        return parts


def element_copy(name: str, source: ir.Ref, leading: tuple[Index, ...]) -> ir.Build:
    """Copy a row into its own array, `name[i..] = source[leading.., i..]`, zeros out of range."""
    shape = source.shape[len(leading) :]
    variables = tuple(Var(f"i{k}", d) for k, d in enumerate(shape))
    return ir.Build((ir.Ref(name, source.dtype, shape),), variables, (_in_row(source, (*leading, *variables)),))


def _in_row(source: ir.Ref, indices: Sequence[Index | Var]) -> ir.Scalar:
    """An element of a row; 0 if the row is out of range, as removed guards no longer prevent that."""
    first, last = as_index(indices[0]), source.shape[0] - 1 - as_index(indices[0])
    inside = [cond(">=", i) for i in (first, last) if not prove_nonnegative(i)]
    return expr.bracket(inside, expr.get(source, *indices))


def filled(like: ir.Ref, value: bool) -> ir.Build:
    """An array of one bool, shaped like another."""
    variables = tuple(Var(f"i{k}", d) for k, d in enumerate(like.shape))
    return ir.Build((ir.Ref(like.name, types.bool_, like.shape),), variables, (expr.const(value, types.bool_),))


def _combined(name: Literal["add", "logical_or"], a: ir.Ref, b: ir.Ref) -> ir.Build:
    """Two arrays, element by element."""
    variables = tuple(Var(f"i{k}", d) for k, d in enumerate(a.shape))
    x, y = expr.get(a, *variables), expr.get(b, *variables)
    value = expr.add(x, y) if name == "add" else expr.apply(name, x, y)
    return ir.Build((ir.Ref(a.name, a.dtype, a.shape),), variables, (value,))


class Parts:
    """The statements of a step: `ahead` are independent of seeds, `behind` depend on them.

    Attributes:
        stored: the arrays of `ahead` kept for `behind` and as results: those that cost more to recompute than to load.
            A value of at most one operation is recomputed if all its operands are kept anyway.
    """

    def __init__(self, statements: Sequence[ir.Statement], seeds: set[ir.Ref], results: Sequence[ir.Ref]) -> None:
        dependent = set(seeds)
        self.ahead: list[ir.Statement] = []
        self.behind: list[ir.Statement] = []
        for s in statements:
            if dependent.isdisjoint(statement_reads(s)):
                self.ahead.append(s)
            else:
                self.behind.append(s)
                dependent.update(s.outs)
        self.stored = self._stored(results)

    def _stored(self, results: Sequence[ir.Ref]) -> list[ir.Ref]:
        made = {o for s in self.ahead for o in s.outs}
        wanted = (self._reads() | set(results)) & made
        out: list[ir.Ref] = []
        for s in reversed(self.ahead):
            here = [o for o in s.outs if o in wanted]
            if not here:
                continue
            parts = made & statement_reads(s).keys()
            if isinstance(s, ir.Build) and all(map(_is_cheap, s.values)) and parts <= wanted:
                continue
            out += here
        return out[::-1]

    def _reads(self) -> set[ir.Ref]:
        return {r for s in self.behind for r in statement_reads(s)}

    def behind_alone(self, results: Sequence[ir.Ref]) -> tuple[ir.Statement, ...]:
        """The statements of `behind`, after those that compute its unstored inputs."""
        wanted = {*results, *self._reads()}
        out: list[ir.Statement] = []
        for s in reversed(self.ahead):
            if not wanted.isdisjoint(s.outs) and not all(o in self.stored for o in s.outs if o in wanted):
                out.append(s)
                wanted.update(statement_reads(s))
        return (*out[::-1], *self.behind)


def _is_cheap(e: ir.Scalar) -> bool:
    """Whether an element takes one operation at most."""
    total = 0
    for node in walk(e):
        match node:
            case ir.Add() | ir.Mul():
                total += len(node.args) - 1
            case ir.Apply() if node.primitive.transcendental or node.primitive.name == "divide":
                return False
            case ir.Apply() | ir.Select():
                total += 1
            case ir.Reduce():
                return False
    return total <= 1


def _rows_in_place(r: ir.Ref, at: Index, var: Var, rows: ir.Ref) -> ir.Build:
    """r_bar[m, ..] = sum over t of [m == at(t)] rows[trips - 1 - t, ..], the sum solved for t."""
    variables = tuple(Var(f"i{k}", d) for k, d in enumerate(r.shape))
    step = Var(var.name, var.extent)
    there = Substitution(variables={var: as_index(step)}).index(at)
    term = expr.get(rows, var.extent - 1 - as_index(step), *variables[1:])
    solution = solve((step,), [as_index(variables[0]) - there], term)
    assert solution is not None, "a row's place reads no data"
    value = expr.reduce("any" if rows.dtype.is_bool else "sum", solution.variables, solution.term)
    return ir.Build((ir.Ref(rows.name.removesuffix("_rows"), rows.dtype, r.shape),), variables, (value,))


def _rows_read(s: ir.Fold, r: ir.Ref) -> tuple[Index, ...]:
    """The first indices of all reads of r, if they are a few functions of the step alone; else none.

    Only the body's own statements may read it, and none may give it as a result.
    """
    if r.rank == 0 or r in s.body.results:
        return ()
    firsts: dict[Index, None] = {}
    for t in s.body.statements:
        if r not in statement_reads(t):
            continue
        if not isinstance(t, ir.Elementwise):
            return ()
        for v in scalars_of(t):
            firsts |= {n.indices[0]: None for n in walk(v) if isinstance(n, ir.Get) and n.ref is r}
    steps = (i.free == {s.var} and not i.data for i in firsts)
    return tuple(firsts) if len(firsts) <= FEW_ROWS and all(steps) else ()


def _loop_name(s: ir.While) -> str:
    """The word the user wrote: a fold whose number of steps is data is a while loop, too."""
    name = called(s.positions[0]) if s.positions and isinstance(s.positions[0], Position) else None
    return "fold" if (name or "").endswith("fold") else "while_loop"


def while_as_fold(s: ir.While) -> tuple[ir.Statement, ...]:
    """A while loop of at most max_trips steps as a fold whose states freeze once the test has failed."""
    assert s.max_trips is not None
    alive0, alive = ir.Ref("alive", types.bool_, ()), ir.Ref("alive", types.bool_, ())
    first = Substitution(refs=dict(zip(s.states, s.inits, strict=True))).block(s.test)
    going = Substitution().block(s.body)
    again = Substitution(refs=dict(zip(s.states, going.results, strict=True))).block(s.test)
    then = ir.Block((*going.statements, *again.statements), (*going.results, again.results[0]))
    outs = tuple(ir.Ref(r.name, r.dtype, r.shape) for r in (*s.states, alive))
    choose = ir.Choose(outs, alive, then, ir.Block((), (*s.states, alive)), s.positions)
    left = ir.Ref("alive", types.bool_, ())
    start = ir.Build((alive0,), (), (expr.get(first.results[0]),))
    fold = ir.Fold(
        (*s.outs, left),
        Var("trip", s.max_trips),
        (*s.states, alive),
        (*s.inits, alive0),
        ir.Block((choose,), outs),
        s.positions,
    )
    return (*first.statements, start, fold)
