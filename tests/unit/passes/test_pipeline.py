"""The contracts of passes: what each builds on has run, what it gives is looked at, and who goes through it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pullback.errors import VerifyError
from pullback.ir.expr import Ref
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.program import Block, Program
from pullback.ir.settings import MODES, Settings
from pullback.ir.traverse import specialize
from pullback.ir.types import f16, f32
from pullback.machine import AVX512
from pullback.passes import pipeline
from pullback.passes.commute import commute
from pullback.passes.facts import IN_ORDER, NEEDED, NO_CALLS, NORMAL, SORTED_ARRAYS, STORED, Fact, check_fact
from pullback.passes.pipeline import PASSES, Pass, chosen, optimize
from tests.support.programs import random_program
from tests.unit.runtime.programs import CASES

ROOT = Path(__file__).parents[3]
BROKEN = {
    NORMAL: "f(x: f64[N]) { y = build { exp(sum n < N { x[n] }) } return y }",
    IN_ORDER: "f(x: f64[N], a: f64) { y = build n < N { x[n] * a } return y }",
    NEEDED: "f(x: f64[N]) { y = build n < N { x[n] } z = build n < N { x[n] * x[n] } return y }",
    SORTED_ARRAYS: "f(x: f64[N]) { p = order n < N { -x[n] } return p }",
    NO_CALLS: "f(x: f64[N]) { y = call (u = x) { z = build n < N { u[n] } yield z } return y }",
}


def test_what_a_pass_builds_on_has_run() -> None:
    """In each mode, of the passes that run."""
    for settings in (Settings(), Settings(exact=True)):
        for mode in MODES:
            names = [p.name for p in chosen(settings, mode)]
            for k, p in enumerate(chosen(settings, mode)):
                assert set(p.after) & set(names) <= set(names[:k]), p.name
    assert {n for p in PASSES for n in p.after} <= {p.name for p in PASSES}


def test_who_goes_through_which() -> None:
    everybody = {p.name for p in PASSES}
    exact = {p.name for p in chosen(Settings(exact=True), "least")}
    assert everybody - exact == {"steps", "strips", "near", "radix", "operands", "columns", "thin", "shifts",
                                 "pad", "roots"}
    assert everybody - {p.name for p in chosen(Settings(), "fastest")} == {"functions", "strips", "again"}
    assert everybody - {p.name for p in chosen(Settings(), "least")} == {"steps", "columns", "shifts"}


@pytest.mark.parametrize("fact", BROKEN, ids=lambda f: f.text)
def test_a_fact_that_does_not_hold_is_found(fact: Fact) -> None:
    with pytest.raises(VerifyError, match=f"E316.*{fact.text}"):
        check_fact(fact, parse_program(BROKEN[fact]))


def test_halves_that_are_not_converted_are_found() -> None:
    x = Ref("x", f32, (3,), storage=f16)
    with pytest.raises(VerifyError, match="E316"):
        check_fact(STORED, Program("f", (x,), Block((), (x,))))


def test_a_pass_that_breaks_a_promise_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(program: Program) -> Program:
        return program.with_body(replace(program.body, statements=(*program.body.statements,) * 2))

    monkeypatch.setenv("PULLBACK_VERIFY", "1")
    monkeypatch.setattr(pipeline, "PASSES", (Pass("twice", "everything happens twice", twice),))
    with pytest.raises(VerifyError, match="defined twice") as found:
        optimize(parse_program(BROKEN[NORMAL]), {"N": 3})
    assert found.value.__notes__ == ["after the pass 'twice': everything happens twice"]


@pytest.mark.parametrize("mode", MODES)
def test_all_passes_keep_what_they_promise(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of programs with every statement and of random ones."""
    monkeypatch.setenv("PULLBACK_VERIFY", "1")
    for text, dims in CASES.values():
        optimize(parse_program(text), dims, mode=mode)  # type: ignore[arg-type]
    for seed in range(8):
        case = random_program(np.random.default_rng(seed), statements=3)
        for exact in (False, True):
            program = specialize(replace(case.program, settings=Settings(exact=exact)), case.dims)
            optimize(program, {}, mode=mode)  # type: ignore[arg-type]


def test_a_pass_that_changes_nothing_gives_the_same_program() -> None:
    """So what is checked after a pass, and what later passes found before, need not be found again."""
    given = [specialize(parse_program(text), dims) for text, dims in CASES.values()]
    cases = [random_program(np.random.default_rng(seed), statements=4) for seed in range(8)]
    for program in given + [specialize(c.program, c.dims) for c in cases]:
        for p in PASSES:
            before, program = program, p(program, AVX512)
            assert program is before or print_program(program) != print_program(before), p.name


def test_products_that_a_sum_becomes_are_in_order() -> None:
    """x y + y x is 2 x y, and so part of the product around it."""
    text = "f(s: f64[N], x: f64[N], y: f64[N]) { r = build n < N { y[n] * (s[n] * x[n] + x[n] * s[n]) } return r }"
    check_fact(IN_ORDER, commute(parse_program(text)))


def test_the_page_of_passes_is_the_table() -> None:
    page = ROOT / "docs" / "reference" / "passes.md"
    assert page.read_text(encoding="utf-8") == pipeline.as_markdown(), "pullback explain --passes > it"
