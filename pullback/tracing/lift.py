"""Lifting of statements: the index variables that a statement depends on become leading axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pullback.errors import TraceError
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var, as_index
from pullback.ir.program import blocks_of, statement_reads, whole_reads
from pullback.ir.traverse import Substitution
from pullback.rewrite.batch import external_in_turn

Views = Mapping[ir.Ref, tuple[ir.Ref, tuple[Var, ...]]]


def lift_statement(
    statement: ir.Statement, variables: tuple[Var, ...], mapping: dict[ir.Ref, ir.Ref], views: Views
) -> list[ir.Statement]:
    """Statements that compute `statement` for all values of `variables`.

    Args:
        statement: the statement; `variables` occur free in it.
        variables: the variables of the new leading axes, outermost first.
        mapping: filled with array -> lifted array for everything the statement defines.
        views: arrays lifted earlier, as (array, the variables of its leading axes).
    """
    return _Lift(variables, mapping, views).statement(statement)


def free_variables(statement: ir.Statement, views: Views) -> frozenset[Var]:
    """The outer index variables that a statement depends on."""
    free: set[Var] = set()
    bound: tuple[Var, ...] = ()
    match statement:
        case ir.Build():  # nearly all
            free.update(*[v.free for v in statement.values], *[v.extent.free for v in statement.vars])
            return frozenset(free.difference(statement.vars))
        case ir.Scatter():
            free.update(statement.value.free, *(i.free for i in statement.indices))
            bound = statement.vars
        case ir.Sort():
            free.update(statement.value.free, *(v.extent.free for v in statement.vars))
            bound = statement.vars
        case ir.Fold():
            bound = (statement.var,)
            free |= statement.var.extent.free
        case _:
            pass
    whole = whole_reads(statement)
    for block in blocks_of(statement):
        whole += block.results
        for s in block.statements:
            free |= free_variables(s, views)
    for ref in whole:
        if ref in views:
            free.update(views[ref][1])
    return frozenset(free.difference(bound))


class _Lift:
    def __init__(self, variables: tuple[Var, ...], mapping: dict[ir.Ref, ir.Ref], views: Views) -> None:
        self.variables = variables
        self.mapping = mapping
        self.views = views

    def _copies(self) -> tuple[tuple[Var, ...], Substitution]:
        copies = tuple(Var(v.name, v.extent) for v in self.variables)
        lead = tuple(as_index(c) for c in copies)

        def get(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
            lifted = self.mapping.get(ref)
            return expr.get(ref, *indices) if lifted is None else expr.get(lifted, *lead, *indices)

        return copies, Substitution(dict(zip(self.variables, lead)), get=get)

    def define(self, ref: ir.Ref) -> ir.Ref:
        out = ir.Ref(ref.name, ref.dtype, (*(v.extent for v in self.variables), *ref.shape), ref.bounds)
        self.mapping[ref] = out
        return out

    def _depends(self, s: ir.Statement) -> bool:
        if isinstance(s, ir.Call) and s.again:
            return True
        return not free_variables(s, self.views).isdisjoint(self.variables) or any(
            r in self.mapping for r in statement_reads(s)
        )

    def statement(self, s: ir.Statement) -> list[ir.Statement]:
        match s:
            case ir.Build():
                copies, sub = self._copies()
                inner, own = sub.under(s.vars)
                values = tuple(inner.scalar(v) for v in s.values)
                return [replace(s, outs=tuple(self.define(r) for r in s.outs), vars=(*copies, *own), values=values)]
            case ir.Scatter():
                copies, sub = self._copies()
                inner, own = sub.under(s.vars)
                indices = (*(as_index(c) for c in copies), *(inner.index(i) for i in s.indices))
                value = inner.scalar(s.value)
                return [replace(s, out=self.define(s.out), vars=(*copies, *own), indices=indices, value=value)]
            case ir.Sort():
                copies, sub = self._copies()
                inner, own = sub.under(s.vars)
                return [replace(s, out=self.define(s.out), vars=(*copies, *own), value=inner.scalar(s.value))]
            case ir.Fold():
                before: list[ir.Statement] = []
                inits = tuple(self.whole(r, before) for r in s.inits)
                states = tuple(self.define(r) for r in s.states)
                body = self.block(s.body)
                outs = []
                for k, r in enumerate(s.outs):
                    if k < len(states):
                        outs.append(self.define(r))
                    else:  # rows are stacked in front of the lifted axes; restore the lifted order
                        outs.append(
                            ir.Ref(r.name, r.dtype, (s.var.extent, *(v.extent for v in self.variables), *r.shape[1:]))
                        )
                made: list[ir.Statement] = [
                    *before,
                    replace(s, outs=tuple(outs), states=states, inits=inits, body=body),
                ]
                for r, stacked in zip(s.outs[len(states) :], outs[len(states) :]):
                    made.append(self._rows_last(r, stacked))
                return made
            case ir.Choose():
                return self._both(s)
            case ir.Call():
                first: list[ir.Statement] = []
                operands = tuple(self.whole(r, first) for r in s.operands)
                params = tuple(self.define(r) for r in s.params)
                call = replace(s, operands=operands, params=params, body=self.block(s.body))
                call = replace(call, forward=self._rule(s.forward), backward=self._rule(s.backward))
                return [*first, replace(call, outs=tuple(self.define(r) for r in s.outs))]
            case ir.External():

                def row(r: ir.Ref, at: Sequence[Index]) -> tuple[ir.Ref, tuple[Index, ...]]:
                    whole, theirs = self.views.get(r, (r, ()))
                    if r in self.mapping:
                        return self.mapping[r], tuple(at)
                    places = dict(zip(self.variables, at))
                    return whole, tuple(places[v] for v in theirs)

                axes = tuple(Var(v.name, v.extent) for v in self.variables)
                return external_in_turn(s, axes, row, self.define)
            case ir.While():
                raise TraceError(
                    "E133",
                    "while_loop inside `build` or a reduction: each element would need its own number of steps",
                    position=s.positions[0] if s.positions else None,
                    remedy="use `fold` with a fixed number of steps and `where`, or move the loop outside",
                )

    def _rule(self, r: ir.Rule | None) -> ir.Rule | None:
        return r and ir.Rule(tuple(self.define(p) for p in r.params), self.block(r.block), r.name)

    def block(self, b: ir.Block) -> ir.Block:
        statements: list[ir.Statement] = []
        for s in b.statements:
            statements.extend(self.statement(s) if self._depends(s) else [s])
        results = tuple(self.whole(r, statements) for r in b.results)
        return ir.Block(tuple(statements), results)

    def whole(self, r: ir.Ref, before: list[ir.Statement]) -> ir.Ref:
        """The array `r` with all leading axes, copied if it lacks some."""
        if r in self.mapping:
            return self.mapping[r]
        source, theirs = self.views.get(r, (r, ()))
        if theirs == self.variables:
            return source
        copies, sub = self._copies()
        axes = tuple(Var(n, d) for n, d in zip("ijklmnpqrs", r.shape))
        value = expr.get(source, *(sub.index(as_index(v)) for v in theirs), *(as_index(a) for a in axes))
        out = ir.Ref(r.name, r.dtype, (*(v.extent for v in self.variables), *r.shape), r.bounds)
        before.append(ir.Build((out,), (*copies, *axes), (value,)))
        return out

    def _rows_last(self, r: ir.Ref, stacked: ir.Ref) -> ir.Statement:
        copies, _ = self._copies()
        axes = tuple(Var(n, d) for n, d in zip("tijklmnpqrs", r.shape))
        value = expr.get(stacked, as_index(axes[0]), *(as_index(c) for c in copies), *(as_index(a) for a in axes[1:]))
        return ir.Build((self.define(r),), (*copies, *axes), (value,))

    def _both(self, s: ir.Choose) -> list[ir.Statement]:
        """Cond for all values of the variables: both blocks, and an elementwise choice."""
        made: list[ir.Statement] = []
        sides: list[Sequence[ir.Ref]] = []
        for b in (s.then, s.otherwise):
            for inner in b.statements:
                made.extend(self.statement(inner) if self._depends(inner) else [inner])
            sides.append([self.whole(r, made) for r in b.results])
        test = self.whole(s.test, made)
        for out, a, b in zip(s.outs, *sides):
            copies, _ = self._copies()
            axes = tuple(Var(n, d) for n, d in zip("ijklmnpqrs", out.shape))
            lead, rest = [as_index(c) for c in copies], [as_index(v) for v in axes]
            value = expr.select(expr.get(test, *lead), expr.get(a, *lead, *rest), expr.get(b, *lead, *rest))
            made.append(ir.Build((self.define(out),), (*copies, *axes), (value,), s.positions))
        return made
