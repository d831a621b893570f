"""Networks with control flow: DeepLearning.scala (2019), tables 2 and 3, and a gated network.

    image (16, 3072) -> n columns of two layers of 64 -> sum -> coarse classifier of 20
                                                             -> 20 fine classifiers of three layers, 5 classes each

    all-n      every fine classifier runs, as in table 2; those of other classes count nothing
    skip-n     the one of the batch's class alone, as in table 3: the label says which
    gated      one column, and the value of the coarse classifier says which
    …-conv     one column of two layers of convolutions and one of 64, which the paper's arrays were too slow for

A measurement is 32 steps of stochastic gradient descent on synthetic images, each batch of one class. Peers run them
in the ways that their users have: PyTorch with Python's control flow, JAX with a choice inside of one compiled step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.harness import Contender, Note, Row, measure

__all__ = ["CASES", "HEAD", "SYSTEMS", "bench_dynamic", "cells", "inputs", "parameters", "parts"]

CASES = ("all-1", "all-2", "all-4", "all-conv", "skip-1", "skip-2", "skip-4", "skip-conv", "gated")
SYSTEMS = ("pullback", "torch", "jax")
HEAD = ("case", "system", "form", "threads", "batches/s", "± 95 %")
STEPS, BATCH, IMAGE, WIDTH, COARSE, FINE = 32, 16, 3072, 64, 20, 5
SIDE, CHANNELS, STRIDE, KERNELS = 32, 3, 2, ((16, 3, 5, 5), (16, 16, 3, 3))  # images, and weights of convolutions
FLAT = 576  # what they make of an image: 16 channels of 6 x 6
RATE = 0.01
NAMES = 3  # columns of the table that are words
COMPARES_THREADS = True


def parts(case: str) -> tuple[str, int, bool]:
    """A case as its kind, its number of columns, and whether these are convolutions."""
    kind, _, columns = case.partition("-")
    return kind, int(columns) if columns.isdigit() else 1, columns == "conv"


def parameters(columns: int, conv: bool = False, seed: int = 0) -> dict[str, Any]:
    """Random float32 parameters: "column0/w0", "column0/k0" of convolutions, "fine7/w2", "fine7/b2"."""
    r = np.random.default_rng(seed)
    found: dict[str, Any] = {}

    def dense(name: str, k: Any, n: int, m: int) -> None:
        found[f"{name}/w{k}"] = (r.normal(size=(n, m)) / np.sqrt(n)).astype(np.float32)
        found[f"{name}/b{k}"] = np.zeros(m, np.float32)

    for c in range(columns):
        for k, shape in enumerate(KERNELS if conv else ()):
            found[f"column{c}/k{k}"] = (r.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        dense(f"column{c}", 0, FLAT if conv else IMAGE, WIDTH)
        if not conv:
            dense(f"column{c}", 1, WIDTH, WIDTH)
    dense("coarse", "", WIDTH, COARSE)
    for c in range(COARSE):
        for k, m in enumerate((WIDTH, WIDTH, FINE)):
            dense(f"fine{c}", k, WIDTH, m)
    return found


def inputs(seed: int = 1) -> list[tuple[Any, int, Any]]:
    """Batches: images, their coarse class, and one-hot fine classes."""
    r = np.random.default_rng(seed)
    return [(r.normal(size=(BATCH, IMAGE)).astype(np.float32), int(r.integers(COARSE)),
             np.eye(FINE, dtype=np.float32)[r.integers(0, FINE, BATCH)]) for _ in range(STEPS)]  # fmt: skip


def network(xp: Any, p: Any, x: Any, columns: int) -> tuple[Any, Any]:
    """Features and coarse scores, in any of the libraries: `xp` has relu, reshape, and conv with a stride."""

    def column(c: int) -> Any:
        h = x
        if f"column{c}/k0" in p:
            h = xp.reshape(h, (BATCH, CHANNELS, SIDE, SIDE))
            for k in range(len(KERNELS)):
                h = xp.relu(xp.conv(h, p[f"column{c}/k{k}"]))
            h = xp.reshape(h, (BATCH, FLAT))
        h = xp.relu(h @ p[f"column{c}/w0"] + p[f"column{c}/b0"])
        return xp.relu(h @ p[f"column{c}/w1"] + p[f"column{c}/b1"]) if f"column{c}/w1" in p else h

    h = column(0)
    for c in range(1, columns):
        h = h + column(c)
    return h, h @ p["coarse/w"] + p["coarse/b"]


def fine(xp: Any, w: Any, h: Any) -> Any:
    """The scores of a fine classifier whose parameters are w(k), b(k)."""
    h = xp.relu(h @ w(0)[0] + w(0)[1])
    h = xp.relu(h @ w(1)[0] + w(1)[1])
    return h @ w(2)[0] + w(2)[1]


def fine_of(p: Any, c: int) -> Any:
    """The parameters of one of them, by layer."""
    return lambda k: (p[f"fine{c}/w{k}"], p[f"fine{c}/b{k}"])


def bench_dynamic(
    *, cases: Sequence[str] = CASES, systems: Sequence[str] = SYSTEMS, threads: Sequence[int] = (1,), rounds: int = 15,
    budget: float = 60.0, note: Note = lambda text: None,
) -> list[Row]:  # fmt: skip
    """Measure training steps; times are of all steps.

    Args:
        cases: names of CASES.
        systems: names of SYSTEMS.
        threads: how many everyone may use, all systems in turn; or several numbers, in turn for each system. JAX, which
            asks once for all, is left out then.
        rounds: repetitions of each.
        budget: seconds for a case after which no further round starts.
        note: called with lines about progress.
    """
    from benchmarks.environment import limit_threads

    limit_threads(max(threads))
    rows: list[Row] = []
    for case in CASES:
        if case in cases:
            # threads of one system still spin when another's turn comes: several numbers of threads are measured apart
            for group in [systems] if len(threads) == 1 else [(s,) for s in systems]:
                found = list(_contenders(case, group, threads))
                rows += measure(found, rounds=rounds, budget=budget, tolerance=2e-3, note=note)
    return rows


FORMS = {"pullback": ("lazy",), "torch": ("eager",), "jax": ("switch", "gather", "masks")}


def _contenders(case: str, systems: Sequence[str], threads: Sequence[int]) -> Iterator[Contender]:
    for system in systems:
        for form in FORMS.get(system, ()):
            if system != "jax" or (case == "gated" and len(threads) == 1):
                module = f"benchmarks.systems.dynamic_{system}"
                for n in threads:
                    yield Contender(case, system, form, "float32", n, partial(_prepare, module, case, form, n))


def _prepare(module: str, case: str, form: str, threads: int) -> Any:
    return import_module(module).prepare(case, form, threads)


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The rows of the table, with intervals of the median from ranges, as if times were normal."""
    found: list[tuple[str, ...]] = []
    for r in rows:
        speed = STEPS / r["median"]
        spread = STEPS / r["minimum"] - STEPS / r["maximum"]
        found.append((r["case"], r["system"], r["form"], str(r["threads"]), f"{speed:.0f}", f"{spread / 4:.0f}"))
    return found
