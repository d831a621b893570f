"""Stages count without the stages inside them."""

from __future__ import annotations

import itertools

import pytest

from pullback import clock
from pullback.clock import note_stage, record_time, stage


def test_seconds_of_each_stage_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(clock.time, "perf_counter", lambda: float(next(ticks)))
    with record_time() as stages:
        with stage("outer"), stage("inner"):  # 0 1 2 3
            note_stage("part", 9.0)
        with stage("inner"):  # 4 5
            pass
    assert {s.name: (s.seconds, s.inside) for s in stages.values()} == {
        "part": (9.0, True), "inner": (2.0, False), "outer": (2.0, False),
    }


def test_nothing_is_recorded_outside() -> None:
    with record_time() as stages:
        pass
    with stage("later"):
        note_stage("part", 1.0)
    assert stages == {}
