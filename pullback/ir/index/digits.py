"""Sums of digits: an index as a sum of atoms times factors, and the bounds this gives.

i * M + j   with j < M    takes no value twice: a step of i exceeds the range of j (mixed radix)
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from pullback.ir.index.division import floor_divide
from pullback.ir.index.polynomial import ZERO_INDEX, Atom, Data, Floor, Index, Mod, Var, as_index, polynomial
from pullback.ir.index.proofs import prove_nonnegative
from pullback.records import dataclass, replace


@dataclass(frozen=True)
class Digits:
    """Rest + sum of factors[a] * a over atoms of the variables: variables, quotients, remainders, data.

    Neither `rest` nor a factor depends on the variables.
    """

    factors: Mapping[Atom, Index]
    rest: Index
    variables: frozenset[Var]

    @property
    def index(self) -> Index:
        """The sum."""
        out = self.rest
        for a, c in self.factors.items():
            out = out + c * as_index(a)
        return out

    @property
    def used(self) -> frozenset[Var]:
        """The variables in its atoms."""
        return frozenset().union(*(a.free for a in self.factors)) & self.variables

    def only(self, atoms: Container[Atom]) -> Digits:
        """The sum of the terms with these atoms, without `rest`."""
        return replace(self, factors={a: c for a, c in self.factors.items() if a in atoms}, rest=ZERO_INDEX)

    def without(self, atom: Atom) -> Digits:
        """The sum of the terms with all other atoms, without `rest`."""
        return self.only([a for a in self.factors if a is not atom])

    def times(self, n: int) -> Digits:
        """The sum times a number."""
        return replace(self, factors={a: c * n for a, c in self.factors.items()}, rest=self.rest * n)

    def lowest(self) -> Index | None:
        """A lower bound of the sum over all variable values; None if unknown."""
        return self._end(0)

    def highest(self) -> Index | None:
        """An upper bound of the sum."""
        return self._end(1)

    def _end(self, side: int) -> Index | None:
        out = self.rest
        for a, c in self.factors.items():
            ends = self.ends(a)
            rises = prove_nonnegative(c)
            if ends is None or not (rises or prove_nonnegative(-c)):
                return None
            out = out + c * ends[side if rises else 1 - side]
        return out

    def ends(self, a: Atom) -> tuple[Index, Index] | None:
        """The bounds of an atom."""
        match a:
            case Mod() if a.denominator.free.isdisjoint(self.variables):
                return ZERO_INDEX, a.denominator - 1
            case Floor() if a.denominator.free.isdisjoint(self.variables):
                inner = digits(a.numerator, self.variables)
                low, high = (None, None) if inner is None else (inner.lowest(), inner.highest())
                if low is None or high is None:
                    return None
                return floor_divide(low, a.denominator), floor_divide(high, a.denominator)
            case Var() | Data() if a.extent is not None and a.extent.free.isdisjoint(self.variables):
                return ZERO_INDEX, a.extent - 1
            case _:
                return None

    def top(self) -> Atom | None:
        """The atom whose factor exceeds the variation of the others, if these have one too; else None.

        Then the sum takes no value twice.
        """
        for a, c in self.factors.items():
            others = self.without(a)
            low, high = others.lowest(), others.highest()
            if self.ends(a) is None or low is None or high is None or (others.factors and others.top() is None):
                continue
            if any(prove_nonnegative(size - 1) and prove_nonnegative(size - 1 - high + low) for size in (c, -c)):
                return a
        return None

    def count(self, a: Atom) -> Index | None:
        """A dim that bounds the number of values of an atom."""
        if isinstance(a, Floor):
            return quotients(a.numerator, a.denominator, self.variables)
        ends = self.ends(a)
        return ends[1] + 1 if ends is not None and ends[1].is_dim else None

    def room(self) -> Index | None:
        """The number of consecutive integers that contain all values, each once; else None."""
        a = self.top()
        count = None if a is None else self.count(a)
        if a is None or count is None or not self.factors[a].is_dim:
            return None
        c = self.factors[a]
        return (c if prove_nonnegative(c) else -c) * count


def digits(e: Index, variables: frozenset[Var]) -> Digits | None:
    """Write `e` as a sum of atoms of the variables; None if such atoms are multiplied."""
    factors: dict[Atom, Index] = {}
    rest = ZERO_INDEX
    for m, c in e.terms:
        own = [a for a in m if not a.free.isdisjoint(variables)]
        if len(own) > 1:
            return None
        factor = polynomial({tuple([a for a in m if a not in own]): c})
        if own:
            factors[own[0]] = factors.get(own[0], ZERO_INDEX) + factor
        else:
            rest = rest + factor
    return Digits(factors, rest, variables)


def quotients(n: Index, d: Index, variables: frozenset[Var]) -> Index | None:
    """A dim that bounds the number of values of floor(n / d), for any offset added to n."""
    whole = digits(n, variables)
    low, high = (None, None) if whole is None else (whole.lowest(), whole.highest())
    if low is None or high is None:
        return None
    exact = floor_divide(high, d) - floor_divide(low, d) + 1
    loose = floor_divide(high - low, d) + 2  # an offset of both ends moves their quotients by at most one
    return exact if exact.is_dim else loose if loose.is_dim else None
