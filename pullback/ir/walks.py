"""The walks that passes make over a program, through blocks however they nest; a pass says what happens where it stops.

    each_scalar   what a statement computes, one expression at a time, each by itself
    each_build    builds, in the order in which they run, each for any number of statements
    each_block    blocks, those inside before the one around them, each as a whole

`taken_out` is the way most builds are changed: a part of the value becomes a statement before it.
Passes that carry what is known from one block into another (`rewrite.cse`, `rewrite.copies`) walk by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pullback.ir.expr import Scalar
from pullback.ir.program import Block, Build, Program, Statement, map_blocks, map_scalars
from pullback.ir.traverse import rewrite


def each_scalar(program: Program, change: Callable[[Scalar], Scalar]) -> Program:
    """The program with each expression that a statement computes changed."""

    def block(b: Block) -> Block:
        return replace(b, statements=tuple(map_blocks(map_scalars(s, change), block) for s in b.statements))

    return program.with_body(block(program.body))


def each_build(program: Program, change: Callable[[Build], Sequence[Statement]]) -> Program:
    """The program with each build replaced by what stands for it."""

    def block(b: Block) -> Block:
        out: list[Statement] = []
        for s in b.statements:
            out += change(s) if isinstance(s, Build) else (map_blocks(s, block),)
        return replace(b, statements=tuple(out))

    return program.with_body(block(program.body))


def each_block(program: Program, change: Callable[[Block], Block]) -> Program:
    """The program with each block changed, after those inside."""

    def block(b: Block) -> Block:
        return change(replace(b, statements=tuple(map_blocks(s, block) for s in b.statements)))

    return program.with_body(block(program.body))


def taken_out(s: Build, apart: Callable[[Scalar], tuple[Sequence[Build], Scalar] | None]) -> list[Statement]:
    """The statement with parts of its values in statements of their own, in front of it.

    Args:
        apart: statements for an expression, and what stands for it then; None for those that stay.
    """
    before: list[Build] = []

    def element(e: Scalar) -> Scalar | None:
        found = apart(e)
        if found is None:
            return None
        before.extend(found[0])
        return found[1]

    values = tuple(rewrite(v, element) for v in s.values)
    return [*before, replace(s, values=values)] if values != s.values else [s]
