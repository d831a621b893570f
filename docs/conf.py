"""The site: `sphinx-build -E -W -c docs . out/site` makes it, from the pages that are read in the repository too.

The pages are Markdown as any reader shows it, so the repository itself is the source: links to examples, results and
the README hold in both places. Menus are made here, of what lies in a folder, those that its index links to first.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docs import explained_pages, gallery_pages

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
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_copyright = html_show_sourcelink = html_copy_source = False

made: dict[str, Any] = {}  # by the programs of these pages

# which folder each index shows in the menu
FOLDERS = {
    "docs/tutorials/index": "docs/tutorials",
    "docs/gallery/index": "docs/gallery",
    "docs/coming_from/index": "docs/coming_from",
    "docs/guides/index": "docs/guides",
    "docs/howto/index": "docs/howto",
    "docs/reference/index": "docs/reference",
    "docs/explanation/index": "docs/explanation",
    "docs/design/index": "docs/design",
    "benchmarks/README": "benchmarks/results",
}
TOP = [*list(FOLDERS), "README", "CONTRIBUTING", "SECURITY", "CHANGELOG"]
TITLES = {"README": "Read me </README>"}


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
        entries = [TITLES.get(name, f"/{name}") for name in pages]
        source[0] += "\n".join(["\n```{toctree}", ":hidden:", *entries, "```\n"])


def run_programs(app: Sphinx) -> None:
    """Run the programs whose results are missing; read pages again if results have changed."""
    made["gallery"] = gallery_pages.page()
    made["explained"] = explained_pages.links()
    files = [str(file) for files in made["explained"].values() for file in files.values()]
    app.config.results_digest = hashlib.sha256("\n".join([made["gallery"], *files]).encode()).hexdigest()


def add_results(app: Sphinx, page: str, source: list[str]) -> None:
    """Write what programs have made into the pages that show it."""
    if page == gallery_pages.PAGE:
        source[0] += made["gallery"]
    if page in made["explained"]:
        source[0] = explained_pages.with_links(page, source[0], made["explained"][page])


def copy_explained(app: Sphinx, failed: Exception | None) -> None:
    """Put the pages that explain functions beside those of the site."""
    if failed is None and app.builder.format == "html":
        folder = Path(app.outdir) / "explained"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for files in made["explained"].values():
            for file in files.values():
                shutil.copy(file, folder)


def add_front_door(app: Sphinx, failed: Exception | None) -> None:
    """Let the site's own folder lead to its first page."""
    if failed is None and app.builder.format == "html":
        text = f'<!doctype html><title>{project}</title><meta http-equiv="refresh" content="0; url={root_doc}.html">\n'
        (Path(app.outdir) / "index.html").write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_config_value("results_digest", "", "env")
    app.connect("builder-inited", run_programs, priority=0)
    app.connect("source-read", add_results)
    app.connect("source-read", add_menu)
    app.connect("build-finished", copy_explained)
    app.connect("build-finished", add_front_door)
