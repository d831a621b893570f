"""Networks for images beside those of the classification papers: U-Net and a vision transformer."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback import Array
from pullback.errors import ShapeError
from pullback.nn.activations import relu
from pullback.nn.composition import sequential
from pullback.nn.layer import Layer, layer
from pullback.nn.layers import conv, conv_transpose, dense, layer_norm, max_pool, positional_encoding, transformer_block
from pullback.nn.layers.checks import check_count
from pullback.nn.layers.dropout import dropout as dropout_layer
from pullback.nn.layers.windows import number
from pullback.nn.scope import Scope
from pullback.tracing.array import type_text

__all__ = ["unet", "vit"]


def _unet_takes(out_channels: int = 1, *, base_channels: int = 16, depth: int = 2) -> str:
    check_count("unet", out_channels=out_channels, base_channels=base_channels, depth=depth)
    return f"N C {2**depth}*H {2**depth}*W"


@layer(_unet_takes, accepts="N C H W")
def unet(scope: Scope, x: Any, out_channels: int = 1, *, base_channels: int = 16, depth: int = 2) -> Array:
    """U-Net: scores for every pixel, from features of several resolutions (Ronneberger et al. 2015).

    Convolutions keep the size of the image, unlike the paper's.

    Args:
        scope: provides the parameters of down1, down2, …, bottom, up1, up2, …, and out.
        x: (N, C, H, W), with sizes that are multiples of 2 to the power `depth`.
        out_channels: the number of scores of a pixel.
        base_channels: the number of channels at full resolution; each halving of the image doubles it.
        depth: the number of halvings.
    Returns:
        (N, out_channels, H, W).
    Raises:
        ShapeError: [E162] a size of the image is no such multiple.

    >>> from pullback import nn
    >>> nn.models.unet(2).on("N 1 32 48").type.result
    'f32[N, 2, 32, 48]'
    """
    if any(number(size % 2**depth) for size in x.shape[2:]):
        raise ShapeError("E162", f"unet: an image of {type_text(x)} cannot be halved {depth} times",
                         remedy=f"sizes that are multiples of {2**depth}")  # fmt: skip
    passed = []
    for level in range(depth):
        passed.append(scope.call(_twice(base_channels * 2**level), x, f"down{level + 1}"))
        x = scope.call(max_pool(2), passed[-1])
    x = scope.call(_twice(base_channels * 2**depth), x, "bottom")
    for level in reversed(range(depth)):
        channels = base_channels * 2**level
        x = scope.call(conv_transpose(channels, 2, stride=2), x, f"wider{level + 1}")
        x = scope.call(_twice(channels), pb.concat([passed[level], x], axis=1), f"up{level + 1}")
    y: Array = scope.call(conv(out_channels, 1), x, "out")
    return y


def _twice(channels: int) -> Layer:
    return sequential(*(conv(channels, 3, padding=1), relu) * 2)


def vit(
    num_classes: int,
    *,
    patch_size: int = 4,
    embed_dim: int = 64,
    num_heads: int = 4,
    num_layers: int = 4,
    dropout: float = 0.0,
) -> Layer:
    """Vision transformer (Dosovitskiy et al. 2021) with the mean of all patches (Beyer et al. 2022).

    Args:
        num_classes: the number of classes.
        patch_size: the height and width of a patch; rows and columns that make no whole patch are left out.
        embed_dim: the number of features of each patch.
        num_heads: the number of attention heads.
        num_layers: the number of blocks.
        dropout: the dropout rate in training.

    >>> from pullback import nn
    >>> nn.models.vit(10).on("N 1 28 28").type.result
    'f32[N, 10]'
    """
    dropped = (dropout_layer(dropout),) if dropout else ()
    return sequential(
        *(conv(embed_dim, patch_size, stride=patch_size), tokens),
        *(positional_encoding("learned"), *dropped),
        *(transformer_block(num_heads, dropout=dropout) for _ in range(num_layers)),
        *(layer_norm(), mean_of_tokens, dense(num_classes)),
    )


def tokens(x: Any) -> Array:
    """Patches (N, M, H, W) as a sequence (N, H W, M)."""
    n, features, height, width = x.shape
    y: Array = pb.permute_dims(pb.reshape(x, (n, features, height * width)), (0, 2, 1))
    return y


def mean_of_tokens(x: Any) -> Array:
    """The mean of a sequence (N, L, M)."""
    y: Array = pb.mean(x, axis=1)
    return y
