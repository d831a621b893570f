"""The whole programs of the benchmarks: what goes into each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CASES", "Arrays", "ProgramCase"]

Arrays = tuple[NDArray[Any], ...]


@dataclass(frozen=True)
class ProgramCase:
    """One row of the table.

    Attributes:
        name: as on the command line.   title: what is computed, for the table.
        inputs: gives the inputs; those differentiated by come first.
        parameters: how many of the inputs these are.
    """

    name: str
    title: str
    inputs: Callable[[np.random.Generator], Arrays]
    parameters: int

    def make(self) -> Arrays:
        """The inputs, the same in every process."""
        made = self.inputs(np.random.default_rng(len(self.name)))
        return tuple(a if a.dtype.kind in "iu" else a.astype(np.float32) for a in made)


def _weights(random: np.random.Generator, *shape: int) -> NDArray[Any]:
    made: NDArray[Any] = random.normal(size=shape) / np.sqrt(np.prod(shape[1:]))
    return made


def _labels(random: np.random.Generator, count: int) -> NDArray[Any]:
    return random.integers(0, 10, count).astype(np.uint8)


def _regression(random: np.random.Generator) -> Arrays:
    return _weights(random, 10, 784), np.zeros(10), random.random((500, 784)), _labels(random, 500)


def _factorization(random: np.random.Generator) -> Arrays:
    return 0.5 + random.random((1000, 20)), 0.5 + random.random((20, 1000)), 0.5 + random.random((1000, 1000))


def _perceptron(random: np.random.Generator) -> Arrays:
    sizes = (784, 512, 512, 10)
    layers = [a for n, m in pairwise(sizes) for a in (_weights(random, m, n), np.zeros(m))]
    return *layers, random.random((128, 784)), _labels(random, 128)


def _mixture(random: np.random.Generator) -> Arrays:
    n, d, k = 1000, 10, 25
    return (
        random.normal(size=k), random.normal(size=(k, d)), 0.3 * random.normal(size=(k, d)),
        random.normal(size=(n, d)),
    )  # fmt: skip


def _recurrent(random: np.random.Generator) -> Arrays:
    steps, batch, inputs, hidden = 20, 16, 64, 128
    return (
        _weights(random, 4, hidden, inputs), _weights(random, 4, hidden, hidden), np.zeros((4, hidden)),
        random.normal(size=(steps, batch, inputs)),
    )  # fmt: skip


def _pooling(random: np.random.Generator) -> Arrays:
    return random.normal(size=(64, 20, 24, 24)), random.normal(size=(64, 20, 12, 12))


def _lenet(batch: int) -> Callable[[np.random.Generator], Arrays]:
    def inputs(random: np.random.Generator) -> Arrays:
        shapes = ((20, 5, 5), (50, 20, 5, 5), (500, 50, 4, 4), (10, 500))
        layers = [a for s in shapes for a in (_weights(random, *s), np.zeros(s[0]))]
        return *layers, random.random((batch, 28, 28)), _labels(random, batch)

    return inputs


CASES = (
    ProgramCase("softmax-regression", "softmax regression, 784 to 10, 500 images", _regression, 2),
    ProgramCase("nnmf-20", "factorization of 1000 × 1000, rank 20", _factorization, 2),
    ProgramCase("mlp", "perceptron 784-512-512-10, batch 128", _perceptron, 6),
    ProgramCase("log-sum-exp", "log-sum-exp of a million", lambda r: (3 * r.normal(size=10**6),), 1),
    ProgramCase("mixture", "Gaussian mixture, n 1000, d 10, k 25", _mixture, 3),
    ProgramCase("lstm", "LSTM over 20 steps, 64 to 128, batch 16", _recurrent, 3),
    ProgramCase("max-pool", "2 × 2 max pooling of 64 × 20 × 24 × 24", _pooling, 1),
    ProgramCase("lenet-64", "LeNet, batch 64", _lenet(64), 8),
    ProgramCase("lenet-500", "LeNet, batch 500", _lenet(500), 8),
)
