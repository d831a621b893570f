"""Plots as pictures: curves over steps or epochs, and the sparsity pattern of a matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Final

from pullback.pictures import TINTS, Picture, element, round_step, text

__all__ = ["curves", "shares", "spy"]

Points = Sequence[tuple[float, float]]
WIDTH, HEIGHT = 340, 230  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 14, 40
LETTER: Final = 6.6  # width of one
MARKED: Final = 40  # points that are marked, at most
CELLS: Final = 120  # squares along an axis of a pattern, at most
SIDE: Final = 300  # pixels of a pattern's longer side


def curves(title: str, panels: Sequence[Mapping[str, Points]], across: str) -> Picture:
    """Plot panels side by side, each with one curve per name; points that are not finite are left out.

    Args:
        title: the alternative text.
        panels: for each panel, points (x, y) by the name of their curve.
        across: the label of the x axes.

    >>> curves("loss by epoch", [{"loss": [(1, 0.5), (2, 0.25)]}], "epoch").width
    340.0
    """
    drawn = [element("g", "\n".join(_panel(panel, across)), transform=f"translate({k * WIDTH} 0)")
             for k, panel in enumerate(panels)]  # fmt: skip
    return Picture(title, float(WIDTH * len(panels)), HEIGHT, drawn)


def _panel(panel: Mapping[str, Points], across: str) -> list[str]:
    finite = {name: [(x, y) for x, y in points if isfinite(y)] for name, points in panel.items()}
    xs, ys = ([p[k] for points in finite.values() for p in points] or [0.0] for k in (0, 1))
    (left, right), (low, high) = map(_range, (xs, ys))
    base, end = HEIGHT - BOTTOM, WIDTH - RIGHT

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + (end - LEFT) * (x - left) / (right - left), base - (base - TOP) * (y - low) / (high - low)

    out = []
    for value in _ticks(low, high):
        y = place(left, value)[1]
        out.append(element("line", x1=LEFT, x2=end, y1=y, y2=y, class_="axis", stroke_width=0.5))
        out.append(text(LEFT - 6, y + 4, f"{value:.5g}", class_="small faint", text_anchor="end"))
    out += [text(place(value, low)[0], base + 15, f"{value:,.6g}", class_="small faint", text_anchor="middle")
            for value in _ticks(left, right, 1.0)]
    out.append(text(end, HEIGHT - 8, across, class_="small faint", text_anchor="end"))
    at = float(LEFT)
    for k, (name, points) in enumerate(finite.items()):
        color = f"var(--tint-{k % len(TINTS)}, {TINTS[k % len(TINTS)]})"
        line = " ".join("{:.1f},{:.1f}".format(*place(*p)) for p in points)
        out.append(element("polyline", points=line, fill="none", stroke=color, stroke_width=1.75))
        dots = points if len(points) <= MARKED else []
        out += [element("circle", cx=x, cy=y, r=2.5, fill=color) for x, y in (place(*p) for p in dots)]
        out.append(element("rect", x=at, y=HEIGHT - 14, width=10, height=3, fill=color))
        out.append(text(at + 14, HEIGHT - 8, name, class_="small"))
        at += 14 + LETTER * (len(name) + 2)
    return out


def _range(values: Sequence[float]) -> tuple[float, float]:
    """The least and largest value; a range around a single one."""
    low, high = min(values), max(values)
    around = (abs(low) or 1.0) / 2 if low == high else 0.0
    return low - around, high + around


def _ticks(low: float, high: float, least: float = 0.0) -> list[float]:
    """Round numbers from `low` to `high`, at least `least` apart."""
    step = max(least, round_step(high - low))
    first = -int(-low // step)
    return [k * step for k in range(first, int(high / step + 1e-9) + 1)]


def shares(title: str, counts: Sequence[Sequence[float]], names: Sequence[str], down: str, across: str) -> Picture:
    """Plot a square table of counts: each field is as dark as its share of its row.

    Args:
        title: the alternative text.
        counts: the rows.
        names: the names of rows and columns.
        down, across: what rows and columns are.

    >>> shares("two classes", [[3, 1], [0, 2]], ["a", "b"], "label", "found").width
    162.6
    """
    size = max(22.0, min(48.0, 480 / len(names)))
    left = 48 + LETTER * max(map(len, names))
    out = [text(left + size * len(names) / 2, 14, across, class_="small faint", text_anchor="middle"),
           text(0, 0, down, class_="small faint", text_anchor="middle",
                transform=f"translate(14 {40 + size * len(names) / 2:.1f}) rotate(-90)")]  # fmt: skip
    for k, name in enumerate(names):
        at = size * (k + 0.5)
        out.append(text(left - 6, 44 + at, name, class_="small", text_anchor="end"))
        out.append(text(left + at, 34, name, class_="small", text_anchor="middle"))
    for i, row in enumerate(counts):
        total = sum(row) or 1
        for j, count in enumerate(row):
            x, y, share = left + size * j, 40 + size * i, count / total
            out.append(element("rect", x=x, y=y, width=size, height=size, fill=f"var(--tint-0, {TINTS[0]})",
                               fill_opacity=round(share, 4), class_="axis"))  # fmt: skip
            if count:
                out.append(text(x + size / 2, y + size / 2 + 4, f"{count:,}", class_="small", text_anchor="middle"))
    return Picture(title, left + size * len(names) + 12, 40 + size * len(names) + 12, out)


def spy(title: str, positions: Iterable[tuple[int, int]], shape: tuple[int, int]) -> Picture:
    """Plot which elements of a matrix are entries; large matrices in squares that hold several elements.

    Args:
        title: the alternative text.
        positions: row and column of each entry.
        shape: the numbers of rows and columns.

    >>> spy("a diagonal", [(0, 0), (1, 1)], (2, 2))
    <picture 'a diagonal', 340 × 340>
    """
    rows, columns = shape
    each = max(1, -(-max(shape) // CELLS))  # elements along a square
    size = SIDE * each / max(1, *shape)
    cells = sorted({(r // each, c // each) for r, c in positions})
    squares = "".join(f"M{c * size:.2f} {r * size:.2f}h{size:.2f}v{size:.2f}h-{size:.2f}z" for r, c in cells)
    wide, high = (SIDE * n / max(1, *shape) for n in (columns, rows))
    inside = [element("path", d=squares, fill=f"var(--tint-0, {TINTS[0]})"),
              element("rect", width=wide, height=high, class_="axis")]  # fmt: skip
    labels = [text(28 + wide / 2, 18, f"{columns:,} columns", class_="small faint", text_anchor="middle"),
              text(0, 0, f"{rows:,} rows", class_="small faint", text_anchor="middle",
                   transform=f"translate(18 {28 + high / 2:.1f}) rotate(-90)")]  # fmt: skip
    return Picture(title, wide + 40, high + 40, [element("g", "".join(inside), transform="translate(28 28)"), *labels])
