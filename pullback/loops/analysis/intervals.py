"""Value ranges of indices and loop bounds, from those of their variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pullback.ir.index import Atom, Data, Floor, Index, Mod, Term, Var
from pullback.ir.traverse import Substitution
from pullback.loops.program.nodes import For
from pullback.loops.program.values import Bound

Interval = tuple[int, int]
ENDLESS = 1 << 60


def interval(i: Index, ranges: Mapping[Atom, Interval]) -> Interval | None:
    """The values an index takes; None where they are not known."""
    return interval_of(i.terms, ranges)


def interval_of(terms: Iterable[Term], ranges: Mapping[Atom, Interval]) -> Interval | None:
    """The values of a sum of terms."""
    low = high = 0
    for m, c in terms:
        if len(m) == 1:  # nearly all
            values = atom_range(m[0], ranges)
            if values is None:
                return None
            least, most = c * values[0], c * values[1]
            low, high = (low + least, high + most) if least <= most else (low + most, high + least)
            continue
        least = most = c
        for a in m:
            found = atom_range(a, ranges)
            if found is None:
                return None
            ends = [x * y for x in (least, most) for y in found]
            least, most = min(ends), max(ends)
        low, high = low + least, high + most
    return low, high


def atom_range(a: Atom, ranges: Mapping[Atom, Interval]) -> Interval | None:
    """The values of an atom."""
    if a in ranges:
        return ranges[a]
    match a:
        case Var():
            n = a.extent.constant
            return None if n is None else (0, n - 1)
        case Data():
            n = None if a.extent is None else a.extent.constant
            return None if n is None else (0, n - 1)
        case Floor() | Mod():
            d, inner = a.denominator.constant, interval(a.numerator, ranges)
            if not d or inner is None:
                return None
            quotients = inner[0] // d, inner[1] // d
            if isinstance(a, Floor):
                return quotients
            return (inner[0] % d, inner[1] % d) if quotients[0] == quotients[1] else (0, d - 1)
        case _:
            return None


def bound_range(b: Bound, ranges: Mapping[Atom, Interval], m: Substitution | None = None) -> Interval:
    """The values a bound takes after its variables are substituted by `m`."""
    if isinstance(b, Index):
        return interval(b if m is None else m.index(b), ranges) or (-ENDLESS, ENDLESS)
    lows, highs = zip(*(bound_range(a, ranges, m) for a in b.args), strict=True)
    choose = max if b.op == "max" else min
    return choose(lows), choose(highs)


def trip_range(s: For, ranges: Mapping[Atom, Interval], m: Substitution | None = None) -> Interval:
    """The values the variable of a loop takes."""
    low, high = bound_range(s.lower, ranges, m), bound_range(s.upper, ranges, m)
    if low[0] <= -ENDLESS:
        low = (0, ENDLESS)
    last = min(high[1], s.var.extent.constant or ENDLESS) - 1
    if low[0] == low[1] and last >= low[0]:
        last = low[0] + (last - low[0]) // s.step * s.step
    return low[0], max(low[0], last)
