"""Positions of integers, by a table or by a sort, beside Python's own search."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.apl.verbs.search import places_in


@pytest.mark.parametrize("high", [5, 4000, 10**6, 2**62])
@pytest.mark.parametrize("size", [1, 17, 5000])
def test_the_first_of_equal_integers_is_found(size: int, high: int) -> None:
    r = np.random.default_rng(size)
    pool = r.choice(r.integers(-high, high, max(size // 3, 1)), size)
    sought = np.concatenate(
        [r.choice(pool, 200), r.integers(-high - 1, high + 1, 50), [pool.min() - 1, pool.max() + 1]]
    )
    first = {number: k for k, number in reversed(list(enumerate(pool.tolist())))}
    assert places_in(pool, sought, 1e-14).tolist() == [first.get(number, size) for number in sought.tolist()]
