"""Every training task runs, asserts its outcome, and prints it; its head says what it does and how others do it."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "training"
TASKS = sorted(FOLDER.glob("*.py"))
NEEDS = {"sklearn": ("sklearn", "load_digits"), "PIL": ("PIL",)}  # packages, and the words that need them


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for package, words in NEEDS.items():
        if any(word in path.read_text(encoding="utf-8") for word in words):
            pytest.importorskip(package)
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed.strip()
    assert "nan" not in printed


def test_each_is_short_and_says_what_it_does() -> None:
    for path in TASKS:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        head = ast.get_docstring(tree) or ""
        first, _, rest = head.partition("\n\n")
        assert first.endswith("."), path.name
        assert len(first.splitlines()) == 1, path.name
        assert re.match(r"In PyTorch: |In PyTorch and Keras: ", rest), path.name
        assert "Keras: " in rest, path.name
        assert any(isinstance(node, ast.Assert) for node in ast.walk(tree)), path.name
        assert len([line for line in text.splitlines() if line.strip()]) <= 55, path.name
