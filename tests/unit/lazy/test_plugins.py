"""Plugins: what they see, what they change, and that nothing is left of them behind their blocks."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import TraceError, lazy, nn
from pullback.lazy import quick
from pullback.lazy.plugins import PLUGGED

X = np.array([[0.5, -1.0], [2.0, 0.25]])


class Noting(lazy.Plugin):
    """Notes what it is called for."""

    def __init__(self, text: str, notes: list[Any]) -> None:
        self.text, self.notes = text, notes

    def layer(self, name: str, call: Any, /, *args: Any, **keywords: Any) -> Any:
        self.notes.append((self.text, "in", name))
        found = call(*args, **keywords)
        self.notes.append((self.text, "out", name))
        return found

    def forward(self, operations: tuple[str, ...], run: Any) -> Any:
        found = run()
        self.notes.append((self.text, *operations))
        return found

    def backward(self, gradients: dict[Any, Any]) -> dict[Any, Any]:
        self.notes.append((self.text, sorted(w.name for w in gradients)))
        return gradients


@lazy.layer
def inner(x: Any, k: float = 1.0) -> Any:
    return lazy.tanh(x) * k


@lazy.layer
def outer(x: Any, w: Any) -> Any:
    return inner(x @ w, k=2.0)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    assert PLUGGED == []
    assert quick.is_on() or not quick.STRUCTURES


def test_order_of_a_chain() -> None:
    notes: list[Any] = []
    a, b, c = (Noting(t, notes) for t in "abc")
    w = lazy.Weight(np.eye(2), "w")
    with a >> (b >> c) as chain:
        assert chain.parts == (a, b, c)
        lazy.backward(lazy.sum(outer(X, w)))
    assert notes[:3] == [(t, "in", "outer") for t in "abc"]
    assert notes[3:9] == [*((t, "in", "outer/inner") for t in "abc"), *((t, "out", "outer/inner") for t in "cba")]
    assert notes[9:12] == [(t, "out", "outer") for t in "cba"]
    assert notes[12:15] == [(t, "matmul", "tanh", "mul", "sum") for t in "cba"]
    assert notes[15:] == [(t, ["w"]) for t in "abc"]
    notes.clear()
    lazy.backward(lazy.sum(outer(X, w)))
    assert notes == []


def test_layers_are_changed_with_their_derivatives() -> None:
    class Twice(lazy.Plugin):
        def layer(self, name: str, call: Any, /, *args: Any, **keywords: Any) -> Any:
            return call(*args, **keywords) + call(args[0] * 3.0, **keywords) if name == "inner" else call(*args)

    with Twice():
        value, gradient = lazy.value_and_grad(lambda x: lazy.sum(inner(x, k=0.5)))(X)
    np.testing.assert_allclose(value, 0.5 * np.sum(np.tanh(X) + np.tanh(3 * X)), rtol=1e-14)
    np.testing.assert_allclose(gradient, 0.5 * (1 / np.cosh(X) ** 2 + 3 / np.cosh(3 * X) ** 2), rtol=1e-13)


def test_annotated_types_hold_outside() -> None:
    class Half(lazy.Plugin):
        def layer(self, name: str, call: Any, /, *args: Any, **keywords: Any) -> Any:
            return call(*(x.astype(np.float16) for x in args)).astype(np.float64)

    def annotated(x: Float64[lazy.Array, "N M"]) -> Float64[lazy.Array, "N M"]:
        assert x.dtype is pb.float16
        return x * 2.0

    with Half():
        assert lazy.layer(annotated)(lazy.asarray(X)).tolist() == (2 * X).tolist()


def test_lifted_functions_and_layers_of_nn_are_layers() -> None:
    notes: list[Any] = []
    dense = lazy.lift(nn.dense(2))
    power = lazy.lift(pb.function(lambda x: x**3))
    p = {"w": np.ones((2, 2)), "b": np.zeros(2)}
    before = dense(p, X).tolist()
    with Noting("a", notes):
        assert dense(p, lazy.asarray(X)).tolist() == before
        power(lazy.asarray(X))
    assert [n for n in notes if n[1] == "in"] == [("a", "in", "dense"), ("a", "in", "<lambda>")]


def test_forward_sees_every_piece_and_its_values() -> None:
    seen: list[Any] = []

    class Values(lazy.Plugin):
        def forward(self, operations: tuple[str, ...], run: Any) -> Any:
            found = run()
            seen.append((operations, [x.tolist() for x in found]))
            assert not any(x.flags.writeable for x in found)
            float(lazy.asarray(1.0) + 1.0)  # what it computes itself does not come back to it
            return found

    class Square(lazy.Foreign):
        released = 0

        def result(self, x: Any) -> Any:
            return x.shape, x.dtype

        def forward(self, x: Any) -> Any:
            return x * x, x

        def release(self, saved: Any) -> None:
            Square.released += 1

    def known() -> Any:
        return (x * 2.0 + 1.0).numpy()

    x = lazy.asarray(np.array([1.0, 3.0]))
    for _ in range(3):
        known()
        lazy.finish_compiling()
    with Values():
        known()  # without plugins in C
        float(lazy.sum(Square()(x)))
        assert lazy.run(asked(x - 1.0)) == [0.0, 2.0]
        assert asyncio.run(asked(x - 2.0)) == [-1.0, 1.0]
    assert seen == [
        (("mul", "add"), [[3.0, 7.0]]),
        (("Square",), [[1.0, 9.0]]),
        (("sum",), [10.0]),
        (("sub",), [[0.0, 2.0]]),
        (("sub",), [[-1.0, 1.0]]),
    ]
    assert Square.released == 1
    assert known().tolist() == [3.0, 7.0]
    assert len(seen) == 5


async def asked(x: Any) -> Any:
    return (await x).tolist()


def test_independent_pieces_run_one_after_another() -> None:
    running: list[str] = []

    class Alone(lazy.Plugin):
        def forward(self, operations: tuple[str, ...], run: Any) -> Any:
            assert not running
            running.append(threading.current_thread().name)
            found = run()
            assert [running.pop()] == [threading.current_thread().name] == [threading.main_thread().name]
            return found

    class Waiting(lazy.Foreign):
        def result(self, x: Any) -> Any:
            return x.shape, x.dtype

        def forward(self, x: Any) -> Any:
            return x + 1.0, None

    with Alone():
        assert float(lazy.sum(Waiting()(X) + Waiting()(2 * X))) == np.sum(3 * X) + 8


@pytest.mark.parametrize("kind", ["nothing", "other", "not run"])
def test_values_cannot_be_replaced(kind: str) -> None:
    class Wrong(lazy.Plugin):
        def forward(self, operations: tuple[str, ...], run: Any) -> Any:
            found = () if kind == "not run" else run()
            return None if kind == "nothing" else tuple(np.zeros_like(x) for x in found)

    x = lazy.sum(lazy.asarray(X) * 2.0)
    with Wrong(), pytest.raises(TraceError, match=r"E716.*Wrong\.forward does not return what `run\(\)` gives"):
        float(x)
    assert float(x) == 3.5


def stepped(plugin: lazy.Plugin, optimizer: nn.Optimizer, steps: int = 1) -> dict[str, Any]:
    """The weights after training steps of the sum of a² and 3b."""
    cells = lazy.weights({"a": np.array([3.0, -4.0]), "b": np.array([1.0])})
    trainer = lazy.Trainer(cells, optimizer)
    with plugin:
        for _ in range(steps):
            trainer.step(lazy.sum(cells["a"] ** 2) + lazy.sum(3.0 * cells["b"]))
    assert all(w.grad is None for w in cells.values())
    return {n: w.numpy() for n, w in cells.items()}


def test_gradients_are_changed_or_left_out() -> None:
    class Clip(lazy.Plugin):
        def backward(self, gradients: dict[Any, Any]) -> dict[Any, Any]:
            norm = lazy.sqrt(sum(lazy.sum(g * g) for g in gradients.values()))
            return {w: g / lazy.maximum(norm, 1.0) for w, g in gradients.items()}

    class Only(lazy.Plugin):
        def backward(self, gradients: dict[Any, Any]) -> dict[Any, Any]:
            return {w: 2.0 * g.numpy() for w, g in gradients.items() if w.name == "b"}

    norm = np.sqrt(36 + 64 + 9)
    found = stepped(Clip(), nn.sgd(0.5))
    np.testing.assert_allclose(found["a"], [3 - 3 / norm, -4 + 4 / norm], rtol=1e-14)
    np.testing.assert_allclose(found["b"], [1 - 1.5 / norm], rtol=1e-14)
    found = stepped(Clip() >> Only(), nn.sgd(0.5))
    assert found["a"].tolist() == [3.0, -4.0]
    np.testing.assert_allclose(found["b"], [1 - 3 / norm], rtol=1e-14)
    np.testing.assert_allclose(stepped(Only() >> Clip(), nn.sgd(0.5))["b"], [0.5], rtol=1e-14)


def test_gradients_add_up_behind_plugins() -> None:
    class Signs(lazy.Plugin):
        def backward(self, gradients: dict[Any, Any]) -> dict[Any, Any]:
            return {w: lazy.sign(g) + 0.0 * w for w, g in gradients.items()}

    w = lazy.Weight(np.array([3.0, -4.0]))
    with Signs():
        lazy.backward(lazy.sum(w * w))
    lazy.backward(lazy.sum(w * w))
    assert w.grad.tolist() == [7.0, -9.0]


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (lambda g: None, "does not return a dict"),
        (lambda g: {lazy.Weight(X): X}, "does not return a dict"),
        (lambda g: {w: d[:1] for w, d in g.items()}, r"gives f64\[1\] as the gradient of w : f64\[2\]"),
        (lambda g: {w: d.astype(np.float32) for w, d in g.items()}, r"gives f32\[2\]"),
    ],
)
def test_other_things_than_gradients(found: Any, what: str) -> None:
    class Wrong(lazy.Plugin):
        def backward(self, gradients: dict[Any, Any]) -> dict[Any, Any]:
            return found(gradients)  # type: ignore[no-any-return]

    w = lazy.Weight(np.array([3.0, -4.0]), "w")
    with Wrong(), pytest.raises(TraceError, match=f"E716.*Wrong.backward {what}"):
        lazy.backward(lazy.sum(w * w))
    assert w.grad is None


class PerName(lazy.Plugin):
    def __init__(self, **optimizers: Any) -> None:
        self.optimizers = optimizers

    def optimizer(self, weight: Any, optimizer: Any) -> Any:
        return self.optimizers.get(weight.name, optimizer)


def test_optimizers_for_weights_and_frozen_ones() -> None:
    own = lambda o: stepped(contextlib.nullcontext(), o, 4)  # type: ignore[arg-type]
    adam, sgd = nn.adam(0.1), nn.sgd(0.1, momentum=0.9)
    found = stepped(PerName(a=adam), sgd, 4)
    assert (found["a"].tolist(), found["b"].tolist()) == (own(adam)["a"].tolist(), own(sgd)["b"].tolist())
    found = stepped(PerName(a=None, b=nn.sgd(0.1, momentum=0.9)), sgd, 4)  # an equal one is the trainer's
    assert (found["a"].tolist(), found["b"].tolist()) == ([3.0, -4.0], own(sgd)["b"].tolist())
    with pytest.raises(TraceError, match="E171"):
        stepped(PerName(a=nn.clip_by_global_norm(1.0)), sgd)


def test_states_of_other_optimizers_last_and_are_copied() -> None:
    cells = lazy.weights({"a": np.array([3.0, -4.0]), "b": np.array([1.0])})
    trainer = lazy.Trainer(cells, nn.sgd(0.1))
    loss = lambda p: lazy.sum(p["a"] ** 2) + lazy.sum(3.0 * p["b"])
    for _ in range(2):
        with PerName(a=nn.adam(0.1)):  # equal settings, so one state
            trainer.step(loss(cells))
    assert trainer.steps == 2
    again, other = pickle.loads(pickle.dumps((cells, trainer)))
    third, last = copy.deepcopy((cells, trainer))
    for p, own in ((cells, trainer), (again, other), (third, last)):
        with PerName(a=nn.adam(0.1)):
            own.step(loss(p))
    expected = stepped(PerName(a=nn.adam(0.1)), nn.sgd(0.1), 3)
    for p in (cells, again, third):
        assert p["a"].tolist() == expected["a"].tolist()
        assert p["b"].tolist() == expected["b"].tolist()


def test_blocks_belong_to_threads_and_tasks() -> None:
    notes: list[Any] = []

    def other() -> None:
        float(lazy.sum(outer(X, np.eye(2))))

    with Noting("a", notes):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert notes == []

    async def task(text: str) -> Any:
        with Noting(text, notes):
            await lazy.sum(inner(X))
            return await lazy.sum(inner(2 * X))

    async def both() -> Any:
        return await lazy.gather(task("a"), task("b"))

    for run in (asyncio.run, lazy.run):
        notes.clear()
        found = run(both())  # type: ignore[operator]
        assert [float(x) for x in found] == pytest.approx([np.tanh(2 * X).sum()] * 2, rel=1e-14)
        for text in "ab":
            own = [n[1:] for n in notes if n[0] == text]
            assert own == [("in", "inner"), ("out", "inner"), ("tanh", "mul", "sum")] * 2


def test_steps_in_a_thread_have_the_plugins_of_the_task() -> None:
    notes: list[Any] = []
    w = lazy.Weight(X, "w")
    trainer = lazy.Trainer([w], nn.sgd(0.1))

    async def main() -> None:
        with Noting("a", notes):
            await trainer.train(lazy.sum(inner(w)))

    asyncio.run(main())
    assert [n[1:] for n in notes] == [("in", "inner"), ("out", "inner"), ("tanh", "mul", "sum"), (["w"],)]


def test_blocks_that_end_with_an_error_or_out_of_order() -> None:
    notes: list[Any] = []
    a, b = Noting("a", notes), Noting("b", notes)
    with pytest.raises(ZeroDivisionError), a >> b:
        raise ZeroDivisionError
    a.__enter__()
    b.__enter__()
    a.__exit__(None, None, None)
    inner(X)
    b.__exit__(None, None, None)
    assert [n[0] for n in notes] == ["b", "b"]
    with a, a:
        notes.clear()
        inner(X)
        assert [n[0] for n in notes] == ["a"] * 4


def test_calls_in_python_stay_so() -> None:
    """`PULLBACK_LAZY_CALLS=python`, or a test that turns calls in C off."""
    on = quick.is_on()
    quick.turn(False)
    try:
        with Noting("a", []):
            assert not quick.is_on()
            quick.turn(on)
            assert not quick.is_on()
            quick.turn(False)
        assert not quick.is_on()
    finally:
        quick.turn(on)
    assert quick.is_on() == on
