"""The law of the language: random programs of source text give what the oracle says, values and derivatives.

A minute's worth; `python -m tests.support.fuzz --derivatives` runs as many as are asked for.
"""

from __future__ import annotations

import numpy as np
import pytest

from pullback.runtime.compile import compiler_command
from tests.support.differential import run
from tests.support.fuzz import main
from tests.support.shrink_source import shrink_source
from tests.support.sources import Sample, random_source

SEED = 1_000_000


@pytest.mark.parametrize("first", range(SEED, SEED + 400, 50))
def test_in_the_interpreter(first: int) -> None:
    tally = run(range(first, first + 50), "interpreter")
    assert not tally.faults, "\n".join(map(str, tally.faults))
    assert tally.counts["undecided"] <= tally.counts["queries"] / 10
    assert tally.counts["open"] <= tally.counts["compared"] / 10


@pytest.mark.parametrize("kind", ["interpreter", "expressions", "passes"])
def test_each_comparison_runs(kind: str) -> None:
    assert not run(range(SEED, SEED + 2), kind, longest=100).faults


@pytest.mark.slow
def test_expressions() -> None:
    tally = run(range(SEED, SEED + 40), "expressions")
    assert not tally.faults, "\n".join(map(str, tally.faults))
    assert tally.counts["undecided"] <= tally.counts["queries"] / 10


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SEED, SEED + 40, 20))
def test_as_the_passes_leave_them(first: int) -> None:
    tally = run(range(first, first + 20), "passes", longest=250)
    assert not tally.faults, "\n".join(map(str, tally.faults))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SEED, SEED + 24, 6))
def test_in_c(first: int) -> None:
    if compiler_command() is None:
        pytest.skip("no C compiler")
    tally = run(range(first, first + 6), "c")
    assert not tally.faults, "\n".join(map(str, tally.faults))


def test_programs_depend_on_their_seed_alone() -> None:
    one, other = (random_source(np.random.default_rng(5)) for _ in range(2))
    assert str(one) == str(other) != str(random_source(np.random.default_rng(6)))


def test_programs_are_python() -> None:
    for seed in range(400):
        source = random_source(np.random.default_rng(seed), longest=600).source
        assert "f" in compile(source, f"<seed {seed}>", "exec").co_names, source


def test_a_program_can_be_pasted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    exec(str(random_source(np.random.default_rng(5))), {})
    assert capsys.readouterr().out


def test_shrinking_keeps_what_shows_the_bug() -> None:
    source = """\
def g(a):
    return pb.exp(a)

@pb.function
def f(x, y):
    u = g(x) + y[0]
    v = pb.build(x.shape[0], lambda i: pb.sin(u[i]) * pb.sqrt(x[i]))
    return pb.sum(v) + pb.max(y)
"""
    sample = Sample(source, {"x": np.array([0.3, 0.7]), "y": np.array([1.5])}, ['pb.grad(f, wrt=("x", "y"))(x, y)'])
    small = shrink_source(sample, lambda s: "pb.sqrt(" in s.source and "x" in s.arguments)
    assert len(small.source) < 60 and list(small.arguments) == ["x"] and small.queries == ["f(x)"]


def test_the_command_reports(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--derivatives", "--programs", "2", "--seed", "7", "--routes", "interpreter"]) == 0
    assert capfd.readouterr().err.startswith("interpreter: ")
    with pytest.raises(SystemExit):
        main(["--derivatives", "--routes", "paper"])
    assert "--routes: paper is none of interpreter, c" in capfd.readouterr().err
