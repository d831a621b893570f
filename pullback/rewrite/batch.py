"""Batching: a program over single values made into one over arrays of them, by extra leading axes.

Before    y = build i < N { sum j < M { w[i, j] * x[j] } }                         x batched over b < B
After     y = build b < B, i < N { sum j < M { w[i, j] * x[b, j] } }

Only what depends on a batched input gets the axes. Loops carry batched states; a while loop runs until the test has
failed for all, each keeping its states once its own has; a cond whose test is batched computes both branches and
chooses. There is one rule per statement and none per primitive, because scalars do not know about axes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from pullback.ir import expr, types
from pullback.ir.expr import Ref, Scalar
from pullback.ir.index import Index, Var, as_index
from pullback.ir.program import (
    Block,
    Build,
    Call,
    Choose,
    Fold,
    Program,
    Rule,
    Scatter,
    Statement,
    While,
    statement_reads,
)
from pullback.ir.traverse import Substitution


def batch(program: Program, inputs: Collection[Ref], axes: Sequence[Var]) -> Program:
    """The program with leading axes on some inputs.

    Args:
        inputs: those of the program's inputs that get the axes, in front of their own.
        axes: variables that give the axes' names and extents.
    Returns:
        A program whose outputs all have the axes in front, those that do not depend on a batched input repeated.
    """
    work = _Batch(tuple(axes))
    given = tuple(work.lifted(r) if r in inputs else r for r in program.inputs)
    statements = work.statements(program.body.statements)
    results = tuple(work.repeated(r, statements) for r in program.outputs)
    return replace(program, inputs=given, body=Block(tuple(statements), results))


class _Batch:
    """One walk; `new` maps an array to its batched form."""

    def __init__(self, axes: tuple[Var, ...]) -> None:
        self.axes = axes
        self.new: dict[Ref, Ref] = {}

    def lifted(self, r: Ref) -> Ref:
        """The batched form of an array, made when it is first met."""
        if r not in self.new:
            self.new[r] = Ref(r.name, r.dtype, (*(v.extent for v in self.axes), *r.shape), r.bounds)
        return self.new[r]

    def lead(self) -> tuple[Var, ...]:
        """Fresh variables for the axes."""
        return tuple(Var(v.name, v.extent) for v in self.axes)

    def substitution(self, lead: Sequence[Var]) -> Substitution:
        """Reads of batched arrays at the leading indices."""

        def element(ref: Ref, indices: tuple[Index, ...]) -> Scalar:
            return expr.get(self.new[ref], *lead, *indices) if ref in self.new else expr.get(ref, *indices)

        return Substitution(get=element)

    def repeated(self, r: Ref, statements: list[Statement]) -> Ref:
        """The batched form; an array that does not depend on the batch is repeated."""
        if r in self.new:
            return self.new[r]
        lead, own = self.lead(), tuple(Var(f"i{k}", d) for k, d in enumerate(r.shape))
        out = Ref(r.name, r.dtype, (*(v.extent for v in lead), *r.shape), r.bounds)
        statements.append(Build((out,), (*lead, *own), (expr.get(r, *own),)))
        return out

    def statements(self, statements: Sequence[Statement]) -> list[Statement]:
        """The statements in order, those that depend on the batch with its axes."""
        out: list[Statement] = []
        for s in statements:
            again = isinstance(s, Call) and s.again
            if not again and not any(r in self.new for r in statement_reads(s)):
                out.append(s)
                continue
            match s:
                case Build():
                    lead = self.lead()
                    m = self.substitution(lead)
                    values = tuple(m.scalar(v) for v in s.values)
                    outs = tuple(self.lifted(o) for o in s.outs)
                    out.append(replace(s, outs=outs, vars=(*lead, *s.vars), values=values))
                case Scatter():
                    lead = self.lead()
                    m = self.substitution(lead)
                    indices = (*map(as_index, lead), *(m.index(i) for i in s.indices))
                    value = m.scalar(s.value)
                    out.append(replace(s, out=self.lifted(s.out), vars=(*lead, *s.vars), indices=indices, value=value))
                case Fold():
                    self._fold(s, out)
                case While():
                    self._while(s, out)
                case Choose():
                    self._choose(s, out)
                case Call():
                    self._call(s, out)
        return out

    def _carried(self, s: Fold | While) -> tuple[list[int], list[Statement]]:
        """Which states are batched, to a fixed point, and the body's statements then."""
        moving = [k for k, init in enumerate(s.inits) if init in self.new]
        while True:
            trial = _Batch(self.axes)
            trial.new = dict(self.new)
            for k in moving:
                trial.lifted(s.states[k])
            statements = trial.statements(s.body.statements)
            more = [k for k in range(len(s.states)) if k not in moving and s.body.results[k] in trial.new]
            if not more:
                self.new = trial.new
                return moving, statements
            moving = sorted([*moving, *more])

    def _fold(self, s: Fold, out: list[Statement]) -> None:
        moving, body = self._carried(s)
        count = len(s.states)
        states = tuple(self.new.get(r, r) for r in s.states)
        inits = tuple(self.repeated(r, out) if k in moving else r for k, r in enumerate(s.inits))
        results: list[Ref] = []
        outs: list[Ref] = []
        after: list[Statement] = []
        for k, (r, o) in enumerate(zip(s.body.results, s.outs, strict=True)):
            if k < count:
                results.append(self.repeated(r, body) if k in moving else r)
                outs.append(self.lifted(o) if k in moving else o)
            elif r in self.new:
                row = self.new[r]
                stack = Ref(o.name, o.dtype, (s.var.extent, *row.shape))
                results.append(row)
                outs.append(stack)
                lead, own = self.lead(), tuple(Var(f"i{j}", d) for j, d in enumerate(o.shape))
                value = expr.get(stack, own[0], *lead, *own[1:])
                after.append(Build((self.lifted(o),), (*lead, *own), (value,)))
            else:
                results.append(r)
                outs.append(o)
        block = Block(tuple(body), tuple(results))
        out.append(replace(s, outs=tuple(outs), states=states, inits=inits, body=block))
        out += after

    def _while(self, s: While, out: list[Statement]) -> None:
        moving, _ = self._carried(s)
        test = _Batch(self.axes)
        test.new = dict(self.new)
        tested = test.statements(s.test.statements)
        if s.test.results[0] in test.new:
            self._masked_while(s, out)
            return
        moving, body = self._carried(s)
        states = tuple(self.new.get(r, r) for r in s.states)
        inits = tuple(self.repeated(r, out) if k in moving else r for k, r in enumerate(s.inits))
        results = tuple(self.repeated(r, body) if k in moving else r for k, r in enumerate(s.body.results))
        outs = tuple(self.lifted(o) if k in moving else o for k, o in enumerate(s.outs))
        block, check = Block(tuple(body), results), Block(tuple(tested), s.test.results)
        out.append(replace(s, outs=outs, states=states, inits=inits, test=check, body=block))

    def _masked_while(self, s: While, out: list[Statement]) -> None:
        """A loop whose test differs along the batch: a state keeps its value once its own test has failed."""
        inits = tuple(self.repeated(r, out) for r in s.inits)
        start = _Batch(self.axes)
        start.new = dict(self.new) | dict(zip(s.states, inits, strict=True))
        out += start.statements(s.test.statements)
        shape = tuple(v.extent for v in self.axes)
        alive, going = Ref("alive", types.bool_, shape), Ref("going", types.bool_, ())
        for r in s.states:
            self.lifted(r)
        states = tuple(self.new[r] for r in s.states)
        lead = self.lead()
        any_alive = expr.reduce("any", lead, expr.get(alive, *lead))
        test = Block((Build((going,), (), (any_alive,)),), (going,))
        body = self.statements(s.body.statements)
        kept = []
        for old, new in zip(s.states, s.body.results, strict=True):
            lead, own = self.lead(), tuple(Var(f"i{k}", d) for k, d in enumerate(old.shape))
            moved = expr.get(self.repeated(new, body), *lead, *own)
            value = expr.select(expr.get(alive, *lead), moved, expr.get(self.new[old], *lead, *own))
            kept.append(Ref(old.name, old.dtype, self.new[old].shape))
            body.append(Build((kept[-1],), (*lead, *own), (value,)))
        again = _Batch(self.axes)
        again.new = dict(self.new) | dict(zip(s.states, kept, strict=True))
        body += again.statements(s.test.statements)
        lead = self.lead()
        still = Ref("alive", types.bool_, shape)
        both = expr.apply("logical_and", expr.get(alive, *lead), expr.get(again.new[s.test.results[0]], *lead))
        body.append(Build((still,), lead, (both,)))
        left = Ref("alive", types.bool_, shape)
        outs = (*(self.lifted(o) for o in s.outs), left)
        first = start.new[s.test.results[0]]
        block = Block(tuple(body), (*kept, still))
        out.append(replace(s, outs=outs, states=(*states, alive), inits=(*inits, first), test=test, body=block))

    def _call(self, s: Call, out: list[Statement]) -> None:
        """A call over the batch: its operands, what it gives and its rules all have the axes."""
        operands = tuple(self.repeated(r, out) for r in s.operands)
        params = tuple(self.lifted(p) for p in s.params)
        body, forward, backward = self._block(s.body), self._rule(s.forward), self._rule(s.backward)
        outs = tuple(self.lifted(o) for o in s.outs)
        call = replace(s, outs=outs, operands=operands, params=params, body=body)
        out.append(replace(call, forward=forward, backward=backward))

    def _rule(self, r: Rule | None) -> Rule | None:
        return r and Rule(tuple(self.lifted(p) for p in r.params), self._block(r.block))

    def _block(self, block: Block) -> Block:
        """A block whose results all have the axes."""
        work = _Batch(self.axes)
        work.new = dict(self.new)
        statements = work.statements(block.statements)
        results = tuple(work.repeated(r, statements) for r in block.results)
        return Block(tuple(statements), results)

    def _choose(self, s: Choose, out: list[Statement]) -> None:
        if s.test in self.new:
            results = []
            for block in (s.then, s.otherwise):
                both = self._block(block)
                out += both.statements
                results.append(both.results)
            for o, then, otherwise in zip(s.outs, *results, strict=True):
                lead, own = self.lead(), tuple(Var(f"i{k}", d) for k, d in enumerate(o.shape))
                test = expr.get(self.new[s.test], *lead)
                value = expr.select(test, expr.get(then, *lead, *own), expr.get(otherwise, *lead, *own))
                out.append(Build((self.lifted(o),), (*lead, *own), (value,), s.positions))
            return
        outs = tuple(self.lifted(o) for o in s.outs)
        out.append(replace(s, outs=outs, then=self._block(s.then), otherwise=self._block(s.otherwise)))
