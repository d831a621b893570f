"""Residual networks: ResNet, and MobileNet with inverted residuals."""

from __future__ import annotations

from typing import Any

from pullback.nn.activations import clipped_relu, relu
from pullback.nn.layer import Layer, residual, sequential
from pullback.nn.layers import batch_norm, conv, dense, global_avg_pool, max_pool
from pullback.nn.layers.dropout import dropout as dropout_layer
from pullback.nn.models.widths import scaled

__all__ = ["mobilenet_v2", "resnet18", "resnet50"]


def resnet18(num_classes: int = 1000, *, width_mult: float = 1.0) -> Layer:
    """ResNet with 18 layers (He et al. 2015), for 224 × 224: 11,689,512 parameters."""
    return _resnet(_basic, 1, (2, 2, 2, 2), num_classes, width_mult)


def resnet50(num_classes: int = 1000, *, width_mult: float = 1.0) -> Layer:
    """ResNet with 50 layers (He et al. 2015), for 224 × 224: 25,557,032 parameters.

    Strides are in the 3 × 3 convolutions, as in other frameworks.

    >>> from pullback import nn
    >>> nn.models.resnet50(10).on("N 3 64 64").type.result
    'f32[N, 10]'
    """
    return _resnet(_bottleneck, 4, (3, 4, 6, 3), num_classes, width_mult)


def _resnet(block: Any, factor: int, depths: tuple[int, ...], num_classes: int, width_mult: float) -> Layer:
    c = scaled(width_mult)
    stem = sequential(_normed(c(64), 7, stride=2, padding=3), relu, max_pool(3, 2, padding=1))
    blocks, inputs = [], c(64)
    for stage, (channels, depth) in enumerate(zip((64, 128, 256, 512), depths)):
        for k in range(depth):
            stride, result = 2 if stage and k == 0 else 1, factor * c(channels)
            shortcut = _normed(result, 1, stride=stride) if stride > 1 or result != inputs else None
            blocks += [residual(block(c(channels), stride), shortcut=shortcut), relu]
            inputs = result
    return sequential(stem, *blocks, global_avg_pool(), dense(num_classes))


def _basic(channels: int, stride: int) -> Layer:
    return sequential(_normed(channels, 3, stride=stride, padding=1), relu, _normed(channels, 3, padding=1))


def _bottleneck(channels: int, stride: int) -> Layer:
    middle = _normed(channels, 3, stride=stride, padding=1)
    return sequential(_normed(channels, 1), relu, middle, relu, _normed(4 * channels, 1))


def _normed(out_channels: int, kernel_size: int, **settings: Any) -> Layer:
    return sequential(conv(out_channels, kernel_size, bias=False, **settings), batch_norm())


def mobilenet_v2(num_classes: int = 1000, *, width_mult: float = 1.0, dropout: float = 0.2) -> Layer:
    """MobileNet, second version (Sandler et al. 2018), for 224 × 224: 3,504,872 parameters."""
    c, relu6 = scaled(width_mult), clipped_relu(6.0)
    blocks, inputs = [], c(32)
    for factor, channels, depth, stride in _INVERTED:
        for k in range(depth):
            blocks.append(_inverted(inputs, factor, c(channels), 1 if k else stride, relu6))
            inputs = c(channels)
    return sequential(
        *(_normed(c(32), 3, stride=2, padding=1), relu6),
        *blocks,
        *(_normed(c(1280), 1), relu6, global_avg_pool(), dropout_layer(dropout), dense(num_classes)),
    )


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
