"""Complex arrays from parts, and parts of complex arrays: conversion, choice, zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.errors import DTypeError
from pullback.ir import expr
from pullback.source import user_position
from pullback.tracing.arithmetic import aligned, broadcast_extents, choose, common_dtype, convert
from pullback.tracing.array import Array, Rule, twin, type_text, weak
from pullback.tracing.complex_array import ComplexArray, complex_type, is_complex
from pullback.tracing.making import as_array, scalar, view


def pair(real: Any, imag: Any) -> ComplexArray:
    """The complex numbers with these parts, which broadcast and take one floating type."""
    a, b = as_array(real, "complex"), as_array(imag, "complex")
    if a.weak is None or b.weak is None:
        a, b = _alike(a, b)
    return ComplexArray(a, b)


def _alike(a: Array, b: Array) -> tuple[Array, Array]:
    """Broadcast two arrays and convert them to one floating type."""
    position = user_position()
    dtype = common_dtype("complex", [a, b], position)
    if dtype is None or not dtype.is_floating:
        raise DTypeError(
            "E121",
            f"complex takes floating parts, not {type_text(a)} and {type_text(b)}",
            position=position,
            remedy='convert them with `astype("float64")`',
        )
    extents = broadcast_extents("complex", [a, b], position)

    def spread(h: Array) -> Array:
        if h.strong is dtype and h.extents == extents:
            return h
        rule: Rule = lambda i: expr.cast(aligned(h, i, dtype), dtype)
        return view(extents, dtype, rule, None, h.name) if extents else scalar(rule(()))

    return spread(a), spread(b)


def copied(x: Any) -> Any:
    """Another object for an array, which can be written by itself."""
    return ComplexArray(x.real, x.imag) if isinstance(x, ComplexArray) else twin(x)


def as_complex(x: Any) -> ComplexArray:
    """Convert a number or array to a complex one."""
    if isinstance(x, ComplexArray):
        return x
    if isinstance(x, np.ndarray | np.complexfloating) and np.asarray(x).dtype.kind == "c":
        a = np.asarray(x)
        return pair(np.array(a.real), np.array(a.imag))
    if is_complex(x):  # a number, or an array on a device
        return pair(x.real, x.imag)
    real = as_array(x)
    if real.weak is None and not real.settled.is_floating:
        raise DTypeError(
            "E120",
            f"{type_text(real)} and complex numbers have no common element type",
            position=user_position(),
            remedy='convert it with `astype("float64")`',
        )
    return pair(real, 0.0)


def zero_beside(x: Array) -> Array:
    """Zeros of the shape and type of x."""
    if x.weak is not None and not x.rank:
        return weak(x.weak, lambda dtype: expr.const(0, dtype))
    rule: Rule = lambda i: expr.const(0, x.settled)
    return view(x.extents, x.settled, rule, None, x.name) if x.rank else scalar(rule(()))


def convert_complex(x: Any, dtype: Any) -> Any:
    """`astype` to or from a complex type."""
    wanted = complex_type(dtype)
    if wanted is None:
        raise DTypeError(
            "E122",
            "astype: complex numbers are not converted to real ones",
            position=user_position(),
            remedy="`pb.real`, `pb.imag` or `pb.abs`",
        )
    if not is_complex(x):
        x = convert(x, wanted.part)
        return pair(x, zero_beside(x))
    z = as_complex(x)
    return pair(convert(z.real, wanted.part), convert(z.imag, wanted.part))


def choose_complex(condition: Any, then: Any, otherwise: Any) -> ComplexArray:
    """`where` between complex arrays."""
    a, b = as_complex(then), as_complex(otherwise)
    return pair(choose(condition, a.real, b.real), choose(condition, a.imag, b.imag))


