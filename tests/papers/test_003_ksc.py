"""The compiler that followed dF~ (its published implementation): its useful rules, split passes, and programs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program, structurally_equal
from pullback.ir.program import Program
from pullback.passes.fuse import fuse
from pullback.rewrite.algebra import simplify_algebra
from pullback.rewrite.copies import inline_copies
from pullback.rewrite.cse import eliminate_dead
from pullback.rewrite.kronecker import eliminate_deltas
from pullback.rewrite.normal_form import normalize
from pullback.testing import check_grads

RNG = np.random.default_rng(13)
Vector = Float64[Array, "N"]
Matrix = Float64[Array, "N M"]

# D13: the reverse pass in two halves, with what is kept between them as a type ---------------------------------------


def loop(x: Vector, y: Vector) -> Any:
    h, rows = pb.scan(4, x, lambda h, t: (pb.sin(h * y) + h, h[0]))
    return pb.sum(h) + pb.sum(rows)


def test_d13_forward_and_backward_passes() -> None:
    """fwdpass gives the value and a tape of a known type, revpass the cotangents from the tape alone."""
    forward, backward = pb.forward_backward(loop)
    tape = "Residuals(y: f64[N], state_steps: f64[4, N], multiply_bar_cos_steps: f64[4, N])"
    assert forward.type == f"(x: f64[N], y: f64[N]) -> (f64, {tape})"
    assert backward.type == f"(residuals: {tape}, cotangent: f64) -> (f64[N], f64[N])"
    x, y = RNG.standard_normal((2, 5))
    out, residuals = forward(x, y)
    wanted, gradient = pb.vjp(loop)(x, y, cotangent=0.5)
    np.testing.assert_array_equal(out, wanted)
    for a, b in zip(backward(residuals, 0.5), gradient, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_d13_programs_that_differ_in_names_alone_are_equal() -> None:
    texts = [
        "f(x: f64[N], y: f64[N]) { a = build n < N { x[n] * y[n] } b = build { sum m < N { a[m] } } return b }",
        "g(u: f64[N], v: f64[N]) { p = build i < N { u[i] * v[i] } q = build { sum j < N { p[j] } } return q }",
        "g(u: f64[N], v: f64[N]) { p = build i < N { u[i] * u[i] } q = build { sum j < N { p[j] } } return q }",
    ]
    same, renamed, other = map(parse_program, texts)
    assert structurally_equal(same, renamed)
    assert not structurally_equal(renamed, other)


def test_d13_counts_before_anything_runs() -> None:
    """Operations and bytes are known from the program and its dims."""
    text = pb.grad(loop, wrt="x").c_source(N=5)
    assert "multiply-adds" in text and "peak" in text
    assert pb.grad(loop, wrt="x").memory(N=5).peak_bytes > 0


# D14: rules that the compiler's notes call useful. One is not applied: the delta of an index from outside stays in its
# sum, sumbuild n (i -> deltaVec n k e) = deltaVec n k (sumbuild n (i -> e)), and becomes a bound of the loop outside.


def fused(p: Program) -> Program:
    return eliminate_dead(fuse(inline_copies(normalize(eliminate_deltas(p)))))


def chosen(p: Program) -> Program:
    return eliminate_dead(simplify_algebra(inline_copies(p)))


HEAD = "f(x: f64[N], y: f64[N, M], c: bool[N], d: bool, k: size)"
# rule: (what applies it, the left side, the right side, its meaning in NumPy)
USEFUL: dict[str, tuple[Callable[[Program], Program], str, str, Callable[..., Any]]] = {
    "sum (deltaVec n i e) = e": (
        eliminate_deltas,
        "r = build i < N { sum j < N { [j == i] x[i] } }",
        "r = build i < N { x[i] }",
        lambda x, y, c, d, k: x,
    ),
    "index i (build n f) = f i": (
        fused,
        "t = build n < N { x[N - 1 - n] * x[n] } r = build n < N { t[n] + 1.0 }",
        "r = build n < N { x[N - 1 - n] * x[n] + 1.0 }",
        lambda x, y, c, d, k: x[::-1] * x + 1,
    ),
    "sumbuild n (i -> build m (j -> e)) = build m (j -> sumbuild n (i -> e))": (
        fused,
        """z = build m < M { 0.0 * y[0, m] + f64({}) }
           r = fold n < N (s = z) { u = build m < M { s[m] + y[n, m] * x[n] } yield u }""",
        "r = build m < M { 0.0 * y[0, m] + sum n < N { y[n, m] * x[n] } }",
        lambda x, y, c, d, k: x @ y,
    ),
    "index k (sumbuild n f) = sumbuild n (i -> index k (f i))": (
        fused,
        "t = build m < M { sum n < N { y[n, m] * x[n] } } r = build { t[0] + 1.0 }",
        "r = build { sum n < N { y[n, 0] * x[n] } + 1.0 }",
        lambda x, y, c, d, k: x @ y[:, 0] + 1,
    ),
    "index i (sum xs) = sum (build (i -> index i x))": (
        fused,
        "t = build n < N, m < M { y[n, m] * y[n, m] } r = build n < N { sum m < M { t[n, m] } }",
        "r = build n < N { sum m < M { y[n, m] * y[n, m] } }",
        lambda x, y, c, d, k: (y * y).sum(1),
    ),
    "sum (build n f) = sumbuild n f": (
        fused,
        "t = build n < N { x[n] * x[N - 1 - n] } r = build { sum n < N { t[n] } }",
        "r = build { sum n < N { x[n] * x[N - 1 - n] } }",
        lambda x, y, c, d, k: (x * x[::-1]).sum(),
    ),
    "sumbuild n (i -> deltaVec n i e) = build n (i -> e)": (
        eliminate_deltas,
        "r = build j < N { sum i < N { [j == i] x[i] * x[i] } }",
        "r = build j < N { x[j] * x[j] }",
        lambda x, y, c, d, k: x * x,
    ),
    "if p (if p a b) c = if p a c": (
        chosen,
        "r = build n < N { c[n] ? (c[n] ? x[n] : x[N - 1 - n]) : 2.0 * x[n] }",
        "r = build n < N { c[n] ? x[n] : 2.0 * x[n] }",
        lambda x, y, c, d, k: np.where(c, x, 2 * x),
    ),
    "f (if p a 0) = if p (f a) 0": (
        chosen,
        "r = build n < N { x[n] * (c[n] ? x[N - 1 - n] : {}) }",
        "r = build n < N { c[n] ? x[n] * x[N - 1 - n] : {} }",
        lambda x, y, c, d, k: np.where(c, x * x[::-1], 0.0),
    ),
    "if p a a = a": (
        chosen,
        "t = build n < N { x[n] } r = build n < N { c[n] ? t[n] : x[n] }",
        "r = build n < N { x[n] }",
        lambda x, y, c, d, k: x,
    ),
}


@pytest.mark.parametrize("rule", USEFUL)
def test_d14_rule(rule: str) -> None:
    """The left side becomes the right one, and all three mean what NumPy says."""
    run, *sides, meaning = USEFUL[rule]
    left, right = (parse_program(f"{HEAD} where N >= 1, M >= 1 {{ {side} return r }}") for side in sides)
    found = run(left)
    assert structurally_equal(found, run(right)), print_program(found)
    assert structurally_equal(run(right), right), print_program(run(right))
    for n, m in ((1, 1), (4, 3)):
        given = (RNG.standard_normal(n), RNG.standard_normal((n, m)), RNG.random(n) < 0.5, np.array(True))
        for k in (0, 2, 7):
            for p in (left, right, found):
                (value,) = interpret(p, given, {"k": k})
                np.testing.assert_allclose(value, meaning(*given, k), rtol=1e-13, atol=1e-14, err_msg=print_program(p))


# D15: its test programs ----------------------------------------------------------------------------------------------


def logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def gmm(alphas: Float64[Array, "K"], means: Float64[Array, "K D"], scales: Float64[Array, "K D"],
        x: Float64[Array, "N D"]) -> Any:  # fmt: skip
    """Log likelihood of a Gaussian mixture with diagonal covariances, but for a constant."""
    N, K = x.shape[0], means.shape[0]
    terms = pb.build((N, K), lambda n, k: alphas[k] + pb.sum_over(
        x.shape[1], lambda d: scales[k, d] - 0.5 * (pb.exp(scales[k, d]) * (x[n, d] - means[k, d])) ** 2))  # fmt: skip
    return pb.sum(pb.logsumexp(terms, axis=1)) - N * pb.logsumexp(alphas)


def gmm_in_numpy(alphas: Any, means: Any, scales: Any, x: Any) -> Any:
    d = np.exp(scales) * (x[:, None] - means)
    terms = alphas + scales.sum(1) - 0.5 * (d * d).sum(2)
    return np.log(np.exp(terms).sum(1)).sum() - len(x) * np.log(np.exp(alphas).sum())


def lstm(w: Float64[Array, "4 H"], b: Float64[Array, "4 H"], x: Float64[Array, "T H"]) -> Any:
    """An LSTM whose gates weigh element by element (ADBench): the sum of its outputs."""
    zero = pb.zeros(w.shape[1])

    def step(state: Any, t: Any) -> Any:
        h, c = state
        forget, take, give = (pb.logistic(v * w[k] + b[k]) for k, v in ((0, x[t]), (1, h), (2, x[t])))
        c = c * forget + take * pb.tanh(h * w[3] + b[3])
        return give * pb.tanh(c), c

    h, c = pb.fold(x.shape[0], (zero, zero), step)
    return pb.sum(h) + pb.sum(c)


def lstm_in_numpy(w: Any, b: Any, x: Any) -> Any:
    h = c = np.zeros(w.shape[1])
    for row in x:
        forget, take, give = (logistic(v * w[k] + b[k]) for k, v in ((0, row), (1, h), (2, row)))
        c = c * forget + take * np.tanh(h * w[3] + b[3])
        h = give * np.tanh(c)
    return h.sum() + c.sum()


def rnn(w: Float64[Array, "H H"], u: Float64[Array, "H D"], x: Float64[Array, "T D"]) -> Any:
    return pb.fold(x.shape[0], pb.zeros(w.shape[0]), lambda h, t: pb.tanh(w @ h + u @ x[t]))


def rnn_in_numpy(w: Any, u: Any, x: Any) -> Any:
    h = np.zeros(len(w))
    for row in x:
        h = np.tanh(w @ h + u @ row)
    return h


def convolved(x: Float64[Array, "C H W"], w: Float64[Array, "O C P Q"], b: Float64[Array, "O"]) -> Any:
    """A layer of a network for digits: convolution, bias, rectifier, pooling by two."""
    H, W = x.shape[1] - w.shape[2] + 1, x.shape[2] - w.shape[3] + 1
    y = pb.build((w.shape[0], H, W), lambda o, i, j: pb.maximum(b[o] + pb.sum_over(
        w.shape[1:], lambda c, p, q: x[c, i + p, j + q] * w[o, c, p, q]), 0.0))  # fmt: skip
    return pb.build((w.shape[0], H // 2, W // 2), lambda o, i, j: pb.max_over(
        (2, 2), lambda p, q: y[o, 2 * i + p, 2 * j + q]))  # fmt: skip


def convolved_in_numpy(x: Any, w: Any, b: Any) -> Any:
    seen = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (1, 2))
    y = np.maximum(np.einsum("chwpq,ocpq->ohw", seen, w) + b[:, None, None], 0)
    o, h, v = y.shape
    return y.reshape(o, h // 2, 2, v // 2, 2).max(axis=(2, 4))


def attention(q: Matrix, k: Float64[Array, "T M"], v: Float64[Array, "T D"]) -> Any:
    return pb.softmax(q @ k.T, axis=1) @ v


def attention_in_numpy(q: Any, k: Any, v: Any) -> Any:
    e = np.exp(q @ k.T)
    return e / e.sum(1, keepdims=True) @ v


def relu3(x: Vector) -> Any:
    """A rectifier with a cubic foot: 0, x³ / 3, x - 2 / 3."""
    return pb.where(x < 0, 0.0, pb.where(x < 1, x**3 / 3, x - 2 / 3))


def gelu(x: Vector) -> Any:
    return 0.5 * x * (1 + pb.erf(x / math.sqrt(2)))


def gelu_in_numpy(x: Any) -> Any:
    return np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x])


def squared_leaky(x: Vector) -> Any:
    """sqrl: a leaky rectifier squared, chosen by the sign of the sum."""
    t = pb.where(pb.sum(x) < 0, -0.125 * x, 0.5 * x * x)
    return pb.mean(pb.sin(t) * t)


def squared_leaky_in_numpy(x: Any) -> Any:
    t = -0.125 * x if x.sum() < 0 else 0.5 * x * x
    return np.mean(np.sin(t) * t)


def black_scholes(price: Vector, strike: Vector, years: Vector) -> Any:
    """The value of a call at a rate of 0.05 and a volatility of 0.2."""
    normal = lambda d: 0.5 * (1 + pb.erf(d / math.sqrt(2)))
    spread = 0.2 * pb.sqrt(years)
    d = (pb.log(price / strike) + (0.05 + 0.02) * years) / spread
    return price * normal(d) - strike * pb.exp(-0.05 * years) * normal(d - spread)


def black_scholes_in_numpy(price: Any, strike: Any, years: Any) -> Any:
    normal = lambda d: np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in d])
    spread = 0.2 * np.sqrt(years)
    d = (np.log(price / strike) + 0.07 * years) / spread
    return price * normal(d) - strike * np.exp(-0.05 * years) * normal(d - spread)


def fitted(c: Float64[Array, "D"], x: Vector, y: Vector) -> Any:
    """Curve fitting: squared distance of a polynomial, by Horner's rule."""
    D = c.shape[0]
    value = pb.fold(D, pb.zeros(x.shape[0]), lambda p, k: p * x + c[D - 1 - k])
    return pb.sum((value - y) ** 2)


def message_passing(a: Float64[Array, "N N"], h: Matrix, w: Float64[Array, "M M"]) -> Any:
    """A graph network: each node takes the mean of its neighbors, weighed by edges."""
    degree = pb.sum(a, axis=1)
    return pb.tanh((a @ h) / degree[:, None] @ w)


def positive(*shape: int) -> Any:
    return RNG.uniform(0.5, 1.5, shape)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape)


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "gmm": (gmm, gmm_in_numpy, (normal(3), normal(3, 2), normal(3, 2) / 4, normal(5, 2))),
    "adbench-lstm": (lstm, lstm_in_numpy, (normal(4, 3), normal(4, 3), normal(5, 3))),
    "mnistcnn": (convolved, convolved_in_numpy, (normal(2, 6, 5), normal(3, 2, 3, 2), normal(3))),
    "logsumexp": (
        lambda x: pb.log(pb.sum(pb.exp(x - pb.max(x)))) + pb.max(x),
        lambda x: np.log(np.exp(x).sum()),
        (normal(6),),
    ),
    "fold": (
        lambda x: pb.fold(x.shape[0], 1.0, lambda s, i: pb.sin(s) * x[i] + s),
        lambda x: _folded(x),
        (normal(6),),
    ),
    "cumsum": (lambda x: pb.cumulative_sum(x), np.cumsum, (normal(6),)),
    "vprod": (lambda x: pb.prod(x), np.prod, (normal(6),)),
    "power": (lambda x, y: x**y, lambda x, y: x**y, (positive(5), normal(5))),
    "relu3": (
        relu3,
        lambda x: np.piecewise(x, [x < 0, (x >= 0) & (x < 1)], [0, lambda v: v**3 / 3, lambda v: v - 2 / 3]),
        (np.array([-0.7, 0.4, 1.6, 0.9]),),
    ),
    "gelu": (gelu, gelu_in_numpy, (normal(6),)),
    "sqrl": (squared_leaky, squared_leaky_in_numpy, (np.array([0.4, -0.9, 1.3]),)),
    "sqrl of a negative sum": (squared_leaky, squared_leaky_in_numpy, (np.array([0.4, -1.9, 0.3]),)),
    "rnn": (rnn, rnn_in_numpy, (normal(3, 3), normal(3, 2), normal(4, 2))),
    "attention": (attention, attention_in_numpy, (normal(3, 4), normal(5, 4), normal(5, 2))),
    "graph": (
        message_passing,
        lambda a, h, w: np.tanh(a @ h / a.sum(1)[:, None] @ w),
        (positive(4, 4), normal(4, 3), normal(3, 3)),
    ),
    "curve fitting": (
        fitted,
        lambda c, x, y: ((np.polyval(c[::-1], x) - y) ** 2).sum(),
        (normal(4), normal(6), normal(6)),
    ),
    "Black-Scholes": (black_scholes, black_scholes_in_numpy, (positive(4), positive(4), positive(4))),
}


def _folded(x: Any) -> Any:
    s = 1.0
    for v in x:
        s = np.sin(s) * v + s
    return s


@pytest.mark.parametrize("name", PROGRAMS)
def test_d15_program(name: str) -> None:
    """Values against NumPy, compiled and interpreted; gradients in both modes against differences."""
    f, in_numpy, args = PROGRAMS[name]
    g = pb.function(f)
    wanted = in_numpy(*args)
    np.testing.assert_allclose(g(*args), wanted, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(g.interpret(*args), wanted, rtol=1e-12, atol=1e-13)
    check_grads(f, args, order=1)
