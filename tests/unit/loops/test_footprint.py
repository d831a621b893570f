"""`loops.analysis.footprint`: which iterations and statements touch different elements of rows that lie apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pullback.ir.index import ZERO_INDEX, Index, Var, as_index
from pullback.ir.types import f32
from pullback.loops.analysis.footprint import collide, independent, touched
from pullback.loops.program.nodes import Call, For, Kernel, Stmt, Store
from pullback.loops.program.values import Buffer, Literal, Type, View

OUT = Buffer("out", f32, (as_index(4096),), "parameter", as_index(4096), True)
PLACES = {OUT: View(OUT)}


def loop(extent: int, body: Callable[[Index], Stmt], step: int = 1) -> For:
    v = Var("v", as_index(extent))
    return For(v, ZERO_INDEX, as_index(extent), (body(as_index(v)),), step)


def store(at: Index, lanes: int = 1) -> Stmt:
    return Store(OUT, at, Literal(0.0, Type(f32, lanes)))


def columns(first: int, lanes: int) -> Kernel:
    """A kernel that writes some columns of eight rows which lie `stride` apart."""
    stride = Var("stride", as_index(1 << 40))
    to = Buffer("to", f32, (as_index(4096),), "parameter", as_index(4096), True)
    row = Var("row", as_index(8))
    offset = as_index(stride) * as_index(row) + first
    body = For(row, ZERO_INDEX, as_index(8), (Store(to, offset, Literal(0.0, Type(f32, lanes))),))
    return Kernel("columns", (to,), (stride,), (body,))


def call(kernel: Kernel, at: Index, stride: int) -> Call:
    return Call(kernel, (View(OUT, at),), (as_index(stride),))


@pytest.mark.parametrize(("step", "apart"), [(4, True), (3, False)])
def test_rows_that_are_written(step: int, apart: bool) -> None:
    by_row = loop(12, lambda row: store(row * step, 4))
    assert (independent(by_row, PLACES, {}) == frozenset()) is apart


def test_loops_in_steps_keep_to_their_places() -> None:
    def rows(width: int) -> For:
        return loop(128, lambda panel: store(panel, width), step=32)

    assert independent(rows(32), PLACES, {}) == frozenset()
    assert independent(rows(33), PLACES, {}) == {OUT}


@pytest.mark.parametrize(("first", "lanes", "aside"), [(32, 16, True), (31, 16, False), (40, 16, False), (0, 4, False)])
def test_statements_side_by_side_in_rows(first: int, lanes: int, aside: bool) -> None:
    left, right = (touched((call(columns(at, n), ZERO_INDEX, 49),), PLACES, {}) for at, n in ((1, 31), (first, lanes)))
    assert collide(left, right) is not aside


def test_how_many_elements_are_touched() -> None:
    assert touched((call(columns(0, 4), ZERO_INDEX, 100),), PLACES, {}).elements == {OUT: 32}


def some_writes(random: np.random.Generator) -> tuple[For, set[int]]:
    """Writes in rows: several loops over blocks of vectors and a remainder; with the elements that they touch."""
    body: list[Stmt] = []
    elements: set[int] = set()
    row = Var("row", as_index(3))
    for _ in range(random.integers(1, 4)):
        first, blocks, vectors, rest = (int(n) for n in random.integers((0, 1, 0, 1), (48, 4, 3, 4)))
        block, at = vectors * 4 + rest, Var("block", as_index(blocks))
        start = as_index(row) * 64 + as_index(at) * block + first
        parts = (loop(vectors * 4, lambda k, start=start: store(start + k, 4), 4),  # type: ignore[misc]
                 loop(rest, lambda k, start=start + vectors * 4: store(start + k)))  # type: ignore[misc]
        body.append(For(at, ZERO_INDEX, at.extent, parts[0 if vectors else 1 :]))
        elements |= {r * 64 + n + first for r in range(3) for n in range(blocks * block)}
    return For(row, ZERO_INDEX, row.extent, tuple(body)), elements


def test_what_touches_the_same_elements_collides() -> None:
    random = np.random.default_rng(0)
    found = {True: 0, False: 0}
    for _ in range(1500):
        (a, left), (b, right) = some_writes(random), some_writes(random)
        both = collide(touched((a,), PLACES, {}), touched((b,), PLACES, {}))
        assert both or left.isdisjoint(right)
        found[both] += 1
    assert found[False] > 20
