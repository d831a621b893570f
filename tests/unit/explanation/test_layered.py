"""Graphs in layers."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.explanation.layered import APART, Arrow, Node, _Layout, draw


def test_edges_lead_down_and_nothing_lies_over_another() -> None:
    draw_ = random.Random(3)
    for count in range(1, 30):
        nodes = [Node(f"node{k}" * draw_.randint(1, 3), "f64[N]") for k in range(count)]
        arrows = [Arrow(j, i, "I") for i in range(count) for j in range(i) if draw_.random() < 0.2]
        found = _Layout(nodes, arrows)
        assert all(found.layer[a.source] < found.layer[a.target] for a in arrows)
        assert all(found.layer[v] - found.layer[u] == 1 for p in found.paths for u, v in pairwise(p))
        for row in found.rows:
            for u, v in pairwise(row):
                assert found.x[v] - found.x[u] >= (found.widths[u] + found.widths[v]) / 2 + APART - 1e-9


def test_an_argument_stands_above_its_reader() -> None:
    nodes = [Node(n, "") for n in ("x", "w", "a", "b", "c")]
    arrows = [Arrow(0, 2, ""), Arrow(2, 3, ""), Arrow(3, 4, ""), Arrow(1, 4, "")]
    assert _Layout(nodes, arrows).layer == [0, 2, 1, 2, 3]


def test_labels_lie_inside_the_picture() -> None:
    nodes = [Node(n, "") for n in ("x", "w", "y")]
    found = draw("a graph", nodes, [Arrow(0, 2, "G[y/x] + H[w] + G[y/x]"), Arrow(1, 2, "I" * 22)])
    for e in ET.fromstring(found.svg).iter("{http://www.w3.org/2000/svg}text"):
        x, half = float(e.attrib["x"]), 3.0 * len(e.text or "")  # half the width of small letters
        assert half <= x <= found.width - half


def test_names_are_escaped() -> None:
    svg = draw("a < b & c", [Node("x<y>", "&"), Node('"', "", "result")], [Arrow(0, 1, "<script>")]).svg
    root = ET.fromstring(svg)
    texts = ["".join(t.itertext()) for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["x<y>", "&", '"', "", "<script>"]
    assert root.findtext("{http://www.w3.org/2000/svg}title") == "a < b & c"


@pb.function
def loss(w: Float64[Array, "K M"], x: Float64[Array, "M"]):
    return pb.sum(pb.exp(w @ x))


def labels(svg: str) -> list[str]:
    found = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(t.itertext()) for t in found if "stroke" in t.attrib]


def test_the_operators_are_those_of_the_graph_at_a_point() -> None:
    at_a_point = pb.graph(loss, np.zeros((2, 3)), np.ones(3))
    operators = [str(op) for row in at_a_point.L.rows for _, op in row]
    drawn = pb.grad(loss, "w").drawn()
    assert drawn is not None
    assert sorted(labels(drawn.svg)) == sorted(operators) == sorted(labels(at_a_point._repr_html_()))


def test_a_function_without_derivatives_has_no_graph() -> None:
    count = pb.function(lambda n: n + 1)
    count(np.arange(3))
    assert count.drawn() is None
