"""Chunks of loops with open bounds: their number and content.

    for i < n: ..    -->    chunks = cycles of the loop / those of a chunk, or 1 where that is too little
                            parallel for chunk < chunks: { for i = chunk size .. min((chunk + 1) size, n): .. }

Cycles are a polynomial of the dims; size = ceil(n / chunks).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Final, NamedTuple

from pullback.ir.index import ZERO_INDEX, Index, Var, as_index, floor_divide
from pullback.ir.types import bool_, f64
from pullback.loops.analysis.work import SIZES, Cost, Cycles, Measure
from pullback.loops.program.nodes import WORKERS, For, Let, LetIndex, Stmt, most_chunks
from pullback.loops.program.values import (
    Binary,
    BinaryOp,
    Choice,
    IndexValue,
    Literal,
    Read,
    Temp,
    Value,
    largest,
    scalar,
    smallest,
)
from pullback.machine import Machine
from pullback.records import dataclass, replace

GAIN: Final = Temp("shared", scalar(f64))  # the total cycles that a function shares out
FEW: Final = 8  # enough chunks for threads to share evenly
LITTLE: Final = 0.02  # fraction of all cycles below which a term is not counted


@dataclass(frozen=True)
class Cut:
    """A loop in chunks: the number of one, and its statements."""

    chunk: Var
    body: tuple[Stmt, ...]


def open_cut(nest: Sequence[For], most: int, parts: int = 0) -> Cut:
    """Cut perfectly nested loops into at most `most` chunks, counted at run time.

    A chunk is a run of the combined steps, and each loop takes its part of it. With n steps of j:

        for i from begin / n to (end - 1) / n: for j from max(begin - i n, 0) to min(end - i n, n)

    Args:
        parts: the number of statements at the end of the innermost loop that are cut, too: independent loops one after
            another, whose steps follow each other. Another statement is one step.
    """
    chunk, size = Var("chunk", as_index(Var("chunks", most + 1))), Var("size", SIZES)
    lets: list[Stmt] = []
    each = [_Part(s, _steps_of(s, lets)) for s in (nest[-1].body[-parts:] if parts else ())]
    within = [sum((p.steps for p in each), ZERO_INDEX) if parts else as_index(1)]  # steps of what is in each loop
    for s in reversed(nest):
        lets.append(LetIndex(own := Var("steps", SIZES), _steps_of(s, lets) * within[0]))
        within.insert(0, as_index(own))
    lets.append(LetIndex(size, floor_divide(within.pop(0) + chunk.extent - 1, chunk.extent)))
    begin = as_index(chunk) * as_index(size)
    return Cut(chunk, (*lets, _run(nest, within, begin, begin + as_index(size), each)))


class _Part(NamedTuple):
    """One of several statements that are cut, and its steps."""

    statement: Stmt
    steps: Index


def _steps_of(s: Stmt, lets: list[Stmt]) -> Index:
    """The steps of a loop, 1 for another statement; definitions are added to `lets`."""
    if not isinstance(s, For):
        return as_index(1)
    assert isinstance(s.lower, Index)
    upper = s.upper
    if not isinstance(upper, Index):
        lets.append(LetIndex(end := Var("end", SIZES), upper))
        upper = as_index(end)
    return floor_divide(upper - s.lower + s.step - 1, as_index(s.step))


def _run(nest: Sequence[For], within: Sequence[Index], begin: Index, end: Index, parts: Sequence[_Part]) -> For:
    """The loops restricted to the combined steps from `begin` to before `end`."""
    s, n, body = nest[0], within[0], nest[0].body
    assert isinstance(s.lower, Index)
    if nest[1:] or parts:
        start, stop = Var("begin", SIZES), Var("stop", SIZES)
        done = floor_divide(as_index(s.var) - s.lower, as_index(s.step)) * n
        lets = LetIndex(start, largest(as_index(0), begin - done)), LetIndex(stop, smallest(n, end - done))
        if nest[1:]:
            inside = [_run(nest[1:], within[1:], as_index(start), as_index(stop), parts)]
        else:
            inside = _taken(parts, as_index(start), as_index(stop))
        body = (*body[: -len(inside)], *lets, *inside)
    first, last = floor_divide(begin, n), floor_divide(end - 1, n) + 1
    return replace(s, lower=s.lower + first * s.step, upper=smallest(s.lower + last * s.step, s.upper), body=body)


def _taken(parts: Sequence[_Part], begin: Index, end: Index) -> list[For]:
    """The parts restricted to the steps from `begin` to before `end`; one step is a loop of at most one."""
    out: list[For] = []
    done = ZERO_INDEX
    for s, n in parts:
        whole = s if isinstance(s, For) else For(Var("part", 1), ZERO_INDEX, as_index(1), (s,))
        assert isinstance(whole.lower, Index)
        first, last = Var("first", SIZES), whole.lower + (end - done) * whole.step
        lower = as_index(first) * whole.step + whole.lower
        loop = replace(whole, lower=lower, upper=smallest(last, whole.upper))
        start = LetIndex(first, largest(ZERO_INDEX, begin - done))
        out.append(For(Var("part", 1), ZERO_INDEX, as_index(1), (start, loop)))
        done += n
    return out


def total_work(cycles: Cycles) -> Let:
    """The statement that computes the work to share."""
    return Let(GAIN, _number(cycles))


def counted(chunk: Var, cycles: Cycles, steps: Cycles, nested: bool, machine: Machine) -> tuple[Stmt, ...]:
    """The statements that compute the chunk count: one for little work, and no more than steps."""
    chunks, work = chunk.extent.single, Temp("work", scalar(f64))
    assert isinstance(chunks, Var)
    pays = Binary("&&", _at_least(Read(work), machine.meeting), _at_least(Read(GAIN), machine.waking), scalar(bool_))
    if nested:  # each chunk repeats the code before inner loops, so chunks are larger, and a single worker has one
        several = _at_least(IndexValue(as_index(WORKERS), scalar(f64)), 2)
        pays, steps = Binary("&&", several, pays, scalar(bool_)), steps * 0.25
    most = _arithmetic("min", _real(most_chunks(chunk)), _arithmetic("max", _real(FEW), _number(steps)))
    wanted = _arithmetic("min", most, _arithmetic("/", Read(work), _real(machine.chunk)))
    found = Choice(pays, _arithmetic("max", _real(2), wanted), _real(1), scalar(f64))
    return Let(work, _number(cycles)), LetIndex(chunks, found)


def _number(c: Cycles) -> Value:
    """Cycles as a value: in floating point, where products of dims do not wrap."""
    if not isinstance(c, Cost):
        return _real(c)
    kept = [m for m in c.terms if c.usual(m) >= LITTLE * float(c)]
    terms = [reduce(partial(_arithmetic, "*"), map(_steps, m), _real(c.terms[m])) for m in kept]
    return reduce(partial(_arithmetic, "+"), terms)


def _steps(m: Measure) -> Value:
    """The number of steps of a loop, at least one."""
    found: Value = IndexValue(m.index, scalar(f64))
    if m.step > 1:
        found = _arithmetic("max", _real(1), _arithmetic("/", found, _real(m.step)))
    return found if m.most is None else _arithmetic("min", _real(m.most), found)


def _arithmetic(op: BinaryOp, a: Value, b: Value) -> Value:
    return Binary(op, a, b, scalar(f64))


def _at_least(v: Value, least: float) -> Value:
    return Binary(">=", v, _real(least), scalar(bool_))


def _real(x: float) -> Value:
    return Literal(float(x), scalar(f64))
