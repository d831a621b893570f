"""Messages for users of other libraries, and for typing errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import PullbackError
from pullback.tracing import elsewhere

X = np.zeros((8, 3), np.float32)
NET = nn.dense(2).on("N 3")


def _fit(**changed: Any) -> Any:
    given: dict[str, Any] = {"data": (X, X[:, :2]), "optimizer": nn.sgd(0.1), "epochs": 1, "progress": False, **changed}
    model, loss, data = given.pop("model", NET), given.pop("loss", nn.mse_loss), given.pop("data")
    return nn.fit(model, loss, data, **given)


MISTAKES: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: nn.Linear(3, 4), "[E146] pullback.nn has no 'Linear'", "`nn.dense`"),
    (lambda: nn.Conv2d(3, 4, 5), "[E146] pullback.nn has no 'Conv2d'", "`nn.conv`"),
    (lambda: nn.MSELoss(), "[E146] pullback.nn has no 'MSELoss'", "`nn.mse_loss`"),
    (lambda: nn.smooth_l1_loss, "[E146] pullback.nn has no 'smooth_l1_loss'", "`nn.huber_loss`"),
    (lambda: nn.CrossEntropyLoss(), "[E146] pullback.nn has no 'CrossEntropyLoss'", "`nn.cross_entropy`"),
    (lambda: nn.Adam(1e-3), "[E146] pullback.nn has no 'Adam'", "`nn.adam`"),
    (lambda: nn.BatchNorm2d(4), "[E146] pullback.nn has no 'BatchNorm2d'", "`nn.batch_norm`"),
    (lambda: nn.Sequential(), "[E146] pullback.nn has no 'Sequential'", "`nn.sequential`"),
    (lambda: nn.dens(4), "[E146] pullback.nn has no 'dens'", "did you mean `nn.dense`?"),
    (lambda: nn.dense("3"), "[E163] dense: units is '3'", "a whole number from 1 up: `units=1`"),  # type: ignore[arg-type]
    (lambda: nn.dense(-3), "[E163] dense: units is -3", "a whole number from 1 up: `units=1`"),
    (lambda: nn.sequential([nn.dense(3)]), "[E163] a list is no layer", "`nn.sequential(*layers)`"),
    (
        lambda: _fit(optimizer=nn.adam),
        "[E170] fit: optimizer is <class 'pullback.nn.optimizers.rules.adam'>",
        "`nn.adam(…)` with its learning rate",
    ),
    (
        lambda: _fit(loss=lambda p, s, batch: 0.0),
        "[E518] fit: the loss is a function of (result, target)",
        "`lambda result, target: …`",
    ),
    (
        lambda: _fit(loss=X),
        "[E518] fit: the loss is a function of (result, target)",
        "`nn.fit(net, loss, data, optimizer=…)`",
    ),
    (
        lambda: _fit(model=lambda p: 0.0, loss=None, parameters={}),
        "[E518] fit: the loss is a function of (parameters, state, batch)",
        "`lambda parameters, state, batch: …`",
    ),
    (
        lambda: _fit(metrics=[lambda y: y]),
        "[E518] fit: the metric is a function of (result, target)",
        "`lambda result, target: …`",
    ),
    (
        lambda: _fit(data=X),
        "[E508] fit: a batch of dense(2) is a pair (inputs, targets)",
        "a Dataset, or a pair of arrays",
    ),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_a_mistake_says_what_to_write(number: int) -> None:
    mistake, message, remedy = MISTAKES[number]
    with pytest.raises(PullbackError) as caught:
        mistake()
    lines = str(caught.value).splitlines()
    assert message in lines[0]
    assert lines[-1].strip().startswith(f"try: {remedy}      See")


def test_names_of_elsewhere_are_none_of_ours() -> None:
    """A table of what things are called here has no name that there is by now, and leads to names that there are."""
    known = set(pb.__all__)
    equal, networks = elsewhere.words("names", "pullback"), elsewhere.words("names", "nn")
    assert not known & {*equal, *elsewhere.words("instead", "pullback")}
    assert set(equal.values()) <= known
    assert set(networks.values()) <= set(nn.__all__)
    assert not set(networks) & set(nn.__all__)


def test_a_run_is_shown_in_a_line() -> None:
    shown = repr(_fit())
    assert shown.startswith("<Run: 1 step in ") and shown.endswith(", finished, loss 0>")
