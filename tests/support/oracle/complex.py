"""Complex numbers of the oracle: two arrays, and textbooks' formulas of their parts.

A complex array is a tree of two leaves, `real` and `imag`, so what goes over leaves (loops, choices of functions, every
derivative) knows it already. A derivative is that of the pair: the gradient of a real function is ∂f/∂x + i ∂f/∂y, and
cotangents pair by Re(conj(g) dz). What moves or adds elements does so with both parts; here is the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tests.support.oracle import elementwise as elements
from tests.support.oracle import functions as f
from tests.support.oracle import trees
from tests.support.oracle.arrays import Array, OracleError, as_array, convert, subscript
from tests.support.oracle.elementwise import choose, elementwise, strong


@dataclass(frozen=True, eq=False)
class Complex:
    """Complex numbers by their parts.

    Attributes:
        real, imag: arrays of one shape.
    """

    real: Any
    imag: Any

    __array_priority__ = 1000

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return as_array(self.real).shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __getitem__(self, key: Any) -> Complex:
        return _each(lambda a: subscript(a, key), self)

    def at(self, *indices: Any, fill: Any = 0) -> Complex:
        """The element at these indices, `fill` outside."""
        outside = pair(fill)
        return Complex(self.real.at(*indices, fill=outside.real), self.imag.at(*indices, fill=outside.imag))

    def conj(self) -> Complex:
        """The numbers with the other sign of the imaginary part."""
        return Complex(self.real, elementwise("negative", self.imag))

    @property
    def T(self) -> Complex:
        """The last two axes exchanged."""
        return _each(f.matrix_transpose, self)

    mT = T

    def mean(self, axis: Any = None, keepdims: bool = False) -> Complex:
        """The mean of both parts."""
        return _each(lambda a: f.mean(a, axis=axis, keepdims=keepdims), self)


def is_complex(x: Any) -> bool:
    """Whether it is a complex array or number, of whichever kind."""
    return isinstance(x, Complex | complex) or (isinstance(x, np.ndarray) and x.dtype.kind == "c")


def pair(x: Any) -> Complex:
    """A number or array as a complex one."""
    if isinstance(x, Complex):
        return x
    if is_complex(x):
        return Complex(as_array(x.real), as_array(x.imag))
    a = as_array(x)
    return Complex(a, Array(a.shape, a.dtype, convert(as_array(0), a.dtype).data * a.size))


def _each(g: Callable[[Any], Any], z: Any) -> Complex:
    z = pair(z)
    return Complex(g(z.real), g(z.imag))


# ---------------------------------------------------------------- elementwise


def _add(z: Complex, w: Complex) -> Complex:
    return Complex(elementwise("add", z.real, w.real), elementwise("add", z.imag, w.imag))


def _subtract(z: Complex, w: Complex) -> Complex:
    return Complex(elementwise("subtract", z.real, w.real), elementwise("subtract", z.imag, w.imag))


def _bilinear(multiply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Complex]:
    """A product of complex operands from that of real ones; of a real one nothing is made complex."""

    def product(z: Any, w: Any) -> Complex:
        if not is_complex(w):
            return _each(lambda a: multiply(a, w), z)
        if not is_complex(z):
            return _each(lambda a: multiply(z, a), w)
        z, w = pair(z), pair(w)
        real = elementwise("subtract", multiply(z.real, w.real), multiply(z.imag, w.imag))
        return Complex(real, elementwise("add", multiply(z.real, w.imag), multiply(z.imag, w.real)))

    return product


_multiply = _bilinear(lambda a, b: elementwise("multiply", a, b))


def _divide(z: Any, w: Any) -> Complex:
    if not is_complex(w):
        return _each(lambda a: elementwise("divide", a, w), z)
    w = pair(w)
    below = _squares(w)
    return _each(lambda a: elementwise("divide", a, below), _multiply(z, w.conj()))


def _squares(z: Complex) -> Array:
    return elementwise("add", elementwise("square", z.real), elementwise("square", z.imag))


def _times(z: Complex, real: Array, imag: Array) -> Complex:
    return Complex(elementwise("multiply", z.real, real), elementwise("multiply", z.imag, imag))


def _exp(z: Complex) -> Complex:
    size = elementwise("exp", z.real)
    return _times(Complex(size, size), elementwise("cos", z.imag), elementwise("sin", z.imag))


def _log(z: Complex) -> Complex:
    return Complex(elementwise("log", _abs(z)), angle(z))


def _abs(z: Complex) -> Array:
    return elementwise("hypot", z.real, z.imag)


def _sqrt(z: Complex) -> Complex:
    half = _each(lambda a: elementwise("multiply", a, 0.5), _log(z))
    return _exp(half)


def _sinh(z: Complex) -> Complex:
    return _times(Complex(elementwise("sinh", z.real), elementwise("cosh", z.real)),
                  elementwise("cos", z.imag), elementwise("sin", z.imag))  # fmt: skip


def _cosh(z: Complex) -> Complex:
    return _times(Complex(elementwise("cosh", z.real), elementwise("sinh", z.real)),
                  elementwise("cos", z.imag), elementwise("sin", z.imag))  # fmt: skip


def _turned(g: Callable[[Complex], Complex]) -> Callable[[Complex], Complex]:
    """The circular function of a hyperbolic odd one: g(i z) / i."""

    def turned(z: Complex) -> Complex:
        w = g(Complex(elementwise("negative", z.imag), z.real))
        return Complex(w.imag, elementwise("negative", w.real))

    return turned


def _tanh(z: Complex) -> Complex:
    return _divide(_sinh(z), _cosh(z))


def _power(z: Any, n: Any) -> Complex:
    if not isinstance(n, int) or n < 0:
        return _exp(_multiply(n, _log(pair(z))))
    out = Complex(f.ones_like(pair(z).real), f.zeros_like(pair(z).real))
    for _ in range(n):
        out = _multiply(out, z)
    return out


UNARY: Final[dict[str, Callable[[Complex], Any]]] = {
    "abs": _abs, "cos": lambda z: _cosh(Complex(elementwise("negative", z.imag), z.real)), "cosh": _cosh, "exp": _exp,
    "log": _log, "negative": lambda z: _each(lambda a: elementwise("negative", a), z), "positive": lambda z: z,
    "sin": _turned(_sinh), "sinh": _sinh, "sqrt": _sqrt, "square": lambda z: _multiply(z, z),
    "stop_gradient": lambda z: _each(lambda a: elementwise("stop_gradient", a), z), "tan": _turned(_tanh),
    "tanh": _tanh,
}  # fmt: skip
BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": lambda z, w: _add(pair(z), pair(w)), "subtract": lambda z, w: _subtract(pair(z), pair(w)),
    "multiply": _multiply, "divide": _divide, "power": _power,
    "equal": lambda z, w: _same(pair(z), pair(w)),
    "not_equal": lambda z, w: elementwise("logical_not", _same(pair(z), pair(w))),
}  # fmt: skip


def _same(z: Complex, w: Complex) -> Array:
    return elementwise("logical_and", elementwise("equal", z.real, w.real), elementwise("equal", z.imag, w.imag))


def _elementwise(name: str, values: tuple[Any, ...]) -> Any:
    """A primitive of which an operand is complex."""
    if len(values) == 1 and name in UNARY:
        return UNARY[name](pair(values[0]))
    if name in BINARY:
        return BINARY[name](*values)
    raise OracleError(f"{name} of complex numbers")


elements.for_others(is_complex, _elementwise)
trees.PAIR[0] = Complex


# ---------------------------------------------------------------- functions of arrays


def by_parts(g: Callable[..., Any], operands: slice = slice(None)) -> Callable[..., Any]:
    """A function that moves or adds elements of operands, of both their parts; by others it goes."""

    @functools.wraps(g)
    def function(*args: Any, **keywords: Any) -> Any:
        if not any(map(_holds, args)):
            return g(*args, **keywords)
        found = []
        for name in ("real", "imag"):
            given = list(args)
            given[operands] = [_part(a, name) for a in given[operands]]
            found.append(g(*given, **keywords))
        if isinstance(found[0], tuple):
            return tuple(map(Complex, *found))
        return Complex(*found)

    return function


def _holds(x: Any) -> bool:
    return any(map(_holds, x)) if isinstance(x, list | tuple) else is_complex(x)


def _part(x: Any, name: str) -> Any:
    """A part of what is complex or an array beside it; settings stay."""
    if isinstance(x, list | tuple) and _holds(x):
        return [getattr(pair(a), name) for a in x]
    return getattr(pair(x), name) if is_complex(x) or isinstance(x, Array | np.ndarray | float) else x


def products(g: Callable[..., Any], conjugate: bool = False) -> Callable[..., Any]:
    """Extend a product of two arrays to complex ones, conjugating the first on request."""

    @functools.wraps(g)
    def function(x1: Any, x2: Any, /, *args: Any, **keywords: Any) -> Any:
        if not (is_complex(x1) or is_complex(x2)):
            return g(x1, x2, *args, **keywords)
        return _bilinear(lambda a, b: g(a, b, *args, **keywords))(conj(x1) if conjugate else x1, x2)

    return function


BY_PARTS: Final = dict.fromkeys((
    "broadcast_to", "concat", "cumulative_sum", "diagonal", "diff", "expand_dims", "flip", "matrix_transpose", "mean",
    "moveaxis", "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack", "sum", "tile", "trace", "tril", "triu",
    "unstack",
), slice(None)) | {"take": slice(1), "take_along_axis": slice(1), "where": slice(1, None)}  # fmt: skip
PRODUCTS: Final = {"matmul": False, "outer": False, "tensordot": False, "vecdot": True}


def over(name: str, g: Callable[..., Any]) -> Callable[..., Any]:
    """A public function of real arrays as one of complex ones, too."""
    if name in PRODUCTS:
        return products(g, PRODUCTS[name])
    return by_parts(g, BY_PARTS[name]) if name in BY_PARTS else g


def real(x: Any, /) -> Array:
    """The real part."""
    return pair(x).real if is_complex(x) else as_array(x)


def imag(x: Any, /) -> Array:
    """The imaginary part; 0 of real numbers."""
    return pair(x).imag  # type: ignore[no-any-return]


def conj(x: Any, /) -> Any:
    """The numbers with the other sign of the imaginary part."""
    return pair(x).conj() if is_complex(x) else as_array(x)


def angle(x: Any, /) -> Array:
    """The angle to the positive real axis."""
    z = pair(x)
    return elementwise("atan2", z.imag, z.real)


def complex_of(re: Any, im: Any, /) -> Complex:
    """The numbers of these parts."""
    a, b = strong(re), strong(im)
    return Complex(*(choose(True, x, elementwise("multiply", y, 0)) for x, y in ((a, b), (b, a))))


for _name, _operator in {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
                         "pow": "power"}.items():  # fmt: skip
    setattr(Complex, f"__{_name}__", lambda a, b, _o=_operator: elementwise(_o, a, b))
    setattr(Complex, f"__r{_name}__", lambda a, b, _o=_operator: elementwise(_o, b, a))
for _name, _operator in {"neg": "negative", "pos": "positive", "abs": "abs"}.items():
    setattr(Complex, f"__{_name}__", lambda a, _o=_operator: elementwise(_o, a))
_matmul = products(f.matmul)
setattr(Complex, "__matmul__", lambda a, b: _matmul(a, b))  # noqa: B010
setattr(Complex, "__rmatmul__", lambda a, b: _matmul(b, a))  # noqa: B010

__all__ = ["angle", "conj", "imag", "real"]
