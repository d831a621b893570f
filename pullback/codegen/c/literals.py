"""Numbers as C writes them, and how tightly its operators bind."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from pullback.codegen.c.types import limit
from pullback.ir.halves import to_half
from pullback.ir.types import DType

# precedence of C operators, higher binds tighter
ATOM, POSTFIX, UNARY, PRODUCT, SUM, SHIFT, RELATION, EQUALITY, BITS, AND, OR, TERNARY = range(16, 4, -1)
OPERATOR: Final = {"*": PRODUCT, "/": PRODUCT, "%": PRODUCT, "+": SUM, "-": SUM, ">>": SHIFT, "<": RELATION,
                   ">": RELATION, "<=": RELATION, ">=": RELATION, "==": EQUALITY, "!=": EQUALITY, "&": BITS,
                   "|": BITS, "^": BITS, "&&": AND, "||": OR}
Text = tuple[str, int]  # an expression and its precedence


def literal(value: bool | int | float, dtype: DType) -> Text:
    """Print a number exactly."""
    if dtype.is_bool:
        return ("true" if value else "false"), ATOM
    if dtype.is_floating:
        return _float(float(value), dtype)
    if dtype.is_half:
        return f"0x{int(to_half(np.float32(value), dtype)):04x}", ATOM
    n = int(value)
    if dtype.kind == "unsigned":
        return (f"UINT64_C({n})" if dtype.bits == 64 else f"{n}u" if dtype.bits == 32 else str(n)), ATOM
    if n == dtype.minimum and dtype.bits >= 32:
        return limit(dtype, "MIN"), ATOM
    text = f"INT64_C({n})" if abs(n) > 0x7FFFFFFF else str(n)
    return text, ATOM if n >= 0 else UNARY


def _float(value: float, dtype: DType) -> Text:
    if math.isnan(value) or math.isinf(value):
        text = "NAN" if math.isnan(value) else "INFINITY"
        cast = "" if dtype.name == "f32" else "(double)"
        return f"{'-' if value < 0 else ''}{cast}{text}", UNARY
    text = str(np.float32(value)) if dtype.name == "f32" else repr(value)
    if "e" not in text and "." not in text:
        text += ".0"
    return text + ("f" if dtype.name == "f32" else ""), UNARY if text.startswith("-") else ATOM
