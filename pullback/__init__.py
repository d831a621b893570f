"""Pullback: a differentiable array language in Python, compiled to C you can ship.

Write the maths once in index notation or in the functions of the Python array API; shapes are checked when the
function is defined; derivatives are programs of the same language; all of it becomes readable C.
"""

from pullback import errors
from pullback.api import Function, exact, function, grad, threads, value_and_grad
from pullback.errors import (
    CompilerError,
    DataError,
    DerivativeError,
    DTypeError,
    IndexRangeError,
    PullbackError,
    ShapeError,
    TraceError,
)
from pullback.ir import types as _types
from pullback.lang.annotations import Size, Static
from pullback.lang.array import Array
from pullback.lang.control import cond, fold, scan, while_loop
from pullback.lang.creation import (
    arange,
    asarray,
    eye,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from pullback.lang.elementwise import convert as astype
from pullback.lang.functions import (
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    ceil,
    clip,
    cos,
    cosh,
    divide,
    equal,
    erf,
    exp,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    hypot,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    logistic,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    positive,
    pow,
    power,
    relu,
    remainder,
    round,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
)
from pullback.lang.index import (
    all_over,
    any_over,
    argmax_over,
    argmin_over,
    build,
    in_range,
    max_over,
    min_over,
    prod_over,
    sum_over,
    where,
)
from pullback.lang.linalg import matmul, outer, tensordot, vecdot
from pullback.lang.manipulation import (
    broadcast_to,
    concat,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    take,
    take_along_axis,
    tile,
    unstack,
)
from pullback.lang.reduction import all, any, argmax, argmin, max, mean, min, prod, std, sum, var

bool = _types.bool_
float32 = _types.f32
float64 = _types.f64
int8 = _types.i8
int16 = _types.i16
int32 = _types.i32
int64 = _types.i64
uint8 = _types.u8
uint16 = _types.u16
uint32 = _types.u32
uint64 = _types.u64

__version__ = "0.1.0.dev0"

__all__ = [
    "Array", "CompilerError", "DTypeError", "DataError", "DerivativeError", "Function", "IndexRangeError",
    "PullbackError", "ShapeError", "Size", "Static", "TraceError", "abs", "acos", "acosh", "add", "all", "all_over",
    "any", "any_over", "arange", "argmax", "argmax_over", "argmin", "argmin_over", "asarray", "asin", "asinh",
    "astype", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "bool", "broadcast_to", "build", "ceil", "clip", "concat", "cond", "cos",
    "cosh", "divide", "equal", "erf", "errors", "exact", "exp", "expand_dims", "expm1", "eye", "flip", "float32",
    "float64", "floor", "floor_divide", "fold", "full", "full_like", "function", "grad", "greater", "greater_equal",
    "hypot", "in_range", "int16", "int32", "int64", "int8", "isfinite", "isinf", "isnan", "less", "less_equal",
    "linspace", "log", "log10", "log1p", "log2", "logical_and", "logical_not", "logical_or", "logical_xor",
    "logistic", "matmul", "matrix_transpose", "max", "max_over", "maximum", "mean", "min", "min_over", "minimum",
    "moveaxis", "multiply", "negative", "not_equal", "ones", "ones_like", "outer", "permute_dims", "positive",
    "pow", "power", "prod", "prod_over", "relu", "remainder", "repeat", "reshape", "roll", "round", "scan", "sign",
    "sin", "sinh", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "sum_over", "take",
    "take_along_axis", "tan", "tanh", "tensordot", "threads", "tile", "tril", "triu", "trunc", "uint16", "uint32",
    "uint64", "uint8", "unstack", "value_and_grad", "var", "vecdot", "where", "while_loop", "zeros", "zeros_like",
]
