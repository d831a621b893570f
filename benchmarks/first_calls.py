"""The case `first_calls`: first calls by stages, with an empty cache, and from the cache.

Each case runs in a process of its own, so that nothing is imported or compiled before: `python -m
benchmarks.first_calls CASE SYSTEM`. Imports of the package, parameters and data are not part of the first call;
imports that the call itself makes are. Other processes' load changes processor time little. The compilers' time is
that of child processes.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

from benchmarks import networks
from benchmarks.environment import child_environment, limit_threads
from benchmarks.harness import Note

__all__ = ["CASES", "HEAD", "NAMES", "SYSTEMS", "bench_first_calls", "cells"]

SYSTEMS: Final = ("pullback", "jax")
SIZES: Final = {"x": (64, 16), "w": (16, 8), "v": (16,), "y": (64,), "c": (8, 16), "q": (64, 16), "k": (64, 16)}

# small functions of the array API; each is called with its gradient by the first argument
FUNCTIONS: Final[Mapping[str, tuple[str, Callable[..., Any]]]] = {
    "least_squares": ("vxy", lambda np, v, x, y: np.sum((x @ v - y) ** 2)),
    "logistic": ("vxy", lambda np, v, x, y: np.sum(np.log(1 + np.exp(-y * (x @ v))))),
    "softmax": ("wx", lambda np, w, x: np.sum(np.log(np.sum(np.exp(x @ w), axis=1)))),
    "perceptron": ("wx", lambda np, w, x: np.sum(np.tanh(np.tanh(x @ w) @ w.T) ** 2)),
    "rosenbrock": ("y", lambda np, y: np.sum(100 * (y[1:] - y[:-1] ** 2) ** 2 + (1 - y[:-1]) ** 2)),
    "k_means": ("cx", lambda np, c, x: np.sum(np.min(np.sum((x[:, None] - c) ** 2, axis=2), axis=1))),
    "attention": ("qkx", lambda np, q, k, x: np.sum(_softmax(np, q @ k.T) @ x)),
    "normalization": ("xv", lambda np, x, v: np.sum(v * _normalized(np, x) ** 3)),
    "diffusion": ("y", lambda np, y: np.sum((y[2:] - 2 * y[1:-1] + y[:-2]) ** 2)),
    "mixture": ("cx", lambda np, c, x: np.sum(np.log(np.sum(np.exp(-np.sum((x[:, None] - c) ** 2, axis=2)), axis=1)))),
}
NETWORKS: Final = tuple(c.name for c in networks.CASES)
CASES: Final = (*FUNCTIONS, *NETWORKS)

# columns of the table, and the stages that they sum; the rest is imports and the call itself
GROUPS: Final = {"trace": "trace", "derive": "derive", "passes": "pass ", "lower": "lower", "plan": "plan memory",
                 "print": "print C"}
HEAD: Final = ("case", "system", "wall s", "processor s", "compiler", *GROUPS, "imports and rest", "from cache")
NAMES: Final = 2


def _softmax(np: Any, x: Any) -> Any:
    e = np.exp(x)
    return e / np.sum(e, axis=1)[:, None]


def _normalized(np: Any, x: Any) -> Any:
    centered = x - np.mean(x, axis=1)[:, None]
    return centered / np.sqrt(np.mean(centered**2, axis=1) + 1e-5)[:, None]


def bench_first_calls(
    *,
    cases: Sequence[str] = CASES,
    systems: Sequence[str] = SYSTEMS,
    threads: int = 1,
    rounds: int = 3,
    note: Note = lambda text: None,
) -> list[dict[str, Any]]:
    """Measure first calls.

    Args:
        cases: names of CASES.
        systems: any of SYSTEMS; those that are not installed are left out with a note.
        threads: processors for everyone.
        rounds: processes for each case and system, in turns.
        note: called with lines about progress.
    Returns:
        One row per case and system with medians in seconds. `cached` is the first call in another process that has
        the same cache, without the time of a second call.
    """
    limit_threads(threads)
    rows = []
    for case in cases:
        runs: dict[str, list[dict[str, float]]] = {}
        for number in range(rounds):
            for system in (s for s in SYSTEMS if s in systems):
                note(f"{case} {system}, {number + 1} of {rounds}")
                found = _child(case, system, note)
                if found is not None:
                    runs.setdefault(system, []).append(found)
        for system, own in runs.items():
            keys = dict.fromkeys(k for run in own for k in run)
            medians = {k: statistics.median(run.get(k, 0.0) for run in own) for k in keys}
            rows.append({"case": case, "system": system, **medians})
    return rows


def _child(case: str, system: str, note: Note) -> dict[str, float] | None:
    with tempfile.TemporaryDirectory(prefix="pullback-bench-first-") as cache:
        environment = {**child_environment(), "PULLBACK_CACHE_DIR": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have their bytecode
        command = [sys.executable, "-m", "benchmarks.first_calls", case, system]
        found: list[dict[str, float]] = []
        for _ in range(2 if system == "pullback" else 1):  # the second process finds what the first left
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                note(f"left out: {case} {system}: {done.stderr.strip().splitlines()[-1:]}")
                return None
            found.append(json.loads(done.stdout.splitlines()[-1]))
    for again in found[1:]:
        found[0]["cached"] = again["wall"] - again["call"]
    return found[0]


def cells(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """One line per case and system, in seconds."""
    return [(row["case"], row["system"], *(f"{row[k]:.3f}" if k in row else "" for k in _KEYS)) for row in rows]


_KEYS: Final = ("wall", "processor", "compiler", *GROUPS, "rest", "cached")

# A process -----------------------------------------------------------------------------------------------------------


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _prepared(case: str, system: str) -> Callable[[], Any]:
    """The call to measure."""
    if case in FUNCTIONS:
        names, function = FUNCTIONS[case]
        random = np.random.default_rng(0)
        arrays = {n: random.normal(size=shape).astype(np.float32) for n, shape in SIZES.items()}
        given = [arrays[n] for n in names]
        return {"pullback": _small_pullback, "jax": _small_jax}[system](function, names, given)
    network = next(c for c in networks.CASES if c.name == case)
    form = networks.FORMS[system][0]
    return networks.call_of(network, system, form)


def _small_pullback(function: Callable[..., Any], names: str, given: list[Any]) -> Callable[[], Any]:
    import pullback as pb

    space: dict[str, Any] = {"function": function, "np": pb}
    exec(f"def small({', '.join(names)}): return function(np, {', '.join(names)})", space)
    both = pb.value_and_grad(pb.function(space["small"]), wrt=names[0])
    return lambda: both(*given)


def _small_jax(function: Callable[..., Any], names: str, given: list[Any]) -> Callable[[], Any]:
    jax: Any = import_module("jax")
    both = jax.jit(jax.value_and_grad(lambda *args: function(jax.numpy, *args)))
    arrays = [jax.numpy.asarray(a) for a in given]
    return lambda: jax.block_until_ready(both(*arrays))


def _measured(case: str, system: str) -> dict[str, float]:
    """Make the first call, and a second, whose time is that of the call itself."""
    from pullback.clock import record_time

    call = _prepared(case, system)
    wall, own, compiler = time.perf_counter(), time.process_time(), _children()
    with record_time(time.process_time) as stages:
        call()
    compiler = _children() - compiler
    own = time.process_time() - own
    found = {"wall": time.perf_counter() - wall, "processor": own + compiler}
    wall = time.perf_counter()
    call()
    found["call"] = time.perf_counter() - wall
    if system != "pullback":
        return found
    groups = {name: sum(s.seconds for s in stages.values() if s.name.startswith(start) and not s.inside)
              for name, start in GROUPS.items()}
    return {**found, "compiler": compiler, **groups, "rest": own - sum(groups.values())}


if __name__ == "__main__":
    print(json.dumps(_measured(*sys.argv[1:])))
