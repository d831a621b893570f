"""Positions in few bytes."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.traverse import specialize
from pullback.ir.verify import verify
from pullback.passes.narrow import narrow_positions
from pullback.runtime.executor import compile_program

TEXT = """blocks(x: f64[N, K]) {
  p in [0, K) = build n < N { argmax k < K { x[n, k] } }
  y = build n < N { x[n, data(p[n], K)] }
  return y }"""


@pytest.mark.parametrize(("extent", "dtype"), [(4, "u8"), (256, "u8"), (257, "u16"), (70_000, "i32")])
def test_the_smallest_type_that_holds_them(extent: int, dtype: str) -> None:
    program = specialize(parse_program(TEXT), {"N": 3, "K": extent})
    narrow = narrow_positions(program)
    verify(narrow)
    assert f"{dtype}(argmax" in print_program(narrow)
    x = np.random.default_rng(0).standard_normal((3, extent))
    (expected,) = interpret(program, [x])
    np.testing.assert_array_equal(interpret(narrow, [x])[0], expected)
    np.testing.assert_array_equal(compile_program(parse_program(TEXT), {"N": 3, "K": extent}).run([x])[0], expected)


def test_a_result_keeps_its_type() -> None:
    program = specialize(parse_program(TEXT.replace("return y", "return y, p")), {"N": 3, "K": 4})
    assert narrow_positions(program) is program


@pytest.mark.parametrize("bounds", ["[-1, 3)", "[0, K)"])
def test_a_type_is_small_only_for_known_bounds_from_0_on(bounds: str) -> None:
    text = f"f(x: f64[3, K]) {{ p in {bounds} = build n < 3 {{ argmax k < K {{ x[n, k] }} }} " \
           "y = build n < 3 { f64(p[n]) } return y }"  # fmt: skip
    program = parse_program(text)
    assert narrow_positions(program) is program


@pytest.mark.parametrize("put", ["sort", "order"])
def test_positions_that_are_put_in_order_keep_their_type(put: str) -> None:
    text = f"f(x: f64[N, K]) {{ p in [0, K) = build n < N {{ argmin k < K {{ x[n, k] }} }} " \
           f"y = {put} n < N {{ p[n] }} return y }}"  # fmt: skip
    program = specialize(parse_program(text), {"N": 40, "K": 5})
    assert narrow_positions(program) is program
    x = np.random.default_rng(0).standard_normal((40, 5))
    (expected,) = interpret(program, [x])
    np.testing.assert_array_equal(compile_program(parse_program(text), {"N": 40, "K": 5}).run([x])[0], expected)
