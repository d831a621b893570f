"""Formatting of C: folded comments, broken statements, and `#line` directives for the user's file."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Final

from pullback.ir.index import Index
from pullback.loops.program.values import Buffer
from pullback.source import Position

WIDTH: Final = 120
_WORD: Final = re.compile(r"\w+")
_CUT: Final = re.compile(r"(?<=,)( )|( )(?=(?:[-+*/?:]|&&|\|\|) )")


def folded(text: str, width: int, indent: int = 4) -> list[str]:
    """Fold text for a comment: without comment ends, in lines of limited width."""
    safe = text.replace("*/", "* /").replace("/*", "/ *").rstrip()
    start = len(safe) - len(safe.lstrip())
    return textwrap.wrap(safe, width, subsequent_indent=" " * (start + indent), break_long_words=False,
                         break_on_hyphens=False, drop_whitespace=True) or [""]


def reached(text: str, sources: Mapping[str, str]) -> set[str]:
    """The names of the sources that a text mentions, directly or through others."""
    found: set[str] = set()
    todo = [text]
    while todo:
        new = {w for w in _WORD.findall(todo.pop()) if w in sources} - found
        found |= new
        todo += (sources[w] for w in new)
    return found


def line_of(position: Position | None) -> str:
    """The `#line` directive for the next line's origin."""
    if position is None:
        return own_line("pullback").rstrip("\n")
    file = position.file.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line {position.line} "{file}"'


def own_line(name: str) -> str:
    """The `#line` directive that returns to the file's own lines."""
    return f'#line 1 "{name}.c"\n'


def written_line(position: object) -> str | None:
    """The source line of a kernel's origin in another language, made safe for a C comment."""
    if position is None or isinstance(position, Position):
        return None
    return str(getattr(position, "source_line", "")).strip().replace("*/", "* /").replace("/*", "/ *")


def marked(text: str, position: Position | None) -> str:
    """Attribute all lines of a function to one line of the user's file."""
    return "".join(f"{line_of(position)}\n{line}\n" for line in text.splitlines())


def shape_text(b: Buffer) -> str:
    """The type of an array: `f32[N, M]`."""
    return f"{b.dtype.name}[{', '.join(str(d) for d in b.shape)}]"


def thousands(n: int) -> str:
    """A number in groups of three digits."""
    return f"{n:,}".replace(",", " ")


def count_text(i: Index) -> str:
    """Print a count as a number, or as a formula in the dims."""
    return str(i) if i.constant is None else thousands(i.constant)


def fit(text: str) -> str:
    """The text with long statements broken after a comma or before an operator."""
    lines = text.split("\n")
    if all(len(line) <= WIDTH for line in lines):
        return text
    out: list[str] = []
    given = ""  # the end of verbatim C
    for line in lines:
        if given or line.startswith("/* pb_given_"):
            given = "" if line == given else given or f"/* end of {line[3:].partition(':')[0]} */"
            out.append(line)
            continue
        indent = len(line) - len(line.lstrip()) + 4
        on = " \\" if line.startswith("#") else ""  # preprocessor lines need a continuation
        while len(line) > WIDTH and line.lstrip()[:2] not in ("/*", "* ", "#l"):
            cuts = [m.start() for m in _CUT.finditer(line, indent + 20, WIDTH - len(on))]
            if not cuts:
                break
            out.append(line[:cuts[-1]].rstrip() + on)
            line = " " * indent + line[cuts[-1]:].lstrip()
        out.append(line)
    return "\n".join(out)


def wrap(head: str, rest: str) -> str:
    """A function whose parameters are broken into lines of at most WIDTH."""
    signature, brace, body = rest.partition(") {\n")
    first, *others = signature[1:].split(", ")
    line = f"{head}({first}"
    out = []
    indent = " " * min(len(head) + 1, WIDTH // 2)
    for p in others:
        if len(line) + len(p) + 5 > WIDTH:
            out.append(line + ",")
            line = indent + p
        else:
            line += ", " + p
    return "\n".join([*out, line]) + brace + body

