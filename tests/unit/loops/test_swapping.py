"""Moves by hand: programs of copies, followed statement by statement."""

from __future__ import annotations

import pytest

from pullback.ir.index import as_index
from pullback.ir.types import f64
from pullback.loops.memory.plan import plan
from pullback.loops.memory.swapping import swapped
from pullback.loops.program.nodes import Copy, Function, Stmt
from pullback.loops.program.values import Buffer, Space, View

SIZE = 1000


def array(name: str, space: Space = "arena") -> Buffer:
    return Buffer(name, f64, (as_index(SIZE),), space, as_index(SIZE))


def copy(target: Buffer, source: Buffer) -> Copy:
    return Copy(View(target), View(source), as_index(SIZE))


def outputs_of(body: tuple[Stmt, ...], memory: dict[Buffer, str]) -> dict[str, str]:
    """The content of outputs by name after the copies."""
    for s in body:
        assert isinstance(s, Copy)
        memory[s.target.buffer] = memory[s.source.buffer]
    return {b.name: content for b, content in memory.items() if b.space == "output"}


@pytest.mark.parametrize("again", [False, True])
def test_an_array_that_leaves_twice(again: bool) -> None:
    """An array is copied out again if a statement wrote it meanwhile, and only then."""
    x, z = array("x", "input"), array("z", "input")
    results = [array(f"y{k}", "output") for k in range(4)]
    a, b, c = array("a"), array("b"), array("c")
    between = copy(a, z) if again else copy(results[3], a)
    body = (copy(a, x), copy(b, x), copy(results[0], b), between, copy(c, x), copy(results[1], c), copy(results[2], a))
    function = Function("copies", (x, z), tuple(results), body)
    made = swapped(function, plan(function), SIZE * 8)
    assert made is not None
    moved, memory = made
    assert (memory.resident_bytes, memory.swap_bytes) == (SIZE * 8, SIZE * 8)
    out = [s for s in moved.body if isinstance(s, Copy) and s.target.buffer.space == "swap"]
    assert len(out) == 1 + again
    assert outputs_of(moved.body, {x: "x", z: "z"}) == outputs_of(body, {x: "x", z: "z"})


def test_moves_that_do_not_suffice() -> None:
    """Every statement uses the array, or another one as large, so that nothing can leave."""
    x, y = array("x", "input"), array("y", "output")
    a, b = array("a"), array("b")
    function = Function("copies", (x,), (y,), (copy(a, x), copy(b, a), copy(y, b)))
    assert swapped(function, plan(function), SIZE * 8) is None
