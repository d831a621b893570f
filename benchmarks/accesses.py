"""Memory accesses of device kernels: how the elements of neighboring threads lie, by bytes.

python -m benchmarks.accesses [WORD ...]   programs with one of these words in their names

Contiguous accesses use whole sectors of memory, and equal ones a single sector for a warp. Strided and scattered ones
use a sector for each thread. No program runs; the addresses of some warps of each launch are computed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.corpus import corpus
from benchmarks.examples import example_modules
from pullback.errors import PullbackError
from pullback.grid.accesses import Kind, Seen, launch_accesses
from pullback.loops.program import nodes
from pullback.loops.program.nodes import For, Kernel
from pullback.runtime.device.export import lowered_for

KINDS: Final[tuple[Kind, ...]] = ("contiguous", "equal", "strided", "scattered")
SHOWN: Final = 25  # kernels with the most bytes that are neither contiguous nor equal


def of_kernel(k: Kernel) -> list[Seen]:
    """The accesses of a kernel's launches."""
    return [x for group in k.body if isinstance(group, For) for x in launch_accesses(group)]


def apart(found: Sequence[Seen]) -> float:
    """The bytes of accesses that are neither contiguous nor equal."""
    return sum(x.bytes for x in found if x.kind in ("strided", "scattered"))


def main(given: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accesses", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("words", nargs="*", metavar="WORD")
    options = parser.parse_args(given)
    total, share, count = Counter[str](), Counter[str](), Counter[str]()
    worst: list[tuple[float, str]] = []
    programs = 0
    for e in corpus(example_modules(Path("examples"))):
        if options.words and not any(w in e.name for w in options.words):
            continue
        print(e.name, file=sys.stderr, flush=True)
        try:
            lowered = lowered_for(*e.make())
        except PullbackError as error:
            print(f"{e.name}: {error}".splitlines()[0])
            continue
        programs += 1
        own = Counter[str]()
        for k in nodes.kernels_of(lowered.function.body):
            found = of_kernel(k)
            for x in found:
                own[x.kind] += int(x.bytes)
                count[x.kind] += 1
            total["moved"] += int(sum(x.moved for x in found))
            worst.append((apart(found), f"{e.name}: {k.name}: {k.choice}"))
        total += own
        for kind in KINDS:
            share[kind] += own[kind] / max(own.total(), 1)  # type: ignore[assignment]
    moved, asked = total.pop("moved", 0), max(total.total(), 1)
    print(f"{programs} programs; of {asked / 1e9:.3f} GB that threads access, and {moved / 1e9:.3f} GB of sectors:")
    for kind in KINDS:
        mean = share[kind] / max(programs, 1)
        print(f"  {kind:10}  {total[kind] / asked:6.1%} of bytes, {mean:6.1%} in the mean program, {count[kind]} times")
    print("most strided or scattered bytes:",
          *(f"{n / 1e6:10.1f} MB  {text}" for n, text in sorted(worst, reverse=True)[:SHOWN] if n), sep="\n  ")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
