"""Accesses of neighboring threads: what a warp of 32 threads asks of memory at once.

    thread t: y[t] = x[t] + w[0] + z[128 t]     -->  x, y: 4 sectors of 32 bytes for 128 bytes;  w: 1;  z: 32

Memory is read and written in sectors. If neighboring threads access neighboring elements, each sector is used whole.
The addresses of one warp are computed for some groups and some iterations of serial loops, so indices may be of any
form. Indices that depend on elements count as scattered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from pullback.grid.estimates import SEARCH
from pullback.ir.index import Atom, Data, DimSymbol, Floor, Index, Mod, Var
from pullback.loops.analysis.intervals import ENDLESS
from pullback.loops.program import nodes
from pullback.loops.program.nodes import For, If, LetIndex, Loop, Stmt
from pullback.loops.program.values import LOCAL, Bound, Buffer, Extreme, Holds

WARP: Final = 32  # threads that access memory together
SECTOR: Final = 32  # bytes that memory moves at least
LINE: Final = 128  # bytes of a line of the cache; each line that a warp touches takes a cycle of its multiprocessor
NEAR: Final = 0.75  # the share of neighbors that access neighboring elements, where an access counts as contiguous
CACHED: Final = 4.0  # what remains of the waste if the next iterations of a serial loop find their elements in a cache
MOST_ORDERS: Final = 6  # orders of loops that are compared
TYPICAL: Final = 64  # the assumed value of an open size

Numbers = NDArray[np.int64]
Kind = Literal["contiguous", "equal", "strided", "scattered"]


@dataclass(frozen=True)
class Seen:
    """An access of all threads of a launch.

    Attributes:
        buffer: where it is.   write: whether it writes.   kind: how the elements of neighboring threads lie.
        bytes: the bytes that threads ask for.   moved: the bytes of the sectors that warps touch.
    """

    buffer: Buffer
    write: bool
    kind: Kind
    bytes: float
    moved: float


@dataclass(frozen=True)
class Warp:
    """The values of variables in the threads of a warp.

    Attributes:
        values: the value of each variable, one for each thread.   active: the threads that run.
        times: how often such a warp runs.   known: the values of indices computed before.
        run: the neighboring elements that a thread reads at once, see `touched`.
    """

    values: Mapping[Atom, Numbers]
    active: NDArray[np.bool_]
    times: float
    known: dict[Index, Numbers] = field(default_factory=dict)
    run: int = 1

    def bind(self, v: Atom, value: Numbers | int) -> Warp:
        """The warp with the value of one more variable."""
        return replace(self, values={**self.values, v: np.broadcast_to(value, self.active.shape)}, known={})

    def index(self, i: Index) -> Numbers:
        """The value of an index in each thread."""
        if i not in self.known:
            total = np.zeros(self.active.shape, np.int64)
            for monomial, factor in i.terms:
                product: Any = factor
                for a in monomial:
                    product = product * self._atom(a)
                total = total + product
            self.known[i] = total
        return self.known[i]

    def _atom(self, a: Atom) -> Numbers:
        if a in self.values:
            return self.values[a]
        if isinstance(a, Floor | Mod):
            n, d = self.index(a.numerator), np.maximum(self.index(a.denominator), 1)
            return n // d if isinstance(a, Floor) else n % d
        extent = None if isinstance(a, DimSymbol) else a.extent
        most = TYPICAL if extent is None or extent.constant is None else extent.constant
        if isinstance(a, Data):  # threads have any elements; these numbers are far apart
            return np.arange(1, len(self.active) + 1) * 7919 % max(most, 1)
        return np.full(self.active.shape, most // 2)

    def bound(self, b: Bound) -> Numbers:
        """The value of a loop bound in each thread."""
        if isinstance(b, Index):
            return self.index(b)
        ends = np.stack([self.bound(a) for a in b.args])
        out: Numbers = ends.max(axis=0) if b.op == "max" else ends.min(axis=0)
        return out

    def within(self, test: Holds) -> Warp:
        """The threads for which conditions hold."""
        active = self.active
        for c in test.conds:
            i = self.index(c.index)
            active = active & (i >= 0 if c.op == ">=" else i == 0 if c.op == "==" else i != 0)
        return replace(self, active=active)

    def access(self, a: nodes.Access) -> Seen:
        """One access of the warp."""
        size = a.buffer.dtype.size
        at = self.index(a.offset)[self.active]
        more = self.index(a.more)[self.active] if isinstance(a.more, Index) else np.full(at.shape, a.more)
        wanted = float((more + 1).sum()) * size
        moved = _sectors(at * size, (at + more) * size) * SECTOR
        return Seen(a.buffer, a.write, _kind(a.offset, at, more), wanted * self.times, moved * self.times)

    def touched(self, i: Index, size: int) -> tuple[float, float]:
        """The traffic of the warp at elements of this size, for an array that is gone through once.

        Returns:
            The bytes of sectors for each byte of an element, and the number of lines of the cache for each.
        """
        at = np.unique(self.index(i)[self.active]) * size
        lines = len(np.unique(at // LINE)) / self.run
        if len(at) < 2:
            return 1.0, lines
        waste = max(len(np.unique(at // SECTOR)) * SECTOR / (len(at) * size * self.run), 1.0)
        serial = any(c in (1, -1) and len(m) == 1 and m[0] not in self.values for m, c in i.terms)
        return min(waste, CACHED) if serial else waste, lines


def _sectors(first: Numbers, last: Numbers) -> int:
    """The number of sectors with bytes of runs."""
    low, high = first // SECTOR, last // SECTOR
    most = int((high - low).max(initial=0))
    return len(np.unique(np.concatenate([np.minimum(low + k, high) for k in range(most + 1)])))


def _kind(i: Index, at: Numbers, more: Numbers) -> Kind:
    steps = np.diff(at)
    if not steps.any():
        return "equal"
    if any(isinstance(a, Data) for a in i.every_atom):
        return "scattered"
    return "contiguous" if np.mean(abs(steps) <= more[1:] + 1) >= NEAR else "strided"


def in_order(variables: Sequence[Var], at: Numbers) -> Warp:
    """The warp whose threads have these row-major positions of variables."""
    values: dict[Atom, Numbers] = {}
    for v in reversed(variables):
        n = v.extent.constant or TYPICAL
        at, values[v] = at // n, at % n
    return Warp(values, np.ones(at.shape, np.bool_), 1.0)


def orders(variables: Sequence[Var], places: Iterable[Index]) -> list[tuple[Var, ...]]:
    """Orders of variables: as they are, and for each place the one whose neighbors lie side by side there."""
    found = {tuple(variables): None}
    for i in places:
        steps = [i.coefficient(v) for v in variables]
        numbers = [abs(c.constant or 0) if c is not None else 0 for c in steps]
        by = sorted(zip(variables, numbers, strict=True), key=lambda x: -x[1] if x[1] else -ENDLESS)
        found[tuple(v for v, _ in by)] = None
    return list(found)[:MOST_ORDERS]


def launch_accesses(group: For) -> Iterator[Seen]:
    """The accesses of a launch to device memory."""
    n = _constant(group.upper)
    for g in sorted({0, n // 2}):
        warp = Warp({group.var: np.full(WARP, g)}, np.ones(WARP, np.bool_), n / len({0, n // 2}))
        yield from _together(group.body, warp)


def _constant(b: Bound) -> int:
    return (b.constant if isinstance(b, Index) else None) or TYPICAL


def _together(body: Sequence[Stmt], warp: Warp) -> Iterator[Seen]:
    """The accesses of statements around thread loops; what all threads do alike is left out."""
    for s in body:
        match s:
            case For(kind="thread"):
                n = _constant(s.upper)
                inside = warp.bind(s.var, np.arange(WARP))
                active = warp.active & (np.arange(WARP) < n)
                yield from accesses(s.body, replace(inside, active=active, times=warp.times * max(n / WARP, 1)))
            case For():
                yield from _together(s.body, _iteration(s, warp))
            case Loop():
                yield from _together(s.body, replace(warp, times=warp.times * SEARCH))
            case If():
                yield from _together(s.then, warp)
                yield from _together(s.otherwise, warp)
            case LetIndex():
                warp = _let(s, warp)
            case _:
                pass


def accesses(body: Sequence[Stmt], warp: Warp) -> Iterator[Seen]:
    """The accesses of a warp's threads to device memory."""
    for s in body:
        if not warp.active.any():
            return
        yield from (warp.access(a) for a in nodes.accesses(s) if a.buffer.space not in LOCAL)
        match s:
            case For():
                yield from accesses(s.body, _iteration(s, warp))
            case Loop():
                yield from accesses(s.body, replace(warp, times=warp.times * SEARCH))
            case If():
                inside = warp.within(s.test) if isinstance(s.test, Holds) else warp
                outside = replace(warp, active=warp.active & ~inside.active) if inside is not warp else warp
                yield from accesses(s.then, inside)
                yield from accesses(s.otherwise, outside)
            case LetIndex():
                warp = _let(s, warp)
            case _:
                pass


def _let(s: LetIndex, warp: Warp) -> Warp:
    if isinstance(s.var, Var) and isinstance(s.value, Index | Extreme):
        return warp.bind(s.var, warp.bound(s.value))
    return warp  # the index is an element


def _iteration(s: For, warp: Warp) -> Warp:
    """An iteration in the middle of a serial loop."""
    low = warp.bound(s.lower)
    trips = np.maximum(-(-(warp.bound(s.upper) - low) // s.step), 0)
    inside = warp.bind(s.var, low + trips // 2 * s.step)
    most = float(trips[warp.active].mean()) if warp.active.any() else 0.0
    return replace(inside, active=warp.active & (trips > 0), times=warp.times * most)
