"""`nn.predict`: the results of a network for all samples, whatever holds them and however they are cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pullback import data, nn
from pullback.errors import DataError, UsageError
from pullback.nn.training import validation

X = np.random.default_rng(0).normal(size=(53, 4)).astype(np.float32)
NET = nn.sequential(nn.dense(5), nn.batch_norm(), nn.tanh, nn.dropout(0.5), nn.dense(2)).on("N 4")
PARAMETERS, STATE = NET.init(seed=0)
W = {k: v.astype(np.float64) for k, v in (("a", PARAMETERS["dense1"]["w"]), ("b", PARAMETERS["dense2"]["w"]))}


def expected() -> Any:
    """The network in inference mode by NumPy: running means of 0, variances of 1, no dropout."""
    return np.tanh(X @ W["a"].T / np.sqrt(1 + 1e-5)) @ W["b"].T


def predict(given: Any, **options: Any) -> Any:
    return nn.predict(NET, given, parameters=PARAMETERS, state=STATE, **options)


@pytest.mark.parametrize("size", [None, 1, 7, 53, 100])
def test_all_batch_sizes_give_the_same(size: int | None) -> None:
    np.testing.assert_allclose(predict(X, batch_size=size), expected(), atol=1e-5)


def test_data_sets_and_iterables() -> None:
    halves = data.Dataset(2 * X, np.zeros(53)).transformed(data.scale(2))
    np.testing.assert_allclose(predict(halves, batch_size=10), expected(), atol=1e-5)
    np.testing.assert_allclose(predict([X[:20], X[20:50], X[50:]]), expected(), atol=1e-5)
    balanced = data.Dataset(X, np.arange(53) % 2).balanced()
    np.testing.assert_allclose(predict(balanced), expected(), atol=1e-5)  # weights are for training


def test_trees() -> None:
    net = nn.sequential(nn.concat(), nn.heads(one=nn.dense(1), two=nn.dense(2))).on({"left": "N 4", "right": "N 4"})
    parameters, _ = net.init(seed=1)
    x = {"left": X, "right": -X}
    found = nn.predict(net, x, parameters=parameters, batch_size=8)
    whole = net(parameters, x)
    assert {name: a.shape for name, a in found.items()} == {"one": (53, 1), "two": (53, 2)}
    for name, a in found.items():
        np.testing.assert_allclose(a, whole[name], atol=1e-6)


def test_the_default_batch_makes_few_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "BUDGET", 1 << 12)
    seen = []
    monkeypatch.setattr(data.loader.Samples, "stacked", _noting(data.loader.Samples.stacked, seen))
    np.testing.assert_allclose(predict(X), expected(), atol=1e-5)
    assert max(seen) < 53


def _noting(stacked: Any, seen: list[int]) -> Any:
    def noted(self: Any, epoch: int, first: int, count: int) -> Any:
        found = stacked(self, epoch, first, count)
        seen.append(found.shape[1])
        return found

    return noted


def test_no_network_and_no_data() -> None:
    with pytest.raises(UsageError, match=r"predict: function is no network"):
        nn.predict(lambda x: x, X, parameters={})
    with pytest.raises(DataError, match="no samples"):
        predict(X[:0])
    with pytest.raises(DataError, match="no batches"):
        predict([])
