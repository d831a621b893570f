"""Rendering of derivations as plain text, or as Markdown with LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pullback.derivation.check import Checked
from pullback.derivation.document import Document, Line, Section
from pullback.derivation.style import LATEX, TEXT
from pullback.ir import nodes as ir
from pullback.notebook import Displayed
from pullback.rewrite.fired import Step

UNDERSCORE = r"\_"
WIDTH = 88  # the column at which the rules begin, if the formula is shorter


@dataclass(frozen=True)
class Derivation(Displayed):
    """The steps that led to a derivative, the resulting program, and the number of checked steps."""

    program: ir.Program
    steps: tuple[Step, ...]
    checked: Checked | None = None

    @property
    def rules(self) -> dict[str, None]:
        """The names of all applied rules, in order of first use."""
        return {name: None for s in self.steps for name in s.rules}

    def text(self) -> str:
        """The derivation as plain text."""
        return "\n\n".join(_text_section(s) for s in Document(self.program, self.steps, TEXT).sections) + "\n"

    def markdown(self) -> str:
        """The derivation as Markdown with formulas in LaTeX."""
        return "\n\n".join(_markdown_section(s) for s in Document(self.program, self.steps, LATEX).sections) + "\n"

    def described(self) -> list[dict[str, Any]]:
        """The lines as plain data: section, formula, relation to the line before, rules by name and as cited."""
        return [
            {"section": s.title, "formula": line.formula, "relation": line.relation, "rules": list(line.rules),
             "cited": line.cited}
            for s in Document(self.program, self.steps, TEXT).sections
            for line in s.lines
        ]

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()

    def _repr_markdown_(self) -> str:
        return self.markdown()


def _text_section(s: Section) -> str:
    return "\n".join([s.title, *(_text_line(line) for line in s.lines)])


def _text_line(line: Line) -> str:
    text = f"    {line.relation} {line.formula}" if line.relation else f"  {line.formula}"
    if not line.rules:
        return text
    return f"{text:<{WIDTH}}  ({line.cited})" if len(text) <= WIDTH else f"{text}\n{'':<{WIDTH}}  ({line.cited})"


def _markdown_section(s: Section) -> str:
    return "\n\n".join([f"### {s.title}", *(_block(lines) for lines in _chains(s.lines))])


def _chains(lines: Sequence[Line]) -> list[list[Line]]:
    """Group lines with those that follow from them."""
    out: list[list[Line]] = []
    for line in lines:
        if line.relation and out:
            out[-1].append(line)
        else:
            out.append([line])
    return out


def _block(lines: Sequence[Line]) -> str:
    """A displayed formula whose steps are below one another, each with its rules."""
    rows = []
    for line in lines:
        if line.relation == "=":
            row = f"&= {line.formula}"
        else:
            sign = r"\rightsquigarrow\ " if line.relation else ""
            left, equals, right = line.formula.partition(" = ")
            row = f"{sign}{left} &{equals.strip()} {right}" if equals else f"{sign}{line.formula}"
        rows.append(row + (rf" && \text{{{line.cited.replace('_', UNDERSCORE)}}}" if line.rules else ""))
    return "$$\n\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}\n$$"
