"""Residual networks: ResNet, and MobileNet with inverted residuals."""

from __future__ import annotations

from typing import Any

from pullback.nn.activations import clipped_relu, relu
from pullback.nn.composition import residual, sequential
from pullback.nn.layer import Layer
from pullback.nn.layers import batch_norm, conv, dense, global_avg_pool, max_pool
from pullback.nn.layers.dropout import dropout as dropout_layer
from pullback.nn.models.pretrained import File, Table, from_file
from pullback.nn.models.widths import scaled

__all__ = ["mobilenet_v2", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152"]


def resnet18(num_classes: int = 1000, *, width_mult: float = 1.0, pretrained: File | None = None) -> Layer:
    """ResNet with 18 layers (He et al. 2015), for 224 × 224: 11,689,512 parameters.

    Args:
        num_classes: the number of classes.
        width_mult: the width of every layer relative to the paper's.
        pretrained: a safetensors file with the weights of torchvision's or timm's model of this name. `init` then gives
            them. The last layer begins anew if the file has another number of classes.
    Raises:
        DataError: [E501], [E509] the file cannot be read. [E510] It holds other weights; the differences are listed.
    """
    return _resnet(_basic, (2, 2, 2, 2), num_classes, width_mult, pretrained)


def resnet34(num_classes: int = 1000, *, width_mult: float = 1.0, pretrained: File | None = None) -> Layer:
    """ResNet with 34 layers (He et al. 2015), for 224 × 224: 21,797,672 parameters. As `resnet18`."""
    return _resnet(_basic, (3, 4, 6, 3), num_classes, width_mult, pretrained)


def resnet50(num_classes: int = 1000, *, width_mult: float = 1.0, pretrained: File | None = None) -> Layer:
    """ResNet with 50 layers (He et al. 2015), for 224 × 224: 25,557,032 parameters. As `resnet18`.

    Strides are in the 3 × 3 convolutions, as in other frameworks.

    >>> from pullback import nn
    >>> nn.models.resnet50(10).on("N 3 64 64").type.result
    'f32[N, 10]'
    """
    return _resnet(_bottleneck, (3, 4, 6, 3), num_classes, width_mult, pretrained)


def resnet101(num_classes: int = 1000, *, width_mult: float = 1.0, pretrained: File | None = None) -> Layer:
    """ResNet with 101 layers (He et al. 2015), for 224 × 224: 44,549,160 parameters. As `resnet50`."""
    return _resnet(_bottleneck, (3, 4, 23, 3), num_classes, width_mult, pretrained)


def resnet152(num_classes: int = 1000, *, width_mult: float = 1.0, pretrained: File | None = None) -> Layer:
    """ResNet with 152 layers (He et al. 2015), for 224 × 224: 60,192,808 parameters. As `resnet50`."""
    return _resnet(_bottleneck, (3, 8, 36, 3), num_classes, width_mult, pretrained)


def _resnet(block: Any, depths: tuple[int, ...], num_classes: int, width_mult: float, pretrained: File | None) -> Layer:
    c, factor = scaled(width_mult), 4 if block is _bottleneck else 1
    stem = sequential(_normed(c(64), 7, stride=2, padding=3), relu, max_pool(3, 2, padding=1))
    blocks, inputs = [], c(64)
    for stage, (channels, depth) in enumerate(zip((64, 128, 256, 512), depths)):
        for k in range(depth):
            stride, result = 2 if stage and k == 0 else 1, factor * c(channels)
            shortcut = _normed(result, 1, stride=stride) if stride > 1 or result != inputs else None
            blocks += [residual(block(c(channels), stride), shortcut=shortcut), relu]
            inputs = result
    net = sequential(stem, *blocks, global_avg_pool(), dense(num_classes))
    return from_file(net, pretrained, [_resnet_names(depths, 3 if block is _bottleneck else 2)], heads=["dense1"])


def _resnet_names(depths: tuple[int, ...], convolutions: int) -> Table:
    """The names of torchvision and timm."""
    names = {"conv1": "conv1", "batch_norm1": "bn1", "dense1": "fc"}
    places = [f"layer{stage}.{k}" for stage, depth in enumerate(depths, 1) for k in range(depth)]
    for number, theirs in enumerate(places, 1):
        for k in range(1, convolutions + 1):
            names[f"residual{number}/body/conv{k}"] = f"{theirs}.conv{k}"
            names[f"residual{number}/body/batch_norm{k}"] = f"{theirs}.bn{k}"
        names[f"residual{number}/shortcut/conv1"] = f"{theirs}.downsample.0"
        names[f"residual{number}/shortcut/batch_norm1"] = f"{theirs}.downsample.1"
    return names


def _basic(channels: int, stride: int) -> Layer:
    return sequential(_normed(channels, 3, stride=stride, padding=1), relu, _normed(channels, 3, padding=1))


def _bottleneck(channels: int, stride: int) -> Layer:
    middle = _normed(channels, 3, stride=stride, padding=1)
    return sequential(_normed(channels, 1), relu, middle, relu, _normed(4 * channels, 1))


def _normed(out_channels: int, kernel_size: int, **settings: Any) -> Layer:
    return sequential(conv(out_channels, kernel_size, bias=False, **settings), batch_norm())


def mobilenet_v2(
    num_classes: int = 1000, *, width_mult: float = 1.0, dropout: float = 0.2, pretrained: File | None = None
) -> Layer:
    """MobileNet, second version (Sandler et al. 2018), for 224 × 224: 3,504,872 parameters.

    Args:
        num_classes: the number of classes.
        width_mult: the width of every layer relative to the paper's.
        dropout: the dropout rate before the scores.
        pretrained: a file of weights as for `resnet18`; timm's model is `mobilenetv2_100`.
    """
    c, relu6 = scaled(width_mult), clipped_relu(6.0)
    blocks, inputs = [], c(32)
    for factor, channels, depth, stride in _INVERTED:
        for k in range(depth):
            blocks.append(_inverted(inputs, factor, c(channels), 1 if k else stride, relu6))
            inputs = c(channels)
    net = sequential(
        *(_normed(c(32), 3, stride=2, padding=1), relu6),
        *blocks,
        *(_normed(c(1280), 1), relu6, global_avg_pool(), dropout_layer(dropout), dense(num_classes)),
    )
    return from_file(net, pretrained, _mobilenet_names(), heads=["dense1"])


def _mobilenet_names() -> tuple[Table, Table]:
    """The names of torchvision and of timm: pairs of a convolution and its normalization, in order."""
    torchvision, timm = [("features.0.0", "features.0.1")], [("conv_stem", "bn1")]
    block = 0
    for stage, (factor, _, depth, _) in enumerate(_INVERTED):
        for k in range(depth):
            block += 1
            theirs, last = f"features.{block}.conv", 1 if factor == 1 else 2
            torchvision += [(f"{theirs}.{i}.0", f"{theirs}.{i}.1") for i in range(last)]
            torchvision.append((f"{theirs}.{last}", f"{theirs}.{last + 1}"))
            kinds = ("conv_dw", "conv_pw") if factor == 1 else ("conv_pw", "conv_dw", "conv_pwl")
            timm += [(f"blocks.{stage}.{k}.{kind}", f"blocks.{stage}.{k}.bn{i}") for i, kind in enumerate(kinds, 1)]
    torchvision.append((f"features.{block + 1}.0", f"features.{block + 1}.1"))
    timm.append(("conv_head", "bn2"))
    return _as_table(torchvision, "classifier.1"), _as_table(timm, "classifier")


def _as_table(pairs: list[tuple[str, str]], scores: str) -> Table:
    """The table of names for pairs of layers in order: those of a residual are numbered for themselves."""
    names, order = {"dense1": scores}, iter(pairs)
    outside, residuals = 0, 0
    inputs, counts = 32, [(1, "")]
    for factor, channels, depth, stride in _INVERTED:
        for k in range(depth):
            layers = 2 if factor == 1 else 3
            inside = inputs == channels and (k or stride == 1)
            residuals += bool(inside)
            counts.append((layers, f"residual{residuals}/body/" if inside else ""))
            inputs = channels
    for layers, place in [*counts, (1, "")]:
        for k in range(1, layers + 1):
            outside += not place
            number = k if place else outside
            names[f"{place}conv{number}"], names[f"{place}batch_norm{number}"] = next(order)
    return names


_INVERTED = (  # expansion, channels, repetitions, stride of the first
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _inverted(inputs: int, factor: int, channels: int, stride: int, relu6: Any) -> Layer:
    """An inverted residual: expand, convolve each channel, project; with a shortcut if sizes are equal."""
    inside = inputs * factor
    wider = (_normed(inside, 1), relu6) if factor > 1 else ()
    alone = _normed(inside, 3, stride=stride, padding=1, groups=inside)
    body = sequential(*wider, alone, relu6, _normed(channels, 1))
    return residual(body) if stride == 1 and inputs == channels else body
