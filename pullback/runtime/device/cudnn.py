"""Convolutions and their gradients by cuDNN, by its functions for convolutions (not by its graphs).

Only implicit and explicit products are used, of which each call adds in the same order. Algorithms that add atomically
do not. Transforms of Winograd or of Fourier round otherwise than sums in another order do. The numbers are those of
`cudnn_ops.h` and `cudnn_cnn.h`.
"""

from __future__ import annotations

from ctypes import POINTER, Structure, byref, c_float, c_int, c_size_t
from ctypes import c_void_p as _P
from typing import Any, Final

from pullback.grid.called import Image, LibraryConvolution
from pullback.runtime.device.vendor import CallStruct, DeviceLibrary, LibraryError, LibraryStruct, Prepared

TYPES: Final = {"f32": 0, "f64": 1, "f16": 2, "bf16": 9}  # cudnnDataType_t
FORMATS: Final = {False: 0, True: 1}  # cudnnTensorFormat_t: NCHW, NHWC
CORRELATION: Final = 1  # cudnnConvolutionMode_t: the window is not reversed
DEFAULT, TENSOR, FMA = 0, 1, 3  # cudnnMathType_t; by default f32 may be rounded to TF32
SUMS: Final = {"forward": "Forward", "image": "BackwardData", "weights": "BackwardFilter"}
ALGORITHMS: Final = {"forward": (0, 1, 2, 3), "image": (1,), "weights": (1,)}  # implicit and explicit products
MOST_FOUND: Final = 16  # ways that the library lists
_WITH_ARRAYS: Final = (_P,) * 5
ENTRIES: Final[dict[str, tuple[Any, ...]]] = {
    "cudnnCreate": (POINTER(_P),),
    "cudnnDestroy": (_P,),
    "cudnnSetStream": (_P, _P),
    "cudnnCreateTensorDescriptor": (POINTER(_P),),
    "cudnnDestroyTensorDescriptor": (_P,),
    "cudnnSetTensor4dDescriptorEx": (_P,) + (c_int,) * 9,
    "cudnnCreateFilterDescriptor": (POINTER(_P),),
    "cudnnDestroyFilterDescriptor": (_P,),
    "cudnnSetFilter4dDescriptor": (_P,) + (c_int,) * 6,
    "cudnnCreateConvolutionDescriptor": (POINTER(_P),),
    "cudnnDestroyConvolutionDescriptor": (_P,),
    "cudnnSetConvolution2dDescriptor": (_P,) + (c_int,) * 8,
    "cudnnSetConvolutionGroupCount": (_P, c_int),
    "cudnnSetConvolutionMathType": (_P, c_int),
    **{f"cudnnGetConvolution{s}Algorithm_v7": (*_WITH_ARRAYS, c_int, POINTER(c_int), _P) for s in SUMS.values()},
    **{f"cudnnGetConvolution{s}WorkspaceSize": (*_WITH_ARRAYS, c_int, POINTER(c_size_t)) for s in SUMS.values()},
    **{f"cudnnConvolution{s}": (_P,) * 7 + (c_int, _P, c_size_t, _P, _P, _P) for s in SUMS.values()},
}


class _Algorithm(Structure):
    """cudnnConvolutionFwdAlgoPerf_t, and those of the gradients: a way to compute a convolution."""

    _fields_ = (("algorithm", c_int), ("status", c_int), ("time", c_float), ("workspace", c_size_t),
                ("deterministic", c_int), ("mathematics", c_int), ("reserved", c_int * 3))  # fmt: skip


class Cudnn(DeviceLibrary):
    """The library for convolutions. Its version is counted as 8_9_07, from 9 on as 9_01_00."""

    name, computes, prefix = "cuDNN", "convolutions", "cudnn"
    file, versions = "libcudnn", (".9", ".8")
    wheel, variable = "nvidia-cudnn-cu13", "PULLBACK_CUDNN"
    version, oldest = "cudnnGetVersion", 8_0_00
    entries, most = ENTRIES, 256 << 20

    def begin(self, struct: LibraryStruct) -> None:
        """Store the entry points that the host program calls."""
        struct.on = self.address("cudnnSetStream")

    def prepare(self, owner: Prepared, call: LibraryConvolution) -> tuple[CallStruct, int]:
        """Choose how to compute a convolution."""
        sums, what = SUMS[call.kind], self._convolution(owner, call)
        left, right, out = (self._array(owner, call, a) for a in call.arrays)
        given = (owner.handle, left, right, what, out)
        way = self._way(call, given)
        if _mathematics(call) != FMA:
            self("cudnnSetConvolutionMathType", what, way.mathematics)
        count = c_size_t()
        self(f"cudnnGetConvolution{sums}WorkspaceSize", *given, way.algorithm, byref(count))
        if count.value > self.most:
            raise LibraryError(_no_way(call))
        one, zero = owner.factors(call.dtype)
        return CallStruct(convolve=self.address(f"cudnnConvolution{sums}"), what=what, left=left, right=right, out=out,
                          one=one, zero=zero, algorithm=way.algorithm), count.value  # fmt: skip

    def _way(self, call: LibraryConvolution, given: tuple[_P, ...]) -> _Algorithm:
        """The first way in the library's list, which begins with the fastest, that may be used."""
        ways, found = (_Algorithm * MOST_FOUND)(), c_int()
        try:
            self(f"cudnnGetConvolution{SUMS[call.kind]}Algorithm_v7", *given, MOST_FOUND, byref(found), ways)
        except LibraryError:
            found.value = 0
        permitted = (DEFAULT, FMA) if _mathematics(call) == FMA else (DEFAULT, FMA, TENSOR)
        for way in ways[: found.value]:
            if (not way.status and way.algorithm in ALGORITHMS[call.kind] and way.deterministic
                    and way.workspace <= self.most and way.mathematics in permitted):  # fmt: skip
                return way
        raise LibraryError(_no_way(call))

    def _convolution(self, owner: Prepared, call: LibraryConvolution) -> _P:
        made = owner.own(after="ConvolutionDescriptor")
        (top, left), (down, across), (high, wide) = call.padding, call.stride, call.dilation
        sums = TYPES["f64" if call.dtype.name == "f64" else "f32"]
        self("cudnnSetConvolution2dDescriptor", made, top, left, down, across, high, wide, CORRELATION, sums)
        self("cudnnSetConvolutionGroupCount", made, call.groups)
        self("cudnnSetConvolutionMathType", made, _mathematics(call))
        return made

    def _array(self, owner: Prepared, call: LibraryConvolution, a: Image) -> _P:
        """The library's description of an array."""
        kind = TYPES[call.dtype.name]
        if a is call.weights:
            made = owner.own(after="FilterDescriptor")
            self("cudnnSetFilter4dDescriptor", made, kind, FORMATS[a.last], *a.sizes)
        else:
            made = owner.own(after="TensorDescriptor")
            self("cudnnSetTensor4dDescriptorEx", made, kind, *a.sizes, *a.strides)
        return made


def _mathematics(call: LibraryConvolution) -> int:
    """The numbers that the library may compute with."""
    if call.dtype.name == "f32" and not call.tf32:
        return FMA
    return TENSOR if call.dtype.is_half else DEFAULT


def _no_way(call: LibraryConvolution) -> str:
    words = {"forward": "a convolution", "image": "the gradient by the image of a convolution",
             "weights": "the gradient by the weights of a convolution"}  # fmt: skip
    image, weights = ("x".join(map(str, a.sizes)) for a in (call.image, call.weights))
    return f"cuDNN has no way to compute {words[call.kind]} of {image} by {weights}"
