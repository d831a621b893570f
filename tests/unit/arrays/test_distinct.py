"""Static arguments, sizes and numbers are told apart by type and to the last bit."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.errors import TraceError
from pullback.tracing.distinct import distinct


@dataclass(frozen=True)
class Rate:
    value: Any


class Named(NamedTuple):
    value: Any


DIFFERENT = [
    *(1, True, 1.0, 1 + 0j, np.float64(1), np.int64(1), np.float32(1), np.bool_(True)),
    *(Decimal(1), Decimal("1.0"), "1", b"1", None),
]
WRAPS = [lambda x: x, lambda x: (x, 2), lambda x: (0, (x,)), lambda x: frozenset({x}), Rate, Named]


@pytest.mark.parametrize("wrap", WRAPS)
def test_equal_values_of_different_types_differ(wrap: Any) -> None:
    assert len({distinct(wrap(x)) for x in DIFFERENT}) == len(DIFFERENT)


@pytest.mark.parametrize("wrap", [float, np.float64, np.float32, lambda x: complex(0, x), lambda x: (x,), Rate])
def test_signs_of_zero_and_of_nan_differ_and_nan_is_itself(wrap: Any) -> None:
    values = [0.0, -0.0, math.nan, -math.nan]
    assert len({distinct(wrap(x)) for x in values}) == 4
    assert all(distinct(wrap(x)) == distinct(wrap(float(str(x)))) for x in values[:3])


class Folder:
    """Equal to all of its kind."""

    def __eq__(self, other: object) -> bool:
        return type(other) is Folder

    def __hash__(self) -> int:
        return 1


def test_an_equality_of_ones_own_counts() -> None:
    assert distinct(Folder()) == distinct(Folder())
    assert distinct(Rate(Folder())) == distinct(Rate(Folder()))
    assert distinct(object()) != distinct(object())


def test_a_program_for_each_static_value() -> None:
    @pb.function
    def f(x: Float64[Array, "N"], n: pb.Static):
        sign = math.copysign(1.0, n)
        return sign * (x + (1.0 if isinstance(n, bool) else 2.0 if isinstance(n, int) else 3.0))

    x = np.zeros(1)
    values = [1, True, 1.0, np.float64(1), 0.0, -0.0, math.nan, -math.nan]
    wanted = [2.0, 1.0, 3.0, 3.0, 3.0, -3.0, 3.0, -3.0]
    for order in (values, values[::-1]):  # whoever comes first decides for none of the others
        for _ in range(3):
            found = [f(x, n).item() for n in order]
            assert found == (wanted if order is values else wanted[::-1])


def test_no_program_for_each_nan() -> None:
    calls = itertools.count()

    @pb.function
    def f(x: Float64[Array, "N"], n: pb.Static):
        next(calls)
        return x + n

    for _ in range(5):
        assert np.isnan(f(np.zeros(1), float("nan"))).all()
    assert next(calls) == 1


def test_numbers_of_numpy_are_told_apart_as_sizes() -> None:
    @pb.function
    def f(n: pb.Size["N"]):
        return pb.build(n, lambda i: i)

    for n in (2, 3, 2):
        assert f(np.int64(n)).tolist() == list(range(n))


def test_what_a_static_tuple_holds_must_be_hashable() -> None:
    @pb.function
    def f(x: Float64[Array, "N"], n: pb.Static):
        return x

    with pytest.raises(TraceError, match="E108"):
        f(np.zeros(1), (1, [2]))
