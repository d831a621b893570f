"""Habits from other libraries: NumPy's functions, trees of parameters, copies, names."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from pullback import TraceError, UnknownNameError, lazy


@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (lambda v: np.sum(np.dot(v, v)), lambda v: 2 * v),
        (lambda v: np.mean(v) * np.max(np.stack([v, v])), lambda v: np.max(v) / 3 + np.mean(v) * (v == np.max(v))),
        (lambda v: np.sum(np.where(v > 1, v * v, np.concatenate([v[:1], v[1:]]))), lambda v: np.where(v > 1, 2 * v, 1)),
        (lambda v: np.linalg.norm(v) if np.median(v) > 9 else np.linalg.det(np.diag(v)), lambda v: np.prod(v) / v),
    ],
)
def test_derivatives_pass_through_functions_of_numpy(f: Any, slope: Any) -> None:
    """NumPy once ran such calls on values: `np.dot` of a weight was a constant, and its gradient lacked a term."""
    x = np.array([0.5, 2.0, 3.0])
    np.testing.assert_allclose(lazy.grad(f)(x), slope(x), rtol=1e-12)


def test_gradients_by_trees() -> None:
    p = {"a": np.array([1.0, 2.0]), "b": (3.0, [np.array([4.0])])}
    found = lazy.grad(lambda p, x: lazy.sum(p["a"] ** 2 * x) * p["b"][0] + p["b"][1][0][0])(p, np.array([1.0, 0.5]))
    assert (found["a"].tolist(), float(found["b"][0]), found["b"][1][0].tolist()) == ([6.0, 6.0], 3.0, [1.0])
    second = lazy.grad(lambda p: lazy.sum(lazy.grad(lambda q: lazy.sum(q["w"] ** 3))(p)["w"]))({"w": np.ones(2)})
    assert second["w"].tolist() == [6.0, 6.0]
    assert lazy.grad(lambda v: lazy.sum(v * v))([1.0, 2.0]).tolist() == [2.0, 4.0]


def test_copies_are_weights_of_their_own_and_values() -> None:
    """A copy's gradient went to the weight that it was copied from."""
    w = lazy.Weight(np.ones(2), "w")
    other, again = copy.deepcopy([w, w])
    assert other is again
    for u in (other, copy.copy(w), pickle.loads(pickle.dumps(w))):
        lazy.backward(lazy.sum(u * u))
        assert (u.grad.tolist(), w.grad, u.name) == ([2.0, 2.0], None, "w")
    x = w * 3.0
    assert copy.copy(x) is not x and copy.copy(x).tolist() == x.tolist()  # for writes to one of both
    assert pickle.loads(pickle.dumps(x)).tolist() == [3.0, 3.0]


def test_nobody_writes_into_a_weight() -> None:
    start = np.ones(2)
    w = lazy.Weight(start)
    start += 1.0
    assert w.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        w.numpy()[0] = 5.0


def test_lists_are_subscripts() -> None:
    x = lazy.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert x[[1, 0]].tolist() == [[3.0, 4.0], [1.0, 2.0]]
    assert x[:, [False, True]].tolist() == [[2.0], [4.0]]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("sigmoid", "`lazy.logistic`"),
        ("array", "`lazy.asarray`"),
        ("cond", "`if` of Python"),
        ("fold", "a loop of Python"),
        ("vmap", "`lazy.lift` of a traced function that uses `pb.vmap`"),
        ("gelu", "`lazy.lift(nn.gelu)`"),
        ("no_grad", "nothing: only what is computed from a `lazy.Weight`"),
    ],
)
def test_names_of_others(name: str, remedy: str) -> None:
    assert not hasattr(lazy, name)
    with pytest.raises(UnknownNameError) as caught:
        getattr(lazy, name)
    assert f"lazy has no {name!r}" in str(caught.value)
    assert f"try: {remedy}" in str(caught.value)


def test_run_takes_coroutines() -> None:
    with pytest.raises(TraceError, match=r"E706.* Array is no coroutine"):
        lazy.run(lazy.asarray(1.0))  # type: ignore[arg-type]
