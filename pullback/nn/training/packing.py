"""The gradients and states of a part as vectors, one for each element type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import pullback as pb
from pullback.ir.types import DType, dtype_of
from pullback.tracing.complex_array import is_complex, joined

__all__ = ["Packing"]


@dataclass(frozen=True)
class Range:
    """The elements of an array, or of the real or imaginary part of a complex one, in a vector.

    Attributes:
        vector: the number of the vector.   begin, end: its elements.   shape: the array's shape.
    """

    vector: int
    begin: int
    end: int
    shape: tuple[int, ...]


class Packing:
    """The places of arrays in vectors.

    Args:
        like: NumPy arrays; complex ones are two, as on devices.
    Attributes:
        dtypes: the element types of the vectors.   sizes: the numbers of their elements.
        summed: which vectors have numbers, which are added; counts are those of the first part.
    """

    def __init__(self, like: Sequence[Any]) -> None:
        self._is_pair = [np.asarray(x).dtype.kind == "c" for x in like]
        ends: dict[DType, int] = {}
        self._ranges: list[Range] = []
        for x, pair in zip(like, self._is_pair, strict=True):
            own = np.asarray(x)
            dtype = dtype_of(own.real.dtype if pair else own.dtype)
            assert dtype is not None, "a function takes it"
            for _ in range(1 + pair):
                begin = ends.setdefault(dtype, 0)
                ends[dtype] = begin + own.size
                self._ranges.append(Range([*ends].index(dtype), begin, ends[dtype], own.shape))
        self.dtypes, self.sizes = [*ends], [*ends.values()]
        self.summed = [d.kind in ("floating", "half") for d in self.dtypes]

    def weights(self, weight: float) -> tuple[Any, ...]:
        """The weight of a part for each vector of numbers, in the type that its elements are computed in."""
        return tuple(d.computed.numpy.type(weight) for d, is_number in zip(self.dtypes, self.summed) if is_number)

    def parts(self, arrays: Sequence[Any]) -> list[Any]:
        """The real arrays of these."""
        return [part for x in arrays for part in ((x.real, x.imag) if is_complex(x) else (x,))]

    def packed(self, parts: Sequence[Any], weights: Sequence[Any]) -> tuple[Any, ...]:
        """The vectors of real arrays of rank 1, traced; numbers times their weight."""
        found, remaining = [], iter(weights)
        for k, (dtype, is_number) in enumerate(zip(self.dtypes, self.summed, strict=True)):
            own = [x for x, r in zip(parts, self._ranges, strict=True) if r.vector == k]
            whole = pb.concat(own) if len(own) > 1 else own[0]
            found.append((whole * next(remaining)).astype(dtype) if is_number else whole)
        return tuple(found)

    def unpacked(self, vectors: Sequence[Any]) -> list[Any]:
        """The arrays of vectors, traced."""
        parts = iter([pb.reshape(vectors[r.vector][r.begin : r.end], r.shape) for r in self._ranges])
        return [joined(next(parts), next(parts)) if pair else next(parts) for pair in self._is_pair]

    def zeros(self) -> tuple[Any, ...]:
        """The vectors of a part without samples."""
        return tuple(np.zeros(n, d.numpy) for n, d in zip(self.sizes, self.dtypes, strict=True))
