"""The ways in which a program can be run: what it is compiled for, and how."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from pullback.calls import exact
from pullback.ir.dims import solve_dims
from pullback.ir.interpret import interpret
from pullback.ir.program import Program
from pullback.ir.settings import MODES, MemoryMode
from pullback.machine import Machine, of_width
from pullback.passes.pipeline import PASSES, optimize
from pullback.runtime.emit import with_mode

NDArray = np.ndarray[Any, Any]

WIDTHS: Final = (0, 16, 32, 64)
FOR_SPEED: Final = ("loops", "algebra", "deltas", "sums", "stretches", "commute", "common", "dead", "rows", "fuse")
_ASKED: Final = tuple(f"pullback.runtime.{module}.native" for module in ("executor", "record", "emit"))


@dataclass(frozen=True)
class Way:
    """A way to compile a program: mode, threads, vector bytes (0 for none), open or fixed sizes.

    Attributes:
        exact: no sum in another order.
        debug: with traps.
        compiled: else the interpreter runs what the passes make.
        without: passes that are left out, so that those after them meet what they seldom do.
    """

    mode: MemoryMode
    threads: int
    vector_bytes: int
    all_sizes: bool
    exact: bool = False
    debug: bool = False
    compiled: bool = True
    without: frozenset[str] = frozenset()

    @staticmethod
    def drawn(rng: np.random.Generator) -> Way:
        """A way by chance."""
        mode = MODES[int(rng.integers(len(MODES)))]
        return Way(mode, int(rng.integers(1, 5)), int(rng.choice(WIDTHS)), bool(rng.random() < 0.25))

    @property
    def machine(self) -> Machine:
        """The machine to compile for; with threads, one where no work is too small to share."""
        found = of_width(self.vector_bytes, portable=False)
        return replace(found, meeting=1, chunk=1, waking=1) if self.threads > 1 else found

    def settings(self) -> str:
        """The settings of a function, as they are written."""
        found = {"memory": self.mode, "threads": self.threads, "specialize": "never" if self.all_sizes else "always"}
        return ", ".join(f"{name}={value!r}" for name, value in found.items()) + ", debug=True" * self.debug

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Functions defined and called inside are compiled so, however little work a thread would have."""
        with ExitStack() as stack:
            backend = "c" if self.compiled else "interpreter"
            environment = {"PULLBACK_BACKEND": backend, "PULLBACK_THREADS": str(self.threads), "PULLBACK_VERIFY": "1"}
            stack.enter_context(patch.dict(os.environ, environment))
            if not self.compiled:
                kept = tuple(p for p in PASSES if p.name not in self.without)
                stack.enter_context(patch("pullback.passes.pipeline.PASSES", kept))
                stack.enter_context(patch("pullback.calls.compiled.interpret", self._interpret))
            for name in _ASKED:
                stack.enter_context(patch(name, lambda: self.machine))
            stack.enter_context(exact() if self.exact else nullcontext())
            yield

    def _interpret(self, program: Program, inputs: Sequence[NDArray], sizes: Mapping[str, int] | None = None,
                   **options: bool) -> list[NDArray]:
        """The results of a program as the passes leave it, or, as they see no extent of 0, as it is."""
        dims = solve_dims(program, [np.shape(a) for a in inputs], sizes)
        if all(dims.values()):
            program = with_mode(program, self.mode)
            levels = 2 if self.mode == "least" else 1
            program = optimize(program, {} if self.all_sizes else dims, levels, self.mode, self.machine)
            sizes = {name: n for name, n in dims.items() if name in program.sizes}
        return interpret(program, inputs, sizes, **options)


@contextmanager
def interpreted() -> Iterator[None]:
    """Calls inside run in the interpreter."""
    with patch.dict(os.environ, {"PULLBACK_BACKEND": "interpreter"}):
        yield


def drawn_for_passes(rng: np.random.Generator) -> Way:
    """A way that ends with the passes, half of them with some of those left out that are for speed alone."""
    share = 0.3 if rng.random() < 0.5 else 0.0
    without = frozenset(name for name in FOR_SPEED if rng.random() < share)
    return replace(drawn_for_users(rng), compiled=False, without=without)


def drawn_for_users(rng: np.random.Generator) -> Way:
    """A way with settings that only functions have."""
    way = Way.drawn(rng)
    made: dict[str, Any] = {**way.__dict__, "threads": 1 + way.threads % 3}
    return Way(**{**made, "exact": bool(rng.random() < 0.1), "debug": bool(rng.random() < 0.1)})


__all__ = ["WIDTHS", "Way", "drawn_for_passes", "drawn_for_users", "interpreted"]
