"""Times of the programs at the suite's sizes, JAX beside them in the same process, as a Markdown table.

python -m benchmarks.gradbench.measure [modules...] [--seconds 2] [--no-peers]

The process is bound to one processor. Systems take turns, one call each a round; the least of many rounds is given in
µs, and `first` is the time of the first call with empty caches in seconds, the checking of the program included.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from time import perf_counter
from typing import Any

from benchmarks.gradbench.inputs import full
from benchmarks.gradbench.workloads import MODULES, workload

FIRST = """
import json, sys
from time import perf_counter
import pullback, numpy, jaxtyping
given = json.load(sys.stdin)
start = perf_counter()
from benchmarks.gradbench.workloads import workload
workload({0!r}, {1!r}, given).run()
print(perf_counter() - start)
"""


def first_call(module: str, function: str, given: Any) -> float:
    """Seconds from the program's text to the first result, in a new process with an empty cache."""
    import json

    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", FIRST.format(module, function)],
            input=json.dumps(given),
            env={**os.environ, "PULLBACK_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout)


def least(runs: list[Callable[[], Any]], seconds: float) -> list[float]:
    """The least time of each in µs, over rounds in which each runs once."""
    best = [float("inf")] * len(runs)
    end, rounds = perf_counter() + seconds, 0
    while perf_counter() < end or rounds < 5:
        for k, run in enumerate(runs):
            start = perf_counter()
            run()
            best[k] = min(best[k], perf_counter() - start)
        rounds += 1
    return [1e6 * b for b in best]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each size")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--no-first", action="store_true", help="do not measure first calls")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    peers: dict[str, Any] = {}
    if not options.no_peers:
        from benchmarks.gradbench.peers import PEERS as peers
    print("| eval | size | function | µs | ÷ primal | JAX µs | JAX ÷ ours | first s |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for module, sizes in full().items():
        if module not in (options.modules or MODULES):
            continue
        for size, given in sizes:
            functions = MODULES[module][1]
            runs = [workload(module, f, given).run for f in functions]
            runs += peers[module](given) if module in peers else []
            for run in runs:
                run()
            times = least(runs, options.seconds)
            for k, f in enumerate(functions):
                jax = f"{times[2 + k]:.1f} | {times[2 + k] / times[k]:.2f}" if module in peers else " | "
                ratio = f"{times[k] / times[0]:.2f}" if k and len(functions) == 2 else ""
                first = "" if options.no_first else f"{first_call(module, f, given):.2f}"
                print(f"| {module} | {size} | {f} | {times[k]:.1f} | {ratio} | {jax} | {first} |", flush=True)


if __name__ == "__main__":
    main()
