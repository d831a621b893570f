"""Šinkarovs, Bernecky and Scholz, Convolutional Neural Networks in APL (2019): the verbs and the ten blocks.

Every number here stands in the paper, or follows from NumPy's functions of the same meaning.
"""

from __future__ import annotations

import ast
import functools
import itertools
import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float, Float64

import pullback as pb
from pullback import Array
from pullback.cli.options import import_file
from pullback.nn.models import zhang
from pullback.testing import check_grads
from pullback.verbs import (
    Extents,
    catenate,
    disclose,
    drop,
    each,
    enclose,
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

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "zhang_verbs.py"
blocks: Any = import_file(EXAMPLE)

W = np.arange(9.0).reshape(3, 3)  # the paper's w
RANDOM = np.random.default_rng(3)


def value(f: Any, *arguments: Any) -> Any:
    """F of arrays, in C; the interpreter must agree."""
    g = pb.function((lambda x: f(x)) if len(arguments) == 1 else (lambda x, y: f(x, y)))
    found = g(*arguments)
    np.testing.assert_allclose(found, g.interpret(*arguments), rtol=1e-12, atol=1e-12)
    return found


def check(found: Any, expected: Any) -> None:
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


NUMPY = {
    pb.add: np.add,
    pb.multiply: np.multiply,
    pb.maximum: np.maximum,
    pb.minimum: np.minimum,
    operator.sub: np.subtract,
    operator.truediv: np.divide,
    pb.power: np.power,
}


def from_the_right(f: Any, rows: Any) -> Any:
    """f/ in APL: a f (b f (c f ...)), between the elements of the first axis."""
    return functools.reduce(lambda acc, row: f(row, acc), rows[-2::-1], rows[-1])


@pytest.mark.parametrize("axes", range(6))
def test_a01_shape_and_rank(axes: int) -> None:
    for first in (2, 0):
        x = np.zeros((first, *(3,) * axes)[:axes])
        seen: list[Any] = []

        def f(x: Any, seen: list[Any] = seen) -> Any:
            seen += [tuple(shape(x)), len(shape(x)), tuple(shape(shape(x)))]
            return reshape(shape(x), x) if axes else x

        check(value(f, x), x)
        assert seen[:3] == [x.shape, x.ndim, (x.ndim,)]


def test_a02_scalar_verbs_extend_scalars() -> None:
    check(value(lambda x: x + x, np.array([2.0, 3, 4, 5])), [4, 6, 8, 10])
    check(value(lambda x: 1 + x, np.array([2.0, 3, 4, 5])), [3, 4, 5, 6])
    for f in (lambda x: (x + 2, 2 + x), lambda x: (x * 2, 2 * x), lambda x: (x - 2, -(2 - x))):
        a, b = _pair(f)
        check(a, b)


def _pair(f: Any) -> Any:
    @pb.function
    def g(x: Float64[Array, "N M"]) -> Any:
        return f(x)

    return g(W)


def test_a03_negate_reciprocal_exponential_and_power() -> None:
    def f(x: Float64[Array, "N"]) -> Any:
        return -x, 1 / x, pb.exp(x), x**3, 2.0**x

    x = np.array([0.5, 1.5, 2.0])
    for found, expected in zip(pb.function(f)(x), (-x, 1 / x, np.exp(x), x**3, 2**x)):
        check(found, expected)
    check_grads(f, (x,))


def test_a04_ravel_and_catenate() -> None:
    check(value(ravel, W), np.arange(9))
    check(value(catenate, W, W), [[0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 5], [6, 7, 8, 6, 7, 8]])


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_a04_catenate_along_every_axis(axis: int) -> None:
    x = RANDOM.random((2, 3, 4))
    for extent in (1, 2):
        y = np.take(x, [1, 0][:extent], axis=axis) + 1
        check(value(lambda x, y: catenate(x, y, axis=axis), x, y), np.concatenate([x, y], axis=axis))
        check(value(lambda x, y: catenate(y, x, axis=axis), x, y), np.concatenate([y, x], axis=axis))
    flat = np.take(x, 0, axis=axis)  # of one axis less: extent 1
    beside = np.expand_dims(flat, axis)
    check(value(lambda x, y: catenate(x, y, axis=axis), x, flat), np.concatenate([x, beside], axis=axis))
    check(value(lambda x, y: catenate(y, x, axis=axis), x, flat), np.concatenate([beside, x], axis=axis))
    filled = np.full_like(beside, 7.0)  # a scalar is repeated
    check(value(lambda x, y: catenate(x, y, axis=axis), x, np.float64(7)), np.concatenate([x, filled], axis=axis))
    check(value(lambda x, y: catenate(y, x, axis=axis), x, np.float64(7)), np.concatenate([filled, x], axis=axis))


def test_a04_catenate_of_scalars() -> None:
    check(value(catenate, np.float64(2), np.float64(3)), [2, 3])


def test_a05_reshape_truncates_and_reuses() -> None:
    check(value(lambda w: reshape((2, 2), w), W), [[0, 1], [2, 3]])
    check(value(lambda x: reshape((3, 3), x), np.array([1.0, 2.0])), [[1, 2, 1], [2, 1, 2], [1, 2, 1]])
    check(value(lambda w: reshape(9, w), W), np.arange(9))


@pytest.mark.parametrize("source", [(5,), (2, 3), (3, 1, 2), ()])
@pytest.mark.parametrize("target", [1, 4, (2, 3), (7,), (3, 2, 3), (), (0, 2)])
def test_a05_reshape_of_every_size(source: Any, target: Any) -> None:
    x = RANDOM.random(source)
    check(value(lambda x: reshape(target, x), x), np.resize(x, target))


@pytest.mark.parametrize("n", [1, 4, 6, 9])
def test_a05_reshape_to_a_size_that_the_type_does_not_know(n: int) -> None:
    @pb.function
    def f(x: Float64[Array, "N"], y: Float64[Array, "M"]) -> Any:
        return reshape(shape(y), x)

    x = RANDOM.random(4)
    check(f(x, np.zeros(n)), np.resize(x, n))


def test_a05_a_reshape_that_uses_nothing_again_has_no_remainder() -> None:
    def f(x: Float64[Array, "12"]) -> Any:
        return reshape((11,), x)

    def again(x: Float64[Array, "12"]) -> Any:
        return reshape((13,), x)

    assert "%" not in pb.function(f).ir and "%" in pb.function(again).ir


def test_a06_iota() -> None:
    check(value(lambda x: iota(5) + 0 * x, np.int64(1)), np.arange(5))
    check(value(lambda x: disclose(iota((2, 2))) + 0 * x, np.int64(1)), [[[0, 0], [0, 1]], [[1, 0], [1, 1]]])
    check(value(lambda x: disclose(iota((2, 1, 1))) + 0 * x, np.int64(1)), [[[[0, 0, 0]]], [[[1, 0, 0]]]])
    indices = np.moveaxis(np.indices((2, 3, 4)), 0, -1)
    check(value(lambda x: disclose(iota(shape(x))) + x[..., None], np.zeros((2, 3, 4), np.int64)), indices)
    listed = value(lambda x: disclose(ravel(iota((2, 3)))) + 0 * x, np.int64(1))
    check(listed, np.stack(np.unravel_index(np.arange(6), (2, 3)), -1))


def test_a07_index_of_gives_the_first() -> None:
    check(value(blocks.maxpos, np.array([[1.0, 7.0], [7.0, 2.0]])), 1)
    check(value(index_of, np.array([3.0, 1.0, 3.0]), np.array([3.0, 1.0, 5.0])), [0, 1, 3])


@pytest.mark.parametrize("extents", [(), (1,), (5,), (2, 3)])
def test_a07_index_of_is_that_of_a_list(extents: tuple[int, ...]) -> None:
    for n in (1, 2, 7):
        x, y = RANDOM.integers(0, 4, n), RANDOM.integers(0, 4, extents)
        expected = [x.tolist().index(v) if v in x else n for v in np.ravel(y)]
        check(value(index_of, x, y), np.reshape(expected, extents))


@pytest.mark.parametrize("f", NUMPY, ids=lambda f: f.__name__)
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_a08_reduce(f: Any, axis: int) -> None:
    for extents in ((2, 3, 4), (3, 1, 2), (1, 4, 1)):
        x = RANDOM.uniform(0.5, 1.5, extents)
        expected = from_the_right(NUMPY[f], np.moveaxis(x, axis, 0))
        check(value(lambda x: reduce(f, x, axis=axis), x), expected)


def test_a08_reduce_over_the_last_axis_unless_told() -> None:
    check(value(lambda w: reduce(pb.add, w), W), [3, 12, 21])  # f/
    check(value(lambda w: reduce(pb.add, w, axis=0), W), [9, 12, 15])  # f⌿
    check(value(lambda w: reduce(operator.sub, w), W), [0 - (1 - 2), 3 - (4 - 5), 6 - (7 - 8)])
    check(value(lambda w: reduce(operator.sub, w, axis=None), W), from_the_right(np.subtract, W.ravel()))
    check(value(lambda x: reduce(operator.sub, x), np.float64(3)), 3)  # a scalar is its own reduction


def test_a08_reduce_of_any_extent() -> None:
    @pb.function
    def f(x: Float64[Array, "N"]) -> Any:
        return reduce(operator.sub, x)

    for n in (1, 2, 3, 6):
        x = RANDOM.random(n)
        check(f(x), from_the_right(np.subtract, x))


NEUTRAL = {pb.add: 0, pb.multiply: 1, pb.logical_and: True, pb.logical_or: False}


@pytest.mark.parametrize("f", NEUTRAL, ids=lambda f: f.__name__)
def test_a08_nothing_reduces_to_the_neutral_element(f: Any) -> None:
    empty = np.zeros((2, 0), bool if isinstance(NEUTRAL[f], bool) else float)
    check(value(lambda x: reduce(f, x), empty[0]), NEUTRAL[f])
    check(value(lambda x: reduce(f, x), empty), [NEUTRAL[f]] * 2)


@pytest.mark.parametrize("f", [operator.sub, operator.truediv], ids=lambda f: f.__name__)
def test_a08_nothing_has_no_reduction_without_a_neutral_element(f: Any) -> None:
    def g(x: Float64[Array, "0 M"]) -> Any:
        return reduce(f, x, axis=0)

    with pytest.raises(pb.ShapeError) as caught:
        pb.function(g)
    first = "ShapeError [E105] reduce: the size of the axis is 0, and this function has no neutral element"
    assert str(caught.value).partition("\n")[0] == first


def test_a09_each_and_nested_arrays() -> None:
    check(value(lambda x: each(lambda a: 1 + a)(x), W), 1 + W)
    ragged = value(lambda x: disclose(each(iota)((2, 3))) + 0 * x, np.int64(0))
    check(ragged, [[0, 1, 0], [0, 1, 2]])  # nested rows of different lengths, filled
    check(value(lambda w: disclose(enclose(w)), W), W)
    first, second = value(lambda w: pb.stack(list(each(pb.sum)(enclose(w, 1)))[:2]), W)  # (a b)←ω
    assert (first, second) == (3, 12)
    x, w = RANDOM.random((6, 5)), RANDOM.random((3, 2))
    check(value(blocks.conv, w, x), value(blocks.convstencil, w, x))


OPERATORS = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod]


@pytest.mark.parametrize("f", OPERATORS, ids=lambda f: f.__name__)
def test_a09_vectors_of_extents_calculate(f: Any) -> None:
    """As NumPy's do, with a number and with another vector."""
    a, b = Extents((7, 4, 9)), (3, 5, 2)
    assert f(a, 3) == tuple(f(n, 3) for n in a)
    assert f(a, b) == f(a, Extents(b)) == tuple(map(f, a, b))
    if f in OPERATORS[:3]:
        assert f(3, a) == tuple(f(3, n) for n in a)
    with pytest.raises(pb.ShapeError, match="E101"):
        f(a, (1, 2))


def test_a09_vectors_of_extents_are_sequences() -> None:
    a = Extents((7, 4, 9))
    assert (len(a), a[1], list(a), -a) == (3, 4, [7, 4, 9], (-7, -4, -9))
    assert a[1:] == (4, 9) and isinstance(a[1:], Extents)
    assert a != (7, 4) and a != (7, 4, 8) and a != 7


@pytest.mark.parametrize("f", [pb.add, operator.sub], ids=lambda f: f.__name__)
def test_a09_nested_arrays_are_reduced_over_their_elements(f: Any) -> None:
    x = RANDOM.random((2, 3, 4))
    numpy = NUMPY[f]
    for axis in (0, 1, -1):  # of the frame
        expected = from_the_right(numpy, np.moveaxis(x, axis if axis >= 0 else 2 + axis, 0))
        check(value(lambda x: disclose(reduce(f, enclose(x, 1), axis=axis)), x), expected)
    every = from_the_right(numpy, x.reshape(6, 4))
    check(value(lambda x: reduce(f, enclose(x, 1), axis=None), x), every)
    check(value(lambda x: reduce(f, ravel(enclose(x, 1))), x), every)


def test_a09_elements_that_are_nested_are_taken_out() -> None:
    check(value(lambda x: rank(enclose, 1)(x), W), W)
    check(value(lambda x: disclose(each(shape)(enclose(x, 1))) + 0 * pb.astype(x[:, :1], pb.int64), W), [[3]] * 3)


@pytest.mark.parametrize("f", [pb.multiply, operator.sub], ids=lambda f: f.__name__)
def test_a10_table(f: Any) -> None:
    """Every element of one with every element of the other."""
    for left, right in (((2,), (3,)), ((2, 3), (4,)), ((), (2, 2)), ((2,), ())):
        x, y = RANDOM.random(left), RANDOM.random(right)
        check(value(table(f), x, y), (np.multiply if f is pb.multiply else np.subtract).outer(x, y))


def test_a10_rank() -> None:
    twice = value(lambda x: rank(lambda s: reshape((2, 2), s), 0)(x), np.array([2.0, 3.0]))
    check(twice, [[[2, 2], [2, 2]], [[3, 3], [3, 3]]])
    shapes = ((2, 2), (2, 2))
    check(value(lambda x: rank(reshape, (1, 0))(shapes, x), np.array([2.0, 3.0])), twice)
    ragged = value(lambda x: rank(reshape, (0, 0))((2, 3), x), np.array([3.0, 4.0]))
    check(ragged, [[3, 3, 0], [4, 4, 4]])


def test_a11_functions_compose_and_bind() -> None:
    quarter, square_of = (lambda x: x / 4), (lambda s: reshape((2, 2), s))  # ÷∘4 and 2 2∘⍴
    check(value(quarter, np.float64(2)), 0.5)
    check(value(lambda x: quarter(square_of(x)), np.float64(2)), np.full((2, 2), 0.5))


def test_a10_rank_of_one_and_of_two_arguments() -> None:
    """Cells are the last axes, frames agree from the left; a shorter frame's cells go with all of the longer one's."""
    x, y = RANDOM.random((2, 3, 4)), RANDOM.random((2, 3))
    for r in (0, 1, 2, 3, 5, -1, -2, -3, -5):
        cells = min(r, 3) if r >= 0 else max(3 + r, 0)
        expected = x.sum(axis=tuple(range(3 - cells, 3)))
        check(value(rank(pb.sum, r), x), expected)
    by_row = lambda a, b: a - b[:, None]
    for f, ranks in ((operator.sub, (1, 0)), (operator.sub, (0, 0)), (operator.sub, 0), (by_row, (2, 1)), (by_row, -1)):
        check(value(rank(f, ranks), x, y), x - y[..., None])
    check(value(rank(operator.sub, (0, 1)), y, x), y[..., None] - x)
    check(value(rank(operator.sub, (2, 0, 1)), y, x), y[..., None] - x)  # the last ranks are those of the arguments


def test_a10_cells_of_different_shapes_are_filled() -> None:
    for counts in ((1, 3), (3, 1), (2, 2), (4, 2, 3)):
        x = RANDOM.random(len(counts))
        expected = np.zeros((len(counts), max(counts)))
        for row, n, v in zip(expected, counts, x):
            row[:n] = v
        check(value(lambda x: rank(reshape, (0, 0))(counts, x), x), expected)
    shapes = ((2, 1), (1, 3))
    expected = np.zeros((2, 2, 3))
    expected[0, :, :1], expected[1, :1] = 5, 7
    check(value(lambda x: rank(reshape, (1, 0))(shapes, x), np.array([5.0, 7.0])), expected)
    shapes = ((1, 2), (3,))  # a cell of fewer axes has an extent of 1 before them
    expected = np.array([[[5.0, 5, 0]], [[7, 7, 7]]])
    check(value(lambda x: rank(reshape, (1, 0))(shapes, x), np.array([5.0, 7.0])), expected)


def test_a10_what_rank_cannot_do_is_said() -> None:
    with pytest.raises(pb.TraceError, match=r"E137.*rank: 1 rank for 2 arguments"):
        value(lambda x, y: rank(pb.add, (1,))(x, y), W, W)
    with pytest.raises(pb.ShapeError, match=r"E101.*rank: the frames"):
        value(lambda x, y: rank(pb.add, 0)(x, y), W, np.zeros((2, 3)))

    def f(x: Float64[Array, "2"], n: pb.Size["S"]) -> Any:
        return rank(reshape, (0, 0))((n, 3), x)

    with pytest.raises(pb.ShapeError, match=r"E106.*results of different shapes need fixed sizes"):
        pb.function(f)


def model(x: Any, counts: tuple[int, ...]) -> Any:
    """Take by its definition: element i of the result is that of x where there is one, counted from either end."""
    counts += x.shape[len(counts) :]
    out = np.zeros([abs(c) for c in counts])
    for i in np.ndindex(out.shape):
        at = tuple(k if c >= 0 else n + c + k for k, c, n in zip(i, counts, x.shape))
        if all(0 <= k < n for k, n in zip(at, x.shape)):
            out[i] = x[at]
    return out


@pytest.mark.parametrize("first", [-5, -3, -1, 0, 2, 3, 5])
def test_a12_take_and_drop_with_every_sign_and_size(first: int) -> None:
    x = RANDOM.random((3, 4))
    for counts in ((first,), (first, -6), (first, -2), (first, 0), (first, 3), (first, 5)):
        check(value(lambda x: take(counts, x), x), model(x, counts))
        rows = slice(first, None) if first >= 0 else slice(None, max(3 + first, 0))
        columns = slice(None)
        if len(counts) > 1:
            columns = slice(counts[1], None) if counts[1] >= 0 else slice(None, max(4 + counts[1], 0))
        check(value(lambda x: drop(counts, x), x), x[rows, columns])


def test_a12_the_table_of_backin() -> None:
    d, w = np.arange(1.0, 10).reshape(3, 3), np.arange(1.0, 5).reshape(2, 2)

    def panels(d: Any, w: Any) -> Any:
        return disclose(ravel(each(lambda i: take((4, 4), take(-(i + shape(d)), d)))(iota(shape(w)))))

    corner = lambda top, left: np.pad(d, ((top, 1 - top), (left, 1 - left)))
    check(value(panels, d, w), [corner(0, 0), corner(0, 1), corner(1, 0), corner(1, 1)])
    check(value(lambda x: take(5, x), np.array([1.0, 2, 3])), [1, 2, 3, 0, 0])
    check(value(lambda x: take(-5, x), np.array([1.0, 2, 3])), [0, 0, 1, 2, 3])


def test_a12_what_take_and_drop_assume_of_extents_is_in_the_type() -> None:
    def f(x: Float64[Array, "N"], y: Float64[Array, "K"]) -> Any:
        return take(shape(x) - shape(y), x), drop(shape(y), x)

    assert pb.function(f).type == "(x: f64[N], y: f64[K]) -> (f64[N - K], f64[N - K]) where N >= K + 1"
    x = RANDOM.random(5)
    first, last = pb.function(f)(x, np.zeros(2))
    check(first, x[:3])
    check(last, x[2:])


def test_a12_a_count_of_extents_is_taken_to_be_positive() -> None:
    def f(x: Float64[Array, "N"], y: Float64[Array, "K"]) -> Any:
        return drop(shape(x) - shape(y), x)

    assert pb.function(f).type == "(x: f64[N], y: f64[K]) -> f64[K] where N >= K"


def test_a13_transpose() -> None:
    x = RANDOM.random((2, 3, 4))
    check(value(transpose, x), x.T)
    check(value(rank(transpose, 2), x), x.transpose(0, 2, 1))
    check(value(rank(transpose, 1), x), x)
    for places in itertools.permutations(range(3)):  # axis k of x becomes axis places[k]
        check(value(lambda x: transpose(x, places), x), x.transpose(np.argsort(places)))
    check(value(lambda w: transpose(w, (0, 0)), W), np.diagonal(W))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_a13_replicate(axis: int) -> None:
    x = RANDOM.random((2, 3, 4))
    for count in (1, 2, 3):
        check(value(lambda x: replicate(count, x, axis=axis), x), np.repeat(x, count, axis=axis))
    for counts in itertools.product((0, 2, 1), repeat=2):  # one for each slice
        some = x[:2, :2, :2]
        check(value(lambda x: replicate(counts, x, axis=axis), some), np.repeat(some, counts, axis=axis))


def test_a13_replicate_is_along_the_last_axis_unless_told() -> None:
    check(value(lambda w: replicate(2, w), W), np.repeat(W, 2, axis=1))  # 2/
    check(value(lambda w: replicate(2, w, axis=0), W), np.repeat(W, 2, axis=0))  # 2⌿


def test_a13_larger_smaller_and_index() -> None:
    check(value(pb.maximum, W, W.T.copy()), np.maximum(W, W.T))  # ⌈
    check(value(pb.minimum, W, W.T.copy()), np.minimum(W, W.T))  # ⌊
    check(value(lambda w: w[1], W), W[1])  # ⌷
    check(value(lambda w: w[2, 1], W), W[2, 1])
    check(value(lambda w: rank(lambda row: row[2], 1)(w), W), W[:, 2])


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a13_power(n: int) -> None:
    check(value(power(lambda a: a / 2 + 1, n), W), functools.reduce(lambda w, _: w / 2 + 1, range(n), W))

    @pb.function
    def trained(x: Float64[Array, "N"], epochs: pb.Size["E"]) -> Any:
        return power(lambda a: a / 2 + 1, epochs)(x)  # ⍣epochs

    check(trained(W[0], n), functools.reduce(lambda w, _: w / 2 + 1, range(n), W[0]))


def test_a14_stencil() -> None:
    seen = value(lambda x: stencil(lambda v: v, (3, 3))(x), np.ones((3, 3)))
    assert seen.shape == (3, 3, 3, 3)
    check(seen[0, 0], [[0, 0, 0], [0, 1, 1], [0, 1, 1]])
    check(seen[1, 1], np.ones((3, 3)))
    check(seen[2, 1], [[1, 1, 1], [1, 1, 1], [0, 0, 0]])
    moved = value(lambda x: stencil(lambda v: v, (2, 2), (2, 2))(x), np.arange(16.0).reshape(4, 4))
    check(moved, np.arange(16.0).reshape(2, 2, 2, 2).transpose(0, 2, 1, 3))


@pytest.mark.parametrize("window", [1, 2, 3, 4, 5, (3, 2), (2, 5), (1, 3)])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_a14_stencil_of_every_window_and_step(window: Any, step: int) -> None:
    """⌊(w - 1) / 2⌋ zeros on either side, then windows of the first axes; the other axes are taken whole."""
    x, sizes = RANDOM.random((6, 5)), np.atleast_1d(window)
    padded = np.pad(x, [((w - 1) // 2,) * 2 for w in sizes] + [(0, 0)] * (2 - len(sizes)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, sizes, axis=tuple(range(len(sizes))))
    if len(sizes) == 1:
        seen = np.moveaxis(seen, -1, 1)
    expected = seen[(slice(None, None, step),) * len(sizes)]
    check(value(lambda x: stencil(lambda v: v, window, step)(x), x), expected)
    steps = (step, 1)[: len(sizes)]
    expected = seen[tuple(slice(None, None, s) for s in steps)]
    check(value(lambda x: stencil(lambda v: v, window, steps)(x), x), expected)


@pytest.mark.parametrize(("window", "step"), [((2, 2, 2), 1), ((2, 2), (1, 1, 1)), ((2, 2, 2), (1, 1))])
def test_a14_a_window_has_no_more_extents_than_the_array(window: Any, step: Any) -> None:
    with pytest.raises(pb.ShapeError, match=r"stencil: a window of \d and a step of \d sizes for an array of 2 axes"):
        value(lambda x: stencil(lambda v: v, window, step)(x), W)


def test_a15_a_train_is_a_function() -> None:
    check(value(blocks.average, W), 4)


# The ten blocks -----------------------------------------------------------------------------------------------

NAMES = ["blog", "backbias", "logistic", "maxpos", "backavgpool", "meansqerr", "avgpool", "conv", "backin", "multiconv"]


def source_of(name: str) -> tuple[int, ast.expr]:
    for statement in ast.parse(EXAMPLE.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            if statement.targets[0].id == name:
                assert statement.lineno == statement.end_lineno
                return statement.lineno, statement.value
    raise AssertionError(f"{name} is not defined in {EXAMPLE.name}")


def test_a16_no_loop_no_subscript_no_library() -> None:
    language = {*pb.verbs.__all__, "add", "exp", "maximum", "len", *NAMES}
    for name in NAMES:
        tree = source_of(name)[1]
        bound = {a.arg for n in ast.walk(tree) if isinstance(n, ast.Lambda) for a in n.args.args}
        for node in ast.walk(tree):
            assert not isinstance(node, ast.For | ast.While | ast.comprehension | ast.Subscript | ast.NamedExpr), name
            if isinstance(node, ast.Name):
                assert node.id in language | bound, (name, node.id)


def test_a17_ten_blocks_in_ten_lines() -> None:
    lines = [source_of(name)[0] for name in NAMES]
    assert lines == list(range(lines[0], lines[0] + 10))


def numpy_conv(w: Any, x: Any) -> Any:
    seen = np.lib.stride_tricks.sliding_window_view(x, w.shape)
    return np.tensordot(seen, w, w.ndim)


def numpy_backin(d: Any, w: Any, x: Any) -> Any:
    out = np.zeros_like(x)
    for i in np.ndindex(w.shape):
        out[tuple(slice(a, a + n) for a, n in zip(i, d.shape))] += w[i] * d
    return out


def test_a17_values() -> None:
    a, b = RANDOM.random((3, 4)), RANDOM.random((3, 4))
    check(value(blocks.blog, a, b), a * b * (1 - b))
    check(value(blocks.backbias, a), a.sum())
    check(value(blocks.logistic, a), 1 / (1 + np.exp(-a)))
    check(value(blocks.maxpos, a), a.argmax())
    check(value(blocks.backavgpool, a), np.kron(a, np.full((2, 2), 0.25)))
    check(value(blocks.meansqerr, a, b), ((a - b) ** 2).sum() / 2)


@pytest.mark.parametrize(
    ("x", "w"), [((9,), (3,)), ((6, 7), (3, 2)), ((3, 6, 5), (3, 2, 4)), ((2, 3, 4, 3), (2, 1, 3, 1))]
)
def test_a17_conv_backin_and_multiconv_at_every_rank(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    image, window = RANDOM.random(x), RANDOM.random((2, *w))
    check(value(blocks.conv, window[0], image), numpy_conv(window[0], image))

    @pb.function
    def both(ws: Any, x: Any, bs: Any, d: Any) -> Any:
        return blocks.multiconv(x, ws, bs), blocks.backin(d, ws[0], x)

    bias, d = RANDOM.random(2), RANDOM.random(numpy_conv(window[0], image).shape)
    many, back = both(window, image, bias, d)
    check(many, np.stack([numpy_conv(k, image) + b for k, b in zip(window, bias)]))
    check(back, numpy_backin(d, window[0], image))


def test_a17_a_stack_of_planes() -> None:
    x = RANDOM.random((2, 3, 4, 6))
    check(value(blocks.avgpool, x), x.reshape(2, 3, 2, 2, 3, 2).mean(axis=(3, 5)))
    check(value(blocks.backavgpool, x), np.kron(x, np.full((1, 1, 2, 2), 0.25)))


@pytest.mark.parametrize(("x", "w"), [((9,), (3,)), ((9,), (4,)), ((6, 7), (3, 2)), ((3, 6, 5), (3, 2, 4))])
def test_a18_both_convolutions_are_equal(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    image, window = RANDOM.random(x), RANDOM.random(w)
    check(value(blocks.convstencil, window, image), value(blocks.conv, window, image))


def test_a18_for_all_sizes_and_with_derivatives() -> None:
    def shifted(w: Float64[Array, "P Q"], x: Float64[Array, "H W"]) -> Any:
        return blocks.conv(w, x)

    def windowed(w: Float64[Array, "P Q"], x: Float64[Array, "H W"]) -> Any:
        return blocks.convstencil(w, x)

    w, x = RANDOM.random((3, 2)), RANDOM.random((5, 6))
    for f in (shifted, windowed):
        check(pb.function(f)(w, x), numpy_conv(w, x))
        check_grads(f, (w, x), order=1)
    assert "[H - P + 1, W - Q + 1]" in str(pb.function(shifted).type)


def test_a18_both_compile_to_one_loop_nest_without_temporaries() -> None:
    def shifted(w: Float64[Array, "P Q"], x: Float64[Array, "H W"]) -> Any:
        return blocks.conv(w, x)

    def windowed(w: Float64[Array, "P Q"], x: Float64[Array, "H W"]) -> Any:
        return blocks.convstencil(w, x)

    for f in (shifted, windowed):
        text = pb.function(f).c_source(P=3, Q=3, H=8, W=8)
        assert "324 multiply-adds, 0 buffers, peak 0 bytes" in text  # 6 · 6 · 3 · 3
        assert "`arena` is not used" in text


def test_a19_both_poolings_are_equal_and_of_every_size() -> None:
    x = RANDOM.random((2, 6, 12))
    check(value(blocks.avgreshape, x), value(blocks.avgpool, x))
    check(value(lambda x: blocks.avgpoolby((2, 2), x), x), value(blocks.avgpool, x))
    check(value(lambda x: blocks.avgpoolby((3, 4), x), x), x.reshape(2, 2, 3, 3, 4).mean(axis=(2, 4)))
    check(value(lambda x: blocks.backpoolby((2, 2), x), x), value(blocks.backavgpool, x))
    check(value(lambda x: blocks.backpoolby((3, 4), x), x), np.kron(x, np.full((1, 3, 4), 1 / 12)))


def example() -> tuple[Any, Any, Any]:
    return zhang.start("uniform", seed=2, dtype=np.float64), RANDOM.random((28, 28)), np.uint8(4)


def test_a20_the_network_is_the_one_in_index_notation() -> None:
    parameters, image, _ = example()
    shapes = [(6, 24, 24), (6, 12, 12), (12, 1, 8, 8), (12, 1, 4, 4), (10, 1, 1, 1, 1)]
    ours, theirs = blocks.layers(parameters, image), zhang.layers(parameters, image)
    assert [layer.shape for layer in ours] == shapes
    for a, b in zip(ours, theirs):
        check(a, b)
    result = str(blocks.layers.type).split("->")[-1]
    assert all(str(list(s)) in result for s in shapes)


def test_a20_a_layer_of_the_size_of_its_argument_is_fully_connected() -> None:
    @pb.function
    def f(x: Float[Array, "12 1 4 4"], w: Float[Array, "10 12 1 4 4"], b: Float[Array, "10"]) -> Any:
        return blocks.multiconv(x, w, b)

    x, w, b = RANDOM.random((12, 1, 4, 4)), RANDOM.random((10, 12, 1, 4, 4)), RANDOM.random(10)
    check(f(x, w, b), (np.tensordot(w, x, 4) + b).reshape(10, 1, 1, 1, 1))


@pytest.mark.slow
def test_a21_the_gradient_by_hand_is_the_derived_one() -> None:
    arguments = example()
    by_hand = blocks.gradient(*arguments)
    for derived in (pb.grad(blocks.loss)(*arguments), pb.grad(zhang.loss)(*arguments)):
        for a, b in zip(by_hand, derived):
            check(a, b)
