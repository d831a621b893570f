"""Tables of other libraries' words: every right-hand cell runs, and agrees with the NumPy or APL beside it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import apl

ROOT = Path(__file__).resolve().parents[2]
PAGES = {page.stem: page for page in sorted((ROOT / "docs/coming_from").glob("*.md")) if page.stem != "index"}
ROW = re.compile(r"^\| `(.+?)` \| `(.+?)` \|$", re.MULTILINE)
TABLE = re.compile(r"^\| [\w ]+ \| (Pullback(?:, in a traced function)?) \|\n\|---\|---\|\n((?:\|.*\n)+)", re.MULTILINE)
SETUP = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def tables(page: Path) -> list[tuple[bool, list[tuple[str, str]]]]:
    """For each table of a page, whether its cells stand in a traced function, and its rows."""
    found = []
    for head, body in TABLE.findall(page.read_text(encoding="utf-8")):
        rows = [tuple(cell.replace("\\|", "|") for cell in row) for row in ROW.findall(body)]
        assert len(rows) == body.count("\n"), f"{page.name}: a row is not two cells in backticks"
        found.append((head != "Pullback", rows))
    return found


def set_up(page: Path) -> dict[str, Any]:
    """The names that a page's rows use."""
    names: dict[str, Any] = {}
    exec("\n".join(SETUP.findall(page.read_text(encoding="utf-8"))), names)
    return names


def traced(cell: str, names: dict[str, Any]) -> Any:
    """Evaluate an expression in a traced function of the arrays that it uses."""
    arrays = [n for n in dict.fromkeys(re.findall(r"\b[A-Za-z]\w*\b", cell)) if isinstance(names.get(n), np.ndarray)]
    return pb.function(eval(f"lambda {', '.join(arrays)}: ({cell})", names)).interpret(*(names[n] for n in arrays))


def run(cell: str, names: dict[str, Any]) -> Any:
    """The value of an expression, or None for a statement."""
    try:
        code = compile(cell, "cell", "eval")
    except SyntaxError:
        exec(cell, names)
        return None
    return eval(code, names)


def in_numpy(cell: str, names: dict[str, Any]) -> Any:
    """The value of an expression, or the array that a statement has changed."""
    own = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in names.items()}
    value = run(cell, own)
    return own["x"] if value is None else value


def in_apl(cell: str, names: dict[str, Any]) -> Any:
    work = apl.Workspace()
    work.evaluate("⎕IO←0")
    for name, value in names.items():
        if isinstance(value, np.ndarray):
            work[name] = value
    return work.evaluate(cell)


BESIDE: dict[str, Callable[[str, dict[str, Any]], Any]] = {"numpy": in_numpy, "apl": in_apl}


@pytest.mark.parametrize("name", PAGES)
def test_every_right_hand_side_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = set_up(PAGES[name])
    wrong = []
    for is_traced, rows in tables(PAGES[name]):
        for left, right in rows:
            try:
                value = traced(right, names) if is_traced else run(right, names)
                if name in BESIDE:
                    expected = BESIDE[name](left, names)
                    np.testing.assert_allclose(np.asarray(value), np.asarray(expected), rtol=1e-9, atol=1e-12)
            except Exception as error:
                wrong.append(f"{left} | {right}\n    {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_forty_rows(name: str) -> None:
    rows = [row for _, body in tables(PAGES[name]) for row in body]
    assert len(rows) >= 40
    assert len(set(rows)) == len(rows)


def test_the_libraries_have_their_pages() -> None:
    assert set(PAGES) == {"apl", "casadi", "jax", "numpy", "pytorch"}
