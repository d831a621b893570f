"""C for all sizes at every edge of its vectors: what is left of an axis, stretches that may be empty, short sums."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.dims import evaluate
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.loops.program.nodes import kernels_of
from pullback.machine import AVX512
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import lower_program
from pullback.runtime.executor import compile_general
from tests.guarded import guarded

needs_compiler = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")

SUMS = {
    "sum": "x: {t}[N, M], s: {t}[N]) {{ y = build n < N {{ sum m < M {{ x[n, m] }} }}",
    "scaled": "x: {t}[N, M], s: {t}[N]) {{ y = build n < N {{ sum m < M {{ s[n] * x[n, m] }} }}",
    "max": "x: {t}[N, M], s: {t}[N]) {{ y = build n < N {{ max m < M {{ x[n, m] }} }}",
    "min": "x: {t}[N, M], s: {t}[N]) {{ y = build n < N {{ s[n] - min m < M {{ x[n, m] }} }}",
    "distance": "x: {t}[N, M], s: {t}[N]) {{ y = build n < N {{ sum m < M {{ (x[n, m] - s[n]) * (x[n, m] - s[n]) }} }}",
    "exponentials": "x: {t}[N, M], s: {t}[N]) {{ y = build n < N {{ sum m < M {{ exp(x[n, m]) }} }}",
}
MAPS = {
    "group": "e = build n < N, m < M { exp(x[n, m]) } y = build n < N { sum m < M { e[n, m] } } return e, y }",
    "masked": "y = build n < N, m < M { [n >= m] x[n, m] + as_f32(m) } return y }",
    "tile": "y = build n < N, m < M { exp(x[n, m]) * x[n, 0] } return y }",
}
STRETCHES = {
    "pooling": "y = build n < N, m < M { [N // 2 >= n // 2 + 1, M // 2 >= m // 2 + 1] x[n // 2, m // 2] } return y }",
    "thirds": "y = build n < N, m < M { [M // 3 >= m // 3 + 1] [m % 3 == n % 3] x[n, m // 3] } return y }",
    "border": "y = build n < N + 2, m < M + 3 { [n >= 1, N >= n, m >= 2, M + 1 >= m] x[n - 1, m - 2] } return y }",
    "diagonal": "y = build n < N, m < M { [m >= 1] [n >= m] x[n, m - 1] } return y }",
    "data": "y = build n < N, m < M { [M // 2 >= m // 2 + 1] (x[n, m] > 0.0 ? x[n, m // 2] : x[n, m]) } return y }",
}
SIZES = [(1, m) for m in range(1, 20)] + [(2, 31), (3, 33), (13, 10), (25, 48), (12, 70), (5, 129), (14, 3)]
MORE = [(2, 4), (3, 5), (4, 17), (5, 34)]


@needs_compiler
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", SUMS)
def test_short_and_long_sums(name: str, dtype: str) -> None:
    check(f"f({SUMS[name].format(t=dtype)} return y }}", SIZES)


@needs_compiler
@pytest.mark.parametrize("name", MAPS)
def test_what_is_left_of_rows(name: str) -> None:
    check(f"f(x: f32[N, M]) {{ {MAPS[name]}", SIZES)


@needs_compiler
@pytest.mark.parametrize("name", STRETCHES)
def test_stretches_that_may_be_empty(name: str) -> None:
    check(f"f(x: f32[N, M]) {{ {STRETCHES[name]}", [(n, m) for n, m in (*SIZES, *MORE) if n > 1 and m > 2])


@needs_compiler
def test_what_is_infinite_stays_outside_of_lanes_that_do_not_count() -> None:
    program = parse_program(f"f({SUMS['scaled'].format(t='f32')} return y }}")
    x, s = np.ones((3, 5), np.float32), np.array([np.inf, -1.0, 2.0], np.float32)
    (found,) = compile_general(program).at({"N": 3, "M": 5}).run([x, s])
    np.testing.assert_array_equal(found, [np.inf, -5.0, 10.0])


@pytest.mark.parametrize("name", ["pooling", "border", "data"])
def test_stretches_are_taken(name: str) -> None:
    function = lower_program(parse_program(f"f(x: f32[N, M]) {{ {STRETCHES[name]}"), {}, machine=AVX512).function
    assert [k.choice.name for k in kernels_of(function.body) if k.choice is not None] == ["stretches"]


def check(text: str, sizes: list[tuple[int, int]]) -> None:
    """C for all sizes gives what the interpreter does, and reads nothing beside its arrays."""
    program = parse_program(text)
    general = compile_general(program)
    rng = np.random.default_rng(0)
    for n, m in sizes:
        dims = {"N": n, "M": m}
        shapes = [tuple(evaluate(d, dims) for d in r.shape) for r in program.inputs]
        drawn = [rng.normal(size=s).astype(r.dtype.numpy) for s, r in zip(shapes, program.inputs, strict=True)]
        inputs = [guarded(x) for x in drawn]
        outputs, _, stray = general.at(dims).run_poisoned(inputs)
        assert not stray
        for found, wanted in zip(outputs, interpret(program, inputs), strict=True):
            near = 2e-5 if wanted.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(found, wanted, rtol=near, atol=near, err_msg=f"{dims}")
