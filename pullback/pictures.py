"""Pictures: SVG text for notebooks and pages, without a library or script.

Colors are variables of the page around a picture (`--ink`, `--line`, `--tint-0` to `--tint-7`), each with a value for
where there is none, so that a picture reads on light and on dark backgrounds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Final

from pullback.notebook import Displayed
from pullback.tables import escaped
from pullback.writing import write_file

__all__ = ["TINTS", "Picture", "element", "round_step", "text"]

INK: Final = "var(--ink, currentColor)"
TINTS: Final = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#e15759", "#9c755f", "#edc948")
STYLE: Final = """\
.picture text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: var(--ink, currentColor) }
.picture .small { font-size: 11px } .picture .faint { fill: var(--faint, #777) }
.picture .code { font-family: ui-monospace, monospace } .picture .axis { stroke: var(--line, #8888); fill: none }
.picture .curve { stroke: var(--ink, currentColor); fill: none }"""
"""The rules name the picture, as the styles of a picture inside HTML hold for the whole page."""


@dataclass(frozen=True)
class Picture(Displayed):
    """A picture: its alternative text, size in pixels, and SVG elements.

    A notebook shows it; `save` writes it as an SVG file.
    """

    title: str
    width: float
    height: float
    elements: Sequence[str]

    @property
    def svg(self) -> str:
        """The picture as one element, which scales down to the width there is."""
        size = f'width="{self.width:.0f}" height="{self.height:.0f}" viewBox="0 0 {self.width:.0f} {self.height:.0f}"'
        fits = 'class="picture" role="img" style="max-width: 100%; height: auto"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {fits}>'
        return "\n".join([head, f"<title>{escaped(self.title)}</title>", f"<style>{STYLE}</style>", *self.elements,
                          "</svg>"])  # fmt: skip

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, whole or not at all.

        Raises:
            UsageError: [E607] the file cannot be written.
        """
        write_file(path, f"{self.svg}\n".encode())

    def _repr_html_(self) -> str:
        return self.svg

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<picture {self.title!r}, {self.width:.0f} × {self.height:.0f}>"


def element(name: str, inside: str = "", /, **attributes: str | float) -> str:
    """An SVG element; `inside` is SVG, attributes are escaped, `class_` means `class`.

    >>> element("rect", x=1.0, class_="a<b")
    '<rect x="1" class="a&lt;b"/>'
    """
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{_value(v)}"' for key, v in attributes.items())
    return f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>"


def text(x: float, y: float, words: str, /, **attributes: str | float) -> str:
    """Words at a place.

    >>> text(1.0, 2.0, "a < b")
    '<text x="1" y="2">a &lt; b</text>'
    """
    return element("text", escaped(words), x=x, y=y, **attributes)


def round_step(most: float) -> float:
    """Return the least of 1, 2, 5, 10, … and their decimal parts of which at most six cover `most`.

    >>> round_step(1000), round_step(0.3)
    (200.0, 0.05)
    """
    size = 10.0 ** floor(log10(most / 6))
    return next(size * k for k in (1, 2, 5, 10) if most / (size * k) <= 6)


def _value(v: str | float) -> str:
    return escaped(v) if isinstance(v, str) else f"{v:.2f}".rstrip("0").rstrip(".")
