"""Places of lazy arrays: the processor, "" in types, or a device such as "cuda:0".

The runtime of devices is loaded when the first array is put on one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.calls import policy
from pullback.device import FALLS_BACK, NAME, is_on_device
from pullback.errors import DeviceError, TraceError
from pullback.lazy.node import Array, leaf, leaf_of, stored
from pullback.lazy.types import ArrayType, array_type
from pullback.source import user_position
from pullback.state import cached
from pullback.tracing.complex_array import complex_type
from pullback.tracing.devices import CPU

__all__ = ["common_place", "default_place", "held", "leaf_at", "place_named", "put"]


def place_named(what: str, device: Any) -> str:
    """The place that an argument `device` names; by default that of new arrays.

    Raises:
        DeviceError: [E418] there is no driver or no such device.   TraceError: [E145] no device has such a name.
    """
    if device is None:
        return default_place()
    if device == CPU:
        return ""
    if not (isinstance(device, str) and NAME.fullmatch(device)):
        raise TraceError("E145", f"{what}: there is no device {device!r}", position=user_position(),
                         remedy='"cpu", or a name of `pb.devices()` such as "cuda:0"')  # fmt: skip
    return _existing(device)


def _existing(device: str) -> str:
    from pullback.runtime.device.listing import gpu, named

    return gpu(named(device)).name


@cached(1, stays="with the process: known operations are for it")
def default_place() -> str:
    """The place of new arrays: PULLBACK_DEVICE at first use.

    If there is no such device, one warning says so, and the place is the processor.

    Raises:
        DeviceError: [E418] PULLBACK_DEVICE ends with "!", and there is no such device.
    """
    wish = policy.device(None)
    if wish in ("", "cpu"):
        return ""
    try:
        return _existing(wish)
    except DeviceError as error:
        if wish.endswith("!") or error.code not in FALLS_BACK:
            raise
        from pullback.runtime.device.executor import warn_once

        warn_once("pullback.lazy", error)
        return ""


def common_place(what: str, types: Sequence[ArrayType]) -> str:
    """The place of an operation's results: the device of an operand, else the processor.

    Raises:
        DeviceError: [E422] operands are on two devices.
    """
    found = ""
    for k, t in enumerate(types):
        if t.device and t.device != found:
            if found:
                first = next(j for j, other in enumerate(types) if other.device)
                raise DeviceError(
                    "E422", f"{what}: operand {first + 1} is on {found}, and operand {k + 1} is on {t.device}",
                    position=user_position(), remedy=f'`x.to_device("{found}")` copies an array',
                )  # fmt: skip
            found = t.device
    return found


def put(value: Any, place: str) -> Any:
    """The value at a place. An array on a device is copied to the processor, any array to a device."""
    if not place:
        return np.asarray(value) if is_on_device(value) else value
    from pullback.runtime.device.array import device_put

    return device_put(value, place)


def leaf_at(value: Any, place: str | None = None) -> Array:
    """An array whose value is known, at a place; by default where the value is."""
    if not place and not is_on_device(value):
        return leaf(np.asarray(value))
    from pullback.runtime.device.array import device_put

    if place == "":
        return leaf(device_put(value, "cpu"))
    made = device_put(value, place)
    return leaf_of(made, array_type(complex_type(made.dtype) or made.storage, made.shape, made.device), False, None)


def held(value: Any, device: Any, what: str) -> Array:
    """A copy of an array as a leaf: on a device, or where the array is, or where new arrays are."""
    if isinstance(value, Array):
        value = value.leaf
        Array.check(value, what)
        if device is None:
            device = value.device
        value = stored(value)
    if device is None and is_on_device(value):
        return leaf_at(value)
    place = place_named(what, device)
    return leaf_at(value, place) if place or is_on_device(value) else leaf(np.array(value, order="C"))
