"""Tokens of the text form, each with its line and column."""

from __future__ import annotations

import re
from typing import Final

from pullback.errors import ParseError
from pullback.records import dataclass

_TOKEN: Final = re.compile(r"""
    (?P<space>[ \t\r\n]+|\#[^\n]*)
  | (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
  | (?P<text>"(?:[^"\\\n]|\\.)*")
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign>\+=|\*\*|//|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>=&|^?:;,.()\[\]{}])
""", re.VERBOSE | re.ASCII)


@dataclass(frozen=True)
class TextPlace:
    """A place in program text; columns count from 1."""

    file: str
    line: int
    column: int
    end_column: int
    source_line: str | None


@dataclass(frozen=True, slots=True)
class Token:
    """One token: `kind` is number, text, name, sign or end."""

    kind: str
    text: str
    start: int


class Source:
    """Program text and its tokens.

    Raises:
        ParseError: [E301] a character that begins no token.
    """

    def __init__(self, text: str, file: str = "<text>") -> None:
        self.text = text
        self.file = file
        self.tokens: list[Token] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                stray = Token("sign", text[position], position)
                raise self.error(stray, f"unexpected character {text[position]!r}", "E301")
            kind = match.lastgroup or ""
            if kind != "space":
                self.tokens.append(Token(kind, match[0], position))
            position = match.end()
        self.tokens.append(Token("end", "", len(text)))

    def error(self, token: Token, what: str, code: str = "E302", remedy: str | None = None) -> ParseError:
        """A ParseError at a token."""
        before = self.text[:token.start]
        start = before.rfind("\n") + 1
        line = self.text[start:].split("\n", 1)[0]
        column = token.start - start + 1
        place = TextPlace(self.file, before.count("\n") + 1, column, column + max(1, len(token.text)), line)
        return ParseError(code, what, position=place, remedy=remedy)
