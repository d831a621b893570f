"""Zhang's convolutional network for handwritten digits (Zhang 2016), as in Šinkarovs et al. (2019).

    image  28 28
    c1     6 24 24       logistic of 6 convolutions with 5 × 5 windows
    s1     6 12 12       means of 2 × 2 blocks
    c2     12 1 8 8      logistic of 12 convolutions with 6 × 5 × 5 windows
    s2     12 1 4 4      means of 2 × 2 blocks
    y      10 1 1 1 1    logistic of 10 convolutions with 12 × 1 × 4 × 4 windows: a fully connected layer

The loss is half the squared distance to the one-hot array of the label; the parameters change after every image.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, UInt8
from numpy.typing import DTypeLike

import pullback as pb
from pullback import Array
from pullback.nn.blocks import average_pool, convolution, half_squared_error
from pullback.nn.models.recipes import Kind, Recipe, started
from pullback.nn.optimizers import sgd

__all__ = ["RECIPE", "Layers", "Parameters", "Training", "layers", "loss", "recognize", "start", "train"]


class Parameters(NamedTuple):
    """Windows and biases of the three layers."""

    k1: Float[Array, "6 5 5"]
    b1: Float[Array, "6"]
    k2: Float[Array, "12 6 5 5"]
    b2: Float[Array, "12"]
    fc: Float[Array, "10 12 1 4 4"]
    b: Float[Array, "10"]


class Layers(NamedTuple):
    """The results of all layers for one image."""

    c1: Float[Array, "6 24 24"]
    s1: Float[Array, "6 12 12"]
    c2: Float[Array, "12 1 8 8"]
    s2: Float[Array, "12 1 4 4"]
    y: Float[Array, "10 1 1 1 1"]


class Training(NamedTuple):
    """The state that training carries between images: the parameters and the sum of the losses."""

    parameters: Parameters
    loss: Float[Array, ""]


@pb.function
def layers(parameters: Parameters, image: Float[Array, "28 28"]) -> Layers:
    """The results of all layers for one image."""
    k1, b1, k2, b2, fc, b = parameters
    c1 = pb.logistic(convolution(image, k1, b1))
    s1 = average_pool(c1)
    c2 = pb.logistic(convolution(s1, k2, b2))
    s2 = average_pool(c2)
    y = pb.logistic(convolution(s2, fc, b))
    return Layers(c1, s1, c2, s2, y)


@pb.function
def loss(parameters: Parameters, image: Float[Array, "28 28"], label: UInt8[Array, ""]) -> Float[Array, ""]:
    """Half the squared error of one image."""
    return half_squared_error(layers(parameters, image).y, label)


@pb.function(donate=("state",))
def train(
    state: Training, images: Float[Array, "N 28 28"], labels: UInt8[Array, "N"], rate: Float[Array, ""]
) -> Training:
    """Run one pass over the images in order, with an update after each."""

    def step(state: Training, n: Any) -> Training:
        value, gradient = pb.value_and_grad(loss, wrt="parameters")(state.parameters, images[n], labels[n])
        after = pb.tree_map(lambda p, g: p - rate * g, state.parameters, gradient)
        return Training(after, state.loss + value)

    trained: Training = pb.fold(images.shape[0], state, step)
    return trained


@pb.function
def recognize(parameters: Parameters, images: Float[Array, "N 28 28"]) -> Any:
    """The most likely digit of each image."""

    def one(none: None, n: Any) -> tuple[None, Any]:
        y = layers(parameters, images[n]).y
        return none, pb.argmax_over(10, lambda k: y[k, 0, 0, 0, 0])

    return pb.scan(images.shape[0], None, one)[1]


def start(kind: Kind = "uniform", *, seed: int = 0, dtype: DTypeLike = np.float32) -> Any:
    """The initial parameters (`recipes.started`)."""
    return started(Parameters, SHAPES, FANS, kind, seed, dtype)


def batch_loss(parameters: Parameters, state: Any, batch: Any) -> Any:
    """The mean loss of a batch of images and labels."""
    images, labels = batch
    count = labels.shape[0]
    return pb.sum_over(count, lambda n: loss(parameters, images[n], labels[n])) / count


def accuracy(parameters: Parameters, state: Any, batch: Any) -> Any:
    """The fraction of a batch that is recognized; beside the loss it needs no layers of its own."""
    images, labels = batch

    def right(n: Any) -> Any:
        y = layers(parameters, images[n]).y
        return pb.where(pb.argmax_over(10, lambda k: y[k, 0, 0, 0, 0]) == labels[n], 1.0, 0.0)

    return pb.sum_over(labels.shape[0], right) / labels.shape[0]


SHAPES = {"k1": (6, 5, 5), "b1": (6,), "k2": (12, 6, 5, 5), "b2": (12,), "fc": (10, 12, 1, 4, 4), "b": (10,)}
FANS = {"k1": (25, 150), "k2": (150, 300), "fc": (192, 10)}  # fan in and fan out; other arrays are biases
RECIPE = Recipe("zhang", batch_loss, (accuracy,), start, sgd, 0.5, 1, 10, (28, 28), 10)
