"""Figures of the device target: correct programs, kernels by strategy, long serial kernels, resources.

python -m benchmarks.devices [WORD ...]            programs with one of these words in their names
python -m benchmarks.devices --cuda [WORD ...]     values and times on the first device of CUDA
python -m benchmarks.devices --opencl [WORD ...]   values on the first OpenCL device, such as PoCL

Each program is compiled as it is for a device, and runs on a driver for tests, whose device is this processor. Its
results are compared with those of C, and among orders of groups and threads. NVRTC says what each kernel takes.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpus import Entry, corpus
from benchmarks.examples import example_modules
from pullback.codegen.device.dialect import CUDA, OPENCL
from pullback.codegen.device.program import device_program
from pullback.codegen.target import Source
from pullback.codegen.targets import PLAIN_C
from pullback.device import GENERIC, H100
from pullback.errors import DeviceError, IndexRangeError, PullbackError
from pullback.grid.estimates import launches, steps
from pullback.ir.index import Index
from pullback.ir.program import Program
from pullback.loops.program import nodes
from pullback.loops.program.nodes import For, Function, Kernel, Stmt
from pullback.loops.program.schedule import Numbered
from pullback.runtime.buffer import address, aligned_bytes
from pullback.runtime.device.array import device_put
from pullback.runtime.device.driver import Gpu
from pullback.runtime.device.executor import DeviceExecutable
from pullback.runtime.device.export import lowered_for
from pullback.runtime.device.listing import gpu
from pullback.runtime.emit import Lowered, emit_c
from pullback.runtime.record import Record
from pullback.runtime.timing import arguments
from tests.support.devices import fake, nvrtc, opencl
from tests.support.devices.hosted import hosted

SKIPPED: Final = 77  # the status of a run that is not possible here
LONG: Final = 10_000  # steps of one thread
FEW: Final = 1024  # threads of a launch that leave nearly all of a device idle
SLOW: Final = 5.0  # seconds
FLAGS: Final = ("-std=c99", "-O1", "-ffp-contract=off", "-w", "-Wno-psabi", "-shared", "-fPIC")
TOLERANCE: Final = {"f": 1e-3, "d": 1e-9}
ARCHITECTURES: Final = ("sm_80", "sm_90a", "sm_120")
ORDERS: Final[tuple[Mapping[str, int | str], ...]] = (
    {"order": "reversed"}, {"multiprocessors": 1}, {"multiprocessors": 4}, {"order": 1})  # fmt: skip


@dataclass(frozen=True)
class Found:
    """The findings about a program.

    Attributes:
        name: the program's.   fault: what a call returns, not 0 if a check fails.
        worst: the largest difference, relative to the largest element.
        same: whether all orders of groups and threads give the same bits.
        launches: of a call.   looks: branches for which the host waits.   text: of the kernels.
        kernels: their number by strategy.   serial: long serial ones.
        seconds: of a call with arrays on the device, where that is known.
        again: launches of a repeated call, where a graph counts once.
    """

    name: str
    fault: int
    worst: float
    same: bool
    launches: int
    looks: int
    text: str
    kernels: Counter[str]
    serial: list[str]
    seconds: float | None = None
    again: int = 0


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


def examined(name: str, program: Program, dims: Mapping[str, int], slow: float = SLOW) -> Found:
    """Run a program on the driver for tests in several orders, and compare it with C for processors.

    Args:
        slow: the seconds of a call above which it is repeated in one other order only.
    Raises:
        PullbackError: devices do not support it.   AssertionError: the driver refuses what the host program does.
    """
    lowered, driver = lowered_for(program, dims), fake.Driver()
    made = device_program(lowered.function, lowered.memory, CUDA, H100, exact=program.settings.exact)
    assert restricted(made.kernels) == [], name
    beside = emit_c(program, dims, target=PLAIN_C)
    inputs = arguments(Record.of(lowered.function, beside))
    with hosted(made, lowered.function, *["--fmad=false"] * program.settings.exact) as call:
        assert call.status == 0, (name, call.status, driver.message)
        driver.reset()
        start = time.perf_counter()
        first = call([a.copy() for a in inputs])
        assert first.status >= 0, (name, first.status, driver.message)
        orders = ORDERS[:1] if time.perf_counter() - start > slow else ORDERS
        launched = driver.count("cuLaunchKernel")
        same = True
        for order in orders:  # the first call of these is captured as a graph
            driver.reset()
            driver.set(**order)
            again = call([a.copy() for a in inputs])
            same &= again.status == first.status != 0 or _bits(again.arrays) == _bits(first.arrays)
        repeated = driver.count("cuGraphLaunch") or driver.count("cuLaunchKernel")
        driver.reset()
    wanted, fault = run(beside, lowered.function, [a.copy() for a in inputs])
    assert bool(fault) == bool(first.status), (name, first.status, fault)
    worst = 0.0 if fault else max((apart(a, b) for a, b in zip(first.arrays, wanted, strict=True)), default=0.0)
    return Found(name, first.status, worst, same, launched, looks(lowered.function.body), made.kernels,
                 Counter(strategies(lowered)), long_ones(lowered), again=repeated)  # fmt: skip


def on_cuda(name: str, program: Program, dims: Mapping[str, int]) -> Found:
    """Run a program on the first device of CUDA twice, and compare it with C for processors."""
    lowered, device, exact = lowered_for(program, dims), gpu("cuda:0"), program.settings.exact
    beside = emit_c(program, dims, target=PLAIN_C)
    inputs = arguments(Record.of(lowered.function, beside))
    made = device_program(lowered.function, lowered.memory, device.words, device.model, exact=exact)
    call = DeviceExecutable(device, program, lowered, made, device.image(made, exact))
    wanted, fault = run(beside, lowered.function, [a.copy() for a in inputs])
    worst, same, seconds = 0.0, True, None
    try:
        found = call.run([a.copy() for a in inputs])
    except IndexRangeError:
        assert fault, name
    else:
        assert not fault, (name, fault)
        worst = max((apart(a, b) for a, b in zip(found, wanted, strict=True)), default=0.0)
        arrays = [device_put(a, "cuda:0") for a in inputs]
        if arrays:
            same = _bits([a.numpy() for a in call.run(arrays)]) == _bits(found)
            seconds = _seconds(lambda: call.run(arrays), device)
            same &= _bits([a.numpy() for a in call.run(arrays)]) == _bits(found)  # by a graph
    launched = int(launches(lowered.function.body))
    return Found(name, fault, worst, same, launched, looks(lowered.function.body), made.kernels,
                 Counter(strategies(lowered)), long_ones(lowered), seconds)  # fmt: skip


def _seconds(call: Callable[[], object], device: Gpu) -> float:
    """The seconds of a call among several that are queued together."""
    best, count = np.inf, 1
    for _ in range(4):
        device.wait()
        start = time.perf_counter()
        for _ in range(count):
            call()
        device.wait()
        best = min(best, (time.perf_counter() - start) / count)
        count = max(1, min(50, int(0.05 / best)))
    return float(best)


def on_opencl(name: str, program: Program, dims: Mapping[str, int]) -> Found:
    """Run a program on the first OpenCL device, and compare it with C for processors."""
    lowered = lowered_for(program, dims, GENERIC)
    beside = emit_c(program, dims, target=PLAIN_C)
    inputs = arguments(Record.of(lowered.function, beside))
    made = device_program(lowered.function, lowered.memory, OPENCL, GENERIC, exact=True)
    with opencl.loaded(made, lowered.function) as call:
        found, fault, *_ = call(inputs)
        launched = call.launches
    wanted, other = run(beside, lowered.function, [a.copy() for a in inputs])
    assert bool(fault) == bool(other), (name, fault, other)
    worst = 0.0 if fault else max((apart(a, b) for a, b in zip(found, wanted, strict=True)), default=0.0)
    return Found(name, fault, worst, True, launched, looks(lowered.function.body), made.kernels,
                 Counter(strategies(lowered)), long_ones(lowered))  # fmt: skip


def restricted(text: str) -> list[str]:
    """The arrays that a kernel writes through a restricted pointer though its threads meet.

    A compiler may move an access through such a pointer across a barrier. Emulated devices do not show that.
    """
    kernels = re.split(r"^extern \"C\" ", text, flags=re.MULTILINE)[1:]
    pointers = [x for k in kernels if CUDA.meet in k for x in re.findall(r"(?<!const )\b\w+ \*__restrict__ (\w+)", k)]
    return [name for name in pointers if not name.startswith("fault")]


def _bits(arrays: Sequence[NDArray[Any]]) -> list[bytes]:
    return [a.tobytes() for a in arrays]


def apart(a: NDArray[Any], b: NDArray[Any]) -> float:
    """The largest difference, relative to the largest element of `b`."""
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

    In a loop with states, only the steps between two barriers count: its iterations depend on each other.
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


Examine = Callable[[str, Program, Mapping[str, int]], Found]


def surveyed(entries: Sequence[Entry], examine: Examine) -> tuple[list[Found], list[str], list[str]]:
    """The findings, descriptions of wrong results, and programs that did not run with the reason."""
    found, wrong, refused = [], [], []
    for k, e in enumerate(entries):
        print(f"{k + 1} of {len(entries)}: {e.name}", file=sys.stderr, flush=True)
        program, dims = e.make()
        try:
            row = examine(e.name, program, dims)
        except (PullbackError, AssertionError, ValueError, subprocess.CalledProcessError) as error:
            refused.append(f"{e.name}: {error}".splitlines()[0])
            continue
        found.append(row)
        if not row.same or not right(row, {np.dtype(r.dtype.numpy).char for r in program.outputs}):
            wrong.append(f"{e.name}: apart by {row.worst:.1e}, same bits {row.same}, returns {row.fault}")
    return found, wrong, refused


def main(given: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.devices", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--opencl", action="store_true")
    parser.add_argument("--architecture", action="append", metavar="NAME",
                        help=f"for NVRTC, or none; by default {', '.join(ARCHITECTURES)}")  # fmt: skip
    parser.add_argument("--part", default="1/1", metavar="K/N", help="the K-th of N parts of the programs")
    options = parser.parse_args(given)
    if options.opencl and opencl.missing():
        print(opencl.missing())
        return SKIPPED
    if options.cuda:
        try:
            print(gpu("cuda:0").entry)
        except DeviceError as error:
            print(error)
            return SKIPPED
    part, parts = map(int, options.part.split("/"))
    entries = [e for e in corpus(example_modules(Path("examples")))
               if not options.words or any(w in e.name for w in options.words)][part - 1 :: parts]  # fmt: skip
    start = time.perf_counter()
    examine = on_cuda if options.cuda else on_opencl if options.opencl else examined
    found, wrong, refused = surveyed(entries, examine)
    kernels = sum((row.kernels for row in found), Counter[str]())
    how = {on_cuda: "right on CUDA and with the same bits twice", on_opencl: "right on OpenCL"}.get(
        examine, "right and with the same bits in all orders")
    print(f"{len(entries)} programs, {len(found) - len(wrong)} {how}, {time.perf_counter() - start:.0f} s")
    print(f"{sum(row.launches for row in found)} launches, {sum(row.again for row in found)} of repeated calls, "
          f"{sum(kernels.values())} kernels: "
          f"{dict(kernels.most_common())}")  # fmt: skip
    most = sorted(found, key=lambda row: -row.launches)[:10]
    print(f"the host waits for {sum(row.looks for row in found)} conditions; most launches:",
          *(f"{row.launches} {row.name}" for row in most), sep="\n  ")  # fmt: skip
    print("long serial kernels:", *(f"{row.name}: {text}" for row in found for text in row.serial), sep="\n  ")
    timed = [row for row in found if row.seconds is not None]
    print(*(f"{1e6 * (row.seconds or 0):.1f} µs in {row.launches} launches: {row.name}" for row in timed), sep="\n")
    print("not right:", *wrong, sep="\n  ")
    print("not run:", *refused, sep="\n  ")
    for architecture in options.architecture or (ARCHITECTURES if nvrtc.loaded() and examine is examined else ()):
        if architecture != "none":
            print(resources(found, architecture), flush=True)
    return int(bool(wrong))


def resources(found: Sequence[Found], architecture: str) -> str:
    """The registers and spills of all kernels, as NVRTC says."""
    start, all_of = time.perf_counter(), dict[str, nvrtc.Resources]()
    for row in found:
        if row.kernels:
            print(f"{architecture}: {row.name}", file=sys.stderr, flush=True)
            all_of |= {f"{row.name}: {k}": r for k, r in nvrtc.compiled(row.text, architecture)[1].items()}
    registers = [r.registers for r in all_of.values()]
    spilled = [f"{k}, {r.spills} bytes" for k, r in all_of.items() if r.spills]
    head = (f"{architecture}: {len(all_of)} kernels, registers {statistics.median(registers):.0f} in the median and "
            f"{max(registers)} at most, {len(spilled)} with spills, {time.perf_counter() - start:.0f} s")  # fmt: skip
    return "\n  ".join([head, *spilled])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
