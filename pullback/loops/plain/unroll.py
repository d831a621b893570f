"""Unrolling by two: loops that would copy a state each trip alternate between two places.

Before    fold t < T (u = u0) { v = build n { .. u[n - 1] .. u[n + 1] .. }  yield v }          v, then copied over u
After     fold s < T / 2 (u = u0) { v = build n { .. u .. }  w = build n { .. v .. }  yield w }      w written over u

The states of the first step have a place of their own; those of the second overwrite the old ones. It is done if the
body is short and storage then has nothing to copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Index, Var, as_index
from pullback.ir.program import map_blocks, walk_statements
from pullback.ir.traverse import Substitution
from pullback.loops.plain.storage import LEAST, assign_storage

STATEMENTS = 8  # most statements of a short body


def unroll_copies(program: ir.Program) -> ir.Program:
    """The program without the copies of states that two steps per trip avoid."""
    folds = [s for s in walk_statements(program.body) if isinstance(s, ir.Fold) and _can(s)]
    if not folds:
        return program
    copies = assign_storage(program).copies
    wanted = {s for s in folds if sum((c.count.constant or 0) * c.target.buffer.dtype.size for c in copies[s].last[0])
              >= LEAST}
    if not wanted:
        return program
    made: dict[ir.Statement, ir.Fold] = {}
    twice = program.with_body(_block(program.body, wanted.__contains__, made))
    copies = assign_storage(twice).copies
    worth = {s for s, fold in made.items() if not copies[fold].last[0]}
    return twice if len(worth) == len(made) else program.with_body(_block(program.body, worth.__contains__, {}))


def _can(s: ir.Fold) -> bool:
    """Whether a loop keeps no rows, and has a short body without loops and a known number of steps."""
    body = s.body.statements
    return (len(s.outs) == len(s.states) and len(body) <= STATEMENTS and (s.var.extent.constant or 0) >= 2
            and all(isinstance(x, ir.Build | ir.Scatter) for x in body))


def _block(block: ir.Block, chosen: Callable[[ir.Statement], bool], made: dict[ir.Statement, ir.Fold]) -> ir.Block:
    out: list[ir.Statement] = []
    for s in block.statements:
        if isinstance(s, ir.Fold) and chosen(s):
            *before, fold = _twice(s)
            assert isinstance(fold, ir.Fold)
            made[s] = fold
            out += [*before, fold]
        else:
            out.append(map_blocks(s, lambda b: _block(b, chosen, made)))
    return replace(block, statements=tuple(out))


def _twice(s: ir.Fold) -> list[ir.Statement]:
    """The loop with two steps in a trip, after a first single step if their number is odd."""
    half, odd = divmod(s.var.extent.constant or 0, 2)
    before = _step(s, ZERO_INDEX, s.inits) if odd else ir.Block((), s.inits)
    var = Var(s.var.name, as_index(half))
    states = tuple(ir.Ref(r.name, r.dtype, r.shape, r.bounds) for r in s.states)
    first = _step(s, as_index(var) * 2 + odd, states)
    second = _step(s, as_index(var) * 2 + odd + 1, first.results)
    body = ir.Block((*first.statements, *second.statements), second.results)
    return [*before.statements, ir.Fold(s.outs, var, states, before.results, body, s.positions)]


def _step(s: ir.Fold, at: Index, states: tuple[ir.Ref, ...]) -> ir.Block:
    refs = dict(zip(s.states, states, strict=True))
    return Substitution(variables={s.var: at}, refs=refs).block(s.body)
