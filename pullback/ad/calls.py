"""Derivatives of calls: user-defined rules, their transposes, and checkpoints.

    forward rule     y_dot = R(x, y; x_dot)          reverse is its transpose:  x_bar = R(x, y; .)^T y_bar
    backward rule    x_bar = B(x, y; y_bar)          forward is its transpose:  y_dot = B(x, y; .)^T x_dot
    checkpoint       no rule: its reverse is again a checkpoint, which recomputes all it needs from the operands

Both transposes are the reverse mode of the rule's own block, which must be linear in its tangents or cotangents;
otherwise there is an error. Once used, a rule's block is ordinary statements, so higher derivatives go through it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pullback.ad.branches import apply_inside
from pullback.ad.cotangents import Cotangents, Vjp
from pullback.ad.linear import LinearMap, Tangents, emit, zeros
from pullback.errors import DerivativeError
from pullback.ir import nodes as ir
from pullback.ir.program import block_reads, map_blocks, needed_for, statement_reads
from pullback.ir.traverse import Substitution
from pullback.records import dataclass, replace
from pullback.rewrite.fired import fired


@dataclass
class Applied:
    """Statements, and the derivatives they compute, in the order of the outs or operands that have one."""

    statements: list[ir.Statement]
    results: tuple[ir.Ref, ...]

    @property
    def zeros(self) -> set[ir.Ref]:
        """The structurally zero arrays: operands without a contribution have no cotangent."""
        builds = (s for s in self.statements if isinstance(s, ir.Build))
        return {o for s in builds for o, v in zip(s.outs, s.values, strict=True) if isinstance(v, ir.Zero)}


class RuleMap(LinearMap[ir.Call]):
    """The map of a function with a rule: the rule, or its transpose."""

    def apply(self, tangents: Tangents) -> list[ir.Statement]:
        """The tangents of the floating outs, by the forward rule or the backward rule's transpose."""
        s = self.s
        _check_captured(s, self.active)
        made: list[ir.Statement] = []
        given = [tangents.known.get(r) or emit(made, zeros(f"{r.name}_dot", r)) for r in _floating(s.operands)]
        found = self._used(s.forward, s.backward, given, made, tangents.vjp)
        tangents.known |= dict(zip(_floating(s.outs), found.results, strict=True))
        return [s, *found.statements]

    def transpose(self, cotangents: Cotangents) -> tuple[ir.Statement, ...]:
        """The cotangents of the floating operands, by the backward rule or the forward rule's transpose."""
        s = self.s
        known = cotangents.of_all(s.outs)
        _check_captured(s, self.active)
        made: list[ir.Statement] = []
        given = [known.get(o) or emit(made, zeros(f"{o.name}_bar", o)) for o in _floating(s.outs)]
        found = self._used(s.backward, s.forward, given, made, cotangents.vjp)
        _give(found, _floating(s.operands), known, cotangents)
        return (s,)

    def _used(
        self, rule: ir.Rule | None, other: ir.Rule | None, given: Sequence[ir.Ref], made: list[ir.Statement], vjp: Vjp
    ) -> Applied:
        """The rule if there is one, else the transpose of the other rule."""
        if rule is not None:
            return _used(self.s, rule, given, made)
        assert other is not None
        return _transposed(self.s, other, given, vjp, made)


class CheckpointMap(LinearMap[ir.Call]):
    """The derivative of a call without rules: that of its block."""

    def apply(self, tangents: Tangents) -> list[ir.Statement]:
        """The checkpoint whose block gives the tangents too."""
        return apply_inside(self.s, tangents, self.active)

    def transpose(self, cotangents: Cotangents) -> tuple[ir.Statement, ...]:
        """The cotangents of the operands, by a checkpoint that reruns the block."""
        s = self.s
        known = cotangents.of_all(s.outs)
        made: list[ir.Statement] = []
        wrt = [r for r in block_reads(s.body) if r in self.active]
        given = [known.get(o) or emit(made, zeros(f"{o.name}_bar", o)) for o in _floating(s.outs)]
        again = ir.Program("again", tuple(wrt), s.body, tuple(r.name for r in s.body.results))
        derived = cotangents.vjp(again, range(len(wrt)))
        refs = dict(zip(derived.inputs, (*wrt, *given), strict=True))
        body = Substitution(refs=refs).block(derived.body)
        outs = tuple(ir.Ref(f"{r.name}_bar", r.dtype, r.shape) for r in wrt)
        made.append(ir.Call(outs, (), (), replace(body, results=body.results[len(s.outs) :]), positions=s.positions))
        _give(Applied(made, outs), wrt, known, cotangents)
        return (s,)


class ForeignMap(LinearMap[ir.External]):
    """The map of a C function without a rule: every use is an error."""

    def apply(self, tangents: Tangents) -> list[ir.Statement]:
        """Raise: a C function without a rule has no derivative [E254]."""
        raise _no_rule(self.s, self.active)

    def transpose(self, cotangents: Cotangents) -> tuple[ir.Statement, ...]:
        """Raise: a C function without a rule has no derivative [E254]."""
        raise _no_rule(self.s, self.active)


def _give(found: Applied, operands: Sequence[ir.Ref], known: Mapping[ir.Ref, ir.Ref], cotangents: Cotangents) -> None:
    """Add a call's cotangents to its operands; skip a call whose cotangents are all structurally zero."""
    cotangents.backward += found.statements
    nothing, test = found.zeros, cotangents.any(list(known.values()))
    for r, cotangent in zip(operands, found.results, strict=True):
        if r in cotangents.active and cotangent not in nothing:
            cotangents.give(r, cotangent, test, taken=True)


def _floating(refs: Sequence[ir.Ref]) -> list[ir.Ref]:
    """The floating-point arrays, which have a derivative."""
    return [r for r in refs if r.dtype.is_floating]


def _check_captured(s: ir.Call, active: set[ir.Ref]) -> None:
    """Refuse a rule whose function captures an array that the derivative is taken by."""
    hidden = [r for r in block_reads(s.body) if r in active and r not in s.params]
    if hidden:
        raise DerivativeError(
            "E250",
            f"the function with a derivative of its own reads {', '.join(r.name for r in hidden)} "
            f"from around it, and its rule says nothing of that",
            position=s.positions[0] if s.positions else None,
            remedy="make it an argument, or `pb.stop_gradient` where it is meant as a constant",
        )


def _no_rule(s: ir.External, active: set[ir.Ref]) -> DerivativeError:
    """The error for a derivative through a C function without a rule."""
    return DerivativeError(
        "E254",
        f"{s.foreign.name} is a function in C without a rule for its derivative: {s.outs[0].name} depends on "
        f"{', '.join(r.name for r in s.operands if r in active)}",
        position=s.positions[0] if s.positions else None,
        remedy="`pb.external(…, vjp=…)` or `jvp=…`; `pb.stop_gradient` around an argument makes it a constant",
    )


def _unfolded(s: ir.Call, block: ir.Block) -> ir.Block:
    """A rule's block in which recursive calls of the function get its rules."""
    if not s.name:
        return block

    def statement(t: ir.Statement) -> ir.Statement:
        if not isinstance(t, ir.Call) or t.name != s.name:
            return map_blocks(t, inside)
        if t.rules:
            return t
        fired("call.again")
        again = Substitution(refs=dict(zip(s.params, t.params, strict=True)))
        return replace(t, forward=again.rule(s.forward), backward=again.rule(s.backward))

    def inside(b: ir.Block) -> ir.Block:
        return ir.Block(tuple(map(statement, b.statements)), b.results)

    return inside(block)


def _used(s: ir.Call, rule: ir.Rule, given: Sequence[ir.Ref], made: list[ir.Statement]) -> Applied:
    """The rule's block applied to the operands and the given directions."""
    refs = dict(zip((*s.params, *rule.params), (*s.operands, *s.outs, *given), strict=True))
    block = Substitution(refs=refs).block(_unfolded(s, rule.block))
    return Applied([*made, *block.statements], block.results)


def _transposed(s: ir.Call, rule: ir.Rule, given: Sequence[ir.Ref], vjp: Vjp, made: list[ir.Statement]) -> Applied:
    """The transpose of the rule as a map of its tangents or cotangents, applied to `given`."""
    linear = rule.params[len(s.outs) :]
    block = _unfolded(s, rule.block)
    program = ir.Program("rule", (*s.params, *rule.params), block, tuple(r.name for r in block.results))
    derived = vjp(program, [program.inputs.index(r) for r in linear])
    seeds = derived.inputs[len(program.inputs) :]
    results = derived.body.results[len(rule.block.results) :]
    needed = needed_for(derived.body.statements, results)
    reads = {r for t in needed for r in statement_reads(t)} | set(results)
    if not reads.isdisjoint(linear):
        raise DerivativeError(
            "E251",
            f"the rule {rule.name} is not linear in "
            f"{', '.join(r.name for r in linear if r in reads)}: it is no derivative, and has no transpose",
            position=s.positions[0] if s.positions else None,
            remedy="a rule that multiplies its tangents or cotangents by values of the arguments only; "
            f"`{'vjp' if rule is s.forward else 'jvp'}=` gives the other direction, without a transpose",
        )
    refs = dict(zip((*s.params, *rule.params[: len(s.outs)]), (*s.operands, *s.outs), strict=True))
    refs |= dict(zip(seeds, given, strict=True))
    block = Substitution(refs=refs).block(ir.Block(needed, results))
    return Applied([*made, *block.statements], block.results)
