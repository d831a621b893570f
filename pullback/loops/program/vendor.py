"""A call of a library of the device's maker, in place of a kernel's launches."""

from __future__ import annotations

from typing import Protocol

from pullback.loops.program.values import Buffer


class LibraryCall(Protocol):
    """A computation by a library."""

    @property
    def buffers(self) -> tuple[Buffer, Buffer, Buffer]:
        """The operands and the result."""
