"""The site: `sphinx-build -E -W -c docs . out/site` makes it, from the pages that are read in the repository too.

The pages are Markdown as any reader shows it, so the repository itself is the source: links to examples, results and
the README hold in both places. Menus are made here, of what lies in a folder, those that its index links to first.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\(([\w./-]+)\.md(?:#[\w-]*)?\)")

project = "Pullback"
author = "The Pullback developers"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["docs/**", "benchmarks/README.md", "benchmarks/results/*.md", "*.md"]
exclude_patterns = [".*", "build", "changelog.d", "dist", "examples", "out", "pullback", "tests", "**/conf.py"]
myst_heading_anchors = 4
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # sessions in APL show results, too

html_theme = "furo"
html_title = f"{project} {release}"
html_show_copyright = html_show_sourcelink = html_copy_source = False

# which folder each index shows in the menu
FOLDERS = {
    "docs/tutorials/index": "docs/tutorials",
    "docs/guides/index": "docs/guides",
    "docs/howto/index": "docs/howto",
    "docs/reference/index": "docs/reference",
    "docs/explanation/index": "docs/explanation",
    "docs/design/index": "docs/design",
    "benchmarks/README": "benchmarks/results",
}
TOP = [*list(FOLDERS), "README", "CONTRIBUTING", "SECURITY", "CHANGELOG"]


def pages_of(index: str) -> list[str]:
    """The pages of a folder: those that its index links to, in the index's order, then the others."""
    there = [path.relative_to(ROOT).with_suffix("").as_posix() for path in sorted((ROOT / FOLDERS[index]).glob("*.md"))]
    text = (ROOT / f"{index}.md").read_text(encoding="utf-8")
    linked = [f"{Path(index).parent.as_posix()}/{name}" for name in LINK.findall(text)]
    return [name for name in dict.fromkeys([*linked, *there]) if name in there and name != index]


def add_menu(app: Sphinx, page: str, source: list[str]) -> None:
    """Give an index the menu of its folder."""
    pages = TOP if page == root_doc else pages_of(page) if page in FOLDERS else []
    if pages:
        source[0] += "\n".join(["\n```{toctree}", ":hidden:", *(f"/{name}" for name in pages), "```\n"])


def add_front_door(app: Sphinx, failed: Exception | None) -> None:
    """Let the site's own folder lead to its first page."""
    if failed is None and app.builder.format == "html":
        text = f'<!doctype html><title>{project}</title><meta http-equiv="refresh" content="0; url={root_doc}.html">\n'
        (Path(app.outdir) / "index.html").write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_menu)
    app.connect("build-finished", add_front_door)
