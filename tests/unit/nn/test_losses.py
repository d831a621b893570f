"""Losses and metrics of arrays of NumPy that the function around them reads: as if they were arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
P = np.abs(X) / np.abs(X).sum(1, keepdims=True)
LABELS = np.array([0, 2, 1, 1, 0])
TARGETS: dict[str, list[Any]] = {
    "mse_loss": [P, P.astype(np.float64), LABELS[:, None] + np.zeros_like(X)],
    "l1_loss": [P, P.astype(np.float64)],
    "huber_loss": [P, P.astype(np.float64)],
    "bce_with_logits": [P, P.astype(np.float64), X > 0, (X > 0).astype(np.int8)],
    "hinge_loss": [np.sign(X), np.sign(X).astype(np.int64), LABELS, LABELS.astype(np.uint8)],
    "poisson_nll_loss": [P, P.astype(np.float64), LABELS[:, None] + np.zeros_like(X).astype(np.int64)],
    "kl_div": [P, P.astype(np.float64)],
    "cross_entropy": [P, P.astype(np.float64), LABELS, LABELS.astype(np.uint8)],
}


@pytest.mark.parametrize("name", TARGETS)
def test_captured_targets(name: str) -> None:
    loss = getattr(nn, name)
    for target in TARGETS[name]:
        for reduction in ("mean", "none"):
            captured = pb.function(lambda y: loss(y, target, reduction=reduction))
            given = pb.function(lambda y, t: loss(y, t, reduction=reduction))
            np.testing.assert_array_equal(captured.interpret(X), given.interpret(X, target))
        by_scores = pb.grad(pb.function(lambda y: loss(y, target)))
        also = pb.grad(pb.function(lambda y, t: loss(y, t)), wrt="y")
        np.testing.assert_array_equal(by_scores.interpret(X), also.interpret(X, target))


@pytest.mark.parametrize("name", TARGETS)
def test_captured_scores(name: str) -> None:
    """The result may be an array of NumPy, too, and the target what is traced."""
    loss = getattr(nn, name)
    for target in TARGETS[name]:
        captured = pb.function(lambda t: loss(X, t))
        given = pb.function(lambda y, t: loss(y, t))
        np.testing.assert_array_equal(captured.interpret(target), given.interpret(X, target))


def test_every_loss_is_in_the_table() -> None:
    from pullback.nn import losses

    assert set(TARGETS) == set(losses.__all__)


@pytest.mark.parametrize("name", [n for n in nn.metrics.__all__ if n not in ("on_outputs", "plot_confusion_matrix")])
def test_captured_labels_of_metrics(name: str) -> None:
    metric = getattr(nn.metrics, name)
    captured, given = pb.function(lambda y: metric(y, LABELS)), pb.function(lambda y, t: metric(y, t))
    np.testing.assert_array_equal(captured.interpret(X), given.interpret(X, LABELS))
