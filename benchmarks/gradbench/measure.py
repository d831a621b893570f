"""Timings at the suite's sizes, with JAX and hand-written C in the same process, as a table.

python -m benchmarks.gradbench.measure [modules...] [--seconds 2] [--no-peers]

The process is bound to one processor. Systems take turns, one call each a round. The least of many rounds is given in
µs, of ours the median too. `first` is the time in seconds of the first call with empty caches, the checking of the
program included. The last lines have for each module both functions at all sizes together, and how many times the C's
time that is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import chain, islice
from statistics import median
from typing import Any

from benchmarks.gradbench.fused import fused
from benchmarks.gradbench.inputs import full
from benchmarks.gradbench.workloads import MODULES, workload
from benchmarks.harness import turns
from pullback.errors import CompilerError

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


def by_hand(module: str, given: Any) -> list[Callable[[], Any]]:
    """Calls of the module's C written by hand; none, with a note, where there is no compiler for it."""
    try:
        return [made.run for made in fused(module, given)]
    except CompilerError as error:
        print(f"without C: {error.args[0]}", file=sys.stderr)
        return []


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
    print("| eval | size | function | µs | median | ÷ primal | C µs | ÷ C | JAX µs | JAX ÷ ours | first s |")
    print("|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    sums = []
    for module, sizes in full().items():
        if module not in (options.modules or MODULES):
            continue
        functions, together = MODULES[module][1], [0.0, 0.0]
        for size, given in sizes:
            runs = {"ours": [workload(module, f, given).run for f in functions], "C": by_hand(module, given)}
            runs["JAX"] = peers[module](given) if module in peers else []
            for run in chain(*runs.values()):
                run()
            taken = turns(list(chain(*runs.values())), seconds=options.seconds)
            rounds = [[1e6 * t for t in own] for own in taken]
            found = iter(map(min, rounds))
            times = {system: list(islice(found, len(calls))) for system, calls in runs.items()}
            together = [total + sum(times[system]) for total, system in zip(together, ("ours", "C"), strict=True)]
            for k, f in enumerate(functions):
                ours = times["ours"][k]
                cells = [f"{ours:.1f}", f"{median(rounds[k]):.1f}"]
                cells.append(f"{ours / times['ours'][0]:.2f}" if k and len(functions) == 2 else "")
                cells += [f"{times['C'][k]:.1f}", f"{ours / times['C'][k]:.2f}"] if times["C"] else ["", ""]
                cells += [f"{times['JAX'][k]:.1f}", f"{times['JAX'][k] / ours:.2f}"] if times["JAX"] else ["", ""]
                cells += ["" if options.no_first else f"{first_call(module, f, given):.2f}"]
                print(f"| {module} | {size} | {f} | {' | '.join(cells)} |", flush=True)
        if together[1]:
            sums.append(f"{module}: {together[0]:.1f} µs, {together[0] / together[1]:.2f} times the C's")
    print("", *sums, sep="\n")


if __name__ == "__main__":
    main()
