r"""Inverses `f⍣¯1`: of verbs, of verbs with an argument, and of derived verbs.

A table row solves y = f z, or y = x f z, for z. The inverse of a derived verb follows from those of its operands:

    f∘g, (f g), f⍥g     the inverse of f, then that of g            a∘f, (a f g)     that of f with a to its left
    f¨  f⍤k  f⍣n        that of f by the same operator              f⍨               of y = z f z, and of y = z f x
    +\ ×\               differences and quotients of neighbors
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from pullback.apl import errors
from pullback.apl.functions import Atop, Bound, Constant, Fork, Placed, Primitive, Verb
from pullback.apl.operators.cells import Each, Rank
from pullback.apl.operators.compositions import Beside, Commute, Over
from pullback.apl.operators.parts import glyph_of
from pullback.apl.operators.power import Power
from pullback.apl.operators.reductions import Scan
from pullback.apl.table import Settings, migrated
from pullback.apl.values import Value, count_of, is_nested, is_traced, rank_of, scalar, settled, whole_list

Call = Callable[..., Value]  # a glyph with its arguments, the left one first
One = Callable[[Call, Value], Value]
Two = Callable[[Call, Value, Value], Value]


def _again(glyph: str) -> One:
    return lambda f, y: f(glyph, y)


MONADIC: Final[dict[str, One]] = {
    **{glyph: _again(glyph) for glyph in "+-÷~⌽⊖⍉⌹⊢⊣"},
    "*": lambda f, y: f("⍟", y),
    "⍟": lambda f, y: f("*", y),
    "○": lambda f, y: f("÷", y, f("○", scalar(1))),
    "⊂": lambda f, y: f("⊃", y),
    "↑": lambda f, y: f("↓", y),
    "↓": lambda f, y: f("↑", y),
    "⍸": lambda f, y: _counts_of_places(f, y),
}
DYADIC: Final[dict[str, Two]] = {  # y = x f z
    "+": lambda f, x, y: f("-", y, x),
    "-": lambda f, x, y: f("-", x, y),
    "×": lambda f, x, y: f("÷", y, x),
    "÷": lambda f, x, y: f("÷", x, y),
    "*": lambda f, x, y: f("⍟", x, y),
    "⍟": lambda f, x, y: f("*", x, y),
    "○": lambda f, x, y: f("○", f("-", x), y),
    "⌽": lambda f, x, y: f("⌽", f("-", x), y),
    "⊖": lambda f, x, y: f("⊖", f("-", x), y),
    "⍉": lambda f, x, y: f("⍉", f("⍋", x), y),
    "⊢": lambda f, x, y: y,
    "⊤": lambda f, x, y: f("⊥", x, y),
    "⊥": lambda f, x, y: _digits(f, x, y),
}
COMMUTED: Final[dict[str, Two]] = {  # y = z f x
    "+": lambda f, x, y: f("-", y, x),
    "-": lambda f, x, y: f("+", y, x),
    "×": lambda f, x, y: f("÷", y, x),
    "÷": lambda f, x, y: f("×", y, x),
    "*": lambda f, x, y: f("*", y, f("÷", x)),
    "⍟": lambda f, x, y: f("*", x, f("÷", y)),
    "⊣": lambda f, x, y: y,
}
WITH_ITSELF: Final[dict[str, One]] = {  # y = z f z
    "+": lambda f, y: f("÷", y, scalar(2)),
    "×": lambda f, y: f("*", y, scalar(0.5)),
}


def _digits(f: Call, base: Value, y: Value) -> Value:
    """The digits of numbers: in one base as many as the largest needs, else one for each base."""
    if rank_of(base):
        return f("⊤", base, y)
    (b,) = whole_list(base, "⊥⍣¯1")
    y = settled(y)
    if is_traced(y):
        raise errors.of_data("⊥⍣¯1", "the number", "⊤, which takes as many digits as there are bases")
    if is_nested(y) or y.dtype.kind not in "biuf" or not isinstance(b, int) or b < 2 or (y < 0).any():
        raise errors.domain("⊥⍣¯1 takes a base of at least 2, and no negative numbers")
    count, largest = 0, int(np.floor(y.max())) if y.size else 0
    while largest:
        count, largest = count + 1, largest // b
    return f("⊤", np.full(count, b), y)


def _counts_of_places(f: Call, y: Value) -> Value:
    """The number of occurrences of each place in an ascending list."""
    places = whole_list(y, "⍸⍣¯1")
    if places != sorted(places):
        raise errors.domain("⍸⍣¯1 takes places in ascending order")
    upto = f("⍳", scalar(places[-1] if places else 0))
    return np.array([places.count(int(k)) for k in upto.tolist()], np.int64)


def inverse(f: Verb, s: Settings) -> Verb:
    """Return the inverse of a verb.

    Raises:
        AplError: [E804] no inverse is known.
    """
    match f:
        case Placed(verb=g):
            return inverse(g, s)
        case Inverse():
            return f.f
        case Power() if not isinstance(f.times, Verb):
            return replace(f, f=inverse(f.f, s), undo=lambda: f.f)
        case Atop():
            return Beside(inverse(f.g, s), inverse(f.f, s))
        case Beside():  # y = x f g z: the left argument goes to f
            return Atop(inverse(f.g, s), inverse(f.f, s))
        case Over():
            return _OverUndone(inverse(f.f, s), f.g, inverse(f.g, s))
        case Fork(f=Constant(value=a)):
            return Atop(inverse(f.h, s), Bound(inverse(f.g, s), left=a))
        case Bound() if f.left is not None:
            return Bound(inverse(f.f, s), left=f.left)
        case Bound():
            return Bound(inverse(Commute(f.f), s), left=f.right)
        case Each() | Rank():
            return replace(f, f=inverse(f.f, s))
        case Primitive() | Commute() | Scan():
            return Inverse(f, s)
        case _:
            raise no_inverse(getattr(f, "name", "the verb"))


@dataclass
class _OverUndone(Verb):
    """The inverse of `f⍥g`: y = (g x) f g z."""

    undo_f: Verb
    g: Verb
    undo_g: Verb

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return the solution z."""
        return self.undo_g(self.undo_f(y, None if x is None else self.g(x)))


def no_inverse(name: str) -> errors.AplError:
    """The error for a verb without an inverse."""
    return errors.domain(f"{name} has no inverse that is known", remedy="a verb that undoes it, as a dfn of its own")


@dataclass
class Inverse(Verb):
    """The inverse of a verb of the table, of a commuted verb, or of a scan."""

    f: Primitive | Commute | Scan
    settings: Settings

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Solve f z = y, or x f z = y, for z."""
        if isinstance(self.f, Scan):
            return self._of_scan(self.f, y, x)
        commuted = isinstance(self.f, Commute)
        inner: Any = self.f.f if isinstance(self.f, Commute) else self.f
        glyph = glyph_of(inner.verb if isinstance(inner, Placed) else inner) or ""
        glyph = glyph if commuted else migrated(glyph, x is not None, self.settings)
        if x is None:
            one = (WITH_ITSELF if commuted else MONADIC).get(glyph)
            if one is not None:
                return one(self._call, y)
        else:
            two = (COMMUTED if commuted else DYADIC).get(glyph)
            if two is not None:
                return two(self._call, x, y)
        raise no_inverse(f"{glyph or 'the verb'}{'⍨' if commuted else ''}")

    def _call(self, glyph: str, *arguments: Value) -> Value:
        return Primitive(glyph, replace(self.settings, ml=1))(*reversed(arguments))

    def _of_scan(self, f: Scan, y: Value, x: Value | None) -> Value:
        glyph = glyph_of(f.f)
        undo = {"+": "-", "×": "÷", "≠": "≠"}.get(glyph or "")
        if undo is None or x is not None:
            raise no_inverse("the scan")
        y = settled(y)
        if not rank_of(y) or count_of(y) == 0:
            return y
        along = f.along(y)
        on: Callable[[str], Primitive] = lambda glyph: Primitive(glyph, self.settings, scalar(along + self.settings.io))
        rest = self._call(undo, on("↓")(y, scalar(1)), on("↓")(y, scalar(-1)))
        return on(",")(rest, on("↑")(y, scalar(1)))


__all__ = ["inverse"]
