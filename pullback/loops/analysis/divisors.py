"""Numbers that divide indices, which proves that addresses are aligned."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, prod

from pullback.ir.index import Atom, Index, Mod


def divisor(i: Index, known: Mapping[Atom, int]) -> int:
    """The largest number that is proven to divide an index; 0 if the index is 0.

    Args:
        known: divisors of atoms; others are taken as 1.
    """
    return gcd(*(c * prod(_of_atom(a, known) for a in m) for m, c in i.terms))


def _of_atom(a: Atom, known: Mapping[Atom, int]) -> int:
    if a not in known and isinstance(a, Mod):
        return gcd(divisor(a.numerator, known), divisor(a.denominator, known))
    return known.get(a, 1)
