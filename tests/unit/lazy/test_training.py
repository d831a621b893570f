"""Trainers: the optimizers of `pullback.nn` on weights of networks that decide as they run."""

from __future__ import annotations

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
