"""Access patterns: what a derivative costs beside its function, for sixty ways to read an array.

The adjoint of a gather is found by solving for the places that read an element. Where that succeeds it is a gather,
too, and costs about what the function does; where a variable would have to be tried it would cost that extent more.

Run as a program, it writes the table of `benchmarks/results/patterns.md`: `python -m benchmarks.patterns FILE`. For
each pattern the function and its vector-Jacobian product are called in turn, into given arrays; the least time counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

import pullback as pb
from benchmarks.harness import turns
from benchmarks.suite import markdown
from pullback import Array

__all__ = ["PATTERNS", "main"]

Rule = Callable[[Any, Any], Any]
LENGTH = dict.fromkeys(
    ("circulant", "outer_sum", "outer_difference", "all_pairs", "delta", "delta_shifted", "delta_double", "prefix",
     "suffix"), 600,
) | dict.fromkeys(("toeplitz", "hankel", "triangle"), 1200)  # fmt: skip
RUNS = 25


def _at(length: Callable[[Any], Any], at: Callable[[Any, Any], Any]) -> Rule:
    return lambda x, n: pb.build(length(n), lambda i: x[at(i, n)])


PATTERNS: dict[str, Rule] = {
    "previous": _at(lambda n: n, lambda i, n: (i - 1) % n),
    "next": _at(lambda n: n, lambda i, n: (i + 1) % n),
    "far": _at(lambda n: n, lambda i, n: (i + 1000) % n),
    "mirrored_round": _at(lambda n: n, lambda i, n: (3 - i) % n),
    "tiled": _at(lambda n: 3 * n, lambda i, n: i % n),
    "tiled_back": _at(lambda n: 2 * n, lambda i, n: (-i) % n),
    "repeated": _at(lambda n: 3 * n, lambda i, n: i // 3),
    "repeated_shifted": _at(lambda n: 3 * n - 1, lambda i, n: (i + 1) // 3),
    "every_second": _at(lambda n: n // 2, lambda i, n: 2 * i),
    "every_second_round": _at(lambda n: n, lambda i, n: (2 * i) % n),
    "frames": lambda x, n: pb.build((n // 2, 2), lambda i, k: x[2 * i + k]),
    "flipped": lambda x, n: pb.flip(x),
    "rolled": lambda x, n: pb.roll(x, 3),
    "circulant": lambda x, n: pb.build(n, lambda i: pb.sum_over(n, lambda j: x[(i - j) % n] * (1.0 + 0.5 * j))),
    "round_window": lambda x, n: pb.build(n, lambda i: pb.sum_over(3, lambda k: x[(i + 2 * k - 1) % n])),
    "toeplitz": lambda x, n: pb.build((n // 2, n // 2), lambda i, j: x[i - j + n // 2]),
    "hankel": lambda x, n: pb.build((n // 2, n // 2), lambda i, j: x[i + j]),
    "outer_sum": lambda x, n: pb.build((n, n), lambda i, j: x[i] + x[j]),
    "cyclic_reshape": lambda x, n: pb.build((n, 5), lambda i, j: x[(i * 5 + j) % n]),
    "concat": lambda x, n: pb.concat([x, x]),
    "stack": lambda x, n: pb.stack([x, x]),
    "blocks": lambda x, n: pb.reshape(pb.build((n, 4), lambda i, j: x[i]), (2, -1)),
    "delta": lambda x, n: pb.build(n, lambda j: pb.sum_over(n, lambda i: pb.where(i == j, x[i], 0.0))),
    "delta_shifted": lambda x, n: pb.build(n, lambda j: pb.sum_over(n, lambda i: pb.where(i - j == 2, x[i], 0.0))),
    "delta_double": lambda x, n: pb.build(n, lambda j: pb.sum_over(n, lambda i: pb.where(2 * i == j, x[i], 0.0))),
    "whole": lambda x, n: x * 1.5,
    "cut_front": lambda x, n: x[2:],
    "cut_back": lambda x, n: x[:-2],
    "cut_both": lambda x, n: x[1:-1],
    "every_third": lambda x, n: x[::3],
    "every_second_back": lambda x, n: x[::-2],
    "odd_ones": lambda x, n: x[1::2],
    "thirds": lambda x, n: pb.build((n // 3, 3), lambda i, k: x[3 * i + k]),
    "thirds_across": lambda x, n: pb.build((3, n // 3), lambda k, i: x[3 * i + k]),
    "columns": lambda x, n: pb.build((n // 3, 3), lambda i, k: x.at(k * (n // 3) + i)),
    "halves_turned": _at(lambda n: n, lambda i, n: (i + n // 2) % n),
    "pairs_turned": lambda x, n: pb.build((n // 2, 2), lambda i, k: x[2 * i + 1 - k]),
    "pairs": lambda x, n: pb.build(n // 3, lambda i: x[3 * i] + x[3 * i + 1] * x[3 * i + 2]),
    "differences": lambda x, n: x[1:] - x[:-1],
    "second_differences": lambda x, n: pb.build(n - 2, lambda i: x[i] - 2 * x[i + 1] + x[i + 2]),
    "padded": lambda x, n: pb.build(n + 4, lambda i: x.at(i - 2)),
    "padded_window": lambda x, n: pb.build(n, lambda i: pb.sum_over(5, lambda k: x.at(i + k - 2))),
    "window": lambda x, n: pb.build(n - 4, lambda i: pb.sum_over(5, lambda k: x[i + k])),
    "strided_window": lambda x, n: pb.build(n // 2 - 1, lambda i: pb.sum_over(3, lambda k: x.at(2 * i + k))),
    "dilated_window": lambda x, n: pb.build(n - 4, lambda i: pb.sum_over(3, lambda k: x[i + 2 * k])),
    "strided_dilated": lambda x, n: pb.build(n // 2 - 2, lambda i: pb.sum_over(2, lambda k: x[2 * i + 3 * k])),
    "windows": lambda x, n: pb.build((n - 4, 5), lambda i, k: x[i + k]),
    "averages": lambda x, n: pb.build(n // 3, lambda i: pb.sum_over(3, lambda k: x[3 * i + k]) / 3),
    "largest_of_pairs": lambda x, n: pb.build(n // 2, lambda i: x[2 * i] + 0.5 * x[2 * i + 1]),
    "upsampled": _at(lambda n: 2 * n, lambda i, n: i // 2),
    "spread": lambda x, n: pb.build(2 * n, lambda i: pb.where(i % 2 == 0, x[i // 2], 0.0)),
    "clipped": _at(lambda n: n + 6, lambda i, n: pb.clip(i - 3, 0, n - 1)),
    "reflected": lambda x, n: pb.concat([x, pb.flip(x)]),
    "interleaved": lambda x, n: pb.reshape(pb.stack([x, 2 * x], axis=1), (-1,)),
    "outer_difference": lambda x, n: pb.build((n, n), lambda i, j: x[i] - x[j]),
    "all_pairs": lambda x, n: pb.build((n, n), lambda i, j: x[(i + j) % n]),
    "prefix": lambda x, n: pb.build(n, lambda i: pb.sum_over(n, lambda j: pb.where(j <= i, x[j], 0.0))),
    "suffix": lambda x, n: pb.build(n, lambda i: pb.sum_over(n, lambda j: pb.where(j >= i, x[j], 0.0))),
    "triangle": lambda x, n: pb.build((n // 2, n // 2), lambda i, j: pb.where(j <= i, x[i + j], 0.0)),
    "reshaped": lambda x, n: pb.reshape(pb.stack([x, x, x]), (-1, 3)),
}  # fmt: skip


def function_of(name: str) -> Any:
    """The pattern as a traced function of one vector."""
    rule = PATTERNS[name]

    @pb.function
    def pattern(x: Float64[Array, "N"]) -> Any:
        return rule(x, x.shape[0])

    return pattern


def measure(name: str, n: int) -> tuple[float, float]:
    """The minimal seconds of a call, and of its vector-Jacobian product, taken in turn."""
    f, x = function_of(name), np.random.default_rng(0).standard_normal(n)
    adjoint, y = pb.vjp(f, wrt=0), f(x)
    bar, given = np.ones_like(y), (np.empty_like(y), np.empty_like(x))
    calls: tuple[Callable[[], Any], ...] = (lambda: f(x, out=given[0]), lambda: adjoint(x, bar, out=given))
    one, both = map(min, turns(calls, RUNS))
    return one, both


def main(file: str | None = None) -> None:
    """Measure all patterns; print the table, or write it."""
    cells = []
    for name in PATTERNS:
        n = LENGTH.get(name, 120_000)
        one, both = measure(name, n)
        times = (f"{one * 1e6:.1f}", f"{both * 1e6:.1f}", f"{both / one:.1f}")
        cells.append((name.replace("_", " "), f"{n:,}", *times))
    text = markdown(("pattern", "N", "function, µs", "with its adjoint, µs", "ratio"), cells) + "\n"
    if file is None:
        print(text)
    else:
        path = Path(file)
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        path.write_text(before[: before.find("| pattern")] + text if "| pattern" in before else before + text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.patterns", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", nargs="?", help="whose table is replaced (default: print it)")
    main(parser.parse_args().file)
