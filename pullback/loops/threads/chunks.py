"""Chunks of loops whose ends are known when the program runs: how many, and what is in each.

    for i < n: ..    -->    chunks = cycles of the loop / those of a chunk, or 1 where that is too little
                            parallel for chunk < chunks: { for i = chunk size .. min((chunk + 1) size, n): .. }

Cycles are a polynomial of the dims; size = ceil(n / chunks).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Final

from pullback.ir.index import Index, Var, as_index, floor_divide
from pullback.ir.types import bool_, f64
from pullback.loops.analysis.work import SIZES, Cost, Cycles, Measure
from pullback.loops.program.nodes import For, Let, LetIndex, Stmt, most_chunks
from pullback.loops.program.values import (
    Binary,
    BinaryOp,
    Choice,
    IndexValue,
    Literal,
    Read,
    Temp,
    Value,
    scalar,
    smallest,
)
from pullback.machine import Machine

GAIN: Final = Temp("shared", scalar(f64))  # the cycles of all that a function shares out
LITTLE: Final = 0.02  # of all cycles that a term must usually have to be counted


@dataclass(frozen=True)
class Cut:
    """A loop in chunks: the number of one, and its statements."""

    chunk: Var
    body: tuple[Stmt, ...]


def open_cut(s: For, most: int) -> Cut:
    """A loop from an index on in at most so many chunks, which are counted when the program runs."""
    assert isinstance(s.lower, Index)
    chunks, size, end = Var("chunks", most + 1), Var("size", SIZES), Var("end", SIZES)
    chunk = Var("chunk", as_index(chunks))
    upper = s.upper if isinstance(s.upper, Index) else as_index(end)
    trips = floor_divide(upper - s.lower + s.step - 1, as_index(s.step))
    begin = as_index(chunk) * as_index(size) * s.step + s.lower
    loop = replace(s, lower=begin, upper=smallest(begin + as_index(size) * s.step, upper))
    known = () if upper is s.upper else (LetIndex(end, s.upper),)
    return Cut(chunk, (*known, LetIndex(size, floor_divide(trips + chunk.extent - 1, chunk.extent)), loop))


def total_work(cycles: Cycles) -> Let:
    """The statement that finds what a function shares out."""
    return Let(GAIN, _number(cycles))


def counted(chunk: Var, cycles: Cycles, machine: Machine) -> tuple[Stmt, ...]:
    """The statements that find how many chunks there are of so many cycles: one where there is too little to share."""
    most, chunks = most_chunks(chunk), chunk.extent.single
    assert isinstance(chunks, Var)
    work = Temp("work", scalar(f64))
    pays = Binary("&&", _at_least(Read(work), machine.meeting), _at_least(Read(GAIN), machine.waking), scalar(bool_))
    wanted = _arithmetic("min", _real(most), _arithmetic("/", Read(work), _real(machine.chunk)))
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
    """A loop's steps: where it has fewer elements than a step it is one all the same."""
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
