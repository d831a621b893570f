"""Every layer, activation and loss with small inputs, and how PyTorch writes it.

`theirs` is a function of PyTorch's functional module, of the input and of the parameters by name, as tensors; only the
comparison with PyTorch itself calls it, so nothing here needs it. `numbers` runs a case here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import pullback as pb
from pullback import nn
from pullback.nn.layer import Layer, as_layer

__all__ = ["CASES", "Case", "inputs", "names", "numbers", "sketches"]

Values = np.ndarray[Any, Any]
LABELS = np.array([2, 0, 4, 1, 1, 3])
DISTRIBUTIONS = np.random.default_rng(1).dirichlet(np.ones(5), 6)
WEIGHTS = np.array([0.5, 1.0, 2.0, 1.5, 0.25])
SIGNS = np.sign(np.random.default_rng(2).normal(size=(6, 5)))


@dataclass(frozen=True)
class Case:
    """A layer, the shape of its input, PyTorch's function of it, and whether it runs as training does."""

    ours: Layer
    shape: tuple[int, ...]
    theirs: Callable[..., Any]
    training: bool = False


def case(ours: Any, shape: tuple[int, ...], theirs: Callable[..., Any], *, training: bool = False) -> Case:
    """A case of a layer or of a function of arrays."""
    return Case(as_layer(ours), shape, theirs, training)


def last(f: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's function of N C *space, for N *space C."""
    return lambda F, x, p: f(F, x.movedim(-1, 1), p).movedim(1, -1)


def loss(name: str, target: Values, **settings: Any) -> Callable[[Any], Any]:
    """One of our losses as a function of the result."""
    return lambda y: getattr(nn, name)(y, _alike(target, y), **settings)


def _alike(target: Values, y: Any) -> Any:
    return pb.asarray(target) if target.dtype.kind == "i" else pb.asarray(target).astype(y.dtype)


def against(name: str, target: Values, **settings: Any) -> Callable[..., Any]:
    """One of PyTorch's."""

    def theirs(F: Any, x: Any, p: Any) -> Any:
        t = x.new_tensor(target) if target.dtype.kind == "f" else x.new_tensor(target).long()
        more = {k: x.new_tensor(v) if isinstance(v, np.ndarray) else v for k, v in settings.items()}
        return getattr(F, name)(x, t, **more)

    return theirs


IMAGE = (2, 4, 7, 6)
PICTURE = (2, 7, 6, 4)

CASES: dict[str, Case] = {
    # Convolutions -------------------------------------------------------------------------------------------------
    "dense": case(nn.dense(3), (5, 4), lambda F, x, p: F.linear(x, p["w"], p["b"])),
    "dense_of_sequences": case(nn.dense(3, bias=False), (2, 5, 4), lambda F, x, p: F.linear(x, p["w"])),
    "conv": case(nn.conv(3, 3), IMAGE, lambda F, x, p: F.conv2d(x, p["w"], p["b"])),
    "conv_settings": case(
        nn.conv(3, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2), bias=False),
        IMAGE,
        lambda F, x, p: F.conv2d(x, p["w"], None, (2, 1), (1, 2), (1, 2)),
    ),
    "conv_same": case(nn.conv(3, (3, 4), padding="same"), IMAGE,
                      lambda F, x, p: F.conv2d(F.pad(x, (1, 2, 1, 1)), p["w"], p["b"])),
    "conv_sides": case(nn.conv(3, 3, padding=((0, 2), (1, 0))), IMAGE,
                       lambda F, x, p: F.conv2d(F.pad(x, (1, 0, 0, 2)), p["w"], p["b"])),
    "conv_groups": case(nn.conv(6, 3, stride=2, padding=1, groups=2), IMAGE,
                        lambda F, x, p: F.conv2d(x, p["w"], p["b"], 2, 1, 1, 2)),
    "conv_depthwise": case(nn.conv(4, 3, padding=1, groups=4), IMAGE,
                           lambda F, x, p: F.conv2d(x, p["w"], p["b"], 1, 1, 1, 4)),
    "conv_depthwise_strided": case(nn.conv(4, 3, stride=2, padding=1, dilation=2, groups=4), IMAGE,
                                   lambda F, x, p: F.conv2d(x, p["w"], p["b"], 2, 1, 2, 4)),
    "conv_1d": case(nn.conv(3, (3,), stride=2, padding=1), (2, 4, 9),
                    lambda F, x, p: F.conv1d(x, p["w"], p["b"], 2, 1)),
    "conv_3d": case(nn.conv(2, (2, 3, 2), padding=1), (1, 2, 3, 4, 3),
                    lambda F, x, p: F.conv3d(x, p["w"], p["b"], 1, 1)),
    "conv_nhwc": case(nn.conv(6, 3, stride=2, padding=1, groups=2, layout="NHWC"), PICTURE,
                      last(lambda F, x, p: F.conv2d(x, p["w"], p["b"], 2, 1, 1, 2))),
    "conv_transpose": case(nn.conv_transpose(3, 4, stride=2, padding=1), (2, 4, 3, 4),
                            lambda F, x, p: F.conv_transpose2d(x, p["w"], p["b"], 2, 1)),
    "conv_transpose_settings": case(
        nn.conv_transpose(6, (3, 2), stride=(3, 2), padding=(1, 0), dilation=(2, 1), output_padding=(2, 1), groups=2),
        (2, 4, 3, 4),
        lambda F, x, p: F.conv_transpose2d(x, p["w"], p["b"], (3, 2), (1, 0), (2, 1), 2, (2, 1)),
    ),
    "conv_transpose_depthwise": case(nn.conv_transpose(4, 3, stride=2, output_padding=1, groups=4), (2, 4, 3, 4),
                                      lambda F, x, p: F.conv_transpose2d(x, p["w"], p["b"], 2, 0, 1, 4)),
    "conv_transpose_nhwc": case(nn.conv_transpose(3, (3,), stride=2, layout="NHWC"), (2, 5, 4),
                                 last(lambda F, x, p: F.conv_transpose1d(x, p["w"], p["b"], 2))),
    # Pools --------------------------------------------------------------------------------------------------------
    "max_pool": case(nn.max_pool(2), IMAGE, lambda F, x, p: F.max_pool2d(x, 2)),
    "max_pool_settings": case(nn.max_pool((3, 2), 2, 1), IMAGE, lambda F, x, p: F.max_pool2d(x, (3, 2), 2, 1)),
    "max_pool_ceil": case(nn.max_pool(3, 2, 1, ceil_mode=True), IMAGE,
                          lambda F, x, p: F.max_pool2d(x, 3, 2, 1, 1, ceil_mode=True)),
    "max_pool_ceil_far": case(nn.max_pool(2, 3, 1, ceil_mode=True), IMAGE,
                              lambda F, x, p: F.max_pool2d(x, 2, 3, 1, 1, ceil_mode=True)),
    "max_pool_dilation": case(nn.max_pool(2, 1, dilation=3), IMAGE, lambda F, x, p: F.max_pool2d(x, 2, 1, 0, 3)),
    "max_pool_nhwc": case(nn.max_pool(3, 2, 1, layout="NHWC"), PICTURE,
                          last(lambda F, x, p: F.max_pool2d(x, 3, 2, 1))),
    "max_pool_training": case(nn.max_pool((3, 2), (2, 1), 1, ceil_mode=True, dilation=(1, 2)), IMAGE,
                              lambda F, x, p: F.max_pool2d(x, (3, 2), (2, 1), 1, (1, 2), ceil_mode=True),
                              training=True),
    "max_pool_training_nhwc": case(nn.max_pool(3, 2, 1, layout="NHWC"), PICTURE,
                                   last(lambda F, x, p: F.max_pool2d(x, 3, 2, 1)), training=True),
    "max_pool_1d": case(nn.max_pool((3,)), (2, 3, 8), lambda F, x, p: F.max_pool1d(x, 3)),
    "avg_pool": case(nn.avg_pool(2), IMAGE, lambda F, x, p: F.avg_pool2d(x, 2)),
    "avg_pool_border": case(nn.avg_pool(3, 2, 1), IMAGE, lambda F, x, p: F.avg_pool2d(x, 3, 2, 1)),
    "avg_pool_inside": case(nn.avg_pool(3, 2, 1, count_include_pad=False), IMAGE,
                                lambda F, x, p: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
    "avg_pool_ceil": case(nn.avg_pool(3, 2, (1, 0), ceil_mode=True), (2, 4, 6, 6),
                              lambda F, x, p: F.avg_pool2d(x, 3, 2, (1, 0), ceil_mode=True)),
    "avg_pool_nhwc": case(nn.avg_pool(3, 2, 1, layout="NHWC", ceil_mode=True, count_include_pad=False),
                           (2, 6, 6, 4), last(lambda F, x, p: F.avg_pool2d(x, 3, 2, 1, True, False))),
    "global_avg_pool": case(nn.global_avg_pool(), IMAGE, lambda F, x, p: x.mean((2, 3))),
    "global_max_pool": case(nn.global_max_pool("NHWC"), PICTURE, lambda F, x, p: x.amax((1, 2))),
    # Normalization ------------------------------------------------------------------------------------------------
    "batch_norm": case(nn.batch_norm(0.2), IMAGE, lambda F, x, p: F.batch_norm(
        x, p["mean"], p["variance"], p["scale"], p["shift"], True, 0.2), training=True),
    "batch_norm_nhwc": case(nn.batch_norm(0.2, layout="NHWC"), PICTURE, last(lambda F, x, p: F.batch_norm(
        x, p["mean"], p["variance"], p["scale"], p["shift"], True, 0.2)), training=True),
    "batch_norm_rows": case(nn.batch_norm(affine=False), (5, 4), lambda F, x, p: F.batch_norm(
        x, p["mean"], p["variance"], None, None, True, 0.1), training=True),
    "batch_norm_inference": case(nn.batch_norm(), IMAGE, lambda F, x, p: F.batch_norm(
        x, p["mean"], p["variance"], p["scale"], p["shift"])),
    "layer_norm": case(nn.layer_norm(), (2, 5, 4),
                       lambda F, x, p: F.layer_norm(x, (4,), p["scale"], p["shift"])),
    "layer_norm_of_planes": case(nn.layer_norm(2, 1e-3), (3, 5, 4),
                                 lambda F, x, p: F.layer_norm(x, (5, 4), p["scale"], p["shift"], 1e-3)),
    "rms_norm": case(nn.rms_norm(1e-5), (2, 5, 4), lambda F, x, p: F.rms_norm(x, (4,), p["scale"], 1e-5)),
    "group_norm": case(nn.group_norm(2), IMAGE, lambda F, x, p: F.group_norm(x, 2, p["scale"], p["shift"])),
    "group_norm_nhwc": case(nn.group_norm(2, layout="NHWC"), PICTURE,
                            last(lambda F, x, p: F.group_norm(x, 2, p["scale"], p["shift"]))),
    "instance_norm": case(nn.instance_norm(), IMAGE,
                          lambda F, x, p: F.instance_norm(x, weight=p["scale"], bias=p["shift"])),
    "local_response_norm": case(nn.local_response_norm(3, 0.2, 0.75, 1.5), IMAGE,
                                lambda F, x, p: F.local_response_norm(x, 3, 0.6, 0.75, 1.5)),
    "local_response_norm_nhwc": case(nn.local_response_norm(2, 0.2, layout="NHWC"), PICTURE,
                                     last(lambda F, x, p: F.local_response_norm(x, 2, 0.4, 0.75, 2.0))),
    # Activations --------------------------------------------------------------------------------------------------
    "relu": case(nn.relu, (3, 5), lambda F, x, p: F.relu(x)),
    "leaky_relu": case(nn.leaky_relu(0.1), (3, 5), lambda F, x, p: F.leaky_relu(x, 0.1)),
    "clipped_relu": case(nn.clipped_relu(1.0), (3, 5), lambda F, x, p: F.hardtanh(x, 0.0, 1.0)),
    "elu": case(nn.elu(0.7), (3, 5), lambda F, x, p: F.elu(x, 0.7)),
    "gelu": case(nn.gelu, (3, 5), lambda F, x, p: F.gelu(x)),
    "gelu_tanh": case(nn.gelu_tanh, (3, 5), lambda F, x, p: F.gelu(x, approximate="tanh")),
    "silu": case(nn.silu, (3, 5), lambda F, x, p: F.silu(x)),
    "softplus": case(nn.softplus, (3, 5), lambda F, x, p: F.softplus(x)),
    "tanh": case(nn.tanh, (3, 5), lambda F, x, p: x.tanh()),
    "sigmoid": case(nn.sigmoid, (3, 5), lambda F, x, p: x.sigmoid()),
    "hard_sigmoid": case(nn.hard_sigmoid, (3, 5), lambda F, x, p: (x + 3).clamp(0, 6) / 6),
    "hard_silu": case(nn.hard_silu, (3, 5), lambda F, x, p: F.hardswish(x)),
    "softmax": case(lambda x: nn.softmax(x, 1), (2, 5, 3), lambda F, x, p: F.softmax(x, 1)),
    "log_softmax": case(nn.log_softmax, (2, 5, 3), lambda F, x, p: F.log_softmax(x, -1)),
    # Losses -------------------------------------------------------------------------------------------------------
    "mse_loss": case(loss("mse_loss", SIGNS), (6, 5), against("mse_loss", SIGNS)),
    "l1_loss": case(loss("l1_loss", SIGNS, reduction="sum"), (6, 5),
                           against("l1_loss", SIGNS, reduction="sum")),
    "huber_loss": case(loss("huber_loss", SIGNS, delta=0.7), (6, 5), against("huber_loss", SIGNS, delta=0.7)),
    "cross_entropy": case(loss("cross_entropy", LABELS), (6, 5), against("cross_entropy", LABELS)),
    "cross_entropy_settings": case(
        loss("cross_entropy", LABELS, label_smoothing=0.2, weight=WEIGHTS, ignore_index=1), (6, 5),
        against("cross_entropy", LABELS, label_smoothing=0.2, weight=WEIGHTS, ignore_index=1)),
    "cross_entropy_rows": case(
        loss("cross_entropy", LABELS.reshape(2, 3), axis=1, reduction="none"), (2, 5, 3),
        against("cross_entropy", LABELS.reshape(2, 3), reduction="none")),
    "cross_entropy_distributions": case(
        loss("cross_entropy", DISTRIBUTIONS, label_smoothing=0.1, weight=WEIGHTS), (6, 5),
        against("cross_entropy", DISTRIBUTIONS, label_smoothing=0.1, weight=WEIGHTS)),
    "bce_with_logits": case(loss("bce_with_logits", (SIGNS + 1) / 2), (6, 5),
                          against("binary_cross_entropy_with_logits", (SIGNS + 1) / 2)),
    "hinge_loss": case(loss("hinge_loss", SIGNS), (6, 5), lambda F, x, p: F.relu(1 - x * x.new_tensor(SIGNS)).mean()),
    "hinge_loss_of_labels": case(loss("hinge_loss", LABELS), (6, 5), against("multi_margin_loss", LABELS)),
    "kl_div": case(loss("kl_div", DISTRIBUTIONS), (6, 5),
                             against("kl_div", DISTRIBUTIONS, reduction="batchmean")),
}  # fmt: skip


def inputs(name: str, dtype: Any = np.float64) -> tuple[dict[str, Values], dict[str, Values], Values, Values]:
    """Parameters, state, input and cotangent of a case: random, and away from kinks."""
    this = CASES[name]
    random = np.random.default_rng(sum(map(ord, name)))
    network = this.ours.on(" ".join(map(str, this.shape)))
    parameters, state = network.init(dtype=np.float64)
    made = {k: random.uniform(-1, 1, np.shape(v)) for k, v in sorted(parameters.items())}
    kept = {k: random.uniform(0.5, 2, np.shape(v)) for k, v in sorted(state.items())}
    x = random.uniform(-2, 2, this.shape)
    y = np.shape(_of(this, {**made}, kept, x)[0])
    g = random.uniform(-1, 1, y)
    return *({k: v.astype(dtype) for k, v in t.items()} for t in (made, kept)), x.astype(dtype), np.asarray(g, dtype)  # type: ignore[return-value]


def _of(this: Case, parameters: Any, state: Any, x: Any) -> Any:
    f = pb.function(lambda p, s, x: this.ours.apply(p, s, x, training=this.training))
    return f.interpret(parameters, state, x)


def function(name: str) -> Any:
    """The function that `numbers` runs: result, state and gradients of a case."""
    this = CASES[name]

    def objective(parameters: Any, x: Any, state: Any, g: Any) -> Any:
        y, after = this.ours.apply(parameters, state, x, training=this.training)
        return pb.sum(y * g), (y, after)

    return pb.value_and_grad(pb.function(objective), wrt=(0, 1), has_aux=True)


def numbers(name: str, dtype: Any = np.float64, *, compiled: bool = False) -> dict[str, Values]:
    """The result of a case, its gradients by the input and every parameter, and the state after it."""
    parameters, state, x, g = inputs(name, dtype)
    f = function(name)
    (_, (y, after)), (by_parameters, by_x) = (f if compiled else f.interpret)(parameters, x, state, g)
    found = {"y": y, "x": by_x, **by_parameters, **{f"next {k}": v for k, v in after.items()}}
    return {k: np.asarray(v) for k, v in found.items()}


def sketches(values: dict[str, Values]) -> dict[str, list[float]]:
    """Two random sums of every array: equal within rounding where the arrays are, and nowhere else."""
    out = {}
    for k, v in values.items():
        signs = np.random.default_rng(v.size).uniform(-1, 1, (2, v.size))
        out[k] = (signs @ v.ravel().astype(np.float64)).tolist()
    return out


@functools.cache
def names() -> tuple[str, ...]:
    """The names of the cases."""
    return tuple(CASES)
