"""The tuner of device schedules, on a driver for tests whose times a test sets."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

import pullback as pb
from pullback.device import Device
from pullback.grid import table
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.loops.plain.builder import KernelBuilder, Work
from pullback.loops.plain.candidates import Candidate
from pullback.loops.program.nodes import Kernel, kernels_of
from pullback.machine import Machine
from pullback.runtime.cache import cache_folder
from pullback.runtime.device import cuda, schedules, tuner
from pullback.runtime.device.cuda import CudaGpu
from pullback.runtime.device.export import loops_for
from pullback.runtime.device.listing import gpu
from pullback.runtime.device.stopwatch import Stopwatch
from pullback.runtime.device.tuner import Trial, Trials, difference, tuned
from tests.support.devices import fake

pytestmark = [pytest.mark.slow, pytest.mark.skipif(fake.IS_REAL, reason="it sets the times of kernels")]

SUMS = parse_program("f(x: f32[64, 80]) { y = build n < 64 { sum m < 80 { x[n, m] } } return y }")
TWO = parse_program("""f(x: f32[64, 80]) { y = build n < 64 { sum m < 80 { x[n, m] } }
  z = build m < 80 { sum n < 64 { x[n, m] * x[n, m] } } return y, z }""")
PLAIN = "elements: loops as written"
LANES = "tree: grid $0 64 | threads $1 32 | tree"  # 64 groups of 32 threads
SEVERAL = "tree: grid $0 64 | results 32 | threads $1 8 | tree"  # 2 groups of 256 threads
FAST_LANES, FAST_SEVERAL = "64x32:100", "2x256:100"


@pytest.fixture
def device(devices: fake.Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[fake.Driver]:
    """A device, and a table of its own."""
    own = f"tuned-{uuid4().hex}"
    monkeypatch.setattr(schedules, "KIND", own)
    schedules._SAID.clear()
    yield devices
    schedules._SAID.clear()
    shutil.rmtree(cache_folder() / own, ignore_errors=True)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arrays whose kernels are measured."""
    found: list[str] = []
    best = Trials.best

    def noted(self: Trials) -> str | None:
        found.append(self._work.outs[0].name)
        return best(self)

    monkeypatch.setattr(Trials, "best", noted)
    return found


def own_gpu() -> CudaGpu:
    found = gpu("cuda:0")
    assert isinstance(found, CudaGpu)
    return found


def chosen(program: Program = SUMS) -> list[str]:
    """The schedules of a program's kernels after it is tuned."""
    found = tuned(own_gpu(), program, {})
    return [str(k.choice) for k in kernels_of(loops_for(program, {}, own_gpu().model, found).function.body)]


def entries() -> list[dict[str, str]]:
    return [json.loads(p.read_bytes()) for p in schedules._entries()]


def said(call: Callable[[], Any]) -> list[str]:
    """The warnings of a call."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in found]


# Choices --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fast", "wanted"), [(FAST_LANES, LANES), (FAST_SEVERAL, SEVERAL)])
def test_the_fastest_schedule_is_taken(device: fake.Driver, seen: list[str], fast: str, wanted: str) -> None:
    """The fastest schedule is measured once, and kept."""
    device.set(time=fast)
    found = chosen()
    assert [e["schedule"] for e in entries()] == [wanted] and seen == ["y"]
    assert found[0].startswith(f"tree: grid n 64 | {wanted.split('| ')[1].replace('$1', 'm')}")
    device.set(time="64x32:7")
    assert chosen() == found and seen == ["y"]


def test_small_gains_change_nothing(device: fake.Driver) -> None:
    before = [str(k.choice) for k in kernels_of(loops_for(SUMS, {}, own_gpu().model).function.body)]
    device.set(time="64x32:990")
    device.set(time="2x256:980")
    assert chosen() == before and [e["schedule"] for e in entries()] == [""]


def test_functions(device: fake.Driver, seen: list[str]) -> None:
    """`tune` is for calls; derivatives inherit it, other functions and exports stay as they are."""
    device.set(time=FAST_LANES)
    x = np.random.default_rng(0).normal(size=(64, 80)).astype(np.float32)

    def total(x: Any) -> Any:
        return pb.sum(x, axis=1)

    plain = pb.function(total, device="cuda!")(x)
    assert seen == []
    f = pb.function(total, device="cuda!", tune=True)
    np.testing.assert_allclose(f(x), plain, rtol=1e-5)
    assert seen == ["sum"] and LANES in {e["schedule"] for e in entries()}
    pb.function(device="cuda!")(lambda x: pb.sum(x, axis=1) + 1)(x)
    assert seen == ["sum"]
    pb.grad(pb.function(lambda x: pb.sum(pb.sum(x * x, axis=1)), device="cuda!", tune=True))(x)
    assert len(seen) > 1


def test_names_do_not_count(device: fake.Driver, seen: list[str]) -> None:
    """An equal statement with other names takes the schedule that was measured."""
    device.set(time=FAST_LANES)
    chosen()
    other = parse_program("g(a: f32[64, 80]) { b = build row < 64 { sum j < 80 { a[row, j] } } return b }")
    assert chosen(other)[0].startswith("tree: grid row 64 | threads j 32") and seen == ["y"]


def test_exact_programs_keep_their_bits(device: fake.Driver) -> None:
    """Only schedules that round as written are candidates there."""
    device.set(time=FAST_LANES)
    exact = replace(SUMS, settings=replace(SUMS.settings, exact=True))
    assert chosen(exact)[0].startswith("elements: ")
    assert [e["schedule"] for e in entries()] == [""]


# Bad input ------------------------------------------------------------------------------------------------------


def wrong(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """A strategy whose results lack a term."""
    for c in table.elements(work, machine, device):
        s = work.statement
        assert isinstance(s, ir.Build)
        less = replace(s, values=tuple(expr.add(v, expr.const(-1.0, v.dtype)) for v in s.values))

        def build(builder: KernelBuilder, less: ir.Build = less) -> Kernel:
            return builder.kernel(table._plain(less, builder))

        yield replace(c, name="wrong", cycles=c.cycles * 1.01, build=build)


def test_wrong_schedules_are_not_used(device: fake.Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference of one term in 80 is found before anything is timed."""
    monkeypatch.setattr(table, "STRATEGIES", (table.elements, wrong))
    timed: list[str] = []
    ratios = Trials._ratios

    def noted(self: Trials, present: Trial, trials: list[Trial], calls: int) -> dict[str, float]:
        timed.extend(t.text for t in trials)
        return ratios(self, present, trials, calls)

    monkeypatch.setattr(Trials, "_ratios", noted)
    found = said(chosen)
    assert len(found) == 1
    assert found[0].startswith(
        "y on cuda:0: the schedule wrong: loops as written is wrong and not used: y is apart by ")  # fmt: skip
    assert "of the largest element at [" in found[0] and found[0].endswith(" [E424]")
    assert timed == [] and [e["schedule"] for e in entries()] == [""]


def test_a_present_schedule_that_is_wrong(device: fake.Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The present schedule is compared with C for processors."""

    def cheap(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
        yield from (replace(c, cycles=1.0) for c in wrong(work, machine, device))

    monkeypatch.setattr(table, "STRATEGIES", (cheap, table.elements))
    [found] = said(chosen)
    assert found.startswith("y on cuda:0: its present schedule gives other values than the processor: y is apart by ")
    assert entries() == []


def test_clocks_that_fall_once(device: fake.Driver) -> None:
    """The round in which they fall is repeated."""
    device.set(time=FAST_LANES)
    device.set(slow="60:300")
    assert said(chosen) == [] and [e["schedule"] for e in entries()] == [LANES]


def test_clocks_that_do_not_settle(device: fake.Driver) -> None:
    """Nothing changes, and nothing is kept."""
    device.set(time=FAST_LANES)
    device.set(flicker=170)
    before = [str(k.choice) for k in kernels_of(loops_for(SUMS, {}, own_gpu().model).function.body)]
    found: list[str] = []
    assert said(lambda: found.extend(chosen())) == [
        "y on cuda:0: the clocks of the device change by more than 10% within a round of measurements; its schedule "
        "stays, and is measured again by the next process [E424]"]  # fmt: skip
    assert found == before and entries() == []


def test_interruptions(device: fake.Driver, monkeypatch: pytest.MonkeyPatch, seen: list[str]) -> None:
    """Kernels that were done stay done."""
    best, count = Trials.best, 0

    def interrupted(self: Trials) -> str | None:
        nonlocal count
        count += 1
        if count == 2:
            raise KeyboardInterrupt
        return best(self)

    monkeypatch.setattr(Trials, "best", interrupted)
    with pytest.raises(KeyboardInterrupt):
        chosen(TWO)
    assert len(entries()) == 1 == len(seen)
    chosen(TWO)
    assert len(entries()) == 2 and sorted(seen) == ["y", "z"]


def test_tables_of_other_families(device: fake.Driver, seen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    device.set(time=FAST_LANES)
    chosen()
    monkeypatch.setattr(own_gpu(), "family", "sm_90a with about 32 multiprocessors")
    device.reset()
    device.set(devices=2, late=1)
    found: list[str] = []
    assert said(lambda: found.extend(chosen())) == [
        "y: there is a measured schedule for sm_90a with about 128 multiprocessors, which is not used for "
        "sm_90a with about 32 multiprocessors [E424]"]  # fmt: skip
    assert not found[0].startswith("tree: grid n 64 | threads m 32") and seen == ["y", "y"]
    assert sorted(e["schedule"] for e in entries()) == ["", LANES]


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b.replace(b"tree", b"true"), lambda b: b""])
def test_damaged_entries(device: fake.Driver, seen: list[str], damage: Callable[[bytes], bytes]) -> None:
    """Damaged entries are reported and measured again."""
    device.set(time=FAST_LANES)
    chosen()
    [path] = schedules._entries()
    path.write_bytes(damage(path.read_bytes()))
    assert said(chosen) == [f"y: the measured schedule in {path} is damaged, and is measured anew [E424]"]
    assert seen == ["y", "y"] and [e["schedule"] for e in entries()] == [LANES]


def test_entries_of_schedules_that_are_not_offered(device: fake.Driver, seen: list[str]) -> None:
    """An entry names a schedule, no kernel: another one changes nothing."""
    before = [str(k.choice) for k in kernels_of(loops_for(SUMS, {}, own_gpu().model).function.body)]
    device.set(time=FAST_LANES)
    chosen()
    measured = schedules.Table(own_gpu().family)
    measured.keep(entries()[0]["statement"], "tree: threads 7")
    [old] = [p for p in schedules._entries() if json.loads(p.read_bytes())["schedule"] == LANES]
    old.unlink()
    assert chosen() == before and seen == ["y"]


def test_two_processes(tmp_path: Path) -> None:
    """Both write entries, the same ones and their own, and both read all of them."""
    text = ("import sys; from pullback.runtime.device.schedules import Table; t = Table('a');"
            "[t.keep(f'{n:02x}', f's{n}') for n in range(int(sys.argv[1]), int(sys.argv[1]) + 40)]")  # fmt: skip
    environment = {"PULLBACK_CACHE_DIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"),
                   "PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(pb.__file__).parents[1])}  # fmt: skip
    both = [subprocess.Popen([sys.executable, "-c", text, start], env=environment) for start in ("0", "20")]
    assert [p.wait() for p in both] == [0, 0]
    check = ("import json; from pullback.runtime.device.schedules import Table; t = Table('a');"
             "print(json.dumps([t.find(f'{n:02x}', '') for n in range(60)]))")  # fmt: skip
    out = subprocess.run([sys.executable, "-c", check], env=environment, check=True, capture_output=True, text=True)
    assert json.loads(out.stdout) == [f"s{n}" for n in range(60)]


def test_devices_that_are_not_measured(device: fake.Driver) -> None:
    other: Any = SimpleNamespace(name="opencl:0", family="")
    assert said(lambda: tuned(other, SUMS, {})) == [
        "f: kernels are not measured on opencl:0, and keep their schedules [E424]"]  # fmt: skip


def test_drivers_without_events() -> None:
    """They run programs, and measure nothing."""
    assert set(cuda.MEASURING).isdisjoint(cuda.ENTRIES)


# Parts ----------------------------------------------------------------------------------------------------------


def test_the_stopwatch(device: fake.Driver) -> None:
    """A measurement is one launch of a graph, and lasts as long as the work of the device."""
    made = pb.function(lambda x: pb.sum(x, axis=1), device="cuda!")
    x = pb.device_put(np.ones((64, 80), np.float32))
    made(x)
    found = next(e for e in _living() if e.program.name == made.name)
    results = found.queued([x])
    device.set(slow="1:500")
    with Stopwatch(own_gpu(), found.repeated([x], results), 10) as watch:
        launches = device.count("cuGraphLaunch")
        assert watch.seconds() == pytest.approx(5e-6) and device.count("cuGraphLaunch") == launches + 1


def _living() -> list[Any]:
    from pullback.runtime.device import loading

    return list(loading._LOADED.values())


@pytest.mark.parametrize(("a", "b", "most", "why"), [
    ([1.0, 2.0], [1.0, 2.0], 0.0, ""),
    ([1.0, 2.0 + 1e-6], [1.0, 2.0], 1e-5, ""),
    ([1.0, 2.1], [1.0, 2.0], 1e-5, "is apart by 5.0e-02 of the largest element at [1], more than 1.0e-05"),
    ([1.0, np.inf], [1.0, 2.0], 1e-5, "is not finite, or should not be, at [1]"),
    ([np.nan, 2.0], [np.nan, 2.0], 1e-5, ""),
    ([np.inf, 2.0], [-np.inf, 2.0], 1e-5, "is not finite, or should not be, at [0]"),
])  # fmt: skip
def test_differences(a: list[float], b: list[float], most: float, why: str) -> None:
    ref = SUMS.outputs[0]
    assert difference(np.array(a, np.float32), np.array(b, np.float32), ref, most) == why


def test_differences_of_whole_numbers() -> None:
    ref = ir.Ref("n", ir_type("i64"), ())
    assert difference(np.array([1, 2]), np.array([1, 3]), ref, 1.0) == "differs at [1]"


def ir_type(name: str) -> Any:
    from pullback.ir.types import dtype_named

    return dtype_named(name)


def test_bounds() -> None:
    """A lost term of a sum of small numbers is above the bound; rounding in another order is below."""
    assert 16 * 2.0**-23 < tuner.bound(SUMS) < 1 / 80 / 100
