"""Layers, activations, losses and metrics: numbers of PyTorch that are stored, symbolic sizes, threads, settings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array, nn
from pullback.errors import PullbackError
from pullback.nn.losses import __all__ as LOSSES
from tests.unit.nn.layer_cases import CASES, function, inputs, names, numbers, sketches

pytestmark = pytest.mark.slow

STORED: dict[str, dict[str, list[float]]] = json.loads(
    (Path(__file__).parent / "torch_layers.json").read_text(encoding="utf-8")
)
IN_SPACE = [name for name in names() if not any(name.startswith(loss) for loss in LOSSES)]
RNG = np.random.default_rng(0)


# Values and derivatives -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names())
def test_c27_values_and_gradients_are_those_stored(name: str) -> None:
    found, stored = sketches(numbers(name)), STORED[name]
    assert found.keys() == stored.keys()
    for key, wanted in stored.items():
        np.testing.assert_allclose(found[key], wanted, rtol=1e-11, atol=1e-11, err_msg=key)


def test_c27_compiled_for_any_number_of_threads() -> None:
    """All cases as one program: within rounding of the interpreter, and the same bits on one thread and on two."""
    functions = {name: function(name) for name in names()}

    @pb.function
    def all_of_them(given: Any) -> Any:
        return {name: functions[name](*given[name]) for name in functions}

    given = {}
    for name in names():
        parameters, state, x, g = inputs(name, np.float32)
        given[name] = (parameters, x, state, g)
    with pb.threads(1):
        one = all_of_them(given)
    with pb.threads(2):
        two = all_of_them(given)
    for name in names():
        (_, (y, after)), (by_parameters, by_x) = one[name]
        found = {"y": y, "x": by_x, **by_parameters, **{f"next {k}": v for k, v in after.items()}}
        for key, wanted in numbers(name).items():
            atol = 1e-5 * max(1, np.abs(wanted).max())
            np.testing.assert_allclose(found[key], wanted, rtol=0, atol=atol, err_msg=f"{name} {key}")
    assert repr(one) == repr(two)
    for a, b in zip(leaves(one), leaves(two), strict=True):
        np.testing.assert_array_equal(a, b)


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, tuple | list) else [tree]


# Symbolic sizes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", IN_SPACE)
def test_symbolic_sizes_agree_with_numbers(name: str) -> None:
    this = CASES[name]
    takes = this.ours.takes
    if takes is None or len(takes.split()) != len(this.shape):
        takes = " ".join("NABCD"[: len(this.shape)])
    kind = replace(this.ours, takes=takes).typed(np.float64)
    trees = []
    for what in ("parameters", "state"):
        fields = {path[-1]: [str(e).replace(" ", "") for e in w.extents] for path, w in kind.wanted(what)}
        types = {k: Float64[Array, " ".join(v)] for k, v in fields.items()}
        trees.append(TypedDict(what, types))  # type: ignore[misc, operator]

    def run(parameters: Any, state: Any, x: Any) -> Any:
        return this.ours.apply(parameters, state, x, training=this.training)[0]

    run.__annotations__ = {"parameters": trees[0], "state": trees[1], "x": Float64[Array, takes]}
    parameters, state, x, _ = inputs(name)
    symbolic = pb.function(run)
    np.testing.assert_allclose(symbolic.interpret(parameters, state, x), numbers(name)["y"], rtol=1e-12, atol=1e-14)


def of_two(name: str, **settings: Any) -> pb.Function:
    loss = getattr(nn, name)
    return pb.function(lambda y, t: loss(y, t, **settings))


def test_losses_with_symbolic_sizes() -> None:
    @pb.function
    def all_losses(
        y: Float64[Array, "N K"], t: Float64[Array, "N K"], labels: Int64[Array, "N"], w: Float64[Array, "K"]
    ) -> Any:
        plain = [getattr(nn, name)(y, t) for name in LOSSES]
        return *plain, nn.cross_entropy(y, labels, weight=w, label_smoothing=0.1), nn.hinge_loss(y, labels)

    y, t, w = RNG.normal(size=(4, 3)), RNG.dirichlet(np.ones(3), 4), RNG.random(3)
    labels = np.array([0, 2, 1, 1])
    found = all_losses.interpret(y, t, labels, w)
    for name, symbolic in zip(LOSSES, found):
        np.testing.assert_allclose(symbolic, of_two(name).interpret(y, t), rtol=1e-13)


# State and noise --------------------------------------------------------------------------------------------------


def test_running_statistics_of_a_batch_of_one() -> None:
    net = nn.batch_norm().on("1 2")
    parameters, state = net.init(dtype=np.float64)
    f = pb.function(lambda p, s, x: net.apply(p, s, x, training=True))
    _, after = f.interpret(parameters, state, np.array([[3.0, 4.0]]))
    np.testing.assert_allclose(after["mean"], [0.3, 0.4])
    np.testing.assert_allclose(after["variance"], [0.9, 0.9])  # there is no spread, and it is not divided by zero


def test_c27_dropout_masks_are_reproducible() -> None:
    channels = nn.dropout(0.5, broadcast_dims=(2, 3)).named("channels")
    net = nn.sequential(nn.dropout(0.3).named("plain"), channels).on("N C H W")
    parameters, state = net.on("N 3 4 4").init(seed=1)
    x = np.ones((64, 3, 4, 4), np.float32)
    f = pb.function(lambda p, s, x: net.apply(p, s, x, training=True))
    with pb.threads(1):
        one, after = f(parameters, state, x)
    with pb.threads(2):
        two, later = f(parameters, state, x)
    three, last = f.interpret(parameters, state, x)
    for y, s in ((two, later), (three, last)):
        np.testing.assert_array_equal(one, y)
        np.testing.assert_array_equal(after["plain"]["key"], s["plain"]["key"])
    assert set(np.unique(one)) == {0, np.float32(2 / np.float32(0.7))}
    kept = one != 0
    channels = kept.any((2, 3))
    assert abs(channels.mean() - 0.5) < 4 * np.sqrt(0.25 / channels.size)
    inside = kept[channels]
    assert abs(inside.mean() - 0.7) < 4 * np.sqrt(0.21 / inside.size)
    again, _ = f(parameters, after, x)
    assert not np.array_equal(one, again)
    np.testing.assert_array_equal(net(parameters, x, state), x)


def test_the_gradient_passes_what_dropout_keeps() -> None:
    net = nn.dropout(0.5).on("N M")
    state = net.on("N 6").init()[1]
    f = pb.function(lambda x, s: pb.sum(net.apply({}, s, x, training=True)[0] * x))
    x = RNG.normal(size=(4, 6))
    kept = net_training(net, state, x) / x
    np.testing.assert_allclose(pb.grad(f).interpret(x, state), 2 * x * kept, rtol=1e-12)


def net_training(net: Any, state: Any, x: Any) -> Any:
    return pb.function(lambda s, x: net.apply({}, s, x, training=True)[0]).interpret(state, x)


def test_derivatives_that_are_read_off_results() -> None:
    """In every mode, for scalars too, and where a branch that is not taken has a cotangent that is not finite."""
    x = np.array([-1.5, 2.0, 0.0, 7.0])
    slopes = {
        nn.relu: (x > 0) * 1.0,
        nn.leaky_relu(0.1): np.where(x > 0, 1, 0.1),
        nn.clipped_relu(): ((x > 0) & (x < 6)) * 1.0,
        nn.elu(0.7): np.where(x > 0, 1, 0.7 * np.exp(x)),
    }
    for f, slope in slopes.items():
        whole = pb.function(lambda x, f=f: f(x))  # type: ignore[misc]
        np.testing.assert_allclose(pb.jvp(whole).interpret((x,), (np.ones(4),))[1], slope, rtol=1e-14)
        np.testing.assert_allclose(pb.vjp(whole, wrt=0).interpret(x, cotangent=np.ones(4))[1], slope, rtol=1e-14)
        assert pb.grad(whole).interpret(np.float64(-1.5)) == pytest.approx(slope[0], rel=1e-14)
    relu = pb.vjp(pb.function(lambda x: nn.relu(x)), wrt=0)
    found = relu.interpret(x, cotangent=np.array([np.inf, 1.0, np.nan, 1.0]))[1]
    np.testing.assert_array_equal(found, [0, 1, 0, 1])


# Losses at their limits -------------------------------------------------------------------------------------------


def test_labels_that_are_no_classes() -> None:
    y = RNG.normal(size=(4, 3))
    rows = pb.function(lambda y, labels: nn.cross_entropy(y, labels, reduction="none"))
    found = rows.interpret(y, np.array([0, 3, -1, 2]))
    assert np.isnan(found).tolist() == [False, True, True, False]
    kept = pb.function(lambda y, labels: nn.cross_entropy(y, labels, ignore_index=-1))
    one, both = kept.interpret(y, np.array([0, -1, -1, 2])), rows.interpret(y, np.array([0, 0, 0, 2]))
    np.testing.assert_allclose(one, (both[0] + both[3]) / 2)
    np.testing.assert_array_equal(pb.grad(kept).interpret(y, np.array([0, -1, -1, 2]))[1:3], 0)


def test_losses_of_large_scores_are_finite() -> None:
    y = np.array([[1e4, -1e4, 0.0]])
    f = pb.value_and_grad(pb.function(lambda y, labels: nn.cross_entropy(y, labels)))
    value, gradient = f.interpret(y, np.array([1]))
    assert value == 2e4 and gradient.tolist() == [[1.0, -1.0, 0.0]]
    g = pb.value_and_grad(pb.function(lambda y, t: nn.bce_with_logits(y, t, reduction="sum")))
    value, gradient = g.interpret(y[0], np.array([0.0, 1.0, 0.0]))
    assert value == pytest.approx(2e4 + np.log(2)) and gradient.tolist() == [1.0, -1.0, 0.5]


# Metrics ----------------------------------------------------------------------------------------------------------


def test_c09_c27_metrics() -> None:
    y = np.round(RNG.normal(size=(40, 4)), 1)  # some scores are equal
    labels = RNG.integers(0, 4, 40)

    @pb.function
    def metrics(y: Float64[Array, "N K"], labels: Int64[Array, "N"]) -> Any:
        best = tuple(nn.metrics.accuracy(y, labels, top_k=k) for k in (1, 2, 3))
        names = ("confusion_matrix", "precision", "recall", "f1_score")
        rest = tuple(getattr(nn.metrics, name)(y, labels) for name in names)
        return best, rest

    best, (confusion, precision, recall, f_score) = metrics.interpret(y, labels)
    order = np.argsort(-y, axis=1, kind="stable")
    for k, found in enumerate(best, 1):
        assert found == pytest.approx(np.mean([label in row[:k] for label, row in zip(labels, order, strict=True)]))
    wanted = np.zeros((4, 4), int)
    np.add.at(wanted, (labels, order[:, 0]), 1)
    np.testing.assert_array_equal(confusion, wanted)
    np.testing.assert_allclose(precision, np.diag(wanted) / wanted.sum(0))
    np.testing.assert_allclose(recall, np.diag(wanted) / wanted.sum(1))
    np.testing.assert_allclose(f_score * (precision + recall), 2 * precision * recall)
    none = metrics.interpret(np.zeros((2, 3)), np.array([1, 7]))
    assert none[0] == (0, 0.5, 0.5) and none[1][1].tolist() == [0, 0, 0]


def test_c09_constructs_as_layers() -> None:
    """Concatenation along channels, slices of it, flattening and back, clipping, each with its gradient."""

    @pb.function
    def f(x: Float64[Array, "N 2 H 2"]) -> Any:
        both = nn.branches(nn.relu, nn.clipped_relu(1.0), lambda x: x[:, :1])({}, x)
        flat = nn.reshape(-1, 2)({}, nn.flatten()({}, nn.permute(0, 2, 3, 1)({}, both)))
        return pb.sum(nn.concat(2)({}, (flat, flat)) ** 2)

    x = RNG.uniform(-2, 2, (2, 2, 3, 2))
    gradient = 4 * np.where(x > 0, x, 0) + 4 * np.where((x > 0) & (x < 1), x, 0)
    gradient[:, 0] += 4 * x[:, 0]
    np.testing.assert_allclose(pb.grad(f).interpret(x), gradient, rtol=1e-12)


# Settings that are wrong ------------------------------------------------------------------------------------------


def message(f: Any) -> str:
    with pytest.raises(PullbackError) as caught:
        f()
    error = caught.value
    return f"{error.code} {error.what} | {'; '.join(error.facts)} | {error.remedy}"


WHOLE = "whole numbers from {}, one for all axes or one for each"


@pytest.mark.parametrize(
    ("f", "what"),
    [
        (lambda: nn.conv(8, 0), f"conv: kernel_size is 0 |  | {WHOLE.format(1)}"),
        (lambda: nn.conv(8, 2.5), f"conv: kernel_size is 2.5 |  | {WHOLE.format(1)}"),
        (lambda: nn.conv(0, 3), f"conv: out_channels is 0 |  | {WHOLE.format(1)}"),
        (lambda: nn.conv(8, 3, stride=(1, 0)), f"conv: stride is (1, 0) |  | {WHOLE.format(1)}"),
        (lambda: nn.conv(8, 3, padding=-1), f"conv: padding is -1 |  | {WHOLE.format(0)}"),
        (lambda: nn.conv(8, 3, padding="valid"), f"conv: padding is 'valid' |  | {WHOLE.format(0)}"),
        (
            lambda: nn.conv(8, (3, 3), stride=(1, 2, 3)),
            "conv: stride has 3 numbers instead of 2 |  | 2 numbers, or one for all",
        ),
        (
            lambda: nn.conv(8, 3, padding=((1, 1), (1, 2, 3))),
            "conv: padding has 3 numbers instead of 2 |  | 2 numbers, or one for all",
        ),
        (
            lambda: nn.conv(8, 3, stride=2, padding="same"),
            'conv: padding "same" keeps the sizes, which a stride does not |  | a number as padding',
        ),
        (lambda: nn.conv(8, 3, groups=3), "conv: 3 groups do not divide 8 out_channels |  | a divisor of the channels"),
        (
            lambda: nn.conv(8, 3, layout="CNHW"),  # type: ignore[arg-type]
            "conv: layout is 'CNHW' |  | \"NCHW\" or \"NHWC\", for any number of axes",
        ),
        (
            lambda: nn.conv_transpose(8, 3, stride=2, output_padding=2),
            "conv_transpose: output_padding is 2, no less than the stride |  | less than the stride",
        ),
        (
            lambda: nn.max_pool(2, padding=2),
            "max_pool: padding 2 is more than half of a window |  | at most half of a window",
        ),
        (lambda: nn.avg_pool(0), f"avg_pool: kernel_size is 0 |  | {WHOLE.format(1)}"),
        (
            lambda: nn.batch_norm(1.5),
            "batch_norm: momentum is 1.5 |  | a number from 0 to 1",
        ),
        (
            lambda: nn.layer_norm(eps=-1.0),
            "layer_norm: eps is -1.0 |  | a small positive number, such as 1e-5",
        ),
        (lambda: nn.group_norm(0), f"group_norm: num_groups is 0 |  | {WHOLE.format(1)}"),
        (
            lambda: nn.local_response_norm(k=0.0),
            "local_response_norm: k is 0.0 and alpha 0.0001 |  | k above 0 and alpha from 0: the root is of a positive "
            "number",
        ),
        (lambda: nn.dropout(1.0), "dropout: p is 1.0 |  | a number from 0 to below 1"),
        (lambda: nn.dropout(-0.1), "dropout: p is -0.1 |  | a number from 0 to below 1"),
        (
            lambda: nn.permute(0, 2),
            "permute: (0, 2) is no order of axes |  | every axis once: `nn.permute(0, 2, 3, 1)`",
        ),
        (
            lambda: nn.leaky_relu(np.ones(3)),
            "leaky_relu(array([1., 1., 1.])): its setting is no such number |  | a number from 0, as in "
            "`nn.leaky_relu(0.5)`, which gives a function of arrays",
        ),
        (lambda: nn.sequential(nn.elu), "elu is how a layer is made |  | `elu(…)`"),
        (
            lambda: nn.cross_entropy(np.zeros((2, 3)), np.zeros(2, int), label_smoothing=2),
            "cross_entropy: label_smoothing is 2 |  | a number from 0 to 1",
        ),
        (
            lambda: of_two("mse_loss", reduction="max")(np.zeros(2), np.zeros(2)),
            "mse_loss: the reduction is 'max' |  | \"mean\", \"sum\" or \"none\"",
        ),
        (
            lambda: nn.huber_loss(np.zeros(2), np.zeros(2), delta=0.0),
            "huber_loss: delta is 0.0 |  | a positive number",
        ),
        (
            lambda: nn.metrics.accuracy(np.zeros((2, 3)), np.zeros(2, int), top_k=0),
            "accuracy: top_k is 0 |  | a number from 1",
        ),
    ],
)  # fmt: skip
def test_settings_out_of_range(f: Any, what: str) -> None:
    assert message(f) == f"E163 {what}"


def test_settings_that_do_not_fit_the_image() -> None:
    net = nn.sequential(nn.conv(6, 3), nn.max_pool(2), nn.conv(8, 3, padding=(1, 0), dilation=2))
    assert message(lambda: net.on("N 3 8 8")) == (
        "E167 conv: windows that reach over 5 × 5 do not fit [3, 3] with borders of 1 × 0 | in conv2 = conv(8, 3, "
        "padding=(1, 0), dilation=2), which was given f32[N, 6, 3, 3] by max_pool1 | larger images, or fewer layers "
        "that make them smaller"
    )
    net = nn.sequential(nn.conv(6, 3), nn.conv(8, 3, groups=4))
    assert message(lambda: net.type) == (
        "E167 conv: 4 groups do not divide 6 channels of the image | in conv2 = conv(8, 3, groups=4), which was given "
        "f32[N, 6, H - 2, W - 2] by conv1 | a divisor of the channels"
    )
    assert message(lambda: nn.sequential(nn.max_pool(2), nn.max_pool((3, 1))).on("N 1 4 4")).startswith(
        "E167 max_pool: windows that reach over 3 × 1 do not fit [2, 2] | in max_pool2"
    )


def test_targets_of_another_shape() -> None:
    y, column = np.zeros(3), np.zeros((3, 1))
    same = "a target of the shape of the input"
    for name in ("mse_loss", "l1_loss", "huber_loss", "bce_with_logits"):
        assert message(lambda name=name: of_two(name)(y, column)) == (  # type: ignore[misc]
            f"E162 {name}: the input is f64[3], the target f64[3, 1] |  | {same}"
        )
    f = pb.function(lambda y, t: nn.cross_entropy(y, t))
    assert message(lambda: f(column, np.zeros((3, 1), int))) == (
        "E162 cross_entropy: the input is f64[3, 1], the target i64[3, 1] |  | one label for each row of scores, as "
        "integers"
    )
    g = pb.function(lambda y, t: nn.metrics.accuracy(y, t))
    assert message(lambda: g(column, np.zeros(3))) == (
        "E162 accuracy: the input is f64[3, 1], the target f64[3] |  | one label for each row of scores, as integers"
    )


@pytest.mark.parametrize("f", [nn.gelu, nn.gelu_tanh, nn.silu, nn.layer_norm(elementwise_affine=False)])
def test_only_the_argument_waits_for_the_backward_pass(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the products there is one array for the next product, and one for the derivative."""
    monkeypatch.setenv("PULLBACK_MACHINE", "generic")  # plain loops store the tanh that the backward pass computes anew
    net = nn.sequential(nn.dense(64, bias=False), f, nn.dense(50, bias=False)).on("N 70")
    table = net.describe(batch_size=48).training.memory()
    kept = [b for b in table.buffers if b.dims == "f32[48, 64]" and "bar" not in b.name]
    assert max(sum(b.first <= now <= b.last for b in kept) for now in {b.first for b in kept}) <= 2
