"""Forward mode: forward substitution in the triangular system of edges.

The same edges as in reverse (`ad.edges`), applied instead of transposed: the tangent of a statement's result is

    out_dot[target] = sum over the edge's variables of  weight * operand_dot[source]

summed over its edges. Loops carry the tangents of their states beside the states, so forward mode goes through every
statement, `while_loop` without a bound included, and needs no memory beyond the tangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pullback.ad.algebra import apply
from pullback.ad.blocks import active_in, loop_active, zeros
from pullback.ad.calls import check_captured, floating, no_rule, push
from pullback.ad.edges import Edge, edges_of
from pullback.ad.reverse import vjp
from pullback.ir import expr
from pullback.ir.expr import Ref, Scalar
from pullback.ir.index import Var, as_index
from pullback.ir.program import (
    Block,
    Build,
    Call,
    Choose,
    External,
    Fold,
    Program,
    Scatter,
    Statement,
    While,
    map_blocks,
)
from pullback.ir.traverse import Substitution
from pullback.rewrite.cse import eliminate_common, eliminate_dead
from pullback.rewrite.fired import fired, in_steps, step
from pullback.rewrite.kronecker import solve_deltas
from pullback.rewrite.normal_form import normalise, peel_guards, under_guards
from pullback.rewrite.steps import Given, Looped, Tangent


def jvp(program: Program, wrt: Sequence[int]) -> Program:
    """The program together with its Jacobian-vector product.

    Args:
        program: any program; it is brought to normal form first.
        wrt: positions of floating inputs.
    Returns:
        A program with inputs `program.inputs` and one tangent for each input of `wrt`; its outputs are those of
        `program`, then the tangent of each floating output, shaped like that output.
    """
    primal = normalise(solve_deltas(program))
    sources = [primal.inputs[k] for k in wrt]
    tangents = {r: Ref(f"{r.name}_dot", r.dtype, r.shape) for r in sources}
    for r, direction in tangents.items():
        step(lambda r=r, direction=direction: Given(direction, r.name, True))  # type: ignore[misc]
    sweep = _ForwardSweep(dict(tangents))
    statements = sweep.block(primal.body.statements, active_in(primal.body, set(sources)))
    floating = [r for r in primal.outputs if r.dtype.is_floating]
    results = [sweep.tangent(r, statements) for r in floating]
    names = primal.output_names or tuple(r.name for r in primal.outputs)
    dots = tuple(f"{n}_dot" for n, r in zip(names, primal.outputs, strict=True) if r.dtype.is_floating)
    out = replace(
        primal,
        name=f"{primal.name}_jvp",
        inputs=(*primal.inputs, *tangents.values()),
        body=Block(tuple(statements), (*primal.outputs, *results)),
        output_names=(*names, *dots),
    )
    return in_steps(out, normalise, eliminate_common, eliminate_dead)


class _ForwardSweep:
    """One forward walk; `tangents` maps an array to the array of its tangent, where it has one."""

    def __init__(self, tangents: dict[Ref, Ref]) -> None:
        self.tangents = tangents

    def tangent(self, r: Ref, statements: list[Statement]) -> Ref:
        """The tangent of an array, zeros where it depends on no source."""
        found = self.tangents.get(r)
        if found is None:
            made = zeros(f"{r.name}_dot", r)
            statements.append(made)
            found = made.outs[0]
        return found

    def block(self, statements: Sequence[Statement], active: set[Ref]) -> list[Statement]:
        """The statements, each followed by those for the tangents of what it defines."""
        out: list[Statement] = []
        for s in statements:
            if not any(o in active for o in s.outs):
                out.append(s)
                continue
            match s:
                case Build() | Scatter():
                    out += self._elements(s, active)
                case Fold() | While():
                    out += self._loop(s, active)
                case Choose():
                    out += self._branches(s, active)
                case Call():
                    out += self._call(s, active)
                case External():
                    raise no_rule(s, (r.name for r in s.operands if r in active))
        return out

    def _elements(self, s: Build | Scatter, active: set[Ref]) -> list[Statement]:
        found = edges_of(s, active)
        out: list[Statement] = [*(found.instead or (s,)), *found.helpers]
        by_result: dict[Ref, list[Edge]] = {}
        for e in found.edges:
            if e.operand not in self.tangents:  # it depends on a source, with derivative zero
                continue
            by_result.setdefault(e.result, []).append(e)
        for result, edges in by_result.items():
            value = expr.add(*(apply(e, self.tangents[e.operand]) for e in edges))
            dot = Ref(f"{result.name}_dot", result.dtype, result.shape)
            fresh = tuple(Var(v.name, v.extent) for v in s.vars)
            m = Substitution(variables={v: as_index(w) for v, w in zip(s.vars, fresh, strict=True)})
            if isinstance(s, Scatter):
                value = under_guards(value, peel_guards(s.value)[0])  # where they hold, the indices are in range
                out.append(
                    replace(s, out=dot, vars=fresh, indices=tuple(map(m.index, s.indices)), value=m.scalar(value))
                )
            else:
                summed: Scalar = expr.reduce("sum", edges[0].variables[len(s.vars) :], value)
                out.append(Build((dot,), fresh, (m.scalar(summed),), s.positions))
            self.tangents[result] = dot
            fired("forward.chain")
            step(lambda result=result, dot=dot, s=out[-1]: Tangent(result, dot, s))  # type: ignore[misc]
        return out

    def _loop(self, s: Fold | While, active: set[Ref]) -> list[Statement]:
        """The loop with the tangents of its moving states as further states."""
        fired("derivative.fold")
        step(lambda: Looped(s))
        before: list[Statement] = []
        inside = loop_active(s, active)
        moving = [k for k, r in enumerate(s.states) if r in inside]
        inits = [self.tangent(s.inits[k], before) for k in moving]
        dots = [Ref(f"{s.states[k].name}_dot", s.states[k].dtype, s.states[k].shape) for k in moving]
        self.tangents |= dict(zip((s.states[k] for k in moving), dots, strict=True))
        body = self.block(s.body.statements, active_in(s.body, inside))
        new = [self.tangent(s.body.results[k], body) for k in moving]
        count = len(s.states)
        rows = [k for k in range(count, len(s.body.results)) if s.outs[k].dtype.is_floating and s.outs[k] in active]
        row_dots = [self.tangent(s.body.results[k], body) for k in rows]
        outs = [Ref(f"{s.outs[k].name}_dot", s.outs[k].dtype, s.outs[k].shape) for k in (*moving, *rows)]
        results = (*s.body.results[:count], *new, *s.body.results[count:], *row_dots)
        after = (*s.outs[:count], *outs[: len(moving)], *s.outs[count:], *outs[len(moving) :])
        self.tangents |= dict(zip((s.outs[k] for k in (*moving, *rows)), outs, strict=True))
        loop = replace(
            s, outs=after, states=(*s.states, *dots), inits=(*s.inits, *inits), body=Block(tuple(body), results)
        )
        return [*before, loop]

    def _call(self, s: Call, active: set[Ref]) -> list[Statement]:
        """A call and the tangents its rule gives; a checkpoint gives them itself."""
        if not s.rules:
            return self._branches(s, active)
        check_captured(s, active)
        found = push(s, self.tangents, vjp)
        self.tangents |= dict(zip(floating(s.outs), found.results, strict=True))
        return [s, *found.statements]

    def _branches(self, s: Choose | Call, active: set[Ref]) -> list[Statement]:
        """The cond or checkpoint whose blocks give the tangents too."""
        fired("derivative.cond")
        moving = [k for k, o in enumerate(s.outs) if o in active]

        def both(block: Block) -> Block:
            statements = self.block(block.statements, active_in(block, set(active)))
            results = (*block.results, *(self.tangent(block.results[k], statements) for k in moving))
            return Block(tuple(statements), results)

        outs = [Ref(f"{s.outs[k].name}_dot", s.outs[k].dtype, s.outs[k].shape) for k in moving]
        changed = map_blocks(s, both)
        assert isinstance(changed, Choose | Call)
        self.tangents |= dict(zip((s.outs[k] for k in moving), outs, strict=True))
        return [replace(changed, outs=(*s.outs, *outs))]
