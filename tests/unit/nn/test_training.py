"""The training loop, with a network of plain NumPy in place of a compiled one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from pullback.errors import DataError
from pullback.nn import training
from pullback.nn.network import Network
from pullback.nn.training import Progress, accuracy, chunk_size, fit


class Parameters(NamedTuple):
    w: Any


class State(NamedTuple):
    parameters: Parameters
    loss: Any


class Watch:
    """Counts images into w and notes the shapes it was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []
        self.seen: list[int] = []

    def train(self, state: State, images: Any, labels: Any, rate: Any, *, out: State) -> State:
        assert out is state
        assert images.shape[:2] == labels.shape
        self.calls.append(labels.shape)
        self.seen += labels.ravel().tolist()
        out.parameters.w[...] += labels.size * rate
        out.loss[...] = images.sum()
        return out

    def recognise(self, parameters: Parameters, images: Any) -> Any:
        self.calls.append(images.shape)
        return images[:, 0, 0].astype(np.int64)


@pytest.fixture(autouse=True)
def with_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine need not have one for these tests."""
    monkeypatch.delenv("PULLBACK_BACKEND", raising=False)
    monkeypatch.setattr(training, "compiler_command", lambda: ("cc",))


@pytest.fixture
def watch() -> Watch:
    return Watch()


def network(watch: Watch, *, chunk: int = 1000, batch: int = 1) -> Network:
    return Network(
        name="watch",
        parameters=Parameters,
        shapes={"w": ()},
        fans={},
        image=(1, 1),
        train=watch.train,
        recognise=watch.recognise,
        state=State,
        batch=batch,
        rate=0.5,
        chunk=chunk,
        images_per_call=4,
    )


def data(count: int) -> tuple[Any, Any]:
    return np.arange(count, dtype=np.float32).reshape(count, 1, 1), np.arange(count, dtype=np.uint8)


@pytest.mark.parametrize("count", range(1, 60))
@pytest.mark.parametrize("limit", [1, 2, 7, 20, 1000])
def test_chunk_size_is_within_its_limit_and_divides_where_it_can(count: int, limit: int) -> None:
    size = chunk_size(count, limit)
    assert 1 <= size <= min(count, limit)
    divisors = [d for d in range(1, min(count, limit) + 1) if count % d == 0]
    if divisors[-1] > min(count, limit) // 4:
        assert size == divisors[-1]


@pytest.mark.parametrize("count", [1, 5, 12, 13, 37])
@pytest.mark.parametrize("batch", [1, 2, 5, 64])
@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_every_image_once_per_epoch_in_order(watch: Watch, count: int, batch: int, chunk: int) -> None:
    parameters = Parameters(np.zeros((), np.float32))
    history = fit(network(watch, chunk=chunk), parameters, *data(count), epochs=2, batch=batch)
    assert watch.seen == list(range(count)) * 2
    assert parameters.w == pytest.approx(2 * count * 0.5)  # in place
    assert history.losses == pytest.approx([(count - 1) / 2] * 2)
    assert history.complete
    assert all(size <= batch for _, size in watch.calls)
    assert all(steps <= chunk for steps, _ in watch.calls)


def test_few_different_shapes(watch: Watch) -> None:
    """Every shape is a program to compile."""
    fit(network(watch), Parameters(np.zeros((), np.float32)), *data(250), epochs=3, batch=64)
    assert len(set(watch.calls)) == 2  # whole batches, and what is left


def test_progress(watch: Watch) -> None:
    shown: list[Progress] = []
    fit(network(watch, chunk=5), Parameters(np.zeros((), np.float32)), *data(10), epochs=2, progress=shown.append)
    assert [(p.epoch, p.done) for p in shown] == [(1, 5), (1, 10), (2, 5), (2, 10)]
    assert shown[0].loss == pytest.approx(2.0)
    assert shown[1].loss == pytest.approx(4.5)


def test_stop_ends_between_calls(watch: Watch) -> None:
    parameters = Parameters(np.zeros((), np.float32))
    answers = iter([False, False, True])
    history = fit(network(watch, chunk=5), parameters, *data(10), epochs=3, stop=lambda: next(answers))
    assert not history.complete
    assert watch.seen == [*range(10), *range(5)]
    assert len(history.losses) == 2


def test_no_epochs(watch: Watch) -> None:
    history = fit(network(watch), Parameters(np.zeros((), np.float32)), *data(3), epochs=0)
    assert history.losses == []
    assert history.complete
    assert watch.calls == []


@pytest.mark.parametrize("shape", [(3, 2, 2), (3, 1), (0, 1, 1)])
def test_images_of_another_size(watch: Watch, shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="E508"):
        fit(
            network(watch),
            Parameters(np.zeros(())),
            np.zeros(shape, np.float32),
            np.zeros(shape[0], np.uint8),
            epochs=1,
        )
    assert watch.calls == []


def test_slow_calls_become_shorter(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a size is compiled, a call that takes too long makes the next ones smaller; the first call may compile."""
    clock = [0.0]
    monkeypatch.setattr(training.time, "perf_counter", lambda: clock[0])
    run: Callable[..., Any] = watch.train

    def slow(state: State, images: Any, labels: Any, rate: Any, *, out: State) -> State:
        clock[0] += 0.01 * labels.size
        return run(state, images, labels, rate, out=out)

    slowed = network(watch, chunk=100)
    object.__setattr__(slowed, "train", slow)
    fit(slowed, Parameters(np.zeros((), np.float32)), *data(100), epochs=4)
    steps = [steps for steps, _ in watch.calls]
    assert steps[:2] == [100, 100]
    assert set(steps[2:]) == {10}
    assert watch.seen == list(range(100)) * 4


def test_the_interpreter_gets_little_at_a_time(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    fit(network(watch), Parameters(np.zeros((), np.float32)), *data(100), epochs=1)
    assert set(watch.calls) == {(10, 1)}


def test_accuracy(watch: Watch) -> None:
    images, labels = data(10)
    labels[3] = 99
    assert accuracy(network(watch), Parameters(np.zeros(())), images, labels) == 0.9
    assert max(shape[0] for shape in watch.calls) <= 4
