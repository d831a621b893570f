"""Where a proof of range says yes, an SMT solver finds no counterexample; and how often it says no to what is true."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pullback.ir.index import Cond, Floor, prove, prove_nonnegative
from tests.proofs.samples import TIMES, Sampler, Term
from tests.proofs.smt import Refuted, check, least

POWER = {"ends": 0.8, "ends under conditions": 0.4, "positions": 1.0, "positions by quotients": 0.0}
# so much of what holds is proven, at least: products with a quotient of dims are of no sign that proofs know


def _known(s: Sampler) -> tuple[tuple[Cond, ...], list[Any]]:
    drawn = [s.condition() for _ in range(s.random.choice((1, 2)))]
    kept = [(made, meant) for made, meant in drawn if isinstance(made, Cond)]
    return tuple(made for made, _ in kept), [meant for _, meant in kept]


def _agree(s: Sampler, e: Term, known: tuple[Cond, ...], given: list[Any], what: object) -> tuple[bool, bool]:
    """Whether e >= 0 is proven, and whether the solver proves it; Refuted where we alone do."""
    ours = prove_nonnegative(e.made, known)
    try:
        return ours, check(s.domain, e.meant >= 0, given, what=(what, e.text, known), milliseconds=100) != "open"
    except Refuted:
        if ours:
            raise
        return ours, False


def _judge(name: str, found: Counter[tuple[bool, bool]]) -> None:
    true = found[True, True] + found[False, True]
    if not true:
        return
    print(f"{name}: of {true} that hold {found[True, True]} are proven")
    assert found[True, True] / true >= POWER[name]


@pytest.mark.parametrize("conditions", [False, True], ids=["", "conditions"])
def test_ends_of_expressions_are_proven(conditions: bool) -> None:
    """The smallest value of an expression is a bound, and one above it is none; conditions may be known."""
    found: Counter[tuple[bool, bool]] = Counter()
    for seed in range(40 * TIMES):
        s = Sampler(seed, True)
        known, given = _known(s) if conditions else ((), [])
        e = s.position() if seed % 2 else s.term(2)
        e = s.times(e, s.number(-1, -1)) if s.random.random() < 0.5 else e
        end = least(s.domain, e.meant, given)
        if end is not None:
            found[_agree(s, s.plus(e, s.number(-end, -end)), known, given, seed)] += 1
            assert not prove_nonnegative(e.made - end - 1, known), (seed, e.text, end, known)
    _judge("ends under conditions" if conditions else "ends", found)


def test_positions_are_proven_to_be_in_range() -> None:
    """Row-major positions, with digits of any size that are variables, quotients and remainders of these."""
    found: dict[str, Counter[tuple[bool, bool]]] = {"positions": Counter(), "positions by quotients": Counter()}
    for seed in range(2 * TIMES):
        s = Sampler(seed, False)
        place, total = s.number(0, 0), s.number(1, 1)
        for v in s.variables:
            extent = Term(v.made.single.extent, s.domain.index(v.made.single.extent), "extent")  # type: ignore[union-attr]
            d = s.size()
            digit, size = s.random.choice(
                ((v, extent), (v, extent), (s.remainder(v, d), d),
                 (s.divided(v, d), s.plus(s.divided(s.plus(extent, s.number(-1, -1)), d), s.number(1, 1)))))
            place, total = s.plus(place, s.times(digit, total)), s.times(size, total)
        rest = s.plus(total, s.times(s.plus(place, s.number(1, 1)), s.number(-1, -1)))
        of = "positions" + " by quotients" * any(isinstance(a, Floor) for a in total.made.atoms)
        found[of][_agree(s, place, (), [], seed)] += 1
        found[of][_agree(s, rest, (), [], seed)] += 1
        _agree(s, s.plus(rest, s.number(-3, -1)), (), [], seed)
    for name, counts in found.items():
        _judge(name, counts)


@pytest.mark.parametrize("numbers", [True, False], ids=["numbers", "dims"])
def test_what_follows_from_conditions_holds(numbers: bool) -> None:
    for seed in range((40 if numbers else 5) * TIMES):
        s = Sampler(seed, numbers)
        known, given = _known(s)
        claim, meant = s.condition()
        if prove(claim, known):
            check(s.domain, meant, given, what=(seed, claim, known))
