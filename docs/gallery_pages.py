"""The gallery: each program in `docs/gallery` becomes a section with its caption, its code and its picture.

A program ends with a current figure of matplotlib, or with a `picture` of Pullback. Its assertions check its numbers.
"""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

from docs.programs import ROOT, results, scratch, share

FOLDER = ROOT / "docs" / "gallery"
PAGE = "docs/gallery/index"
STYLE = {
    "figure.figsize": (5.6, 4.2), "figure.dpi": 100, "savefig.bbox": "tight", "axes.spines.top": False,
    "axes.spines.right": False, "font.size": 10, "legend.frameon": False, "image.interpolation": "nearest",
}  # fmt: skip


def programs() -> list[Path]:
    """Return all programs of the gallery, by name."""
    return sorted(FOLDER.glob("*.py"))


def draw(program: Path, folder: Path) -> None:
    """Run a program, and write its picture into a folder."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    with scratch(), plt.rc_context(STYLE):
        made = runpy.run_path(str(program), run_name="__main__")
        if "picture" in made:
            made["picture"].save(folder / f"{program.stem}.svg")
        else:
            plt.savefig(folder / f"{program.stem}.png")
        plt.close("all")


def page() -> str:
    """Return the Markdown of the gallery: thumbnails, then a section for each program."""
    chosen = share(programs())
    pictures = {program: next(folder.iterdir()) for program, folder in zip(chosen, results(draw, chosen))}
    thumbnails, sections = [], []
    for program in programs():
        text = program.read_text(encoding="utf-8")
        first = ast.parse(text).body[0]
        title, _, caption = (ast.get_docstring(ast.parse(text)) or "").partition("\n")
        code = "\n".join(text.splitlines()[first.end_lineno :]).strip()
        label, title = program.stem.replace("_", "-"), title.rstrip(".")
        picture = f"![{title}](/{pictures[program].relative_to(ROOT).as_posix()})" if program in pictures else ""
        if picture:
            thumbnails.append(f"* [{picture}](#{label})")
        sections.append(f"({label})=\n## {title}\n\n{caption.strip()}\n\n{picture}\n\n```python\n{code}\n```\n")
    return "\n".join(['<div class="gallery">\n', *thumbnails, "\n</div>\n", *sections])
