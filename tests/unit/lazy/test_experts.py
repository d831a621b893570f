"""Experts and their workers without a cluster: processes are objects of this one, and each message is copied."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import DerivativeError, lazy, nn
from pullback.cluster import LostError
from pullback.errors import UsageError
from pullback.lazy import Remote, Worker, remote, workers
from pullback.lazy.remote import Expert
from pullback.tracing import tree

MODULE = sys.modules[Expert.__module__]
X, Y = np.array([1.0, -2.0, 0.5]), np.array([0.25, 3.0, 2.0])
PLACES = np.array([3, 0, 3])
START = {"a": np.array(0.7), "b": np.array([1.0, 2.0, 3.0, 4.0])}
NET = nn.sequential(nn.dense(4), nn.tanh, nn.dense(2)).on("N 3")


def network(p: Any, x: Any, j: Any, y: Any) -> Any:
    """Two results; operands with a derivative, without, and of integers."""
    return pb.sin(x * p["a"]) + pb.take(p["b"], j), pb.sum(x * y) * p["a"]


class Near:
    """A process of this process; what it is asked is done at once, what it raises is kept for `answer`."""

    made: list[Near] = []

    def __init__(self, what: str, make: Any, *arguments: Any, options: Any) -> None:
        self.what, self.options, self.gone, self.calls = what, dict(options), False, []
        self.object = make(*arguments)
        self.made.append(self)

    def ask(self, method: str, *arguments: Any, what: str = "") -> Any:
        self.calls.append((method, *arguments))
        if self.gone:
            return LostError("E711", f"{what or self.what}: its process is lost")
        try:
            return [copy.deepcopy(getattr(self.object, method)(*copy.deepcopy(arguments)))]
        except Exception as error:
            return error

    def end(self) -> None:
        self.gone = True


def answered(promised: Any, what: str) -> Any:
    assert isinstance(what, str)  # whom messages name
    if isinstance(promised, Exception):
        raise promised
    return promised[0]


class Running:
    """A cluster that is there."""

    there = True


@pytest.fixture(autouse=True)
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    monkeypatch.setattr(MODULE, "Process", Near)
    monkeypatch.setattr(MODULE, "answer", answered)
    monkeypatch.setattr(MODULE, "is_running", lambda: Running.there)
    monkeypatch.setattr(Near, "made", [])


def said(error: Any) -> tuple[str, str, str]:
    return error.value.code, error.value.what, error.value.remedy


def flat(held: Any) -> list[Any]:
    return [np.asarray(v).tolist() for v in tree.flatten(held)[0]]


def test_gradients_and_updates_of_a_function() -> None:
    e = remote(network, parameters=START, optimizer=nn.sgd(1.0), name="several")
    w = lazy.Weight(X)
    u, v = e(w * 2.0, PLACES, Y)
    assert (u.shape, v.shape, u.dtype) == ((3,), (), lazy.float64)
    assert e.gradient() is None
    value = lazy.backward(lazy.sum(u * u) + v)
    s, c = np.sin(1.4 * X) + START["b"][PLACES], np.cos(1.4 * X)
    of_a, of_b = np.sum(2 * s * c * 2 * X) + np.sum(2 * X * Y), np.bincount(PLACES, 2 * s, 4)
    assert value == pytest.approx(np.sum(s * s) + 1.4 * np.sum(X * Y))
    np.testing.assert_allclose(w.grad, 2 * (2 * s * c * 0.7 + 0.7 * Y), rtol=1e-12)
    np.testing.assert_allclose(e.gradient()["a"], of_a, rtol=1e-12)
    np.testing.assert_allclose(e.gradient()["b"], of_b, rtol=1e-12)
    again = e(X, PLACES, Y)[1]  # an operand without a derivative: the weights' is wanted
    lazy.backward(again)
    np.testing.assert_allclose(e.gradient()["a"], of_a + np.sum(X * Y), rtol=1e-12)
    assert e.held()["steps"] == 0
    e.update()
    np.testing.assert_allclose(e.parameters()["a"], 0.7 - of_a - np.sum(X * Y), rtol=1e-12)
    np.testing.assert_allclose(e.parameters()["b"], START["b"] - of_b, rtol=1e-12)
    assert (e.held()["steps"], e.gradient()) == (1, None)
    e.update()  # without gradients: nothing but the number of updates changes
    np.testing.assert_allclose(e.parameters()["b"], START["b"] - of_b, rtol=1e-12)
    assert (e.held()["steps"], e.held()["state"], START["a"]) == (2, {}, 0.7)
    assert repr(e) == "<Remote several in several>"


def test_types_are_asked_for_once_and_calls_have_numbers() -> None:
    e = remote(network, parameters=START)
    process = Near.made[-1]
    for _ in range(2):
        e(X, PLACES, Y)
    e(lazy.Weight(X), PLACES, Y)
    asked = [c for c in process.calls if c[2:3] == ("result",)]
    types = [((3,), "float64"), ((3,), "int64"), ((3,), "float64")]
    assert [c[3:] for c in asked] == [(types, (False,) * 3), (types, (True, False, False))]
    u, _v = e(lazy.Weight(X), PLACES, Y)
    lazy.backward(lazy.sum(u))
    assert [c[2:4] for c in process.calls if c[0] == "of" and c[2] != "result"] == [
        ("forward", 3), ("backward", 3), ("release", 3)]  # fmt: skip
    expert = process.object.experts[e.name]
    assert expert._kept == {}
    u.numpy()
    two = e(lazy.Weight(X), PLACES, Y)[0]
    two.numpy()
    assert list(expert._kept) == [4]
    del two
    assert expert._kept == {}  # let go without a backward pass
    Running.there = False
    try:
        three = e(lazy.Weight(X), PLACES, Y)[0]
        three.numpy()
        del three
        assert list(expert._kept) == [5]  # the cluster has ended: nothing is asked of it
    finally:
        Running.there = True


def test_gradients_are_added_in_the_order_of_calls() -> None:
    expert = Expert("e", lambda p, x: p * x, np.array(1.0))
    expert.result([((), "float64")], (False,))
    for call, x in ((2, 1e-30), (0, 1.0), (1, -1.0)):
        assert expert.forward(call, (False,), np.array(x)) == x
    for call in (2, 1, 0):
        assert expert.backward(call, np.array(1.0)) == []
    assert expert.gradient() == 1e-30


def test_layers_carry_a_state_and_make_their_parameters() -> None:
    net = nn.sequential(nn.dense(4), nn.batch_norm(), nn.dense(2)).on("N 3")
    held = [Worker("one"), Worker("two")]
    x = np.random.default_rng(0).normal(size=(5, 3)).astype("f4")
    first, second, other = (remote(net, seed=s, worker=held[k], name=f"n{s}{k}") for s, k in ((4, 0), (4, 1), (5, 1)))
    wanted, state = net.init(4)
    for e, same in ((first, True), (second, True), (other, False)):
        assert np.array_equal(e.parameters()["dense1"]["w"], wanted["dense1"]["w"]) is same
    y = first(x)
    assert (y.shape, y.dtype) == ((5, 2), lazy.float32)
    before = first.held()["state"]
    y.numpy()
    after = first.held()["state"]
    assert flat(before) == flat(state) != flat(after)
    given = remote(net, parameters=wanted, state=state, name="given")
    np.testing.assert_array_equal(given(x), y)
    assert [p.what for p in Near.made] == ["one", "two", "given"]


def test_parameters_are_put() -> None:
    e = remote(network, parameters=START, name="e")
    loss = lazy.sum(e(lazy.Weight(X), PLACES, Y)[0])
    float(loss)
    e.put({"a": 2, "b": np.array([0, 0, 0, 1])})
    assert e.parameters()["a"].dtype == np.float64
    assert e.parameters()["b"].tolist() == [0, 0, 0, 1]
    with pytest.raises(DerivativeError) as caught:
        lazy.backward(loss)
    assert said(caught) == ("E703", "e was changed between the forward and the backward pass",
                            "run the network again, or change weights after its backward pass")  # fmt: skip
    for wrong in ({"a": 2.0}, {"a": 2.0, "b": np.zeros(3)}, {"a": 2.0, "c": np.zeros(4)}):
        with pytest.raises(UsageError) as raised:
            e.put(wrong)
        assert said(raised)[:2] == ("E518", "e: the parameters given are not like its own")


def test_checkpoints(tmp_path: Path) -> None:
    settings: Any = {"parameters": START, "optimizer": nn.adam(0.1), "checkpoint": str(tmp_path / "new"), "name": "e"}
    e = remote(network, every=2, **settings)
    path = tmp_path / "new" / "e.safetensors"
    for k in range(3):
        lazy.backward(e(X, PLACES, Y)[1])
        e.update()
        assert path.exists() == (k > 0)
        if k == 1:
            saved = e.held()
    e.save()
    again = Expert("e", network, START, optimizer=nn.adam(0.1), checkpoint=str(tmp_path / "new"), load=True)
    assert again.steps == 3
    assert flat(again.held()) == flat(e.held()) != flat(saved)
    fresh = Expert("e", network, START, optimizer=nn.adam(0.1), checkpoint=str(tmp_path / "new"))
    assert (fresh.steps, fresh.every, fresh.path) == (0, 1, path)
    fresh.update()  # by default every update is saved
    assert Expert("e", network, START, optimizer=nn.adam(0.1), checkpoint=str(tmp_path / "new"), load=True).steps == 1
    assert Expert("none", network, START, checkpoint=str(tmp_path), load=True).steps == 0
    assert Expert("none", network, START, load=True).path is None


def test_a_lost_process_is_started_again_with_its_experts(tmp_path: Path) -> None:
    worker = Worker("w", restart=True, num_cpus=1)
    make = lambda name: remote(network, parameters=START, optimizer=nn.sgd(1.0), worker=worker, name=name,
                               checkpoint=str(tmp_path))  # fmt: skip
    e, other = make("e"), make("other")
    assert Near.made[0].options == {"num_cpus": 1}
    lazy.backward(e(X, PLACES, Y)[1])
    e.update()
    before = e.parameters()
    loss = e(lazy.Weight(X), PLACES, Y)[1]
    float(loss)
    worker.end()
    with pytest.raises(LostError) as caught:
        lazy.backward(loss)
    assert said(caught)[:2] == ("E711", "e: its process is lost")
    assert (len(Near.made), Near.made[1].options, Near.made[1].what) == (2, {"num_cpus": 1}, "w")
    assert e.parameters()["a"] == before["a"] != START["a"]
    assert other.parameters()["a"] == START["a"]
    worker.end()
    assert e(X, PLACES, Y)[1].item() == pytest.approx(np.sum(X * Y) * before["a"])  # asked again
    assert len(Near.made) == 3
    Near.made[-1].object.experts.clear()
    with pytest.raises(LostError) as caught:
        worker.wait("e", worker.ask("e", "held"))
    assert said(caught) == ("E711", "e: its process was started again without it", "`restart=True`")


def test_a_lost_process_stays_lost() -> None:
    e = remote(network, parameters=START, name="e")
    e.worker.end()
    with pytest.raises(LostError):
        float(e(X, PLACES, Y)[1])
    assert len(Near.made) == 1
    with pytest.raises(LostError):
        e.held()


def test_errors_of_an_update_are_raised_by_the_next() -> None:
    e = remote(network, parameters=START, name="still")
    e.update()
    with pytest.raises(UsageError) as caught:
        e.update()
    assert said(caught) == ("E518", "still has no optimizer", "`lazy.remote(…, optimizer=nn.adam(1e-3))`")
    e.wait()


def test_workers_and_names() -> None:
    held = workers(3, restart=True, num_cpus=2)
    assert [(w.name, w.restart, w.options) for w in held] == [(f"worker {k}", True, {"num_cpus": 2}) for k in range(3)]
    assert held[0].memory() > 1 << 20
    e = remote(network, parameters=START, worker=held[0])
    f = remote(network, parameters=START, worker=held[0])
    assert e.name.startswith("network ") and f.name == f"network {int(e.name[8:]) + 1}"
    assert remote(NET, name="own", restart=True, num_cpus=3).worker.options == {"num_cpus": 3}
    with pytest.raises(UsageError) as caught:
        remote(network, parameters=START, worker=held[0], name=e.name)
    assert said(caught) == ("E518", f"worker 0 holds an expert {e.name} already", "`name=`, one for each")
    assert not held[0]._process.gone


@pytest.mark.parametrize(
    ("settings", "what", "remedy"),
    [
        ({"expert": 3}, "remote: int is no network", "a Layer, or a function"),
        ({"expert": network}, "remote: a function comes without parameters", "`parameters=`, a tree of arrays"),
        ({"expert": NET, "restart": True}, "remote: the worker that is given has its own options",
         "`lazy.workers(n, …)`"),
        ({"expert": NET, "num_cpus": 2}, "remote: the worker that is given has its own options",
         "`lazy.workers(n, …)`"),
    ],
)  # fmt: skip
def test_what_contradicts_itself(settings: Any, what: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        remote(**settings, worker=Worker())
    assert said(caught) == ("E518", what, remedy)


def test_a_process_of_its_own_ends_where_its_expert_cannot_be_made() -> None:
    class Fails:
        def init(self, parameters: Any) -> Any:
            raise UsageError("E518", "no memory")

    for worker, gone in ((Worker("given"), False), (None, True)):
        with pytest.raises(UsageError, match="no memory"):
            remote(NET, worker=worker, optimizer=Fails(), name="bad")
        assert Near.made[-1].gone is gone
    assert isinstance(remote(NET, worker=worker, name="bad"), Remote)  # the name is free


def test_what_is_collected_without_a_cluster_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray may not even be installed where what it computed is collected: finalizers do not import it."""
    e = remote(network, parameters=START, name="collected")
    value = e(lazy.Weight(X), PLACES, Y)[0]
    value.numpy()
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "ray", None)
    del value
