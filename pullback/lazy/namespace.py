"""The lazy namespace: `pullback`'s functions under their names, for lazy arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any, Final

import numpy as np

from pullback.arrays.dtypes import API_VERSION, NamespaceInfo
from pullback.device import is_on_device
from pullback.errors import DTypeError
from pullback.lazy.copies import moved
from pullback.lazy.elsewhere import TRACED, unknown
from pullback.lazy.layers import lifted
from pullback.lazy.node import Array, leaf, value_of
from pullback.lazy.open_shapes import nonzero, sizes_of
from pullback.lazy.operation import Operation, apply, node_of, quick_key
from pullback.lazy.places import default_place, leaf_at, place_named
from pullback.lazy.plugins import PLUGGED
from pullback.lazy.promotion import NUMBERS, as_numpy, common_type
from pullback.lazy.types import array_type
from pullback.names import found, public
from pullback.source import user_position
from pullback.tracing.complex_array import ComplexType, complex_type
from pullback.tracing.devices import CPU
from pullback.tracing.making import unmasked

__all__ = ["asarray", "from_dlpack", "function_named", "lift", "names"]

INSPECTING: Final = frozenset({"can_cast", "finfo", "iinfo", "isdtype", "broadcast_shapes"})
MODULES: Final = frozenset({"linalg", "fft", "special", "random", "verbs"})


def names() -> list[str]:
    """The public names of the namespace."""
    return [n for n in public() if n not in TRACED]


def function_named(name: str) -> Any:
    """The object for a name of the namespace."""
    if name == "__array_api_version__":
        return API_VERSION
    if name == "__array_namespace_info__":
        return LazyInfo
    if name.startswith("_"):
        raise AttributeError(name)
    if name not in public() or name in TRACED:
        raise unknown("lazy has no", name)
    return _lazy(f"pb.{name}", found(name))


def _lazy(name: str, value: Any) -> Any:
    """Convert a member of `pullback` to a member of this namespace."""
    short = name.rpartition(".")[2]
    if isinstance(value, ModuleType):
        return _Module(name, value) if short in MODULES else value
    if short == "result_type":
        return _result_type(value)
    if short in INSPECTING:
        return _inspecting(value)
    if not callable(value) or isinstance(value, type) or hasattr(value, "numpy"):
        return value
    made = _function(Operation(name, as_numpy(name, value)), value)
    return _choosing(made) if name == "pb.where" else made


_SIMPLE: Final = frozenset({"axis", "keepdims"})  # keywords whose equal values are interchangeable


def _function(
    operation: Operation, traced: Callable[..., Any], as_layer: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """The function that builds nodes of an operation, by way of `as_layer` while there are plugins."""
    known: dict[Any, Any] = {}
    of_one: dict[Any, Any] = {}  # of one array alone, by its type
    plain = sizes_of(operation.name.removeprefix("pb."), traced)

    def function(*args: Any, **keywords: Any) -> Any:
        if as_layer is not None and PLUGGED:
            return as_layer(args, keywords)
        if len(args) == 1 and not keywords and (x := args[0]).__class__ is Array:
            application = of_one.get(x.type)
            if application is not None:
                return Array(application, args, x.tracked)
        operands: list[Array] = []
        key = quick_key(args, operands)
        if keywords and key is not None:
            if not _SIMPLE.issuperset(keywords):
                return apply(operation, *plain(args, keywords))
            key += tuple([v if v.__class__ is not list else tuple(v) for item in keywords.items() for v in item])
        application = known.get(key)
        if application is not None:
            return node_of(application, operands)
        node = apply(operation, *plain(args, keywords))
        if key is not None and isinstance(node, Array) and node.application.quick:
            if len(operands) == len(node.operands):  # no size was read from an array
                known[key] = node.application
                if len(args) == 1 and not keywords and args[0].__class__ is Array:
                    of_one[args[0].type] = node.application
        return node

    function.__name__ = function.__qualname__ = operation.name.rpartition(".")[2]
    function.__doc__ = traced.__doc__
    function.__wrapped__ = traced  # type: ignore[attr-defined]  # its signature is this one's
    return function


def _choosing(where: Callable[..., Any]) -> Callable[..., Any]:
    """`where`, which as NumPy's gives the positions of true elements without choices."""

    @functools.wraps(where)
    def choosing(condition: Any, *choices: Any) -> Any:
        return where(condition, *choices) if choices else nonzero(condition)

    return choosing


def lift(f: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a function of traced arrays, such as a layer, loop or derivative, into one lazy operation.

    Args:
        f: the function, traced or not. Arguments may be trees of arrays; other values are fixed.
    Returns:
        A function that builds a node, or a tree of nodes.
    Cost:
        The function is traced once per combination of types. Each node then takes a microsecond or two.

    >>> import pullback as pb
    >>> from pullback import lazy
    >>> power = lazy.lift(lambda x, n: pb.fold(n, pb.ones_like(x), lambda acc, i: acc * x))
    >>> float(lazy.grad(lambda x: power(x, 3))(2.0))
    12.0
    """
    names = (getattr(f, own, None) for own in ("__name__", "name", "kind"))  # the last two of layers of `pullback.nn`
    name = next((n for n in names if isinstance(n, str)), type(f).__name__)
    operation = Operation(f"lift.{name}", f, is_lifted=True)
    return _function(operation, f, partial(lifted, name, _function(operation, f)))


def _inspecting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of element types and shapes, which lazy arrays know without computing."""

    @functools.wraps(function)
    def inspect(*args: Any, **keywords: Any) -> Any:
        return function(*(x.dtype if isinstance(x, Array) else x for x in args), **keywords)

    return inspect


def _result_type(function: Callable[..., Any]) -> Callable[..., Any]:
    """`result_type`, of several kinds too, as operations on lazy arrays give it."""

    @functools.wraps(function)
    def result_type(*arrays_and_dtypes: Any) -> Any:
        numbers = [x for x in arrays_and_dtypes if type(x) in NUMBERS]
        dtypes = [x.dtype if hasattr(x, "dtype") else x for x in arrays_and_dtypes if type(x) not in NUMBERS]
        if not dtypes:
            return function(*numbers)
        common = common_type([numpy_type(d) for d in dtypes], numbers)
        return function(complex_type(common) or common)

    return result_type


class _Module:
    """A module of `pullback` as part of the namespace."""

    def __init__(self, name: str, module: ModuleType) -> None:
        self.__name__ = name
        self.__doc__ = module.__doc__
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._module.__all__:
            raise unknown(f"{self.__name__.replace('pb', 'lazy', 1)} has no", name)
        made = _lazy(f"{self.__name__}.{name}", getattr(self._module, name))
        setattr(self, name, made)
        return made

    def __dir__(self) -> list[str]:
        return sorted(self._module.__all__)


class LazyInfo(NamespaceInfo):
    """The features of lazy arrays for the Python array API."""

    def capabilities(self) -> dict[str, Any]:
        """The capabilities: masks and shapes that depend on data, as values are computed when they are needed."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """The device of new arrays."""
        return default_place() or CPU

    def devices(self) -> tuple[str, ...]:
        """The processor, and the devices of this computer."""
        from pullback.runtime.device.listing import devices

        return tuple(d.name for d in devices())

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The dtypes by name, all or of a kind; on a device there are no complex ones."""
        found = super().dtypes(kind=kind)
        on_device = (device or self.default_device()) != CPU
        return {name: d for name, d in found.items() if not (on_device and isinstance(d, ComplexType))}


def numpy_type(dtype: Any) -> np.dtype[Any]:
    """The NumPy dtype of an element type of the language."""
    own = complex_type(dtype)
    if own is not None:
        return own.numpy
    from pullback.tracing.arithmetic import dtype_from

    return array_type(dtype_from(dtype), ()).numpy


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Array:
    """Make a lazy array from a NumPy array, number, nested list, or object with DLPack or buffers.

    Args:
        obj: the object that holds the elements. A NumPy array in row-major order shares its memory, unless `copy` is
            True. It must not change while lazy arrays are built from it.
        dtype: the element type; by default that of `obj`.
        device: "cpu", or a name of `pb.devices` such as "cuda:0". By default an array on a device stays there, and
            others go to the device of PULLBACK_DEVICE, if it is set.
        copy: True makes a copy; False forbids one.
    Raises:
        ValueError: `copy` is False, and a copy is necessary.
        DeviceError: [E418] there is no driver or no such device.   OutOfMemoryError: [E421] the array does not fit.
    Cost:
        A copy, unless the memory is shared.

    >>> from pullback import lazy
    >>> lazy.asarray([[1, 2], [3, 4]]).dtype
    i64
    """
    if not isinstance(obj, Array) and is_on_device(obj):
        obj = leaf_at(obj)
    if isinstance(obj, Array):
        there = obj.leaf if device is None else moved(obj.leaf, device)
        if copy is False and there is not obj.leaf:
            raise ValueError("asarray: another device needs a copy, and copy=False")
        if dtype is None or numpy_type(dtype) == obj.type.numpy:
            if copy and there is obj.leaf:
                return _copied(there)
            return obj if there is obj.leaf and obj.written else there
        if copy is False:
            raise ValueError("asarray: another element type needs a copy, and copy=False")
        made: Array = there.astype(dtype)
        return made
    place = place_named("asarray", device)
    wanted = None if dtype is None else numpy_type(dtype)
    if isinstance(obj, list | tuple):
        parts = list(_parts(obj))
        if any(isinstance(x, Array) and (x.tracked or x.type.device) for x in parts):
            common = np.result_type(*(x.type.numpy if isinstance(x, Array) else x for x in parts))
            stacked: Array = _stacked(obj, common if wanted is None else wanted)
            return stacked if device is None else moved(stacked, device)
        obj = _nested(obj)
    if isinstance(obj, np.ndarray):
        unmasked(obj, "asarray")
    try:
        found = np.asarray(obj) if hasattr(obj, "__array__") or not hasattr(obj, "__dlpack__") else np.from_dlpack(obj)
    except TypeError as error:  # PyTorch's bfloat16
        what = f"asarray: {type(obj).__name__} does not become an array of NumPy: {error}"
        remedy = "convert it to an element type of NumPy before"
        raise DTypeError("E122", what, position=user_position(), remedy=remedy) from error
    array = found if wanted is None else found.astype(wanted, copy=False)
    if copy is False and (array is not obj or not array.flags.c_contiguous or place):
        raise ValueError("asarray: it cannot be had without a copy, and copy=False")
    return leaf_at(array, place) if place else leaf(np.array(array, order="C") if copy else array)


def _nested(x: Any) -> Any:
    if isinstance(x, list | tuple):
        return [_nested(y) for y in x]
    return value_of(x.leaf) if isinstance(x, Array) else x


def _parts(x: Any) -> Iterator[Any]:
    """The elements of nested lists."""
    if isinstance(x, list | tuple):
        for y in x:
            yield from _parts(y)
    else:
        yield x.leaf if isinstance(x, Array) else x


def _stacked(x: Any, dtype: np.dtype[Any]) -> Any:
    """Stack nested lists into an array through which derivatives reach the arrays in them."""
    if isinstance(x, list | tuple):
        return function_named("stack")([_stacked(y, dtype) for y in x])
    return x.leaf.astype(dtype) if isinstance(x, Array) else leaf(np.asarray(x, dtype))


def _copied(x: Array) -> Array:
    """A copy of an array that passes derivatives to x."""
    made: Array = +x
    return made if x.tracked or x.type.device else leaf(np.array(value_of(x)))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Make a lazy array from another library's array, sharing its memory if that is row-major.

    Cost:
        A copy, unless the memory is shared.

    >>> import numpy as np
    >>> from pullback import lazy
    >>> lazy.from_dlpack(np.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    if isinstance(x, Array) or is_on_device(x):
        return asarray(x, device=device, copy=copy)
    return asarray(np.from_dlpack(x), device=device, copy=True if copy else None)
