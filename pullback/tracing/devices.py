"""The device of arrays inside a function, as the Python array API names it."""

from __future__ import annotations

from typing import Final

from pullback.errors import TraceError
from pullback.source import user_position

CPU: Final = "cpu"


def check_device(what: str, device: object) -> None:
    """Refuse devices of single arrays.

    Raises:
        TraceError: [E145] the device is neither None nor "cpu".
    """
    if device is not None and device != CPU:
        raise TraceError(
            "E145",
            f"{what}: device={device!r}, and arrays inside a function have no device of their own",
            position=user_position(),
            remedy="leave it out; `pb.function(device=...)` runs the whole function on a device",
        )
