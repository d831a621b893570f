"""Conversion of ∇-definitions to dfns, line by line, which preserves positions in the text.

    ∇ r←a mean x;n          mean←{a←⍺ ⋄ x←⍵
      n←≢x                    n←≢x
      r←a+(+/x)÷n             r←a+(+/x)÷n
    ∇                       r}

A line that is not an assignment prints its value, as in a ∇-definition, and does not end the function. Not supported:
branches and control structures, functions without arguments, omitted results, and assignments to names outside
the function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pullback.apl.errors import Spot, syntax

_NAME: Final = r"[^\W\d][\w∆⍙]*"
_HEADER: Final = re.compile(
    rf"\s*∇\s*(?:(?P<shy>\{{)?(?P<result>{_NAME})\}}?\s*←)?(?P<names>[\w∆⍙\s]+?)(?:;[\w∆⍙;\s⎕]*)?\s*(?:⍝.*)?$"
)
_ASSIGNED: Final = re.compile(rf"\s*(?:{_NAME}(?:\s+{_NAME})*|\([^()]*\)|⎕\w*)\s*(?:\[[^\]]*\])?\s*[^\s\w←]{{0,2}}←")
_QUIET: Final = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|⍝.*")


def as_dfns(lines: Sequence[str], file: str) -> Iterator[str]:
    """Yield the lines of a text, with ∇-definitions converted to dfns.

    Raises:
        AplError: [E801] a definition is not closed, or has no argument.
    """
    begun: Spot | None = None
    result, depth = "", 0
    for number, line in enumerate(lines, 1):
        header = _HEADER.match(line) if begun is None and not depth else None
        if header is not None:
            begun, result = Spot(file, number, 1, len(line) + 1, line), header["result"] or ""
            result = f"{result}←{result}" if header["shy"] else result
            yield _opening(header["names"].split(), begun)
            continue
        if begun is not None and line.strip() == "∇":
            begun, depth = None, 0
            yield f"{result}}}"
            continue
        plain = _QUIET.sub("", line)
        shown = begun is not None and not depth and line.partition("⍝")[0].strip() and not _ASSIGNED.match(line)
        yield f"⎕←{line}" if shown else line
        depth += plain.count("{") - plain.count("}")
    if begun is not None:
        raise syntax("a definition that no ∇ closes", begun, "a line with ∇ alone behind its last one")


def _opening(names: Sequence[str], spot: Spot) -> str:
    match names:
        case [name, right]:
            return f"{name}←{{{right}←⍵"
        case [left, name, right]:
            return f"{name}←{{{left}←⍺ ⋄ {right}←⍵"
        case _:
            raise syntax("the head of a definition is ∇ r←f x or ∇ r←a f x", spot, "a dfn of ⍵ that does not use it")


__all__ = ["as_dfns"]
