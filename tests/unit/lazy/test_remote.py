"""Experts and parts of a batch in other processes: one cluster of Ray on this machine for all tests of the module."""

from __future__ import annotations

import inspect
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import DerivativeError, lazy, nn
from pullback.cluster import LostError, Process, memory_of_process
from pullback.errors import UsageError
from pullback.lazy import Remote, Worker, remote, workers
from pullback.lazy.remote import Expert
from pullback.nn.training import shared

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'pullback[ray]'")

NET = nn.sequential(nn.dense(12), nn.tanh, nn.dense(3)).on("N 5")
X = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
GATE = np.random.default_rng(1).normal(size=16).astype(np.float32)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def four() -> list[Worker]:
    return workers(4)


@pytest.fixture
def two(four: list[Worker]) -> list[Worker]:
    return four[:2]


class Here(Worker):
    """Experts in this process."""

    def __init__(self) -> None:
        self.name, self.restart, self.experts = "here", False, dict[str, Expert]()

    def add(self, name: str, settings: dict[str, Any]) -> None:
        self.experts[name] = Expert(name, **settings)

    def ask(self, name: str, method: str, *arguments: Any) -> Any:
        return getattr(self.experts[name], method)(*arguments)

    def wait(self, name: str, promised: Any) -> Any:
        return promised


def mixture(held: list[Worker], updates: int, name: str = "e") -> tuple[list[float], list[Any], Any]:
    """Losses, parameters and the gate's gradient of a mixture of 16 experts, of which the gate's largest four run."""

    def expert(k: int) -> Remote:
        optimizer = nn.sgd(0.1, momentum=0.9)
        return remote(NET, seed=k, optimizer=optimizer, worker=held[k % len(held)], name=f"{name}{k}")

    experts = list(map(expert, range(16)))
    gate = lazy.Weight(GATE)
    losses = []
    for step in range(updates):
        gate.grad = None
        chosen = [int(k) for k in np.argsort(GATE)[-4 - step : len(GATE) - step]]
        y = sum(experts[k](X) * gate[k] for k in chosen) + experts[chosen[0]](X + np.float32(1.0))
        losses.append(lazy.backward(lazy.mean(y * y)))
        for k in chosen:
            experts[k].update()
    return losses, [e.parameters() for e in experts], gate.grad


def test_b30_x05_a_mixture_is_the_same_to_the_last_bit_in_one_two_and_four_processes(four: list[Worker]) -> None:
    for _ in range(3):  # what this process adds up itself runs in the interpreter twice, and compiled ever after
        alone = mixture([Here()], 3)
        lazy.finish_compiling()
    for count in (2, 4):
        losses, parameters, gradient = mixture(four[:count], 3, f"of{count}")
        assert losses == alone[0] and gradient.tobytes() == alone[2].tobytes()
        for a, b in zip(parameters, alone[1], strict=True):
            assert all(a[k][n].tobytes() == b[k][n].tobytes() for k in a for n in a[k])


def test_gradients_are_those_of_the_traced_program(two: list[Worker]) -> None:
    """Several results, an operand of integers, and operands with and without a derivative."""

    def expert(p: Any, x: Any, j: Any, y: Any) -> Any:
        return pb.sin(x * p["a"]) + pb.take(p["b"], j), pb.sum(x * y) * p["a"]

    r = np.random.default_rng(2)
    p = {"a": np.array(0.7), "b": r.normal(size=4)}
    x, y, j = r.normal(size=3), r.normal(size=3), np.array([3, 0, 3])
    e = remote(expert, parameters=p, worker=two[0], optimizer=nn.sgd(1.0), name="several")
    w = lazy.Weight(x)
    u, v = e(w * 2.0, j, y)
    lazy.backward(lazy.sum(u * u) + v)

    def traced(p: Any, x: Any) -> Any:
        u, v = expert(p, x * 2.0, j, y)
        return pb.sum(u * u) + v

    of_p, of_x = pb.grad(pb.function(traced), wrt=("p", "x"))(p, x)
    np.testing.assert_allclose(w.grad, of_x, rtol=1e-13)
    found = e.gradient()
    np.testing.assert_allclose(found["a"], of_p["a"], rtol=1e-13)
    np.testing.assert_allclose(found["b"], of_p["b"], rtol=1e-13)
    e.update()
    np.testing.assert_allclose(e.parameters()["b"], p["b"] - of_p["b"], rtol=1e-13)
    assert e.gradient() is None and e.held()["steps"] == 1


def test_weights_that_changed_in_between_are_refused(two: list[Worker]) -> None:
    e = remote(NET, worker=two[0], optimizer=nn.sgd(0.1), name="changed")
    loss = lazy.sum(e(X))
    float(loss)
    e.update()
    with pytest.raises(DerivativeError, match=r"E703.*changed was changed"):
        lazy.backward(loss)
    with pytest.raises(pb.ShapeError):  # what the network says, when the node is built
        e(X[:, :4])


def test_a_lost_worker_is_an_error_or_started_again_from_its_checkpoint(four: list[Worker], tmp_path: Path) -> None:
    gone = remote(NET, name="gone", worker=four[3])
    gone.worker.end()
    with pytest.raises(LostError, match=r"E711.*gone: its process is lost"):
        float(lazy.sum(gone(X)))
    e = remote(NET, name="again", optimizer=nn.adam(0.1), restart=True, checkpoint=str(tmp_path), every=2)
    before = []
    for _ in range(3):
        lazy.backward(lazy.sum(e(X) ** 2))
        e.update()
        before.append(e.held())
    loss = lazy.sum(e(X) ** 2)
    float(loss)
    e.worker.end()  # waits until it is gone: else it may still answer
    with pytest.raises(LostError, match="E711"):
        lazy.backward(loss)
    after = e.held()
    assert after["steps"] == 2
    np.testing.assert_array_equal(after["parameters"]["dense1"]["w"], before[1]["parameters"]["dense1"]["w"])
    lazy.backward(lazy.sum(e(X) ** 2))
    e.update()
    np.testing.assert_array_equal(e.parameters()["dense2"]["w"], before[2]["parameters"]["dense2"]["w"])
    e.worker.end()


def test_b30_what_a_process_holds_is_bounded_by_its_own_experts(two: list[Worker]) -> None:
    here, size = memory_of_process(), 4 * 2000 * 2000
    before = [w.memory() for w in two]
    made = [remote(nn.dense(2000).on("N 2000"), worker=two[k % 2], name=f"large{k}") for k in range(8)]
    for w, b in zip(two, before, strict=True):
        assert 3.9 * size < w.memory() - b < 8 * size  # its four, and what they were drawn in; all eight would be more
    assert memory_of_process() - here < size and len(made) == 8


def test_a_fit_by_parts_is_that_of_one_process() -> None:
    r = np.random.default_rng(3)
    x, y = r.normal(size=(90, 5)).astype(np.float32), r.integers(0, 3, 90)
    wanted: Any = {"optimizer": nn.adam(1e-2), "epochs": 2, "batch_size": 31, "progress": False, "seed": 1}
    alone = nn.fit(NET, nn.cross_entropy, (x, y), **wanted)
    parts = nn.fit(NET, nn.cross_entropy, (x, y), workers=2, **wanted)
    for k, layer in alone.parameters.items():
        for n, a in layer.items():
            np.testing.assert_allclose(parts.parameters[k][n], a, atol=1e-6)
    assert parts.steps == alone.steps == 4
    assert parts.history.rows[-1]["loss"] == pytest.approx(alone.history.rows[-1]["loss"], rel=1e-6)


def test_a_fit_goes_on_when_a_process_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one takes its place, and then the other worker its parts: the same bits as of one worker."""
    r = np.random.default_rng(3)
    x, y = r.normal(size=(90, 5)).astype(np.float32), r.integers(0, 3, 90)
    wanted: Any = {"optimizer": nn.adam(1e-2), "epochs": 2, "batch_size": 10, "progress": False, "seed": 1}
    whole = nn.fit(NET, nn.cross_entropy, (x, y), workers=nn.Workers(1, parts=2), **wanted)
    made: list[Process] = []

    def process(*arguments: Any, **options: Any) -> Process:
        made.append(Process(*arguments, **options))
        return made[-1]

    def kill(place: int) -> None:
        pid = ray.get(made[place].actor.__ray_call__.remote(lambda _: os.getpid()))
        os.kill(pid, signal.SIGKILL)

    class Killer:
        def on_batch_end(self, state: nn.TrainingState) -> None:
            if state.step in (4, 11):
                kill(1 if state.step == 4 else 2)

    monkeypatch.setattr(shared, "Process", process)
    with pytest.warns(RuntimeWarning, match="was lost") as warned:
        parts = nn.fit(NET, nn.cross_entropy, (x, y), workers=2, callbacks=[Killer()], **wanted)
    assert [str(w.message) for w in warned] == [
        "fit: worker 1 of fit was lost after 4 updates. It is started again, and training goes on from there",
        "fit: worker 1 of fit was lost after 11 updates again. Training goes on with 1 worker, with the same result",
    ]
    assert parts.history.losses == whole.history.losses
    for k, layer in whole.parameters.items():
        for n, a in layer.items():
            assert parts.parameters[k][n].tobytes() == a.tobytes()


def test_a_loss_that_cannot_be_sent() -> None:
    lock = __import__("threading").Lock()
    with pytest.raises(UsageError, match=r"E712.*worker 0 of fit cannot be sent"):
        nn.fit(lambda p, s, b: p if lock else b, np.ones(4), parameters=np.zeros(()), optimizer=nn.sgd(0.1), epochs=1,
               workers=1, progress=False)  # fmt: skip


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "distribution.md"
    (block,) = re.findall(r"^```py\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(block, "page", "exec"), names)
    assert 0.0 < float(capsys.readouterr().out) < 10.0
    for w in names["held"]:
        w.end()


def test_what_cannot_be(two: list[Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    lock = __import__("threading").Lock()
    with pytest.raises(UsageError) as caught:
        remote(lambda p, x: p if lock else x, parameters=X, worker=two[0], name="locked")
    line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    assert str(caught.value) == (
        f"""\
UsageError [E712] locked cannot be sent to another process
  --> {Path(__file__)}:{line}:9
   |         remote(lambda p, x: p if lock else x, parameters=X, worker=two[0], name="locked")
   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | cannot pickle '_thread.lock' object
  try: arrays, layers, and functions that hold nothing of this process alone      See `pullback explain-error E712`"""
    )
    for wrong in ({"expert": 3}, {"expert": lambda p, x: x}, {"expert": NET, "worker": two[0], "restart": True}):
        with pytest.raises(UsageError, match="E518"):
            remote(**wrong)  # type: ignore[arg-type]
    assert isinstance(remote(NET, worker=two[0], name="once"), Remote)
    with pytest.raises(UsageError, match=r"E518.*once already"):
        remote(NET, worker=two[0], name="once")
    with pytest.raises(UsageError, match=r"E518.*no optimizer"):
        still = remote(NET, worker=two[0], name="still")
        still.update()
        still.wait()
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="E713"):
        workers(1)
