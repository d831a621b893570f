"""Arguments of a call: leaves (arrays, numbers, values), and the input arrays of a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any, Literal, Self

import numpy as np

from pullback.calls.extents import Token, parse_dim
from pullback.device import is_on_device
from pullback.errors import DTypeError, PullbackError, ShapeError, TraceError
from pullback.ir import types
from pullback.ir.halves import to_half
from pullback.ir.index import Index, symbol
from pullback.ir.types import DType, bf16, bits_of
from pullback.records import dataclass, field
from pullback.tracing import tree
from pullback.tracing.array import Array, type_text
from pullback.tracing.distinct import distinct
from pullback.tracing.making import unmasked
from pullback.tracing.tree import Structure

NDArray = np.ndarray[Any, Any]
LeafKind = Literal["array", "int", "float", "bool", "size", "static", "index"]


class Origin:
    """The origin of a leaf that has its own dims."""

    def with_dims(self, extents: Sequence[Index]) -> Self:
        """The origin for an array of these sizes."""
        raise NotImplementedError


@dataclass(frozen=True)
class Leaf:
    """One argument of the program: its path in the user's spelling, dtype and dims.

    Static values are not in the program, nor are indices of an enclosing function. Values are distinguished by their
    `key`.
    """

    path: str
    kind: LeafKind
    dtype: DType | None = None
    dims: tuple[Token, ...] = ()
    value: Any = field(default=None, compare=False)
    size: str = ""
    key: Hashable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", None if self.value is None else distinct(self.value))

    @property
    def extents(self) -> tuple[Index, ...]:
        """The sizes of the array."""
        return tuple(parse_dim(t, self.path) for t in self.dims)

    @property
    def own_dims(self) -> list[Index]:
        """The sizes, or the size, in the names of the annotation."""
        if self.kind == "size":
            return [symbol(self.size)]
        return [parse_dim(t, self.path) for t in self.dims if isinstance(t, str)]

    def with_dims(self, extents: Sequence[Index]) -> Leaf:
        """The leaf of an array of these sizes, ignoring the annotation."""
        value = self.value.with_dims(extents) if isinstance(self.value, Origin) else self.value
        return dataclasses.replace(self, dims=tuple(extents), value=value)

    def with_size(self, extent: Index) -> Leaf:
        """The leaf of a known size."""
        return Leaf(self.path, "index", value=extent)

    @property
    def is_input(self) -> bool:
        """Whether the leaf is an input array of the program; sizes, static values and indices are not."""
        return self.kind not in ("static", "size", "index")


class Undetermined(Exception):
    """Raised if an annotation is incomplete and an argument is needed."""


MISSING: Any = object()


Leaves = tuple[Structure, list[Leaf], list[Any]]


def as_numpy(value: Any, path: str) -> Any:
    """Convert an argument to a NumPy array or a device array, without a copy if its memory can be shared."""
    if isinstance(value, np.ndarray):
        return value if type(value) is np.ndarray else unmasked(value, path)
    if isinstance(value, np.generic | bool | int | float | list | tuple | memoryview | bytearray | bytes):
        return np.asarray(value)
    refused = ""
    try:
        if hasattr(value, "__dlpack__"):
            if is_on_device(value):
                from pullback.runtime.device.array import taken

                return taken(value, path)
            return np.from_dlpack(value)
        if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
            return np.asarray(value)
        return np.asarray(memoryview(value))
    except PullbackError:
        raise
    except (BufferError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        if hasattr(value, "__dlpack__") or hasattr(value, "__array__"):
            refused = f", and its conversion failed: {error}"
    raise TraceError("E138", f"{path}: {found_text(value)} was given where an array is needed{refused}",
                     remedy="pass a NumPy array, or an object with DLPack or the buffer protocol")


def array_of(value: list[Any] | tuple[Any, ...], path: str, allowed: Sequence[DType]) -> Any:
    """Convert a list of numbers, which has no element type itself, to an array of an allowed type.

    Raises:
        TraceError: [E138] it is ragged, or holds values that are not numbers. DTypeError: [E122] numbers of another
        kind. [E124] an integer does not fit.
    """
    if any(isinstance(x, Array) for x in tree.flatten(value)[0]):
        from pullback.arrays.creation import asarray

        return asarray(value)
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    found = types.dtype_of(array.dtype)
    if found is None:
        kinds_held = {"U": "strings", "c": "complex numbers"}
        held = kinds_held.get(array.dtype.kind, "no numbers, or rows that differ in length")
        raise TraceError(
            "E138",
            f"{path}: the {type(value).__name__} holds {held}",
            remedy="nested lists of numbers, all rows of one length",
        )
    kinds = ("signed", "unsigned", "floating") if found.is_integer else (found.kind,)
    fitting = [d for d in allowed if d is found] or [d for k in kinds for d in reversed(allowed) if d.kind == k]
    if not array.size:
        fitting = [allowed[-1]]
    if not fitting:
        kind = {"b": "bools", "f": "floats"}.get(array.dtype.kind, "ints")
        raise DTypeError(
            "E122",
            f"{path} is a {type(value).__name__} of {kind}, its annotation says {dtypes_text(allowed)}",
            remedy=f"`np.array({path}).astype(np.{allowed[-1].numpy})` converts it",
        )
    target = fitting[0]
    if target.is_integer and array.size and not target.minimum <= array.min() <= array.max() <= target.maximum:
        odd = array.min() if array.min() < target.minimum else array.max()
        raise DTypeError("E124", f"{path} holds {odd}, which does not fit {target}", remedy="another element type")
    return array.astype(target.numpy)


def is_array_like(value: Any) -> bool:
    """Whether an argument without annotation is an array rather than a Python object."""
    if isinstance(value, np.ndarray | np.generic | list | tuple | memoryview | bytearray | bytes):
        return True
    return any(hasattr(value, name) for name in ("__dlpack__", "__array__", "__array_interface__"))


def numpy_dtype(array: np.ndarray[Any, Any], path: str) -> DType:
    """The dtype of a NumPy argument; foreign byte order and types without counterpart are errors."""
    found = types.dtype_of(array.dtype)
    if found is not None:
        return found
    code, what = "E122", f"{path} has NumPy dtype {array.dtype}, which has no counterpart in the language"
    remedy = types.conversion(array.dtype, path)
    if array.dtype.kind == "c":
        what, remedy = f"{path} holds complex numbers, its annotation says real ones", f"`{path}.real`"
    elif types.dtype_of(array.dtype.newbyteorder("=")) is not None:
        code, what = "E123", f"{path} has foreign byte order ({array.dtype.str})"
    raise DTypeError(code, what, remedy=remedy)


def argument_type(value: Any, path: str, allowed: Sequence[DType]) -> tuple[DType | None, int]:
    """The dtype and rank of an argument; the dtype is None for Python numbers and weak values."""
    if type(value) is np.ndarray:
        return numpy_dtype(value, path), value.ndim
    if isinstance(value, Array):
        return value.strong and value.storage, value.rank
    if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
        return None, 0
    array = as_numpy(value, path)
    return getattr(array, "storage", None) or numpy_dtype(array, path), array.ndim


def dtypes_text(allowed: Sequence[DType]) -> str:
    """`float32 or float64`."""
    return " or ".join(d.title for d in allowed)


def wrong_dtype(path: str, allowed: Sequence[DType], found: DType, value: Any) -> DTypeError:
    """The error for an argument whose element type differs from the annotation."""
    wanted = dtypes_text(allowed)
    if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
        kind = type(value).__name__
        python = "bool" if allowed[-1].is_bool else "int" if allowed[-1].is_integer else "float"
        what = f"{path} is {value!r}, a {kind}; its annotation says {wanted}"
        return DTypeError("E122", what, remedy=f"`{python}({path})`")
    module = "pb" if isinstance(value, Array) else "np"
    return DTypeError(
        "E122",
        f"{path} has dtype {found.title}, its annotation says {wanted}",
        remedy=f"`{path}.astype({module}.{allowed[-1].title})` converts it",
    )


def found_text(value: Any) -> str:
    """The description of a given value, for messages."""
    if isinstance(value, Array):
        return f"a traced {type_text(value)}"
    kind = type(value).__name__
    return "None" if value is None else f"{'an' if kind[0] in 'aeioAEIO' else 'a'} {kind}"


def prepare(leaves: Sequence[Leaf], values: Sequence[Any]) -> tuple[list[NDArray], dict[str, int]]:
    """Convert arguments to C-contiguous arrays of the right element type; also return the sizes."""
    arrays: list[NDArray] = []
    sizes: dict[str, int] = {}
    for leaf, value in zip(leaves, values):
        if leaf.kind in ("static", "index"):
            continue
        if leaf.kind == "size":
            if leaf.size in sizes and sizes[leaf.size] != int(value):
                raise ShapeError("E111", f"{leaf.path} = {int(value)}, but {leaf.size} = {sizes[leaf.size]}")
            sizes[leaf.size] = int(value)
            continue
        arrays.append(_array(leaf, value))
    return arrays, sizes


def _array(leaf: Leaf, value: Any) -> Any:
    assert leaf.dtype is not None
    wanted = leaf.dtype.numpy
    if leaf.kind != "array" or (isinstance(value, bool | int | float) and not isinstance(value, np.generic)):
        return _number(leaf, value)
    array = as_numpy(value, leaf.path)
    if leaf.dtype is bf16:
        array = bits_of(array)
    if array.dtype != wanted:
        raise wrong_dtype(leaf.path, [leaf.dtype], numpy_dtype(array, leaf.path), value)
    if isinstance(array, np.ndarray) and not (array.flags.c_contiguous and array.flags.aligned):
        array = np.array(array, order="C", copy=True).reshape(array.shape)
    return array


def _number(leaf: Leaf, value: Any) -> NDArray:
    assert leaf.dtype is not None
    array = np.asarray(as_numpy(value, leaf.path))
    if array.ndim:
        raise ShapeError(
            "E110",
            f"{leaf.path} is a number, and an array of shape {array.shape} was given",
            remedy='`Float64[Array, "N"]` annotates an array; `pb.vmap` maps a function of numbers over one',
        )
    found = numpy_dtype(array, leaf.path)
    allowed = {
        "bool": found.is_bool,
        "signed": found.is_integer,
        "unsigned": found.is_integer,
        "floating": found.is_integer or found.is_floating,
        "half": found.is_integer or found.computed.is_floating,
    }
    if not allowed[leaf.dtype.kind]:
        raise wrong_dtype(leaf.path, [leaf.dtype], found, value)
    if leaf.dtype.is_integer and not leaf.dtype.minimum <= int(array) <= leaf.dtype.maximum:
        raise DTypeError("E124", f"{leaf.path} = {int(array)} does not fit {leaf.dtype}")
    if leaf.dtype.is_half and found is not leaf.dtype:
        return to_half(array, leaf.dtype).view(leaf.dtype.numpy)
    return bits_of(array).astype(leaf.dtype.numpy)


