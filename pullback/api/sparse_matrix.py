"""A matrix by its entries, and the other forms it takes."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

NDArray = np.ndarray[Any, Any]


@dataclass(frozen=True)
class SparseMatrix:
    """A matrix by its entries: values[k] at (rows[k], columns[k]); equal positions add up.

    Attributes:
        values: floating, one for each entry.   rows, columns: int64, row-major positions in the result and in the
            parameter.   shape: elements of the result, elements of the parameter.
    """

    values: NDArray
    rows: NDArray
    columns: NDArray
    shape: tuple[int, int]

    def to_dense(self) -> NDArray:
        """The matrix as an array."""
        out = np.zeros(self.shape, self.values.dtype)
        np.add.at(out, (self.rows, self.columns), self.values)
        return out

    def summed(self) -> SparseMatrix:
        """The same matrix with one entry for each position, in row-major order.

        >>> import numpy as np
        >>> twice = SparseMatrix(np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 0]), (2, 1))
        >>> twice.summed().values.tolist()
        [3.0]
        """
        places, entry = np.unique(self.rows * max(self.shape[1], 1) + self.columns, return_inverse=True)
        values = np.zeros(len(places), self.values.dtype)
        np.add.at(values, entry, self.values)
        return SparseMatrix(values, places // max(self.shape[1], 1), places % max(self.shape[1], 1), self.shape)

    def to_csr(self) -> tuple[NDArray, NDArray, NDArray]:
        """Compressed rows, one entry for each position: values, columns, and the rows' first entries and their end."""
        once = self.summed()
        starts = np.zeros(self.shape[0] + 1, np.int64)
        np.cumsum(np.bincount(once.rows, minlength=self.shape[0]), out=starts[1:])
        return once.values, once.columns, starts

    def to_scipy(self) -> Any:
        """The matrix as `scipy.sparse.csr_array`; ImportError without SciPy (extra `[sparse]`)."""
        return import_module("scipy.sparse").csr_array(self.to_csr(), shape=self.shape)
