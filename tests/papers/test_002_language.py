"""Zhao and Huang, DeepDSL: the language (section 3): sizes, index expressions, elements out of range, theorem 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array, nn
from pullback.errors import PullbackError, ShapeError
from pullback.ir.dims import evaluate
from pullback.ir.index import Index, as_index, symbol
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from tests.support.programs import random_program

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


# C05: a rule of figure 6 at a time ----------------------------------------------------------------------------------


def typed(f: Callable[..., Any], *types: str) -> pb.Function:
    """The function for arguments of these types; errors are raised here."""
    names = f.__code__.co_varnames[: f.__code__.co_argcount]
    f.__annotations__ = {n: Float64[Array, t] for n, t in zip(names, types, strict=True)}
    return pb.function(f)


full = typed(
    lambda w, x: pb.build(
        (x.shape[0], w.shape[1]), lambda i, j: pb.sum_over(x.shape[1], lambda m: x[i, m] * w[m, j])
    ),
    "M K", "N M",
)  # fmt: skip

# By rule: a program that it types, its type, and one that it refuses, with the code of the error.
RULES: dict[str, tuple[Callable[[], pb.Function], str, Callable[[], Any], str]] = {
    "T-Constant": (
        lambda: typed(lambda x: pb.build(x.shape, lambda n: 2.0), "N"), "(x: f64[N]) -> f64[N]",
        lambda: typed(lambda x: pb.build(x.shape, lambda n: "2"), "N"), "E135",
    ),
    "T-Var": (
        lambda: typed(lambda x: x, "N M"), "(x: f64[N, M]) -> f64[N, M]",
        lambda: parse_program("f(x: f64[N]) { y = build n < N { z[n] } return y }"), "E303",
    ),
    "T-Builtin": (
        lambda: typed(lambda a, b: pb.linalg.solve(a, b), "N N", "N K"), "(a: f64[N, N], b: f64[N, K]) -> f64[N, K]",
        lambda: typed(lambda a, b: pb.linalg.solve(a, b), "N M", "N K"), "E104",
    ),
    "T-Fun": (
        lambda: typed(lambda x: pb.build(x.shape[0], lambda n: pb.sum_over(x.shape[1], lambda m: x[n, m])), "N M"),
        "(x: f64[N, M]) -> f64[N]",
        lambda: typed(lambda x: pb.build(x.shape[0], lambda n: pb.sum_over(3, lambda m: x[n, m])), "N"), "E104",
    ),
    "T-App": (
        lambda: typed(lambda x, w, v: full(v, full(w, x)), "B 784", "784 H", "H 10"),
        "(x: f64[B, 784], w: f64[784, H], v: f64[H, 10]) -> f64[B, 10]",
        lambda: typed(lambda x, w, v: full(v, full(w, x)), "B 784", "784 H", "K 10"), "E101",
    ),
    "T-TensorExp": (
        lambda: typed(lambda x: pb.build((x.shape[0], 3), lambda i, j: x[i] * j), "N"), "(x: f64[N]) -> f64[N, 3]",
        lambda: typed(lambda x: pb.build("N", lambda i: x[i]), "N"), "E135",
    ),
    "T-TensorPlus": (
        lambda: typed(lambda x, y: x + y, "N M", "N M"), "(x: f64[N, M], y: f64[N, M]) -> f64[N, M]",
        lambda: typed(lambda x, y: x + y, "N M", "N K"), "E101",
    ),
    "T-TensorScale": (
        lambda: typed(lambda s, x: s * x, "", "N M"), "(s: f64, x: f64[N, M]) -> f64[N, M]",
        lambda: typed(lambda s, x: s * x, "K", "N M"), "E101",
    ),
    "T-Cast": (
        lambda: typed(lambda x: pb.reshape(x, (x.shape[0], x.shape[1] * x.shape[2])), "N C H"),
        "(x: f64[N, C, H]) -> f64[N, C * H]",
        lambda: typed(lambda x: pb.reshape(x, x.shape[:2]), "N C H"), "E104",
    ),
    "T-Sum": (
        lambda: typed(lambda x: pb.sum_over(x.shape, lambda i, j: x[i, j]), "N M"), "(x: f64[N, M]) -> f64",
        lambda: typed(lambda x: pb.sum_over(x.shape, lambda i: x[i, i]), "N M"), "E137",
    ),
    "T-Element": (
        lambda: typed(lambda x: x[0, 0], "N M"), "(x: f64[N, M]) -> f64",
        lambda: typed(lambda x: pb.build(x.shape[0], lambda i: x[i, i]), "N M"), "E103",
    ),
    "log exp s^n + ×": (
        lambda: typed(lambda s, t: pb.log(pb.exp(s) ** 3 + s * t), "", ""), "(s: f64, t: f64) -> f64",
        lambda: typed(lambda s, t: pb.log(s > t), "", ""), "E121",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_c05_a_rule_types_one_program_and_refuses_another(rule: str) -> None:
    accepted, found, refused, code = RULES[rule]
    assert accepted().type == found
    with pytest.raises(PullbackError, match=rf"\[{code}\]"):
        refused()


def test_c05_a_cast_and_its_way_back_are_the_identity() -> None:
    """flat(Γ(x)) = flat(D) whichever axes are flattened: the gradient of a cast is the cast back."""

    def cast(x: Float64[Array, "N C H W"]) -> Any:
        n, c, h, w = x.shape
        return pb.reshape(pb.reshape(x, (n, c * h * w)), (n * c, h, w))

    x = RNG.standard_normal((2, 3, 4, 5))
    np.testing.assert_array_equal(pb.function(cast).interpret(x), x.reshape(6, 4, 5))
    bar = RNG.standard_normal((6, 4, 5))
    _, (back,) = pb.vjp(cast).interpret(x, bar)
    np.testing.assert_array_equal(back, bar.reshape(x.shape))


# C08: layers of a library ---------------------------------------------------------------------------------------------

CONVOLUTION = """
void forward(const double *x, const double *w, double *y, int64_t n, int64_t h, int64_t k) {
    for (int64_t b = 0; b < n; ++b)
        for (int64_t i = 0; i < h - k + 1; ++i) {
            double sum = 0.0;
            for (int64_t j = 0; j < k; ++j) sum += x[b * h + i + j] * w[j];
            y[b * (h - k + 1) + i] = sum;
        }
}
void backward_data(const double *bar, const double *w, double *out, int64_t n, int64_t m, int64_t k) {
    for (int64_t i = 0; i < n * (m + k - 1); ++i) out[i] = 0.0;
    for (int64_t b = 0; b < n; ++b)
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < k; ++j) out[b * (m + k - 1) + i + j] += bar[b * m + i] * w[j];
}
void backward_filter(const double *x, const double *bar, double *out, int64_t h, int64_t m, int64_t n) {
    for (int64_t j = 0; j < h - m + 1; ++j) {
        out[j] = 0.0;
        for (int64_t b = 0; b < n; ++b)
            for (int64_t i = 0; i < m; ++i) out[j] += x[b * h + i + j] * bar[b * m + i];
    }
}
"""


def test_c08_a_builtin_layer_with_its_backward_functions() -> None:
    """F is opaque: functions in C, forward, by data, by filter; in a network like a layer in index notation."""
    data = pb.external(CONVOLUTION, "backward_data(bar: f64[N, M], w: f64[K]) -> f64[N, M + K - 1]")
    filters = pb.external(CONVOLUTION, "backward_filter(x: f64[N, H], bar: f64[N, M]) -> f64[H - M + 1]")
    forward = pb.external(
        CONVOLUTION,
        "forward(x: f64[N, H], w: f64[K]) -> f64[N, H - K + 1]",
        vjp=lambda primals, y, bar: (data(bar, primals[1]), filters(primals[0], bar)),
    )

    def written(x: Any, w: Any) -> Any:
        (n, h), k = x.shape, w.shape[0]
        return pb.build((n, h - k + 1), lambda b, i: pb.sum_over(k, lambda j: x[b, i + j] * w[j]))

    def loss(layer: Callable[..., Any]) -> pb.Function:
        @nn.layer("N H")
        def conv(scope: nn.Scope, x: Any) -> Any:
            return layer(x, scope.parameter("w", (3,), nn.init.ones()))

        net = nn.sequential(conv(), nn.tanh, conv(), nn.dense(2))
        return pb.function(lambda p, x: pb.sum(net.apply(p, {}, x)[0] ** 2))

    x, w = RNG.standard_normal((4, 9)), RNG.standard_normal((2, 3))
    p = {"conv1": {"w": w[0]}, "conv2": {"w": w[1]}, "dense1": {"w": RNG.standard_normal((2, 5)), "b": np.ones(2)}}
    (ours, by), (theirs, of) = (pb.value_and_grad(loss(f)).interpret(p, x) for f in (written, forward))
    np.testing.assert_allclose(theirs, ours, rtol=1e-12)
    for layer, arrays in by.items():
        for name, wanted in arrays.items():
            np.testing.assert_allclose(of[layer][name], wanted, rtol=1e-11, atol=1e-12)
