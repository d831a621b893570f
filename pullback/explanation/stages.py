"""The stages of a function as data: `print` shows text or Markdown, `page` makes a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from pullback.codegen.marks import Place
from pullback.loops.program.schedule import Chosen
from pullback.memory.size_table import SizeTable
from pullback.memory.table import MemoryTable
from pullback.notebook import Displayed
from pullback.pictures import Picture
from pullback.source import Position

if TYPE_CHECKING:
    from pullback.derivation.render import Derivation

Format = Literal["text", "markdown"]


@dataclass(frozen=True)
class About:
    """The description of a function: name, type, documentation, and source lines."""

    name: str
    type: str = ""
    doc: str = ""
    file: str = ""
    lines: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Explained:
    """One stage: its name, its purpose, the text of the program after it, and how often each rule applied."""

    name: str
    purpose: str
    text: str
    rules: dict[str, int]


@dataclass(frozen=True)
class KernelRow:
    """A kernel for one machine: the chosen candidate, and the source location of its statement."""

    name: str
    chosen: Chosen
    positions: tuple[Position, ...]


@dataclass(frozen=True)
class Backend:
    """The properties of a function that require all sizes.

    Attributes:
        machine: the processor for which kernels were chosen.
        kernels: the chosen kernels.
        memory: the memory table.
        places: the source locations of the lines of C.
    """

    machine: str
    kernels: tuple[KernelRow, ...]
    memory: MemoryTable | SizeTable
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Explanation(Displayed):
    """All stages of a function; `print` shows them.

    Attributes:
        stages: from the program as written to C.
        derivation: for a derivative, the steps that led to it.
        format: the format that `print` uses, "text" or "markdown".
        about: the description of the function.
        backend: kernels, memory and source locations of the C, if sizes were given.
        find_graph: a function that draws the graph of local derivatives, if there is one.
        dims: the names of the dims whose sizes a caller can give.
    """

    stages: tuple[Explained, ...]
    derivation: Derivation | None = None
    format: Format = "text"
    about: About = About("")
    backend: Backend | None = None
    find_graph: Callable[[], Picture | None] = lambda: None
    dims: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.markdown() if self.format == "markdown" else self.text()

    def __repr__(self) -> str:
        return str(self)

    @cached_property
    def graph(self) -> Picture | None:
        """The graph of local derivatives as a picture; None if there is none, or it is large."""
        return self.find_graph()

    def text(self) -> str:
        """The derivation, then each stage, as plain text."""
        parts = []
        if self.derivation is not None:
            parts += ["== derivation: the derivative, step by step", self.derivation.text()]
        for s, before in self.changes():
            parts.append(f"== {s.name}: {s.purpose}")
            if s.rules:
                parts.append("   " + counted(s.rules))
            parts.append(s.text.rstrip("\n") if s.text != before else "   (no change)")
        return "\n".join(parts)

    def markdown(self) -> str:
        """The explanation as Markdown, with formulas in LaTeX."""
        parts = []
        if self.derivation is not None:
            parts += ["## Derivation", self.derivation.markdown().rstrip("\n")]
        for s, before in self.changes():
            parts.append(f"## {s.name}: {s.purpose}")
            if s.rules:
                parts.append(counted(s.rules))
            kind = "c" if s.name == "C" else ""
            parts.append(f"```{kind}\n" + s.text.rstrip("\n") + "\n```" if s.text != before else "No change.")
        return "\n\n".join(parts) + "\n"

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def changes(self) -> list[tuple[Explained, str]]:
        """Each stage, and the text of the one before."""
        before = ("", *(s.text for s in self.stages))
        return list(zip(self.stages, before, strict=False))


def counted(rules: Mapping[str, int]) -> str:
    """The names of rules, each with the number of its applications."""
    return ", ".join(f"{n} × {k}" if k > 1 else n for n, k in rules.items())
