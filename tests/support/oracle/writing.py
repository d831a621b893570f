"""The oracle's functional writes: a new list of elements, written one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support.oracle.arrays import Array, OracleError, as_array, broadcast, convert, integer
from tests.support.oracle.elementwise import elementwise

Combine = Callable[[Array, Array], Array]


def _written(a: Array, key: Any, value: Any, combine: Combine) -> Array:
    """The array with what a key selects combined with a value, one element after another."""
    items = tuple(map(_item, key if isinstance(key, tuple) else (key,)))
    try:
        places = np.arange(a.size).reshape(a.shape)[items]
    except IndexError as error:
        raise OracleError(str(error)) from error
    given = broadcast(convert(as_array(value), a.dtype), np.shape(places))
    data = list(a.data)
    for place, element in zip(np.ravel(places).tolist(), given, strict=True):
        old, new = (Array((), a.dtype, [e]) for e in (data[place], element))
        data[place] = combine(old, new).data[0]
    return Array(a.shape, a.dtype, data)


def _item(item: Any) -> Any:
    """An item of a key as NumPy takes it."""
    if isinstance(item, slice):
        return slice(*(None if b is None else integer(b) for b in (item.start, item.stop, item.step)))
    if type(item) is Array:
        return np.array(item.data, bool if item.dtype.kind == "bool" else np.int64).reshape(item.shape)
    return item


METHODS: dict[str, Combine] = {"set": lambda old, new: new, "add": lambda old, new: elementwise("add", old, new)}
for _name, _combine in METHODS.items():
    setattr(Array, _name, lambda self, index, value, combine=_combine: _written(self, index, value, combine))

__all__ = ["METHODS"]
