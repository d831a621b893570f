"""Products that a library of the device's maker may compute in place of a kernel's launches."""

from __future__ import annotations

from pullback.ir.types import DType
from pullback.loops.program.values import Buffer
from pullback.records import dataclass

__all__ = ["LibraryProduct", "Matrix"]


@dataclass(frozen=True)
class Matrix:
    """A matrix of a batch, or its transpose, in a buffer.

    Attributes:
        buffer: the kernel's parameter.   dtype: the type of its elements.
        transposed: whether elements of a column are neighbors.   lead: from one row (or column) to the next.
        apart: from one matrix to the next.
    """

    buffer: Buffer
    dtype: DType
    transposed: bool
    lead: int
    apart: int


@dataclass(frozen=True)
class LibraryProduct:
    """Products `out = left @ right` of matrices.

    Attributes:
        many: their number.   rows, columns, terms: the sizes of each.   out: its elements of a row are neighbors.
        tf32: whether operands of f32 may be rounded to 10 bits of mantissa.
    """

    many: int
    rows: int
    columns: int
    terms: int
    left: Matrix
    right: Matrix
    out: Matrix
    tf32: bool
