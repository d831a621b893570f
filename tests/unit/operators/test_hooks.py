"""The hooks of elements, for types that follow the protocols and for types that register."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pullback.errors import DerivativeError
from pullback.operators import LeftMultiply, adjoint, blocks, inverse, left_divide, product, solve


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (2, Fraction(1, 3), Fraction(2, 3)),
        (2.0, np.array([1.0, 2.0]), [2.0, 4.0]),
        (np.array([1.0, 2.0]), 2.0, [2.0, 4.0]),
        (np.float64(2.0), np.array([1.0]), [2.0]),
        (np.array(2.0), np.array([1.0]), [2.0]),
        (np.array([1.0]), np.array(2.0), [2.0]),
        (np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]), [[11.0]]),
    ],
)
def test_product(left: Any, right: Any, expected: Any) -> None:
    assert np.asarray(product(left, right)).tolist() == np.asarray(expected).tolist()


def test_a_number_scales_an_operator() -> None:
    assert str(product(2.0, LeftMultiply(np.eye(2), "A"))) == "2.0 L[A]"
    assert str(product(np.float64(2.0), LeftMultiply(np.eye(2), "A"))) == "2.0 L[A]"


@pytest.mark.parametrize(
    ("element", "expected"),
    [(2, 2), (2.5, 2.5), (Fraction(1, 2), Fraction(1, 2)), (1 + 2j, 1 - 2j), ("abc", "abc")],
)
def test_adjoint_of_scalars(element: Any, expected: Any) -> None:
    assert adjoint(element) == expected


@pytest.mark.parametrize(
    ("element", "expected"), [(4.0, 0.25), (Fraction(2), Fraction(1, 2)), (Decimal(4), Decimal("0.25"))]
)
def test_inverse_of_scalars(element: Any, expected: Any) -> None:
    assert inverse(element) == expected
    assert left_divide(element, element) == 1


@pytest.mark.parametrize("element", [0, 0.0, Fraction(0), Decimal(0), np.array(0.0), np.zeros((2, 2))])
def test_singular_elements(element: Any) -> None:
    right = np.ones((2, 2)) if np.ndim(element) == 2 else type(element)(1) if isinstance(element, Decimal) else 1.0
    with pytest.raises(DerivativeError, match=r"E21[23]"):
        inverse(element)
    with pytest.raises(DerivativeError, match=r"E21[23]"):
        left_divide(element, right)


def test_decimals_and_registered_types() -> None:
    assert solve([[Decimal(2), 0], [Decimal(1), Decimal(4)]], [Decimal(1), Decimal(1)]) == [
        Decimal("0.5"),
        Decimal("0.125"),
    ]

    class MaxPlus:
        """The semiring of longest paths: + is the maximum, the product adds."""

        def __init__(self, value: float) -> None:
            self.value = value

        def __add__(self, other: MaxPlus) -> MaxPlus:
            return MaxPlus(max(self.value, other.value))

    product.register(MaxPlus, lambda left, right: MaxPlus(left.value + right.value))
    weights = blocks([[MaxPlus(1.0), MaxPlus(5.0)]]) @ [MaxPlus(2.0), MaxPlus(0.0)]
    assert weights[0].value == 5.0
