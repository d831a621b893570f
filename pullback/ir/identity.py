"""What a program is, as a digest: the same for programs of one text and the settings that belong to them."""

from __future__ import annotations

import hashlib
from typing import Final

from pullback.ir.printer import print_program
from pullback.ir.program import Known, Outline

# Notes that a program's derivatives and its C depend on.
SETTINGS: Final = ("exact", "memory_limit", "memory", "donate")


def identity(known: Known) -> str:
    """A digest of the program, or of what it will be made from."""
    if isinstance(known, Outline):
        return known.identity
    return digest(print_program(known), settings(known))


def settings(known: Known) -> str:
    """The notes that count, as text."""
    return str([known.notes.get(name) for name in SETTINGS])


def digest(*parts: str) -> str:
    """A digest of some texts."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=20).hexdigest()
