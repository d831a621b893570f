"""`loops.plain.entry`: integers that are used as indices are checked at the call, whatever their type and place."""

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.errors import PullbackError

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@pb.function
def gathered(x: Any, at: Any) -> Any:
    return pb.build(at.shape[0], lambda n: x[at[n]])


@pytest.mark.parametrize("kind", INTEGERS)
def test_a_fault_anywhere(kind: str) -> None:
    x, info = np.arange(10.0), np.iinfo(kind)
    for n in (1, 7, 64, 131):
        at = (np.arange(n) % 10).astype(kind)
        np.testing.assert_array_equal(gathered(x, at), at)
        for place in {0, n // 2, n - 1}:
            for wrong in {10, info.max, info.min or 10}:
                faulty = at.copy()
                faulty[place] = wrong
                with pytest.raises(PullbackError, match="E4") as caught:
                    gathered(x, faulty)
                assert str(faulty.astype("int64")[place]) in str(caught.value)
