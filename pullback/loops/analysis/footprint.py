"""Footprints: the elements that statements read and write, and loops with independent iterations.

An access is a run of elements of a buffer, from one index to another. The analysis enters called kernels: their
parameters are places in the caller's buffers. Iterations of a loop over v are independent if no element written by one
is touched by another. That holds for an address c v + w if w stays in a range below c (a row), or steps over whole
ranges of c v (rows of a plane), or both. Unproven iterations count as dependent.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import gcd, prod
from typing import NamedTuple

from pullback.ir.index import ZERO_INDEX, Atom, Data, Floor, Index, Mod, Term, Var, as_index, some_terms
from pullback.ir.traverse import Substitution
from pullback.loops.analysis.intervals import (
    ENDLESS,
    Interval,
    atom_range,
    bound_range,
    interval,
    interval_of,
    trip_range,
)
from pullback.loops.program import nodes
from pullback.loops.program.nodes import (
    Access,
    Assign,
    Break,
    Call,
    For,
    If,
    Kernel,
    Let,
    LetIndex,
    Loop,
    Parallel,
    Stmt,
    accesses,
)
from pullback.loops.program.values import Buffer, Extreme, Holds, Temp, View
from pullback.records import dataclass
from pullback.state import weakly_cached

Places = Mapping[Buffer, View]
Rows = tuple[int, tuple[Interval, ...]]
EVERYWHERE: Interval = (-ENDLESS, ENDLESS)
MANY = 64  # nothing is proven for more runs or periods than this


class Accessed(NamedTuple):
    """Accessed runs of a buffer: from `first` plus an offset to `last` plus an offset.

    Mostly `last` is `first`, and the offsets give the length of a run. `adds` marks a write by `+=`; `begins` marks a
    store in a branch that is not taken, in place of such a `+=`.
    """

    buffer: Buffer
    first: Index
    last: Index
    write: bool
    adds: bool = False
    begins: bool = False

Spans = dict[Buffer, tuple[Index, Interval] | None]  # the invariant part of addresses, and the range of the rest


class Footprint:
    """The elements that statements touch, in the buffers that hold their kernel's parameters.

    Attributes:
        ranges: the values of each variable and loaded index that the statements bind.
        accesses: the runs at each place; reads only of buffers that are also written, or of all with `every`.
    """

    def __init__(self, body: Iterable[Stmt], places: Places, ranges: Mapping[Atom, Interval] | None = None,
                 every: bool = False, values: Mapping[Var, Index] | None = None, inside: bool = False) -> None:
        self.ranges: dict[Atom, Interval] = dict(ranges or {})
        self.outside = frozenset(self.ranges)
        self.accesses: dict[Accessed, dict[Interval, None]] = {}
        statements = tuple(body)
        self._splits: dict[Index, tuple[Index, tuple[Term, ...]]] = {}
        self._aparts: dict[tuple[tuple[Term, ...], int], tuple[Index, Interval | None]] = {}
        self._never = False
        self._inside = inside
        self._wanted = None if every else written(statements, places)
        self._body(statements, places, dict(values or {}))

    def _body(self, body: Sequence[Stmt], places: Places, known: dict[Var, Index]) -> None:
        known = dict(known)
        m = Substitution(variables=known)
        for s in body:
            for a in accesses(s):
                self._add(a, places, m)
            match s:
                case For():
                    counter = self._loop(s, m)
                    self._body(s.body, places, known if counter.single is s.var else {**known, s.var: counter})
                case Loop():
                    self._body(s.body, places, known)
                case If():
                    self._body(s.then, places, known)
                    before = self._never
                    self._never = before or self._holds(s, m)
                    self._body(s.otherwise, places, known)
                    self._never = before
                case LetIndex():
                    if self._let(s, m, known):
                        m = Substitution(variables=known)
                case Call():
                    self._call(s, places, m)
                case Parallel():
                    for t in s.tasks:
                        own = Var(t.chunk.name, t.chunk.extent)
                        self.ranges[own] = (0, t.most - 1)
                        self._call(t.call, places, Substitution(variables={**known, t.chunk: as_index(own)}))
                case _:
                    pass

    def _loop(self, s: For, m: Substitution) -> Index:
        """The index for a loop's variable; it counts steps if the loop begins at a constant.

        Usually it is the variable itself, so that its indices exist already. A new index is needed for counts, for a
        second loop over the variable, and in a kernel, whose accesses are merged with others.
        """
        values = trip_range(s, self.ranges, m)
        begin = m.index(s.lower).constant if isinstance(s.lower, Index) else None
        counts = s.step != 1 and begin is not None and values[1] < ENDLESS
        known = self._inside or counts or s.var in self.ranges or s.var in m.variables
        own = Var(s.var.name, s.var.extent) if known else s.var
        if not counts or begin is None:
            self.ranges[own] = values
            return as_index(own)
        self.ranges[own] = 0, (values[1] - begin) // s.step
        return as_index(own) * s.step + begin

    def _holds(self, s: If, m: Substitution) -> bool:
        """Whether a test of indices is proven to hold wherever it is reached."""
        if not isinstance(s.test, Holds):
            return False
        for c in s.test.conds:
            found = interval(m.index(c.index), self.ranges)
            if c.op != ">=" or found is None or found[0] < 0:
                return False
        return True

    def _let(self, s: LetIndex, m: Substitution, known: dict[Var, Index]) -> bool:
        """Record an index's definition; return whether other indices change."""
        if isinstance(s.var, Data):
            extent = None if s.var.extent is None else s.var.extent.constant
            self.ranges[s.var] = (-ENDLESS, ENDLESS) if extent is None else (0, extent - 1)
            return False
        if isinstance(s.value, Index):
            known[s.var] = m.index(s.value)
        else:
            own = Var(s.var.name, s.var.extent)
            extent = s.var.extent.constant or ENDLESS
            low, high = (0, extent - 1)
            if isinstance(s.value, Extreme):
                least, most = bound_range(s.value, self.ranges, m)
                low, high = max(low, least), min(high, most)
            self.ranges[own] = (low, high)
            known[s.var] = as_index(own)
        return True

    def _call(self, s: Call, places: Places, m: Substitution) -> None:
        """Add the accesses of a kernel call, found once for all calls with equal index ranges."""
        pairs = zip(s.kernel.indices, s.index_values, strict=True)
        values = {v: m.index(i) for v, i in pairs if isinstance(v, Var)}
        known = tuple((v, i.constant, interval(i, self.ranges)) for v, i in values.items())
        inner = Substitution(variables=values)
        homes = {p: located(a, places, m) for p, a in zip(s.kernel.params, s.arguments, strict=True)}
        summary, ranges = _summary(s.kernel, known)
        self.ranges |= ranges
        for (buffer, place, _, write, adds, begins), found in summary:
            home = homes.get(buffer)
            if home is None or (self._wanted is not None and home.buffer not in self._wanted):
                continue
            base = home.offset + inner.index(place)
            here = Accessed(home.buffer, base, base, write, adds, write and (begins or self._never))
            self.accesses.setdefault(here, {}).update(found)

    def _add(self, a: Access, places: Places, m: Substitution) -> None:
        home = places.get(a.buffer)
        root = a.buffer if home is None else home.buffer
        if self._wanted is not None and root not in self._wanted:
            return
        first, more = m.index(a.offset), a.more
        if home is not None:
            first = first + home.offset
        last = first
        if not isinstance(more, int):
            more = m.index(more)
            if more.constant is None:
                last, more = first + more, 0
            else:
                more = more.constant
        low, high = (0, more) if last is first else (0, 0)
        here = Accessed(root, first, last, a.write, a.adds, a.write and self._never)
        self.accesses.setdefault(here, {})[low, high] = None

    def spans(self, writes: bool | None = None) -> Spans:
        """For each buffer the invariant part of its addresses, and the range of the rest.

        Args:
            writes: True to count writes only, False for reads only, None for both.
        """
        out: Spans = {}
        for a, runs in self.accesses.items():
            if writes not in (None, a.write):
                continue
            fixed, low = self.ends(a.first)
            also, high = (fixed, low) if a.last is a.first else self.ends(a.last)
            before = out.get(a.buffer, (fixed, (ENDLESS, -ENDLESS)))
            if before is None or low is None or high is None or fixed is not also or before[0] is not fixed:
                out[a.buffer] = None
            else:
                least, most = low[0] + min(run[0] for run in runs), high[1] + max(run[1] for run in runs)
                out[a.buffer] = fixed, (min(before[1][0], least), max(before[1][1], most))
        return out

    def ends(self, i: Index) -> tuple[Index, Interval | None]:
        """The invariant part of an index, and the range of the rest."""
        fixed, moving = self._split(i)
        return fixed, interval_of(moving, self.ranges)

    def runs(self, a: Accessed, runs: Iterable[Interval]) -> Iterator[tuple[Index, Interval]]:
        """Yield the runs of an access: an invariant or distant offset, and the minimum and maximum from it."""
        (fixed, moving), (also, end) = self._split(a.first), self._split(a.last)
        start, stop = (t[0][1] if t and not t[0][0] else 0 for t in (moving, end))  # terms begin with the number
        near = moving[1:] if start else moving
        if fixed is not also or near != (end[1:] if stop else end):
            first, last = interval_of(moving, self.ranges), interval_of(end, self.ranges)
            for low, high in runs:
                sure = fixed is also and first is not None and last is not None
                yield fixed, (first[0] + low, last[1] + high) if sure and first and last else EVERYWHERE
            return
        for low, high in runs:
            far, found = self._apart(near, stop + high - start - low)
            yield fixed + far, EVERYWHERE if found is None else (found[0] + start + low, found[1] + stop + high)

    def _apart(self, terms: tuple[Term, ...], width: int) -> tuple[Index, Interval | None]:
        """The index terms whose every step exceeds `width` and the other terms, and the range of the others."""
        known = self._aparts.get((terms, width))
        if known is None:
            near = sorted(terms, key=lambda term: -abs(term[1]))
            while near:
                m, c = near[0]
                values = interval_of(near[1:], self.ranges)
                single = len(m) == 1 and isinstance(m[0], Var)
                if not single or values is None or abs(c) <= values[1] - values[0] + width + 1:
                    break
                del near[0]
            far = some_terms(tuple([term for term in terms if term not in near]))
            known = self._aparts[terms, width] = far, interval_of(near, self.ranges)
        return known

    def rows(
        self, spans: Mapping[Buffer, tuple[Index, Interval] | None]
    ) -> tuple[dict[Buffer, Rows], dict[Buffer, int]]:
        """The touched elements of each row, and their maximal number, for buffers with a span."""
        runs: dict[Buffer, dict[tuple[Term, ...], list[Interval]]] = {}
        for a, found in self.accesses.items():
            mine = runs.setdefault(a.buffer, {})
            for place, run in self.runs(a, found):
                mine.setdefault(self._split(place)[1], []).append(run)
        rows: dict[Buffer, Rows] = {}
        elements: dict[Buffer, int] = {}
        for b, span in spans.items():
            if span is not None:
                found_at: dict[tuple[Term, ...], list[Interval]] = {}
                for at, whole in (self._contiguous(p, _merged(all_)) for p, all_ in runs[b].items()):
                    found_at.setdefault(at, []).extend(whole)
                merged = {at: _merged(all_) for at, all_ in found_at.items()}
                distance = gcd(*(c for place in merged for _, c in place))
                rows[b] = distance, tuple(run for found in merged.values() for run in found)
                many = sum((high - low + 1) * self._values(i) for i, all_ in merged.items() for low, high in all_)
                elements[b] = min(many, span[1][1] - span[1][0] + 1)
        return rows, elements

    def _contiguous(self, place: tuple[Term, ...], runs: list[Interval]) -> tuple[tuple[Term, ...], list[Interval]]:
        """The place and runs of an access: one run where steps leave no gap, as blocks of a row do."""
        terms = sorted(place, key=lambda term: -abs(term[1]))
        while terms and len(runs) == 1:
            (m, c), (low, high) = terms[-1], runs[0]
            values = atom_range(m[0], self.ranges) if len(m) == 1 else None
            if values is None or not 0 < c <= high - low + 1:
                break
            runs = [(low + c * values[0], high + c * values[1])]
            del terms[-1]
        return tuple(t for t in place if t in terms), runs

    def _values(self, terms: tuple[Term, ...]) -> int:
        """The maximal number of values of a sum of variables."""
        ends = [atom_range(a, self.ranges) for a in {a: None for m, _ in terms for a in m}]
        return prod(ENDLESS if found is None else found[1] - found[0] + 1 for found in ends)

    def _split(self, i: Index) -> tuple[Index, tuple[Term, ...]]:
        """Split an index into its invariant part, and the other terms."""
        out = self._splits.get(i)
        if out is None:
            kept: tuple[list[Term], list[Term]] = [], []
            for term in i.terms:
                kept[not term[0] or any(map(self._moves, term[0]))].append(term)
            fixed = i if not kept[1] else some_terms(tuple(kept[0])) if kept[0] else ZERO_INDEX
            out = self._splits[i] = fixed, tuple(kept[1])
        return out

    def _moves(self, a: Atom) -> bool:
        if a in self.ranges:
            return a not in self.outside
        match a:
            case Floor() | Mod():
                return any(self._moves(b) for b in (*a.numerator.every_atom, *a.denominator.every_atom))
            case Data():
                return True
            case _:
                return False

    def apart(self, buffer: Buffer, v: Var, step: int) -> bool:
        """Whether iterations over v, with this step, touch disjoint elements of the buffer."""
        rest: Index | None = None
        low, high, factor = ENDLESS, -ENDLESS, 0
        for x, mine in self.accesses.items():
            if x.buffer is not buffer:
                continue
            for index, end in ((x.first, 0), (x.last, 1)):
                c = index.coefficient(v)
                if c is None or not c.constant or (factor and c.constant != factor):
                    return False
                factor = c.constant
                fixed, near = self.ends(index.without(v))
                if near is None or (rest is not None and fixed is not rest):
                    return False
                rest = fixed
                low = min(low, *(near[0] + run[0] for run in mine)) if not end else low
                high = max(high, *(near[1] + run[1] for run in mine)) if end else high
        return high - low < abs(factor) * step


Values = tuple[tuple[Var, int | None, Interval | None], ...]  # of a kernel's indices: a number, or a range
Summary = tuple[tuple[tuple[Accessed, dict[Interval, None]], ...], Mapping[Atom, Interval]]


@weakly_cached
def _summaries(_: Kernel) -> dict[Values, Summary]:
    """A kernel's accesses to its parameters, by the values of its indices seen so far."""
    return {}


def _summary(k: Kernel, known: Values) -> Summary:
    """A kernel's accesses to its parameters, as runs, for these index values or ranges.

    Separate runs, such as the rows of a block, keep the variables of their distance, with their ranges.
    """
    before = _summaries(k).get(known)
    if before is not None:
        return before
    ranges: dict[Atom, Interval] = {v: found or (0, ENDLESS) for v, value, found in known if value is None}
    values = {v: as_index(n) for v, n, _ in known if n is not None}
    f = Footprint(k.body, {}, ranges, every=True, values=values, inside=True)
    runs: dict[Accessed, list[Interval]] = {}
    for a, found in f.accesses.items():
        for place, run in f.runs(a, found):
            runs.setdefault(Accessed(a.buffer, place, place, *a[3:]), []).append(run)
    apart = {a: f.ranges[a] for x in runs for a in x.first.atoms if a in f.ranges and a not in ranges}
    made = tuple((place, dict.fromkeys(_merged(found))) for place, found in runs.items()), apart
    _summaries(k)[known] = made
    return made


def _merged(runs: list[Interval]) -> list[Interval]:
    """Merge touching runs of elements; many become one."""
    out: list[Interval] = []
    for low, high in sorted(runs):
        if out and low <= out[-1][1] + 1:
            out[-1] = out[-1][0], max(high, out[-1][1])
        else:
            out.append((low, high))
    return out if len(out) <= MANY else [(out[0][0], out[-1][1])]


def located(a: View, places: Places, m: Substitution) -> View:
    """The location of a view in the outermost buffers."""
    offset = m.index(a.offset)
    home = places.get(a.buffer)
    return View(a.buffer, offset) if home is None else View(home.buffer, home.offset + offset)


def written(body: Sequence[Stmt], places: Places) -> frozenset[Buffer]:
    """The buffers that statements write."""
    out: set[Buffer] = set()
    for s in nodes.walk(tuple(body)):
        mine = [a.buffer for a in accesses(s) if a.write]
        if isinstance(s, Call):
            inside = _written_parameters(s.kernel)
            mine += [a.buffer for p, a in zip(s.kernel.params, s.arguments, strict=True) if p in inside]
        out.update(places[b].buffer if b in places else b for b in mine)
    return frozenset(out)


@weakly_cached
def _written_parameters(k: Kernel) -> frozenset[Buffer]:
    return written(k.body, {})


def carries(loop: For, sums: Container[Temp] = ()) -> bool:
    """Whether an iteration may leave the loop, or changes an outer temporary other than `sums`."""
    declared = {s.temp for s in nodes.walk(loop.body) if isinstance(s, Let)}
    changed = (s.temp for s in nodes.walk(loop.body) if isinstance(s, Assign))
    return leaves(loop.body) or any(t not in declared and t not in sums for t in changed)


def leaves(body: Sequence[Stmt]) -> bool:
    """Whether statements may leave the loop around them; a `Break` leaves the innermost one."""
    return any(isinstance(s, Break) or (isinstance(s, If) and leaves((*s.then, *s.otherwise))) for s in body)


def independent(
    loop: For, places: Places, ranges: Mapping[Atom, Interval], sums: Container[Temp] = ()
) -> frozenset[Buffer] | None:
    """The buffers with elements shared by iterations; None if the loop `carries` anything else."""
    if carries(loop, sums):
        return None
    one = Footprint(loop.body, places, {**ranges, loop.var: trip_range(loop, ranges)}, every=True)
    changed = {a.buffer for a in one.accesses if a.write}
    return frozenset(b for b in changed if not one.apart(b, loop.var, loop.step))


@dataclass(frozen=True)
class Touched:
    """The addresses that statements touch in each buffer, as `Footprint.spans`, and the written buffers.

    Attributes:
        inside: computes `rows` and `elements` on first use, which is rare where spans are disjoint.
    """

    spans: Mapping[Buffer, tuple[Index, Interval] | None]
    changed: frozenset[Buffer]
    inside: Callable[[], tuple[Mapping[Buffer, Rows], Mapping[Buffer, int]]]

    @cached_property
    def _inside(self) -> tuple[Mapping[Buffer, Rows], Mapping[Buffer, int]]:
        return self.inside()

    @property
    def rows(self) -> Mapping[Buffer, Rows]:
        """For each buffer with a span, the distance of rows and the runs of elements that are touched in each.

        The distance is 0 where there is but one row.
        """
        return self._inside[0]

    @property
    def elements(self) -> Mapping[Buffer, int]:
        """The maximal number of touched elements."""
        return self._inside[1]

    def moved(self, places: Places) -> Touched:
        """The addresses after each buffer is replaced by its place in another buffer."""
        spans: Spans = {}
        for b, span in self.spans.items():
            home = places[b]
            here = None if span is None else (span[0] + home.offset, span[1])
            before = spans.get(home.buffer, here)
            if before is None or here is None or before[0] is not here[0]:
                spans[home.buffer] = None
            else:
                spans[home.buffer] = here[0], (min(before[1][0], here[1][0]), max(before[1][1], here[1][1]))
        changed = frozenset(places[b].buffer for b in self.changed)
        return Touched(spans, changed, lambda: self._moved_inside(places))

    def _moved_inside(self, places: Places) -> tuple[dict[Buffer, Rows], dict[Buffer, int]]:
        rows: dict[Buffer, Rows] = {}
        elements: dict[Buffer, int] = {}
        for b, n in self.elements.items():
            whole = places[b].buffer
            elements[whole] = elements.get(whole, 0) + n
            rows[whole] = _together(rows.get(whole, (0, ())), self.rows[b])
        return rows, elements


def touched(body: Sequence[Stmt], places: Places, ranges: Mapping[Atom, Interval]) -> Touched:
    """The elements that the statements touch."""
    f = Footprint(body, places, ranges, every=True)
    spans = f.spans()
    return Touched(spans, frozenset(x.buffer for x in f.accesses if x.write), lambda: f.rows(spans))


def _together(a: Rows, b: Rows) -> Rows:
    """The union of two sets of touched rows, at a common row distance."""
    return gcd(a[0], b[0]), (*a[1], *b[1])


def collide(a: Touched, b: Touched, apart: frozenset[Buffer] = frozenset()) -> bool:
    """Whether writes of one may overlap accesses of the other, except in the buffers `apart`."""
    for buffer in ((a.changed | b.changed) & a.spans.keys() & b.spans.keys()) - apart:
        p, q = a.spans[buffer], b.spans[buffer]
        if p is None or q is None or p[0] is not q[0]:
            return True
        if p[1][0] <= q[1][1] and q[1][0] <= p[1][1] and not _aside(a.rows[buffer], b.rows[buffer]):
            return True
    return False


def _aside(a: Rows, b: Rows) -> bool:
    """Whether runs of elements are disjoint within rows."""
    distance = gcd(a[0], b[0])
    if not distance or len(a[1]) * len(b[1]) > MANY * MANY:
        return False
    return not any((low - other) % distance <= last - other or (other - low) % distance <= high - low
                   for low, high in a[1] for other, last in b[1])
