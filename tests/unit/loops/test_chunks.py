"""Loops in chunks: all chunks together take each step of a nest once; what a worker has for itself it fills anew."""

from __future__ import annotations

from collections import Counter

import pytest

from pullback.ir.index import ZERO_INDEX, Var, as_index
from pullback.ir.types import f32
from pullback.loops.program.nodes import Call, Fill, For, Kernel, LetIndex, Parallel, Stmt, Store, walk
from pullback.loops.program.values import Buffer, Literal, Load, Type, View, smallest
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
