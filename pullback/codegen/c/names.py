"""Readable unique names for C.

While text is written, every name is a token. `resolve` numbers the tokens by first occurrence and inserts names. Before
that, pieces that differ only in names have equal text, which identifies equal kernels. The style `canonical` inserts
numbered names instead (p0, p1, ...).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final

from pullback.codegen.c.libm import MATH_NAMES
from pullback.codegen.target import Style

_WORDS: Final = """
    auto break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile
    while bool true false asm typeof main errno assert stdin stdout stderr linux unix i386 near far huge
    interrupt and or not xor this new delete class template namespace operator private public virtual using
    throw try catch fault arena memcpy memset int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t
    uint64_t size_t abs
"""
KEYWORDS: Final = MATH_NAMES.union(_WORDS.split())
_MACRO: Final = re.compile(r"(U?INT|FP|M|SIZE|PTRDIFF|HUGE|MATH|WCHAR|SIG|FLT|DBL)_\w*|NULL|EOF|NAN|INFINITY|BUFSIZ|"
                           r"HUGE_VALF?|pb_\w*|_\w*")
_TOKEN: Final = re.compile("\x01(\\d+)\x02")


def identifier(wish: str) -> str:
    """Turn `wish` into a C identifier: Greek letters are spelled out, other characters become underscores."""
    out = []
    for ch in wish:
        if ch.isascii():
            out.append(ch if ch.isalnum() or ch == "_" else "_")
            continue
        name = unicodedata.name(ch, "")
        letter = name.rpartition(" LETTER ")[2]
        if name.startswith("GREEK") and letter.isalpha():
            out.append(letter.lower() if "SMALL" in name else letter.capitalize())
        else:
            plain = unicodedata.normalize("NFKD", ch)[0]
            out.append(plain if plain.isascii() and plain.isalnum() else "_")
    text = "".join(out).strip("_") or "x"
    text = re.sub("__+", "_", text)
    return f"n{text}" if text[0].isdigit() else text


class Names:
    """Tokens for the named objects of one C function."""

    def __init__(self) -> None:
        self._tokens: dict[object, str] = {}
        self._wishes: list[str] = []

    def __call__(self, thing: object, wish: str) -> str:
        """The token of a thing; `wish` is used at the first call."""
        token = self._tokens.get(thing)
        if token is None:
            token = self._tokens[thing] = f"\x01{len(self._wishes)}\x02"
            self._wishes.append(wish)
        return token

    def width(self, line: str) -> int:
        """The length of a line with the wished names."""
        return len(_TOKEN.sub(lambda match: self._wishes[int(match[1])], line))

    def resolve(self, text: str, style: Style = "user", reserved: frozenset[str] = frozenset()) -> str:
        """Replace tokens by names in order of first occurrence; a name is free again after its block.

        The text is one C function as printed by `codegen.c`. A name that first occurs in a line that opens a block
        belongs to that block. Declarations after `#if` end at `#else`. Comments have separate lines, whose braces are
        ignored.
        """
        chosen: dict[str, str] = {}
        declared: list[tuple[int, str]] = []  # depth and token, in order
        taken: set[str] = set()
        depth, here = 0, 0
        condition = 0  # the number declared before the last #if
        comment = False

        def release(count: int) -> None:
            while len(declared) > count:
                taken.discard(chosen.pop(declared.pop()[1]))

        def name(match: re.Match[str]) -> str:
            key = match[1]
            if key not in chosen:
                if style == "canonical":
                    chosen[key] = f"v{len(chosen)}"
                else:
                    chosen[key] = unique(self._wishes[int(key)], lambda n: n in taken or n in reserved)
                taken.add(chosen[key])
                declared.append((here, key))
            return chosen[key]

        lines = text.split("\n")
        for k, line in enumerate(lines):
            bare = line.strip()
            if comment or bare.startswith("/*"):
                comment, bare = "*/" not in bare, ""
            if bare.startswith("}"):
                depth -= 1
                release(next((n for n, (d, _) in enumerate(declared) if d > depth), len(declared)))
            elif bare.startswith("#if"):
                condition = len(declared)
            elif bare == "#else":
                release(condition)
            opens = bare.endswith("{")
            here = depth + opens
            before = len(declared)
            if "\x01" in line:
                lines[k] = _TOKEN.sub(name, line)
            if bare.endswith(";") and bare.startswith(("for (", "PB_EACH(")):  # a loop in one line
                release(before)
            depth += opens
        return "\n".join(lines)

    def numbered(self, text: str) -> str:
        """Number the tokens by first occurrence: pieces that differ only in names become equal."""
        return self.resolve(text, "canonical")


def unique(wish: str, taken: Callable[[str], bool]) -> str:
    """Turn `wish` into an identifier, with a number appended if it is taken or reserved."""
    base = identifier(wish)
    if base in KEYWORDS or _MACRO.fullmatch(base):
        base += "_"
    if not taken(base):
        return base
    base = base if base[-1] == "_" else base + "_" if base[-1].isdigit() else base
    k = 2
    while taken(f"{base}{k}"):
        k += 1
    return f"{base}{k}"
