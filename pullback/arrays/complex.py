"""Elementwise functions of complex arrays.

Derivatives are those of the pair: the gradient of a real function is  ∂f/∂x + i ∂f/∂y  for z = x + i y, the direction
of steepest ascent (twice the derivative by the conjugate of z), and tangents are complex numbers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from pullback.arrays.complex_arithmetic import absolute, divide, multiply, scaled, sign, square
from pullback.arrays.complex_arithmetic import real as _real
from pullback.arrays.complex_parts import as_complex, convert_complex, pair, zero_beside
from pullback.errors import DTypeError
from pullback.source import user_position
from pullback.tracing.arithmetic import choose, elementwise
from pullback.tracing.array import Array, twin
from pullback.tracing.complex_array import ComplexArray, is_complex
from pullback.tracing.making import as_array

_ANALYTIC: Final = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log1p", "sin", "sinh",
    "sqrt", "tan", "tanh",
)  # fmt: skip


def _analytic(name: str) -> Callable[[ComplexArray], ComplexArray]:
    """The analytic function of this name, imported on first use, as most programs have none."""
    from pullback.arrays import complex_functions

    function: Callable[[ComplexArray], ComplexArray] = getattr(complex_functions, name)
    return function


def _power(z: Any, w: Any) -> ComplexArray:
    """The power z^w: by squaring for an integer, else exp(w log z); 0^w is 0 where Re w > 0."""
    if isinstance(w, int) and abs(w) <= 64:
        one = _alike(1.0, as_complex(z))
        found = functools.reduce(multiply, _squares(as_complex(z), abs(w)), one)
        return found if w >= 0 else divide(one, found)
    z, w = _together([as_complex(z), as_complex(w)])
    nothing = _real("logical_and", _real("equal", z.real, 0.0), _real("equal", z.imag, 0.0))
    safe = pair(choose(nothing, 1.0, z.real), z.imag)
    found = _analytic("exp")(multiply(w, _analytic("log")(safe)))
    zeroth = _real("logical_and", _real("equal", w.real, 0.0), _real("equal", w.imag, 0.0))
    end = choose(zeroth, 1.0, choose(_real("greater", w.real, 0.0), 0.0, math.nan))
    return pair(choose(nothing, end, found.real), choose(nothing, 0.0 * end, found.imag))


def _squares(z: ComplexArray, n: int) -> Sequence[ComplexArray]:
    """The powers z^(2^k) whose product is z^n."""
    out = []
    while n:
        if n & 1:
            out.append(z)
        n >>= 1
        z = square(z) if n else z
    return out


def _either(name: str, combine: str) -> Callable[[ComplexArray], Array]:
    return lambda z: _real(combine, _real(name, z.real), _real(name, z.imag))


def _both(name: str, combine: str) -> Callable[[ComplexArray, ComplexArray], Array]:
    return lambda z, w: _real(combine, _real(name, z.real, w.real), _real(name, z.imag, w.imag))


def _part(name: str) -> Callable[..., ComplexArray]:
    return lambda *zs: pair(_real(name, *(z.real for z in zs)), _real(name, *(z.imag for z in zs)))


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": absolute, "add": _part("add"), "divide": divide, "equal": _both("equal", "logical_and"),
    "isfinite": _either("isfinite", "logical_and"), "isinf": _either("isinf", "logical_or"),
    "isnan": _either("isnan", "logical_or"),
    "log10": lambda z: scaled(_analytic("log")(z), 1.0 / math.log(10.0)),
    "log2": lambda z: scaled(_analytic("log")(z), 1.0 / math.log(2.0)),
    "multiply": multiply, "negative": _part("negative"), "not_equal": _both("not_equal", "logical_or"),
    "positive": lambda z: z, "reciprocal": lambda z: divide(_alike(1.0, z), z), "round": _part("round"),
    "sign": sign, "square": square, "stop_gradient": _part("stop_gradient"),
    "subtract": _part("subtract"),
}  # fmt: skip


def complex_elementwise(name: str, values: Sequence[Any]) -> Any:
    """Apply an elementwise function with a complex operand."""
    if name == "power":
        return _power(*values)
    if (
        name in ("multiply", "divide")
        and sum(map(is_complex, values)) == 1
        and (name, is_complex(values[0])) != ("divide", False)
    ):
        z, by = (values[0], values[1]) if is_complex(values[0]) else (values[1], values[0])
        z = as_complex(z)
        as_complex(by)  # refuses integers
        return pair(elementwise(name, z.real, by), elementwise(name, z.imag, by))
    function = _analytic(name) if name in _ANALYTIC else _FUNCTIONS.get(name)
    if function is None:
        raise DTypeError(
            "E121",
            f"{name} takes no complex numbers",
            position=user_position(),
            remedy="`pb.real`, `pb.imag` and `pb.abs` give real ones",
        )
    return function(*_together([as_complex(v) for v in values]))


def _together(zs: Sequence[ComplexArray]) -> Sequence[ComplexArray]:
    """Operands in the widest complex type among the arrays, which numbers take, too."""
    strong = [z for z in zs if z.real.weak is None]
    widest = max((z.dtype for z in strong), key=lambda t: t.part.bits, default=None)
    if widest is None:
        return zs
    return [z if z.dtype is widest and z.real.weak is None else convert_complex(z, widest) for z in zs]


def _alike(x: Any, z: ComplexArray) -> ComplexArray:
    """Convert a number to the complex type of an array, so that it does not take another type."""
    number = as_complex(x)
    return number if number.real.weak is None else convert_complex(number, z.dtype)


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
    return as_complex(x).imag if is_complex(x) else zero_beside(as_array(x, "imag"))


def conj(x: Any, /) -> Any:
    """The conjugate; real numbers are their own. Elementwise.

    >>> pb.function(lambda z: pb.conj(z))(np.array([1.0 + 2.0j])).tolist()
    [(1-2j)]
    """
    return as_complex(x).conj() if is_complex(x) else twin(as_array(x, "conj"))


def angle(x: Any, /) -> Array:
    """The angle of a complex number with the positive real axis, from -π to π. Elementwise.

    >>> pb.function(lambda z: pb.angle(z))(np.array([2.0j])).item() / np.pi
    0.5
    """
    z = as_complex(x)
    return _real("atan2", z.imag, z.real)


def make_complex(real: Any, imag: Any, /) -> ComplexArray:
    """Make complex numbers from parts: floating arrays of one type, which broadcast.

    >>> pb.function(lambda x, y: pb.complex(x, y))(np.array([1.0]), np.array([2.0])).tolist()
    [(1+2j)]
    """
    return pair(real, imag)
