"""The devices of all drivers, by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from pullback.device import KINDS
from pullback.errors import DeviceError
from pullback.runtime.device import cuda, opencl
from pullback.runtime.device.driver import DeviceEntry, Gpu, unusable
from pullback.single_flight import single_flight

_DRIVERS: Final[Mapping[str, Any]] = {"cuda": cuda, "opencl": opencl}


def of_kind(kind: str) -> tuple[Gpu, ...]:
    """The devices of a driver.

    Raises:
        DeviceError: [E418] there are none.
    """
    with single_flight(f"devices of {kind}"):
        found: tuple[Gpu, ...] = _DRIVERS[kind].gpus()
        return found


def named(where: str) -> str:
    """The name of a device in the form of `pb.devices`: "cuda!" is "cuda:0"."""
    name = where.removesuffix("!")
    return f"{name}:0" if name in KINDS else name


def gpu(name: str) -> Gpu:
    """The device of a name such as "cuda:0".

    Raises:
        DeviceError: [E418] there is no such device, or no driver.
    """
    kind = name.partition(":")[0]
    if kind not in KINDS:
        known = " or ".join(KINDS)
        raise unusable(f"there is no device {name}", f"names begin with {known}; `pb.devices()` lists them")
    found = {g.name: g for g in of_kind(kind)}
    if name not in found:
        raise unusable(f"there is no device {name}", f"one of {', '.join(found)}")
    return found[name]


def devices() -> list[DeviceEntry]:
    """List the devices of this computer that functions run on, the processor first.

    Returns:
        A row for each device: `name`, `title`, `memory` in bytes, `architecture`. Those of CUDA come before those of
        OpenCL. A device with two drivers has two rows. Without drivers the processor is the only row.

    >>> pb.devices()[0].name
    'cpu'
    """
    import platform

    host = DeviceEntry("cpu", platform.processor() or platform.machine(), _host_bytes(), platform.machine())
    return [host, *(g.entry for kind in KINDS for g in _found(kind))]


def _found(kind: str) -> tuple[Gpu, ...]:
    try:
        return of_kind(kind)
    except DeviceError:
        return ()


def _host_bytes() -> int:
    """Bytes of the processor's memory; 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
