"""Batches of jagged sequences beside loops over single sequences in NumPy: values, gradients, training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import DataError, ShapeError, TraceError, data, nn
from pullback.errors import PullbackError
from pullback.nn.scope import MIXING
from pullback.tracing.tree import flatten

Sequence = np.ndarray
Apply = Callable[[Any, Sequence], Any]


# Layers of one sequence (T, M), in NumPy --------------------------------------------------------------------------


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def dense(p: Any, x: Sequence) -> Sequence:
    return x @ p["w"].T + p["b"]


def lstm(p: Any, x: Sequence) -> Sequence:
    h = cell = np.zeros(p["u"].shape[1])
    out = []
    for row in x:
        i, f, g, o = np.split(p["w"] @ row + p["b"] + p["u"] @ h + p["c"], 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(cell)
        out.append(h)
    return np.array(out).reshape(len(x), len(h))


def gru(p: Any, x: Sequence) -> Sequence:
    h = np.zeros(p["u"].shape[1])
    out = []
    for row in x:
        (r, z, n), (a, b, c) = np.split(p["w"] @ row + p["b"], 3), np.split(p["u"] @ h + p["c"], 3)
        new, kept = np.tanh(n + sigmoid(r + a) * c), sigmoid(z + b)
        h = (1 - kept) * new + kept * h
        out.append(h)
    return np.array(out).reshape(len(x), len(h))


def both_ways(p: Any, x: Sequence) -> Sequence:
    return np.concatenate([lstm(p["forward"], x), gru(p["backward"], x[::-1])[::-1]], axis=1)


def attention(p: Any, x: Sequence, causal: bool = False) -> Sequence:
    """With two heads."""
    heads = []
    projected = (np.split(dense(p[name], x), 2, axis=1) for name in ("query", "key", "value"))
    for q, k, v in zip(*projected):
        scores = q @ k.T / np.sqrt(q.shape[1])
        scores = np.where(np.tril(np.ones_like(scores)) > 0, scores, -np.inf) if causal else scores
        e = np.exp(scores - scores.max(axis=1, initial=-1e9, keepdims=True))
        heads.append(e / e.sum(axis=1, keepdims=True) @ v)
    return dense(p["out"], np.concatenate(heads, axis=1))


def layer_norm(p: Any, x: Sequence) -> Sequence:
    moved = x - x.mean(axis=1, keepdims=True)
    return moved / np.sqrt(np.mean(moved**2, axis=1, keepdims=True) + 1e-5) * p["scale"] + p["shift"]


def pooled(how: str, apply: Apply) -> Apply:
    def of(p: Any, x: Sequence) -> Any:
        y = apply(p, x)
        if not len(y):
            return np.zeros(y.shape[1:])
        return {"mean": y.mean(0), "sum": y.sum(0), "max": y.max(0), "last": y[-1]}[how]

    return of


def transformed(p: Any, x: Sequence) -> Sequence:
    y = x + attention(p["attention1"], layer_norm(p["layer_norm1"], x))
    return np.tanh(dense(p["dense1"], y))


NETS: dict[str, tuple[Any, Apply]] = {
    "dense": (nn.masked(nn.dense(3), nn.tanh), lambda p, x: np.tanh(dense(p["dense1"], x))),
    "lstm": (nn.masked(nn.lstm(3)), lstm),
    "gru": (nn.masked(nn.gru(3)), gru),
    "gru, from the end": (nn.masked(nn.gru(3, reverse=True)), lambda p, x: gru(p, x[::-1])[::-1]),
    "lstm, one result": (nn.masked(nn.lstm(3, return_sequences=False)), pooled("last", lstm)),
    "gru, from the end, one result": (
        nn.masked(nn.gru(3, reverse=True, return_sequences=False)), pooled("last", lambda p, x: gru(p, x[::-1])),
    ),
    "two layers": (nn.masked(nn.lstm(3, num_layers=2)), lambda p, x: lstm(p["lstm2"], lstm(p["lstm1"], x))),
    "both ways": (nn.masked(nn.bidirectional(nn.lstm(2), nn.gru(3))), both_ways),
    "both ways, in another": (
        nn.masked(nn.dense(4), nn.sequential(nn.bidirectional(nn.lstm(2), nn.gru(3)), nn.relu)),
        lambda p, x: np.maximum(both_ways(p["bidirectional1"], dense(p["dense1"], x)), 0),
    ),
    "attention": (nn.masked(nn.attention(2)), attention),
    "attention to the past": (nn.masked(nn.attention(2, is_causal=True)), partial(attention, causal=True)),
    "transformer": (
        nn.masked(nn.residual(nn.layer_norm(), nn.attention(2)), nn.dense(3), nn.tanh),
        lambda p, x: transformed({**p["residual1"]["body"], **p}, x),
    ),
    **{f"gru, {how}": (nn.masked(nn.gru(3), pool=how), pooled(how, gru)) for how in ("mean", "sum", "max", "last")},
}  # fmt: skip


def jagged(seed: int, features: int = 4) -> tuple[list[Sequence], Any]:
    """Random rows, at least one of them empty, and the jagged array."""
    r = np.random.default_rng(seed)
    rows = [r.normal(size=(n, features)) for n in r.permutation([0, *r.integers(0, 6, 4), 5])]
    return rows, pb.jagged(rows)


def flat(p: Any) -> list[tuple[Any, str]]:
    """The places of all arrays in a tree of dicts."""
    return [x for k, v in sorted(p.items()) for x in (flat(v) if isinstance(v, dict) else [(p, k)])]


@pytest.mark.parametrize("name", NETS)
def test_values_and_gradients_are_those_of_single_sequences(name: str) -> None:
    net, apply = NETS[name]
    rows, x = jagged(len(name))
    net = net.on({"values": "N L 4", "mask": "bool[N, L]"})
    p, _ = net.init(seed=1, dtype=np.float64)
    found = nn.predict(net, x, parameters=p, batch_size=4)
    for k, row in enumerate(rows):
        wanted = apply(p, row)
        own = found["values"][k] if isinstance(found, dict) else found[k]
        if isinstance(found, dict):
            assert found["mask"][k].tolist() == [t < len(row) for t in range(5)]
            assert not own[len(row) :].any()
            own = own[: len(row)]
        np.testing.assert_allclose(own, wanted, rtol=1e-11, atol=1e-13)

    batch = {"values": x.padded(7, fill=3.0), "mask": x.mask(7)}  # other numbers, and more steps
    weights = np.random.default_rng(0).normal(size=(6, 7, 6))

    def total(y: Any, xp: Any) -> Any:
        if isinstance(y, dict):
            return xp.sum(y["values"] ** 2 * weights[:, :, : y["values"].shape[2]])
        return xp.sum(y**2 * weights[:, 0, : y.shape[1]])

    def by_hand() -> float:
        results = [apply(p, row) for row in rows]
        return float(sum(np.sum(y**2 * (w[: len(y)] if y.ndim == 2 else w[0])[..., : y.shape[-1]])
                         for y, w in zip(results, weights)))  # fmt: skip

    derived = pb.value_and_grad(lambda p, x: total(net.apply(p, {}, x)[0], pb), wrt="p")
    value, gradient = derived(p, batch)
    assert value == pytest.approx(by_hand(), rel=1e-11)
    for (tree, key), (own, _) in zip(flat(p), flat(gradient), strict=True):
        place = np.unravel_index(np.random.default_rng(1).integers(tree[key].size), tree[key].shape)
        kept, sides = tree[key][place], []
        for side in (1e-6, -1e-6):
            tree[key][place] = kept + side
            sides.append(by_hand())
        tree[key][place] = kept
        assert own[key][place] == pytest.approx((sides[0] - sides[1]) / 2e-6, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("loss", [nn.cross_entropy, nn.mse_loss], ids=lambda f: f.__name__)
def test_losses_of_steps_are_means_over_sequences(loss: Any) -> None:
    rows, x = jagged(3)
    r = np.random.default_rng(0)
    labels = [r.integers(0, 3, len(row)) if loss is nn.cross_entropy else r.normal(size=(len(row), 3)) for row in rows]
    net = nn.masked(nn.dense(3))
    p, _ = net.on({"values": "N L 4", "mask": "bool[N, L]"}).init(seed=0, dtype=np.float64)
    found = nn.evaluate(net, nn.sequence_loss(loss), (x, pb.jagged(labels)), parameters=p, batch_size=4)
    losses = []
    for row, label in zip(rows, labels):
        y = dense(p, row)
        if not len(row):
            losses.append(0.0)
        elif loss is nn.cross_entropy:
            losses.append(np.mean(np.log(np.exp(y).sum(axis=1)) - y[np.arange(len(y)), label]))
        else:
            losses.append(np.mean((y - label) ** 2))
    assert found["loss"] == pytest.approx(np.mean(losses), rel=1e-12)


@pytest.mark.slow
def test_training_is_that_of_padded_arrays() -> None:
    """One program for all batches, with shuffling; and a data set, its parts and its history are alike."""
    _, x = jagged(5)
    labels = np.array([0, 1, 0, 1, 1, 0])
    net = nn.masked(nn.gru(3), pool="last") >> nn.dense(2)
    how = {"optimizer": nn.adam(0.1), "epochs": 4, "batch_size": 2, "progress": False}
    runs = [
        nn.fit(net, nn.cross_entropy, given, validation_data=given, **how)  # type: ignore[arg-type]
        for given in (
            (x, labels),
            data.Dataset(x, labels),
            data.Dataset(x, labels).take(6),
            ({"values": x.padded(5), "mask": x.mask(5)}, labels),
        )
    ]
    losses = [run.history["validation_loss"] for run in runs]
    assert losses[0][-1] < losses[0][0]
    assert losses[1:] == losses[:1] * 3
    parts = data.Dataset({"text": x, "age": np.ones((6, 1))}, labels).split(0.5)
    assert [part.inputs["text"]["values"].shape for part in parts] == [(3, 5, 4)] * 2
    assert parts[0].inputs["text"]["values"][0].tolist() == x.padded(5)[0].tolist()


def test_rows_are_padded_when_they_are_read() -> None:
    rows, x = jagged(7)
    given = data.Dataset(x, np.arange(6)).inputs
    values, mask = given["values"], given["mask"]
    assert (len(values), values.shape, values.dtype, mask.dtype) == (6, (6, 5, 4), np.float64, np.dtype(bool))
    whole, there = x.padded(5), x.mask(5)
    for samples in (slice(1, 4), slice(None), np.array([3, 3, 0]), [5], -1, np.arange(6) % 2 == 0):
        np.testing.assert_array_equal(values[samples], whole[samples])
        np.testing.assert_array_equal(mask[samples], there[samples])
    np.testing.assert_array_equal(np.asarray(values), whole)
    for k, row in enumerate(rows):
        np.testing.assert_array_equal(whole[k, : len(row)], row)
    empty = data.Dataset(pb.jagged([[], []]), np.arange(2)).inputs
    assert empty["values"][:].tolist() == [[0.0], [0.0]] and not empty["mask"][:].any()


def test_what_has_no_meaning_is_refused() -> None:
    rows, x = jagged(2)
    labels = [np.zeros(len(row), int) for row in rows]
    net = nn.masked(nn.dense(3))
    fit = partial(nn.fit, optimizer=nn.sgd(0.1), epochs=1, progress=False)
    for layer in (nn.conv(3, 3), nn.batch_norm(), nn.flatten(), nn.layer_norm(2), nn.sequential(nn.permute(1, 0))):
        with pytest.raises(PullbackError, match=r"E163.*would mix the steps of a sequence|E162"):
            nn.masked(layer).on({"values": "N L 4", "mask": "bool[N, L]"})
    with pytest.raises(TraceError, match=r"E163.*batch_norm within `nn.masked` would mix"):
        nn.masked(nn.dense(3), nn.batch_norm()).on({"values": "N L 4", "mask": "bool[N, L]"})
    with pytest.raises(TraceError, match="E163"):
        nn.masked(nn.gru(3), pool="first")
    with pytest.raises(ShapeError, match=r"E162.*change the number of steps"):
        nn.masked(lambda x: x[:, 1:]).on({"values": "N 5 4", "mask": "bool[N, 5]"})
    with pytest.raises(TraceError, match=r"E168. masked.*: the input is one array, and a dict of 'mask'"):
        net({"w": np.ones((3, 4)), "b": np.ones(3)}, np.ones((2, 5, 4)))
    with pytest.raises(DataError, match=r"E513.*the label of sample"):
        fit(net, nn.sequence_loss(nn.cross_entropy), (x, pb.jagged([y + 3 for y in labels])))
    with pytest.raises(DataError, match="E514"):  # other steps than those of the inputs
        fit(net, nn.sequence_loss(nn.cross_entropy), (x, pb.jagged([labels[-1], *labels[:-1]])))
    with pytest.raises(TraceError, match=r"E168. sequence_loss"):
        fit(net, nn.sequence_loss(nn.cross_entropy), (x, np.zeros(6, int)))
    with pytest.raises(DataError, match=r"E512|E508"):
        fit(net, nn.mse_loss, (x, np.zeros(5)))
    with pytest.raises(DataError, match=r"(?s)E508.*pb\.jagged\(x\)"):
        fit(net, nn.mse_loss, ([[1.0], [2.0, 3.0]], np.zeros(2)))


def test_a_layer_of_ones_own_reads_the_mask() -> None:
    @nn.layer("N L M")
    def shares(scope: Any, x: Any) -> Any:
        """Each step divided by the number of steps of its sequence."""
        steps = x.shape[1] if scope.mask is None else pb.sum(scope.mask.astype(x.dtype), axis=1)[:, None, None]
        return x / steps

    rows, x = jagged(4)
    found = nn.predict(nn.masked(shares(), pool="sum"), x, parameters={})
    np.testing.assert_allclose(found, [row.mean(axis=0) if len(row) else np.zeros(4) for row in rows], rtol=1e-13)


def test_a_description_and_its_type() -> None:
    net = nn.masked(nn.embedding(9, 4), nn.lstm(3), pool="mean") >> nn.dense(2)
    assert net.type.takes == "{mask: bool[N, L], values: i64[N, L]}"
    assert "masked1" in net.init()[0]
    assert repr(nn.masked(nn.gru(3), pool="last")) == "masked(gru(3), pool='last')"
    assert nn.masked(nn.dense(3)).on({"values": "N 5 4", "mask": "bool[N, 5]"}).describe(batch_size=2).parameters == 15


FORMS: dict[str, Callable[..., Any]] = {  # of every layer of `nn.layers`, on sequences of four numbers a step
    "attention": lambda: nn.attention(2), "avg_pool": lambda: nn.avg_pool(1), "batch_norm": nn.batch_norm,
    "bidirectional": lambda: nn.bidirectional(nn.gru(3)),
    "concat": lambda: nn.parallel(a=nn.dense(2), b=nn.dense(2)) >> nn.concat(1),
    "conv": lambda: nn.conv(4, 1), "conv_transpose": lambda: nn.conv_transpose(4, 1), "dense": lambda: nn.dense(3),
    "dropout": lambda: nn.dropout(0.5), "embedding": lambda: nn.embedding(9, 3), "flatten": nn.flatten,
    "global_avg_pool": nn.global_avg_pool, "global_max_pool": nn.global_max_pool,
    "group_norm": lambda: nn.group_norm(1),
    "gru": lambda: nn.gru(3, num_layers=2, bidirectional=True), "instance_norm": nn.instance_norm,
    "layer_norm": nn.layer_norm, "local_response_norm": nn.local_response_norm,
    "lstm": lambda: nn.lstm(3, reverse=True, return_sequences=False),
    "max_pool": lambda: nn.max_pool(1), "permute": lambda: nn.permute(1, 0),
    "positional_encoding": nn.positional_encoding, "reshape": lambda: nn.reshape(4, 5), "rms_norm": nn.rms_norm,
    "transformer_block": lambda: nn.transformer_block(2), "with_states": lambda: nn.with_states(nn.gru(3)),
}  # fmt: skip


OTHERS = {"masked", "rotary_embedding", "sequence_loss"}  # no layers, or the one that is tested


@pytest.mark.parametrize("name", sorted({*nn.layers.__all__} - OTHERS))
def test_no_layer_reads_what_fills_a_row(name: str) -> None:
    """Whatever stands behind the ends of rows, results are the same, or the layer is refused."""
    dtype: Any = np.int64 if name == "embedding" else np.float64
    values = np.random.default_rng(0).integers(0, 9, (3, 5, *([] if dtype is np.int64 else [4]))).astype(dtype)
    mask = np.arange(5) < np.array([[5], [2], [0]])
    other = np.where(mask.reshape(3, 5, *[1] * (values.ndim - 2)), values, 8)
    try:
        net = nn.masked(FORMS[name]())
        if dtype is not np.int64:
            net = net.on({"values": "N 5 4", "mask": "bool[N, 5]"})
        parameters, state = net.init(seed=0, dtype=np.float64)
        inputs = [{"values": x, "mask": mask} for x in (values, other)]
        results = [net.function(np.float64).interpret(parameters, state, x) for x in inputs]
    except PullbackError as error:
        assert error.code in ("E103", "E162", "E163", "E168"), error
        return
    assert name not in MIXING
    for one, two in zip(*(flatten(r)[0] for r in results), strict=True):
        np.testing.assert_array_equal(one, two)
