"""Products of looked-up rows, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.passes.lookups import multiply_rows

RANDOM = np.random.default_rng(0)
TABLE, WEIGHTS = RANDOM.normal(size=(5, 3)), RANDOM.normal(size=(4, 3))
TEXT = """f(t: f64[5, 3], w: f64[4, 3], x: i64[{n}]) {{
  e = build i < {n}, k < 3 {{ t[check(x[i], 5), k] }}
  y = build i < {n}, j < 4 {{ sum k < 3 {{ w[j, k] * e[i, k] }} }}
  return y, e }}"""


def after(text: str) -> str:
    return print_program(multiply_rows(parse_program(text)))


def test_the_table_is_multiplied() -> None:
    found = after(TEXT.format(n=10))
    assert "y_rows = build row < 5, j < 4 { sum k < 3 { w[j, k] * t[row, k] } }" in found
    assert "y = build i < 10, j < 4 { y_rows[check(x[i], 5), j] }" in found


@pytest.mark.parametrize("text", [
    TEXT.format(n=9),  # fewer than two lookups for each row
    TEXT.format(n=10).replace("w[j, k] * e", "w[j, k] * z[i, k] * e").replace("w: f64", "z: f64[10, 3], w: f64"),
    TEXT.format(n=10).replace("sum k < 3 { w[j, k] * e[i, k] }", "sum k < 3, i1 < 10 { w[j, k] * e[i1, k] }"),
    TEXT.format(n=10).replace("t[check(x[i], 5), k]", "t[check(x[i], 5), k] + 1.0"),
    TEXT.format(n=10).replace("w[j, k] * e[i, k]", "e[i, k] * e[i, k]"),
    TEXT.format(n=10).replace("w[j, k] * e[i, k]", "w[j, k] * e[i, k] * e[i, k]"),
])  # fmt: skip
def test_other_products_stay(text: str) -> None:
    assert after(text) == print_program(parse_program(text))


def product(t: Any, w: Any, x: Any) -> Any:
    return pb.take(t, x, axis=0) @ pb.matrix_transpose(w)


def test_values_and_gradients() -> None:
    x, g = RANDOM.integers(0, 5, (4, 6)), RANDOM.normal(size=(4, 6, 4))
    with pb.exact():
        exact = pb.function(product)
        bits = exact(TABLE, WEIGHTS, x)
    assert "lookups.rows" in str(exact.explain())
    assert (bits == exact.interpret(TABLE, WEIGHTS, x)).all()  # the same terms in the same order
    np.testing.assert_allclose(pb.function(product)(TABLE, WEIGHTS, x), TABLE[x] @ WEIGHTS.T, rtol=1e-13)
    slopes = pb.function(lambda t, w, x, g: pb.grad(lambda t, w: pb.sum(product(t, w, x) * g), wrt=("t", "w"))(t, w))
    of_table, of_weights = slopes(TABLE, WEIGHTS, x, g)
    wanted = np.zeros_like(TABLE)
    np.add.at(wanted, x, g @ WEIGHTS)
    np.testing.assert_allclose(of_table, wanted, rtol=1e-12)
    np.testing.assert_allclose(of_weights, np.einsum("nij,nik->jk", g, TABLE[x]), rtol=1e-12)


def test_rows_that_nothing_looks_up_are_not_seen() -> None:
    table, x = TABLE.copy(), RANDOM.integers(1, 5, 24)
    table[0] = np.nan
    np.testing.assert_allclose(pb.function(product)(table, WEIGHTS, x), table[x] @ WEIGHTS.T, rtol=1e-13)


def test_a_row_that_is_not_there_is_an_error() -> None:
    with pytest.raises(IndexError, match="5"):
        pb.function(product)(TABLE, WEIGHTS, np.array([0] * 23 + [5]))
