"""Storage of arrays: destination passing, in-place state, reuse after the last read.

Every array of a program gets a view of a buffer before anything is lowered. A result is written to its destination: an
output to the output's buffer, a row of a stacked array to its row, a new fold state over the old one. An array may be
overwritten if nothing reads it afterwards and the writing statement reads it only element by element. Otherwise the
result gets a buffer of its own and is copied at the end of the block.

    fold t < T (p = p0) { g = ...p...; q = build i { p[i] - g[i] }; yield q }
    -->  p0, p, q and the fold's result share one buffer; the update is p[i] -= g[i]

A fold that keeps its old states as rows works in the rows: each trip reads one row and writes the next.

    fold t < T (p = p0) { q = build i { p[i + 1] }; yield q, p }
    -->  T + 1 rows: p is row t, q row t + 1, and the last one the fold's result

A donated argument (`donate`) is treated as a state: it is copied to the result that replaces it, unless both are the
same memory, and overwritten there.

    f(p) { q = build i { p[i] - 1 }; return q }  -->  if (q != p) memcpy(q, p); q[i] -= 1

Arena buffers get their offsets later, in `memory`, from the lifetimes of the lowered program.
"""

from __future__ import annotations

from collections.abc import Mapping

from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Index, as_index
from pullback.ir.program import block_reads, statement_reads
from pullback.loops.analysis.joined import Stretch, elements, is_renaming, stretches
from pullback.loops.plain.scalar import reads_only_elementwise
from pullback.loops.program.nodes import Copy
from pullback.loops.program.values import Buffer, Space, View
from pullback.records import dataclass, field

Place = tuple[Buffer, Index]
LEAST = 2048  # least bytes of a state for which a copy in every trip is worth avoiding


@dataclass(eq=False)
class Copies:
    """Copies around the blocks of a statement.

    Attributes:
        before: before the loop.   first: at the start of each trip.
        last: at the end of each block of the statement, by block position.
    """

    before: list[Copy] = field(default_factory=list)
    first: list[Copy] = field(default_factory=list)
    last: dict[int, list[Copy]] = field(default_factory=dict)


@dataclass(eq=False)
class Storage:
    """The placement of a program.

    Attributes:
        views: where each array lives.
        order: the order of a block's statements, if it differs from the written one.
        copies: the copies of Fold, While and Choose.
        joined: the stretches of statements that join arrays; some arrays are made in their final place.
        first, final: copies at the beginning and at the end of the program.
        in_place: (output, input) positions that may share memory.
    """

    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    views: dict[ir.Ref, View]
    order: dict[ir.Block, tuple[ir.Statement, ...]] = field(default_factory=dict)
    copies: dict[ir.Statement, Copies] = field(default_factory=dict)
    joined: dict[ir.Statement, list[Stretch]] = field(default_factory=dict)
    first: list[Copy] = field(default_factory=list)
    final: list[Copy] = field(default_factory=list)
    in_place: tuple[tuple[int, int], ...] = ()


def make_buffer(ref: ir.Ref, space: Space, name: str | None = None) -> Buffer:
    """A buffer of the size of an array."""
    return Buffer(name or ref.name, ref.storage, ref.shape, space, elements(ref.shape))


def assign_storage(program: ir.Program) -> Storage:
    """Views for all arrays of the program."""
    inputs = tuple(make_buffer(r, "input") for r in program.inputs)
    views = {r: View(b) for r, b in zip(program.inputs, inputs, strict=True)}
    names = program.output_names or tuple(r.name for r in program.outputs)
    outputs = tuple(make_buffer(r, "output", n) for r, n in zip(program.outputs, names, strict=True))
    storage = Storage(inputs, outputs, views)
    placer = _Placer(storage)
    wanted: dict[ir.Ref, View] = {}
    for r, b in zip(program.outputs, outputs, strict=True):
        if r not in views:
            wanted.setdefault(r, View(b))
    occupants: dict[Place, ir.Ref] = {}
    replaced = replaced_arguments(program)
    for out, old in replaced.items():
        view = wanted[out]
        storage.first.append(Copy(view, views[old], elements(old.shape), maybe_same=True))
        views[old] = view
        occupants[view.buffer, view.offset] = old
    placer.block(program.body, wanted, occupants, frozenset())
    pairs = [(View(b), views[r]) for r, b in zip(program.outputs, outputs, strict=True)]
    storage.final = placer.copies(pairs, [elements(r.shape) for r in program.outputs])
    given = {r: j for j, r in enumerate(program.inputs)}
    own = tuple((outputs.index(views[out].buffer), given[old]) for out, old in replaced.items())
    storage.in_place = _in_place(program, storage) + own
    return storage


def replaced_arguments(program: ir.Program) -> dict[ir.Ref, ir.Ref]:
    """Results that are the last readers of a donated argument and may overwrite it, with the argument."""
    donated = [program.inputs[j] for j in program.settings.donate]
    reads = [statement_reads(s) for s in program.body.statements]
    last = {r: k for k, rs in enumerate(reads) for r in rs}
    makers = {o: k for k, s in enumerate(program.body.statements) if isinstance(s, ir.Build) for o in s.outs}
    out: dict[ir.Ref, ir.Ref] = {}
    for k, r in enumerate(program.outputs):
        s = makers.get(r)
        if s is None or r in out:
            continue
        fits = [x for x in donated if last.get(x) == s and x not in program.outputs and x not in out.values()
                and may_overwrite(program.body.statements[s], r, x)]
        if fits:  # of several the one at its own position among the arguments
            out[r] = donated[k] if k < len(donated) and donated[k] in fits else fits[0]
    return out


def _in_place(program: ir.Program, storage: Storage) -> tuple[tuple[int, int], ...]:
    """Outputs that are a fold's state starting from an input that nothing else reads afterwards."""
    out = []
    taken: set[int] = set()
    position = {r: j for j, r in enumerate(program.inputs)}
    for i, s in enumerate(program.body.statements):
        if not isinstance(s, ir.Fold | ir.While):
            continue
        reads_after: set[ir.Ref] = set(program.outputs)
        for later in program.body.statements[i + 1:]:
            reads_after.update(statement_reads(later))
        inside = {r for b in ((s.body,) if isinstance(s, ir.Fold) else (s.test, s.body)) for r in block_reads(b)}
        for o, init in zip(s.outs, s.inits, strict=False):
            view = storage.views[o]
            j = position.get(init)
            if (j is not None and view.buffer.space == "output" and _is_whole(view, o)
                    and init not in reads_after and init not in inside
                    and s.inits.count(init) == 1 and j not in taken):
                taken.add(j)
                out.append((storage.outputs.index(view.buffer), j))
    return tuple(out)


class _Placer:
    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.views = storage.views

    def fresh(self, ref: ir.Ref) -> View:
        """A new arena buffer for an array."""
        return View(make_buffer(ref, "arena"))

    # Blocks -----------------------------------------------------------------------------------------------------

    def block(self, block: ir.Block, wanted: dict[ir.Ref, View], occupants: dict[Place, ir.Ref],
              needed: frozenset[ir.Ref], results: tuple[ir.Ref, ...] | None = None) -> None:
        """Place the arrays that a block defines.

        Args:
            results: the arrays read at the end of the block; by default its results.
            wanted: the places where results should go.
            occupants: the contents of a wanted place when the block begins.
            needed: arrays that must be intact after the block.
        """
        statements = self.storage.order.get(block, block.statements)
        last: dict[ir.Ref, int] = {}
        for i, s in enumerate(statements):
            for r in statement_reads(s):
                last[r] = i
        for r in (*(block.results if results is None else results), *needed):
            last[r] = len(statements)
        joined = _want_places(statements, wanted, occupants, last)
        local: set[ir.Ref] = set()
        for i, s in enumerate(statements):
            context = _Context(i, wanted, occupants, last, local)
            match s:
                case ir.Build() if s in joined:
                    self._joined(s, joined[s], context)
                case ir.Build():
                    self._build(s, context)
                case ir.Scatter() | ir.Sort():
                    self.views[s.out] = self._wanted(s.out, s, context) or self.fresh(s.out)
                case ir.External():
                    for r in s.outs:
                        self.views[r] = self._wanted(r, s, context) or self.fresh(r)
                case ir.Fold():
                    self._fold(s, context)
                case ir.While():
                    self._while(s, context)
                case ir.Choose():
                    self._choose(s, context, frozenset(r for r, k in last.items() if k > i))
            local.update(s.outs)

    def _wanted(self, out: ir.Ref, s: ir.Statement, c: _Context) -> View | None:
        """The wanted place of `out`, where `s` may write it now."""
        view = c.wanted.get(out)
        if view is None:
            return None
        place = (view.buffer, view.offset)
        holds = c.occupants.get(place)
        if holds is not None and holds is not out:
            until = c.last.get(holds, -1)
            if until > c.now or (until == c.now and not may_overwrite(s, out, holds)):
                return None
        c.occupants[place] = out
        return view

    def _reusable(self, ref: ir.Ref, c: _Context) -> View | None:
        """The arena buffer, as a whole, of an array of this block whose last read is now."""
        if ref not in c.local or c.last.get(ref, -1) != c.now:
            return None
        view = self.views[ref]
        return view if _is_whole(view, ref) and view.buffer.space == "arena" else None

    # Statements -------------------------------------------------------------------------------------------------

    def _build(self, s: ir.Build, c: _Context) -> None:
        taken: set[Buffer] = set()
        for out in s.outs:
            view = self._wanted(out, s, c)
            if view is None:
                for a in statement_reads(s):
                    old = self._reusable(a, c)
                    if old is not None and old.buffer not in taken and may_overwrite(s, out, a):
                        view = old
                        break
            self.views[out] = view or self.fresh(out)
            taken.add(self.views[out].buffer)

    def _joined(self, s: ir.Build, parts: list[Stretch], c: _Context) -> None:
        """Place a joined array and its stretches; it is written by stretches if one is in place already."""
        (out,) = s.outs
        whole = c.wanted[out]
        first = (whole.buffer, whole.offset)
        if c.occupants.get(first) in {p.part for p in parts if p.part is not None}:
            del c.occupants[first]
        whole = self.views[out] = self._wanted(out, s, c) or self.fresh(out)
        for p in parts:
            self.views[p.out] = View(whole.buffer, whole.offset + p.start)
        if any(p.part is not None and self.views[p.part].same_place(self.views[p.out]) for p in parts):
            self.storage.joined[s] = parts

    def _states(self, s: ir.Fold | ir.While, c: _Context, inside: Mapping[ir.Ref, None],
                rows: Mapping[ir.Ref, ir.Ref]) -> tuple[Copies, dict[Place, ir.Ref]]:
        """The places of states, and their contents when a trip begins; `rows` are placed in their rows."""
        copies = Copies()
        occupants: dict[Place, ir.Ref] = {}
        taken: set[Buffer] = set()
        for out, state, init in zip(s.outs, s.states, s.inits, strict=False):
            if state in rows:
                first = self._in_rows(s, out, state, rows[state])
                copies.before.append(Copy(first, self.views[init], elements(state.shape)))
                continue
            view = self._wanted(out, s, c)
            if view is None and init not in inside and s.inits.count(init) == 1:
                view = self._reusable(init, c)
                if view is not None and view.buffer in taken:
                    view = None
            view = view or self.fresh(out)
            taken.add(view.buffer)
            self.views[out] = self.views[state] = view
            source = self.views[init]
            if not source.same_place(view):
                maybe = view.buffer.space == "output" and _is_whole(view, out) and source.buffer.space == "input"
                copies.before.append(Copy(view, source, elements(state.shape), maybe))
            occupants[view.buffer, view.offset] = state
        self.storage.copies[s] = copies
        return copies, occupants

    def _in_rows(self, s: ir.Fold | ir.While, out: ir.Ref, state: ir.Ref, rows: ir.Ref) -> View:
        """The first place of a state that moves from row to row; there is one row more than trips."""
        assert isinstance(s, ir.Fold)
        count, row = s.var.extent, elements(state.shape)
        buffer = Buffer(rows.name, rows.dtype, (count + 1, *state.shape), "arena", (count + 1) * row)
        self.views[rows] = View(buffer)
        self.views[state] = View(buffer, as_index(s.var) * row)
        self.views[out] = View(buffer, count * row)
        return View(buffer)

    def _fold(self, s: ir.Fold, c: _Context) -> None:
        moving = {st: out for st, out in _kept(s).items() if out not in c.wanted}
        copies, occupants = self._states(s, c, block_reads(s.body), moving)
        n = len(s.states)
        rows: list[View] = []
        for out in s.outs[n:]:
            if out not in moving.values():
                self.views[out] = self._wanted(out, s, c) or self.fresh(out)
            view = self.views[out]
            rows.append(View(view.buffer, view.offset + as_index(s.var) * elements(out.shape[1:])))
        defined = {r for inner in s.body.statements for r in inner.outs}
        wanted: dict[ir.Ref, View] = {}
        for r, place in zip(s.body.results, (*self._next(s, moving), *rows), strict=True):
            if r in defined:
                wanted.setdefault(r, place)
        self.storage.order[s.body] = updates_last(s)
        kept = s.body.results[n:]  # a row that is an old state is copied when the trip begins
        self.block(s.body, wanted, occupants, frozenset(),
                   (*s.body.results[:n], *(r for r in kept if r not in s.states)))
        last: list[Copy] = []
        for r, row in zip(s.body.results[n:], rows, strict=True):
            if not self.views[r].same_place(row):
                copy = Copy(row, self.views[r], elements(r.shape))
                (copies.first if r in s.states else last).append(copy)
        copies.last[0] = last + self._new_states(s, self._next(s, moving))

    def _next(self, s: ir.Fold, moving: Mapping[ir.Ref, ir.Ref]) -> list[View]:
        """The location of each state in the next trip."""
        views = [self.views[st] for st in s.states]
        return [View(v.buffer, v.offset + elements(st.shape)) if st in moving else v
                for st, v in zip(s.states, views, strict=True)]

    def _while(self, s: ir.While, c: _Context) -> None:
        inside = block_reads(s.test) | block_reads(s.body)
        copies, occupants = self._states(s, c, inside, {})
        self.block(s.test, {}, {}, frozenset(s.states))
        defined = {r for inner in s.body.statements for r in inner.outs}
        wanted: dict[ir.Ref, View] = {}
        for r, state in zip(s.body.results, s.states, strict=True):
            if r in defined:
                wanted.setdefault(r, self.views[state])
        self.block(s.body, wanted, occupants, frozenset())
        copies.last[0] = self._new_states(s, [self.views[state] for state in s.states])

    def _new_states(self, s: ir.Fold | ir.While, places: list[View]) -> list[Copy]:
        pairs = [(place, self.views[r]) for place, r in zip(places, s.body.results, strict=False)]
        return self.copies(pairs, [elements(state.shape) for state in s.states])

    def _choose(self, s: ir.Choose, c: _Context, needed: frozenset[ir.Ref]) -> None:
        held: dict[Place, ir.Ref] = {}
        for out in s.outs:
            place = c.wanted.get(out)
            before = None if place is None else c.occupants.get((place.buffer, place.offset))
            wanted_now = self._wanted(out, s, c)
            view = wanted_now or self.fresh(out)
            if wanted_now is not None and before is not None:
                held[view.buffer, view.offset] = before
            self.views[out] = view
        copies = self.storage.copies[s] = Copies()
        for k, b in enumerate((s.then, s.otherwise)):
            defined = {r for inner in b.statements for r in inner.outs}
            wanted: dict[ir.Ref, View] = {}
            for r, out in zip(b.results, s.outs, strict=True):
                if r in defined:
                    wanted.setdefault(r, self.views[out])
            self.block(b, wanted, dict(held), needed)
            pairs = [(self.views[out], self.views[r]) for out, r in zip(s.outs, b.results, strict=True)]
            copies.last[k] = self.copies(pairs, [elements(out.shape) for out in s.outs])

    def copies(self, pairs: list[tuple[View, View]], counts: list[Index]) -> list[Copy]:
        """Copies that take effect together: a source that another copy overwrites is saved first."""
        todo = [(t, s, n) for (t, s), n in zip(pairs, counts, strict=True) if not t.same_place(s)]
        targets = {(t.buffer, t.offset) for t, _, _ in todo}
        saves, moves = [], []
        for target, source, count in todo:
            if (source.buffer, source.offset) in targets:
                b = source.buffer
                saved = View(Buffer(f"{b.name}_old", b.dtype, target.buffer.shape, "arena", count))
                saves.append(Copy(saved, source, count))
                source = saved
            moves.append(Copy(target, source, count))
        return saves + moves


@dataclass(eq=False)
class _Context:
    now: int
    wanted: dict[ir.Ref, View]
    occupants: dict[Place, ir.Ref]
    last: dict[ir.Ref, int]
    local: set[ir.Ref]


def _kept(s: ir.Fold) -> dict[ir.Ref, ir.Ref]:
    """Large changing states whose old values are kept as rows, with these rows."""
    found: dict[ir.Ref, ir.Ref] = {}
    for state, new in zip(s.states, s.body.results, strict=False):
        count = elements(state.shape).constant
        large = count is None or count * state.dtype.size >= LEAST
        for r, out in zip(s.body.results[len(s.states):], s.outs[len(s.states):], strict=True):
            if r is state and r is not new and large:
                found.setdefault(state, out)
    return found


def may_overwrite(s: ir.Statement, out: ir.Ref, old: ir.Ref) -> bool:
    """Whether `s`, which reads `old`, may write `out` over it."""
    match s:
        case ir.Build():
            return is_renaming(s, old) or (out.shape == old.shape and out.dtype is old.dtype and all(
                reads_only_elementwise(v, old, s.vars) for v in s.values))
        case ir.Fold() | ir.While():
            inside = block_reads(s.body) if isinstance(s, ir.Fold) else block_reads(s.test) | block_reads(s.body)
            k = s.outs.index(out)
            return k < len(s.states) and s.inits[k] is old and s.inits.count(old) == 1 and old not in inside
        case ir.Choose():
            return s.test is not old
        case _:
            return False


def _is_whole(view: View, ref: ir.Ref) -> bool:
    """Whether an array fills its buffer."""
    return view.offset is ZERO_INDEX and view.buffer.elements is elements(ref.shape)


def _want_places(statements: tuple[ir.Statement, ...], wanted: dict[ir.Ref, View], occupants: Mapping[Place, ir.Ref],
                 last: dict[ir.Ref, int]) -> dict[ir.Statement, list[Stretch]]:
    """Place results over arrays that they overwrite, and concatenated arrays in their part of the result.

    These are initial states, and arrays read element by element. Returns the statements that join arrays, with their
    stretches.
    """
    defined = {r for s in statements for r in s.outs}
    occupied = {b for b, _ in occupants}
    joined: dict[ir.Statement, list[Stretch]] = {}
    for i, s in reversed(list(enumerate(statements))):
        if isinstance(s, ir.Build):
            dying = {r for r in statement_reads(s) if r in defined and last[r] == i}
            found = _want_parts(s, wanted, occupied, dying)
            if found:
                joined[s] = found
            elif len(s.outs) == 1 and s.outs[0] in wanted:
                for a in statement_reads(s):
                    if a in dying and a not in wanted and may_overwrite(s, s.outs[0], a):
                        wanted[a] = wanted[s.outs[0]]
                        break
        if not isinstance(s, ir.Fold | ir.While):
            continue
        inside = block_reads(s.body) if isinstance(s, ir.Fold) else block_reads(s.test) | block_reads(s.body)
        for out, init in zip(s.outs, s.inits, strict=False):
            if (out in wanted and init in defined and init not in wanted and last[init] == i
                    and init not in inside and s.inits.count(init) == 1):
                wanted[init] = wanted[out]
    return joined


def _want_parts(s: ir.Build, wanted: dict[ir.Ref, View], occupied: set[Buffer], dying: set[ir.Ref]) -> list[Stretch]:
    """The stretches of `s`, after placing the arrays that it joins; none if there are no such arrays.

    A place that is occupied when the block begins is not used: its content would have to be dead at the first part.
    """
    free = {r for r in dying if r not in wanted and r.dtype is s.outs[0].dtype}
    parts = stretches(s) if free else []
    whole = wanted.get(s.outs[0]) or View(make_buffer(s.outs[0], "arena"))
    if free.isdisjoint(p.part for p in parts if p.part) or whole.buffer in occupied:
        return []
    wanted[s.outs[0]] = whole
    for p in parts:
        if p.part in free and p.part not in wanted:
            wanted[p.part] = View(whole.buffer, whole.offset + p.start)
    return parts


def updates_last(s: ir.Fold) -> tuple[ir.Statement, ...]:
    """Move updates of states that have later readers to the end of the body."""
    statements = s.body.statements
    n = len(s.states)
    new = {r: st for r, st in zip(s.body.results[:n], s.states, strict=True) if r is not st}
    reads = [statement_reads(x) for x in statements]
    used = {r for rs in reads for r in rs} | set(s.body.results[n:])
    stay: list[ir.Statement] = []
    moved: list[ir.Statement] = []
    read_later: set[ir.Ref] = set()
    for x, rs in reversed(list(zip(statements, reads, strict=True))):
        final = isinstance(x, ir.Build | ir.Choose) and all(o in new and o not in used for o in x.outs)
        if final and any(new[o] in read_later for o in x.outs):
            moved.append(x)
        else:
            stay.append(x)
            read_later.update(rs)
    return (*reversed(stay), *reversed(moved))
