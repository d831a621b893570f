"""Statements as a program of their own, for trials of their kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Index, Var
from pullback.ir.program import Block, Program, statement_reads
from pullback.ir.settings import DEFAULT, Settings
from pullback.ir.traverse import Substitution, walk
from pullback.records import replace


def alone(statements: Sequence[ir.Elementwise], outs: Sequence[ir.Ref], settings: Settings = DEFAULT,
          name: str = "alone") -> Program:  # fmt: skip
    """Make a program of neighboring statements; variables of loops around them are zero.

    Args:
        outs: the arrays that are results.
    """
    made = tuple(map(_closed, statements))
    own = {o for s in made for o in s.outs}
    reads = dict.fromkeys(r for s in made for r in statement_reads(s) if r not in own)
    return Program(name, tuple(reads), Block(made, tuple(outs)), tuple(o.name for o in outs), settings=settings)


def scalars_of(s: ir.Elementwise) -> Iterator[ir.Scalar]:
    """The nodes of a statement's values."""
    for value in s.values if isinstance(s, ir.Build) else (s.value,):
        yield from walk(value)


def _closed(s: ir.Elementwise) -> ir.Elementwise:
    bound = {*s.vars, *(v for n in scalars_of(s) if isinstance(n, ir.Reduce) for v in n.vars)}
    values = s.values if isinstance(s, ir.Build) else (s.value,)
    at: Mapping[Var, Index] = dict.fromkeys({v for e in values for v in e.free} - bound, ZERO_INDEX)
    m = Substitution(variables=at)
    match s:
        case ir.Build():
            return replace(s, values=tuple(m.scalar(v) for v in s.values))
        case ir.Scatter():
            return replace(s, value=m.scalar(s.value), indices=tuple(m.index(i) for i in s.indices))
        case ir.Sort():
            return replace(s, value=m.scalar(s.value))
