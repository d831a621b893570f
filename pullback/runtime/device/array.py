"""Arrays on a device, and their exchange with other libraries by DLPack.

A complex array is two arrays, its parts, as in programs. Other libraries store the parts of an element side by side.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final, Protocol

import numpy as np

from pullback.device import KINDS, is_on_device
from pullback.errors import DeviceError, DTypeError, OutOfMemoryError
from pullback.ir.types import DType, bits_of, dtype_of
from pullback.runtime.buffer import NDArray
from pullback.runtime.device.dlpack import CODES, COMPLEX, CPU, Foreign, capsule_of
from pullback.runtime.device.driver import Gpu, StatusError
from pullback.runtime.device.listing import gpu, named
from pullback.source import user_position

__all__ = ["ComplexDeviceArray", "DeviceArray", "device_put"]

SHOWN: Final = 1000  # most elements that `repr` copies to the host


class Memory:
    """A block of a device's memory, freed when nothing refers to it.

    Attributes:
        at: its handle for the driver.   shared: whether another library has used the block.
    """

    __slots__ = ("_count", "_gpu", "at", "shared")

    def __init__(self, gpu: Gpu, count: int, what: str) -> None:
        """Allocate `count` bytes; `what` is a row for the error."""
        self._gpu, self._count, self.shared = gpu, count, False
        self.at = gpu.kept(count)
        if not self.at:
            with gpu.current(what):
                self.at = _allocated(gpu, count, what)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.at and not is_ending():  # then names of modules may be gone
            try:
                self._gpu.release(self.at, self._count, self.shared)
            except DeviceError:  # the device is lost, and its memory with it
                pass


def _allocated(gpu: Gpu, count: int, what: str) -> int:
    """Allocate memory of the driver, if need be after it has got back what is kept."""
    try:
        return gpu.allocate(count)
    except StatusError as error:
        if error.status not in gpu.full:
            raise
        if not gpu.trim():
            raise no_memory(gpu, what, count, [f"{what}, {count:,} bytes"]) from None
    return _allocated(gpu, count, what)


def no_memory(gpu: Gpu, what: str, count: int, rows: Sequence[str]) -> OutOfMemoryError:
    """The error for an allocation that does not fit on a device.

    Args:
        what: the subject.   count: the requested bytes.   rows: the arrays that need them.
    """
    free, total = gpu.free_bytes()
    facts = [*rows, f"{free:,} of {total:,} bytes are free"]
    facts += [f"an allocation has at most {gpu.largest:,} bytes"] * (count > gpu.largest)
    return OutOfMemoryError("E421", f"{what}: {gpu.name} has no memory for {count:,} bytes", position=user_position(),
                            facts=facts, remedy="smaller arguments, fewer arrays on the device, or another device")


class Pending(Protocol):
    """The index checks of a call that may still run."""

    def verify(self) -> None:
        """Wait for the call, and raise the error of a failed check."""


class DeviceArray:
    """An immutable array in the memory of a device, stored row by row.

    Functions take and return it; `pb.device_put` makes one of a NumPy array. The call that computes it may still run.
    `numpy`, `np.asarray`, `item` and `float` wait, and copy to the host. PyTorch, JAX and CuPy share its memory through
    DLPack if the device is one of CUDA.

    Attributes:
        shape: the sizes.   dtype: NumPy's element type; bfloat16 arrays hold their bits as uint16.
        device: the device's name, such as "cuda:0".   at: the address, or the `cl_mem` of OpenCL.
        ndim, size, nbytes: as in NumPy.

    >>> x = pb.device_put(np.ones(3), pb.devices()[-1].name)  # a NumPy array if there is only the processor
    >>> np.asarray(pb.function(lambda x: 2 * x)(x)).tolist()
    [2.0, 2.0, 2.0]
    """

    __slots__ = ("__weakref__", "at", "gpu", "memory", "pending", "shape", "storage")

    def __init__(self, gpu: Gpu, shape: tuple[int, ...], storage: DType, memory: Memory | Foreign, at: int,
                 pending: tuple[Pending, ...] = ()) -> None:  # fmt: skip
        self.gpu, self.shape, self.storage = gpu, shape, storage
        self.memory, self.at, self.pending = memory, at, pending

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type as NumPy's; uint16 for the bits of bfloat16."""
        return self.storage.numpy

    @property
    def device(self) -> str:
        """The name of the device, such as "cuda:0"."""
        return self.gpu.name

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def _type(self) -> str:
        return self.storage.title

    def pair_with(self, imag: DeviceArray) -> ComplexDeviceArray:
        """The complex array with this real part."""
        return ComplexDeviceArray(self, imag)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array of rank 0 has no length")
        return self.shape[0]

    def ready(self) -> DeviceArray:
        """Wait until the array is computed, and return the array itself, without a copy.

        Raises:
            IndexRangeError: [E401] an index left its range in a call that the array depends on.
            DeviceError: [E420] the device failed.
        """
        self.gpu.wait()
        self.verify()
        return self

    def verify(self) -> None:
        """Wait for the index checks of the calls that the array depends on; raise the error of a failed one."""
        for p in self.pending:
            p.verify()
        self.pending = ()

    def numpy(self) -> NDArray:
        """Wait until the array is computed, and copy it to a new NumPy array.

        Returns:
            An array of the same shape and `dtype`.
        Raises:
            IndexRangeError: [E401] see `ready`.   DeviceError: [E420] see `ready`.
        Cost:
            One copy from the device.
        """
        self.verify()
        made = np.empty(self.shape, self.dtype)
        with self.gpu.current("reading an array"):
            self.gpu.fetch(made, self.at)
        return made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        if copy is False:
            raise ValueError("an array on a device is copied to the host")
        made = self.numpy()
        return made if dtype is None else made.astype(dtype, copy=False)

    def item(self) -> Any:
        """Return the only element as a Python number, after `numpy`; ValueError if there are several."""
        return self.numpy().item()

    def tolist(self) -> Any:
        """Return the elements as nested lists, after `numpy`."""
        return self.numpy().tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __copy__(self) -> DeviceArray:
        return self

    def __deepcopy__(self, memory: Any) -> DeviceArray:
        return self

    def __reduce__(self) -> Any:
        return np.asarray, (self.numpy(),)  # other processes have a copy on the host

    def __repr__(self) -> str:
        if self.size > SHOWN:
            shown = f"{self._type}[{', '.join(map(str, self.shape))}]"
        else:
            shown = np.array2string(self.numpy(), prefix="DeviceArray(", separator=", ")
        return f"DeviceArray({shown}, {self.device})"

    def __dlpack_device__(self) -> tuple[int, int]:
        return KINDS[self.gpu.kind], self.gpu.number

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:  # fmt: skip
        """Share the memory with another library, whose stream waits for the calls that compute the array.

        Args:
            stream: the library's stream; None is the default stream, -1 asks for no wait.
            max_version: the latest version of DLPack that the library reads.
            dl_device: the device to copy to; None for the array's own.
            copy: whether to copy the array first.

        Raises:
            BufferError: `dl_device` is neither the array's own device nor the host, or `copy` is False and the array
                is complex.
            ValueError: `stream` is 0, which has two meanings.
            DeviceError: [E422] the device is one of OpenCL, whose arrays other libraries cannot share.
        """
        if dl_device is not None and tuple(dl_device) == (CPU, 0) and copy is not False:
            return self.numpy().__dlpack__()
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the array is on {self.device}")
        if stream == 0:
            raise ValueError("stream=0 is ambiguous: 1 is the default stream, 2 that of the thread")
        self.verify()
        array = self._block(copy)
        self.gpu.follow(1 if stream is None else stream)
        if isinstance(array.memory, Memory):
            array.memory.shared = True
        return capsule_of(array, array.at, self.shape, self._code, self.__dlpack_device__(), max_version)

    @property
    def _code(self) -> tuple[int, int]:
        return CODES[self.storage]

    def _block(self, copy: bool | None) -> DeviceArray:
        """The array whose memory another library shares."""
        return copied(self) if copy else self


class ComplexDeviceArray(DeviceArray):
    """An immutable complex array on a device, as two real arrays; see `DeviceArray`.

    Other libraries get a copy, with the parts of each element side by side.

    Attributes:
        real, imag: the parts, which are arrays on the device.
    """

    __slots__ = ("imag", "real")  # it has no `storage`, so that real arguments refuse it
    is_pair: Final = True

    def __init__(self, real: DeviceArray, imag: DeviceArray) -> None:
        self.gpu, self.shape = real.gpu, real.shape
        self.real, self.imag = real, imag

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type, complex64 or complex128."""
        return np.result_type(self.real.dtype, np.complex64)

    @property
    def _type(self) -> str:
        return str(self.dtype)

    def verify(self) -> None:
        """Wait for the index checks of the calls that the array depends on; raise the error of a failed one."""
        self.real.verify()
        self.imag.verify()

    def numpy(self) -> NDArray:
        """Wait until the array is computed, and copy it to a new NumPy array; see `DeviceArray.numpy`."""
        made = np.empty(self.shape, self.dtype)
        made.real, made.imag = self.real.numpy(), self.imag.numpy()
        return made

    def __complex__(self) -> complex:
        return complex(self.item())

    @property
    def _code(self) -> tuple[int, int]:
        return COMPLEX, 8 * self.dtype.itemsize

    def _block(self, copy: bool | None) -> DeviceArray:
        if copy is False:
            raise BufferError("the parts of a complex array on a device are two arrays: another library gets a copy")
        width = self.real.storage.size
        made = empty(self.gpu, (*self.shape, 2), self.real.storage, "a copy")
        with self.gpu.current("a copy"):
            for k, part in enumerate((self.real, self.imag)):
                self.gpu.copy_apart(made.at + k * width, 2 * width, part.at, width, width, self.size)
        return made


def _parts(x: Foreign, found: Gpu, storage: DType, path: str) -> ComplexDeviceArray:
    """Copy the parts of another library's complex array on its device."""
    parts = [empty(found, x.shape, storage, path) for _ in range(2)]
    width = storage.size
    with found.current(path):
        for k, part in enumerate(parts):
            found.copy_apart(part.at, width, x.at + k * width, 2 * width, width, part.size)
    x.was_read(found)
    return ComplexDeviceArray(*parts)


def copied(x: DeviceArray) -> DeviceArray:
    """Copy an array on its own device."""
    made = empty(x.gpu, x.shape, x.storage, "a copy")
    if x.nbytes:
        with x.gpu.current("a copy"):
            x.gpu.copy(made.at, x.at, x.nbytes)
    return made


def ranged(x: DeviceArray, low: int, high: int) -> DeviceArray:
    """The elements from `low` to `high`, row by row, as a vector on the same memory."""
    return DeviceArray(x.gpu, (high - low,), x.storage, x.memory, x.at + low * x.storage.size, x.pending)


def aligned(x: DeviceArray, to: int) -> DeviceArray:
    """The array if its address is a multiple of `to`, else a copy.

    Arrays of other libraries may begin anywhere.
    """
    if x.at % to == 0:
        return x
    made = copied(x)
    if not isinstance(x.memory, Memory):
        x.memory.was_read(x.gpu)
    return made


def empty(gpu: Gpu, shape: tuple[int, ...], storage: DType, what: str) -> DeviceArray:
    """Allocate an array without initial values; `what` names it in errors."""
    memory = Memory(gpu, prod(shape) * storage.size, described(what, storage, shape))
    return DeviceArray(gpu, shape, storage, memory, memory.at)


def described(what: str, storage: DType, shape: tuple[int, ...]) -> str:
    """The description of an array in errors."""
    return f"{what} : {storage.name}[{', '.join(map(str, shape))}]"


def sent(gpu: Gpu, array: NDArray, storage: DType, what: str) -> DeviceArray:
    """Copy a NumPy array to a device."""
    made = empty(gpu, array.shape, storage, what)
    with gpu.current(what):
        gpu.send(made.at, array)
    return made


def taken(x: Any, path: str) -> DeviceArray:
    """Take an array of another library on a device, without a copy unless it is complex.

    Raises:
        DeviceError: [E422] it is not stored row by row, or on a device of OpenCL.
        DTypeError: [E122] its element type has no counterpart.
    """
    if isinstance(x, DeviceArray):
        return x
    if hasattr(x, "__device_array__"):  # of a lazy array
        return x.__device_array__()  # type: ignore[no-any-return]
    kind, number = x.__dlpack_device__()
    if kind == KINDS["opencl"]:
        raise DeviceError("E422", f"{path} is on a device of OpenCL, and of another library", position=user_position(),
                          remedy="copy it to the host: DLPack does not say in which context it is")
    found = gpu(f"cuda:{number}")
    foreign = Foreign(x, found.stream)
    if foreign.storage is None and foreign.part is None:
        raise DTypeError("E122", f"{path} has the element type {foreign.type_text}, which has no counterpart in the "
                         "language", remedy="convert it first")  # fmt: skip
    if not foreign.is_contiguous:
        raise DeviceError("E422", f"{path} is on {found.name}, and not stored row by row", position=user_position(),
                          remedy=f"`{path}.contiguous()` in PyTorch, `cupy.ascontiguousarray({path})`")
    if foreign.part is not None:
        return _parts(foreign, found, foreign.part, path)
    assert foreign.storage is not None
    return DeviceArray(found, foreign.shape, foreign.storage, foreign, foreign.at)


def device_put(x: Any, device: str | None = None) -> Any:
    """Put an array on a device.

    Args:
        x: a NumPy array of any shape, a `DeviceArray`, or an array of another library with DLPack. The element type
            is a bool, an integer, a float of 16, 32 or 64 bits, or complex.
        device: a name of `pb.devices`, such as "cuda:0" or "opencl:0"; "cpu" gives a NumPy array. By default an array
            on a device stays where it is, and others go to "cuda:0".
    Returns:
        A `DeviceArray` with the shape and element type of `x`. If `x` is real and on this device, it shares the memory
        of `x`.
    Raises:
        DeviceError: [E418] there is no driver or no such device. [E420] the device failed. [E422] `x` is on a device,
            and not stored row by row.
        DTypeError: [E122] the element type has no counterpart in the language.
        OutOfMemoryError: [E421] the array does not fit.
    Cost:
        One copy, unless `x` is a `DeviceArray` on the device, or a real array there.

    >>> pb.device_put(np.arange(3), "cpu").tolist()
    [0, 1, 2]
    """
    here = taken(x, "x") if is_on_device(x) else None
    if device == "cpu":
        return np.asarray(x) if here is None else here.numpy()
    target = gpu(named(device or "cuda")) if here is None or device else here.gpu
    if here is not None and here.gpu is target:
        return here
    array = np.asarray(x if here is None else here)
    if array.dtype in (np.complex64, np.complex128):
        return ComplexDeviceArray(*(device_put(part, target.name) for part in (array.real, array.imag)))
    storage = dtype_of(array.dtype) if here is None else here.storage
    if storage is None:
        raise DTypeError("E122", f"x has NumPy dtype {array.dtype}, which has no counterpart in the language",
                         position=user_position(), remedy="convert it in NumPy first")
    return sent(target, np.asarray(bits_of(array), order="C"), storage, "x")
