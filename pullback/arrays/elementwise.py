"""Elementwise functions of the array API, one per primitive, for real and complex arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.arrays.complex import complex_elementwise
from pullback.arrays.complex_parts import choose_complex, convert_complex
from pullback.ir.primitive import PRIMITIVES
from pullback.source import Position
from pullback.tracing import arithmetic, tree
from pullback.tracing.array import Array, twin
from pullback.tracing.complex_array import complex_type
from pullback.tracing.devices import check_device
from pullback.tracing.making import as_array


def elementwise(name: str, *values: object, position: Position | None = None) -> Array:
    """The primitive `name` on every element, operands broadcast."""
    if any_pair(values):
        return complex_elementwise(name, values)  # type: ignore[no-any-return]
    return arithmetic.elementwise(name, *values, position=position)


def any_pair(values: tuple[object, ...]) -> bool:
    """Whether one of the operands is complex."""
    return True in map(tree.is_pair, values)


def choose(condition: object, then: object, otherwise: object, position: Position | None = None) -> Array:
    """Choose elements of `then` where the condition holds, else of `otherwise`."""
    if any_pair((then, otherwise)):
        return choose_complex(condition, then, otherwise)  # type: ignore[return-value]
    return arithmetic.choose(condition, then, otherwise, position)


def convert(value: object, dtype: object, /, *, copy: bool = True, device: object = None) -> Array:
    """Convert every element to a dtype (`astype`). The result is a copy, whatever `copy` is.

    >>> pb.function(lambda x: pb.astype(x, pb.int64))(np.array([1.0, -2.7])).tolist()
    [1, -2]
    """
    check_device("astype", device)
    if tree.is_pair(value) or complex_type(dtype) is not None:
        return convert_complex(value, dtype)  # type: ignore[no-any-return]
    return arithmetic.convert(value, dtype)


def unary(name: str) -> Callable[[Any], Array]:
    """The public function of a primitive of one operand."""

    def function(x: Any, /) -> Array:
        return elementwise(name, x)

    _describe(function, name)
    return function


def binary(name: str) -> Callable[[Any, Any], Array]:
    """The public function of a primitive of two operands."""

    def function(x1: Any, x2: Any, /) -> Array:
        return elementwise(name, x1, x2)

    _describe(function, name)
    return function


def _describe(function: Any, name: str) -> None:
    function.__name__ = function.__qualname__ = name
    doc = {
        "add": "Sum x1 + x2.",
        "subtract": "Difference x1 - x2.",
        "multiply": "Product x1 * x2.",
        "negative": "-x.",
        "positive": "x itself.",
        "square": "x * x.",
    }.get(name)
    function.__doc__ = (doc or PRIMITIVES[name].doc) + " Elementwise; operands broadcast."


abs = unary("abs")
acos = unary("acos")
acosh = unary("acosh")
asin = unary("asin")
asinh = unary("asinh")
atan = unary("atan")
atanh = unary("atanh")
bitwise_invert = unary("bitwise_invert")
ceil = unary("ceil")
cos = unary("cos")
cosh = unary("cosh")
erf = unary("erf")
exp = unary("exp")
expm1 = unary("expm1")
floor = unary("floor")
isfinite = unary("isfinite")
isinf = unary("isinf")
isnan = unary("isnan")
log = unary("log")
log10 = unary("log10")
log1p = unary("log1p")
log2 = unary("log2")
logical_not = unary("logical_not")
logistic = unary("logistic")
negative = unary("negative")
positive = unary("positive")
round = unary("round")
sign = unary("sign")
sin = unary("sin")
sinh = unary("sinh")
sqrt = unary("sqrt")
square = unary("square")
tan = unary("tan")
tanh = unary("tanh")
trunc = unary("trunc")

add = binary("add")
atan2 = binary("atan2")
bitwise_and = binary("bitwise_and")
bitwise_left_shift = binary("bitwise_left_shift")
bitwise_or = binary("bitwise_or")
bitwise_right_shift = binary("bitwise_right_shift")
bitwise_xor = binary("bitwise_xor")
copysign = binary("copysign")
divide = binary("divide")
equal = binary("equal")
floor_divide = binary("floor_divide")
greater = binary("greater")
greater_equal = binary("greater_equal")
hypot = binary("hypot")
less = binary("less")
less_equal = binary("less_equal")
logical_and = binary("logical_and")
logical_or = binary("logical_or")
logical_xor = binary("logical_xor")
maximum = binary("maximum")
minimum = binary("minimum")
multiply = binary("multiply")
nextafter = binary("nextafter")
not_equal = binary("not_equal")
power = binary("power")
pow = power
remainder = binary("remainder")
subtract = binary("subtract")


def where(condition: Any, x1: Any, x2: Any, /) -> Array:
    """Choose elements of x1 where the condition holds, else of x2.

    Only the chosen side is evaluated, and so is its derivative: the gradient of `where(x > 0, log(x), 0)` at 0 is 0.
    Conditions on indices count in the proof that an index is in range.

    >>> pb.function(lambda x: pb.where(x > 0, pb.log(x), 0.0))(np.array([1.0, -1.0])).tolist()
    [0.0, 0.0]
    """
    return choose(condition, x1, x2)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Array:
    """Clip to [min, max]. An index clipped to an axis is known to be in range.

    >>> pb.function(lambda x: pb.clip(x, 0.0, 1.0))(np.array([-1.0, 0.5, 2.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    out = twin(as_array(x, "clip"))
    if min is not None:
        out = elementwise("maximum", out, min)
    if max is not None:
        out = elementwise("minimum", out, max)
    return out


def relu(x: Any, /) -> Array:
    """Return `x` where it is positive, else 0; NaN stays. The derivative at 0 is 0.

    >>> pb.function(lambda x: pb.relu(x))(np.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return elementwise("maximum", 0, as_array(x, "relu"))
