"""Simplified indices are what was written, for all values: an SMT solver is asked about random ones."""

from __future__ import annotations

import pytest
import z3

from pullback.ir.index import Cond, digits, divide_exactly, extreme
from tests.proofs.samples import TIMES, Sampler
from tests.proofs.smt import check


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [True, False], ids=["numbers", "dims"])
def test_simplified_indices_are_what_was_written(numbers: bool) -> None:
    for seed in range((50 if numbers else 4) * TIMES):
        s = Sampler(seed, numbers)
        e = s.term() if seed % 2 else s.position()
        d = s.size()
        for made in (e, s.divided(e, d), s.remainder(e, d)):
            check(s.domain, s.domain.index(made.made) == made.meant, what=(seed, made.text, made.made))


@pytest.mark.parametrize("numbers", [True, False], ids=["numbers", "dims"])
def test_conditions_are_what_was_written(numbers: bool) -> None:
    for seed in range((40 if numbers else 4) * TIMES):
        s = Sampler(seed, numbers)
        made, meant = s.condition()
        negated = made.negate() if isinstance(made, Cond) else not made
        check(s.domain, s.domain.condition(made) == meant, what=(seed, made))
        check(s.domain, s.domain.condition(negated) == z3.Not(meant), what=(seed, negated))


@pytest.mark.parametrize("numbers", [True, False], ids=["numbers", "dims"])
def test_ends_of_indices_are_ends(numbers: bool) -> None:
    for seed in range((20 if numbers else 4) * TIMES):
        s = Sampler(seed, numbers)
        e = s.position() if seed % 2 else s.term(2)
        for upper in (False, True):
            end = extreme(e.made, upper)
            if end is not None:
                difference = s.domain.index(end) - e.meant
                check(s.domain, difference >= 0 if upper else difference <= 0, what=(seed, e.text, upper, end))


def test_exact_quotients_times_the_divisor_are_the_number() -> None:
    for seed in range(12 * TIMES):
        s = Sampler(seed, False)
        e, d = s.position(), s.size()
        quotient = divide_exactly(e.made, d.made)
        if quotient is not None:
            check(s.domain, s.domain.index(quotient) * d.meant == e.meant, what=(seed, e.text, d.text))


@pytest.mark.parametrize("numbers", [True, False], ids=["numbers", "dims"])
def test_digits_have_their_ends_and_values(numbers: bool) -> None:
    """Two copies of the variables say how many values there are, and that sums take none twice."""
    for seed in range((12 if numbers else 3) * TIMES):
        s = Sampler(seed, numbers)
        e = s.position()
        variables = frozenset(v.made.single for v in s.variables)
        whole = digits(e.made, variables)  # type: ignore[arg-type]
        if whole is None:
            continue
        one, other = s.domain, s.domain.again(variables)  # type: ignore[arg-type]
        check(one, one.index(whole.index) == e.meant, what=(seed, "index"))
        for end, sign in ((whole.lowest(), 1), (whole.highest(), -1)):
            if end is not None:
                check(one, sign * (e.meant - one.index(end)) >= 0, what=(seed, e.text, "end", end))
        a, b = one.index(whole.index), other.index(whole.index)
        atoms = [(one.atom(a), other.atom(a)) for a in whole.factors]
        if whole.top() is not None:
            check(one, z3.Or(a != b, z3.And([x == y for x, y in atoms])), what=(seed, e.text))
        room = whole.room()
        if room is not None:
            check(one, a - b < one.index(room), what=(seed, e.text, "room", room))
        for atom, (x, y) in zip(whole.factors, atoms, strict=True):
            count, ends = whole.count(atom), whole.ends(atom)
            if count is not None:
                check(one, x - y < one.index(count), what=(seed, atom, "count", count))
            if ends is not None:
                check(one, z3.And(x >= one.index(ends[0]), x <= one.index(ends[1])), what=(seed, atom, "ends", ends))
