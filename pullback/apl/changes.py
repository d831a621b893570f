"""Replacement of array elements, for `x[i]←v` and `(2↑x)←v`.

The selecting expression is evaluated with element numbers in place of the elements of x. The result says which
elements change, and in which order. A nested element is identified by its object, which selecting verbs pass on.
If v or x is an array of a function being compiled, so is the result.
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
    elements,
    holds_traced,
    is_nested,
    is_traced,
    known_shape,
    lifted,
    objects,
    rank_of,
    settled,
    shape_of,
    simplified,
    vector,
    whole,
)
from pullback.apl.watch import refuse


def numbered(y: Value) -> Value:
    """Replace the plain elements of an array by their numbers, from 1; 0 is reserved for fills."""
    count = iter(range(1, 2**62))

    def structure(v: Value) -> Value:
        if is_nested(v):
            return objects([structure(e) for e in elements(v)], v.shape)
        shape = known_shape(v)
        return np.array([next(count) for _ in range(int(np.prod(shape, dtype=object)))], np.int64).reshape(shape)

    return structure(y)


def changed(y: Value, numbers: Value, selected: Value, value: Value, as_one: bool = False) -> Value:
    """Return the array with the selected elements replaced by those of a value.

    Args:
        y: the array.
        numbers: the element numbers of y, from `numbered`.
        selected: the numbers that the selection returns.
        value: the new elements, or one for all.
        as_one: whether the selection is a single element, from ⊃, which the whole value replaces.
    Raises:
        AplError: [E802] the numbers of values and places differ, [E804] the places depend on data.
    """
    y, selected, value = settled(y), settled(selected), settled(value)
    if any(map(holds_traced, (y, value))):
        refuse("elements that are changed")
    if is_traced(selected):
        raise errors.of_data("←", "the selection", "a choice among all elements: `0@mask`, or m×x+…")
    if as_one:
        if not is_nested(selected) and not selected.any() and rank_of(selected) == 0:
            raise errors.index("there is no first element of an empty array")
        selected, value = objects([selected], ()), objects([value], ())
    if not is_nested(y) and (is_traced(y) or is_traced(value)) and not is_nested(selected):
        _check_shapes(selected, value)
        return _traced(y, selected.reshape(-1), value)
    new: dict[int, Value] = {}
    _assign(selected, value, _identities(numbers), new)
    return _with_new(y, numbers, new) if new else y


def _check_shapes(selected: Value, value: Value) -> None:
    """Refuse a value that is neither a single element nor of the shape of the selection."""
    own = [[n for n in shape_of(v) if n != 1] for v in (value, selected)]
    if rank_of(value) and count_of(value) != 1 and own[0] != own[1]:
        wrong = errors.length if rank_of(value) == rank_of(selected) else errors.rank
        raise wrong("as many values as places")


def _identities(numbers: Value) -> set[int]:
    """The identities of the objects in a nest, at any depth."""
    if not is_nested(numbers):
        return set()
    inner = elements(numbers)
    return {id(e) for e in inner if rank_of(e) or is_nested(e)}.union(*map(_identities, inner))


def _assign(selected: Value, value: Value, nests: set[int], new: dict[int, Value]) -> None:
    """Record the new value of each place, under the number of a plain element, or ¯1-id of a nest."""
    _check_shapes(selected, value)
    one = count_of(value) == 1
    values = elements(value)
    for k, place in enumerate(elements(selected)):
        own = values[0 if one else k]
        if id(place) in nests:
            new[-id(place)] = own
        elif rank_of(place) == 0 and not is_nested(place):
            new[int(place)] = own
        elif any(leaf.any() for leaf in _leaves(place)):  # a verb's result for an element, with numbers inside
            _assign(place, own, nests, new)


def _leaves(x: Value) -> list[Value]:
    return [leaf for e in elements(x) for leaf in _leaves(e)] if is_nested(x) else [x]


def _with_new(y: Value, numbers: Value, new: dict[int, Value]) -> Value:
    if is_nested(numbers):
        parts = zip(elements(y), elements(numbers))
        return simplified(objects([_element(e, n, new) for e, n in parts], y.shape))
    at = [(k, new[n]) for k, n in enumerate(numbers.reshape(-1).tolist()) if n in new]
    if not at:
        return y
    values = [v for _, v in at]
    if any(map(is_traced, (y, *values))) and not any(rank_of(v) or is_nested(v) for v in values):
        return _traced(y, np.array([k + 1 for k, _ in at]), lifted(vector(values)))
    items = elements(y)
    for k, v in at:
        items[k] = v
    return simplified(objects(items, shape_of(y)))


def _element(e: Value, numbers: Value, new: dict[int, Value]) -> Value:
    if -id(numbers) in new:
        return new[-id(numbers)]
    if rank_of(numbers) == 0 and not is_nested(numbers):
        return new.get(int(numbers), e)
    return _with_new(e, numbers, new)


def _traced(y: Value, places: NDArray, value: Value) -> Value:
    """Compute the changed value in a compiled function: each element comes from a table, by places from 1."""
    if is_nested(y) or is_nested(value):
        raise errors.domain(
            "elements of a nested array are not changed in a compiled function", remedy="name the parts"
        )
    shape = known_shape(y)
    source = np.full(int(np.prod(shape)) + 1, -1)
    source[places] = np.arange(len(places))
    source = source[1:]
    own, new = map(lifted, converted([lifted(y), lifted(value)], "number")[0])
    if rank_of(new):
        flat = pb.reshape(new, (-1,))
        new = flat[0] if count_of(value) == 1 else pb.reshape(pb.take(flat, np.maximum(source, 0), axis=0), shape)
    return pb.where(pb.asarray((source >= 0).reshape(shape)), new, own)


def at_indices(y: Value, value: Value, indices: Sequence[Value | None], s: Settings) -> Value:
    """Assign `y[i;j]←value` in a compiled function with possibly traced indices: a choice per element."""
    refuse("elements that are changed")
    h, new = map(lifted, converted([lifted(y), lifted(value)], "number")[0])
    here: Any = None
    for k, i in enumerate(indices):
        if i is None:
            continue
        at = pb.reshape(pb.arange(h.shape[k]), tuple(h.shape[a] if a == k else 1 for a in range(h.rank)))
        test = at == (lifted(i) - s.io if is_traced(i) else whole(i, "[ ]") - s.io)
        here = test if here is None else pb.logical_and(here, test)
    return new if here is None else pb.where(here, new, h)


__all__ = ["at_indices", "changed", "numbered"]
