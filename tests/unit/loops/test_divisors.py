"""Numbers that divide indices."""

from __future__ import annotations

from pullback.ir.index import ZERO_INDEX, Index, Var, as_index, floor_divide, modulo
from pullback.loops.analysis.divisors import divisor

i, j = Var("i", as_index(100)), Var("j", as_index(100))


def test_divisors() -> None:
    """Factors count, those of variables if they are known; a remainder has the factors of both its parts."""
    cases: list[tuple[Index, int]] = [
        (ZERO_INDEX, 0), (as_index(12), 12), (as_index(i), 1), (as_index(j), 6), (as_index(i) * 8 + 12, 4),
        (as_index(i) * 8 + as_index(j) * 2, 4), (modulo(as_index(j), as_index(9)), 3),
        (modulo(as_index(i), as_index(8)) * 4, 4), (floor_divide(as_index(j), as_index(9)), 1)]  # fmt: skip
    assert [(index, divisor(index, {j: 6})) for index, _ in cases] == cases
