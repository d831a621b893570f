"""The table of rules: complete, and true of what passes report."""

from __future__ import annotations

import re
from pathlib import Path

from pullback.derivation.listing import as_markdown, as_text
from pullback.ir.primitives import PRIMITIVES
from pullback.rewrite.rules import RULES, cited, rules_of

ROOT = Path(__file__).resolve().parents[3]
SMOOTH = ["App", "Abs", "Var", "Let", "If", "Build", "IFold", "Get", "Length", "Pair", "Fst", "Snd", "NumV", "NumT",
          "Neg", "Add", "Mult", "Div", "Pow", "Sin", "Cos", "Tan", "Log", "Exp"]  # fmt: skip
GROUPS = {"a": 5, "b": 4, "c": 2, "d": 2, "e": 4, "f": 5, "g": 1}


def numbers(source: str) -> list[str]:
    return [r.number for r in RULES if r.source == source]


def test_every_rule_of_deepdsl_is_there() -> None:
    assert [n for n in numbers("002") if n.isdigit()] == [str(n) for n in range(1, 39)]
    assert [n for n in numbers("002") if n.startswith("Fig. 7")] == [f"Fig. 7 ({k})" for k in range(1, 7)]


def test_every_rule_of_smooth_is_there() -> None:
    derivatives = [f"D-{n}" for n in SMOOTH] + ["DT-Fun", "DT-Exp", "DT-Arr", "DT-Pair"]
    assert len(derivatives) == 28
    assert numbers("003") == [*derivatives, *(f"({g}) {k + 1}" for g, n in GROUPS.items() for k in range(n))]


def test_what_passes_report_is_in_the_table() -> None:
    """A name that a pass reports needs a row in `pullback/rewrite/rules/own.py`, or one of a paper that lists it."""
    for file in (ROOT / "pullback").rglob("*.py"):
        for name in re.findall(r'\bfired\("([^"]+)"(?: \+| if|\))', file.read_text(encoding="utf-8")):
            full = name + "*" if name.endswith(".") else name
            assert RULES.of(full), f"{file.name} reports {name!r}"


def test_rows_name_files_that_exist_and_fire_as_something_reported() -> None:
    text = "\n".join(f.read_text(encoding="utf-8") for f in (ROOT / "pullback").rglob("*.py") if "rules" not in f.parts)
    for r in RULES:
        for place in re.findall(r"(?:[a-z_]+/)+(?:[a-z_]+\.py|(?=:))", r.where):
            assert (ROOT / "pullback" / place).exists(), (r.id, place)
        for name in r.fires:
            group, _, rest = name.partition(".")
            reported = f'"{name}"' in text or f'"{group}." +' in text or f'"{rest}"' in text
            assert reported, f"{r.id} fires as {name}, which nothing reports"


def test_every_row_says_what_it_says() -> None:
    for r in RULES:
        assert r.name and r.text and r.latex and r.where, r.id
        assert r.exact or r.condition or not r.applied or r.number == "33", f"{r.id}: not exact without a condition"
        assert r.latex.count("{") == r.latex.count("}"), r.id


def test_every_primitive_is_covered() -> None:
    for p in PRIMITIVES:
        if p.partials is not None:
            assert RULES.of(f"derivative.{p.name}"), p.name


def test_citations_stand_side_by_side() -> None:
    assert cited(["derivative.multiply"]) == "002: 11 | 003: D-Mult"
    assert cited(["solve.unit", "cse"]) == "002: 22 | 003: (e) 4 | Pullback: cse"
    assert [r.id for r in rules_of(["derivative.tanh"])] == ["derivative"]


def test_the_reference_page_is_the_table() -> None:
    page = ROOT / "docs" / "reference" / "rules.md"
    assert page.read_text(encoding="utf-8") == as_markdown(RULES), "pullback explain --rules --format markdown > it"


def test_the_listing_has_every_rule() -> None:
    text = as_text(RULES)
    assert all(r.text in text and r.where in text for r in RULES)
