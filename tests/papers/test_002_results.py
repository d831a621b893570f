"""Zhao and Huang, DeepDSL: what their evaluation (section 9) measures: operations and time, compile time, the table."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array, ShapeError, nn
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


# C24: programs to read ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("plain", "most"), [(False, (450, 2800)), (True, (150, 1000))])
def test_c24_programs_are_short_enough_to_read(plain: bool, most: tuple[int, int], tmp_path: Path) -> None:
    """The lengths that docs/howto/ship_network.md tells, of LeNet's inference and training."""
    net = nn.models.lenet().on("N 1 28 28")
    more: dict[str, Any] = {"loss": nn.cross_entropy, "optimizer": nn.sgd(0.1), "batch_size": 32, "plain": plain}
    net.export(tmp_path, *net.init(seed=0), what="both", **more)
    lengths = [len((tmp_path / f"sequential_{what}.c").read_text().splitlines()) for what in ("infer", "train")]
    assert all(n < bound for n, bound in zip(lengths, most, strict=True)), lengths
    page = (Path(__file__).parents[2] / "docs/howto/ship_network.md").read_text(encoding="utf-8")
    assert all(re.search(rf"\| {n:,} \|", page) for n in lengths), lengths


# C30: compile time -----------------------------------------------------------------------------------------------


@pytest.mark.slow
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


# Omissions -----------------------------------------------------------------------------------------------------------


def test_f12_images_are_flattened_for_a_dense_layer() -> None:
    """LeNet (section 2.1) without its `flatten`: the layer is inserted, listed, and has the same parameters."""
    parts = nn.conv(4, 3), nn.relu, nn.max_pool(2)
    inserted = nn.sequential(*parts, nn.dense(10)).on("N 1 8 8")
    written = nn.sequential(*parts, nn.flatten(), nn.dense(10)).on("N 1 8 8")
    assert inserted.type.result == "f32[N, 10]"
    assert "flatten1   flatten() (inserted)  f32[N, 36]" in str(inserted.type)
    assert [row.layer for row in inserted.describe().rows][3] == "flatten() (inserted)"
    x, parameters = np.random.default_rng(0).random((2, 1, 8, 8), np.float32), inserted.init(seed=0)[0]
    np.testing.assert_array_equal(inserted(parameters, x), written(parameters, x))
    for stem in (nn.sequential(*parts).named("stem"), nn.residual(nn.conv(1, 3, padding=1)), nn.avg_pool(2)):
        net = nn.sequential(stem, nn.batch_norm(), nn.dropout(0.1), nn.dense(10)).on("N 1 8 8")
        assert net.type.result == "f32[N, 10]"


def test_f12_other_dense_layers_work_on_the_last_axis() -> None:
    assert nn.sequential(nn.dense(8), nn.relu, nn.dense(10)).on("N L 4").type.result == "f32[N, L, 10]"
    assert nn.sequential(nn.conv(4, (3,)), nn.dense(10)).on("N 1 8").type.result == "f32[N, 4, 10]"
    channels_last = nn.sequential(nn.conv(4, 3, layout="NHWC"), nn.dense(10)).on("N 8 8 1")
    assert channels_last.type.result == "f32[N, 6, 6, 10]"
    permuted = nn.sequential(nn.conv(4, 3), nn.permute(0, 2, 3, 1), nn.dense(10)).on("N 1 8 8")
    assert permuted.type.result == "f32[N, 6, 6, 10]"

    @nn.layer()
    def dense(scope: nn.Scope, x: Any, units: int) -> Any:
        """A layer of the user's that takes images."""
        return pb.mean(x, axis=(2, 3))[:, :units]

    assert nn.sequential(nn.conv(4, 3), dense(2)).on("N 1 8 8").type.result == "f32[N, 2]"
    assert nn.sequential(nn.global_avg_pool(), nn.dense(10)).on("N 4 8 8").type.result == "f32[N, 10]"


@pb.function
def loss(w: Float64[Array, "K M"], x: Float64[Array, "M"]) -> Any:
    y = pb.exp(w @ x)
    z = pb.fold(2, y, lambda s, i: s * (i + 2))
    return pb.sum(z)


def test_f14_the_interpreter_shows_the_value_at_each_step() -> None:
    w, x = np.array([[0.1, 0.2, 0.3], [0.3, 0.1, 0.2]]), np.ones(3)
    steps = loss.trace(w, x)
    y = np.exp(w @ x)
    assert [s.name for s in steps] == ["matmul", "y", "multiply", "multiply", "z_1", "sum"]
    for step, expected in zip(steps, (w @ x, y, 2 * y, 6 * y, 6 * y, 6 * y.sum()), strict=True):
        np.testing.assert_allclose(step.value, expected, rtol=1e-15)
        assert step.shape == np.shape(expected)
        assert step.place is not None and re.fullmatch(r"test_002_results.py:\d+", step.place)
        assert step.statement.startswith(f"{step.name} = ") and step.statement.splitlines()[0] in loss_text()
    assert [dict(s.loops) for s in steps][2:5] == [{"i": 0}, {"i": 1}, {}]
    np.testing.assert_array_equal(steps["multiply"], steps[3].value)
    np.testing.assert_allclose(steps.results, loss(w, x), rtol=1e-15)
    lines = str(steps).splitlines()
    assert re.fullmatch(r"   2  test_002_results.py:\d+  i = 0: multiply = build k < K .*  \[2\] .*", lines[4])
    assert lines[-1].startswith("loss returns ")
    with pytest.raises(KeyError, match="loss computes matmul, y, multiply, z_1, sum"):
        steps["q"]


def loss_text() -> str:
    """The program's text, without indentation: it has the names and statements of the steps."""
    return "\n".join(line.strip() for line in loss.ir.splitlines())


def test_f14_derivative_programs_have_steps_too() -> None:
    w, x = np.ones((2, 3)), np.ones(3)
    gradient = pb.grad(loss)
    steps = gradient.trace(w, x)
    np.testing.assert_allclose(steps.results[0], gradient(w, x), rtol=1e-14)
    np.testing.assert_allclose(steps["matmul_bar"], 6 * np.exp(w @ x), rtol=1e-14)
    assert all(step.place for step in steps)  # the line whose derivative it is
    before = w.copy()
    donated = pb.function(lambda w: w * 2)
    assert donated.trace(w).results[0].tolist() == (2 * before).tolist()
    np.testing.assert_array_equal(w, before)
    with pytest.raises(ShapeError):
        loss.trace(w, np.ones(2))


def test_c34_an_ill_shaped_residual_is_refused() -> None:
    """The type checker of the published implementation does not compare both sides of a sum."""
    with pytest.raises(ShapeError, match=r"E162.*what is added has another shape"):
        nn.residual(nn.conv(8, 3, padding=1)).on("N 4 8 8")
    with pytest.raises(ShapeError, match=r"E101|E102"):
        pb.function(lambda x, y: x + y)(np.ones((2, 3)), np.ones((3, 2)))
