"""Sparse Jacobians: equal to the dense ones, with as many entries as the structure says, and refused where dense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array
from pullback.ad.jacobian import jacobian
from pullback.ad.sparse import sparse_jacobian
from pullback.errors import DerivativeError
from pullback.ir.interpret import interpret
from pullback.ir.verify import verify
from tests.unit.ad.test_jacobian import add, layer, stencil

RNG = np.random.default_rng(0)


def chain(x: Float64[Array, "N"]) -> Any:
    y = pb.sin(x) * pb.exp(x) + x
    z = pb.build(x.shape[0], lambda i: y.at(i - 1) * y[i])
    return pb.tanh(z * z)


def observations(
    cameras: Float64[Array, "C 3"], points: Float64[Array, "P 2"], camera: Int64[Array, "O"], point: Int64[Array, "O"]
) -> Any:
    c, p = pb.in_range(camera, cameras.shape[0]), pb.in_range(point, points.shape[0])
    return pb.build(
        camera.shape[0],
        lambda o: (
            pb.sin(cameras[c[o], 0] * points[p[o], 0]) * cameras[c[o], 1] + points[p[o], 1] ** 2 * cameras[c[o], 2]
        ),
    )


def rows(x: Float64[Array, "B N"], w: Float64[Array, "N N"]) -> Any:
    return pb.tanh(x @ w)


SEEN = (RNG.standard_normal((3, 3)), RNG.standard_normal((4, 2)), np.array([0, 2, 1, 1, 0]), np.array([3, 0, 1, 2, 2]))
BATCH = (RNG.standard_normal((3, 2)), RNG.standard_normal((2, 2)))
LAYER = (RNG.standard_normal(3), RNG.standard_normal((4, 3)))
VECTOR = RNG.standard_normal(6)

CASES: list[tuple[Callable[..., Any], tuple[Any, ...], int, int, Literal["auto", "forward", "reverse"]]] = [
    (chain, (VECTOR,), 0, 10, "forward"),
    (chain, (VECTOR,), 0, 10, "reverse"),
    (stencil, (VECTOR,), 0, 16, "auto"),
    (add, (VECTOR, VECTOR), 1, 6, "auto"),
    (observations, SEEN, 0, 15, "auto"),
    (observations, SEEN, 1, 10, "auto"),
    (rows, BATCH, 0, 12, "auto"),
    (layer, LAYER, 1, 12, "auto"),
]


@pytest.mark.parametrize(("f", "args", "wrt", "entries", "mode"), CASES)
def test_equals_the_dense_jacobian(
    f: Callable[..., Any], args: tuple[Any, ...], wrt: int, entries: int, mode: Literal["auto", "forward", "reverse"]
) -> None:
    program = pb.function(f).program(*args)
    (dense,) = interpret(jacobian(program, wrt), list(args))
    sparse = sparse_jacobian(program, wrt, mode)
    verify(sparse.program)
    out = interpret(sparse.program, list(args))
    columns = args[wrt].size
    found = np.zeros((dense.size // columns, columns))
    count = 0
    for k in range(len(sparse.terms)):
        values, row, column, inside = out[4 * k : 4 * k + 4]
        np.add.at(found, (row[inside], column[inside]), values[inside])
        count += int(inside.sum())
    np.testing.assert_allclose(found, dense.reshape(found.shape), rtol=1e-13)
    assert count == entries


def test_a_dense_pattern_is_refused() -> None:
    program = pb.function(layer).program(*LAYER)
    with pytest.raises(DerivativeError) as error:
        sparse_jacobian(program, 0)
    lines = str(error.value).splitlines()
    assert lines[0] == (
        "DerivativeError [E204] the Jacobian of layer with respect to x is dense: tanh depends on every element of it"
    )
    assert lines[-1] == "  try: leave out `sparse=True`      See docs/reference/errors.md#E204"
