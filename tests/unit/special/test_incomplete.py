"""The incomplete gamma and beta functions: their domains, and large parameters, held to mpmath."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array, special

INF, NAN = np.inf, np.nan
Two = tuple[Float64[Array, "N"], Float64[Array, "N"]]


@pb.function
def of_gamma(a: Float64[Array, "N"], x: Float64[Array, "N"]):
    both = special.gammainc(a, x), special.gammaincc(a, x)
    ones, zeros = pb.ones_like(a), pb.zeros_like(a)
    moved = pb.jvp(special.gammainc)((a, x), (ones, zeros))[1], pb.jvp(special.gammaincc)((a, x), (zeros, ones))[1]
    return *both, *moved


@pb.function
def of_beta(a: Float64[Array, "N"], b: Float64[Array, "N"], x: Float64[Array, "N"]):
    ones, zeros = pb.ones_like(a), pb.zeros_like(a)
    slopes = [pb.jvp(special.betainc)((a, b, x), t)[1] for t in ((ones, zeros, zeros), (zeros, ones, zeros))]
    return special.betainc(a, b, x), *slopes, pb.jvp(special.betainc)((a, b, x), (zeros, zeros, ones))[1]


@pytest.mark.parametrize(
    ("f", "outside"),
    [
        (of_gamma, [*product([NAN, -1.0, -INF], [0.0, 0.5, 2.0, INF, NAN]), *product([0.5, 2.0], [NAN, -1.0, -INF])]),
        (
            of_beta,
            [
                *product([NAN, -1.0], [2.0], [0.0, 0.5, 1.0]),
                *product([2.0], [NAN, -1.0], [0.0, 0.5, 1.0]),
                *product([0.5, 2.0], [3.0], [NAN, -0.1, 1.1, INF, -INF]),
            ],
        ),
    ],
)
def test_nan_and_arguments_outside_of_the_domain_give_nan(f: Any, outside: list[tuple[float, ...]]) -> None:
    given = tuple(np.array(c) for c in zip(*outside, strict=True))
    for route in (f, f.interpret):
        for found in route(*given):
            np.testing.assert_array_equal(found, np.full(len(outside), NAN))
