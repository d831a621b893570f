"""The elementwise functions of complex arrays, written out for their parts.

Derivatives are those of the pair: the gradient of a real function is  ∂f/∂x + i ∂f/∂y  for z = x + i y, the direction
of steepest ascent (twice the derivative by the conjugate of z), and tangents are complex numbers.

Source of the inverse functions and of tanh: W. Kahan, Branch cuts for complex elementary functions, 1987.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from pullback.errors import DTypeError
from pullback.lang.array import Array
from pullback.lang.complex_array import ComplexArray, as_complex, is_complex
from pullback.lang.composite import Composite
from pullback.lang.elementwise import choose, convert, elementwise
from pullback.lang.making import as_array
from pullback.source import user_position

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
        one = _alike(1.0, as_complex(z))
        found = functools.reduce(_multiply, _squares(as_complex(z), abs(w)), one)
        return found if w >= 0 else _divide(one, found)
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
    "positive": lambda z: z, "reciprocal": lambda z: _divide(_alike(1.0, z), z), "round": _part("round"),
    "sign": _sign, "sin": _turned(_sinh), "sinh": _sinh, "sqrt": _sqrt, "square": lambda z: _multiply(z, z),
    "stop_gradient": _part("stop_gradient"), "subtract": _part("subtract"), "tan": _turned(_tanh), "tanh": _tanh,
}  # fmt: skip


def _elementwise(name: str, values: Sequence[Any]) -> Any:
    """An elementwise function of which an operand is complex."""
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
        return _Complex(elementwise(name, z.real, by), elementwise(name, z.imag, by))
    function = _FUNCTIONS.get(name)
    if function is None:
        raise DTypeError(
            "E121",
            f"{name} takes no complex numbers",
            position=user_position(),
            remedy="`pb.real`, `pb.imag` and `pb.abs` give real ones",
        )
    zs = [as_complex(v) for v in values]
    strong = next((z for z in zs if z.real.weak is None), None)
    return function(*(zs if strong is None else [_alike(z, strong) for z in zs]))


def _alike(x: Any, z: _Complex) -> _Complex:
    """A number as a complex one of an array's type: by itself it would take that of other arrays of the program."""
    number = as_complex(x)
    return number if number.real.weak is None else convert(number, z.dtype)  # type: ignore[return-value]


Composite.elementwise = staticmethod(_elementwise)


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
