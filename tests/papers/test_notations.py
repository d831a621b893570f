"""One program in several notations is one program: the same canonical C, whichever way it was written.

Index notation, linear algebra, rank verbs (paper 000) and operators with backslash (paper 004).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.cli.options import import_file
from pullback.operators import ZERO, Hadamard, I, LeftMultiply, RightMultiply, diagonal, solve, strictly_lower
from pullback.verbs import rank, reduce, stencil

verbs: Any = import_file(Path(__file__).resolve().parents[2] / "examples" / "zhang_verbs.py")

Matrix, Vector = Float64[Array, "N M"], Float64[Array, "M"]


def same_c(*functions: Any, **dims: int) -> None:
    """All have the C of the first."""
    texts = [pb.function(f).c_source(names="canonical", comments=False, **dims) for f in functions]
    for text in texts[1:]:
        assert text == texts[0]


# The gradient of ½ |X w - y|² by w ----------------------------------------------------------------------------------


def residual_by_index(x: Matrix, w: Vector, y: Float64[Array, "N"]) -> Any:
    (N, M) = x.shape
    r = pb.build(N, lambda n: pb.sum_over(M, lambda m: x[n, m] * w[m]) - y[n])
    return pb.build(M, lambda m: pb.sum_over(N, lambda n: x[n, m] * r[n]))


def residual_by_linear_algebra(x: Matrix, w: Vector, y: Float64[Array, "N"]) -> Any:
    return x.T @ (x @ w - y)


def residual_by_verbs(x: Matrix, w: Vector, y: Float64[Array, "N"]) -> Any:
    inner = rank(lambda a, b: reduce(pb.add, a * b), (1, 1))
    return inner(pb.permute_dims(x, (1, 0)), inner(x, w) - y)


def residual_by_operators(x: Matrix, w: Vector, y: Float64[Array, "N"]) -> Any:
    X = LeftMultiply(x)
    return X.T @ (X @ w - y)


def half_square(x: Matrix, w: Vector, y: Float64[Array, "N"]) -> Any:
    r = x @ w - y
    return pb.sum(r * r) / 2


def test_x01_least_squares() -> None:
    forms = (residual_by_index, residual_by_linear_algebra, residual_by_verbs, residual_by_operators)
    same_c(*forms, N=30, M=7)
    random = np.random.default_rng(0)
    x, w, y = random.normal(size=(30, 7)), random.normal(size=7), random.normal(size=30)
    for f in (*map(pb.function, forms), pb.grad(pb.function(half_square), wrt="w")):
        np.testing.assert_allclose(f(x, w, y), x.T @ (x @ w - y), rtol=1e-12)


# The gradient of a network ------------------------------------------------------------------------------------------

Weights, Images = Float64[Array, "H M"], Float64[Array, "M N"]


def network_by_index(w: Weights, v: Float64[Array, "K H"], x: Images) -> Any:
    (H, M), K, N = w.shape, v.shape[0], x.shape[1]
    h = pb.build((H, N), lambda i, n: pb.exp(-pb.sum_over(M, lambda m: w[i, m] * x[m, n])))
    y = pb.build((K, N), lambda k, n: pb.exp(-pb.sum_over(H, lambda i: v[k, i] * h[i, n])))
    return pb.sum_over((K, N), lambda k, n: y[k, n] * y[k, n]) / 2


def network_by_linear_algebra(w: Weights, v: Float64[Array, "K H"], x: Images) -> Any:
    y = pb.exp(-(v @ pb.exp(-(w @ x))))
    return pb.sum(y * y) / 2


def network_by_operators(w: Weights, v: Float64[Array, "K H"], x: Images) -> Any:
    """Its gradient by the one line of paper 004."""
    h = pb.exp(-(w @ x))
    y = pb.exp(-(v @ h))
    first, second = Hadamard(-h), Hadamard(-y)
    L = strictly_lower(2, {(0, 1): second @ LeftMultiply(v)})
    M = diagonal([first @ RightMultiply(x), second @ RightMultiply(h)])
    return tuple(M.T @ solve((I - L).T, [ZERO, y]))


def test_x01_network() -> None:
    by_grad = [pb.grad(pb.function(f), wrt=("w", "v")) for f in (network_by_index, network_by_linear_algebra)]
    same_c(*by_grad, network_by_operators, H=6, M=5, K=3, N=10)


# Convolution and pooling --------------------------------------------------------------------------------------------

Window, Image = Float64[Array, "P Q"], Float64[Array, "H W"]


def convolution_by_index(w: Window, x: Image) -> Any:
    (P, Q), (H, W) = w.shape, x.shape
    return pb.build((H - P + 1, W - Q + 1), lambda i, j: pb.sum_over((P, Q), lambda p, q: w[p, q] * x[i + p, j + q]))


def convolution_by_shifts(w: Window, x: Image) -> Any:
    return verbs.conv(w, x)


def convolution_by_stencil(w: Window, x: Image) -> Any:
    return verbs.convstencil(w, x)


@pytest.mark.parametrize("dims", [{"P": 3, "Q": 3, "H": 8, "W": 8}, {"P": 5, "Q": 5, "H": 28, "W": 28}])
def test_a18_convolutions(dims: dict[str, int]) -> None:
    forms = (convolution_by_index, convolution_by_shifts, convolution_by_stencil)
    same_c(*forms, **dims)
    same_c(*(pb.vjp(pb.function(f)) for f in forms), **dims)


def test_a25_a_layer_of_the_size_of_its_argument_is_one_dot_product() -> None:
    def dot(w: Vector, x: Vector) -> Any:
        return pb.build(1, lambda i: pb.sum_over(w.shape[0], lambda m: w[m] * x[i + m]))

    def shifts(w: Vector, x: Vector) -> Any:
        return verbs.conv(w, x)

    def multiplied(w: Vector, x: Vector) -> Any:
        return pb.reshape(reduce(pb.add, w * x), (1,))

    same_c(dot, shifts, multiplied, M=12)


def pool_by_index(x: Image) -> Any:
    H, W = x.shape
    return pb.build(
        (H // 2, W // 2), lambda i, j: pb.sum_over((2, 2), lambda p, q: x[2 * i + p, 2 * j + q]) / 4
    )


def pool_by_stencil(x: Image) -> Any:
    return stencil(lambda v: reduce(pb.add, v, axis=None), (2, 2), (2, 2))(x) / 4


def pool_by_blocks(x: Image) -> Any:
    return verbs.avgpool(x)


def test_x01_pooling() -> None:
    same_c(pool_by_index, pool_by_stencil, pool_by_blocks, H=6, W=8)
