"""Compositions of verbs: ⍨ ⍥ ∘ ⍛."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pullback.apl.functions import Verb
from pullback.apl.values import (
    Value,
)


@dataclass
class Commute(Verb):
    """`f⍨`: apply f with exchanged arguments; a single argument is used on both sides."""

    f: Verb

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return `y f x`, or `y f y`."""
        return self.f(y, y) if x is None else self.f(x, y)

    def identity(self) -> Any:
        """The identity of the verb."""
        return self.f.identity()


@dataclass
class Over(Verb):
    """`f⍥g`: apply f between the results of g."""

    f: Verb
    g: Verb

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return `f g y`, or `(g x) f g y`."""
        return self.f(self.g(y)) if x is None else self.f(self.g(y), self.g(x))


@dataclass
class Beside(Verb):
    """`f∘g`: apply g to the right argument, then f."""

    f: Verb
    g: Verb

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return `f g y`, or `x f g y`."""
        return self.f(self.g(y), x)


@dataclass
class Behind(Verb):
    """`f⍛g`: apply f to the left argument, then g."""

    f: Verb
    g: Verb

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return `(f y) g y`, or `(f x) g y`."""
        return self.g(y, self.f(y if x is None else x))


@dataclass
class Constantly(Verb):
    """The constant function `a⍨`."""

    value: Value

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return the value."""
        return self.value
