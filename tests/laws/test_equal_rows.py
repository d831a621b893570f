"""The law of equal rows: what is summed of equal elements is equal to the last bit, wherever in its array it stands.

In tiles and in what is left beside them, at the edges of packed blocks and of borders, in any vectors, for sizes that
are known and for all, with threads and without, each element of a statement is summed in the same order. So classes
of a network that tie by their weights tie by their values. One thing is left out: a single column beside whole
vectors of a packed product may be a dot product along the sum, which is a quarter faster for 7 x 7 pixels; it is the
same in all rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from pullback.ir.dims import evaluate
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.loops.product import blocking
from pullback.loops.threads import splitting
from pullback.machine import cpu_features, native
from pullback.runtime import executor
from pullback.runtime.compile import compiler_command
from pullback.runtime.executor import compile_general, compile_program
from tests.packing import pack_all
from tests.widths import WIDTHS, run_at

pytestmark = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
NDArray = np.ndarray[Any, Any]
CLANG = next((c for c in ("clang-21", "clang-20", "clang-19", "clang") if shutil.which(c)), "")
HERE = [w for w in WIDTHS if w[0] < 64 or "avx512f" in cpu_features()]


@dataclass(frozen=True)
class Case:
    """A program: of each input the axes along which it varies, of each output those along which it must not."""

    text: str
    varies: tuple[tuple[int, ...], ...]
    same: tuple[tuple[int, ...], ...]
    inner: tuple[slice, ...] = ()  # the part of outputs that is asked about, all where it is empty

    def check(self, outputs: Sequence[NDArray], what: object) -> None:
        for name, y, axes in zip("pqrstu", outputs, self.same, strict=False):
            y = np.ascontiguousarray(y[self.inner])
            bits = y.view(f"u{y.itemsize}")
            first = bits[tuple(slice(0, 1) if k in axes else slice(None) for k in range(y.ndim))]
            assert (bits == first).all(), f"{name}: {(bits != first).sum()} of {y.size} differ, {what}"


PRODUCTS = Case(
    """products(a: {t}[M, K], b: {t}[K, N], c: {t}[K, M], d: {t}[N, K], x: {t}[K]) {{
      p = build i < M, j < N {{ sum k < K {{ a[i, k] * b[k, j] }} }}
      q = build i < M, j < N {{ sum k < K {{ a[i, k] * d[j, k] }} }}
      r = build i < M, j < N {{ sum k < K {{ c[k, i] * b[k, j] }} }}
      s = build j < N, i < M {{ maximum(sum k < K {{ c[k, i] * d[j, k] }}, 0.25) }}
      t = build i < M {{ sum k < K {{ a[i, k] * x[k] }} }}
      u = build i < M {{ sum k < K {{ c[k, i] * x[k] }} }}
      return p, q, r, s, t, u }}""",
    ((1,), (0,), (0,), (1,), (0,)), ((0, 1),) * 4 + ((0,),) * 2,
)  # fmt: skip
# rows beside columns of one matrix, and what is normalized along rows
ROWS = Case(
    """rows(a: {t}[M, K], x: {t}[K], y: {t}[M]) {{
      p = build i < M {{ sum k < K {{ a[i, k] * x[k] }} }}
      q = build k < K {{ sum i < M {{ a[i, k] * y[i] }} }}
      e = build i < M, k < K {{ a[i, k] * a[i, k] + 0.5 }}
      n = build i < M {{ sum k < K {{ e[i, k] }} }}
      r = build i < M, k < K {{ e[i, k] / n[i] }}
      m = build i < M {{ sum k < K {{ a[i, k] }} }}
      s = build i < M {{ sum k < K {{ (a[i, k] - m[i]) * (a[i, k] - m[i]) }} }}
      return p, q, r, s }}""",
    ((1,), (0,), (0,)), ((0,), (), (0,), (0,)),
)  # fmt: skip
LONE = replace(PRODUCTS, same=((0,),) * 3 + ((1,),) + ((0,),) * 2)
COLUMNS = Case(ROWS.text, ((0,), (0,), (0,)), ((), (0,), (), ()))
WINDOWS = Case(
    """windows(x: {t}[B, C, H, W], w: {t}[O, C, 3, 3]) {{
      p = build b < B, o < O, i < H - 2, j < W - 2 {{
        sum c < C, u < 3, v < 3 {{ x[b, c, i + u, j + v] * w[o, c, u, v] }} }}
      q = build b < B, o < O, i < (H - 3) // 2 + 1, j < (W - 3) // 2 + 1 {{
        sum c < C, u < 3, v < 3 {{ x[b, c, 2 * i + u, 2 * j + v] * w[o, c, u, v] }} }}
      return p, q }}""",
    ((1,), (1, 2, 3)), ((0, 1, 2, 3),) * 2,
)  # fmt: skip
PADDED = Case(
    """padded(x: {t}[B, C, H, W], w: {t}[O, C, 3, 3]) {{
      p = build b < B, o < O, i < H, j < W {{ sum c < C, u < 3, v < 3 {{
        [i + u >= 1, i + u <= H, j + v >= 1, j + v <= W] x[b, c, i + u - 1, j + v - 1] * w[o, c, u, v] }} }}
      return p }}""",
    ((1,), (1, 2, 3)), ((0, 1, 2, 3),), (slice(None), slice(None), slice(1, -1), slice(1, -1)),
)  # fmt: skip
EDGES = replace(PADDED, same=((0, 1),), inner=())
MATRICES = (PRODUCTS, LONE, ROWS, COLUMNS)
SIZES = [(5, 18, 40), (13, 35, 131), (37, 50, 300), (51, 131, 301), (100, 31, 67)]
SINGLE = [(5, 17, 40), (49, 129, 301), (97, 49, 513)]
IMAGES = [(2, 3, 12, 13, 5), (1, 16, 9, 10, 33), (1, 8, 30, 31, 3), (2, 40, 9, 11, 13)]


def dims_of(case: Case, sizes: Sequence[int]) -> dict[str, int]:
    return dict(zip("MNK" if case in MATRICES else "BCHWO", sizes, strict=True))


def made(case: Case, dtype: str, dims: dict[str, int]) -> tuple[Program, list[NDArray]]:
    """The program, and inputs that are equal along all axes but those named."""
    random, program = np.random.default_rng(3), parse_program(case.text.format(t=dtype))
    inputs = []
    for r, axes in zip(program.inputs, case.varies, strict=True):
        shape = [evaluate(d, dims) for d in r.shape]
        own = random.normal(size=[n if k in axes else 1 for k, n in enumerate(shape)])
        inputs.append(np.ascontiguousarray(np.broadcast_to(own.astype(r.dtype.numpy), shape)))
    return program, inputs


ALL: list[tuple[Case, Sequence[int]]] = [(case, sizes) for case in MATRICES
                                         for sizes in (SINGLE if case is LONE else SIZES)]
ALL += [(case, sizes) for case in (WINDOWS, PADDED, EDGES) for sizes in IMAGES]
NAMED = [pytest.param(*c, id="-".join([c[0].text.partition("(")[0], *map(str, c[1])])) for c in ALL]


@pytest.mark.parametrize("case, sizes", NAMED)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_at_every_width(case: Case, sizes: Sequence[int], dtype: str) -> None:
    dims = dims_of(case, sizes)
    program, inputs = made(case, dtype, dims)
    for width, flags in HERE if dtype == "f32" else HERE[-2:-1]:
        case.check(run_at(program, dims, inputs, width, flags), (width, flags))


@pytest.mark.slow
@pytest.mark.skipif(not CLANG, reason="clang is not installed")
@pytest.mark.parametrize("case", [ROWS, COLUMNS], ids=["rows", "columns"])
def test_with_clang(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of 13 and 16 steps, which clang unrolls: with `-ffp-contract=fast` it fuses other products of theirs."""
    monkeypatch.setenv("CC", CLANG)
    test_at_every_width(case, SIZES[1], "f32")


@pytest.mark.parametrize("case, sizes", NAMED[1:5:2] + NAMED[-9::4])
def test_packed(case: Case, sizes: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> None:
    pack_all(monkeypatch, blocking.Blocks(48, 4096, 8192, 2048, 16384))
    dims = dims_of(case, sizes)
    program, inputs = made(case, "f32", dims)
    case.check(compile_program(program, dims).run(inputs), "packed")


@pytest.mark.parametrize("case", [PRODUCTS, ROWS, COLUMNS, WINDOWS, PADDED, EDGES])
def test_for_all_sizes(case: Case) -> None:
    program, _ = made(case, "f32", dims_of(case, SIZES[0] if case in MATRICES else IMAGES[0]))
    general = compile_general(program)
    for sizes in [(1, 1, 9), (3, 2, 5), *SIZES] if case in MATRICES else IMAGES:
        dims = dims_of(case, sizes)
        case.check(general.at(dims).run(made(case, "f32", dims)[1]), dims)


@pytest.mark.parametrize("case, sizes", NAMED[3:15:5] + NAMED[-11::4])
def test_with_threads(case: Case, sizes: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> None:
    eager = replace(native(), meeting=1, chunk=1, waking=1)
    monkeypatch.setattr(executor, "native", lambda: eager)
    monkeypatch.setattr(splitting, "CHEAP", 0)
    dims = dims_of(case, sizes)
    program, inputs = made(case, "f32", dims)
    case.check(compile_program(program, dims, 3).run(inputs), "three threads")
