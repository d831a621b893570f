"""What the compiler does with a function, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pullback.ir.printer import print_program
from pullback.ir.program import Program


@dataclass(frozen=True)
class Explained:
    """One stage: its name, why it is there, the program after it as text, and how often each rule fired."""

    name: str
    purpose: str
    text: str
    rules: dict[str, int]


@dataclass(frozen=True)
class Explanation:
    """All stages of a function; `print` shows them."""

    stages: tuple[Explained, ...]

    def __str__(self) -> str:
        parts = []
        before = ""
        for s in self.stages:
            parts.append(f"== {s.name}: {s.purpose}")
            if s.rules:
                parts.append("   " + ", ".join(f"{n} × {k}" if k > 1 else n for n, k in s.rules.items()))
            parts.append(s.text.rstrip("\n") if s.text != before else "   (no change)")
            before = s.text
        return "\n".join(parts)


def explain(program: Program, dims: Mapping[str, int] | None) -> Explanation:
    """The stages from the program as traced to C; without dims they stay symbolic and the C is left out."""
    from pullback.passes.pipeline import stages
    from pullback.runtime.emit import c_source

    found = [Explained(s.name, s.purpose, print_program(s.program), s.rules) for s in stages(program, dims or {})]
    if dims is not None:
        found.append(Explained("C", "what the compiler is given", c_source(program, dims), {}))
    return Explanation(tuple(found))
