"""The ways in which a program can be run: what it is compiled for, and how."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from pullback.api import exact
from pullback.ir.settings import MODES, MemoryMode
from pullback.machine import Machine, of_width

WIDTHS: Final = (0, 16, 32, 64)
_ASKED: Final = tuple(f"pullback.runtime.{module}.native" for module in ("executor", "record", "emit"))


@dataclass(frozen=True)
class Way:
    """How one program is compiled: mode, threads, bytes of a vector (0 for none), for all sizes or for its own.

    Attributes:
        exact: no sum in another order.
        debug: with traps.
    """

    mode: MemoryMode
    threads: int
    vector_bytes: int
    all_sizes: bool
    exact: bool = False
    debug: bool = False

    @staticmethod
    def drawn(rng: np.random.Generator) -> Way:
        """A way by chance."""
        mode = MODES[int(rng.integers(len(MODES)))]
        return Way(mode, int(rng.integers(1, 5)), int(rng.choice(WIDTHS)), bool(rng.random() < 0.25))

    @property
    def machine(self) -> Machine:
        """What it is compiled for; with threads, one where no work is too little for them."""
        found = of_width(self.vector_bytes, portable=False)
        return replace(found, meeting=1, chunk=1, waking=1) if self.threads > 1 else found

    def settings(self) -> str:
        """The settings of a function, as they are written."""
        found = {"memory": self.mode, "threads": self.threads, "specialise": "never" if self.all_sizes else "always"}
        return ", ".join(f"{name}={value!r}" for name, value in found.items()) + ", debug=True" * self.debug

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Functions defined and called inside are compiled so, however little work a thread would have."""
        with ExitStack() as stack:
            environment = {"PULLBACK_BACKEND": "c", "PULLBACK_THREADS": str(self.threads), "PULLBACK_VERIFY": "1"}
            stack.enter_context(patch.dict(os.environ, environment))
            for name in _ASKED:
                stack.enter_context(patch(name, lambda: self.machine))
            stack.enter_context(exact() if self.exact else nullcontext())
            yield


@contextmanager
def interpreted() -> Iterator[None]:
    """Calls inside run in the interpreter."""
    with patch.dict(os.environ, {"PULLBACK_BACKEND": "interpreter"}):
        yield


def drawn_for_users(rng: np.random.Generator) -> Way:
    """A way with settings that only functions have."""
    way = Way.drawn(rng)
    made: dict[str, Any] = {**way.__dict__, "threads": 1 + way.threads % 3}
    return Way(**{**made, "exact": bool(rng.random() < 0.1), "debug": bool(rng.random() < 0.1)})


__all__ = ["WIDTHS", "Way", "drawn_for_users", "interpreted"]
