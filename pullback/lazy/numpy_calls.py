"""NumPy's functions on lazy arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from pullback.ir.reduction import COMBINING
from pullback.lazy.elsewhere import TRACED
from pullback.lazy.leaving import check_leaves
from pullback.lazy.node import Array, value_of
from pullback.tracing.elsewhere import counterpart
from pullback.tracing.numpy_calls import OTHERS, arguments, own

__all__ = ["array_function", "array_ufunc"]


_OTHERS: Final = OTHERS | {"ravel"}  # libraries call np.ravel for memory


def array_function(self: Array, function: Any, types: Any, inputs: Any, keywords: Any) -> Any:
    """Apply the counterpart of a NumPy function if it takes these arguments, else NumPy's own.

    Raises:
        DerivativeError: [E715] an active gradient depends on the values, and the result may contain some of them.
    """
    if keywords.get("out") is not None:
        return NotImplemented
    name = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
    if (result := own(Array.namespace, name, inputs, keywords)) is not NotImplemented:
        return result
    found = _counterpart(function.__name__, name.rpartition(".")[0])
    if found is not None:
        try:
            args, named = arguments(Array.namespace, function, found, inputs, keywords)
        except TypeError:
            pass  # an argument that only NumPy takes
        else:
            return found(*args, **named)
    return _of_values(function, f"numpy.{name}()", inputs, keywords)


def array_ufunc(self: Array, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
    """Apply an elementwise NumPy function, like `array_function`."""
    if method == "at":
        return _added_at(ufunc, *inputs)
    reducing = COMBINING.get(ufunc.__name__) if method == "reduce" and len(inputs) == 1 else None
    if reducing and keywords.keys() <= {"axis", "keepdims"}:
        return getattr(Array.namespace, reducing)(*inputs, **{"axis": 0, **keywords})
    plain = method == "__call__" and not keywords
    if plain and (result := own(Array.namespace, ufunc.__name__, inputs, {})) is not NotImplemented:
        return result
    found = _counterpart(ufunc.__name__) if plain else None
    if found is not None:
        return found(*inputs)
    if "out" in keywords:
        return NotImplemented
    return _of_values(getattr(ufunc, method), f"numpy.{ufunc.__name__}()", inputs, keywords)


def _added_at(ufunc: np.ufunc, x: Any, index: Any, value: Any = None) -> Any:
    """`np.add.at`, which writes into a lazy array."""
    if not isinstance(x, Array) or ufunc is not np.add:
        return NotImplemented
    target: Any = x
    target[...] = target.add(index, value)
    return None


def _of_values(function: Any, name: str, inputs: Any, keywords: Any) -> Any:
    """The result of NumPy's own function of the values."""
    result = function(*_values(inputs), **_values(keywords))
    if not _is_discrete(result):
        for x in _arrays((inputs, keywords)):
            check_leaves(x, name)
    return result


def _counterpart(name: str, module: str = "") -> Any:
    """The counterpart for lazy arrays of a NumPy function, or None."""
    if name in _OTHERS:
        return None
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
