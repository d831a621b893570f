"""Progress of long work on the error stream: a bar on a terminal, only the lines that last elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

__all__ = ["Bar", "Plain", "duration", "progress_bar"]


class Bar(Protocol):
    """Progress of long work, as a share with a line of text."""

    def update(self, share: float, text: str) -> None:
        """Show that `share` (0 to 1) is done."""

    def line(self, text: str) -> None:
        """Write a line that stays."""


class Plain:
    """Progress in plain text: a line that is overwritten on a terminal; elsewhere only lasting lines."""

    def __init__(self, *, terminal: bool) -> None:
        self.terminal = terminal
        self.shown = 0

    def update(self, share: float, text: str) -> None:
        """Show that `share` is done."""
        if not self.terminal:
            return
        full = round(24 * share)
        line = f"[{'#' * full}{'.' * (24 - full)}] {share:4.0%}  {text}"
        print(f"\r{line.ljust(self.shown)}", end="", file=sys.stderr, flush=True)
        self.shown = len(line)

    def line(self, text: str) -> None:
        """Write a line that stays."""
        self.clear()
        print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the overwritten line away."""
        if self.shown:
            print(f"\r{' ' * self.shown}\r", end="", file=sys.stderr, flush=True)
            self.shown = 0


class _Rich:
    def __init__(self, progress: Any) -> None:
        self.progress = progress
        self.task = progress.add_task("", total=1.0)

    def update(self, share: float, text: str) -> None:
        self.progress.update(self.task, completed=share, description=text)

    def line(self, text: str) -> None:
        self.progress.console.print(text, markup=False, highlight=False)


@contextmanager
def progress_bar() -> Iterator[Bar]:
    """A progress bar on the error stream: rich's on a terminal where it is installed, else a plain one."""
    terminal = sys.stderr.isatty()
    if terminal:
        try:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn
        except ImportError:
            pass
        else:
            columns = (BarColumn(), TextColumn("{task.percentage:3.0f} %  {task.description}"))
            with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
                yield _Rich(progress)
            return
    plain = Plain(terminal=terminal)
    try:
        yield plain
    finally:
        plain.clear()


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
