"""Figures of the device target: values of the corpus, kernels by strategy, long serial kernels.

python -m benchmarks.devices [WORD ...]            programs with one of these words in their names
python -m benchmarks.devices --opencl [WORD ...]   values on the first OpenCL device, such as PoCL
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpus import Entry, corpus
from benchmarks.examples import example_modules
from pullback.codegen.device.dialect import OPENCL
from pullback.codegen.device.program import device_program
from pullback.codegen.target import Source
from pullback.codegen.targets import PLAIN_C
from pullback.device import H100
from pullback.errors import PullbackError
from pullback.grid.estimates import launches, steps
from pullback.ir.index import Index
from pullback.ir.program import Program
from pullback.loops.program import nodes
from pullback.loops.program.nodes import For, Function, Kernel, Stmt
from pullback.loops.program.schedule import Numbered
from pullback.runtime.buffer import address, aligned_bytes
from pullback.runtime.device.export import refuse
from pullback.runtime.emit import Lowered, emit_c, lower_program
from pullback.runtime.record import Record
from pullback.runtime.timing import arguments
from tests.support.devices import opencl
from tests.support.devices.plain import reading

SKIPPED: Final = 77  # the status of a run that is not possible here
LONG: Final = 10_000  # steps of one thread
FEW: Final = 1024  # threads of a launch that leave nearly all of a device idle
FLAGS: Final = ("-std=c99", "-O1", "-ffp-contract=off", "-w", "-Wno-psabi", "-shared", "-fPIC")
TOLERANCE: Final = {"f": 1e-3, "d": 1e-9}


@dataclass
class Found:
    """The findings about a program."""

    name: str
    worst: float  # the largest difference, relative to the largest element
    same: bool  # whether both directions give the same bits
    fault: int
    kernels: Counter[str] = field(default_factory=Counter)
    serial: list[str] = field(default_factory=list)
    launches: float = 0.0
    looks: int = 0


def run(source: Source, function: Function, inputs: Sequence[NDArray[Any]]) -> tuple[list[NDArray[Any]], int]:
    """The results of C, and what it returns."""
    record = Record.of(function, source)
    outputs = [np.zeros(p.shape, a.dtype) for p, a in zip(record.outputs, map(_like, function.outputs), strict=True)]
    memory = aligned_bytes(max(source.arena_bytes, 64))
    memory[...] = 0xEE
    arrays = [*inputs, *outputs, memory, *([np.zeros(2, np.int64)] if source.sites else [])]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.c"
        file.write_text(source.text)
        subprocess.run(["cc", *FLAGS, str(file), "-o", f"{folder}/program.so", "-lm"], check=True)
        call = getattr(ctypes.CDLL(f"{folder}/program.so"), source.name)
        status = call(*(ctypes.c_void_p(address(a)) for a in arrays))
    return outputs, status


def _like(b: Any) -> NDArray[Any]:
    return np.empty(0, b.dtype.numpy)


def examined(name: str, program: Program, dims: Mapping[str, int]) -> Found:
    """Run a program in both directions, and beside the C for processors."""
    lowered = lower_program(program, dims, device=H100)
    refuse(lowered.function)
    forward, backward = (reading(lowered, direction) for direction in (False, True))
    inputs = arguments(Record.of(lowered.function, forward))
    (one, fault), (two, _) = (run(s, lowered.function, [a.copy() for a in inputs]) for s in (forward, backward))
    beside = emit_c(program, dims, target=PLAIN_C)
    wanted, other = run(beside, lowered.function, [a.copy() for a in inputs])
    same = all(a.tobytes() == b.tobytes() for a, b in zip(one, two, strict=True)) or fault != 0
    worst = max((_apart(a, b) for a, b in zip(one, wanted, strict=True)), default=0.0) if not fault else 0.0
    assert bool(fault) == bool(other), (name, fault, other)
    return Found(name, worst, same, fault, Counter(strategies(lowered)), long_ones(lowered),
                 launches(lowered.function.body), looks(lowered.function.body))  # fmt: skip


def on_opencl(name: str, program: Program, dims: Mapping[str, int]) -> Found:
    """Run a program on the first OpenCL device, and beside the C for processors."""
    lowered = lower_program(program, dims, device=H100)
    refuse(lowered.function)
    beside = emit_c(program, dims, target=PLAIN_C)
    inputs = arguments(Record.of(lowered.function, beside))
    made = device_program(lowered.function, lowered.memory, OPENCL, H100, exact=True)
    one, fault, _, _ = opencl.ran(made, lowered.function, inputs)
    wanted, other = run(beside, lowered.function, [a.copy() for a in inputs])
    worst = max((_apart(a, b) for a, b in zip(one, wanted, strict=True)), default=0.0) if not fault else 0.0
    assert bool(fault) == bool(other), (name, fault, other)
    return Found(name, worst, True, fault, Counter(strategies(lowered)), long_ones(lowered))


def _apart(a: NDArray[Any], b: NDArray[Any]) -> float:
    if not a.size or a.dtype.kind not in "fc":
        return float((a != b).any())
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return np.inf
    with np.errstate(all="ignore"):
        return float(np.nanmax(np.abs(a - b), initial=0.0) / max(1.0, float(np.nanmax(np.abs(b), initial=0.0))))


def right(found: Found, dtypes: set[str]) -> bool:
    """Whether the values are as near as those of the C for processors are to each other."""
    return found.worst <= max((TOLERANCE.get(d, 0.0) for d in dtypes), default=0.0)


def kernels(lowered: Lowered) -> list[Kernel]:
    """The kernels of a program."""
    return nodes.kernels_of(lowered.function.body)


def strategies(lowered: Lowered) -> list[str]:
    """The names of the strategies of all launches."""
    out = []
    for k in kernels(lowered):
        assert k.choice is not None
        parts = " | ".join("" if isinstance(s, Numbered) else str(s) for s in k.choice.schedule.steps)
        out += [k.choice.name if "one thread" not in parts else "one thread"]
    return out


def long_ones(lowered: Lowered) -> list[str]:
    """The kernels in which one of few threads has more than 10,000 steps.

    In a loop with states these are the steps between two meetings: its iterations need each other.
    """
    return [f"{k.name} ({k.choice}), {n:,.0f} steps" for k in kernels(lowered) for s in k.body
            if threads(s) < FEW and (n := most_steps(k, s)) > LONG]  # fmt: skip


def most_steps(k: Kernel, group: Stmt) -> float:
    """The steps that one thread takes in a launch."""
    if k.choice is None or k.choice.name != "loop":
        return steps(group)
    return max(steps(s) for s in nodes.walk((group,)) if isinstance(s, For) and s.kind == "thread")


def looks(body: Sequence[Stmt]) -> int:
    """The branches for which the host waits."""
    return sum(isinstance(s, nodes.If) for s in nodes.walk(tuple(body)))


def threads(group: Stmt) -> int:
    """The threads of a launch."""
    loops = [s for s in nodes.walk((group,)) if isinstance(s, For) and s.kind in ("group", "thread")]
    counts = [(s.kind, s.upper.constant or 1) for s in loops if isinstance(s.upper, Index)]
    return prod(max(n for kind, n in counts if kind == k) for k in ("group", "thread"))


def main(words: Sequence[str]) -> int:
    """Print the table."""
    start, wrong, total, serial, count, good = time.perf_counter(), [], Counter[str](), [], 0, 0
    examine, words = (on_opencl, [w for w in words if w != "--opencl"]) if "--opencl" in words else (examined, words)
    if examine is on_opencl and opencl.missing():
        print(opencl.missing())
        return SKIPPED
    each: list[tuple[float, int, str]] = []
    entries: list[Entry] = [e for e in corpus(example_modules(Path("examples")))
                            if not words or any(w in e.name for w in words)]  # fmt: skip
    for k, e in enumerate(entries):
        print(f"{k + 1} of {len(entries)}: {e.name}", file=sys.stderr, flush=True)
        program, dims = e.make()
        try:
            found = examine(e.name, program, dims)
        except (PullbackError, ValueError, subprocess.CalledProcessError) as error:
            wrong.append(f"{e.name}: {error.what if isinstance(error, PullbackError) else error}")
            continue
        count += 1
        total += found.kernels
        serial += [f"{e.name}: {text}" for text in found.serial]
        each.append((found.launches, found.looks, e.name))
        ok = right(found, {np.dtype(r.dtype.numpy).char for r in program.outputs})
        good += ok and found.same
        if not ok or not found.same:
            wrong.append(f"{e.name}: apart by {found.worst:.1e}, same bits {found.same}, returns {found.fault}")
            print(wrong[-1], flush=True)
    how = "right on OpenCL" if examine is on_opencl else "right and the same reversed"
    print(f"{good} of {len(entries)} programs {how}, {count} run, {sum(total.values())} kernels")
    print(f"{dict(total.most_common())}, {time.perf_counter() - start:.0f} s")
    total_launches, waits = sum(n for n, _, _ in each), sum(n for _, n, _ in each)
    print(f"launches a call: {total_launches:,.0f}; the host waits for {waits} conditions")
    print(*(f"  {n:,.0f} {name}" for n, _, name in sorted(each, reverse=True)[:10]), sep="\n")
    print("long serial kernels:", *serial, sep="\n  ")
    print("not right:", *wrong, sep="\n  ")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
