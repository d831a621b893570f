"""Changes have names of the right form, and are gathered at a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import changelog


def test_changes_of_this_checkout_can_be_gathered() -> None:
    found = changelog.fragments(changelog.ROOT / "changelog.d")
    assert changelog.section("9.9", "2030-01-01", found).startswith("## 9.9 (2030-01-01)\n")
    assert (changelog.ROOT / "CHANGELOG.md").read_text(encoding="utf-8").startswith(changelog.HEAD)


def test_changes_are_moved_to_the_top(tmp_path: Path) -> None:
    folder = tmp_path / "changelog.d"
    folder.mkdir()
    page = tmp_path / "CHANGELOG.md"
    page.write_text(changelog.HEAD, encoding="utf-8")
    (folder / "a.fixed.md").write_text("One\nthing.\n", encoding="utf-8")
    changelog.gather(tmp_path, "0.1", "2030-01-01", "The first.")
    (folder / "b.added.md").write_text("Another.\n", encoding="utf-8")
    (folder / "c.added.md").write_text("A third.\n", encoding="utf-8")
    changelog.gather(tmp_path, "0.2", "2030-02-01")
    assert not list(folder.iterdir())
    assert page.read_text(encoding="utf-8").removeprefix(changelog.HEAD) == (
        "\n## 0.2 (2030-02-01)\n\n### Added\n\n* Another.\n* A third.\n"
        "\n## 0.1 (2030-01-01)\n\nThe first.\n\n### Fixed\n\n* One thing.\n"
    )


def test_a_change_of_no_kind(tmp_path: Path) -> None:
    (tmp_path / "a.better.md").write_text("x", encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.better\.md: the name of a change is TOPIC\.KIND\.md"):
        changelog.fragments(tmp_path)
