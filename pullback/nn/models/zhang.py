"""Zhang's convolutional network for handwritten digits (Zhang 2016), as Šinkarovs, Bernecky and Scholz (2019) write it.

    image  28 28
    c1     6 24 24       logistic of 6 convolutions with 5 × 5 windows
    s1     6 12 12       means of 2 × 2 blocks
    c2     12 1 8 8      logistic of 12 convolutions with 6 × 5 × 5 windows
    s2     12 1 4 4      means of 2 × 2 blocks
    y      10 1 1 1 1    logistic of 10 convolutions with 12 × 1 × 4 × 4 windows: a fully connected layer

The loss is half the squared distance to the one-hot array of the label; the parameters change after every image.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from jaxtyping import Float, UInt8

import pullback as pb
from pullback import Array
from pullback.nn.blocks import average_pool, convolution, half_squared_error
from pullback.nn.network import Network

__all__ = ["NETWORK", "Layers", "Parameters", "Training", "layers", "loss", "recognise", "train"]


class Parameters(NamedTuple):
    """Windows and biases of the three layers."""

    k1: Float[Array, "6 5 5"]
    b1: Float[Array, "6"]
    k2: Float[Array, "12 6 5 5"]
    b2: Float[Array, "12"]
    fc: Float[Array, "10 12 1 4 4"]
    b: Float[Array, "10"]


class Layers(NamedTuple):
    """What each layer computes for one image."""

    c1: Float[Array, "6 24 24"]
    s1: Float[Array, "6 12 12"]
    c2: Float[Array, "12 1 8 8"]
    s2: Float[Array, "12 1 4 4"]
    y: Float[Array, "10 1 1 1 1"]


class Training(NamedTuple):
    """What training carries from image to image: the parameters and the sum of the losses."""

    parameters: Parameters
    loss: Float[Array, ""]


@pb.function
def layers(parameters: Parameters, image: Float[Array, "28 28"]) -> Layers:
    """All layers for one image."""
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
    """One pass over the images in their order, with an update after each."""

    def step(state: Training, n: Any) -> Training:
        value, gradient = pb.value_and_grad(loss, wrt="parameters")(state.parameters, images[n], labels[n])
        after = pb.tree_map(lambda p, g: p - rate * g, state.parameters, gradient)
        return Training(after, state.loss + value)

    trained: Training = pb.fold(images.shape[0], state, step)
    return trained


@pb.function
def recognise(parameters: Parameters, images: Float[Array, "N 28 28"]) -> Any:
    """The most likely digit of each image."""

    def one(none: None, n: Any) -> tuple[None, Any]:
        y = layers(parameters, images[n]).y
        return none, pb.argmax_over(10, lambda k: y[k, 0, 0, 0, 0])

    return pb.scan(images.shape[0], None, one)[1]


def _train(state: Training, images: Any, labels: Any, rate: Any, *, out: Training) -> Training:
    """Batches of one image need no sums over the batch; what larger ones need is traced when they occur."""
    if labels.shape[1] == 1:
        return cast(Training, train(state, images[:, 0], labels[:, 0], rate, out=out))
    from pullback.nn.models.zhang_batches import train_batches

    return cast(Training, train_batches(state, images, labels, rate, out=out))


NETWORK = Network(
    name="zhang",
    parameters=Parameters,
    shapes={"k1": (6, 5, 5), "b1": (6,), "k2": (12, 6, 5, 5), "b2": (12,), "fc": (10, 12, 1, 4, 4), "b": (10,)},
    fans={"k1": (25, 150), "k2": (150, 300), "fc": (192, 10)},
    image=(28, 28),
    train=_train,
    recognise=recognise,
    state=Training,
    batch=1,
    rate=0.5,
    chunk=1000,
    images_per_call=1000,
)
