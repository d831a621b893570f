"""Screenshots of the site in `docs/pictures`: `python -m tests.docs.screenshots` makes them anew from `out/site`.

It needs Chromium with its driver, Pillow, and nbconvert for the notebook. A page that is wider than its window, or that
complains, stops it.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from tests.browser import browser

ROOT = Path(__file__).resolve().parents[2]
SITE, PICTURES = ROOT / "out" / "site", ROOT / "docs" / "pictures"
PAGES = {
    "landing": SITE / "docs/index.html",
    "tutorial": SITE / "docs/tutorials/first_hour.html",
    "gallery": SITE / "docs/gallery/index.html",
    "explained": SITE / "explained/first_hour.gradient.html",
}
WIDTHS, HEIGHT, COLORS = (1400, 400), 1200, 96


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch, browser(Path(scratch)) as window:
        notebook = ROOT / "docs/notebooks/first_hour.ipynb"
        made = ["--to", "html", "--output-dir", scratch, "--output", "notebook", str(notebook)]
        subprocess.run([sys.executable, "-m", "nbconvert", *made], check=True)
        for name, page in {**PAGES, "notebook": Path(scratch) / "notebook.html"}.items():
            for width in WIDTHS:
                window.show(width, HEIGHT)
                window.open(page)
                window.run("await new Promise(r => setTimeout(r, 800))")
                wide = window.run("return document.documentElement.scrollWidth")
                assert wide <= width, f"{name} is {wide} pixels wide in a window of {width}"
                assert name == "notebook" or not window.complaints()  # its libraries are far away
                file = Path(scratch) / "shot.png"
                window.picture(file)
                image = Image.open(io.BytesIO(file.read_bytes())).convert("RGB").quantize(COLORS)
                image.save(PICTURES / f"site_{name}_{width}.png", optimize=True)


if __name__ == "__main__":
    main()
