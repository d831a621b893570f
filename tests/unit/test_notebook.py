"""Values in notebooks: the forms that IPython's formatter finds, and their content."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array, nn
from pullback.nn.training.loop import Run
from pullback.plots import curves, spy

formatters = pytest.importorskip("IPython.core.formatters", reason="IPython is not installed")
HISTORY = nn.History(
    tuple({"epoch": k, "step": 10 * k, "loss": 1 / k, "samples_per_second": 12345.6} for k in range(1, 31))
)


@pb.function
def energy(x: Float64[Array, "N"]) -> Float64[Array, ""]:
    """Return the energy of a chain, `x[n] * x[n + 1]` summed."""
    return pb.sum_over(x.shape[0] - 1, lambda n: x[n] * x[n + 1])


def net() -> nn.Layer:
    return nn.sequential(nn.dense(3), nn.relu)


def forms(value: object) -> dict[str, str]:
    return formatters.DisplayFormatter().format(value)[0]


HTML = {"text/plain", "text/html"}
SHOWN = {
    "network": (net, HTML, ["dense1", "f32[N, 3]", "w f32[3, M], b f32[3]"]),
    "network that takes any shape": (lambda: nn.sequential(nn.relu), HTML, ["relu", "net.on("]),
    "type": (lambda: net().type, HTML, ["dense1"]),
    "description": (lambda: net().describe(2, M=4), HTML, ["operations", "training: an update"]),
    "run": (lambda: Run({}, {}, {}, HISTORY, 300, 1.5, "finished"), HTML, ["300 steps in 1.5 s", "<polyline"]),
    "history": (lambda: HISTORY, HTML, ["<polyline", ">loss</text>", "⋮"]),
    "empty history": (nn.History, HTML, ["no epochs"]),
    "memory": (lambda: pb.grad(lambda_of_matrix).memory(N=40), HTML, ["address in the arena", "peak"]),
    "memory for all sizes": (energy.memory, HTML, ["8 * N"]),
    "schedule": (lambda: nn.cosine_decay_schedule(0.1, 100), HTML, ["<polyline", "learning rate"]),
    "sparse matrix": (lambda: pb.hessian(energy, sparse=True)(np.ones(4)), HTML, ["4 columns", "<path"]),
    "explanation": (energy.explain, {"text/plain", "text/markdown"}, ["## elaborated"]),
    "pattern": (lambda: spy("p", [(0, 0)], (1, 1)), HTML | {"image/svg+xml"}, ["1 rows"]),
    "derivation": (lambda: pb.grad(energy).derivation(), {"text/plain", "text/markdown"}, [r"\begin{aligned}"]),
    "function": (lambda: energy, HTML, ["<code>x[n] * x[n + 1]</code>", "sum n &lt; N - 1", "energy.explain(html="]),
    "gradient": (lambda: pb.grad(energy), HTML, ["x_bar", "energy_grad.explain(html="]),
    "sparse derivative": (lambda: pb.hessian(energy, sparse=True), HTML, ["sparse f64[N, N]"]),
    "type of a function": (lambda: energy.type, HTML, ["f64[N]"]),
    "graph": (lambda: pb.graph(energy, np.ones(3)), HTML, ["<svg"]),
    "caches": (lambda: pb.debug.caches("pullback.ir"), HTML, ["bound"]),
}


@pb.function
def lambda_of_matrix(x: Float64[Array, "N N"]) -> Float64[Array, ""]:
    return pb.sum(pb.tanh(x @ x) @ x)


@pytest.mark.parametrize("name", SHOWN)
def test_the_forms_of_a_value(name: str) -> None:
    make, media, inside = SHOWN[name]
    value = make()
    found = forms(value)
    assert set(found) == media
    assert found["text/plain"] == repr(value)
    best = found.get("text/html") or found["text/markdown"]
    for words in inside:
        assert words in best
    assert "<script" not in best


def test_a_history_as_text() -> None:
    assert repr(nn.History(HISTORY.rows[:2])) == """\
epoch  step  loss  samples per second
-----  ----  ----  ------------------
    1    10     1              12,346
    2    20   0.5              12,346"""
    lines = repr(HISTORY).splitlines()
    assert len(lines) == 2 + 17 and lines[6].split() == ["⋮"] * 4 and lines[-1].split()[0] == "30"


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [
        (nn.constant_schedule(0.1), 125),
        (nn.cosine_decay_schedule(0.1, 100), 125),
        (nn.step_decay(0.1, 30), 74),
        (nn.piecewise_constant_schedule({0: 0.1, 1000: 0.01}), 2500),
        (nn.inverse_sqrt_schedule(0.1, 100), 2000),
        (nn.linear_schedule(0.1, 100, warmup_steps=10, end_learning_rate=0.01), 250),
    ],
)
def test_a_schedule_is_plotted_until_it_rests(schedule: nn.optimizers.schedules.Schedule, steps: int) -> None:
    assert schedule.plot().title == f"{schedule!r} over {steps:,} steps"
    assert schedule.plot(10).title.endswith("over 10 steps")


def test_a_curve_rises_where_its_values_do() -> None:
    """In SVG y grows downward; the largest value is at the top, and points are at equal steps across."""
    drawn = curves("squares", [{"y": [(x, x * x) for x in range(4)]}], "x").svg
    points = [tuple(map(float, p.split(","))) for p in re.findall(r'points="([^"]*)"', drawn)[0].split()]
    across, down = zip(*points, strict=True)
    assert np.allclose(np.diff(across), across[1] - across[0], atol=0.1) and across[1] > across[0]
    assert np.allclose(np.subtract(down[0], down), (down[0] - down[3]) / 9 * np.arange(4) ** 2, atol=0.1)
    assert down[0] > down[1]


def test_a_pattern_has_its_rows_downward_and_its_columns_across() -> None:
    drawn = spy("an entry", [(2, 0)], (3, 2)).svg
    assert re.findall(r'd="M([0-9.]+) ([0-9.]+)h', drawn) == [("0.00", "200.00")]


def test_curves_without_points_or_with_points_that_are_no_numbers() -> None:
    assert "<polyline" in curves("empty", [{"loss": []}], "epoch").svg
    drawn = curves("diverged", [{"loss": [(1, 2.0), (2, math.inf), (3, math.nan), (4, 2.0)]}], "epoch").svg
    assert drawn.count("<circle") == 2
    assert "nan" not in drawn and "inf" not in drawn


def test_a_large_pattern_has_squares_of_several_elements() -> None:
    drawn = spy("diagonal", ((k, k) for k in range(1200)), (1200, 600)).svg
    assert drawn.count("z") >= 120 and len(drawn) < 8000
    assert "1,200 rows" in drawn and "600 columns" in drawn


def test_styles_of_a_picture_hold_for_pictures_only() -> None:
    style = spy("p", [], (1, 1)).svg.partition("<style>")[2].partition("</style>")[0]
    assert all(rule.strip().startswith(".picture ") for rule in style.split("}") if rule.strip())
