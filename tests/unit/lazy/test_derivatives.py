"""Weights, backward passes, gradients, operations in Python and trainers."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from pullback import lazy, nn
from pullback.lazy import training, weight
from pullback.lazy.foreign import ForeignTape
from tests.unit.lazy.common import X, refused

# Weights, derivatives -----------------------------------------------------------------------------------------------


def test_weights() -> None:
    w = lazy.Weight([1.0, 2.0], "w")
    assert (w.name, w.version, w.grad, w.tracked, w.shape, repr(w)) == ("w", 0, None, True, (2,), "Weight(w : f64[2])")
    first = w.leaf
    w.set_value(np.array([[3.0]]))
    assert (w.version, w.shape, w.tolist(), first.tolist(), w.leaf is first) == (1, (1, 1), [[3.0]], [1.0, 2.0], False)
    assert lazy.Weight(1.0).name != lazy.Weight(1.0).name
    made = lazy.weights({"conv1": {"w": X, "b": np.zeros(2)}, "out": (X, X)})
    assert made["conv1"]["w"].name == "conv1/w" and made["out"][1].name == "out/1"
    assert made["conv1"]["w"].tolist() == X.tolist()


def test_methods_of_weights_are_those_of_the_array_they_hold() -> None:
    w = lazy.Weight(X[None])
    transposed, plus, summed = (weight.of_leaf(n) for n in ("T", "__sub__", "sum"))
    assert isinstance(transposed, property) and transposed.fget is not None
    assert transposed.fget(w).tolist() == X[:, None].tolist() == w.T.tolist()
    assert plus(w, 1.0).tolist() == [[0, 1, 3]] and summed(w, axis=1).tolist() == [7] and summed(w).item() == 7
    assert all(made.operands == (w.leaf,) for made in (transposed.fget(w), plus(w, 1.0), summed(w, axis=1)))


def test_backward() -> None:
    w = lazy.Weight(X, "w")
    assert lazy.backward(lazy.sum(w * w), retain_graph=True) == 21.0
    loss = lazy.sum(w * w * 1.5)
    assert [lazy.backward(loss, retain_graph=True), lazy.backward(loss)] == [31.5, 31.5]
    assert w.grad.tolist() == (2 * X + 6 * X).tolist()
    w.grad = None
    assert np.isnan(lazy.backward(w * 2.0, np.array([1.0, 0.0, 3.0])))
    assert w.grad.tolist() == [2.0, 0.0, 6.0]
    lazy.backward(lazy.sum(w), 0.5)
    assert w.grad.tolist() == [2.5, 0.5, 6.5]
    w.grad = None
    assert lazy.backward(w[1]) == 2.0
    assert w.grad.tolist() == [0, 1, 0]
    whole = lazy.sum(w)
    for loss, says in ((w * 2.0, "f64[3]"), (whole > 1, "bool"), (3.0, "float"), (whole * 1j, "complex128")):
        error = refused(lazy.backward, loss)
        assert (error.code, error.what) == (
            "E201", f"backward: the loss is {says}, and a gradient is that of one floating-point number")  # fmt: skip
    h = w * 3.0
    h.numpy()
    lazy.backward(lazy.sum(h * h))
    error = refused(lambda: lazy.backward(lazy.sum(h)))
    assert (error.code, error.remedy) == ("E702", "`retain=True` in the first backward pass keeps it for another")
    loss = lazy.sum(w * 2.0)
    w.set_value(X + 1)
    assert refused(lazy.backward, loss).what == "w was changed between the forward and the backward pass"
    assert lazy.backward(lazy.sum(lazy.asarray(X))) == 7.0


def test_results_of_one_piece_have_deltas_of_their_own() -> None:
    """Two that were computed together, of which the loss reads one, the other, and both."""
    for share in ((3.0, 0.0), (0.0, 5.0), (3.0, 5.0)):
        w, v = lazy.Weight(X), lazy.Weight(X)
        a, b = w * 2.0, v * w
        both = lazy.sum(a) + lazy.sum(b)
        both.numpy()
        assert a.origin[0] is b.origin[0]
        loss = lazy.sum(sum(k * x for k, x in zip(share, (a, b), strict=True) if k))
        lazy.backward(loss)
        assert w.grad.tolist() == (2 * share[0] + share[1] * X).tolist()
        assert (v.grad is None and not share[1]) or v.grad.tolist() == (share[1] * X).tolist()


@pytest.mark.parametrize("forced", ["", "z", "zu", "v", "zuv"])
def test_complex_values_between_pieces(forced: str) -> None:
    """Complex leaves and results of a piece, before and behind real ones."""
    a, b, c = X / 4, X[::-1] / 3, X - 2.5

    def f(xp: Any, a: Any, b: Any, c: Any, look: Any = lambda n, x: x) -> Any:
        z = look("z", a + b * 1j)
        u = look("u", z * c)
        v = look("v", xp.conj(u) * (z + 2.0) + c)
        return xp.sum(xp.real(v) * c) + xp.sum(xp.imag(v) * a) + xp.sum(xp.real(xp.conj(u) * u))

    def look(name: str, x: Any) -> Any:
        if name in forced:
            x.numpy()
        held.append(x)
        return x

    held: list[Any] = []
    cells = [lazy.Weight(v) for v in (a, b, c)]
    loss = f(lazy, *cells, look)
    before = lazy.stats()
    for _ in range(2):
        assert lazy.backward(loss, retain_graph=True) == pytest.approx(f(np, a, b, c))
    step = 1e-6
    for k, w in enumerate(cells):
        for j in range(3):
            moved = [np.array(v) for v in (a, b, c)], [np.array(v) for v in (a, b, c)]
            moved[0][k][j] += step
            moved[1][k][j] -= step
            slope = (f(np, *moved[0]) - f(np, *moved[1])) / (2 * step)
            assert w.grad[j] == pytest.approx(2 * slope, rel=1e-7, abs=1e-8)
    held.clear()
    del loss
    assert (lazy.stats() - before).tapes <= 0


def test_gradients_by_several_and_keywords() -> None:
    f = lambda x, y, *, k=1.0: lazy.sum(x * y) * k
    value, (dx, dy) = lazy.value_and_grad(f, (0, 1))(X, 2.0 * X, k=3.0)
    assert (float(value), dx.tolist(), dy.tolist()) == (126.0, (6 * X).tolist(), (3 * X).tolist())
    assert lazy.grad(f, 1)(X, X).tolist() == X.tolist()
    assert lazy.grad(lambda x, y: lazy.sum(x))(X, X).tolist() == [1, 1, 1]
    assert lazy.grad(lambda x, y: lazy.sum(x), 1)(X, X).tolist() == [0, 0, 0]
    found = lazy.grad(lambda p: p["a"] * p["b"][0] ** 2)({"a": 2.0, "b": [3.0]})
    assert (found["a"].item(), [v.item() for v in found["b"]]) == (9.0, [12.0])
    assert refused(lambda: lazy.grad(lambda x: x * 2.0)(X)).what == (
        "grad(<lambda>): the result is f64[3], and a gradient is that of one floating-point number")  # fmt: skip
    cube = lambda x: x * x * x
    assert lazy.grad(lazy.grad(lazy.grad(cube)))(2.0).item() == 6.0
    w = lazy.Weight(3.0)
    lazy.backward(lazy.grad(lambda x: cube(x) * w, differentiable=True)(2.0))
    assert w.grad == 12.0
    w.grad = None
    plain = lazy.grad(lambda x: cube(x) * w)(2.0)
    assert plain.item() == 36.0 and not plain.tracked and w.grad is None
    inner = lazy.grad(lambda x: cube(x) * w)(w)  # an argument that is tracked
    lazy.backward(inner)
    assert w.grad == 6 * 9.0 + 27.0
    mixed = lazy.grad(lambda x, y: lazy.grad(lambda t: cube(t) * y)(x) * x)(2.0, 5.0)
    assert mixed.item() == 9 * 4 * 5.0


class Twice(lazy.Foreign):
    """Two results, the second of which may have no gradient."""

    def __init__(self) -> None:
        self.released: list[Any] = []
        self.seen: list[Any] = []

    def result(self, x: Any, y: Any) -> Any:
        return [(x.shape, x.dtype), (y.shape, "float32")]

    def forward(self, x: Any, y: Any) -> Any:
        return (2 * x, np.float32(3) * y.astype("f4")), (x, y)

    def backward(self, saved: Any, gradients: Any) -> Any:
        self.seen.append([None if d is None else np.asarray(d).tolist() for d in gradients])
        return None if gradients[0] is None else 2 * gradients[0], None if gradients[1] is None else 3.0 * gradients[1]

    def release(self, saved: Any) -> None:
        self.released.append(saved)


def test_operations_in_python() -> None:
    twice, w = Twice(), lazy.Weight(X)
    before = lazy.stats()
    a, b = twice(w, lazy.asarray(X))
    assert (a.dtype, b.dtype, b.shape, (lazy.stats() - before).foreign) == (lazy.float64, lazy.float32, (3,), 0)
    assert b.tolist() == (3 * X).tolist() and (lazy.stats() - before).foreign == 1
    lazy.backward(lazy.sum(a))
    assert (w.grad.tolist(), twice.seen, (lazy.stats() - before).foreign) == ([2, 2, 2], [[[1, 1, 1], None]], 2)
    assert len(twice.released) == 1
    plain = twice(X, X)[0]
    plain.numpy()
    assert len(twice.released) == 2  # at once where no derivative is wanted
    del a, b

    class Wrong(lazy.Foreign):
        name = "wrong"

        def result(self, x: Any) -> Any:
            return x.shape, x.dtype

        def forward(self, x: Any) -> Any:
            return x.astype("f4") if x[0] > 1 else x[:1], None

        def backward(self, saved: Any, gradient: Any) -> Any:
            return (gradient,)

    for value, says in ((X + 1, "float32[3]"), (X, "float64[1]")):
        error = refused(lambda value=value: Wrong()(value).numpy())
        assert (error.code, error.what) == ("E704", f"wrong: forward gave {says}, and its result was said to be f64[3]")
        assert error.position is not None
    error = refused(lambda: lazy.grad(lambda x: lazy.sum(lazy.grad(lambda y: lazy.sum(twice(y, X)[0]))(x)))(X))
    assert error.code == "E708"
    assert error.what == "Twice is an operation in Python, whose backward pass has no derivative"
    tape = ForeignTape(plain_application(twice), (lazy.asarray(X),), np.zeros(2))
    assert (tape.count, tape.released, tape.work) == (2, False, float("inf"))
    tape.release()
    assert tape.released and tape.leaves == ()


def plain_application(operation: Any) -> Any:
    return operation(X, X)[0].operands[0].application


def test_trainers() -> None:
    w, v = lazy.Weight(X, "w"), lazy.Weight(np.float32([1.0]), "v")
    trainer = lazy.Trainer({"w": w, "v": v, "n": 3}, nn.adam(0.1))
    trainer.update()
    assert (trainer.steps, sorted(trainer.weights)) == (0, ["v", "w"])
    assert trainer.step(lazy.sum(w * 1.0)) == 7.0
    np.testing.assert_allclose(w, X - 0.1, rtol=1e-6)
    assert (trainer.steps, w.grad, v.tolist(), w.version) == (1, None, [1.0], 1)
    assert sorted(trainer.state["mean"]) == ["v", "w"] and trainer.state["mean"]["v"].dtype == np.float32
    asyncio.run(trainer.train(lazy.sum(w) + lazy.sum(v)))
    assert trainer.steps == 2 and v.tolist() != [1.0] and v.dtype == lazy.float32
    assert lazy.run(trainer.train(lazy.sum(w))) == pytest.approx(float(np.sum(X)) - 0.6, abs=1e-6)
    w.grad = np.asfortranarray([[1.0, 1.0, 1.0]])  # whatever is an array of as many elements
    trainer.update()
    assert trainer.steps == 4
    assert len(trainer._kernels) == 2  # of one weight of each type, and of both
    error = refused(lazy.Trainer, [lazy.Weight(X, "w"), w], nn.sgd(0.1))
    assert (error.code, error.what) == ("E707", "Trainer: two weights have one name")
    error = refused(lazy.Trainer, [w], nn.clip_by_global_norm(1.0))
    assert (error.code, error.what) == ("E171", "Trainer: clip_by_global_norm(1.0) makes no updates of gradients")
    assert refused(lazy.Trainer, [w], 0.1).code == "E170"
    assert training._nested({("a", "b"): 1, ("a", "c"): 2, ("d",): 3}) == {"a": {"b": 1, "c": 2}, "d": 3}
    assert dict(training._leaves({"a": {"b": X}, "d": 3})) == {("a", "b"): X, ("d",): np.asarray(3)}
    assert training._reads_names(nn.parameter_groups({"a": nn.sgd(0.1)})) and not training._reads_names(nn.sgd(0.1))
    assert training._reads_names(nn.clip_by_global_norm(1.0) >> nn.parameter_groups({"a": nn.sgd(0.1)}))
