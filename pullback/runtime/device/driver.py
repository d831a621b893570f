"""CUDA's driver by ctypes: devices, memory, copies, streams and events.

The driver is loaded on first use. `ENTRIES` has every entry point that is called from Python, `HOST` those that the
host program of a function calls (`codegen/device/drivers.py`).
"""

from __future__ import annotations

from ctypes import POINTER, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from typing import Any, Final

_A, _P = POINTER, c_void_p
_ADDRESS = c_uint64

ENTRIES: Final[dict[str, tuple[Any, ...]]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (_A(c_int),),
    "cuGetErrorName": (c_int, _A(c_char_p)),
    "cuGetErrorString": (c_int, _A(c_char_p)),
    "cuDeviceGetCount": (_A(c_int),),
    "cuDeviceGet": (_A(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceTotalMem_v2": (_A(c_size_t), c_int),
    "cuDeviceGetAttribute": (_A(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (_A(_P), c_int),
    "cuCtxPushCurrent_v2": (_P,),
    "cuCtxPopCurrent_v2": (_A(_P),),
    "cuCtxSynchronize": (),
    "cuMemGetInfo_v2": (_A(c_size_t), _A(c_size_t)),
    "cuMemAllocAsync": (_A(_ADDRESS), c_size_t, _P),
    "cuMemFreeAsync": (_ADDRESS, _P),
    "cuMemFree_v2": (_ADDRESS,),
    "cuMemcpyHtoDAsync_v2": (_ADDRESS, _P, c_size_t, _P),
    "cuMemcpyDtoHAsync_v2": (_P, _ADDRESS, c_size_t, _P),
    "cuMemcpyDtoDAsync_v2": (_ADDRESS, _ADDRESS, c_size_t, _P),
    "cuMemsetD8Async": (_ADDRESS, c_ubyte, c_size_t, _P),
    "cuStreamCreate": (_A(_P), c_uint),
    "cuStreamSynchronize": (_P,),
    "cuStreamWaitEvent": (_P, _P, c_uint),
    "cuEventCreate": (_A(_P), c_uint),
    "cuEventRecord": (_P, _P),
    "cuEventQuery": (_P,),
    "cuEventDestroy_v2": (_P,),
}
HOST: Final = (
    "cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2", "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2", "cuModuleLoadData", "cuModuleUnload", "cuModuleGetFunction", "cuMemAlloc_v2", "cuMemFree_v2",
    "cuStreamCreate", "cuStreamDestroy_v2", "cuStreamSynchronize", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async", "cuLaunchKernel")  # fmt: skip
