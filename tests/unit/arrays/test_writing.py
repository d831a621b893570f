"""`x.set(index, value)` and `x.add(index, value)` against NumPy's assignment and `add.at`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array

S = slice
X = np.random.default_rng(0).normal(size=(5, 6))
I, J = np.array([1, 3, 1, -1]), np.array([0, 2, 0, 5])


def rows(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).normal(size=shape)


CASES: dict[str, tuple[Callable[..., Any], Any, tuple[Any, ...]]] = {
    "row": (lambda: 2, rows(6), ()),
    "element": (lambda: (2, -1), np.array(3.0), ()),
    "slice": (lambda: (S(1, 4),), np.array(1.0), ()),
    "steps": (lambda: (S(None, None, 2), S(5, None, -2)), rows(3, 3), ()),
    "column": (lambda: (..., 0), rows(5), ()),
    "new axis": (lambda: (S(None), None, 3), rows(5, 1), ()),
    "nothing": (lambda: S(3, 3), np.array(1.0), ()),
    "rows by data": (lambda i: i, rows(4, 6), (I,)),
    "rows by data, a slice": (lambda i: (i, S(1, 3)), rows(4, 2), (I,)),
    "columns by data": (lambda i: (S(1, 3), i), rows(2, 4), (J,)),
    "elements by data": (lambda i, j: (i, j), rows(4), (I, J)),
    "a row, columns by data": (lambda j: (2, j), rows(4), (J,)),
    "a table of elements": (lambda i, j: (i[:, None], j[None, :]), rows(4, 4), (I, J)),
    "a mask": (lambda m: m > 0, np.array(7.0), (X,)),
    "a mask of rows": (lambda m: m[:, 0] > 0, np.array(7.0), (X,)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("what", ["set", "add"])
def test_as_numpy_does(case: str, what: str) -> None:
    key, value, given = CASES[case]
    expected = X.copy()
    if what == "set":
        expected[key(*given)] = value
    else:
        np.add.at(expected, key(*given), value)
    f = pb.function(lambda x, v, given: getattr(x, what)(key(*given), v))
    for call in (f, f.interpret):
        np.testing.assert_allclose(call(X, value, given), expected)
    weight = np.arange(30.0).reshape(5, 6)
    total = pb.function(lambda x, v, given: pb.sum(f(x, v, given) * weight))
    by_x, by_value = pb.grad(total, wrt=("x", "v"))(X, value, given)
    kept = np.ones((5, 6))
    if what == "set":
        kept[key(*given)] = 0
    np.testing.assert_allclose(by_x, weight * kept)
    numerical = [(total(X, value + e, given) - total(X, value - e, given)) / 2e-3 for e in _steps(value)]
    np.testing.assert_allclose(np.ravel(by_value), numerical, atol=1e-6)


def _steps(value: Any) -> list[Any]:
    return [1e-3 * e.reshape(value.shape) for e in np.eye(value.size)]


def test_of_several_writes_the_last_stays() -> None:
    @pb.function
    def put(x: Float64[Array, "N"], i: Int64[Array, "M"], v: Float64[Array, "M"]):
        return x.set(i, v)

    x, i = np.zeros(5), np.array([1, 3, 1, -1])
    assert put(x, i, np.arange(1.0, 5.0)).tolist() == [0, 3, 0, 2, 4]
    by_v = pb.grad(pb.function(lambda x, i, v: pb.sum(put(x, i, v))), wrt="v")(x, i, np.ones(4))
    assert by_v.tolist() == [0, 1, 1, 1]
    for call in (put, put.interpret):
        with pytest.raises(IndexError, match="E401"):
            call(x, np.array([5]), np.ones(1))


def test_writes_in_loops_and_batches() -> None:
    table = pb.function(lambda x: pb.fold(3, x, lambda s, k: s.set((k, k), s[k, k] * 2)))
    expected = X.copy()
    expected[[0, 1, 2], [0, 1, 2]] *= 2
    np.testing.assert_allclose(table(X), expected)
    batched = pb.vmap(pb.function(lambda x, i: x.set(i, 0.0)))(X, np.arange(5))
    np.testing.assert_allclose(batched, np.where(np.eye(5, 6) > 0, 0, X))


def test_what_does_not_fit() -> None:
    with pytest.raises(pb.DTypeError, match="E120"):
        pb.function(lambda x: x.set(0, x.astype("float64")[0]))(np.arange(3))
    with pytest.raises(pb.ShapeError):
        pb.function(lambda x: x.set(slice(0, 2), x))(np.zeros(3))
    with pytest.raises(pb.ShapeError, match="E103"):
        pb.function(lambda x: x.set(7, 0.0))(np.zeros(3))
