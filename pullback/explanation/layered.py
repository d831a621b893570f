"""Layered drawings of graphs: each node below its operands, in an order with few crossings.

The steps are those of K. Sugiyama, S. Tagawa, M. Toda, Methods for Visual Understanding of Hierarchical System
Structures (1981). Layers follow from the longest path. Long edges pass through a point in each layer between. Sweeps up
and down order each layer by the mean positions of neighbors. Nodes are placed as close to these means as order and
distance allow. This is isotonic regression by pooling adjacent violators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final, Literal

from pullback.pictures import Picture, element, text

__all__ = ["Arrow", "Node", "draw"]

LETTER: Final = 7.2
HIGH, DOWN, APART, MARGIN = 40.0, 62.0, 26.0, 16.0  # heights and distances in pixels
SWEEPS: Final = 12
MOST_LETTERS: Final = 26
LABEL: Final = 22  # most letters of an edge label


@dataclass(frozen=True)
class Node:
    """A box: its name, second line, and kind."""

    name: str
    below: str
    kind: Literal["argument", "array", "result"] = "array"

    @property
    def width(self) -> float:
        """The width of the node's box."""
        return max(54.0, LETTER * max(len(_short(self.name)), len(_short(self.below))) + 18)


@dataclass(frozen=True)
class Arrow:
    """An edge from one node to a later one, with its label."""

    source: int
    target: int
    label: str


class _Layout:
    """The positions of nodes, and of the points through which long edges pass."""

    def __init__(self, nodes: Sequence[Node], arrows: Sequence[Arrow]) -> None:
        self.widths = [n.width for n in nodes]
        self.layer = _layers(len(nodes), arrows)
        self.above: list[list[int]] = [[] for _ in nodes]
        self.below: list[list[int]] = [[] for _ in nodes]
        self.paths = [self._path(a) for a in arrows]
        count = max(self.layer, default=0) + 1
        self.rows: list[list[int]] = [[] for _ in range(count)]
        for v, k in enumerate(self.layer):
            self.rows[k].append(v)
        self.x = [0.0] * len(self.layer)
        for row in self.rows:
            self._place(row, [0.0] * len(row))
        for sweep in range(SWEEPS):
            self._sweep(down=sweep % 2 == 0, ordering=sweep < SWEEPS - 4)

    def _path(self, a: Arrow) -> list[int]:
        """The nodes and points of an edge, from its source to its target."""
        path = [a.source]
        for k in range(self.layer[a.source] + 1, self.layer[a.target]):
            path.append(len(self.layer))
            self.layer.append(k)
            self.widths.append(14.0)
            self.above.append([])
            self.below.append([])
        path.append(a.target)
        for u, v in pairwise(path):
            self.below[u].append(v)
            self.above[v].append(u)
        return path

    def _sweep(self, down: bool, ordering: bool) -> None:
        near = self.above if down else self.below
        for row in self.rows if down else reversed(self.rows):
            wish = {v: sum(self.x[u] for u in near[v]) / len(near[v]) if near[v] else self.x[v] for v in row}
            if ordering:
                row.sort(key=lambda v: wish[v])
            self._place(row, [wish[v] for v in row])

    def _place(self, row: Sequence[int], wish: Sequence[float]) -> None:
        """Place nodes close to the wished centers, in order and without overlap."""
        offset, offsets = 0.0, []
        for k, v in enumerate(row):
            if k:
                offset += (self.widths[row[k - 1]] + self.widths[v]) / 2 + APART
            offsets.append(offset)
        pools: list[tuple[float, int]] = []
        for w, o in zip(wish, offsets, strict=True):
            mean, count = w - o, 1
            while pools and pools[-1][0] > mean:
                other, several = pools.pop()
                mean, count = (mean * count + other * several) / (count + several), count + several
            pools.append((mean, count))
        means = [mean for mean, count in pools for _ in range(count)]
        for v, mean, o in zip(row, means, offsets, strict=True):
            self.x[v] = mean + o


def _layers(count: int, arrows: Sequence[Arrow]) -> list[int]:
    """The layer of each node, by the longest path; nodes without operands are just above a reader."""
    layer = [0] * count
    for a in sorted(arrows, key=lambda a: a.target):
        layer[a.target] = max(layer[a.target], layer[a.source] + 1)
    reached = {a.target for a in arrows}
    for v in range(count):
        readers = [layer[a.target] for a in arrows if a.source == v]
        if v not in reached and readers:
            layer[v] = min(readers) - 1
    return layer


def draw(title: str, nodes: Sequence[Node], arrows: Sequence[Arrow]) -> Picture:
    """Draw a graph whose edges all lead from a node to one with a higher number."""
    layout = _Layout(nodes, arrows)
    turns = _turns(arrows)
    middles = [_spot((layout.x[v], 0.0), (layout.x[w], 0.0), turn)[0] for (*_, v, w), turn in zip(layout.paths, turns)]
    spans = [*zip(layout.x, layout.widths), *zip(middles, (LETTER * len(_short(a.label, LABEL)) for a in arrows))]
    left = min((x - w / 2 for x, w in spans), default=0.0) - MARGIN
    right = max((x + w / 2 for x, w in spans), default=0.0) + MARGIN
    places = [(x - left, MARGIN + k * (HIGH + DOWN)) for x, k in zip(layout.x, layout.layer, strict=True)]
    height = 2 * MARGIN + len(layout.rows) * (HIGH + DOWN) - DOWN
    lines = [_line([places[v] for v in path]) for path in layout.paths]
    labels = [_label(a, nodes, _spot(places[v], places[w], turn))
              for a, (*_, v, w), turn in zip(arrows, layout.paths, turns, strict=True)]  # fmt: skip
    boxes = [_box(n, *places[k]) for k, n in enumerate(nodes)]
    return Picture(title, right - left, height, [*lines, *boxes, *labels])


def _line(points: Sequence[tuple[float, float]]) -> str:
    """Draw an edge: straight within layers, curved between them."""
    (x, y), *rest = points
    path = f"M{x:.1f},{y + HIGH:.1f}"
    y += HIGH
    for k, (to, row) in enumerate(rest):
        bend = (row - y) / 2
        path += f" C{x:.1f},{y + bend:.1f} {to:.1f},{row - bend:.1f} {to:.1f},{row:.1f}"
        x, y = to, row
        if k < len(rest) - 1:
            path += f" V{row + HIGH:.1f}"
            y = row + HIGH
    tip = f"M{x - 4:.1f},{y - 7:.1f} L{x:.1f},{y:.1f} L{x + 4:.1f},{y - 7:.1f}"
    return element("path", d=f"{path} {tip}", class_="axis", stroke_width=1.25)


def _turns(arrows: Sequence[Arrow]) -> list[int]:
    """The number of each edge among the edges to the same node."""
    seen: dict[int, int] = {}
    out = []
    for a in arrows:
        out.append(seen.get(a.target, 0))
        seen[a.target] = out[-1] + 1
    return out


def _spot(above: tuple[float, float], below: tuple[float, float], turn: int) -> tuple[float, float]:
    """The center of an edge's label, on the last curve before the target."""
    (x, y), (to, row) = above, below
    y += HIGH
    share = 0.64 - 0.24 * (turn % 2)  # labels side by side would overlap
    bend = share * share * (3 - 2 * share)  # the position on the cubic curve
    return x + (to - x) * bend, y + (row - y) * share + 4


def _label(a: Arrow, nodes: Sequence[Node], spot: tuple[float, float]) -> str:
    """Draw the label of an edge, which names its operator."""
    about = f"<title>{escape(f'd{nodes[a.target].name} = … + {a.label} d{nodes[a.source].name}')}</title>"
    words = text(*spot, _short(a.label, LABEL), class_="small code",
                 text_anchor="middle", stroke="var(--paper, #fff)", stroke_width=4, paint_order="stroke",
                 style="fill: var(--accent, #2563eb)")  # fmt: skip
    return element("g", about + words)


def _box(n: Node, x: float, y: float) -> str:
    """Draw a node."""
    tint = {"argument": "var(--tint-0, #4e79a7)", "result": "var(--tint-2, #59a14f)"}.get(n.kind, "var(--line, #888)")
    about = f"<title>{escape(f'{n.name}: {n.below}, {n.kind}')}</title>"
    box = element("rect", x=x - n.width / 2, y=y, width=n.width, height=HIGH, rx=6, fill="var(--paper, #fff)",
                  stroke=tint, stroke_width=1 if n.kind == "array" else 2)  # fmt: skip
    return element("g", about + box + text(x, y + 17, _short(n.name), class_="code", text_anchor="middle")
                   + text(x, y + 32, _short(n.below), class_="small faint code", text_anchor="middle"))  # fmt: skip


def _short(words: str, most: int = MOST_LETTERS) -> str:
    """Shorten long text by leaving out its middle."""
    half = (most - 1) // 2
    return words if len(words) <= most else f"{words[: most - 1 - half]}…{words[-half:]}"
