# ruff: noqa: E501
"""Targets of every kind: values and gradients of losses against NumPy in double precision, and training with them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.tracing import tree

RNG = np.random.default_rng(0)
Y = RNG.normal(size=(6, 5)) * 3
LABELS = np.array([0, 4, 2, 2, 1, 3])
SOFT = RNG.dirichlet(np.ones(5), 6)
W = np.array([0.5, 2.0, 1.0, 0.25, 3.0])
HOT = np.eye(5)


def log_softmax(y: Any) -> Any:
    m = y.max(-1, keepdims=True)
    return y - m - np.log(np.exp(y - m).sum(-1, keepdims=True))


def cross_entropy(y: Any, t: Any, w: Any = 1.0, smoothing: float = 0.0, ignore: int | None = None) -> Any:
    """PyTorch's formulas of `CrossEntropyLoss`, for labels and for distributions."""
    log_p, w = log_softmax(y), np.broadcast_to(w, 5)
    if t.ndim == y.ndim:
        t = (1 - smoothing) * t + smoothing / 5
        return -(t * w * log_p).sum(-1).mean()
    counts = t != ignore
    t = np.where(counts, t, 0)
    own = -(w[t] * np.take_along_axis(log_p, t[..., None], -1)[..., 0])
    even = -(w * log_p).sum(-1)
    total = ((1 - smoothing) * own + smoothing / 5 * even)[counts].sum()
    return total / w[t][counts].sum()


def bce(y: Any, t: Any, positive: Any = 1.0) -> Any:
    p = 1 / (1 + np.exp(-y))
    return -(positive * t * np.log(p) + (1 - t) * np.log(1 - p)).mean()



IGNORING = np.where(np.arange(6) % 3 == 1, -100, LABELS)
BITS = (Y > 0.3).astype(np.int64)
COUNTS = RNG.poisson(4, Y.shape)
RATES = np.exp(Y / 3)
SHARES = RNG.uniform(0.1, 2, 6)

LOSSES: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any, Any]] = {
    "labels": (nn.cross_entropy, cross_entropy, Y, LABELS),
    "bytes": (nn.cross_entropy, cross_entropy, Y, LABELS.astype(np.uint8)),
    "soft labels": (nn.cross_entropy, cross_entropy, Y, SOFT),
    "class weights": (
        lambda y, t: nn.cross_entropy(y, t, weight=W), lambda y, t: cross_entropy(y, t, W), Y, LABELS),
    "class weights of soft labels": (
        lambda y, t: nn.cross_entropy(y, t, weight=W), lambda y, t: cross_entropy(y, t, W), Y, SOFT),
    "smoothing": (
        lambda y, t: nn.cross_entropy(y, t, label_smoothing=0.1), lambda y, t: cross_entropy(y, t, smoothing=0.1), Y, LABELS),
    "smoothing of soft labels": (
        lambda y, t: nn.cross_entropy(y, t, label_smoothing=0.1), lambda y, t: cross_entropy(y, t, smoothing=0.1), Y, SOFT),
    "ignored": (
        lambda y, t: nn.cross_entropy(y, t, ignore_index=-100), lambda y, t: cross_entropy(y, t, ignore=-100), Y, IGNORING),
    "ignored bytes": (
        lambda y, t: nn.cross_entropy(y, t, ignore_index=255), lambda y, t: cross_entropy(y, t, ignore=255),
        Y, np.where(IGNORING < 0, 255, LABELS).astype(np.uint8)),
    "a label that bytes do not hold": (
        lambda y, t: nn.cross_entropy(y, t, ignore_index=-100), cross_entropy, Y, LABELS.astype(np.uint8)),
    "all of it": (
        lambda y, t: nn.cross_entropy(y, t, ignore_index=-100, weight=W, label_smoothing=0.2),
        lambda y, t: cross_entropy(y, t, W, 0.2, -100), Y, IGNORING),
    "sample weights": (
        lambda y, t: pb.sum(t["w"] * nn.cross_entropy(y, t["k"], reduction="none")) / pb.sum(t["w"]),
        lambda y, t: -(t["w"] * log_softmax(y)[np.arange(6), t["k"]]).sum() / t["w"].sum(), Y, {"k": LABELS, "w": SHARES}),
    "bits": (nn.bce_with_logits, bce, Y, BITS),
    "bools": (nn.bce_with_logits, bce, Y, BITS.astype(bool)),
    "probabilities": (nn.bce_with_logits, bce, Y, SOFT),
    "pos_weight": (lambda y, t: nn.bce_with_logits(y, t, pos_weight=3.0), lambda y, t: bce(y, t, 3.0), Y, BITS),
    "pos_weight of each": (lambda y, t: nn.bce_with_logits(y, t, pos_weight=W), lambda y, t: bce(y, t, W), Y, BITS),
    "counts": (nn.poisson_nll_loss, lambda y, t: (np.exp(y) - t * y).mean(), Y, COUNTS),
    "rates": (
        lambda y, t: nn.poisson_nll_loss(y, t, log_input=False), lambda y, t: (y - t * np.log(y)).mean(), RATES, COUNTS),
    "squares of whole numbers": (nn.mse_loss, lambda y, t: ((y - t) ** 2).mean(), Y, COUNTS),
}  # fmt: skip


def slopes(f: Callable[..., Any], y: Any, t: Any) -> Any:
    """Central differences; their error is of order h⁴."""
    out = np.zeros_like(y)
    for place in np.ndindex(*y.shape):
        step = np.zeros_like(y)
        step[place] = 1e-3
        near, far = f(y + step, t) - f(y - step, t), f(y + 2 * step, t) - f(y - 2 * step, t)
        out[place] = (8 * near - far) / 12e-3
    return out


@pytest.mark.parametrize("name", LOSSES)
def test_values_and_gradients_are_those_of_numpy(name: str) -> None:
    loss, wanted, y, t = LOSSES[name]
    value, gradient = pb.value_and_grad(pb.function(lambda y, t: loss(y, t)), wrt="y").interpret(y, t)
    assert value == pytest.approx(wanted(y, t), rel=1e-12)
    np.testing.assert_allclose(gradient, slopes(wanted, y, t), rtol=1e-7, atol=1e-10)


def test_large_scores_of_weighted_bits() -> None:
    f = pb.value_and_grad(pb.function(lambda y, t: nn.bce_with_logits(y, t, pos_weight=2.0, reduction="sum")), wrt="y")
    value, gradient = f.interpret(np.array([1e4, -1e4, 1e4]), np.array([1.0, 1.0, 0.0]))
    assert value == pytest.approx(3e4) and gradient.tolist() == [0.0, -2.0, 1.0]


# Training ---------------------------------------------------------------------------------------------------------

X = RNG.normal(size=(40, 4)).astype(np.float32)
K = np.arange(40) % 3
FOUR, ONE = nn.dense(4).on("N 4"), nn.dense(1).on("N 4")


def train(net: Any, loss: Any, targets: Any, **options: Any) -> Any:
    how = {"optimizer": nn.sgd(0.05), "epochs": 2, "batch_size": 8, "progress": False, **options}
    return nn.fit(net, loss, (X, targets), validation_data=(X, targets), **how)


def ordinal(y: Any, t: Any) -> Any:
    """Cumulative logits: element k is the score of `t > k` (McCullagh 1980)."""
    return nn.bce_with_logits(y, pb.expand_dims(t, 1) > pb.arange(4))


TRAINED: dict[str, tuple[Any, Any, Any]] = {
    "counts": (ONE, lambda y, t: nn.poisson_nll_loss(y[:, 0], t), RNG.poisson(5, 40)),
    "counts by hand": (ONE, lambda y, t: pb.mean(pb.exp(y[:, 0]) - t.astype(y.dtype) * y[:, 0]), RNG.poisson(5, 40)),
    "ordinal": (FOUR, ordinal, np.arange(40) % 5),
    "bits": (ONE, lambda y, t: nn.bce_with_logits(y[:, 0], t), K % 2),
    "whole numbers": (ONE, lambda y, t: nn.mse_loss(y[:, 0], t), np.arange(40) - 20),
    "ignored in a lambda": (FOUR, lambda y, t: nn.cross_entropy(y, t, ignore_index=-100), np.where(K == 2, -100, K)),
    "ignored bytes": (
        FOUR, functools.partial(nn.cross_entropy, ignore_index=255), np.where(K == 2, 255, K).astype(np.uint8)),
    "soft labels": (FOUR, nn.cross_entropy, np.eye(4, dtype=np.float32)[K] * 0.8 + 0.05),
    "class weights": (FOUR, lambda y, t: nn.cross_entropy(y, t, weight=[1.0, 2.0, 0.5, 1.0]), K),
    "sample weights": (
        FOUR, lambda y, t: pb.mean(t["w"] * nn.cross_entropy(y, t["k"], reduction="none")),
        {"k": K, "w": np.linspace(0, 1, 40, dtype=np.float32)}),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAINED)
def test_targets_of_any_meaning_train(name: str) -> None:
    net, loss, targets = TRAINED[name]
    history = train(net, loss, targets).history
    assert np.isfinite(history["loss"]).all() and history["validation_loss"][1] < history["validation_loss"][0]


@pytest.mark.slow
def test_float64_images_and_batch_statistics() -> None:
    """States keep their element type when the data has another one."""
    images = RNG.normal(size=(16, 2, 5, 5))
    net = nn.sequential(nn.conv(3, 3), nn.batch_norm(), nn.relu, nn.flatten(), nn.dense(3))
    how: Any = {"optimizer": nn.sgd(0.05), "epochs": 2, "batch_size": 8, "progress": False, "seed": 1}
    runs = [
        nn.fit(net, nn.cross_entropy, (x, K[:16]), validation_data=(x, K[:16]), **how)
        for x in (images, images.astype(np.float32))
    ]
    for double, single in zip(*(tree.flatten((r.parameters, r.state))[0] for r in runs), strict=True):
        assert double.dtype == single.dtype == np.float32
        np.testing.assert_allclose(double, single, rtol=1e-4, atol=1e-5)
