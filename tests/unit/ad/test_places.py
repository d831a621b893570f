"""Places that are tested when a program runs are tested in derivatives for what reads them, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb

TABLE = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
READS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "one": (lambda t, n: pb.where(n < 5, t[n] ** 2, 0.0), np.int64(7)),
    "several": (lambda t, n: pb.build(4, lambda i: pb.where(n[i] < 5, t[n[i]] ** 2, 0.0)), np.array([7, 3, 3, 2])),
}


@pytest.mark.parametrize("mode", ["forward", "reverse", "mixed"])
@pytest.mark.parametrize("read", READS)
def test_a_place_that_no_value_needs(read: str, mode: Any) -> None:
    """The guard of a read stands around the test of its place in every mode."""
    f, n = READS[read]
    jacobian = pb.jacobian(pb.function(f), mode=mode)
    expected = np.where((np.arange(5) == np.asarray(n)[..., None]), 2 * TABLE, 0.0)
    np.testing.assert_array_equal(jacobian(TABLE, n), expected)
    np.testing.assert_array_equal(jacobian.interpret(TABLE, n), expected)


@pytest.mark.parametrize("mode", ["forward", "reverse", "mixed"])
def test_a_place_that_a_value_needs(mode: Any) -> None:
    """What is read without a guard is refused."""
    with pytest.raises(IndexError):
        pb.jacobian(pb.function(lambda t, n: t[n] ** 2), mode=mode)(TABLE, np.int64(7))
