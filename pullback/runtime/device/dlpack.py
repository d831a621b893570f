"""DLPack by ctypes: capsules for arrays on a device, and the arrays in capsules of other libraries.

The structures are those of `dlpack.h`, version 1: https://dmlc.github.io/dlpack/latest/c_api.html
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    PYFUNCTYPE,
    Structure,
    c_char_p,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
)
from math import prod
from typing import TYPE_CHECKING, Any, Final

from pullback.ir.types import DTYPES, HALVES, bf16, f32, f64
from pullback.state import registered

if TYPE_CHECKING:
    from pullback.runtime.device.driver import Gpu

CPU: Final = 1  # the kind of the processor; `pullback.device.KINDS` has those of devices
VERSION: Final = 1, 0
KINDS: Final = {"signed": 0, "unsigned": 1, "floating": 2, "half": 2, "bool": 6}
TYPES: Final = {(4 if d is bf16 else KINDS[d.kind], 8 * d.size): d for d in (*DTYPES, *HALVES)}
CODES: Final = {d: code for code, d in TYPES.items()}
COMPLEX: Final = 5
PARTS: Final = {(COMPLEX, 16 * d.size): d for d in (f32, f64)}  # the types of a complex number's parts
OLD, NEW = b"dltensor", b"dltensor_versioned"  # names of capsules
DELETER: Final = CFUNCTYPE(None, c_void_p)


class _Tensor(Structure):
    _fields_ = (
        ("data", c_void_p), ("kind", c_int32), ("number", c_int32), ("ndim", c_int32), ("code", c_uint8),
        ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64))  # fmt: skip


class _Managed(Structure):
    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", DELETER))


class _Versioned(Structure):
    _fields_ = (
        ("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", DELETER), ("flags", c_uint64),
        ("tensor", _Tensor))  # fmt: skip


_python: Final = ctypes.pythonapi
_new = PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", _python))
_pointer = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", _python))
_is_named = PYFUNCTYPE(ctypes.c_int, py_object, c_char_p)(("PyCapsule_IsValid", _python))
# of a capsule without references
_dying_pointer = PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _python))
_dying_is_named = PYFUNCTYPE(ctypes.c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", _python))

_SHARED: dict[int, Any] = registered({}, "living capsules", stays="with the arrays of other libraries")


def _delete(managed: int) -> None:
    _SHARED.pop(managed, None)


def _unread(capsule: int) -> None:
    """Free the array of a capsule that no library has consumed."""
    for name in (OLD, NEW):
        if _dying_is_named(capsule, name):
            _SHARED.pop(_dying_pointer(capsule, name), None)


_DELETE: Final = DELETER(_delete)
_UNREAD: Final = PYFUNCTYPE(None, c_void_p)(_unread)


def capsule_of(owner: object, at: int, shape: Sequence[int], code: tuple[int, int], device: tuple[int, int],
               max_version: tuple[int, int] | None) -> Any:  # fmt: skip
    """A capsule for an array on a device; the capsule keeps the array's owner alive.

    Args:
        code: the kind of its elements and their bits.   device: its kind and its number.
        max_version: the latest version of DLPack that the reader knows; None for one before 1.
    """
    rank, step = len(shape), ctypes.sizeof(c_int64)
    strides = [prod(shape[k + 1 :]) for k in range(rank)]
    sizes = (c_int64 * (2 * rank + 1))(*shape, *strides)
    places = [ctypes.cast(ctypes.addressof(sizes) + k * step, POINTER(c_int64)) for k in (0, rank)]
    tensor = _Tensor(at, *device, rank, *code, 1, *places, 0)
    made: Any
    if max_version is not None and max_version[0] >= VERSION[0]:
        name, made = NEW, _Versioned(*VERSION, None, _DELETE, 0, tensor)
    else:
        name, made = OLD, _Managed(tensor, None, _DELETE)
    place = ctypes.addressof(made)
    _SHARED[place] = made, sizes, owner
    return _new(place, name, ctypes.cast(_UNREAD, c_void_p))


class Foreign:
    """An array of another library on a device.

    Its capsule is kept, and not marked as consumed, so it is freed with this object.

    Attributes:
        shape: its sizes.   at: its address.   storage: the name of its dtype; None if the language has no such type.
        part: the dtype of a complex element's parts, else None.
        type_text: the element type in DLPack's terms.   is_contiguous: whether it is stored row by row.
    """

    def __init__(self, x: Any, stream: int) -> None:
        """Take an array for work on a stream."""
        try:
            self._capsule = x.__dlpack__(stream=stream, max_version=VERSION)
        except TypeError:  # a library that knows no versions
            self._capsule = x.__dlpack__(stream=stream)
        self._library = type(x).__module__.partition(".")[0]
        new = _is_named(self._capsule, NEW)
        made = (_Versioned if new else _Managed).from_address(_pointer(self._capsule, NEW if new else OLD))
        t: _Tensor = made.tensor
        self.shape = tuple(t.shape[k] for k in range(t.ndim))
        self.at = (t.data or 0) + t.byte_offset
        self.storage, self.part = (known.get((t.code, t.bits)) if t.lanes == 1 else None for known in (TYPES, PARTS))
        self.type_text = f"{t.code} of DLPack with {t.lanes} × {t.bits} bits"
        self.is_contiguous = not t.strides or self._in_order([t.strides[k] for k in range(t.ndim)])

    def _in_order(self, strides: Sequence[int]) -> bool:
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(strides), strict=True):
            if size != 1 and stride != step:
                return 0 in self.shape
            step *= size
        return True

    def was_read(self, gpu: Gpu) -> None:
        """Keep the array until all calls so far have read it; its library waits as long before it writes."""
        module: Any = sys.modules.get(self._library)
        if self._library == "torch":
            gpu.follow(module.cuda.current_stream(gpu.number).cuda_stream or 1)
        elif self._library == "cupy":
            gpu.follow(module.cuda.get_current_stream().ptr or 1)
        elif not self._library.startswith("jax"):  # whose arrays do not change
            gpu.wait()
        with gpu.current("arguments"):
            gpu.keep(self)

