"""Pullback: a differentiable array language in Python, compiled to C you can ship.

Write the maths once in index notation or in the functions of the Python array API; shapes are checked when the
function is defined; derivatives are programs of the same language; all of it becomes readable C.
"""

from pullback import errors
from pullback.api import Function, exact, function, grad, threads, value_and_grad
from pullback.ir.types import (
    bool_ as bool,
    f32 as float32,
    f64 as float64,
    i8 as int8,
    i16 as int16,
    i32 as int32,
    i64 as int64,
    u8 as uint8,
    u16 as uint16,
    u32 as uint32,
    u64 as uint64,
)
from pullback.lang.annotations import Size, Static
from pullback.lang.array import Array
from pullback.lang.control import cond, fold, scan, while_loop
from pullback.lang.creation import (
    arange, asarray, eye, full, full_like, linspace, ones, ones_like, tril, triu, zeros, zeros_like,
)
from pullback.lang.elementwise import convert as astype
from pullback.lang.functions import (
    abs, acos, acosh, add, asin, asinh, atan, atan2, atanh, bitwise_and, bitwise_invert, bitwise_left_shift,
    bitwise_or, bitwise_right_shift, bitwise_xor, ceil, clip, cos, cosh, divide, equal, erf, exp, expm1, floor,
    floor_divide, greater, greater_equal, hypot, isfinite, isinf, isnan, less, less_equal, log, log1p, log2, log10,
    logical_and, logical_not, logical_or, logical_xor, logistic, maximum, minimum, multiply, negative, not_equal,
    positive, pow, power, relu, remainder, round, sign, sin, sinh, sqrt, square, subtract, tan, tanh, trunc,
)
from pullback.lang.index import (
    all_over, any_over, argmax_over, argmin_over, build, in_range, max_over, min_over, prod_over, sum_over, where,
)
from pullback.lang.linalg import matmul, outer, tensordot, vecdot
from pullback.lang.manipulation import (
    broadcast_to, concat, expand_dims, flip, matrix_transpose, moveaxis, permute_dims, repeat, reshape, roll, squeeze,
    stack, take, take_along_axis, tile, unstack,
)
from pullback.lang.reduction import all, any, argmax, argmin, max, mean, min, prod, std, sum, var

__version__ = "0.1.0.dev0"

__all__ = [name for name in dir() if not name.startswith("_") and name not in ("api", "ir", "lang", "prim", "source", "ad",
                                                                              "rewrite", "runtime")]
