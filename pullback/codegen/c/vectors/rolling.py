"""Statements for one register after another become loops over an array of registers.

Before    sum = 0; sum2 = 0; .. {x2 = x[i]; sum += w2 * x2; x3 = x[i + 28]; sum2 += w2 * x3; ..}
After     vector sum[6]; each r < 6 {sum[r] = 0}; .. each r < 6 {x2 = x[i + r * 28]; sum[r] += w2 * x2}

The loops are marked "unrolled", and compilers unroll them to the statements before, in the same order. Only a load may
move: up to another one of its form, where the rows of a tile need it.

1. Temporaries of one form in one block are placed in one array: those whose values differ in indices alone.
2. In a run of statements, the longest repetition becomes a loop. All indices, those of registers too, grow by the same
   step in each trip. The body is rolled in turn.
3. An array whose elements are used in one trip alone, or by number alone, becomes temporaries again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import groupby, takewhile
from typing import Final

from pullback.ir.index import ZERO_INDEX, Index, Var, as_index
from pullback.loops.program.ahead import Prefetch
from pullback.loops.program.nodes import (
    Assign,
    Comment,
    For,
    If,
    Let,
    LetIndex,
    Loop,
    Multiply,
    Stmt,
    Store,
    StoreRows,
    temps_read,
    values_in,
    walk,
)
from pullback.loops.program.values import (
    Across,
    Apply,
    Binary,
    Broadcast,
    Choice,
    Convert,
    Gather,
    Holds,
    IndexValue,
    Literal,
    Load,
    Read,
    Shuffle,
    Steps,
    Temp,
    Type,
    Unary,
    Value,
)
from pullback.records import dataclass, field, replace

LONGEST: Final = 64  # statements in a repetition
LONG: Final = 400  # statements of a run in which loads may move
NAMES: Final = ("r", "s", "t")  # of the loops, from outside to inside


@dataclass(eq=False)
class Registers:
    """An array of temporaries, which compilers keep in registers."""

    name: str
    type: Type
    temps: list[Temp] = field(default_factory=list)


@dataclass(frozen=True, eq=False, slots=True)
class Element(Temp):
    """A temporary that is an element of an array."""

    registers: Registers
    at: Index


@dataclass(frozen=True, eq=False, slots=True)
class Transpose(Comment):
    """A square of registers whose rows become its columns: as many as a vector has lanes, from `at` on."""

    registers: Registers
    at: Index


Straight = Let | Assign | Store | StoreRows | Transpose


def rolled(body: tuple[Stmt, ...]) -> tuple[list[Registers], tuple[Stmt, ...]]:
    """The arrays of registers, and the statements as loops over them."""
    if any(isinstance(s, Multiply | Prefetch) for s in walk(body)):
        return [], body
    variables = tuple(Var(name, 1 << 10) for name in NAMES)
    found = _in_blocks(_Placing().block(body), lambda run: _best(run, variables))
    return _without_needless(found)


# Statements as a form and indices -------------------------------------------------------------------------------


def _form(s: Straight) -> tuple[Hashable, ...]:
    """A statement without its indices; statements of one form differ in indices alone."""
    match s:
        case Let():
            own: tuple[Hashable, ...] = ("let", s.mutable, s.held, _home(s.temp))
        case Assign():
            own = ("assign", s.held, _home(s.temp))
        case Store():
            own = ("store", s.buffer, s.accumulate)
        case StoreRows():
            own = ("rows", s.buffer, s.step, len(s.values))
        case Transpose():
            own = ("transpose", s.registers)
    return (*own, *map(_value_form, values_in(s)))


def _home(t: Temp) -> Hashable:
    return t.registers if isinstance(t, Element) else t


def _value_form(v: Value) -> Hashable:
    match v:
        case Literal():
            return "number", repr(v.value), v.type
        case Load():
            return "load", v.buffer, v.type, v.mask is None
        case Gather():
            return "gather", v.buffer, v.type
        case Read():
            return "read", _home(v.temp)
        case Holds():
            return "holds", v.conds
        case Steps():
            return "steps", v.step, v.type
        case Binary() | Unary():
            return v.op, v.type
        case Across():
            return "across", v.op
        case Apply():
            return v.primitive.name, v.type
        case Shuffle():
            return "shuffle", v.places, v.type
        case IndexValue() | Broadcast() | Choice() | Convert():
            return type(v).__name__, v.type


def _indices(s: Straight) -> Iterator[Index]:
    """The indices in a statement, in the order of `_mapped`."""
    match s:
        case Let() | Assign():
            if isinstance(s.temp, Element):
                yield s.temp.at
        case Store() | StoreRows():
            yield s.offset
        case Transpose():
            yield s.at
    for v in values_in(s):
        match v:
            case Load():
                yield v.offset
            case Gather():
                yield from v.offsets
            case IndexValue():
                yield v.index
            case Read(Element() as element):
                yield element.at
            case _:
                pass


def _mapped(s: Straight, index: Callable[[Index], Index], temp: Callable[[Temp], Temp]) -> Straight:
    """A statement with other indices and temporaries."""
    match s:
        case Let() | Assign():
            return replace(s, temp=temp(s.temp), value=_mapped_value(s.value, index, temp))
        case Store():
            return replace(s, offset=index(s.offset), value=_mapped_value(s.value, index, temp))
        case StoreRows():
            return replace(s, offset=index(s.offset), values=tuple(_mapped_value(v, index, temp) for v in s.values))
        case Transpose():
            return replace(s, at=index(s.at))


def _same(i: Index) -> Index:
    return i


def _mapped_value(v: Value, index: Callable[[Index], Index], temp: Callable[[Temp], Temp]) -> Value:

    def inside(x: Value) -> Value:
        return _mapped_value(x, index, temp)

    match v:
        case Load():
            return replace(v, offset=index(v.offset), mask=None if v.mask is None else inside(v.mask))
        case Gather():
            return replace(v, offsets=tuple(map(index, v.offsets)))
        case Read():
            return Read(temp(v.temp))
        case IndexValue():
            return replace(v, index=index(v.index))
        case Literal() | Holds() | Steps():
            return v
        case Broadcast() | Convert() | Across():
            return replace(v, value=inside(v.value))
        case Binary() | Shuffle():
            return replace(v, a=inside(v.a), b=inside(v.b))
        case Unary():
            return replace(v, a=inside(v.a))
        case Apply():
            return replace(v, args=tuple(map(inside, v.args)))
        case Choice():
            return replace(v, test=inside(v.test), a=inside(v.a), b=inside(v.b))


# 1. Arrays ------------------------------------------------------------------------------------------------------


class _Placing:
    """Places temporaries in arrays."""

    def __init__(self) -> None:
        self.elements: dict[Temp, Element] = {}

    def temp(self, t: Temp) -> Temp:
        """Return the element that stands for a temporary, if there is one."""
        return self.elements.get(t, t)

    def value(self, v: Value) -> Value:
        """A value that reads the elements."""
        return _mapped_value(v, _same, self.temp)

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The statements of a block, with elements for its temporaries and for those around it."""
        families: dict[Hashable, Registers] = {}
        out: list[Stmt] = []
        k = 0
        while k < len(body):
            square, taken = self._square(body[k:], families)
            out.append(square or self._statement(body[k], families))
            k += taken
        return tuple(out)

    def _square(self, body: Sequence[Stmt], families: dict[Hashable, Registers]) -> tuple[Transpose | None, int]:
        """The first statements as a transpose in place, and their number.

        The rows must be neighbors in an array of this block, and not read later.
        """
        turned = _turned(body)
        if turned is None:
            return None, 1
        rows, columns = turned
        first = self.elements.get(rows[0])
        if first is None or first.registers not in families.values():
            return None, 1
        at, registers = first.at.constant or 0, first.registers
        taken = len(rows) * (len(rows).bit_length() - 1)
        later = (t for s in walk(tuple(body[taken:])) for t in temps_read(s))
        if registers.temps[at : at + len(rows)] != rows or not set(rows).isdisjoint(later):
            return None, 1
        for j, t in enumerate(columns):
            self.elements[t] = replace(first, at=as_index(at + j))
        return Transpose("", registers, first.at), taken

    def _statement(self, s: Stmt, families: dict[Hashable, Registers]) -> Stmt:
        match s:
            case For() | Loop():
                return replace(s, body=self.block(s.body))
            case If():
                return replace(s, test=self.value(s.test), then=self.block(s.then), otherwise=self.block(s.otherwise))
            case LetIndex() if not isinstance(s.value, Index) and any(True for _ in values_in(s)):
                return replace(s, value=self.value(next(values_in(s))))
            case Let():
                made = _mapped(s, _same, self.temp)
                form = (s.temp.type, *(p for p in _form(made) if p is not s.temp))
                registers = families.setdefault(form, Registers(s.temp.name, s.temp.type))
                at = as_index(len(registers.temps))
                registers.temps.append(s.temp)
                self.elements[s.temp] = Element(s.temp.name, s.temp.type, registers, at)
                return _mapped(made, _same, self.temp)
            case Assign() | Store() | StoreRows():
                return _mapped(s, _same, self.temp)
            case _:
                return s


def _turned(body: Sequence[Stmt]) -> tuple[list[Temp], list[Temp]] | None:
    """The rows and columns of the square that the first statements transpose: see `loops.product.turn`."""
    if not (body and isinstance(body[0], Let) and isinstance(body[0].value, Shuffle)):
        return None
    n = body[0].temp.type.lanes
    first: dict[int, Temp] = {}
    now: dict[int, Temp] = {}
    statements = iter(body)
    for bit in (1 << e for e in range(n.bit_length() - 1)):
        low = tuple(n + x - bit if x & bit else x for x in range(n))
        high = tuple(n + x if x & bit else x + bit for x in range(n))
        for j in (j for j in range(n) if not j & bit):
            for places, to in ((low, j), (high, j | bit)):
                match next(statements, None):
                    case Let(temp=made, value=Shuffle(a=Read(temp=a), b=Read(temp=b), places=found)) if found == places:
                        if to == j:
                            pair = a, b
                            first |= {x: t for x, t in ((j, a), (j | bit, b)) if x not in first}
                            if (now.get(j, a), now.get(j | bit, b)) != pair:
                                return None
                        elif (a, b) != pair:
                            return None
                        now[to] = made
                    case _:
                        return None
    return [first[j] for j in range(n)], [now[j] for j in range(n)]


# 2. Loops -------------------------------------------------------------------------------------------------------


def _in_blocks(body: tuple[Stmt, ...], roll: Callable[[list[Straight]], list[Stmt]]) -> tuple[Stmt, ...]:
    """The statements with every run of straight ones rolled."""
    out: list[Stmt] = []
    for straight, run in groupby(body, lambda s: isinstance(s, Straight)):
        if straight:
            out += roll([s for s in run if isinstance(s, Straight)])
            continue
        for s in run:
            match s:
                case For() | Loop():
                    s = replace(s, body=_in_blocks(s.body, roll))
                case If():
                    then, otherwise = (_in_blocks(x, roll) for x in (s.then, s.otherwise))
                    s = replace(s, then=then, otherwise=otherwise)
                case _:
                    pass
            out.append(s)
    return tuple(out)


def _best(run: list[Straight], variables: Sequence[Var]) -> list[Stmt]:
    """A run as few statements, with the loads of some forms moved up to the first of their form."""
    best = _repetitions(run, variables)
    better = len(run) <= LONG
    while better:
        better = False
        for form in dict.fromkeys(_form(s) for s in run if _is_load(s)):
            other = _gathered(run, form)
            made = _repetitions(other, variables)
            if len(made) < len(best):
                run, best, better = other, made, True
                break
    return best


def _is_load(s: Straight) -> bool:
    """Whether a statement only loads, from a place that does not depend on other temporaries."""
    return isinstance(s, Let) and not s.mutable and not any(isinstance(v, Read) for v in values_in(s))


def _gathered(run: list[Straight], form: Hashable) -> list[Straight]:
    """A run that begins with all loads of a form before its first store."""
    free = list(takewhile(lambda s: not isinstance(s, Store | StoreRows), run))
    moved = [s for s in free if _form(s) == form]
    return [*moved, *(s for s in free if _form(s) != form), *run[len(free) :]]


def _repetitions(run: Sequence[Straight], variables: Sequence[Var]) -> list[Stmt]:
    """A run with its repetitions as loops."""
    if not variables:
        return list(run)
    forms, indices = [_form(s) for s in run], [tuple(_indices(s)) for s in run]
    numbers = {form: n for n, form in enumerate(dict.fromkeys(forms))}
    kinds = [numbers[form] for form in forms]
    out: list[Stmt] = []
    k = 0
    while k < len(run):
        length, times, steps = _longest(kinds, indices, k)
        if times < 2:
            out.append(run[k])
            k += 1
            continue
        var = variables[0]
        trip = _moved(run[k : k + length], [step * as_index(var) for step in steps])
        out.append(For(var, ZERO_INDEX, as_index(times), tuple(_repetitions(trip, variables[1:])), kind="unrolled"))
        k += length * times
    return out


def _longest(kinds: Sequence[int], indices: Sequence[tuple[Index, ...]], start: int) -> tuple[int, int, list[Index]]:
    """Return the length, times and steps of the repetition that replaces most statements from one on."""
    best: tuple[int, int, list[Index]] = 0, 0, []
    for length in range(1, min((len(kinds) - start) // 2, LONGEST) + 1):
        times, steps = 1, None
        while (own := _steps(kinds, indices, start + (times - 1) * length, length)) is not None:
            if steps is not None and own != steps:
                break
            times, steps = times + 1, own
        if steps is not None and (times - 1) * length > (best[1] - 1) * best[0]:
            best = length, times, steps
    return best


def _steps(kinds: Sequence[int], indices: Sequence[tuple[Index, ...]], start: int, length: int) -> list[Index] | None:
    """Return the step of each index from `length` statements to the next as many.

    It is None if these have other forms, or if a step has several terms.
    """
    if start + 2 * length > len(kinds):
        return None
    if (
        kinds[start] != kinds[start + length]
        or kinds[start : start + length] != kinds[start + length : start + 2 * length]
    ):
        return None
    pairs = zip(indices[start : start + length], indices[start + length : start + 2 * length], strict=True)
    steps = [b - a for one, two in pairs for a, b in zip(one, two, strict=True)]
    return steps if all(len(step.terms) <= 1 for step in steps) else None


def _moved(statements: Sequence[Straight], steps: list[Index]) -> list[Straight]:
    """Statements whose indices are increased by the steps, in order."""
    left = iter(steps)

    def index(i: Index) -> Index:
        return i + next(left)

    def temp(t: Temp) -> Temp:
        return replace(t, at=index(t.at)) if isinstance(t, Element) else t

    return [_mapped(s, index, temp) for s in statements]


# 3. Arrays that none needs --------------------------------------------------------------------------------------


def _without_needless(body: tuple[Stmt, ...]) -> tuple[list[Registers], tuple[Stmt, ...]]:
    """The arrays that are needed, and the statements with temporaries for the others."""
    uses: dict[Registers, list[tuple[Index, tuple[For, ...]]]] = {}
    squares = set()
    for s, around in _with_loops(body, ()):
        if isinstance(s, Transpose):
            squares.add(s.registers)
        for t in _temps(s):
            if isinstance(t, Element):
                uses.setdefault(t.registers, []).append((t.at, around))
    kept = [r for r, places in uses.items() if r in squares or not (_by_number(places) or _in_one_trip(places))]

    def temp(t: Temp) -> Temp:
        if not isinstance(t, Element) or t.registers in kept:
            return t
        return t.registers.temps[t.at.constant or 0]

    return kept, tuple(_with_temps(s, temp) for s in body)


def _by_number(places: Sequence[tuple[Index, tuple[For, ...]]]) -> bool:
    """Whether all uses name the element by a number."""
    return all(at.constant is not None for at, _ in places)


def _in_one_trip(places: Sequence[tuple[Index, tuple[For, ...]]]) -> bool:
    """Whether the first use, its definition, is in a loop that contains all others, of the same element."""
    first, around = places[0]
    return bool(around) and all(at == first and loops[: len(around)] == around for at, loops in places)


def _with_loops(body: tuple[Stmt, ...], around: tuple[For, ...]) -> Iterator[tuple[Stmt, tuple[For, ...]]]:
    """The statements, each with the loops over registers around it."""
    for s in body:
        yield s, around
        match s:
            case For() | Loop():
                inside = (*around, s) if isinstance(s, For) and s.kind == "unrolled" else around
                yield from _with_loops(s.body, inside)
            case If():
                yield from _with_loops(s.then, around)
                yield from _with_loops(s.otherwise, around)
            case _:
                pass


def _temps(s: Stmt) -> Iterator[Temp]:
    """The temporaries in a statement, without inner statements."""
    if isinstance(s, Let | Assign):
        yield s.temp
    for v in values_in(s):
        if isinstance(v, Read):
            yield v.temp


def _with_temps(s: Stmt, temp: Callable[[Temp], Temp]) -> Stmt:
    """A statement and its inner statements with other temporaries."""

    def inner(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(_with_temps(x, temp) for x in body)

    def value(v: Value) -> Value:
        return _mapped_value(v, _same, temp)

    match s:
        case For() | Loop():
            return replace(s, body=inner(s.body))
        case If():
            return replace(s, test=value(s.test), then=inner(s.then), otherwise=inner(s.otherwise))
        case LetIndex() if any(True for _ in values_in(s)):
            return replace(s, value=value(next(values_in(s))))
        case Let() | Assign() | Store() | StoreRows():
            return _mapped(s, _same, temp)
        case _:
            return s
