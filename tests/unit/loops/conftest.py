"""Tests of kernels need a machine that has vectors."""

from __future__ import annotations

import pytest

from pullback.machine import native


@pytest.fixture(autouse=True)
def _vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the machine that C is shipped for where PULLBACK_MACHINE names one without vectors."""
    if not native().vector_bytes:
        monkeypatch.setenv("PULLBACK_MACHINE", "generic")
