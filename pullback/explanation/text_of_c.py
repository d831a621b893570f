"""C text as HTML, in pieces that browsers lay out lazily, with lines linked to their source locations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import Final

from pullback.codegen.marks import Place
from pullback.explanation.sources import Sources
from pullback.source import Position

__all__ = ["c_blocks"]

PIECE: Final = 200  # about this many lines are laid out together
HEAD: Final = "<details><summary><span>lines 1 to {last}: its header, and helpers</span></summary>{piece}</details>"
LINE: Final = 19.4  # line height in pixels, for text that is not laid out yet
_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)


def c_blocks(text: str, places: Sequence[Place], sources: Sources) -> str:
    """The HTML of the text, with its lines numbered and linked."""
    lines = text.rstrip("\n").split("\n")
    owner = [-1] * len(lines)
    for k, place in enumerate(places):  # inner ones come later
        owner[place.first - 1 : place.last] = [k] * (place.last - place.first + 1)
    runs = [(k, [n for n, _ in found]) for k, found in groupby(enumerate(owner), lambda pair: pair[1])]
    pieces: list[str] = []
    blocks: list[str] = []
    start = 0
    for number, (k, numbers) in enumerate(runs):
        inside = "\n".join(lines[n] for n in numbers)
        positions = places[k].positions if k >= 0 else ()
        blocks.append(_block(f"c{number}", inside, positions, sources))
        end = numbers[-1] + 1
        head = k < 0 and start == 0 and len(runs) > 1
        if head or end - start >= PIECE or end == len(lines):
            piece = _piece(start, end, blocks)
            pieces.append(HEAD.format(last=end, piece=piece) if head else piece)
            start, blocks = end, []
    return "\n".join(pieces)


def _block(name: str, inside: str, positions: Sequence[Position], sources: Sources) -> str:
    """A run of lines with the same source locations."""
    shown = _COMMENT.sub(lambda m: f'<span class="said">{m[0]}</span>', escape(inside, quote=False))
    ids = sources.ids(positions)
    if not ids:
        return f'<span class="block">{shown}\n</span>'
    sources.linked(positions, name)
    back = f'<span class="from">{sources.links(positions)}</span>'
    return f'<span class="block" id="{name}" tabindex="-1" data-to="{" ".join(ids)}">{back}{shown}\n</span>'


def _piece(start: int, end: int, blocks: Sequence[str]) -> str:
    numbers = "\n".join(map(str, range(start + 1, end + 1)))
    size = f"contain-intrinsic-size: auto {LINE * (end - start):.0f}px"
    return (f'<div class="lines broken" style="{size}"><pre class="numbers" aria-hidden="true">{numbers}</pre>'
            f'<pre>{"".join(blocks)}</pre></div>')  # fmt: skip
