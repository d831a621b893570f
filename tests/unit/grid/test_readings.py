"""Device kernels read in five ways: plain C in both directions, unknowns, CUDA's text on threads, and NVRTC."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tests.support.equivalence  # noqa: F401 -- it is asked for by PULLBACK_VERIFY
from benchmarks.corpus import Entry, corpus
from benchmarks.devices import TOLERANCE, apart, long_ones, run
from pullback.codegen.device.dialect import CUDA, DeviceWords
from pullback.codegen.device.program import DeviceProgram, device_program
from pullback.device import H100, Device
from pullback.errors import VerifyError
from pullback.grid import lanes, products, table
from pullback.grid.table import DeviceStrategy
from pullback.ir.halves import to_half
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.loops.plain.builder import KernelBuilder, Work
from pullback.loops.plain.candidates import Candidate
from pullback.loops.program.nodes import Function, Kernel
from pullback.machine import Machine
from pullback.runtime.device.export import lowered_for
from tests.support.devices import nvrtc
from tests.support.devices.plain import reading
from tests.support.devices.threads import CRASHED, built, ran
from tests.unit.grid.programs import PROGRAMS, program

pytestmark = pytest.mark.slow

needs_compilers = pytest.mark.skipif(not shutil.which("g++") or not shutil.which("gcc"), reason="no gcc and g++")
SMALL = {
    "elements": {"N": 3, "M": 4}, "product": {"B": 9, "I": 30, "O": 10}, "tree": {"N": 2, "M": 70},
    "trees": {"N": 4200}, "position": {"N": 70}, "positions": {"N": 2, "M": 70},
    "rest": {"N": 70}, "checked": {"N": 70, "M": 3}, "scan": {"N": 2, "M": 40}, "scans": {"N": 90},
    "sort": {"N": 2, "M": 18}, "order": {"N": 2, "M": 18},
    "scatter": {"N": 12, "M": 2}, "tally": {"N": 70}, "check": {"N": 5, "M": 3}, "branch": {"N": 6}, "sides": {"N": 6},
    "either": {"N": 3, "M": 600}, "recurrent": {"N": 4, "T": 3},
    "scalar": {}, "nested": {"N": 4}, "until": {"N": 4}, "choice": {"N": 5, "T": 4}, "rows": {"N": 2, "M": 5},
    "hops": {"N": 7}, "batch": {"N": 20, "T": 2, "B": 12, "G": 2}, "mixed": {"N": 2, "B": 3},
    "large": {"N": 5}, "turn": {"B": 2, "N": 9, "M": 10}, "columns": {"N": 40, "M": 9},
    "many": {"N": 2, "M": 5}, "all": {"N": 3, "M": 3}, "short": {"N": 130, "M": 3},
    "range": {"N": 2, "M": 9}, "sums": {"N": 70, "M": 36}, "firsts": {"N": 5, "M": 260},
    "softmax": {"N": 3, "M": 10}, "normal": {"N": 3, "M": 5}}  # fmt: skip
SLOW = replace(H100, meeting=1e9)  # a device whose host launches each kernel
APART = replace(SLOW, launch=1.0, look=0.0)  # and reads each condition
FEW_GROUPS = {"trees": {"N": 50_000}}  # in two parts
BARRIERS = {"product": 4, "tensor": 1, "tree": 3, "trees": 10, "position": 5, "scan": 3, "recurrent": 2, "nested": 2,
            "until": 3, "choice": 3, "rows": 4, "hops": 2, "batch": 2}  # fmt: skip
QUICK = [e for e in corpus() if e.name.startswith(("apl", "random", "derivative"))]


def text_of(
    name: str, device: Device = H100, words: DeviceWords = CUDA, **sizes: int
) -> tuple[DeviceProgram, Function, list[NDArray[Any]]]:
    """A program as text, and arguments."""
    made, dims = program(name)
    lowered = lowered_for(made, {**dims, **sizes}, device)
    rng = np.random.default_rng(1)
    inputs = []
    for b in lowered.function.given:
        shape = [i.constant or 0 for i in b.shape]
        numbers = rng.integers(0, 7, shape) if b.dtype.is_integer else rng.normal(size=shape)
        inputs.append(to_half(numbers, b.dtype) if b.dtype.is_half else numbers.astype(b.dtype.numpy))
    return device_program(lowered.function, lowered.memory, words, H100), lowered.function, inputs


@pytest.mark.parametrize("name", PROGRAMS)
def test_plain_reading(name: str) -> None:
    """Plain C gives the interpreter's values, and equal bits in both orders of groups and threads."""
    made, dims = program(name)
    lowered, inputs = lowered_for(made, dims), text_of(name)[2]
    one, two = (run(reading(lowered, backward), lowered.function, inputs)[0] for backward in (False, True))
    assert [a.tobytes() for a in one] == [a.tobytes() for a in two]
    for a, b in zip(one, interpret(made, inputs), strict=True):
        assert apart(a, b) <= TOLERANCE.get(a.dtype.char, 0)
    assert long_ones(lowered) == []


def test_the_first_extreme_and_the_first_nan() -> None:
    """Positions are those of the definition where elements are equal, infinite or NaN."""
    made, dims = program("position")
    lowered = lowered_for(made, dims)
    same, least, last = np.ones(50_000, np.float32), np.full(50_000, -np.inf, np.float32), np.zeros(50_000, np.float32)
    nan = last.copy()
    last[-1], nan[[49_000, 300, 7_000]] = 1, np.nan
    for x, wanted in ((same, 0), (least, 0), (last, 49_999), (nan, 300)):
        assert run(reading(lowered), lowered.function, [x])[0][0] == wanted == interpret(made, [x])[0]


@pytest.mark.parametrize("name", SMALL)
def test_equal_to_the_source(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launches equal the program as functions over the reals, for all inputs of these sizes."""
    monkeypatch.setenv("PULLBACK_VERIFY", "equivalence")
    lowered_for(parse_program(PROGRAMS[name][0]), SMALL[name])


@pytest.mark.parametrize("entry", [e for e in QUICK if e.name.startswith(("apl", "random"))], ids=lambda e: e.name)
def test_corpus_equals_the_source(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    made, dims = entry.make()
    monkeypatch.setenv("PULLBACK_VERIFY", "equivalence")
    lowered_for(made, dims)


WRONG = [(lanes, "neutral", lambda *_: 1), (products, "below", lambda *_: [])]


@pytest.mark.parametrize(("module", "name", "wrong"), WRONG, ids=["tree", "product"])
def test_wrong_launches_are_not_equal(module: Any, name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_VERIFY", "equivalence")
    monkeypatch.setattr(module, name, wrong)
    which = "tree" if module is lanes else "product"
    with pytest.raises((VerifyError, IndexError)):
        lowered_for(parse_program(PROGRAMS[which][0]), SMALL[which])


@needs_compilers
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ("large", "sides")])
def test_text_on_threads(name: str, tmp_path: Path) -> None:
    """The host program and the text of CUDA give the interpreter's values, and touch no memory beside their arrays."""
    _gives_its_values(name, tmp_path)


@needs_compilers
@pytest.mark.parametrize(("name", "device", "loops", "looks"), [
    ("branch", SLOW, 0, 0), ("branch", APART, 0, 1), ("recurrent", APART, 1, 0), ("choice", SLOW, 1, 0),
    ("choice", APART, 1, 1), ("until", APART, 1, 1)], ids=lambda x: x if isinstance(x, str) else "")  # fmt: skip
def test_loops_and_conditions_of_the_host(name: str, device: Device, loops: int, looks: int, tmp_path: Path) -> None:
    """The host repeats launches if one group is too small, and reads conditions over many launches."""
    host = _gives_its_values(name, tmp_path, device).host
    assert (host.count("for (int64_t"), host.count("OK(look(")) == (loops, looks)


def _gives_its_values(name: str, tmp_path: Path, device: Device = H100) -> DeviceProgram:
    made, function, inputs = text_of(name, device)
    built(made, function, tmp_path, "address")
    found = ran(function, inputs, tmp_path)
    assert (found.status, found.reports) == (0, "")
    for a, b in zip(found.results, interpret(program(name)[0], inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4 if a.dtype == np.float32 else 1e-12, atol=1e-5)
    return made


@needs_compilers
@pytest.mark.parametrize("name", ["either", "choice", "until", "branch", "mixed"])
def test_barriers_out_of_branches(name: str, tmp_path: Path) -> None:
    """The form of branches that OpenCL has, with the words of CUDA: both sides give their values, without a race."""
    made, function, inputs = text_of(name, words=replace(CUDA, branches=False))
    assert ("bool taken" in made.kernels) == (name in ("either", "choice", "branch"))
    built(made, function, tmp_path, "thread")
    for given in (inputs, [-a for a in inputs]):
        found = ran(function, given, tmp_path)
        assert (found.status, found.reports) == (0, "")
        for a, b in zip(found.results, interpret(program(name)[0], given), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@needs_compilers
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_barrier_is_needed(name: str, tmp_path: Path) -> None:
    """There is no race, and one is reported where any of the barriers is left out."""
    made, function, inputs = text_of(name, **FEW_GROUPS.get(name, {}))
    barriers = made.kernels.count("__syncthreads();")
    assert barriers == BARRIERS.get(name, barriers)
    if barriers:
        built(made, function, tmp_path, "thread")
        assert ran(function, inputs, tmp_path).reports == ""
    sides = [inputs, [-a for a in inputs]] if name == "either" else [inputs]  # a side that is not taken has no race
    for k in range(barriers):
        reports = [ran(function, given, tmp_path, WITHOUT_BARRIER=str(k)).reports for given in sides]
        assert any("data race" in r for r in reports), f"barrier {k}"


def test_each_strategy_has_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs of the barrier test cover all strategies but those that `test_writes` and `test_library` read."""
    chosen: set[str] = set()

    def named(strategy: DeviceStrategy) -> DeviceStrategy:
        def candidates(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
            for c in strategy(work, machine, device):
                yield replace(c, build=partial(built_by, c.build))

        def built_by(build: Callable[[KernelBuilder], Kernel], builder: KernelBuilder) -> Kernel:
            chosen.add(strategy.__name__)
            return build(builder)

        return candidates

    tables = {name: getattr(table, name) for name in ("STRATEGIES", "SEVERAL", "LOOPS", "SORTS")}
    for name, strategies in tables.items():
        monkeypatch.setattr(table, name, tuple(map(named, strategies)))
    for name in PROGRAMS:
        lowered_for(*program(name))
    assert chosen | {"writes", "libraries"} == {s.__name__ for strategies in tables.values() for s in strategies}


@needs_compilers
def test_errors_of_the_host_program(tmp_path: Path) -> None:
    made, function, (x, at) = text_of("check")
    built(made, function, tmp_path)
    at[3] = 9
    found = ran(function, [x, at], tmp_path)
    assert (found.status, found.fault) == (1, "9 7")
    assert ran(function, [x, at], tmp_path, FAKE_CUDA="memory=1000").status == -2
    assert ran(function, [x, at], tmp_path, FAKE_CUDA="memory=2000").status == 1
    (tmp_path / "libcuda.so.1").unlink()
    assert ran(function, [x, at], tmp_path).status in (-1001, -100, CRASHED) or shutil.which("nvidia-smi")


@needs_compilers
def test_a_check_in_a_loop(tmp_path: Path) -> None:
    """A thread whose index is out of range still meets the others, and the check is reported."""
    made, function, (x, at) = text_of("hops")
    built(made, function, tmp_path, "address")
    at[3] = 9
    found = ran(function, [x, at], tmp_path)
    assert (found.status, found.fault, found.reports) == (1, "9 7", "")


@needs_compilers
@pytest.mark.parametrize(("name", "device", "launches", "tests"), [
    ("later", H100, 5, 2), ("around", H100, 1, 2), ("around", SLOW, 2, 2), ("twice", H100, 5, 2)],
    ids=["later", "one group", "host's loop", "read together"])  # fmt: skip
def test_indices_after_a_failed_check(name: str, device: Device, launches: int, tests: int, tmp_path: Path) -> None:
    """After a failed check, threads that would use elements as indices leave, also in later launches."""
    made, function, inputs = text_of(name, device)
    assert (len(made.launches), made.kernels.count(CUDA.failed)) == (launches, tests)
    built(made, function, tmp_path, "address")
    inputs[1][3] = far = 1 << 40
    found = ran(function, inputs, tmp_path)
    assert (found.status, found.fault, found.reports) == (1, f"{far} 7", "")


@pytest.mark.skipif(nvrtc.loaded() is None, reason=nvrtc.MISSING)
@pytest.mark.parametrize("name", PROGRAMS)
def test_nvrtc(name: str) -> None:
    """The text compiles for sm_90a, and all local arrays are in registers."""
    made = text_of(name)[0]
    cubin, found = nvrtc.compiled(made.kernels, H100.architecture)
    assert cubin[:4] == b"\x7fELF"
    assert found.keys() == {launch.name for launch in made.launches}
    assert all(r.spills == r.stack == 0 for r in found.values())
    assert all(found[x.name].occupancy(x.threads) >= 0.25 for x in made.launches)
