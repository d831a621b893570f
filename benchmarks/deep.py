"""The case `compile`: make and compile a deep network of convolutions and normalizations afresh.

    images          8 3 32 32
    blocks 1 … 17   8 16 32 32
    … 33            8 32 16 16    the first of them takes steps of two
    … 50            8 64 8 8      again
    scores          8 10          means over the image, then fully connected

Run as a program, this module is one process: `python -m benchmarks.deep BLOCKS`. It makes one step of stochastic
gradient descent and prints the loss and the seconds from the definition to the first result, imports apart.
"""

from __future__ import annotations

import sys
import time
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32, UInt8

import pullback as pb
from pullback import Array
from pullback.nn.activations import log_softmax

__all__ = ["Block", "DeepNetwork", "deep_inputs", "deep_network", "main"]

BATCH, CLASSES, SIDE = 8, 10, 32
EPSILON = 1e-5


class Block(NamedTuple):
    """Windows, and scale and shift of every channel after it is normalized."""

    windows: Any
    scale: Any
    shift: Any


class DeepNetwork(NamedTuple):
    """Every parameter."""

    blocks: tuple[Block, ...]
    weights: Any
    bias: Any


def widths(count: int) -> list[tuple[int, int, int]]:
    """Channels in, channels out and step of every block."""
    out = []
    before = 3
    for k in range(count):
        channels = 16 << (3 * k // count)
        out.append((before, channels, 2 if k and channels != before else 1))
        before = channels
    return out


def block(x: Array, p: Block, step: int) -> Array:
    """Convolve 3 × 3 with zero borders, normalize channels over batch and space, apply relu."""
    count, inputs, height, width = x.shape
    channels = p.windows.shape[0]
    h, w = height // step, width // step
    c = pb.build(
        (count, channels, h, w),
        lambda n, o, i, j: pb.sum_over(
            (inputs, 3, 3), lambda a, u, v: x.at(n, a, step * i + u - 1, step * j + v - 1) * p.windows[o, a, u, v]
        ),
    )
    size = count * h * w
    space = (count, h, w)
    mean = pb.build(channels, lambda o: pb.sum_over(space, lambda n, i, j: c[n, o, i, j]) / size)
    variance = pb.build(channels, lambda o: pb.sum_over(space, lambda n, i, j: (c[n, o, i, j] - mean[o]) ** 2) / size)
    scale = pb.build(channels, lambda o: p.scale[o] / pb.sqrt(variance[o] + EPSILON))
    y: Array = pb.build(
        (count, channels, h, w),
        lambda n, o, i, j: pb.maximum((c[n, o, i, j] - mean[o]) * scale[o] + p.shift[o], 0),
    )
    return y


def deep_network(count: int = 50) -> tuple[pb.Function, pb.Function]:
    """The loss of a network of `count` blocks, and a step of gradient descent."""
    steps = [step for _, _, step in widths(count)]

    @pb.function
    def loss(network: Any, images: Float32[Array, "N 3 H W"], labels: UInt8[Array, "N"]) -> Float32[Array, ""]:
        x = images
        for p, step in zip(network.blocks, steps):
            x = block(x, p, step)
        number, channels, height, width = x.shape
        means = pb.build(
            (number, channels),
            lambda n, a: pb.sum_over((height, width), lambda i, j: x[n, a, i, j]) / (height * width),
        )
        scores = pb.build(
            (number, CLASSES),
            lambda n, k: network.bias[k] + pb.sum_over(channels, lambda a: network.weights[k, a] * means[n, a]),
        )
        likely = log_softmax(scores)
        found: Array = -pb.sum_over(number, lambda n: pb.sum_over(
            CLASSES, lambda k: pb.where(k == labels[n], likely[n, k], 0))) / number
        return found

    @pb.function
    def step(
        network: Any, images: Float32[Array, "N 3 H W"], labels: UInt8[Array, "N"], rate: Float32[Array, ""]
    ) -> Any:
        value, g = pb.value_and_grad(loss, wrt="network")(network, images, labels)
        blocks = tuple(
            Block(*(p - rate * d for p, d in zip(b, e))) for b, e in zip(network.blocks, g.blocks, strict=True)
        )
        return DeepNetwork(blocks, network.weights - rate * g.weights, network.bias - rate * g.bias), value

    return loss, step


def deep_inputs(count: int = 50) -> tuple[DeepNetwork, Any, Any, Any]:
    """Parameters of `count` blocks, images, labels and a rate."""
    random = np.random.default_rng(0)

    def normal(*shape: int, fan: int) -> Any:
        return (random.standard_normal(shape) * np.sqrt(2 / fan)).astype(np.float32)

    blocks = tuple(
        Block(normal(o, i, 3, 3, fan=9 * i), np.ones(o, np.float32), np.zeros(o, np.float32))
        for i, o, _ in widths(count)
    )
    last = widths(count)[-1][1]
    network = DeepNetwork(blocks, normal(CLASSES, last, fan=last), np.zeros(CLASSES, np.float32))
    images = random.standard_normal((BATCH, 3, SIDE, SIDE)).astype(np.float32)
    return network, images, random.integers(0, CLASSES, BATCH).astype(np.uint8), np.float32(0.1)


def main(arguments: list[str]) -> None:
    """One step of descent from scratch."""
    count = int(arguments[0]) if arguments else 50
    inputs = deep_inputs(count)
    start = time.perf_counter()
    _, step = deep_network(count)
    _, value = step(*inputs)
    print(f"{value} {time.perf_counter() - start:.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
