"""Determinants of complex square matrices, by elimination with row pivoting on their parts."""

from __future__ import annotations

from typing import Any

from pullback.lang.array import Array
from pullback.lang.complex import ComplexArray, as_complex
from pullback.lang.control import fold
from pullback.lang.creation import ones, zeros
from pullback.lang.functions import abs as magnitude
from pullback.lang.functions import log
from pullback.lang.index import argmax_over, build, where
from pullback.linalg.stacks import matrices


def pivots(what: str, x: Any) -> tuple[ComplexArray, Array]:
    """The determinant of each matrix as a number of magnitude 1, or 0, and the logarithm of its magnitude."""
    z = as_complex(x)
    h = matrices(what, z.real)
    lead = tuple(h.shape[:-2])
    if not lead:
        return _eliminated(z)
    return build(lead, lambda *b: _eliminated(z[b]))  # type: ignore[no-any-return]


def _eliminated(z: ComplexArray) -> tuple[ComplexArray, Array]:
    n = z.shape[0]
    unit = ComplexArray(ones((), dtype=z.real.dtype), zeros((), dtype=z.real.dtype))

    def step(state: Any, k: Any) -> Any:
        a, sign, size = state
        p = argmax_over(n, lambda i: where(i >= k, magnitude(a[i, k]), -1.0))
        b = build((n, n), lambda i, j: a[where(i == k, p, where(i == p, k, i)), j])
        pivot = b[k, k]
        length = magnitude(pivot)
        there = length > 0.0
        safe = ComplexArray(where(there, pivot.real, 1.0), where(there, pivot.imag, 0.0))
        turned = sign * pivot / where(there, length, 1.0) * where(p == k, 1.0, -1.0)
        rest = build((n, n), lambda i, j: b[i, j] - where(i > k, b[i, k] / safe, 0.0) * b[k, j])
        return rest, turned, size + where(there, log(where(there, length, 1.0)), -float("inf"))

    _, sign, size = fold(n, (z, unit, zeros((), dtype=z.real.dtype)), step)
    return sign, size
