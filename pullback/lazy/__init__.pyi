"""The names of the lazy namespace, for type checkers: those of `pullback`, with the types of lazy arrays."""

import builtins
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from pullback import errors
from pullback.errors import (
    CompilerError,
    DataError,
    DerivativeError,
    DeviceError,
    DTypeError,
    IndexRangeError,
    MissingKeyError,
    NotFiniteError,
    OutOfMemoryError,
    PullbackError,
    ShapeError,
    TraceError,
    UndefinedNameError,
    UnfinishedError,
    UnknownNameError,
)
from pullback.ir.types import DType
from pullback.jagged_arrays import Jagged
from pullback.lazy.awaiting import gather, run, trampoline
from pullback.lazy.counts import Stats, stats
from pullback.lazy.foreign import Foreign
from pullback.lazy.gradients import backward, grad, value_and_grad
from pullback.lazy.kernel import finish_compiling
from pullback.lazy.layers import layer
from pullback.lazy.namespace import from_dlpack, lift
from pullback.lazy.node import Array
from pullback.lazy.open_shapes import (
    bincount,
    nonzero,
    ravel,
    repeat,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    unstack,
)
from pullback.lazy.plugins import Plugin
from pullback.lazy.remote import Remote, Worker, remote, workers
from pullback.lazy.training import Trainer, weights
from pullback.lazy.typed import (
    Along,
    Binary,
    Comparison,
    Condition,
    Creation,
    D,
    E,
    Like,
    Maximum,
    Predicate,
    Product,
    S,
    Sum,
    Typed,
    Unary,
)
from pullback.lazy.weight import Weight
from pullback.runtime.device.array import DeviceArray, device_put
from pullback.runtime.device.listing import devices

__all__ = [
    "Array",
    "CompilerError",
    "DTypeError",
    "DataError",
    "DerivativeError",
    "DeviceArray",
    "DeviceError",
    "Foreign",
    "IndexRangeError",
    "Jagged",
    "MissingKeyError",
    "NotFiniteError",
    "OutOfMemoryError",
    "Plugin",
    "PullbackError",
    "Remote",
    "ShapeError",
    "Stats",
    "TraceError",
    "Trainer",
    "UndefinedNameError",
    "UnfinishedError",
    "UnknownNameError",
    "Weight",
    "Worker",
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "angle",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "asarray",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "backward",
    "bfloat16",
    "bincount",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bool",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "can_cast",
    "ceil",
    "clip",
    "complex",
    "complex64",
    "complex128",
    "concat",
    "conj",
    "convolve",
    "copysign",
    "cos",
    "cosh",
    "count_nonzero",
    "cumulative_max",
    "cumulative_min",
    "cumulative_prod",
    "cumulative_sum",
    "device_put",
    "devices",
    "diag",
    "diagonal",
    "diff",
    "divide",
    "e",
    "einsum",
    "empty",
    "empty_like",
    "equal",
    "erf",
    "errors",
    "exp",
    "expand_dims",
    "expm1",
    "external",
    "eye",
    "fft",
    "finfo",
    "finish_compiling",
    "flip",
    "float16",
    "float32",
    "float64",
    "floor",
    "floor_divide",
    "from_dlpack",
    "full",
    "full_like",
    "gather",
    "grad",
    "gradient",
    "greater",
    "greater_equal",
    "histogram",
    "hypot",
    "iinfo",
    "imag",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "interp",
    "isdtype",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "jagged",
    "kron",
    "layer",
    "least_squares",
    "less",
    "less_equal",
    "lift",
    "linalg",
    "linspace",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logistic",
    "logsumexp",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimum",
    "moveaxis",
    "multiply",
    "nan",
    "nan_to_num",
    "negative",
    "newaxis",
    "nextafter",
    "nonzero",
    "not_equal",
    "ones",
    "ones_like",
    "outer",
    "pad",
    "permute_dims",
    "pi",
    "positive",
    "pow",
    "power",
    "prod",
    "quantile",
    "random",
    "ravel",
    "real",
    "reciprocal",
    "relu",
    "remainder",
    "remote",
    "repeat",
    "reshape",
    "result_type",
    "roll",
    "round",
    "run",
    "searchsorted",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "softmax",
    "sort",
    "special",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "stats",
    "std",
    "stop_gradient",
    "subtract",
    "sum",
    "swapaxes",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "top_k",
    "trace",
    "trampoline",
    "tril",
    "triu",
    "trunc",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "value_and_grad",
    "vander",
    "var",
    "vecdot",
    "verbs",
    "weights",
    "where",
    "workers",
    "zeros",
    "zeros_like",
]

acos: Unary
acosh: Unary
asin: Unary
asinh: Unary
atan: Unary
atanh: Unary
ceil: Unary
cos: Unary
cosh: Unary
erf: Unary
exp: Unary
expm1: Unary
floor: Unary
log: Unary
log10: Unary
log1p: Unary
log2: Unary
logistic: Unary
negative: Unary
positive: Unary
reciprocal: Unary
relu: Unary
round: Unary
sign: Unary
sin: Unary
sinh: Unary
sqrt: Unary
square: Unary
tan: Unary
tanh: Unary
trunc: Unary

cumulative_max: Along
cumulative_min: Along
flip: Along
roll: Along
softmax: Along
sort: Along

isfinite: Predicate
isinf: Predicate
isnan: Predicate
logical_not: Predicate
signbit: Predicate

add: Binary
atan2: Binary
copysign: Binary
divide: Binary
floor_divide: Binary
hypot: Binary
logaddexp: Binary
maximum: Binary
minimum: Binary
multiply: Binary
nextafter: Binary
pow: Binary
power: Binary
remainder: Binary
subtract: Binary

equal: Comparison
greater: Comparison
greater_equal: Comparison
less: Comparison
less_equal: Comparison
logical_and: Comparison
logical_or: Comparison
logical_xor: Comparison
not_equal: Comparison

empty: Creation
ones: Creation
zeros: Creation

empty_like: Like
ones_like: Like
zeros_like: Like

matmul: Product

max: Maximum
min: Maximum

logsumexp: Sum
mean: Sum
prod: Sum
std: Sum
sum: Sum
var: Sum

all: Condition
any: Condition

abs: Callable[..., Array]
angle: Callable[..., Array]
arange: Callable[..., Array]
argmax: Callable[..., Array]
argmin: Callable[..., Array]
argsort: Callable[..., Array]
astype: Callable[..., Array]
bitwise_and: Callable[..., Array]
bitwise_invert: Callable[..., Array]
bitwise_left_shift: Callable[..., Array]
bitwise_or: Callable[..., Array]
bitwise_right_shift: Callable[..., Array]
bitwise_xor: Callable[..., Array]
broadcast_to: Callable[..., Array]
clip: Callable[..., Array]
complex: Callable[..., Array]
concat: Callable[..., Array]
conj: Callable[..., Array]
convolve: Callable[..., Array]
count_nonzero: Callable[..., Array]
cumulative_prod: Callable[..., Array]
cumulative_sum: Callable[..., Array]
diag: Callable[..., Array]
diagonal: Callable[..., Array]
diff: Callable[..., Array]
einsum: Callable[..., Array]
expand_dims: Callable[..., Array]
eye: Callable[..., Array]
full: Callable[..., Array]
full_like: Callable[..., Array]
imag: Callable[..., Array]
interp: Callable[..., Array]
isin: Callable[..., Array]
kron: Callable[..., Array]
linspace: Callable[..., Array]
matrix_transpose: Callable[..., Array]
median: Callable[..., Array]
moveaxis: Callable[..., Array]
nan_to_num: Callable[..., Array]
outer: Callable[..., Array]
pad: Callable[..., Array]
permute_dims: Callable[..., Array]
quantile: Callable[..., Array]
real: Callable[..., Array]
reshape: Callable[..., Array]
searchsorted: Callable[..., Array]
squeeze: Callable[..., Array]
stack: Callable[..., Array]
stop_gradient: Callable[..., Array]
swapaxes: Callable[..., Array]
take: Callable[..., Array]
take_along_axis: Callable[..., Array]
tensordot: Callable[..., Array]
tile: Callable[..., Array]
trace: Callable[..., Array]
tril: Callable[..., Array]
triu: Callable[..., Array]
vander: Callable[..., Array]
vecdot: Callable[..., Array]
where: Callable[..., Array]

fft: Any
linalg: Any
random: Any
special: Any
verbs: Any
bfloat16: DType
bool: DType
complex64: Any
complex128: Any
float16: DType
float32: DType
float64: DType
int8: DType
int16: DType
int32: DType
int64: DType
uint8: DType
uint16: DType
uint32: DType
uint64: DType
e: float
inf: float
nan: float
pi: float
newaxis: None

broadcast_arrays: Callable[..., Any]
broadcast_shapes: Callable[..., Any]
can_cast: Callable[..., Any]
external: Callable[..., Any]
finfo: Callable[..., Any]
gradient: Callable[..., Any]
histogram: Callable[..., Any]
iinfo: Callable[..., Any]
isdtype: Callable[..., Any]
jagged: Callable[..., Any]
least_squares: Callable[..., Any]
meshgrid: Callable[..., Any]
result_type: Callable[..., Any]
split: Callable[..., Any]
top_k: Callable[..., Any]

@overload
def asarray(
    obj: Typed[S, D], /, *, device: Any = None, copy: builtins.bool | None = None
) -> Array[S, D]: ...
@overload
def asarray(
    obj: np.ndarray[Any, np.dtype[D]], /, *, device: Any = None, copy: builtins.bool | None = None
) -> Array[Any, D]: ...
@overload
def asarray(
    obj: float, /, *, device: Any = None, copy: builtins.bool | None = None
) -> Array[tuple[()], np.float64]: ...
@overload
def asarray(
    obj: list[float], /, *, device: Any = None, copy: builtins.bool | None = None
) -> Array[tuple[Any], Any]: ...
@overload
def asarray(
    obj: list[list[float]], /, *, device: Any = None, copy: builtins.bool | None = None
) -> Array[tuple[Any, Any], Any]: ...
@overload
def asarray(
    obj: Any, /, *, dtype: type[E], device: Any = None, copy: builtins.bool | None = None
) -> Array[Any, E]: ...
@overload
def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: builtins.bool | None = None
) -> Array[Any, Any]: ...
