"""Programs of the site: those of the gallery hold what they assert, and draw; functions of tutorials are explained."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from docs import explained_pages, gallery_pages

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = gallery_pages.programs()
TUTORIALS = [name for name in explained_pages.FUNCTIONS if "tutorials" in name]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_programs_of_the_gallery_hold_what_they_assert(program: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    gallery_pages.draw(program, tmp_path)
    (picture,) = tmp_path.iterdir()
    assert 1_000 < picture.stat().st_size < 150_000


def test_programs_of_the_gallery_are_short_and_check_a_number() -> None:
    assert len(PROGRAMS) >= 24
    for program in PROGRAMS:
        text = program.read_text(encoding="utf-8")
        tree = ast.parse(text)
        caption = (ast.get_docstring(tree) or "").splitlines()
        assert len(caption) > 2 and caption[1] == "", f"{program.name}: a title and a caption"
        assert any(isinstance(node, ast.Assert) for node in tree.body), f"{program.name} asserts nothing"
        assert len(text.splitlines()) <= 90, program.name


def test_the_gallery_is_a_page_of_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery_pages, "results", lambda job, chosen: [program.parent for program in chosen])
    page = gallery_pages.page()
    assert page.count("\n## ") == len(PROGRAMS)


@pytest.mark.parametrize("name", list(explained_pages.FUNCTIONS))
def test_functions_of_pages_are_explained(name: str, tmp_path: Path) -> None:
    explained_pages.explain(ROOT / f"{name}.md", tmp_path)
    for function in explained_pages.FUNCTIONS[name]:
        text = (tmp_path / f"{Path(name).name}.{function}.html").read_text(encoding="utf-8")
        assert "Derivation" in text or "Core" in text


def test_every_tutorial_has_explained_functions() -> None:
    pages = {path.stem for path in (ROOT / "docs/tutorials").glob("*.md")} - {"index"}
    assert {Path(name).name for name in TUTORIALS} == pages
