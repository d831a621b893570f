"""Reading the input of a message: what is missing or has another form is said by the field's name."""

from __future__ import annotations

from typing import Any

import numpy as np

NDArray = np.ndarray[Any, Any]


class BadInput(ValueError):
    """An input that the function cannot take; its text is the reason that the tool answers."""


class Fields:
    """The input of one message, its fields read as what a program needs."""

    def __init__(self, given: Any, path: str = "input") -> None:
        if not isinstance(given, dict):
            raise BadInput(f"{path} is {_kind(given)}, not an object")
        self.given, self.path = given, path

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def _value(self, name: str) -> Any:
        if name not in self.given:
            raise BadInput(f"{self.path} has no field {name!r}")
        return self.given[name]

    def inside(self, name: str) -> Fields:
        """The fields of an object inside."""
        return Fields(self._value(name), f"{self.path}.{name}")

    def number(self, name: str) -> float:
        """A number."""
        value = self._value(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadInput(f"{self.path}.{name} is {_kind(value)}, not a number")
        return float(value)

    def size(self, name: str, least: int = 1) -> int:
        """An integer of at least `least`."""
        value = self._value(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadInput(f"{self.path}.{name} is {_kind(value)}, not an integer")
        if value < least:
            raise BadInput(f"{self.path}.{name} is {value}; it must be at least {least}")
        return value

    def truth(self, name: str) -> bool:
        """True or false."""
        value = self._value(name)
        if not isinstance(value, bool):
            raise BadInput(f"{self.path}.{name} is {_kind(value)}, not true or false")
        return value

    def array(self, name: str, *shape: int | None, dtype: type = np.float64, empty: bool = False) -> NDArray:
        """An array of the shape, where None is any extent; `empty` allows extents of 0."""
        what, value = f"{self.path}.{name}", self._value(name)
        try:
            found = np.array(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise BadInput(f"{what} is not an array of numbers of equal rows") from None
        if empty and not found.size:
            return found.astype(dtype).reshape([0 if n is None else n for n in shape])
        wanted = " × ".join("any" if n is None else str(n) for n in shape)
        if found.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, found.shape, strict=True)):
            raise BadInput(f"{what} has the shape {found.shape}, not {wanted}")
        if not found.size:
            raise BadInput(f"{what} is empty: its shape is {found.shape}")
        if dtype is not np.float64 and (found != np.floor(found)).any():
            raise BadInput(f"{what} has elements that are no integers")
        return np.ascontiguousarray(found.astype(dtype))


def _kind(value: Any) -> str:
    names = {
        dict: "an object",
        list: "an array",
        str: "a text",
        bool: "true or false",
        int: "a number",
        float: "a number",
    }
    return names.get(type(value), "null")
