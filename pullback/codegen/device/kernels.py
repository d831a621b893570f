"""The text of device kernels: each group loop is a function, its threads run the body.

The group and thread indices replace the variables of their loops. A barrier follows a thread loop if later loops may
read what it has written. Indices have 32 bits if no index of the kernel is larger.

A `Copy` of 4, 8 or 16 bytes is one access if both places are proven to be multiples of its size. Arrays begin at
multiples of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Final, NamedTuple

from pullback.codegen.c.expressions import Expressions
from pullback.codegen.c.kernels import Unit
from pullback.codegen.c.names import Names, identifier, unique
from pullback.codegen.c.statements import Writer
from pullback.codegen.c.text import wrap
from pullback.codegen.device.dialect import DeviceWords
from pullback.grid.checks import after_checks, has_checks, uses_elements, variables_read
from pullback.ir.index import ZERO_INDEX, Atom, Data, Floor, Index, Mod, Var, as_index
from pullback.ir.traverse import Substitution
from pullback.loops.analysis.divisors import divisor
from pullback.loops.analysis.intervals import Interval, atom_range, interval
from pullback.loops.program import nodes
from pullback.loops.program.ahead import EndBatch, Finish, Prefetch, Wait
from pullback.loops.program.nodes import (
    Access,
    Break,
    Call,
    Check,
    Comment,
    Copy,
    Fill,
    For,
    If,
    Kernel,
    Let,
    LetIndex,
    Loop,
    Multiply,
    Stmt,
    Store,
)
from pullback.loops.program.values import Buffer, Extreme, View, loaded_name

MOST_INT: Final = (1 << 31) - 1
HELD: Final = range(48, 97)  # registers of the arrays of a thread that hold the results of a group
RESIDENT: Final = 384  # threads of such groups that shall fit on a multiprocessor; at least two groups
STATIC: Final = 48 * 1024  # the most bytes of shared memory that a kernel can declare
PLACED: Final = 1024  # arrays in requested memory begin at multiples of it
WIDE: Final = (4, 8, 16)  # bytes of an access to several elements
STRAIGHT: Final = 16  # most elements that are copied one by one without a loop


@dataclass(frozen=True)
class Launch:
    """A launch of a kernel.

    Attributes:
        name: the function's name.   groups, threads: the number of groups, and of threads in each.
        params: the kernel parameters that it takes.   indices: the index values that it takes.
        index: the C type of these values.   checks: whether it takes `fault`.
        shared: the bytes of shared memory of a group.   requested: the bytes that the launch has to request.
        aligned: whether its arrays must begin at multiples of 16 bytes.
    """

    name: str
    groups: int
    threads: int
    params: tuple[Buffer, ...]
    indices: tuple[nodes.DimSymbol | Var, ...]
    index: str
    checks: bool
    shared: int
    requested: int
    aligned: bool


class DeviceExpressions(Expressions):
    """The printer of a thread's values."""

    thread: Var | None = None

    def place(self, buffer: Buffer, offset: Index) -> tuple[str, Index]:
        """The name of a buffer and the offset in it; a thread holds only its own row of registers."""
        if buffer.space == "registers" and self.thread is not None:
            offset = Substitution(variables={self.thread: ZERO_INDEX}).index(offset)
        return super().place(buffer, offset)


@dataclass(frozen=True)
class Accessed:
    """The elements that the threads of a thread loop access.

    Attributes:
        own: thread t accesses the elements t + k n behind a first element: that element, and n; None if unknown.
        slot: all elements are in the slot of the buffer with this number; None if unknown.
        slots: the number of slots.   ahead: whether each thread fetches its own elements ahead.
        earlier: whether `slot` is that of an earlier iteration.
    """

    own: tuple[Index, int] | None = None
    slot: Index | None = None
    slots: int = 1
    ahead: bool = False
    earlier: bool = False

    def is_apart(self, other: Accessed) -> bool:
        """Whether no element of one place belongs to another thread's part of the other place."""
        if self.slot is not None and other.slot is not None and (self.slot - other.slot).constant is not None:
            if ((self.slot - other.slot).constant or 0) % self.slots:
                return True
        return (self.own is not None and self.own == other.own) or (self.ahead and other.ahead)

    def after(self, s: For) -> Accessed:
        """The place as seen from the next iteration of a loop."""
        own = None if self.own is not None and s.var in self.own[0].free else self.own
        if self.slot is None or s.var not in self.slot.free:
            return replace(self, own=own)
        earlier = Substitution(variables={s.var: as_index(s.var) - s.step}).index(self.slot)
        return replace(self, own=own, slot=None if self.earlier else earlier, earlier=True)

    def behind(self, v: Var) -> Accessed:
        """The place as seen from the statements after a loop over `v`."""
        own = None if self.own is not None and v in self.own[0].free else self.own
        return replace(self, own=own, slot=None if self.slot is not None and v in self.slot.free else self.slot)


class Where(NamedTuple):
    """The elements of a buffer that an access of all threads touches.

    Attributes:
        place: see `Accessed`.   span: in shared memory, bounds of the elements for all values of variables, if known.
    """

    buffer: Buffer
    place: Accessed
    span: Interval | None

    def meets(self, other: Where) -> bool:
        """Whether two threads may access the same element."""
        one, two = self.span, other.span
        apart = one is not None and two is not None and (one[1] < two[0] or two[1] < one[0])
        return self.buffer is other.buffer and not apart and not self.place.is_apart(other.place)


def _span(a: Access) -> Interval | None:
    more = a.more if isinstance(a.more, int) else a.more.constant
    first = interval(a.offset, {}) if a.buffer.space == "shared" and more is not None else None
    return None if first is None or more is None else (first[0], first[1] + more)


@dataclass(frozen=True)
class Touched:
    """The elements that threads access, and those that they write. Registers are left out."""

    touched: frozenset[Where] = frozenset()
    written: frozenset[Where] = frozenset()

    @staticmethod
    def by(s: Stmt, threads: int) -> Touched:
        """The accesses of a thread loop, or of a statement that all threads run alike."""
        found = [(Where(a.buffer, place, _span(a)), a.write) for a, place in _places(s, threads)
                 if a.buffer.space != "registers"]  # fmt: skip
        return Touched(frozenset(w for w, _ in found), frozenset(w for w, write in found if write))

    def _with(self, change: Callable[[Accessed], Accessed]) -> Touched:
        touched, written = (frozenset(w._replace(place=change(w.place)) for w in side)
                            for side in (self.touched, self.written))  # fmt: skip
        return Touched(touched, written)

    def __or__(self, other: Touched) -> Touched:
        return Touched(self.touched | other.touched, self.written | other.written)

    def within(self, other: Touched) -> bool:
        """Whether `other` contains all of these accesses."""
        return self.touched <= other.touched and self.written <= other.written

    def after(self, s: For) -> Touched:
        """The accesses as seen from the next iteration of a loop."""
        return self._with(lambda p: p.after(s))

    def behind(self, s: For) -> Touched:
        """The accesses as seen from the statements after a loop."""
        return self._with(lambda p: p.behind(s.var))

    def conflicts(self, other: Touched) -> bool:
        """Whether one side writes an element that another thread may access on the other side."""
        return any(w.meets(v) for one, two in ((self, other), (other, self))
                   for w in one.written for v in two.touched)  # fmt: skip


def _places(s: Stmt, threads: int) -> Iterator[tuple[Access, Accessed]]:
    """The accesses of a statement with their places."""
    inside = list(nodes.walk((s,)))
    bound = {x.var for x in inside if isinstance(x, For | LetIndex)}
    own = s.var if isinstance(s, For) and s.kind == "thread" else None
    at = {} if own is None else {own: threads} | {
        x.var: x.step for x in inside if isinstance(x, For) and x.lower is as_index(own)}  # fmt: skip
    known: dict[Var, Index] = {}
    m = Substitution()
    for x in inside:
        if isinstance(x, LetIndex) and isinstance(x.var, Var) and isinstance(x.value, Index):
            known[x.var] = m.index(x.value)
            m = Substitution(variables=known)
        for a in nodes.accesses(x):
            offset = m.index(a.offset)
            first = ((offset - as_index(v), step) for v, step in at.items())
            fixed = (p for p in first if bound.isdisjoint(p[0].every_atom) and not p[0].data)
            ahead = a.write and isinstance(x, Prefetch | Wait)
            yield a, Accessed(next(fixed, None) if a.more == 0 else None, _slot(a), a.buffer.slots, ahead)


def _slot(a: Access) -> Index | None:
    """The number of the slot with all accessed elements; None if there is one slot, or it is unknown."""
    size = (a.buffer.elements.constant or 0) // a.buffer.slots
    factors = [m[0] for m, c in a.offset.terms if c == size and len(m) == 1] if a.buffer.slots > 1 else []
    for number in (*map(as_index, factors), *([ZERO_INDEX] if a.buffer.slots > 1 else [])):
        ends = [interval(i - number * size, {}) for i in (a.offset, a.offset + a.more)]
        if None not in ends:
            first, last = ends[0][0] // size, ends[1][1] // size  # type: ignore[index]
            if first == last:
                atom = number.single
                return (atom.numerator if isinstance(atom, Mod) else number) + first
    return None


@dataclass
class KernelWriter(Writer):
    """Prints the statements of one launch."""

    words: DeviceWords = field(kw_only=True)
    threads: int = field(kw_only=True)
    index: str = field(kw_only=True)
    divisors: dict[Atom, int] = field(default_factory=dict)  # of the present values of variables
    starts: Mapping[Buffer, int] = field(default_factory=dict)  # divisors of the offsets of parameters in arrays
    aligned: bool = False  # whether an access needs arrays that are aligned
    since: Touched = field(default_factory=lambda: Touched())  # since the last barrier
    meets: bool = False  # whether there is more than one thread loop
    read: frozenset[Var] | None = None  # the variables that depend on elements, where each thread loop tests for it
    leave: str | None = None  # the label of the end of the present thread loop, where a thread leaves it
    leaves: bool = False
    left: Touched = field(default_factory=lambda: Touched())  # the same, where a `Break` leaves the innermost loop
    taken: str = ""  # the condition of the branch around the present statements, where barriers stay out of branches

    def printed(self) -> Expressions:
        """The expression printer."""
        return DeviceExpressions(self.names, self.unit.words)

    def launch(self, group: For, tests: bool) -> None:
        """Add the statements of a group's threads; with `tests` they leave after a failed check."""
        if any(group.var in i.free for s in nodes.walk(group.body) for i in nodes.statement_indices(s)):
            self._number(group.var, f"({self.index}){self.words.group}")
        self.meets = is_meeting(group)
        if tests and self.meets and has_checks(group):  # the threads of a group may see different values
            self.read = variables_read(group.body)
        elif tests:
            self.line(f"if ({self.words.failed}) return;")
        self._together(group.body)

    def _number(self, v: Var | Data, value: str) -> None:
        name = loaded_name(v) if isinstance(v, Data) else v.name
        self.line(f"const {self.index} {self.names(v, name)} = {value};")

    def _together(self, body: tuple[Stmt, ...]) -> None:
        """Add statements that all threads run together, with barriers where needed."""
        for s in body:
            match s:
                case For(kind="thread"):
                    self._meet_before(self._touched(s))
                    self._thread(s)
                case For() if has_threads(s.body):
                    self._repeated(s, self._head(s), known_trips(s))
                case Loop() if has_threads(s.body):
                    self._repeated(s, "for (;;)")
                case If() if has_threads((s,)):
                    self._either(s)
                case _:
                    self._meet_before(self._touched(s))
                    self.since |= self._touched(s)
                    if self.taken and not isinstance(s, LetIndex | Let | Comment):
                        self.block(f"if ({self.taken})", (s,))
                    else:
                        self.statement(s)
                    if any(isinstance(x, Break) for x in nodes.walk((s,))):
                        self.left |= self.since

    def _repeated(self, s: For | Loop, head: str, least: int = 1) -> None:
        """Add a loop around thread loops, with barriers between its iterations where needed.

        The body is written again until no further barrier is needed. Threads reach the next statement from the end
        of the loop, from a `Break`, or, without iterations, from before the loop.
        """
        before, outer, start = self.since, self.left, len(self.lines)
        known = before
        while True:
            self.since, self.left = known, Touched()
            self.line(f"{head} {{")
            if self.taken and isinstance(s, Loop):
                self.line(f"    if (!{self.taken}) break;")
            self._inside(s.body)
            self.line("}")
            again = self.since.after(s) if isinstance(s, For) else self.since
            if again.within(known) or (isinstance(s, For) and least == 1):
                break
            known |= again
            del self.lines[start:]
        left = self.left | (self.since if isinstance(s, For) else Touched())
        self.since = (left.behind(s) if isinstance(s, For) else left) | (Touched() if least else before)
        self.left = outer

    def _either(self, s: If) -> None:
        """Add a branch around thread loops; all threads take the same side."""
        test = self._touched(replace(s, then=(), otherwise=()))
        self._meet_before(test)
        before = self.since = self.since | test
        if not self.words.branches and (self.taken or meets((*s.then, *s.otherwise))):
            self._apart(s)
            return
        self.line(f"if ({self.expressions.value(s.test)}) {{")
        self._inside(s.then)
        then, self.since = self.since, before
        if s.otherwise:
            self.line("} else {")
            self._inside(s.otherwise)
        self.line("}")
        self.since |= then

    def _apart(self, s: If) -> None:
        """Add a branch whose thread loops each test the condition: all threads reach all barriers."""
        outer, test = self.taken, self.expressions.value(s.test)
        sides = [("taken", test, s.then), ("other", f"!({test})", s.otherwise)]
        found = [(self.names((s, word), word), value, body) for word, value, body in sides if body]
        for name, value, _ in found:
            self.line(f"const bool {name} = {f'{outer} && ({value})' if outer else value};")
        for self.taken, _, body in found:
            self._together(body)
        self.taken = outer

    def _touched(self, s: Stmt) -> Touched:
        return Touched.by(s, self.threads)

    def _inside(self, body: tuple[Stmt, ...]) -> None:
        self.depth += 1
        self._together(body)
        self.depth -= 1

    def _meet_before(self, found: Touched) -> None:
        """Add a barrier if accesses since the last barrier conflict with the next ones."""
        if self.threads > 1 and self.since.conflicts(found):
            self.line(self.words.meet)
            self.since = Touched()

    def _thread(self, s: For) -> None:
        e = self.expressions
        assert isinstance(e, DeviceExpressions) and isinstance(s.upper, Index)
        self.since |= self._touched(s)
        self.line("{")
        self.depth += 1
        first, v = len(self.lines), self.names(s.var, s.var.name)
        e.thread = s.var
        self.leave, self.leaves = (self.names(("left", s), "left") if self.meets else None), False
        if self.read is not None and uses_elements(s, self.read):
            self.line(f"if ({self.words.failed}) goto {self.leave};")
            self.leaves = True
        tests = [self.taken] * bool(self.taken) + [f"{v} < {e.bound(s.upper)}"] * (s.upper.constant != self.threads)
        if tests:
            self.block(f"if ({' && '.join(tests)})", s.body)
        else:
            self.body(s.body)
        e.thread = None
        if any(v in line for line in self.lines[first:]):
            inside, self.lines = self.lines[first:], self.lines[:first]
            self._number(s.var, f"({self.index}){self.words.thread}")
            self.lines += inside
        self.depth -= 1
        self.line("}")
        if self.leave is not None and self.leaves:
            self.line(f"{self.leave}: ;")
        self.leave = None

    def statement(self, s: Stmt) -> None:
        """Add a statement of one thread."""
        e = self.expressions
        match s:
            case For():
                if s.kind == "unrolled":
                    self.line(self.words.unroll)
                self.block(self._head(s), s.body)
            case LetIndex():
                direct = isinstance(s.value, Index | Extreme)
                self.divisors[s.var] = divisor(s.value, self.divisors) if isinstance(s.value, Index) else 1
                value = e.bound(s.value) if direct else f"({self.index}){e.value(s.value, 14)}"  # type: ignore[arg-type]
                is_read = self.taken and e.thread is None and not isinstance(s.value, Index)  # type: ignore[attr-defined]
                self._number(s.var, f"{self.taken} ? {value} : 0" if is_read else value)
            case Fill():
                to, at = e.place(s.buffer, s.offset)
                self._each(s, s.count, lambda k: f"{to}[{e.index(at)} + {k}] = 0;")
            case Copy():
                self._move(s)
            case Store() if s.buffer.swizzled and self.words.tensor:
                name, at = e.place(s.buffer, s.offset)
                self.line(f"{name}[pb_swizzled<{s.buffer.dtype.size}>({e.index(at)})] = {e.value(s.value)};")
            case EndBatch() if self.words.tensor:
                self.line("pb_fetched();")
            case Wait() if self.words.tensor:
                self.line(f"pb_wait{'_together' * s.together}<{s.pending}>();")
            case Finish() if self.words.tensor:
                self._finish(s)
            case Multiply() if self.words.tensor:
                self._multiply(s)
            case Check():
                i, low, high = e.index(s.index, 11), e.index(s.lower, 11), e.index(s.extent, 11)
                self.line(f"if ({i} < {low} || {i} >= {high}) {{")
                code = self.unit.site(s.site)
                self.line("    " + self.words.fault.format(code, e.index(s.index), e.index(s.extent)))
                self.line("    return;" if self.leave is None else f"    goto {self.leave};")
                self.leaves = True
                self.line("}")
            case _:
                super().statement(s)

    def _multiply(self, s: Multiply) -> None:
        """Add a call of the helper function for an instruction of tensor cores."""
        e, tile = self.expressions, s.tile
        assert isinstance(e, DeviceExpressions) and e.thread is not None
        kind = s.left.buffer.dtype.name
        ways = ", ".join("true" if along else "false" for along in s.along)
        panels = ", ".join(e.pointer(v.buffer, v.offset) for v in (s.left, s.right))
        sums, thread = self.names(s.sums, s.sums.name), self.names(e.thread, e.thread.name)
        match tile.instruction:
            case "mma":
                name, shape, given = "pb_multiply", f"{tile.rows}, {tile.columns}, {tile.across}, {tile.depth}", ""
            case "wgmma":
                name, shape, given = f"pb_multiply_64x{8 * tile.columns}", f"{tile.depth}", ""
            case "tcgen05":
                name, shape = "pb_multiply_128", f"{8 * tile.columns * tile.across}, {tile.depth}"
                given = f", {e.index(s.panel)}"
        self.line(f"{name}<PB_{kind.upper()}, {shape}, {ways}>({sums}, {panels}, {thread}{given});")

    def _finish(self, s: Finish) -> None:
        """Add a call of the helper function that waits for sums."""
        e, tile, sums = self.expressions, s.tile, self.names(s.sums, s.sums.name)
        if tile.instruction == "wgmma":
            self.line(f"pb_finish({sums});")
            return
        assert isinstance(e, DeviceExpressions) and e.thread is not None
        thread = self.names(e.thread, e.thread.name)
        self.line(f"pb_finish_128<{8 * tile.columns * tile.across}, {s.panels}>({sums}, {thread});")

    def _head(self, s: For) -> str:
        e, v = self.expressions, self.names(s.var, s.var.name)
        self.divisors[s.var] = gcd(divisor(s.lower, self.divisors), s.step) if isinstance(s.lower, Index) else 1
        step = f"++{v}" if s.step == 1 else f"{v} += {s.step}"
        return f"for ({self.index} {v} = {e.bound(s.lower)}; {v} < {e.bound(s.upper)}; {step})"

    def _move(self, s: Copy) -> None:
        """Add a copy: one access where both places are aligned, else one for each element."""
        e, count = self.expressions, s.count.constant
        (to, at), (source, start) = (e.place(v.buffer, v.offset) for v in (s.target, s.source))
        if count and self.words.wide and self._is_wide(s.target, s.source, count):
            self.line(self.words.wide.format(count, f"&{to}[{e.index(at)}]", f"&{source}[{e.index(start)}]"))
            self.aligned |= any(v.buffer in self.starts for v in (s.target, s.source))
        elif count and count <= STRAIGHT:
            for k in range(count):
                self.line(f"{to}[{e.index(at + k)}] = {source}[{e.index(start + k)}];")
        else:
            self._each(s, s.count, lambda k: f"{to}[{e.index(at)} + {k}] = {source}[{e.index(start)} + {k}];")

    def _is_wide(self, to: View, source: View, count: int) -> bool:
        """Whether both places of a copy are proven to be multiples of its size."""

        def offset(v: View) -> int:
            return gcd(divisor(v.offset, self.divisors), self.starts.get(v.buffer, 0))

        fits = count > 1 and count * to.buffer.dtype.size in WIDE
        return fits and all(offset(v) % count == 0 for v in (to, source))

    def _prefetch(self, s: Prefetch) -> None:
        """Add an asynchronous copy where both places are aligned, else copy at once."""
        e, target = self.expressions, s.target
        if not self.words.tensor or not self._is_wide(target, s.source, s.count):
            super()._prefetch(s)
            return
        name, at = e.place(target.buffer, target.offset)
        test = "" if s.test is None else f", {e.value(s.test)}"
        to = f"{name} + pb_swizzled<{target.buffer.dtype.size}>({e.index(at)})"
        self.line(f"pb_fetch({to}, {e.pointer(s.source.buffer, s.source.offset)}{test});")
        self.aligned = True

    def _each(self, s: Fill | Copy, count: Index, line: Callable[[str], str]) -> None:
        k = self.names(s, "k")
        self.line(f"for ({self.index} {k} = 0; {k} < {self.expressions.index(count)}; ++{k}) {line(k)}")


def known_trips(s: For) -> int:
    """The number of iterations of a loop; 0 if it is unknown."""
    if not isinstance(s.lower, Index) or not isinstance(s.upper, Index):
        return 0
    return -(-max((s.upper - s.lower).constant or 0, 0) // s.step)


def is_meeting(group: For) -> bool:
    """Whether a group has more than one thread loop, or one in a loop."""
    return meets(group.body)


def meets(body: tuple[Stmt, ...]) -> bool:
    """Whether statements have more than one thread loop, or one in a loop."""
    return sum(isinstance(s, For | Loop) and has_threads((s,)) for s in nodes.walk(body)) > 1


def has_threads(body: tuple[Stmt, ...]) -> bool:
    """Whether there is a thread loop in the statements."""
    return any(isinstance(s, For) and s.kind == "thread" for s in nodes.walk(body))


class Kernels:
    """The kernels of a program as text, each printed at first use, equal ones once."""

    def __init__(self, unit: Unit, words: DeviceWords) -> None:
        self.unit = unit
        self.words = words
        self._after_checks = after_checks(unit.function.body)
        self._calls: dict[Kernel, list[Call]] = {}
        for s in nodes.walk(unit.function.body):
            if isinstance(s, Call):
                self._calls.setdefault(s.kernel, []).append(s)
        self.texts: dict[str, str] = {}
        self._by_text: dict[str, str] = {}
        self._launches: dict[Kernel, tuple[Launch, ...]] = {}

    @property
    def checks(self) -> bool:
        """Whether a kernel has a check that can fail."""
        return any(launch.checks for own in self._launches.values() for launch in own)

    @property
    def requested(self) -> dict[str, int]:
        """The bytes of shared memory that kernels have to request."""
        return {x.name: x.requested for own in self._launches.values() for x in own if x.requested}

    @property
    def aligned(self) -> bool:
        """Whether arrays must begin at multiples of 16 bytes."""
        return any(launch.aligned for own in self._launches.values() for launch in own)

    def launches(self, k: Kernel) -> tuple[Launch, ...]:
        """The launches of a kernel, in order."""
        if k not in self._launches:
            self._launches[k] = tuple(self._launch(k, s) for s in k.body if isinstance(s, For))
        return self._launches[k]

    def _launch(self, k: Kernel, group: For) -> Launch:
        names = Names()
        statements = list(nodes.walk((group,)))
        threads = max(s.upper.constant or 1 for s in statements
                      if isinstance(s, For) and s.kind == "thread" and isinstance(s.upper, Index))  # fmt: skip
        used = dict.fromkeys(a.buffer for s in statements for a in nodes.accesses(s))
        changed = {a.buffer for s in statements for a in nodes.accesses(s) if a.write}
        free = {v for s in statements for i in nodes.statement_indices(s) for v in i.free}
        params = tuple(b for b in k.params if b in used)
        indices = tuple(v for v in k.indices if v in free)
        index = "int" if is_narrow(group) else "int64_t"
        checks = has_checks(group)
        follows = group in self._after_checks or (checks and is_meeting(group))
        tests = follows and uses_elements(group, variables_read(group.body))
        starts = self._starts(k)
        writer = KernelWriter(self.unit, names, words=self.words, threads=threads, index=index, starts=starts)
        words = self.words
        # a compiler moves an access by a restricted pointer across a barrier, as no other thread could use its array
        others = changed if is_meeting(group) else frozenset()
        arrays = [("const " * (b not in changed) + words.element(b.dtype), names(b, b.name),
                   names((b, "offset"), f"{b.name}_offset"), words.restrict * (b not in others))
                  for b in params]  # fmt: skip
        fault = [(words.code, "fault", names("fault", "fault_offset"), words.restrict)] * (checks or tests)
        head = [words.array.format(*a) for a in arrays]
        head += [f"const {index} {names(v, v.name)}" for v in indices]
        head += [words.array.format(*a) for a in fault]
        for a in (arrays + fault) * bool(words.begin):
            writer.line(words.begin.format(*a))
        shared, place = sum(b.bytes for b in used if b.space == "shared"), 0
        requested = 0
        if words.requested and (shared > STATIC or any(b.swizzled for b in used)):
            requested = sum(_placed(b) for b in used if b.space == "shared")
        if requested:
            writer.line(words.requested.format(requested))
        for b in used:
            size, name, element = b.elements, names(b, b.name), words.element(b.dtype)
            if b.space == "registers":
                writer.line(f"{words.local}{element} {name}[{b.shape[-1]}];")
            elif b.space == "shared" and requested:
                writer.line(f"{element} *const {name} = ({element} *)(requested + {place});")
                place += _placed(b)
            elif b.space == "shared":
                writer.line(f"{words.shared}{element} {name}[{size}];")
        writer.launch(group, tests)
        raw = f"({', '.join(head)}) {{\n" + "\n".join(writer.lines) + "\n}\n"
        held = sum((b.shape[-1].constant or 0) * b.dtype.size // 4 for b in used if b.space == "registers")
        resident = max(RESIDENT // threads, 2) if held in HELD else 0
        name = self._named(k, raw, names, threads, resident)
        assert isinstance(group.upper, Index) and group.upper.constant
        return Launch(name, group.upper.constant, threads, params, indices, index, checks or tests, shared, requested,
                      writer.aligned)

    def _starts(self, k: Kernel) -> dict[Buffer, int]:
        """For each parameter, a number that divides its offset in the arrays of all calls."""
        calls = self._calls.get(k, [])
        return {b: gcd(*(divisor(s.arguments[n].offset, {}) for s in calls)) for n, b in enumerate(k.params)}

    def _named(self, k: Kernel, raw: str, names: Names, threads: int, resident: int) -> str:
        """The name of a launch's function, which is printed if it is new."""
        key = f"{threads}{names.numbered(raw)}"
        if key in self._by_text:
            return self._by_text[key]
        taken = self.unit.taken | self.words.reserved
        name = unique(f"{self.unit.name}_{identifier(k.name)}", taken.__contains__)
        self.unit.taken.add(name)
        self._by_text[key] = name
        comment = self.unit.writer(Names(), depth=0)
        comment.comment(k.comment)
        if k.choice is not None and k.choice.schedule.steps:
            comment.comment((str(k.choice),))
        head = "".join(f"{t}\n" for t in comment.lines)
        text = names.resolve(raw, "user", self.words.reserved)
        prefix = self.words.resident if resident and self.words.resident else self.words.kernel
        self.texts[name] = head + prefix.format(threads, resident) + wrap(f"void {name}", text)
        return name


def _placed(b: Buffer) -> int:
    """The bytes that a buffer takes of requested memory."""
    return -(-b.bytes // PLACED) * PLACED


# Index ranges ---------------------------------------------------------------------------------------------------


def is_narrow(group: For) -> bool:
    """Whether no index of a launch, nor any part of it, leaves the range of `int`."""
    return all(_bounded(i) for s in nodes.walk((group,)) for i in _indices(s)) and not any(
        isinstance(s, LetIndex) and isinstance(s.var, Data) for s in nodes.walk((group,)))  # fmt: skip


def _indices(s: Stmt) -> Iterator[Index]:
    yield from nodes.statement_indices(s)
    if isinstance(s, For | LetIndex) and isinstance(s.var, Var):
        yield s.var.extent


def _bounded(i: Index) -> bool:
    """Whether the absolute values of an index's terms sum to less than the largest `int`."""
    total = 0
    for m, c in i.terms:
        size = abs(c)
        for a in m:
            if isinstance(a, Floor | Mod) and not (_bounded(a.numerator) and _bounded(a.denominator)):
                return False
            found = atom_range(a, {})
            if found is None:
                return False
            size *= max(abs(found[0]), abs(found[1]), 1)
        total += size
    return total <= MOST_INT
