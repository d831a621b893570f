"""The derivative of a cond: that of the branch that runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pullback.ad.cotangents import Cotangents, Test, element_of
from pullback.ad.linear import LinearMap, Tangents, active_in, emit, zeros
from pullback.ad.loops import filled
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.program import block_reads, map_blocks
from pullback.ir.traverse import Substitution
from pullback.rewrite.fired import fired, step
from pullback.rewrite.steps import Looped


def apply_inside(s: ir.Choose | ir.Call, tangents: Tangents, active: set[ir.Ref]) -> list[ir.Statement]:
    """The statement, whose blocks give the tangents too."""
    fired("derivative.cond")
    moving = [k for k, o in enumerate(s.outs) if o in active]

    def both(block: ir.Block) -> ir.Block:
        statements = tangents.block(block, active_in(block, active))
        results = (*block.results, *(tangents.of(block.results[k], statements) for k in moving))
        return ir.Block(tuple(statements), results)

    outs = [ir.Ref(f"{s.outs[k].name}_dot", s.outs[k].dtype, s.outs[k].shape) for k in moving]
    changed = map_blocks(s, both)
    assert isinstance(changed, ir.Choose | ir.Call)
    tangents.known |= dict(zip((s.outs[k] for k in moving), outs, strict=True))
    return [replace(changed, outs=(*s.outs, *outs))]


class BranchMap(LinearMap[ir.Choose]):
    """The map of the branch that runs."""

    def apply(self, tangents: Tangents) -> list[ir.Statement]:
        """The cond whose blocks give the tangents too."""
        return apply_inside(self.s, tangents, self.active)

    def transpose(self, cotangents: Cotangents) -> tuple[ir.Statement, ...]:
        """The backward cond: the transpose of the branch that ran, with cotangents of both branches' reads."""
        s = self.s
        given = cotangents.of_all(s.outs)
        fired("derivative.cond")
        step(lambda: Looped(s))
        wheres = {o: cotangents.where(c) for o, c in given.items() if c in cotangents.guards}
        captured = [r for r in {**block_reads(s.then), **block_reads(s.otherwise)} if r in self.active]
        seeds = [
            given.get(o) or emit(cotangents.backward, zeros(f"{o.name}_bar", o)) for o in s.outs if o.dtype.is_floating
        ]
        guarded = [k for k, o in enumerate(s.outs) if o in wheres]
        given_in = (*seeds, *(wheres[s.outs[k]] for k in guarded))
        branches: list[ir.Block] = []
        told: list[Mapping[int, ir.Ref | None]] = []
        for block in (s.then, s.otherwise):
            program = ir.Program("branch", tuple(captured), block, tuple(r.name for r in block.results))
            derived, open_at = cotangents.guarded_vjp(program, range(len(captured)), guarded)
            refs = {r: r for r in captured} | dict(zip(derived.inputs[len(captured) :], given_in, strict=True))
            copy = Substitution(refs=refs).block(derived.body)
            results = copy.results[len(block.results) :]
            said = iter(results[len(captured) :])
            told.append({k: next(said) if some else None for k, some in sorted(open_at.items())})
            branches.append(replace(copy, results=results[: len(captured)]))
        outs = [ir.Ref(f"{r.name}_bar", r.dtype, r.shape) for r in captured]
        tests = [self._test(k, r, told, branches, outs) for k, r in enumerate(captured)]
        cotangents.backward.append(ir.Choose(tuple(outs), s.test, branches[0], branches[1], s.positions))
        for r, out, test in zip(captured, outs, tests, strict=False):
            cotangents.give(r, out, test)
        return (s,)

    def _test(
        self, k: int, r: ir.Ref, told: list[Mapping[int, ir.Ref | None]], branches: list[ir.Block], outs: list[ir.Ref]
    ) -> Test | None:
        """The test where the cotangent of r may be nonzero: a value read by one branch needs that branch.

        If a branch knows where it is nonzero, both branches return an array of bools as one more result of the cond.
        """
        closed = [k in t and t[k] is None for t in told]
        if not any(k in t for t in told) or all(closed):
            return None
        if not any(t.get(k) for t in told):
            taken = expr.get(self.s.test)
            return lambda _: taken if closed[1] else expr.apply("logical_not", taken)
        where = ir.Ref(f"{r.name}_where", types.bool_, r.shape)
        outs.append(where)
        for j, t in enumerate(told):
            made = list(branches[j].statements)
            said = t.get(k) or emit(made, filled(where, k not in t))
            branches[j] = ir.Block(tuple(made), (*branches[j].results, said))
        return element_of(where)
