"""Packed products for all sizes: every way to read the operands, at the edges of tiles and of blocks."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.dims import evaluate
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.loops.memory.verify import verify_function
from pullback.loops.program.nodes import Call, walk
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import lower_program
from pullback.runtime.executor import compile_general

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
    rng = np.random.default_rng(1)
    program = parse_program(f"product({PRODUCTS[name]} return y }}")
    general = compile_general(program)
    verify_function(general.lowered.function, general.lowered.memory)
    assert not general.record.straight, "a unit with loops would not be optimised"
    for n, m, k in SIZES:
        dims = {"N": n, "M": m, "K": k}
        if name == "two sums" and m * k > 6000:
            continue
        shapes = [[evaluate(d, dims) for d in r.shape] for r in program.inputs]
        inputs = [rng.standard_normal(s).astype(r.dtype.numpy) for s, r in zip(shapes, program.inputs, strict=True)]
        (wanted,) = interpret(program, inputs)
        executable = general.at(dims)
        outputs, peak, stray = executable.run_poisoned(inputs)
        assert peak <= executable.arena_bytes
        assert not stray
        tolerance = 1e-3 if wanted.dtype == np.float32 else 1e-9
        np.testing.assert_allclose(outputs[0], wanted, rtol=tolerance, atol=tolerance, err_msg=f"{dims}")


@pytest.mark.parametrize("name", ["rows", "turned", "both", "rest", "chosen", "batch"])
def test_products_are_packed(name: str) -> None:
    function = lower_program(parse_program(f"product({PRODUCTS[name]} return y }}"), {}).function
    kernels = [s.kernel for s in walk(function.body) if isinstance(s, Call)]
    assert any(isinstance(s, Call) and s.kernel.name.startswith("multiply") for k in kernels for s in walk(k.body))
