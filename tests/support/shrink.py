"""Shrinking of faulty programs: fewer outputs and statements, simpler scalars, while the bug stays.

    small = shrink(program, lambda p: outputs_differ(p, inputs))

Inputs are kept, so that the arguments of the first program fit all others. Greedy and deterministic: the
candidates are tried in a fixed order until none of them shows the bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from pullback.errors import VerifyError
from pullback.ir import expr
from pullback.ir.expr import Const, Ref, Scalar, Zero
from pullback.ir.index import Var, as_index
from pullback.ir.program import Block, Build, Call, Choose, Fold, Program, Scatter, Sort, Statement, While, needed_for
from pullback.ir.traverse import children, rewrite, walk
from pullback.ir.types import DType
from pullback.ir.verify import verify


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The smallest program found for which `fails` still holds.

    Args:
        program: well formed, and `fails(program)` holds.
        fails: whether a program shows the bug; it is asked for well-formed programs alone.
    """
    program = replace(program, output_names=())
    while True:
        for candidate in _candidates(program):
            if _well_formed(candidate) and fails(candidate):
                program = candidate
                break
        else:
            return program


def _well_formed(p: Program) -> bool:
    try:
        verify(p)
    except VerifyError:
        return False
    return True


def _candidates(p: Program) -> Iterator[Program]:
    """Smaller programs, the boldest first."""
    made = [r for s in p.body.statements for r in s.outs]
    for r in made:
        smaller = _needed(Block(p.body.statements, (r,)))
        if smaller.results != p.outputs or len(smaller.statements) < len(p.body.statements):
            if len(p.outputs) > 1 or len(smaller.statements) < len(p.body.statements):
                yield p.with_body(smaller)
    for k in range(len(p.outputs)):
        if len(p.outputs) > 1:
            yield p.with_body(Block(p.body.statements, p.outputs[:k] + p.outputs[k + 1:]))
    used = _needed(p.body)
    if len(used.statements) < len(p.body.statements):
        yield p.with_body(used)
    for statements in _blocks(p.body.statements):
        yield p.with_body(Block(statements, p.outputs))


def _needed(b: Block) -> Block:
    """The block without statements that nothing reads."""
    return Block(needed_for(b.statements, b.results), b.results)


def _blocks(statements: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    """The statements with one of them made smaller."""
    for k in reversed(range(len(statements))):
        for smaller in _statement(statements[k]):
            yield (*statements[:k], *smaller, *statements[k + 1:])


def _statement(s: Statement) -> Iterator[tuple[Statement, ...]]:
    """The smaller replacements of a statement."""
    if not isinstance(s, Build):
        yield tuple(_ones(r) for r in s.outs)
    match s:
        case Build():
            for k, v in enumerate(s.values):
                for smaller in _scalars(v):
                    yield (replace(s, values=(*s.values[:k], smaller, *s.values[k + 1:])),)
        case Scatter() | Sort():
            for smaller in _scalars(s.value):
                yield (replace(s, value=smaller),)
        case Fold() | While():
            if isinstance(s, Fold):
                yield from _without_states(s)
            elif s.max_trips is None:  # a smaller body may never end
                yield (replace(s, max_trips=as_index(8)),)
                return
            for body in _block(s.body):
                yield (replace(s, body=body),)
        case Choose():
            for then in _block(s.then):
                yield (replace(s, then=then),)
            for otherwise in _block(s.otherwise):
                yield (replace(s, otherwise=otherwise),)
        case Call():
            if s.rules:
                yield (replace(s, forward=None, backward=None),)
            for body in _block(s.body):
                yield (replace(s, body=body),)


def _ones(r: Ref) -> Build:
    """The array filled with 1."""
    variables = tuple(Var("ijkl"[k % 4], d) for k, d in enumerate(r.shape))
    return Build((r,), variables, (_one(r.dtype),))


def _one(dtype: DType) -> Scalar:
    return expr.const(True if dtype.is_bool else 1, dtype)


def _block(b: Block) -> Iterator[Block]:
    needed = _needed(b)
    if len(needed.statements) < len(b.statements):
        yield needed
    for statements in _blocks(b.statements):
        yield Block(statements, b.results)


def _without_states(s: Fold) -> Iterator[tuple[Statement, ...]]:
    """A fold with one state or row fewer; a state that is read elsewhere makes the candidate ill formed."""
    count = len(s.states)
    for k in range(len(s.outs)):
        body = replace(s.body, results=s.body.results[:k] + s.body.results[k + 1:])
        outs = s.outs[:k] + s.outs[k + 1:]
        if not outs:
            continue
        if k < count:
            yield (replace(s, outs=outs, body=body, states=s.states[:k] + s.states[k + 1:],
                           inits=s.inits[:k] + s.inits[k + 1:]),)
        else:
            yield (replace(s, outs=outs, body=body),)


def _scalars(e: Scalar) -> Iterator[Scalar]:
    """Simpler scalars of the same dtype: one node replaced by an operand or a number."""
    for node in reversed(list(walk(e, into_indices=False))):
        if isinstance(node, Const | Zero):
            continue
        options = [c for c in children(node) if c.dtype is node.dtype and c.free <= node.free]
        for new in (*options, _one(node.dtype)):
            smaller = rewrite(e, {node: new}.get)
            if smaller is not e:
                yield smaller


__all__ = ["shrink"]
