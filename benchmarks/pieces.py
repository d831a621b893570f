"""The cost of a piece of a lazy program over a compiled function, and the gain of two threads.

    python -m benchmarks.pieces

Chains of layers h = tanh(h W). One column with its gradient, by lazy arrays and by `pb.value_and_grad` of a traced
function; and two columns, whose product is the result, with one thread and with two. Medians of runs that take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

import pullback as pb
from benchmarks.harness import turns
from benchmarks.suite import markdown
from pullback import lazy

ROUNDS = 25
SIZES = ((16, 8, 4), (64, 16, 4), (128, 64, 4), (256, 64, 4), (512, 64, 4), (512, 256, 2), (1024, 64, 2))
LARGE = 256  # width from which columns are worth a thread


def column(xp: Any, x: Any, weights: Sequence[Any]) -> Any:
    """A chain of layers."""
    h = x
    for w in weights:
        h = xp.tanh(h @ w)
    return h


def arrays(width: int, batch: int, layers: int) -> tuple[Any, list[Any]]:
    """An input, and weights of two columns."""
    r = np.random.default_rng(0)
    x = r.normal(size=(batch, width)).astype(np.float32)
    return x, [(r.normal(size=(width, width)) / np.sqrt(width)).astype(np.float32) for _ in range(2 * layers)]


def medians(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """Milliseconds of each, when all kernels are compiled."""
    for _ in range(4):
        for call in calls:
            call()
        lazy.finish_compiling()
    return [1e3 * median(own) for own in turns(calls, ROUNDS)]


def one_column(width: int, batch: int, layers: int) -> list[float]:
    """Lazy and compiled, forward and backward."""
    x, start = arrays(width, batch, layers)
    weights = [lazy.Weight(w) for w in start[:layers]]
    held = lazy.asarray(x)

    def step() -> None:
        lazy.backward(lazy.sum(column(lazy, held, weights)))
        for w in weights:
            w.grad = None

    both = pb.value_and_grad(pb.function(lambda x, ws: pb.sum(column(pb, x, ws))), wrt=1)
    given = tuple(start[:layers])
    with pb.threads(1):
        return medians([step, lambda: both(x, given)])


def two_columns(width: int, batch: int, layers: int) -> list[float]:
    """With one thread and with two: forward, then forward and backward."""
    x, start = arrays(width, batch, layers)
    weights = [lazy.Weight(w) for w in start]
    held = lazy.asarray(x)

    def loss() -> Any:
        return lazy.sum(column(lazy, held, weights[:layers]) * column(lazy, held, weights[layers:]))

    def step() -> None:
        lazy.backward(loss())
        for w in weights:
            w.grad = None

    def threads(count: int, run: Callable[[], Any]) -> Callable[[], None]:
        def call() -> None:
            with pb.threads(count):
                run()

        return call

    return medians([threads(n, run) for run in (lambda: float(loss()), step) for n in (1, 2)])


def main() -> None:
    """Print both tables."""
    one = []
    for size in SIZES:
        a, b = one_column(*size)
        one.append((", ".join(map(str, size)), f"{a:.3f}", f"{b:.3f}", f"{a / b:.2f}"))
    print(markdown(("width, batch, layers", "lazy, ms", "compiled, ms", "ratio"), one))
    two = []
    for size in SIZES:
        if size[0] >= LARGE:
            a, b, c, d = two_columns(*size)
            two.append((", ".join(map(str, size)), *(f"{t:.2f}" for t in (a, b, a / b, c, d, c / d))))
    head = ("two columns", "forward: 1 thread, ms", "2", "times as fast", "and backward: 1", "2", "times as fast")
    print("\n" + markdown(head, two))


if __name__ == "__main__":
    main()
