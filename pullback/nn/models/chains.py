"""Networks that are one chain of layers: from LeNet to VGG."""

from __future__ import annotations

from pullback.nn.activations import relu, tanh
from pullback.nn.composition import sequential
from pullback.nn.layer import Layer
from pullback.nn.layers import conv, dense, flatten, local_response_norm, max_pool
from pullback.nn.layers.dropout import dropout as dropout_layer
from pullback.nn.models.pretrained import File, Table, from_file
from pullback.nn.models.widths import scaled

__all__ = ["alexnet", "alexnet_owt", "lenet", "lenet_tanh", "overfeat", "vgg11", "vgg13", "vgg16", "vgg19"]


def lenet(num_classes: int = 10, *, width_mult: float = 1.0) -> Layer:
    """LeNet in the variant of other frameworks (LeCun et al. 1998): 431,080 parameters, 28 × 28 digits.

    >>> from pullback import nn
    >>> nn.models.lenet().on("N 1 28 28").type.result
    'f32[N, 10]'
    """
    c = scaled(width_mult)
    return sequential(
        *(conv(c(20), 5), max_pool(2)),
        *(conv(c(50), 5), max_pool(2)),
        *(flatten(), dense(c(500)), relu, dense(num_classes)),
    )


def lenet_tanh(num_classes: int = 10, *, width_mult: float = 1.0) -> Layer:
    """LeNet with tanh after every layer but the last, as in Theano's tutorial; as large as `lenet`."""
    c = scaled(width_mult)
    return sequential(
        *(conv(c(20), 5), max_pool(2), tanh),
        *(conv(c(50), 5), max_pool(2), tanh),
        *(flatten(), dense(c(500)), tanh, dense(num_classes)),
    )


def alexnet(num_classes: int = 1000, *, groups: int = 2, width_mult: float = 1.0, dropout: float = 0.5) -> Layer:
    """AlexNet (Krizhevsky et al. 2012), for 227 × 227: 60,965,224 parameters.

    Args:
        num_classes: the number of classes.
        groups: 2 as in the paper, where two processors held half of the channels each, or 1.
        width_mult: the width of every layer relative to the paper's.
        dropout: the dropout rate before the dense layers.
    """
    c = scaled(width_mult)
    return sequential(
        *(conv(c(96), 11, stride=4), relu, local_response_norm(5), max_pool(3, 2)),
        *(conv(c(256), 5, padding=2, groups=groups), relu, local_response_norm(5), max_pool(3, 2)),
        *(conv(c(384), 3, padding=1), relu),
        *(conv(c(384), 3, padding=1, groups=groups), relu),
        *(conv(c(256), 3, padding=1, groups=groups), relu, max_pool(3, 2)),
        *_classifier(c(4096), c(4096), num_classes, dropout),
    )


def alexnet_owt(
    num_classes: int = 1000, *, width_mult: float = 1.0, dropout: float = 0.5, pretrained: File | None = None
) -> Layer:
    """AlexNet of one tower (Krizhevsky 2014), torchvision's, for 224 × 224: 61,100,840 parameters.

    Args:
        num_classes: the number of classes.
        width_mult: the width of every layer relative to the paper's.
        dropout: the dropout rate before the dense layers.
        pretrained: a file of weights as for `resnet18`, of torchvision's `alexnet`.
    """
    c = scaled(width_mult)
    net = sequential(
        *(conv(c(64), 11, stride=4, padding=2), relu, max_pool(3, 2)),
        *(conv(c(192), 5, padding=2), relu, max_pool(3, 2)),
        *(conv(c(384), 3, padding=1), relu),
        *(conv(c(256), 3, padding=1), relu),
        *(conv(c(256), 3, padding=1), relu, max_pool(3, 2)),
        *_classifier(c(4096), c(4096), num_classes, dropout),
    )
    theirs = [*(f"features.{k}" for k in (0, 3, 6, 8, 10)), *(f"classifier.{k}" for k in (1, 4, 6))]
    return from_file(net, pretrained, [_in_order(5, theirs)], heads=["dense3"])


def overfeat(num_classes: int = 1000, *, width_mult: float = 1.0, dropout: float = 0.5) -> Layer:
    """OverFeat, the fast model (Sermanet et al. 2013), for 231 × 231: 145,920,872 parameters."""
    c = scaled(width_mult)
    return sequential(
        *(conv(c(96), 11, stride=4), relu, max_pool(2)),
        *(conv(c(256), 5), relu, max_pool(2)),
        *(conv(c(512), 3, padding=1), relu),
        *(conv(c(1024), 3, padding=1), relu),
        *(conv(c(1024), 3, padding=1), relu, max_pool(2)),
        *_classifier(c(3072), c(4096), num_classes, dropout),
    )


def vgg11(
    num_classes: int = 1000, *, width_mult: float = 1.0, dropout: float = 0.5, pretrained: File | None = None
) -> Layer:
    """VGG with 11 layers (Simonyan and Zisserman 2014, A), for 224 × 224: 132,863,336 parameters.

    Args:
        num_classes: the number of classes.
        width_mult: the width of every layer relative to the paper's.
        dropout: the dropout rate before the dense layers.
        pretrained: a file of weights as for `resnet18`, of the model without batch normalization.
    """
    return _vgg((1, 1, 2, 2, 2), num_classes, width_mult, dropout, pretrained)


def vgg13(
    num_classes: int = 1000, *, width_mult: float = 1.0, dropout: float = 0.5, pretrained: File | None = None
) -> Layer:
    """VGG with 13 layers (Simonyan and Zisserman 2014, B), for 224 × 224: 133,047,848 parameters.

    Settings are those of `vgg11`.
    """
    return _vgg((2, 2, 2, 2, 2), num_classes, width_mult, dropout, pretrained)


def vgg16(
    num_classes: int = 1000, *, width_mult: float = 1.0, dropout: float = 0.5, pretrained: File | None = None
) -> Layer:
    """VGG with 16 layers (Simonyan and Zisserman 2014, D), for 224 × 224: 138,357,544 parameters.

    Settings are those of `vgg11`.
    """
    return _vgg((2, 2, 3, 3, 3), num_classes, width_mult, dropout, pretrained)


def vgg19(
    num_classes: int = 1000, *, width_mult: float = 1.0, dropout: float = 0.5, pretrained: File | None = None
) -> Layer:
    """VGG with 19 layers (Simonyan and Zisserman 2014, E), for 224 × 224: 143,667,240 parameters.

    Settings are those of `vgg11`.
    """
    return _vgg((2, 2, 4, 4, 4), num_classes, width_mult, dropout, pretrained)


def _vgg(
    depths: tuple[int, ...], num_classes: int, width_mult: float, dropout: float, pretrained: File | None
) -> Layer:
    c = scaled(width_mult)
    stages = [
        layer
        for channels, depth in zip((64, 128, 256, 512, 512), depths)
        for layer in (*(conv(c(channels), 3, padding=1), relu) * depth, max_pool(2))
    ]
    net = sequential(*stages, *_classifier(c(4096), c(4096), num_classes, dropout))
    places = [2 * sum(depths[:stage]) + stage + 2 * k for stage, depth in enumerate(depths) for k in range(depth)]
    dense_layers = ("classifier.0", "classifier.3", "classifier.6"), ("pre_logits.fc1", "pre_logits.fc2", "head.fc")
    tables = [_in_order(len(places), [*(f"features.{k}" for k in places), *own]) for own in dense_layers]
    return from_file(net, pretrained, tables, heads=["dense3"])


def _in_order(convolutions: int, theirs: list[str]) -> Table:
    """The names of a chain of convolutions and of dense layers after them."""
    ours = [f"conv{k + 1}" for k in range(convolutions)] + ["dense1", "dense2", "dense3"]
    return dict(zip(ours, theirs, strict=True))


def _classifier(first: int, second: int, num_classes: int, dropout: float) -> tuple[Layer, ...]:
    """Two dense layers with dropout, and the scores."""
    return sequential(
        flatten(),
        *(dropout_layer(dropout), dense(first), relu),
        *(dropout_layer(dropout), dense(second), relu),
        dense(num_classes),
    ).parts
