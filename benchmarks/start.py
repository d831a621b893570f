"""The case `start`: from a fresh process to the first update of Zhang's network.

Run as a program, this module is that process: `python -m benchmarks.start SYSTEM FORM DTYPE`. It prints the loss of
the one image it trained on.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import weakref
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.environment import child_environment
from benchmarks.harness import Runner
from benchmarks.inputs import zhang_inputs

__all__ = ["MODULES", "main", "prepare_start"]

MODULES = {
    "pullback": "benchmarks.systems.with_pullback",
    "jax": "benchmarks.systems.with_jax",
    "torch": "benchmarks.systems.with_torch",
    "c": "benchmarks.systems.with_c",
}


class _Start:
    """Starts the process anew at every call. All caches are empty at the first call and kept after it."""

    def __init__(self, system: str, form: str, dtype: str) -> None:
        self.command = [sys.executable, "-m", "benchmarks.start", system, form, dtype]
        cache = Path(tempfile.mkdtemp(prefix="pullback-bench-start-"))
        weakref.finalize(self, shutil.rmtree, cache, ignore_errors=True)
        self.environment = {
            **child_environment(),
            "PULLBACK_CACHE_DIR": str(cache / "pullback"),
            "JAX_COMPILATION_CACHE_DIR": str(cache / "jax"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "TORCHINDUCTOR_CACHE_DIR": str(cache / "torch"),
        }

    def reset(self) -> None:
        pass

    def call(self) -> NDArray[Any]:
        done = subprocess.run(self.command, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no message")
        return np.array([float(done.stdout.split()[-1])])


def prepare_start(system: str, form: str, dtype: str) -> Runner:
    """A runner that starts one system afresh at every call.

    Raises:
        ImportError: the system is not installed.
    """
    if system in ("jax", "torch"):
        from importlib.util import find_spec

        if find_spec(system) is None:
            raise ImportError(f"{system} is not installed")
    return _Start(system, form, dtype)


def main(arguments: list[str]) -> None:
    """Train on one image and print the loss."""
    system, form, dtype = arguments
    runner: Runner = import_module(MODULES[system]).train(zhang_inputs(1, dtype), form)
    runner.reset()
    print(float(runner.call()[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
