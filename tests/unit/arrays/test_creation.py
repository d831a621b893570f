"""Arrays from nothing: their lengths, their ends, and steps of either sign."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array


def test_linspace_begins_and_ends_where_it_says(check):
    @pb.function
    def f(x: Float64[Array, "N"]):
        N = x.shape[0]
        return (
            pb.linspace(0.1, 0.7, 49),
            pb.linspace(x[0], x[-1], N),
            pb.linspace(2.5, 3.5, 1),
            pb.linspace(2.5, 3.5, 1, endpoint=False),
            pb.linspace(2.5, 3.5, 0),
            pb.linspace(0, 10, 4, dtype=pb.int32),
        )

    for x in (np.array([0.1, 1.0, 0.7]), np.array([0.3])):
        expected = (
            np.linspace(0.1, 0.7, 49),
            np.linspace(x[0], x[-1], len(x)),
            [2.5],
            [2.5],
            np.zeros(0),
            np.array([0, 3, 6, 10]),
        )
        check(f, x, expected=expected)
        assert f(x)[0][-1] == 0.7 and f(x)[1][-1] == x[-1] and f(x)[5].dtype == np.int32


def test_linspace_has_the_derivatives_of_its_ends(check):
    @pb.function
    def f(a: Float64[Array, ""], b: Float64[Array, ""]):
        return pb.linspace(a, b, 5)

    ends = np.linspace(0, 1, 5)
    check(pb.jacobian(f, wrt=("a", "b")), np.array(0.5), np.array(2.0), expected=(1 - ends, ends))


RANGES = [(5,), (2, 7), (2, 7, 3), (7, 2), (7, 2, -2), (0, 3, -1), (0.5,), (0, 1, 0.1), (1.0, 0.0, -0.25), (0.0, -1.0)]


@pytest.mark.parametrize("numbers", RANGES, ids=str)
def test_arange(check, numbers):
    @pb.function
    def f(x: Float64[Array, ""]):
        return pb.arange(*numbers)

    check(f, np.array(0.0), expected=np.arange(*numbers))
    assert f(0.0).dtype == np.arange(*numbers).dtype


def test_arange_with_a_dim_for_its_step(check):
    @pb.function
    def f(x: Float64[Array, "N"]):
        N = x.shape[0]
        return pb.arange(0, 10, N), pb.arange(10, 0, -N), pb.arange(N, dtype=pb.float32)

    for n in (1, 2, 3, 7):
        check(f, np.zeros(n), expected=(np.arange(0, 10, n), np.arange(10, 0, -n), np.arange(n, dtype=np.float32)))
