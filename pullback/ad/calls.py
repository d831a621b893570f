"""Calls in both directions: rules that the user gave, their transposes, and checkpoints.

    forward rule     y_dot = R(x, y; x_dot)          reverse is its transpose:  x_bar = R(x, y; .)^T y_bar
    backward rule    x_bar = B(x, y; y_bar)          forward is its transpose:  y_dot = B(x, y; .)^T x_dot
    checkpoint       no rule: its reverse is a checkpoint again, which computes from the operands what it needs

Both transposes are the reverse mode of the rule's own block, which is linear in its tangents or cotangents; where it is
not, it is no derivative, and an error says so. The rules' blocks are ordinary statements once they are used, so higher
derivatives go through them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pullback.ad.blocks import Vjp, emit, zeros
from pullback.errors import DerivativeError
from pullback.ir.expr import Ref, Zero
from pullback.ir.program import (
    Block,
    Build,
    Call,
    External,
    Program,
    Rule,
    Statement,
    block_reads,
    map_blocks,
    needed_for,
    statement_reads,
)
from pullback.ir.traverse import Substitution
from pullback.rewrite.fired import fired


@dataclass
class Applied:
    """Statements, and the derivatives they compute, in the order of the outs or operands that have one."""

    statements: list[Statement]
    results: tuple[Ref, ...]

    @property
    def zeros(self) -> set[Ref]:
        """The arrays that are zero by structure: an operand that a rule gives nothing gets no cotangent."""
        builds = (s for s in self.statements if isinstance(s, Build))
        return {o for s in builds for o, v in zip(s.outs, s.values, strict=True) if isinstance(v, Zero)}


def floating(refs: Sequence[Ref]) -> list[Ref]:
    """Those that have a derivative."""
    return [r for r in refs if r.dtype.is_floating]


def check_captured(s: Call, active: set[Ref]) -> None:
    """Refuse a rule for a function that reads, around its arguments, what the derivative is taken by."""
    hidden = [r for r in block_reads(s.body) if r in active and r not in s.params]
    if hidden:
        raise DerivativeError(
            "E250",
            f"the function with a derivative of its own reads {', '.join(r.name for r in hidden)} "
            f"from around it, and its rule says nothing of that",
            position=s.positions[0] if s.positions else None,
            remedy="make it an argument, or `pb.stop_gradient` where it is meant as a constant",
        )


def no_rule(s: External, wrt: Iterable[str]) -> DerivativeError:
    """What to say where a derivative goes through a C function that has no rule."""
    return DerivativeError(
        "E254",
        f"{s.foreign.name} is a function in C without a rule for its derivative: {s.outs[0].name} depends on "
        f"{', '.join(wrt)}",
        position=s.positions[0] if s.positions else None,
        remedy="`pb.external(…, vjp=…)` or `jvp=…`; `pb.stop_gradient` around an argument makes it a constant",
    )


def pull(s: Call, cotangents: Mapping[Ref, Ref], vjp: Vjp) -> Applied:
    """The cotangents of a call's floating operands, by its backward rule or the transpose of its forward one."""
    made: list[Statement] = []
    given = [cotangents.get(o) or emit(made, zeros(f"{o.name}_bar", o)) for o in floating(s.outs)]
    if s.backward is not None:
        return _used(s, s.backward, given, made)
    assert s.forward is not None
    return _transposed(s, s.forward, given, vjp, made)


def push(s: Call, tangents: Mapping[Ref, Ref], vjp: Vjp) -> Applied:
    """The tangents of a call's floating outs, by its forward rule or the transpose of its backward one."""
    made: list[Statement] = []
    given = [tangents.get(r) or emit(made, zeros(f"{r.name}_dot", r)) for r in floating(s.operands)]
    if s.forward is not None:
        return _used(s, s.forward, given, made)
    assert s.backward is not None
    return _transposed(s, s.backward, given, vjp, made)


def unfolded(s: Call, block: Block) -> Block:
    """A block of the call's rules in which the function itself, where it is used, has its rules."""
    if not s.name:
        return block

    def statement(t: Statement) -> Statement:
        if not isinstance(t, Call) or t.name != s.name:
            return map_blocks(t, inside)
        if t.rules:
            return t
        fired("call.again")
        again = Substitution(refs=dict(zip(s.params, t.params, strict=True)))
        return replace(t, forward=again.rule(s.forward), backward=again.rule(s.backward))

    def inside(b: Block) -> Block:
        return Block(tuple(map(statement, b.statements)), b.results)

    return inside(block)


def _used(s: Call, rule: Rule, given: Sequence[Ref], made: list[Statement]) -> Applied:
    """The rule's block over the operands and what it is given."""
    refs = dict(zip((*s.params, *rule.params), (*s.operands, *s.outs, *given), strict=True))
    block = Substitution(refs=refs).block(unfolded(s, rule.block))
    return Applied([*made, *block.statements], block.results)


def _transposed(s: Call, rule: Rule, given: Sequence[Ref], vjp: Vjp, made: list[Statement]) -> Applied:
    """The transpose of the rule as a map of its tangents or cotangents, applied to `given`."""
    linear = rule.params[len(s.outs) :]
    block = unfolded(s, rule.block)
    program = Program("rule", (*s.params, *rule.params), block, tuple(r.name for r in block.results))
    derived = vjp(program, [program.inputs.index(r) for r in linear])
    seeds = derived.inputs[len(program.inputs) :]
    results = derived.body.results[len(rule.block.results) :]
    needed = needed_for(derived.body.statements, results)
    reads = {r for t in needed for r in statement_reads(t)} | set(results)
    if not reads.isdisjoint(linear):
        raise DerivativeError(
            "E251",
            f"the rule for {s.outs[0].name} is not linear in "
            f"{', '.join(r.name for r in linear if r in reads)}: it is no derivative, and has no transpose",
            position=s.positions[0] if s.positions else None,
            remedy="a rule that multiplies its tangents or cotangents by values of the arguments only",
        )
    refs = dict(zip((*s.params, *rule.params[: len(s.outs)]), (*s.operands, *s.outs), strict=True))
    refs |= dict(zip(seeds, given, strict=True))
    block = Substitution(refs=refs).block(Block(needed, results))
    return Applied([*made, *block.statements], block.results)


def pull_again(s: Call, cotangents: Mapping[Ref, Ref], active: set[Ref], vjp: Vjp) -> Applied:
    """The cotangents of what a checkpoint reads, `captured(s, active)`, by a checkpoint that runs it again."""
    made: list[Statement] = []
    wrt = captured(s, active)
    given = [cotangents.get(o) or emit(made, zeros(f"{o.name}_bar", o)) for o in floating(s.outs)]
    derived = vjp(Program("again", tuple(wrt), s.body, tuple(r.name for r in s.body.results)), range(len(wrt)))
    refs = dict(zip(derived.inputs, (*wrt, *given), strict=True))
    body = Substitution(refs=refs).block(derived.body)
    body = replace(body, results=body.results[len(s.outs) :])
    outs = tuple(Ref(f"{r.name}_bar", r.dtype, r.shape) for r in wrt)
    made.append(Call(outs, (), (), body, positions=s.positions))
    return Applied(made, outs)


def captured(s: Call, active: set[Ref]) -> list[Ref]:
    """The active arrays that a checkpoint reads from around it."""
    return [r for r in block_reads(s.body) if r in active]
