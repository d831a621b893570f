"""The user's source lines of a function as HTML with anchors."""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from html import escape
from pathlib import Path

from pullback.explanation.stages import About, Backend
from pullback.source import Position

__all__ = ["Sources"]

AROUND = 2  # lines shown before and after a line outside of shown functions


class Sources:
    """The source lines to show: the function itself, and other origins of its program.

    Attributes:
        files: for each file, the numbers of the shown lines.
    """

    def __init__(self, about: About, backend: Backend | None) -> None:
        self.files: dict[str, set[int]] = {}
        self._to: dict[tuple[str, int], list[str]] = {}
        if about.file:
            self._show(about.file, range(about.lines[0], about.lines[1] + 1))
        if backend is not None:
            for p in (q for place in backend.places for q in place.positions):
                self._show(p.file, range(p.line - AROUND, p.line + AROUND + 1))
            for p in (q for k in backend.kernels for q in k.positions):
                self._show(p.file, range(p.line - AROUND, p.line + AROUND + 1))
        self._numbers = {file: k for k, file in enumerate(self.files)}

    def _show(self, file: str, lines: Iterable[int]) -> None:
        there = len(linecache.getlines(file))
        shown = {n for n in lines if 1 <= n <= there}
        if shown:
            self.files.setdefault(file, set()).update(shown)

    def ids(self, positions: Iterable[Position]) -> list[str]:
        """The anchor names of the lines at these positions, each once, in order."""
        found = sorted({(self._numbers[p.file], p.line) for p in positions if p.file in self._numbers})
        return [f"s{file}-{line}" for file, line in found]

    def linked(self, positions: Iterable[Position], target: str) -> None:
        """Record that an object was made from these lines."""
        for p in {(p.file, p.line): p for p in positions}.values():
            self._to.setdefault((p.file, p.line), []).append(target)

    def links(self, positions: Iterable[Position]) -> str:
        """Links to the lines at these positions, by file and number."""
        several = len(self.files) > 1
        names = {f"s{k}-{p.line}": f"{Path(p.file).name}:{p.line}" if several else f"line {p.line}"
                 for p in positions for k in [self._numbers.get(p.file)] if k is not None}  # fmt: skip
        return ", ".join(f'<a href="#{i}">{escape(names[i])}</a>' for i in self.ids(positions))

    def html(self) -> str:
        """All lines, with links to their results; call it last, when all links are known."""
        return "\n".join(self._file(file, sorted(lines)) for file, lines in self.files.items())

    def _file(self, file: str, lines: list[int]) -> str:
        text = linecache.getlines(file)
        rows, before = [], lines[0] - 1
        for n in lines:
            if n != before + 1:
                rows.append('<span class="row gap"><span>⋮</span><span></span><span></span></span>')
            before = n
            to = self._to.get((file, n), [])
            words = f"C × {len(to)} →" if len(to) > 1 else "C →"
            link = f'<a href="#{to[0]}" aria-label="line {n}: C">{words}</a>' if to else ""
            cells = (f'<span class="numbers">{n}</span><span class="to">{link}</span>'
                     f'<span>{escape(text[n - 1].rstrip()) or " "}</span>')  # fmt: skip
            rows.append(f'<span class="row" id="s{self._numbers[file]}-{n}">{cells}</span>')
        return f'<h3>{escape(Path(file).name)}</h3><div class="lines written code">{"".join(rows)}</div>'
