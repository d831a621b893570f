"""Entries for arrays on a device, which check the arguments of a call and queue its work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.device import is_on_device
from pullback.errors import PullbackError
from pullback.ir.types import dtype_named
from pullback.runtime.device.array import DeviceArray, sent, taken
from pullback.runtime.entry import COMPLEX, PythonEntry, tree_of
from pullback.runtime.shim import Form, Look

if TYPE_CHECKING:
    from pullback.runtime.device.driver import Gpu
    from pullback.runtime.record import Parameter


class DeviceCall(PythonEntry):
    """The entry of a program for arrays on its device, with NumPy arrays and numbers among them."""

    __slots__ = ("_gpu", "_last", "_names", "_queued", "_wanted")

    def __init__(self, gpu: Gpu, inputs: Sequence[Parameter], queued: Callable[[list[DeviceArray]], list[DeviceArray]],
                 form: Form, look: Look, held: Sequence[Any], calls: int) -> None:  # fmt: skip
        """Create the entry; `queued` calls the program, and the rest is as for `fast_entry`."""
        numbers = (*look.numbers, *[0] * (len(inputs) - len(look.numbers)))
        super().__init__(_no_function, inputs, (), form, 0, None, look, numbers, held, (), None, calls, {})
        self._gpu, self._queued = gpu, queued
        self._wanted = [(k, dtype_named(p.dtype), *read) for k, (p, read) in enumerate(zip(inputs, self._inputs))]
        self._names = [p.name for p in inputs]
        self._last: dict[int, tuple[bytes, DeviceArray]] = {}  # the last number of each input, and its array

    def __call__(self, *args: Any, out: Any = None, **others: Any) -> Any:
        """The results for arguments as the function takes them; NotImplemented where they do not fit."""
        given = args if len(args) == self.whole and not others else self.in_order(args, others)
        return NotImplemented if given is None else self.run(given, out)

    def _called(self, leaves: Any, out: Any) -> Any:
        if out is not None:
            return NotImplemented
        try:
            given = self._given((*leaves, *self._held) if self._held else leaves)
            results = None if given is None else self._queued(given)
        except PullbackError:  # the slow path reports it
            return NotImplemented
        if results is None:
            return NotImplemented
        self.used = True
        return results[0] if self._result_form == 0 else tree_of(self._result_form, iter(results))

    def _given(self, leaves: Any) -> list[DeviceArray] | None:
        """The arguments as arrays on the device; None if one does not fit, or none of them is there."""
        gpu, given, is_here = self._gpu, [], False
        for x, (k, storage, dtype, shape, number) in zip(leaves, self._wanted, strict=True):
            if type(x) is not DeviceArray:
                if type(x) is np.ndarray and x.shape == shape and x.dtype == dtype:
                    given.append(sent(gpu, x, storage, self._names[k]))
                    continue
                if number is not None and (cell := number(x)) is not None:
                    given.append(self._number(k, bytes(cell)))
                    continue
                if not is_on_device(x) or type(x := taken(x, self._names[k])) is not DeviceArray:
                    return None
            if x.gpu is not gpu or x.storage is not storage or x.shape != shape:
                return None
            given.append(x)
            is_here = True
        return given if is_here else None

    def _number(self, k: int, value: bytes) -> DeviceArray:
        """A number on the device; one that comes again is there already."""
        known = self._last.get(k)
        if known is None or known[0] != value:
            _, storage, dtype, *_ = self._wanted[k]
            array = np.frombuffer(value, dtype).reshape(())
            known = self._last[k] = value, sent(self._gpu, array, storage, self._names[k])
        return known[1]


def _no_function(*_: Any) -> int:
    raise AssertionError("a program on a device is called by `queued`")


def has_complex(form: Form) -> bool:
    """Whether a tree of this form has complex arrays, which are two arrays on a device."""
    if type(form) is int:
        return bool(form & COMPLEX)
    return form is not None and any(map(has_complex, form if type(form) is tuple else form[2]))
