"""The compiled versions of a function: C for the dims of a call, or one C for all sizes, and which serves which call.

The first dims of a function get C of their own at once, others share C for all sizes until their calls have done as
much work as compiling is worth (`api.trial`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.calls import policy
from pullback.calls.execute import NDArray, Runner, prepare
from pullback.calls.recent import Recent
from pullback.calls.signature import Signature
from pullback.calls.traced import Traced
from pullback.calls.trial import Trial
from pullback.ir.dims import solve_dims
from pullback.turns import turn

__all__ = ["Versions"]

FIRST = 4  # dims that get C of their own at once, before one C serves all others
MOST = 64  # dims that get C of their own at all, the others after many calls


class Versions:
    """The compiled versions of one function.

    Attributes:
        runners: what runs calls, by signature, shapes, sizes, threads and backend: those that were called last.
    """

    def __init__(
        self, name: str, threads: int | None, specialised: Callable[[Traced, dict[str, int]], Traced],
        changed: Callable[[], None],
    ) -> None:
        """A function's name, its threads, what it compiles for dims, and what to call when a version gives way."""
        self.runners: Recent[Any, Runner] = Recent()
        self._name = name
        self._threads = threads
        self._specialised = specialised
        self._changed = changed
        self._own: Recent[Signature, set[tuple[int, ...]]] = Recent()  # dims that have C of their own
        self._general: Recent[Any, Any] = Recent()

    def runner(self, signature: Signature, traced: Traced, flat: Sequence[Any]) -> tuple[Runner, list[NDArray]]:
        """What runs this call, and the arrays to give it."""
        arrays, sizes = prepare(signature.flat, flat)
        arrays += traced.captured
        threads = policy.thread_count(self._threads)
        key = (signature, tuple(a.shape for a in arrays), tuple(sizes.items()), threads, policy.backend())
        runner = self.runners.get(key)
        if runner is None:
            with turn((self, key)):
                runner = self.runners.get(key)
                if runner is None:
                    runner = self.runners.put(key, self._runner(signature, traced, arrays, sizes, threads))
        return runner, arrays

    def _runner(
        self, signature: Signature, traced: Traced, arrays: Sequence[NDArray], sizes: dict[str, int], threads: int
    ) -> Runner:
        dims = solve_dims(traced.known, [a.shape for a in arrays], sizes)
        if traced.prints is not None or not self._is_general(signature, traced, dims):
            return Runner(self._name, self._specialised(traced, dims), arrays, sizes, threads)
        trial = self._trial(signature, traced, dims, threads)
        return Runner(self._name, traced, arrays, sizes, threads, trial=trial,
                      general=lambda: self._compiled_general(signature, traced, threads))

    def _is_general(self, signature: Signature, traced: Traced, dims: dict[str, int]) -> bool:
        """Whether C for all sizes is to serve these dims."""
        settings = traced.known.settings
        wish = settings.specialise
        if wish == "always" or not dims or (wish == "auto" and settings.memory_limit is not None) or settings.debug:
            return False
        if wish == "never":
            return True
        own = self._dims_with_own(signature)
        values = tuple(dims.values())
        if len(own) < FIRST:
            own.add(values)
        return values not in own

    def _dims_with_own(self, signature: Signature) -> set[tuple[int, ...]]:
        found = self._own.get(signature)
        return self._own.put(signature, set()) if found is None else found

    def _trial(self, signature: Signature, traced: Traced, dims: dict[str, int], threads: int) -> Trial | None:
        """How long C for all sizes serves these dims, where it need not do so for ever."""
        if traced.known.settings.specialise == "never":
            return None

        def executable() -> Any:
            from pullback.runtime.executor import compile_program

            self._changed()
            own = self._dims_with_own(signature)
            values = tuple(dims.values())
            if len(own) >= MOST and values not in own:
                return None
            own.add(values)
            return compile_program(self._specialised(traced, dims).known, dims, threads)

        return Trial(traced, dims, executable)

    def _compiled_general(self, signature: Signature, traced: Traced, threads: int) -> Any:
        """The function compiled for all sizes, once."""
        from pullback.runtime.executor import compile_general

        key = (signature, threads)
        with turn((self, "general", key)):
            found = self._general.get(key)
            return found or self._general.put(key, compile_general(traced.known, threads=threads))
