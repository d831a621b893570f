"""The small parts of training: labels, tables of what was measured, early stops, what is shown, and what is refused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.data import Dataset
from pullback.data.loader import Samples, Stream
from pullback.errors import DataError, MissingKeyError, PullbackError, UsageError
from pullback.nn.training import report, task
from pullback.nn.training.batch import sized
from pullback.nn.training.checkpoint import Position
from pullback.nn.training.labels import Classes, Labels, check_labels, labels_of
from pullback.nn.training.mistakes import _is_finite, not_finite
from pullback.nn.training.report import Progress, Report
from pullback.nn.training.task import _check_takes, _name, _number, task_of
from tests.unit.nn.test_fit import fit, largest, line

Stop = nn.EarlyStopping


def refused(call: Callable[[], Any], kind: type[PullbackError] = DataError) -> list[str]:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value).splitlines()


# Labels -----------------------------------------------------------------------------------------------------------


def scores(result: str) -> Any:
    """A network whose result is of this type."""
    kinds = {"f32": np.float32, "f64": np.float64}

    def array(text: str, N: int) -> Any:
        kind, _, sizes = text.partition("[")
        return np.zeros([eval(size, {"N": N}) for size in sizes.rstrip("]").split(", ") if size], kinds[kind])

    def results(N: int) -> Any:
        if result.startswith("("):
            return tuple(array(text, N) for text in result[1:-1].replace("], ", "];").split(";"))
        return array(result, N)

    return SimpleNamespace(type=SimpleNamespace(results=results), takes="N 4")


def loss(axis: int = -1, ignore_index: int | None = None, of: Any = lambda t: t) -> Any:
    """A function that hides its cross-entropy."""
    return lambda y, t: nn.cross_entropy(y, of(t), axis=axis, ignore_index=ignore_index)


def labels(*leaves: tuple[int, int, int | None]) -> Labels:
    return Labels(tuple(Classes(*leaf) for leaf in leaves))


L1, L2, L3 = np.zeros(5, np.int64), np.zeros((5, 6), np.int32), np.zeros((5, 6, 8), np.uint8)


@pytest.mark.parametrize(("result", "of", "target", "found"), [
    ("f32[N, 10]", loss(), L1, labels((0, 10, None))),
    ("f32[N, 10]", functools.partial(nn.cross_entropy, ignore_index=255), L1, labels((0, 10, 255))),
    ("f32[N, 10, 6, 8]", loss(1), L3, labels((0, 10, None))),
    ("f32[N, 6, 7]", loss(ignore_index=-100), L2, labels((0, 7, -100))),
    ("f32[N, 6, 7]", loss(ignore_index=-100), L2.astype(np.uint8), labels((0, 7, None))),  # bytes hold no -100
    ("f64[5, 7]", loss(), L1, labels((0, 7, None))),
    ("f32[N, 3]", nn.hinge_loss, L1, labels((0, 3, None))),
    ("f32[N, 6]", nn.bce_with_logits, L2, labels((0, 2, None))),
    ("f32[N]", lambda y, t: nn.bce_with_logits(y, t > 3), L1, None),
    ("f32[N, 10]", loss(of=lambda t: t - 1), L1, None),  # they are labels after a change only
    ("f32[N, 6]", nn.poisson_nll_loss, L2, None),
    ("f32[N, 6]", nn.mse_loss, L2, None),  # refused when the update is traced
    ("f32[N, 10]", loss(), np.zeros((5, 10)), None),  # distributions
    ("f32[N, 10]", loss(of=lambda t: t["a"]), {"a": L1, "w": L1}, labels((0, 10, None))),
    ("f32[N, 10]", lambda y, t: loss()(y, t[1]) + loss()(y[:, :4], t[0]), (L1, L1),
     labels((1, 10, None), (0, 4, None))),
    ("f32[N, 6]", nn.mse_loss, L2.astype(np.int64), None),
    ("f32[2 * N, 10]", loss(), np.zeros(10, np.int64), labels((0, 10, None))),
    ("(f32[N, 2], f32[N])", loss(), L1, None),
    ("f32", lambda y, t: y, L1, None),
])  # fmt: skip
def test_which_arrays_a_loss_reads_as_labels(result: str, of: Any, target: Any, found: Labels | None) -> None:
    assert labels_of(scores(result), of, (np.zeros((5, 4)), target)) == found


@pytest.mark.parametrize(("labels", "ignored", "wrong"), [
    ([0, 1, 2], None, None), ([0, 3, -1], None, (1, 3, 2)), ([-1, 3], -1, (1, 3, 1)), ([-1, 2, 0], -1, None),
    ([[0, 1], [2, 5]], None, (1, 5, 1)), ([2, 7, 7, 9], 9, (1, 7, 2)), ([], None, None),
    ([0, -1], None, (1, -1, 1)),
])  # fmt: skip
def test_labels_that_are_no_class(labels: Any, ignored: int | None, wrong: Any) -> None:
    given = np.array(labels, np.int64)
    if wrong is None:
        check_labels(given, 3, "mine", ignored)
        return
    sample, label, count = wrong
    first, facts, remedy = refused(lambda: check_labels(given, 3, "mine", ignored, " of batch 2"))
    row = ", row 1," if given.ndim == 2 else ""
    assert f"mine: the label of sample {sample}{row} of batch 2 is {label}, and there are 3 classes" in first
    assert f"labels outside of 0 … 2: {count} of {given.size}" in facts
    ignores = f"; `ignore_index={label}` in `nn.cross_entropy` ignores such rows"
    assert f"try: labels from 0 to 2, or a network with more classes{ignores if label == -1 else ''}  " in remedy


def test_which_data_is_looked_at_for_labels() -> None:
    x, wrong = np.zeros((3, 2)), np.array([0, 9, 1])
    labels = Labels((Classes(0, 3),))
    labels.check_source(Samples((x, wrong.astype(float)), 2), (x, wrong.astype(float)), "data")  # numbers, no labels
    labels.check_source(Samples((x, wrong % 3), 2), (x, wrong % 3), "data")
    small = wrong.astype(np.uint8)
    for data, name in (((x, wrong), "data"), (Dataset(x, wrong, "mine"), "mine"), ((x, small), "data")):
        first = refused(lambda data=data: labels.check_source(Samples(data, 2), data, "data"))[0]
        assert f"{name}: the label of sample 1 is 9" in first
    both = x, {"a": wrong % 3, "b": wrong}
    assert "sample 1 is 9" in refused(lambda: Labels((Classes(1, 3),)).check_source(Samples(both, 2), both, "data"))[0]
    given = Stream([(x, wrong)])
    labels.check_source(given, [(x, wrong)], "data")
    assert "list: the label of sample 1 in batch 1 of epoch 1 is 9" in refused(lambda: given.stacked(0, 0, 1))[0]


# Histories and early stops ----------------------------------------------------------------------------------------

ROWS: Any = (
    {"epoch": 1, "loss": 3.0, "learning_rate": 0.1},
    {"epoch": 2, "loss": 2.0, "validation_loss": 4.0, "hits": 0.5},
)


def test_columns_of_a_history() -> None:
    history = nn.History(ROWS)
    assert (history["loss"], history["hits"], history.losses) == ([3.0, 2.0], [0.5], [3.0, 2.0])
    assert history.names == ["epoch", "loss", "learning_rate", "validation_loss", "hits"]
    assert history.csv().splitlines() == [
        "epoch,loss,learning_rate,validation_loss,hits", "1,3.0,0.1,,", "2,2.0,,4.0,0.5"]  # fmt: skip
    assert nn.History()["anything"] == []
    said = refused(lambda: history["los"], PullbackError)
    assert "[E525] the history has no 'los'" in said[0] and "loss" in said[-1]


def test_epochs_of_a_history() -> None:
    history = nn.History(ROWS)
    assert history[0] == history[-2] == history[np.int64(0)] == ROWS[0] and history[-1] == ROWS[1]
    assert list(history) == list(ROWS) == list(reversed(history))[::-1] and len(history) == 2
    assert history[1:] == nn.History(ROWS[1:]) and history[-5:] == history and len(history[:0]) == 0
    assert "hits" in history and "los" not in history and ROWS[0] in history


@pytest.mark.parametrize("rows", [ROWS, ()])
@pytest.mark.parametrize("number", [2, -3, 0])
def test_epochs_that_a_history_lacks(rows: Any, number: int) -> None:
    if rows and not number:
        return
    with pytest.raises(IndexError) as caught:
        nn.History(rows)[number]
    assert f"[E525] the history has {len(rows)} epochs, and none at [{number}]" in str(caught.value)


@pytest.mark.parametrize("which", [None, 1.0, ["loss"], ("loss", "hits")])
def test_what_selects_nothing_in_a_history(which: Any) -> None:
    with pytest.raises(KeyError, match=f"a {type(which).__name__} selects nothing in a history"):
        nn.History(ROWS)[which]


@pytest.mark.parametrize(("names", "titles"), [
    ((), [["loss", "validation loss"], ["hits"]]),  # what says of the run itself is left out
    (("hits", "learning_rate"), [["hits"], ["learning rate"]]),
    (("loss",), [["loss"]]),
])  # fmt: skip
def test_curves_of_a_history(names: Any, titles: Any) -> None:
    pytest.importorskip("matplotlib")
    axes = nn.History(ROWS).plot(names=names).axes
    assert [[line.get_label() for line in a.lines] for a in axes] == titles
    points = {line.get_label(): line.get_xydata().tolist() for a in axes for line in a.lines}
    assert points.get("hits", [[2, 0.5]]) == [[2, 0.5]] and points.get("loss", [[1, 3], [2, 2]]) == [[1, 3], [2, 2]]
    assert all(a.get_xlabel() == "epoch" and a.get_legend() is not None for a in axes)
    assert axes[0].figure.get_size_inches().tolist() == [5.0 * len(titles), 3.5]
    refused(lambda: nn.History(ROWS).plot(names=["los"]), PullbackError)


@pytest.mark.parametrize(("stop", "losses", "ends"), [
    (Stop(1), [3, 2, 2], True), (Stop(1), [3, 2, 1], False), (Stop(2), [3, 2, 2], False),
    (Stop(2), [3, 2, 2, 2], True), (Stop(2), [3, 2, 4, 1, 5], False), (Stop(1), [3], False),
    (Stop(1, min_delta=0.5), [3, 2.75], True), (Stop(1, min_delta=0.5), [3, 2.5], True),
    (Stop(1, min_delta=0.5), [3, 2.25], False), (Stop(2, min_delta=0.5), [3, 2.75, 2.25], False),
    (Stop(1, mode="max"), [1, 2], False), (Stop(1, mode="max"), [2, 1], True),
    (Stop(1, mode="max", min_delta=0.5), [1, 1.5], True),
    (Stop(1), [], False),
])  # fmt: skip
def test_when_nothing_is_gained(stop: nn.EarlyStopping, losses: Any, ends: bool) -> None:
    assert stop(nn.History(tuple({"loss": float(x)} for x in losses))) is ends


COLUMNS = "one of step, loss, samples_per_second, seconds"
MORE = "; `validation_data=` adds `validation_loss` and the metrics"


@pytest.mark.parametrize(("call", "text", "remedy"), [
    (lambda: fit(epochs=2, early_stopping=Stop(2, "nonsense")),
     "EarlyStopping: monitor='nonsense' is no column of the history", COLUMNS + MORE),
    (lambda: fit(epochs=2, early_stopping=Stop(2, "val_loss")),
     "EarlyStopping: monitor='val_loss' is no column of the history", COLUMNS + MORE),
    (lambda: fit(epochs=2, early_stopping=Stop(2, "val_loss"), validation_data=line()),
     "EarlyStopping: monitor='val_loss' is no column of the history",
     "did you mean `validation_loss`? There are step, loss, validation_loss, samples_per_second, seconds"),
    (lambda: fit(
        epochs=2, early_stopping=Stop(2, "val_largest", mode="max"), validation_data=line(), metrics=[largest]),
     "EarlyStopping: monitor='val_largest' is no column of the history",
     "did you mean `largest`? There are step, loss, validation_loss, largest, samples_per_second, seconds"),
    (lambda: Stop(2, mode="maximum"), "EarlyStopping: mode='maximum'",  # type: ignore[arg-type]
     '"min" where smaller is better, as for a loss, or "max" where larger is, as for an accuracy'),
    (lambda: Stop(2, min_delta=-0.1), "EarlyStopping: min_delta=-0.1", "a number of at least 0"),
    (lambda: Stop(2, min_delta=float("nan")), "EarlyStopping: min_delta=nan", "a number of at least 0"),
    (lambda: Stop(0), "EarlyStopping: patience=0", "a number of epochs, at least 1"),
    (lambda: Stop(True), "EarlyStopping: patience=True", "a number of epochs, at least 1"),
    (lambda: fit(epochs=-1), "fit: epochs=-1", "a number of at least 0"),
    (lambda: fit(epochs=2, drop_last="keep"), "fit: drop_last='keep'", "True or False"),
])  # fmt: skip
def test_settings_are_refused_before_the_first_epoch(call: Callable[[], Any], text: str, remedy: str) -> None:
    assert refused(call, UsageError) == [
        f"UsageError [E518] {text}",
        f"  try: {remedy}      See `pullback explain-error E518`",
    ]


@pytest.mark.parametrize(("name", "remedy"), [
    ("los", "did you mean `loss`? There are epoch, loss, learning_rate, validation_loss, hits"),
    ("val_loss", "did you mean `validation_loss`? There are epoch, loss, learning_rate, validation_loss, hits"),
    ("typo", "one of epoch, loss, learning_rate, validation_loss, hits"),
    ("rate", "`rate` is now `learning_rate`"),
    ("evaluation_loss", "`evaluation_loss` is now `validation_loss`"),
    ("speed", "one of epoch, loss, learning_rate, validation_loss, hits"),  # where its new name is no column either
])  # fmt: skip
def test_columns_that_are_not_there(name: str, remedy: str) -> None:
    said = refused(lambda: nn.History(ROWS)[name], MissingKeyError)
    assert said[0] == f"MissingKeyError [E525] the history has no {name!r}"
    assert said[-1] == f"  try: {remedy}      See `pullback explain-error E525`"


def test_an_early_stop_looks_at_the_second_set_where_there_is_one() -> None:
    rows = nn.History(({"loss": 1.0, "validation_loss": 1.0}, {"loss": 2.0, "validation_loss": 0.5}))
    assert not nn.EarlyStopping(1)(rows)
    assert nn.EarlyStopping(1, monitor="loss")(rows)
    said = refused(lambda: nn.EarlyStopping(1, monitor="hits")(nn.History(ROWS[:1])), UsageError)
    assert "EarlyStopping: monitor='hits' is no column of the history" in said[0]
    assert "one of loss, learning_rate; `validation_data=` adds `validation_loss` and the metrics" in said[-1]


# What is shown ----------------------------------------------------------------------------------------------------


class Bar:
    """A bar that notes what it shows."""

    def __init__(self) -> None:
        self.shown: list[Any] = []

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *exception: Any) -> None: ...

    def update(self, share: float, text: str) -> None:
        self.shown.append((share, text))

    def line(self, text: str) -> None:
        self.shown.append(text)


@pytest.fixture
def bar(monkeypatch: pytest.MonkeyPatch) -> Bar:
    made = Bar()
    monkeypatch.setattr(report, "progress_bar", lambda: made)
    return made


def test_what_a_bar_shows(bar: Bar) -> None:
    with Report(True) as shown:
        shown.show(Progress(0, None, 3, 3, 10, 0.5, 4.0, 0.25, 10.0))
        shown.show(Progress(1, 2, 3, 3, 10, 0.5, 40.0, 0.5, 20.0, 0.125))
    with Report(True) as shown:
        shown.show(Progress(1, 2, 3, 3, 10, 0.5, 0.5, 1.5, 70.0))
    assert bar.shown == [
        (0.0, "compiling the training step"),
        (0.25, "epoch 1  loss 0.5  4/s"),
        (0.5, "epoch 2/2  loss 0.5  20 s left  learning rate 0.125  40/s"),
        (0.0, "compiling the training step"),
        (1.0, "epoch 2/2  loss 0.5  0.5/s"),
    ]


def test_rows_and_memory_are_written_down(bar: Bar) -> None:
    with Report(True) as shown:
        shown.memory({1: 2048})
        shown.memory({1: 2048, 40: 1_000_000})
        row = {"epoch": 3, "step": 7, "loss": 0.5, "validation_loss": 0.25}
        row |= {"learning_rate": 0.01, "samples_per_second": 1234.5, "seconds": 61}
        shown.epoch(row, Progress(3, 4, 7, 0, None, 0.5, 2.0, 0.75, 61.0))
        shown.show(Progress(3, 4, 8, 1, 10, 0.5, 40.0, 0.8, 62.0))
    assert bar.shown[1:] == [
        "2,048 bytes of working memory for an update",
        "1,000,000 bytes of working memory for 40 updates in a call",
        "epoch   3  loss 0.50000  validation loss 0.25000  learning rate 0.01  1,234/s  1:01",
        (0.8, "epoch 4/4  loss 0.5  validation 0.25  40/s"),
    ]


@pytest.mark.parametrize(("speed", "text"), [(9.99, "10/s"), (9.4, "9.4/s"), (10.0, "10/s"), (1e4, "10,000/s")])
def test_speeds(speed: float, text: str) -> None:
    assert Report._pace(None, speed) == [text]


def test_who_is_shown_what(bar: Bar) -> None:
    at = Progress(0, None, 3, 3, 10, 0.5, 4.0, 0.25, 10.0)
    told: list[Progress] = []
    for wish, due, shown in ((told.append, True, 0), (False, False, 0), (True, True, 1)):
        with Report(wish) as where:
            assert where.is_due() is due
            where.show(at)
            where.memory({1: 0})
            where.epoch({"epoch": 1, "samples_per_second": 1.0, "seconds": 1.0}, at)
        assert len(bar.shown) == 4 * shown
    assert told == [at, at]


# What is refused --------------------------------------------------------------------------------------------------


def test_losses_that_are_not_finite() -> None:
    good, bad, whole = np.array([1.0, 3.0]), np.array([[1.0, 2.0], [np.inf, np.nan]]), np.array([1, 2])
    said = lambda batch, debug=False: refused(lambda: (_ for _ in ()).throw(
        not_finite(np.inf, batch, 4, Position(epoch=2), None, debug)))
    assert said((good, bad)) == [
        "DataError [E514] the loss is inf in batch 5 of epoch 3",
        "   | targets[1, 0] is inf in sample 1 of the batch",
        "  try: data without NaN and infinity      See `pullback explain-error E514`",
    ]
    facts, remedy = said((good, whole))[1:]
    assert "inputs : all finite, from 1 to 3" in facts and "targets : all finite, from 1 to 2" in facts
    advice = "a smaller learning rate, or `clip_by_global_norm`; labels that"
    assert advice + " are no class give NaN; debug=True names the line" in remedy
    assert said((good, whole), True)[2].strip().startswith("try: " + advice)
    assert "batch[2] is" not in said((good, good, good))[1] and "batch[2] : all finite" in said((good,) * 3)[1]
    assert [_is_finite(x) for x in (good, bad, whole, bad.astype(complex), bad > 0)] == [True, False, True, False, True]


def test_functions_of_other_arguments() -> None:
    _check_takes("the loss", lambda a, b: 0, ("result", "target"))
    _check_takes("the loss", lambda *a: 0, ("result", "target"))
    _check_takes("the loss", max, ("result", "target"))  # which does not say what it takes
    for f in (lambda a: 0, lambda a, b, c: 0, 3, lambda *, a, b: 0):
        first, _, remedy = refused(lambda f=f: _check_takes("the loss", f, ("result", "target")), UsageError)
        assert "[E518] fit: the loss is a function of (result, target)" in first
        assert "`lambda result, target: …`" in remedy
    assert refused(lambda: _check_takes("the loss", np.ones((8, 3)), ("result", "target")), UsageError) == [
        "UsageError [E518] fit: the loss is a function of (result, target)",
        "   | ndarray of shape (8, 3) is not a function",
        "  try: `nn.fit(net, loss, data, optimizer=…)`      See `pullback explain-error E518`",
    ]
    assert "<lambda>: too many positional arguments" in refused(
        lambda: _check_takes("the loss", lambda a: 0, ("result", "target")), UsageError)[1]  # fmt: skip


def test_what_is_measured_is_one_number() -> None:
    first = refused(lambda: pb.function(lambda x: _number(len, x))(np.zeros(3)), UsageError)[0]
    assert "len gives f64[3], and what is measured is one number, a mean over the batch" in first
    assert pb.function(lambda x: _number(len, x))(np.array(2.0)) == 2.0


def test_names() -> None:
    assert [_name(x) for x in (len, nn.dense(3), functools.partial(len), 3)] == [
        "len", "dense(3)", f"{functools.partial(len)}", "3"]  # fmt: skip


@pytest.mark.parametrize(("takes", "shape", "fits"), [
    ("N 4", (5, 4), True), ("N 4", (5, 6), False), ("N 4", (5, 4, 1), False), ("N C 4", (5, 3, 4), True),
    ("N C 4", (5, 4, 3), False), ("N 3 4", (5, 3, 4), True), ("N 3 4", (5, 3, 5), False), ("N 3 4", (5, 4, 4), False),
])  # fmt: skip
def test_networks_for_samples_of_some_size(takes: str, shape: tuple[int, ...], fits: bool) -> None:
    made: list[str] = []
    net: Any = SimpleNamespace(takes=takes, on=made.append)
    x = np.zeros(shape, np.float32)
    if fits:
        sized(net, (x, x))
        assert made == [" ".join(["N", *map(str, shape[1:])])]
    else:
        first, facts, _ = refused(lambda: sized(net, [x, x]))
        assert f"takes {takes}" in first
        assert f"a batch of the data is float32{list(shape)}" in facts


def test_batches_that_are_no_pairs() -> None:
    net: Any = SimpleNamespace(takes=None, on=lambda text: text)
    x = np.zeros((5, 2), np.float32)
    for batch, said in ((x, "one array, float32[5, 2]"), ((x,), "(*,)"), ({"x": x, "y": x}, "{'x': *, 'y': *}"),
                        ((3, x), "(*, *)")):  # fmt: skip
        first, facts, remedy = refused(lambda batch=batch: sized(net, batch))
        assert "is a pair (inputs, targets)" in first and "a Dataset, or a pair of arrays" in remedy
        assert f"the data gives {said}" in facts
    assert sized(net, (x, None)) == "N 2"


def test_a_loss_of_parameters_as_a_task() -> None:
    def cost(parameters: Any, state: Any, batch: Any) -> Any:
        return parameters * batch, {"next": state}

    def twice(parameters: Any, state: Any, batch: Any) -> Any:
        return 2 * parameters

    made = task_of(cost, None, None, [twice], 3.0, None, 0)
    assert (made.name, made.metrics, made.parameters, made.state, made.labels) == (
        "cost", ("twice",), 3.0, {}, None)  # fmt: skip
    assert made.loss is cost
    assert task_of(cost, None, None, [], 3.0, {"k": 1}, 0).state == {"k": 1}
    measured = pb.function(lambda p, s, b: tuple(made.measured(p, s, b)))
    assert [float(x) for x in measured(np.array(3.0), np.array(0.0), np.array(5.0))] == [15.0, 6.0]
    for arguments, said in (((cost, len, None, [], 3.0, None, 0), "cost is no network"),
                            ((cost, None, None, [], None, None, 0), "cost is no network and no parameters are given"),
                            ((nn.dense(1), None, None, [], None, None, 0), "no loss for dense(1)")):  # fmt: skip
        lines = refused(lambda arguments=arguments: task_of(*arguments), UsageError)
        assert lines[0] == f"UsageError [E518] fit: {said}"


def test_evaluations_begin_with_what_is_given() -> None:
    def cost(parameters: Any, state: Any, batch: Any) -> Any:
        return pb.mean(parameters["a"] * batch[0]) + (state["add"] if state else 0.0)

    def twice(parameters: Any, state: Any, batch: Any) -> Any:
        return 2 * parameters["a"]

    data, given = (np.arange(5.0), np.arange(5.0)), {"a": np.array(3.0)}
    assert nn.evaluate(cost, data, parameters=given, batch_size=2) == {"loss": 6.0}
    found = nn.evaluate(cost, None, data, parameters=given, state={"add": np.array(1.0)}, metrics=[twice])
    assert found == {"loss": 7.0, "twice": 6.0}


def test_evaluations_take_samples_in_order() -> None:
    """The mean of each batch's largest number, weighted by size, depends on the order."""
    largest = lambda parameters, state, batch: pb.max(batch[0])
    x = np.random.default_rng(0).permutation(50).astype(float)
    wanted = sum(max(x[k : k + 8]) * len(x[k : k + 8]) for k in range(0, 50, 8)) / 50
    given = {"a": np.array(0.0)}
    assert nn.evaluate(largest, (x, x), parameters=given, batch_size=8)["loss"] == pytest.approx(wanted)
    run = nn.fit(largest, (x, x), parameters=given, validation_data=(x, x), optimizer=nn.sgd(0.1), epochs=1,
                 batch_size=5, validation_batch_size=8, progress=False)  # fmt: skip
    assert run.history["validation_loss"] == [pytest.approx(wanted)]


def test_a_network_makes_what_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = nn.sequential(nn.dense(2), nn.batch_norm()), np.zeros((4, 3), np.float32)
    seeds: list[int] = []
    monkeypatch.setattr(task, "sized", lambda net, batch: SimpleNamespace(
        type=SimpleNamespace(results=lambda N: np.zeros((N, 2), np.float32)), takes="N 3",
        init=lambda seed: (seeds.append(seed), ("p", "s"))[1]))
    for p, s in ((None, None), (1, None), (None, 2), (1, 2)):
        made = task_of(net, nn.cross_entropy, (x, np.zeros(4, np.int64)), [], p, s, 7)
        assert (made.parameters, made.state, made.labels) == (p or "p", s or "s", labels((0, 2, None)))
    assert seeds == [7, 7, 7]


HITS = nn.metrics.accuracy


@pytest.mark.parametrize(("metrics", "kind"), [({"hits": HITS}, "dict"), (HITS, "function"), ("accuracy", "str")])
def test_metrics_are_a_list_of_functions(metrics: Any, kind: str) -> None:
    data = (np.ones((4, 2)),)
    call = lambda: nn.fit(lambda p, s, b: b[0], data, parameters={}, optimizer=nn.sgd(0.1), epochs=1, metrics=metrics)
    remedy = "`metrics=[nn.metrics.accuracy]`: columns have the functions' names"
    assert refused(call, UsageError) == [
        f"UsageError [E518] fit: metrics is of type {kind}, and a list of functions is needed",
        f"  try: {remedy}      See `pullback explain-error E518`",
    ]
