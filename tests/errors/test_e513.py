# ruff: noqa: E501
"""E513, E525 and E526: what training says of labels, of names in its history, and of metrics."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pullback import nn
from pullback.data import Dataset
from pullback.errors import DataError, MissingKeyError, UsageError

X = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
GOOD = np.arange(40) % 3
BAD = np.where(np.arange(40) == 33, 7, GOOD)

NET = nn.dense(3).on("N 4")


def batches(labels: Any) -> list[Any]:
    return [(X[k : k + 8], labels[k : k + 8]) for k in range(0, 40, 8)]


class Read:
    """Labels that are read when they are asked for."""

    dtype, shape = BAD.dtype, BAD.shape

    def __len__(self) -> int:
        return len(BAD)

    def __getitem__(self, samples: Any) -> Any:
        return BAD[samples]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return BAD


def fit(data: Any, loss: Any = nn.cross_entropy, **options: Any) -> Any:
    net = nn.dense(3).on("N 4")
    return nn.fit(net, loss, data, optimizer=nn.sgd(0.1), epochs=2, progress=False, **options)


WRONG = """\
DataError [E513] {name}: the label of sample {place} is 7, and there are 3 classes
   | labels outside of 0 … 2: 1 of {count}
  try: labels from 0 to 2, or a network with more classes      See `pullback explain-error E513`"""
WHOLE, LATE = ("33", 40), ("1 in batch 5 of epoch 1", 8)
CALLS: list[tuple[str, str, tuple[str, int], Callable[[], Any]]] = [
    ("arrays", "data", WHOLE, lambda: fit((X, BAD), batch_size=8)),
    ("a data set", "mine", WHOLE, lambda: fit(Dataset(X, BAD, "mine"), batch_size=8)),
    ("batches", "list", LATE, lambda: fit(batches(BAD))),
    ("labels that are read", "mine", WHOLE, lambda: fit(Dataset(X, Read(), "mine"))),
    ("a loss that is finite", "list", LATE, lambda: fit(batches(BAD), nn.hinge_loss)),
    ("arrays to evaluate", "validation data", WHOLE, lambda: fit((X, GOOD), validation_data=(X, BAD), early_stopping=2)),
    ("a data set to evaluate", "mine", WHOLE, lambda: fit((X, GOOD), validation_data=Dataset(X, BAD, "mine"))),
    ("batches to evaluate", "list", LATE, lambda: fit((X, GOOD), validation_data=batches(BAD))),
    ("evaluate", "list", LATE, lambda: nn.evaluate(NET, nn.cross_entropy, batches(BAD), parameters=NET.init(0)[0])),
    ("evaluate of arrays", "data", WHOLE, lambda: nn.evaluate(NET, nn.cross_entropy, (X, BAD), parameters={})),
]


@pytest.mark.parametrize(("name", "place", "call"), [c[1:] for c in CALLS], ids=[c[0] for c in CALLS])
def test_labels(name: str, place: tuple[str, int], call: Callable[[], Any]) -> None:
    with pytest.raises(DataError) as caught:
        call()
    assert str(caught.value) == WRONG.format(name=name, place=place[0], count=place[1])


def test_labels_that_do_not_count_and_other_axes() -> None:
    ignored = np.where(np.arange(40) == 33, -1, GOOD)
    assert fit((X, ignored), functools.partial(nn.cross_entropy, ignore_index=-1), validation_data=batches(ignored)).stop_reason == "finished"
    with pytest.raises(DataError, match="the label of sample 33 is 7"):
        fit((X, BAD), functools.partial(nn.cross_entropy, ignore_index=-1))
    images = np.zeros((6, 2, 5, 7), np.float32)
    along = functools.partial(nn.cross_entropy, axis=1)
    net = nn.conv(4, 1)
    train: Any = lambda labels: nn.fit(net, along, (images, labels), optimizer=nn.sgd(0.1), epochs=1, progress=False)
    with pytest.raises(DataError, match="is 4, and there are 4 classes"):
        train(np.full((6, 5, 7), 4))


def test_names_in_a_history(message: Callable[[str], str]) -> None:
    program = """
from pullback import nn
history = nn.History(({{"epoch": 1, "loss": 0.5, "accuracy": 0.9}},))
history{0}
"""
    wanted = """\
MissingKeyError [E525] the history has no 'acuracy'
  --> user.py:3:1
   | history{0}
   | {1}
  try: did you mean `accuracy`? There are epoch, loss, accuracy      See `pullback explain-error E525`
"""
    number = """\
IndexRangeError [E525] the history has 1 epoch, and none at [-2]
  --> user.py:3:1
   | history[-2]
   | ^^^^^^^^^^^
  try: numbers from 0 to 0, or -1 for the last      See `pullback explain-error E525`
"""
    assert message(program.format("[-2]")) == number
    pytest.importorskip("matplotlib")
    for text in ("['acuracy']", ".plot(names=['acuracy'])"):
        assert message(program.format(text)) == wanted.format(text, "^" * (7 + len(text)))
    with pytest.raises(MissingKeyError, match="one of epoch, loss"):
        nn.History(({"epoch": 1, "loss": 0.5},))["typo"]
    assert nn.History()["loss"] == []


@pytest.mark.parametrize("metric", [nn.metrics.f1_score, nn.metrics.confusion_matrix])
def test_metrics_that_give_arrays(metric: Any) -> None:
    shape = "f32[3]" if metric is nn.metrics.f1_score else "i64[3, 3]"
    seen: list[Any] = []
    with pytest.raises(UsageError) as caught:
        nn.fit(nn.dense(3).on("N 4"), nn.cross_entropy, (X, GOOD), optimizer=nn.sgd(0.1), epochs=1, validation_data=(X, GOOD),
               metrics=[metric], progress=seen.append)  # fmt: skip
    assert not seen  # before training
    assert str(caught.value) == f"""\
UsageError [E526] {metric.__name__} gives {shape}, and what is measured is one number, a mean over the batch
  try: reduce it in a function of your own, e.g. with `pb.mean`      See `pullback explain-error E526`"""
