"""Operators given by elements: dense ones, and gathers.

    Dense(J, domain)         X -> Y,  Y[i..] = sum over k.. of J[i.., k..] X[k..]
    Indexed(W, at, ...)      X -> Y,  Y[i..] = sum over v.. of W[i.., v..] X[at[0][i.., v..], at[1][i.., v..], ...]

`Indexed` gathers elements of X. Its adjoint adds to the same elements: a gather becomes a scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from pullback.operators.operator import Done, Operator


class Dense(Operator):
    """The dense derivative of an array by another; `array` has the image's axes, then the domain's.

    >>> op = Dense(np.array([[1.0, 2.0], [3.0, 4.0]]), (2,), "J")
    >>> op, op([1.0, 0.0]).tolist(), op.T([1.0, 0.0]).tolist()
    (J[J], [1.0, 3.0], [1.0, 2.0])
    """

    def __init__(self, array: np.ndarray, domain: tuple[int, ...], name: str = "J") -> None:
        self.array = np.asarray(array)
        self._domain = domain
        self.name = name

    def _apply(self, x: Any, done: Done) -> Any:
        return np.tensordot(self.array, x, axes=len(self._domain))

    @property
    def T(self) -> Dense:
        """The adjoint: the conjugated array with the axes of the domain first."""
        count = self.array.ndim - len(self._domain)
        axes = (*range(count, self.array.ndim), *range(count))
        name = self.name[:-1] if self.name.endswith("ᵀ") else f"{self.name}ᵀ"
        return Dense(self.array.conj().transpose(axes), self.array.shape[:count], name)

    @property
    def domain(self) -> tuple[int, ...]:
        """The shape of the operand."""
        return self._domain

    def __str__(self) -> str:
        return f"J[{self.name}]"


class Indexed(Operator):
    """A sum of weighted elements read at indices.

    Args:
        weights: an array with the axes of the image, then the summed axes.
        at: an array of indices, shaped like `weights`, for each axis of the operand.
        domain: the shape of the operand.
        rank: the number of axes of the image.
        name: its printed name.

    >>> op = Indexed(np.ones(3), [np.array([2, 0, 2])], (4,), 1, "idx")
    >>> op([5.0, 6.0, 7.0, 8.0]).tolist(), op.T([1.0, 1.0, 1.0]).tolist()
    ([7.0, 5.0, 7.0], [1.0, 0.0, 2.0, 0.0])
    """

    def __init__(
        self, weights: np.ndarray, at: Sequence[np.ndarray], domain: tuple[int, ...], rank: int, name: str = "G"
    ) -> None:
        self.weights = np.asarray(weights)
        self.at = tuple(at)
        self._domain = domain
        self.rank = rank
        self.name = name

    def _apply(self, x: Any, done: Done) -> Any:
        read = self.weights * np.asarray(x)[self.at]
        return read.sum(axis=tuple(range(self.rank, read.ndim)))

    @property
    def T(self) -> Operator:
        """The adjoint operator, which adds at the indices."""
        return _Scattered(self)

    @property
    def domain(self) -> tuple[int, ...]:
        """The shape of the operand."""
        return self._domain

    def __str__(self) -> str:
        return f"G[{self.name}]"


class _Scattered(Operator):
    """The adjoint of an `Indexed`."""

    def __init__(self, indexed: Indexed) -> None:
        self.indexed = indexed

    def _apply(self, x: Any, done: Done) -> Any:
        op = self.indexed
        spread = np.asarray(x)[(..., *[None] * (op.weights.ndim - op.rank))]
        added = op.weights.conj() * spread
        out = np.zeros(op.domain, dtype=added.dtype)
        np.add.at(out, op.at, added)
        return out

    @property
    def T(self) -> Operator:
        """The `Indexed` operator, which reads at the indices."""
        return self.indexed

    @property
    def domain(self) -> tuple[int, ...]:
        """The input shape: the output shape of the `Indexed` whose adjoint this is."""
        return self.indexed.weights.shape[: self.indexed.rank]

    def to_dense(self, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """Return the conjugate transpose of the matrix of the `Indexed`."""
        assert shape is None or prod(shape) == prod(self.domain)
        return self.indexed.to_dense().conj().T

    def __str__(self) -> str:
        return f"{self.indexed}ᵀ"


__all__ = ["Dense", "Indexed"]
