"""Bracketings: their number, cost, common value, and the cheapest."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pullback.errors import ShapeError
from pullback.operators import LeftMultiply, bracketings, catalan, cheapest_bracketing


@given(st.lists(st.integers(1, 6), min_size=2, max_size=7), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_all_bracketings_agree_and_the_cheapest_is_found(extents: list[int], seed: int) -> None:
    shapes = list(pairwise(extents))
    rng = np.random.default_rng(seed)
    factors = [rng.integers(-3, 4, shape) for shape in shapes]
    ways = bracketings(shapes)
    assert len(ways) == len({str(way) for way in ways}) == catalan(len(shapes) - 1)
    expected = ways[0].evaluate(factors).tolist()
    assert all(way.evaluate(factors).tolist() == expected for way in ways)
    assert [way.cost for way in ways] == sorted(way.cost for way in ways)
    assert cheapest_bracketing(shapes).cost == ways[0].cost


def test_operators_compose_in_every_bracketing() -> None:
    factors = [LeftMultiply(np.eye(2), name) for name in "abc"]
    assert {str(way.evaluate(factors)) for way in bracketings([(2, 2)] * 3)} == {"L[a] L[b] L[c]"}


def test_the_textbook_chain() -> None:
    best = cheapest_bracketing([(30, 35), (35, 15), (15, 5), (5, 10), (10, 20), (20, 25)])
    assert (str(best), best.cost) == ("((A (B C)) ((D E) F))", 15125)


def test_shapes_must_fit() -> None:
    with pytest.raises(ShapeError, match=r"factors 0 and 1"):
        bracketings([(1, 2), (3, 4)])
    with pytest.raises(ShapeError, match="at least one"):
        cheapest_bracketing([])
