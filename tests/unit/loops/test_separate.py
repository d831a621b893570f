"""`separate` and `rows_apart`: what they say of loops, against what iterations touch when they run step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from pullback.ir.dims import solve_dims
from pullback.ir.index import (
    ZERO_INDEX,
    Atom,
    Cond,
    Data,
    DimSymbol,
    Floor,
    Index,
    Mod,
    Var,
    as_index,
    cond,
    floor_divide,
)
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.ir.types import f32
from pullback.loops.analysis.rows import rows_apart
from pullback.loops.analysis.separate import separate
from pullback.loops.program import nodes
from pullback.loops.program.nodes import Call, For, If, LetIndex, Stmt, Store
from pullback.loops.program.values import (
    Across,
    Bound,
    Broadcast,
    Buffer,
    Extreme,
    Gather,
    Holds,
    IndexValue,
    Literal,
    Load,
    Read,
    Shuffle,
    Temp,
    Type,
    Value,
    View,
    loaded_index,
    operands,
    smallest,
)
from pullback.loops.program.values import Steps as Steps_
from pullback.machine import AVX512
from pullback.runtime.emit import lower_program
from tests.laws.test_threads import PROGRAMS
from tests.unit.loops.test_all_sizes import FUNCTIONS, SHAPES

Element = tuple[Buffer, int]
Home = tuple[Buffer, int]  # a buffer, and the element of it where another begins


@dataclass
class Touched:
    """What statements write, with what that is, and what they read before they have written it."""

    needs: set[Element] = field(default_factory=set)
    writes: dict[Element, int] = field(default_factory=dict)

    def then(self, other: Touched) -> None:
        self.needs |= other.needs - self.writes.keys()
        self.writes |= other.writes


def _number(x: object) -> int:
    """A number that stands for something, the same in each process."""
    return crc32(repr(x).encode())


class Steps:
    """Runs the statements of kernels: of what they compute a number stands for how, and for what it is made of."""

    def __init__(self, dims: Mapping[str, int]) -> None:
        self.dims = dims
        self.memory: dict[Element, int] = {}
        self.homes: dict[Buffer, int] = {}
        self.temps: dict[Temp, list[int]] = {}
        self.working: set[Buffer] = set()
        self.claimed = 0

    def value(self, v: Value, env: Mapping[Atom, int], homes: Mapping[Buffer, Home]) -> list[int]:
        """What stands for each lane."""
        lanes = v.type.lanes
        match v:
            case Load():
                return [self._element(v.buffer, v.offset, k, env, homes) for k in range(lanes)]
            case Gather():
                return [self._element(v.buffer, i, 0, env, homes) for i in v.offsets]
            case Read():
                return self.temps[v.temp]
            case Literal():
                return [_number(v.value)] * lanes
            case IndexValue():
                return [self.index(v.index, env)] * lanes
            case Steps_():
                return [v.step * k for k in range(lanes)]
            case Holds():
                return [all(self._holds(c, env) for c in v.conds)]
            case Shuffle():
                both = [*self.value(v.a, env, homes), *self.value(v.b, env, homes)]
                return [both[k] for k in v.places]
            case Across():
                return [_number((v.op, *self.value(v.value, env, homes)))]
        parts = [self.value(x, env, homes) for x in operands(v)]
        parts = [p * lanes if len(p) == 1 else p for p in parts]
        if isinstance(v, Broadcast):
            return parts[0]
        what = getattr(v, "op", None) or getattr(getattr(v, "primitive", None), "name", type(v).__name__)
        return [_number((what, *one)) for one in zip(*parts, strict=True)]

    def _element(self, b: Buffer, at: Index, k: int, env: Mapping[Atom, int], homes: Mapping[Buffer, Home]) -> int:
        home, start = homes.get(b, (b, 0))
        e = home, start + self.index(at, env) + k
        return self.memory.setdefault(e, _number((self.homes.setdefault(home, len(self.homes)), e[1])))

    def index(self, i: Index, env: Mapping[Atom, int]) -> int:
        return sum(c * prod(self._atom(a, env) for a in m) for m, c in i.terms)

    def _atom(self, a: Atom, env: Mapping[Atom, int]) -> int:
        match a:
            case Floor():
                by = self.index(a.denominator, env)
                return self.index(a.numerator, env) // by if by else 0
            case Mod():
                return self.index(a.numerator, env) % self.index(a.denominator, env)
            case DimSymbol():
                return env[a] if a in env else self.dims[a.name]
            case _:
                return env[a]

    def _bound(self, b: Bound, env: Mapping[Atom, int]) -> int:
        if isinstance(b, Index):
            return self.index(b, env)
        return (max if b.op == "max" else min)(self._bound(a, env) for a in b.args)

    def _holds(self, c: Cond, env: Mapping[Atom, int]) -> bool:
        i = self.index(c.index, env)
        return i >= 0 if c.op == ">=" else (i == 0) == (c.op == "==")

    def body(self, body: Sequence[Stmt], env: dict[Atom, int], homes: Mapping[Buffer, Home]) -> Touched:
        out, env = Touched(), dict(env)
        for s in body:
            for step in self._statement(s, env, homes):
                out.then(step)
        return out

    def _statement(self, s: Stmt, env: dict[Atom, int], homes: Mapping[Buffer, Home]) -> Iterator[Touched]:
        loads = list(nodes.values_in(s))
        for v in loads:
            if isinstance(v, Load):
                yield self._run(v.buffer, v.offset, v.type.lanes, env, homes)
            elif isinstance(v, Gather):
                yield from (self._run(v.buffer, i, 1, env, homes) for i in v.offsets)
        match s:
            case For():
                yield self._loop(s, env, homes)
            case nodes.Loop():
                yield self.body(s.body, env, homes)
            case If():
                known = isinstance(s.test, Holds)
                taken = known and all(self._holds(c, env) for c in s.test.conds)  # type: ignore[union-attr]
                for branch, way in ((s.then, taken or not known), (s.otherwise, not taken)):
                    if way:
                        yield self.body(branch, env, homes)
            case LetIndex():
                if isinstance(s.value, Index | Extreme):
                    env[s.var] = self._bound(s.value, env)
                else:
                    most = 1 if s.var.extent is None else self.index(s.var.extent, env)
                    env[s.var] = self.value(s.value, env, homes)[0] % max(1, min(most, 1 << 10))
            case nodes.Let() | nodes.Assign():
                self.temps[s.temp] = self.value(s.value, env, homes)
            case Store():
                made = self.value(s.value, env, homes)
                if s.accumulate:
                    yield self._run(s.buffer, s.offset, len(made), env, homes)
                    old = [self._element(s.buffer, s.offset, k, env, homes) for k in range(len(made))]
                    made = [_number(("+", *both)) for both in zip(old, made, strict=True)]
                yield self._write(s.buffer, s.offset, made, env, homes)
            case nodes.StoreRows():
                rows = zip(*(self.value(v, env, homes) for v in s.values), strict=True)
                for lane, row in enumerate(rows):
                    yield self._write(s.buffer, s.offset + lane * s.step, row, env, homes)
            case nodes.Fill():
                yield self._write(s.buffer, s.offset, [0] * self.index(s.count, env), env, homes)
            case nodes.Copy():
                count = self.index(s.count, env)
                yield self._run(s.source.buffer, s.source.offset, count, env, homes)
                made = [self._element(s.source.buffer, s.source.offset, k, env, homes) for k in range(count)]
                yield self._write(s.target.buffer, s.target.offset, made, env, homes)
            case Call():
                yield self.call(s, env, homes)
            case _:
                pass

    def call(self, s: Call, env: Mapping[Atom, int], homes: Mapping[Buffer, Home]) -> Touched:
        values = {v: self.index(i, env) for v, i in zip(s.kernel.indices, s.index_values, strict=True)}
        inside: dict[Buffer, Home] = {}
        for p, a in zip(s.kernel.params, s.arguments, strict=True):
            home, first = homes.get(a.buffer, (a.buffer, 0))
            inside[p] = home, first + self.index(a.offset, env)
            self.working.update((home,) if p in s.kernel.scratch else ())
        return self.body(s.kernel.body, dict(values), inside)

    def _run(
        self, b: Buffer, first: Index, count: int, env: Mapping[Atom, int], homes: Mapping[Buffer, Home]
    ) -> Touched:
        home, start = homes.get(b, (b, 0))
        start += self.index(first, env)
        return Touched({(home, start + k) for k in range(count)})

    def _write(
        self, b: Buffer, first: Index, made: Sequence[int], env: Mapping[Atom, int], homes: Mapping[Buffer, Home]
    ) -> Touched:
        home, start = homes.get(b, (b, 0))
        start += self.index(first, env)
        elements = {(home, start + k): one for k, one in enumerate(made)}
        self.memory |= elements
        return Touched(set(), elements)

    def _loop(self, s: For, env: dict[Atom, int], homes: Mapping[Buffer, Home]) -> Touched:
        trips = range(self._bound(s.lower, env), self._bound(s.upper, env), s.step)
        every = [self.body(s.body, {**env, s.var: k}, homes) for k in trips]
        places = {b: View(home, as_index(first)) for b, (home, first) in homes.items()}
        found = separate(s, places)
        if found and not s.independent:
            found -= rows_apart(s, found, places)
        if s.independent or found == frozenset():
            self.claimed += len(every) > 1
            assert_independent(s, every)
            self._assert_same(s, every)
        out = Touched()
        for one in every:
            out.then(one)
        return out

    def _assert_same(self, s: For, every: Sequence[Touched]) -> None:
        """Where two steps store an element they store the same, working memory aside."""
        known: dict[Element, int] = {}
        for one in every:
            for e, made in one.writes.items():
                same = e[0] in self.working or known.setdefault(e, made) == made
                assert same, f"{s.var.name}: steps store different numbers in {e[0]}[{e[1]}]"


def assert_independent(s: For, every: Sequence[Touched]) -> None:
    """No step needs what another writes."""
    writer: dict[Element, int] = {}
    for k, one in enumerate(every):
        for e in one.writes:
            writer[e] = k if writer.get(e, k) == k else -1
    for k, one in enumerate(every):
        for e in one.needs:
            assert writer.get(e, k) == k, f"{s.var.name}: step {k} needs {e[0]}[{e[1]}], which another writes"


def claims(program: Program, dims: Mapping[str, int], given: bool) -> int:
    """Runs the loops of a program, for these dims or for all; how often one of several steps said it is independent."""
    made = lower_program(program, dims if given else {}, machine=AVX512)
    steps = Steps(dims)
    for s in nodes.walk(made.function.body):
        if isinstance(s, Call):
            outside: dict[Atom, int] = {v: 0 for i in s.index_values for v in i.free}
            steps.call(s, outside, {})
    return steps.claimed


@pytest.mark.parametrize("given", [True, False], ids=["given", "all sizes"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, given: bool) -> None:
    dims = {"N": 11 if name == "convolution" else 19, "M": 9}  # one block: lanes that no sum has are left as they were
    program = parse_program(PROGRAMS[name])
    claims(program, {d: n for d, n in dims.items() if d in PROGRAMS[name].split("{")[0]}, given)


@pytest.mark.parametrize("given", [True, False], ids=["given", "all sizes"])
@pytest.mark.parametrize("name", SHAPES)
def test_kernels(name: str, given: bool) -> None:
    sizes, shapes = SHAPES[name]
    function: Any = FUNCTIONS[name]()
    arrays = [np.ones(s, np.float32) for s in shapes(*sizes[3])]
    program = function.program(*arrays)
    found = claims(program, solve_dims(program, [a.shape for a in arrays], {}), given)
    assert found or given or name == "log-sum-exp"


OUT = Buffer("out", f32, (as_index(4096),), "parameter", as_index(4096), True)
ONE = Literal(1.0, Type(f32))


def loop(body: Callable[[Index], Stmt], independent: bool = False) -> For:
    v = Var("v", 8)
    return For(v, ZERO_INDEX, as_index(8), (body(as_index(v)),), independent=independent)


def test_what_is_separate() -> None:
    at = loaded_index("at", as_index(8))
    temp = Temp("t", Type(f32))
    assert separate(loop(lambda i: Store(OUT, i, ONE)), {}) == frozenset()
    assert separate(loop(lambda i: Store(OUT, i, ONE, accumulate=True)), {}) == {OUT}
    assert separate(loop(lambda i: Store(OUT, i + 1, Load(OUT, i, Type(f32)))), {}) == {OUT}
    assert separate(loop(lambda i: Store(OUT, as_index(at), ONE)), {}) is None
    assert separate(loop(lambda i: nodes.Assign(temp, ONE)), {}) is None
    assert separate(loop(lambda i: nodes.Assign(temp, ONE)), {}, (temp,)) == frozenset()
    assert separate(loop(lambda i: nodes.Break()), {}) is None


N, P = (DimSymbol(name) for name in "NP")
ROW, PLACE = Var("row", as_index(N)), Var("place", as_index(P))
row, place, n, p = map(as_index, (ROW, PLACE, N, P))


def changed(at: Index, needs: Index | None = None, lanes: int = 1) -> Store:
    """An element, or several, in place of what lies there or at another index."""
    return Store(OUT, at, Load(OUT, at if needs is None else needs, Type(f32, lanes)))


def rows(*body: Stmt, step: int = 1) -> For:
    return For(ROW, ZERO_INDEX, n - (step - 1), body, step)


def along(body: Stmt, end: Index = p, step: int = 1, start: Index = ZERO_INDEX) -> For:
    return For(PLACE, start, end, (body,), step)


def eight(test: Index) -> If:
    """The first eight elements of a row, where a test says so."""
    return If(Holds((cond(">=", test),)), (changed(row * p, lanes=8),))  # type: ignore[arg-type]


APART = {
    "elements": rows(changed(row)),
    "rows": rows(along(changed(row * p + place))),
    "rows of another distance": rows(along(changed(row * (p + 3) + place))),
    "rows of two arrays in one": rows(along(changed(row * p * 2 + place, row * p * 2 + p + place))),
    "columns": For(PLACE, ZERO_INDEX, p, (For(ROW, ZERO_INDEX, n, (changed(row * p + place),)),)),
    "planes": rows(along(changed(row * p + place, n * p * 2 + row * p + place))),
    "vectors": rows(along(changed(row * p + place, lanes=4), p - 3, 4)),
    "whole vectors": rows(along(changed(row * p + place, lanes=4), floor_divide(p, as_index(4)) * 4, 4)),
    "two rows in each step": rows(along(changed(row * p + place)), along(changed(row * p + p + place)), step=2),
    "a place of a row": rows(LetIndex(PLACE, smallest(as_index(7), p - 1)), changed(row * p + place)),
    "where they are inside": rows(eight(p - 8)),
}
TOGETHER = {
    "the next element": rows(changed(row, row + 1)),
    "the next row": rows(along(changed(row * p + place, row * p + p + place))),
    "half a row": rows(along(changed(row * p + place * 2))),
    "vectors beyond the end": rows(along(changed(row * p + place, lanes=4), p, 4)),
    "one row": rows(along(changed(place))),
    "two rows in steps of one": rows(along(changed(row * p + place)), along(changed(row * p + p + place))),
    "a test that says too little": rows(eight(p - 7)),
    "two lengths of rows": rows(along(changed(row * p + place)), along(changed(row * (p + 1) + place))),
    "two arrays in one": rows(along(changed(row * p + place)), along(changed(row * p + place + 1))),
}


@pytest.mark.parametrize("size", [1, 7, 8, 19])
@pytest.mark.parametrize("name", APART)
def test_rows_that_are_apart(name: str, size: int) -> None:
    loop = APART[name]
    assert rows_apart(loop, {OUT}, {}) == {OUT}
    Steps({"N": 6, "P": size}).body((loop,), {}, {})


@pytest.mark.parametrize("name", TOGETHER)
def test_rows_that_are_not_proven_apart(name: str) -> None:
    assert not rows_apart(TOGETHER[name], {OUT}, {})


def test_an_array_behind_another_in_memory_is_in_other_planes() -> None:
    """Parameters of a kernel that lie in one array: one row of it is read, and the next is written."""
    x = Buffer("x", f32, (as_index(4096),), "parameter", as_index(4096))
    copied = For(PLACE, ZERO_INDEX, p, (Store(OUT, place, Load(x, place, Type(f32))),))
    whole = Buffer("whole", f32, (as_index(4096),), "arena", as_index(4096), True)
    for distance, found in ((p, {whole}), (p - 1, set())):
        assert rows_apart(copied, {whole}, {x: View(whole), OUT: View(whole, distance)}) == found


@pytest.mark.parametrize("step", [1, 2])
def test_the_steps_tell_a_wrong_mark(step: int) -> None:
    wrong = loop(lambda i: Store(OUT, i * step, Load(OUT, i, Type(f32))), independent=True)
    run = Steps({})
    if step == 1:
        run.body((wrong,), {}, {})
    else:
        with pytest.raises(AssertionError, match="step 2 needs out"):
            run.body((wrong,), {}, {})


@pytest.mark.parametrize("same", [True, False])
def test_the_steps_tell_different_numbers_in_one_place(same: bool) -> None:
    x = Buffer("x", f32, (as_index(16),), "parameter", as_index(16))
    v = Var("v", 8)
    first = Var("first", 8)
    start = LetIndex(first, smallest(as_index(v), as_index(4)))  # the last steps overlap
    store = Store(OUT, as_index(first), Load(x, as_index(first if same else v), Type(f32)))
    overlapping = For(v, ZERO_INDEX, as_index(8), (start, store))
    if same:
        Steps({}).body((overlapping,), {}, {})
    else:
        with pytest.raises(AssertionError, match="steps store different numbers in out"):
            Steps({}).body((overlapping,), {}, {})


def test_an_index_from_data_is_an_atom() -> None:
    assert isinstance(loaded_index("at", None), Data)
