"""The functions of the array API, one row each, against NumPy: values to the bit or a few units of the last place,
element types, special cases, axes, keywords, arrays without elements; in the interpreter and in C.

All rows of a group are one program with many results, so that it is traced and compiled once. References in floating
point are NumPy's in extended precision, rounded: an error of one unit of the last place is ours then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np

import pullback as pb

INF, NAN = np.inf, np.nan
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-5, -30.0, 0.99, 1e30, -1e-30, INF, -INF, NAN]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS = [*SIGNED, *UNSIGNED]
FLOATS = ["float32", "float64"]


@dataclass(frozen=True)
class Row:
    """One call.

    Attributes:
        label: what a failure is called.
        ours: the call on traced arrays.
        theirs: the same on NumPy's, or the result.
        args: its arrays.
        ulps: how far off a floating-point result may be; 0 asks for the same bits, signs of zeros among them.
        scale: the error is counted in units of the last place of this and of the result.
    """

    label: str
    ours: Callable[..., Any]
    theirs: Any
    args: tuple[Any, ...] = ()
    ulps: float = 0
    scale: float = 0

    @property
    def expected(self) -> Any:
        """The result in NumPy."""
        with np.errstate(all="ignore"):
            return self.theirs(*self.args) if callable(self.theirs) else self.theirs


def run(rows: Sequence[Row]) -> None:
    """Trace all rows as one function; compare what the interpreter and C make of it."""
    args = list({id(a): a for r in rows for a in r.args}.values())
    place = {id(a): k for k, a in enumerate(args)}
    names = ", ".join(f"a{k}" for k in range(len(args)))
    space: dict[str, Any] = {"apply": lambda *a: [r.ours(*(a[place[id(b)]] for b in r.args)) for r in rows]}
    exec(f"def table({names}):\n    return apply({names})", space)
    f = pb.function(space["table"])
    expected = [r.expected for r in rows]
    for route in (f.interpret, f):
        for r, found, wanted in zip(rows, route(*args), expected, strict=True):
            where = f"{r.label} of {', '.join(map(repr, r.args))}, {'in C' if route is f else 'interpreted'}"
            pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
            for a, b in pairs:
                compare(np.asarray(a), np.asarray(b), r, where)


def compare(found: Any, wanted: Any, row: Row, where: str) -> None:
    """Type, shape and elements."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), where
    if wanted.dtype.kind != "f" or row.ulps == 0:
        np.testing.assert_array_equal(found, wanted, err_msg=where)
    else:
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(wanted), err_msg=where)
        size = np.spacing(np.maximum(np.abs(wanted), np.asarray(row.scale, wanted.dtype)))
        finite = np.isfinite(wanted)
        off = np.abs(found[finite].astype(np.longdouble) - wanted[finite]) / size[finite]
        assert not off.size or off.max() <= row.ulps, f"{where}: {found} is {off.max()} units off {wanted}"
        np.testing.assert_array_equal(found[~finite], wanted[~finite], err_msg=where)
    if wanted.dtype.kind == "f" and row.scale == 0:
        zero = wanted == 0
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(wanted[zero]), err_msg=where)


def rounded(f: Callable[..., Any]) -> Callable[..., Any]:
    """F of floating-point operands in extended precision, rounded to their common type."""

    def g(*args: Any) -> Any:
        wide = [np.asarray(a).astype(np.longdouble) for a in args]
        return f(*wide).astype(np.result_type(*args))

    return g


# Elementwise ----------------------------------------------------------------------------------------------------

EXACT_UNARY = ["abs", "ceil", "floor", "negative", "positive", "round", "sign", "sqrt", "square", "trunc"]
EXACT_UNARY += ["isfinite", "isinf", "isnan", "reciprocal"]
ROUNDED_UNARY = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log1p"]
ROUNDED_UNARY += ["log2", "log10", "sin", "sinh", "tan", "tanh"]
EXACT_BINARY = ["add", "subtract", "multiply", "divide", "copysign", "remainder"]
EXACT_BINARY += ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
ROUNDED_BINARY = ["atan2", "hypot", "pow", "logaddexp"]
OTHERS: dict[str, Callable[..., Any]] = {
    "erf": lambda x: np.array([math.erf(v) for v in x.ravel()]).reshape(x.shape),
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.where(x > 0, x, 0),
}


def in_numpy(name: str) -> Callable[..., Any]:
    return getattr(np, name)  # type: ignore[no-any-return]


def unary_rows() -> Iterator[Row]:
    for dtype in FLOATS:
        x = np.array(SPECIAL, dtype)
        for name in EXACT_UNARY:
            yield Row(name, getattr(pb, name), in_numpy(name), (x,))
        for name in ROUNDED_UNARY:
            yield Row(name, getattr(pb, name), rounded(in_numpy(name)), (x,), ulps=2)
        for name, reference in OTHERS.items():
            yield Row(name, getattr(pb, name), lambda x, f=reference: f(x).astype(x.dtype), (x,), ulps=2, scale=1e-300)
    for dtype in INTEGERS:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        x = np.array([0, 1, 7, low, high, high - 1], dtype)
        for name in ("abs", "ceil", "floor", "negative", "positive", "round", "sign", "square", "trunc"):
            wanted = x if name in ("ceil", "floor", "round", "trunc") else in_numpy(name)
            yield Row(name, getattr(pb, name), wanted, (x,))
        for name in ("isfinite", "isinf", "isnan", "bitwise_invert"):
            yield Row(name, getattr(pb, name), in_numpy(name), (x,))
    flags = np.array([True, False])
    yield Row("logical_not", pb.logical_not, np.logical_not, (flags,))
    yield Row("bitwise_invert", pb.bitwise_invert, np.bitwise_invert, (flags,))


def test_unary() -> None:
    run(list(unary_rows()))


def floor_divided(a: Any, b: Any) -> Any:
    """The floor of the exact quotient; at infinities the array API's, where NumPy has its own."""
    out = np.floor(a / b)
    for k in np.flatnonzero(np.isfinite(a) & np.isfinite(b) & (a * b != 0)):
        out[k] = math.floor(Fraction(a[k].item()) / Fraction(b[k].item()))
    return out


def binary_rows() -> Iterator[Row]:
    for dtype in FLOATS:
        x, y = (np.array(v, dtype) for v in zip(*product(SPECIAL, SPECIAL), strict=True))
        for name in EXACT_BINARY:
            yield Row(name, getattr(pb, name), in_numpy(name), (x, y))
        yield Row("floor_divide", pb.floor_divide, floor_divided, (x, y))
        for name in ("maximum", "minimum"):  # of zeros of two signs either is right
            yield Row(name, getattr(pb, name), in_numpy(name), (x, y), scale=1e-300)
        for name in ROUNDED_BINARY:
            scale = 1.0 if name == "logaddexp" else 0.0
            yield Row(name, getattr(pb, name), rounded(in_numpy(name)), (x, y), ulps=2, scale=scale)
    for dtype in INTEGERS:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        values = [0, 1, 3, low, high, high - 5]
        x, y = (np.array(v, dtype) for v in zip(*product(values, values), strict=True))
        for name in ("add", "subtract", "multiply", "floor_divide", "remainder", "maximum", "minimum"):
            yield Row(name, getattr(pb, name), in_numpy(name), (x, y))
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor", *EXACT_BINARY[-6:]):
            yield Row(name, getattr(pb, name), in_numpy(name), (x, y))
        yield Row("pow", pb.pow, np.power, (x, np.abs(y % 7).astype(dtype)))
        shift = np.array([0, 1, 3, 7, 63, 64], dtype)
        for name in ("bitwise_left_shift", "bitwise_right_shift"):
            yield Row(name, getattr(pb, name), in_numpy(name), (np.repeat(x[:6], 6), np.tile(shift, 6)))
    x, y = np.array([True, True, False, False]), np.array([True, False, True, False])
    for name in ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "equal"):
        yield Row(name, getattr(pb, name), in_numpy(name), (x, y))


def test_binary() -> None:
    run(list(binary_rows()))


def promotion_rows() -> Iterator[Row]:
    numbers = {d: np.array([0, 1, 100, np.iinfo(d).max], d) for d in INTEGERS}
    numbers |= {d: np.array([0.5, -2.5, 1e30, NAN], d) for d in FLOATS}
    for a, b in combinations(numbers, 2):
        both = np.result_type(a, b)
        if both.kind == "f" and (a in INTEGERS or b in INTEGERS):
            continue  # kinds that do not mix
        for name in ("add", "multiply", "maximum", "less", "equal"):
            yield Row(f"{name}({a}, {b})", getattr(pb, name), in_numpy(name), (numbers[a], numbers[b]))
    for name in ("add", "subtract", "multiply", "maximum", "less", "floor_divide", "remainder"):
        ours, theirs = getattr(pb, name), in_numpy(name)
        for d, x in numbers.items():
            yield Row(f"{name}({d}, 3)", lambda x, f=ours: f(x, 3), lambda x, f=theirs: f(x, 3), (x,))
            yield Row(f"{name}(3, {d})", lambda x, f=ours: f(3, x), lambda x, f=theirs: f(3, x), (x,))
    for name in ("add", "divide", "pow", "atan2"):
        ours, theirs = getattr(pb, name), rounded(in_numpy(name))
        for d in FLOATS:
            tenth = np.array(0.1, d)
            yield Row(
                f"{name}({d}, 0.1)", lambda x, f=ours: f(x, 0.1), lambda x, f=theirs, t=tenth: f(x, t), (numbers[d],), 2
            )
    flags = np.array([True, False])
    yield Row("equal(bool, True)", lambda b: b == True, flags, (flags,))  # noqa: E712
    yield Row("and(bool, False)", lambda b: b & False, ~flags & flags, (flags,))


def test_promotion_and_python_numbers() -> None:
    run(list(promotion_rows()))
