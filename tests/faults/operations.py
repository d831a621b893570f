"""The operations that must survive what the operating system does: compile, save, checkpoint, resume, export.

Each has a preparation, which nothing disturbs, that gives a function without arguments: the operation itself. They run
in processes forked from `zygote.py`, and give what JSON can hold.
"""

from __future__ import annotations

import hashlib
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array, nn
from pullback.codegen.c.build import PLAIN_FLAGS
from pullback.errors import PullbackError
from pullback.runtime import cache, compile
from pullback.runtime.compile import Units
from pullback.runtime.executor import compile_program
from pullback.runtime.load import compiled_entry

__all__ = ["LAST", "NEW", "OLD", "PREPARE", "PullbackError", "warm"]

Prepared = Callable[[], Any]
X: Final = np.linspace(-1.0, 1.0, 512)
OLD, NEW = 1.5, 2.5  # values of parameters
BATCHES: Final = 4  # of an epoch
LAST: Final = 4  # epochs


def warm() -> None:
    """Import and compile all that operations have in common, in the cache that the zygote was started with."""
    assert wave(3.0)(X[:8]).shape == (8,)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "work").mkdir()
        for name in ("save", "epoch 1", "export", "exported_old"):
            PREPARE[name](Path(folder))()


def wave(factor: float) -> Any:
    """A function to compile."""

    @pb.function
    def wave(x: Float64[Array, "N"]) -> Any:
        return pb.exp(-factor * x * x) * pb.sin(x) + pb.sum(x * x)

    return wave


def by_numpy(factor: float) -> Any:
    """Its values, from NumPy."""
    return np.exp(-factor * X * X) * np.sin(X) + np.sum(X * X)


def _cold(folder: Path) -> None:
    """A process that has met neither this cache nor its compiler."""
    os.environ["PULLBACK_CACHE_DIR"] = str(folder / "cache")
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    tempfile.tempdir = None
    compile._version.cache_clear()
    cache._SECRETS.clear()


def compiling(folder: Path, factor: float = 7.0) -> Prepared:
    """The first call of a function: whether its values are right, and how quick it is to be."""
    _cold(folder)
    f = wave(factor)

    def call() -> Any:
        right = bool(np.allclose(f(X), by_numpy(factor), rtol=1e-12))
        return {"right": right, "full speed": _is_quick(f)}

    return call


def _is_quick(f: Any) -> bool:
    """Whether the code of a function is that with vectors."""
    program, dims = f.for_dims({"N": len(X)})
    return compile_program(program, dims).record.flags[: len(PLAIN_FLAGS)] != PLAIN_FLAGS


def threads(folder: Path, count: int = 8) -> Prepared:
    """Threads that call functions for the first time at once, and go on calling: how many calls were right."""
    _cold(folder)
    seconds = float(os.environ.get("FAULTS_SECONDS", "0.3"))

    def calls() -> Any:
        cases = [(k, wave(k), X[:size]) for k in (7.0, 8.0) for size in (512, 33, 1)]
        start, warm = threading.Barrier(count), threading.Barrier(count)

        def is_right(factor: float, f: Any, x: Any) -> bool:
            return np.allclose(f(x), np.exp(-factor * x * x) * np.sin(x) + np.sum(x * x), rtol=1e-12)

        def work(seed: int) -> tuple[int, int]:
            chosen = random.Random(seed)
            start.wait()
            found = [is_right(*case) for case in chosen.sample(cases, len(cases))]
            warm.wait()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                found.append(is_right(*chosen.choice(cases)))
            return sum(found), len(found) - sum(found)

        with ThreadPoolExecutor(count) as pool:
            found = list(pool.map(work, range(count)))
        return [sum(r for r, _ in found), sum(w for _, w in found)]

    return calls


def large(folder: Path) -> Prepared:
    """A call whose result and working memory are 400 MB each: whether it is right."""
    _cold(folder)

    @pb.function
    def powers(x: Float64[Array, "N"]) -> Any:
        y = pb.build((50_000_000,), lambda n: pb.astype(n % 7, pb.float64) + x[0])
        return pb.sort(y)

    def call() -> Any:
        y = powers(np.ones(1))
        return {"right": float(y[0]) == 1.0 and float(y[-1]) == 7.0}

    return call


def compiling_units(folder: Path) -> Prepared:
    """A library made of three units, which are compiled at the same time."""
    _cold(folder)
    parts = tuple(f"int part{k}(void);\nint part{k}(void) {{\n    return {k};\n}}\n" for k in (1, 2))
    main = "int part1(void), part2(void);\nint both(void *arena);\n" \
           "int both(void *arena) {\n    return arena ? 0 : part1() + part2();\n}\n"
    return lambda: {"right": compiled_entry(Units(main, parts), "both", 1)(0) == 3, "full speed": True}


def _tree(value: float) -> Any:
    return {"dense": {"w": np.full((7, 5), value), "b": np.full(5, value, np.float32)}}


def saving(folder: Path) -> Prepared:
    """Write parameters over older ones."""
    return lambda: nn.save_parameters(folder / "work" / "p.safetensors", _tree(NEW))


def saving_old(folder: Path) -> Prepared:
    """Write the older ones."""
    return lambda: nn.save_parameters(folder / "work" / "p.safetensors", _tree(OLD))


def loading(folder: Path) -> Prepared:
    """Read parameters: the value that all of them have."""

    def load() -> Any:
        found = nn.load_parameters(folder / "work" / "p.safetensors", _tree(0.0))["dense"]
        (value,) = {*found["w"].reshape(-1).tolist(), *found["b"].tolist()}
        return value

    return load


def _loss(parameters: Any, state: Any, batch: Any) -> Any:
    x, y = batch
    return pb.mean((parameters["a"] * x + parameters["b"] - y) ** 2)


def training(folder: Path, epochs: int = LAST, resume: bool | None = None, every: int | None = 1) -> Prepared:
    """Train with checkpoints: a digest of the parameters in the end."""
    x = np.random.default_rng(0).normal(size=8 * BATCHES)
    start = {"a": np.zeros(()), "b": np.zeros(())}
    save = nn.Checkpoints(str(folder / "work" / "run"), every_steps=every, max_to_keep=2)

    def train() -> Any:
        run = nn.fit(_loss, (x, 3 * x + 1), parameters=start, optimizer=nn.adam(0.1), epochs=epochs, batch_size=8,
                     save=save, resume=resume, progress=False)
        return _digest(run.parameters)

    return train


def _digest(parameters: Any) -> str:
    return hashlib.blake2b(b"".join(np.asarray(parameters[n]).tobytes() for n in "ab")).hexdigest()[:16]


def checkpoints(folder: Path) -> Prepared:
    """Read all checkpoints there are: the number of each, and a digest of its parameters."""
    files = sorted((folder / "work" / "run").glob("step-*.safetensors"))
    return lambda: {int(f.stem.partition("-")[2]): _digest(nn.load_parameters(f)) for f in files}


def exporting(folder: Path, factor: float = 7.0) -> Prepared:
    """Write a function as a project in C."""
    f = wave(factor)
    return lambda: len(f.export(folder / "work" / "wave", N=16)["files"])


PREPARE: Final[dict[str, Callable[[Path], Prepared]]] = {
    "compile": compiling,
    "compile_other": partial(compiling, factor=5.0),
    "compile_units": compiling_units,
    "large": large,
    "threads": threads,
    "save": saving,
    "saved_old": saving_old,
    "load": loading,
    "checkpoint": training,
    **{f"epoch {k}": partial(training, epochs=k) for k in range(1, LAST + 1)},
    "resume": partial(training, resume=True, every=None),
    "checkpoints": checkpoints,
    "export": exporting,
    "exported_old": partial(exporting, factor=3.0),
}
