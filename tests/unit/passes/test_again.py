"""Elementwise arrays that wait beside what they are made of are computed again, in the mode for least memory."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.traverse import specialize
from pullback.ir.verify import verify
from pullback.passes.again import compute_again
from pullback.runtime.emit import with_mode
from pullback.runtime.executor import compile_program

# y is read at once and again after the arrays between, as is what it is made of.
TEXT = """chain(x: f64[N, N], w: f64[N, N], v: f64[N]) {
  a = build i < N, j < N { sum k < N { x[i, k] * w[k, j] } }
  y = build i < N, j < N { VALUE }
  b = build i < N, j < N { sum k < N { y[i, k] * w[k, j] } }
  c = build i < N, j < N { sum k < N { b[i, k] * w[k, j] } }
  d = build i < N, j < N { sum k < N { c[i, k] * w[k, j] } }
  e = build i < N, j < N { sum k < N { d[i, k] * w[k, j] } }
  f = build i < N, j < N { sum k < N { e[i, k] * w[k, j] } }
  u = build i < N, j < N { sum k < N { y[k, i] * f[k, j] } }
  g = build i < N, j < N { u[i, j] + LATE * f[i, j] }
  return g }"""
SIZE = {"N": 96}


def text(value: str = "tanh(a[i, j])", late: str = "a[i, j]") -> str:
    return TEXT.replace("VALUE", value).replace("LATE", late)


@pytest.mark.parametrize("value", ["tanh(a[i, j])", "a[i, j] * v[j] + v[i]"])
def test_late_readers_have_an_array_of_their_own(value: str) -> None:
    program = parse_program(text(value))
    made = compute_again(specialize(program, SIZE))
    verify(made)
    assert len(made.body.statements) == len(program.body.statements) + 1
    lines = print_program(made).splitlines()
    again, late = (next(k for k, line in enumerate(lines) if line.startswith(f"  {n} = ")) for n in ("y_1", "u"))
    assert again == late - 1
    assert "y_1[" in lines[late]
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((96, 96)), rng.standard_normal((96, 96)) / 10, rng.standard_normal(96)]
    (wanted,) = interpret(program, inputs, SIZE)
    np.testing.assert_array_equal(interpret(made, inputs, SIZE)[0], wanted)


@pytest.mark.parametrize(("value", "late", "size"), [
    ("tanh(a[i, j])", "c[i, j]", 96),  # a would wait in its place
    ("sum m < 3 { a[i, m] * w[m, j] }", "a[i, j]", 96),  # a sum
    ("tanh(a[i, j])", "a[i, j]", 24),  # small
])  # fmt: skip
def test_others_stay(value: str, late: str, size: int) -> None:
    program = specialize(parse_program(text(value, late)), {"N": size})
    assert print_program(compute_again(program)) == print_program(program)


def test_its_c_keeps_to_its_memory() -> None:
    program = with_mode(parse_program(text()), "least")
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((96, 96)), rng.standard_normal((96, 96)) / 10, rng.standard_normal(96)]
    executable = compile_program(program, SIZE)
    run = executable.run_poisoned(inputs)
    assert (run.peak, run.stray) == (executable.lowered.memory.peak, 0)
    np.testing.assert_allclose(run.outputs[0], interpret(program, inputs, SIZE)[0], rtol=1e-9)
