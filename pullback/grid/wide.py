"""Several elements for each thread, which it reads together before it computes them.

    thread t: y[t] = f(x[t])    -->  thread t: a[0 .. 3] = x[4 t .. 4 t + 3];  b[e] = f(a[e]) for e < 4;
                                               y[4 t .. 4 t + 3] = b[0 .. 3]

A thread that waits for 4 bytes leaves memory idle, as only so many threads are on a multiprocessor. Neighboring
elements are read and written by accesses of up to 16 bytes. If their number is no multiple of that, the last thread
takes those that are left one by one. Rows of such lengths stay as they are, unless they are neighbors in all arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pullback.grid.parts import Part
from pullback.grid.steps import local_buffer, unrolled
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Index, Var, as_index, cond
from pullback.ir.traverse import Substitution
from pullback.loops.analysis.divisors import divisor
from pullback.loops.program import nodes
from pullback.loops.program.nodes import Copy, For, If, Let, LetIndex, Stmt, Store, either
from pullback.loops.program.replacement import Replacement
from pullback.loops.program.values import LOCAL, Apply, Binary, Buffer, Choice, Convert, Load, Unary, Value, View

BYTES: Final = 16  # of the widest access
LEAST: Final = 1 << 19  # elements; with fewer, all threads are on the device at once
MOST: Final = 40  # most statements of an element

Place = tuple[Buffer, Index]


def merged(p: Part) -> Part:
    """The part with one loop for neighboring loops whose elements are neighbors in all arrays.

    for n, for m: y[M n + m] = ..    -->  for n_m: y[n_m] = ..
    """
    indices = list(dict.fromkeys(i for s in nodes.walk((*p.lets, *p.body)) for i in nodes.statement_indices(s)))
    for k in range(len(p.loops) - 1, 0, -1):
        (v, low, outer), (w, start, inner) = p.loops[k - 1 : k + 1]
        apart = (i for i in indices if not _is_joined(i.coefficient(v), i.coefficient(w), inner))
        if low is ZERO_INDEX and start is ZERO_INDEX and next(apart, None) is None:
            both = Var(f"{v.name}_{w.name}", as_index(outer * inner))
            to = Replacement({}, {v: ZERO_INDEX, w: as_index(both)})
            loops = [*p.loops[: k - 1], (both, ZERO_INDEX, outer * inner), *p.loops[k + 1 :]]
            return merged(Part(to.body(p.lets), loops, to.body(p.body)))
    return p


def _is_joined(c: Index | None, d: Index | None, trips: int) -> bool:
    """Whether a step of the outer variable is as many steps of the inner one as its loop has."""
    return c is not None and d is not None and c is d * trips


@dataclass(frozen=True)
class Wide:
    """A part whose threads have several elements.

    Attributes:
        part: the part for single elements.   count: the elements of a thread.
        reads, writes: the places of neighboring elements.
    """

    part: Part
    count: int
    reads: Sequence[Place]
    writes: Sequence[Place]

    def by(self, t: Var) -> Part:
        """The part with a loop over runs of elements as its last one, for thread `t`."""
        *others, (v, _, trips) = self.part.loops
        n, body = self.count, self.part.body
        run, e = Var(f"{v.name}_run", as_index(-(-trips // n))), Var("e", as_index(n))
        first, row = as_index(run) * n, as_index(t) * n
        shape = (t.extent.constant or 1, n)
        own, to = ({place: local_buffer(f"{place[0].name}_own", place[0].dtype, shape, "registers") for place in places}
                   for places in (self.reads, self.writes))  # fmt: skip
        at = Substitution(variables={v: first}).index
        whole: tuple[Stmt, ...] = (
            *(Copy(View(r, row), View(b, at(i)), as_index(n)) for (b, i), r in own.items()),
            unrolled(e, (LetIndex(v, first + as_index(e)), *_Kept(own, to, row + as_index(e)).body(body))),
            *(Copy(View(b, at(i)), View(r, row), as_index(n)) for (b, i), r in to.items()))  # fmt: skip
        if trips % n:
            rest = For(v, first, as_index(trips), body)
            whole = tuple(either(cond(">=", as_index(trips - n) - first), whole, (rest,)))
        return self.part._replace(loops=[*others, (run, ZERO_INDEX, -(-trips // n))], body=whole)


def widened(p: Part) -> Wide | None:
    """The part with several elements for each thread; None if it is small, or does many operations."""
    if not p.loops or p.total < LEAST or not all(map(_is_simple, p.body)) or sum(1 for _ in nodes.walk(p.body)) > MOST:
        return None
    p = merged(p)
    v, low, trips = p.loops[-1]
    bound = {s.var for s in nodes.walk(p.body) if isinstance(s, LetIndex)}
    reads, writes = ([(b, i) for b, i in found if bound.isdisjoint(i.free) and i.coefficient(v) is ONE_INDEX]
                     for found in (_reads(p.body), _writes(p.body)))  # fmt: skip
    count = BYTES // max((b.dtype.size for b, _ in (*reads, *writes)), default=BYTES)
    if count < 2 or low is not ZERO_INDEX or (trips % count and len(p.loops) > 1):
        return None
    if not all(is_aligned(i, v, count) for _, i in (*reads, *writes)):  # such as the neighbors of a stencil
        return None
    return Wide(p, count, reads, writes)


def is_aligned(i: Index, v: Var, count: int) -> bool:
    """Whether an index is a multiple of a number if the variable is."""
    return divisor(i.without(v), {}) % count == 0


class _Kept(Replacement):
    """A map from elements of arrays to those that a thread keeps."""

    def __init__(self, reads: Mapping[Place, Buffer], writes: Mapping[Place, Buffer], at: Index) -> None:
        super().__init__({}, {})
        self.reads, self.writes, self.at = reads, writes, at

    def _mapped(self, x: Any) -> Any:
        match x:
            case Load() if (x.buffer, x.offset) in self.reads:
                return Load(self.reads[x.buffer, x.offset], self.at, x.type)
            case Store() if (x.buffer, x.offset) in self.writes:
                return Store(self.writes[x.buffer, x.offset], self.at, self._mapped(x.value))
            case _:
                return super()._mapped(x)


def _is_simple(s: Stmt) -> bool:
    """Whether a statement neither repeats others nor looks up an index."""
    return (isinstance(s, Let | Store) or (isinstance(s, LetIndex) and isinstance(s.var, Var))
            or (isinstance(s, If) and all(map(_is_simple, (*s.then, *s.otherwise)))))  # fmt: skip


def _reads(body: Sequence[Stmt]) -> list[Place]:
    """The places that each iteration reads before it may have changed them."""
    out, changed = dict[Place, None](), set[Buffer]()
    for s in body:
        for value in _always(s):
            if value.buffer not in changed:
                out[value.buffer, value.offset] = None
        changed |= {a.buffer for x in nodes.walk((s,)) for a in nodes.accesses(x) if a.write}
    return list(out)


def _always(s: Stmt) -> Iterator[Load]:
    """The loads of a statement that do not depend on a condition."""
    stack: list[Value] = [s.value] if isinstance(s, Let | Store) else [s.test] if isinstance(s, If) else []
    while stack:
        match stack.pop():
            case Load() as load if load.buffer.space not in LOCAL:
                yield load
            case Choice() as x:
                stack.append(x.test)
            case Binary() as x:
                stack += (x.a,) if x.op in ("&&", "||") else (x.a, x.b)
            case Unary() as x:
                stack.append(x.a)
            case Apply() as x:
                stack += x.args
            case Convert() as x:
                stack.append(x.value)
            case _:
                pass


def _writes(body: tuple[Stmt, ...]) -> list[Place]:
    """The places that each iteration writes, if it writes no other place of their array."""
    found: dict[Buffer, list[Stmt]] = {}
    for s in nodes.walk(body):
        for b in {a.buffer for a in nodes.accesses(s) if a.write}:
            found.setdefault(b, []).append(s)
    return [(b, s.offset) for b, [s, *more] in found.items()
            if isinstance(s, Store) and s in body and not more and not s.accumulate]  # fmt: skip
