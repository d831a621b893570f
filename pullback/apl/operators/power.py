"""The power operator ⍣, which repeats verbs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pullback as pb
from pullback.apl import errors
from pullback.apl.functions import Verb
from pullback.apl.numbers import kind_of
from pullback.apl.operators.parts import flattened, like
from pullback.apl.values import (
    Value,
    holds_traced,
    is_traced,
    lifted,
    simple_list,
    whole,
)
from pullback.apl.watch import first_held, held, passed, refuse, tests
from pullback.tracing.array import Array, from_index
from pullback.tracing.making import extent_of
from pullback.tracing.tracer import current

UNROLLED: Final = 4  # steps of ⍣ that a compiled function unrolls
LIMIT: Final = 100_000  # iterations of ⍣ with a test


class _NoCounterError(Exception):
    """A part of the state does not count the steps."""


@dataclass
class Power(Verb):
    """The power `f⍣n`: repeat f, or its inverse for negative n; `f⍣g` until g holds between two results."""

    f: Verb
    times: Any
    undo: Callable[[], Verb]

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return the last result."""
        f = self.f

        def step(state: Value) -> Value:
            return f(state, x)

        if isinstance(self.times, Verb):
            return self._until(step, y)
        count = simple_list(self.times, "⍣")
        if len(count) != 1:
            raise errors.length("⍣ takes one number")
        (n,) = count
        if isinstance(n, int) and n < 0 and holds_traced(y):
            refuse("an inverse")
        if isinstance(n, Array) or (holds_traced(y) and isinstance(n, int) and abs(n) > UNROLLED):
            if isinstance(n, int) and n < 0:
                f, n = self.undo(), -n
            return self._folded(step, y, n)
        n = whole(self.times, "⍣")
        if n < 0:
            f = self.undo()
        for _ in range(abs(n)):
            y = step(y)
        return y

    def _folded(self, step: Callable[[Value], Value], y: Value, n: Any) -> Value:
        """Trace a loop of the compiled function; the state is an array, or a nest of arrays."""
        before, rebuild = flattened(y)
        counters = {k: b.index for k, b in enumerate(before) if b.weak == "integer" and b.index is not None}
        with current().block() as trial, tests():  # to learn the types of a step's results; it has no effects
            trial.prints = []
            after, _ = flattened(step(rebuild(before)))
        counters = {k: i for k, i in counters.items() if after[k].index is not None}
        start = [like(b, a) for b, a in zip(before, after)]
        try:
            found = self._loop(step, rebuild, start, counters, n)
        except _NoCounterError:
            counters = {}
            found = self._loop(step, rebuild, start, counters, n)
        ends = {k: from_index(i + extent_of(n, "⍣")) for k, i in counters.items()}
        return rebuild([ends.get(k, x) for k, x in enumerate(found)])

    def _loop(
        self,
        step: Callable[[Value], Value],
        rebuild: Callable[[list[Any]], Value],
        start: list[Any],
        counters: dict[int, Any],
        n: Any,
    ) -> list[Any]:
        """Return the states after n steps; counters become the loop index, verified by induction."""
        kept = [k for k in range(len(start)) if k not in counters]

        def body(state: Any, trip: Any) -> Any:
            with tests():
                full = dict(zip(kept, state)) | {k: from_index(i + trip.index) for k, i in counters.items()}
                after, _ = flattened(step(rebuild([full[k] for k in range(len(start))])))
                if any(after[k].index is not i + trip.index + 1 for k, i in counters.items()):
                    raise _NoCounterError
                now = [like(after[k], x) for k, x in zip(kept, state)]
                return (*now, *held(now, *state[len(kept) :]))

        if not kept:
            refuse("a loop that only counts")
            return start
        first = [start[k] for k in kept]
        (*states,) = pb.fold(n, (*first, *first_held(first)), body)
        passed(*states[len(kept) :])
        found = dict(zip(kept, states))
        return [found.get(k, start[k]) for k in range(len(start))]

    def _until(self, step: Callable[[Value], Value], y: Value) -> Value:
        if is_traced(y):
            refuse("a loop that may not end")

            def test(state: Any) -> Any:
                return pb.logical_not(_as_test(self.times(state[1], state[0])))

            first = lifted(step(y))
            start = (first, like(lifted(y), first))
            return pb.while_loop(test, lambda s: (like(lifted(step(s[0])), s[0]), s[0]), start)[0]
        for _ in range(LIMIT):
            after = step(y)
            held = self.times(y, after)
            if whole(held, "⍣"):
                return after
            y = after
        raise errors.AplError("LIMIT ERROR", f"⍣ has made {LIMIT} steps, and its test has not held")


def _as_test(x: Value) -> Any:
    made = x if is_traced(x) else lifted(x)
    return made if kind_of(made) == "b" else made != 0
