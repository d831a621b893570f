"""C of many programs in one compilation: a compiler run costs more than compiling most programs of tests.

Texts are split into definitions. One that several texts share, such as a helper, is compiled once; one that differs
from an earlier one of its name gets a name of its own, as do all that mention it. So each program means what it means
alone. Each tenth text is compiled alone, as users do, and so are all where they cannot be compiled together: then the
error is that of the program that is wrong.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from pullback.errors import CompilerError
from pullback.runtime.compile import compiled_library

ALONE = 10  # each text of so many is compiled alone
WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
DIRECTIVE = re.compile(r"\s*#\s*(\w+)\s*(\w*)")
QUIET = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
DEFINED = re.compile(r"""\s*(
    typedef\b[^;{]*?(?=\w+\s*;)
  | (?:struct|union|enum)\s+(?=\w+\s*\{)
  | [^({=;]*?(?=\w+\s*[\[({=;])
)(\w+)""", re.VERBOSE)
TYPES = ("typedef", "struct", "union", "enum")
CONDITIONS = ("if", "ifdef", "ifndef", "elif", "else", "endif")


@dataclass(frozen=True)
class Piece:
    """A definition, a directive or a condition at the top of a text.

    Attributes:
        kind: "condition"; else what tells a declaration of a name from its definition.
        name: the name that it defines, none where it is empty.
    """

    kind: str
    name: str
    text: str


Placed = tuple[tuple[str, ...], Piece]  # a piece with the conditions around it


def compiled(texts: Sequence[tuple[str, str]], flags: tuple[str, ...]) -> list[Any]:
    """The functions of these texts and names as functions of ctypes."""
    together = [k for k in range(len(texts)) if k % ALONE]
    names = [f"{name}__{k}" for k, (_, name) in enumerate(texts)]
    library: ctypes.CDLL | None = None
    if len(together) > 1:
        try:
            library = _loaded(joined([texts[k] for k in together], [names[k] for k in together]), flags)
        except (CompilerError, ValueError):
            library = None
    return [getattr(library, names[k]) if library is not None and k % ALONE else getattr(_loaded(text, flags), name)
            for k, (text, name) in enumerate(texts)]


def _loaded(text: str, flags: tuple[str, ...]) -> ctypes.CDLL:
    return ctypes.CDLL(str(compiled_library(text, flags)))


def joined(texts: Sequence[tuple[str, str]], names: Sequence[str]) -> str:
    """One text for several, each with the name of its function, which is called by another name.

    Raises:
        ValueError: a text has no definitions that can be told apart.
    """
    known: dict[Key, Meanings] = {}
    taken = count()
    lines: list[str] = []
    for (text, own), name in zip(texts, names, strict=True):
        found = list(_under_conditions(pieces(text)))
        others = {own: name}
        while clash := _clashes(found, others, known):  # who mentions what gets another name becomes another text
            others |= {n: f"{n}__{next(taken)}_" for n in clash}
        defined = _meanings(found, others)
        new = {key for key in defined if key not in known}
        lines += [_renamed(p.text, others) for _, p in found if p.kind == "condition" or _key(p, others) in new]
        known |= defined
    return "\n".join([*lines, ""])


Key = tuple[str, str]
Meanings = dict[tuple[str, ...], str]  # texts that define a name, by the conditions under which they do


def _clashes(found: Sequence[Placed], others: Mapping[str, str], known: Mapping[Key, Meanings]) -> set[str]:
    """The names that an earlier text defines otherwise."""
    defined = _meanings(found, others)
    return {p.name for _, p in found if p.name and p.name not in others
            and (key := _key(p, others)) in known and known[key] != defined[key]}


def _meanings(found: Sequence[Placed], others: Mapping[str, str]) -> dict[Key, Meanings]:
    out: dict[Key, Meanings] = {}
    for above, piece in found:
        if piece.kind != "condition":
            place = tuple(_renamed(a, others) for a in above)
            out.setdefault(_key(piece, others), {})[place] = _renamed(piece.text, others)
    return out


def _key(piece: Piece, others: Mapping[str, str]) -> Key:
    return piece.kind, others.get(piece.name, piece.name) or piece.text


def _renamed(text: str, others: Mapping[str, str]) -> str:
    return WORD.sub(lambda m: others.get(m.group(), m.group()), text)


def _under_conditions(found: Sequence[Piece]) -> Iterator[Placed]:
    """Each piece with the conditions under which it is compiled."""
    above: list[str] = []
    for piece in found:
        if piece.kind == "condition":
            word = _directive(piece.text)
            if word.startswith("if"):
                above.append(piece.text)
            elif word == "endif":
                above.pop()
            else:
                above[-1] += f"\n{piece.text}"
        yield tuple(above), piece


def pieces(text: str) -> list[Piece]:
    """The definitions, directives and conditions of a text in their order.

    Raises:
        ValueError: braces do not match.
    """
    out: list[Piece] = []
    current: list[str] = []
    for line in _lines(text):
        if not current and not line.strip():
            continue
        if not current and line.lstrip().startswith("#"):
            word = _directive(line)
            name = DIRECTIVE.match(line)[2] if word == "define" else ""  # type: ignore[index]
            out.append(Piece("condition" if word in CONDITIONS else word, name, line))
            continue
        current.append(line)
        code = QUIET.sub("", "\n".join(line for line in current if not line.lstrip().startswith("#")))
        if not code.strip():  # a comment
            current = []
        elif "/*" not in code and code.count("{") == code.count("}") and code.rstrip().endswith((";", "}")):
            out.append(_definition("\n".join(current)))
            current = []
    if current:
        raise ValueError("a definition without its end")
    return out


def _lines(text: str) -> Iterator[str]:
    """Lines, together with those that they go on in."""
    return iter(re.findall(r"(?:[^\n]*\\\n)*[^\n]*", text))


def _directive(line: str) -> str:
    found = DIRECTIVE.match(line)
    return found[1] if found else ""


def _definition(text: str) -> Piece:
    code = ATTRIBUTE.sub("", QUIET.sub("", text))
    found = DEFINED.match(code)
    if found is None:
        raise ValueError(f"no name is defined: {text[:80]}")
    word = found[1].split(maxsplit=1)[0] if found[1].strip() else ""
    kind = word if word in TYPES else "value" if "{" in code or "=" in code else "declaration"
    return Piece(kind, found[2], text)
