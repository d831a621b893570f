"""Element types in C."""

from __future__ import annotations

from pullback.ir.types import DType


def c_type(dtype: DType) -> str:
    """The C type of a stored element; for f16 and bf16, of its bits."""
    match dtype.kind:
        case "bool":
            return "bool"
        case "floating":
            return "float" if dtype.bits == 32 else "double"
        case "signed":
            return f"int{dtype.bits}_t"
        case "unsigned" | "half":
            return f"uint{dtype.bits}_t"


def limit(dtype: DType, end: str) -> str:
    """The C name of the smallest or largest value of an integer type."""
    if end == "MIN" and dtype.kind == "unsigned":
        return "0"
    return f"{'U' if dtype.kind == 'unsigned' else ''}INT{dtype.bits}_{end}"
