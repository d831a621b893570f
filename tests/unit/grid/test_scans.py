"""Scans: their forms, sizes with a remainder, and loops that are no scans."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.devices import examined, right, run
from pullback.codegen.device.dialect import CUDA
from pullback.codegen.device.program import device_program
from pullback.device import H100
from pullback.grid import scans
from pullback.grid.states import scan_of
from pullback.ir.interpret import interpret
from pullback.ir.nodes import Fold
from pullback.ir.parser import parse_program
from pullback.loops.plain.candidates import Declined
from pullback.loops.program.nodes import kernels_of
from pullback.runtime.device.export import lowered_for
from tests.support.devices.plain import reading
from tests.support.devices.threads import built, ran

pytestmark = pytest.mark.slow

FORMS = {
    "sum": """sum(x: f64[N]) { z = build { f64(0.0) }
      s, y = fold n < N (a = z) { b = build { a + x[n] } yield b, b } return y, s }""",
    "product": """product(x: f32[N]) { z = build { f32(1.0) }
      s, y = fold n < N (a = z) { b = build { x[n] * a } yield b, b } return y, s }""",
    "extreme": """extreme(x: i32[N, 3]) { z = build j < 3 { x[0, j] }
      s, y = fold n < N (a = z) { b = build j < 3 { maximum(a[j], x[n, j]) } yield b, b } return y, s }""",
    "any": """any(x: f64[N]) { z = build { false }
      s, y = fold n < N (a = z) { b = build { a || x[n] > 1.5 } yield b, b } return y, s }""",
    "decay": """decay(x: f64[2, N]) { z = build j < 2 { f64(1.0) }
      s, y = fold n < N (a = z) { b = build j < 2 { 0.75 * a[j] + x[j, -n + N - 1] } yield b, b } return y, s }""",
    "several": """several(x: f64[N]) { z = build { f64(0.0) }
      s, t, y, o = fold n < N (a = z, e = z) {
        b = build { a + x[n] } m = build { minimum(e, x[n]) } d = build { b - m * a } yield b, m, d, e }
      return y, o, s, t }""",
}  # fmt: skip
SIZES = (1, 2, 31, 32, 33, 127, 128, 129, 1000, 5003)


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exclude the strategy of one thread for each row, whatever the number of steps."""

    def declined(*_: object) -> None:
        raise Declined

    monkeypatch.setattr(scans, "walked", declined)


@pytest.mark.parametrize("form", FORMS)
def test_a_thread_for_each_row(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without groups, a thread takes all steps of a row, and results have the bits of the loop."""
    monkeypatch.setattr(scans, "MOST_STATES", 0)
    made = parse_program(FORMS[form])
    found = examined(form, made, {"N": 70})
    assert found.same and right(found, {np.dtype(r.dtype.numpy).char for r in made.outputs})
    assert found.kernels["scan"] == 0


@pytest.mark.parametrize(("form", "size"), [(f, n) for k, f in enumerate(FORMS) for n in SIZES[k % 3 :: 3]])
def test_forms(form: str, size: int, groups: None) -> None:
    """Groups give the values of the loop, and equal bits in both orders of threads."""
    made = parse_program(FORMS[form])
    found = examined(form, made, {"N": size})
    assert found.same and right(found, {np.dtype(r.dtype.numpy).char for r in made.outputs})
    assert size < 3 or found.kernels["scan"] == 1


EAGER = replace(H100, launch=1.0)  # launches cost nothing, so groups share rows early


@pytest.mark.parametrize("form", FORMS)
def test_small_groups(form: str, groups: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups scan rows of many tiles and rows shared by groups, also if the last group has one term."""
    monkeypatch.setattr(scans, "MOST", 32)
    made = parse_program(FORMS[form])
    for few, run_, size, launches in ((256, 100, 961, 3), (256, 30, 961, 3),
                                       (256, 63, 700, 3), (0, 63, 513, 1), (0, 63, 1600, 1)):
        monkeypatch.setattr(scans, "FEW", few)
        monkeypatch.setattr(scans, "RUN", run_)
        lowered = lowered_for(made, {"N": size}, EAGER)
        assert max(len(k.body) for k in kernels_of(lowered.function.body)) == launches
        [given] = lowered.function.given
        x = 9 * np.random.default_rng(size).normal(size=[i.constant or 0 for i in given.shape])
        x = x.astype(given.dtype.numpy)
        one, two = (run(reading(lowered, backward), lowered.function, [x])[0] for backward in (False, True))
        for a, b, c in zip(one, two, interpret(made, [x]), strict=True):
            assert a.tobytes() == b.tobytes()
            np.testing.assert_allclose(a, c, rtol=1e-3 if a.dtype == np.float32 else 1e-9, atol=1e-12)


@pytest.mark.parametrize("groups_of_threads", [True, False])
def test_large_states_move_along_their_rows(groups_of_threads: bool, request: pytest.FixtureRequest) -> None:
    """The old states are rows of a large array, which holds the first state as well."""
    if groups_of_threads:
        request.getfixturevalue("groups")
    made = parse_program("""moving(x: f64[5, N]) { z = build n < N { f64(2.0) }
      s, y = fold k < 5 (a = z) { b = build n < N { a[n] * x[k, n] } yield b, a } return y, s }""")
    found = examined("moving", made, {"N": 300})
    assert found.same and right(found, {"d"}) and found.kernels["scan" if groups_of_threads else "recurrence"] == 1


def test_infinities_and_nan() -> None:
    """Infinities and NaN spread to later states as in the loop."""
    made = parse_program(FORMS["decay"])
    lowered, x = lowered_for(made, {"N": 900}), np.ones((2, 900))
    x[0, 700], x[1, 300] = np.inf, np.nan
    one, wanted = run(reading(lowered), lowered.function, [x])[0], interpret(made, [x])
    np.testing.assert_allclose(one[0], wanted[0])
    np.testing.assert_allclose(one[1], wanted[1])


NONE = {
    "a factor above 1": "b = build { 1.5 * a + x[n] }",
    "a factor that is data": "b = build { x[n] * a + 1.0 }",
    "a function": "b = build { sin(a) + x[n] }",
    "a difference": "b = build { x[n] - a * a }",
}


@pytest.mark.parametrize("step", NONE.values(), ids=NONE)
def test_loops_that_are_no_scans(step: str) -> None:
    made = parse_program(f"""loop(x: f64[9]) {{ z = build {{ f64(0.0) }}
      s, y = fold n < 9 (a = z) {{ {step} yield b, b }} return y, s }}""").body.statements[1]
    assert isinstance(made, Fold)
    found = scan_of(made)
    assert found is not None and found.states == ()


def test_loops_whose_elements_depend_on_each_other() -> None:
    for index, found in (("n", True), ("8 - n", False)):
        made = parse_program(f"""loop(x: f64[9]) {{ z = build n < 9 {{ f64(0.0) }}
          s = fold k < 5 (a = z) {{ b = build n < 9 {{ a[{index}] + x[n] }} yield b }} return s }}""")
        assert (scan_of(made.body.statements[1]) is not None) == found


def test_terms_with_a_check_are_taken_in_order() -> None:
    """A thread that leaves at a failed check meets no others."""
    made = parse_program("""checked(x: f64[7], at: i64[N]) { z = build { f64(0.0) }
      s, y = fold n < N (a = z) { b = build { a + x[check(at[n], 7)] } yield b, b } return y, s }""")
    lowered = lowered_for(made, {"N": 70_000})
    assert "scan" not in [k.choice.name for k in kernels_of(lowered.function.body) if k.choice is not None]


@pytest.mark.parametrize(("form", "scanned"), [("sum", False), ("extreme", True)])
def test_exact_programs_scan_what_no_order_changes(form: str, scanned: bool) -> None:
    """In exact programs maxima are scans, and floating-point sums keep the order of the loop."""
    made = parse_program(FORMS[form])
    lowered = lowered_for(replace(made, settings=replace(made.settings, exact=True)), {"N": 900})
    found = [k.choice.name for k in kernels_of(lowered.function.body) if k.choice is not None]
    assert ("scan" in found) == scanned


@pytest.mark.skipif(not shutil.which("g++") or not shutil.which("gcc"), reason="no gcc and g++")
@pytest.mark.parametrize(("few", "barriers"), [(0, 3), (256, 5)], ids=["tiles", "runs"])
def test_each_barrier_is_needed(few: int, barriers: int, groups: None, tmp_path: Path,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"MOST": 32, "FEW": few, "RUN": 100}.items():
        monkeypatch.setattr(scans, name, value)
    lowered = lowered_for(parse_program(FORMS["several"]), {"N": 1100}, EAGER)
    program = device_program(lowered.function, lowered.memory, CUDA, H100)
    inputs = [np.random.default_rng(1).normal(size=1100)]
    built(program, lowered.function, tmp_path, "thread")
    assert ran(lowered.function, inputs, tmp_path).reports == ""
    assert program.kernels.count("__syncthreads();") == barriers
    for k in range(barriers):
        assert "data race" in ran(lowered.function, inputs, tmp_path, WITHOUT_BARRIER=str(k)).reports, f"barrier {k}"
