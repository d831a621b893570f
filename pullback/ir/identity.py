"""What a program is, as a digest: the same for programs of one text and the settings that belong to them."""

from __future__ import annotations

import hashlib

from pullback.ir.printer import print_program
from pullback.ir.program import Known, Outline


def identity(known: Known) -> str:
    """A digest of the program, or of what it will be made from."""
    if isinstance(known, Outline):
        return known.identity
    return digest(print_program(known), known.settings.text)


def digest(*parts: str) -> str:
    """A digest of some texts."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=20).hexdigest()
