"""The warnings under which generated C compiles without a word, with gcc and with clang."""

from __future__ import annotations

from typing import Final

QUIET: Final = ("-Wno-psabi", "-Wno-unknown-warning-option", "-Wno-invalid-feature-combination")
"""Remarks about the processor, not the text: clang's on -march=native, and options that only one compiler has."""
WARNINGS: Final = ("-Wall", "-Wextra", "-Werror", *QUIET)
STRICT: Final = ("-std=c99", "-pedantic", *WARNINGS)
