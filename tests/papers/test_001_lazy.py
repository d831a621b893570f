"""DeepLearning.scala (2019) on lazy arrays: types, dynamic networks in four styles, tapes, training."""

from __future__ import annotations

import asyncio
import gc
import operator
import re
import threading
from dataclasses import dataclass
from functools import reduce
from itertools import permutations
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from jaxtyping import Float64

from pullback import DerivativeError, ShapeError, TraceError, data, lazy, nn
from tests.docs.test_documents import WITH_PYTHON

KINDS = {
    "value": lambda x: x,
    "weight": lambda x: lazy.Weight(x),
    "layer": lambda x: lazy.asarray(x) * 1.0,
}
OPERATIONS = [
    lambda xp, a, b: a + b,
    lambda xp, a, b: a - b,
    lambda xp, a, b: a * b,
    lambda xp, a, b: a / b,
    lambda xp, a, b: xp.minimum(a, b),
    lambda xp, a, b: xp.maximum(a, b),
    lambda xp, a, b: a**b,
]
UNARY = ("negative", "abs", "exp", "sqrt", "log")


def slope(f: Any, x: Any, step: float = 1e-6) -> Any:
    """The gradient of a function of NumPy arrays by central differences."""
    x = np.asarray(x, float)
    out = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        moved = np.zeros(x.shape)
        moved[place] = step
        out[place] = (f(x + moved) - f(x - moved)) / (2 * step)
    return out


@pytest.mark.slow
def test_b01_b02_every_operator_takes_all_nine_types() -> None:
    shapes: dict[str, Any] = {
        "float32": np.float32(1.5),
        "float64": np.float64(2.5),
        "array": np.array([[0.5, 1.25], [2.0, 3.0]]),
    }
    for a in shapes.values():
        for b in shapes.values():
            for k in KINDS.values():
                for m in KINDS.values():
                    for f in OPERATIONS:
                        found = lazy.asarray(f(lazy, k(np.asarray(a)), m(np.asarray(b))))
                        np.testing.assert_allclose(found, f(np, a, b), rtol=1e-6)
    x = shapes["array"]
    for f in OPERATIONS:
        w = lazy.Weight(x)
        lazy.backward(lazy.sum(f(lazy, w, x[::-1] + 0.3)))
        np.testing.assert_allclose(w.grad, slope(lambda v, f=f: np.sum(f(np, v, x[::-1] + 0.3)), x), rtol=1e-6)
    for name in UNARY:
        own = lazy.grad(lambda v, name=name: lazy.sum(getattr(lazy, name)(v)))(x)
        np.testing.assert_allclose(own, slope(lambda v, name=name: np.sum(getattr(np, name)(v)), x), rtol=1e-6)
    np.testing.assert_allclose(lazy.grad(lambda v: lazy.sum(v @ v))(x), slope(lambda v: np.sum(v @ v), x), rtol=1e-6)


def test_b03_operations_on_arrays() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    operations = [
        lambda xp, v: xp.mean(v) * xp.sum(v, axis=(0, 2)),
        lambda xp, v: xp.permute_dims(v, (2, 0, 1)) if xp is lazy else np.transpose(v, (2, 0, 1)),
        lambda xp, v: xp.reshape(v, (6, 4)) @ xp.reshape(v, (4, 6)),
        lambda xp, v: xp.broadcast_to(v, (5, 2, 3, 4)) * 2.0,
        lambda xp, v: xp.max(v[:, :, :2] + v[:, :, 2:], axis=1),
        lambda xp, v: xp.roll(v, 1, axis=2) * v,
        lambda xp, v: xp.stack([v[0], v[1] * 2.0]),
    ]
    for f in operations:
        np.testing.assert_allclose(lazy.asarray(f(lazy, lazy.asarray(x))), f(np, x), rtol=1e-12)
        own = lazy.grad(lambda v, f=f: lazy.sum(f(lazy, v) ** 2))(x)
        np.testing.assert_allclose(own, slope(lambda v, f=f: np.sum(f(np, v) ** 2), x), rtol=1e-5, atol=1e-7)


def test_b03_convolutions_and_windows() -> None:
    """Layers of `pullback.nn` as operations: windows of an image, their products with weights, their maxima."""
    r = np.random.default_rng(4)
    x, w = r.normal(size=(2, 2, 5, 5)), r.normal(size=(3, 2, 3, 3))
    conv, largest = lazy.lift(nn.conv(3, 3, bias=False)), lazy.lift(nn.max_pool(2, stride=1))

    def expected(x: Any, w: Any) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
        y = np.einsum("bcijuv,ocuv->boij", windows, w)
        return np.lib.stride_tricks.sliding_window_view(y, (2, 2), axis=(2, 3)).max((4, 5))

    def network(x: Any, w: Any) -> Any:
        return largest({}, conv({"w": w}, x))

    np.testing.assert_allclose(network(lazy.asarray(x), lazy.asarray(w)), expected(x, w), rtol=1e-12)
    found = lazy.grad(lambda x, w: lazy.sum(network(x, w) ** 2), wrt=(0, 1))(x, w)
    np.testing.assert_allclose(found[0], slope(lambda x: np.sum(expected(x, w) ** 2), x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], slope(lambda w: np.sum(expected(x, w) ** 2), w), rtol=1e-5, atol=1e-6)


def iq_test() -> tuple[Any, Any]:
    """The paper's listings 1 and 5: a dot product by map and reduce, and a square loss that trains its weights."""
    r = np.random.default_rng(0)
    weights = [lazy.Weight(r.random(), f"weight{k}") for k in range(3)]
    bias = lazy.Weight(r.random(), "bias")

    def guess(question: Any) -> Any:
        return reduce(operator.add, map(operator.mul, question, weights)) + bias

    def regression(question: Any, answer: float) -> Any:
        difference = guess(question) - answer
        return difference * difference

    trainer = lazy.Trainer([*weights, bias], nn.adam(0.03))
    for _ in range(500):
        sequences = (([3.0, 6.0, 9.0], 12.0), ([13.0, 19.0, 25.0], 31.0), ([41.0, 42.0, 43.0], 44.0))
        trainer.step(reduce(operator.add, [regression([lazy.asarray(x) for x in q], a) for q, a in sequences]))
    return guess, trainer


def test_b04_b05_b26_training_one_network_trains_another() -> None:
    guess, _ = iq_test()
    assert float(guess([lazy.asarray(q) for q in (42.0, 43.0, 44.0)])) == pytest.approx(45.0, abs=0.1)


def test_b06_nothing_runs_until_it_is_awaited() -> None:
    before = lazy.stats()
    x = lazy.sum(lazy.exp(lazy.asarray([1.0, 2.0])) * 3.0)
    task = x.predict()
    assert (lazy.stats() - before).kernels == 0
    assert lazy.run(task) == pytest.approx(3 * np.exp([1, 2]).sum())
    assert (lazy.stats() - before).kernels == 1

    async def twice() -> Any:
        return await x, await x

    assert len(set(map(float, lazy.run(twice())))) == 1  # the value is kept
    assert (lazy.stats() - before).kernels == 1
    w = lazy.Weight(np.array(3.0))
    trainer = lazy.Trainer([w], nn.sgd(0.25))
    training = trainer.train(w * w)
    assert float(w) == 3.0
    assert asyncio.run(training) == 9.0
    assert float(w) == 1.5


@pytest.mark.usefixtures("few_objects")
def test_b07_b20_b23_exceptions_travel_through_tasks() -> None:
    class Broken(lazy.Foreign):
        def result(self, x: Any) -> Any:
            return x.shape, x.dtype

        def forward(self, x: Any) -> Any:
            raise ArithmeticError("broken")

    @lazy.layer
    def stem(x: Any) -> Any:
        return Broken()(lazy.tanh(x) * 2.0)

    gc.collect()  # of other tests
    before = lazy.stats()

    async def main() -> Any:
        loss = lazy.sum(stem(lazy.Weight(np.ones(3))))
        return await loss

    for drive in (lazy.run, asyncio.run):
        try:
            drive(main())
            pytest.fail("nothing was raised")
        except ArithmeticError as error:
            (note,) = error.__notes__
        assert "test_001_lazy.py" in note
        assert note.endswith("in layer stem")
        if drive is asyncio.run:
            gc.collect()  # the traceback holds asyncio's task, which holds the error
        assert (lazy.stats() - before).live_bytes == 0


def test_f05_layers_are_typed() -> None:
    """Listing 2 types operators; `tests/typing` has what checkers say, and this is what the run time says."""

    @lazy.layer
    def f(x: Float64[lazy.Array, "10 20"]) -> lazy.Array[tuple[Literal[20], Literal[10]], np.float64]:
        return x.T

    assert f(lazy.zeros((10, 20))).shape == (20, 10)
    with pytest.raises(ShapeError, match=r'f: x is float64\[10, 21\], its annotation says Float64\["10 20"\]'):
        f(lazy.zeros((10, 21)))


# Dynamic networks ---------------------------------------------------------------------------------------------------


class Gated:
    """The paper's gated network, with counters of what runs."""

    def __init__(self) -> None:
        r = np.random.default_rng(1)
        self.w = lazy.weights({n: r.normal(size=(3, 3)) for n in ("gate", "left", "right")})
        self.ran = {"gate": 0, "left": 0, "right": 0}

    def counted(self, name: str, x: Any) -> Any:
        """A value, with a count of how often it is computed."""
        network = self

        class Count(lazy.Foreign):
            def result(self, x: Any) -> Any:
                return x.shape, x.dtype

            def forward(self, x: Any) -> Any:
                network.ran[name] += 1
                return x.copy(), None

            def backward(self, saved: Any, gradient: Any) -> Any:
                network.ran[name] += 1
                return (gradient,)

        return Count()(x)

    def gate(self, x: Any) -> tuple[Any, Any]:
        scores = self.counted("gate", lazy.tanh(self.w["gate"] @ x))
        return scores[0], scores[1]

    def left(self, x: Any) -> Any:
        return self.counted("left", lazy.exp(self.w["left"] @ x))

    def right(self, x: Any) -> Any:
        return self.counted("right", lazy.sin(self.w["right"] @ x))

    def gradients(self, out: Any) -> list[Any]:
        lazy.backward(lazy.sum(out))
        return [w.grad for w in self.w.values()]


def eager(g: Gated, x: Any) -> Any:
    """Listing 10: the values of the scores, each asked for."""
    a, b = g.gate(x)
    return a * g.left(x) if float(a) > float(b) else b * g.right(x)


def monadic(g: Gated, x: Any) -> Any:
    """Listing 11: one value after the other, each with what follows from it."""

    def bind(v: Any, then: Any) -> Any:
        return then(v.numpy())

    a, b = g.gate(x)
    return bind(a, lambda u: bind(b, lambda v: a * g.left(x) if u > v else b * g.right(x)))


def applicative(g: Gated, x: Any) -> Any:
    """Listing 12: both values together."""
    a, b = g.gate(x)

    async def both() -> Any:
        u, v = await lazy.gather(a, b)
        return a * g.left(x) if u > v else b * g.right(x)

    return lazy.run(both())


def direct(g: Gated, x: Any) -> Any:
    """Listing 14: as it reads."""

    async def network(x: Any) -> Any:
        a, b = g.gate(x)
        return a * g.left(x) if await a > await b else b * g.right(x)

    return asyncio.run(network(x))


def test_b08_b09_b11_b34_a_gated_network_in_four_styles() -> None:
    x = np.array([0.3, -0.2, 0.9])
    found = []
    for style in (eager, monadic, applicative, direct):
        g = Gated()
        found.append(g.gradients(style(g, x)))
        taken, other = ("left", "right") if g.ran["left"] else ("right", "left")
        assert g.ran == {"gate": 2, taken: 2, other: 0}  # forward and backward; of the paper's eager style: 3 and more
        assert found[-1][("gate", "left", "right").index(other)] is None
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert a is b or a.tolist() == b.tolist()

    def value(w: Any) -> float:
        scores = np.tanh(w @ x)
        g = Gated()
        chosen = np.exp(g.w["left"].numpy() @ x) if scores[0] > scores[1] else np.sin(g.w["right"].numpy() @ x)
        return float(np.sum(max(scores[0], scores[1]) * chosen))

    np.testing.assert_allclose(found[0][0], slope(value, Gated().w["gate"].numpy()), rtol=1e-6, atol=1e-9)


def test_b10_b24_x05_tuples_and_operands_are_computed_side_by_side() -> None:
    meeting = threading.Barrier(2, timeout=20)

    class Meet(lazy.Foreign):
        def result(self, x: Any) -> Any:
            return x.shape, x.dtype

        def forward(self, x: Any) -> Any:
            meeting.wait()  # ends only where both run at the same time
            return x * 2.0, None

        def backward(self, saved: Any, gradient: Any) -> Any:
            meeting.wait()
            return (gradient * 2.0,)

    w = lazy.Weight(np.array([1.0, 2.0]))
    a, b = lazy.run(lazy.gather(Meet()(w * 1.0), Meet()(w * 2.0)))
    assert (a.tolist(), b.tolist()) == ([2.0, 4.0], [4.0, 8.0])
    lazy.backward(lazy.sum(Meet()(w * 1.0) * Meet()(w * 3.0)))
    assert w.grad.tolist() == [24.0, 48.0]
    pair = lazy.linalg.slogdet(lazy.asarray([[2.0, 0.0], [0.0, 3.0]]))
    assert isinstance(pair, tuple)
    assert float(pair[1]) == pytest.approx(np.log(6.0))


class Rows:
    """A gradient of a user's own: rows of a matrix by number."""

    def __init__(self, shape: Any, numbers: Any, values: Any) -> None:
        self.shape, self.numbers, self.values = shape, numbers, values

    def __add__(self, other: Rows) -> Rows:
        return Rows(self.shape, np.append(self.numbers, other.numbers), np.append(self.values, other.values, 0))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        out = np.zeros(self.shape, dtype)
        np.add.at(out, self.numbers, self.values)
        return out


class Embedding(lazy.Foreign):
    """Rows of a matrix; its gradient is sparse."""

    def result(self, table: Any, numbers: Any) -> Any:
        return (*numbers.shape, table.shape[1]), table.dtype

    def forward(self, table: Any, numbers: Any) -> Any:
        return table[numbers], (table.shape, numbers)

    def backward(self, saved: Any, gradient: Any) -> Any:
        return Rows(*saved, gradient), None


def test_b12_a_delta_of_a_type_of_ones_own() -> None:
    table, embedding = lazy.Weight(np.ones((5, 2))), Embedding()
    trainer = lazy.Trainer([table], nn.sgd(0.5))
    loss = lazy.sum(embedding(table, np.array([1, 1])) ** 2) + lazy.sum(embedding(table, np.array([3])))
    lazy.backward(loss)
    assert isinstance(table.grad, Rows)
    assert table.grad.numbers.tolist() in ([1, 1, 3], [3, 1, 1])
    trainer.update()
    assert table.tolist() == [[1, 1], [-1, -1], [1, 1], [0.5, 0.5], [1, 1]]


# Tapes --------------------------------------------------------------------------------------------------------------


class Counted(lazy.Foreign):
    """The identity, with a count of its backward passes."""

    passes = 0

    def result(self, x: Any) -> Any:
        return x.shape, x.dtype

    def forward(self, x: Any) -> Any:
        return x.copy(), None

    def backward(self, saved: Any, gradient: Any) -> Any:
        self.passes += 1
        return (gradient,)


def test_b13_the_delta_of_a_literal_is_never_computed() -> None:
    counted = Counted()
    w = lazy.Weight(np.array([2.0]))
    lazy.backward(lazy.sum(counted(np.array([5.0])) * w))
    assert (counted.passes, w.grad.tolist()) == (0, [5.0])


def test_b14_backward_passes_are_linear() -> None:
    r = np.random.default_rng(3)
    w, a, b = r.normal(size=(3, 4))

    def pulled(gradient: Any) -> Any:
        cell = lazy.Weight(w)
        lazy.backward(lazy.tanh(cell) * cell, gradient)
        return cell.grad

    np.testing.assert_allclose(pulled(a + 2.5 * b), pulled(a) + 2.5 * pulled(b), rtol=1e-13)


def test_b15_b16_sixty_diamonds_run_backward_once_each() -> None:
    w = lazy.Weight(np.array(1.0))
    nodes = [Counted() for _ in range(60)]
    x = w * 1.0
    for counted in nodes:
        y = counted(x)
        x = y * 0.5 + y * 0.5
    lazy.backward(x)
    assert [c.passes for c in nodes] == [1] * 60
    assert w.grad == 1.0


def test_b16_values_may_be_asked_for_in_any_order() -> None:
    for order in permutations(range(4)):
        w = lazy.Weight(np.array([0.5, -1.0]))
        a = lazy.sin(w)
        b = a * w
        c = lazy.exp(a)
        d = b + c * a
        for k in order:
            (a, b, c, d)[k].numpy()
        lazy.backward(lazy.sum(d))
        v = w.numpy()
        expected = np.cos(v) * v + np.sin(v) + np.exp(np.sin(v)) * np.cos(v) * (1 + np.sin(v))
        np.testing.assert_allclose(w.grad, expected, rtol=1e-13)


def test_b17_zero_deltas_go_nowhere_and_broadcast_ones_are_summed() -> None:
    counted = Counted()
    w = lazy.Weight(np.array([1.0, 2.0]))
    lazy.backward(lazy.sum(lazy.floor(counted(w)) + w * 3.0))
    assert (counted.passes, w.grad.tolist()) == (0, [3.0, 3.0])
    b = lazy.Weight(np.array(1.0))
    lazy.backward(lazy.sum(b + np.zeros((2, 3))))
    assert b.grad == 6.0
    kept = w * w
    kept.numpy()
    lazy.backward(lazy.sum(kept), retain_graph=True)
    lazy.backward(lazy.sum(kept))
    with pytest.raises(DerivativeError, match="E702"):
        lazy.backward(lazy.sum(kept))


def test_b18_building_is_pure() -> None:
    x = lazy.asarray([1.0, 2.0])

    def build() -> Any:
        return lazy.sum(lazy.exp(x) * 2.0 + x)

    a, b = build(), build()
    assert a.application is b.application
    before = lazy.stats()
    assert float(a) == float(b)
    assert (lazy.stats() - before).pieces <= 1


@pytest.mark.slow
@pytest.mark.usefixtures("few_objects")
def test_b19_b20_deep_chains_and_live_bytes() -> None:
    gc.collect()  # of other tests
    before = lazy.stats()
    w = lazy.Weight(np.array(1.0))
    trainer = lazy.Trainer([w], nn.sgd(1e-3))
    x = w * 1.0
    for _ in range(30_000):
        x = x * 0.9999
    trainer.step(x)
    del x
    after = lazy.stats() - before
    assert (after.live_bytes, after.tapes) == (0, 0)
    assert float(w) == pytest.approx(1 - 1e-3 * 0.9999**30_000, rel=1e-12)


def test_b21_optimizers_as_plugins_in_any_order() -> None:
    @dataclass(frozen=True, repr=False, eq=False)
    class Halved(nn.Elementwise):
        """Half of each gradient."""

        def rule(self, g: Any, p: Any, kept: Any, numbers: Any) -> Any:
            return 0.5 * g, ()

    for chain in (Halved() >> nn.weight_decay(0.1) >> nn.sgd(0.5), nn.weight_decay(0.1) >> Halved() >> nn.sgd(0.5)):
        w = lazy.Weight(np.array([2.0]))
        lazy.Trainer([w], chain).step(lazy.sum(w * 3.0))
        decayed = 3.0 * 0.5 + 0.2 if isinstance(chain.parts[0], Halved) else 0.5 * (3.0 + 0.2)
        assert w.tolist() == pytest.approx([2.0 - 0.5 * decayed])


def by_formula(name: str, g: Any, w: Any, kept: dict[str, Any], step: int) -> Any:
    """What the paper's plugins add to a weight: fixed and falling rate, momentum, Nesterov, Adagrad, RMSprop, Adam."""
    old = {k: kept.get(k, 0.0) for k in "vsm"}
    if name in ("momentum", "nesterov", "l2, momentum, rate"):
        kept["v"] = 0.9 * old["v"] + g
        rate = 0.1 * 0.5**step if "rate" in name else 0.1
        return -rate * (g + 0.9 * kept["v"] if name == "nesterov" else kept["v"])
    if name == "adagrad":
        kept["s"] = old["s"] + g * g
        return -0.1 * g / (np.sqrt(kept["s"]) + 1e-4)
    if name == "rmsprop":
        kept["s"] = 0.99 * old["s"] + 0.01 * g * g
        return -0.1 * g / (np.sqrt(kept["s"]) + 1e-4)
    if name == "adam":
        kept["m"], kept["s"] = 0.9 * old["m"] + 0.1 * g, 0.999 * old["s"] + 0.001 * g * g
        return -0.1 * kept["m"] / (1 - 0.9 ** (step + 1)) / (np.sqrt(kept["s"] / (1 - 0.999 ** (step + 1))) + 1e-8)
    return -(0.1 * 0.5**step if name == "falling rate" else 0.1) * g


RULES = {
    "rate": nn.sgd(0.1),
    "falling rate": nn.sgd(nn.exponential_decay(0.1, 0.5)),
    "l1": nn.weight_decay(l1=0.2) >> nn.sgd(0.1),
    "l2": nn.weight_decay(0.3) >> nn.sgd(0.1),
    "momentum": nn.sgd(0.1, momentum=0.9),
    "nesterov": nn.sgd(0.1, momentum=0.9, nesterov=True),
    "adagrad": nn.adagrad(0.1, eps=1e-4),
    "rmsprop": nn.rmsprop(0.1, eps=1e-4),
    "adam": nn.adam(0.1),
    "l2, momentum, rate": nn.weight_decay(0.3) >> nn.sgd(nn.exponential_decay(0.1, 0.5), momentum=0.9),
}


@pytest.mark.parametrize("name", RULES)
def test_b22_each_optimizer_is_its_formula_and_they_stack(name: str) -> None:
    """On a quadratic; what was read of a weight during training stays as it was."""
    slopes, goal, start = np.array([1.0, 3.0]), np.array([2.0, -1.0]), np.array([0.5, 1.5])
    cell = lazy.Weight(start)
    trainer = lazy.Trainer([cell], RULES[name])
    w, kept, dumped, expected = start.copy(), {}, [], []
    for step in range(4):
        trainer.step(lazy.sum(slopes * (cell - goal) ** 2) * 0.5)
        dumped.append(cell.numpy())
        g = slopes * (w - goal) + 0.3 * w * ("l2" in name) + 0.2 * np.sign(w) * ("l1" in name)
        w = w + by_formula(name, g, w, kept, step)
        expected.append(w)
    np.testing.assert_allclose(dumped, expected, rtol=1e-9)


def test_b25_groups_of_weights_with_optimizers_of_their_own() -> None:
    """Two trainers of one network, or one with groups by name."""
    r = np.random.default_rng(2)
    x, start = r.normal(size=4), {n: r.normal(size=(3, 4) if n == "a" else (2, 3)) for n in "ab"}
    found = []
    for together in (True, False):
        cells = lazy.weights(start)
        if together:
            trainers = [lazy.Trainer(cells, nn.parameter_groups({"a": nn.sgd(0.1, momentum=0.5), "b": nn.adam(0.1)}))]
        else:
            trainers = [lazy.Trainer([cells["a"]], nn.sgd(0.1, momentum=0.5)), lazy.Trainer([cells["b"]], nn.adam(0.1))]
        for _ in range(3):
            lazy.backward(lazy.sum((cells["b"] @ lazy.tanh(cells["a"] @ x)) ** 2))
            for trainer in trainers:
                trainer.update()
        found.append([cells[n].numpy() for n in "ab"])
    w, kept = dict(start), {"a": {}, "b": {}}
    for step in range(3):
        h = np.tanh(w["a"] @ x)
        y = w["b"] @ h
        g = {"b": 2 * np.outer(y, h), "a": np.outer(2 * (w["b"].T @ y) * (1 - h * h), x)}
        kept["a"]["v"] = 0.5 * kept["a"].get("v", 0.0) + g["a"]
        w = {"a": w["a"] - 0.1 * kept["a"]["v"], "b": w["b"] + by_formula("adam", g["b"], w["b"], kept["b"], step)}
    for own in found:
        np.testing.assert_allclose(own[0], w["a"], rtol=1e-9)
        np.testing.assert_allclose(own[1], w["b"], rtol=1e-9)


def test_b27_the_notebooks_are_a_page_that_runs() -> None:
    """Each has a program on the page, which says what it comes to; `tests.docs` runs it and holds it to that."""
    (page,) = [path for path in WITH_PYTHON if path.stem == "dynamic_networks"]
    programs = page.read_text(encoding="utf-8").split("\n## ")[1:]
    about = ("Getting started", "softmax", "Convolutions", "text", "trees", "branches", "contributors")
    assert all(word in program.splitlines()[0] for word, program in zip(about, programs, strict=True))
    assert all(re.search(r"^print\(.*\)\s+# (True|\[)", program, re.MULTILINE) for program in programs)


@pytest.mark.slow
def test_b29_x05_straight_pieces_are_one_kernel_that_is_compiled() -> None:
    x = lazy.asarray(np.ones((4, 4)))

    def value() -> float:
        return float(lazy.sum(lazy.tanh(x @ x + 1.0) * 2.0 - lazy.exp(x)))

    before = lazy.stats()
    first = value()
    assert (lazy.stats() - before).kernels == 1
    value()  # from its second call on it is compiled, in the background
    lazy.finish_compiling()
    before = lazy.stats()
    assert value() == pytest.approx(first, rel=1e-14)
    after = lazy.stats() - before
    assert (after.kernels, after.interpreted, after.pieces) == (1, 0, 0)


def test_b31_derivatives_of_higher_order() -> None:
    def f(x: Any) -> Any:
        while x < 50.0:
            x = x * x * x
        return x

    first = lazy.grad(f)
    assert [float(first(2.0)), float(lazy.grad(first)(2.0)), float(lazy.grad(lazy.grad(first))(2.0))] == [
        9 * 2.0**8, 72 * 2.0**7, 504 * 2.0**6,
    ]  # fmt: skip


# Omissions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [nn.sgd(0.1), nn.adam(0.1), nn.clip_by_global_norm(1.0) >> nn.sgd(0.1)])
def test_f06_training_finds_the_weights_of_an_expression(optimizer: Any) -> None:
    def trained(**given: Any) -> tuple[list[float], list[float], int]:
        a, b = lazy.Weight(np.array([3.0, 4.0]), "a"), lazy.Weight(np.array(2.0), "b")
        lazy.Weight(np.array(1.0), "c")  # in no loss
        trainer = lazy.Trainer([a, b] if given.get("named") else None, optimizer)
        for k in range(6):
            trainer.step(lazy.sum(a * a * b) if k % 2 else lazy.sum(a * b))
        assert list(trainer.weights) == ["a", "b"]
        return a.tolist(), b.tolist(), trainer.steps

    assert trained() == trained(named=True)
    with pytest.raises(TraceError, match=r"E171.*there is no optimizer"):
        lazy.Trainer()


def test_f06_a_weight_that_is_met_later_begins_anew() -> None:
    a, b = lazy.Weight(np.array(1.0), "a"), lazy.Weight(np.array(1.0), "b")
    trainer = lazy.Trainer(optimizer=nn.sgd(0.5, momentum=0.5))
    trainer.step(a * 1.0)
    trainer.step(a + b)
    assert (float(a), float(b)) == (1 - 0.5 - 0.75, 1 - 0.5)
    assert list(trainer.weights.values()) == [a, b]
    with pytest.raises(TraceError, match=r"E707"):
        trainer.step(lazy.Weight(np.array(1.0), "a") * b)


@pytest.mark.slow
def test_f07_cifar_100_is_trained_with_both_labels(tmp_path: Path) -> None:
    """Section 6: each batch is of one coarse class, and only its fine classifier is computed and trained."""
    random = np.random.default_rng(0)
    coarse, fine, side = 3, 5, 3 * 32 * 32
    bases = random.integers(40, 216, (coarse * fine, side))
    labels = np.repeat(np.arange(coarse * fine), 16)
    images = np.clip(bases[labels] + random.integers(-30, 31, (len(labels), side)), 0, 255)
    records = np.column_stack([labels // fine, labels, images]).astype(np.uint8)
    for name in ("train.bin", "test.bin"):
        (tmp_path / name).write_bytes(records.tobytes())
    x, both = data.load_cifar(tmp_path, labels="both").train.batch(slice(None))
    np.testing.assert_array_equal(both, records[:, :2])

    def dense(name: str, n: int, m: int) -> Any:
        w = lazy.Weight((random.normal(size=(n, m)) / np.sqrt(n)).astype(np.float32), name)
        return lambda h: h @ w

    column, to_coarse = dense("column", side, 16), dense("coarse", 16, coarse)
    to_fine = [dense(f"fine{c}", 16, fine) for c in range(coarse)]

    def one_hot(classes: int, labels: Any) -> Any:
        return np.eye(classes, dtype=np.float32)[labels]

    def cost(scores: Any, classes: Any) -> Any:
        return -lazy.mean(lazy.sum(lazy.log(lazy.softmax(scores)) * classes, axis=1))

    trainer = lazy.Trainer(optimizer=nn.adam(0.01))
    own = x.reshape(len(x), -1) - 0.5
    for step in range(45):
        c = step % coarse
        rows = both[:, 0] == c
        h = lazy.relu(column(own[rows]))
        coarse_hot, fine_hot = one_hot(coarse, both[rows, 0]), one_hot(fine, both[rows, 1] - fine * c)
        trainer.step(cost(to_coarse(h), coarse_hot) + cost(to_fine[c](h), fine_hot))
        assert set(trainer.weights) == {"coarse", "column", *(f"fine{k}" for k in range(min(step + 1, coarse)))}

    def classified(image: Any) -> tuple[int, int]:
        h = lazy.relu(column(image[None]))
        chosen = int(lazy.argmax(to_coarse(h)))
        return chosen, fine * chosen + int(lazy.argmax(to_fine[chosen](h)))

    found = np.array([classified(image) for image in own[::4]])
    assert np.mean(found == both[::4], axis=0).min() > 0.9


def test_f09_plugins_intercept_layers_forward_passes_and_updates() -> None:
    """As mixins of the paper do: each overrides methods, calls the next, and is mixed in in order."""
    notes: list[str] = []

    class Log(lazy.Plugin):
        def layer(self, name: str, call: Any, /, *args: Any, **keywords: Any) -> Any:
            notes.append(f"layer {name}")
            return call(*args, **keywords)

        def forward(self, operations: tuple[str, ...], run: Any) -> Any:
            found = run()
            notes.append(f"forward {' '.join(operations)} = {float(found[-1]):g}")
            return found

    class Doubled(lazy.Plugin):
        """Layers of twice their input."""

        def layer(self, name: str, call: Any, /, *args: Any, **keywords: Any) -> Any:
            return call(*(2.0 * x for x in args), **keywords)

    class Clip(lazy.Plugin):
        def backward(self, gradients: dict[Any, Any]) -> dict[Any, Any]:
            return {w: lazy.clip(g, -1.0, 1.0) for w, g in gradients.items()}

    class Rates(lazy.Plugin):
        """A learning rate for each weight; none freezes it."""

        def optimizer(self, weight: Any, optimizer: Any) -> Any:
            return {"frozen": None, "slow": nn.sgd(0.25)}.get(weight.name, optimizer)

    @lazy.layer
    def sums(x: Any) -> Any:
        return lazy.sum(x)

    @lazy.layer
    def network(*cells: Any) -> Any:
        return sum(sums(x) for x in cells)

    cells = lazy.weights({"frozen": np.array([1.0]), "slow": np.array([2.0]), "other": np.array([3.0])})
    trainer = lazy.Trainer(cells, nn.sgd(0.5))
    with Log() >> Doubled() >> Clip() >> Rates():
        assert trainer.step(network(*cells.values())) == 4 * (1 + 2 + 3)  # both layers double
    assert notes[:4] == ["layer network", *["layer network/sums"] * 3]
    assert notes[4].startswith("forward mul mul") and notes[4].endswith("= 24") and len(notes) == 5
    found = {name: float(w[0]) for name, w in cells.items()}
    assert found == {"frozen": 1.0, "slow": 2.0 - 0.25, "other": 3.0 - 0.5}  # gradients 4, clipped to 1
    assert trainer.step(network(*cells.values())) == 1.0 + 1.75 + 2.5
    assert len(notes) == 5
