"""Schedules: the rates of their formulas, in numbers and in traced functions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import pullback as pb
from pullback import nn

COSINE = nn.cosine_decay_schedule(0.4, decay_steps=30, warmup_steps=10, end_learning_rate=0.1)


@pytest.mark.parametrize(
    ("schedule", "formula"),
    [
        (nn.constant_schedule(0.3), lambda t: 0.3),
        (nn.step_decay(0.4, step_size=7, gamma=0.5), lambda t: 0.4 * 0.5 ** (t // 7)),
        (nn.exponential_decay(0.4, 0.9, decay_steps=2), lambda t: 0.4 * 0.9 ** (t / 2)),
        (nn.cosine_decay_schedule(0.4, decay_steps=20), lambda t: 0.2 * (1 + math.cos(math.pi * min(t / 20, 1)))),
        (
            COSINE,
            lambda t: 0.04 * (t + 1) if t < 10 else 0.1 + 0.15 * (1 + math.cos(math.pi * min((t - 10) / 20, 1))),
        ),
        (nn.linear_schedule(0.4, decay_steps=20, end_learning_rate=0.2), lambda t: 0.4 - 0.2 * min(t / 20, 1)),
        (nn.polynomial_schedule(0.4, decay_steps=20, power=1.5), lambda t: 0.4 * (1 - min(t / 20, 1)) ** 1.5),
        (
            nn.piecewise_constant_schedule({10: 0.2, 0: 0.4, 25: 0.1}),
            lambda t: 0.4 if t < 10 else 0.2 if t < 25 else 0.1,
        ),
        (nn.inverse_time_decay(0.4, 0.1, 0.75), lambda t: 0.4 * (1 + 0.1 * t) ** -0.75),
        (nn.inverse_sqrt_schedule(0.4, warmup_steps=10), lambda t: 0.4 * min((t + 1) / 10, math.sqrt(10 / (t + 1)))),
    ],
    ids=lambda x: repr(x) if isinstance(x, nn.Schedule) else "",
)
def test_rates(schedule: nn.Schedule, formula: Callable[[int], float]) -> None:
    steps = range(40)
    expected = [formula(t) for t in steps]
    np.testing.assert_allclose([schedule(t) for t in steps], expected, rtol=1e-14, atol=1e-17)
    traced = pb.function(lambda n: pb.scan(40, 0.0 * n, lambda none, t: (none, schedule(t) + 0.0 * n))[1])
    np.testing.assert_allclose(traced.interpret(1.0), expected, rtol=1e-14, atol=1e-17)


def test_any_function_of_the_step() -> None:
    f = pb.function(lambda p, t: nn.sgd(lambda t: 1.0 / (1.0 + t)).update(p, {}, p, t)[0])
    assert f.interpret(np.ones(2), np.int64(3)).tolist() == [-0.25, -0.25]


def test_schedules_of_ones_own() -> None:
    class halves(nn.Schedule):
        def at(self, t: float, xp: object) -> float:
            return 0.5**t

    assert nn.sgd(halves()).learning_rate_at(2) == 0.25
