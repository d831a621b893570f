"""Semantics of loop programs over a field: statements run in order, for all points at once.

Points that take different ways through a test or a loop are told apart by a mask of those that are live. Memory begins
as garbage, chunks of parallel loops run from the last to the first, and an access outside of its buffer is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pullback.errors import VerifyError
from pullback.ir.index import Cond, Data, DimSymbol, Floor, Index, Mod, Var, as_index
from pullback.loops.program.ahead import EndBatch, Finish, Prefetch, Wait
from pullback.loops.program.nodes import (
    WORKERS,
    Assign,
    Break,
    Call,
    Check,
    Comment,
    Copy,
    Fill,
    For,
    Function,
    If,
    Let,
    LetIndex,
    Loop,
    Multiply,
    Parallel,
    Procedure,
    Sorting,
    Stmt,
    Store,
    StoreRows,
)
from pullback.loops.program.values import (
    LOCAL,
    Across,
    Apply,
    Binary,
    Bound,
    Broadcast,
    Buffer,
    Choice,
    Convert,
    Extreme,
    Gather,
    Holds,
    IndexValue,
    Literal,
    Load,
    Read,
    Shuffle,
    Steps,
    Temp,
    Unary,
    Value,
)
from tests.support.equivalence.field import Array, Field, P, Unreachable, of_field

MOST_TRIPS = 200  # of a loop whose end follows from data
Place = tuple[Array, int]  # memory, and the element of it with which a view begins
Number = Any  # an integer, or one for each point


class Memory:
    """The state that all kernels of a run share."""

    def __init__(self, field: Field, steps: int, portable: bool) -> None:
        self.field = field
        self.steps = steps  # that are left: of a program that has more nothing is said
        self.portable = portable
        self.indices: dict[Index, Callable[[Mapping[Any, Number]], Number]] = {}
        self.trapped = np.zeros(field.points, bool)


def run(field: Field, function: Function, inputs: Sequence[Array], dims: Mapping[str, int], *, steps: int = 300_000,
        portable: bool = False, in_place: bool = False) -> tuple[list[Array], Array]:
    """Run a loop program on inputs, one row per element; return results, and points where checks failed.

    Args:
        steps: values and statements that are worth running.
        portable: whether kernels run in their plain form.
        in_place: whether outputs lie where inputs do, as far as they may.
    Raises:
        Unreachable: there are more steps, or something that is not covered.
        VerifyError: [E317] an access outside of a buffer.
    """
    memory = Memory(field, steps, portable)
    places: dict[Buffer, Place] = {b: (a.copy(), 0) for b, a in zip(function.inputs, inputs, strict=True)}
    env: dict[Any, Number] = {d: dims[d.name] for d in function.dims}
    frame = _Frame(memory, places, {**env, WORKERS: 3})
    places |= {b: (frame.made(b), 0) for b in function.outputs}
    if in_place:
        places |= {function.outputs[o]: places[function.inputs[i]] for o, i in function.in_place}
    frame.body(function.body)
    return [places[b][0] for b in function.outputs], memory.trapped


class _Frame:
    """The run of a kernel, or of the function."""

    def __init__(self, memory: Memory, places: dict[Buffer, Place], env: dict[Any, Number]) -> None:
        self.memory, self.field = memory, memory.field
        self.places, self.env = places, env
        self.temps: dict[Temp, Array] = {}
        self.live = ~memory.trapped
        self.all: bool = bool(self.live.all())
        self.points = np.arange(self.field.points)

    # Statements -------------------------------------------------------------------------------------------------

    def body(self, body: Sequence[Stmt]) -> None:
        """Run statements."""
        for s in body:
            self.memory.steps -= 1
            if self.memory.steps < 0:
                raise Unreachable("too many steps")
            _STATEMENTS[type(s)](self, s)
            if not self.live.any():
                return

    def under(self, live: Array, body: Sequence[Stmt]) -> Array:
        """Run statements at some points; those that are live behind them."""
        before = self.live
        self.focus(live)
        if self.live.any():
            self.body(body)
        after = self.live
        self.focus(before)
        return after

    def focus(self, live: Array) -> None:
        """The points that are live."""
        self.live, self.all = live, bool(live.all())

    def for_(self, s: For) -> None:
        """Run a loop for all points at once; trip values are equal at all points, or begin so."""
        low, high = self.bound(s.lower), self.bound(s.upper)
        if isinstance(low, int) and isinstance(high, int) and self.all and not _breaks(s.body):
            for i in range(low, high, s.step):
                self.env[s.var] = i
                self.body(s.body)
                self.focus(~self.memory.trapped)  # a check may have failed
            return
        before = self.live
        value, running = low, before
        for _ in range(10_000):
            running = running & np.broadcast_to(value < high, running.shape) & ~self.memory.trapped
            if not running.any():
                break
            self.env[s.var] = value
            running = self.under(running, s.body)
            value = value + s.step
        self.focus(before & ~self.memory.trapped)

    def loop(self, s: Loop) -> None:
        """Loops until a break, at each point."""
        before = running = self.live
        for _ in range(MOST_TRIPS):
            running = self.under(running, s.body) & ~self.memory.trapped
            if not running.any():
                self.focus(before & ~self.memory.trapped)
                return
        raise Unreachable("a loop that does not end")

    def if_(self, s: If) -> None:
        """Run both branches, each at its points."""
        test = np.broadcast_to(self.value(s.test), self.live.shape)
        before = self.live
        then = self.under(before & test, s.then)
        other = self.under(before & ~test, s.otherwise)
        self.focus(then | other)

    def break_(self, s: Break) -> None:
        """Leave the loop at the live points."""
        self.focus(np.zeros_like(self.live))

    def let(self, s: Let | Assign) -> None:
        """Set a temporary."""
        made = self.value(s.value)
        if not self.all and s.temp in self.temps:
            made = np.where(self.live, made, self.temps[s.temp])
        self.temps[s.temp] = made

    def let_index(self, s: LetIndex) -> None:
        """Bind an index."""
        made: Number
        if isinstance(s.value, Index | Extreme):
            made = self.bound(s.value)
        elif of_field(s.value.type.dtype):  # a number of chunks, which is free
            assert isinstance(s.var, Var)
            made = min(3, (s.var.extent.constant or 2) - 1)
        else:
            made = self.value(s.value).astype(np.int64)
            made = int(made[0]) if made.size == 1 or (made == made[0]).all() else made
        old = self.env.get(s.var)
        self.env[s.var] = made if self.all or old is None else np.where(self.live, made, old)

    def store(self, s: Store) -> None:
        """Write elements."""
        value, lanes = self.value(s.value), s.value.type.lanes
        memory, places = self.elements(s.buffer, s.offset, lanes)
        if s.accumulate:
            value = self.field.add(memory[places], value, s.buffer.dtype)
        self.write(memory, places, value)

    def write(self, memory: Array, places: Any, value: Array) -> None:
        """Write at the live points."""
        memory[places] = value if self.all else np.where(self.live, value, memory[places])

    def store_rows(self, s: StoreRows) -> None:
        """Write the lanes of several vectors beside each other."""
        lanes = s.values[0].type.lanes
        values = [np.broadcast_to(self.value(v), (lanes, self.field.points)) for v in s.values]
        base = self.index(s.offset)
        for lane in range(lanes):
            for k, v in enumerate(values):
                memory, place = self.elements_at(s.buffer, base + lane * s.step + k, 1)
                self.write(memory, place, v[lane])

    def fill(self, s: Fill) -> None:
        """Write zeros."""
        count = self.plain(self.index(s.count))
        if count > 0:
            memory, places = self.elements(s.buffer, s.offset, count, many=True)
            self.write(memory, places, np.zeros(1, memory.dtype))

    def copy(self, s: Copy) -> None:
        """Copy elements."""
        count = self.plain(self.index(s.count))
        if count > 0:
            source, there = self.elements(s.source.buffer, s.source.offset, count, many=True)
            memory, places = self.elements(s.target.buffer, s.target.offset, count, many=True)
            self.write(memory, places, source[there].copy())

    def prefetch(self, s: Prefetch) -> None:
        """Copy elements at once, or write zeros."""
        test = np.broadcast_to(True if s.test is None else self.value(s.test), self.live.shape)
        before = self.live
        self.focus(before & test)
        if self.live.any():
            self.copy(Copy(s.target, s.source, as_index(s.count)))
        self.focus(before & ~test)
        if self.live.any():
            self.fill(Fill(s.target.buffer, s.target.offset, as_index(s.count)))
        self.focus(before)

    def wait(self, s: EndBatch | Wait | Finish) -> None:
        """Nothing."""

    def multiply(self, s: Multiply) -> None:
        """Run the meaning for a thread."""
        self.body(s.body)

    def check(self, s: Check) -> None:
        """Leave the function where an index is outside."""
        i, low, high = self.index(s.index), self.index(s.lower), self.index(s.extent)
        bad = np.broadcast_to((i < low) | (i >= high), self.live.shape) & self.live
        if bad.any():
            self.memory.trapped = self.memory.trapped | bad
            self.focus(self.live & ~bad)

    def procedure(self, s: Procedure) -> None:
        """Put a row in order."""
        if not isinstance(s.work, Sorting):
            raise Unreachable("a function of the user's own")
        source, target = s.reads[0], s.writes[0]
        n = self.plain(self.index(source.count))
        memory, places = self.elements(source.buffer, source.offset, n, many=True)
        row = memory[places]
        order = np.argsort(self.field.ordered(row, s.work.dtype), axis=0, kind="stable")
        made = order if s.work.what == "positions" else np.take_along_axis(row, order, 0)
        memory, places = self.elements(target.buffer, target.offset, n, many=True)
        self.write(memory, places, made.astype(memory.dtype))

    def call(self, s: Call, own: Mapping[Buffer, Place] | None = None) -> None:
        """Run a kernel on views."""
        k = s.kernel
        views = []
        for a in s.arguments:
            memory, base = (own or {}).get(a.buffer) or self.place(a.buffer)
            views.append((memory, base + self.plain(self.index(a.offset))))
        env = dict(zip(k.indices, map(self.index, s.index_values), strict=True))
        frame = _Frame(self.memory, dict(zip(k.params, views, strict=True)), env)
        frame.focus(self.live)
        frame.body(k.portable if self.memory.portable and k.portable is not None else k.body)
        self.focus(self.live & ~self.memory.trapped)

    def parallel(self, s: Parallel) -> None:
        """Run all chunks, from the last to the first, each with working memory of its own."""
        for t in s.tasks:
            for chunk in reversed(range(self.plain(self.index(t.chunks)))):
                own: dict[Buffer, Place] = {
                    a.buffer: (self.made(a.buffer), 0) for a in t.call.arguments if a.buffer.space == "worker"}
                self.env[t.chunk] = chunk
                self.call(t.call, own)

    def comment(self, s: Comment) -> None:
        """Nothing."""

    # Places -----------------------------------------------------------------------------------------------------

    def place(self, b: Buffer) -> Place:
        """The location of a buffer; working memory is made on first use."""
        found = self.places.get(b)
        if found is None:
            if b.space not in ("arena", "worker", *LOCAL):
                raise VerifyError("E317", f"{b} is no buffer of its kernel")
            found = self.places[b] = self.made(b), 0
        return found

    def made(self, b: Buffer) -> Array:
        """Memory for a buffer."""
        return self.field.garbage(b.dtype, self.plain(self.index(b.elements)))

    def elements(self, b: Buffer, offset: Index, count: int, many: bool = False) -> tuple[Array, Any]:
        """Memory, and what to write between brackets for so many elements."""
        return self.elements_at(b, self.index(offset), count, many)

    def elements_at(self, b: Buffer, at: Number, count: int, many: bool = False) -> tuple[Array, Any]:
        """The same for an offset that is known."""
        memory, base = self.place(b)
        at = at + base
        if isinstance(at, int):
            if at < 0 or at + count > len(memory):
                raise VerifyError("E317", f"elements {at} … {at + count - 1} of {b}, which has {len(memory)}")
            return memory, slice(at, at + count) if count > 1 or many else at
        outside = self.live & ((at < 0) | (at + count > len(memory)))
        if outside.any():
            raise VerifyError("E317", f"element {at[outside][0]} of {b}, which has {len(memory)}")
        at = np.clip(at, 0, len(memory) - count)
        return memory, (at, self.points) if count == 1 and not many else (at + np.arange(count)[:, None], self.points)

    # Indices ----------------------------------------------------------------------------------------------------

    def index(self, i: Index) -> Number:
        """The value of an index."""
        made = self.memory.indices.get(i)
        if made is None:
            made = self.memory.indices[i] = _compiled(i)
        return made(self.env)

    def plain(self, n: Number) -> int:
        """A number that is equal at all points."""
        if isinstance(n, np.ndarray):
            n = n[self.live]
            if not (n == n[0]).all():
                raise Unreachable("a count or a view that follows from data")
            n = n[0]
        return int(n)

    def bound(self, b: Bound) -> Number:
        """The value of a bound."""
        if isinstance(b, Index):
            return self.index(b)
        values = [self.bound(a) for a in b.args]
        if all(isinstance(v, int) for v in values):
            return max(values) if b.op == "max" else min(values)
        return (np.maximum if b.op == "max" else np.minimum).reduce(np.broadcast_arrays(*values))

    def holds(self, conds: Sequence[Cond]) -> Array:
        """Whether conditions hold."""
        out: Any = True
        for c in conds:
            e = self.index(c.index)
            out = out & (e >= 0 if c.op == ">=" else e == 0 if c.op == "==" else e != 0)
        return np.atleast_1d(out)

    # Values -----------------------------------------------------------------------------------------------------

    def value(self, v: Value) -> Array:
        """The value, a row for each lane of a vector."""
        self.memory.steps -= 1
        return np.asarray(_VALUES[type(v)](self, v))

    def read(self, v: Read) -> Array:
        """A temporary."""
        return self.temps[v.temp]

    def load(self, v: Load) -> Array:
        """Elements; lanes that a mask leaves out are 0."""
        if v.mask is None:
            memory, places = self.elements(v.buffer, v.offset, v.type.lanes)
            return np.array(memory[places])
        mask = np.broadcast_to(self.value(v.mask) != 0, (v.type.lanes, self.field.points))
        base = self.index(v.offset)
        zero = np.zeros(self.field.points, self.place(v.buffer)[0].dtype)
        rows = []
        for lane in range(v.type.lanes):
            wanted = mask[lane] & self.live
            if wanted.any():
                memory, place = self.elements_at(v.buffer, base + lane, 1)
                rows.append(np.where(mask[lane], memory[place], zero))
            else:
                rows.append(zero)
        return np.array(rows)

    def gather(self, v: Gather) -> Array:
        """An element for each lane."""
        rows = []
        for i in v.offsets:
            memory, place = self.elements(v.buffer, i, 1)
            rows.append(memory[place])
        return np.array(rows) if v.type.lanes > 1 else np.array(rows[0])

    def literal(self, v: Literal) -> Array:
        """A number."""
        made = self.field.number(v.value, v.type.dtype)
        return made.reshape(1, 1) if v.type.lanes > 1 else made

    def index_value(self, v: IndexValue) -> Array:
        """An index as a number."""
        i = np.atleast_1d(np.asarray(self.index(v.index), np.int64))
        made = (i % P).astype(np.uint64) if of_field(v.type.dtype) else i.astype(v.type.dtype.numpy)
        return made.reshape(1, -1) if v.type.lanes > 1 else made

    def steps(self, v: Steps) -> Array:
        """0, step, 2 step, .."""
        lanes = np.arange(v.type.lanes)[:, None] * v.step
        return (lanes % P).astype(np.uint64) if of_field(v.type.dtype) else lanes.astype(v.type.dtype.numpy)

    def broadcast(self, v: Broadcast) -> Array:
        """A number in all lanes."""
        return self.value(v.value)[None]

    def binary(self, v: Binary) -> Array:
        """An operator."""
        f, dtype = self.field, v.a.type.dtype
        a, b = self.value(v.a), self.value(v.b)
        match v.op:
            case "+":
                return f.add(a, b, dtype)
            case "-":
                return f.subtract(a, b, dtype)
            case "*":
                return f.multiply(a, b, dtype)
            case "/":
                if not of_field(dtype):
                    raise Unreachable("a quotient of integers")
                return f.divide(a, b)
            case "max" | "min":
                return f.extreme(v.op, a, b, dtype)
            case "&&" | "||":
                return a & b if v.op == "&&" else a | b
            case "&" | "|" | "^" | ">>":
                return _bits(v.op, a, b)
            case _:
                found = f.compare(v.op, a, b, dtype)
                return -found.astype(v.type.dtype.numpy) if v.type.lanes > 1 and v.type.dtype.is_integer else found

    def unary(self, v: Unary) -> Array:
        """A sign, or a negation."""
        a, dtype = self.value(v.a), v.type.dtype
        if v.op == "!":
            return ~a if a.dtype == bool or v.type.lanes > 1 else a == 0
        return (np.uint64(P) - a) % np.uint64(P) if of_field(dtype) else -a

    def apply(self, v: Apply) -> Array:
        """A primitive; of vectors comparisons give masks."""
        made = self.field.apply(v.primitive.name, tuple(map(self.value, v.args)), v.args[0].type.dtype)
        return -made.astype(v.type.dtype.numpy) if made.dtype == bool and v.type.dtype.is_integer else made

    def choice(self, v: Choice) -> Array:
        """One of two; each is evaluated at the points that take it."""
        test = self.value(v.test) != 0
        if v.type.lanes > 1 or (np.ndim(test) and len(np.broadcast_to(test, self.live.shape).shape) > 1):
            return np.where(test, self.value(v.a), self.value(v.b))
        test, before = np.broadcast_to(test, self.live.shape), self.live
        parts = []
        for live, part in ((before & test, v.a), (before & ~test, v.b)):
            self.focus(live)
            parts.append(self.value(part) if live.any() else None)
        self.focus(before)
        first, second = parts
        if first is None or second is None:
            found = second if first is None else first
            return found if found is not None else self.field.number(0, v.type.dtype)
        return np.where(test, first, second)

    def convert(self, v: Convert) -> Array:
        """A conversion; a mask is -1 where it holds."""
        return self.field.convert(self.value(v.value), v.value.type.dtype, v.type.dtype)

    def across(self, v: Across) -> Array:
        """All lanes as one."""
        rows = np.broadcast_to(self.value(v.value), (v.value.type.lanes, self.field.points))
        out: Array = rows[0]
        dtype = v.type.dtype
        for row in rows[1:]:
            match v.op:
                case "+":
                    out = self.field.add(out, row, dtype)
                case "*":
                    out = self.field.multiply(out, row, dtype)
                case _:
                    out = self.field.extreme(v.op, out, row, dtype)
        return out

    def shuffle(self, v: Shuffle) -> Array:
        """Lanes in another order."""
        shape = v.a.type.lanes, self.field.points
        both = np.concatenate([np.broadcast_to(self.value(x), shape) for x in (v.a, v.b)])
        return both[list(v.places)]


def _bits(op: str, a: Array, b: Array) -> Array:
    if a.dtype != b.dtype:  # a mask takes lanes of numbers, which are elements of the field here
        kinds = {a.dtype, b.dtype}
        if np.dtype(np.uint64) in kinds and op == "&":
            mask, number = (b, a) if a.dtype == np.uint64 else (a, b)
            return np.asarray(np.where(mask != 0, number, np.uint64(0)))
    if op == ">>":
        return np.asarray(a >> b)
    return np.asarray(a & b if op == "&" else a | b if op == "|" else a ^ b)


def _breaks(body: Sequence[Stmt]) -> bool:
    """Whether statements leave the loop around them."""
    for s in body:
        if isinstance(s, Break):
            return True
        if isinstance(s, If) and (_breaks(s.then) or _breaks(s.otherwise)):
            return True
    return False


# Indices as functions -------------------------------------------------------------------------------------------------

def _compiled(i: Index) -> Callable[[Mapping[Any, Number]], Number]:
    """An index as a function of the values of its atoms."""
    names: dict[Any, str] = {}
    text = _text(i, names)
    scope: dict[str, Any] = {name: a for a, name in names.items()} | {"quotient": _quotient, "rest": _rest}
    return eval(f"lambda e: {text}", scope)  # type: ignore[no-any-return]


def _text(i: Index, names: dict[Any, str]) -> str:
    terms = []
    for monomial, coefficient in i.terms:
        terms.append("*".join([f"({coefficient})", *(_atom_text(a, names) for a in monomial)]))
    return " + ".join(terms) or "0"


def _atom_text(a: Any, names: dict[Any, str]) -> str:
    match a:
        case Floor():
            return f"quotient({_text(a.numerator, names)}, {_text(a.denominator, names)})"
        case Mod():
            return f"rest({_text(a.numerator, names)}, {_text(a.denominator, names)})"
        case DimSymbol() | Var() | Data():
            return f"e[{names.setdefault(a, f'a{len(names)}')}]"
    raise TypeError(a)


def _quotient(n: Number, d: Number) -> Number:
    return n // d if isinstance(d, np.ndarray) or d else 0


def _rest(n: Number, d: Number) -> Number:
    return n % d if isinstance(d, np.ndarray) or d else 0


_STATEMENTS: dict[type, Callable[[_Frame, Any], None]] = {
    For: _Frame.for_, Loop: _Frame.loop, If: _Frame.if_, Break: _Frame.break_, Let: _Frame.let, Assign: _Frame.let,
    LetIndex: _Frame.let_index, Store: _Frame.store, StoreRows: _Frame.store_rows, Fill: _Frame.fill,
    Copy: _Frame.copy, Prefetch: _Frame.prefetch, EndBatch: _Frame.wait,
    Wait: _Frame.wait, Finish: _Frame.wait, Multiply: _Frame.multiply,
    Check: _Frame.check, Procedure: _Frame.procedure, Call: _Frame.call,
    Parallel: _Frame.parallel, Comment: _Frame.comment,
}  # fmt: skip
_VALUES: dict[type, Callable[[_Frame, Any], Array]] = {
    Literal: _Frame.literal, Load: _Frame.load, Gather: _Frame.gather, Read: _Frame.read,
    IndexValue: _Frame.index_value, Holds: lambda f, v: f.holds(v.conds), Broadcast: _Frame.broadcast,
    Binary: _Frame.binary, Unary: _Frame.unary, Apply: _Frame.apply, Choice: _Frame.choice,
    Convert: _Frame.convert, Across: _Frame.across, Shuffle: _Frame.shuffle, Steps: _Frame.steps,
}  # fmt: skip
