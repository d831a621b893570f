"""Walks over a program's blocks for passes, which handle the visited items.

    each_scalar   the expressions of statements, one at a time, each by itself
    each_build    builds in execution order, each replaced by any number of statements
    each_block    blocks, inner ones before outer ones, each as a whole

Most passes change builds by `taken_out`: a part of the value becomes a statement before the build. Passes that carry
knowledge from one block into another (`rewrite.cse`, `rewrite.copies`) walk by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pullback.ir import nodes as ir
from pullback.ir.program import map_blocks, map_scalars, with_fields
from pullback.ir.traverse import rewrite


def each_scalar(program: ir.Program, change: Callable[[ir.Scalar], ir.Scalar]) -> ir.Program:
    """The program with each expression that a statement computes changed."""
    return program.with_body(_scalars(program.body, change))


def _scalars(block: ir.Block, change: Callable[[ir.Scalar], ir.Scalar]) -> ir.Block:
    found = (map_blocks(map_scalars(s, change), lambda b: _scalars(b, change)) for s in block.statements)
    return with_fields(block, statements=tuple(found))


def each_build(program: ir.Program, change: Callable[[ir.Build], Sequence[ir.Statement]]) -> ir.Program:
    """Replace each build of the program by the changed statements."""
    return program.with_body(_builds(program.body, change))


def _builds(block: ir.Block, change: Callable[[ir.Build], Sequence[ir.Statement]]) -> ir.Block:
    out: list[ir.Statement] = []
    for s in block.statements:
        out += change(s) if isinstance(s, ir.Build) else (map_blocks(s, lambda b: _builds(b, change)),)
    return with_fields(block, statements=tuple(out))


def each_block(program: ir.Program, change: Callable[[ir.Block], ir.Block]) -> ir.Program:
    """Change each block of the program, inner ones first."""
    return program.with_body(_inside_out(program.body, change))


def _inside_out(block: ir.Block, change: Callable[[ir.Block], ir.Block]) -> ir.Block:
    inner = tuple(map_blocks(s, lambda b: _inside_out(b, change)) for s in block.statements)
    return change(with_fields(block, statements=inner))


def taken_out(
    s: ir.Build, apart: Callable[[ir.Scalar], tuple[Sequence[ir.Build], ir.Scalar] | None]
) -> list[ir.Statement]:
    """Split parts of a statement's values into separate statements before it.

    Args:
        apart: returns the statements for an expression and its replacement, or None to leave it.
    """
    before: list[ir.Build] = []

    def element(e: ir.Scalar) -> ir.Scalar | None:
        found = apart(e)
        if found is None:
            return None
        before.extend(found[0])
        return found[1]

    values = tuple(rewrite(v, element) for v in s.values)
    return [*before, with_fields(s, values=values)]
