"""Rules as named data: the papers' with numbers and names, and Pullback's own.

A pass reports a rule by name (`rewrite.fired`); `RULES.of(name)` gives the rows that the name stands for. One name may
stand for several rows: `derivative.multiply` is rule 11 of DeepDSL and D-Mult of dF~.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pullback.rewrite.rules.deepdsl import DEEPDSL
from pullback.rewrite.rules.own import OWN
from pullback.rewrite.rules.rule import Rule, RuleTable
from pullback.rewrite.rules.smooth import SMOOTH

__all__ = ["RULES", "Rule", "cited", "rules_of"]

RULES: Final = RuleTable((*DEEPDSL, *SMOOTH, *OWN))


def rules_of(names: Iterable[str]) -> list[Rule]:
    """The rows behind names reported by passes, in table order, each once."""
    found = {r.id for n in names for r in RULES.of(n)}
    return [r for r in RULES if r.id in found]


def cited(names: Iterable[str]) -> str:
    """Cite the rules of these names: `002: 6, 11, 14 | 003: D-Build, D-Mult, D-IFold`."""
    rows = rules_of(names)
    parts = []
    for source in ("002", "003"):
        numbers = [r.number for r in rows if r.source == source]
        if numbers:
            parts.append(f"{source}: {', '.join(numbers)}")
    own = [r.id for r in rows if r.source == "Pullback"]
    return " | ".join([*parts, *([f"Pullback: {', '.join(own)}"] if own else [])])
