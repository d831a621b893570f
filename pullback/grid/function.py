"""A whole function on a device: which kernels the host launches, in which loops and conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pullback.device import Device
from pullback.grid.branches import predicated
from pullback.grid.groups import in_one_group
from pullback.grid.spread import spread
from pullback.grid.verify import verify_grid
from pullback.ir.verify import verifying
from pullback.loops.program.nodes import Break, Call, Copy, Fill, For, Function, If, Kernel, Loop, Stmt, walk


def on_device(function: Function, device: Device) -> Function:
    """Turn all kernels of a function into launches."""
    found = replace(function, body=_Host(device).placed(function.body))
    if verifying():
        verify_grid(found, device)
    return found


class _Host:
    """The host's part of a function."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.made: dict[Kernel, Kernel] = {}

    def placed(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """Statements with launches for kernels."""
        return tuple(x for s in body for x in self._placed(s))

    def _placed(self, s: Stmt) -> tuple[Stmt, ...]:
        match s:
            case Call():
                if s.kernel not in self.made:
                    self.made[s.kernel] = replace(spread(s.kernel), portable=None)
                return (Call(self.made[s.kernel], s.arguments, s.index_values),)
            case For() | If() if not any(isinstance(x, Call | Copy | Fill | Break) for x in walk((s,))):
                return ()
            case For() | Loop() | If() if (one := in_one_group(s, self.device)) is not None:
                return (one,)
            case For() | Loop():
                return (replace(s, body=self.placed(s.body)),)
            case If():
                apart = replace(s, then=self.placed(s.then), otherwise=self.placed(s.otherwise))
                return predicated(apart, self.device) or (apart,)
            case _:
                return (s,)
