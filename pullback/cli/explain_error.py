"""`pullback explain-error E103`: the section of the reference for an error's code."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Any

import pullback
from pullback.errors import UsageError

__all__ = ["register", "run", "sections"]


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "explain-error",
        help="explain an error code",
        description="Explain an error code. Without a code, list all codes.",
        examples=("pullback explain-error E103", "pullback explain-error 103"),
    )
    command.add_argument("code", metavar="CODE", nargs="?", help="the code in the message, with or without its E")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the section of a code, which may omit its E, or list all codes."""
    found = sections()
    if options.code is None:
        print("\n".join(f"{code}  {_first_sentence(text)}" for code, text in found.items()))
        return 0
    code = f"E{options.code.strip('[]').upper().removeprefix('E')}"
    if code not in found:
        raise UsageError("E609", f"there is no error {options.code}", remedy="`pullback explain-error` lists the codes")
    width = min(100, get_terminal_size().columns)
    parts = f"{code}: {found[code]}".split("\n\n")  # lists, tables and code keep their lines
    print("\n\n".join(p if re.search(r"^(```|[-|* ])", p, re.MULTILINE) else fill(p, width) for p in parts))
    return 0


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.) ", " ".join(text.partition("\n\n")[0].split()), maxsplit=1)[0]


def sections() -> dict[str, str]:
    """The sections of the page of errors by code, from the installed page or the repository."""
    package = Path(pullback.__file__).parent
    installed = package / "errors.md"
    page = installed if installed.is_file() else package.parent / "docs" / "reference" / "errors.md"
    parts = re.split(r"^#+ (E\d{3})$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    texts = (re.split(r"^#", text, maxsplit=1, flags=re.MULTILINE)[0].strip() for text in parts[2::2])
    return dict(sorted(zip(parts[1::2], texts, strict=True)))
