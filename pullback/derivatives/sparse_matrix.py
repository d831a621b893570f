"""Sparse matrices as lists of entries, with conversions.

SciPy accepts it as a linear operator (it has `shape`, `dtype`, `matvec` and `rmatvec`), and as a sparse matrix by
`m.tocsr()`. NumPy accepts it as an array.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from pullback.errors import ShapeError, counted
from pullback.notebook import Displayed
from pullback.pictures import Picture
from pullback.plots import spy
from pullback.records import dataclass
from pullback.tables import html_table

SHOWN = 12  # entries shown in a notebook
NDArray = np.ndarray[Any, Any]


@dataclass(frozen=True)
class SparseMatrix(Displayed):
    """A matrix given by its entries: values[k] at (rows[k], columns[k]); equal positions add up.

    Attributes:
        values: a floating-point number per entry.   rows, columns: int64, row-major positions in the result and in the
            parameter.   shape: the numbers of elements of the result and of the parameter.
    """

    values: NDArray
    rows: NDArray
    columns: NDArray
    shape: tuple[int, int]

    __array_ufunc__ = None  # NumPy leaves array @ matrix to this class

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return len(self.values)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        found: np.dtype[Any] = self.values.dtype
        return found

    @property
    def ndim(self) -> int:
        """The number of axes, 2."""
        return 2

    @property
    def T(self) -> SparseMatrix:
        """The transpose."""
        return SparseMatrix(self.values, self.columns, self.rows, (self.shape[1], self.shape[0]))

    def __repr__(self) -> str:
        rows, columns = self.shape
        entries = counted(self.nnz, "entry", "entries")
        return f"<SparseMatrix of {rows} x {columns} elements with {entries}, {self.dtype}>"

    def spy(self) -> Picture:
        """Plot which elements are entries, as a picture that notebooks show and `save` writes as SVG.

        A square of a large matrix stands for several elements.

        >>> SparseMatrix(np.array([2.0]), np.array([0]), np.array([1]), (2, 2)).spy()
        <picture 'SparseMatrix of 2 x 2 elements with 1 entry, float64', 340 × 340>
        """
        return spy(repr(self)[1:-1], zip(self.rows.tolist(), self.columns.tolist(), strict=True), self.shape)

    def _repr_html_(self) -> str:
        shown = [(str(r), str(c), f"{v:.6g}") for r, c, v in zip(self.rows[:SHOWN], self.columns, self.values)]
        more = [("⋮", "⋮", "⋮")] if self.nnz > SHOWN else []
        entries = html_table([("row", "column", "value"), *shown, *more], right=(0, 1, 2), caption=repr(self)[1:-1])
        return f"{self.spy().svg}\n{entries}"

    def __matmul__(self, other: Any) -> NDArray:
        """The product with a vector, or with the columns of a matrix.

        >>> import numpy as np
        >>> SparseMatrix(np.array([2.0]), np.array([0]), np.array([1]), (2, 2)) @ np.array([1.0, 3.0])
        array([6., 0.])
        """
        x = np.asarray(other)
        if x.ndim not in (1, 2) or x.shape[0] != self.shape[1]:
            raise ShapeError("E102", f"a matrix of shape {self.shape} times an array of shape {x.shape}")
        out = np.zeros((self.shape[0], *x.shape[1:]), np.result_type(self.values, x))
        np.add.at(out, self.rows, self.values.reshape(-1, *(1,) * (x.ndim - 1)) * x[self.columns])
        return out

    def __rmatmul__(self, other: Any) -> NDArray:
        """The product of a row vector, or of the rows of a matrix, with this matrix."""
        x = np.asarray(other)
        product: NDArray = self.T @ (x if x.ndim == 1 else x.T)
        return product.T

    def matvec(self, x: Any) -> NDArray:
        """The product with a vector, under the name of SciPy's linear operators."""
        product: NDArray = self @ x
        return product

    def rmatvec(self, x: Any) -> NDArray:
        """The product of the transpose with a vector."""
        product: NDArray = self.T @ x
        return product

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        """The matrix as an array."""
        return self.to_dense().astype(dtype or self.dtype, copy=False)

    def toarray(self) -> NDArray:
        """The matrix as an array, under SciPy's name."""
        return self.to_dense()

    def tocsr(self) -> Any:
        """`to_scipy`, under SciPy's name."""
        return self.to_scipy()

    def to_dense(self) -> NDArray:
        """The matrix as an array."""
        out = np.zeros(self.shape, self.values.dtype)
        np.add.at(out, (self.rows, self.columns), self.values)
        return out

    def summed(self) -> SparseMatrix:
        """The same matrix with one entry per position, in row-major order.

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
        """Compressed sparse rows with unique positions: values, columns, and row pointers."""
        once = self.summed()
        starts = np.zeros(self.shape[0] + 1, np.int64)
        np.cumsum(np.bincount(once.rows, minlength=self.shape[0]), out=starts[1:])
        return once.values, once.columns, starts

    def to_scipy(self) -> Any:
        """The matrix as `scipy.sparse.csr_array`; ImportError without SciPy (extra `[sparse]`)."""
        values, columns, starts = self.to_csr()
        narrow = max(len(values), *self.shape) <= np.iinfo(np.int32).max  # SciPy's solvers take int32 alone before 1.12
        kind = np.int32 if narrow else np.int64
        parts = values, columns.astype(kind), starts.astype(kind)
        return import_module("scipy.sparse").csr_array(parts, shape=self.shape)
