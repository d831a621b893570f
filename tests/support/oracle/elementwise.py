"""Elementwise functions of the oracle's arrays for every dtype, and operators and methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.support.oracle import numbers
from tests.support.oracle.arrays import (
    BOOL,
    OUTSIDE,
    WEAK_FLOAT,
    WEAK_INT,
    Array,
    DType,
    Element,
    OracleError,
    as_array,
    broadcast,
    broadcast_shape,
    convert,
    converted,
    dtype_of,
    nothing,
    promote,
    settled,
)


def _integer_power(a: int, b: int, d: DType) -> int:
    if b < 0:
        return a if a == 1 else (-1 if b % 2 else 1) if a == -1 else 0
    return pow(a, b, 1 << (d.bits or 64))


def _shifted_left(a: int, b: int, d: DType) -> int:
    return a << b if 0 <= b < (d.bits or 64) else 0


def _shifted_right(a: int, b: int, d: DType) -> int:
    return a >> (b if 0 <= b < (d.bits or 64) else 64)


INTEGERS: Final[dict[str, Callable[..., int]]] = {
    "add": lambda a, b, d: a + b,
    "subtract": lambda a, b, d: a - b,
    "multiply": lambda a, b, d: a * b,
    "negative": lambda a, d: -a,
    "positive": lambda a, d: a,
    "square": lambda a, d: a * a,
    "floor_divide": lambda a, b, d: a // b if b else 0,
    "remainder": lambda a, b, d: a % b if b else 0,
    "power": _integer_power,
    "abs": lambda a, d: abs(a),
    "sign": lambda a, d: (a > 0) - (a < 0),
    "maximum": lambda a, b, d: max(a, b),
    "minimum": lambda a, b, d: min(a, b),
    "bitwise_and": lambda a, b, d: a & b,
    "bitwise_or": lambda a, b, d: a | b,
    "bitwise_xor": lambda a, b, d: a ^ b,
    "bitwise_invert": lambda a, d: ~a,
    "bitwise_left_shift": _shifted_left,
    "bitwise_right_shift": _shifted_right,
    **dict.fromkeys(("stop_gradient", "floor", "ceil", "round", "trunc"), lambda a, d: a),
}
TRUTHS: Final[dict[str, Callable[..., bool]]] = {
    "logical_and": lambda a, b: a and b,
    "logical_or": lambda a, b: a or b,
    "logical_xor": lambda a, b: a != b,
    "logical_not": lambda a: not a,
    "bitwise_and": lambda a, b: a and b,
    "bitwise_or": lambda a, b: a or b,
    "bitwise_xor": lambda a, b: a != b,
    "bitwise_invert": lambda a: not a,
    "stop_gradient": lambda a: a,
}
# What each comparison says of -1, 0, 1 and of None, where a number is NaN.
COMPARISONS: Final[dict[str, tuple[object, ...]]] = {
    "equal": (0,),
    "not_equal": (-1, 1, None),
    "less": (-1,),
    "less_equal": (-1, 0),
    "greater": (1,),
    "greater_equal": (0, 1),
}
FLOATING_ONLY: Final = frozenset(numbers.FLOAT) - INTEGERS.keys()
NAMES: Final = frozenset(
    (*INTEGERS, *TRUTHS, *COMPARISONS, *numbers.FLOAT, *numbers.CHOICES, *numbers.CLASSES)
)


_others: list[tuple[Callable[[Any], bool], Callable[[str, tuple[Any, ...]], Any]]] = []


def for_others(are: Callable[[Any], bool], compute: Callable[[str, tuple[Any, ...]], Any]) -> None:
    """Primitives of operands of a kind that are no arrays."""
    _others.append((are, compute))


def elementwise(name: str, *values: Any) -> Array:
    """A primitive on every element, operands broadcast."""
    for are, compute in _others:
        if any(map(are, values)):
            return compute(name, values)  # type: ignore[no-any-return]
    args = [as_array(v) for v in values]
    common = promote(args)
    dtype, compute = _rule(name, common)
    args = [a if a.dtype is common else convert(a, common) for a in args]
    if all(not a.shape for a in args):
        numbers.operations[0] += 1
        return Array((), dtype, [_one(compute, dtype, [a.data[0] for a in args])])
    shape = broadcast_shape([a.shape for a in args])
    columns = [broadcast(a, shape) for a in args]
    numbers.operations[0] += len(columns[0])
    return Array(shape, dtype, [_one(compute, dtype, row) for row in zip(*columns)])


def _one(compute: Callable[..., Element], dtype: DType, row: Any) -> Element:
    for e in row:
        if e is OUTSIDE:
            return nothing(dtype)
    return compute(*row)


def _rule(name: str, common: DType) -> tuple[DType, Callable[..., Element]]:
    """The dtype of the results, and how one is computed from elements of the common dtype."""
    if name in COMPARISONS:
        true = COMPARISONS[name]
        if common.floating:
            return BOOL, lambda a, b: numbers.compare(a, b) in true
        return BOOL, lambda a, b: ((a > b) - (a < b)) in true
    if name in numbers.CLASSES:
        return BOOL, numbers.CLASSES[name] if common.floating else lambda a: name == "isfinite"
    if common.kind == "bool":
        return common, TRUTHS[name]
    if common.floating:
        if name not in numbers.FLOAT and name not in numbers.CHOICES:
            raise OracleError(f"{name} of {common}")
        return common, lambda *args: numbers.apply(name, *args)
    if name in FLOATING_ONLY:
        if not common.weak:
            raise OracleError(f"{name} of {common}")
        return WEAK_FLOAT, lambda *args: numbers.apply(name, *(converted(a, WEAK_INT, WEAK_FLOAT) for a in args))
    function = INTEGERS[name]
    return common, lambda *args: common.wrap(function(*args, common))


def choose(condition: Any, then: Any, otherwise: Any) -> Array:
    """`where`: elements of `then` where the condition holds, else of `otherwise`."""
    test, a, b = as_array(condition), as_array(then), as_array(otherwise)
    dtype = promote([a, b])
    a, b = convert(a, dtype), convert(b, dtype)
    shape = broadcast_shape([test.shape, a.shape, b.shape])
    rows = zip(broadcast(test, shape), broadcast(a, shape), broadcast(b, shape))
    return Array(shape, dtype, [nothing(dtype) if t is OUTSIDE else x if t else y for t, x, y in rows])


def astype(x: Any, dtype: Any, /) -> Array:
    """Every element converted."""
    return convert(as_array(x), dtype_of(dtype))


def strong(x: Any) -> Array:
    """The array in the dtype it has when it meets nothing else."""
    a = as_array(x)
    return convert(a, settled(a.dtype))


def _operator(name: str, turned: bool = False) -> Callable[[Any, Any], Array]:
    if turned:
        return lambda self, other: elementwise(name, other, self)
    return lambda self, other: elementwise(name, self, other)


for _name, _method in {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}.items():  # fmt: skip
    setattr(Array, f"__{_name}__", _operator(_method))
    setattr(Array, f"__r{_name}__", _operator(_method, turned=True))
for _name, _method in {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}.items():  # fmt: skip
    setattr(Array, f"__{_name}__", _operator(_method))
for _name, _method in {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}.items():
    setattr(Array, f"__{_name}__", lambda self, _method=_method: elementwise(_method, self))
Array.astype = astype  # type: ignore[attr-defined]

__all__ = ["NAMES", "astype", "choose", "elementwise", "for_others", "strong"]
