"""Layout of blocks: the row and column sizes of a matrix of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from pullback.errors import ShapeError
from pullback.operators.operator import I, Operator

Shape: TypeAlias = tuple[int, int]
Entries: TypeAlias = Mapping[Shape, Any]


def extents(
    shape: Shape, sizes: Mapping[Shape, Shape], units: Sequence[Shape], columns: Sequence[int] = ()
) -> tuple[list[int], list[int]]:
    """The height of each row of blocks, and the width of each column.

    Args:
        shape: rows and columns of the matrix.
        sizes: height and width of the blocks at some places.
        units: the places of identities, which are square. An undetermined size is 1.
        columns: the known widths of columns.

    Raises:
        ShapeError: [E210] two blocks of one row differ in height, or two of one column in width.
    """
    heights: dict[int, int] = {}
    widths = dict(enumerate(columns))

    def decide(i: int, j: int, height: int, width: int) -> None:
        if (heights.setdefault(i, height), widths.setdefault(j, width)) != (height, width):
            raise ShapeError(
                "E210",
                f"the block at ({i}, {j}) of a matrix does not fit those beside it",
                facts=(f"it is {height} by {width}", f"row {i}: {heights[i]} high", f"column {j}: {widths[j]} wide"),
            )

    for (i, j), (height, width) in sizes.items():
        decide(i, j, height, width)
    open_units = list(units)
    while open_units:
        known = next(((i, j) for i, j in open_units if i in heights or j in widths), open_units[0])
        open_units.remove(known)
        i, j = known
        extent = heights.get(i, widths.get(j, 1))
        decide(i, j, extent, extent)
    return [heights.get(i, 1) for i in range(shape[0])], [widths.get(j, 1) for j in range(shape[1])]


def dense(shape: Shape, entries: Entries, domains: Sequence[tuple[int, ...]] | None) -> np.ndarray:
    """The array of numbers of a matrix; see `BlockMatrix.to_dense`."""
    arrays = {(i, j): _dense_element(e, domains[j] if domains else None) for (i, j), e in entries.items() if e is not I}
    sizes: dict[Shape, Shape] = {at: (a.shape[0], a.shape[1]) for at, a in arrays.items()}
    units = [at for at, e in entries.items() if e is I]
    heights, widths = extents(shape, sizes, units, [prod(domain) for domain in domains or ()])
    arrays |= {(i, j): np.eye(heights[i], widths[j]) for i, j in units}
    tops, lefts = np.cumsum([0, *heights]), np.cumsum([0, *widths])
    result = np.zeros((tops[-1], lefts[-1]), dtype=np.result_type(np.float64, *arrays.values()))
    for (i, j), array in arrays.items():
        result[tops[i] : tops[i + 1], lefts[j] : lefts[j + 1]] = array
    return result


def flat(shape: Shape, entries: Entries) -> tuple[Shape, dict[Shape, Any]]:
    """Shape and elements of a matrix of matrices; see `BlockMatrix.flatten`."""
    sizes = {at: e.shape if hasattr(e, "entries") else (1, 1) for at, e in entries.items() if e is not I}
    heights, widths = extents(shape, sizes, [at for at, e in entries.items() if e is I])
    tops, lefts = np.cumsum([0, *heights]).tolist(), np.cumsum([0, *widths]).tolist()
    elements: dict[Shape, Any] = {}
    for (i, j), e in entries.items():
        inside = {(k, k): I for k in range(heights[i])} if e is I else getattr(e, "entries", {(0, 0): e})
        elements |= {(tops[i] + a, lefts[j] + b): x for (a, b), x in inside.items()}
    return (tops[-1], lefts[-1]), elements


def _dense_element(element: Any, domain: tuple[int, ...] | None) -> np.ndarray:
    if isinstance(element, Operator):
        return element.to_dense(domain if element.domain is None else None)
    if hasattr(element, "to_dense"):
        return np.asarray(element.to_dense())
    array = np.asarray(element, dtype=None if isinstance(element, complex | np.ndarray) else np.float64)
    return array.reshape(-1, 1) if array.ndim < 2 else array
