"""Arrays joined along their first axis are made in place; what cannot be is copied, with the same values."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.loops.program.nodes import Call, Copy, walk
from pullback.runtime.executor import Executable, compile_program

N, M = 40, 9

# Parts that do not merge with what joins them: sums, so that they stay statements.
A = "a = build i < N { sum k < N { x[i] * x[k] } }"
B = "b = build i < M { sum k < N { y[i] * x[k] } }"
JOIN = "c = build i < N + M { [N - 1 >= i] a[i] + [i >= N] b[i - N] }"

IN_PLACE = {
    "two parts": f"{A} {B} {JOIN} return c",
    "a reshaped part": """a = build i < 8, j < 5 { sum k < N { x[i] * x[k] * y[j] } }
        b = build i < M { sum k < N { y[i] * x[k] } }
        c = build i < N + M { [N - 1 >= i] a[i // 5, i % 5] + [i >= N] b[i - N] } return c""",
    "parts of parts": f"""{A} {B} {JOIN} d = build i < M {{ sum k < N + M {{ y[i] * c[k] }} }}
        e = build i < N + M + M {{ [N + M - 1 >= i] (sum k < 1 {{ c[i] }}) + [i >= N + M] d[i - N - M] }}
        return d, c""",
    "an array inside": f"""{A} {B} {JOIN} d = build i < M {{ sum k < N + M {{ y[i] * c[k] * c[k] }} }} return d""",
    "rows of stacked rows": """a = build i < M { sum k < N { y[i] * x[k] } }
        b = build i < M { sum k < N { a[i] + x[k] } }
        s, r = fold t < 3 (v = b) {
            p = build i < M { sum k < M { y[i] * v[k] } }
            q = build i < M { sum k < M { v[i] + y[k] } }
            c = build j < 2, i < M { [j == 0] p[i] + [j == 1] q[i] }
            w = build i < M { 0.5 * v[i] }
            yield w, c }
        return r""",
}

OTHERS = {
    "an input": f"{B} c = build i < N + M {{ [N - 1 >= i] x[i] + [i >= N] b[i - N] }} return c",
    "a part of the result": f"{A} {B} {JOIN} return c, a",
    "a part twice": f"{A} c = build i < N + N {{ [N - 1 >= i] a[i] + [i >= N] a[i - N] }} return c",
    "a part read later": f"{A} {B} {JOIN} d = build i < M {{ sum k < N {{ a[k] * b[i] }} }} return c, d",
    "something between": f"""{A} {B} c = build i < N + 3 + M {{ [N - 1 >= i] a[i] + [i >= N + 3] b[i - N - 3] }}
        return c""",
    "what went in": f"""{A} c = build i < N + M {{ [N - 1 >= i] a[i] + [i >= N] 2.0 * y[i - N] }} return c""",
    "a new state": """u = fold t < 3 (v = x) {
            p = build i < M { sum k < N { v[k] * y[i] * 0.01 } }
            q = build i < N - M { sum k < N { v[k] * v[i] * 0.01 } }
            c = build i < N { [M - 1 >= i] p[i] + [i >= M] q[i - M] }
            yield c }
        return u""",
    "a number that comes second": """t = build { prod m < 2, p < 2 { x[0] * y[m] } }
        c = build i < 3 { [0 >= i, 1 >= i] 0.5 * x[i] * y[1] + t } return c""",
    "a reader in place": f"{A} {B} {JOIN} d = build i < N + M {{ c[i] * c[i] + c[0] }} return d",
}


def run(text: str) -> Executable:
    program = parse_program(f"joined(x: f64[N], y: f64[M]) {{ {text} }}")
    dims = {"N": N, "M": M}
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(N), rng.standard_normal(M)]
    executable = compile_program(program, dims)
    made = executable.run_poisoned(inputs)
    assert (made.peak, made.stray) == (executable.lowered.memory.peak, 0)
    for got, wanted in zip(made.outputs, interpret(program, inputs, dims), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)
    return executable


@pytest.mark.parametrize("text", IN_PLACE.values(), ids=IN_PLACE)
def test_parts_are_made_in_place(text: str) -> None:
    body = tuple(walk(run(text).lowered.function.body))
    assert not any(isinstance(s, Copy) for s in body)
    assert any(isinstance(s, Call) and any(v.offset.constant != 0 for v in s.arguments) for s in body)


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_other_joins_have_the_same_values(text: str) -> None:
    run(text)
