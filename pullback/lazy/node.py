"""Lazy arrays: values, or pending operations on other lazy arrays.

    application, operands      the operation that computes the array; None for a leaf
    value                      the elements once computed, otherwise None
    tracked                    whether the array depends on a weight or an argument of `lazy.grad`
    origin                     the tape of the value, and the number of its result (`lazy.tape`)

`lazy.methods` adds operators and methods to the class, from those of traced arrays.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

import numpy as np

from pullback.device import KINDS
from pullback.errors import DTypeError
from pullback.ir.types import conversion
from pullback.lazy import elsewhere
from pullback.lazy.typed import DTypeT, ShapeT, Typed
from pullback.lazy.types import ArrayType, type_of_value
from pullback.source import user_position
from pullback.tracing.devices import CPU
from pullback.tracing.elsewhere import member

__all__ = ["BUSY", "LOCK", "SERIALS", "Array", "added", "leaf", "leaf_of", "stored", "value_of", "waiting"]

LOCK: Final = threading.RLock()  # held by who computes arrays, or reads operands of nodes that are not its own


class _Busy:
    """The number of calls inside LOCK, changed by its holder. C needs no LOCK while it is 0.

    An interrupt between two lines may leave it too large, and then C takes LOCK each time.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *error: object) -> None:
        self.count -= 1


BUSY: Final = _Busy()
SHOWN: Final = 1000  # most elements that `repr` copies from a device
SERIALS: Final = itertools.count()
_next: Final = SERIALS.__next__
_new: Final = object.__new__


class Array(Typed[ShapeT, DTypeT]):
    """An array that is computed when its value is needed.

    Operators, methods, indexing and functions are those of traced arrays; `await`, `float`, `int`, `bool`, NumPy,
    DLPack and printing need the value. See `pullback.lazy`.

    Cost:
        A node takes 0.1 to 1 µs. The value of a known structure takes half a microsecond and 0.1 for each node below;
        other values take 13 µs of Python and 1 for each. Kernels come on top.
    """

    __slots__ = ("__weakref__", "_share", "application", "operands", "origin", "serial", "tracked", "type", "value")
    written: ClassVar[bool] = False  # whether it stands for other elements than those of the node (`lazy.memory`)
    namespace: ClassVar[Any]  # `pullback.lazy`, which sets it
    forced: ClassVar[Callable[[list[Array]], None]]  # computes arrays; `lazy.running` sets it
    awaited: ClassVar[Callable[[list[Array]], Generator[Any, Any, None]]]  # the same for `await`
    moved: ClassVar[Callable[[Array, Any], Array]]  # copies to another device; `lazy.copies` sets it
    check: ClassVar[Callable[[Array, str], None]]  # refuses values that gradients depend on; `lazy.leaving` sets it
    watched: ClassVar[Callable[[Array], None]]  # records what a view is a view of; `lazy.memory` sets it

    type: ArrayType  # None for an operation with several results, which users never see
    application: Any  # an `operation.Application`; None for a leaf
    operands: tuple[Array, ...]
    value: Any
    origin: Any  # (tape, result number), the weight of a leaf, or None
    _share: Any  # its part in a memory, set if it has views or was written (`lazy.memory`)

    def __init__(self, application: Any, operands: tuple[Array, ...], tracked: bool) -> None:
        self.application = application
        self.operands = operands
        self.type = application.type
        self.tracked = tracked and application.floating
        self.serial = _next()
        self.value = self.origin = None

    # Known before anything runs -----------------------------------------------------------------------------

    @property
    def leaf(self) -> Array[ShapeT, DTypeT]:
        """The array as an operand: itself."""
        return self

    @property
    def shape(self) -> ShapeT:
        """The sizes of the axes."""
        return self.type.shape  # type: ignore[return-value]  # what the annotation says

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.type.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.type.size

    @property
    def device(self) -> str:
        """The device of the array: "cpu", or a name of `pb.devices` such as "cuda:0"."""
        return self.type.device or CPU

    def to_device(self, device: Any, /, *, stream: Any = None) -> Array[ShapeT, DTypeT]:
        """Copy the array, computed now if necessary, to another device; derivatives pass through.

        Args:
            device: "cpu", or a name of `pb.devices`.
            stream: ignored; all work of a device is in one order.
        Returns:
            The array itself, if it is on this device.
        Raises:
            DeviceError: [E418] there is no driver or no such device.   TraceError: [E145] no device has such a name.
            OutOfMemoryError: [E421] the array does not fit.
        Cost:
            One copy. Only a copy to the processor waits.
        """
        return Array.moved(self, device)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        return Array.namespace

    # The value ------------------------------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray[ShapeT, np.dtype[DTypeT]]:
        """Return the value, computed now if necessary, as a read-only array; from a device as a copy.

        Raises:
            DerivativeError: [E715] an active gradient depends on the array. All other conversions raise this, too.

        >>> from pullback import lazy
        >>> (lazy.asarray([1.0, 2.0]) * 2.0).numpy()
        array([2., 4.])
        """
        Array.check(self, "numpy()")
        return value_of(self)

    def item(self) -> Any:
        """Return the value of a one-element array as a Python number."""
        Array.check(self, "item()")
        return value_of(self).item()

    def tolist(self) -> Any:
        """Return the value as nested lists."""
        Array.check(self, "tolist()")
        return value_of(self).tolist()

    def __await__(self) -> Generator[Any, Any, np.ndarray[ShapeT, np.dtype[DTypeT]]]:
        Array.check(self, "await")
        if self.value is None:
            yield from Array.awaited([self])
        return value_of(self)

    async def predict(self) -> np.ndarray[ShapeT, np.dtype[DTypeT]]:
        """The value, as the result of `await`."""
        return await self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[ShapeT, np.dtype[DTypeT]]:
        Array.check(self, "conversion to NumPy")
        value = value_of(self)
        if copy or (dtype is not None and np.dtype(dtype) != value.dtype):
            return np.array(value, dtype)
        return value

    def __float__(self) -> float:
        Array.check(self, "float()")
        return float(value_of(self))

    def __complex__(self) -> complex:
        Array.check(self, "complex()")
        return complex(value_of(self))

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        Array.check(self, "DLPack")
        shared = stored(self) if self.type.device else np.array(value_of(self))
        asked = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        return shared.__dlpack__(**{name: v for name, v in asked.items() if v is not None})  # NumPy 1 knows one of them

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, _, number = self.type.device.partition(":")
        return (KINDS[kind], int(number)) if kind else (1, 0)

    def __device_array__(self) -> Any:
        Array.check(self, "conversion to an array on a device")
        return stored(self)

    def __reduce__(self) -> tuple[Any, ...]:
        Array.check(self, "pickling")
        return _unpickled, (value_of(self),)  # only the value: derivatives stay in their process

    # Piecewise constant conversions, which lose no derivative: control flow and text ------------

    def __bool__(self) -> bool:
        return bool(value_of(self))

    def __int__(self) -> int:
        return int(value_of(self))

    __trunc__ = __int__

    def __floor__(self) -> int:
        return math.floor(value_of(self))

    def __ceil__(self) -> int:
        return math.ceil(value_of(self))

    def __index__(self) -> int:
        return value_of(self).__index__()

    def __contains__(self, item: Any) -> bool:
        return bool((self == item).any())

    def __format__(self, wanted: str) -> str:
        return format(value_of(self).item(), wanted) if wanted else str(self)

    def __repr__(self) -> str:
        if self.type.device and self.size > SHOWN:
            return f"lazy({self.type})"
        return np.array2string(value_of(self), prefix="lazy(", suffix=")", separator=", ").join(("lazy(", ")"))

    def __str__(self) -> str:
        return str(value_of(self))

    def __len__(self) -> int:
        if not self.type.shape:
            raise TypeError("len() of a lazy array without axes")
        return self.type.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    __hash__ = object.__hash__

    def __copy__(self) -> Array:
        return +self  # for writes to one of both

    def __deepcopy__(self, memory: Any) -> Array:
        return memory.setdefault(id(self), +self)  # type: ignore[no-any-return]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            found = f"`lazy.{name}(x)`: it is a function" if callable(getattr(Array.namespace, name, None)) else ""
            found = member(type(self), name) or found
            raise elsewhere.unknown("a lazy array has no attribute", name, found)


def value_of(x: Array) -> np.ndarray[Any, Any]:
    """The value of an array for internal use, which loses no derivative; a copy if it is on a device."""
    found: np.ndarray[Any, Any] | None = x.value
    if found is None:
        Array.forced([x])
        found = x.value
    return found if found.__class__ is np.ndarray else found.numpy()  # type: ignore[union-attr]


def stored(x: Array) -> Any:
    """The value where it is: a NumPy array, or a `DeviceArray` whose call may still run."""
    if x.value is None:
        Array.forced([x])
    return x.value


def _unpickled(value: np.ndarray[Any, Any]) -> Array:
    return leaf(value)


def leaf(value: np.ndarray[Any, Any], tracked: bool = False) -> Array:
    """An array whose value is known."""
    type = type_of_value(value)
    if type is None:
        raise DTypeError(
            "E122",
            f"asarray: NumPy dtype {value.dtype} has no counterpart in the language",
            position=user_position(),
            remedy=conversion(value.dtype),
        )
    if not (flags := value.flags).c_contiguous or not flags.aligned:
        value = np.array(value, order="C")
    return leaf_of(value, type, tracked, None)


def leaf_of(value: np.ndarray[Any, Any], type: ArrayType, tracked: bool, origin: Any) -> Array:
    """An array with a value of this type, in row-major order."""
    made = _new(Array)
    made.application = None
    made.operands = ()
    made.type = type
    made.value = value
    made.tracked = tracked
    made.serial = _next()
    made.origin = origin
    return made


def waiting(application: Any, operands: tuple[Array, ...], serial: int, origin: Any) -> Array:
    """A node in the place of one that has ended, in the order in which that one was built."""
    made = _new(Array)
    made.application = application
    made.operands = operands
    made.type = application.type
    made.value = made._share = None
    made.tracked = application.floating and any(x.tracked for x in operands)
    made.serial = serial
    made.origin = origin
    return made


def added(x: Array, a: Any, b: Any) -> Any:
    """The sum of two cotangents of an array, on its device; elsewhere they may be of any type with `+`."""
    if not x.type.device:
        return a + b
    first, second = (leaf_of(d, x.type, False, None) for d in (a, b))
    return stored(first + second)
