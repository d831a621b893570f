"""Random numbers that depend only on seed, epoch and sample.

A counter-based hash (the finalizer of SplitMix64; Steele, Lea and Flood, Fast splittable pseudorandom number
generators, OOPSLA 2014) gives 64 bits for each combination. So the order of an epoch and the draws for a sample do
not depend on batch size, loader threads or NumPy version. A resumed run continues with the same numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Draws", "permutation", "random_bits", "weighted_choice"]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def random_bits(*counters: ArrayLike) -> NDArray[np.uint64]:
    """Return 64 random bits for each combination of counters: nonnegative integers, broadcast together.

    >>> from pullback.data.order import random_bits
    >>> [hex(x) for x in random_bits(0, [0, 1])]
    ['0xa706dd2f4d197e6f', '0x8b4fda8c892b50e']
    """
    state: NDArray[np.uint64] = np.zeros((), np.uint64)
    with np.errstate(over="ignore"):
        for counter in counters:
            state = _mixed((state ^ np.asarray(counter).astype(np.uint64)) + GOLDEN)
    return state


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


def permutation(count: int, *counters: int) -> NDArray[np.intp]:
    """Return a random permutation of the integers below `count`, determined by the counters.

    Cost:
        A sort of `count` numbers.

    >>> from pullback.data.order import permutation
    >>> sorted(permutation(5, 0, 1).tolist())
    [0, 1, 2, 3, 4]
    """
    return np.argsort(random_bits(*counters, np.arange(count)), kind="stable")


def weighted_choice(weights: NDArray[Any], count: int, *counters: int) -> NDArray[np.intp]:
    """Return `count` indices of weights, drawn with replacement in proportion to the weights.

    >>> from pullback.data.order import weighted_choice
    >>> weighted_choice(np.array([0.0, 1.0, 0.0]), 4, 0).tolist()
    [1, 1, 1, 1]
    """
    ends = np.cumsum(weights, dtype=np.float64)
    points = (random_bits(*counters, np.arange(count)) >> np.uint64(11)) * 2.0**-53 * ends[-1]
    chosen: NDArray[np.intp] = np.searchsorted(ends, points, side="right")  # points are below the last end
    return chosen


class Draws:
    """The random draws of a transform: separate numbers for each sample.

    Each call draws new numbers. They depend only on the seed, the epoch, the transform's position, the number of the
    call and the sample. So a transform must make the same calls in every batch.

    Args:
        counters: the seed, the epoch, and the position of the transform.
        samples: the indices (B,) of the samples in their data set.
    Cost:
        A hash per number: about ten integer operations for each counter.

    >>> from pullback import data
    >>> draws = data.Draws((0, 0, 0), np.arange(3))
    >>> draws.integers(10).shape, draws.uniform(-1, 1).shape
    ((3,), (3,))
    """

    def __init__(self, counters: tuple[int, ...], samples: NDArray[np.intp]) -> None:
        self._counters = counters
        self._samples = samples
        self._drawn = 0

    def integers(self, high: int) -> NDArray[np.int64]:
        """Draw (B,) new integers from 0 to high - 1."""
        self._drawn += 1
        bits = random_bits(*self._counters, self._drawn, self._samples) >> np.uint64(32)
        return ((bits * np.uint64(high)) >> np.uint64(32)).astype(np.int64)

    def uniform(self, low: float = 0.0, high: float = 1.0) -> NDArray[np.float64]:
        """Draw (B,) new numbers from `low` to below `high`."""
        self._drawn += 1
        bits: NDArray[Any] = random_bits(*self._counters, self._drawn, self._samples) >> np.uint64(11)
        return low + (high - low) * (bits * 2.0**-53)

    def beta(self, alpha: float) -> NDArray[np.float64]:
        """Draw (B,) new numbers from 0 to 1 from the symmetric beta distribution (alpha, alpha).

        Two uniform numbers make one (Devroye, Random variate generation in one line of code, 1996).
        """
        u, cosine = 1 - self.uniform(), np.cos(2 * np.pi * self.uniform())
        with np.errstate(divide="ignore", over="ignore"):
            c = (u ** (-1 / alpha) - 1) * cosine**2
            half: NDArray[np.float64] = 0.5 / np.sqrt(1 + 1 / c)
        return 0.5 + np.copysign(half, cosine)
