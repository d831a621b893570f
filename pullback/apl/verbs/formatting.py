"""⍕: conversion of values to characters; the dyadic form takes widths and digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from math import prod
from typing import Any, Final

import numpy as np

from pullback.apl import errors
from pullback.apl.display import aligned, lines, number_text
from pullback.apl.table import Settings, dyadic, monadic
from pullback.apl.values import NDArray, Value, is_characters, is_nested, is_traced, rank_of, settled, whole_list

WIDEST: Final = 10_000  # the most characters of a number
KNOWN_DIGITS: Final = 16  # of a double; digits beyond are shown as _


@monadic("⍕")
def format(s: Settings, y: Value) -> Value:
    """The printed form of a value: characters stay, numbers have ⎕PP digits."""
    y = _known(y)
    if is_characters(y):
        return y
    if is_nested(y):
        return _text(lines(y, boxed=False, precision=s.pp), flat=_is_flat(y))
    if y.ndim < 2:
        return _characters(" ".join(number_text(e.item(), s.pp) for e in y.reshape(-1)))
    return _columns(y, lambda column, k: aligned([number_text(e, s.pp) for e in column]), " ")


@dyadic("⍕")
def format_by_specification(s: Settings, x: Value, y: Value) -> Value:
    """Format numbers in columns of a width, with decimals, or a mantissa for a negative count."""
    y = _known(y)
    if is_characters(y) or is_nested(y) or y.dtype.kind == "c":
        raise errors.domain("⍕ takes real numbers to its right")
    wanted = whole_list(_known(x), "⍕")
    count = y.shape[-1] if y.ndim else 1
    if len(wanted) == 1:
        wanted = [0, *wanted]
    pairs = wanted * count if len(wanted) == 2 else wanted
    if len(pairs) != 2 * count:
        raise errors.length(f"⍕ takes a width and a number of digits for each column: {2 * count} numbers")

    if any(abs(n) > WIDEST for n in wanted):
        raise errors.AplError("LIMIT ERROR", f"⍕ takes widths and digits up to {WIDEST}")

    def fields(column: Sequence[Any], k: int) -> list[str]:
        width, digits = pairs[2 * k : 2 * k + 2]
        texts = [_digits_text(e, digits) for e in column]
        if not width:
            width = 1 + max(map(len, texts), default=0)
            return [t.rjust(width) for t in texts]
        justified = [t.ljust(width) if digits < 0 else t.rjust(width) for t in texts]
        return [t if len(t) == width else "*" * width for t in justified]

    return _columns(y if y.ndim else y.reshape(1), fields, "")


def _known(y: Value) -> NDArray:
    """Return an argument of ⍕ as a value, which must be known.

    Raises:
        AplError: [E809] it is not known when the function is compiled.
    """
    y = settled(y)
    if is_traced(y):
        raise errors.of_data("⍕", getattr(y, "name", None) or "a traced value", "⍕ outside of the compiled function")
    found: NDArray = y
    return found


def _columns(y: NDArray, fields: Callable[[Sequence[Any], int], list[str]], between: str) -> NDArray:
    """Format each column to one width over all planes, and join the columns."""
    count = y.shape[-1]
    table = y.reshape(prod(y.shape[:-1]), count)
    columns = [fields(table[:, k].tolist(), k) for k in range(count)]
    rows = [between.join(row) for row in zip(*columns)] if count else [""] * len(table)
    width = len(rows[0]) if rows else 0
    return np.array([list(row) for row in rows], dtype="<U1").reshape(*y.shape[:-1], width)


def _digits_text(x: Any, digits: int) -> str:
    """Format a number with decimals, or a mantissa's digits for a negative count."""
    exact = Decimal(int(x)) if float(x).is_integer() else Decimal(repr(float(x)))
    if not exact.is_finite():
        return number_text(x)
    if digits < 0:
        if not exact:
            exact = Decimal(0).scaleb(digits + 1)  # so that the exponent of 0 is 0
        mantissa, _, exponent = f"{_rounded(exact, -digits):.{-digits - 1}e}".partition("e")
        return f"{_without_unknown(mantissa) if isinstance(x, float) else mantissa}E{int(exponent)}".replace("-", "¯")
    text = f"{exact.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP, context=Context(prec=400 + digits)):f}"
    if isinstance(x, float):
        text = _without_unknown(text)
    negative = text.startswith("-") and any(c in "123456789" for c in text)
    return "¯" * negative + text.lstrip("-")


def _rounded(x: Decimal, digits: int) -> Decimal:
    return Context(prec=digits, rounding=ROUND_HALF_UP).plus(x)


def _without_unknown(text: str) -> str:
    """Replace digits beyond double precision by _."""
    seen, made = 0, []
    for c in text:
        counts = c.isdigit() and (seen > 0 or c != "0")
        seen += counts
        made.append("_" if counts and seen > KNOWN_DIGITS else c)
    return "".join(made)


def _is_flat(y: Value) -> bool:
    """Whether all arrays at every depth are scalars or vectors."""
    y = settled(y)
    return rank_of(y) < 2 and (not is_nested(y) or all(map(_is_flat, y.reshape(-1))))


def _text(rows: list[str], flat: bool) -> NDArray:
    if flat:
        return _characters(rows[0] if rows else "")
    width = max(map(len, rows), default=0)
    return np.array([list(row.ljust(width)) for row in rows], dtype="<U1").reshape(len(rows), width)


def _characters(text: str) -> NDArray:
    return np.array(list(text), dtype="<U1")


__all__ = ["format", "format_by_specification"]
