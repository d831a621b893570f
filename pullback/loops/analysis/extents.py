"""Extents at which loops are made in another way."""

from typing import Final

SMALL: Final = 16  # longest axis that is unrolled
POINTS: Final = 32  # a smaller space is not worth a loop of its own
