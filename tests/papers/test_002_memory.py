"""Zhao and Huang, DeepDSL: in-place updates (section 6), scheduling (7) and static memory analysis (8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.errors import CompilerError
from pullback.ir.expr import Ref
from pullback.ir.parser import parse_program
from pullback.ir.program import Block, Program, Statement, statement_reads
from pullback.ir.settings import MODES, MemoryMode
from pullback.ir.traverse import specialize
from pullback.loops.memory.ordering import block_bytes, schedule, steps
from pullback.loops.memory.plan import Lifetimes, mentioned
from pullback.memory.table import memory_table
from pullback.nn.models import lenet_by_hand
from pullback.runtime.emit import Lowered, lower_program, memory, with_mode
from pullback.runtime.executor import compile_program

# The network of section 7: y4 joins the chains y1, y2 and y3. As f1 .. f5 stand tanh of a product; the factor of tanh′
# is left out of the derivatives, as it changes nothing about who reads what but for y4 and y5, where it is written.
NETWORK = """network(x: f64[N], w1: f64[N, N], w2: f64[N, N], w3: f64[N, N], w5: f64[N, N]) {
  y1 = build i < N { tanh(sum j < N { w1[i, j] * x[j] }) }
  y2 = build i < N { tanh(sum j < N { w2[i, j] * y1[j] }) }
  y3 = build i < N { tanh(sum j < N { w3[i, j] * x[j] }) }
  y4 = build i < N { y2[i] * y3[i] }
  y5 = build i < N { tanh(sum j < N { w5[i, j] * y4[j] }) }
  z5 = build i < N { 2.0 * y5[i] }
  z4 = build j < N { sum i < N { z5[i] * w5[i, j] } * tanh(y4[j]) }
  z3 = build i < N { z4[i] * y2[i] * tanh(y3[i]) }
  z2 = build i < N { z4[i] * y3[i] * tanh(y2[i]) }
  z1 = build j < N { sum i < N { z2[i] * w2[i, j] } * tanh(y1[j]) }
  zw1 = build i < N, j < N { z1[i] * x[j] }
  zw2 = build i < N, j < N { z2[i] * y1[j] }
  zw3 = build i < N, j < N { z3[i] * x[j] }
  zw5 = build i < N, j < N { z5[i] * y4[j] }
  return zw1, zw2, zw3, zw5 }"""

FIGURE_13 = """
y1   0  y1
y3   0  y1 y3
y2   1  y1 y2 y3
y4   2  y1 y2 y3 y4
y5   3  y1 y2 y3 y4 y5
z5   4  y1 y2 y3 y4 z5
zw5  5  y1 y2 y3 y4 z5
z4   5  y1 y2 y3 z4
z3   6  y1 y2 y3 z3 z4
zw3  7  y1 y2 y3 z4
z2   6  y1 z2
zw2  7  y1 z2
z1   7  z1
zw1  8
"""


Weight = Float64[Array, "N N"]


def network() -> Program:
    return specialize(parse_program(NETWORK), {"N": 4})


def test_c20_figure_13_line_by_line() -> None:
    shown = [f"{s.outs[0].name:3}  {s.height}  {' '.join(sorted(r.name for r in s.live))}".rstrip()
             for s in steps(network().body)]
    assert shown == FIGURE_13.strip().splitlines()


@pytest.mark.parametrize("seed", range(10))
def test_c20_figure_13_from_any_order(seed: int) -> None:
    """Statements in whatever order they can run give the figure's heights, and are alive until they are read last."""
    rng = np.random.default_rng(seed)
    body = network().body
    heights = dict(line.split()[:2] for line in FIGURE_13.strip().splitlines())
    waiting, mixed = list(body.statements), list[Statement]()
    while waiting:
        made = {s.outs[0] for s in mixed}
        ready = [s for s in waiting if all(r in made for r in statement_reads(s) if r not in network_inputs(body))]
        mixed.append(ready[rng.integers(len(ready))])
        waiting.remove(mixed[-1])
    shown = steps(replace(body, statements=tuple(mixed)))
    assert {s.outs[0].name: str(s.height) for s in shown} == heights
    reads = {s.outs[0]: set(statement_reads(s)) for s in body.statements}
    for k, s in enumerate(shown):
        made, later = {t.outs[0] for t in shown[: k + 1]}, [t.outs[0] for t in shown[k + 1 :]]
        assert reads[s.outs[0]] & reads.keys() <= made - {s.outs[0]}  # what it reads has been made
        assert set(s.live) == {r for r in made if any(r in reads[t] for t in later)}
    results = [int(heights[s.outs[0].name]) for s in shown if s.outs[0] in body.results]
    assert results == sorted(results)


def network_inputs(body: Block) -> set[Ref]:
    """What the network's statements read and do not make."""
    return {r for s in body.statements for r in statement_reads(s)} - {o for s in body.statements for o in s.outs}


def test_c20_no_more_at_once_than_in_figure_13() -> None:
    paper = max(len(s.live) for s in steps(network().body))
    assert paper == 5
    ours = block_bytes(schedule(network()).body) // 32
    assert ours <= paper
    assert ours <= block_bytes(network().body) // 32


def test_c20_the_derived_gradient_needs_no_more_either() -> None:
    """What `grad` makes of the network of section 7, run by our schedule: five vectors at most, measured."""
    n = 64

    def loss(
        x: Float64[Array, "N"], w1: Weight, w2: Weight, w3: Weight, w5: Weight
    ) -> Any:
        y2, y3 = pb.tanh(w2 @ pb.tanh(w1 @ x)), pb.tanh(w3 @ x)
        y5 = pb.tanh(w5 @ (y2 * y3))
        return pb.sum(y5 * y5)

    program = pb.grad(loss, wrt=("w1", "w2", "w3", "w5")).program()
    peaks = {}
    for mode in MODES:
        run = compile_program(with_mode(program, mode), {"N": n}).run_poisoned(
            [np.ones(n), *(np.full((n, n), 0.01) for _ in range(4))]
        )
        assert run.stray == 0
        peaks[mode] = run.peak
    assert peaks["least"] <= peaks["less"] <= 5 * 8 * n
    assert peaks["less"] <= peaks["fastest"]


# C22, C23: known before anything runs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_c22_predicted_peak_is_the_measured_one(mode: MemoryMode) -> None:
    program = with_mode(pb.grad(layered, wrt=("w1", "w2")).program(), mode)
    executable = compile_program(program, {"N": 40, "M": 30})
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal([d if isinstance(d, int) else {"N": 40, "M": 30}[str(d)] for d in shape])
              for shape in (("M", "M"), ("M", "M"), ("N", "M"))]
    run = executable.run_poisoned(inputs)
    assert (run.peak, run.stray) == (executable.memory.peak_bytes, 0)
    table = memory(program, {"N": 40, "M": 30})
    assert (table.peak_bytes, table.peaks[mode]) == (run.peak, run.peak)


@pb.function
def layered(w1: Float64[Array, "M M"], w2: Float64[Array, "M M"], x: Float64[Array, "N M"]) -> Any:
    h = pb.tanh(x @ w1)
    return pb.sum(pb.tanh(h @ w2) ** 2)


@pytest.mark.slow
def test_c22_three_peaks_stand_below_the_table() -> None:
    table = lenet_by_hand.train.memory(S=1, B=50)
    assert list(table.peaks) == ["fastest", "less", "least"]
    assert table.peaks["fastest"] >= table.peaks["less"] >= table.peaks["least"]
    assert table.peaks["fastest"] == table.peak_bytes
    assert str(table).splitlines()[-1].startswith(f"modes fastest {table.peak_bytes:,}, less ")


@pytest.mark.slow
def test_c23_least_memory_for_lenet() -> None:
    peaks = lenet_by_hand.train.memory(S=1, B=500).peaks
    assert peaks["least"] <= peaks["less"] <= 0.85 * peaks["fastest"]


@pytest.mark.slow
def test_c23_a_limit_is_met_by_the_first_mode_that_fits() -> None:
    def mode(limit: int) -> str:
        program = lenet_by_hand.train.program()
        limited = replace(program, settings=replace(program.settings, memory_limit=limit))
        return lower_program(limited, {"S": 1, "B": 20}).mode

    program = lenet_by_hand.train.program()
    peaks = {m: lower_program(with_mode(program, m), {"S": 1, "B": 20}).memory.bytes for m in MODES}
    assert mode(peaks["fastest"]) == "fastest"
    assert mode(peaks["less"]) == "less"
    with pytest.raises(CompilerError, match="E260"):
        mode(1000)


# C33: a plan of swapping ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def deep() -> Lowered:
    """The gradient of six layers, whose results wait for it."""

    def loss(x: Float64[Array, "N N"], w: Float64[Array, "N N"]) -> Any:
        for _ in range(6):
            x = pb.tanh(x @ w)
        return pb.sum(x * x)

    return lower_program(pb.grad(pb.function(loss), wrt="w").program(), {"N": 40})


@pytest.mark.parametrize("part", [0.5, 0.7, 0.9, 1.0])
def test_c33_a_plan_of_swapping_keeps_a_byte_limit(deep: Lowered, part: float) -> None:
    """What is there fits at every moment, and every array is there when a statement mentions it."""
    table = memory_table(deep.function, deep.memory)
    plan = table.swap_plan(int(part * table.live_bytes))
    assert plan.fits
    assert bool(plan.moves) == (part < 1)
    assert plan.moved_bytes == 2 * sum(m.bytes for m in plan.moves)
    walk = Lifetimes()
    walk.body(deep.function.body)
    lives = {b: life for b, life in walk.lives.items() if b in deep.memory.offsets}
    there = [
        sum(b.bytes for b, (first, last) in lives.items() if first <= now <= last)
        - sum(m.bytes for m in plan.moves if m.away[0] <= now <= m.away[1])
        for now, _, _ in walk.timeline
    ]
    assert max(there) == plan.peak_bytes
    used = {now: set(mentioned(s)) for now, _, s in walk.timeline}
    for name, size, _, _, (first, last) in plan.moves:
        back = [b for b in used[last + 1] if (b.name, b.bytes) == (name, size)]
        assert any(all(b not in used[now] for now in range(first, last + 1)) for b in back)
    assert f"{plan.peak_bytes:,}; {plan.moved_bytes:,} bytes are moved" in str(plan)


def test_c33_a_limit_below_a_statement_is_not_kept(deep: Lowered) -> None:
    plan = memory_table(deep.function, deep.memory).swap_plan(1000)
    assert not plan.fits
    assert "it cannot be kept" in str(plan)
