"""The five worked examples of DeepDSL (sections 3.4 and 5.1), with the results that the paper states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array

RNG = np.random.default_rng(2)


def affine(x: Float64[Array, "N M"], w: Float64[Array, "M K"], b: Float64[Array, "K"]) -> Any:
    return pb.build(
        (x.shape[0], w.shape[1]), lambda n, k: pb.sum_over(x.shape[1], lambda m: x[n, m] * w[m, k]) + b[k]
    )


def flatten(x: Float64[Array, "N C H W"]) -> Any:
    return pb.reshape(x, (x.shape[0], -1))


def convolution(x: Float64[Array, "N C R S"], w: Float64[Array, "K C U V"], b: Float64[Array, "K"]) -> Any:
    heights, widths = x.shape[2] - w.shape[2] + 1, x.shape[3] - w.shape[3] + 1

    def element(n: Any, k: Any, h: Any, i: Any) -> Any:
        return pb.sum_over(w.shape[1:], lambda c, u, v: x[n, c, h + u, i + v] * w[k, c, u, v]) + b[k]

    return pb.build((x.shape[0], w.shape[0], heights, widths), element)


def loss(x: Float64[Array, "N K"], y: Float64[Array, "N K"]) -> Any:
    n = x.shape[0]
    return pb.sum_over(x.shape, lambda i, k: y[i, k] * x[i, k] * (-1 / n))


def log_softmax(x: Float64[Array, "N K"]) -> Any:
    return pb.build(x.shape, lambda n, k: x[n, k] - pb.log(pb.sum_over(x.shape[1], lambda l: pb.exp(x[n, l]))))


def convolution_by_hand(z: Any, x: Any, w: Any, b: Any) -> Any:
    """z_x[n, c, r, s] = ∑ z[n, k, h, i] w[k, c, r − h, s − i], terms outside of w left out."""
    out = np.zeros_like(x)
    for (n, k, h, i), value in np.ndenumerate(z):
        out[n, :, h : h + w.shape[2], i : i + w.shape[3]] += value * w[k]
    return out


def log_softmax_by_hand(z: Any, x: Any) -> Any:
    """z − f(∑₁ z) .* exp(x) .* (f(∑₁ exp x))⁻¹."""
    return z - z.sum(1, keepdims=True) * np.exp(x) / np.exp(x).sum(1, keepdims=True)


@dataclass
class Example:
    """A function of x and more, its z_x as a formula over the cotangent z and the arguments, and as a program."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    formula: Callable[..., Any]
    program: str
    tensors: str  # the last line of the derivation


EXAMPLES = {
    "affine": Example(
        affine,
        (RNG.standard_normal((3, 4)), RNG.standard_normal((4, 2)), RNG.standard_normal(2)),
        lambda z, x, w, b: z @ w.T,
        """f(x: f64[N, M], w: f64[M, K], b: f64[K], z: f64[N, K]) {
             z_x = build n < N, m < M { sum k < K { z[n, k] * w[m, k] } } return z_x }""",
        "z_x = g_out ×_1 w",
    ),
    "flatten": Example(
        flatten,
        (RNG.standard_normal((2, 3, 4, 5)),),
        lambda z, x: z.reshape(x.shape),
        """f(x: f64[N, C, H, W], z: f64[N, C * H * W]) {
             z_x = build n < N, c < C, h < H, w < W { z[n, c * H * W + h * W + w] } return z_x }""",
        "z_x = (N·C·H·W) g_out",
    ),
    "convolution": Example(
        convolution,
        (RNG.standard_normal((2, 3, 5, 6)), RNG.standard_normal((4, 3, 2, 3)), RNG.standard_normal(4)),
        convolution_by_hand,
        """f(x: f64[N, C, R, S], w: f64[K, C, U, V], b: f64[K], z: f64[N, K, R - U + 1, S - V + 1])
             where R >= U, S >= V {
             z_x = build n < N, c < C, r < R, s < S { sum k < K, u < U, v < V {
               [r >= u, R + u >= U + r, s >= v, S + v >= V + s] z[n, k, r - u, s - v] * w[k, c, u, v] } }
             return z_x }""",
        "×_3",
    ),
    "loss": Example(
        loss,
        (RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4))),
        lambda z, x, y: -1 / len(x) * y,
        """f(x: f64[N, K], y: f64[N, K]) {
             z_x = build n < N, k < K { y[n, k] * (-1.0 / as_f64(N)) } return z_x }""",
        "z_x = (-1 / N) · y",
    ),
    "log_softmax": Example(
        log_softmax,
        (RNG.standard_normal((3, 4)),),
        log_softmax_by_hand,
        """f(x: f64[N, K], z: f64[N, K]) {
             e = build n < N, l < K { exp(x[n, l]) }
             s = build n < N { sum l < K { e[n, l] } }
             t = build n < N { sum k < K { -z[n, k] } }
             u = build n < N { t[n] * (1.0 / s[n]) }
             z_x = build n < N, k < K { z[n, k] + u[n] * e[n, k] } return z_x }""",
        "z_x = g_out + ((n, k) ⇒ ((-∑_1 g_out) .* (∑_1 exp(x))^(-1))[n]) .* exp(x)",
    ),
}


def derivative(name: str) -> pb.Function:
    """The gradient of the loss; for the others the function with the cotangent of x, from a cotangent given."""
    e = EXAMPLES[name]
    return pb.grad(e.function) if name == "loss" else pb.vjp(e.function, wrt=0)
