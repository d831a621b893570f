"""Functions with data-dependent result shapes: they compute their operands first.

Differentiable results, such as elements selected by a mask, are read from the operand at the positions
found.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from pullback.lazy.node import Array, leaf, value_of
from pullback.lazy.operation import as_operand

__all__ = ["nonzero", "selected", "unique_all", "unique_counts", "unique_inverse", "unique_values"]

UniqueAll = namedtuple("UniqueAll", "values indices inverse_indices counts")
UniqueCounts = namedtuple("UniqueCounts", "values counts")
UniqueInverse = namedtuple("UniqueInverse", "values inverse_indices")


def nonzero(x: Any, /) -> tuple[Array, ...]:
    """Return the positions of nonzero elements, one index array per axis, after computing x.

    Cost:
        Computing x, then one pass over it in NumPy.

    >>> from pullback import lazy
    >>> [i.tolist() for i in lazy.nonzero(lazy.asarray([0, 3, 0, 5]))]
    [[1, 3]]
    """
    value = value_of(as_operand(x))
    if not value.shape:
        raise ValueError("nonzero: an array without axes has no places")
    return tuple(leaf(i.astype(np.int64)) for i in np.nonzero(value))


def unique_all(x: Any, /) -> UniqueAll:
    """Return the sorted distinct elements, their first positions, the inverse indices and the counts.

    Cost:
        Computing x, then a sort of its n elements in NumPy, n log n.

    >>> from pullback import lazy
    >>> found = lazy.unique_all(lazy.asarray([3, 1, 3]))
    >>> found.values.tolist(), found.indices.tolist(), found.inverse_indices.tolist(), found.counts.tolist()
    ([1, 3], [1, 0], [1, 0, 1], [1, 2])
    """
    operand = as_operand(x)
    value = value_of(operand)
    _, indices, inverse, counts = np.unique(value, return_index=True, return_inverse=True, return_counts=True,
                                            equal_nan=False)  # fmt: skip
    places = leaf(indices.astype(np.int64))
    values = _flat(operand)[places]
    return UniqueAll(values, places, leaf(inverse.reshape(value.shape).astype(np.int64)),
                     leaf(counts.astype(np.int64)))  # fmt: skip


def _flat(x: Array) -> Array:
    from pullback.lazy.namespace import function_named

    found: Array = function_named("reshape")(x, (-1,))
    return found


def unique_counts(x: Any, /) -> UniqueCounts:
    """Return the sorted distinct elements, and the count of each.

    Cost:
        Computing x, then a sort of its n elements in NumPy, n log n.

    >>> from pullback import lazy
    >>> [a.tolist() for a in lazy.unique_counts(lazy.asarray([3, 1, 3]))]
    [[1, 3], [1, 2]]
    """
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Any, /) -> UniqueInverse:
    """Return the sorted distinct elements, and the inverse indices.

    Cost:
        Computing x, then a sort of its n elements in NumPy, n log n.

    >>> from pullback import lazy
    >>> [a.tolist() for a in lazy.unique_inverse(lazy.asarray([3, 1, 3]))]
    [[1, 3], [1, 0, 1]]
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Any, /) -> Array:
    """Return the sorted distinct elements.

    Cost:
        Computing x, then a sort of its n elements in NumPy, n log n.

    >>> from pullback import lazy
    >>> lazy.unique_values(lazy.asarray([3.0, 1.0, 3.0])).tolist()
    [1.0, 3.0]
    """
    values: Array = unique_all(x).values
    return values


def selected(key: Any) -> Any:
    """A subscript with masks replaced by the positions of true elements, and lists by arrays."""
    if key.__class__ is list:
        key = np.asarray(key)
    if not isinstance(key, tuple):
        return nonzero(key) if _is_mask(key) else key
    key = tuple([np.asarray(x) if x.__class__ is list else x for x in key])
    if not any(map(_is_mask, key)):
        return key
    return tuple(y for x in key for y in (nonzero(x) if _is_mask(x) else (x,)))


def _is_mask(x: Any) -> bool:
    if isinstance(x, Array):
        return x.type.numpy == np.bool_ and bool(x.type.shape)
    return isinstance(x, np.ndarray) and x.dtype == np.bool_ and x.ndim > 0
