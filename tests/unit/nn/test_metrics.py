# ruff: noqa: E501
"""Metrics against formulas written out in NumPy, as scikit-learn defines them, and in training on all outputs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import ShapeError, TraceError, UsageError

RNG = np.random.default_rng(0)
Y = np.round(RNG.normal(size=(60, 4)), 1)  # some scores are equal
T = RNG.integers(0, 4, 60)
m = nn.metrics


def counts(y: Any, t: Any) -> Any:
    found = np.zeros((y.shape[1], y.shape[1]))
    np.add.at(found, (t, y.argmax(1)), 1)
    return found


def ratio(a: Any, b: Any) -> Any:
    return np.divide(a, b, out=np.zeros_like(a, float), where=b != 0)


def shares(y: Any, t: Any) -> dict[str, Any]:
    c = counts(y, t)
    p, r = ratio(np.diag(c), c.sum(0)), ratio(np.diag(c), c.sum(1))
    return {"precision": p, "recall": r, "f1_score": ratio(2 * p * r, p + r), "support": c.sum(1)}


def averaged(name: str, average: str | None) -> Callable[[Any, Any], Any]:
    def wanted(y: Any, t: Any) -> Any:
        found = shares(y, t)
        return {
            None: found[name],
            "macro": found[name].mean(),
            "micro": (y.argmax(1) == t).mean(),
            "weighted": (found[name] * found["support"]).sum() / found["support"].sum(),
        }[average]

    return wanted


def area(scores: Any, positive: Any) -> Any:
    """Pairs of a row of class 1 and one of class 0 in order; equal ones count half."""
    a, b = scores[positive][:, None], scores[~positive][None]
    return np.mean((a > b) + 0.5 * (a == b)) if a.size and b.size else np.nan


def log_loss(y: Any, t: Any) -> Any:
    return -(y - np.log(np.exp(y).sum(1, keepdims=True)))[np.arange(len(t)), t].mean()


def bound(f: Any, **settings: Any) -> Any:
    return functools.partial(f, **settings)


SOME = np.where(np.arange(60) % 5 == 0, -100, T)
AVERAGES = (None, "macro", "micro", "weighted")
CASES: dict[str, tuple[Any, Callable[[Any, Any], Any], Any, Any]] = {
    **{f"{name} {average}": (bound(getattr(m, name), average=average), averaged(name, average), y, T)
       for name in ("precision", "recall", "f1_score") for average in AVERAGES for y in (Y,)},
    "f1_score without some": (bound(m.f1_score, average="macro"), averaged("f1_score", "macro"), Y[:9], T[:9] % 2),
    "roc_auc_score": (m.roc_auc_score, lambda y, t: area(y, t == 1), Y[:, 0], T // 2),
    "roc_auc_score of one class": (m.roc_auc_score, lambda y, t: np.nan, Y[:, 0], T * 0 + 1),
    "roc_auc_score of many": (
        m.roc_auc_score, lambda y, t: np.mean([area(y[:, k], t == k) for k in range(4)]), Y, T),
    "perplexity": (m.perplexity, lambda y, t: np.exp(log_loss(y, t)), Y, T),
    "perplexity of some": (
        bound(m.perplexity, ignore_index=-100), lambda y, t: np.exp(log_loss(y[t >= 0], t[t >= 0])), Y, SOME),
    "accuracy of some": (
        bound(m.accuracy, ignore_index=-100), lambda y, t: (y.argmax(1) == t)[t >= 0].mean(), Y, SOME),
    "accuracy of labels that are no class": (
        m.accuracy, lambda y, t: 0.25, np.full((4, 3), -1.0) - np.arange(3), np.array([0, -1, 3, 2])),
    "precision of a class that does not occur": (
        m.precision, lambda y, t: [1, 1, 0], np.eye(3)[:2], np.array([0, 1])),
    "f1_score of a class that does not occur": (
        bound(m.f1_score, average="macro"), lambda y, t: 2 / 3, np.eye(3)[:2], np.array([0, 1])),
    "accuracy of none": (bound(m.accuracy, ignore_index=0), lambda y, t: 0.0, Y, T * 0),
    "top 2": (bound(m.accuracy, top_k=2), lambda y, t: (np.argsort(-y, 1, "stable")[:, :2] == t[:, None]).any(1).mean(), Y, T),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_metrics_are_those_of_scikit_learn(name: str) -> None:
    metric, wanted, y, t = CASES[name]
    for dtype in (np.float64, np.float32):
        found = pb.function(lambda y, t: metric(y, t)).interpret(y.astype(dtype), t)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted(y, t), rtol=1e-12 if dtype == np.float64 else 1e-5)


def test_against_scikit_learn_itself() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    labels = Y.argmax(1)
    probabilities = np.exp(Y) / np.exp(Y).sum(1, keepdims=True)
    find = lambda of, *arguments: pb.function(lambda y, t: of(y, t)).interpret(*arguments)
    for name in ("precision", "recall", "f1_score"):
        other = getattr(metrics, name.removesuffix("_score") + "_score")
        for average in AVERAGES:
            np.testing.assert_allclose(
                find(bound(getattr(m, name), average=average), Y, T), other(T, labels, average=average), rtol=1e-12
            )
    assert find(m.confusion_matrix, Y, T).tolist() == metrics.confusion_matrix(T, labels).tolist()
    assert find(m.roc_auc_score, Y[:, 0], T // 2) == pytest.approx(metrics.roc_auc_score(T // 2, Y[:, 0]), rel=1e-12)
    wanted = metrics.roc_auc_score(T, probabilities, multi_class="ovr")
    assert find(m.roc_auc_score, probabilities, T) == pytest.approx(wanted, rel=1e-12)
    assert find(m.perplexity, Y, T) == pytest.approx(np.exp(metrics.log_loss(T, probabilities)), rel=1e-9)
    distinct = Y + np.linspace(0, 1e-3, Y.size).reshape(Y.shape)
    wanted = metrics.top_k_accuracy_score(T, distinct, k=2)
    assert find(bound(m.accuracy, top_k=2), distinct, T) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(("metric", "text", "remedy"), [
    *((bound(getattr(m, name), average="binary"), "the average is 'binary'", 'None, "macro", "micro" or "weighted"')
      for name in ("precision", "recall", "f1_score")),
    *((bound(m.accuracy, top_k=k), f"accuracy: top_k is {k!r}", "a number from 1") for k in (0, -1, 1.5, True)),
])  # fmt: skip
def test_settings_that_there_are_not(metric: Any, text: str, remedy: str) -> None:
    with pytest.raises(TraceError) as caught:
        pb.function(lambda y, t: metric(y, t)).program(Y, T)
    first, *_, last = str(caught.value).splitlines()
    assert first == f"TraceError [E163] {text}"
    assert last == f"  try: {remedy}      See `pullback explain-error E163`"


@pytest.mark.parametrize("name", ["accuracy", "confusion_matrix", "precision", "recall", "f1_score", "roc_auc_score"])
@pytest.mark.parametrize("target", [T[:-1], T.astype(float), np.eye(4)[T].astype(int)])
def test_targets_that_are_no_labels(name: str, target: Any) -> None:
    kind = "confusion_matrix" if name in ("precision", "recall", "f1_score") else name
    with pytest.raises(ShapeError) as caught:
        pb.function(lambda y, t: getattr(m, name)(y, t)).program(Y, target)
    first, *_, last = str(caught.value).splitlines()
    shape = f"{'f64' if target.dtype == float else 'i64'}[{', '.join(map(str, target.shape))}]"
    assert first == f"ShapeError [E162] {kind}: the input is f64[60, 4], the target {shape}"
    assert last == "  try: one label for each row of scores, as integers      See `pullback explain-error E162`"


# In training ------------------------------------------------------------------------------------------------------

X = RNG.normal(size=(50, 4)).astype(np.float32)
K = (np.abs(X).argmax(1) % 3).astype(np.int64)
NET = nn.dense(3).on("N 4")


def largest(y: Any, t: Any) -> Any:
    assert isinstance(y, np.ndarray) and y.shape == (50, 3) and t.shape == (50,)
    return y.max()


def fit(metrics: Any, validation: Any = (X, K), **options: Any) -> Any:
    how = {"optimizer": nn.sgd(0.1), "epochs": 2, "batch_size": 8, "progress": False, **options}
    return nn.fit(NET, nn.cross_entropy, (X, K), validation_data=validation, metrics=metrics, **how)


@pytest.mark.slow
def test_metrics_of_all_samples_are_measured_on_outputs() -> None:
    """The mean of an F1 score over batches is no F1 score, nor is that of a perplexity."""
    metrics = [
        m.perplexity, m.accuracy, bound(m.f1_score, average="macro"), m.roc_auc_score, m.on_outputs(largest),
        m.on_outputs(lambda y, t: (y.argmax(1) != t).mean(), "error"), bound(m.accuracy, top_k=2),
    ]  # fmt: skip
    run = fit(metrics)
    y = NET(run.parameters, X)
    row = run.history.rows[-1]
    assert list(row)[2:11] == [
        "loss", "validation_loss", "perplexity", "accuracy", "f1_score(average=macro)", "roc_auc_score", "largest", "error",
        "accuracy(top_k=2)"]  # fmt: skip
    assert row["f1_score(average=macro)"] == pytest.approx(averaged("f1_score", "macro")(y, K), rel=1e-5)
    assert row["roc_auc_score"] == pytest.approx(np.mean([area(y[:, k], k == K) for k in range(3)]), rel=1e-5)
    assert row["perplexity"] == pytest.approx(np.exp(row["validation_loss"]), rel=1e-5)
    assert row["largest"] == pytest.approx(float(y.max()), rel=1e-6)
    assert row["error"] == pytest.approx(1 - row["accuracy"], rel=1e-6)
    found = nn.evaluate(NET, nn.cross_entropy, (X, K), parameters=run.parameters, metrics=metrics, batch_size=7)
    assert found == pytest.approx({"loss": row["validation_loss"]} | {n: row[n] for n in found if n != "loss"}, rel=1e-5)
    batches = [(X[k : k + 8], K[k : k + 8]) for k in range(0, 50, 8)]
    assert nn.evaluate(NET, nn.cross_entropy, batches, parameters=run.parameters, metrics=metrics) == pytest.approx(found)
    stopped = fit(metrics, epochs=9, early_stopping=nn.EarlyStopping(1, "largest", mode="max", min_delta=1e9))
    assert len(stopped.history) == 2


def test_targets_that_are_trees_are_outputs_too() -> None:
    share = m.on_outputs(lambda y, t: float(np.sum(t["w"] * (y.argmax(1) == t["k"])) / np.sum(t["w"])), "share")
    target = {"k": K, "w": np.linspace(0, 1, 50, dtype=np.float32)}
    loss = lambda y, t: pb.mean(t["w"] * nn.cross_entropy(y, t["k"], reduction="none"))
    run = nn.fit(NET, loss, (X, target), validation_data=(X, target), optimizer=nn.sgd(0.1), epochs=1,
                 progress=False, metrics=[share])  # fmt: skip
    y = NET(run.parameters, X)
    assert run.history["share"] == [pytest.approx(np.average(y.argmax(1) == K, weights=target["w"]), rel=1e-6)]


def test_metrics_of_all_outputs_that_cannot_be_measured() -> None:
    with pytest.raises(UsageError) as caught:
        fit([m.on_outputs(lambda y, t: y.max(1), "rows")])
    assert str(caught.value) == (
        "UsageError [E526] rows gives ndarray, and a metric is one number\n"
        "  try: reduce it, e.g. with `np.mean`      See `pullback explain-error E526`"
    )
    began: list[Any] = []
    with pytest.raises(UsageError) as caught:
        fit([m.f1_score], progress=began.append)
    assert str(caught.value) == (
        "UsageError [E526] f1_score gives f32[3], and what is measured is one number, a mean over the batch\n"
        "  try: reduce it in a function of your own, e.g. with `pb.mean`      See `pullback explain-error E526`"
    )
    assert not began  # it is refused before training
    own = lambda p, s, b: pb.mean(b[0] * p["a"])
    with pytest.raises(UsageError) as caught:
        nn.fit(own, (X,), parameters={"a": np.float32(1)}, optimizer=nn.sgd(0.1), epochs=1, metrics=[m.on_outputs(largest)])
    assert str(caught.value) == (
        "UsageError [E518] fit: largest needs the outputs of a network, and <lambda> is a loss of parameters\n"
        "  try: `fit(net, loss, data, …)`      See `pullback explain-error E518`"
    )
