"""Kernels on a device: compiled at their first call, because the interpreter would copy their arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pullback.calls import policy
from pullback.ir import nodes as ir
from pullback.ir.dims import has_empty_extent
from pullback.lazy.counts import COUNTS
from pullback.lazy.kernel import Kernel, joined, parts
from pullback.lazy.layers import Place, noted
from pullback.lazy.places import default_place, put
from pullback.lazy.types import ArrayType

__all__ = ["DeviceKernel", "kernel_of", "note_checks"]


class DeviceKernel:
    """A program on a device as a function from a list of arrays to a tuple of arrays, which does not wait.

    NumPy arrays among the arguments are sent with each call. Results go to the places of their types.
    """

    __slots__ = ("_captured", "_device", "_executable", "_host", "_inputs", "_is_refused", "_outputs", "_program")

    def __init__(self, program: ir.Program, inputs: Sequence[ArrayType], outputs: Sequence[ArrayType],
                 device: str) -> None:  # fmt: skip
        self._program = program
        self._captured = list(program.settings.captured)
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._device = device
        self._host = Kernel(program, inputs, outputs)  # where the device refuses the program
        self._executable: Any = None
        self._is_refused = False

    def __call__(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results for arrays of the inputs' types; they may still be computed."""
        if self._executable is None and not self._is_refused:
            self._compile()
        if self._is_refused:
            found = self._host([put(v, "") for v in values])
            return tuple([put(x, t.device) for x, t in zip(found, self._outputs)])
        COUNTS.kernels += 1
        given = [p for v, t in zip(values, self._inputs) for p in parts(v, t)]
        there = joined(self._executable.enqueued([*given, *self._captured]), self._outputs)
        return tuple([x if t.device else put(x, "") for x, t in zip(there, self._outputs)])

    def _compile(self) -> None:
        """Compile the program for the device.

        Raises:
            PullbackError: the device cannot run it, and PULLBACK_DEVICE does not permit the processor instead.
        """
        if policy.backend() != "c" or has_empty_extent(self._program, {}):
            self._is_refused = True
            return
        from pullback.runtime.device.loading import compile_on

        is_wish = default_place() == self._device and not policy.device(None).endswith("!")
        self._executable = compile_on(self._device if is_wish else f"{self._device}!", self._program, {})
        self._is_refused = self._executable is None
        COUNTS.compiled += not self._is_refused


def kernel_of(program: ir.Program, inputs: Sequence[ArrayType], outputs: Sequence[ArrayType],
              device: str) -> Kernel | DeviceKernel:  # fmt: skip
    """The kernel of a program on a device; "" for the processor."""
    return DeviceKernel(program, inputs, outputs, device) if device else Kernel(program, inputs, outputs)


class _Noted:
    """The checks of a call; their error names the place where the failing node was built."""

    def __init__(self, checks: Any, places: Mapping[int, Any], failing: Callable[[Sequence[Any]], int | None],
                 values: Sequence[Any]) -> None:  # fmt: skip
        self._checks, self._places, self._failing = checks, places, failing
        self._values = values if len(places) > 1 else ()  # which place it is follows from the values

    def verify(self) -> None:
        """Wait for the call, and raise the error of a failed check."""
        try:
            self._checks.verify()
        except IndexError as error:
            if len(self._places) > 1:
                step = self._failing([put(v, "") for v in self._values])
                self._places = {} if step is None else {step: self._places[step]}
            raise noted(error, next(iter(self._places.values()), None)) from None
        finally:
            self._values = ()


def note_checks(results: Sequence[Any], values: Sequence[Any], places: Mapping[int, Any],
                failing: Callable[[Sequence[Any]], int | None]) -> None:  # fmt: skip
    """Let errors of a call's checks name the node.

    Args:
        results, values: the arrays that the call gives and reads.
        places: the places of nodes that may fail, by step.   failing: finds the failing step for values.
    """
    found = {k: place for k, place in places.items() if isinstance(place, Place)}
    there = [r for r in results if not isinstance(r, np.ndarray)]
    if not found or not there:
        return
    earlier = {p for v in values if not isinstance(v, np.ndarray) for p in v.pending}
    own = {p: _Noted(p, found, failing, values) for p in there[0].pending if p not in earlier}
    for r in there:
        r.pending = tuple([own.get(p, p) for p in r.pending])
