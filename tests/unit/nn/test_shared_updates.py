"""Training by several workers without Ray: threads over sockets, compared with a plain loop over the parts."""

from __future__ import annotations

import errno
import re
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import data, nn
from pullback.cluster import LostError
from pullback.data.loader import Samples, batches_of
from pullback.errors import DataError, PullbackError, UsageError
from pullback.nn.optimizers import Optimizer
from pullback.nn.training.feeds import Ahead, Given, OfShards, Rows, edges, given
from pullback.nn.training.replica import Replica
from pullback.nn.training.shared import SharedUpdates, Workers
from pullback.nn.training.step import pair
from pullback.tracing import tree
from tests.support.crew import Crew, Dies, crew

NET = nn.sequential(nn.dense(8), nn.batch_norm(), nn.relu, nn.dense(3)).on("N 5")
RANDOM = np.random.default_rng(3)
X, Y = RANDOM.normal(size=(90, 5)).astype(np.float32), RANDOM.integers(0, 3, 90)
HOW: Any = {"optimizer": nn.adam(1e-2), "epochs": 3, "batch_size": 31, "progress": False, "seed": 1}


@pytest.fixture
def held() -> Iterator[Crew]:
    with crew() as found:
        yield found


def bits(run: nn.Run) -> bytes:
    """All arrays of a run, and what it measured."""
    arrays = tree.flatten((run.parameters, run.state, run.optimizer_state, run.averaged_parameters))[0]
    measured = [
        [v for k, v in row.items() if k in ("loss", "validation_loss", "accuracy", "learning_rate")]
        for row in run.history.rows
    ]
    return b"".join(np.asarray(a).tobytes() for a in arrays if a is not None) + repr(measured).encode()


def fit(workers: Any, **more: Any) -> nn.Run:
    return nn.fit(NET, nn.cross_entropy, (X, Y), workers=workers, **{**HOW, **more})


def said(f: Any) -> tuple[Any, list[str]]:
    """The result of a function, and what it warned of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = f()
    return result, [str(w.message) for w in found if w.category is RuntimeWarning]


# The sum ------------------------------------------------------------------------------------------------------------


def plain(parts: int, loss: Any, batches: Any, parameters: Any, state: Any, optimizer: Any) -> tuple[Any, list[float]]:
    """One process that takes the parts of each batch one after another, and adds in their order."""

    def of_part(parameters: Any, state: Any, batch: Any) -> Any:
        return pair(loss(parameters, state, batch))

    @pb.function
    def gradient(parameters: Any, state: Any, batch: Any) -> Any:
        return pb.value_and_grad(of_part, wrt="parameters", has_aux=True)(parameters, state, batch)

    @pb.function
    def update(gradients: Any, memory: Any, parameters: Any, step: Any) -> Any:
        change, memory = optimizer.update(gradients, memory, parameters, step)
        return Optimizer.apply(parameters, change), memory

    memory, losses = optimizer.init(parameters), []
    for step, (x, y) in enumerate(batches):
        ends = [len(x) * k // parts for k in range(parts + 1)]
        total, value = None, np.float64(0)
        for low, high in pairwise(ends):
            if high == low:
                continue
            (own, after), gradients = gradient(parameters, state, (x[low:high], y[low:high]))
            w = (high - low) / len(x)
            leaves = [np.asarray(g) * np.asarray(g).dtype.type(w) if np.asarray(g).dtype.kind == "f" else g
                      for g in tree.flatten((gradients, after))[0]]  # fmt: skip
            if total is None:
                total, value = leaves, np.float64(own) * w
            else:
                value = value + np.float64(own) * w
                total = [t + g if np.asarray(t).dtype.kind == "f" else t for t, g in zip(total, leaves)]
        gradients, state = tree.unflatten(tree.flatten((gradients, after))[1], total)
        parameters, memory = update(gradients, memory, parameters, np.int64(step))
        losses.append(float(value))
    return (parameters, state, memory), losses


@pytest.mark.parametrize(("workers", "parts"), [(1, 1), (1, 4), (2, 4), (3, 4), (3, 6), (4, 4), (2, 40)])
def test_training_is_that_of_a_plain_loop_over_the_parts(held: Crew, workers: int, parts: int) -> None:
    """To the bit, with batch statistics, for any number of workers; with 40 parts of 31 samples some are empty."""
    run = fit(Workers(workers, parts=parts))
    source = Samples((X, Y), 31, seed=1)
    batches = [tree.map_leaves(lambda a: a[0], source.stacked(e, k, 1)) for e in range(3) for k in range(2)]
    wanted, losses = plain(parts, nn.objective(NET, nn.cross_entropy), batches, *NET.init(1), nn.adam(1e-2))
    for x, y in zip(tree.flatten((run.parameters, run.state, run.optimizer_state))[0], tree.flatten(wanted)[0],
                    strict=True):  # fmt: skip
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
    assert run.history.losses == [(losses[k] + losses[k + 1]) / 2 for k in (0, 2, 4)]
    assert held.made == [f"worker {k} of fit" for k in range(workers)]
    assert sorted(held.ended) == held.made


@pytest.mark.slow
def test_training_is_that_of_one_process_within_rounding(held: Crew) -> None:
    net = nn.sequential(nn.dense(8), nn.relu, nn.dense(3)).on("N 5")
    alone, shared = (nn.fit(net, nn.cross_entropy, (X, Y), workers=n, **HOW) for n in (None, 3))
    for x, y in zip(tree.flatten(alone.parameters)[0], tree.flatten(shared.parameters)[0], strict=True):
        np.testing.assert_allclose(x, y, atol=1e-6)
    assert shared.steps == alone.steps == 6


@pytest.mark.slow
@pytest.mark.parametrize("drop_last", [True, False])
def test_batches_of_an_iterable_come_from_the_driver(held: Crew, drop_last: bool) -> None:
    """An object that only the driver has gives the same batches. The last one is smaller."""
    source = Samples((X, Y), 31, seed=1, drop_last=drop_last)

    class Batches:
        def __iter__(self) -> Iterator[Any]:
            return (tree.map_leaves(lambda a: a[0], source.stacked(0, k, 1)) for k in range(source.steps or 0))

    how = {**HOW, "batch_size": None, "epochs": 1}
    by_driver = nn.fit(NET, nn.cross_entropy, Batches(), workers=Workers(2, parts=4), **how)
    by_workers = fit(Workers(3, parts=4), epochs=1, drop_last=drop_last)
    assert bits(by_driver) == bits(by_workers)
    assert by_driver.steps == (2 if drop_last else 3)


def test_counts_are_those_of_the_first_part_and_states_are_means(held: Crew) -> None:
    def counting(parameters: Any, state: Any, batch: Any) -> Any:
        x, y = batch
        value = pb.mean((parameters * x - y) ** 2)
        return value, {"mean": state["mean"] + pb.mean(x), "seen": state["seen"] + x.shape[0]}

    x = np.arange(16.0)
    start = {"mean": np.zeros(()), "seen": np.zeros((), np.int64)}
    run = nn.fit(counting, (x, 3 * x), parameters=np.zeros(()), state=start, optimizer=nn.sgd(1e-4), epochs=1,
                 batch_size=8, shuffle=False, progress=False, workers=3)  # fmt: skip
    assert int(run.state["seen"]) == 2 * 2  # of 8 samples in 3 parts the first has 2
    assert float(run.state["mean"]) == pytest.approx(x[:8].mean() + x[8:].mean())
    constant = nn.fit(lambda p, s, b: pb.mean((p * b - s) ** 2), x, parameters=np.zeros(()), state=np.float64(0.1),
                      optimizer=nn.sgd(1e-4), epochs=2, batch_size=8, progress=False, workers=3)  # fmt: skip
    assert float(constant.state) == 0.1  # a loss that gives no state changes none, by no bit


def test_a_request_is_several_updates(held: Crew) -> None:
    """As many as make a call of 0.05 s; one with callbacks for batches. The result is the same."""
    how: Any = {"batch_size": 3, "epochs": 2}
    fast = fit(Workers(2), **how)
    calls = sum(method == "steps" for _, method in held.asked)
    assert calls == 2 * 2 * 1 or calls < 2 * 60
    each = nn.fit(NET, nn.cross_entropy, (X, Y), workers=2, callbacks=[Batchwise()], **{**HOW, **how})
    assert bits(fast) == bits(each)


class Batchwise:
    """A callback for batches that reads nothing."""

    def on_batch_end(self, state: nn.TrainingState) -> None:
        """Do nothing."""


# Resuming -----------------------------------------------------------------------------------------------------------


def rich(folder: Path | None, workers: Any, **more: Any) -> nn.Run:
    """A run with validation, metrics, averages, a plateau rule, early stopping, and products in half precision."""

    def half(parameters: Any, state: Any, batch: Any) -> Any:
        x, y = batch
        out = (x.astype(pb.float16) @ parameters["w"].astype(pb.float16)).astype(pb.float32) + parameters["b"]
        return nn.cross_entropy(out, y), {"seen": state["seen"] + 1}

    r = np.random.default_rng(0)
    start = {"w": r.normal(size=(5, 3)).astype(np.float32), "b": np.zeros(3, np.float32)}
    how: Any = {
        "parameters": start, "state": {"seen": np.zeros((), np.int64)}, "optimizer": nn.adam(3e-2), "epochs": 6,
        "batch_size": 16, "validation_data": (X[:30], Y[:30]), "average": 0.9, "early_stopping": 5, "progress": False,
        "callbacks": [nn.ReduceLROnPlateau(0.5, monitor="loss", patience=1, min_delta=0.5)], "seed": 4,
    } | more  # fmt: skip
    save = None if folder is None else nn.Checkpoints(str(folder), every_steps=2)
    return nn.fit(half, (X, Y), workers=workers, save=save, **how)


@pytest.mark.parametrize("stop", [3, 5, 12])
@pytest.mark.parametrize("then", [Workers(2), Workers(3), Workers(1), Workers(4, parts=4)])
def test_a_resumed_run_is_an_uninterrupted_one(held: Crew, tmp_path: Path, stop: int, then: Workers) -> None:
    """Within an epoch, at its end, with another number of workers: the parts are those of the checkpoint."""
    whole = rich(None, Workers(2, parts=4))
    assert len({row["learning_rate"] for row in whole.history.rows}) > 1  # the plateau rule has acted
    rich(tmp_path, Workers(2, parts=4), steps=stop, epochs=None)
    assert bits(rich(tmp_path, then, resume=True)) == bits(whole)


@pytest.mark.slow
def test_a_callback_that_raises_leaves_the_training_saved(held: Crew, tmp_path: Path) -> None:
    def wrong(state: nn.TrainingState) -> None:
        if state.epoch == 2:
            raise ZeroDivisionError("mine")

    plateau = nn.ReduceLROnPlateau(0.5, monitor="loss", patience=1, min_delta=0.5)
    with pytest.raises(ZeroDivisionError) as caught:
        rich(tmp_path, 2, callbacks=[plateau, wrong])
    assert "the training is saved in" in caught.value.__notes__[0]
    assert sorted(held.ended) == held.made
    assert bits(rich(tmp_path, 2)) == bits(rich(None, 2))


def test_a_disk_that_is_full_leaves_the_last_checkpoint(held: Crew, tmp_path: Path,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    from pullback.nn import parameters

    whole, written = parameters.put_file, []

    def put_file(path: Path, *rest: Any, **how: Any) -> None:
        if path.suffix == ".safetensors" and "step" in path.name and (written.append(path) or len(written) > 3):
            raise OSError(errno.ENOSPC, "No space left on device")
        whole(path, *rest, **how)

    with monkeypatch.context() as patch:
        patch.setattr(parameters, "put_file", put_file)
        with pytest.raises(DataError, match=r"E511.*No space left"):
            rich(tmp_path, 2)
    assert sorted(held.ended) == held.made
    assert bits(rich(tmp_path, 2, resume=True)) == bits(rich(None, 2))


@pytest.mark.slow
def test_parts_are_a_property_of_a_run(held: Crew, tmp_path: Path) -> None:
    rich(tmp_path, Workers(2, parts=4), steps=2, epochs=None)
    for workers, now in ((Workers(2, parts=2), "2"), (None, "none")):
        with pytest.raises(DataError) as caught:
            rich(tmp_path, workers)
        assert caught.value.code == "E515"
        assert caught.value.facts == (f"parts of a batch: 4 in the checkpoint, {now} now",)
    alone = tmp_path / "alone"
    rich(alone, None, steps=2, epochs=None)
    with pytest.raises(DataError, match="none in the checkpoint, 2 now"):
        rich(alone, 2)
    assert rich(alone, 2, resume="anyway").steps > 2


# Workers that are lost ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after_sum"])
@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("number", [0, 1])
def test_a_lost_worker_is_started_again(held: Crew, moment: str, workers: int, number: int) -> None:
    """Before the sum nobody has made the update; after it, others have. Both are to the bit as if nothing was lost."""
    parts = Workers(workers, parts=4)
    whole = fit(parts)
    held.made.clear()

    def die(name: str, life: int, step: int) -> None:
        if (name, life, step) == (f"worker {number} of fit", 0, 3):
            raise Dies

    setattr(held, moment, die)
    run, warned = said(lambda: fit(parts))
    assert bits(run) == bits(whole)
    assert held.made[workers:] == [f"worker {number} of fit"]
    (text,) = warned
    assert re.fullmatch(rf"fit: worker {number} of fit was lost after [34] updates. It is started again, "
                        "and training goes on from there", text)  # fmt: skip


def test_a_worker_that_dies_twice_is_left_out(held: Crew) -> None:
    whole = fit(Workers(3, parts=4))
    held.made.clear()

    def die(name: str, life: int, step: int) -> None:
        if name == "worker 1 of fit" and step == 2 + life:
            raise Dies

    held.before = die
    run, warned = said(lambda: fit(Workers(3, parts=4)))
    assert bits(run) == bits(whole)
    assert held.made[3:] == ["worker 1 of fit"]
    assert warned == [
        "fit: worker 1 of fit was lost after 2 updates. It is started again, and training goes on from there",
        "fit: worker 1 of fit was lost after 3 updates again. Training goes on with 2 workers, with the same result",
    ]


@pytest.mark.parametrize("restarts", [0, 2])
def test_all_workers_are_lost(held: Crew, tmp_path: Path, restarts: int) -> None:
    """An error; the last checkpoint stays, and the run goes on from it."""

    def die(name: str, life: int, step: int) -> None:
        if step == 7:
            raise Dies

    held.before = die
    with pytest.raises(LostError) as caught:
        said(lambda: rich(tmp_path, Workers(2, restarts=restarts)))
    assert str(caught.value) == """\
LostError [E711] worker 1 of fit: its process is lost
  try: `fit(…, save="folder")`: called again, it goes on from the last checkpoint there      \
See `pullback explain-error E711`"""
    held.before = lambda *_: None
    assert bits(rich(tmp_path, 2, resume=True)) == bits(rich(None, 2))


def test_one_worker_after_another_is_lost(held: Crew) -> None:
    """Down to the last one, which holds all parts."""
    whole = fit(Workers(4))
    held.before = lambda name, life, step: _die(name in ("worker 0 of fit", "worker 1 of fit", "worker 3 of fit")
                                                and step == 1 + int(name[7]))  # fmt: skip
    run, warned = said(lambda: fit(Workers(4, restarts=0)))
    assert bits(run) == bits(whole)
    assert [re.findall(r"with (\d workers?)", text) for text in warned] == [["3 workers"], ["2 workers"], ["1 worker"]]


def _die(now: bool) -> None:
    if now:
        raise Dies


@pytest.mark.slow
def test_a_worker_that_is_lost_between_steps(held: Crew, tmp_path: Path) -> None:
    """While the driver fetches arrays for a callback, and with a learning rate that it changes."""
    whole = rich(None, 3)

    def end(state: nn.TrainingState) -> None:
        if state.epoch == 3:
            held.threads[-3].dead = True
            held.threads[-3].object.links.close()
        assert state.parameters["b"].shape == (3,)

    plateau = nn.ReduceLROnPlateau(0.5, monitor="loss", patience=1, min_delta=0.5)
    run, warned = said(lambda: rich(tmp_path, 3, callbacks=[plateau, end]))
    assert bits(run) == bits(whole)
    assert len(warned) == 1


@pytest.mark.slow
def test_workers_that_cannot_talk_to_each_other(held: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    """All workers are there, but no connection comes about, or none lasts."""
    join = Replica.join
    remedy = "machines whose TCP ports are open to each other"
    monkeypatch.setattr(Replica, "join", lambda *_: False)
    with pytest.raises(LostError, match=r"E711.*cannot connect to each other") as caught:
        fit(2)
    assert (len(caught.value.facts), caught.value.remedy) == (2, remedy)

    def once(self: Replica, *arguments: Any) -> bool:
        found = join(self, *arguments)
        self.links.close()
        return found

    monkeypatch.setattr(Replica, "join", once)
    with pytest.raises(LostError, match=r"E711.*cannot connect to each other"):
        fit(3)
    assert sorted(held.ended) == sorted(held.made)


def test_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from pullback.cli.main import main

    class Asked(Exception):
        pass

    def fit(*arguments: Any, workers: Any = None, **settings: Any) -> None:
        raise Asked(workers)

    monkeypatch.setattr(nn, "fit", fit)
    for line, wanted in ((["--workers", "3"], 3), ([], None)):
        with pytest.raises(Asked) as caught:
            main(["train", "lenet", "--quiet", *line])
        assert caught.value.args == (wanted,)


def test_replicas_that_differ(held: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on other processors. It is said, and all go on from one."""
    held.before = lambda name, life, step: _change(held, name, step)
    _, warned = said(lambda: fit(2))
    assert warned[0] == (
        "fit: the workers' parameters differ, as on processors of different kinds. All take those of one"
    )


def _change(held: Crew, name: str, step: int) -> None:
    if name == "worker 1 of fit" and step == 1:
        held.threads[1].object.arrays[0][...] += 1e-7


# Errors of workers --------------------------------------------------------------------------------------------------


def test_what_a_worker_raises_is_raised(held: Crew) -> None:
    """Others wait for it, and are released."""

    class Bad(data.Dataset):
        def batch(self, samples: Any, seed: int = 0, epoch: int = 0) -> Any:
            if epoch == 1:
                raise OSError("no such image")
            return super().batch(samples, seed, epoch)

    with pytest.raises(OSError, match="no such image"):
        nn.fit(NET, nn.cross_entropy, Bad(X, Y), workers=3, **HOW)
    assert sorted(held.ended) == held.made


def test_a_loss_that_is_not_finite_names_the_sample(held: Crew, tmp_path: Path) -> None:
    x = X.copy()
    x[17, 2] = np.nan
    errors = []
    for workers in (None, 2):
        with pytest.raises(DataError) as caught:
            nn.fit(NET, nn.cross_entropy, (x, Y), workers=workers, **HOW)
        errors.append(caught.value)
    assert errors[0].facts == errors[1].facts
    assert "row 17 of the data" in errors[1].facts[0]


@pytest.mark.parametrize(("arguments", "text"), [
    ({"count": 0}, "fit: workers=0"), ({"count": 2.5}, "fit: workers=2.5"), ({"count": True}, "fit: workers=True"),
    ({"count": 3, "parts": 2}, "Workers: parts=2 for 3 workers"),
    ({"count": 1, "restarts": -1}, "Workers: restarts=-1"),
])  # fmt: skip
def test_settings_out_of_range(arguments: Any, text: str) -> None:
    with pytest.raises(UsageError, match=f"E518.*{re.escape(text)}"):
        Workers(**arguments)
    with pytest.raises(UsageError, match="E518"):
        nn.fit(NET, nn.cross_entropy, (X, Y), workers=0, **HOW)


# Shards -------------------------------------------------------------------------------------------------------------


def halves(shard: int, shards: int) -> Any:
    return X[shard::shards], Y[shard::shards]


@pytest.mark.parametrize("kind", ["arrays", "dataset", "batches"])
def test_workers_load_their_shards(held: Crew, kind: str) -> None:
    """Each part of a batch is the next batch of its shard, and any number of workers gives the same result."""
    loaded: list[tuple[int, int]] = []

    def load(shard: int, shards: int) -> Any:
        loaded.append((shard, shards))
        x, y = halves(shard, shards)
        if kind == "batches":
            return [(x[k : k + 5], y[k : k + 5]) for k in range(0, len(x), 5)]
        return data.Dataset(x, y) if kind == "dataset" else (x, y)

    size = None if kind == "batches" else 15
    runs = [nn.fit(NET, nn.cross_entropy, data.Shards(load), workers=Workers(n, parts=3), **{**HOW, "batch_size": size})
            for n in (1, 2, 3)]  # fmt: skip
    assert len({bits(r) for r in runs}) == 1
    assert runs[0].steps == 3 * 6
    assert set(loaded) == {(0, 3), (1, 3), (2, 3)}
    if kind == "batches":
        parts = [load(k, 3) for k in range(3)]
        batches = [tuple(np.concatenate([p[k][a] for p in parts]) for a in (0, 1)) for _ in range(3) for k in range(6)]
        wanted, _ = plain(3, nn.objective(NET, nn.cross_entropy), batches, *NET.init(1), nn.adam(1e-2))
        for x, y in zip(tree.flatten(runs[0].parameters)[0], tree.flatten(wanted[0])[0], strict=True):
            assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def test_an_epoch_ends_with_its_shortest_shard(held: Crew) -> None:
    """A warning names the shard once, in the first epoch, and not where all end together."""

    def uneven(shard: int, shards: int) -> Any:
        x, y = halves(shard, shards)
        return [(x[k : k + 5], y[k : k + 5]) for k in range(0, 20 + 10 * shard, 5)]

    run, warned = said(lambda: nn.fit(NET, nn.cross_entropy, data.Shards(uneven), workers=2,
                                      **{**HOW, "batch_size": None}))  # fmt: skip
    assert run.steps == 3 * 4
    assert warned == [
        "fit: shard 0 of the data ended after 4 updates, and others did not. An epoch ends with its shortest shard, so "
        "the rest of the others is not used in it"
    ]
    _, warned = said(lambda: nn.fit(NET, nn.cross_entropy, data.Shards(halves), workers=2, **{**HOW, "batch_size": 30}))
    assert warned == []


def test_shards_of_unequal_batches_are_weighted_by_their_samples(held: Crew) -> None:
    def load(shard: int, shards: int) -> Any:
        return [(X[:6], Y[:6])] if shard == 0 else [(X[6:8], Y[6:8])]

    how = {**HOW, "batch_size": None, "epochs": 1, "optimizer": nn.sgd(0.1)}
    net = nn.dense(3).on("N 5")
    shared = nn.fit(net, nn.cross_entropy, data.Shards(load), workers=2, **how)
    alone = nn.fit(net, nn.cross_entropy, [(X[:8], Y[:8])], **how)
    for x, y in zip(tree.flatten(shared.parameters)[0], tree.flatten(alone.parameters)[0], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_shards_without_batches_and_wrong_labels(held: Crew) -> None:
    how = {**HOW, "batch_size": None}
    with pytest.raises(DataError, match=r"E512.*shard 1 of 2 of the data: no batches in epoch 1"):
        nn.fit(NET, nn.cross_entropy, data.Shards(lambda k, n: [(X[:5], Y[:5])] if k == 0 else []), workers=2, **how)
    bad = Y.copy()
    bad[1] = 7
    with pytest.raises(DataError, match=r"E513.*shard 1 of 2 of the data: the label of sample 0"):
        nn.fit(NET, nn.cross_entropy, data.Shards(lambda k, n: [(X[k::n], bad[k::n])]), workers=2, **how)
    both = data.Splits("both", data.Dataset(X, Y), data.Dataset(X, Y))
    with pytest.raises(PullbackError, match="E518"):
        nn.fit(NET, nn.cross_entropy, data.Shards(lambda k, n: both), workers=2, **how)


def test_a_run_of_shards_is_resumed_and_survives_a_loss(held: Crew, tmp_path: Path) -> None:
    how = {**HOW, "batch_size": 15, "workers": Workers(2, parts=3)}
    whole = nn.fit(NET, nn.cross_entropy, data.Shards(halves), **how)
    stopped: Any = {**how, "epochs": None, "steps": 8, "save": nn.Checkpoints(str(tmp_path), every_steps=3)}
    nn.fit(NET, nn.cross_entropy, data.Shards(halves), **stopped)
    held.made.clear()
    held.before = lambda name, life, step: _die((name, life, step) == ("worker 1 of fit", 0, 11))
    resumed, warned = said(lambda: nn.fit(NET, nn.cross_entropy, data.Shards(halves), save=str(tmp_path), **how))
    assert bits(resumed) == bits(whole)
    assert len(warned) == 1


@pytest.mark.slow
def test_shards_of_one_process(held: Crew) -> None:
    alone = nn.fit(NET, nn.cross_entropy, data.Shards(halves), **HOW)
    assert bits(alone) == bits(nn.fit(NET, nn.cross_entropy, (X, Y), **HOW))
    assert held.made == []


# Loading ------------------------------------------------------------------------------------------------------------


def test_rows_of_a_part() -> None:
    source = Samples(np.arange(10), 4, seed=2, drop_last=False)
    feed = Rows(source)
    for number, size in ((0, 4), (1, 4), (2, 2)):
        whole = source.stacked(5, number, 1)[0]
        found = [feed.part((5, number), p, 3) for p in range(3)]
        assert np.concatenate([x for x in found if x is not None]).tolist() == whole.tolist()
        assert feed.sizes((5, number), 3) == [0 if x is None else len(x) for x in found]
        assert sum(feed.sizes((5, number), 3)) == size
    assert [feed.following(t) for t in ((0, 1), (0, 2))] == [(0, 2), (1, 0)]


def test_given_parts() -> None:
    sizes, own = given((np.arange(7), np.arange(7.0)), [1, 2], 3)
    assert sizes == [2, 2, 3]
    assert {p: x[0].tolist() for p, x in own.items()} == {1: [2, 3], 2: [4, 5, 6]}
    assert edges(7, 3) == [0, 2, 4, 7]
    feed = Given()
    assert feed.part((sizes, own), 0, 3) is None
    assert (feed.following((sizes, own)), feed.is_quick((sizes, own))) == (None, True)


def test_the_next_part_is_loaded_ahead() -> None:
    class Slow(Rows):
        def is_quick(self, ticket: Any) -> bool:
            return False

        def part(self, ticket: Any, part: int, parts: int) -> Any:
            loads.append(ticket)
            return super().part(ticket, part, parts)

    loads: list[Any] = []
    ahead = Ahead(Slow(Samples(np.arange(8), 2, shuffle=False)), [1], 2)
    found = [ahead.take((0, k))[1].tolist() for k in (0, 1, 3)]
    again = ahead.take((0, 3))[1].tolist()
    ahead.end()
    assert (found, again) == ([[1], [3], [7]], [7])
    assert loads[:4] == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_a_replica_without_others() -> None:
    own = Replica(lambda p, s, b: pb.mean((p * b - 1) ** 2), False, nn.sgd(0.25), tree.flatten(
        (np.zeros(()), {}, nn.sgd(0.25).init(np.zeros(()))))[1], Rows(Samples(np.ones(4), 4)), {})  # fmt: skip
    assert own.join(0, [own.listen()], b"0" * 16, 1)
    assert own.digest() == own.digest()
    assert isinstance(OfShards(data.Shards(halves), 4, {"seed": 0, "shuffle": True, "drop_last": True}, lambda x: None)
                      .part((0, 0), 0, 2), tuple)  # fmt: skip
    assert batches_of((X, Y), 3).items == 3
    own.links.close()


def test_updates_of_a_crew_say_little(held: Crew) -> None:
    source = Samples((X, Y), 8)
    first = tree.map_leaves(lambda x: x[0], source.stacked(0, 0, 1))
    parameters, state = NET.init(0)
    updates = SharedUpdates(nn.objective(NET, nn.cross_entropy), nn.sgd(0.1), nn_carry(parameters, state), Workers(2),
                            source, first, Rows(source))  # fmt: skip
    assert updates.arena_bytes == {}
    assert updates.seconds(first) == 5e-4
    load, is_quick = updates.loader(source)
    assert load(2, 3, 2) == [(2, 3), (2, 4)]
    assert is_quick(2, 3, 2)
    assert updates.batches(load(0, 0, 2))[0].shape == (2, 8, 5)
    assert held.made == []  # processes start with the first update


def nn_carry(parameters: Any, state: Any) -> Any:
    from pullback.nn.training.step import Carry

    return Carry(parameters, state, nn.sgd(0.1).init(parameters))


def test_folders_and_tables_can_be_sent(tmp_path: Path) -> None:
    """A worker that gets a copy reads the same rows, with the same random transforms."""
    cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle, which Ray has, is not installed")
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for k in range(8):
        (tmp_path / "ab"[k % 2]).mkdir(exist_ok=True)
        pixels = np.random.default_rng(k).integers(0, 255, (8, 8, 3)).astype(np.uint8)
        image.fromarray(pixels).save(tmp_path / "ab"[k % 2] / f"{k}.png")
    images = data.load_images(tmp_path).transformed(data.random_flip(), data.scale())
    table = data.from_table({"a": np.arange(8.0), "b": np.arange(8) % 3}, ["a"], "b")
    for source in (images, table):
        feed = Rows(Samples(source, 4, seed=3))
        there = cloudpickle.loads(cloudpickle.dumps(feed))
        for ticket in ((0, 1), (2, 0)):
            one, two = feed.part(ticket, 1, 2), there.part(ticket, 1, 2)
            for x, y in zip(tree.flatten(one)[0], tree.flatten(two)[0], strict=True):
                assert x.tobytes() == y.tobytes()
