"""The mutants are those expected, stand in the place of the functions they change, and are met by the right tests."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from pullback.rewrite import rules
from tests.mutation.__main__ import EXPLAINED, key, reasons
from tests.mutation.install import install
from tests.mutation.mutants import ROOT, Mutant, mutants_of, sample
from tests.mutation.planted import killer
from tests.mutation.plugin import Run, ordered

SOURCE = dedent('''\
    LIMIT = 3

    def outer(a, b, flag=True):
        """Of text nothing is changed, 1 < 2."""
        assert a < b, f"{a + b}"
        if a is not None and not flag:
            return -a[1]
        fired("of" + a)
        found = {x for x in b if x <= 2}
        a += 1
        call(a, b)
        return a - b * found

    class Table:
        rows = {"sin": lambda x, out: out * x}

        def row(self, k):
            while k:
                break
            return 1 if k else 2
    ''')


def changes(function: str) -> set[tuple[str, str, str]]:
    return {(m.kind, m.before, m.after) for m in mutants_of("a.py", SOURCE) if m.function == function}


def test_what_may_be_wrong_in_a_function() -> None:
    condition, test = "a is not None and not flag", "x <= 2"
    assert changes("outer") == {
        ("condition true", condition, "True"),
        ("condition false", condition, "False"),
        ("condition negated", condition, "(not (a is not None and (not flag)))"),
        ("and/or", condition, "((a is not None) or not flag)"),
        ("operand dropped", condition, "(not flag)"),
        ("operand dropped", condition, "((a is not None))"),
        ("comparison", "a is not None", "(a is None)"),
        ("not dropped", "not flag", "flag"),
        ("sign dropped", "-a[1]", "a[1]"),
        ("number", "1", "2"),
        ("number", "1", "0"),
        ("condition true", test, "True"),
        ("condition false", test, "False"),
        ("condition negated", test, f"(not ({test}))"),
        ("comparison", test, "(x < 2)"),
        ("comparison", test, "(x > 2)"),
        ("number", "2", "3"),
        ("number", "2", "1"),
        ("operator", "a += 1", "a -= 1"),
        ("statement dropped", "call(a, b)", "pass"),
        ("call dropped", "call(a, b)", "a"),
        ("operands swapped", "call(a, b)", "call(b, a)"),
        ("wrong operand", "call(a, b)", "call(b, b)"),
        ("operator", "a - b * found", "(a + (b * found))"),
        ("operands swapped", "a - b * found", "((b * found) - a)"),
        ("operand dropped", "a - b * found", "a"),
        ("operand dropped", "a - b * found", "(b * found)"),
        ("operator", "b * found", "(b + found)"),
        ("operand dropped", "b * found", "b"),
        ("operand dropped", "b * found", "found"),
    }


def test_lambdas_and_methods_have_names() -> None:
    assert ("operand dropped", "out * x", "out") in changes("Table.<lambda>")
    assert {("condition negated", "k", "(not k)"), ("jump dropped", "break", "pass")} <= changes("Table.row")


def test_every_mutant_changes_what_it_says() -> None:
    for m in mutants_of("a.py", SOURCE):
        text = m.apply(SOURCE)
        assert SOURCE.encode()[m.start : m.end].decode() == m.before
        assert text == SOURCE.encode()[: m.start].decode() + m.after + SOURCE.encode()[m.end :].decode()
        compile(text, "a.py", "exec")


def test_a_sample_is_the_same_for_a_seed_and_without_repetition() -> None:
    mutants = mutants_of("pullback/ad/split.py")
    chosen = sample(mutants, 40, seed=3)
    assert chosen == sample(mutants, 40, seed=3) != sample(mutants, 40, seed=4)
    assert len(set(chosen)) == 40
    assert len(sample(mutants, 10**6, seed=0)) == sum(m.compiles() for m in mutants)


@pytest.mark.slow
def test_a_mutant_takes_the_place_of_the_function() -> None:
    (mutant,) = [
        m for m in mutants_of("pullback/rewrite/rules/__init__.py")
        if m.kind == "comparison" and m.before == "r.source == source"
    ]  # fmt: skip
    assert str(mutant).endswith("cited: comparison: `r.source == source` -> `(r.source != source)`")
    assert "-        numbers = [r.number for r in rows if r.source == source]" in mutant.diff()
    kept, before = rules.cited.__code__, rules.cited(["derivative.log"])
    try:
        assert install(mutant)
        assert before == "002: 8 | 003: D-Log"
        assert rules.cited(["derivative.log"]) == "002: D-Log | 003: 8"
    finally:
        rules.cited.__code__ = kept
    assert rules.cited(["derivative.log"]) == before


@pytest.mark.slow
def test_a_mutant_takes_the_place_of_code_that_runs_at_import() -> None:
    """A new process builds all tables with the mutant. A mutant without a change fails no test."""
    found = mutants_of("pullback/ir/primitives/logic.py")
    (mutant,) = [m for m in found if m.function == "_comparison" and m.kind == "call dropped"]
    same = replace(mutant, after=mutant.before)
    test = "tests/unit/ir/test_printer.py::test_a_whole_program"
    flags = ["-qq", "-p", "no:cacheprovider", "-p", "no:xdist"]
    assert killer(same, [*flags, test]) is None
    assert "KeyError" in str(killer(mutant, [*flags, test]))


@pytest.fixture
def mutant() -> Mutant:
    return Mutant("pullback/ad/edges.py", "f", "number", 0, 1, "1", "2", (10, 10), (8, 12))


def test_tests_are_met_in_order(mutant: Mutant) -> None:
    def run(seconds: float, *lines: int) -> Run:
        return Run(seconds, True, {"pullback/ad/edges.py": set(lines)})

    runs = {
        "tests/laws/test_a.py::slow": run(9, 10),
        "tests/laws/test_a.py::quick": run(1, 10),
        "tests/laws/test_a.py::elsewhere": run(1, 11),
        "tests/unit/ad/test_edges.py::own": run(5, 10),
    }
    a, own = "tests/laws/test_a.py", "tests/unit/ad/test_edges.py::own"
    assert ordered(mutant, runs, Counter()) == [own, f"{a}::quick", f"{a}::slow"]
    assert ordered(mutant, runs, Counter([f"{a}::slow"])) == [f"{a}::slow", own, f"{a}::quick"]
    del runs[own], runs[f"{a}::quick"], runs[f"{a}::slow"]
    assert ordered(mutant, runs, Counter()) == [f"{a}::elsewhere"]  # the statement around it


def test_explanations_are_of_mutants_that_exist() -> None:
    explained = reasons()
    assert all(len(reason) > 20 for reason in explained.values())
    found = {key(m) for file in {file for file, *_ in explained} for m in mutants_of(file)}
    assert not explained.keys() - found, "explained, but no mutant any more"


def test_the_quick_suite_exists() -> None:
    for line in (ROOT / "tests" / "quick").read_text(encoding="utf-8").split():
        path = line.removeprefix("--deselect=").partition("::")[0]
        assert (ROOT / path).exists(), line
    assert EXPLAINED.parent == Path(__file__).parent
