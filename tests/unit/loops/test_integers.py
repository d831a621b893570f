"""Integers, and numbers stored as smaller ones, in tiles: the interpreter's values at every width of vectors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from pullback.ir.dims import evaluate
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.machine import of_width
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import emit_c
from tests.widths import WIDTHS, Run, run_all_at

SUM = "build n < N, m < M { sum k < K { %s } }"
PROGRAMS = {
    "product": "f(a: i32[N, K], b: i32[K, M]) { y = " + SUM % "a[n, k] * b[k, m]" + " return y }",
    "short product": "f(a: i16[N, K], b: i16[K, M]) { y = " + SUM % "a[n, k] * b[k, m]" + " return y }",
    "product of bytes": "f(a: u8[N, K], b: i8[K, M]) { y = " + SUM % "i32(a[n, k]) * i32(b[k, m])" + " return y }",
    "squares": "f(a: i64[N, K]) { y = build n < N { sum k < K { a[n, k] * a[n, k] } } return y }",
    "bytes": "f(a: u8[N, K]) { y = build n < N { sum k < K { a[n, k] } } return y }",
    "largest": "f(a: i32[N, K]) { y = build n < N { max k < K { a[n, k] } } return y }",
    "smallest": "f(a: u16[N, K]) { y = build k < K { min n < N { a[n, k] } } return y }",
    "elements": """f(a: i32[N, K], b: i32[N, K]) { y = build n < N, k < K {
      maximum(a[n, k] * 7 + b[n, k], bitwise_xor(a[n, k], b[n, k])) } return y }""",
    "weights of a byte": "f(a: i8[N, K], x: f32[K]) { y = build n < N { sum k < K { f32(a[n, k]) * x[k] } } return y }",
    "wider sum": "f(a: f32[N, K], x: f64[K]) { y = build n < N { sum k < K { f64(a[n, k]) * x[k] } } return y }",
    "masked": "f(a: i32[N, M]) { y = build m < M { sum n < N { [m >= n] a[n, m] } } return y }",
}


DIMS = {"long": {"N": 9, "K": 37, "M": 21}, "short": {"N": 4, "K": 5, "M": 3}}


def runs() -> Iterator[tuple[str, Run]]:
    """Each program at each size, with inputs over the whole range of their types."""
    for (name, text), (size, numbers) in product(PROGRAMS.items(), DIMS.items()):
        program, rng = parse_program(text), np.random.default_rng(0)
        dims = {d: n for d, n in numbers.items() if d in text}
        given = []
        for r in program.inputs:
            shape = [evaluate(d, dims) for d in r.shape]
            if r.dtype.is_floating:
                given.append(rng.normal(size=shape).astype(r.dtype.numpy))
            else:
                low, high = r.dtype.minimum, r.dtype.maximum
                given.append(rng.integers(low, high, shape, dtype=r.dtype.numpy, endpoint=True))
        yield f"{name}, {size}", (program, dims, given)


@pytest.mark.slow
@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
@pytest.mark.parametrize(("vector_bytes", "flags"), WIDTHS, ids=["16", "32", "64", "portable"])
def test_integers_agree_with_the_interpreter(vector_bytes: int, flags: tuple[str, ...]) -> None:
    names, cases = zip(*runs(), strict=True)
    for name, (program, _, given), (found,) in zip(names, cases, run_all_at(cases, vector_bytes, flags), strict=True):
        with np.errstate(over="ignore"):
            (expected,) = interpret(program, given)
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-3, err_msg=name)
        else:
            np.testing.assert_array_equal(found, expected, err_msg=name)


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_integers_are_in_vectors(text: str) -> None:
    dims = {d: n for d, n in {"N": 16, "K": 64, "M": 32}.items() if d in text}
    assert "vector_size" in emit_c(parse_program(text), dims, machine=of_width(32)).text
