"""Copies: constants and moved elements are read at their source; a last copy absorbs its origin.

Before    e = build { 1.0 }     t = build k < N, i < M { w[i, k] }     d = build k < N, i < M { t[k, i] * e }
          j = build i < M, k < N { d[k, i] }
After     j = build i < M, k < N { w[i, k] }

Derivatives have many copies: the cotangent 1 of a result, the part of an operand, the permuted axes of a Jacobian. Only
floating-point arrays are considered, and no read at a data-dependent place is moved. Values are exactly the same.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var, as_index
from pullback.ir.program import map_blocks, map_scalars, statement_reads, with_fields
from pullback.ir.traverse import Substitution
from pullback.rewrite.cse import eliminate_common, eliminate_dead
from pullback.rewrite.fired import fired, in_steps
from pullback.rewrite.kronecker import eliminate_deltas

Rule = tuple[tuple[Var, ...], ir.Scalar]


def tidy(program: ir.Program) -> ir.Program:
    """The program without copies and deltas, equal statements merged, as derivatives are shown."""
    return in_steps(
        program,
        inline_copies,
        eliminate_deltas,
        inline_copies,
        eliminate_dead,
        absorb_copied,
        eliminate_common,
        eliminate_dead,
    )


def inline_copies(program: ir.Program) -> ir.Program:
    """Read constants and moved elements at their source; the statements stay for dead code removal."""
    return program.with_body(_inline(program.body, {}))


def _inline(block: ir.Block, outer: dict[ir.Ref, Rule]) -> ir.Block:
    known = dict(outer)

    def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
        rule = known.get(ref)
        if rule is None:
            return expr.get(ref, *indices)
        fired("copies.inline")
        return Substitution(variables=dict(zip(rule[0], indices, strict=True))).scalar(rule[1])

    out: list[ir.Statement] = []
    for s in block.statements:
        m = Substitution(get=element)
        match s:
            case ir.Build():
                if not known.keys().isdisjoint(statement_reads(s)):
                    s = with_fields(s, values=tuple(m.scalar(v) for v in s.values))
                known.update((r, (s.vars, v)) for r, v in zip(s.outs, s.values, strict=True) if _is_copy(v))
                s = with_fields(
                    s, values=tuple(expr.const(0, v.dtype) if isinstance(v, ir.Zero) else v for v in s.values)
                )
            case ir.Scatter() | ir.Sort():
                s = map_scalars(s, m.scalar, m.index)
            case _:
                s = map_blocks(s, partial(_inline, outer=known))
        out.append(s)
    return with_fields(block, statements=tuple(out))


def _is_copy(value: ir.Scalar) -> bool:
    if not value.dtype.is_floating:
        return False
    if isinstance(value, ir.Get):
        return not any(i.data for i in value.indices)
    return isinstance(value, ir.Const | ir.Zero)


def absorb_copied(program: ir.Program) -> ir.Program:
    """Compute each array that is only copied, with axes in any order, in the copy's place."""
    return program.with_body(_absorb(program.body))


def _absorb(block: ir.Block) -> ir.Block:
    reads: Counter[ir.Ref] = Counter(block.results)
    for s in block.statements:
        reads.update(statement_reads(s).keys())
    made: dict[ir.Ref, ir.Build] = {}
    gone: set[ir.Statement] = set()
    out: list[ir.Statement] = []
    for s in block.statements:
        match s:
            case ir.Build(values=(ir.Get() as value,)):
                source = made.get(value.ref)
                if source is not None and reads[value.ref] == 1 and _is_permutation(value.indices, s.vars):
                    fired("copies.absorb")
                    gone.add(source)
                    rename = dict(zip(source.vars, value.indices, strict=True))
                    values = (Substitution(variables=rename).scalar(source.values[0]),)
                    s = replace(s, values=values, positions=tuple(dict.fromkeys((*source.positions, *s.positions))))
            case _:
                s = map_blocks(s, _absorb)
        if isinstance(s, ir.Build) and len(s.outs) == 1:
            made[s.outs[0]] = s
        out.append(s)
    return with_fields(block, statements=tuple(s for s in out if s not in gone))


def _is_permutation(indices: tuple[Index, ...], variables: tuple[Var, ...]) -> bool:
    """Whether the indices are the variables, each once."""
    places = {as_index(v) for v in variables}
    return len(indices) == len(variables) == len(places) and places == set(indices)
