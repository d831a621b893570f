"""Annotations of the language are accepted by a type checker."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def test_mypy_accepts_what_users_write() -> None:
    api = pytest.importorskip("mypy.api")
    config = str(HERE.parents[1] / "pyproject.toml")
    flags = ["--config-file", config, "--strict", "--enable-error-code", "name-defined", "--follow-imports", "silent"]
    found, problems, status = api.run([*flags, str(HERE / "forms.py")])
    assert (status, problems) == (0, ""), found
