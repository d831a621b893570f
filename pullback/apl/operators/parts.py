"""Shared parts of operators: slices, unboxed elements, and loop states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback import verbs
from pullback.apl import errors
from pullback.apl.functions import Primitive, Verb
from pullback.apl.numbers import as_numbers, kind_of
from pullback.apl.table import Settings
from pullback.apl.values import (
    NDArray,
    Value,
    elements,
    is_nested,
    lifted,
    objects,
    rank_of,
    shape_of,
    simplified,
)
from pullback.apl.verbs import nesting
from pullback.arrays.subscript import subscript

LONG: Final = 64  # elements along an axis from which NumPy does the reduction


def plain(y: Value) -> bool:
    """Whether a value is a plain array of numbers, not a nested one."""
    return not is_nested(y)


def glyph_of(f: Verb) -> str | None:
    """The glyph of a verb of the table."""
    return f.glyph if isinstance(f, Primitive) and f.axis is None else None


def is_scalar_verb(f: Verb) -> bool:
    """Whether a verb is scalar: on numbers, extended to arrays element by element."""
    from pullback.apl.verbs.scalar import DYADIC

    return glyph_of(f) in DYADIC


def slices(y: Value, at: int) -> list[Value]:
    """The arrays along an axis, one after another."""
    count = shape_of(y)[at]
    if not isinstance(count, int):
        raise errors.of_data("an element by element treatment", "a dim", "+ × ⌈ ⌊, or a fixed size")
    lead = (slice(None),) * at
    if isinstance(y, np.ndarray):
        return [cell_at(y, (*lead, k)) for k in range(count)]
    return [subscript(y, (*lead, k)) for k in range(count)]


def cell_at(y: NDArray, at: tuple[Any, ...]) -> NDArray:
    """Return a cell, or an element as a value."""
    found = y[at]
    if isinstance(found, np.ndarray) and (y.dtype != object or (found.dtype == object and y.ndim > 1)):
        return found
    return objects([found], ()) if y.dtype == object else np.asarray(found)


def own_elements(f: Verb, y: Value, x: Value | None = None) -> Value:
    """Apply `f` between unboxed elements; box the result unless it is a scalar."""
    return nesting.enclose(
        Settings(), f(nesting.first(Settings(), y), None if x is None else nesting.first(Settings(), x))
    )


def between(f: Verb, x: Value, y: Value) -> Value:
    """Apply `f` between the elements of two arrays of one shape."""
    if is_scalar_verb(f):
        return f(y, x)
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        pairs = zip(elements(x), elements(y))
        return simplified(objects([f(b, a) for a, b in pairs], y.shape)) if y.size else y
    return verbs.each(lambda a, b: _scalar(f(b, a)))(lifted(x), lifted(y)) if rank_of(y) else f(y, x)


def _scalar(x: Value) -> Any:
    if is_nested(x) or rank_of(x):
        raise errors.domain(
            "a verb that makes arrays of elements, between those of rows, is evaluated, and not compiled",
            remedy="⍤1 around the reduction of a vector",
        )
    return lifted(x)


def flattened(x: Value) -> tuple[list[Any], Callable[[list[Any]], Value]]:
    """Return the arrays in a nest, and a function that rebuilds the nest."""
    if not (isinstance(x, np.ndarray) and x.dtype == object):
        return [lifted(x)], lambda parts: parts[0]
    inner = [flattened(e) for e in x.ravel()]

    def rebuild(parts: list[Any]) -> Value:
        made, at = [], 0
        for own, again in inner:
            made.append(again(parts[at : at + len(own)]))
            at += len(own)
        return objects(made, x.shape)

    return [p for own, _ in inner for p in own], rebuild


def like(x: Any, other: Any) -> Any:
    """Convert `x` to the element type of another array."""
    x = lifted(x)
    wanted = other.settled
    if kind_of(x) == "b" and not wanted.is_bool:
        return as_numbers(x, wanted)
    return x if x.strong is wanted else pb.astype(x, wanted)
