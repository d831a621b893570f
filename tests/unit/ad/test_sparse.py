"""Sparse Jacobians: equal to the dense ones, with as many entries as the structure says, and refused where dense."""

from __future__ import annotations

import math
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
from pullback.ir.dims import evaluate, solve_dims
from pullback.ir.interpret import interpret
from pullback.ir.program import Build, Program, Scatter, walk_statements
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


def gathered(x: Float64[Array, "N"], place: Int64[Array, "O"]) -> Any:
    p = pb.in_range(place, x.shape[0])
    return pb.build(place.shape[0], lambda o: pb.sin(x[p[o]]) * x[p[o]])


def counted(x: Float64[Array, "O"], place: Int64[Array, "O"], bins: Float64[Array, "N"]) -> Any:
    p = pb.in_range(place, bins.shape[0])
    return pb.build(
        bins.shape[0], lambda n: pb.sum_over(x.shape[0], lambda o: pb.where(p[o] == n, pb.sin(x[o]), 0.0)) * bins[n]
    )


def chosen(x: Float64[Array, "N"]) -> Any:
    return pb.build(x.shape[0], lambda i: pb.where(x[i] > 0, x.at(i - 1) * x[i] * pb.exp(x[i]), x.at(i + 1)))


# Energies, of which the gradient is taken


def chained(x: Float64[Array, "N"]) -> Any:
    return pb.sum((x[1:] - x[:-1]) ** 2 * pb.sin(x[:-1]))


def separate(x: Float64[Array, "N"]) -> Any:
    return pb.sum(pb.exp(x) * pb.sin(x))


def in_blocks(x: Float64[Array, "B N"]) -> Any:
    return pb.sum(pb.tanh(pb.sum(x * x, axis=1)))


def plane(u: Float64[Array, "N M"]) -> Any:
    n, m = u.shape
    return pb.sum(pb.build((n, m), lambda i, j: (u.at(i + 1, j) - u[i, j]) ** 2 + pb.cos(u.at(i, j + 1) - u[i, j])))


def springs(x: Float64[Array, "N"], a: Int64[Array, "O"], b: Int64[Array, "O"]) -> Any:
    left, right = pb.in_range(a, x.shape[0]), pb.in_range(b, x.shape[0])
    return pb.sum(pb.build(a.shape[0], lambda o: pb.sin(x[left[o]] * x[right[o]])))


def adjusted(
    cameras: Float64[Array, "C 3"], points: Float64[Array, "P 2"], camera: Int64[Array, "O"], point: Int64[Array, "O"]
) -> Any:
    return pb.sum(pb.function(observations)(cameras, points, camera, point) ** 2)


def rows(x: Float64[Array, "B N"], w: Float64[Array, "N N"]) -> Any:
    return pb.tanh(x @ w)


SEEN = (RNG.standard_normal((3, 3)), RNG.standard_normal((4, 2)), np.array([0, 2, 1, 1, 0]), np.array([3, 0, 1, 2, 2]))
BATCH = (RNG.standard_normal((3, 2)), RNG.standard_normal((2, 2)))
LAYER = (RNG.standard_normal(3), RNG.standard_normal((4, 3)))
VECTOR = RNG.standard_normal(6)
PLACES = np.array([4, 0, 4, 1])

CASES: list[tuple[Callable[..., Any], tuple[Any, ...], int, int, Literal["auto", "forward", "reverse"]]] = [
    (chain, (VECTOR,), 0, 10, "forward"),
    (chain, (VECTOR,), 0, 10, "reverse"),
    (stencil, (VECTOR,), 0, 16, "auto"),
    (add, (VECTOR, VECTOR), 1, 6, "auto"),
    (observations, SEEN, 0, 15, "auto"),
    (observations, SEEN, 1, 10, "auto"),
    (rows, BATCH, 0, 12, "auto"),
    (layer, LAYER, 1, 12, "auto"),
    (gathered, (VECTOR, PLACES), 0, 4, "forward"),
    (gathered, (VECTOR, PLACES), 0, 4, "reverse"),
    (counted, (VECTOR[:4], PLACES, VECTOR), 0, 4, "forward"),
    (counted, (VECTOR[:4], PLACES, VECTOR), 0, 4, "reverse"),
    (chosen, (VECTOR,), 0, 15, "forward"),
    (chosen, (VECTOR,), 0, 15, "reverse"),
]

ENERGIES: list[tuple[Callable[..., Any], tuple[Any, ...], int, int]] = [
    (chained, (VECTOR,), 0, 16),
    (separate, (VECTOR,), 0, 6),
    (in_blocks, (VECTOR.reshape(2, 3),), 0, 18),
    (plane, (VECTOR.reshape(2, 3),), 0, 20),
    (springs, (VECTOR, PLACES, PLACES[::-1].copy()), 0, 7),
    (adjusted, SEEN, 0, 27),
    (adjusted, SEEN, 1, 16),
]


@pytest.mark.parametrize(("f", "args", "wrt", "entries", "mode"), CASES)
def test_equals_the_dense_jacobian(
    f: Callable[..., Any], args: tuple[Any, ...], wrt: int, entries: int, mode: Literal["auto", "forward", "reverse"]
) -> None:
    program = pb.function(f).program(*args)
    places = compared(program, args, wrt, mode)
    assert len(places) == entries


def compared(
    program: Program, args: tuple[Any, ...], wrt: int, mode: Literal["auto", "forward", "reverse"]
) -> list[tuple[int, int]]:
    """The places of the entries of the Jacobian of the one output, whose sums are those of the dense one."""
    (dense,) = interpret(jacobian(program, wrt), list(args))
    sparse = sparse_jacobian(program, [wrt], mode)
    verify(sparse.program)
    out = interpret(sparse.program, list(args))
    columns = args[wrt].size
    found = np.zeros((dense.size // columns, columns))
    places: list[tuple[int, int]] = []
    for k in range(len(sparse.terms)):
        values, row, column, inside = out[4 * k : 4 * k + 4]
        np.add.at(found, (row[inside], column[inside]), values[inside])
        places += zip(row[inside].tolist(), column[inside].tolist(), strict=True)
    np.testing.assert_allclose(found, dense.reshape(found.shape), rtol=1e-13, atol=1e-14)
    return places


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize(("f", "args", "wrt", "entries"), ENERGIES)
def test_a_hessian_equals_the_dense_one_and_is_symmetric(
    f: Callable[..., Any], args: tuple[Any, ...], wrt: int, entries: int, mode: Literal["auto", "forward", "reverse"]
) -> None:
    places = set(compared(pb.grad(f, wrt=wrt).program(*args), args, wrt, mode))
    assert places == {(column, row) for row, column in places}
    assert len(places) == entries


def test_values_are_computed_only_where_there_are_entries() -> None:
    """No array of the sparse program and no loop is larger than the observations are many."""
    program = pb.grad(adjusted).program(*SEEN)
    observed = 50
    args = [np.ones((30, 3)), np.ones((40, 2)), np.arange(observed) % 30, np.arange(observed) % 40]
    sparse = sparse_jacobian(program, [0]).program
    dims = solve_dims(sparse, [a.shape for a in args])
    sizes = [math.prod(evaluate(d, dims) for d in r.shape) for s in walk_statements(sparse.body) for r in s.outs]
    loops = [
        math.prod(evaluate(v.extent, dims) for v in s.vars)
        for s in walk_statements(sparse.body)
        if isinstance(s, Build | Scatter)
    ]
    assert max(sizes) == max(loops) == observed  # the matrix has 8100 elements


def test_several_results_and_parameters() -> None:
    def both(x: Float64[Array, "N"], y: Float64[Array, "N"]) -> Any:
        return x * y, pb.exp(y)

    program = pb.function(both).program(VECTOR, VECTOR)
    sparse = sparse_jacobian(program, [0, 1])
    assert sparse.terms == ((0, 0), (0, 1), (1, 0), (1, 1))
    out = interpret(sparse.program, [VECTOR, VECTOR + 1])
    assert not out[4 * 2 + 3].any()  # exp(y) does not depend on x: one entry, not inside
    np.testing.assert_array_equal(out[0], VECTOR + 1)


def test_a_dense_pattern_is_refused() -> None:
    program = pb.function(layer).program(*LAYER)
    with pytest.raises(DerivativeError) as error:
        sparse_jacobian(program, [0])
    lines = str(error.value).splitlines()
    assert lines[0] == (
        "DerivativeError [E204] the Jacobian of layer with respect to x is dense: tanh depends on every element of it"
    )
    assert lines[-1] == "  try: leave out `sparse=True`      See `pullback explain-error E204`"
