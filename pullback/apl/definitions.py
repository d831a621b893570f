"""∇-definitions in the text: their headers and lines, as one token each.

∇ {r}←{a} (f op) (x y);n;⎕IO      header: result, left argument, operands, right argument, local names
  n←≢x                            lines [1], [2], …
∇

∇ f←{ … }                         ∇ around a function in braces stands for the braces alone
∇
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pullback.apl.errors import Spot, syntax
from pullback.apl.reader import NAME, Token, line_tokens

_LIST: Final = rf"(?:{NAME}|\(\s*{NAME}(?:\s+{NAME})*\s*\))"
_HEADER: Final = re.compile(
    rf"\s*∇\s*(?:(?P<shy>\{{)?\s*(?P<result>{_LIST})\s*(?(shy)\}}\s*)←\s*)?"
    rf"(?:(?P<left>{NAME}(?=[\s(])|\{{\s*{NAME}\s*\}})\s*)?"
    rf"(?:(?P<name>{NAME})|\(\s*(?P<operator>{NAME}(?:\s+{NAME}){{1,2}})\s*\))\s*"
    rf"(?P<right>{_LIST})?\s*(?P<locals>(?:;\s*(?:{NAME}|⎕[A-Za-z]+)\s*)*)(?:⍝.*)?$"
)
_BRACES: Final = re.compile(rf"\s*(∇)\s*{NAME}\s*←")
_QUIET: Final = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|⍝.*")


@dataclass(frozen=True)
class Header:
    """The header of a ∇-definition.

    Attributes:
        name: the name of the function or operator.
        result: the names whose values are the result; empty without a result.
        shy: whether a session does not print the result.
        left, right: the names of the arguments.
        optional: whether the left argument may be missing.
        operands: the names of the operands of an operator.
        local: all names that are local, with the arguments and results.
    """

    name: str
    result: tuple[str, ...]
    shy: bool
    left: str
    optional: bool
    right: tuple[str, ...]
    operands: tuple[str, ...]
    local: frozenset[str]


@dataclass(frozen=True)
class Source:
    """The value of the token of a ∇-definition: its header, the tokens of its lines, and its text."""

    header: Header
    body: tuple[Token, ...]
    text: str


def tokens(text: str, file: str = "apl") -> list[Token]:
    """Return all tokens of a text; each line and each ⋄ gives a token of the kind `end`.

    Raises:
        AplError: [E801] a character is unknown, a quote is open, a number is malformed, or a definition is not closed.
    """
    lines = text.splitlines() or [""]
    found: list[Token] = []
    depth = at = 0
    braced: Spot | None = None  # where a ∇ around braces stands
    while at < len(lines):
        line, spot = lines[at], Spot(file, at + 1, 1, len(lines[at]) + 1, lines[at])
        at += 1
        header = None if depth else _HEADER.match(line)
        if header is not None:
            token, at = _definition(header, lines, at, file, spot)
            found += [token, Token("end", "\n", spot)]
            continue
        if not depth and braced is None and _BRACES.match(line):
            braced, line = spot, line.replace("∇", " ", 1)
        elif not depth and braced is not None and line.strip() == "∇":
            braced, line = None, ""
        depth += _deeper(line)
        if not depth and braced is not None and _QUIET.sub("", line).rstrip().endswith("}∇"):
            braced, line = None, line[: line.rindex("∇")]
        found += _tokens_of_line(line, at, file)
    if braced is not None:
        raise _open(braced)
    return found


def is_open(lines: Sequence[str]) -> bool:
    """Whether the lines of a session are the beginning of a ∇-definition that more lines close."""
    begun = bool(lines) and bool(_HEADER.match(lines[0]) or _BRACES.match(lines[0]))
    last = _QUIET.sub("", lines[-1]).strip() if lines else ""
    return begun and not (last.endswith("}∇") or (len(lines) > 1 and last == "∇" and not sum(map(_deeper, lines))))


def _tokens_of_line(line: str, number: int, file: str) -> Iterator[Token]:
    yield from line_tokens(line, number, file)
    yield Token("end", "\n", Spot(file, number, max(len(line), 1), len(line) + 1, line))


def _deeper(line: str) -> int:
    plain = _QUIET.sub("", line)
    return plain.count("{") - plain.count("}")


def _open(spot: Spot) -> Exception:
    return syntax("a definition that no ∇ closes", spot, "a line with ∇ alone behind its last one")


def _definition(match: re.Match[str], lines: Sequence[str], at: int, file: str, spot: Spot) -> tuple[Token, int]:
    """Return the token of the definition whose header matches, and the number of the line behind it."""
    body: list[Token] = []
    depth = 0
    for k in range(at, len(lines)):
        if not depth and lines[k].strip() == "∇":
            text = "\n".join(lines[at - 1 : k + 1])
            header = _header(match)
            return Token("definition", header.name, spot, Source(header, tuple(body), text)), k + 1
        body += _tokens_of_line(lines[k], k + 1, file)
        depth += _deeper(lines[k])
    raise _open(spot)


def _header(match: re.Match[str]) -> Header:
    left, right = match["left"] or "", _names(match["right"])
    parts = _names(match["operator"] or match["name"])  # a name, or operands around that of an operator
    if left and not right and "{" not in left:  # `f x` and `f (x y)`: the first name is that of the function
        left, right, parts = "", parts, (left,)
    own, operands = (parts[1], (parts[0], *parts[2:])) if len(parts) > 1 else (parts[0], ())
    result = _names(match["result"])
    arguments = (left.strip("{} \t"), *right, *operands)
    local = frozenset((*result, *arguments, *_names(match["locals"])))
    return Header(own, result, bool(match["shy"]), arguments[0], "{" in left, right, operands, local - {""})


def _names(text: str | None) -> tuple[str, ...]:
    found = re.findall(rf"{NAME}|⎕[A-Za-z]+", text or "")
    return tuple(name.upper() if name.startswith("⎕") else name for name in found)


__all__ = ["Header", "Source", "is_open", "tokens"]
