"""Progress of long work: an overwritten line on a terminal, one output in a notebook, or plain lines.

The text of an update is parts with two spaces between, the most important first. A narrow terminal shows the first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Final

from pullback.notebook import Displayed

__all__ = ["Bar", "Notebook", "Plain", "duration", "progress_bar"]

GAP: Final = "  "
KEPT: Final = 40  # lines that a notebook shows


class Plain:
    """Progress in plain text: a line that is overwritten on a terminal; elsewhere only lasting lines."""

    def __init__(self, *, terminal: bool) -> None:
        self.terminal = terminal
        self.shown = 0

    def update(self, share: float, text: str) -> None:
        """Show that `share` (0 to 1) is done; 0 also where that is not known."""
        if not self.terminal:
            return
        room = _columns() - 1
        size = 0 if room < 60 else 10 if room < 100 else 24
        full = round(size * share)
        bar = f"[{'#' * full}{'.' * (size - full)}] " * bool(size)
        before = f"{bar}{share:4.0%}{GAP}" * bool(share)
        line = (before + _wrapped(text, room - len(before))[0])[:room]
        print(f"\r{line.ljust(min(self.shown, room))}", end="", file=sys.stderr, flush=True)
        self.shown = len(line)

    def line(self, text: str) -> None:
        """Write a line that stays; on a narrow terminal it is folded between its parts."""
        self.clear()
        print("\n".join(_wrapped(text, _columns() - 1) if self.terminal else [text]), file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the overwritten line away."""
        if self.shown:
            print(f"\r{' ' * min(self.shown, _columns() - 1)}\r", end="", file=sys.stderr, flush=True)
            self.shown = 0


class Notebook(Displayed):
    """Progress in one output of a notebook, which is overwritten: a bar above the last lines."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self.share, self.text = 0.0, ""
        self.lines: list[str] = []
        self.handle = display(self, display_id=True)

    def update(self, share: float, text: str) -> None:
        """Show that `share` is done."""
        self.share, self.text = share, text
        self.handle.update(self)

    def line(self, text: str) -> None:
        """Write a line that stays."""
        self.lines.append(text)
        self.handle.update(self)

    def clear(self) -> None:
        """Leave the lines only."""
        self.update(0.0, "")

    def _last(self) -> list[str]:
        return [*["⋮"] * (len(self.lines) > KEPT), *self.lines[-KEPT:]]

    def __repr__(self) -> str:
        return "\n".join([*self._last(), self.text] if self.text else self._last())

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self.share:.4f}" max="1"></progress> {self.share:.0%} ' if self.share else ""
        now = f"<div>{bar}{escape(self.text)}</div>" if self.text else ""
        lines = escape("\n".join(self._last()))
        return f'{now}<pre style="background: none; font-family: monospace; white-space: pre-wrap">{lines}</pre>'


Bar = Plain | Notebook


@contextmanager
def progress_bar() -> Iterator[Bar]:
    """A progress bar: in the output of a notebook's cell, or on the error stream."""
    jupyter = sys.modules.get("IPython")
    shell = jupyter.get_ipython() if jupyter is not None else None
    kernel = hasattr(shell, "kernel")
    made: Bar = Notebook(jupyter.display.display) if jupyter and kernel else Plain(terminal=sys.stderr.isatty())
    try:
        yield made
    finally:
        made.clear()


def _columns() -> int:
    """The width of the terminal behind the error stream."""
    try:
        found = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):  # no terminal, or a stream that only says so
        found = 0
    return found or 80


def _wrapped(text: str, room: int) -> list[str]:
    """Fold the text between its parts at `room` characters; a longer part has its own line."""
    lines = [""]
    for part in text.split(GAP):
        whole = f"{lines[-1]}{GAP}{part}" if lines[-1] else part
        if len(whole) <= room or not lines[-1]:
            lines[-1] = whole
        else:
            lines.append(f"{GAP * 2}{part}")
    return lines


def duration(seconds: float) -> str:
    """Seconds as people read them.

    >>> duration(7.4), duration(83), duration(7260)
    ('7 s', '1:23', '2:01:00')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
