"""Random dfns give the same results and errors, hot or cold: some of `python -m tests.support.hot_dfns`."""

from collections import Counter

import numpy as np
import pytest

from pullback.runtime.compile import compiler_command
from tests.support.apl import AplFailure
from tests.support.hot_dfns import compared, random_arguments, random_dfn


def found(seed: int, count: int, compiled: bool = False) -> Counter[str]:
    total: Counter[str] = Counter()
    for n in range(count):
        rng = np.random.default_rng((seed, n))
        one = compared(random_dfn(rng), random_arguments(rng), compiled)
        assert not isinstance(one, AplFailure), one
        total += one
    return total


@pytest.mark.slow
def test_random_dfns_are_the_same_hot_and_cold() -> None:
    total = found(11, 300)
    assert total["compiled"] > 100
    assert total["calls"] - total["misses"] > 300
    assert total["errors"] > 300


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 28))
def test_more_random_dfns(seed: int) -> None:
    assert found(seed, 300)["compiled"] > 100


@pytest.mark.slow
@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_random_dfns_in_c() -> None:
    assert found(12, 60, compiled=True)["compiled"] > 20
