"""Trees of values: dicts, lists, tuples, named tuples, dataclasses; others are leaves.

Complex numbers of Python and NumPy are trees of two leaves, their parts; others are made as such a pair.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

PAIR: list[Callable[[Any, Any], Any]] = [lambda real, imag: (real, imag)]  # what holds the parts of complex numbers


def _children(x: Any) -> tuple[list[Any], Callable[[list[Any]], Any]] | None:
    """The children of a node and how it is made of others; None for a leaf."""
    if isinstance(x, dict):
        keys = sorted(x)
        return [x[k] for k in keys], lambda c: dict(zip(keys, c))
    if isinstance(x, tuple) and hasattr(type(x), "_fields"):
        return list(x), lambda c: type(x)(*c)
    if isinstance(x, list | tuple):
        return list(x), type(x)
    if hasattr(x, "to_dense"):  # a matrix by its entries
        return None
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        names = [f.name for f in dataclasses.fields(x)]
        return [getattr(x, n) for n in names], lambda c: dataclasses.replace(x, **dict(zip(names, c)))
    if x is None:
        return [], lambda c: None
    if isinstance(x, complex) or (isinstance(x, np.ndarray | np.generic) and x.dtype.kind == "c"):
        return [x.real, x.imag], lambda c: PAIR[0](*c)
    return None


def leaves(x: Any) -> list[Any]:
    """The leaves in order; None is a tree without any."""
    node = _children(x)
    return [x] if node is None else [leaf for c in node[0] for leaf in leaves(c)]


def mapped(f: Callable[..., Any], x: Any, *others: Any) -> Any:
    """The tree of f of the leaves of equal trees."""
    node = _children(x)
    if node is None:
        return f(x, *others)
    beside = [_children(o) for o in others]
    columns = [node[0], *(b[0] for b in beside if b is not None)]
    return node[1]([mapped(f, *row) for row in zip(*columns, strict=True)])


def rebuilt(x: Any, items: list[Any]) -> Any:
    """The tree with other leaves."""
    rest = iter(items)
    return mapped(lambda _: next(rest), x)


def beside(x: Any, other: Any) -> list[Any]:
    """The entry of another tree for each leaf of x; None where that is None at it or above."""
    node = _children(x)
    if node is None:
        return [other]
    if other is None:
        return [None] * len(leaves(x))
    found = _children(other)
    assert found is not None
    return [item for a, b in zip(node[0], found[0], strict=True) for item in beside(a, b)]
