"""A picture of memory over time: a box per arena array, whose width is its lifetime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Final

from pullback.memory.rows import BufferRow, StatementRow
from pullback.pictures import TINTS, Picture, element, round_step, text

__all__ = ["picture"]

Scale = Callable[[float], float]
WIDTH, HEIGHT = 680, 340
LEFT, RIGHT, TOP, BOTTOM = 78, 14, 26, 40
LETTER: Final = 6.7  # width of a letter in pixels
UNITS: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))


def picture(name: str, peak: int, buffers: Sequence[BufferRow], statements: Sequence[StatementRow]) -> Picture:
    """Draw the arena of a program, and the live bytes at each moment.

    Args:
        name: the program's name.
        peak: the used bytes of the arena.
        buffers: the arrays in the arena.
        statements: the statements in execution order.
    """
    last = max([1, *(b.last for b in buffers), *(s.moment for s in statements)])
    top = max(peak, 1)
    across, up = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(moment: float) -> float:
        return LEFT + across * (moment - 1) / last

    def y(byte: float) -> float:
        return TOP + up * (1 - byte / top)

    boxes = []
    for k, b in enumerate(buffers):
        inside = [s.name for s in statements if b.first <= s.moment <= b.last]
        when = f", from {inside[0]} to {inside[-1]}" if inside else ""
        low, at = b.offset or 0, (x(b.first), x(b.last + 1))
        boxes.append(_box(k, b, when, at, (y(low + b.bytes), y(low))))
    names = [s for s in statements if s.depth == 0]
    title = (
        f"Memory of {name} over time: {_size(peak)} in the arena at most, "
        f"{len(buffers)} arrays, {len(names)} statements"
    )
    elements = [*_axes(top, x(1), x(last + 1), y), *boxes, _alive(statements, x, y), *_moments(names, x)]
    if not buffers:
        elements.append(text((LEFT + WIDTH) / 2, (TOP + HEIGHT) / 2, "the arena is empty", text_anchor="middle"))
    return Picture(title, WIDTH, HEIGHT, elements)


def _box(k: int, b: BufferRow, when: str, across: tuple[float, float], up: tuple[float, float]) -> str:
    """Draw an array, with its name if it fits, and a tooltip."""
    (left, right), (high, low) = across, up
    wide, tall = right - left, low - high
    about = f"<title>{escape(f'{b.name}: {b.dims}, {b.bytes:,} bytes{when}')}</title>"
    tint = TINTS[k % len(TINTS)]
    found = element("rect", x=left, y=high, width=max(wide, 0.5), height=max(tall, 0.5), rx=1.5,
                    fill=f"var(--tint-{k % len(TINTS)}, {tint})", fill_opacity=0.55, stroke="var(--paper, #fff)",
                    stroke_width=0.75)  # fmt: skip
    if tall >= 14 and wide >= LETTER * 3:
        room = int((wide - 6) / LETTER)
        name = b.name if len(b.name) <= room else b.name[: max(1, room - 1)] + "…"
        found += text(left + 4, (high + low) / 2 + 4, name, class_="small code")
    return element("g", about + found)


def _axes(top: int, left: float, right: float, y: Scale) -> list[str]:
    """Draw grid lines at round numbers of bytes."""
    unit, name = next((u for u in UNITS if top >= 2 * u[0]), UNITS[-1])
    step = max(1.0, round_step(top / unit)) * unit
    out = [text(left, TOP - 10, f"address in the arena, {name}", class_="small faint")]
    at = 0.0
    while at <= top:
        out.append(element("line", x1=left, x2=right, y1=y(at), y2=y(at), class_="axis", stroke_width=0.5))
        out.append(text(left - 8, y(at) + 4, f"{at / unit:,.6g}", class_="small faint", text_anchor="end"))
        at += step
    return out


def _alive(statements: Sequence[StatementRow], x: Scale, y: Scale) -> str:
    """Draw the curve of live bytes, statement by statement."""
    if not statements:
        return ""
    points = [f"{px:.1f},{y(s.live):.1f}" for s in statements for px in (x(s.moment), x(s.moment + 1))]
    about = f"<title>bytes alive: {max(s.live for s in statements):,} at most</title>"
    return element("polyline", about, points=" ".join(points), class_="curve", stroke_width=1.5)


def _moments(statements: list[StatementRow], x: Scale) -> list[str]:
    """Draw the names of statements below the axis, as many as fit."""
    out, free = [], 0.0
    for s in statements:
        at = x(s.moment)
        if at < free or at + LETTER * min(len(s.name), 18) > WIDTH:
            continue
        name = s.name if len(s.name) <= 18 else s.name[:17] + "…"
        out.append(element("line", x1=at, x2=at, y1=HEIGHT - BOTTOM, y2=HEIGHT - BOTTOM + 6, class_="axis"))
        out.append(text(at, HEIGHT - BOTTOM + 20, name, class_="small code faint"))
        free = at + LETTER * (len(name) + 2)
    out.append(text(WIDTH - RIGHT, HEIGHT - 4, "statements in the order in which they run; the line is what is alive",
                    class_="small faint", text_anchor="end"))  # fmt: skip
    return out


def _size(n: int) -> str:
    unit, name = next((u for u in UNITS if n >= 2 * u[0]), UNITS[-1])
    return f"{n / unit:,.4g} {name}"
