"""Operands of several kinds, converted as NumPy converts them, such as bools and floats.

    lazy.asarray([1, 2]) / 2              float64: integers have no quotient
    lazy.asarray([1, 2]) * 0.5            float64: the type of a Python float
    lazy.sum(lazy.asarray([1.0]) > 0)     int64: bools are counted

Functions of `pullback` refuse these, as a traced program states its types. Code written for NumPy does not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from pullback.arrays.elementwise import convert, elementwise
from pullback.ir import types
from pullback.tracing.array import Array, TracedArray
from pullback.tracing.complex_array import ComplexArray, complex_type

__all__ = ["NUMBERS", "as_numpy", "common_type"]

_RANK: Final = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
NUMBERS: Final = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}

_TOGETHER: Final = """
    add subtract multiply floor_divide remainder pow power maximum minimum equal not_equal less less_equal greater
    greater_equal bitwise_and bitwise_or bitwise_xor matmul vecdot tensordot outer kron isin searchsorted convolve
    linalg.matmul linalg.vecdot linalg.tensordot linalg.outer linalg.cross
    operator.add operator.sub operator.mul operator.floordiv operator.mod operator.pow operator.matmul operator.and
    operator.or operator.xor operator.lt operator.le operator.gt operator.ge operator.eq operator.ne
"""
_FLOATING: Final = """
    divide operator.truediv atan2 hypot copysign logaddexp nextafter acos acosh asin asinh atan atanh cos cosh exp expm1
    log log10 log1p log2 sin sinh sqrt tan tanh logistic erf logsumexp softmax mean var std median quantile
    signbit angle array.mean fft.fft fft.ifft fft.rfft fft.irfft
    fft.hfft fft.ihfft fft.fftn fft.ifftn fft.rfftn fft.irfftn
    linalg.cholesky linalg.det linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.inv linalg.lstsq
    linalg.matrix_norm linalg.matrix_rank linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.svd linalg.svdvals
    linalg.vector_norm
"""
_LISTS: Final = "concat stack"
_COUNTING: Final = """
    sum prod cumulative_sum cumulative_prod trace linalg.trace array.sum array.prod isnan isinf isfinite
"""
_OF_BOOLS: Final = {"add": "logical_or", "multiply": "logical_and", "mul": "logical_and", "maximum": "logical_or",
                    "minimum": "logical_and"}  # fmt: skip
_TRUTH: Final = "logical_and logical_or logical_xor logical_not"


def common_type(dtypes: Sequence[np.dtype[Any]], numbers: Sequence[Any]) -> np.dtype[Any]:
    """The type of arrays of these types together; a Python number only adds its kind."""
    common = np.result_type(*dtypes)
    for number in numbers:
        own = np.dtype(NUMBERS[type(number)])
        if _RANK[own.kind] > _RANK[common.kind]:
            single = own.kind == "c" and common in (np.float16, np.float32)
            common = np.dtype("complex64") if single else own
    return common


def together(values: Sequence[Any], floating: bool = False) -> list[Any]:
    """Operands, those of a lower kind than their common type converted to it."""
    dtypes = [_dtype(v) for v in values if isinstance(v, TracedArray)]
    if not dtypes:
        return list(values)
    common = common_type(dtypes, [v for v in values if type(v) in NUMBERS])
    if floating and _RANK[common.kind] < 2:
        common = np.dtype("float64")
    return [_raised(v, common) for v in values]


def _dtype(x: Any) -> np.dtype[Any]:
    found: np.dtype[Any] = x.dtype.numpy if isinstance(x, ComplexArray) else x.storage.numpy
    return found


def _raised(x: Any, common: np.dtype[Any]) -> Any:
    """An operand converted to the kind of a type, unless it is a float beside complex numbers."""
    if isinstance(x, bool):
        return int(x) if common.kind != "b" else x
    if not isinstance(x, Array) or _RANK[_dtype(x).kind] >= min(_RANK[common.kind], 2):
        return x
    own = complex_type(common)
    return convert(x, common if own is None else own.part)


def _truth(x: Any) -> Any:
    """Whether an operand is not 0."""
    return x if not isinstance(x, TracedArray) or _dtype(x).kind == "b" else elementwise("not_equal", x, 0)


def _counted(x: Any) -> Any:
    """Bools as integers."""
    return convert(x, types.i64) if isinstance(x, Array) and x.settled.is_bool else x


Rule = Callable[..., Sequence[Any]]  # from the positional arguments to those for the function


def _named(text: str, rule: Rule) -> dict[str, Rule]:
    return dict.fromkeys(text.split(), rule)


def _floats(*args: Any) -> Sequence[Any]:
    return together(args, floating=True)


_RULES: Final[dict[str, Rule]] = {
    **_named(_TOGETHER, lambda *args: [*together(args[:2]), *args[2:]]),
    **_named(_FLOATING, lambda *args: [*together(args[:2], floating=True), *args[2:]]),
    **_named(_LISTS, lambda *args: [together(args[0]), *args[1:]]),
    **_named(_COUNTING, lambda *args: [*map(_counted, args[:1]), *args[1:]]),
    **_named(_TRUTH, lambda *args: [*map(_truth, args)]),
    "where": lambda *args: [_truth(args[0]), *together(args[1:])],
    "clip": lambda *args: together(args),
    "einsum": lambda *args: [args[0], *together(args[1:])],
}


def as_numpy(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of traced arrays with operands converted as NumPy does, or the function itself.

    Args:
        name: as in `pb.sum`, `pb.linalg.solve`, `operator.add` or `array.sum`, for a method.
    """
    short = name.removeprefix("pb.")
    logic = _OF_BOOLS.get(short.removeprefix("operator."))
    rule = _RULES.get(short) or (_floats if short.startswith("special.") and short != "special.polygamma" else None)
    if rule is None:
        return function

    @functools.wraps(function)
    def converting(*args: Any, **keywords: Any) -> Any:
        args = tuple(rule(*args))
        if logic is not None and any(isinstance(a, Array) and a.settled.is_bool for a in args):
            return elementwise(logic, *args)
        return function(*args, **keywords)

    return converting
