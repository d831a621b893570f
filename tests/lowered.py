"""Loops of compiled programs that a test looks at are those that were compiled.

An executable forgets its loops and lowers its program again for whoever asks, as calls do not need them. A test that
asks right after it compiled gets what was lowered then, in half the time. Programs are always lowered anew to be
compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pullback.ir.program import Known
from pullback.machine import Machine
from pullback.runtime import executor
from pullback.runtime.emit import Lowered

MOST = 16  # programs whose loops are held at a time


class _Held:
    """In place of `executor._lowered` and `_made`: what was lowered to be compiled, by program, dims and machine."""

    def __init__(self) -> None:
        self._lower, self._make = executor._lowered, executor._made
        self._held: dict[Any, tuple[Known, Lowered]] = {}
        self._making = False

    def made(self, *arguments: Any, **options: Any) -> Any:
        self._making = True
        try:
            return self._make(*arguments, **options)
        finally:
            self._making = False

    def lowered(self, program: Known, dims: Mapping[str, int], machine: Machine) -> Lowered:
        key = id(program), tuple(sorted(dims.items())), machine
        if not self._making and key in self._held:
            return self._held[key][1]
        found = self._lower(program, dims, machine)
        if len(self._held) == MOST:
            del self._held[next(iter(self._held))]
        self._held[key] = program, found  # with the program, so that its id stays its own
        return found


@pytest.fixture(autouse=True)
def loops_are_held(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loops that a test looks at are those that it compiled."""
    held = _Held()
    monkeypatch.setattr(executor, "_made", held.made)
    monkeypatch.setattr(executor, "_lowered", held.lowered)
    yield
