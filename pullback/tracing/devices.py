"""The device of arrays, the processor, as the Python array API names it."""

from __future__ import annotations

from typing import Final

from pullback.errors import TraceError
from pullback.source import user_position

CPU: Final = "cpu"


def check_device(what: str, device: object) -> None:
    """Refuse any device but the processor.

    Raises:
        TraceError: [E145] the device is not the processor.
    """
    if device is not None and device != CPU:
        raise TraceError(
            "E145",
            f"{what}: there is no device {device!r}",
            position=user_position(),
            remedy=f'`device="{CPU}"`, or none: compiled functions run on the processor',
        )
