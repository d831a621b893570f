"""Rank verbs: values against NumPy, in C and in the interpreter; derivatives against differences; errors."""

from __future__ import annotations

import functools
import operator
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array, verbs
from pullback.testing import check_grads
from pullback.verbs import (
    Extents,
    catenate,
    disclose,
    drop,
    each,
    enclose,
    expand,
    index_of,
    iota,
    power,
    rank,
    ravel,
    reduce,
    replicate,
    reshape,
    shape,
    stencil,
    table,
    take,
    transpose,
)

V = np.array([1.5, -2.0, 0.5, 3.0])
M = np.arange(1.0, 13.0).reshape(3, 4)
T = np.sin(np.arange(24.0)).reshape(2, 3, 4)


def evaluate(f: Any, *arguments: Any) -> Any:
    """F of arrays; C and the interpreter must agree."""
    g = pb.function((lambda x: f(x)) if len(arguments) == 1 else lambda x, y: f(x, y))
    found = g(*arguments)
    same(found, g.interpret(*arguments))
    return found


def same(found: Any, expected: Any) -> None:
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def windows(x: Any, window: tuple[int, ...], step: tuple[int, ...]) -> Any:
    """The windows of Dyalog's stencil, one axis of places for each axis of the window."""
    padding = [((w - 1) // 2,) * 2 for w in window] + [(0, 0)] * (x.ndim - len(window))
    seen = np.lib.stride_tricks.sliding_window_view(
        np.pad(x, padding), window, axis=tuple(range(len(window)))
    )  # places, rest, window
    return seen[tuple(slice(None, None, s) for s in step)]


# Extents ------------------------------------------------------------------------------------------------------


def test_extents_calculate() -> None:
    a = Extents((4, 6))
    assert a + 1 == 1 + a == (5, 7)
    assert a - (1, 2) == (3, 4)
    assert 10 - a == (6, 4)
    assert a * 2 == 2 * a == (8, 12)
    assert a // 4 == (1, 1)
    assert a % 4 == (0, 2)
    assert -a == (-4, -6)
    assert a[1:] == (6,)
    assert a != (4, 7)
    with pytest.raises(pb.ShapeError, match="E101"):
        a + (1, 2, 3)


def test_shape() -> None:
    @pb.function
    def f(x: Float64[Array, "N M"]) -> Any:
        assert len(shape(x)) == 2
        assert shape(enclose(x)) == ()
        assert shape(shape(x)) == (2,)
        return reshape(shape(x) * 2, x)

    assert f(M).shape == (6, 8)


# Selecting and arranging --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, -2, 4, -4, 6, -6, 0])
def test_take(count: int) -> None:
    n = abs(count)
    padded = np.concatenate([V, np.zeros(4)])[:n] if count >= 0 else np.concatenate([np.zeros(4), V])[8 - n :]
    same(evaluate(lambda x: take(count, x), V), padded)


@pytest.mark.parametrize("count", [2, -2, 0, 4, -5])
def test_drop(count: int) -> None:
    n = min(abs(count), 4)
    same(evaluate(lambda x: drop(count, x), V), V[n:] if count >= 0 else V[: 4 - n])


def test_expand() -> None:
    same(evaluate(lambda x: expand((1, 0, 2, -2, 1, 1), x), V), np.array([V[0], 0, V[1], V[1], 0, 0, V[2], V[3]]))
    rows = np.stack([M[0], np.zeros(4), M[1], M[2], M[2]])
    same(evaluate(lambda x: expand((1, 0, 1, 2), x, axis=0), M), rows)


def test_take_and_drop_on_several_axes() -> None:
    same(evaluate(lambda x: take((2, -3), x), M), M[:2, -3:])
    same(evaluate(lambda x: take((-4, 5), x), M), np.pad(M, ((1, 0), (0, 1))))
    same(evaluate(lambda x: take(2, x), M), M[:2])
    same(evaluate(lambda x: drop((1, -1), x), M), M[1:, :-1])
    same(evaluate(lambda x: drop(-1, x), M), M[:-1])


def test_take_and_drop_by_dims() -> None:
    @pb.function
    def f(x: Float64[Array, "N"], y: Float64[Array, "K"]) -> Any:
        n, k = x.shape[0], y.shape[0]
        return take(n + 1, x), take(-k, x), drop(n - k, x), drop(-k, x), take(n - k, x)

    first, last, rest, lead, front = f(V, V[:1])
    same(first, [*V, 0])
    same(last, V[3:])
    same(rest, V[3:])
    same(lead, V[:3])
    same(front, V[:3])
    assert "N >= K" in str(f.type)
    check_grads(f, (V, V[:1]), order=1)


def test_reshape_leaves_out_and_reuses() -> None:
    same(evaluate(lambda x: reshape((2, 2), x), M), np.resize(M, (2, 2)))
    same(evaluate(lambda x: reshape((5, 4), x), M), np.resize(M, (5, 4)))
    same(evaluate(lambda x: reshape(9, x), M), np.resize(M, 9))
    same(evaluate(lambda x: reshape((3, 4), x), M), M)
    same(evaluate(lambda x: reshape((2, 3), x), np.float64(7)), np.full((2, 3), 7))

    @pb.function
    def f(x: Float64[Array, "N M"], y: Float64[Array, "K"]) -> Any:
        return reshape(y.shape, x)

    same(f(M, np.zeros(5)), M.ravel()[:5])
    same(f(M, np.zeros(15)), np.resize(M, 15))
    check_grads(f, (M, np.zeros(15)), order=1)


def test_ravel() -> None:
    same(evaluate(ravel, M), M.ravel())
    same(evaluate(ravel, np.float64(3)), [3])


def test_catenate() -> None:
    same(evaluate(catenate, M, M), np.concatenate([M, M], axis=1))
    same(evaluate(lambda x, y: catenate(x, y, axis=0), M, M), np.concatenate([M, M]))
    same(evaluate(catenate, M, V[:3]), np.concatenate([M, V[:3, None]], axis=1))
    same(evaluate(lambda x, y: catenate(x, y, axis=0), V, M), np.concatenate([V[None], M]))
    same(evaluate(lambda x: catenate(x, 0.0), M), np.pad(M, ((0, 0), (0, 1))))
    same(evaluate(lambda x: catenate(1.0, x), V), [1, *V])
    same(evaluate(catenate, np.float64(1), np.float64(2)), [1, 2])


def test_replicate() -> None:
    same(evaluate(lambda x: replicate(2, x), M), np.repeat(M, 2, axis=1))
    same(evaluate(lambda x: replicate(3, x, axis=0), M), np.repeat(M, 3, axis=0))
    same(evaluate(lambda x: replicate((1, 0, 2), x, axis=0), M), np.repeat(M, (1, 0, 2), axis=0))
    same(evaluate(lambda x: replicate((0, 0, 0), x, axis=0), M), np.zeros((0, 4)))


def test_transpose() -> None:
    same(evaluate(transpose, T), T.T)
    same(evaluate(lambda x: transpose(x, (2, 0, 1)), T), T.transpose(1, 2, 0))
    same(evaluate(lambda x: transpose(x, (0, 0)), M[:, :3].copy()), np.diag(M))


def test_iota_and_index_of() -> None:
    same(evaluate(lambda x: iota(x.shape[0]), V), np.arange(4))
    same(evaluate(lambda x: disclose(iota(shape(x))), M), np.moveaxis(np.indices(M.shape), 0, -1))
    same(evaluate(index_of, np.array([3.0, 1.0, 3.0, 2.0]), np.array([[2.0, 3.0], [9.0, 1.0]])), [[3, 0], [4, 1]])
    same(evaluate(lambda x: index_of(x, 0.5), V), 2)


# Applying functions -------------------------------------------------------------------------------------------


def test_rank_of_one_argument() -> None:
    same(evaluate(rank(pb.sum, 1), T), T.sum(axis=2))
    same(evaluate(rank(pb.sum, 2), T), T.sum(axis=(1, 2)))
    same(evaluate(rank(pb.sum, -1), T), T.sum(axis=(1, 2)))
    same(evaluate(rank(pb.sum, 9), T), T.sum())
    same(evaluate(rank(transpose, 2), T), T.transpose(0, 2, 1))
    same(evaluate(rank(lambda s: reshape((2, 2), s), 0), V[:2]), np.repeat(V[:2], 4).reshape(2, 2, 2))


def test_rank_of_two_arguments() -> None:
    same(evaluate(rank(pb.add, (0, 1)), M[:, 0].copy(), M), M[:, :1] + M)
    same(evaluate(rank(pb.matmul, (2, 1)), M, T), (T @ M.T))  # one matrix with every row of a cube
    same(evaluate(rank(pb.vecdot, 1), T, T), (T * T).sum(axis=2))
    same(evaluate(rank(catenate, (1, 0)), M, V[:3]), np.concatenate([M, V[:3, None]], axis=1))


def test_a_shorter_frame_goes_with_the_leading_axes() -> None:
    same(evaluate(rank(pb.multiply, 0), V[:2], T), V[:2, None, None] * T)


def test_rank_over_python_values() -> None:
    squares = evaluate(lambda x: rank(reshape, (1, 0))(((2, 2), (2, 2)), x), V[:2])
    same(squares, np.repeat(V[:2], 4).reshape(2, 2, 2))
    ragged = evaluate(lambda x: rank(reshape, (1, 0))(((2, 2), (1, 3)), x), V[:2])
    same(ragged, [[[1.5, 1.5, 0], [1.5, 1.5, 0]], [[-2, -2, -2], [0, 0, 0]]])
    lower = evaluate(lambda x: rank(lambda n, a: a if n == 0 else reshape(n, a), 0)((0, 2), x), V[:2])
    same(lower, [[1.5, 0], [-2, -2]])


def test_each() -> None:
    same(evaluate(each(lambda a: a * a), M), M * M)
    same(evaluate(lambda x: each(pb.multiply)(x, 2.0), M), M * 2)
    same(evaluate(lambda x, y: disclose(each(pb.multiply)(x, enclose(y))), V, M), np.multiply.outer(V, M))
    same(evaluate(lambda x: disclose(each(lambda r: r / pb.sum(r))(enclose(x, 1))), M), M / M.sum(axis=1)[:, None])
    same(evaluate(lambda x: disclose(ravel(enclose(x, 1))), T), T.reshape(6, 4))
    same(evaluate(lambda x: disclose(each(lambda n: take(n, x))((2, 3))), V), [[1.5, -2, 0], [1.5, -2, 0.5]])


def test_table() -> None:
    same(evaluate(table(pb.subtract), V, M), np.subtract.outer(V, M))
    same(evaluate(table(lambda a, b: pb.where(a < b, a, b)), V, V), np.minimum.outer(V, V))


def test_reduce() -> None:
    same(evaluate(lambda x: reduce(pb.add, x), T), T.sum(axis=2))
    same(evaluate(lambda x: reduce(operator.mul, x, axis=0), T), T.prod(axis=0))
    same(evaluate(lambda x: reduce(max, x), T), T.max(axis=2))
    same(evaluate(lambda x: reduce(pb.minimum, x, axis=None), T), T.min())
    same(evaluate(lambda x: reduce(pb.logical_or, x > 0.9), T), (T > 0.9).any(axis=2))
    same(evaluate(lambda x: reduce(pb.add, x), np.float64(4)), 4)


def test_reduce_of_nested_arrays() -> None:
    same(evaluate(lambda x: reduce(pb.add, enclose(x, 1), axis=None), T), T.sum(axis=(0, 1)))
    same(evaluate(lambda x: disclose(reduce(pb.add, enclose(x, 1))), T), T.sum(axis=1))
    same(evaluate(lambda x: reduce(lambda a, b: a - b, ravel(enclose(x, 1))), T), alternating(T.reshape(6, 4)))


def alternating(x: Any) -> Any:
    return sum((-1) ** k * row for k, row in enumerate(x))


def test_reduce_by_any_function_from_the_right() -> None:
    @pb.function
    def f(x: Float64[Array, "N"]) -> Any:
        return reduce(lambda a, b: a - b, x)

    @pb.function
    def fixed(x: Float64[Array, "3 4"]) -> Any:
        return reduce(lambda a, b: a / b, x, axis=0)

    for n in (1, 2, 4):
        same(f(V[:n]), alternating(V[:n]))
    same(fixed(M), M[0] / (M[1] / M[2]))
    same(evaluate(lambda x: reduce(pb.subtract, x), np.ones((2, 1))), [1, 1])
    check_grads(f, (V,), order=1)
    check_grads(fixed, (M,), order=1)


SAME: dict[str, tuple[Any, Any]] = {
    "sum": (lambda a, b: a + b, pb.add),
    "the other one first": (lambda a, b: b + a, pb.add),
    "product": (lambda a, b: pb.multiply(b, a), pb.multiply),
    "maximum": (lambda a, b: pb.maximum(a, b), pb.maximum),
    "minimum": (lambda a, b: pb.minimum(a, b), pb.minimum),
}


@pytest.mark.parametrize("name", SAME)
def test_reduce_knows_functions_by_what_they_do(name: str) -> None:
    """Equal programs, so derivatives, neutral elements and C are those of the reduction."""
    by_meaning, by_name = SAME[name]
    for axis in (-1, 0, None):

        def program(g: Any, axis: int | None = axis) -> str:
            @pb.function
            def f(x: Float64[Array, "N M"]) -> Any:
                return reduce(g, x, axis=axis)

            return str(f.ir)

        assert program(by_meaning) == program(by_name)
    flags = np.array([True, False, True])
    assert not evaluate(lambda x: reduce(lambda a, b: b & a, x), flags)
    assert evaluate(lambda x: reduce(lambda a, b: a | b, x), flags)


def test_reduce_knows_functions_that_were_used_before() -> None:
    """The order of a user's imports plays no part."""
    text = """import jaxtyping, pullback as pb
pb.{0}
from pullback.verbs import reduce
@pb.function
def f(x: jaxtyping.{1}[pb.Array, "3 1 2"]):
    return reduce(pb.{0}, x), reduce(lambda a, b: pb.{0}(a, b), x)
print(f.ir)"""
    for name, kind in (("add", "Float64"), ("maximum", "Float64"), ("logical_and", "Bool")):
        command = [sys.executable, "-c", text.format(name, kind)]
        assert "fold" not in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_reduce_by_what_is_nearly_a_sum() -> None:
    nearly: list[Any] = [lambda a, b: a - b, lambda a, b: a + a, lambda a, b: a + 2 * b, lambda a, b: a + b[::-1],
                         lambda a, b: pb.where(a > b, a, b + a)]  # fmt: skip
    for g in nearly:
        expected = functools.reduce(lambda b, a: np.asarray(evaluate(g, a, b)), M[::-1])
        same(evaluate(lambda x, g=g: reduce(g, x, axis=0), M), expected)


def test_neutral_elements() -> None:
    @pb.function
    def f(x: Float64[Array, "N"]) -> Any:
        return reduce(pb.add, x), reduce(pb.multiply, x), reduce(pb.logical_and, x > 0), reduce(pb.logical_or, x > 0)

    assert f(np.zeros(0)) == (0, 1, True, False)
    for g in (pb.subtract, pb.maximum, lambda a, b: a):
        with pytest.raises(pb.ShapeError, match="E105"):
            evaluate(lambda x, g=g: reduce(g, take(0, x)), V)


@pytest.mark.parametrize(
    ("window", "step"),
    [((3,), (1,)), ((2,), (1,)), ((4,), (1,)), ((3,), (2,)), ((2,), (2,)), ((5,), (3,)), ((1,), (1,))],
)
def test_stencil_of_a_vector(window: tuple[int, ...], step: tuple[int, ...]) -> None:
    x = np.arange(1.0, 8.0)
    same(evaluate(lambda x: stencil(lambda v: v, window, step)(x), x), windows(x, window, step))


def test_stencil_of_a_matrix() -> None:
    x = np.arange(1.0, 43.0).reshape(6, 7)
    same(evaluate(stencil(pb.sum, (3, 2)), x), windows(x, (3, 2), (1, 1)).sum(axis=(2, 3)))
    same(evaluate(stencil(pb.max, (2, 3), (2, 1)), x), windows(x, (2, 3), (2, 1)).max(axis=(2, 3)))
    same(evaluate(stencil(lambda v: pb.sum(v, axis=0), 3), x), windows(x, (3,), (1,)).sum(axis=-1))


def test_power() -> None:
    same(evaluate(power(lambda x: x * x + 1, 3), V), ((V * V + 1) ** 2 + 1) ** 2 + 1)


# Derivatives --------------------------------------------------------------------------------------------------

DIFFERENTIABLE: dict[str, Any] = {
    "take": lambda x: take((2, -5), x) ** 2,
    "drop": lambda x: drop((1, -1), x) ** 2,
    "reshape": lambda x: reshape((5, 3), x) ** 2,
    "ravel": lambda x: ravel(x) ** 2,
    "catenate": lambda x: catenate(x, x * x),
    "replicate": lambda x: replicate((1, 0, 2), replicate(2, x), axis=0) ** 2,
    "transpose": lambda x: transpose(x) ** 2,
    "rank": lambda x: rank(lambda r: r / pb.sum(r), 1)(x),
    "rank of two": lambda x: rank(pb.matmul, (1, 2))(x, pb.exp(-x.T)),
    "each": lambda x: disclose(each(lambda a, r: a * r)(x, enclose(x[0]))),
    "table": lambda x: table(lambda a, b: a * a * b)(x[0], x[:, 1]),
    "reduce": lambda x: reduce(pb.multiply, x, axis=0),
    "reduce by division": lambda x: reduce(pb.divide, x),
    "stencil": lambda x: stencil(lambda v: pb.sum(v * v), (3, 2), (1, 2))(x),
    "power": lambda x: power(pb.sin, 3)(x),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives(name: str) -> None:
    def f(x: Float64[Array, "3 4"]) -> Any:
        return DIFFERENTIABLE[name](x)

    check_grads(f, (M / 5,), order=1)


def test_the_derivative_of_what_moves_data_is_a_gather() -> None:
    @pb.function
    def f(x: Float64[Array, "N M"]) -> Any:
        return pb.sum(take((2, -5), drop((1, -1), transpose(replicate(2, x)))) ** 2)

    assert "scatter" not in str(pb.grad(f).ir)


# Errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "code"),
    [
        (lambda x: take((1, 2, 3), x), "E104"),
        (lambda x: drop((1, 2, 3), x), "E104"),
        (lambda x: pb.build(3, lambda i: pb.sum(take(i - 1, x))), "E106"),
        (lambda x: reshape((2, 2), take(0, x)), "E104"),
        (lambda x: replicate((1, 2), x), "E104"),
        (lambda x: replicate((1, -1, 1), x, axis=0), "E104"),
        (lambda x: transpose(x, (0, 2)), "E104"),
        (lambda x: transpose(x, (0, 0)), "E104"),
        (lambda x: index_of(x, 1.0), "E104"),
        (lambda x: index_of(x[0], x[0] > 0), "E121"),
        (lambda x: enclose(x, 3), "E104"),
        (lambda x: rank(pb.add, 0)(x[:, 0], x[0]), "E101"),
        (lambda x: rank(pb.add, (0,))(x, x), "E137"),
        (lambda x: each(pb.add)(x, x[0]), "E101"),
        (lambda x: stencil(pb.sum, (1, 1, 1))(x), "E104"),
        (lambda x: stencil(pb.sum, (2, 2), (1, 1, 1))(x), "E104"),
        (lambda x: reduce(pb.add, x, axis=2), "E104"),
        (lambda x: rank(lambda n, r: r * n, (0, 1))((1, 2), x), "E101"),
    ],
)
def test_errors(f: Any, code: str) -> None:
    def g(x: Float64[Array, "3 4"]) -> Any:
        return f(x)

    with pytest.raises(pb.PullbackError, match=code):
        pb.function(g)


def test_python_values_need_a_fixed_frame() -> None:
    def g(x: Float64[Array, "N"], i: Int64[Array, ""]) -> Any:
        return rank(pb.add, 0)((), x)

    def h(x: Float64[Array, "3"], y: Float64[Array, "N"]) -> Any:
        return rank(lambda n, a: a * y if n else reshape(2, a), 0)((0, 1, 1), x)

    for f in (g, h):
        with pytest.raises(pb.ShapeError, match="E1"):
            pb.function(f)


def test_the_names_are_documented() -> None:
    for name in verbs.__all__:
        assert getattr(verbs, name).__doc__


def test_cells_that_are_enclosed_or_extents_become_arrays() -> None:
    m = np.arange(6.0).reshape(2, 3)
    doubled = pb.function(lambda m: verbs.rank(lambda row: verbs.enclose(row * 2.0), 1)(m))
    np.testing.assert_array_equal(doubled.interpret(m), m * 2.0)
    widths = pb.function(lambda m: verbs.rank(verbs.shape, 1)(m))
    np.testing.assert_array_equal(widths.interpret(m), [[3], [3]])


def test_a_count_that_is_an_index_is_known_not_to_be_negative() -> None:
    f = pb.function(lambda x: pb.build(3, lambda i: pb.sum(verbs.take(2, verbs.drop(i, x)))))
    np.testing.assert_array_equal(f.interpret(np.arange(5.0)), [1.0, 3.0, 5.0])
