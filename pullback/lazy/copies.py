"""Copies of arrays, also on other devices, through which derivatives pass."""

from __future__ import annotations

from typing import Any

from pullback.lazy.node import Array, stored
from pullback.lazy.places import leaf_at, place_named, put
from pullback.lazy.tape import Kept

__all__ = ["Alias", "moved"]


class Alias(Kept):
    """A copy of an array: for separate derivatives by the copy, or on another device."""

    __slots__ = ()
    work = 0.0

    def pull(self, cotangents: list[Any]) -> list[tuple[Array, Any]]:
        """Pass the cotangent through, to the place of the original."""
        x, found = self.leaves[0], cotangents[0]
        return [(x, moved(found, x.device) if isinstance(found, Array) else put(found, x.type.device))]


def moved(x: Array, device: Any) -> Array:
    """Copy an array to a device; the array itself, if it is there."""
    x = x.leaf
    place = place_named("to_device", device)
    if place == x.type.device:
        return x
    made = leaf_at(stored(x), place)
    if x.tracked:
        made.tracked, made.origin = True, (Alias([x], 1, 0), 0)
    return made


Array.moved = staticmethod(moved)
