"""Which arrays share memory, against NumPy's answer for each pair."""

from __future__ import annotations

import numpy as np

from pullback.runtime.buffer import Spans


def test_spans_that_meet() -> None:
    memory = np.zeros(200)
    random = np.random.default_rng(0)
    cuts = random.integers(0, 190, (40, 1)) + np.array([0, 1]) * random.integers(0, 10, (40, 1))
    arrays = [memory[a:b] for a, b in cuts] + [np.zeros(3), np.zeros(0), memory[::-1][:0]]
    spans = Spans(arrays)
    for a in arrays:
        assert spans.meeting(a) == [k for k, b in enumerate(arrays) if np.may_share_memory(a, b) and a.size and b.size]
