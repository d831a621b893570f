"""The parts of a kernel: nests of independent loops, each of which may be a launch."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, NamedTuple

from pullback.grid.steps import decoded
from pullback.ir.index import Atom, Index, Var, as_index
from pullback.loops.analysis.footprint import independent
from pullback.loops.analysis.intervals import Interval
from pullback.loops.program import nodes
from pullback.loops.program.nodes import Check, Comment, Fill, For, Kernel, Let, LetIndex, Stmt, Store
from pullback.loops.program.values import Buffer, Literal, View, scalar

ENDLESS: Final = 1 << 30  # the assumed iterations of a host loop of unknown length


class Part(NamedTuple):
    """A part of a kernel: its outermost independent loops (variable, first value, trips), and their body.

    `lets` are the values computed before the loops. Without loops one thread does all the work.
    """

    lets: tuple[Stmt, ...]
    loops: list[tuple[Var, Index, int]]
    body: tuple[Stmt, ...]

    @property
    def total(self) -> int:
        """The number of iterations."""
        return prod(n for _, _, n in self.loops)


def parts_of(statements: tuple[Stmt, ...], k: Kernel) -> list[Part]:
    """A part for each top-level loop of a kernel's statements; a single one if they cannot be split."""
    body = [s for s in statements if not isinstance(s, Comment)]
    lets = [s for s in body if _is_let(s)]
    changed = {a.buffer for s in nodes.walk(statements) for a in nodes.accesses(s) if a.write}
    apart = all(isinstance(s, For | Fill) or s in lets for s in body) and _reads(lets).isdisjoint(changed)
    if not apart or len(lets) == len(body):
        return [Part((), [], statements)]
    return [_part(s, body[:n], k, changed) for n, s in enumerate(body) if s not in lets]


def _is_let(s: Stmt) -> bool:
    """Whether each thread may run the statement itself."""
    return isinstance(s, LetIndex | Check) or (isinstance(s, Let) and not s.mutable)


def _reads(body: Sequence[Stmt]) -> set[Buffer]:
    return {a.buffer for s in body for a in nodes.accesses(s)}


def _part(s: Stmt, before: Sequence[Stmt], k: Kernel, changed: set[Buffer]) -> Part:
    """The part of one top-level loop, including the values computed before it that it reads."""
    lets = nodes.without_unread((*(x for x in before if _is_let(x)), s))[:-1]
    if isinstance(s, Fill):
        s = zeros(s)
    loops, body = _nest(s, k, changed)
    return Part(lets, loops, body)


def zeros(s: Fill) -> Stmt:
    """Turn a fill into a loop that stores zeros; return it unchanged if its count is unknown."""
    if not s.count.constant:
        return s
    v = Var("k", s.count)
    dtype = s.buffer.dtype
    zero = Literal(False if dtype.is_bool else 0.0 if dtype.is_floating else 0, scalar(dtype))
    store = Store(s.buffer, s.offset + as_index(v), zero)
    return For(v, as_index(0), s.count, (store,), independent=True)


def _nest(s: Stmt, k: Kernel, changed: set[Buffer]) -> tuple[list[tuple[Var, Index, int]], tuple[Stmt, ...]]:
    """The outermost independent loops of a nest, and their body."""
    places = {b: View(b) for b in k.params}
    ranges: dict[Atom, Interval] = {v: (0, (v.extent.constant or ENDLESS) - 1) for v in k.indices if isinstance(v, Var)}
    loops: list[tuple[Var, Index, int]] = []
    lets: list[Stmt] = []
    body: tuple[Stmt, ...] = (s,)
    while True:
        rest = [x for x in body if not isinstance(x, Comment)]
        first = next((n for n, x in enumerate(rest) if not _is_let(x)), len(rest))
        own = rest[:first]
        inner = rest[first] if len(rest) == first + 1 else None
        if not isinstance(inner, For) or inner.step != 1 or _reads(own) & changed:
            break
        low, trips = _trips(inner)
        if low is None or trips is None or trips < 1:
            break
        if not (inner.independent or independent(inner, places, ranges) == frozenset()):
            break
        loops.append((inner.var, as_index(low), trips))
        ranges[inner.var] = low, low + trips - 1
        lets += own
        body = inner.body
    return loops, (*lets, *body)


def _trips(s: For) -> tuple[int | None, int | None]:
    """The first value and the number of iterations of a loop, None where unknown."""
    if not isinstance(s.lower, Index) or not isinstance(s.upper, Index):
        return None, None
    return s.lower.constant, (s.upper - s.lower).constant


def iteration(p: Part, at: Var) -> tuple[Stmt, ...]:
    """The statements of one iteration, given its row-major number."""
    counters = [v if low.constant == 0 and v.extent.constant == n else Var(v.name, as_index(n))
                for v, low, n in p.loops]  # fmt: skip
    bound = [LetIndex(v, as_index(c) + low) for (v, low, _), c in zip(p.loops, counters, strict=True) if c is not v]
    return (*decoded(as_index(at), counters), *bound, *p.lets, *p.body)
