"""Arrays in a border of zeros: rows copied in vectors."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.loops.program.nodes import Call, values_in, walk
from pullback.loops.program.values import Choice
from pullback.machine import of_width
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import lower_program
from pullback.runtime.executor import compile_general, compile_program

needs_compiler = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")

IMAGE = """image(x: {t}[C, H, W]) {{
  y = build c < C, i < H + 3, j < W + 5 {{ [i >= 1, H >= i, j >= 2, W + 1 >= j] x[c, i - 1, j - 2] }} return y }}"""
LAST = "last(x: {t}[C, W]) {{ y = build c < C, j < W + 7 {{ [W - 1 >= j] x[c, j] }} return y }}"
MIDDLE = "middle(x: {t}[C, W]) {{ y = build c < C, j < W {{ [j >= 2, W - 4 >= j] x[c, j] }} return y }}"
ROWS = "rows(x: {t}[H, W]) {{ y = build i < H + 2, j < W {{ [i >= 1, H >= i] x[i - 1, j] }} return y }}"
SIZES = {"C": 3, "H": 4}


@needs_compiler
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("width", [7, 30, 301])
@pytest.mark.parametrize("text", [IMAGE, LAST, MIDDLE, ROWS])
def test_rows_are_what_the_interpreter_gives(text: str, width: int, dtype: str) -> None:
    program = parse_program(text.format(t=dtype))
    dims = {**SIZES, "W": width}
    shape = [dims[str(d)] for d in program.inputs[0].shape]
    x = np.random.default_rng(0).standard_normal(shape).astype(program.inputs[0].dtype.numpy)
    (wanted,) = interpret(program, [x])
    for made in (compile_program(program, dims), compile_general(program).at(dims)):
        np.testing.assert_array_equal(*made.run([x]), wanted)


@pytest.mark.parametrize("text", [IMAGE, LAST, MIDDLE, ROWS])
@pytest.mark.parametrize("vector_bytes", [16, 64])
def test_no_element_of_a_row_is_tested(text: str, vector_bytes: int) -> None:
    made = lower_program(parse_program(text.format(t="f32")), {**SIZES, "W": 40}, machine=of_width(vector_bytes))
    (kernel,) = (s.kernel for s in walk(made.function.body) if isinstance(s, Call))
    values = (v for s in walk(kernel.body) for v in values_in(s))
    assert not any(isinstance(v, Choice) for v in values)
