"""Arrays in a border of zeros: rows copied in vectors between zeros, no test inside a row.

Before    y = build i < 58, j < 58 { [i >= 1, 56 >= i, j >= 1, 56 >= j] x[i - 1, j - 1] }
After     for i: if 1 <= i <= 56: a zero, 56 elements of x in vectors, a zero; else 58 zeros

What it takes is one element of one array whose last axis lies along the result's, under conditions each about one
variable. `passes/pad.py` makes these of the images of convolutions. Others are left to `masked`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Final

from pullback.ir.expr import Bracket, Get
from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index
from pullback.ir.program import Build
from pullback.loops.plain.bounds import AsWritten, narrowed
from pullback.loops.plain.builder import KernelBuilder, Work, flat_position
from pullback.loops.plain.candidates import Candidate
from pullback.loops.plain.lower import bring_plain, without_units
from pullback.loops.program.cover import cover, halves, narrower, typical
from pullback.loops.program.nodes import Fill, For, If, Kernel, Stmt, Store
from pullback.loops.program.schedule import Row, Schedule, Vector
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Buffer, Holds, Load, Type
from pullback.loops.vectors.nest import stride
from pullback.machine import Machine

ROW: Final = 4.0  # cycles that a row costs beside its elements
SIDE: Final = 8.0  # zeros before them, or after
PIECE: Final = 2.0  # a vector copied
TOGETHER: Final = 8  # vectors of a row that are written out one by one


def borders(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for arrays in a border of zeros."""
    s = work.statement
    found = _Border.of(without_units(s), work) if isinstance(s, Build) else None
    if found is None or (lanes := machine.lanes(found.out.dtype.size)) < 2:
        return

    def build(builder: KernelBuilder) -> Kernel:
        assert isinstance(s, Build)
        builder.take((found.out, found.source))
        return bring_plain(s, found.body(lanes), builder, machine)

    *rows, last = found.variables
    count = found.stop - found.first
    pieces = count // lanes + sum(1 for _ in narrower(count % lanes, lanes))
    sides = (found.first > 0) + (found.stop < typical(last))
    cycles = prod(typical(v) for v in rows) * (ROW + SIDE * sides + PIECE * pieces)
    schedule = Schedule((Row(last.name), Vector(last.name, lanes)))
    yield Candidate("border", cycles, build, schedule, exact=True)


@dataclass(frozen=True)
class _Border:
    """Rows of `out`, whose elements from `first` until `stop` are those of `source`, where `tests` hold; else zeros."""

    variables: tuple[Var, ...]
    out: Buffer
    source: Buffer
    address: Index
    first: int
    stop: int
    tests: tuple[Cond, ...]

    @staticmethod
    def of(s: Build, work: Work) -> _Border | None:
        """The statement as rows; None where it is anything else."""
        value = s.values[0]
        if len(s.outs) != 1 or not isinstance(value, Bracket) or not isinstance(value.arg, Get) or not s.vars:
            return None
        if any(v.extent.constant is None for v in s.vars) or not value.dtype.is_floating:
            return None
        *_, last = s.vars
        out, (source, address) = work.parameter(s.outs[0]), work.address(value.arg.ref, value.arg.indices)
        span = _span(last, value.conds)
        plain = all(len(m) <= 1 and all(isinstance(a, Var) for a in m) for m, _ in address.terms)
        if span is None or source is out or not plain or stride(address, last) != 1:
            return None
        tests = tuple(c for c in value.conds if last not in c.free)
        if not all(len(c.free) == 1 and c.free <= set(s.vars) for c in tests):
            return None
        return _Border(s.vars, out, source, address, *span, tests)

    def body(self, lanes: int) -> list[Stmt]:
        """The loops over rows."""
        *outer, last = self.variables
        row = flat_position(self.variables) - as_index(last)
        extent = last.extent.constant or 0
        inside = [
            *_zeros(self.out, row, self.first),
            *self._copy(row + self.first, self.address - as_index(last) + self.first, lanes),
            *_zeros(self.out, row + self.stop, extent - self.stop),
        ]
        body: list[Stmt] = inside
        if self.tests:
            body = [If(Holds(self.tests), tuple(inside), (Fill(self.out, row, last.extent),))]
        for v in reversed(outer):
            body = [For(v, ZERO_INDEX, v.extent, tuple(body))]
        return body

    def _copy(self, to: Index, start: Index, lanes: int) -> list[Stmt]:
        """The elements of a row in vectors, the last of them narrower; those of a short row one by one."""
        count = self.stop - self.first
        x = Var("x", count)
        if count > TOGETHER * lanes:
            return cover(x, halves(lanes, x), lambda at, n: self._vectors(to + at, start + at, (n,)))
        return self._vectors(to, start, tuple(narrower(count, lanes)))

    def _vectors(self, to: Index, start: Index, lanes: Sequence[int]) -> list[Stmt]:
        """Vectors of so many lanes, one behind the other."""
        at = (0, *accumulate(lanes))
        loads = (Load(self.source, start + k, Type(self.out.dtype, n)) for k, n in zip(at, lanes, strict=False))
        return [Store(self.out, to + k, load) for k, load in zip(at, loads, strict=False)]


def _zeros(out: Buffer, at: Index, count: int) -> list[Stmt]:
    return [Fill(out, at, as_index(count))] if count else []


def _span(v: Var, conds: tuple[Cond, ...]) -> tuple[int, int] | None:
    """From where until where the conditions about a variable hold; None where they are about others too."""
    lower, upper, rest = narrowed(AsWritten(), Scope(), v, [c for c in conds if v in c.free])
    first, stop = (b.constant if isinstance(b, Index) else None for b in (lower, upper))
    return None if rest or first is None or stop is None or first >= stop else (first, stop)
