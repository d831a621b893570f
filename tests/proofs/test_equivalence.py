"""Compiled programs compute what was written: every pass, every strategy; planted faults are found."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.corpus import corpus
from benchmarks.examples import example_modules
from pullback.errors import VerifyError
from pullback.ir.dims import determined_dims
from pullback.ir.parser import parse_program
from pullback.loops.program.nodes import kernels_of
from pullback.passes.pipeline import PASSES
from tests.proofs.faults import FAULTS, noticed
from tests.proofs.programs import DIMS, MACHINES, TEXTS, WISHES, compiled, program, programs
from tests.support.equivalence import FOUND, Written, small_dims

NIGHTLY = bool(os.environ.get("PULLBACK_NIGHTLY"))
ORDINARY = [(name, "") for name in TEXTS]
ALL = [(name, wish) for name in TEXTS for wish in WISHES]
RARE = {"rules", "functions", "strips", "near", "shared", "again", "sort", "rows", "checkpoints", "algebra", "shifts"}
"""Passes that need memory to be short, calls, or the corpus, to do something."""
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(autouse=True)
def counted() -> None:
    """Start with no comparisons."""
    FOUND.clear()


def report(what: str) -> Counter[str]:
    """Print what the comparisons gave."""
    found = Counter(f.outcome for f in FOUND)
    reasons = Counter(f.reason for f in FOUND if f.reason)
    print(f"{what}: {dict(found)} {dict(reasons)}")
    return Counter(found)


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES if NIGHTLY else MACHINES[:1], ids=lambda m: f"{m.vector_bytes} bytes")
def test_strategies_compute_what_was_written(machine: object) -> None:
    """Each program by itself, and by each strategy that can do it."""
    names: Counter[str] = Counter()
    for name, wish in ALL if NIGHTLY else ORDINARY:
        p = program(name)
        function = compiled(p, {d: DIMS[d] for d in determined_dims(p)}, machine, wish)  # type: ignore[arg-type]
        names.update({k.choice.name for k in kernels_of(function.body) if k.choice is not None})
    assert report("strategies")["out of reach"] == 0
    wanted = {"plain", "tile", "group", "position", "masked", "stretches", "recurrence"}
    assert names.keys() >= wanted | ({"packed", "sweep", "interleaved"} if NIGHTLY else set()), names


@pytest.mark.skipif(not NIGHTLY, reason="half a minute: PULLBACK_NIGHTLY=1")
@pytest.mark.parametrize("mode", ["fastest", "least"])
def test_passes_compute_what_was_written(mode: str) -> None:
    for _, p, dims in programs():
        compiled(p, dims, mode=mode)  # type: ignore[arg-type]
    found = report(f"passes, {mode}")
    assert found["out of reach"] <= 0.03 * found.total()
    done = {f.what for f in FOUND}
    assert done >= {p.name for p in PASSES} - RARE


@pytest.mark.skipif(not NIGHTLY, reason="minutes: PULLBACK_NIGHTLY=1")
def test_the_corpus_computes_what_was_written() -> None:
    """Programs of the corpus with small sizes; those whose sizes are fixed and large are out of reach."""
    outcomes: Counter[str] = Counter()
    for entry in corpus(example_modules(EXAMPLES)):
        p, _ = entry.make()
        small = small_dims(p, {})
        if any((d.constant or 1) > 100 for r in p.inputs for d in r.shape):
            outcomes["too large"] += 1
            continue
        FOUND.clear()
        compiled(p, small)
        outcomes[FOUND[-1].outcome] += 1
    print(f"corpus: {dict(outcomes)}")
    assert outcomes["proven"] + outcomes["cases"] >= 0.5 * outcomes.total()


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS if NIGHTLY else FAULTS[7:8], ids=lambda f: f"{Path(f.file).stem} {f.new}")
def test_planted_faults_are_found(fault: object) -> None:
    assert noticed(fault, few=not NIGHTLY)  # type: ignore[arg-type]


def test_a_difference_names_the_pass_and_the_place() -> None:
    written = parse_program("f(x: f32[N]) { y = build i < N { x[i] - 2.0 * x[0] } return y }")
    changed = parse_program("f(x: f32[N]) { y = build i < N { x[i] - 2.0 * x[i] } return y }")
    other = Written(written, {"N": 3})
    same = "f(x: f32[N]) { y = build i < N { -1.0 * x[0] + x[i] + -1.0 * x[0] } return y }"
    other.compare("commute", parse_program(same))
    with pytest.raises(VerifyError) as caught:
        other.compare("fuse", changed)
    assert str(caught.value) == MESSAGE
    assert [f.outcome for f in FOUND] == ["proven"]


MESSAGE = """\
VerifyError [E317] f computes something else after the pass 'fuse'
   | result 0, y, differs in 2 of 3 elements, the first [1]      in 100% of these elements' cases      N = 3
  See `pullback explain-error E317`"""


@pytest.mark.parametrize(("text", "outcome"), [
    ("y = build { exp(x[0]) * exp(x[1]) }", "proven"),
    ("y = build { maximum(x[0], x[1]) }", "cases"),
    ("y = build { x[0] < 0.0 ? x[0] : -x[0] }", "cases"),
])  # fmt: skip
def test_comparisons_of_data_are_cases(text: str, outcome: str) -> None:
    p = parse_program(f"f(x: f64[2]) {{ {text} return y }}")
    Written(p, {}).compare("itself", p)
    assert [f.outcome for f in FOUND] == [outcome]


@pytest.mark.parametrize(("one", "other", "equal"), [
    ("x[0] / x[1]", "x[0] * (1.0 / x[1])", True),
    ("x[0] * x[1] + x[0]", "x[0] * (x[1] + 1.0)", True),
    ("x[0] * 0.25 + x[0] * 0.75", "x[0]", True),
    ("exp(x[0] + x[1])", "exp(x[1] + x[0])", True),
    ("power(x[0], 3.0)", "x[0] * x[0] * x[0]", True),
    ("maximum(x[0], x[1])", "x[0] < x[1] ? x[1] : x[0]", True),
    ("maximum(x[0], x[1])", "x[0] < x[1] ? x[0] : x[1]", False),
    ("exp(x[0])", "exp(-x[0])", False),
    ("x[0] - x[1]", "x[1] - x[0]", False),
    ("x[0] / x[1]", "x[1] / x[0]", False),
    ("abs(x[0])", "x[0]", False),
])  # fmt: skip
def test_equal_expressions_and_no_others_agree(one: str, other: str, equal: bool) -> None:
    a, b = (parse_program(f"f(x: f64[2]) {{ y = build {{ {e} }} return y }}") for e in (one, other))
    try:
        Written(a, {}).compare("other", b)
        assert equal
    except VerifyError:
        assert not equal
