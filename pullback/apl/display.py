"""Conversion of values to text, as APL prints them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import pullback as pb
from pullback.apl import errors
from pullback.apl.values import Value, elements, is_nested, is_traced, lifted, objects, settled, simplified
from pullback.errors import TraceError


def number_text(x: Any, precision: int = 10) -> str:
    """The text of a number: ¯ for negative ones, limited digits, an exponent if shorter."""
    if isinstance(x, bool | np.bool_):
        return str(int(x))
    if isinstance(x, complex):
        real = number_text(x.real, precision)
        return f"{real}J{number_text(x.imag, precision)}" if x.imag else real
    if isinstance(x, int | np.integer):
        text = str(int(x))
        return text.replace("-", "¯")
    return _floating_text(float(x), precision)


def _floating_text(x: float, precision: int) -> str:
    if np.isnan(x) or np.isinf(x):
        return "NaN" if np.isnan(x) else "∞" if x > 0 else "¯∞"
    if x == 0:
        return "0"
    mantissa, exponent = f"{x:.{max(precision, 1) - 1}e}".split("e")
    power = int(exponent)
    digits = mantissa.replace("-", "").replace(".", "").rstrip("0") or "0"
    sign = "¯" if x < 0 else ""
    if -6 < power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    if 0 <= power < precision:
        whole = digits[: power + 1].ljust(power + 1, "0")
        rest = digits[power + 1 :]
        return f"{sign}{whole}.{rest}" if rest else f"{sign}{whole}"
    body = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
    return f"{sign}{body}E{'¯' if power < 0 else ''}{abs(power)}"


def display(value: Value, boxed: bool = False, precision: int = 10) -> str:
    """Convert a value to text.

    Args:
        value: a value, as `Workspace.evaluate` returns it.
        boxed: whether to draw boxes around the elements of nested arrays.
        precision: the number of significant digits: ⎕PP.

    >>> from pullback import apl
    >>> print(apl.display(apl.Workspace().evaluate("2 3⍴1.5 ¯2 3")))
    1.5 ¯2 3
    1.5 ¯2 3
    """
    if isinstance(value, np.ndarray):
        return "\n".join(lines(value, boxed, precision))
    name = getattr(value, "name", None)
    if is_traced(value):
        return f"<{value!r}>"
    text = getattr(getattr(value, "dfn", None), "text", None)
    return text or (f"∇{name}" if name else str(value))


@dataclass
class _Later:
    """A value to print later: its traced arrays, and how to fill in their values."""

    arrays: list[Any]
    made: Callable[[list[Any]], Value]
    boxed: bool
    precision: int

    def __str__(self) -> str:
        return display(self.made([np.asarray(a) for a in self.arrays]), self.boxed, self.precision)


def show_when_called(value: Value, boxed: bool, precision: int) -> None:
    """Print a value at each call of the function being compiled.

    Raises:
        AplError: [E804] the number of prints is not known.
    """
    arrays: list[Any] = []

    def parts(v: Value) -> Callable[[list[Any]], Value]:
        v = settled(v)
        if is_traced(v):
            arrays.append(lifted(v))
            at = len(arrays) - 1
            return lambda known: known[at]
        if is_nested(v):
            inner = [parts(e) for e in elements(v)]
            return lambda known: simplified(objects([f(known) for f in inner], v.shape))
        return lambda known: v

    made = parts(value)
    try:
        pb.debug.print("{}", _Later(arrays, made, boxed, precision))
    except TraceError:
        raise errors.domain(
            "⎕← stands where a compiled function does not know how often it happens: in ¨, ⍤, a guard or a recursion",
            remedy="⎕← of the whole result",
        ) from None


def lines(value: Value, boxed: bool, precision: int) -> list[str]:
    """The lines of a value."""
    x = settled(value)
    if x.dtype == object:
        return _nested_lines(x, boxed, precision)
    if x.ndim == 0:
        return [str(x.item())] if x.dtype.kind == "U" else [number_text(x.item(), precision)]
    if x.dtype.kind == "U":
        return _planes(x, lambda plane: ["".join(row) for row in plane])
    return _planes(x, lambda plane: _number_rows(plane, precision))


def _planes(x: Any, rows: Any) -> list[str]:
    """Format the matrices of an array one after another, with blank lines between them."""
    if x.ndim == 1:
        return list(rows(x[None, :])) if len(x) else [""]
    if x.size == 0 and x.ndim == 2:
        return [""] * len(x) if x.shape[0] and not x.shape[1] else []
    if x.size == 0:
        return []
    if x.ndim == 2:
        return list(rows(x))
    made: list[str] = []
    for k in range(len(x)):
        part = _planes(x[k], rows)
        made += ([""] * (x.ndim - 2) if k else []) + part
    return made


def _number_rows(plane: Any, precision: int) -> list[str]:
    texts = [[number_text(e.item(), precision) for e in row] for row in plane]
    if len(texts) == 1:
        return [" ".join(texts[0])]
    columns = [aligned(column) for column in zip(*texts)]
    return [" ".join(row) for row in zip(*columns)]


def aligned(column: Any) -> list[str]:
    """Align the numbers of a column at their decimal points."""
    if any("E" in t or "J" in t for t in column):
        width = max(map(len, column))
        return [t.rjust(width) for t in column]
    parts = [t.partition(".") for t in column]
    before = max((len(p[0]) for p in parts), default=0)
    after = max((len(p[1] + p[2]) for p in parts), default=0)
    return [p[0].rjust(before) + (p[1] + p[2]).ljust(after) for p in parts]


def _nested_lines(x: Any, boxed: bool, precision: int) -> list[str]:
    if x.ndim == 0 and not boxed:
        inner = lines(x.item(), boxed, precision)
        return [f" {line} " for line in inner]
    if x.size == 0:
        return [""]
    if x.ndim == 0:
        return _framed([[lines(x.item(), boxed, precision)]])
    if x.ndim > 2:
        made: list[str] = []
        for k in range(len(x)):
            made += ([""] * (x.ndim - 2) if k else []) + _nested_lines(x[k], boxed, precision)
        return made
    rows = x[None, :] if x.ndim == 1 else x
    cells = [[lines(e, boxed, precision) if isinstance(e, np.ndarray) else [f"{e!r}"] for e in row] for row in rows]
    if boxed and any(isinstance(e, np.ndarray) and (e.ndim or e.dtype == object) for e in x.ravel()):
        return _framed(cells)
    return _unframed(rows, cells)


def _framed(cells: list[list[list[str]]]) -> list[str]:
    heights = [max(len(c) for c in row) for row in cells]
    widths = [max(max((len(line) for line in row[k]), default=0) for row in cells) for k in range(len(cells[0]))]

    def rule(a: str, b: str, c: str) -> str:
        return a + b.join("─" * w for w in widths) + c

    made = [rule("┌", "┬", "┐")]
    for n, (row, height) in enumerate(zip(cells, heights)):
        texts = [[(c[k] if k < len(c) else "").ljust(w) for c, w in zip(row, widths)] for k in range(height)]
        made += ["│" + "│".join(t) + "│" for t in texts]
        made.append(rule("├", "┼", "┤") if n + 1 < len(cells) else rule("└", "┴", "┘"))
    return made


def _column_kind(column: list[Any], wide: bool) -> str:
    if wide:
        return "nested"
    return "character" if all(e.dtype.kind == "U" for e in column) else "number"


def _unframed(rows: Any, cells: list[list[list[str]]]) -> list[str]:
    """Place elements side by side; nonscalars have a blank on either side."""
    wide = [[isinstance(e, np.ndarray) and (e.ndim > 0 or e.dtype == object) for e in row] for row in rows]
    heights = [max(len(c) for c in row) for row in cells]
    columns = range(len(cells[0]))
    padded = [[[f" {t} " if w else t for t in c] for c, w in zip(row, ws)] for row, ws in zip(cells, wide)]
    widths = [max(max((len(t) for t in row[k]), default=0) for row in padded) for k in columns]
    kinds = [_column_kind([row[k] for row in rows], any(w[k] for w in wide)) for k in columns]
    gaps = ["", *("" if a == b != "number" else " " for a, b in pairwise(kinds))]
    made = []
    for row, height in zip(padded, heights):
        for n in range(height):
            texts = [(c[n] if n < len(c) else "") for c in row]
            texts = [t.rjust(w) if kind == "number" else t.ljust(w) for t, w, kind in zip(texts, widths, kinds)]
            made.append("".join(gap + t for gap, t in zip(gaps, texts)))
    return made
