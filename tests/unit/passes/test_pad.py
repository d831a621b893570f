"""`passes.pad`: a border takes the place of conditions that nothing else needs."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.passes.pad import pad_operands


def test_a_condition_on_one_axis_keeps_the_other_in_range() -> None:
    """x[i - p, i - p + q] leaves both axes where i < p."""

    def term(x: Any, w: Any, i: Any, p: Any, q: Any) -> Any:
        return pb.where(i >= p, x[i - p, i - p + q] * w[p, q], 0.0)

    f = pb.function(
        lambda x, w: pb.build((40, 8), lambda i, j: pb.sum_over((5, 20), lambda p, q: term(x, w, i, p, q)))
    )
    random = np.random.default_rng(0)
    x, w = random.normal(size=(40, 60)), random.normal(size=(5, 20))
    row = [sum(x[i - p, i - p : i - p + 20] @ w[p] for p in range(min(i + 1, 5))) for i in range(40)]
    np.testing.assert_allclose(f(x, w), np.repeat(np.array(row)[:, None], 8, 1), rtol=1e-12)


def test_a_border_has_any_size() -> None:
    program = parse_program("""f(x: f64[N, M], w: f64[K]) {
        y = build i < N + K - 1, m < M { sum k < K { [i >= k, N + k >= i + 1] x[i - k, m] * w[k] } } return y }""")
    text = print_program(pad_operands(program))
    assert "sum k < K { x_padded[i - k + K - 1, m] * w[k] }" in text
    assert "p0 < 2 * K + N - 2" in text


def test_a_border_needs_an_end_that_is_the_last_for_all_sizes() -> None:
    program = parse_program("""f(x: f64[N, M], w: f64[K], z: f64[L]) {
        y = build i < L, m < M { sum k < K { [i >= k, N + k >= i + 1] x[i - k, m] * w[k] } } return y }""")
    assert print_program(pad_operands(program)) == print_program(program)
