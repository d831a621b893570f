"""Batching: a program on single values becomes one on arrays, with extra leading axes.

Before    y = build i < N { sum j < M { w[i, j] * x[j] } }                         x batched over b < B
After     y = build b < B, i < N { sum j < M { w[i, j] * x[b, j] } }

Only values that depend on a batched input get the axes. Loops carry batched states. A while loop runs until the test
has failed for all members, and each keeps its states once its own test has. A cond with a batched test computes both
branches and chooses. So statements run for members that would not have reached them. A tested place is read only for
the members that need it, and a loop in a branch continues only for members that took it. There is one rule per
statement and none per primitive, because scalars do not know about axes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var, as_index
from pullback.ir.program import scalars_of, statement_reads, walk_statements
from pullback.ir.traverse import Substitution, indices_of, walk


def batch(program: ir.Program, inputs: Collection[ir.Ref], axes: Sequence[Var]) -> ir.Program:
    """The program with leading axes on some inputs.

    Args:
        inputs: the program's inputs that get the axes, in front of their own.
        axes: variables that give the axes' names and extents.
    Returns:
        A program whose outputs all have the axes in front, those that do not depend on a batched input repeated.
    """
    work = _Batch(tuple(axes))
    given = tuple(work.lifted(r) if r in inputs else r for r in program.inputs)
    statements = work.statements(program.body.statements)
    results = tuple(work.repeated(r, statements) for r in program.outputs)
    return replace(program, inputs=given, body=ir.Block(tuple(statements), results))


class _Batch:
    """A walk that batches; `new` maps arrays to batched forms, `asked` selects members, if given."""

    def __init__(
        self, axes: tuple[Var, ...], new: Mapping[ir.Ref, ir.Ref] | None = None, asked: ir.Ref | None = None
    ) -> None:
        self.axes = axes
        self.new: dict[ir.Ref, ir.Ref] = dict(new or {})
        self.asked = asked

    def within(self, asked: ir.Ref | None = None) -> _Batch:
        """A walk for a block, with the axes and batched arrays of this one."""
        return _Batch(self.axes, self.new, asked or self.asked)

    def lifted(self, r: ir.Ref) -> ir.Ref:
        """The batched form of an array, made on first use."""
        if r not in self.new:
            self.new[r] = ir.Ref(r.name, r.dtype, (*(v.extent for v in self.axes), *r.shape), r.bounds, r.storage)
        return self.new[r]

    def lead(self) -> tuple[Var, ...]:
        """Fresh variables for the axes."""
        return tuple(Var(v.name, v.extent) for v in self.axes)

    def substitution(self, lead: Sequence[Var]) -> Substitution:
        """Reads of batched arrays at the leading indices."""

        def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
            return expr.get(self.new[ref], *lead, *indices) if ref in self.new else expr.get(ref, *indices)

        return Substitution(get=element)

    def repeated(self, r: ir.Ref, statements: list[ir.Statement]) -> ir.Ref:
        """The batched form; an array that does not depend on the batch is repeated."""
        if r in self.new:
            return self.new[r]
        lead, own = self.lead(), tuple(Var(f"i{k}", d) for k, d in enumerate(r.shape))
        out = ir.Ref(r.name, r.dtype, (*(v.extent for v in lead), *r.shape), r.bounds, r.storage)
        statements.append(ir.Build((out,), (*lead, *own), (expr.get(r, *own),)))
        return out

    def statements(self, statements: Sequence[ir.Statement]) -> list[ir.Statement]:
        """The statements in order, with batch axes where they depend on the batch."""
        out: list[ir.Statement] = []
        for s in statements:
            again = isinstance(s, ir.Call) and s.again
            tested = self.asked is not None and _depends_on_asking(s)
            if not again and not tested and not any(r in self.new for r in statement_reads(s)):
                out.append(s)
                continue
            match s:
                case ir.Build():
                    lead = self.lead()
                    m = self.substitution(lead)
                    values = tuple(self._if_asked(m.scalar(v), lead) for v in s.values)
                    outs = tuple(self.lifted(o) for o in s.outs)
                    out.append(replace(s, outs=outs, vars=(*lead, *s.vars), values=values))
                case ir.Scatter():
                    lead = self.lead()
                    m = self.substitution(lead)
                    indices = (*map(as_index, lead), *(m.index(i) for i in s.indices))
                    value = self._if_asked(m.scalar(s.value), lead, indices)
                    out.append(replace(s, out=self.lifted(s.out), vars=(*lead, *s.vars), indices=indices, value=value))
                case ir.Sort():
                    lead = self.lead()
                    value = self._if_asked(self.substitution(lead).scalar(s.value), lead)
                    out.append(replace(s, out=self.lifted(s.out), vars=(*lead, *s.vars), value=value))
                case ir.Fold():
                    self._fold(s, out)
                case ir.While():
                    self._while(s, out)
                case ir.Choose():
                    self._choose(s, out)
                case ir.Call():
                    self._call(s, out)
                case ir.External():
                    out += external_in_turn(s, self.lead(), lambda r, at: self._row(r, at), self.lifted)
        return out

    def _row(self, r: ir.Ref, at: Sequence[Index]) -> tuple[ir.Ref, tuple[Index, ...]]:
        """The location of one batch member of an array."""
        return (self.new[r], tuple(at)) if r in self.new else (r, ())

    def _if_asked(self, value: ir.Scalar, lead: Sequence[Var], at: Sequence[Index] = ()) -> ir.Scalar:
        """Restrict a value with tested places to the members that need it."""
        if self.asked is None or not _tests_places(value, at):
            return value
        return expr.select(expr.get(self.asked, *lead), value, expr.zero(value.dtype))

    def _carried(self, s: ir.Fold | ir.While) -> tuple[list[int], list[ir.Statement]]:
        """The batched states, found as a fixed point, and the body's statements."""
        moving = [k for k, init in enumerate(s.inits) if init in self.new]
        while True:
            trial = self.within()
            for k in moving:
                trial.lifted(s.states[k])
            statements = trial.statements(s.body.statements)
            more = [k for k in range(len(s.states)) if k not in moving and s.body.results[k] in trial.new]
            if not more:
                self.new = trial.new
                return moving, statements
            moving = sorted([*moving, *more])

    def _fold(self, s: ir.Fold, out: list[ir.Statement]) -> None:
        moving, body = self._carried(s)
        count = len(s.states)
        states = tuple(self.new.get(r, r) for r in s.states)
        inits = tuple(self.repeated(r, out) if k in moving else r for k, r in enumerate(s.inits))
        results: list[ir.Ref] = []
        outs: list[ir.Ref] = []
        after: list[ir.Statement] = []
        for k, (r, o) in enumerate(zip(s.body.results, s.outs, strict=True)):
            if k < count:
                results.append(self.repeated(r, body) if k in moving else r)
                outs.append(self.lifted(o) if k in moving else o)
            elif r in self.new:
                row = self.new[r]
                stack = ir.Ref(o.name, o.dtype, (s.var.extent, *row.shape))
                results.append(row)
                outs.append(stack)
                lead, own = self.lead(), tuple(Var(f"i{j}", d) for j, d in enumerate(o.shape))
                value = expr.get(stack, own[0], *lead, *own[1:])
                after.append(ir.Build((self.lifted(o),), (*lead, *own), (value,)))
            else:
                results.append(r)
                outs.append(o)
        block = ir.Block(tuple(body), tuple(results))
        out.append(replace(s, outs=tuple(outs), states=states, inits=inits, body=block))
        out += after

    def _while(self, s: ir.While, out: list[ir.Statement]) -> None:
        moving, _ = self._carried(s)
        test = self.within()
        tested = test.statements(s.test.statements)
        if self.asked is not None or s.test.results[0] in test.new:
            self._masked_while(s, out)
            return
        moving, body = self._carried(s)
        states = tuple(self.new.get(r, r) for r in s.states)
        inits = tuple(self.repeated(r, out) if k in moving else r for k, r in enumerate(s.inits))
        results = tuple(self.repeated(r, body) if k in moving else r for k, r in enumerate(s.body.results))
        outs = tuple(self.lifted(o) if k in moving else o for k, o in enumerate(s.outs))
        block, check = ir.Block(tuple(body), results), ir.Block(tuple(tested), s.test.results)
        out.append(replace(s, outs=outs, states=states, inits=inits, test=check, body=block))

    def _masked_while(self, s: ir.While, out: list[ir.Statement]) -> None:
        """A loop whose test differs along the batch: a state keeps its value once its own test has failed."""
        inits = tuple(self.repeated(r, out) for r in s.inits)
        start = self._tested(s, inits, self.asked, out)
        alive, going = ir.Ref("alive", types.bool_, start.shape), ir.Ref("going", types.bool_, ())
        for r in s.states:
            self.lifted(r)
        states = tuple(self.new[r] for r in s.states)
        lead = self.lead()
        any_alive = expr.reduce("any", lead, expr.get(alive, *lead))
        test = ir.Block((ir.Build((going,), (), (any_alive,)),), (going,))
        work = self.within(alive)
        body = work.statements(s.body.statements)
        kept = []
        for old, new in zip(s.states, s.body.results, strict=True):
            lead, own = self.lead(), tuple(Var(f"i{k}", d) for k, d in enumerate(old.shape))
            moved = expr.get(work.repeated(new, body), *lead, *own)
            value = expr.select(expr.get(alive, *lead), moved, expr.get(self.new[old], *lead, *own))
            kept.append(ir.Ref(old.name, old.dtype, self.new[old].shape))
            body.append(ir.Build((kept[-1],), (*lead, *own), (value,)))
        still = self._tested(s, kept, alive, body)
        left = ir.Ref("alive", types.bool_, start.shape)
        outs = (*(self.lifted(o) for o in s.outs), left)
        block = ir.Block(tuple(body), (*kept, still))
        out.append(replace(s, outs=outs, states=(*states, alive), inits=(*inits, start), test=test, body=block))

    def _tested(self, s: ir.While, states: Sequence[ir.Ref], asked: ir.Ref | None, out: list[ir.Statement]) -> ir.Ref:
        """The selected members for which the loop's test holds in these states."""
        work = self.within(asked)
        work.new |= dict(zip(s.states, states, strict=True))
        out += work.statements(s.test.statements)
        return self._both(asked, work.repeated(s.test.results[0], out), out)

    def _both(self, asked: ir.Ref | None, test: ir.Ref, out: list[ir.Statement]) -> ir.Ref:
        """The selected members for which a batched test holds."""
        if asked is None:
            return test
        lead = self.lead()
        both = expr.apply("logical_and", expr.get(asked, *lead), expr.get(test, *lead))
        out.append(ir.Build((ir.Ref("asked", types.bool_, test.shape),), lead, (both,)))
        return out[-1].outs[0]

    def _call(self, s: ir.Call, out: list[ir.Statement]) -> None:
        """Batch a call: its operands, results and rules all have the axes."""
        operands = tuple(self.repeated(r, out) for r in s.operands)
        params = tuple(self.lifted(p) for p in s.params)
        body, forward, backward = self._block(s.body), self._rule(s.forward), self._rule(s.backward)
        outs = tuple(self.lifted(o) for o in s.outs)
        call = replace(s, outs=outs, operands=operands, params=params, body=body)
        out.append(replace(call, forward=forward, backward=backward))

    def _rule(self, r: ir.Rule | None) -> ir.Rule | None:
        return r and ir.Rule(tuple(self.lifted(p) for p in r.params), self._block(r.block), r.name)

    def _block(self, block: ir.Block, asked: ir.Ref | None = None) -> ir.Block:
        """A block whose results all have the axes."""
        work = self.within(asked)
        statements = work.statements(block.statements)
        results = tuple(work.repeated(r, statements) for r in block.results)
        return ir.Block(tuple(statements), results)

    def _choose(self, s: ir.Choose, out: list[ir.Statement]) -> None:
        if s.test in self.new:
            results = []
            for block, taken in ((s.then, True), (s.otherwise, False)):
                asking = any(map(_depends_on_asking, block.statements))
                both = self._block(block, self._taking(self.new[s.test], taken, out) if asking else None)
                out += both.statements
                results.append(both.results)
            for o, then, otherwise in zip(s.outs, *results, strict=True):
                lead, own = self.lead(), tuple(Var(f"i{k}", d) for k, d in enumerate(o.shape))
                test = expr.get(self.new[s.test], *lead)
                value = expr.select(test, expr.get(then, *lead, *own), expr.get(otherwise, *lead, *own))
                out.append(ir.Build((self.lifted(o),), (*lead, *own), (value,), s.positions))
            return
        outs = tuple(self.lifted(o) for o in s.outs)
        out.append(replace(s, outs=outs, then=self._block(s.then), otherwise=self._block(s.otherwise)))

    def _taking(self, test: ir.Ref, taken: bool, out: list[ir.Statement]) -> ir.Ref:
        """The selected members that take a branch."""
        if not taken:
            lead = self.lead()
            refused = expr.apply("logical_not", expr.get(test, *lead))
            out.append(ir.Build((ir.Ref("refused", types.bool_, test.shape),), lead, (refused,)))
            test = out[-1].outs[0]
        return self._both(self.asked, test, out)


def external_in_turn(
    s: ir.External,
    axes: Sequence[Var],
    row: Callable[[ir.Ref, Sequence[Index]], tuple[ir.Ref, tuple[Index, ...]]],
    lifted: Callable[[ir.Ref], ir.Ref],
) -> list[ir.Statement]:
    """Call the user's C function for one value of the axes after another, on copied rows.

    Args:
        row: returns the row of an operand at values of the axes: an array and leading indices.
        lifted: the array of all results.
    """
    at = tuple(map(as_index, axes))
    statements: list[ir.Statement] = []
    given: list[ir.Ref] = []
    for r in s.operands:
        whole, lead = row(r, at)
        if lead:
            own = tuple(Var(f"i{k}", d) for k, d in enumerate(r.shape))
            given.append(ir.Ref(r.name, r.dtype, r.shape))
            statements.append(ir.Build((given[-1],), own, (expr.get(whole, *lead, *own),)))
        else:
            given.append(whole)
    made = tuple(ir.Ref(o.name, o.dtype, o.shape) for o in s.outs)
    statements.append(replace(s, outs=made, operands=tuple(given)))
    for k, v in reversed(list(enumerate(axes))):
        rows = tuple(
            lifted(o) if k == 0 else ir.Ref(o.name, o.dtype, (v.extent, *r.shape)) for o, r in zip(s.outs, made)
        )
        statements = [ir.Fold(rows, v, (), (), ir.Block(tuple(statements), made), s.positions)]
        made = rows
    return statements


def _depends_on_asking(s: ir.Statement) -> bool:
    """Whether a statement must run only for members that need it: it tests indices, or may not end."""
    for t in walk_statements(ir.Block((s,), ())):
        if isinstance(t, ir.While):
            return True
        if isinstance(t, ir.Scatter) and _tests_places(t.value, t.indices):
            return True
        if isinstance(t, ir.Build | ir.Sort) and any(map(_tests_places, scalars_of(t))):
            return True
    return False


def _tests_places(value: ir.Scalar, at: Sequence[Index] = ()) -> bool:
    """Whether a place is tested when the value is computed, or stored at `at`."""
    return any(map(expr.tests_places, (*at, *(i for n in walk(value) for i in indices_of(n)))))
