"""Weights: mutable cells for arrays that training updates."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, overload

from numpy import ndarray

from pullback.lazy.methods import OPERATORS, installed
from pullback.lazy.node import Array, leaf_of
from pullback.lazy.places import held
from pullback.lazy.quick import offer
from pullback.lazy.typed import DTypeT, ShapeT

if TYPE_CHECKING:
    from numpy import dtype

    from pullback.lazy.typed import D

__all__ = ["INSTALLED", "Weight", "of_leaf"]

_names: Final = itertools.count()


class Weight(Array[ShapeT, DTypeT]):
    """A mutable cell for an array that training updates. Networks may share it.

    A weight can be used like an array. Arrays built from it use the array that it holds at that time, so later changes
    do not affect them. After an update, a backward pass through such arrays is refused. Copies and
    unpickled weights are independent, with the same array and name, and no cotangent.

    Args:
        value: the initial array.
        name: the name in messages, optimizers and files.
        device: its device, a name of `pb.devices`; by default that of `value`, or of new arrays. Updates, cotangents
            and copies are there. Unpickled weights are where new arrays are.
    Cost:
        A copy of the initial array, which is not modified. An update makes a new array.

    >>> import numpy as np
    >>> from pullback import lazy
    >>> w = lazy.Weight(np.array([1.0, 2.0]), name="w")
    >>> float(lazy.sum(w * 3.0))
    9.0
    >>> w.set_value(np.array([2.0, 2.0]))
    >>> float(lazy.sum(w * 3.0))
    12.0
    """

    __slots__ = ("grad", "leaf", "name", "trained", "version")
    leaf: Array[ShapeT, DTypeT]  # the current array

    @overload
    def __init__(
        self: Weight[Any, D], value: ndarray[Any, dtype[D]], name: str | None = ..., *, device: str | None = ...
    ) -> None: ...
    @overload
    def __init__(self, value: Any, name: str | None = ..., *, device: str | None = ...) -> None: ...
    def __init__(self, value: Any, name: str | None = None, *, device: str | None = None) -> None:
        self.name = name or f"weight{next(_names)}"
        self.version = -1
        self.grad: Any = None
        self.trained = False  # whether a trainer has it, or its user knows that none has
        self.application, self.operands, self.origin, self.tracked = None, (), None, True
        self._copy(value, device)

    def set_value(self, value: Any) -> None:
        """Replace the array by a copy of another one, on the weight's device."""
        self._copy(value, self.device)

    def _copy(self, value: Any, device: str | None) -> None:
        made = held(value, device, "a weight's value")
        self.type, self.serial = made.type, made.serial
        self.hold(made.value)

    def hold(self, value: Any) -> None:
        """Replace the array by another one of its type, in row-major order."""
        if value.__class__ is ndarray:
            value.setflags(write=False)
        self.leaf = leaf_of(value, self.type, True, self)
        self.value = value
        self.version += 1

    def __copy__(self) -> Weight:
        return Weight(self.value, self.name)

    def __deepcopy__(self, memory: Any) -> Weight:
        return memory.setdefault(id(self), Weight(self.value, self.name))  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        return Weight, (self.value, self.name)

    def __repr__(self) -> str:
        return f"Weight({self.name} : {self.type})"


def of_leaf(name: str) -> Any:
    """The member of `Array`, for the array that a handle stands for at the time."""
    found = getattr(Array, name)
    if isinstance(found, property):
        assert found.fget is not None
        get = found.fget
        return property(lambda self: get(self.leaf))
    if name in OPERATORS:
        return lambda self, other: found(self.leaf, other)
    return lambda self, *args, **keywords: found(self.leaf, *args, **keywords)


INSTALLED: Final = tuple(installed())

for _name in INSTALLED:
    setattr(Weight, _name, of_leaf(_name))
offer(weight=Weight)
