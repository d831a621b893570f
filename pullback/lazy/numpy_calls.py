"""NumPy's functions on lazy arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from pullback.lazy.elsewhere import TRACED
from pullback.lazy.leaving import check_leaves
from pullback.lazy.node import Array, value_of
from pullback.state import cached
from pullback.tracing.elsewhere import counterpart

__all__ = ["array_function", "array_ufunc"]


_RENAMED: Final = {"a_min": "min", "a_max": "max", "ddof": "correction", "N": "n"}
_OTHERS: Final = frozenset({"fmod", "lstsq", "ravel"})  # other results; libraries call np.ravel for memory
_NO_ARRAYS: Final = frozenset({"shape", "source", "repetitions", "indices_or_sections", "axes", "pad_width"})
_REDUCING: Final = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_or": "any",
                    "logical_and": "all"}  # fmt: skip
_OF_NO_EFFECT: Final = frozenset({"kind", "subok", "overwrite_input", "optimize", "assume_unique", "casting", "stable"})


def array_function(self: Array, function: Any, types: Any, inputs: Any, keywords: Any) -> Any:
    """Apply a NumPy function: the differentiable one of this namespace if it takes these arguments, else NumPy's.

    Raises:
        DerivativeError: [E715] an active gradient depends on the values, and the result may contain some of them.
    """
    if keywords.get("out") is not None:
        return NotImplemented
    own = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
    if own in _OWN:
        return _OWN[own](*inputs, **keywords)
    found = _counterpart(function.__name__, own.rpartition(".")[0])
    call = None if found is None else _arguments(function, found, inputs, keywords)
    if found is not None and call is not None:
        return found(*call[0], **call[1])
    return _of_values(function, f"numpy.{own}()", inputs, keywords)


def array_ufunc(self: Array, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
    """Apply an elementwise NumPy function, like `array_function`."""
    if method == "at":
        return _added_at(ufunc, *inputs)
    reducing = _REDUCING.get(ufunc.__name__) if method == "reduce" and len(inputs) == 1 else None
    if reducing and keywords.keys() <= {"axis", "keepdims"}:
        return getattr(Array.namespace, reducing)(*inputs, **{"axis": 0, **keywords})
    plain = method == "__call__" and not keywords
    found = (_OWN.get(ufunc.__name__) or _counterpart(ufunc.__name__)) if plain else None
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


def _arguments(
    function: Any, found: Any, inputs: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]] | None:
    """The arguments of a NumPy call for the function of this namespace; None if that does not take them.

    The first ones are given by position, the others by name. Where the defaults differ, NumPy's is given.
    """
    theirs, ours = _parameters(function), _parameters(found)
    if theirs is None or ours is None:  # NumPy's functions in C had no signatures before 2.4
        return list(inputs), keywords
    first = [n for n, p in ours.items() if p.kind is p.POSITIONAL_ONLY] or list(ours)[:1]
    args: list[Any] = []
    named: dict[str, Any] = {}
    for place, (own, value) in enumerate(_given(function, theirs, inputs, keywords)):
        name = _RENAMED.get(own, own)
        if own == "*":
            args += map(_listed, value)
        elif place < len(first):
            plain = first[place] in _NO_ARRAYS
            args.append(list(map(_listed, value)) if name == "arrays" else value if plain else _listed(value))
        elif name in ours:
            named[name] = value
        elif name not in _OF_NO_EFFECT and not (name == "order" and value in ("C", "K", "A")):
            return None
    for name, p in theirs.items():
        mine = ours.get(name)
        if mine is not None and name not in named and mine.kind is not p.POSITIONAL_ONLY:
            if p.default not in (None, p.empty, mine.default) and p.default is not np._NoValue:
                named[name] = p.default
    return args, named


def _listed(x: Any) -> Any:
    """A list of numbers as an array."""
    return Array.namespace.asarray(x) if x.__class__ is list else x


def _given(
    function: Any, parameters: dict[str, inspect.Parameter], inputs: tuple[Any, ...], keywords: dict[str, Any]
) -> list[tuple[str, Any]]:
    """The arguments that differ from their defaults, by name; those of `*args` under "*"."""
    bound = inspect.Signature(list(parameters.values())).bind(*inputs, **keywords).arguments
    given: list[tuple[str, Any]] = []
    for name, value in bound.items():
        p = parameters[name]
        if p.kind is p.VAR_KEYWORD:
            given += value.items()
        elif p.kind is p.VAR_POSITIONAL:
            given.append(("*", value))
        elif value is not p.default:
            given.append((name, value))
    return given


@cached(512)
def _parameters(function: Any) -> dict[str, inspect.Parameter] | None:
    try:
        return dict(inspect.signature(function).parameters)
    except ValueError:
        return None


# NumPy's functions that are not those of this namespace with the same or a similar name ---------------------------


def _transpose(a: Any, axes: Any = None) -> Any:
    return Array.namespace.permute_dims(a, tuple(reversed(range(a.ndim))) if axes is None else axes)


def _squeeze(a: Any, axis: Any = None) -> Any:
    return Array.namespace.squeeze(a, tuple(k for k, n in enumerate(a.shape) if n == 1) if axis is None else axis)


def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return Array.namespace.diagonal(Array.namespace.moveaxis(a, (axis1, axis2), (-2, -1)), offset=offset)


def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    return Array.namespace.sum(_diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


def _dot(a: Any, b: Any, out: Any = None) -> Any:
    """`np.dot`: a product with a number, or a sum over the last axis of a and the last but one of b."""
    lazy, a, b = Array.namespace, _listed(a), _listed(b)
    ranks = np.ndim(a), np.ndim(b)
    if 0 in ranks:
        return lazy.multiply(a, b)
    return lazy.matmul(a, b) if max(ranks) <= 2 else lazy.tensordot(a, b, axes=([-1], [-1 if ranks[1] == 1 else -2]))


def _inner(a: Any, b: Any) -> Any:
    lazy, a, b = Array.namespace, _listed(a), _listed(b)
    return lazy.multiply(a, b) if 0 in (np.ndim(a), np.ndim(b)) else lazy.tensordot(a, b, axes=([-1], [-1]))


def _outer(a: Any, b: Any, out: Any = None) -> Any:
    lazy = Array.namespace
    return lazy.outer(*(lazy.reshape(lazy.asarray(x), (-1,)) for x in (a, b)))


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """`np.linalg.norm`: of all elements without an order, else of vectors along one axis or of matrices."""
    linalg = Array.namespace.linalg
    if ord is None:
        return linalg.vector_norm(x, axis=axis, keepdims=keepdims)
    if (axis is None and x.ndim == 1) or isinstance(axis, int):
        return linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)
    if (axis is None and x.ndim == 2) or axis in ((-2, -1), (x.ndim - 2, x.ndim - 1)):
        return linalg.matrix_norm(x, keepdims=keepdims, ord=ord)
    return _of_values(np.linalg.norm, "numpy.linalg.norm()", (x, ord, axis, keepdims), {})


def _beside(tup: Any, axis: int, least: int = 1) -> Any:
    """Arrays joined along an axis, vectors along their own or as rows."""
    arrays = [Array.namespace.asarray(x) for x in tup]
    arrays = [Array.namespace.reshape(x, (1,) * (least - x.ndim) + x.shape) if x.ndim < least else x for x in arrays]
    return Array.namespace.concat(arrays, axis=min(axis, arrays[0].ndim - 1))


def _columns(tup: Any) -> Any:
    arrays = [Array.namespace.asarray(x) for x in tup]
    return Array.namespace.concat([x if x.ndim > 1 else Array.namespace.reshape(x, (-1, 1)) for x in arrays], axis=1)


def _select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        default = Array.namespace.where(condition, choice, default)
    return default


_OWN: Final[dict[str, Callable[..., Any]]] = {
    "transpose": _transpose, "squeeze": _squeeze, "diagonal": _diagonal, "trace": _trace, "dot": _dot, "inner": _inner,
    "outer": _outer, "fliplr": lambda m: Array.namespace.flip(m, axis=1),
    "flipud": lambda m: Array.namespace.flip(m, axis=0), "select": _select, "linalg.norm": _norm,
    "hstack": lambda tup: _beside(tup, 1), "vstack": lambda tup: _beside(tup, 0, 2),
    "column_stack": lambda tup: _columns(tup),
    "fabs": lambda x: abs(Array.namespace.divide(x, 1)),
    "conjugate": lambda x: Array.namespace.conj(x),
    "float_power": lambda x1, x2: Array.namespace.pow(Array.namespace.divide(x1, 1), x2),
}  # fmt: skip


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
