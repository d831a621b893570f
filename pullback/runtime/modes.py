"""The memory modes of a program, from the fastest to the one that needs least; each needs at most what those before do.

- fastest: what runs fastest.
- less: the same work in an order that needs less memory, with the same results bit for bit.
- least: other work where that needs less still; results may differ by rounding.
"""

from __future__ import annotations

from typing import Literal, get_args

MemoryMode = Literal["fastest", "less", "least"]
MODES: tuple[MemoryMode, ...] = get_args(MemoryMode)
