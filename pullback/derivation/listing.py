"""The table of rules as text, and as the reference page."""

from __future__ import annotations

from collections.abc import Iterable

from pullback.rewrite.rules import Rule
from pullback.rewrite.rules.evidence import EVIDENCE, Evidence

PAPERS = {
    "002": "DeepDSL (Zhao, Huang)",
    "003": "dF~ (Shaikhha, Fitzgibbon, Vytiniotis, Peyton Jones, Koch)",
    "Pullback": "Pullback",
}
NOTES = {
    "002": "s is a scalar, t a tensor, g the gradient of a tensor. I and J are lists of indices, and i is one index. "
    "Derivatives are taken with respect to y.",
    "003": "V⟦e⟧ and T⟦e⟧ are value and tangent of e. Pullback keeps them in separate statements.",
    "Pullback": "These rules are in neither paper.",
}
HEAD = """\
# Rules

Derivatives and passes apply these rules, listed by the numbers and names of the papers they come from.
`pullback explain --rules` prints this table, and derivations in `f.explain()` cite it. *Fires as* is the name that a
pass reports. A rule without it describes how programs are built. Unless stated otherwise, rules are exact: both sides
are equal in floating point, with NaN and infinities. This page is generated from `pullback/rewrite/rules`.

* *Proven* rules: an SMT solver found both sides of random applications equal for all values.
* *Tested* rules: programs in which they fire were [compared](../explanation/correctness.md) before and after, for all
  inputs of small sizes.
* *Assumed* rules: all others. They are rules of derivatives, which other tests compare, and rules that describe how
  programs are built.
"""



def as_text(rules: Iterable[Rule]) -> str:
    """Print the rules as text, each on a few lines."""
    out = []
    for r in rules:
        out.append(f"{r.source} {r.number or r.id}: {r.name}{_marks(r)}")
        out.append(f"    {r.text}")
        if r.condition:
            out.append(f"    where {r.condition}")
        out.append(f"    in {r.where}")
        if r.fires:
            out.append(f"    fires as {', '.join(r.fires)}")
        out.append(f"    {evidence(r)}")
    return "\n".join(out) + "\n"


def as_markdown(rules: Iterable[Rule]) -> str:
    """Print the rules as the Markdown reference page."""
    rows = list(rules)
    parts = [HEAD]
    for source, title in PAPERS.items():
        parts.append(f"## {title}\n\n{NOTES[source]}\n")
        for r in rows:
            if r.source != source:
                continue
            parts.append(f"### {r.number or r.id}: {r.name}{_marks(r)}\n")
            parts.append(f"$$ {r.latex} $$\n")
            facts = [f"Condition: {r.condition}."] if r.condition else []
            facts.append(f"In `{r.where.split(': ', 1)[0]}`" + (f": {_after(r.where)}." if ": " in r.where else "."))
            if r.fires:
                facts.append("Fires as " + ", ".join(f"`{f}`" for f in r.fires) + ".")
            facts.append(f"{evidence(r).capitalize()}.")
            parts.append(" ".join(facts) + "\n")
    return "\n".join(parts)


def evidence(r: Rule) -> Evidence:
    """The evidence for a rule."""
    return EVIDENCE.get(r.id, "assumed")


def _after(where: str) -> str:
    return where.split(": ", 1)[1]


def _marks(r: Rule) -> str:
    marks = [word for word, holds in (("not exact", not r.exact), ("not applied", not r.applied)) if holds]
    return f" ({', '.join(marks)})" if marks else ""
