"""Arrays with some elements changed, for `x[i]←v` and `(2↑x)←v`.

An expression that selects elements of x is evaluated with the numbers of its elements in their place: the result says
which elements are changed, and in which order. Where v or x is an array of a function being compiled, so is the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pullback as pb
from pullback.apl import errors
from pullback.apl.numbers import converted
from pullback.apl.table import Settings
from pullback.apl.values import (
    NDArray,
    Value,
    count_of,
    element,
    elements,
    is_nested,
    is_traced,
    known_shape,
    lifted,
    objects,
    rank_of,
    settled,
    shape_of,
    simplified,
    whole,
    whole_list,
)
from pullback.apl.verbs import nesting


def numbered(y: Value, deep: bool) -> Value:
    """The numbers of the elements of an array in its shape; `deep` numbers what is inside them."""
    if not deep:
        shape = known_shape(y)
        return np.arange(int(np.prod(shape, dtype=object))).reshape(shape)
    count = iter(range(2**62))

    def structure(v: Value) -> Value:
        if is_nested(v):
            return objects([structure(e) for e in elements(v)], v.shape)
        shape = known_shape(v)
        return np.array([next(count) for _ in range(int(np.prod(shape)))], np.int64).reshape(shape)

    return structure(y)


def at_places(y: Value, places: Value, value: Value, deep: bool) -> Value:
    """The array with the elements of a value at the places that `numbered` has numbered.

    Raises:
        AplError: [E802] as many values as places are wanted, [E804] the places follow from data.
    """
    places, value = settled(places), settled(value)
    if is_traced(places):
        raise errors.of_data("←", "the selection", "a choice among all elements: `0@mask`, or m×x+…")
    chosen = [int(k) for e in _leaves(places) for k in e.reshape(-1)]
    own = [[n for n in shape_of(v) if n != 1] for v in (value, places)]
    if rank_of(value) and count_of(value) != 1 and not is_nested(places) and own[0] != own[1]:
        wrong = errors.length if rank_of(value) == rank_of(places) else errors.rank
        raise wrong("as many values as places")
    if deep:
        leaves = [x for e in _leaves(y) for x in elements(e)]
        return _refilled(y, iter(_changed(leaves, chosen, value)))
    if is_traced(y) or is_traced(value):
        return _traced(y, chosen, value)
    made = _changed(elements(y), chosen, value)
    return simplified(objects(made, y.shape)) if made else y


def _changed(items: list[Value], places: Sequence[int], value: Value) -> list[Value]:
    """Elements, some of which are those of a value, or its only one."""
    new = elements(value) if count_of(value) != 1 else [element(value, (0,) * rank_of(value))] * len(places)
    for k, v in zip(places, new):
        items[k] = v
    return items


def _leaves(x: Value) -> list[Value]:
    return [leaf for e in elements(x) for leaf in _leaves(e)] if is_nested(x) else [x]


def _refilled(like: Value, leaves: Any) -> Value:
    if is_nested(like):
        return objects([_refilled(e, leaves) for e in elements(like)], like.shape)
    return simplified(objects([next(leaves) for _ in elements(like)], like.shape))


def _traced(y: Value, places: Sequence[int], value: Value) -> Value:
    """In a compiled function: for every element where its value is read, from a table."""
    if is_nested(y) or is_nested(value):
        raise errors.domain(
            "elements of a nested array are not changed in a compiled function", remedy="name the parts"
        )
    shape = known_shape(y)
    source = np.full(int(np.prod(shape)), -1)
    source[list(places)] = np.arange(len(places))
    own, new = map(lifted, converted([lifted(y), lifted(value)], "number")[0])
    if rank_of(new):
        flat = pb.reshape(new, (-1,))
        new = flat[0] if count_of(value) == 1 else pb.reshape(pb.take(flat, np.maximum(source, 0), axis=0), shape)
    return pb.where(pb.asarray((source >= 0).reshape(shape)), new, own)


def at_indices(y: Value, value: Value, indices: Sequence[Value | None], s: Settings) -> Value:
    """`y[i;j]←value` in a compiled function, where single indices may be traced: a choice for every element."""
    h, new = map(lifted, converted([lifted(y), lifted(value)], "number")[0])
    here: Any = None
    for k, i in enumerate(indices):
        if i is None:
            continue
        at = pb.reshape(pb.arange(h.shape[k]), tuple(h.shape[a] if a == k else 1 for a in range(h.rank)))
        test = at == (lifted(i) - s.io if is_traced(i) else whole(i, "[ ]") - s.io)
        here = test if here is None else pb.logical_and(here, test)
    return new if here is None else pb.where(here, new, h)


def at_path(y: Value, path: Value | None, value: Value, s: Settings) -> Value:
    """`(⊃y)←value` and `(path⊃y)←value`: the whole element there is another."""
    if path is None:
        return _put(y, [(0,) * rank_of(y)], value)
    steps, here = [], y
    for step in elements(settled(path)):
        at = whole_list(step, "⊃")
        if len(at) != rank_of(here):
            raise errors.rank(f"⊃ takes as many numbers as axes, {rank_of(here)}, not {len(at)}")
        steps.append(nesting.places(at, shape_of(here), s))
        here = settled(element(here, steps[-1]))
    return _put(y, steps, value)


def _put(y: Value, steps: Sequence[tuple[int, ...]], value: Value) -> Value:
    if not steps:
        return value
    y = settled(y)
    if not count_of(y):
        raise errors.index("there is no first element of an empty array")
    if is_traced(y):
        at = int(np.ravel_multi_index(steps[0], known_shape(y))) if steps[0] else 0
        return _traced(y, [at], value)
    made: NDArray = objects(elements(y), y.shape)
    made[steps[0]] = _put(made[steps[0]], steps[1:], value)
    return simplified(made)


__all__ = ["at_indices", "at_path", "at_places", "numbered"]
