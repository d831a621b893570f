"""Trainers: the optimizers of `pullback.nn` on weights of networks that decide as they run."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import TraceError, lazy, nn

OPTIMIZERS = {
    "clip, Adam": lambda: nn.clip_by_global_norm(1.0) >> nn.adam(0.1),
    "weight decay, momentum": lambda: nn.weight_decay(0.01) >> nn.sgd(0.1, momentum=0.9, nesterov=True),
    "groups": lambda: nn.parameter_groups({"a": nn.sgd(0.1), "b": nn.rmsprop(0.05)}),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_pullback_nn(name: str) -> None:
    optimizer = OPTIMIZERS[name]()
    start = {"a": np.array([1.0, -2.0]), "b": np.array([[0.5, 3.0]])}
    cells = lazy.weights(start)
    trainer = lazy.Trainer(cells, optimizer)
    p, state = start, optimizer.init(start)

    @pb.function
    def update(p: Any, g: Any, state: Any, step: Any) -> Any:
        updates, after = optimizer.update(g, state, p, step)
        return optimizer.apply(p, updates), after

    for k in range(3):
        trainer.step(lazy.sum(cells["a"] ** 2) + lazy.sum(lazy.sin(cells["b"])))
        p, state = update.interpret(p, {"a": 2 * p["a"], "b": np.cos(p["b"])}, state, k)
        for n in p:
            np.testing.assert_allclose(cells[n], p[n], rtol=1e-13, atol=1e-15)
    assert trainer.state.keys() == state.keys()


def test_only_what_ran_is_trained() -> None:
    a, b = lazy.Weight(np.array(1.0)), lazy.Weight(np.array(1.0))
    trainer = lazy.Trainer([a, b], nn.sgd(0.1, momentum=0.9))
    trainer.step(a * a)
    assert (float(a), float(b)) == (0.8, 1.0)


def test_two_weights_of_one_name() -> None:
    with pytest.raises(TraceError, match="E707"):
        lazy.Trainer([lazy.Weight(np.ones(1), "w"), lazy.Weight(np.ones(1), "w")], nn.sgd(0.1))


# A weight that no trainer has -------------------------------------------------------------------------------------


def test_a_weight_without_a_trainer_is_told_once() -> None:
    a, b, c = (lazy.Weight(np.array(1.0), name) for name in "abc")
    trainer, other = lazy.Trainer([a], nn.sgd(0.1)), lazy.Trainer([b], nn.sgd(0.1))
    remedy = r"Give it to a trainer, or read `lazy.stop_gradient\(c\)` \[E717\]"
    with pytest.warns(RuntimeWarning, match=f"the loss reads c, which no trainer was given.*{remedy}") as caught:
        trainer.step(a * b * c)
    assert [w.filename for w in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.step(a * b * c)
        other.step(a * b * lazy.stop_gradient(c))
        lazy.Trainer(optimizer=nn.sgd(0.1)).step(lazy.Weight(np.array(1.0)) * a)
        lazy.Trainer([c], nn.sgd(0.1)).step(a * c)
        lazy.backward(a * lazy.Weight(np.array(1.0)))  # who reads `grad` needs no trainer


# Pickles and copies ------------------------------------------------------------------------------------------------

PROGRAM = """
import pickle, sys
import numpy as np
from pullback import lazy, nn

def loss(cells, k):
    x = lazy.asarray(np.random.default_rng(k).normal(size=(5, 4)))
    y = lazy.tanh(x @ cells["first"]["w"] + cells["first"]["b"])
    return lazy.mean((lazy.sum(y * cells["second"], axis=1) - 1.0) ** 2)

def start():
    r = np.random.default_rng(0)
    cells = lazy.weights({"first": {"w": r.normal(size=(4, 3)), "b": np.zeros(3)}, "second": r.normal(size=3)})
    optimizer = nn.clip_by_global_norm(0.5) >> nn.adam(nn.exponential_decay(0.1, 0.9)) >> nn.ema(0.9)
    return cells, lazy.Trainer(cells, optimizer)

def bits(cells, trainer):
    arrays = [w.numpy().tobytes() for w in trainer.weights.values()]
    assert [w.numpy().tobytes() for w in (cells["first"]["b"], cells["first"]["w"], cells["second"])] == arrays
    return arrays, trainer.steps, repr(trainer.state)
"""


def in_a_process(program: str, folder: Path) -> None:
    environment = {**os.environ, "PULLBACK_LAZY": "wait", "PYTHONPATH": str(Path(pb.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", PROGRAM + program], cwd=folder, env=environment, check=True)


@pytest.mark.slow
def test_training_continues_from_a_pickle_with_the_same_bits(tmp_path: Path) -> None:
    """In a new process, and from copies in the same one. `wait` lets no step run before its code is there."""
    first = """
cells, trainer = start()
for k in range(4):
    trainer.step(loss(cells, k))
open("half", "wb").write(pickle.dumps((cells, trainer)))
import copy
copied, second = copy.deepcopy((cells, trainer))
own = copy.copy(trainer)
for k in range(4, 9):
    trainer.step(loss(cells, k))
assert bits(copied, second) != bits(cells, trainer)
for k in range(4, 9):
    second.step(loss(copied, k))
assert bits(copied, second) == bits(cells, trainer)
assert own.weights["second"] is cells["second"] and own.steps == 4  # its weights, with a state of its own
open("whole", "wb").write(pickle.dumps(bits(cells, trainer)))
"""
    then = """
cells, trainer = pickle.load(open("half", "rb"))
assert trainer.weights["first/w"] is cells["first"]["w"] and trainer.steps == 4
for k in range(4, 9):
    trainer.step(loss(cells, k))
assert bits(cells, trainer) == pickle.load(open("whole", "rb"))
"""
    in_a_process(first, tmp_path)
    in_a_process(then, tmp_path)


def test_a_trainer_that_finds_its_weights_does_so_after_a_pickle() -> None:
    w = lazy.Weight(np.array(3.0), "w")
    trainer = lazy.Trainer(optimizer=nn.sgd(0.5, momentum=0.9))
    trainer.step(w * w)
    v, again = pickle.loads(pickle.dumps((w, trainer)))
    more = lazy.Weight(np.array(1.0), "more")
    again.step(v * v + more)
    trainer.step(w * w)
    assert (float(v), float(more)) == (float(w), 0.5)
    assert sorted(again.weights) == ["more", "w"]
    assert again.state["momentum"]["w"] == trainer.state["momentum"]["w"]


def test_a_gradient_that_waits_is_not_pickled() -> None:
    w = lazy.Weight(np.array(3.0), "w")
    trainer = lazy.Trainer([w], nn.sgd(0.5))
    lazy.backward(w * w)
    again = pickle.loads(pickle.dumps(trainer))
    again.update()
    assert (again.steps, float(again.weights["w"])) == (0, 3.0)
