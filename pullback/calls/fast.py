"""Repeated calls: arguments that look like those of an earlier call skip every check but the one for that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.calls.annotations import Leaf
from pullback.calls.execute import NDArray, Runner
from pullback.calls.signature import Parameter
from pullback.tracing.distinct import distinct

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
        elif x.dtype.kind == "V":  # bfloat16 of a package
            return False
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


def arrangement(
    parameters: Sequence[Parameter],
    spans: Sequence[tuple[str | None, int, int]],
    given: Sequence[Any],
    groups: Sequence[tuple[Leaf, ...]],
    flat: Sequence[Any],
) -> list[int | NDArray] | None:
    """For each leaf that is an input where a call like this has it: among the leaves given, or in a default.

    None where that cannot be told: of lists that became arrays, or of arrays that are defaults.

    Args:
        parameters: those of the function.
        spans: for each argument of the call its name, if it has one, and where its leaves begin and end.
        given: the leaves of the arguments.
        groups: the leaves of each parameter.
        flat: their values.
    """
    places: dict[str, tuple[int, int]] = {}
    for k, (name, first, last) in enumerate(spans):
        own = name or next(p.name for j, p in enumerate(parameters) if j == k or p.kind == "rest")
        places[own] = (places.get(own, (first, last))[0], last)  # those of any number are side by side
    found: list[int | NDArray] = []
    at = 0
    for p, leaves in zip(parameters, groups, strict=True):
        first, last = places.get(p.name, (-1, -1))
        if first >= 0 and last - first != len(leaves):
            return None
        for k, leaf in enumerate(leaves):
            value = flat[at]
            at += 1
            if first >= 0 and not same(value, given[first + k]):
                return None
            if not leaf.is_input:
                continue
            if first >= 0:
                found.append(first + k)
            elif isinstance(value, float | int | bool) and leaf.dtype is not None:
                found.append(np.array(value, leaf.dtype.numpy))
            else:
                return None
    return found


class Shortcut:
    """How a call with a known key runs: where its inputs are, of which dtype, and the runner."""

    __slots__ = ("captured", "dtypes", "plain", "runner", "take")

    def __init__(
        self, runner: Runner, leaves: Sequence[Leaf], given: Sequence[Any], take: Sequence[int | NDArray]
    ) -> None:
        self.runner = runner
        self.take = take
        self.dtypes = [leaf.dtype.numpy for leaf in leaves if leaf.is_input and leaf.dtype is not None]
        self.captured = runner.traced.captured
        in_order = len(take) == len(given) and all(isinstance(k, int) and k == at for at, k in enumerate(take))
        self.plain = in_order and all(type(v) is np.ndarray for v in given)

    def call(self, leaves: Sequence[Any], out: Any) -> Any:
        """Run on the leaves of arguments that have this key; into `out` where it is given."""
        if self.plain:
            arrays = [a if a.flags.c_contiguous and a.flags.aligned else np.array(a, order="C") for a in leaves]
        else:
            arrays = [_ready(leaves[k], d) if isinstance(k, int) else k for k, d in zip(self.take, self.dtypes)]
        arrays += self.captured
        return self.runner.call_fast(arrays) if out is None else self.runner.call(arrays, out)


def _ready(x: Any, dtype: np.dtype[Any]) -> NDArray:
    if type(x) is np.ndarray:
        return x if x.flags.c_contiguous and x.flags.aligned else np.array(x, order="C")
    return np.array(x, dtype)
