"""Conversion between the numbers of APL and of the language.

Truth values are the numbers 0 and 1. Integers become floating-point where a verb needs it. Literals in the text take
the dtype of the other operand. Each conversion made here appears in `.ir`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

import pullback as pb
from pullback.apl import errors
from pullback.apl.values import Value, lifted
from pullback.ir import types
from pullback.tracing.array import Array
from pullback.tracing.tracer import current

Need = Literal["number", "float", "truth", "whole", "any"]


def kind_of(x: Value) -> str:
    """Return the kind: `b` truth values, `i` integers, `f` floating-point, `c` complex, `U` characters."""
    if isinstance(x, Array):
        if x.weak is not None:
            return {"bool": "b", "integer": "i", "floating": "f"}[x.weak]
        return "b" if x.settled.is_bool else "i" if x.settled.is_integer else "f"
    if isinstance(x, np.ndarray):
        return "i" if x.dtype.kind == "u" else str(x.dtype.kind)
    return "c"


def converted(values: Sequence[Value], need: Need) -> tuple[list[Any], bool]:
    """Convert the operands of one arithmetic operation; also return whether they are traced.

    Raises:
        AplError: [E804] there are characters, or numbers other than 0 and 1 where truth values are needed.
    """
    kinds = [kind_of(x) for x in values]
    if "U" in kinds:
        raise errors.domain("characters have no arithmetic")
    if not any(isinstance(x, Array) for x in values):
        return [_concrete(x, k, need) for x, k in zip(values, kinds)], False
    if "c" in kinds:
        raise errors.domain("complex numbers are evaluated, and not compiled", remedy="real and imaginary part apart")
    floating = need == "float" or (need not in ("truth", "whole") and "f" in kinds)
    own = [x.strong for x in values if isinstance(x, Array) and x.strong is not None and x.strong.is_floating]
    target = types.f64 if types.f64 in own else own[0] if own else current().default_float
    return [_traced(x, k, floating, target, need) for x, k in zip(values, kinds)], True


def _concrete(x: Any, kind: str, need: Need) -> Any:
    if need == "truth":
        if kind != "b" and not ((x == 0) | (x == 1)).all():
            raise errors.domain("truth values are 0 and 1")
        return x.astype(bool)
    if kind == "b" or (kind == "i" and x.dtype != np.int64):
        x = x.astype(np.int64)
    return x.astype(np.float64) if need == "float" and kind in "bi" else x


def _traced(x: Value, kind: str, floating: bool, target: types.DType, need: Need) -> Any:
    if need == "truth":
        return truth(x)
    if isinstance(x, np.ndarray):
        if x.ndim == 0:
            number = x.item()
            return float(number) if floating else int(number) if kind == "b" else number
        return lifted(x.astype(target.numpy) if floating else x)
    if kind == "b":
        return as_numbers(x, target if floating else types.i64)
    if floating and kind == "i" and x.strong is not None:
        return pb.astype(x, target)
    if floating and kind == "i" and x.literal is not None:
        return float(x.literal)
    if not floating and kind == "i" and x.strong is not None and x.strong is not types.i64:
        return pb.astype(x, pb.int64)
    if floating and kind == "f" and x.strong is not None and x.strong is not target:
        return pb.astype(x, target)
    return x


def as_numbers(x: Any, dtype: types.DType | None = None) -> Any:
    """Convert truth values to 0 and 1."""
    dtype = dtype or types.i64
    if x.weak is not None:
        return pb.where(x, 1, 0)
    return pb.astype(x, dtype)


def truth(x: Value) -> Any:
    """Convert the numbers 0 and 1 to truth values, for the core."""
    if isinstance(x, np.ndarray):
        if not ((x == 0) | (x == 1)).all():
            raise errors.domain("truth values are 0 and 1")
        return bool(x) if x.ndim == 0 else np.ascontiguousarray(x.astype(bool))
    return x if kind_of(x) == "b" else x != 0


def checked(result: Any, arguments: Sequence[Any]) -> Any:
    """Return a concrete result; refuse one that is not finite if all arguments are.

    Raises:
        AplError: [E804] the result is not finite.
    """
    made = np.asarray(result)
    if made.dtype.kind in "fc" and not np.isfinite(made.sum()) and not np.isfinite(made).all():
        if all(np.isfinite(a).all() for a in arguments if np.asarray(a).dtype.kind in "fc"):
            raise errors.domain("the result is no finite number")
    if made.dtype.kind == "c" and not made.imag.any():
        made = made.real
    return made
