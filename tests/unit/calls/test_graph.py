"""`pb.graph`: nodes, operators on edges, and what the operators' package does with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32, Float64, Int64

import pullback as pb
from pullback import Array
from pullback.operators import (
    ZERO,
    Dense,
    Diagonal,
    Hadamard,
    I,
    InnerProduct,
    Kronecker,
    LeftMultiply,
    Multiples,
    Operator,
    RightMultiply,
    eliminate,
    inner_vertices,
    path_weights,
    solve,
)

RNG = np.random.default_rng(7)


def network(w: Float64[Array, "K M"], b: Float64[Array, "K 1"], x: Float64[Array, "M N"]) -> Any:
    return 0.5 * pb.sum(pb.exp(-(w @ x + b)) ** 2)


def everything(
    x: Float64[Array, "N N"], a: Float64[Array, "N N"], s: Float64[Array, ""], d: Float64[Array, "N"]
) -> Any:
    n, b = x.shape[0], pb.sin(a)
    kron = pb.build((n, n), lambda i, j: pb.sum_over((n, n), lambda k, m: a[i, k] * x[k, m] * b[j, m]))
    y = s * kron + d[:, None] * (x @ a)
    z = pb.fold(3, y, lambda t, k: pb.tanh(t @ a))
    return pb.sum(pb.concat([z, x[::-1] * 2.0]) * pb.max(z))


def gathered(x: Float32[Array, "N"], idx: Int64[Array, "M"]) -> Any:
    y = pb.build(idx.shape[0], lambda m: x[idx[m]] * x[0])
    return pb.where(y > 0.0, y, 0.0), pb.cumulative_sum(y)


CASES: list[tuple[Any, tuple[Any, ...]]] = [
    (network, (RNG.standard_normal((3, 4)), RNG.standard_normal((3, 1)), RNG.standard_normal((4, 5)))),
    (everything, (*RNG.standard_normal((2, 3, 3)), np.array(0.5), RNG.standard_normal(3))),
    (gathered, (RNG.standard_normal(4).astype(np.float32), np.array([2, 0, 2, 3, 1]))),
]


@pytest.mark.parametrize(("f", "args"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_back_substitution_is_the_gradient(f: Any, args: Any) -> None:
    traced = pb.function(f)
    found = pb.graph(traced, *args)
    cotangents = [RNG.standard_normal(found.values[k].shape) for k in found.outputs]
    types = [found.values[k].dtype for k in found.outputs]
    given = tuple(c.astype(t) for c, t in zip(cotangents, types, strict=True))
    _, expected = pb.vjp(traced).interpret(*args, cotangent=given if len(given) > 1 else given[0])
    expected = [e for e in expected if e is not None]
    nabla = found.gradient(*cotangents)
    system = found.linearized
    again = system.gradient(found.seed(*cotangents)[found.sources :])
    tolerance = 1e-5 if types[0] == np.float32 else 1e-12
    for a, b, c in zip(nabla, again, expected, strict=True):
        np.testing.assert_allclose(a, c, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(b, c, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("f", "args"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_every_operator_and_its_adjoint(f: Any, args: Any) -> None:
    found = pb.graph(pb.function(f), *args)
    for (i, j), op in found.L.entries.items():
        if isinstance(op, Operator):
            x, y = RNG.standard_normal(found.values[j].shape), RNG.standard_normal(found.values[i].shape)
            np.testing.assert_allclose(np.sum(y * op(x)), np.sum(op.T(y) * x), rtol=1e-5, atol=1e-7)


def test_the_kinds_of_operators() -> None:
    found = pb.graph(pb.function(everything), *CASES[1][1])
    kinds = {type(op) for op in found.L.entries.values()}
    assert {Kronecker, Diagonal, RightMultiply, Multiples, Dense, Hadamard} <= kinds | {type(I)}
    found = pb.graph(pb.function(network), *CASES[0][1])
    assert {LeftMultiply, RightMultiply, Hadamard, InnerProduct} <= {type(op) for op in found.L.entries.values()}
    found = pb.graph(pb.function(gathered), *CASES[2][1])
    assert "G[" in str(found)  # an `Indexed` among the terms of a sum


def test_path_weights_and_elimination_apply() -> None:
    found = pb.graph(pb.function(network), *CASES[0][1])
    last, g = found.outputs[0], np.array(1.0)
    p = path_weights(found.L)
    left = eliminate(found.L, [v for v in inner_vertices(found.L) if v >= found.sources])
    for j, expected in enumerate(found.gradient()):
        np.testing.assert_allclose(p[last, j].T(g), expected, rtol=1e-12)
        np.testing.assert_allclose(left[last, j].T(g), expected, rtol=1e-12)
    assert set(left.entries) == {(last, j) for j in range(found.sources)}


def test_it_prints_as_equations() -> None:
    text = str(pb.graph(pb.function(network), *CASES[0][1]))
    assert "matmul[3, 5]: dmatmul = R[x] dw + L[w] dx" in text
    assert text.splitlines()[0] == "  0  w[3, 4]: argument"
    assert "(result)" in text.splitlines()[-1]
    assert repr(pb.graph(pb.function(network), *CASES[0][1])).startswith("<graph of ")


def test_outputs_on_which_nothing_depends() -> None:
    @pb.function
    def f(x: Float64[Array, "N"], y: Float64[Array, "N"]) -> Any:
        return x * 2.0

    found = pb.graph(f, np.ones(2), np.ones(2))
    assert [g.tolist() for g in found.gradient()] == [[2.0, 2.0], [0.0, 0.0]]
    assert solve((I - found.L).T, found.seed())[1] is ZERO
