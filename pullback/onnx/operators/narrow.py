"""Element types of eight bits and fewer: their values, held in wider types, and the rounding to them.

The finite values of a type that are not negative, in the order of their bits, are a table. A number becomes the
nearest of them, by counting the midpoints below it. So no bits are moved, and gradients and C need nothing new.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

import pullback as pb
from pullback.onnx.operators.common import DTYPES, NARROW, build, constant, floating, is_floating
from pullback.onnx.operators.table import WrongNode

__all__ = ["limits", "narrowed"]


def limits(code: int) -> tuple[int, int] | None:
    """The least and the largest integer of a narrow type; None for floating-point numbers."""
    name = NARROW[code]
    if "int" not in name:
        return None
    bits = int(name[-1])
    return (0, 2**bits - 1) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def narrowed(x: Any, code: int, saturate: int = 1) -> Any:
    """Round to a narrow type: integers wrap; floating-point numbers saturate, or else overflow."""
    held = getattr(pb, DTYPES[code])
    if (range_ := limits(code)) is not None:
        low, high = range_
        whole = pb.astype(pb.trunc(floating(x)) if is_floating(x) else x, pb.int32)
        return pb.astype(pb.remainder(whole - low, high - low + 1) + low, held)
    if code == 24:
        raise WrongNode("rounding to powers of two (FLOAT8E8M0)")
    kind = getattr(importlib.import_module("ml_dtypes"), NARROW[code])
    bits = np.arange(2 ** (3 if code == 23 else 7), dtype=np.uint8).view(kind).astype(np.float64)
    values = bits[np.isfinite(bits)]
    values = np.append(values, 2 * values[-1] - values[-2])  # the first that overflows
    middle = constant(((values[1:] + values[:-1]) / 2).astype(np.float32))
    even = constant(np.arange(1, len(values)) % 2 == 0)
    y = pb.astype(x, pb.float32)
    size = pb.abs(y)
    middles, evens, table = (pb.asarray(t) for t in (middle, even, constant(_results(values, code, saturate))))

    def element(*i: Any) -> Any:
        def passes(k: Any) -> Any:
            return pb.where((size[i] > middles[k]) | ((size[i] == middles[k]) & evens[k]), 1, 0)

        return table[pb.sum_over(len(middle), passes)]

    found = pb.copysign(build(y.shape, element) if y.ndim else element(), y)
    nothing = pb.asarray(0.0, dtype=pb.float32) if code == 23 else y  # FLOAT4E2M1 has no NaN
    return pb.where(pb.isnan(y), nothing, found)


def _results(values: Any, code: int, saturate: int) -> Any:
    """The results by the number of midpoints passed; the last one is for numbers that overflow."""
    over = values[-2]
    if not saturate and code != 23:
        over = np.inf if code == 19 else np.nan
    return np.append(values[:-1], over).astype(np.float32)
