"""Repeated calls: arguments that look like those of an earlier call skip every check but the one for that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.api.execute import NDArray, Runner
from pullback.lang.annotations import Leaf
from pullback.lang.distinct import distinct

_NUMBERS = (float, int, bool)


def collect(x: Any, key: list[Any], leaves: list[Any], values: bool) -> bool:
    """Add to `key` what an argument looks like and to `leaves` its leaves; False where it needs the long way.

    With `values` numbers are told apart by value, as sizes and static arguments need.
    """
    kind = type(x)
    if kind is np.ndarray:
        key.append(x.dtype)
        key.append(x.shape)
        if x.dtype.kind == "c":
            leaves += (x.real, x.imag)
        else:
            leaves.append(x)
        return True
    if kind in _NUMBERS:
        key.append(distinct(x) if values else kind)
        leaves.append(x)
        return True
    if isinstance(x, tuple | list):
        key.append(kind)
        key.append(len(x))
        return all(collect(v, key, leaves, values) for v in x)
    if kind is dict:
        try:
            names = sorted(x)
        except TypeError:
            return False
        key.append(tuple(names))
        return all(collect(x[n], key, leaves, values) for n in names)
    if isinstance(x, np.generic):
        key.append(distinct(x) if values else kind)
        leaves.append(x)
        return True
    return False


def same(a: Any, b: Any) -> bool:
    """Whether two leaves are one object, or views of one part of a complex array."""
    if a is b:
        return True
    views = isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.base is not None and a.base is b.base
    return views and bool(a.ctypes.data == b.ctypes.data)


class Shortcut:
    """How a call with a known key runs: which leaves are inputs, of which dtype, and the runner."""

    __slots__ = ("captured", "dtypes", "plain", "runner", "take")

    def __init__(self, runner: Runner, leaves: Sequence[Leaf], given: Sequence[Any]) -> None:
        self.runner = runner
        self.take = [k for k, leaf in enumerate(leaves) if leaf.is_input]
        self.dtypes = [leaf.dtype.numpy for leaf in leaves if leaf.is_input and leaf.dtype is not None]
        self.captured = runner.traced.captured
        self.plain = len(self.take) == len(given) and all(type(v) is np.ndarray for v in given)

    def call(self, leaves: Sequence[Any], out: Any) -> Any:
        """Run on the leaves of arguments that have this key; into `out` where it is given."""
        if self.plain:
            arrays = [a if a.flags.c_contiguous and a.flags.aligned else np.array(a, order="C") for a in leaves]
        else:
            arrays = [_ready(leaves[k], d) for k, d in zip(self.take, self.dtypes)]
        arrays += self.captured
        return self.runner.call_fast(arrays) if out is None else self.runner.call(arrays, out)


def _ready(x: Any, dtype: np.dtype[Any]) -> NDArray:
    if type(x) is np.ndarray:
        return x if x.flags.c_contiguous and x.flags.aligned else np.array(x, order="C")
    return np.array(x, dtype)
