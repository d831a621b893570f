"""Distinct keys for Python values that a trace depends on: unlike `==`, 1, True and 1.0 differ."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Hashable
from numbers import Number
from typing import Any

import numpy as np


def distinct(value: Any) -> Hashable:
    """A key shared only by values of one type that are equal to the last bit.

    >>> distinct(1) == distinct(True), distinct(0.0) == distinct(-0.0), distinct((1,)) == distinct((1.0,))
    (False, False, False)
    >>> distinct(float("nan")) == distinct(float("nan"))
    True
    """
    hash(value)  # mutable values cannot be keys
    kind = type(value)
    match value:
        case np.generic():
            return kind, value.dtype.str, value.tobytes()
        case float():
            return kind, struct.pack("d", value)
        case complex():
            return kind, struct.pack("dd", value.real, value.imag)
        case int():
            return kind, value
        case Number():  # a Decimal with its number of digits
            return kind, repr(value)
        case tuple():
            return kind, *map(distinct, value)
        case frozenset():
            return kind, frozenset(map(distinct, value))
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is not None and parameters.eq:
        return kind, *(distinct(getattr(value, f.name)) for f in dataclasses.fields(value) if f.compare)
    return kind, value
