"""Weights: cells whose arrays training changes."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from pullback.lazy.array import Array, leaf
from pullback.lazy.methods import installed

__all__ = ["Weight"]

_names: Final = itertools.count()


class Weight(Array):
    """A cell that holds an array which training changes. Networks may share it.

    A weight stands wherever an array does. What is built from it is built from the array that it holds then, so that a
    later change does not reach it; a backward pass through such an array is refused once the weight holds another.

    Args:
        value: its first array.
        name: what messages, optimisers and files call it.

    >>> import numpy as np
    >>> from pullback import lazy
    >>> w = lazy.Weight(np.array([1.0, 2.0]), name="w")
    >>> float(lazy.sum(w * 3.0))
    9.0
    >>> w.set_value(np.array([2.0, 2.0]))
    >>> float(lazy.sum(w * 3.0))
    12.0
    """

    __slots__ = ("_leaf", "delta", "name", "version")

    def __init__(self, value: Any, name: str | None = None) -> None:
        self.name = name or f"weight{next(_names)}"
        self.version = -1
        self.delta: Any = None
        self._hold(leaf(np.asarray(value), tracked=True))

    @property
    def leaf(self) -> Array:
        """The array that it holds now."""
        return self._leaf

    def set_value(self, value: Any) -> None:
        """Let it hold another array from now on."""
        array = np.asarray(value)
        same = array.shape == self.type.shape and array.dtype is self.type.numpy
        self._hold(leaf(array, True, self.type if same else None))

    def _hold(self, made: Array) -> None:
        made.origin = self
        self._leaf = made
        self.version += 1
        self.type, self.value, self.tracked = made.type, made.value, True
        self.application, self.operands, self.serial, self.origin = None, (), made.serial, None

    def __repr__(self) -> str:
        return f"Weight({self.name} : {self.type})"


def _of_leaf(name: str) -> Any:
    found = getattr(Array, name)
    if isinstance(found, property):
        assert found.fget is not None
        get = found.fget
        return property(lambda self: get(self.leaf))
    return lambda self, *args, **keywords: found(self.leaf, *args, **keywords)


for _name in installed():
    setattr(Weight, _name, _of_leaf(_name))
