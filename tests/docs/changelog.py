"""Gathers `changelog.d/` into a section of `CHANGELOG.md`: `python -m tests.docs.changelog 0.1.0`, at a release.

Each file there is one change, `<topic>.<kind>.md`; it is removed once its sentence is in the section of its kind.
"""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("added", "changed", "fixed", "removed")
HEAD = "# Changes\n\nWhat is new since the last release is in `changelog.d/`, one file per change.\n"


def fragments(folder: Path) -> dict[str, list[Path]]:
    """The files of each kind, by topic.

    Raises:
        ValueError: a file's name has no kind.
    """
    out: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    for path in sorted(folder.glob("*.md")):
        _, _, kind = path.stem.rpartition(".")
        if kind not in out:
            raise ValueError(f"{path.name}: the name of a change is TOPIC.KIND.md, KIND one of {', '.join(KINDS)}")
        out[kind].append(path)
    return out


def section(version: str, day: str, found: dict[str, list[Path]], about: str = "") -> str:
    """What `CHANGELOG.md` says of a version."""
    parts = [f"## {version} ({day})\n", *([about + "\n"] if about else [])]
    for kind, paths in found.items():
        lines = [f"* {' '.join(path.read_text(encoding='utf-8').split())}" for path in paths]
        if lines:
            parts.append("\n".join([f"### {kind.capitalize()}\n", *lines]) + "\n")
    return "\n".join(parts)


def gather(root: Path, version: str, day: str, about: str = "") -> str:
    """Move all changes to the top of `CHANGELOG.md`; the section that was written."""
    found = fragments(root / "changelog.d")
    page = root / "CHANGELOG.md"
    made = section(version, day, found, about)
    before = page.read_text(encoding="utf-8").removeprefix(HEAD)
    page.write_text(f"{HEAD}\n{made}{before}", encoding="utf-8")
    for path in (path for paths in found.values() for path in paths):
        path.unlink()
    return made


if __name__ == "__main__":
    version, *about = sys.argv[1:]
    print(gather(ROOT, version, date.today().isoformat(), " ".join(about)).count("\n* "), "changes")
