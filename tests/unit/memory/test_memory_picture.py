"""Memory over time as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.errors import UsageError

SVG = "{http://www.w3.org/2000/svg}"


@pb.function
def loss(x: Float64[Array, "N N"]):
    y = pb.tanh(x @ x)
    z = pb.tanh(y @ y)
    return pb.sum(pb.tanh(z @ z))


def test_boxes_are_the_arrays_and_do_not_overlap() -> None:
    table = pb.grad(loss).memory(N=40)
    root = ET.fromstring(table.plot().svg)
    boxes = [g for g in root.iter(f"{SVG}g") if g.find(f"{SVG}rect") is not None]
    assert [g.findtext(f"{SVG}title", "").partition(":")[0] for g in boxes] == [b.name for b in table.buffers]
    places = [{k: float(r.attrib[k]) for k in ("x", "y", "width", "height")} for r in root.iter(f"{SVG}rect")]
    for a, b in combinations(places, 2):
        across = a["x"] + a["width"] <= b["x"] + 0.1 or b["x"] + b["width"] <= a["x"] + 0.1
        up = a["y"] + a["height"] <= b["y"] + 0.1 or b["y"] + b["height"] <= a["y"] + 0.1
        assert across or up
    heights = {b.name: b.bytes for b in table.buffers}
    most = max(places, key=lambda p: p["height"])
    assert most["height"] == pytest.approx(max(heights.values()) / table.peak_bytes * 274, abs=1)


def test_the_curve_is_what_is_alive() -> None:
    table = pb.grad(loss).memory(N=40)
    curve = next(ET.fromstring(table.plot().svg).iter(f"{SVG}polyline"))
    assert f"{table.live_bytes:,}" in curve.findtext(f"{SVG}title", "")
    assert len(curve.attrib["points"].split()) == 2 * len(table.statements)


def test_an_empty_arena() -> None:
    @pb.function
    def own(x: Float64[Array, "8"]):
        return pb.sum(x)

    assert "the arena is empty" in own.memory().plot().svg


def test_it_is_saved(tmp_path: Path) -> None:
    picture = pb.grad(loss).memory(N=40).plot()
    picture.save(tmp_path / "memory.svg")
    ET.parse(tmp_path / "memory.svg")
    with pytest.raises(UsageError) as caught:
        picture.save(tmp_path / "no" / "memory.svg")
    assert str(caught.value) == (
        f"UsageError [E607] {tmp_path}/no/memory.svg: cannot be written: No such file or directory\n"
        "  try: a folder you may write to      See `pullback explain-error E607`"
    )
