"""`loops.program.nodes`: temporaries that nothing reads are left out."""

from __future__ import annotations

from pullback.ir.index import ZERO_INDEX, Var, as_index
from pullback.ir.types import f64
from pullback.loops.program.nodes import Assign, For, If, Let, Loop, Stmt, Store, walk, without_unread
from pullback.loops.program.values import Binary, Buffer, Holds, Literal, Read, Temp, scalar

REAL = scalar(f64)
OUT = Buffer("y", f64, (as_index(4),), "parameter", as_index(4), True)
ONE = Literal(1.0, REAL)


def let(name: str, *reads: Let, mutable: bool = False) -> Let:
    """A temporary that is the sum of others."""
    value: Literal | Binary = ONE
    for other in reads:
        value = Binary("+", value, Read(other.temp), REAL)
    return Let(Temp(name, REAL), value, mutable)


def store(read: Let) -> Store:
    return Store(OUT, ZERO_INDEX, Read(read.temp))


def names(body: tuple[Stmt, ...]) -> list[str]:
    """The temporaries that are made, in order."""
    return [s.temp.name for s in walk(without_unread(body)) if isinstance(s, Let)]


def test_chains_of_what_is_not_read_go() -> None:
    a = let("a")
    b = let("b", a)
    used = let("used", a)
    assert names((a, b, let("c", b), used, store(used))) == ["a", "used"]


def test_what_is_assigned_is_made_first() -> None:
    total = let("total", mutable=True)
    assert names((total, Assign(total.temp, ONE), store(let("other")))) == ["total"]


def test_bodies_of_loops_and_branches() -> None:
    outside, then, never = let("outside"), let("then"), let("never")
    inside = let("inside", outside)
    for around in (
        lambda body: For(Var("i", 4), ZERO_INDEX, as_index(4), body),
        Loop,
        lambda body: If(Holds(()), body),
        lambda body: If(Holds(()), (), body),
    ):
        assert names((outside, never, around((inside, never, store(inside))))) == ["outside", "inside"]
    assert names((then, outside, If(Holds(()), (store(then),), (store(outside), never)))) == ["then", "outside"]


def test_what_stays_is_the_same() -> None:
    a = let("a")
    body: tuple[Stmt, ...] = (a, For(Var("i", 4), ZERO_INDEX, as_index(4), (store(a),)))
    assert all(new is old for new, old in zip(without_unread(body), body, strict=True))
