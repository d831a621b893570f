"""Zhao and Huang, DeepDSL: what their evaluation (section 9) measures: operations and time, compile time, the table."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array, nn
from pullback.runtime.emit import emit_c

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "networks.md"
NETWORKS = ("alexnet", "overfeat", "googlenet", "vgg16", "resnet50")


# C28: operations and time of each statement ---------------------------------------------------------------------------


def test_c28_a_profile_sums_to_its_total() -> None:
    @pb.function
    def f(x: Float64[Array, "N M"], w: Float64[Array, "M K"]) -> Any:
        y = pb.tanh(x @ w)
        z = pb.fold(3, y, lambda s, t: pb.roll(s, 1, axis=0) * 0.5 + y)
        return pb.sum(z * z), z

    x, w = np.random.default_rng(0).standard_normal((30, 20)), np.ones((20, 10))
    found = f.profile(x, w)
    assert all(r.nanoseconds >= 0 for r in found.rows)
    assert found.nanoseconds == sum(r.nanoseconds for r in found.rows) > 0
    assert found.operations == sum(r.operations for r in found.rows) >= 2 * 30 * 20 * 10
    assert sum(n for _, n in found.by_place().values()) == found.nanoseconds
    line = f.python.__code__.co_firstlineno
    places = [r.place for r in found.rows]
    assert f"{Path(__file__).name}:{line + 2}" in places and f"{Path(__file__).name}:{line + 4}" in places
    last = str(found).splitlines()[-2].split()
    assert last == [f"{found.operations:,}", f"{found.nanoseconds / 1e3:,.1f}", "100.0"]


# C30: compile time -----------------------------------------------------------------------------------------------


def test_c30_a_deep_network_is_c_within_seconds() -> None:
    """Inference of ResNet-50, from its definition to C; training steps are in benchmarks/results/networks.md."""
    began = time.process_time()
    net = nn.models.resnet50().on("N 3 224 224")
    source = emit_c(net.function().program(), {"N": 1}, names="canonical", comments=False)
    seconds = time.process_time() - began
    assert source.text.count("\n") > 1000
    assert seconds < 5.0


# C32: the table -----------------------------------------------------------------------------------------------------


def table(heading: str) -> dict[str, list[str]]:
    """The rows of the table under a heading of the results, by their first cell."""
    text = RESULTS.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [[c.strip(" *") for c in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {r[0]: r[1:] for r in rows[2:]}


def test_c32_the_papers_table_beside_ours() -> None:
    """Time and memory of the five networks, in percent as the paper has them, agree with what was measured."""
    rows = table("Beside DeepDSL's table")
    assert {n.partition(" ")[0] for n in rows} == set(NETWORKS)
    for name, (paper, ours, theirs, faster, our_bytes, their_bytes, more, *_) in rows.items():
        assert re.fullmatch(r"[+-]\d+ / [+-]\d+", paper), name
        for shown, mine, other in ((faster, float(theirs), float(ours)), (more, float(our_bytes), float(their_bytes))):
            assert abs(int(shown) - 100 * (mine / other - 1)) <= 1, name
