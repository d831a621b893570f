"""Building blocks of special functions: a function of one element, with its derivative rule.

A function of elements is an expression of scalars in f64; elements of f32 are computed in f64 and rounded. It is one
statement over arrays, which fuses with its surroundings and vectorizes. Both sides of a choice are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.arrays.elementwise import convert
from pullback.errors import DTypeError
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.expr import apply, select
from pullback.ir.index import Index
from pullback.ir.notation import exp, less
from pullback.ir.types import DType
from pullback.source import user_position
from pullback.tracing.arithmetic import aligned, broadcast_extents, common_dtype
from pullback.tracing.array import Array, type_text
from pullback.tracing.custom import emit_call
from pullback.tracing.making import as_array, describe, emit, scalar
from pullback.tracing.tracer import current

Kernel = Callable[..., ir.Scalar]
Partials = Callable[..., Sequence[Any]]
Function = Callable[..., Array]


def special(
    name: str, kernel: Kernel, partials: Partials | None = None, first: Callable[..., Sequence[ir.Scalar]] | None = None
) -> Function:
    """Make an elementwise function from a kernel; its operands broadcast.

    Args:
        name: its name in messages and programs.
        kernel: maps f64 scalars to an f64 scalar.
        partials: `partials(*operands, out)` gives the derivative by each operand as arrays; without it the derivative
            is that of the kernel.
        first: computes further arguments of the kernel, such as logarithms that several of its branches read. They
            become separate statements, so the branches do not recompute them.
    """

    def body(*operands: Array) -> Array:
        if first is None:
            return _elements(name, kernel, operands)
        count = len(first(*(expr.const(0.5, types.f64) for _ in operands)))
        shared = [_elements(name, lambda *x, k=k: first(*x)[k], operands, types.f64, alone=True) for k in range(count)]
        return _elements(name, kernel, [*operands, *shared], operands[0].settled)

    def jvp(primals: Any, out: Array, tangents: Any) -> Any:
        assert partials is not None
        total: Any = None
        for slope, moved in zip(partials(*primals, out), tangents, strict=True):
            total = slope * moved if total is None else total + slope * moved
        return total

    def function(*values: Any) -> Array:
        operands = floating(name, values)
        if partials is None:
            return body(*operands)
        out: Array = emit_call(name, body, tuple(operands), jvp)
        return out

    return function


def floating(name: str, values: Sequence[Any]) -> list[Array]:
    """The operands in their common floating-point type."""
    handles: list[Array] = [as_array(v, name) for v in values]
    dtype = common_dtype(name, handles, user_position()) or current().default_float
    if not dtype.is_floating:
        raise DTypeError(
            "E121",
            f"{name} takes floating-point values, not {' and '.join(map(type_text, handles))}",
            position=user_position(),
            facts=[describe(h, "operand") for h in handles],
            remedy="convert with `astype(pb.float64)`",
        )
    return [convert(h, dtype) for h in handles]


def _elements(
    name: str, kernel: Kernel, operands: Sequence[Array], result: DType | None = None, alone: bool = False
) -> Array:
    """Apply the kernel to every element; `alone` makes a separate statement even for one number."""
    dtype = result or operands[0].settled

    def rule(indices: tuple[Index, ...]) -> ir.Scalar:
        return expr.cast(kernel(*(expr.cast(aligned(h, indices), types.f64) for h in operands)), dtype)

    extents = broadcast_extents(name, operands, user_position())
    return emit(extents, rule, name) if extents or alone else scalar(rule(()))


# Parts of kernels ---------------------------------------------------------------------------------------------------


def horner(coefficients: Sequence[float], t: ir.Scalar) -> ir.Scalar:
    """Evaluate a polynomial, lowest power first, as E(t²) + t O(t²): two chains of half the length."""
    square = t * t

    def chain(part: Sequence[float]) -> ir.Scalar:
        total = expr.const(part[-1], types.f64)
        for c in part[-2::-1]:
            total = total * square + c
        return total

    even = chain(coefficients[::2])
    return even + t * chain(coefficients[1::2]) if len(coefficients) > 1 else even


def fitted(coefficients: Sequence[float], x: ir.Scalar, low: float, high: float) -> ir.Scalar:
    """Evaluate a row of the tables at x, between low and high."""
    return horner(coefficients, (x - (low + high) / 2) * (2 / (high - low)))


def gaussian(x: ir.Scalar, half: float = 1.0) -> ir.Scalar:
    """Evaluate exp(-half x²) for x >= 0 without the error of rounding x².

    Split x = h + l with few bits in h, so h² is exact; then x² = h² + l (x + h).
    """
    x = apply("minimum", x, number(60.0))
    h = apply("round", x * 1024.0) * (1 / 1024.0)
    return exp(-half * (h * h)) * exp(-half * ((x - h) * (x + h)))


def number(value: float) -> ir.Scalar:
    """A constant in f64."""
    return expr.const(value, types.f64)


def between(x: ir.Scalar, limits: Sequence[float], values: Sequence[ir.Scalar]) -> ir.Scalar:
    """Select values[i] for the first limit i above x; the last value if there is none, and for NaN."""
    out = values[-1]
    for limit, value in zip(reversed(limits), reversed(values[:-1])):
        out = select(less(x, number(limit)), value, out)
    return out
