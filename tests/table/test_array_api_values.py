"""The functions of the array API, one row for each call, against NumPy: values to the bit or to some units of the last
place, element types, special cases, axes, keywords, arrays without elements; in the interpreter and in C.

All rows of a group are one program with many results, so that it is traced and compiled once. Where a function rounds,
it is compared with NumPy's in extended precision, rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

import pullback as pb
from tests.table.rows import Row, run, same

pytestmark = pytest.mark.slow

INF, NAN = np.inf, np.nan
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-5, -30.0, 0.99, 1e30, -1e-30, INF, -INF, NAN]
SIGNED, UNSIGNED = [f"int{n}" for n in (8, 16, 32, 64)], [f"uint{n}" for n in (8, 16, 32, 64)]
INTEGERS, FLOATS = [*SIGNED, *UNSIGNED], ["float32", "float64"]
SHAPES: list[tuple[int, ...]] = [(), (1,), (5,), (0,), (2, 3), (0, 3), (3, 0), (2, 3, 4), (2, 1, 3, 2)]


# Elementwise ----------------------------------------------------------------------------------------------------

EXACT_UNARY = ["abs", "ceil", "floor", "negative", "positive", "round", "sign", "sqrt", "square", "trunc"]
EXACT_UNARY += ["isfinite", "isinf", "isnan", "reciprocal"]
ROUNDED_UNARY = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log1p"]
ROUNDED_UNARY += ["log2", "log10", "sin", "sinh", "tan", "tanh"]
INTEGER_UNARY = ["abs", "ceil", "floor", "negative", "positive", "round", "sign", "square", "trunc"]
INTEGER_UNARY += ["isfinite", "isinf", "isnan", "bitwise_invert"]
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
EXACT_BINARY = ["add", "subtract", "multiply", "divide", "copysign", "remainder", *COMPARISONS]
ROUNDED_BINARY = ["atan2", "hypot", "pow", "logaddexp"]
INTEGER_BINARY = ["add", "subtract", "multiply", "floor_divide", "remainder", "maximum", "minimum"]
INTEGER_BINARY += ["bitwise_and", "bitwise_or", "bitwise_xor", *COMPARISONS]
LOGICAL = ["logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "equal"]


def rounded(name: str, *args: Any) -> Any:
    """NumPy's function in extended precision, rounded to the operands' common type."""
    with np.errstate(all="ignore"):
        return getattr(np, name)(*(a.astype(np.longdouble) for a in args)).astype(np.result_type(*args))


def logistic(x: Any) -> Any:
    with np.errstate(all="ignore"):
        return (1 / (1 + np.exp(-x.astype(np.longdouble)))).astype(x.dtype)


def unary_rows() -> Iterator[Row]:
    for dtype in FLOATS:
        x = np.array(SPECIAL, dtype)
        yield from (same(name, x) for name in EXACT_UNARY)
        yield from (same(name, x, ulps=2, expected=rounded(name, x)) for name in ROUNDED_UNARY)
        yield same("erf", x, ulps=2, expected=np.array([math.erf(v) for v in x]).astype(dtype))
        yield same("logistic", x, ulps=2, scale=1e-300, expected=logistic(x))
        yield same("relu", x, scale=1, expected=np.maximum(x, np.array(0, dtype)))
    for dtype in INTEGERS:
        x = np.array([0, 1, 7, np.iinfo(dtype).min, np.iinfo(dtype).max, np.iinfo(dtype).max - 1], dtype)
        yield from (same(name, x) for name in INTEGER_UNARY)
    flags = np.array([True, False])
    yield from (same(name, flags) for name in ("logical_not", "bitwise_invert"))


def test_unary() -> None:
    run(list(unary_rows()))


def floor_divided(a: Any, b: Any) -> Any:
    """The floor of the exact quotient; at infinities the array API's, where NumPy has its own."""
    with np.errstate(all="ignore"):
        out = np.floor(a / b)
        for k in np.flatnonzero(np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)):
            out[k] = math.floor(Fraction(a[k].item()) / Fraction(b[k].item()))
    return out


def binary_rows() -> Iterator[Row]:
    for dtype in FLOATS:
        x, y = (np.array(v, dtype) for v in zip(*product(SPECIAL, SPECIAL), strict=True))
        yield from (same(name, x, y) for name in EXACT_BINARY)
        yield from (same(name, x, y, scale=1) for name in ("maximum", "minimum"))  # of 0.0 and -0.0 either is right
        for name in ROUNDED_BINARY:
            yield same(name, x, y, ulps=2, scale=name == "logaddexp", expected=rounded(name, x, y))
        yield same("floor_divide", x, y, expected=floor_divided(x, y))
    for dtype in INTEGERS:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        x, y = (np.array(v, dtype) for v in zip(*product([0, 1, 3, low, high, high - 5], repeat=2), strict=True))
        yield from (same(name, x, y) for name in INTEGER_BINARY)
        yield same("pow", x, np.abs(y % 7).astype(dtype))
        shift = np.tile(np.array([0, 1, 3, 7, 63, 64], dtype), 6)
        yield from (same(name, x, shift) for name in ("bitwise_left_shift", "bitwise_right_shift"))
    x, y = np.array([True, True, False, False]), np.array([True, False, True, False])
    yield from (same(name, x, y) for name in LOGICAL)


def test_binary() -> None:
    run(list(binary_rows()))


def promotion_rows() -> Iterator[Row]:
    operands = {d: np.array([0, 1, 100, np.iinfo(d).max], d) for d in INTEGERS}
    operands |= {d: np.array([0.5, -2.5, 1e30, NAN], d) for d in FLOATS}
    for a, b in combinations(operands.values(), 2):
        if np.result_type(a, b).kind != "f" or a.dtype.kind == b.dtype.kind:  # other kinds do not mix
            yield from (same(name, a, b) for name in ("add", "multiply", "maximum", "less", "equal"))
    for d, x in operands.items():
        for name in ("add", "subtract", "multiply", "maximum", "less", "floor_divide", "remainder"):
            yield Row(f"{name}({d}, 3)", lambda xp, x, n=name: getattr(xp, n)(x, 3), (x,))
            yield Row(f"{name}(3, {d})", lambda xp, x, n=name: getattr(xp, n)(3, x), (x,))
        if d in FLOATS:
            for name in ("add", "divide", "pow", "atan2"):
                wanted = rounded(name, x, np.array(0.1, d))
                yield Row(f"{name}({d}, 0.1)", lambda xp, x, n=name: getattr(xp, n)(x, 0.1), (x,), 2, 0, wanted)
    for low, high in ((-1, 2), (None, 1), (0, None), (3, 1)):
        yield from (same("clip", x, min=low, max=high, scale=1) for d, x in operands.items() if d not in UNSIGNED)
    flags = np.array([True, False])
    yield Row("bool == True", lambda xp, b: b == True, (flags,))  # noqa: E712
    yield Row("bool & False", lambda xp, b: b & False, (flags,))


def test_promotion_and_python_numbers() -> None:
    run(list(promotion_rows()))


# Reductions -----------------------------------------------------------------------------------------------------


def axes_of(rank: int) -> list[Any]:
    """Every way to say which axes: all, one from either end, several, none."""
    return [None, *range(-rank, rank), *[()] * (rank > 0), *[(0, -1)] * (rank > 1), *[(2, 0)] * (rank > 2)]


def numbers(shape: tuple[int, ...], dtype: str = "float64", seed: int = 0) -> Any:
    """Numbers of which some are equal."""
    low, part = -4 if dtype[0] != "u" else 0, 2 if dtype[0] == "f" else 1
    return np.asarray(np.random.default_rng([seed, *shape]).integers(low, 5, shape) / part).astype(dtype)


def reduction_rows() -> Iterator[Row]:
    for shape in SHAPES:
        x = numbers(shape)
        flags = x > 0
        for axis, keepdims in product(axes_of(len(shape)), (False, True)):
            reduced = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
            k = {"axis": axis, "keepdims": keepdims}
            yield from (same(name, x, ulps=4, **k) for name in ("sum", "prod", "mean", "var", "std"))
            yield from (same(name, flags, **k) for name in ("all", "any"))
            yield same("count_nonzero", x, expected=(x != 0).sum(**k), **k)
            if all(shape[a] for a in reduced):
                names = ("max", "min") if isinstance(axis, tuple) else ("max", "min", "argmax", "argmin")
                yield from (same(name, x, **k) for name in names)


def special_reductions() -> Iterator[Row]:
    """Element types, infinities and NaN, and what the divisor of a variance is."""
    running = ("cumulative_sum", "cumulative_prod")
    for dtype in (*INTEGERS, *FLOATS):
        x = numbers((3, 4), dtype)
        yield from (same(name, x, axis=0) for name in ("sum", "prod", "max", "min", "argmax", "argmin", *running))
        yield from (same(name, x, axis=1, include_initial=True, dtype="float32") for name in running)
        positive = np.abs(x)  # below 0 floating-point numbers saturate
        for to in ("float32", "int64", "uint8"):
            yield same("sum", positive, dtype=to, expected=positive.astype(to).sum(dtype=to))
    pairs = [(1, INF), (INF, -INF), (1, NAN), (NAN, INF), (0, INF), (-INF, -INF), (1e308, 1e308), (-0.0, -0.0)]
    for name in ("sum", "prod", "mean", "var", "std", "max", "min", "argmax", "argmin"):
        yield from (same(name, np.array(values), scale=1) for values in pairs)  # a sum of -0.0 alone may be 0.0
    for correction in (0, 1, 0.5, 2, 3, 4.0):
        for name in ("var", "std"):
            yield same(name, numbers((3, 4)), ulps=4, axis=0, correction=correction)
    for shape, axis in (((3, 4), None), ((3, 4), 0), ((2, 3, 2), (0, -1)), ((1,), 0)):
        x = numbers(shape)
        grown = np.exp(x)
        yield same("logsumexp", x, ulps=8, scale=1, axis=axis, expected=np.log(grown.sum(axis=axis)))
        if axis == 0:
            yield same("softmax", x, ulps=8, axis=0, expected=grown / grown.sum(0))


def test_reductions() -> None:
    run([*reduction_rows(), *special_reductions()])


# Moving data ----------------------------------------------------------------------------------------------------


def manipulation_rows() -> Iterator[Row]:
    for shape in [*SHAPES, (1, 1, 2)]:
        x, rank = numbers(shape), len(shape)
        for axis in axes_of(rank):
            yield same("flip", x, axis=axis)
            yield same("roll", x, shift=(1, -2)[: len(axis)] if isinstance(axis, tuple) else 2, axis=axis)
        for axis in range(-rank - 1, rank + 1):
            yield same("expand_dims", x, axis=axis)
            yield Row(f"stack({shape}, {axis})", lambda xp, x, y, a=axis: xp.stack([x, y], axis=a), (x, x + 1))
        yield from (same("expand_dims", x, axis=axis) for axis in ((0, 1), (-1, 0)))
        for axis in range(-rank, rank):
            yield Row(f"concat({shape}, {axis})", lambda xp, x, y, a=axis: xp.concat([x, y, x], axis=a), (x, x + 1))
            for times in (0, 1, 3):
                yield Row(f"repeat({times}, {axis})", lambda xp, x, n=times, a=axis: xp.repeat(x, n, axis=a), (x,))
            yield Row(f"unstack({shape}, {axis})", lambda xp, x, a=axis: xp.unstack(x, axis=a)[:2], (x,))
        yield same("permute_dims", x, axes=tuple(reversed(range(rank))))
        yield Row(f"reshape({shape})", lambda xp, x: xp.reshape(x, (-1,)), (x,))
        yield Row(f"concat({shape}, None)", lambda xp, x: xp.concat([x, x], axis=None), (x,))
        for times in ((2,), (1, 0, 2), (2, 1, 1, 1, 2)):
            yield Row(f"tile({shape}, {times})", lambda xp, x, n=times: xp.tile(x, n), (x,))
        for target in ((2, *shape), shape, (3, 1, *shape)):
            yield Row(f"broadcast_to({target})", lambda xp, x, t=target: xp.broadcast_to(x, t), (x,))
        if rank > 1:
            yield same("matrix_transpose", x)
            yield from (same(name, x, k=k) for name in ("tril", "triu") for k in (-2, 0, 1, 5))
            for axes in ((0, -1), ((0, 1), (1, 0)), ((-1,), (0,))):
                yield Row(f"moveaxis({shape}, {axes})", lambda xp, x, a=axes: xp.moveaxis(x, *a), (x,))
            for n in (0, 1, 2, 3):
                yield same("diff", x, n=n, axis=0)
    yield from (same("squeeze", numbers((1, 3, 1)), axis=axis) for axis in (0, -1, (0, 2), (-3,)))


def taking_rows() -> Iterator[Row]:
    x = numbers((3, 4))
    for indices in ([2, -1, 0], [[0, -3], [1, 1]], []):
        for dtype in ("int64", "int8", "uint16"):
            places = np.array(indices, dtype) if dtype[0] != "u" else np.abs(indices).astype(dtype) % 3
            yield from (same("take", x, places, axis=axis) for axis in (0, -1))
    yield from (same("take_along_axis", x, np.argsort(x, axis) - 2, axis=axis) for axis in (0, 1))
    for dtype in (*INTEGERS, *FLOATS, "bool"):
        y = numbers((2, 3), dtype)
        yield Row(f"concat of {dtype}", lambda xp, y: xp.concat([y, y]), (y,))
        yield Row(f"stack of {dtype}", lambda xp, y: xp.stack([y, y], axis=1), (y,))
        yield same("where", y > 1, y, y[:1])
        yield same("roll", y, shift=1)
        for to in (*INTEGERS, *FLOATS, "bool"):
            if dtype[0] != "f" or to[0] != "u":  # below 0 they saturate
                yield Row(
                    f"astype({dtype}, {to})", lambda xp, y, to=to: xp.astype(y, to if xp is pb else np.dtype(to)), (y,)
                )
    mixed = np.arange(3, dtype=np.int16), np.arange(3, dtype=np.uint16)
    yield Row("concat of two types", lambda xp, x, y: xp.concat([x, y]), mixed)
    yield Row("stack of two types", lambda xp, x, y: xp.stack([x, y]), mixed)


def test_moving_data() -> None:
    run([*manipulation_rows(), *taking_rows()])


def creation_rows() -> Iterator[Row]:
    x = numbers((2, 3))
    for shape, dtype in product((*SHAPES, 4), (None, "float32", "int8", "uint64", "bool")):
        k = {} if dtype is None else {"dtype": dtype}
        for name in ("zeros", "ones"):
            yield Row(f"{name}({shape}, {k})", lambda xp, n=name, s=shape, k=k: getattr(xp, n)(s, **k))
        yield Row(f"full({shape}, 1, {k})", lambda xp, s=shape, k=k: xp.full(s, 1, **k))
    for value in (True, 3, 2.5, NAN, -0.0):
        yield Row(f"full(2, {value})", lambda xp, v=value: xp.full(2, v))
        yield same("full_like", x, fill_value=value)
    for name in ("zeros_like", "ones_like"):
        yield from (same(name, x, **k) for k in ({}, {"dtype": "int8"}, {"dtype": "bool"}))
    for n, m, k in product((0, 1, 3), (None, 2, 0), (-1, 0, 2)):
        yield Row(f"eye({n}, {m}, k={k})", lambda xp, n=n, m=m, k=k: xp.eye(n, m, k=k))
    for a, b, n, e in product((0, -1.5), (1, 7.25, -3), (0, 1, 2, 5, 50), (True, False)):
        made = lambda xp, a=a, b=b, n=n, e=e: xp.linspace(a, b, n, endpoint=e)
        yield Row(f"linspace({a}, {b}, {n}, endpoint={e})", made, ulps=2, scale=abs(b - a))


def test_creation() -> None:
    run(list(creation_rows()))


# Linear algebra -------------------------------------------------------------------------------------------------

PRODUCTS = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 1))]
PRODUCTS += [((2, 1, 2, 3), (3, 3, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 3), (3, 0)), ((1, 1), (1, 1))]


def product_rows() -> Iterator[Row]:
    for (a, b), dtype in product(PRODUCTS, ("float64", "float32", "int8", "uint8", "int64")):
        yield same("matmul", numbers(a, dtype), numbers(b, dtype), scale=1)
    for a, b in [((3,), (3,)), ((2, 3), (3,)), ((4, 1, 3), (2, 3)), ((2, 0), (2, 0))]:
        for dtype in ("float64", "int8", "uint8"):
            yield same("vecdot", numbers(a, dtype), numbers(b, dtype, 1), scale=1)
    large = np.array([200, 100], np.uint8)
    yield from (same(name, large, large) for name in ("vecdot", "matmul"))
    for axes in (0, 1, 2, ((1,), (0,)), ((0, 1), (1, 0)), ((-1, 0), (0, -1))):
        yield same("tensordot", numbers((3, 3)), numbers((3, 3), seed=1), axes=axes, scale=1)


def linear(name: str, *args: Any, ulps: float = 0, scale: float = 0, **keywords: Any) -> Row:
    """A row of `linalg`."""
    call = lambda xp, *a: (lambda r: tuple(r) if isinstance(r, tuple) else r)(getattr(xp.linalg, name)(*a, **keywords))
    return Row(f"{name}({keywords}) of {', '.join(map(repr, args))}", call, args, ulps, scale)


def linear_rows() -> Iterator[Row]:
    for dtype in FLOATS:
        a = (np.random.default_rng(2).normal(size=(2, 4, 4)) + 3 * np.eye(4)).astype(dtype)
        b, u, v = numbers((2, 4, 3), dtype), numbers((2, 3), dtype), numbers((2, 3), dtype, 1)
        yield from (linear(name, a, ulps=200, scale=1) for name in ("inv", "det", "slogdet"))
        yield linear("solve", a, b, ulps=200, scale=1)
        yield linear("solve", a, b[0], ulps=200, scale=1)
        yield from (linear("cholesky", a @ a.mT, ulps=200, scale=1, upper=upper) for upper in (False, True))
        for n in (0, 1, 2, 5):
            size = float(np.abs(np.linalg.matrix_power(a, n)).max())
            yield Row(f"matrix_power({n})", lambda xp, a, n=n: xp.linalg.matrix_power(a, n), (a,), 16, size)
        yield from (linear(name, b, offset=k, ulps=4) for name in ("trace", "diagonal") for k in (-5, -1, 0, 2, 7))
        yield linear("outer", u[0], v[1])
        yield linear("cross", u, v, scale=1)
        yield linear("cross", u.T, v.T, axis=-2, scale=1)
        for order, axis in product((0, 1, 2, 3, 0.5, INF, -INF), (None, -1, (0, 2))):
            yield linear("vector_norm", a, ulps=16, ord=order, axis=axis, keepdims=axis == -1)
        yield from (linear("matrix_norm", a, ulps=8, ord=order) for order in ("fro", 1, -1, INF, -INF))


def test_linear_algebra() -> None:
    run([*product_rows(), *linear_rows()])
