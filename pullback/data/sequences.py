"""Jagged arrays in data sets: batches of sequences of different lengths, padded when they are read.

A jagged array of R rows stands in a data set for two arrays: `values` (R, L, ...), with zeros behind the end of each
row, and `mask` (R, L), which is true where a value is. L is the length of the longest row, so all batches have one
shape, and one program. Only the rows of a batch are padded at a time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.jagged_arrays import Jagged, padded_rows
from pullback.tracing import tree

__all__ = ["PaddedRows", "with_padded_rows"]


class PaddedRows:
    """The rows of a jagged array as an array, made when some of them are read.

    Args:
        rows: the jagged array.
        mask: whether to tell where values are, instead of the values.
    """

    def __init__(self, rows: Jagged[Any, Any], *, mask: bool = False) -> None:
        self.rows = Jagged(np.asarray(rows.values), np.asarray(rows.offsets))
        self.mask = mask
        longest = max(1, int(self.rows.lengths.max(initial=0)))
        values = self.rows.values
        self.shape: tuple[int, ...] = (len(self.rows), longest, *(() if mask else values.shape[1:]))
        self.dtype = np.dtype(bool) if mask else values.dtype
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, samples: Any) -> NDArray[Any]:
        wanted = np.arange(len(self))[samples]
        values, inside = padded_rows(self.rows.values, self.rows.offsets, wanted, self.shape[1])
        found: NDArray[Any] = inside if self.mask else values
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype)


def with_padded_rows(data: Any) -> Any:
    """The data, each jagged array in it replaced by its padded rows and their mask.

    Lists and other iterables of batches stay as they are.
    """
    if isinstance(data, Jagged):
        return {"values": PaddedRows(data), "mask": PaddedRows(data, mask=True)}
    node = None if hasattr(data, "shape") or isinstance(data, list) else tree.open_node(data)
    if node is None or not any(isinstance(x, Jagged) or tree.open_node(x) is not None for x in node[1]):
        return data
    structure, children = node
    found = [with_padded_rows(x) for x in children]
    if all(new is old for new, old in zip(found, children)):
        return data
    return tree.unflatten(replace(structure, children=(tree.LEAF,) * len(found)), found)
