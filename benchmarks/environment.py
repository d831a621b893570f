"""The same number of threads for everyone, enforced rather than asked for."""

from __future__ import annotations

import os
import sys

__all__ = ["allowed_threads", "child_environment", "limit_threads", "thread_environment"]


def thread_environment(threads: int) -> dict[str, str]:
    """Environment variables that every system we measure reads when it is first imported."""
    count = str(threads)
    return {
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "PULLBACK_THREADS": count,
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={'false' if threads == 1 else 'true'} "
        f"intra_op_parallelism_threads={count}",
        "JAX_PLATFORMS": "cpu",
    }


def child_environment() -> dict[str, str]:
    """The environment of a Python process that finds the modules that this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def limit_threads(threads: int) -> None:
    """Run this process and what it starts on `threads` processors, and tell every system so.

    The processors are the last ones this process may use: the first is where most machines handle interrupts.
    """
    os.environ.update(thread_environment(threads))
    if hasattr(os, "sched_setaffinity"):
        usable = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, usable[-threads:])


def allowed_threads() -> int:
    """The thread count that `limit_threads` set, for systems that need it in a call; one by default."""
    return int(os.environ.get("OMP_NUM_THREADS", "1"))
