"""Zhao and Huang, DeepDSL: the language (section 3): extents, index expressions, elements out of range, theorem 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.errors import ShapeError
from pullback.ir.dims import evaluate
from pullback.ir.index import Index, as_index, symbol
from pullback.ir.interpret import interpret
from pullback.testing.programs import random_program

N, M, K = map(symbol, "NMK")
DIMS = {"N": 6, "M": 4, "K": 3}
RNG = np.random.default_rng(2)


@pytest.mark.parametrize(
    ("extent", "text", "value", "same"),
    [
        (as_index(5), "5", 5, as_index(2) + 3),
        (N, "N", 6, N + M - M),
        (N // 2, "N // 2", 3, (2 * N) // 4),
        (N - M, "N - M", 2, -M + N),
        (N + 7, "N + 7", 13, 7 + N),
        (N * M * K, "K * M * N", 72, K * (N * M)),
    ],
)
def test_c01_kinds_of_extents(extent: Index, text: str, value: int, same: Index) -> None:
    assert str(extent) == text
    assert evaluate(extent, DIMS) == value
    assert extent is same


X1, X2, X3 = RNG.standard_normal(6), RNG.standard_normal((6, 4)), RNG.standard_normal((6, 4, 3))


def test_c03_sums_and_maxima_over_one_to_three_indices() -> None:
    @pb.function
    def over(x: Float64[Array, "N"], y: Float64[Array, "N M"], z: Float64[Array, "N M K"]) -> Any:
        return (
            pb.sum_over(x.shape[0], lambda i: x[i]),
            pb.sum_over(y.shape, lambda i, j: y[i, j]),
            pb.sum_over(z.shape, lambda i, j, k: z[i, j, k]),
            pb.max_over(x.shape[0], lambda i: x[i]),
            pb.max_over(y.shape, lambda i, j: y[i, j]),
            pb.max_over(z.shape, lambda i, j, k: z[i, j, k]),
        )

    wanted = [f(x) for f in (np.sum, np.max) for x in (X1, X2, X3)]
    np.testing.assert_allclose(over.interpret(X1, X2, X3), wanted, rtol=1e-12)


def test_c03_index_expressions_are_typed() -> None:
    @pb.function
    def reads(x: Float64[Array, "2*N"], w: Float64[Array, "K"]) -> Any:
        n, k = x.shape[0] // 2, w.shape[0]
        return (
            pb.build(n, lambda i: x[i * 2]),
            pb.build(2 * n - k + 1, lambda i: pb.sum_over(k, lambda j: x[i + j] * w[j])),
            pb.build(n, lambda i: x[i + n]),
            pb.build(n, lambda i: x[2 * n - 1 - i]),
        )

    x, w = RNG.standard_normal(12), RNG.standard_normal(3)
    found = reads.interpret(x, w)
    for got, wanted in zip(found, (x[::2], np.correlate(x, w), x[6:], x[:5:-1]), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize("index", [lambda i: 2 * i, lambda i: i + 1, lambda i: i - 1])
def test_c03_an_index_that_may_leave_its_range_is_refused(index: Any) -> None:
    with pytest.raises(ShapeError, match="E1"):

        @pb.function
        def read(x: Float64[Array, "N"]) -> Any:
            return pb.build(x.shape[0], lambda i: x[index(i)])


@pytest.mark.parametrize("padding", [0, 1, 2])
def test_c04_an_element_out_of_range_is_0(padding: int) -> None:
    @pb.function
    def conv(x: Float64[Array, "H W"], w: Float64[Array, "A B"]) -> Any:
        (h, v), (a, b) = x.shape, w.shape
        shape = (h + 2 * padding - a + 1, v + 2 * padding - b + 1)
        return pb.build(
            shape,
            lambda i, j: pb.sum_over((a, b), lambda p, q: x.at(i + p - padding, j + q - padding, fill=0) * w[p, q]),
        )

    x, w = RNG.standard_normal((6, 7)), RNG.standard_normal((3, 2))
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, padding), w.shape)
    np.testing.assert_allclose(conv.interpret(x, w), np.einsum("ijpq,pq->ij", windows, w), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_c07_well_typed_programs_run(seed: int) -> None:
    """Theorem 1: a closed term that is typed has a value, and that is of its type."""
    case = random_program(np.random.default_rng(1000 + seed))
    results = interpret(case.program, case.inputs, case.dims)
    assert [r.dtype for r in results] == [ref.dtype.numpy for ref in case.program.outputs]
    assert [r.shape for r in results] == [tuple(evaluate(d, case.dims) for d in r.shape) for r in case.program.outputs]
