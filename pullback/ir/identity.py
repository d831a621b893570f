"""Program identity: a digest that is equal for programs of equal text and settings."""

from __future__ import annotations

import hashlib

from pullback.ir import nodes as ir
from pullback.ir.printer import print_program


def identity(known: ir.Known) -> str:
    """A digest of the program, or of the ingredients of an outline."""
    if isinstance(known, ir.Outline):
        return known.identity
    return digest(print_program(known), known.settings.text)


def digest(*parts: str) -> str:
    """A digest of some texts."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=20).hexdigest()
