"""Loops in chunks: all chunks together take each step of a nest once; what a worker has for itself it fills anew."""

from __future__ import annotations

from collections import Counter

import pytest

from pullback.ir.index import ZERO_INDEX, Var, as_index, cond
from pullback.ir.types import f32
from pullback.loops.program.nodes import Call, Fill, For, If, Kernel, LetIndex, Parallel, Stmt, Store, walk
from pullback.loops.program.values import Buffer, Holds, Literal, Load, Type, View, smallest
from pullback.loops.threads.chunks import open_cut
from pullback.loops.threads.splitting import Splitting
from pullback.machine import GENERIC
from tests.unit.loops.test_separate import Steps

OUT = Buffer("out", f32, (as_index(4096),), "parameter", as_index(4096), True)
ONE = Literal(1.0, Type(f32))


def nest() -> list[For]:
    """Three rows of steps of two from one on, each with as many columns as both bounds allow."""
    i, j, k = Var("i", 3), Var("j", 8), Var("k", 5)
    store = Store(OUT, as_index(i) * 64 + as_index(j) * 8 + as_index(k), ONE)
    inner = For(k, ZERO_INDEX, smallest(as_index(5), as_index(7)), (store,))
    middle = For(j, as_index(1), as_index(8), (LetIndex(Var("aside", 8), as_index(j)), inner), 2)
    return [For(i, ZERO_INDEX, as_index(3), (middle,)), middle, inner]


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("chunks", [1, 2, 3, 7, 12, 59, 60, 64])
def test_each_step_is_in_one_chunk(depth: int, chunks: int) -> None:
    cut = open_cut(nest()[:depth], 64)
    count = cut.chunk.extent.single
    assert count is not None
    taken: Counter[int] = Counter()
    for chunk in range(chunks):
        taken.update(at for _, at in Steps({}).body(cut.body, {count: chunks, cut.chunk: chunk}, {}).writes)
    assert taken == Counter(at for _, at in Steps({}).body(nest()[:1], {}, {}).writes)
    assert len(taken) == 60


def side_by_side() -> For:
    """Rows of two loops with a test between them, which the last row fails."""
    i, j, k = Var("i", 5), Var("j", 9), Var("k", 9)
    row = as_index(i) * 32
    test = If(Holds((cond(">=", 3 - as_index(i)),)), (Store(OUT, row + 9, ONE),))  # type: ignore[arg-type]
    first = For(j, as_index(1), as_index(8), (Store(OUT, row + as_index(j), ONE),), 3)
    second = For(k, ZERO_INDEX, smallest(as_index(4), as_index(7)), (Store(OUT, row + 10 + as_index(k), ONE),))
    return For(i, ZERO_INDEX, as_index(5), (LetIndex(Var("aside", 5), as_index(i)), first, test, second))


@pytest.mark.parametrize("outer", [0, 1])
@pytest.mark.parametrize("chunks", [1, 2, 3, 7, 12, 39, 40, 64])
def test_loops_side_by_side_are_cut_together(outer: int, chunks: int) -> None:
    loop = side_by_side()
    o = Var("o", 2)
    nest = [For(o, ZERO_INDEX, as_index(2), (loop,)), loop][1 - outer :]
    cut = open_cut(nest, 64, 3)
    count = cut.chunk.extent.single
    assert count is not None
    taken: Counter[int] = Counter()
    for chunk in range(chunks):
        taken.update(at for _, at in Steps({}).body(cut.body, {count: chunks, cut.chunk: chunk}, {}).writes)
    whole = {at for _, at in Steps({}).body(nest[:1], {}, {}).writes}
    assert taken.keys() == whole
    assert outer or taken == Counter(whole)
    assert len(whole) == 5 * (3 + 4) + 4


def parts(loops_fill: bool, independent: bool) -> bool:
    """Whether a loop over windows of a line with zeros around them, written once or by each step, is shared out."""
    x = Buffer("x", f32, (as_index(4096),), "parameter", as_index(4096))
    line = Buffer("line", f32, (as_index(12),), "parameter", as_index(12), True)
    v = Var("v", 400)
    begin = Fill(line, ZERO_INDEX, as_index(12))
    body: tuple[Stmt, ...] = (
        Store(line, as_index(2), Load(x, as_index(v) * 8, Type(f32, 8))),
        Store(OUT, as_index(v) * 10, Load(line, ZERO_INDEX, Type(f32, 10))),
    )
    loop = For(v, ZERO_INDEX, v.extent, (begin, *body) if loops_fill else body, independent=independent)
    kernel = Kernel("k", (x, OUT, line), (), (loop,) if loops_fill else (begin, loop), scratch=(line,))
    homes = {b: Buffer(b.name, f32, b.shape, "arena", b.elements) for b in (x, OUT, line)}
    machine = GENERIC.__class__(**{**GENERIC.__dict__, "meeting": 1, "chunk": 1, "waking": 1})
    call = Call(kernel, tuple(View(homes[b]) for b in kernel.params))
    return any(isinstance(s, Parallel) for s in walk(tuple(Splitting(call, {}, False, machine).statements())))


def test_zeros_written_once_are_not_a_workers_own() -> None:
    """A worker's copy would have none of what was written before the loop."""
    assert parts(loops_fill=True, independent=True)
    assert not parts(loops_fill=False, independent=False)
