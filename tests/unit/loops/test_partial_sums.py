"""Partial sums and parts of a kernel: which sums may be taken apart, where parts lie, and what a part needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from pullback.ir.index import ZERO_INDEX, Index, Var, as_index, cond
from pullback.ir.types import DType, f32, f64, i64
from pullback.loops.program.nodes import (
    Assign,
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
    Task,
    either,
    walk,
)
from pullback.loops.program.values import (
    Binary,
    BinaryOp,
    Buffer,
    Literal,
    Load,
    Read,
    Temp,
    Type,
    Unary,
    Value,
    View,
    scalar,
    smallest,
)
from pullback.loops.threads.partial_sums import (
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
    Piece,
    Region,
    all_pieces,
    buffers_in,
    following,
    names_in,
    needed,
    pieces_of,
)
from tests.support.equivalence.field import Array, Field
from tests.support.equivalence.loops import run

I, J = Var("i", 6), Var("j", 6)


def buffer(name: str, count: int = 100, dtype: DType = f64, space: str = "parameter") -> Buffer:
    return Buffer(name, dtype, (), space, as_index(count))  # type: ignore[arg-type]


X, Y = buffer("x"), buffer("y")
T, U = Temp("t", scalar(f64)), Temp("u", scalar(f64))


def load(at: Index | Var = I, b: Buffer = X) -> Load:
    return Load(b, as_index(at), scalar(f64))


def over(*body: Stmt, step: int = 1) -> For:
    return For(I, ZERO_INDEX, as_index(6), body, step)


def adds(t: Temp, op: BinaryOp = "+", value: Value | None = None) -> Assign:
    return Assign(t, Binary(op, Read(t), value or load(), t.type))


def begins(t: Temp, value: float, mutable: bool = True) -> Let:
    return Let(t, Literal(value, t.type), mutable)


def ran(body: Sequence[Stmt], inputs: dict[Buffer, Array], out: Buffer) -> list[int]:
    """What the statements leave in a buffer, of whole numbers."""
    rows = [np.asarray(a, np.uint64).reshape(-1, 1) for a in inputs.values()]
    (found,), _ = run(Field(1), Function("f", tuple(inputs), (out,), tuple(body)), rows, {})
    return [int(x) for x in found[:, 0]]


# Which sums may be taken apart ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("op", "value", "is_one"), [
    ("+", 0.0, True), ("+", -0.0, True), ("+", 1.0, False), ("*", 1.0, True), ("*", 0.0, False),
    ("max", -np.inf, True), ("max", 0.0, False), ("max", np.inf, False), ("min", np.inf, True), ("min", 0.0, False),
    ("-", 0.0, False), ("/", 1.0, False), ("||", 0.0, False),
])  # fmt: skip
def test_a_sum_begins_with_what_changes_nothing(op: BinaryOp, value: float, is_one: bool) -> None:
    assert accumulators(over(adds(T, op)), [begins(T, value)]) == ({T: op} if is_one else None)


def test_a_sum_begins_with_a_number_of_floating_point() -> None:
    """Integers may be shared out without, and what is no number may be anything."""
    whole = Temp("w", scalar(i64))
    added = Assign(whole, Binary("+", Read(whole), Literal(1, scalar(i64)), scalar(i64)))
    assert accumulators(over(added), [Let(whole, Literal(0, scalar(i64)), True)]) is None
    assert accumulators(over(adds(T)), [Let(T, load(ZERO_INDEX), True)]) is None
    assert accumulators(over(adds(T)), [Let(T, Unary("-", Literal(0.0, scalar(f64)), scalar(f64)), True)]) is None


@pytest.mark.parametrize(("body", "found"), [
    ([adds(T)], {T: "+"}),
    ([adds(T), adds(U)], {T: "+", U: "+"}),
    ([adds(T), adds(T)], {T: "+"}),
    ([For(J, ZERO_INDEX, as_index(6), (adds(T),))], {T: "+"}),
    ([], {}),
    ([adds(T), adds(T, "*")], None),
    ([adds(T, "*")], None),  # begins with 0
    ([Assign(T, load())], None),
    ([Assign(T, Binary("+", load(), Read(T), scalar(f64)))], None),
    ([Assign(T, Binary("+", Read(U), load(), scalar(f64)))], None),
    ([adds(T, value=Read(T))], None),
    ([adds(T, value=Read(U))], None),
    ([adds(T), Store(Y, as_index(I), Read(T))], None),  # a running sum
    ([Let(Temp("own", scalar(f64)), load()), adds(T)], {T: "+"}),
])  # fmt: skip
def test_a_loop_only_adds(body: Sequence[Stmt], found: object) -> None:
    assert accumulators(over(*body), [begins(T, 0.0), begins(U, 0.0)]) == found


def test_temporaries_that_do_not_change_are_none_of_the_sums() -> None:
    fixed = begins(U, 0.0, mutable=False)
    assert accumulators(over(adds(T, value=Read(U))), [begins(T, 0.0), fixed]) == {T: "+"}
    assert accumulators(over(adds(U)), [begins(T, 0.0), fixed]) == {}


def test_what_iterations_only_add_to() -> None:
    """For each buffer, whether the first iteration begins it anew."""
    def found(*body: Stmt, step: int = 1) -> object:
        return added_buffers(over(*body, step=step), frozenset({Y}), {X: View(X), Y: View(Y)}, {}, (0, 5))

    plus = Store(Y, as_index(3), load(), accumulate=True)
    assert found(plus) == {Y: False}
    assert found() == {}
    assert found(Store(X, as_index(I), load(ZERO_INDEX, Y)), plus) is None
    assert found(Store(Y, as_index(3), load())) is None
    first = either(cond(">=", as_index(I) - 1), (plus,), (Store(Y, as_index(3), load()),))
    assert found(*first) == {Y: True}
    second = either(cond(">=", as_index(I) - 2), (plus,), (Store(Y, as_index(3), load()),))
    assert found(*second) is None  # two iterations begin it
    assert found(*second, step=2) == {Y: True}
    assert found(Store(X, as_index(I), load())) == {}


# Where parts lie --------------------------------------------------------------------------------------------------

WIDE = Temp("v", Type(f64, 4))
SINGLE = Temp("s", scalar(f32))


def test_elements_of_each_type() -> None:
    assert temporaries([T, WIDE, SINGLE, U]) == {"f64": 6, "f32": 1}
    assert temporaries([]) == {}


@pytest.mark.parametrize("chunks", [1, 3])
def test_partial_sums_of_temporaries_are_added_up(chunks: int) -> None:
    """Each chunk keeps its own beside those of others; whatever memory held before, the result is the sum."""
    chunk = Var("chunk", chunks)
    partial, out = buffer("partial", 5 * chunks, space="arena"), buffer("out", 5, space="output")
    x = buffer("x", 5 * 6, space="input")
    ops: dict[Temp, BinaryOp] = {WIDE: "+", T: "*"}
    start, keep, add = temporary_sums(ops, chunk, {"f64": partial})
    size = 6 // chunks
    at = as_index(I) * 5
    body = (Assign(WIDE, Binary("+", Read(WIDE), Load(x, at, WIDE.type), WIDE.type)),
            Assign(T, Binary("*", Read(T), Load(x, at + 4, T.type), T.type)))
    loop = For(I, as_index(chunk) * size, as_index(chunk) * size + size, body)
    whole = For(chunk, ZERO_INDEX, as_index(chunks), (*start, loop, *keep))
    ends = (Store(out, ZERO_INDEX, Read(WIDE)), Store(out, as_index(4), Read(T)))
    given = np.arange(1, 31).reshape(6, 5) % 7 + 1
    lets = begins(WIDE, 0.0), begins(T, 1.0)
    found = ran((*lets, whole, *lets, add, *ends), {x: given}, out)
    assert found == [*given[:, :4].sum(0), given[:, 4].prod()]
    assert [s.mutable for s in start if isinstance(s, Let)] == [True, True]


@pytest.mark.parametrize("anew", [True, False])
@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_partial_sums_of_a_buffer_are_added_up(chunks: int, anew: bool) -> None:
    target, partial = buffer("target", 3, space="output"), buffer("partial", 3 * chunks, space="input")
    before = buffer("before", 3, space="input")
    given = np.arange(3 * chunks).reshape(chunks, 3) + 5
    copied = For(J, ZERO_INDEX, as_index(3), (Store(target, as_index(J), load(J, before)),))
    found = ran([copied, buffer_sum(target, partial, chunks, anew)], {partial: given, before: np.full(3, 100)}, target)
    assert found == (given.sum(0) + (0 if anew else 100)).tolist()


def test_a_chunk_sets_its_own_part_to_zero() -> None:
    target, partial = buffer("target", 3), buffer("partial", 9, space="output")
    chunk, x = Var("chunk", 3), buffer("x", 9, space="input")
    fill = For(J, ZERO_INDEX, as_index(9), (Store(partial, as_index(J), load(J, x)),))
    one = For(chunk, as_index(1), as_index(2), (zeros(partial, target, chunk),))
    assert ran([fill, one], {x: np.arange(1, 10)}, partial) == [1, 2, 3, 0, 0, 0, 7, 8, 9]


def test_what_is_stored_moves_elsewhere_and_nothing_else() -> None:
    k = Kernel("k", (X,), (), ())
    call, chunk = Call(k, (View(Y, as_index(2)),)), Var("chunk", 3)
    store, read = Store(Y, as_index(I), load(I, Y), True), Let(T, load(I, Y))
    test = Literal(True, scalar(f64))
    body = (over(store), Loop((store,)), If(test, (store,), (call,)), Parallel((Task(call, chunk),)), read, call)
    to = lambda v: View(X, v.offset + 7) if v.buffer is Y else v
    loop, forever, choice, parallel, same, called = moved(body, to)
    assert same is read
    for s in walk((loop, forever, choice)):
        if isinstance(s, Store):
            assert (s.buffer, s.offset, s.value, s.accumulate) == (X, as_index(I) + 7, store.value, True)
    assert [type(s) for s in walk((loop, forever, choice))] == [For, Store, Loop, Store, If, Store, Call]
    assert isinstance(parallel, Parallel) and parallel.tasks[0].chunk is chunk
    assert isinstance(choice, If) and isinstance(called, Call)
    for c in (parallel.tasks[0].call, called, choice.otherwise[0]):
        assert isinstance(c, Call) and c.kernel is k
        assert [(v.buffer, v.offset) for v in c.arguments] == [(X, as_index(9))]


# What a part needs ------------------------------------------------------------------------------------------------


def test_definitions_that_statements_use() -> None:
    a, b, c = (Temp(n, scalar(f64)) for n in "abc")
    k, m = Var("k", 9), Var("m", 9)
    lets = (Let(a, load(ZERO_INDEX)), Let(b, Read(a)), LetIndex(k, as_index(m)), Let(c, Read(b)),
            LetIndex(m, as_index(4)))  # fmt: skip
    body = (Store(Y, as_index(k), Read(b)),)
    assert needed(body, lets) == (lets[0], lets[1], lets[2], *body)
    assert needed((Store(Y, as_index(m), load()),), lets)[:-1] == (lets[4],)
    assert needed(body, ()) is body
    assert needed((), lets) == ()


def test_shared_definitions_stand_once() -> None:
    one, two, three = begins(T, 0.0), begins(U, 0.0), begins(T, 0.0)
    assert following((one, two), (two, three, one)) == (one, two, three)
    assert following((), (one,)) == (one,)


def test_names_and_buffers_of_statements() -> None:
    n = Var("n", 9)
    body = (For(I, ZERO_INDEX, smallest(as_index(5), as_index(n)), (adds(T), Store(Y, as_index(J), Read(U)))),)
    assert names_in(body) >= {T, U, I, J, n}
    assert names_in((Assign(T, load(ZERO_INDEX)),)) == {T}
    z = buffer("z")
    call = Call(Kernel("k", (X,), (), ()), (View(z),))
    assert buffers_in((*body, call, Comment("x"))) == {X, Y, z}
    assert buffers_in((Copy(View(z), View(X), as_index(2)), Fill(Y, ZERO_INDEX, as_index(2)))) == {X, Y, z}


def test_the_pieces_of_parts() -> None:
    a, b, c, d, e = (Piece((), (Comment(n),)) for n in "abcde")
    inside = Around(over(), (Region((b, c)),), (d,))
    assert all_pieces((a, inside, e)) == [a, b, c, d, e]
    assert pieces_of(Region((a, b))) == (a, b)
    assert pieces_of(a) == (a,)
