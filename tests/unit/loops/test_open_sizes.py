"""Packed products for all sizes: every way to read the operands, at the edges of tiles and of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from pullback.ir.dims import evaluate
from pullback.ir.index import Index
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.loops.memory.verify import verify_function
from pullback.loops.product import blocking, packed
from pullback.loops.program.nodes import Call, For, Kernel, walk
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import lower_program
from pullback.runtime.executor import compile_general
from tests.guarded import guarded
from tests.packing import pack_all

PRODUCTS = {
    "rows": "x: f64[N, M], w: f64[M, K]) { y = build n < N, k < K { sum m < M { x[n, m] * w[m, k] } }",
    "turned": "x: f32[N, M], w: f32[K, M]) { y = build n < N, k < K { sum m < M { x[n, m] * w[k, m] } }",
    "both": "x: f64[M, N], w: f64[K, M]) { y = build n < N, k < K { sum m < M { x[m, n] * w[k, m] } }",
    "rest": "x: f64[N, M], w: f64[K, M], b: f64[K]) "
    "{ y = build n < N, k < K { tanh(sum m < M { x[n, m] * w[k, m] } + b[k]) }",
    "chosen": "x: f64[N, M], w: f64[K, M], h: f64[N, K]) "
    "{ y = build n < N, k < K { h[n, k] >= 0.0 ? sum m < M { x[n, m] * w[k, m] } : {} }",
    "batch": "x: f64[3, N, M], w: f64[3, K, M]) "
    "{ y = build b < 3, n < N, k < K { sum m < M { x[b, n, m] * w[b, k, m] } }",
    "guarded": "x: f64[N, M], w: f64[K, M]) "
    "{ y = build n < N, k < K { sum m < M { [m <= k] x[n, m] * w[k, M - 1 - m] } }",
    "window": "x: f64[M, K + 2], w: f64[N, M, 3]) "
    "{ y = build n < N, k < K { sum m < M, v < 3 { w[n, m, v] * x[m, k + v] } }",
    "few columns": "x: f64[N, M], w: f64[10, M]) { y = build n < N, k < 10 { sum m < M { x[n, m] * w[k, m] } }",
    "two sums": "x: f64[N, M, K], w: f64[K, M, K]) "
    "{ y = build n < N, k < K { sum m < M, j < K { x[n, m, j] * w[k, m, j] } }",
}
SIZES = [(1, 1, 1), (8, 8, 8), (9, 17, 33), (6, 600, 8), (33, 300, 17), (300, 9, 600), (47, 31, 33)]


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    program = parse_program(f"product({PRODUCTS[name]} return y }}")
    sizes = [{"N": n, "M": m, "K": k} for n, m, k in SIZES if name != "two sums" or m * k <= 6000]
    assert_right(program, sizes)


def assert_right(program: Program, sizes: Sequence[dict[str, int]]) -> list[Kernel]:
    """Its C for all sizes gives what the interpreter does, in the memory that it says it needs, and reads no other.

    Returns the kernels that it calls.
    """
    rng = np.random.default_rng(1)
    general = compile_general(program)
    verify_function(general.lowered.function, general.lowered.memory)
    found = general.record
    assert found.threaded or not found.straight, "a unit with loops would not be optimized"
    kernels = [s.kernel for s in walk(general.lowered.function.body) if isinstance(s, Call)]
    loops = [s for k in kernels for s in walk(k.body) if isinstance(s, For)]
    trips = [s.upper - s.lower for s in loops if isinstance(s.upper, Index) and isinstance(s.lower, Index)]
    assert all(n.constant is None or n.constant > 0 for n in trips), "a loop of no trips"
    for dims in sizes:
        shapes = [[evaluate(d, dims) for d in r.shape] for r in program.inputs]
        drawn = [rng.standard_normal(s).astype(r.dtype.numpy) for s, r in zip(shapes, program.inputs, strict=True)]
        inputs = [guarded(x) for x in drawn]
        wanted = interpret(program, inputs)
        executable = general.at(dims)
        outputs, peak, stray = executable.run_poisoned(inputs)
        assert peak <= executable.arena_bytes
        assert not stray
        for found, right in zip(outputs, wanted, strict=True):
            tolerance = 1e-3 if right.dtype == np.float32 else 1e-9
            np.testing.assert_allclose(found, right, rtol=tolerance, atol=tolerance, err_msg=f"{dims}")
    return kernels


@pytest.mark.parametrize("name", ["rows", "turned", "both", "rest", "chosen", "batch"])
def test_products_are_packed(name: str) -> None:
    function = lower_program(parse_program(f"product({PRODUCTS[name]} return y }}"), {}).function
    kernels = [s.kernel for s in walk(function.body) if isinstance(s, Call)]
    assert any(isinstance(s, Call) and s.kernel.name.startswith("multiply") for k in kernels for s in walk(k.body))


LEFT = {
    "rows": ("[M, K, L]", "x[m, k, l]"),
    "turned": ("[K, L, M]", "x[k, l, m]"),
    "apart": ("[K, M, L]", "x[k, m, l]"),
    "strided": ("[M, 2 * K, L]", "x[m, 2 * k, l]"),
    "evaluated": ("[M, K, L]", "x[m, k, l] * s[k]"),
    "guarded": ("[M, K, L]", "[m >= k] x[m, k, l]"),
}
"""How the left operand lies: its array, and its element for m and steps k, l of the sum."""

RIGHT = {
    "rows": ("[K, L, I, J]", "w[k, l, i, j]"),
    "turned": ("[I, J, K, L]", "w[i, j, k, l]"),
    "elements": ("[J, K, I, L]", "w[j, k, i, l]"),
    "every second": ("[K, L, I, 2 * J]", "w[k, l, i, 2 * j]"),
    "every second row": ("[K, L, 2 * I, J]", "w[k, l, 2 * i, j]"),
    "window": ("[K, I + L, J]", "w[k, i + l, j]"),
    "image": ("[I + K, J + L]", "w[i + k, j + l]"),
    "overlapping rows": ("[K, I + J + L]", "w[k, i + j + l]"),
}
"""How the right operand lies: its array, and its element for columns i, j and steps k, l of the sum."""

RESTS = {
    "sum": "{}",
    "rest": "tanh({} + v[j])",
    "chosen": "v[j] >= 0.0 ? {} : {{}}",
    "update": "z[m, i, j] - 0.5 * {}",
}
"""What a statement makes of its sum."""

BATCHES = {"none": ("", ""), "left": ("b, ", ""), "right": ("", "b, "), "both": ("b, ", "b, ")}
"""Which operands have a variable more, that of a batch."""

OPEN_SIZES = [(1, 1, 1, 1, 1), (8, 2, 16, 4, 8), (9, 5, 7, 5, 3), (33, 5, 13, 3, 11), (40, 1, 40, 40, 1),
              (32, 2, 33, 33, 2), (35, 40, 3, 3, 40), (3, 1, 12, 9, 4), (6, 2, 10, 3, 5),
              (15, 3, 9, 2, 17), (12, 2, 17, 41, 2), (7, 1, 18, 83, 1), (20, 4, 4, 2, 21)]  # fmt: skip
"""M, I, J, K and L below, at and above the edges of tiles of 8 rows and of blocks of 32 steps, 16 rows, 64 columns.

Of tiles at an edge at most half of the rows exist or more, and at most half of the columns or more.
"""


@pytest.fixture
def always_packed(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Packing whatever the estimates say, with blocks so small that modest sizes cross their edges."""
    pack_all(monkeypatch, blocking.Blocks(32, 4096, 512 * 1024, 16 * 1024, 16384))
    monkeypatch.setattr(packed, "PACKED", 1)
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    yield


def assert_packed(text: str, sizes: Sequence[tuple[int, ...]], names: str) -> None:
    """A program of one statement is packed, and right."""
    calls = assert_right(parse_program(text), [dict(zip(names, s, strict=True)) for s in sizes])
    assert any(b.name == "panels_b" for k in calls for b in k.scratch)


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
@pytest.mark.parametrize("right", RIGHT)
@pytest.mark.parametrize("left", LEFT)
@pytest.mark.usefixtures("always_packed")
def test_operands_however_they_lie(left: str, right: str) -> None:
    (x, a), (w, b) = LEFT[left], RIGHT[right]
    text = f"product(x: f64{x}, w: f64{w}, s: f64[K], e: f64[I, J]) " + "{" + (
        f" y = build m < M, i < I, j < J {{ sum k < K, l < L {{ {a} * {b} }} }} return y }}")
    assert_packed(text, OPEN_SIZES, "MIJKL")


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
@pytest.mark.parametrize("rest", RESTS)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.usefixtures("always_packed")
def test_whatever_is_made_of_the_sum(batch: str, rest: str) -> None:
    own, axis, outer = ("", "", "") if batch == "none" else ("b, ", "B, ", "b < B, ")
    x, w = BATCHES[batch]
    value = RESTS[rest].format(f"sum k < K {{ x[{x}m, k] * w[{w}i, j, k] }}").replace("z[", f"z[{own}")
    text = (
        f"product(x: f64[{x.upper()}M, K], w: f64[{w.upper()}I, J, K], v: f64[J], z: f64[{axis}M, I, J]) "
        f"{{ y = build {outer}m < M, i < I, j < J {{ {value} }} return y }}"
    )
    sizes = [s[:4] if batch == "none" else (3, *s[:4]) for s in OPEN_SIZES]
    assert_packed(text, sizes, "MIJK" if batch == "none" else "BMIJK")


GIVEN = {"M": 35, "I": 3, "J": 40, "K": 40, "L": 2}
SUBSETS = [(), "M", "IJ", "KL", "J", "L", "MIJ", "MKL", "IJKL"]


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
@pytest.mark.parametrize("given", SUBSETS)
@pytest.mark.usefixtures("always_packed")
def test_some_axes_given(given: str) -> None:
    for x, w, batch in (("m, k, l", "k, l, i, j", ""), ("b, k, l, m", "b, i, j, k, l", "b < B, ")):
        shapes = ", ".join(f"{name}: f64[{', '.join(i.upper() for i in at.split(', '))}]"
                           for name, at in (("x", x), ("w", w)))
        text = (
            f"product({shapes}) {{ y = build {batch}m < M, i < I, j < J "
            f"{{ sum k < K, l < L {{ x[{x}] * w[{w}] }} }} return y }}"
        )
        for name in given:
            text = text.replace(name, str(GIVEN[name]))
        names = [n for n in "MIJKL" if n not in given]
        sizes = [dict(zip("MIJKL", s, strict=True)) for s in OPEN_SIZES]
        assert_right(parse_program(text), [{n: d[n] for n in names} | ({"B": 2} if batch else {}) for d in sizes])


SWEPT = {
    "rows": "x: f32[N, M], w: f32[M, K]) { y = build n < N, k < K { sum m < M { x[n, m] * w[m, k] } }",
    "left across": "x: f64[M, N], w: f64[M, K]) { y = build n < N, k < K { sum m < M { x[m, n] * w[m, k] } }",
    "a vector": "x: f64[M], w: f64[M, K]) { y = build k < K { sum m < M { x[m] * w[m, k] } }",
    "a width": "x: f64[N, M], w: f64[M, 37]) { y = build n < N, k < 37 { sum m < M { x[n, m] * w[m, k] } }",
}


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
@pytest.mark.parametrize("name", SWEPT)
def test_few_rows_are_swept(name: str) -> None:
    program = parse_program(f"product({SWEPT[name]} return y }}")
    dims = {a.name for r in program.inputs for d in r.shape for a in d.symbols}
    sizes = [(1, 8, 16), (2, 17, 33), (3, 1, 40), (4, 9, 3000), (7, 40, 1700), (300, 30, 40), (7, 5, 7)]
    kernels = assert_right(program, [{n: d for n, d in zip("NMK", s, strict=True) if n in dims} for s in sizes])
    inside = [s.kernel.name for k in kernels for s in walk(k.body) if isinstance(s, Call)]
    assert any(name.startswith("add_rows") for name in inside)


ALONG = {
    "product": "sum m < M { x[n, m] * w[k, m] }",
    "bias": "v[k] + sum m < M { x[n, m] * w[k, m] }",
    "distance": "sum m < M { (x[n, m] - w[k, m]) * (x[n, m] - w[k, m]) } / 2.0",
    "largest": "max m < M { x[n, m] + w[k, m] }",
}
"""Sums along the memory of all that they read."""


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", ALONG)
def test_few_rows_and_columns_along_memory(name: str, dtype: str) -> None:
    """Tiles of two axes, of one, of none, and not along a sum that is short: at, below and above what each needs."""
    text = (f"product(x: {dtype}[N, M], w: {dtype}[K, M], v: {dtype}[K]) "
            f"{{ y = build n < N, k < K {{ {ALONG[name]} }} return y }}")
    few = (1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 17, 25)
    pairs = [*zip(few, reversed(few), strict=True), *((n, 10) for n in few), *((10, k) for k in few)]
    long = (1, 10, 31, 64, 67, 127, 128, 131, 300)
    assert_right(parse_program(text), [{"N": n, "K": k, "M": long[(n + at) % 9]} for at, (n, k) in enumerate(pairs)])


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_a_matrix_as_large_as_those_that_are_swept_with_rows_of_open_number() -> None:
    value = "sum k < 500 { x[n, k] * w[k, j] }"
    text = f"product(x: f32[N, 500], w: f32[500, 1000]) {{ y = build n < N, j < 1000 {{ {value} }} return y }}"
    assert_right(parse_program(text), [{"N": n} for n in (1, 2, 5, 40)])
