"""GoogLeNet: convolutions of several sizes in parallel, and two auxiliary classifiers for training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.nn.activations import relu
from pullback.nn.composition import branches, sequential
from pullback.nn.layer import Layer, layer
from pullback.nn.layers import (
    avg_pool,
    batch_norm,
    conv,
    dense,
    flatten,
    global_avg_pool,
    local_response_norm,
    max_pool,
)
from pullback.nn.layers.dropout import dropout as dropout_layer
from pullback.nn.models.pretrained import File, Table, from_file
from pullback.nn.models.widths import scaled
from pullback.nn.scope import Scope

__all__ = ["googlenet", "googlenet_bn", "with_auxiliary"]


@layer("N C H W")
def googlenet(
    scope: Scope,
    x: Any,
    num_classes: int = 1000,
    *,
    aux_logits: bool = True,
    width_mult: float = 1.0,
    dropout: tuple[float, float] = (0.4, 0.7),
) -> Any:
    """GoogLeNet for 224 × 224 (Szegedy et al. 2014): 6,998,552 parameters, 13,378,280 with auxiliaries.

    Args:
        scope: provides the parameters.
        x: (N, C, H, W); H and W at least 80 with auxiliary classifiers.
        num_classes: the number of classes.
        aux_logits: whether to use the auxiliary classifiers in training.
        width_mult: the width of every layer relative to the paper's.
        dropout: the dropout rates before the scores, and in the auxiliary classifiers.
    Returns:
        Scores (N, num_classes). In training with `aux_logits`, a tuple with the auxiliary scores, for which the loss is
        `with_auxiliary(nn.cross_entropy)`.

    >>> from pullback import nn
    >>> nn.models.googlenet(10).on("N 3 224 224").type.result
    '(f32[N, 10], f32[N, 10], f32[N, 10])'
    """
    c, pool, normed = scaled(width_mult), max_pool(3, 2, ceil_mode=True), local_response_norm(5)
    x = scope.call(sequential(conv(c(64), 7, stride=2, padding=3), relu, pool, normed), x, "stem1")
    x = scope.call(sequential(conv(c(64), 1), relu, conv(c(192), 3, padding=1), relu, normed, pool), x, "stem2")
    others: list[Any] = []
    for name, sizes in INCEPTIONS.items():
        if name in ("4a", "5a"):
            x = scope.call(pool, x)
        x = scope.call(inception(*map(c, sizes)), x, f"inception_{name}")
        if name in ("4a", "4d") and aux_logits and scope.training:
            classifier = _auxiliary(c(128), c(1024), num_classes, dropout[1])
            others.append(scope.call(classifier, x, f"auxiliary{len(others) + 1}"))
    y = scope.call(sequential(global_avg_pool(), dropout_layer(dropout[0]), dense(num_classes)), x, "classifier")
    return (y, *others) if others else y


INCEPTIONS = {  # channels: 1 × 1; reduction for 3 × 3, 3 × 3; reduction for 5 × 5, 5 × 5; after the pool
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


def inception(one: int, before_three: int, three: int, before_five: int, five: int, pooled: int) -> Layer:
    """Inception block: convolutions of sizes 1, 3 and 5 and a pool in parallel, with given channels."""
    return branches(
        sequential(conv(one, 1), relu),
        sequential(conv(before_three, 1), relu, conv(three, 3, padding=1), relu),
        sequential(conv(before_five, 1), relu, conv(five, 5, padding=2), relu),
        sequential(max_pool(3, 1, padding=1), conv(pooled, 1), relu),
    )


def _auxiliary(channels: int, units: int, num_classes: int, dropout: float) -> Layer:
    return sequential(
        *(avg_pool(5, 3), conv(channels, 1), relu, flatten()),
        *(dense(units), relu, dropout_layer(dropout), dense(num_classes)),
    )


def googlenet_bn(
    num_classes: int = 1000, *, width_mult: float = 1.0, dropout: float = 0.2, pretrained: File | None = None
) -> Layer:
    """GoogLeNet with batch normalization, torchvision's, for 224 × 224: 6,624,904 parameters.

    Convolutions are followed by batch normalization (Ioffe and Szegedy 2015), those of 5 × 5 are 3 × 3, and there are
    no auxiliary classifiers. torchvision's published weights are for images from -1 to 1.

    Args:
        num_classes: the number of classes.
        width_mult: the width of every layer relative to the paper's.
        dropout: the dropout rate before the scores.
        pretrained: a file of weights as for `resnet18`, of torchvision's `googlenet`.

    >>> from pullback import nn
    >>> nn.models.googlenet_bn(10).on("N 3 224 224").type.result
    'f32[N, 10]'
    """
    c, pool = scaled(width_mult), max_pool(3, 2, ceil_mode=True)
    layers = [
        *(_normed(c(64), 7, stride=2, padding=3).named("conv1"), pool),
        *(_normed(c(64), 1).named("conv2"), _normed(c(192), 3, padding=1).named("conv3"), pool),
    ]
    for name, sizes in INCEPTIONS.items():
        before = {"4a": (pool,), "5a": (max_pool(2, 2, ceil_mode=True),)}.get(name, ())
        layers += [*before, _normed_inception(*map(c, sizes)).named(f"inception{name}")]
    net = sequential(*layers, global_avg_pool(), dropout_layer(dropout), dense(num_classes))
    return from_file(net, pretrained, [_names()], heads=["dense1"], ignore=("aux1.", "aux2."))


def _normed(channels: int, kernel_size: int, **settings: Any) -> Layer:
    return sequential(conv(channels, kernel_size, bias=False, **settings), batch_norm(eps=1e-3), relu)


def _normed_inception(one: int, before_three: int, three: int, before_five: int, five: int, pooled: int) -> Layer:
    return branches(
        _normed(one, 1),
        sequential(_normed(before_three, 1), _normed(three, 3, padding=1)),
        sequential(_normed(before_five, 1), _normed(five, 3, padding=1)),
        sequential(max_pool(3, 1, padding=1, ceil_mode=True), _normed(pooled, 1)),
    )


def _names() -> Table:
    """The names of torchvision."""
    inside = ((1, 1, ""), (2, 1, ".0"), (2, 2, ".1"), (3, 1, ".0"), (3, 2, ".1"), (4, 1, ".1"))
    names = {"dense1": "fc"}
    for name in ("conv1", "conv2", "conv3"):
        names |= {f"{name}/conv1": f"{name}.conv", f"{name}/batch_norm1": f"{name}.bn"}
    for block in INCEPTIONS:
        for branch, k, part in inside:
            ours, theirs = f"inception{block}/sequential{branch}", f"inception{block}.branch{branch}{part}"
            names |= {f"{ours}/conv{k}": f"{theirs}.conv", f"{ours}/batch_norm{k}": f"{theirs}.bn"}
    return names


def with_auxiliary(loss: Callable[[Any, Any], Any], weight: float = 0.3) -> Callable[[Any, Any], Any]:
    """Return the loss of a network with auxiliary classifiers: the weighted auxiliary losses are added.

    Args:
        loss: the loss function of scores and a target.
        weight: the weight of each auxiliary loss.
    """

    def total(y: Any, target: Any) -> Any:
        if not isinstance(y, tuple):
            return loss(y, target)
        return loss(y[0], target) + weight * sum(loss(other, target) for other in y[1:])

    return total
