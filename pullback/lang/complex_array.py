"""Complex arrays: pairs of real arrays that act as one.

The core knows no complex numbers: an array of them is a pair of real ones, its real and imaginary part, at every
boundary too (a tree of two leaves). So passes, derivatives and C stay as they are, and the loops run over plain floats.
What is here is the pair. Its arithmetic is in `pullback.lang.complex`, and in `pullback.lang.by_parts` is how functions
that only move elements, or add and multiply them, take complex arrays as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from pullback.errors import DTypeError
from pullback.ir import expr, types
from pullback.ir.types import DType
from pullback.lang.array import Array, Rule, type_text
from pullback.lang.composite import Composite
from pullback.lang.elementwise import aligned, broadcast_extents, choose, common_dtype, convert, elementwise
from pullback.lang.making import as_array, scalar, view, weak
from pullback.lang.subscript import subscript
from pullback.source import user_position


@dataclass(frozen=True)
class ComplexType:
    """The element type of a complex array; its parts are of the type `part`."""

    name: str
    part: DType
    kind: ClassVar[str] = "complex"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype."""
        return np.dtype(self.name)

    def __repr__(self) -> str:
        return self.name


complex64: Final = ComplexType("complex64", types.f32)
complex128: Final = ComplexType("complex128", types.f64)
_TYPES: Final[dict[Any, ComplexType]] = {
    key: t for t in (complex64, complex128) for key in (t, t.name, t.numpy, t.numpy.type)
} | {complex: complex128, "complex": complex128}


def complex_type(dtype: object) -> ComplexType | None:
    """The complex type that a dtype names; None for any other."""
    try:
        return _TYPES.get(dtype)
    except TypeError:
        return None


class ComplexArray(Composite):
    """An array of complex numbers: `real` and `imag` are its parts.

    Indexing, slicing, operators and methods follow the Python array API standard. There is no order. What a method does
    it does to both parts, at twice the cost; products of two complex arrays take four real ones, quotients some ten
    operations.

    >>> pb.function(lambda z: (z * z.conj()).real + z.imag)(np.array([1.0 + 2.0j])).tolist()
    [7.0]
    """

    __slots__ = ("imag", "real")

    real: Array
    imag: Array

    def __init__(self, real: Any, imag: Any) -> None:
        a, b = as_array(real, "complex"), as_array(imag, "complex")
        if a.weak is None or b.weak is None:
            a, b = _alike(a, b)
        self.real, self.imag = a, b

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents."""
        return self.real.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.real.rank

    @property
    def size(self) -> Any:
        """The number of elements."""
        return self.real.size

    @property
    def dtype(self) -> ComplexType:
        """The element type."""
        return complex64 if self.real.settled is types.f32 else complex128

    @property
    def device(self) -> str:
        """Where arrays are: on the processor."""
        return self.real.device

    def to_device(self, device: Any, /, *, stream: Any = None) -> ComplexArray:
        """The array, on the only device there is."""
        return self._each(lambda a: a.to_device(device, stream=stream))

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        return self.real.__array_namespace__(api_version=api_version)

    @property
    def T(self) -> ComplexArray:
        """The transpose of a matrix.

        >>> pb.function(lambda z: z.T)(np.array([[1.0, 2.0j]])).tolist()
        [[(1+0j)], [2j]]
        """
        return self._each(lambda a: a.T)

    @property
    def mT(self) -> ComplexArray:
        """The last two axes exchanged."""
        return self._each(lambda a: a.mT)

    def _each(self, f: Callable[[Array], Any]) -> ComplexArray:
        return ComplexArray(f(self.real), f(self.imag))

    def __getitem__(self, key: Any) -> ComplexArray:
        return self._each(lambda a: subscript(a, key))

    def __repr__(self) -> str:
        return f"<complex {type_text(self.real)}>"

    def conj(self) -> ComplexArray:
        """The conjugate.

        >>> pb.function(lambda z: z.conj())(np.array([2.0j])).tolist()
        [-2j]
        """
        return ComplexArray(self.real, -self.imag)

    def at(self, *indices: Any, fill: Any = 0) -> ComplexArray:
        """The element at these indices, `fill` where they leave the array.

        >>> pb.function(lambda z: z.at(3, fill=1j))(np.array([2.0j])).item()
        1j
        """
        other = complex(fill)
        return ComplexArray(self.real.at(*indices, fill=other.real), self.imag.at(*indices, fill=other.imag))

    def set(self, index: Any, value: Any) -> ComplexArray:
        """A new array with the elements that `self[index]` selects set to the value.

        >>> pb.function(lambda z: z.set(0, 1j))(np.array([2.0j, 3.0])).tolist()
        [1j, (3+0j)]
        """
        z = as_complex(value)
        return ComplexArray(self.real.set(index, z.real), self.imag.set(index, z.imag))

    def add(self, index: Any, value: Any) -> ComplexArray:
        """A new array with the value added to the elements that `self[index]` selects.

        >>> pb.function(lambda z: z.add(0, 1j))(np.array([2.0j, 3.0])).tolist()
        [3j, (3+0j)]
        """
        z = as_complex(value)
        return ComplexArray(self.real.add(index, z.real), self.imag.add(index, z.imag))

    def astype(self, dtype: Any) -> ComplexArray:
        """Every element converted, to a complex type.

        >>> pb.function(lambda z: z.astype("complex64"))(np.array([2.0j])).dtype.name
        'complex64'
        """
        return convert(self, dtype)  # type: ignore[return-value]

    def sum(self, axis: Any = None, keepdims: bool = False) -> ComplexArray:
        """Sum over all elements, or over the given axes.

        >>> pb.function(lambda z: z.sum())(np.array([2.0j, 3.0])).item()
        (3+2j)
        """
        return self._each(lambda a: a.sum(axis=axis, keepdims=keepdims))

    def mean(self, axis: Any = None, keepdims: bool = False) -> ComplexArray:
        """Mean over all elements, or over the given axes.

        >>> pb.function(lambda z: z.mean())(np.array([2.0j, 3.0])).item()
        (1.5+1j)
        """
        return self._each(lambda a: a.mean(axis=axis, keepdims=keepdims))

    def reshape(self, *shape: Any) -> ComplexArray:
        """The elements in row-major order in another shape; one extent may be -1.

        >>> pb.function(lambda z: z.reshape(2, -1))(np.array([2.0j, 3.0])).shape
        (2, 1)
        """
        return self._each(lambda a: a.reshape(*shape))

    def transpose(self, *axes: int) -> ComplexArray:
        """Axes permuted; without arguments reversed.

        >>> pb.function(lambda z: z.transpose())(np.array([[1.0, 2.0j]])).shape
        (2, 1)
        """
        return self._each(lambda a: a.transpose(*axes))

    def __matmul__(self, other: Any) -> Any:
        return Composite.products["matmul"](self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return Composite.products["matmul"](other, self)

    def __len__(self) -> int:
        return len(self.real)

    def __bool__(self) -> bool:
        return bool(self.real)  # raises: a traced value has no truth

    def __hash__(self) -> int:
        return hash(self.real)  # raises


def _operator(name: str, reflected: bool) -> Callable[[ComplexArray, Any], Any]:
    if reflected:
        return lambda self, other: elementwise(name, other, self)
    return lambda self, other: elementwise(name, self, other)


for _dunder, _name in {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "power", "mod": "remainder",
    "floordiv": "floor_divide",
}.items():  # fmt: skip
    setattr(ComplexArray, f"__{_dunder}__", _operator(_name, False))
    setattr(ComplexArray, f"__r{_dunder}__", _operator(_name, True))
for _dunder, _name in {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}.items():  # fmt: skip
    setattr(ComplexArray, f"__{_dunder}__", _operator(_name, False))
for _dunder, _name in {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}.items():
    setattr(ComplexArray, f"__{_dunder}__", functools.partialmethod(lambda self, name: elementwise(name, self), _name))


def _alike(a: Array, b: Array) -> tuple[Array, Array]:
    """Two arrays broadcast, and of one floating type."""
    position = user_position()
    dtype = common_dtype("complex", [a, b], position)
    if dtype is None or not dtype.is_floating:
        raise DTypeError(
            "E121",
            f"complex takes floating parts, not {type_text(a)} and {type_text(b)}",
            position=position,
            remedy='convert them with `astype("float64")`',
        )
    extents = broadcast_extents("complex", [a, b], position)

    def spread(h: Array) -> Array:
        if h.strong is dtype and h.extents == extents:
            return h
        rule: Rule = lambda i: expr.cast(aligned(h, i, dtype), dtype)
        return view(extents, dtype, rule, None, h.name) if extents else scalar(rule(()))

    return spread(a), spread(b)


def is_complex(x: object) -> bool:
    """Whether x is a complex array or number, traced or not."""
    return isinstance(x, ComplexArray | complex | np.complexfloating) or (
        isinstance(x, np.ndarray) and x.dtype.kind == "c"
    )


def as_complex(x: Any) -> ComplexArray:
    """A number or array as a complex one."""
    if isinstance(x, ComplexArray):
        return x
    if isinstance(x, np.ndarray | np.complexfloating) and np.asarray(x).dtype.kind == "c":
        a = np.asarray(x)
        return ComplexArray(np.array(a.real), np.array(a.imag))
    if isinstance(x, complex):
        return ComplexArray(x.real, x.imag)
    real = as_array(x)
    if real.weak is None and not real.settled.is_floating:
        raise DTypeError(
            "E120",
            f"{type_text(real)} and complex numbers have no common element type",
            position=user_position(),
            remedy='convert it with `astype("float64")`',
        )
    return ComplexArray(real, 0.0)


def zero_beside(x: Array) -> Array:
    """Zeros of the shape and type of x, whatever is in x."""
    if x.weak is not None and not x.rank:
        return weak(x.weak, lambda dtype: expr.const(0, dtype))
    rule: Rule = lambda i: expr.const(0, x.settled)
    return view(x.extents, x.settled, rule, None, x.name) if x.rank else scalar(rule(()))


# What trees and elementwise functions ask of them -----------------------------------------------------------------


def _convert(x: Any, dtype: Any) -> Any:
    """`astype` to or from a complex type."""
    wanted = complex_type(dtype)
    if wanted is None:
        raise DTypeError(
            "E122",
            "astype: complex numbers are not converted to real ones",
            position=user_position(),
            remedy="`pb.real`, `pb.imag` or `pb.abs`",
        )
    if not is_complex(x):
        x = convert(x, wanted.part)
        return ComplexArray(x, zero_beside(x))
    z = as_complex(x)
    return ComplexArray(convert(z.real, wanted.part), convert(z.imag, wanted.part))


def _choose(condition: Any, then: Any, otherwise: Any) -> Any:
    a, b = as_complex(then), as_complex(otherwise)
    return ComplexArray(choose(condition, a.real, b.real), choose(condition, a.imag, b.imag))


def _parts(x: Any) -> tuple[Any, Any]:
    return (x.real, x.imag)  # of a NumPy array both are views


def _join(real: Any, imag: Any) -> Any:
    if isinstance(real, Array) and isinstance(imag, Array):
        return ComplexArray(real, imag)
    if isinstance(real, np.ndarray | np.generic) and isinstance(imag, np.ndarray | np.generic):
        out = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
        out.real, out.imag = real, imag
        return out[()] if out.ndim == 0 else out
    return Parts(real, imag)


@dataclass(frozen=True)
class Parts(Composite):
    """What is known of the parts of a complex array, in the place of the array."""

    real: Any
    imag: Any


Composite.is_one = staticmethod(lambda x: is_complex(x) or isinstance(x, Parts))
Composite.parts = staticmethod(_parts)
Composite.join = staticmethod(_join)
Composite.hold = staticmethod(Parts)
Composite.convert = staticmethod(_convert)
Composite.choose = staticmethod(_choose)
Composite.names_type = staticmethod(lambda dtype: complex_type(dtype) is not None)
