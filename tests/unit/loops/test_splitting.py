"""How one kernel is shared out: loops and chunks as text, in `splitting.txt`; they compute what the kernel computes.

After a change that is meant: `pytest tests/unit/loops/test_splitting.py --update-golden`, then read the diff.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback.ir.index import ZERO_INDEX, DimSymbol, Index, Var, as_index, cond
from pullback.ir.types import bool_, f64
from pullback.loops.program.nodes import (
    Assign,
    Break,
    Call,
    Comment,
    Copy,
    Fill,
    For,
    Function,
    If,
    Kernel,
    Let,
    LetIndex,
    Loop,
    Parallel,
    Stmt,
    Store,
    either,
    walk,
)
from pullback.loops.program.values import (
    Binary,
    Bound,
    Buffer,
    Choice,
    Extreme,
    Holds,
    IndexValue,
    Literal,
    Load,
    Read,
    Temp,
    Unary,
    Value,
    View,
    largest,
    scalar,
    smallest,
)
from pullback.loops.threads import splitting
from pullback.loops.threads.parallel import _gain, parallelize
from pullback.loops.threads.splitting import Splitting, _constant, _is_nest
from pullback.machine import GENERIC, Machine
from tests.support.equivalence.field import Field
from tests.support.equivalence.loops import run

EAGER = replace(GENERIC, meeting=1, chunk=1, waking=1, often=1)
I, J, K = Var("i", 1000), Var("j", 1000), Var("k", 1000)
ONE, TYPE = Literal(1.0, scalar(f64)), scalar(f64)


def buffer(name: str, count: int = 4000) -> Buffer:
    return Buffer(name, f64, (), "parameter", as_index(count))


X, Y, Z, W, LINE = buffer("x"), buffer("y"), buffer("z"), buffer("w", 10), buffer("line", 40)
T, U = Temp("t", TYPE), Temp("u", TYPE)


def load(b: Buffer, at: Index | Var) -> Load:
    return Load(b, as_index(at), TYPE)


def put(b: Buffer, at: Index | Var, value: Value | None = None, adds: bool = False) -> Store:
    return Store(b, as_index(at), load(X, at) if value is None else value, adds)


def plus(a: Value, b: Value) -> Value:
    return Binary("+", a, b, TYPE)


def loop(v: Var, end: Bound | int, *body: Stmt, start: Bound | int = 0, step: int = 1, free: bool = False) -> For:
    low, high = (as_index(b) if isinstance(b, int) else b for b in (start, end))
    return For(v, low, high, body, step, independent=free)


def adds(t: Temp, value: Value) -> Assign:
    return Assign(t, plus(Read(t), value))


def zero(t: Temp) -> Let:
    return Let(t, Literal(0.0, TYPE), True)


# Text -------------------------------------------------------------------------------------------------------------


def polynomial(i: Index) -> str:
    """An index, whatever the age of its variables."""
    names = ["*".join(sorted(f"({a})" if " " in str(a) else str(a) for a in m)) for m, _ in i.terms]
    terms = sorted(zip(names, (c for _, c in i.terms), strict=True), key=lambda t: (not t[0], -abs(t[1]), t[0]))
    return " + ".join(n if c == 1 and n else f"{c}*{n}" if n else str(c) for n, c in terms) or "0"


def bound(b: Bound) -> str:
    return polynomial(b) if isinstance(b, Index) else f"{b.op}({', '.join(map(bound, b.args))})"


def value(v: Value) -> str:
    match v:
        case Binary():
            return f"{v.op}({value(v.a)}, {value(v.b)})"
        case Choice():
            return f"({value(v.test)} ? {value(v.a)} : {value(v.b)})"
        case Load():
            return f"{v.buffer}[{polynomial(v.offset)}]"
        case Literal():
            return f"{v.value:g}"
        case Read():
            return v.temp.name
        case Unary():
            return f"{v.op}({value(v.a)})"
        case Holds():
            return ", ".join(f"{polynomial(c.index)} {c.op} 0" for c in v.conds)
    assert isinstance(v, IndexValue)
    return polynomial(v.index)


def shown(body: Sequence[Stmt]) -> str:
    return "; ".join(map(_statement, body))


def _statement(s: Stmt) -> str:
    match s:
        case For():
            return f"{s.var} {bound(s.lower)}..{bound(s.upper)}{f' by {s.step}' * (s.step > 1)} {{{shown(s.body)}}}"
        case If():
            return f"if {value(s.test)} {{{shown(s.then)}}} else {{{shown(s.otherwise)}}}"
        case Parallel():
            return "share " + " and ".join(f"{polynomial(t.chunks)} {_statement(t.call)}" for t in s.tasks)
        case Call():
            own = [a.buffer.name for a in s.arguments if a.buffer.space == "worker"]
            return f"<{shown(s.kernel.body)}>" + (f" own {' '.join(own)}" if own else "")
        case Store():
            return f"{s.buffer}[{polynomial(s.offset)}] {'+' * s.accumulate}= {value(s.value)}"
        case Let() | Assign():
            return f"{'let ' * isinstance(s, Let)}{s.temp.name} = {value(s.value)}"
        case LetIndex():
            return f"{s.var} := {bound(s.value) if isinstance(s.value, Index | Extreme) else value(s.value)}"
        case Fill():
            return f"zero {s.buffer}[{polynomial(s.offset)}..]"
    return type(s).__name__.lower()


def split(body: Sequence[Stmt], machine: Machine = EAGER, sums: bool = True, scratch: Sequence[Buffer] = (),
          sizes: Mapping[DimSymbol, int] | None = None) -> str:  # fmt: skip
    """The statements that a kernel is shared out as. What they leave in its arrays is what the kernel leaves there."""
    params, dims = (X, Y, Z, W, LINE), tuple(sizes or ())
    kernel = Kernel("k", params, dims, tuple(body), scratch=tuple(scratch))
    homes = {b: replace(b, space="arena" if b in scratch else "output") for b in params}
    given = {b: replace(b, space="input") for b in params if b not in scratch}
    begin = [Copy(View(homes[b]), View(given[b]), b.elements) for b in given]
    call = Call(kernel, tuple(View(homes[b]) for b in params))
    outputs = tuple(homes[b] for b in given)
    function = Function("f", tuple(given.values()), outputs, (call,), machine=machine, dims=dims)
    made = parallelize(function, sums)
    random = np.random.default_rng(0)
    rows = [random.integers(1, 99, (b.elements.constant or 0, 1)).astype(np.uint64) for b in given]
    numbers = {d.name: n for d, n in (sizes or {}).items()}
    before, after = (run(Field(1), replace(f, body=(*begin, *f.body)), rows, numbers)[0] for f in (function, made))
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    return shown(made.body)


# Kernels ----------------------------------------------------------------------------------------------------------

i, j, k = map(as_index, (I, J, K))
KEPT = Path(__file__).parent / "splitting.txt"
M = Var("m", 1000)
SQUARE = loop(J, 50, put(Y, i * 50 + J))
FILL = Fill(LINE, ZERO_INDEX, as_index(20))
THROUGH_LINE = (loop(J, 20, put(LINE, J, load(X, i * 20 + J), adds=True)),
                loop(K, 20, put(Y, i * 20 + K, load(LINE, K))))  # fmt: skip
AFTER_LINE = THROUGH_LINE[1], loop(J, 20, put(LINE, J, load(X, i * 20 + J)))
TO_COLUMNS = put(W, J, load(X, i * 10 + J), adds=True)
FIRST_BEGINS = either(cond(">=", i - 1), (TO_COLUMNS,), (replace(TO_COLUMNS, accumulate=False),))
WITH_U = loop(I, 100, adds(T, plus(Read(U), load(X, I))))
SUM = zero(T), loop(I, 100, adds(T, load(X, I))), put(Y, ZERO_INDEX, Read(T))


def onto(b: Buffer, at: Index | Var, more: Value) -> Store:
    """A step that needs what the one before it left."""
    return put(b, at, plus(load(b, at), more))


def later(test: Index | int, then: Stmt, otherwise: Stmt) -> If:
    return If(Holds((cond(">=", test),)), (then,), (otherwise,))  # type: ignore[arg-type]


CASES: dict[str, Sequence[Stmt]] = {
    "even": [loop(I, 100, put(Y, I))],
    "uneven": [loop(I, 99, put(Y, I))],
    "as many steps as chunks": [loop(I, 64, put(Y, I))],
    "two steps": [loop(I, 2, put(Y, I))],
    "one step": [loop(I, 1, put(Y, I))],
    "steps of four": [loop(I, 100, put(Y, I), start=3, step=4)],
    "from three on": [loop(I, 67, put(Y, I), start=3)],
    "each step needs the next": [loop(I, 99, onto(Y, I, load(Y, i + 1)))],
    "left before the end": [loop(I, 99, put(Y, I), Break())],
    "in a loop without end": [Loop((loop(I, 99, put(Y, I)), Break()))],
    "the end is defined before": [LetIndex(M, as_index(40)), loop(I, as_index(M), put(Y, I))],
    "one of two definitions": [Let(T, load(X, ZERO_INDEX)), Let(U, load(X, as_index(3))),
                               loop(I, 4, put(Y, I, Read(U)))],
    "a definition of what changes": [Let(T, load(Y, as_index(3))), loop(I, 30, put(Y, I)), put(Z, ZERO_INDEX, Read(T)),
                                     loop(J, 40, put(Z, j + 1))],
    "an index": [LetIndex(M, as_index(4)), loop(I, 3, put(Y, i + M))],
    "comments": [Comment("before"), loop(I, 30, put(Y, I)), Comment("behind")],
    # loops in loops
    "few around many": [loop(I, 3, SQUARE)],
    "few around many, in steps": [loop(I, 7, SQUARE, start=1, step=2)],
    "enough around many": [loop(I, 8, SQUARE)],
    "few around many and little": [loop(I, 3, SQUARE, put(Z, I))],
    "few around many twice": [loop(I, 3, SQUARE, loop(K, 20, put(Z, i * 20 + K)))],
    "few around one thing and another": [loop(I, 3, SQUARE, loop(K, 50, put(Z, i * 50 + K, load(Y, i * 50 + K))))],
    "few around many and what follows": [loop(I, 3, SQUARE, put(Z, I, load(Y, i * 50)))],
    "few around few around many": [loop(K, 2, loop(I, 3, loop(J, 50, put(Y, k * 150 + i * 50 + J))))],
    "a triangle": [loop(I, 3, loop(J, i * 5 + 3, put(Y, i * 50 + J)))],
    "few, whose number varies": [loop(K, 2, loop(I, smallest(k + 2, as_index(3)), loop(J, 50, onto(
        Y, i * 50 + J, load(X, K)))))],
    "states": [loop(K, 5, loop(I, 60, onto(Y, I, load(X, k * 60 + I))))],
    # sums
    "a sum": SUM,
    "two sums": [zero(T), zero(U), loop(I, 100, adds(T, load(X, I)), adds(U, load(Z, I))),
                 put(Y, ZERO_INDEX, plus(Read(T), Read(U)))],
    "a short sum": [zero(T), loop(I, 3, adds(T, load(X, I))), put(Y, ZERO_INDEX, Read(T))],
    "a running sum": [zero(T), loop(I, 100, adds(T, load(X, I)), put(Y, I, Read(T)))],
    "a sum that needs another": [zero(T), Let(U, load(X, as_index(7)), True), WITH_U, put(Y, ZERO_INDEX, Read(T))],
    "a sum that needs a number": [Let(U, load(X, as_index(7))), zero(T), WITH_U, put(Y, ZERO_INDEX, Read(T))],
    "sums of rows": [loop(I, 40, zero(T), loop(J, 50, adds(T, load(X, i * 50 + J))), put(Y, I, Read(T)))],
    "sums of few rows": [loop(I, 2, zero(T), loop(J, 50, adds(T, load(X, i * 50 + J))), put(Y, I, Read(T)))],
    "sums of columns": [loop(I, 60, loop(J, 10, TO_COLUMNS))],
    "sums of columns from the first row on": [loop(I, 60, loop(J, 10, *FIRST_BEGINS))],
    "sums of columns that are changed later": [loop(I, 60, loop(J, 10, *FIRST_BEGINS)),
                                               loop(K, 10, onto(W, k, ONE))],
    "loops between uses of a sum": [zero(T), loop(I, 30, put(Y, I)), adds(T, load(X, as_index(2))),
                                    loop(J, 40, put(Z, J)), put(Y, as_index(99), Read(T)), loop(K, 9, put(Z, k + 50))],
    # working memory
    "a line of each step": [loop(I, 50, FILL, *THROUGH_LINE)],
    "a line of each step that says so": [loop(I, 50, FILL, *THROUGH_LINE, free=True)],
    "a line of the step before": [loop(I, 50, *AFTER_LINE)],
    "a line of the step before, whatever it says": [loop(I, 50, *AFTER_LINE, free=True)],
    "a line that keeps something": [loop(I, 50, loop(J, 10, put(LINE, J, load(X, i * 20 + J))), THROUGH_LINE[1])],
    "a line of few steps": [loop(I, 3, FILL, *THROUGH_LINE)],
    # neighbors and branches
    "one that may run before another": [loop(I, 30, put(Y, I)), loop(J, 40, put(Z, J, load(Y, J))),
                                        loop(K, 10, put(W, K))],
    "one that may not run before": [loop(I, 30, put(Y, I)), loop(J, 40, put(Z, J, load(Y, J))),
                                    loop(K, 10, put(W, K, load(Z, K)))],
    "one before what is no loop": [loop(I, 30, put(Y, I)), put(Z, as_index(3), load(Y, as_index(3))),
                                   loop(K, 10, put(W, K))],
    "neighbors": [loop(I, 30, put(Y, I)), loop(J, 40, put(Z, J))],
    "neighbors that share": [loop(I, 30, put(Y, I)), loop(J, 40, put(Z, J, load(Y, J)))],
    "neighbors around little": [loop(I, 30, put(Y, I)), put(Z, as_index(7)), put(Z, as_index(8)),
                                 loop(J, 40, put(Z, j + 20))],
    "branches": [loop(K, 5, later(k - 3, loop(I, 30, onto(Y, I, load(X, K))),
                                  loop(J, 40, onto(Y, J, load(X, K)))))],
    "branches on data": [If(Binary(">=", load(X, ZERO_INDEX), load(X, as_index(1)), scalar(bool_)),
                            (loop(I, 30, put(Y, I)),), (loop(J, 40, put(Z, J)),))],
    "a loop before a branch on data": [loop(K, 9, put(Y, k + 50)), If(
        Binary(">=", load(X, ZERO_INDEX), load(X, as_index(1)), scalar(bool_)), (loop(I, 30, put(Y, I)),))],
    "branches in a loop that is shared": [loop(K, 9, later(k - 3, put(Y, K), put(Z, K)))],
    "a loop in one branch": [loop(K, 5, later(k - 3, loop(I, 30, onto(Y, I, load(X, K))), put(Z, K, load(Y, K))))],
}  # fmt: skip
EXACT = ("a sum", "sums of columns", "sums of few rows")
MEMORY = [name for name in CASES if name.startswith("a line ")]
SELDOM = replace(EAGER, often=10000)
WORK: dict[str, tuple[str, Machine]] = {
    "chunks for twenty": ("even", replace(EAGER, chunk=10)), "chunks for six": ("even", replace(EAGER, chunk=30)),
    "too little to meet": ("neighbors", replace(EAGER, meeting=70)),
    "too little to wake": ("even", replace(EAGER, waking=5000)),
    "too little in each step": ("states", SELDOM),
    "too little in each step for sums": ("sums of columns", SELDOM),
    "too little in each step for sums from the first on": ("sums of columns from the first row on", SELDOM),
    "too little in each step for sums that are changed": ("sums of columns that are changed later", SELDOM),
    "too little in each branch": ("branches", replace(EAGER, meeting=120)),
}  # fmt: skip


# Kernels for all sizes --------------------------------------------------------------------------------------------

ROWS, COLUMNS = DimSymbol("N"), DimSymbol("P")
N, P = as_index(ROWS), as_index(COLUMNS)
A, B, C, E = Var("a", N), Var("b", P), Var("c", N), Var("e", N)
a, b, e = map(as_index, (A, B, E))
INSIDE = loop(C, N, put(Y, a * N * P + b * N + C))
WITH_LINE = loop(C, N, put(Y, a * N * P + b * N + C, load(LINE, as_index(3))))
START = Fill(LINE, ZERO_INDEX, as_index(40))
CALLED = Kernel("called", (X, Y), (ROWS,), (loop(A, N, put(Y, A)),))
COPY, COPIES = (Call(CALLED, (View(X), View(to))) for to in (Y, Z))
OPEN: dict[str, Sequence[Stmt]] = {
    "a loop": [loop(A, N, put(Y, A))],
    "a nest": [loop(A, N, loop(B, P, INSIDE))],
    "no nest": [loop(A, N, loop(B, P, put(Y, a * P + b)))],
    "a nest with a number": [loop(A, 3, loop(B, P, INSIDE))],
    "a nest in steps": [loop(A, N, loop(B, P, INSIDE, step=2), start=1, step=3)],
    "a nest with a definition": [loop(A, N, LetIndex(E, a * 2), loop(B, P, loop(C, N, put(
        Y, a * N * P + b * N + C, load(X, E)))))],
    "a nest to a bound of each step": [loop(A, N, LetIndex(E, smallest(a + 1, P)), loop(B, e, INSIDE))],
    "a nest to a bound": [LetIndex(E, smallest(N, as_index(4))), loop(A, N, loop(B, e, INSIDE))],
    "a nest to a bound from memory": [Let(T, load(X, ZERO_INDEX)),
                                      loop(A, N, LetIndex(E, Read(T)), loop(B, e, INSIDE))],
    "a triangle": [loop(A, N, loop(B, a + 1, loop(C, N, put(Y, a * N * N + b * N + C))))],
    "a nest that fills a line": [loop(A, N, START, loop(B, P, WITH_LINE, free=True), free=True)],
    "a loop that fills a line": [loop(A, N, START, loop(B, P, WITH_LINE), free=True)],
    "a loop that fills a line from what changes": [loop(A, N, put(LINE, as_index(3), load(Y, a * N * P)), loop(
        B, P, WITH_LINE, free=True), free=True)],
    "a loop that writes beside": [loop(A, N, put(Z, A), loop(B, P, INSIDE, free=True), free=True)],
    "two loops in a loop": [loop(A, N, LetIndex(E, a * 2), loop(B, P, INSIDE), loop(J, 10, put(Z, a * 10 + J)))],
    "two loops in a loop, of which one changes": [loop(A, N, loop(B, P, INSIDE), loop(J, 10, onto(
        Z, a * 10 + J, ONE)))],
    "two loops in a loop that need each other": [loop(A, N, loop(B, P, INSIDE), loop(J, 10, put(
        Z, a * 10 + J, load(Y, a * N * P))))],
    "left inside": [loop(A, N, loop(B, P, put(Y, a * P + b), Break()))],
    "changed rows": [loop(A, N, loop(B, P, onto(Y, a * P + b, load(X, B))))],
    "a sum": [zero(T), loop(A, N, adds(T, load(X, A))), put(Y, ZERO_INDEX, Read(T))],
    "sums of columns": [loop(A, N, loop(J, 10, put(Y, J, load(X, a * 10 + J), adds=True)))],
    "from an extreme on": [loop(A, N, put(Y, A), start=largest(N - 6, ZERO_INDEX))],
    "to an extreme": [loop(A, smallest(N, P), put(Y, A))],
    "states": [loop(A, N, loop(B, P, onto(Y, B, load(X, a * P + b))))],
    "a loop and little": [loop(I, 3, loop(B, P, loop(C, P, put(Y, i * P * P + b * P + C))), put(Z, I))],
    "branches": [later(N - 6, loop(A, N, put(Y, A)), loop(B, P, put(Z, B)))],
    "twice": [loop(I, 3, loop(A, N, loop(B, P, onto(Y, a * P + b, load(X, I)))))],
    "a call in several branches": [later(N - 9, COPY, later(P - 3, later(N - 3, loop(B, P, put(Z, B)), COPY), COPY))],
    "other calls in branches": [later(N - 3, COPY, later(P - 3, COPIES, COPY))],
}  # fmt: skip


def made() -> dict[str, str]:
    """All kernels shared out."""
    out = {n: split(body, scratch=[LINE] * (n in MEMORY)) for n, body in CASES.items()}
    out |= {f"{n}, exact": split(CASES[n], sums=False) for n in EXACT}
    out["a line that is no working memory"] = split(CASES["a line of each step"])
    out |= {n: split(CASES[name], machine) for n, (name, machine) in WORK.items()}
    for n, body in OPEN.items():
        out[f"{n}, of any size"] = split(body, scratch=[LINE] * ("line" in n), sizes={ROWS: 7, COLUMNS: 5})
    return out


@pytest.mark.slow
def test_kernels_are_shared_out(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "CHEAP", 0)
    lines = [f"{name}:\n    {text}" for name, text in made().items()]
    if request.config.getoption("--update-golden"):
        KEPT.write_text("\n".join(lines) + "\n")
    assert "\n".join(lines) + "\n" == KEPT.read_text()


def test_partial_sums_of_buffers_have_to_be_worth_it() -> None:
    """A chunk's own array is set to zero, filled and added up: too much beside little work, or beyond the caches."""
    tall, wide = loop(I, 1000, put(Y, as_index(3), load(X, I), adds=True)), CASES["sums of columns"]
    assert "partial" not in split([tall])
    assert "partial" not in split(wide)


# Small functions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("body", "is_one"), [
    ([loop(J, 3)], True), ([LetIndex(M, ZERO_INDEX), Let(T, ONE), Comment("x"), loop(J, 3)], True), ([], False),
    ([loop(J, 3), loop(K, 3)], False), ([loop(J, 3), put(Y, I)], False), ([put(Y, I)], False), ([Loop(())], False),
])  # fmt: skip
def test_loops_around_one_loop(body: list[Stmt], is_one: bool) -> None:
    assert _is_nest(loop(I, 3, *body)) is is_one


def test_loops_with_numbers_for_ends() -> None:
    assert _constant(loop(I, 3, start=1))
    assert not _constant(loop(I, as_index(J)))
    assert not _constant(loop(I, 3, start=as_index(J)))
    assert not _constant(loop(I, smallest(as_index(J), as_index(3))))


def test_calls_of_one_form_are_taken_apart_once() -> None:
    """Parameters that share a buffer are told apart from those that do not, and so are offsets in it."""
    kernel, home, other = Kernel("k", (X, Y), (), ()), buffer("home"), buffer("other")
    def form(*views: View) -> object:
        return Splitting(Call(kernel, views), {}, True, EAGER).form

    assert form(View(home), View(other)) == form(View(other), View(home))
    assert form(View(home), View(home)) == form(View(other), View(other)) != form(View(home), View(other))
    assert form(View(home), View(home, as_index(3))) != form(View(home), View(home))


def test_what_kernels_of_chunks_say_of_their_parameters() -> None:
    """What a chunk does not write is not fresh; working memory is that of the chunk; a kernel keeps its name."""
    body = (loop(I, 30, put(Y, I)), put(Z, ZERO_INDEX, load(Y, as_index(2))), put(Z, ZERO_INDEX, load(Y, as_index(3))))
    kernel = Kernel("k", (X, Y, Z, LINE), (), body, ("text",), scratch=(LINE,), fresh=frozenset({Y, Z}))
    homes = [View(replace(b, space="arena")) for b in kernel.params]
    parts = Splitting(Call(kernel, tuple(homes)), {}, True, EAGER).statements()
    shared, rest = (s.kernel for s in walk(tuple(parts)) if isinstance(s, Call))
    assert (shared.name, shared.comment, shared.params, shared.fresh) == ("k", ("text",), (X, Y), {Y})
    assert (rest.params, rest.fresh, rest.scratch, rest.indices) == ((Y, Z), {Z}, (), ())
    assert [v.name for v in shared.indices] == ["chunk"]




# Functions --------------------------------------------------------------------------------------------------------


def lone(*body: Stmt, name: str = "k", params: tuple[Buffer, ...] = (X, Y)) -> Kernel:
    return Kernel(name, params, (), body)


def test_the_gain_of_statements() -> None:
    """Loops gain in each step, of two branches the larger counts, and a chunk that is counted gains what is known."""
    def shared(trips: int) -> Parallel:
        (found,) = Splitting(Call(lone(loop(I, trips, put(Y, I))), (View(X), View(Y))), {}, True, EAGER).statements()
        assert isinstance(found, Parallel)
        return found

    small, large = shared(30), shared(600)
    little, much = (float(_gain((s,), EAGER, {})) for s in (small, large))
    assert 0 < little < much
    yes, no = Holds((cond(">=", as_index(I)),)), put(Y, I)
    for body, gain in [
        ((small, large), little + much), ((loop(I, 5, small),), 5 * little),
        ((loop(I, 9, small, start=1, step=4),), 2 * little),
        ((Loop((small,)),), little), ((If(yes, (small,), (large,)),), much),
        ((If(yes, (large,), (small,)),), much),
        ((If(yes, (small,)),), little), ((no, Comment("")), 0),
        ((Loop((loop(I, 3, small, no), large)),), 3 * little + much),
        ((Parallel((*small.tasks, *large.tasks)),), little + much),
    ]:  # fmt: skip
        assert float(_gain(body, EAGER, {})) == pytest.approx(gain)
    assert float(_gain((small,), EAGER, {small.tasks[0].chunk: (7.0, 3.0, False)})) == 7.0


HOMES = {X: replace(X, space="input"), Y: replace(Y, space="output"), Z: replace(Z, space="output")}


def function(*body: Stmt, machine: Machine = EAGER, in_place: tuple[tuple[int, int], ...] = ()) -> Function:
    return Function("f", (HOMES[X],), (HOMES[Y], HOMES[Z]), body, in_place=in_place, machine=machine)


def called(to: Buffer, source: Buffer = X, kernel: Kernel | None = None) -> Call:
    return Call(kernel or lone(loop(I, 30, put(Y, I))), (View(HOMES[source]), View(HOMES[to])))


def shares(*body: Stmt, in_place: tuple[tuple[int, int], ...] = ()) -> int:
    """How many parallel statements there are."""
    return shown(parallelize(function(*body, in_place=in_place)).body).count("share")


def test_neighboring_calls_meet_once_where_they_are_independent() -> None:
    assert shares(called(Y), called(Z)) == 1
    assert shares(called(Y), called(Z, Y)) == 2
    assert shares(called(Y), called(Y)) == 2
    assert shares(called(Y), Fill(HOMES[Z], ZERO_INDEX, as_index(1)), called(Z)) == 2


def test_a_kernel_that_calls_another_in_a_branch_is_shared_out_there() -> None:
    inner, line = lone(loop(I, 30, put(Y, I))), lone(loop(I, 30, put(Y, I)), loop(J, 30, put(Y, J, load(Y, j + 1))))
    for n in (1, 2):
        branch = later(as_index(ROWS) - 6, Call(inner, (View(X), View(Y))), Call(line, (View(X), View(Y))))
        kernel = Kernel("k", (X, Y), (ROWS,), (branch,))
        calls = [called(to, kernel=kernel) for to in (Y, Z)[:n]]
        text = shown(parallelize(replace(function(*calls), dims=(ROWS,))).body)
        assert text.count("share 30") == 2 * n, text


def test_outputs_that_lie_where_inputs_do_are_one_array() -> None:
    assert shares(called(Y), called(Z), in_place=((0, 0),)) == 2
    assert shares(called(Y), called(Z), in_place=((1, 0),)) == 2


def test_a_function_with_little_to_gain_stays() -> None:
    made = function(called(Y), machine=replace(EAGER, waking=30 * 2))
    assert isinstance(parallelize(made).body[0], Parallel)
    made = function(called(Y), machine=replace(EAGER, waking=30 * 9))
    assert parallelize(made) is made


def test_calls_of_one_kernel_are_taken_apart_once() -> None:
    """Those whose arrays share places alike; the second call is on its own arrays, in chunks of the same kernel."""
    kernel = lone(loop(I, 30, put(Y, I)))
    known: Any = {}
    made = parallelize(function(*(called(to, kernel=kernel) for to in (Y, Z))), True, known)
    assert len(known) == 1
    (both,) = made.body
    assert isinstance(both, Parallel)
    first, second = both.tasks
    assert first.call.kernel is second.call.kernel
    assert [a.buffer for t in both.tasks for a in t.call.arguments] == [HOMES[X], HOMES[Y], HOMES[X], HOMES[Z]]
    again = parallelize(function(called(Z, kernel=kernel)), True, known)
    assert len(known) == 1 and isinstance(again.body[0], Parallel)
    assert again.body[0].tasks[0].call.kernel is first.call.kernel


def test_working_memory_of_a_call_is_its_own() -> None:
    """Also where the kernel was taken apart for another call."""
    kernel = lone(*SUM)
    made = parallelize(function(*(called(to, kernel=kernel) for to in (Y, Z))))
    calls = [s for s in walk(made.body) if isinstance(s, Call)]
    partial = [a.buffer for c in calls for a in c.arguments if a.buffer.space == "arena"]
    assert len(partial) == 4 and len(set(partial)) == 2
    assert all(b.elements.constant == 15 for b in partial)
    own = [p for c in calls for p in c.kernel.params if p.name == "partial"]
    assert [(p.space, p.elements.constant, p.dtype) for p in own] == [("parameter", 15, f64)] * 4


def test_two_threads_have_equal_numbers_of_chunks() -> None:
    """Whatever the work: 7 chunks would be 4 and 3."""
    texts = [split([loop(I, 1000, put(Y, I))], replace(EAGER, chunk=chunk)) for chunk in range(100, 900, 50)]
    counts = {int(text.split()[1]) for text in texts}
    assert len(counts) > 4
    assert all(n % 2 == 0 for n in counts)
