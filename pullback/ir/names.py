"""Unique readable names for the text form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pullback.ir.types import DTYPES, HALVES

# Words that may stand in a name's place; the parser knows all others (build, sum, size, in, ...) by position.
RESERVED: Final = frozenset({
    *(d.name for d in (*DTYPES, *HALVES)), *(f"as_{d.name}" for d in DTYPES),
    "yield", "return", "let", "true", "false", "inf", "nan",
})


class Names:
    """Unique names in nested scopes: a name is taken in its scope and inner ones.

    Args:
        taken: names that may not be used.
        canonical: use the next free name of each kind and ignore the wanted one.
    """

    def __init__(self, taken: Iterable[str] = (), canonical: bool = False) -> None:
        self._taken = set(taken) | RESERVED
        self._low: dict[str, int] = {}  # base -> all smaller suffixes are taken
        self._canonical = canonical

    def fresh(self, wanted: str) -> str:
        """`wanted`, or with the first free suffix; taken until released."""
        name = "v" if self._canonical else _word(wanted)
        if name in self._taken:
            base, _ = _split_suffix(name)
            n = self._low.get(base, 1)
            while f"{base}_{n}" in self._taken:
                n += 1
            self._low[base] = n
            name = f"{base}_{n}"
        self._taken.add(name)
        return name

    def release(self, names: Iterable[str]) -> None:
        """Give names back at the end of their scope."""
        for name in names:
            self._taken.discard(name)
            base, suffix = _split_suffix(name)
            if suffix < self._low.get(base, 1):
                self._low[base] = suffix


def _word(wanted: str) -> str:
    if wanted.isascii() and wanted.isidentifier():
        return wanted
    name = re.sub(r"\W", "_", wanted, flags=re.ASCII) or "t"
    return "_" + name if name[0].isdigit() else name


def _split_suffix(name: str) -> tuple[str, int]:
    """Split `x_2` into (x, 2); without a suffix the number is 1 << 62."""
    match = re.fullmatch(r"(.+?)_([1-9]\d*)", name) if name[-1].isdigit() else None
    return (match[1], int(match[2])) if match else (name, 1 << 62)
