"""E713: the program, and the complete message."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest


def test_no_ray(message: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert (
        message("""
from pullback import lazy
lazy.workers(2)
""")
        == """\
UsageError [E713] Ray is not installed
  try: pip install 'pullback[ray]'      See `pullback explain-error E713`
"""
    )
