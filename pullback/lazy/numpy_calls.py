"""NumPy's functions on lazy arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pullback.lazy.elsewhere import TRACED
from pullback.lazy.leaving import check_leaves
from pullback.lazy.node import Array, value_of
from pullback.tracing.elsewhere import counterpart

__all__ = ["array_function", "array_ufunc"]


def array_function(self: Array, function: Any, types: Any, inputs: Any, keywords: Any) -> Any:
    """Apply a NumPy function: the differentiable version of this namespace if there is one, else NumPy's.

    Raises:
        DerivativeError: [E715] an active gradient depends on the values, and the result may contain some of them.
    """
    if keywords.get("out") is not None:
        return NotImplemented
    own = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
    found = _counterpart(function.__name__, own.rpartition(".")[0])
    if found is not None:
        given = {k: v for k, v in keywords.items() if k != "out"}
        return found(*inputs, **given)
    result = function(*_values(inputs), **_values(keywords))
    if not _is_discrete(result):
        for x in _arrays((inputs, keywords)):
            check_leaves(x, f"numpy.{own}()")
    return result


def array_ufunc(self: Array, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
    """Apply an elementwise NumPy function, like `array_function`."""
    found = _counterpart(ufunc.__name__) if method == "__call__" and "out" not in keywords else None
    return NotImplemented if found is None else found(*inputs, **keywords)


def _counterpart(name: str, module: str = "") -> Any:
    """The counterpart for lazy arrays of a NumPy function, or None."""
    found = counterpart("bitwise_invert" if name == "invert" else name, module)
    if found is None or found.__name__ in TRACED:
        return None
    lazy = Array.namespace
    space = getattr(lazy, module) if module and found.__name__ in dir(getattr(lazy, module, None)) else lazy
    return getattr(space, found.__name__, None)


def _values(x: Any) -> Any:
    """The arguments of a NumPy function, with values in place of lazy arrays."""
    if isinstance(x, tuple | list):
        return type(x)(map(_values, x)) if type(x) in (tuple, list) else x
    if isinstance(x, dict):
        return {k: _values(v) for k, v in x.items()}
    return value_of(x.leaf) if isinstance(x, Array) else x


def _arrays(x: Any) -> Iterator[Array]:
    """The lazy arrays that `_values` replaces."""
    if type(x) in (tuple, list, dict):
        for y in x.values() if isinstance(x, dict) else x:
            yield from _arrays(y)
    elif isinstance(x, Array):
        yield x.leaf


def _is_discrete(x: Any) -> bool:
    """Whether a result is text, bools or integers, which are piecewise constant."""
    if isinstance(x, tuple | list):
        return all(map(_is_discrete, x))
    return isinstance(x, str) or (x is not None and np.asarray(x).dtype.kind in "biu")
