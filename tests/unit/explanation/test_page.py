"""The page of a function: what is in it, and what a browser makes of it."""

from __future__ import annotations

import html.parser
import re
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import Float32

import pullback as pb
from pullback import Array, nn
from pullback.cli.main import main
from pullback.errors import UsageError
from pullback.explanation import page as page_of
from tests.browser import browser, needs_chromium

DIMS = {"N": 24, "M": 16, "K": 8}


@pb.function
def loss(x: Float32[Array, "N M"], w: Float32[Array, "M K"], y: Float32[Array, "N K"]):
    """Squared distance, where <b>tanh</b>(x w) & y meet."""
    p = pb.tanh(x @ w)
    d = p - y
    return pb.sum(d * d)


FIRST = loss.python.__code__.co_firstlineno
STAGES = ["Source", "Core", "Derivation", "Graph", "Passes", "Kernels", "Memory", "C"]


class Read(html.parser.HTMLParser):
    """The text of each section, what is named, and what is referred to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, str] = {}
        self.section = ""
        self.ids: list[str] = []
        self.links: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag not in ("meta", "br", "rect", "line", "path", "polyline"):
            self.open.append(tag)
        if tag == "section":
            self.section = str(known["id"])
        self.ids += [known["id"]] if known.get("id") else []
        self.links += (known.get("data-to") or "").split()
        if (known.get("href") or "").startswith("#"):
            self.links.append(str(known["href"])[1:])
        self.outside += [str(v) for k, v in attrs if k in ("src", "href", "action") and not str(v).startswith("#")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.outside += [str(v) for k, v in attrs if k in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("rect", "line", "path", "polyline"):
            assert self.open.pop() == tag
        if tag == "section":
            self.section = ""

    def handle_data(self, data: str) -> None:
        if self.section:
            self.texts[self.section] = self.texts.get(self.section, "") + data


def read(page: str) -> Read:
    found = Read()
    found.feed(page)
    found.close()
    assert found.open == []
    return found


def test_every_stage_is_in_it(tmp_path: Path) -> None:
    gradient = pb.grad(loss, "w")
    explained = gradient.explain(html=tmp_path / "page.html", **DIMS)
    page = (tmp_path / "page.html").read_text()
    found = read(page)
    assert list(found.texts) == [f"stage-{s.lower()}" for s in STAGES]
    assert found.outside == []
    assert len(found.ids) == len(set(found.ids))
    assert set(found.links) <= set(found.ids)
    assert "<b>tanh</b>" not in page
    assert "p = pb.tanh(x @ w)" in found.texts["stage-source"]
    assert explained.stages[0].text.replace("\n", "") in found.texts["stage-core"].replace("\n", "")
    for line in gradient.c_source(**DIMS).split("\n"):
        assert line in found.texts["stage-c"]
    assert explained.derivation is not None
    for line in explained.derivation.described():
        assert line["formula"] in found.texts["stage-derivation"]
        assert line["cited"] in found.texts["stage-derivation"]
    assert explained.backend is not None
    for kernel in explained.backend.kernels:
        assert f"{kernel.chosen.cycles:,.0f}" in found.texts["stage-kernels"]
        assert str(kernel.chosen.schedule) in found.texts["stage-kernels"]
    for name in (s.name for s in explained.stages[1:-2]):
        assert name in found.texts["stage-passes"]


def test_lines_are_linked_both_ways() -> None:
    page = page_of(pb.grad(loss, "w").explain(**DIMS))
    found = read(page)
    lines = {int(m) - FIRST for m in re.findall(r'data-to="(?:s0-\d+ )*s0-(\d+)', page)}
    assert lines <= {3, 4, 5}
    for line in (FIRST + 3, FIRST + 5):
        assert f"s0-{line}" in found.links
        link = re.search(rf'id="s0-{line}">.*?href="#(c\d+)"', page)
        assert link is not None
        assert re.search(rf'id="{link[1]}" tabindex="-1" data-to="[^"]*s0-{line}', page)


def test_open_sizes_leave_out_what_needs_numbers() -> None:
    found = read(page_of(pb.grad(loss, "w").explain()))
    assert list(found.texts) == ["stage-source", "stage-core", "stage-derivation", "stage-graph", "stage-passes"]
    some = read(page_of(loss.explain(N=24)))
    assert "stage-derivation" not in some.texts
    assert "slot 0" in some.texts["stage-memory"] or "f32[24, K]" in some.texts["stage-memory"]


def test_a_function_made_of_text_has_no_source() -> None:
    made: dict[str, pb.Function] = {}
    exec("import pullback as pb\nf = pb.function(lambda x: pb.sum(x * x))", made)
    made["f"](np.ones(3))
    assert list(read(page_of(made["f"].explain())).texts) == [
        f"stage-{s.lower()}" for s in STAGES if s not in ("Source", "Derivation")
    ]
    of_apl = pb.apl("{+/⍵×⍵}")
    of_apl(np.ones(3))
    assert "stage-core" in read(page_of(of_apl.explain())).texts


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "energy.py"
    file.write_text(
        "import pullback as pb\nfrom jaxtyping import Float64, Int32\nfrom pullback import Array\n\n"
        "@pb.function\ndef energy(x: Float64[Array, 'N']):\n    return pb.sum(x * x)\n\n"
        "@pb.function\ndef count(x: Int32[Array, 'N']):\n    return x + x\n"
    )
    page, graph = tmp_path / "page.html", tmp_path / "graph.svg"
    arguments = ["explain", f"{file}:energy", "--grad", "x", "--dim", "N=8", "--html", str(page), "--graph", str(graph)]
    assert main([*arguments, "--json"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [str(graph), str(page)]
    assert "stage-graph" in read(page.read_text()).texts
    assert graph.read_text().startswith("<svg")
    assert main(["explain", f"{file}:count", "--graph", str(graph)]) == 1
    assert capsys.readouterr().err == (
        "UsageError [E612] count has no graph to draw\n"
        "   | it has no floating-point arguments, or more arrays than a picture can show\n"
        "  try: --html, whose derivation says the same in formulas      See `pullback explain-error E612`\n"
    )
    assert main(["explain", f"{file}:energy", "--html", str(tmp_path / "no" / "page.html")]) == 1
    assert capsys.readouterr().err == (
        f"UsageError [E607] {tmp_path}/no/page.html: cannot be written: No such file or directory\n"
        "  try: a folder you may write to      See `pullback explain-error E607`\n"
    )


def test_a_page_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        loss.explain(html=tmp_path)
    assert str(caught.value) == (
        f"UsageError [E607] {tmp_path}: cannot be written: Is a directory\n"
        "  try: a folder you may write to      See `pullback explain-error E607`"
    )


@needs_chromium
def test_in_a_browser(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    pb.grad(loss, "w").explain(html=page, **DIMS)
    with browser(tmp_path) as window:
        for scheme, paper in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(23, 27, 34)")):
            window.show(1600, 900, scheme)
            assert window.open(page) < 3
            assert window.run("return getComputedStyle(document.querySelector('section')).backgroundColor") == paper
        shown = "return [...document.querySelectorAll('main > section')].filter(s => !s.hidden).map(s => s.id)"
        assert window.run(shown) == [f"stage-{s.lower()}" for s in STAGES]
        window.keys("2", "5")
        assert window.run(shown) == [f"stage-{s.lower()}" for s in STAGES if s not in ("Core", "Passes")]
        pressed = "return [...document.querySelectorAll('nav button')].map(b => b.getAttribute('aria-pressed'))"
        assert window.run(pressed).count("false") == 2
        here = "return document.activeElement.closest('section')?.id"
        window.run("document.activeElement.blur()")
        right = "\ue014"
        window.keys(right)
        assert window.run(here) == "stage-source"
        window.keys(right)
        assert window.run(here) == "stage-derivation"
        # from a line of the source to its C by the keyboard, and back
        window.run("document.querySelector('.row a').focus()")
        window.keys("\ue007")
        assert window.run(here) == "stage-c"
        marked = "return [...document.querySelectorAll('.lit')].map(e => e.id)"
        lit = window.run(marked)
        assert any(i.startswith("c") for i in lit)
        assert f"s0-{FIRST + 3}" in lit
        visible = "const r = document.activeElement.getBoundingClientRect(); return r.top < innerHeight && r.bottom > 0"
        assert window.run(visible)
        window.keys("\ue004", "\ue007")  # the first link in the block is back to the source
        assert window.run(here) == "stage-source"
        window.keys("\ue00c")
        assert window.run(marked) == []
        assert window.complaints() == []


CUT = """return [...document.querySelectorAll('main > section')].filter(s => {
    const at = s.getBoundingClientRect();
    return at.left < innerWidth - 1 && at.right > innerWidth + 1
}).map(s => s.id)"""
OVERFLOWING = """return [...document.querySelectorAll('.body')].filter(b => b.scrollWidth > b.clientWidth)
    .map(b => b.parentElement.id)"""


@needs_chromium
@pytest.mark.parametrize("width", [1400, 1000, 400])
def test_it_fits(width: int, tmp_path: Path) -> None:
    """Whole stages are in sight, and none but the picture of memory is wider than its place."""
    page = tmp_path / "page.html"
    pb.grad(loss, "w").explain(html=page, **DIMS)
    with browser(tmp_path) as window:
        window.show(width, 900)
        window.open(page)
        assert window.run("return document.documentElement.scrollWidth") <= width
        assert window.run(CUT) == []
        assert set(window.run(OVERFLOWING)) <= ({"stage-memory"} if width == 400 else set())
        pb.grad(loss, "w").explain(html=page)
        window.open(page)
        assert window.run("return document.querySelector('header .note').innerText") == (
            "Kernels, memory and C need sizes. Give them: loss_grad.explain(html=…, N=64, M=64, K=64), "
            "or on the command line pullback explain … --dim N=64 --dim M=64 --dim K=64."
        )
        code = "return [...document.querySelectorAll('.doc code')].map(c => c.innerText)"
        assert window.run(code) == ["loss", "w", "w"]


@pytest.mark.slow
@needs_chromium
def test_a_large_training_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ResNet-18, its gradient by all parameters: the page is open within 3 s and has less than 20 MB."""
    monkeypatch.setenv("PULLBACK_VERIFY", "0")  # other tests do, and here it takes ten times as long as all else
    net = nn.models.resnet18().named("resnet18").on("N 3 224 224")
    page = tmp_path / "page.html"
    net.describe(batch_size=8).training.explain(html=page)
    assert 1_000_000 < page.stat().st_size < 20_000_000
    with browser(tmp_path) as window:
        window.show(1600, 900)
        assert window.open(page) < 3
        shown = window.run("return [...document.querySelectorAll('main > section')].map(s => s.id)")
        assert shown == [f"stage-{s.lower()}" for s in STAGES if s != "Derivation"]  # a step is no derivative
        assert window.complaints() == []
