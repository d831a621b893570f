"""Deferred calls of outlined programs: their statements join the caller's on demand.

A caller with such calls is an outline, too. It is identified by its own statements, in which the results of a call are
undefined arrays, and by the identities of its callees. If its machine code is in the cache, the callees' statements are
not created. Otherwise the program equals the one that results from joining them at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pullback.ir import nodes as ir
from pullback.ir.identity import digest
from pullback.ir.index import DimSymbol, Index
from pullback.ir.printer import print_program
from pullback.ir.program import needed_for
from pullback.ir.traverse import Substitution, instantiate
from pullback.records import dataclass, replace


@dataclass(frozen=True)
class Deferred:
    """A deferred call outs = callee(operands) with given dims, before the caller's statement `at`."""

    callee: ir.Outline
    operands: tuple[ir.Ref, ...]
    dims: Mapping[DimSymbol, Index]
    outs: tuple[ir.Ref, ...]
    at: int

    @staticmethod
    def of(callee: ir.Outline, operands: Sequence[ir.Ref], dims: Mapping[DimSymbol, Index], at: int) -> Deferred:
        """Make the call, with arrays for its results."""
        s = Substitution(dims=dims)
        outs = tuple(s.define(r) for r in callee.outputs)
        return Deferred(callee, tuple(operands), dims, outs, at)


def outline_of(caller: ir.Program, calls: Sequence[Deferred]) -> ir.Outline:
    """The outline of the program with these calls."""
    p = caller
    return ir.Outline(p.name, p.inputs, p.outputs, _identity(p, calls), lambda: _joined(p, calls), p.output_names,
                   p.requires, p.sizes, p.doc, p.settings)


def _identity(caller: ir.Program, calls: Sequence[Deferred]) -> str:
    """A digest of the caller with the calls' results as inputs and their operands as outputs."""
    given = [r for c in calls for r in c.outs]
    wanted = [r for c in calls for r in c.operands]
    body = ir.Block(caller.body.statements, (*caller.outputs, *wanted))
    own = replace(caller, inputs=(*caller.inputs, *given), body=body, output_names=())
    parts = [f"{c.at} {len(c.operands)} {len(c.outs)} {c.callee.identity} {_text(c.dims)}" for c in calls]
    return digest(print_program(own), str(caller.output_names), caller.settings.text, *parts)


def _text(dims: Mapping[DimSymbol, Index]) -> str:
    return str(sorted((s.name, str(e)) for s, e in dims.items()))


def _joined(caller: ir.Program, calls: Sequence[Deferred]) -> ir.Program:
    """The program with the statements of the calls inserted."""
    sub = Substitution()
    statements: list[ir.Statement] = []
    done = 0
    for c in calls:
        statements += map(sub.statement, caller.body.statements[done : c.at])
        done = c.at
        callee = c.callee.program
        block = instantiate(callee, dict(zip(callee.inputs, map(sub.ref, c.operands), strict=True)), c.dims)
        statements += block.statements
        for out, r in zip(c.outs, block.results, strict=True):
            sub.stand(out, r)
    statements += map(sub.statement, caller.body.statements[done:])
    results = tuple(map(sub.ref, caller.outputs))
    return caller.with_body(ir.Block(needed_for(statements, results), results))
