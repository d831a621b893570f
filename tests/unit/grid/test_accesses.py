"""Accesses of neighboring threads, the order of loops, and elements that a thread reads at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks.accesses import apart, main, of_kernel
from pullback.grid.accesses import Seen, in_order, launch_accesses, orders
from pullback.grid.lanes import Lanes
from pullback.grid.rows import rows_of
from pullback.ir.index import Var, as_index
from pullback.ir.parser import parse_program
from pullback.loops.program.nodes import Copy, For, kernels_of, walk
from pullback.runtime.device.export import lowered_for

pytestmark = pytest.mark.slow

LARGE = 1 << 20


def seen(text: str, **dims: int) -> Iterator[Seen]:
    """The accesses of a program's kernels."""
    for k in kernels_of(lowered_for(parse_program(text), dims).function.body):
        for group in k.body:
            assert isinstance(group, For)
            yield from launch_accesses(group)


def kinds(text: str, **dims: int) -> dict[str, str]:
    return {x.buffer.name: x.kind for x in seen(text, **dims)}


@pytest.mark.parametrize(("text", "dims", "wanted"), [
    ("f(x: f32[N]) { y = build n < N { x[n] * 2.0 } return y }", {"N": 999}, {"x": "contiguous", "y": "contiguous"}),
    ("f(x: f32[N]) { y = build n < N { x[N - 1 - n] } return y }", {"N": 999}, {"x": "contiguous", "y": "contiguous"}),
    ("f(x: f32[N], w: f32[]) { y = build n < N { x[n] * w } return y }", {"N": 99}, {"w": "equal", "y": "contiguous"}),
    ("f(x: f32[N, M]) { y = build n < N { x[n, 1] } return y }", {"N": 999, "M": 9}, {"x": "strided"}),
    ("f(x: f32[N], at: i64[M]) { y = build m < M { x[check(at[m], N)] } return y }", {"N": 999, "M": 99},
     {"x": "scattered", "at": "contiguous"}),
], ids=["elements", "backward", "equal", "strided", "scattered"])  # fmt: skip
def test_kinds(text: str, dims: dict[str, int], wanted: dict[str, str]) -> None:
    assert kinds(text, **dims).items() >= wanted.items()


def test_bytes_and_sectors() -> None:
    """A strided access moves a sector for each element."""
    asked, moved = Counter[str](), Counter[str]()
    for x in seen("f(x: f32[N, M]) { y = build n < N { x[n, 1] } return y }", N=1024, M=16):
        asked[x.buffer.name] += int(x.bytes)
        moved[x.buffer.name] += int(x.moved)
    assert (asked, moved) == ({"x": 4096, "y": 4096}, {"x": 32 * 1024, "y": 4096})


def test_order_of_loops() -> None:
    """Neighboring threads access neighbors in the arrays that have most bytes."""
    text = "f(x: f32[M, K, N], z: f32[M, K, N]) { y = build n < N, m < M, k < 4 { x[m, k, n] + z[m, k, n] } return y }"
    assert kinds(text, N=200, M=50, K=4).items() >= {"x": "contiguous", "z": "contiguous"}.items()
    n, m = Var("n", 5), Var("m", 7)
    assert orders((n, m), [as_index(m) * 5 + as_index(n)]) == [(n, m), (m, n)]


def test_warps() -> None:
    """Threads of a warp have row-major positions, and touch whole sectors of rows."""
    n, m = Var("n", 8), Var("m", 8)
    warp = in_order((n, m), np.arange(32))
    assert warp.touched(as_index(n) * 8 + as_index(m), 4) == (1.0, 1.0)
    assert warp.touched(as_index(m) * 8 + as_index(n), 4)[0] == 2.0


@pytest.mark.parametrize(("dims", "copies"), [
    ({"N": LARGE, "M": 4}, 2), ({"N": LARGE // 4 + 1, "M": 5}, 2), ({"N": 100, "M": 4}, 0)],
    ids=["rows", "a remainder", "few elements"])  # fmt: skip
def test_elements_of_a_thread(dims: dict[str, int], copies: int) -> None:
    """A thread reads and writes 16 bytes at once if there are many elements."""
    text = "f(x: f32[N, M]) { y = build n < N, m < M { exp(x[n, m]) } return y }"
    [k] = kernels_of(lowered_for(parse_program(text), dims).function.body)
    assert sum(isinstance(s, Copy) for s in walk(k.body)) == copies
    assert apart(of_kernel(k)) == 0


def test_lanes() -> None:
    assert [Lanes(n).levels for n in (2, 8, 16, 64, 256)] == [1, 1, 2, 2, 3]
    assert Lanes(8, 128, True, 4).threads == 256


@pytest.mark.parametrize(("second", "members"), [
    ("build n < N, m < M { x[n, m] - s[n] }", 2), ("build n < N, m < M { x[n, m] - s[N - 1 - n] }", None),
    ("build m < M { x[0, m] - s[0] }", None), ("build n < N { s[n] * 2.0 }", 2)],
    ids=["elements", "other rows", "other sizes", "values"])  # fmt: skip
def test_chains(second: str, members: int | None) -> None:
    """Statements join if they read what others made at their own place."""
    text = f"f(x: f64[N, M]) {{ s = build n < N {{ max m < M {{ x[n, m] }} }} y = {second} return s, y }}"
    made = parse_program(text)
    sizes = {"N": 50, "M": 64}
    found = lowered_for(made, sizes)
    fused = [k for k in kernels_of(found.function.body) if k.choice is not None and k.choice.name == "rows"]
    assert len(fused) == (members is not None)
    assert rows_of(()) is None


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["apl largest"]) == 0
    assert "contiguous" in capsys.readouterr().out
