"""The page that learns digits, in a browser: it trains, and recognizes what is drawn and what is bundled."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from pullback.cli.main import main
from tests.browser import Browser, browser, needs_chromium

Stroke = list[tuple[float, float]]


def arc(x: float, y: float, wide: float, high: float, first: float, last: float, count: int = 18) -> Stroke:
    angles = [math.radians(first + (last - first) * k / count) for k in range(count + 1)]
    return [(x + wide * math.cos(a), y + high * math.sin(a)) for a in angles]


DRAWN: dict[str, list[Stroke]] = {
    "0": [arc(0.5, 0.5, 0.2, 0.32, 0, 360)],
    "1": [[(0.42, 0.3), (0.52, 0.18), (0.52, 0.82)]],
    "2": [[*arc(0.5, 0.33, 0.18, 0.15, 180, 380), (0.32, 0.8), (0.7, 0.8)]],
    "3": [arc(0.47, 0.34, 0.17, 0.15, 200, 440) + arc(0.47, 0.65, 0.2, 0.17, -80, 150)],
    "4": [[(0.55, 0.18), (0.3, 0.6), (0.72, 0.6)], [(0.58, 0.4), (0.58, 0.84)]],
    "5": [[(0.68, 0.2), (0.38, 0.2), (0.36, 0.47), *arc(0.48, 0.62, 0.2, 0.19, 240, 490)]],
    "6": [[(0.62, 0.18), (0.42, 0.4), *arc(0.5, 0.65, 0.16, 0.17, 200, 560)]],
    "7": [[(0.3, 0.2), (0.7, 0.2), (0.45, 0.82)]],
    "8": [arc(0.5, 0.34, 0.14, 0.15, 90, -270) + arc(0.5, 0.66, 0.17, 0.17, -90, 270)],
    "9": [[*arc(0.5, 0.35, 0.16, 0.16, 0, -360), (0.64, 0.6), (0.55, 0.84)]],
}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sklearn")
    folder = tmp_path_factory.mktemp("digits")
    status = main(["export", "--wasm", str(folder)])
    if status:
        pytest.skip("no compiler for wasm")
    return folder / "index.html"


@pytest.mark.slow
def test_it_is_one_small_file(page: Path) -> None:
    assert [p.name for p in page.parent.iterdir()] == ["index.html"]
    assert page.stat().st_size < 300 * 1024
    text = page.read_text()
    assert not re.search(r"(src|href)=\"(?!data:|#)", text)
    assert "CC BY 4.0" in text


def said(window: Browser, name: str) -> str:
    return str(window.run(f"return document.getElementById('{name}').textContent"))


@pytest.mark.slow
@needs_chromium
def test_it_trains_and_recognizes(page: Path, tmp_path: Path) -> None:
    with browser(tmp_path) as window:
        window.limit(110)
        window.show(1200, 1000)
        window.open(page)
        window.run("while (!document.body.dataset.ready) await new Promise(r => setTimeout(r, 20))")
        before = int(said(window, "accuracy"))
        assert (said(window, "digit"), said(window, "epochs")) == ("?", "0")
        window.run("document.getElementById('train').click()")
        window.run(
            "while (document.getElementById('epochs').textContent !== '20') await new Promise(r => setTimeout(r, 50))"
        )
        assert before < 40
        assert int(said(window, "accuracy")) >= 95
        wrong = window.run("return document.querySelectorAll('#tests .wrong').length")
        assert wrong == 100 - int(said(window, "accuracy"))
        left, top, wide = window.run("const r = board.getBoundingClientRect(); return [r.left, r.top, r.width]")
        found = {}
        for digit, strokes in DRAWN.items():
            window.run("document.getElementById('clear').click()")
            assert said(window, "digit") == "?"
            for stroke in strokes:
                window.drag([(left + wide * x, top + wide * y) for x, y in stroke])
            found[digit] = said(window, "digit")
        assert sum(digit == seen for digit, seen in found.items()) >= 9, found
        # a bundled one by the keyboard; what is drawn is taught; from the start again
        window.run("document.querySelector('#tests button').focus()")
        window.keys("\ue007")
        assert said(window, "digit") != "?"
        window.run("document.getElementById('forget').click()")
        assert (said(window, "epochs"), said(window, "accuracy")) == ("0", str(before))
        window.drag([(left + wide * x, top + wide * y) for x, y in DRAWN["1"][0]])
        window.run("document.querySelectorAll('#labels button')[1].click()")
        assert said(window, "status") == "Yours is among what it learns from, as a 1."
        for width, scheme in ((1200, "dark"), (390, "light")):
            window.show(width, 900, scheme)
            across, there = window.run("return [document.documentElement.scrollWidth, innerWidth]")
            assert across <= there
        assert window.complaints() == []
