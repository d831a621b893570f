"""What the compiler does with a function, stage by stage; and how a derivative was found, step by step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pullback.ir.printer import print_program
from pullback.ir.program import Known, Program
from pullback.rewrite.fired import record_steps

if TYPE_CHECKING:
    from pullback.derivation.render import Derivation

Format = Literal["text", "markdown"]


@dataclass(frozen=True)
class Explained:
    """One stage: its name, why it is there, the program after it as text, and how often each rule fired."""

    name: str
    purpose: str
    text: str
    rules: dict[str, int]


@dataclass(frozen=True)
class Explanation:
    """All stages of a function; `print` shows them.

    Attributes:
        stages: from the program as written to C.
        derivation: for a derivative, the steps by which it was found.
        format: how `print` shows it, "text" or "markdown".
    """

    stages: tuple[Explained, ...]
    derivation: Derivation | None = None
    format: Format = "text"

    def __str__(self) -> str:
        return self.markdown() if self.format == "markdown" else self.text()

    def __repr__(self) -> str:
        return str(self)

    def text(self) -> str:
        """The derivation, then each stage, as plain text."""
        parts = []
        if self.derivation is not None:
            parts += ["== derivation: the derivative, step by step", self.derivation.text()]
        for s, changed in self._changes():
            parts.append(f"== {s.name}: {s.purpose}")
            if s.rules:
                parts.append("   " + _counted(s.rules))
            parts.append(s.text.rstrip("\n") if changed else "   (no change)")
        return "\n".join(parts)

    def markdown(self) -> str:
        """The same as Markdown, formulas in LaTeX."""
        parts = []
        if self.derivation is not None:
            parts += ["## Derivation", self.derivation.markdown().rstrip("\n")]
        for s, changed in self._changes():
            parts.append(f"## {s.name}: {s.purpose}")
            if s.rules:
                parts.append(_counted(s.rules))
            kind = "c" if s.name == "C" else ""
            parts.append(f"```{kind}\n" + s.text.rstrip("\n") + "\n```" if changed else "No change.")
        return "\n\n".join(parts) + "\n"

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def _changes(self) -> list[tuple[Explained, bool]]:
        before = ("", *(s.text for s in self.stages))
        return [(s, s.text != old) for s, old in zip(self.stages, before, strict=False)]


def _counted(rules: Mapping[str, int]) -> str:
    return ", ".join(f"{n} × {k}" if k > 1 else n for n, k in rules.items())


def explain(
    program: Program, dims: Mapping[str, int] | None, derivation: Derivation | None = None, format: Format = "text",
    plain: bool = False,
) -> Explanation:
    """The stages from the program as traced to C; without dims they stay symbolic and the C is left out."""
    from pullback.loops.program.nodes import kernels_of
    from pullback.machine import native
    from pullback.passes.pipeline import stages
    from pullback.runtime.emit import c_source, lower_program

    found = [Explained(s.name, s.purpose, print_program(s.program), s.rules) for s in stages(program, dims or {})]
    if dims is not None:
        made = kernels_of(lower_program(program, dims, False, native()).function.body)
        chosen = "\n".join(f"{k.name}: {k.choice.described}" for k in made if k.choice is not None)
        found.append(Explained("kernels", "what is chosen for each statement here, by estimated cycles", chosen, {}))
        found.append(Explained("C", "what the compiler is given", c_source(program, dims, plain=plain), {}))
    return Explanation(tuple(found), derivation, format)


def compile_times(program: Known, dims: Mapping[str, int]) -> tuple[float, bool]:
    """Compile a program as if no cache had it, for `clock.record_time` to see.

    Returns:
        The seconds that it takes from the cache then, and whether the user's cache has it.
    Raises:
        CompilerError: [E410] there is no compiler.
    """
    from pullback.clock import record_time
    from pullback.runtime.cache import another_cache
    from pullback.runtime.executor import compile_program
    from pullback.runtime.record import find_record, record_key

    with record_time():
        cached = find_record(record_key(program, dims)) is not None
    with another_cache():
        compile_program(program, dims)
        start = time.perf_counter()
        with record_time():
            compile_program(program, dims)
        return time.perf_counter() - start, cached


def derive(make: Callable[[], Program], check: bool = False) -> Derivation:
    """The derivation of what `make` gives, recorded while it runs; with `check` its steps are checked by numbers."""
    from pullback.derivation.check import check as check_steps
    from pullback.derivation.render import Derivation

    with record_steps() as steps:
        program = make()
    checked = check_steps(program, steps) if check else None
    return Derivation(program, tuple(steps), checked)
