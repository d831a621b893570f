"""NumPy's functions in a namespace of this package: what they are there, and with which arguments.

NumPy hands calls with traced or lazy arrays on, by its protocols. Parameters have other places here, and some functions
of the same name give other results.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from pullback.state import cached

__all__ = ["OTHERS", "arguments", "own"]

OTHERS: Final = frozenset({"lstsq"})  # that of the namespace has another result
_RENAMED: Final = {"newshape": "shape", "a_min": "min", "a_max": "max", "ddof": "correction", "N": "n"}
_NO_ARRAYS: Final = frozenset({"shape", "source", "repetitions", "indices_or_sections", "axes", "pad_width"})
_OF_NO_EFFECT: Final = frozenset({"kind", "subok", "overwrite_input", "optimize", "assume_unique", "casting", "stable"})


def own(xp: Any, name: str, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The result of a NumPy function that has another meaning in the namespace `xp`.

    NotImplemented if it has not, or if it is not written here for these arguments.
    """
    function = _OWN.get(name)
    if function is None:
        return NotImplemented
    try:
        inspect.signature(function).bind(xp, *inputs, **keywords)
    except TypeError:
        return NotImplemented
    return function(xp, *inputs, **keywords)


def arguments(
    xp: Any, function: Any, found: Any, inputs: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a NumPy call for the function of this namespace.

    The first ones are given by position, the others by name. Where the defaults differ, NumPy's is given.

    Raises:
        TypeError: the function does not take one of them.
    """
    theirs, ours = _parameters(function), _parameters(found)
    if theirs is None or ours is None:  # NumPy's functions in C had no signatures before 2.4
        return list(inputs), keywords
    first = [n for n, p in ours.items() if p.kind is p.POSITIONAL_ONLY] or list(ours)[:1]
    args: list[Any] = []
    named: dict[str, Any] = {}
    for place, (given, value) in enumerate(_given(function, theirs, inputs, keywords)):
        name = _RENAMED.get(given, given)
        if given == "*":
            args += (_listed(xp, v) for v in value)
        elif place < len(first):
            plain = first[place] in _NO_ARRAYS
            args.append([_listed(xp, v) for v in value] if name == "arrays" else value if plain else _listed(xp, value))
        elif name in ours:
            named[name] = value
        elif name not in _OF_NO_EFFECT and not (name == "order" and value in ("C", "K", "A")):
            raise TypeError(f"got an unexpected keyword argument {name!r}")
    for name, p in theirs.items():
        mine = ours.get(name)
        if mine is not None and name not in named and mine.kind is not p.POSITIONAL_ONLY:
            if p.default not in (None, p.empty, mine.default) and p.default is not np._NoValue:
                named[name] = p.default
    return args, named


def _listed(xp: Any, x: Any) -> Any:
    """A list of numbers as an array."""
    return xp.asarray(x) if x.__class__ is list else x


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


# NumPy's functions that are not those of a namespace with the same or a similar name; they take the namespace first ---


def _squeeze(xp: Any, a: Any, axis: Any = None) -> Any:
    if axis is None and not all(isinstance(n, int) for n in a.shape):
        return NotImplemented  # an open size may be 1
    return xp.squeeze(a, tuple(k for k, n in enumerate(a.shape) if n == 1) if axis is None else axis)


def _diagonal(xp: Any, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return xp.diagonal(xp.moveaxis(a, (axis1, axis2), (-2, -1)), offset=offset)


def _trace(xp: Any, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    return xp.sum(_diagonal(xp, a, offset, axis1, axis2), axis=-1, dtype=dtype)


def _dot(xp: Any, a: Any, b: Any) -> Any:
    """`np.dot`: a product with a number, or a sum over the last axis of a and the last but one of b."""
    a, b = (_listed(xp, x) for x in (a, b))
    ranks = _rank(a), _rank(b)
    if 0 in ranks:
        return xp.multiply(a, b)
    return xp.matmul(a, b) if max(ranks) <= 2 else xp.tensordot(a, b, axes=([-1], [-1 if ranks[1] == 1 else -2]))


def _rank(x: Any) -> int:
    return x.ndim if hasattr(x, "ndim") else np.ndim(x)  # `np.ndim` would ask for values


def _inner(xp: Any, a: Any, b: Any) -> Any:
    a, b = (_listed(xp, x) for x in (a, b))
    return xp.multiply(a, b) if 0 in (_rank(a), _rank(b)) else xp.tensordot(a, b, axes=([-1], [-1]))


def _outer(xp: Any, a: Any, b: Any) -> Any:
    return xp.outer(*(xp.reshape(xp.asarray(x), (-1,)) for x in (a, b)))


def _norm(xp: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """`np.linalg.norm`: of all elements without an order, else of vectors along one axis or of matrices."""
    if ord is None or (axis is None and x.ndim == 1) or isinstance(axis, int):
        return xp.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=2 if ord is None else ord)
    if (axis is None and x.ndim == 2) or axis in ((-2, -1), (x.ndim - 2, x.ndim - 1)):
        return xp.linalg.matrix_norm(x, keepdims=keepdims, ord=ord)
    return NotImplemented


def _beside(xp: Any, tup: Any, axis: int, least: int = 1) -> Any:
    """Arrays joined along an axis, vectors along their own or as rows."""
    arrays = [xp.asarray(x) for x in tup]
    arrays = [xp.reshape(x, (1,) * (least - x.ndim) + x.shape) if x.ndim < least else x for x in arrays]
    return xp.concat(arrays, axis=min(axis, arrays[0].ndim - 1))


def _columns(xp: Any, tup: Any) -> Any:
    arrays = [xp.asarray(x) for x in tup]
    return xp.concat([x if x.ndim > 1 else xp.reshape(x, (-1, 1)) for x in arrays], axis=1)


def _select(xp: Any, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        default = xp.where(condition, choice, default)
    return default


def _broadcast_arrays(xp: Any, *args: Any, subok: bool = False) -> Any:
    """`np.broadcast_arrays` in which None and text, as matplotlib has them, stay NumPy's."""
    plain = [not hasattr(x, "shape") and np.asarray(x).dtype.kind not in "biufc" for x in args]
    if not any(plain) or all(plain):
        return NotImplemented
    together = iter(xp.broadcast_arrays(*(xp.asarray(x) for x, odd in zip(args, plain, strict=True) if not odd)))
    found = [None if odd else next(together) for odd in plain]
    shape = next(x.shape for x in found if x is not None)
    return tuple(np.broadcast_to(np.asarray(x), shape) if y is None else y for x, y in zip(args, found, strict=True))


_OWN: Final[dict[str, Callable[..., Any]]] = {
    "transpose": lambda xp, a, axes=None: xp.permute_dims(a, tuple(range(a.ndim))[::-1] if axes is None else axes),
    "squeeze": _squeeze, "diagonal": _diagonal, "trace": _trace, "dot": _dot, "inner": _inner,
    "outer": _outer, "fliplr": lambda xp, m: xp.flip(m, axis=1),
    "flipud": lambda xp, m: xp.flip(m, axis=0), "select": _select, "linalg.norm": _norm,
    "hstack": lambda xp, tup: _beside(xp, tup, 1), "vstack": lambda xp, tup: _beside(xp, tup, 0, 2),
    "column_stack": _columns, "broadcast_arrays": _broadcast_arrays,
    "fabs": lambda xp, x: abs(xp.divide(x, 1)),
    "conjugate": lambda xp, x: xp.conj(x),
    "float_power": lambda xp, x1, x2: xp.pow(xp.divide(x1, 1), x2),
}  # fmt: skip
