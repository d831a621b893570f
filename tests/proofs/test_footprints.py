"""Footprints of statements: an SMT solver shows that elements told apart are apart for all values.

The addresses come from a walk of the statements that this file has of its own: a loop's variable is its lower bound
plus a number of steps, an access is a run of elements, a parameter of a kernel is a place in a buffer of the caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import z3

from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index
from pullback.ir.types import f32
from pullback.loops.analysis.footprint import Touched, collide, independent, touched
from pullback.loops.analysis.separate import separate
from pullback.loops.program.nodes import Call, Fill, For, If, Kernel, Stmt, Store
from pullback.loops.program.values import Buffer, Holds, Literal, Load, Type, View
from tests.proofs.samples import TIMES, Sampler, Term
from tests.proofs.smt import Domain, check

FAR = as_index(1 << 40)
X, Y = (Buffer(name, f32, (FAR,), "parameter", FAR, True) for name in "xy")
PLACES = {X: View(X), Y: View(Y)}


@dataclass
class Element:
    """An element that statements read or write: its address, and what holds where they do."""

    buffer: Buffer
    address: Any
    write: bool
    holds: tuple[Any, ...]


def elements(body: Sequence[Stmt], d: Domain, places: Mapping[Buffer, tuple[Buffer, Any]],
             holds: tuple[Any, ...] = ()) -> Iterator[Element]:
    """Every element that statements touch."""
    for s in body:
        match s:
            case For():
                k = z3.FreshInt("k")
                d.atoms[s.var] = d.index(s.lower) + k * s.step  # type: ignore[arg-type]
                inside = (*holds, k >= 0, d.atoms[s.var] < d.index(s.upper))  # type: ignore[arg-type]
                yield from elements(s.body, d, places, inside)
            case If(Holds() as test, then, otherwise):
                taken = z3.And(d.conditions(test.conds))
                yield from elements(then, d, places, (*holds, taken))
                yield from elements(otherwise, d, places, (*holds, z3.Not(taken)))
            case Store(buffer, offset, value, adds):
                if adds:
                    yield _element(buffer, d.index(offset), value.type.lanes, False, places, holds)
                if isinstance(value, Load):
                    yield _element(value.buffer, d.index(value.offset), value.type.lanes, False, places, holds)
                yield _element(buffer, d.index(offset), value.type.lanes, True, places, holds)
            case Fill(buffer, offset, count):
                yield _element(buffer, d.index(offset), d.index(count), True, places, holds)
            case Call(kernel, arguments, indices):
                assert indices is not None
                inner = Domain(d.facts, d.dims, {v: d.index(i) for v, i in zip(kernel.indices, indices, strict=True)})
                homes = [(places[a.buffer][0], places[a.buffer][1] + d.index(a.offset)) for a in arguments]
                yield from elements(kernel.body, inner, dict(zip(kernel.params, homes, strict=True)), holds)
            case _:
                raise AssertionError(s)


def _element(buffer: Buffer, start: Any, lanes: Any, write: bool, places: Mapping[Buffer, tuple[Buffer, Any]],
             holds: tuple[Any, ...]) -> Element:
    home, offset = places[buffer]
    lane = z3.FreshInt("lane")
    return Element(home, offset + start + lane, write, (*holds, lane >= 0, lane < lanes))


def _found(body: Sequence[Stmt], d: Domain, places: Mapping[Buffer, View] = PLACES) -> list[Element]:
    homes = {b: (v.buffer, d.index(v.offset)) for b, v in places.items()}
    return list(elements(body, Domain(d.facts, d.dims), homes))


def _differ(d: Domain, one: Sequence[Element], other: Sequence[Element], what: object) -> None:
    """No element of one list is an element of the other."""
    for a, b in product(one, other):
        if a.buffer is b.buffer:
            check(d, a.address != b.address, (*a.holds, *b.holds), what, 500)


# Random statements --------------------------------------------------------------------------------------------------


def _place(s: Sampler, near: Sequence[Term], far: Term | None) -> Index:
    """A place in rows: digits in a range of elements, and a variable whose steps are about as long as that range."""
    place, stride = s.number(0, 3), s.number(1, 1)
    for v in s.random.sample(near, s.random.randint(0, len(near))):
        extent = v.made.single.extent  # type: ignore[union-attr]
        place = s.plus(place, s.times(v, stride))
        stride = s.times(stride, Term(extent, s.domain.index(extent), "extent"))
    if far is not None:
        step = s.plus(stride, s.number(-1, 3)) if s.random.random() < 0.7 else s.number(1, 4)
        place = s.plus(place, s.times(far, step))
    return place.made


def _body(s: Sampler, far: Term | None) -> list[Stmt]:
    """Loops around one or two statements, some under conditions, some in a kernel."""
    near = s.variables[1:]
    where = _place(s, near, far)
    inside = [_statement(s, where if s.random.random() < 0.5 else _place(s, near, far), where, near, far)
              for _ in range(s.random.choice((1, 1, 2)))]
    for v in near:
        index = v.made.single
        assert isinstance(index, Var)
        begin = as_index(s.random.choice((0, 0, 1, 2)))
        inside = [For(index, begin, index.extent, tuple(inside), s.random.choice((1, 1, 1, 2, 3)))]
    return inside


def _statement(s: Sampler, at: Index, read: Index, near: Sequence[Term], far: Term | None) -> Stmt:
    """A store of what is loaded, added or not, or zeros along a run as long as a variable says."""
    lanes = s.random.choice((1, 1, 2, 4))
    if s.random.random() < 0.3:
        read = _place(s, near, far)
    value = s.random.choice((Literal(0.0, Type(f32, lanes)), Load(X, read, Type(f32, lanes)),
                             Load(Y, read, Type(f32, lanes))))
    made: Stmt = Store(X, at, value, s.random.random() < 0.2)
    if s.random.random() < 0.2:
        made = Fill(X, at, s.random.choice((as_index(3), s.random.choice(near).made + 1)))
    if s.random.random() < 0.25:
        test, _ = s.condition()
        if isinstance(test, Cond):
            made = If(Holds((test,)), (made,))
    return _called(made, s) if s.random.random() < 0.3 else made


def _block(s: Sampler, stride: int, first: int, rows: int, columns: int) -> list[Stmt]:
    """Columns of a block whose rows lie so far apart."""
    r, c = Var("r", as_index(rows)), Var("c", as_index(columns))
    lanes = s.random.choice((1, 1, 2))
    inner = Store(X, as_index(r) * stride + as_index(c) * lanes + first, Literal(0.0, Type(f32, lanes)))
    body = For(c, ZERO_INDEX, c.extent, (inner,))
    return [For(r, ZERO_INDEX, r.extent, (body,), s.random.choice((1, 1, 2)))]


def _called(made: Stmt, s: Sampler) -> Call:
    """The statement in a kernel, whose parameters lie in the buffers from some element on."""
    used = tuple(v.made.single for v in s.variables)
    kernel = Kernel("inner", (X, Y), used, (made,))  # type: ignore[arg-type]
    begin = as_index(s.random.randint(0, 4))
    return Call(kernel, (View(X, begin), View(Y)), tuple(v.made for v in s.variables))


def _loop(s: Sampler) -> For:
    v = s.variables[0].made.single
    assert isinstance(v, Var)
    return For(v, ZERO_INDEX, v.extent, tuple(_body(s, s.variables[0])), s.random.choice((1, 1, 2, 3)))


def _two_iterations(loop: For, d: Domain, places: Mapping[Buffer, View]) -> tuple[list[Element], list[Element]]:
    """Return the elements that two different iterations touch."""
    one, other = (_found((loop,), d, places) for _ in range(2))
    a, b = z3.Ints("a b")
    for found, number in ((one, a), (other, b)):
        for e in found:  # what holds first is of the loop: its number of steps is not negative
            e.holds = (*e.holds, e.holds[0].arg(0) == number, a != b)
    return one, other


def _places(s: Sampler) -> Mapping[Buffer, View]:
    """Both buffers as they are, or one of them from some element of the other on."""
    return PLACES if s.random.random() < 0.6 else {X: View(X), Y: View(X, as_index(s.random.randint(0, 40)))}


# Claims -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [True, False], ids=["numbers", "dims"])
def test_iterations_that_are_independent_touch_other_elements(numbers: bool) -> None:
    """No element that one writes is touched by another; enough loops are found to be so."""
    apart = 0
    for seed in range((400 if numbers else 20) * TIMES):
        s = Sampler(seed, numbers)
        loop, d = _loop(s), Domain()
        places = _places(s)
        found = independent(loop, places, {})
        assert found is not None
        if X not in found:
            one, other = _two_iterations(loop, d, places)
            _differ(d, [e for e in one if e.write], other, (seed, loop))
            apart += 1
    assert apart >= (80 if numbers else 0) * TIMES


@pytest.mark.parametrize("numbers", [True, False], ids=["numbers", "dims"])
def test_buffers_that_are_separate_are_not_read_where_they_are_written(numbers: bool) -> None:
    apart = 0
    for seed in range(40 * TIMES):
        s = Sampler(seed, numbers)
        loop, d = _loop(s), Domain()
        places = _places(s)
        found = separate(loop, places)
        assert found is not None
        one, other = _two_iterations(loop, d, places)
        written = [e for e in one if e.write and e.buffer not in found]
        _differ(d, written, [e for e in other if not e.write], (seed, loop))
        apart += bool(written)
    assert apart >= 10 * TIMES


def _claimed(t: Touched, e: Element, d: Domain) -> Any:
    """State that a touched element is in the span, and in a run of one of the rows."""
    span = t.spans[e.buffer]
    if span is None:
        return z3.BoolVal(True)
    distance, runs = t.rows[e.buffer]
    fixed, (low, high) = d.index(span[0]), span[1]
    near = e.address - fixed
    inside = [z3.And((near - first) % distance <= last - first) if distance else z3.And(first <= near, near <= last)
              for first, last in runs]
    return z3.And(low <= near, near <= high, z3.Or(inside))


def test_spans_and_rows_hold_every_element() -> None:
    verdicts: Counter[str] = Counter()
    for seed in range(40 * TIMES):
        s = Sampler(seed, True)
        body, d = _body(s, None), Domain()
        found = touched(body, PLACES, {})
        for e in _found(body, d):
            verdicts[check(d, _claimed(found, e, d), e.holds, (seed, body), 500)] += 1
    assert verdicts["proven"] >= 40 * TIMES


def _collide(bodies: Sequence[list[Stmt]], what: object) -> bool:
    """Whether two lists of statements are said to collide; if not, what one writes the other does not touch."""
    one, other = (touched(b, PLACES, {}) for b in bodies)
    if collide(one, other):
        return True
    d = Domain()
    first, second = (_found(b, d) for b in bodies)
    _differ(d, [e for e in first if e.write], second, what)
    _differ(d, [e for e in second if e.write], first, what)
    return False


def test_statements_that_do_not_collide_touch_other_elements() -> None:
    """Blocks of columns in rows, many of which lie side by side, or one behind the other."""
    aside = 0
    for seed in range(150 * TIMES):
        s = Sampler(seed, True)
        stride, wide = s.random.randint(4, 12), s.random.randint(1, 5)
        first = s.random.randint(0, 4)
        rows = s.random.randint(1, 6)
        end = (rows - 1) * stride + wide
        ways = (wide, wide - 1, 2 * wide, 2 * wide - 1, end - 1, end, s.random.randint(0, 90))
        next_to, longer = first + s.random.choice(ways), stride * s.random.choice((1, 1, 1, 2, 3))
        blocks = [_block(s, stride, first, rows, wide),
                  _block(s, longer, next_to, s.random.randint(1, 4), s.random.randint(1, 4))]
        s.random.shuffle(blocks)
        aside += not _collide(blocks, (seed, blocks))
    assert aside >= 30 * TIMES


def test_statements_of_any_kind_that_do_not_collide_touch_other_elements() -> None:
    aside = 0
    for seed in range(40 * TIMES):
        s = Sampler(seed, True)
        behind = Kernel("behind", (X, Y), (), tuple(_body(s, None)))
        call = Call(behind, (View(X, as_index(s.random.randint(0, 60))), View(Y)), ())
        bodies: list[list[Stmt]] = [_body(s, None), [call]]
        aside += not _collide(bodies, (seed, bodies))
    assert aside >= 5 * TIMES
