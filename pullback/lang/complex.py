"""Complex arrays: pairs of real arrays that act as one.

The core knows no complex numbers: an array of them is a pair of real ones, its real and imaginary part, at every
boundary too (a tree of two leaves). So passes, derivatives and C stay as they are, and the loops run over plain floats.
Arithmetic is written out here; functions that only move elements, or add them, do so part by part (`by_parts`).

Derivatives are those of the pair: the gradient of a real function is  ∂f/∂x + i ∂f/∂y  for z = x + i y, the direction
of steepest ascent (twice the derivative by the conjugate of z), and tangents are complex numbers.

Source of the inverse functions and of tanh: W. Kahan, Branch cuts for complex elementary functions, 1987.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from pullback.errors import DTypeError
from pullback.ir import expr, types
from pullback.ir.types import DType
from pullback.lang.composite import Composite
from pullback.lang.elementwise import aligned, broadcast_extents, choose, common_dtype, convert, dtype_from, elementwise
from pullback.lang.handle import Handle, Rule, as_array, scalar, type_text, view
from pullback.lang.subscript import subscript
from pullback.source import user_position

if TYPE_CHECKING:
    from pullback.lang.array import Array

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ComplexType:
    """The element type of a complex array; its parts are of the type `part`."""

    name: str
    part: DType

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype."""
        return np.dtype(self.name)

    def __repr__(self) -> str:
        return self.name


complex64: Final = ComplexType("complex64", types.f32)
complex128: Final = ComplexType("complex128", types.f64)
_TYPES: Final[dict[Any, ComplexType]] = {
    key: t
    for t in (complex64, complex128)
    for key in (t, t.name, t.numpy, t.numpy.type)
} | {complex: complex128, "complex": complex128}


def complex_type(dtype: object) -> ComplexType | None:
    """The complex type that a dtype names; None for any other."""
    try:
        return _TYPES.get(dtype)
    except TypeError:
        return None


class ComplexArray(Composite):
    """An array of complex numbers: `real` and `imag` are its parts.

    Indexing, slicing, operators and methods follow the Python array API standard. There is no order.
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
    def T(self) -> ComplexArray:
        """The transpose of a matrix."""
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
        """The conjugate."""
        return ComplexArray(self.real, -self.imag)

    def at(self, *indices: Any, fill: Any = 0) -> ComplexArray:
        """The element at these indices, `fill` where they leave the array."""
        other = complex(fill)
        return ComplexArray(self.real.at(*indices, fill=other.real), self.imag.at(*indices, fill=other.imag))

    def set(self, index: Any, value: Any) -> ComplexArray:
        """A new array with the elements that `self[index]` selects set to the value."""
        z = as_complex(value)
        return ComplexArray(self.real.set(index, z.real), self.imag.set(index, z.imag))

    def add(self, index: Any, value: Any) -> ComplexArray:
        """A new array with the value added to the elements that `self[index]` selects."""
        z = as_complex(value)
        return ComplexArray(self.real.add(index, z.real), self.imag.add(index, z.imag))

    def astype(self, dtype: Any) -> ComplexArray:
        """Every element converted, to a complex type."""
        return convert(self, dtype)  # type: ignore[return-value]

    def sum(self, axis: Any = None, keepdims: bool = False) -> ComplexArray:
        """Sum over all elements, or over the given axes."""
        return self._each(lambda a: a.sum(axis=axis, keepdims=keepdims))

    def mean(self, axis: Any = None, keepdims: bool = False) -> ComplexArray:
        """Mean over all elements, or over the given axes."""
        return self._each(lambda a: a.mean(axis=axis, keepdims=keepdims))

    def reshape(self, *shape: Any) -> ComplexArray:
        """The elements in row-major order in another shape; one extent may be -1."""
        return self._each(lambda a: a.reshape(*shape))

    def transpose(self, *axes: int) -> ComplexArray:
        """Axes permuted; without arguments reversed."""
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
        raise DTypeError("E121", f"complex takes floating parts, not {type_text(a)} and {type_text(b)}",
                         position=position, remedy='convert them with `astype("float64")`')
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
        raise DTypeError("E120", f"{type_text(real)} and complex numbers have no common element type",
                         position=user_position(), remedy='convert it with `astype("float64")`')
    return ComplexArray(real, 0.0)


# Functions that move elements, or are linear in them --------------------------------------------------------------


def by_parts(f: F) -> F:
    """The function for complex arrays too, done to each part. The first argument is an array, or a list of arrays."""

    @functools.wraps(f)
    def both(x: Any, *args: Any, **keywords: Any) -> Any:
        wanted = complex_type(keywords.get("dtype"))
        if wanted is not None:
            x, keywords = convert(x, wanted), {**keywords, "dtype": wanted.part}
        if isinstance(x, list | tuple) and any(map(is_complex, x)):
            parts = [as_complex(a) for a in x]
            return _joined(f([p.real for p in parts], *args, **keywords),
                           f([p.imag for p in parts], *args, **keywords))
        if is_complex(x):
            z = as_complex(x)
            return _joined(f(z.real, *args, **keywords), f(z.imag, *args, **keywords))
        return f(x, *args, **keywords)

    return both  # type: ignore[return-value]


def all_by_parts(f: F) -> F:
    """The function of any number of arrays, for complex ones too: all are complex then."""

    @functools.wraps(f)
    def both(*arrays: Any, **keywords: Any) -> Any:
        if not any(map(is_complex, arrays)):
            return f(*arrays, **keywords)
        parts = [as_complex(a) for a in arrays]
        return _joined(f(*(p.real for p in parts), **keywords), f(*(p.imag for p in parts), **keywords))

    return both  # type: ignore[return-value]


def _joined(real: Any, imag: Any) -> Any:
    if isinstance(real, tuple | list):
        return type(real)(map(ComplexArray, real, imag))
    return ComplexArray(real, imag)


def bilinear(f: F) -> F:
    """A product of two arrays, for complex ones too: (a + ib)(c + id) = ac - bd + i(ad + bc)."""

    @functools.wraps(f)
    def both(x1: Any, x2: Any, *args: Any, **keywords: Any) -> Any:
        if not is_complex(x1) and not is_complex(x2):
            return f(x1, x2, *args, **keywords)
        product: Callable[..., Any] = lambda a, b: f(a, b, *args, **keywords)
        if not is_complex(x1):
            z = as_complex(x2)
            return ComplexArray(product(x1, z.real), product(x1, z.imag))
        z = as_complex(x1)
        if not is_complex(x2):
            return ComplexArray(product(z.real, x2), product(z.imag, x2))
        w = as_complex(x2)
        return ComplexArray(product(z.real, w.real) - product(z.imag, w.imag),
                            product(z.real, w.imag) + product(z.imag, w.real))

    Composite.products[f.__name__] = both
    return both  # type: ignore[return-value]


def of_type(f: F) -> F:
    """A function that makes an array of a dtype, for complex ones too: its imaginary part is 0."""

    @functools.wraps(f)
    def made(*args: Any, dtype: Any = None, **keywords: Any) -> Any:
        wanted = complex_type(dtype)
        if wanted is None and dtype is not None and dtype_from(dtype).is_half:
            return convert(f(*args, dtype=dtype_from(dtype).computed, **keywords), dtype)
        complex_arguments = [k for k, a in enumerate(args) if is_complex(a)]
        if wanted is None and not complex_arguments:
            return f(*args, **keywords) if dtype is None else f(*args, dtype=dtype, **keywords)
        part = {"dtype": wanted.part} if wanted is not None else {} if dtype is None else {"dtype": dtype}
        real = f(*(as_complex(a).real if is_complex(a) else a for a in args), **part, **keywords)
        if not complex_arguments:
            return ComplexArray(real, elementwise("multiply", real, 0))
        imaginary = (as_complex(a).imag if is_complex(a) else a for a in args)
        return ComplexArray(real, f(*imaginary, **part, **keywords))

    return made  # type: ignore[return-value]


# Elementwise functions --------------------------------------------------------------------------------------------

_Complex = ComplexArray


def _real(name: str, *values: Any) -> Array:
    return elementwise(name, *values)


def _multiply(z: _Complex, w: _Complex) -> _Complex:
    return _Complex(z.real * w.real - z.imag * w.imag, z.real * w.imag + z.imag * w.real)


def _divide(z: _Complex, w: _Complex) -> _Complex:
    """Scaled by the larger part of the divisor, so that nothing overflows before the quotient does (R. Smith, 1962)."""
    by_real = _real("greater_equal", _real("abs", w.real), _real("abs", w.imag))
    large, small = choose(by_real, w.real, w.imag), choose(by_real, w.imag, w.real)
    ratio = choose(_real("equal", large, 0.0), 0.0, small / choose(_real("equal", large, 0.0), 1.0, large))
    below = large + small * ratio
    up, down = choose(by_real, z.real, z.imag), choose(by_real, z.imag, z.real)
    turned = choose(by_real, down - up * ratio, up * ratio - down)
    return _Complex((up + down * ratio) / below, turned / below)


def _scaled(z: _Complex, by: Any) -> _Complex:
    return _Complex(z.real * by, z.imag * by)


def _absolute(z: _Complex) -> Array:
    return _real("hypot", z.real, z.imag)


def _sign(z: _Complex) -> _Complex:
    size = _absolute(z)
    safe = choose(_real("equal", size, 0.0), 1.0, size)
    return _Complex(z.real / safe, z.imag / safe)


def _exp(z: _Complex) -> _Complex:
    size, on_axis = _real("exp", z.real), _real("equal", z.imag, 0.0)
    return _Complex(size * _real("cos", z.imag), choose(on_axis, z.imag, size * _real("sin", z.imag)))


def _expm1(z: _Complex) -> _Complex:
    half = _real("sin", 0.5 * z.imag)
    real = _real("expm1", z.real) * _real("cos", z.imag) - 2.0 * half * half
    return _Complex(real, _real("exp", z.real) * _real("sin", z.imag))


def _log(z: _Complex) -> _Complex:
    """Near the unit circle the logarithm of |z|² is that of 1 + (x - 1)(x + 1) + y², x the larger part."""
    a, b = _real("abs", z.real), _real("abs", z.imag)
    large, small = _real("maximum", a, b), _real("minimum", b, a)
    size = _absolute(z)
    near = _real("logical_and", _real("greater", size, 0.7), _real("less", size, 1.4))
    close = 0.5 * _real("log1p", choose(near, (large - 1.0) * (large + 1.0) + small * small, 0.0))
    return _Complex(choose(near, close, _real("log", size)), _real("atan2", z.imag, z.real))


def _log1p(z: _Complex) -> _Complex:
    far = _real("greater", _absolute(z), 0.5)
    shifted = _log(_Complex(z.real + 1.0, z.imag))
    inside = choose(far, 0.0, z.real * (z.real + 2.0) + z.imag * z.imag)
    return _Complex(choose(far, shifted.real, 0.5 * _real("log1p", inside)), shifted.imag)


def _sqrt(z: _Complex) -> _Complex:
    """The root in the right half plane, its imaginary part with the sign of that of z."""
    nothing = _real("logical_and", _real("equal", z.real, 0.0), _real("equal", z.imag, 0.0))
    size = _real("sqrt", choose(nothing, 1.0, 0.5 * (_real("abs", z.real) + _absolute(z))))
    other = 0.5 * _real("abs", z.imag) / size
    right = _real("greater_equal", z.real, 0.0)
    real, imag = choose(right, size, other), _real("copysign", choose(right, other, size), z.imag)
    return _Complex(choose(nothing, 0.0, real), choose(nothing, z.imag, imag))


def _sinh(z: _Complex) -> _Complex:
    return _Complex(_real("sinh", z.real) * _real("cos", z.imag), _real("cosh", z.real) * _real("sin", z.imag))


def _cosh(z: _Complex) -> _Complex:
    return _Complex(_real("cosh", z.real) * _real("cos", z.imag), _real("sinh", z.real) * _real("sin", z.imag))


def _tanh(z: _Complex) -> _Complex:
    far = _real("greater", _real("abs", z.real), 19.0)
    x = choose(far, 0.0, z.real)
    t, s = _real("tan", z.imag), _real("sinh", x)
    beta = 1.0 + t * t
    below = 1.0 + beta * s * s
    real, imag = beta * _real("sqrt", 1.0 + s * s) * s / below, t / below
    end = 4.0 * _real("sin", z.imag) * _real("cos", z.imag) * _real("exp", -2.0 * _real("abs", z.real))
    return _Complex(choose(far, _real("copysign", 1.0 + 0.0 * x, z.real), real), choose(far, end, imag))


def _turned(f: Callable[[_Complex], _Complex]) -> Callable[[_Complex], _Complex]:
    """-i f(i z): sin from sinh, and so on."""

    def g(z: _Complex) -> _Complex:
        w = f(_Complex(-z.imag, z.real))
        return _Complex(w.imag, -w.real)

    return g


def _cos(z: _Complex) -> _Complex:
    return _cosh(_Complex(-z.imag, z.real))


def _one_less(z: _Complex) -> _Complex:
    return _Complex(1.0 - z.real, -z.imag)


def _one_more(z: _Complex) -> _Complex:
    return _Complex(1.0 + z.real, z.imag)


def _acos(z: _Complex) -> _Complex:
    u, v = _sqrt(_one_less(z)), _sqrt(_one_more(z))
    return _Complex(2.0 * _real("atan2", u.real, v.real), _real("asinh", v.real * u.imag - v.imag * u.real))


def _asin(z: _Complex) -> _Complex:
    u, v = _sqrt(_one_less(z)), _sqrt(_one_more(z))
    real = _real("atan2", z.real, u.real * v.real - u.imag * v.imag)
    return _Complex(real, _real("asinh", u.real * v.imag - u.imag * v.real))


def _acosh(z: _Complex) -> _Complex:
    u, v = _sqrt(_Complex(z.real - 1.0, z.imag)), _sqrt(_one_more(z))
    return _Complex(_real("asinh", u.real * v.real + u.imag * v.imag), 2.0 * _real("atan2", u.imag, v.real))


def _atanh(z: _Complex) -> _Complex:
    a, b = z.real, z.imag
    real = 0.25 * _real("log1p", 4.0 * a / ((1.0 - a) * (1.0 - a) + b * b))
    return _Complex(real, 0.5 * _real("atan2", 2.0 * b, (1.0 - a) * (1.0 + a) - b * b))


def _power(z: Any, w: Any) -> _Complex:
    """By squaring for a whole number, else exp(w log z); 0 to a power of positive real part is 0."""
    if isinstance(w, int) and abs(w) <= 64:
        found = functools.reduce(_multiply, _squares(as_complex(z), abs(w)), as_complex(1.0 + 0.0j))
        return found if w >= 0 else _divide(as_complex(1.0 + 0.0j), found)
    z, w = as_complex(z), as_complex(w)
    nothing = _real("logical_and", _real("equal", z.real, 0.0), _real("equal", z.imag, 0.0))
    safe = _Complex(choose(nothing, 1.0, z.real), z.imag)
    found = _exp(_multiply(w, _log(safe)))
    zeroth = _real("logical_and", _real("equal", w.real, 0.0), _real("equal", w.imag, 0.0))
    end = choose(zeroth, 1.0, choose(_real("greater", w.real, 0.0), 0.0, math.nan))
    return _Complex(choose(nothing, end, found.real), choose(nothing, 0.0 * end, found.imag))


def _squares(z: _Complex, n: int) -> Sequence[_Complex]:
    """The powers z^(2^k) whose product is z^n."""
    out = []
    while n:
        if n & 1:
            out.append(z)
        n >>= 1
        z = _multiply(z, z) if n else z
    return out


def _either(name: str, combine: str) -> Callable[[_Complex], Array]:
    return lambda z: _real(combine, _real(name, z.real), _real(name, z.imag))


def _both(name: str, combine: str) -> Callable[[_Complex, _Complex], Array]:
    return lambda z, w: _real(combine, _real(name, z.real, w.real), _real(name, z.imag, w.imag))


def _part(name: str) -> Callable[..., _Complex]:
    return lambda *zs: _Complex(_real(name, *(z.real for z in zs)), _real(name, *(z.imag for z in zs)))


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": _absolute, "acos": _acos, "acosh": _acosh, "add": _part("add"), "asin": _asin, "asinh": _turned(_asin),
    "atan": _turned(_atanh), "atanh": _atanh, "cos": _cos, "cosh": _cosh, "divide": _divide,
    "equal": _both("equal", "logical_and"), "exp": _exp, "expm1": _expm1,
    "isfinite": _either("isfinite", "logical_and"), "isinf": _either("isinf", "logical_or"),
    "isnan": _either("isnan", "logical_or"), "log": _log, "log1p": _log1p,
    "log10": lambda z: _scaled(_log(z), 1.0 / math.log(10.0)), "log2": lambda z: _scaled(_log(z), 1.0 / math.log(2.0)),
    "multiply": _multiply, "negative": _part("negative"), "not_equal": _both("not_equal", "logical_or"),
    "positive": lambda z: z, "reciprocal": lambda z: _divide(as_complex(1.0 + 0.0j), z), "round": _part("round"),
    "sign": _sign, "sin": _turned(_sinh), "sinh": _sinh, "sqrt": _sqrt, "square": lambda z: _multiply(z, z),
    "stop_gradient": _part("stop_gradient"), "subtract": _part("subtract"), "tan": _turned(_tanh), "tanh": _tanh,
}  # fmt: skip


def _elementwise(name: str, values: Sequence[Any]) -> Any:
    """An elementwise function of which an operand is complex."""
    if name == "power":
        return _power(*values)
    if name in ("multiply", "divide") and sum(map(is_complex, values)) == 1 and (name, is_complex(values[0])) != (
            "divide", False):
        z, by = (values[0], values[1]) if is_complex(values[0]) else (values[1], values[0])
        z = as_complex(z)
        as_complex(by)  # refuses integers
        return _Complex(elementwise(name, z.real, by), elementwise(name, z.imag, by))
    function = _FUNCTIONS.get(name)
    if function is None:
        raise DTypeError("E121", f"{name} takes no complex numbers", position=user_position(),
                         remedy="`pb.real`, `pb.imag` and `pb.abs` give real ones")
    return function(*map(as_complex, values))


def _convert(x: Any, dtype: Any) -> Any:
    """`astype` to or from a complex type."""
    wanted = complex_type(dtype)
    if wanted is None:
        raise DTypeError("E122", "astype: complex numbers are not converted to real ones", position=user_position(),
                         remedy="`pb.real`, `pb.imag` or `pb.abs`")
    if not is_complex(x):
        x = convert(x, wanted.part)
        return ComplexArray(x, elementwise("multiply", x, 0))
    z = as_complex(x)
    return ComplexArray(convert(z.real, wanted.part), convert(z.imag, wanted.part))


def _choose(condition: Any, then: Any, otherwise: Any) -> Any:
    a, b = as_complex(then), as_complex(otherwise)
    return ComplexArray(choose(condition, a.real, b.real), choose(condition, a.imag, b.imag))


def _parts(x: Any) -> tuple[Any, Any]:
    return (x.real, x.imag)  # of a NumPy array both are views


def _join(real: Any, imag: Any) -> Any:
    if isinstance(real, Handle) and isinstance(imag, Handle):
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
Composite.elementwise = staticmethod(_elementwise)
Composite.convert = staticmethod(_convert)
Composite.choose = staticmethod(_choose)
Composite.names_type = staticmethod(lambda dtype: complex_type(dtype) is not None)


def real(x: Any, /) -> Array:
    """The real part. Elementwise.

    >>> pb.function(lambda z: pb.real(z))(np.array([1.0 + 2.0j])).tolist()
    [1.0]
    """
    return as_complex(x).real if is_complex(x) else as_array(x, "real")


def imag(x: Any, /) -> Array:
    """The imaginary part; 0 for real numbers. Elementwise.

    >>> pb.function(lambda z: pb.imag(z))(np.array([1.0 + 2.0j])).tolist()
    [2.0]
    """
    return as_complex(x).imag if is_complex(x) else elementwise("multiply", x, 0)


def conj(x: Any, /) -> Any:
    """The conjugate; real numbers are their own. Elementwise.

    >>> pb.function(lambda z: pb.conj(z))(np.array([1.0 + 2.0j])).tolist()
    [(1-2j)]
    """
    return as_complex(x).conj() if is_complex(x) else as_array(x, "conj")


def angle(x: Any, /) -> Array:
    """The angle of a complex number with the positive real axis, from -π to π. Elementwise.

    >>> pb.function(lambda z: pb.angle(z))(np.array([2.0j])).item() / np.pi
    0.5
    """
    z = as_complex(x)
    return _real("atan2", z.imag, z.real)


def make_complex(real: Any, imag: Any, /) -> ComplexArray:
    """The complex numbers with these parts, floating arrays of one type; they broadcast.

    >>> pb.function(lambda x, y: pb.complex(x, y))(np.array([1.0]), np.array([2.0])).tolist()
    [(1+2j)]
    """
    return ComplexArray(real, imag)


__all__ = ["ComplexArray", "ComplexType", "angle", "as_complex", "bilinear", "by_parts", "complex64",
           "complex128", "complex_type", "conj", "imag", "is_complex", "make_complex", "of_type", "real"]
