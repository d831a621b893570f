"""States of a loop that feed each other: in all ways, with and without a tape, at sizes around every block.

What a loop should give is computed by plain Python on numbers with a dual part for one direction: nothing is shared
with the compiler, its interpreter or its derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array

STEPS = 3
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 129)

Step = Callable[[Any, Sequence[Any], Any], tuple[Any, ...]]
Shape = tuple[str, int, Step]


class Dual:
    """A number and its derivative in one direction."""

    def __init__(self, value: float, slope: float = 0.0) -> None:
        self.value = value
        self.slope = slope

    def __add__(self, other: Dual) -> Dual:
        return Dual(self.value + other.value, self.slope + other.slope)

    def __mul__(self, other: Dual) -> Dual:
        return Dual(self.value * other.value, self.slope * other.value + self.value * other.slope)


class Plain:
    """The functions that steps use, on dual numbers."""

    @staticmethod
    def sin(x: Dual) -> Dual:
        return Dual(math.sin(x.value), math.cos(x.value) * x.slope)


def step_of(reads: Sequence[Sequence[int]], functions: Sequence[str]) -> Step:
    """The step in which new state k is the sum of the old states reads[k], through one of the functions."""

    def step(m: Any, s: Sequence[Any], x: Any) -> tuple[Any, ...]:
        new = []
        for places, function in zip(reads, functions, strict=True):
            total = s[places[0]]
            for k in places[1:]:
                total = total + s[k]
            new.append(m.sin(total) if function == "sin" else total * x if function == "times" else total)
        return tuple(new)

    return step


def plain(step: Step, states: int, x: Sequence[float]) -> list[Dual]:
    """What the loop gives at each point, and its derivative by that point."""
    out = []
    for value in x:
        start = Dual(value, 1.0)
        s = tuple(start * Dual(1.0 + k / 4) for k in range(states))
        for _ in range(STEPS):
            s = step(Plain, s, start)
        total = s[0]
        for k, last in enumerate(s[1:]):
            total = total + last * Dual(0.5 + k)
        out.append(total)
    return out


def looped(step: Step, states: int, x: Any) -> Any:
    """The same in Pullback."""
    s = pb.fold(STEPS, tuple(x * (1.0 + k / 4) for k in range(states)), lambda s, t: step(pb, s, x))
    total = s[0]
    for k, last in enumerate(s[1:]):
        total = total + last * (0.5 + k)
    return total


def shapes() -> list[Shape]:
    """Every way in which new states read old ones: all for two, every third for three, rotations of four."""
    out: list[Shape] = []

    def add(reads: Sequence[Sequence[int]]) -> None:
        k = len(out)
        functions = [("same", "sin", "same", "times")[(k + j) % 4] for j in range(len(reads))]
        both = (functions, ["same"] * len(reads))
        out.extend((f"{reads} {chosen}", len(reads), step_of(reads, chosen)) for chosen in both)

    for n, every in ((1, 1), (2, 1), (3, 3)):
        subsets = [s for size in range(1, n + 1) for s in combinations(range(n), size)]
        for reads in list(product(subsets, repeat=n))[::every]:
            add(reads)
    for places in permutations(range(4)):
        add(((places[0], 0) if places[0] else (0,), *((k,) for k in places[1:])))
    return out


SHAPES = shapes()
TOGETHER = 12  # shapes that are one function, to compile less often


@cache
def functions(shapes: tuple[Shape, ...]) -> tuple[Any, Any]:
    """The loops with their tangents, and the gradient of their weighted sum: derived once, compiled for each size."""
    all_of_them = pb.function(lambda x: tuple(looped(step, states, x) for _, states, step in shapes))
    weighted = pb.function(lambda x, w: sum(pb.sum(y * w[k]) for k, y in enumerate(all_of_them(x))))

    @pb.function(specialize="always")
    def forward(x: Float64[Array, "N"], direction: Float64[Array, "N"]) -> Any:
        return pb.jvp(all_of_them)((x,), (direction,))

    @pb.function(specialize="always")
    def reverse(x: Float64[Array, "N"], weights: tuple[Float64[Array, "N"], ...]) -> Any:
        return pb.grad(weighted)(x, weights)

    return forward, reverse


def check(shapes: Sequence[Shape], n: int) -> None:
    """Values and derivatives in both modes."""
    rng = np.random.default_rng(n)
    x, direction = rng.uniform(0.3, 1.2, n), rng.uniform(-1.0, 1.0, n)
    weights = rng.uniform(-1.0, 1.0, (len(shapes), n))
    expected = [plain(step, states, x.tolist()) for _, states, step in shapes]
    slopes = np.array([[d.slope for d in row] for row in expected])
    forward, reverse = functions(tuple(shapes))
    values, tangents = forward(x, direction)
    for (name, _, _), row, value, tangent, slope in zip(shapes, expected, values, tangents, slopes, strict=True):
        np.testing.assert_allclose(value, [d.value for d in row], rtol=1e-12, err_msg=name)
        np.testing.assert_allclose(tangent, slope * direction, rtol=1e-11, err_msg=name)
    np.testing.assert_allclose(reverse(x, tuple(weights)), (slopes * weights).sum(0), rtol=1e-10)


@pytest.mark.parametrize("start", range(0, len(SHAPES), TOGETHER))
def test_states_feed_each_other(start: int) -> None:
    """Every shape of dependence, at a size of one block and at another."""
    for n in (33, SIZES[start // TOGETHER % len(SIZES)]):
        check(SHAPES[start : start + TOGETHER], n)


CHAIN = ("chain", 2, step_of(((0, 1), (0,)), ("same", "sin")))
SWAP = ("swap", 2, step_of(((1,), (0,)), ("sin", "same")))


@pytest.mark.parametrize("n", SIZES)
def test_sizes(n: int) -> None:
    """A chain and a swap at sizes around every vector and block length."""
    check([CHAIN, SWAP], n)
