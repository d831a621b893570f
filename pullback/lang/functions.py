"""The elementwise functions of the array API, one for each primitive of the table."""

from __future__ import annotations

from typing import Any

from pullback.lang.array import Array
from pullback.lang.elementwise import binary, elementwise, unary
from pullback.lang.making import as_array

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


def clip(x: Any, /, min: Any = None, max: Any = None) -> Array:
    """X no smaller than min and no larger than max. An index clipped to an axis is known to be in range.

    >>> pb.function(lambda x: pb.clip(x, 0.0, 1.0))(np.array([-1.0, 0.5, 2.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    out = as_array(x, "clip")
    if min is not None:
        out = elementwise("maximum", out, min)
    if max is not None:
        out = elementwise("minimum", out, max)
    return out


def relu(x: Any, /) -> Array:
    """X where it is positive, else 0; NaN stays. Its derivative at 0 is 0.

    >>> pb.function(lambda x: pb.relu(x))(np.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return elementwise("maximum", 0, as_array(x, "relu"))
