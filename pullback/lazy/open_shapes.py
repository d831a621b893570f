"""Functions with data-dependent result shapes: they compute their operands first.

Differentiable results, such as elements selected by a mask, are read from the operand at the positions
found.
"""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from pullback.lazy.node import Array, leaf, value_of
from pullback.lazy.operation import Operation, apply, as_operand
from pullback.lazy.promotion import as_numpy
from pullback.state import cached
from pullback.tracing.elsewhere import public_names

__all__ = ["bincount", "known", "nonzero", "ravel", "repeat", "sizes_of", "unique_all", "unique_counts",
           "unique_inverse", "unique_values", "unstack"]  # fmt: skip

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
    found: Array = _traced("reshape")(x, (-1,))
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


def repeat(x: Any, repeats: Any, /, axis: int | None = None) -> Array:
    """Repeat every slice along the axis `repeats` times, or each as often as an array says.

    The array is computed first. Without an axis the elements of x are repeated.

    >>> from pullback import lazy
    >>> lazy.repeat(lazy.asarray([5, 6]), lazy.asarray([1, 2])).tolist()
    [5, 6, 6]
    """
    counts, operand = np.asarray(known(repeats)), as_operand(x)
    if not counts.size:
        counts = counts.astype(np.int64)  # of no list
    if not counts.ndim:
        return _traced("repeat")(operand, counts.item(), axis=axis)
    flat, at = (_flat(operand), 0) if axis is None else (operand, axis)
    size = flat.shape[at] if -flat.ndim <= at < flat.ndim else -1
    if counts.shape not in ((size,), (1,)) or counts.dtype.kind not in "iu" or np.any(counts < 0):
        return _traced("repeat")(flat, counts.tolist(), axis=at)  # raises
    places = np.repeat(np.arange(size), counts)
    return _traced("take")(flat, leaf(places.astype(np.int64)), axis=at)


def bincount(x: Any, /, length: Any = None, *, weights: Any = None, minlength: int = 0) -> Array:
    """Count occurrences of the numbers 0, 1, .. length - 1.

    Args:
        x: integers along one axis.
        length: the number of counted integers; others are ignored. By default it is one more than the largest element,
            and x is computed first. An array here is `weights`, as in NumPy.
        weights: the weight of each element; 1 by default.
        minlength: the least length.
    Raises:
        ValueError: there are negative elements, and no length is given.

    >>> from pullback import lazy
    >>> lazy.bincount(lazy.asarray([2, 0, 2]), minlength=4).tolist()
    [1, 0, 2, 0]
    """
    operand, length = as_operand(x), known(length) if np.ndim(length) == 0 else length
    if isinstance(length, Array | np.ndarray | list | tuple):
        length, weights = None, length
    if length is None and operand.type.numpy.kind in "iu" and operand.ndim == 1:
        found = value_of(operand)
        if found.size and found.min() < 0:
            raise ValueError("bincount: negative numbers are not counted; `length` ignores them")
        length = max(known(minlength), int(found.max()) + 1 if found.size else 0)
    if weights is not None and (weights := as_operand(weights)).type.numpy.kind in "biu":
        weights = weights.astype("float64")
    return _traced("bincount")(operand, 0 if length is None else length, weights=weights)


def ravel(x: Any, /) -> Array:
    """The elements of x along one axis, in row-major order; of trees, `pb.ravel`.

    >>> from pullback import lazy
    >>> lazy.ravel(lazy.asarray([[1, 2], [3, 4]])).tolist()
    [1, 2, 3, 4]
    """
    return _flat(as_operand(x))


def unstack(x: Any, /, axis: int = 0) -> tuple[Array, ...]:
    """The slices of x along an axis.

    >>> from pullback import lazy
    >>> [row.tolist() for row in lazy.unstack(lazy.asarray([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    operand = as_operand(x)
    shape = operand.shape
    if -len(shape) <= axis < len(shape) and not shape[axis]:
        return ()  # a traced function returns something
    rows: Any = _traced("unstack")(operand, axis=axis)
    return tuple(rows)


def _traced(name: str) -> Callable[..., Array]:
    """The function of traced arrays as an operation."""
    operation = _operation(name)
    return lambda *args, **keywords: apply(operation, args, keywords)


@cached(16)
def _operation(name: str) -> Operation:
    return Operation(f"pb.{name}", as_numpy(f"pb.{name}", getattr(public_names(), name)))


# Sizes ------------------------------------------------------------------------------------------------------------

_SIZES: Final = {
    "arange": "start stop step", "linspace": "num", "eye": "n_rows n_cols k", "zeros": "shape", "ones": "shape",
    "empty": "shape", "full": "shape", "reshape": "shape", "broadcast_to": "shape", "tile": "repetitions",
    "roll": "shift", "split": "indices_or_sections", "pad": "pad_width", "tril": "k", "triu": "k", "diag": "k",
    "vander": "n", "diagonal": "offset", "trace": "offset", "top_k": "k", "diff": "n", "histogram": "range",
    "take": "axis", "concat": "axis", "bincount": "length", "fft.fft": "n", "fft.ifft": "n", "fft.rfft": "n",
    "fft.irfft": "n", "fft.hfft": "n", "fft.ihfft": "n", "fft.fftfreq": "n", "fft.rfftfreq": "n",
    "linalg.matrix_power": "n", "linalg.diagonal": "offset", "linalg.trace": "offset",
}  # fmt: skip
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def sizes_of(name: str, traced: Callable[..., Any]) -> Callable[[tuple[Any, ...], dict[str, Any]], Arguments]:
    """The function that reads the sizes among arguments that are given as arrays."""
    sizes = _SIZES.get(name, "").split()
    if not sizes:
        return lambda args, keywords: (args, keywords)
    names = list(inspect.signature(traced).parameters)

    def plain(args: tuple[Any, ...], keywords: dict[str, Any]) -> Arguments:
        read = (known(x) if n in sizes else x for n, x in zip(names, args))
        return (*read, *args[len(names) :]), {n: known(x) if n in sizes else x for n, x in keywords.items()}

    return plain


def known(x: Any) -> Any:
    """A size, or several, as Python numbers: arrays are computed."""
    if isinstance(x, Array):
        x = value_of(x.leaf)
    if isinstance(x, np.ndarray | np.generic):
        return x.item() if not x.ndim else tuple(x.tolist())
    return tuple(map(known, x)) if isinstance(x, tuple | list) else x
