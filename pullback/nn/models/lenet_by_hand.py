"""LeNet in the variant of other frameworks, written by hand, on batches.

    images  N 28 28
    c1      N 20 24 24    20 convolutions with 5 × 5 windows
    s1      N 20 12 12    largest of 2 × 2 blocks
    c2      N 50 8 8      50 convolutions with 20 × 5 × 5 windows
    s2      N 50 4 4      largest of 2 × 2 blocks
    h       N 500         fully connected, negative values cut off
    z       N 10          fully connected: the scores

The loss is the mean over the batch of the negative log-softmax at the label.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, UInt8
from numpy.typing import DTypeLike

import pullback as pb
from pullback import Array
from pullback.data import random_crop
from pullback.nn.activations import log_softmax
from pullback.nn.blocks import max_pool
from pullback.nn.models.recipes import Kind, Recipe, started
from pullback.nn.optimizers import sgd

__all__ = ["RECIPE", "Parameters", "Training", "loss", "recognize", "scores", "start", "train"]


class Parameters(NamedTuple):
    """Windows, weights and biases of the four layers."""

    k1: Float[Array, "20 5 5"]
    b1: Float[Array, "20"]
    k2: Float[Array, "50 20 5 5"]
    b2: Float[Array, "50"]
    w3: Float[Array, "500 50 4 4"]
    b3: Float[Array, "500"]
    w4: Float[Array, "10 500"]
    b4: Float[Array, "10"]


class Training(NamedTuple):
    """The state that training carries between batches: the parameters and the sum of the losses."""

    parameters: Parameters
    loss: Float[Array, ""]


@pb.function
def scores(parameters: Parameters, images: Float[Array, "N 28 28"]) -> Float[Array, "N 10"]:
    """A score for every class of every image."""
    k1, b1, k2, b2, w3, b3, w4, b4 = parameters
    count = images.shape[0]
    c1 = pb.build(
        (count, 20, 24, 24),
        lambda n, o, i, j: b1[o] + pb.sum_over((5, 5), lambda p, q: images[n, i + p, j + q] * k1[o, p, q]),
    )
    s1 = max_pool(c1)
    c2 = pb.build(
        (count, 50, 8, 8),
        lambda n, o, i, j: b2[o] + pb.sum_over((20, 5, 5), lambda c, p, q: s1[n, c, i + p, j + q] * k2[o, c, p, q]),
    )
    s2 = max_pool(c2)
    a3 = pb.build(
        (count, 500),
        lambda n, o: b3[o] + pb.sum_over((50, 4, 4), lambda c, i, j: s2[n, c, i, j] * w3[o, c, i, j]),
    )
    h = pb.build((count, 500), lambda n, o: pb.where(a3[n, o] > 0, a3[n, o], 0))
    z: Array = pb.build((count, 10), lambda n, k: b4[k] + pb.sum_over(500, lambda o: h[n, o] * w4[k, o]))
    return z


@pb.function
def loss(parameters: Parameters, images: Float[Array, "N 28 28"], labels: UInt8[Array, "N"]) -> Float[Array, ""]:
    """Mean negative log-likelihood of the labels."""
    count = images.shape[0]
    likely = log_softmax(scores(parameters, images))
    total = pb.sum_over((count, 10), lambda n, k: pb.where(k == labels[n], likely[n, k], 0))
    mean: Array = -total / count
    return mean


@pb.function(donate=("state",))
def train(
    state: Training, images: Float[Array, "S B 28 28"], labels: UInt8[Array, "S B"], rate: Float[Array, ""]
) -> Training:
    """Run one pass over S batches in order, with an update after each."""
    steps, batch = labels.shape

    def step(state: Training, s: Any) -> Training:
        value, gradient = pb.value_and_grad(loss, wrt="parameters")(state.parameters, images[s], labels[s])
        after = pb.tree_map(lambda p, g: p - rate * g, state.parameters, gradient)
        return Training(after, state.loss + value * batch)

    trained: Training = pb.fold(steps, state, step)
    return trained


@pb.function
def recognize(parameters: Parameters, images: Float[Array, "N 28 28"]) -> Any:
    """The most likely digit of each image."""
    z = scores(parameters, images)
    return pb.build(images.shape[0], lambda n: pb.argmax_over(10, lambda k: z[n, k]))


def start(kind: Kind = "uniform", *, seed: int = 0, dtype: DTypeLike = np.float32) -> Any:
    """The initial parameters (`recipes.started`)."""
    return started(Parameters, SHAPES, FANS, kind, seed, dtype)


def batch_loss(parameters: Parameters, state: Any, batch: Any) -> Any:
    """The mean loss of a batch of images and labels."""
    return loss(parameters, *batch)


def accuracy(parameters: Parameters, state: Any, batch: Any) -> Any:
    """The fraction of a batch that is recognized."""
    images, labels = batch
    return pb.mean(pb.where(recognize(parameters, images) == labels, 1.0, 0.0))


SHAPES = {
    "k1": (20, 5, 5), "b1": (20,), "k2": (50, 20, 5, 5), "b2": (50,), "w3": (500, 50, 4, 4), "b3": (500,),
    "w4": (10, 500), "b4": (10,),
}  # fmt: skip
FANS = {"k1": (25, 500), "k2": (500, 1250), "w3": (800, 500), "w4": (500, 10)}  # in and out
SHIFTED = (random_crop(28, padding=2),)  # by up to two pixels, because writers place their digits differently
RECIPE = Recipe("lenet", batch_loss, (accuracy,), start, sgd, 0.1, 64, 20, (28, 28), 10, SHIFTED)
