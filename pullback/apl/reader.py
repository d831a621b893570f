"""Tokenizer for APL text; each token has its place.

number       12  ¯3.5  1e¯3  2j3  (∞ is not a number)
characters   'it''s'  "two"
name         any letters, digits, _ ∆ ⍙ ∂, raised and lowered digits; ⍺ ⍵ ⍺⍺ ⍵⍵ ∇ ∇∇; ⎕, ⍞, and system names such as
             ⎕IO, in capital or small letters
glyph        one verb or operator
mark         ( ) [ ] { } ; : ← → and the separator of statements, ⋄ or the end of a line
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from pullback.apl.errors import Spot, syntax

Kind = Literal["number", "characters", "name", "glyph", "mark", "definition", "end"]

VERBS: Final = "+-×÷*⍟!○|⌈⌊?~∧∨⍲⍱=≠<≤>≥≡≢⍴,⍪⌽⊖⍉↑↓⊂⊃⊆⌷⍳⍸∊⍷∪∩⍋⍒⊢⊣⊤⊥⌹⍕⍎"
HYBRIDS: Final = "/⌿\\⍀"  # verbs if there is no verb to their left
MONADIC_OPERATORS: Final = HYBRIDS + "¨⍨⌸"
DYADIC_OPERATORS: Final = "⍣.∘⍤⍥⍛⌺@"
OPERATORS: Final = MONADIC_OPERATORS + DYADIC_OPERATORS
MARKS: Final = "()[]{};:←→"
ALIKE: Final = {"−": "-", "∗": "*", "⋆": "*", "∣": "|", "ρ": "⍴", "ι": "⍳", "ω": "⍵", "α": "⍺", "∈": "∊", "∼": "~",
                "◊": "⋄", "ε": "∊", "∕": "/", "∖": "\\"}  # fmt: skip

_REAL = r"¯?(?:\d+\.?\d*|\.\d+)(?:[eE]¯?\d+)?"
_NUMBER = re.compile(rf"{_REAL}(?:[jJ]{_REAL})?")
_LETTERS = r"A-Za-zÀ-ÖØ-öø-ÿŷ_∆⍙∂\u0100-\u017f\u0391-\u03a9\u03b2-\u03b4\u03b6-\u03b8\u03ba-\u03c0\u03c2-\u03c8"
NAME: Final = rf"[{_LETTERS}][{_LETTERS}0-9¹²³⁰⁴-⁹₀-₉\u0300-\u036f]*"
_NAME = re.compile(NAME)
_SPECIAL = re.compile(r"⍺⍺|⍵⍵|∇∇|⍺|⍵|∇|⎕[A-Za-z]+|⎕|⍞|⍬")
_BLANK = re.compile(r"[ \t\u00a0]+")


@dataclass(frozen=True)
class Token:
    """A token of the text. Only literals have a `value`."""

    kind: Kind
    text: str
    spot: Spot
    value: Any = None


def line_tokens(line: str, number: int, file: str) -> Iterator[Token]:
    """Yield the tokens of one line.

    Raises:
        AplError: [E801] a character is unknown, a quote is open, or a number is malformed.
    """
    at = 0
    plain = "".join(ALIKE.get(c, c) for c in line)

    def spot(end: int) -> Spot:
        return Spot(file, number, at + 1, end + 1, line)

    while at < len(plain):
        c = plain[at]
        if blank := _BLANK.match(plain, at):
            at = blank.end()
        elif c == "⍝" or (number == 1 and plain.startswith("#!")):
            return
        elif c in "'\"":
            end = _closing(line, at)
            if end is None:
                raise syntax("a quote that nothing closes", spot(len(line)), f"another {c} at the end of the text")
            yield Token("characters", line[at:end], spot(end), characters(line[at + 1 : end - 1].replace(c + c, c)))
            at = end
        elif match := _NUMBER.match(plain, at):
            end = match.end()
            tail = _NAME.match(plain, end)
            if tail is not None or (plain[end : end + 1] in ("¯", ".") and plain[end : end + 2] not in (".",)):
                if tail is not None or not plain[end + 1 : end + 2].strip() or plain[end + 1 : end + 2].isdigit():
                    end = tail.end() if tail else end + 1
                    raise syntax(
                        f"{line[at:end]} is no number",
                        spot(end),
                        "¯ before a negative number; a name begins with a letter",
                    )
            try:
                yield Token("number", line[at:end], spot(end), numeral(match.group()))
            except (ValueError, OverflowError):
                raise syntax(f"{line[at:end]} is no number", spot(end)) from None
            at = end
        elif (match := _SPECIAL.match(plain, at)) or (match := _NAME.match(plain, at)):
            name = match.group()
            yield Token("name", name.upper() if c == "⎕" else name, spot(match.end()))
            at = match.end()
        elif c == "⋄":
            yield Token("end", c, spot(at + 1))
            at += 1
        elif c in MARKS or c in VERBS or c in OPERATORS:
            yield Token("mark" if c in MARKS else "glyph", c, spot(at + 1))
            at += 1
        else:
            raise syntax(f"{c!r} is no glyph of APL", spot(at + 1), "`pullback apl` shows how glyphs are typed: ]keys")


def _closing(line: str, at: int) -> int | None:
    """Return the position after the closing quote; a doubled quote is a character."""
    quote, at = line[at], at + 1
    while at < len(line):
        if line[at] != quote:
            at += 1
        elif line[at + 1 : at + 2] == quote:
            at += 2
        else:
            return at + 1
    return None


def numeral(text: str) -> int | float | complex:
    """Convert a numeral to a number, an integer if it is integral and fits."""
    text = text.replace("¯", "-").lower()
    if "j" in text:
        real, imaginary = text.split("j")
        value = complex(float(real), float(imaginary))
        return value if value.imag else numeral(real)
    if "." not in text and "e" not in text:
        whole = int(text)
        return whole if abs(whole) < 2**63 else float(text)
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise OverflowError(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def characters(text: str) -> np.ndarray[Any, Any]:
    """Convert text to APL: a single character is a scalar, others are vectors."""
    return np.array(text) if len(text) == 1 else np.array(list(text), dtype="<U1")
