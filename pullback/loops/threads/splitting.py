"""Splitting of one call: the loops of its kernel to cut into chunks, and the chunk kernels.

Parts are found from the outside in. The outermost loop with independent iterations is cut; with few trips it stays, and
inner loops are cut. A loop that accumulates gets partial sums if its inner loops would need many barriers.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod

from pullback.ir.index import ZERO_INDEX, Atom, Data, DimSymbol, Index, Var, as_index, floor_divide, modulo
from pullback.ir.traverse import Substitution
from pullback.ir.types import DType
from pullback.loops.analysis.first_reads import first_reads
from pullback.loops.analysis.footprint import (
    Footprint,
    Places,
    Spans,
    Touched,
    collide,
    independent,
    leaves,
    located,
    touched,
    written,
)
from pullback.loops.analysis.intervals import Interval, bound_range, trip_range
from pullback.loops.analysis.rows import rows_apart
from pullback.loops.analysis.separate import separate
from pullback.loops.analysis.work import NEAR, Cost, Cycles, cycles, definitions, moving, moving_open, steps
from pullback.loops.plain.builder import free_variables
from pullback.loops.program import nodes
from pullback.loops.program.nodes import (
    Call,
    Comment,
    For,
    If,
    Kernel,
    Let,
    LetIndex,
    Parallel,
    Stmt,
    Task,
    most_chunks,
)
from pullback.loops.program.values import Buffer, Extreme, Holds, Temp, View, smallest
from pullback.loops.threads.chunks import Cut, open_cut
from pullback.loops.threads.partial_sums import (
    CHEAP,
    MOST_SUMS,
    accumulators,
    added_buffers,
    buffer_sum,
    moved,
    temporaries,
    temporary_sums,
    zeros,
)
from pullback.loops.threads.pieces import (
    Around,
    Part,
    Piece,
    Region,
    all_pieces,
    buffers_in,
    following,
    joined,
    names_in,
    needed,
    pieces_of,
    scoped,
)
from pullback.machine import Machine

MOST = 64  # chunks of a loop
HALF = 0.5  # fraction of a loop that must be shared out inside for its sums to stay in order
FEW, FEW_OPEN = 8, 2  # too few trips to share evenly; for an unknown number of trips
OWN = 1_000  # least cycles of a step of one of several loops that are cut together
MOSTLY = 0.9  # fraction of a body that must be shared out for the loop to stay around it

Form = tuple[Kernel, tuple[tuple[int, Index], ...]]  # a kernel, and which of its parameters share a buffer


class Splitting:
    """The splitting of one call."""

    def __init__(self, call: Call, root: Places, sums: bool, machine: Machine) -> None:
        self.call = call
        self.machine = machine
        self.sums = self.cutting = sums  # of buffers, and of elements
        self.around = 1  # iterations of the enclosing independent loops, if these do nothing else
        self.added: dict[Buffer, View] = {}  # parameters for partial sums
        self.cut: dict[Stmt, tuple[int, tuple[Stmt, ...]]] = {}  # loops of sums: chunks, statements after
        self.kernel = call.kernel
        self.places = {p: View(root[a.buffer].buffer if a.buffer in root else a.buffer, a.offset)
                       for p, a in zip(call.kernel.params, call.arguments, strict=True)}  # fmt: skip
        self.written = written(self.kernel.body, {})
        scratch = frozenset(b for b in self.kernel.scratch if b.elements.constant is not None)
        self.own = {self.places[b].buffer: b for b in scratch}  # candidates for worker-private memory
        self.copies: dict[Buffer, Buffer] = {}
        self.open = any(isinstance(d, DimSymbol) for d in call.kernel.indices)
        self.values = definitions(call.kernel.body) if self.open else {}
        self.works: dict[Var, tuple[Cycles, Cycles, bool]] = {}  # chunks to be counted: cycles, steps, nested
        self._cycles: dict[Stmt, Cycles] = {}
        self._footprints: dict[Stmt, Touched] = {}
        self._independent: dict[For, frozenset[Buffer] | None] = {}
        self._first_reads: dict[For, frozenset[Buffer]] = {}
        self._spans: dict[For, tuple[Spans, Spans]] = {}  # of one iteration's reads, and of its writes

    @property
    def form(self) -> Form:
        """The key that the result depends on."""
        homes = [v.buffer for v in self.places.values()]
        return self.kernel, tuple((homes.index(v.buffer), v.offset) for v in self.places.values())

    def again(self, made: Sequence[Stmt], call: Call) -> list[Stmt]:
        """The statements of an equal call, applied to this one with its own working memory."""
        views = dict(zip(self.call.arguments, call.arguments, strict=True))
        copies = {b: View(replace(b)) for b in (*self.copies.values(), *(v.buffer for v in self.added.values()))}

        def view(a: View) -> View:
            return views[a] if a in views else copies[a.buffer]

        return list(moved(made, view))

    def statements(self) -> list[Stmt]:
        """The statements that replace the call."""
        while True:
            self.added.clear()
            self.cut.clear()
            parts = self._parts(self.kernel.body, {}, ())
            pieces = list(all_pieces(parts))
            if self._uneven(pieces):
                self.cutting = False
                continue
            if not any(p.chunk or p.only_call for p in pieces):
                return [self.call]
            private = {b for p in pieces for b in p.private}
            carried = {b for p in pieces for b in first_reads(p.body, {}) if b in private}
            if not carried:
                break
            self.own = {home: b for home, b in self.own.items() if b not in carried}
        for b in private:
            buffer = self.places[b].buffer
            self.copies[b] = Buffer(buffer.name, buffer.dtype, buffer.shape, "worker", buffer.elements)
        return self._emit(parts)

    def _uneven(self, pieces: Sequence[Piece]) -> bool:
        """Whether elements of one array would be summed in different orders, by different numbers of chunks."""
        chosen = [self.cut[s] for p in pieces for s in nodes.walk(p.body) if s in self.cut]
        chunks = {s: n for n, after in chosen for s in nodes.walk(after)}
        counts: dict[Buffer, set[int]] = {}
        for s in nodes.walk(self.kernel.body) if chosen else ():
            if isinstance(s, nodes.Store):
                counts.setdefault(s.buffer, set()).add(chunks.get(s, 0))
        return any(len(n) > 1 for n in counts.values())

    # Parts that can be shared out ----------------------------------------------------------------------------------

    def _parts(
        self, body: Sequence[Stmt], ranges: Mapping[Atom, Interval], before: tuple[Stmt, ...]
    ) -> tuple[Part, ...]:
        """The statements as parts in order; `before` are definitions that they may need again."""
        ranges = dict(ranges)
        out: list[Part] = []
        for cluster in self._clusters(body):
            if len(cluster) > 1:
                out += self._cluster(cluster, ranges, before)
                continue
            s = cluster[0]
            if isinstance(s, Let | LetIndex):
                before = (*before, s)
                if self.open and isinstance(s, LetIndex) and isinstance(s.value, Index | Extreme):
                    ranges[s.var] = bound_range(s.value, ranges)
            elif not isinstance(s, Comment):
                out += self._part(s, ranges, before)
        return joined(out, lambda a, b: self._apart(a, b, ranges))

    def _clusters(self, body: Sequence[Stmt]) -> list[tuple[Stmt, ...]]:
        """Group the statements that share a temporary other than a mere definition."""
        bad: dict[Temp | Atom, int] = {}  # and the place of its definition
        until: dict[int, int] = {}
        for k, s in enumerate(body):
            uses = names_in((s,)) if bad else set()
            for t in uses & bad.keys():
                until[bad[t]] = k
            if isinstance(s, Let) or (isinstance(s, LetIndex) and isinstance(s.var, Data)):
                made = s.temp if isinstance(s, Let) else s.var
                changing = any(a.buffer in self.written for a in nodes.accesses(s))
                if (isinstance(s, Let) and s.mutable) or changing or uses & bad.keys():
                    bad[made] = k
        out: list[tuple[Stmt, ...]] = []
        start = 0
        while start < len(body):
            stop = start
            k = start
            while k <= stop:
                stop = max(stop, until.get(k, k))
                k += 1
            out.append(tuple(body[start : stop + 1]))
            start = stop + 1
        return out

    def _cluster(
        self, cluster: tuple[Stmt, ...], ranges: Mapping[Atom, Interval], before: tuple[Stmt, ...]
    ) -> list[Part]:
        """Statements that share temporaries: split a loop that only accumulates; the rest is one piece."""
        plain: list[Part] = [Piece(needed(cluster, before), cluster)]
        k = next((k for k, s in enumerate(cluster) if not isinstance(s, Let)), 0)
        loop, lets = cluster[k], [s for s in cluster[:k] if isinstance(s, Let)]
        if not self.cutting or not isinstance(loop, For) or not self._worth(loop, ranges):
            return plain
        ops = accumulators(loop, lets)
        others = {s.temp for s in lets} - (ops or {}).keys()
        if not ops or others & names_in((loop,)):
            return plain
        private = self._private(loop, ranges, ops)
        cut = None if private is None else self._cut(loop, ranges, MOST_SUMS)
        if cut is None:
            return plain
        chunk, own = cut.chunk, cut.body
        buffers = {}
        for name, width in temporaries(ops).items():
            dtype = next(t.type.dtype for t in ops if t.type.dtype.name == name)
            buffers[name] = self._partial("partial", dtype, as_index(most_chunks(chunk) * width))
        start, keep, add = temporary_sums(ops, chunk, buffers)
        body = needed((*start, *own, *keep), before)
        first = Piece(body, (loop, *keep), chunk, private or frozenset())
        self.cut[add] = chunk.extent.constant or 0, cluster[k + 1 :]
        rest = (*lets, add, *cluster[k + 1 :])
        return [Region((first,)), Piece(needed(rest, before), rest)]

    def _partial(self, name: str, dtype: DType, count: Index) -> Buffer:
        """A parameter for partial sums, which are in the arena."""
        buffer = Buffer(name, dtype, (count,), "arena", count)
        param = Buffer(name, dtype, (count,), "parameter", count)
        self.added[param] = self.places[param] = View(buffer)
        return param

    def _added(self, s: For, ranges: Mapping[Atom, Interval], before: tuple[Stmt, ...]) -> list[Part]:
        """The loop with partial sums of its accumulated buffers; empty if it does not pay."""
        common = None if self.added.keys() & buffers_in((s,)) else self._common(s, ranges)  # not again
        cut = None if common is None else self._cut(s, ranges, MOST_SUMS)
        if common is None or cut is None or cut.chunk in self.works:
            return []
        mine = frozenset(b for b in common & self.own.keys() if self._anew(s, self.own[b], ranges))
        private = frozenset(self.own[b] for b in mine)
        found = added_buffers(s, common - mine, self.places, ranges, trip_range(s, ranges))
        home = {self.places[p].buffer: p for p in self.kernel.params}
        if not found:
            return []
        chunk, own = cut.chunk, cut.body
        chunks = chunk.extent.constant or 0
        room = sum(home[b].elements.constant or self.machine.caches[1] for b in found) * chunks
        bytes_ = sum(home[b].bytes for b in found if home[b].elements.constant is not None) * chunks
        much = room * CHEAP > self._usual((s,), ranges) or bytes_ > self.machine.caches[1]
        if much or not self._alone(s, found):
            return []
        places: dict[Buffer, View] = {}
        start: list[Stmt] = []
        after: list[For] = []
        for b, begins in found.items():
            target = home[b]
            partial = self._partial("partial", target.dtype, target.elements * chunks)
            places[target] = View(partial, target.elements * as_index(chunk))
            start.append(zeros(partial, target, chunk))
            after.append(buffer_sum(target, partial, chunks, begins))
        whole = (*start, *moved(own, lambda a: located(a, places, Substitution())))
        first = Piece(needed(whole, before), (For(chunk, ZERO_INDEX, chunk.extent, whole),), chunk, private)
        return [Region((first,)), *(p for loop in after for p in self._part(loop, ranges, ()))]

    def _alone(self, s: For, found: Mapping[Buffer, bool]) -> bool:
        """Whether a loop owns the buffers that it begins anew, so that it writes all of them."""
        begun = {b for b, begins in found.items() if begins}
        views = [v for v in self.places.values() if v.buffer in begun]
        mine = {p for p, v in self.places.items() if v.buffer in begun}
        top = [x for x in self.kernel.body if mine & buffers_in((x,))]
        return not begun or (top == [s] and len(views) == len(begun))

    def _cut(
        self, s: For, ranges: Mapping[Atom, Interval], most: int, inside: Sequence[For] = (), parts: int = 0
    ) -> Cut | None:
        """The loop in chunks, with loops `inside` and the last `parts` of them; None where it cannot be cut."""
        trips = self._trips(s, ranges)
        if trips is None or not isinstance(s.lower, Index):
            return None
        total = self._work(s, ranges, self.machine.chunk * most)
        if self.open or isinstance(trips, Cost):
            cut = open_cut((s, *inside), most, parts)
            every = self._steps((s, *inside), parts, ranges)
            self.works[cut.chunk] = total, every, bool(inside or parts)
            return cut
        count = max(2, min(most, int(float(total) / self.machine.chunk)))
        size = int(-(-trips // (count + count % 2)))  # an even number: two threads share 7 chunks as 4 and 3
        chunk = Var("chunk", int(-(-trips // size)))
        begin = as_index(chunk) * (size * s.step) + s.lower
        end = begin + size * s.step
        even = trips % size == 0 and _constant(s)
        return Cut(chunk, (replace(s, lower=begin, upper=end if even else smallest(end, s.upper)),))

    def _nest(
        self, s: For, ranges: Mapping[Atom, Interval], before: tuple[Stmt, ...], private: frozenset[Buffer]
    ) -> tuple[list[For], tuple[Stmt, ...], frozenset[Buffer]]:
        """A perfect nest of loops, the definitions of its bounds, and worker-private buffers.

        Each chunk repeats the code before an inner loop, such as the packing of a block.
        """
        nest, within, known, lets = [s], dict(ranges), before, before[:0]
        while self.open and isinstance(last := nest[-1].body[-1], For) and isinstance(last.lower, Index):
            within[nest[-1].var] = trip_range(nest[-1], within)
            head = nest[-1].body[:-1]
            before = (*before, *(x for x in head if isinstance(x, LetIndex)))
            own, seen = self._private(last, within), self._seen(last, before)
            deep = any(isinstance(x, For | Call) for x in nodes.walk(last.body))
            if not deep or own is None or seen is None or not self._fills(head, last, private):
                break
            if {x.var for x in nest} & names_in((replace(last, body=()), *seen)):
                break
            nest.append(last)
            lets, private = following(lets, seen), private | own
        return nest, tuple(d for d in lets if d not in known), private

    def _side_by_side(
        self, s: For, ranges: Mapping[Atom, Interval], before: tuple[Stmt, ...]
    ) -> tuple[int, tuple[Stmt, ...]]:
        """The number of independent statements at a loop's end that are cut with it; their bounds' needs."""
        parts = [x for x in s.body if not isinstance(x, LetIndex | Comment)]
        within = {**ranges, s.var: trip_range(s, ranges)}
        each = [self._usual(p.body, {**within, p.var: trip_range(p, within)}) for p in parts if isinstance(p, For)]
        if not self.open or len(parts) < 2 or max(each, default=0) < OWN or tuple(parts) != s.body[-len(parts) :]:
            return 0, ()
        if separate(s, self.places) != frozenset() or not all(isinstance(p, For | If) for p in parts):
            return 0, ()
        inner = (*before, *(x for x in s.body if isinstance(x, LetIndex)))
        lets: tuple[Stmt, ...] = ()
        for p in [p for p in parts if isinstance(p, For)]:
            seen = self._seen(p, inner)
            alone = isinstance(p.lower, Index) and self._private(p, within) == frozenset()
            if seen is None or not alone or s.var in names_in((replace(p, body=()), *seen)):
                return 0, ()
            lets = following(lets, seen)
        return len(parts), tuple(d for d in lets if d not in before)

    def _steps(self, nest: Sequence[For], parts: int, ranges: Mapping[Atom, Interval]) -> Cycles:
        """The combined steps of loops, and of the last `parts` statements inside."""
        last = nest[-1].body[-parts:] if parts else ()
        inner = sum((steps(p, ranges, self.values) if isinstance(p, For) else 1.0 for p in last), 0.0)
        return prod((steps(x, ranges, self.values) for x in nest), start=inner if parts else 1.0)

    def _fills(self, head: tuple[Stmt, ...], loop: For, private: frozenset[Buffer]) -> bool:
        """Whether the code before an independent loop only fills worker-private memory."""
        if all(isinstance(x, LetIndex | Comment) for x in head):
            return True
        sets = (buffers_in(head), written(loop.body, {}), private)
        reads, changed, own = ({self.places[b].buffer for b in bs} for bs in sets)
        return loop.independent and written(head, {}) <= private and reads & changed <= own

    def _trips(self, s: For, ranges: Mapping[Atom, Interval]) -> Cycles | None:
        """The steps of a loop; None if they are too few, or data-dependent."""
        trips = steps(s, ranges, self.values)
        return trips if isinstance(trips, Cost) or trips >= 2 else None

    def _part(self, s: Stmt, ranges: Mapping[Atom, Interval], before: tuple[Stmt, ...]) -> list[Part]:
        plain = Piece(needed((s,), before), (s,))
        if not self._worth(s, ranges) or leaves(s.body if isinstance(s, For) else (s,)):
            return [plain]
        lets = self._seen(s, before) if isinstance(s, For | If) else None
        if isinstance(s, If) and isinstance(s.test, Holds) and lets is not None:
            then, otherwise = (self._parts(b, ranges, before) for b in (s.then, s.otherwise))
            gains = any(p.chunk or p.only_call for p in all_pieces((*then, *otherwise)))
            return [Around(s, then, otherwise, lets) if gains else plain]
        if not isinstance(s, For):
            return [plain]
        private = self._private(s, ranges)
        if private is not None:
            return self._shared_out(s, ranges, before, private) or [plain]
        inside: tuple[Part, ...] = ()
        if lets is not None:
            within = {**ranges, s.var: trip_range(s, ranges)}
            inside = self._parts(s.body, within, before)
            shared = float(steps(s, ranges, self.values)) * self._shared(inside, within, self.machine.often)
            if shared > HALF * self._usual((s,), ranges):
                return [Around(s, inside, lets=lets)]
        added = self._added(s, ranges, before) if self.sums else []
        return added or [Around(s, inside, lets=lets or ()) if any(p.chunk for p in all_pieces(inside)) else plain]

    def _private(
        self, s: For, ranges: Mapping[Atom, Interval], sums: Container[Temp] = ()
    ) -> frozenset[Buffer] | None:
        """The parameters that must be private to iterations; None if iterations depend on each other."""
        common = self._common(s, ranges, sums)
        if common is None or not common <= self.own.keys():
            return None
        private = frozenset(self.own[b] for b in common)
        return private if all(self._anew(s, b, ranges) for b in private) else None

    def _touched(self, s: Stmt, ranges: Mapping[Atom, Interval]) -> Touched:
        """The footprint of a statement, cached."""
        if s not in self._footprints:
            self._footprints[s] = touched((s,), self.places, ranges)
        return self._footprints[s]

    def _worth(self, s: Stmt, ranges: Mapping[Atom, Interval]) -> bool:
        """Whether a statement has enough work to pay for a barrier."""
        return float(self._work(s, ranges, self.machine.meeting)) >= self.machine.meeting

    def _work(self, s: Stmt, ranges: Mapping[Atom, Interval], least: float) -> Cycles:
        """The cycles of a statement, with memory traffic if that may bring it to `least`."""
        computed = self._cycles.get(s)
        if computed is None:
            computed = self._cycles[s] = cycles((s,), ranges, self.machine, self.values)
        if isinstance(computed, Cost):
            moved = computed if ranges else moving_open(s, self.values, self.machine)
            return max(computed, moved, key=float)
        near = computed >= least or computed < least / NEAR
        return computed if near else max(computed, moving(self._touched(s, ranges), self.machine))

    def _usual(self, body: Sequence[Stmt], ranges: Mapping[Atom, Interval]) -> float:
        """The cycles of statements, for choices that are made before the program runs."""
        return float(cycles(body, ranges, self.machine, self.values))

    def _common(
        self, s: For, ranges: Mapping[Atom, Interval], sums: Container[Temp] = ()
    ) -> frozenset[Buffer] | None:
        """Buffers shared between iterations, as returned by `independent`."""
        if s not in self._independent:
            found = separate(s, self.places, sums)
            if found is not None and s.independent:
                found &= {self.places[b].buffer for b in self.kernel.scratch}
            if found is None or found - self.own.keys():
                found = independent(s, self.places, ranges, sums)
            if self.open and found and found - self.own.keys():
                found -= rows_apart(s, found, self.places)
            self._independent[s] = found
        return self._independent[s]

    def _anew(self, s: For, b: Buffer, ranges: Mapping[Atom, Interval]) -> bool:
        """Whether every iteration writes the parts of a buffer that it reads."""
        if s not in self._first_reads:
            self._first_reads[s] = frozenset(first_reads(s.body, {}))
        if s.independent or b in self._first_reads[s]:
            return b not in self._first_reads[s]
        if s not in self._spans:
            one = Footprint(s.body, self.places, {**ranges, s.var: trip_range(s, ranges)}, every=True)
            self._spans[s] = one.spans(False), one.spans(True)
        home = self.places[b].buffer
        reads, writes = (spans.get(home, (ZERO_INDEX, (0, 0))) for spans in self._spans[s])
        if reads is None or writes is None or reads[0] is not writes[0]:
            return False
        return writes[1][0] <= reads[1][0] and reads[1][1] <= writes[1][1]

    def _seen(self, s: For | If, before: tuple[Stmt, ...]) -> tuple[Stmt, ...] | None:
        """The definitions that a caller needs for a loop's bounds or a test; None if impossible."""
        shell: Stmt = replace(s, body=()) if isinstance(s, For) else replace(s, then=(), otherwise=())
        lets = needed((shell,), before)[:-1] if self.open else ()
        pure = all(isinstance(x, LetIndex) and isinstance(x.value, Index | Extreme) for x in lets)
        bound = self._bound - {x.var for x in lets if isinstance(x, LetIndex)}
        indices = [i for x in (shell, *lets) for i in nodes.statement_indices(x)]
        unknown = any(a in bound for i in indices for a in i.every_atom)
        return None if unknown or not pure else lets

    @cached_property
    def _bound(self) -> set[Var | Data]:
        """The index variables that the kernel defines."""
        return {x.var for x in nodes.walk(self.kernel.body) if isinstance(x, LetIndex)}

    def _shared(self, parts: Sequence[Part], ranges: Mapping[Atom, Interval], least: float) -> float:
        """The cycles of parts in regions large enough to pay for a barrier."""
        total = 0.0
        for p in parts:
            match p:
                case Region():
                    work = self._usual([x for piece in p.pieces for x in piece.whole], ranges)
                    total += work if work >= least else 0
                case Around(outside=For() as loop):
                    within = {**ranges, loop.var: trip_range(loop, ranges)}
                    total += float(steps(loop, ranges, self.values)) * self._shared(p.inside, within, least)
                case _:
                    pass
        return total

    def _shared_out(
        self, s: For, ranges: Mapping[Atom, Interval], before: tuple[Stmt, ...], private: frozenset[Buffer]
    ) -> list[Part]:
        """The loop in chunks, or around parts that are better cut; empty if neither is possible."""
        trips = self._trips(s, ranges)
        if trips is None or not isinstance(s.lower, Index):
            return []
        total = float(self._work(s, ranges, self.machine.chunk * MOST))
        nest, lets, private = self._nest(s, ranges, before, private)
        parts, also = self._side_by_side(nest[-1], ranges, before)
        every = self._steps(nest, parts, ranges)
        wanted = max(2, min(MOST, int(total / self.machine.chunk)))
        if float(every) * self.around < min(FEW_OPEN if isinstance(every, Cost) else FEW, wanted):
            within, before_it = {**ranges, s.var: trip_range(s, ranges)}, self.around
            self.around *= max(1, int(float(trips))) if _is_nest(s) else 1
            inner = self._parts(s.body, within, before)
            self.around = before_it
            mostly = MOSTLY * total / float(trips)
            if not isinstance(trips, Cost) and (len(inner) == 1 or self._shared(inner, within, 0) > mostly):
                apart = self._distributed(s, int(trips), inner, ranges, before, private)
                if apart:
                    return apart
            seen = self._seen(s, before)
            if seen is not None and self._shared(inner, within, 2 * self.machine.meeting) > mostly:
                return [Around(s, inner, lets=seen)]
        cut = self._cut(s, ranges, MOST, nest[1:], parts)
        body = () if cut is None else needed((*lets, *also, *cut.body), before)
        return [] if cut is None else [Region((Piece(body, (s,), cut.chunk, private),))]

    def _distributed(
        self, s: For, trips: int, inner: Sequence[Part], ranges: Mapping[Atom, Interval], before: tuple[Stmt, ...],
        private: frozenset[Buffer],
    ) -> list[Part]:
        """Each part of an independent loop over all iterations, for one barrier a part; empty if impossible.

        for i < 4: {parallel for c: A(i, c); B(i)}  -->  parallel for i < 4, c: A(i, c); for i < 4: B(i)
        """
        pieces = all_pieces(inner)
        own = private | self.added.keys()  # one for all iterations: a part may not leave anything there for another
        used = [buffers_in(p.body) & (own | p.private) for p in pieces]
        regions = any(isinstance(p, Region) for p in inner) and not any(isinstance(p, Around) for p in inner)
        crossing = len(inner) > 1 and sum(map(len, used)) > len(frozenset().union(*used))
        if not regions or crossing or any(p.chunk in self.works for p in pieces):
            return []
        out: list[Part] = []
        for p in inner:
            whole = [x for piece in pieces_of(p) for x in piece.whole] if isinstance(p, Region | Piece) else []
            loop = replace(s, body=tuple(whole))
            if isinstance(p, Region) or (isinstance(p, Piece) and self._worth(loop, ranges)):
                out.append(Region(tuple(self._outer(s, trips, x, before, private) for x in pieces_of(p))))
            elif isinstance(p, Piece):
                out.append(Piece(needed((replace(s, body=p.body),), before), (loop,)))
        return out

    def _outer(self, s: For, trips: int, inner: Piece, before: tuple[Stmt, ...], private: frozenset[Buffer]) -> Piece:
        """Extend a piece of the loop's body over the loop's iterations."""
        assert isinstance(s.lower, Index)
        count = as_index(1) if inner.chunk is None else inner.chunk.extent
        chunk = Var("chunk", count * trips)
        at = floor_divide(as_index(chunk), count) * s.step + s.lower
        first: Stmt = LetIndex(s.var, at)
        rest = inner.body
        if not _constant(s):  # there may be fewer iterations than chunks
            first, rest = replace(s, lower=at, upper=smallest(at + 1, s.upper), body=inner.body), ()
        lets = () if inner.chunk is None else (LetIndex(inner.chunk, modulo(as_index(chunk), count)),)
        body = following(needed((*lets, first), before), rest)
        return Piece(body, (replace(s, body=inner.whole),), chunk, private | inner.private)

    def _apart(self, a: Part, b: Part, ranges: Mapping[Atom, Interval]) -> bool:
        left, right = ([s for p in all_pieces((x,)) for s in p.whole] for x in (a, b))
        private = frozenset(self.places[x].buffer for p in all_pieces((a, b)) for x in p.private)
        pairs = ((self._touched(x, ranges), self._touched(y, ranges)) for x in left for y in right)
        return not any(collide(x, y, private) for x, y in pairs)

    # Statements -----------------------------------------------------------------------------------------------------

    def _emit(self, parts: Sequence[Part]) -> list[Stmt]:
        out: list[Stmt] = []
        for p in parts:
            match p:
                case Piece():
                    out.append(self._task(p))
                case Region():
                    tasks = [Task(self._task(x), x.chunk or Var("chunk", 1)) for x in p.pieces]
                    out.append(Parallel(tuple(tasks)))
                case Around(outside=For() as loop):
                    out += scoped(p.lets, replace(loop, body=tuple(self._emit(p.inside))))
                case Around(outside=If() as test):
                    then, otherwise = self._emit(p.inside), self._emit(p.otherwise)
                    out += scoped(p.lets, replace(test, then=tuple(then), otherwise=tuple(otherwise)))
        return out

    def _task(self, p: Piece) -> Call:
        """The call of a kernel that does a piece; a piece that only calls a kernel is that call."""
        k = self.kernel
        homes = dict(zip(k.params, self.call.arguments, strict=True))
        inner = p.only_call
        if inner and all(a.buffer in homes.keys() - self.copies.keys() for a in inner.arguments):
            return Call(inner.kernel, tuple(homes[a.buffer] for a in inner.arguments))
        touched, changed = buffers_in(p.body), written(p.body, {})
        views = [*zip(k.params, self.call.arguments, strict=True), *self.added.items()]
        pairs = [(b, View(self.copies[b]) if b in self.copies else a) for b, a in views if b in touched]
        scratch = tuple(b for b in k.scratch if b in touched and (b in self.copies or b in changed))
        kernel = Kernel(k.name, tuple(b for b, _ in pairs), free_variables(p.body), p.body, k.comment, None, scratch,
                        k.fresh & frozenset(changed), choice=k.choice)
        return Call(kernel, tuple(a for _, a in pairs))


def _is_nest(s: For) -> bool:
    """Whether the body of a loop is one loop."""
    work = [x for x in s.body if not isinstance(x, Let | LetIndex | Comment)]
    return len(work) == 1 and isinstance(work[0], For)


def _constant(s: For) -> bool:
    return all(isinstance(b, Index) and b.constant is not None for b in (s.lower, s.upper))
