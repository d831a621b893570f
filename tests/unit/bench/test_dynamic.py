"""The networks of `pullback bench dynamic`: the losses are NumPy's, rows become a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pullback.bench import dynamic
from pullback.bench.harness import Row
from pullback.bench.systems import dynamic_pullback


class NumPy:
    """What the networks need of a library."""

    @staticmethod
    def relu(x: Any) -> Any:
        return np.maximum(x, 0)


def entropy(scores: Any, wanted: Any) -> float:
    likely = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    return float(-np.mean((likely * wanted).sum(1)))


@pytest.mark.parametrize("case", ["skip-2", "gated"])
def test_the_first_loss(case: str) -> None:
    columns = 2 if case == "skip-2" else 1
    p = dynamic.parameters(columns)
    x, c, y = dynamic.inputs()[0]
    h, coarse = dynamic.network(NumPy, p, x, columns)
    k = int(coarse.sum(0).argmax()) if case == "gated" else c
    expected = entropy(coarse, np.eye(dynamic.COARSE)[c]) + entropy(dynamic.fine(NumPy, dynamic.fine_of(p, k), h), y)
    training = dynamic_pullback.prepare(case, "lazy", 1)
    training.reset()
    assert training.trainer.step(training.loss(*training.batches[0])) == pytest.approx(expected, rel=1e-4)
    changed = {name for name, w in training.cells.items() if not np.array_equal(w.numpy(), p[name])}
    assert {name.split("/")[0] for name in changed} <= {"column0", "column1", "coarse", f"fine{k}"}
    assert any(name.startswith(f"fine{k}/") for name in changed)


def test_cells() -> None:
    row = Row(case="skip-1", system="pullback", form="lazy", dtype="float32", threads=1, median=8e-3, minimum=4e-3,
              maximum=16e-3, first_call=1.0)  # fmt: skip
    assert dynamic.cells([row]) == [("skip-1", "pullback", "lazy", "1", "1000", "375")]
