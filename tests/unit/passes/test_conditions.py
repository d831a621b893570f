"""Conditions as bounds."""

from __future__ import annotations

import pytest

from pullback.ir.index import Cond, Var, as_index, cond
from pullback.ir.traverse import Substitution
from pullback.passes.conditions import undivided


@pytest.mark.parametrize("least", [3, 6])
@pytest.mark.parametrize("divisor", [2, 5])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_bound_on_a_quotient_is_one_on_its_numerator(sign: int, divisor: int, least: int) -> None:
    i = Var("i", 40)
    divided = cond(">=", sign * ((as_index(i) + 1) // divisor - least))
    assert isinstance(divided, Cond)
    found = undivided(divided)
    assert isinstance(found, Cond) and list(found.index.atoms) == [i]
    for k in range(40):
        at = Substitution(variables={i: as_index(k)})
        assert at.condition(found) == at.condition(divided)
