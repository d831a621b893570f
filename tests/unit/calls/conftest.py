"""Every test of calls runs with entries of the extension and with those in Python."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def both_kinds_of_entries(entries: str) -> None:
    """Run the test once with each."""
