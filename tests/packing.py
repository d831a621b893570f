"""Packed products for programs of any size."""

from __future__ import annotations

import pytest

from pullback.loops.plain.candidates import Chooser
from pullback.loops.product import blocking
from pullback.loops.vectors.tile import Tiling

PRODUCTS = "packed", "sweep", "tiles", "open"


def pack_all(monkeypatch: pytest.MonkeyPatch, blocks: blocking.Blocks) -> None:
    """Pack whatever the estimates say, with blocks so small that modest sizes cross their edges."""
    candidates = Chooser.candidates
    monkeypatch.setattr(Tiling, "cycles", float("inf"))
    monkeypatch.setattr(Chooser, "candidates", lambda self, work: sorted(
        candidates(self, work), key=lambda c: c.name not in PRODUCTS))
    monkeypatch.setattr(blocking, "LEAST_WORK", 0)
    monkeypatch.setattr(blocking.Blocks, "of", lambda machine: blocks)
