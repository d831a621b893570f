"""Verbs that move elements without reading them, with one definition for values of any kind.

A definition of `pullback.verbs` is a function of arrays in index notation. For arrays of a function being compiled it
is called directly. For values it is run on the positions of their elements, from 1. The result gives the source
of each element, and 0 for a fill. So one definition moves numbers, characters and nested elements.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback.apl.numbers import as_numbers, kind_of
from pullback.apl.values import (
    NDArray,
    Value,
    elements,
    gathered,
    is_nested,
    is_traced,
    joined_pool,
    known_shape,
    lifted,
    objects,
    prototype,
    settled,
)
from pullback.ir import types
from pullback.state import registered
from pullback.tracing.active import untraced
from pullback.tracing.array import Array

KEPT: Final = 2000  # cached maps of positions
LARGEST: Final = 10_000  # elements of a cached map
_MAPS: OrderedDict[Hashable, NDArray] = registered(OrderedDict(), KEPT)


def moved(
    key: tuple[Any, ...],
    define: Callable[..., Array],
    *arrays: Value,
    fill: NDArray | None = None,
    dims: bool = False,
    direct: Callable[[NDArray], NDArray] | None = None,
) -> Value:
    """Apply a definition to arrays; `key` is the verb with its numeric arguments.

    Args:
        dims: whether some of these numbers are dims; the result then belongs to the function being compiled.
        direct: the same move of one array of plain numbers or characters by NumPy, which takes it for long ones.
    """
    if direct is not None and isinstance(arrays[0], np.ndarray) and arrays[0].dtype != object and not dims:
        return direct(arrays[0])
    given = [settled(a) for a in arrays]
    if any(is_nested(a) for a in given):  # traced arrays become elements, like those of nests
        given = [objects(elements(a), known_shape(a)) if isinstance(a, Array) else a for a in given]
    if dims or any(is_traced(a) for a in given):
        return define(*together([lifted(a) for a in given]))
    fill = prototype(given[0]) if fill is None else fill
    return gathered(joined_pool(given, fill), _positions(key, define, [a.shape for a in given]))


def _positions(key: tuple[Any, ...], define: Callable[..., Array], shapes: Sequence[tuple[int, ...]]) -> NDArray:
    own = (key, tuple(shapes))
    found = _MAPS.get(own)
    if found is not None:
        with suppress(KeyError):  # another thread may have left it out meanwhile
            _MAPS.move_to_end(own)
        return found
    start, given = 1, []
    for shape in shapes:
        size = int(np.prod(shape))
        given.append(np.arange(start, start + size, dtype=np.int64).reshape(shape))
        start += size
    found = np.asarray(interpreted(define, *given))
    if found.size <= LARGEST:
        _MAPS[own] = found
        if len(_MAPS) > KEPT:
            with suppress(KeyError):
                _MAPS.popitem(last=False)
    return found


def interpreted(define: Callable[..., Any], *arrays: NDArray) -> Any:
    """Run a definition on values in the interpreter."""
    with untraced():
        match len(arrays):
            case 1:
                return pb.function(lambda x: define(x)).interpret(*arrays)
            case _:
                return pb.function(lambda x, y: define(x, y)).interpret(*arrays)


def together(arrays: Sequence[Array]) -> list[Array]:
    """Convert arrays of a compiled function to one element type, for a verb that joins them."""
    if len(arrays) < 2:
        return list(arrays)
    kinds = [kind_of(a) for a in arrays]
    if set(kinds) == {"b"}:
        return list(arrays)
    floats = [a.strong for a in arrays if a.strong is not None and a.strong.is_floating]
    target = (types.f64 if types.f64 in floats else floats[0]) if floats else types.f64 if "f" in kinds else types.i64
    return [_as(a, k, target) for a, k in zip(arrays, kinds)]


def _as(x: Array, kind: str, target: types.DType) -> Any:
    if kind == "b":
        return as_numbers(x, target)
    return x if x.strong is target else pb.astype(x, target)
