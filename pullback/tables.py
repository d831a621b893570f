"""Tables for people: rows of cells, the first of them the head, as lines of text or as HTML.

The HTML has no colors of its own, so that it can be read on any background, and no scripts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from pullback.notebook import Displayed

__all__ = ["Rows", "Tables", "escaped", "html_note", "html_table", "html_text", "text_table"]

Rows = Sequence[Sequence[str]]


def escaped(text: str) -> str:
    """Escape text for HTML."""
    from html import escape  # on demand, for its table of a thousand names

    return escape(text)


def text_table(rows: Rows, right: Collection[int] = ()) -> list[str]:
    r"""Lines with columns two spaces apart, the head underlined; the columns `right` end where they end.

    >>> print("\n".join(text_table([("name", "bytes"), ("x", "8"), ("weights", "1024")], right=(1,))))
    name     bytes
    -------  -----
    x            8
    weights   1024
    """
    widths = [max(len(r[k]) for r in rows) for k in range(len(rows[0]))]
    lines = ["  ".join(c.rjust(w) if k in right else c.ljust(w) for k, (c, w) in enumerate(zip(r, widths))).rstrip()
             for r in rows]
    lines.insert(1, "  ".join("-" * w for w in widths).rstrip())
    return lines


def html_table(rows: Rows, right: Collection[int] = (), caption: str = "") -> str:
    """Return the same as an HTML table, all text escaped; the caption wraps and a wide table scrolls.

    >>> html_table([("a",), ("x < y",)]).count("x &lt; y")
    1
    """
    head, *body = rows
    parts = [f'<div style="margin: 6px 0">{html_text(caption)}</div>'] if caption else []
    parts.append('<div style="overflow-x: auto"><table style="border-collapse: collapse; font-family: monospace">')
    parts.append(f"<thead>{_row('th', head, right, 'border-bottom: 1px solid; ')}</thead><tbody>")
    parts += [_row("td", row, right) for row in body]
    return "\n".join([*parts, "</tbody></table></div>"])


def html_text(text: str) -> str:
    """Escape text for HTML, with words between backticks as code.

    >>> html_text("`f` at x < 1")
    '<code>f</code> at x &lt; 1'
    """
    pieces = [escaped(piece) for piece in text.split("`")]
    if len(pieces) % 2 == 0:  # a backtick without its other
        return escaped(text)
    return "".join(f"<code>{piece}</code>" if k % 2 else piece for k, piece in enumerate(pieces))


def html_note(*lines: str) -> str:
    """Lines below a table, which wrap."""
    style = "background: none; font-family: monospace; white-space: pre-wrap"
    return f'<pre style="{style}">{escaped(chr(10).join(lines))}</pre>'


class Tables(Displayed):
    """The base of values that are shown as tables with lines between: as text, and as HTML."""

    __slots__ = ()

    def _parts(self) -> Iterable[str | tuple[Rows, Collection[int]]]:
        """The parts in order: lines of text, and tables with the positions of their numeric columns."""
        raise NotImplementedError

    def __str__(self) -> str:
        found = (part if isinstance(part, str) else "\n".join(text_table(*part)) for part in self._parts())
        return "\n".join(found)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        found = (html_note(part) if isinstance(part, str) else html_table(*part) for part in self._parts() if part)
        return "\n".join(found)


def _row(kind: str, cells: Sequence[str], right: Collection[int], style: str = "") -> str:
    style += "padding: 2px 14px 2px 0; white-space: pre; text-align: "
    styled = (f'<{kind} style="{style}{"right" if k in right else "left"}">'
              f"{escaped(cell)}</{kind}>" for k, cell in enumerate(cells))
    return f"<tr>{''.join(styled)}</tr>"
