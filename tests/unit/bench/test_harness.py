"""The harness: order, warm-up, agreement, rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks import Contender, measure
from benchmarks.environment import thread_environment


class Recorder:
    """A runner that writes down when it runs."""

    def __init__(self, name: str, log: list[str], result: float = 1.0) -> None:
        self.name, self.log, self.result = name, log, result

    def reset(self) -> None:
        self.log.append(f"reset {self.name}")

    def call(self) -> np.ndarray[Any, Any]:
        self.log.append(self.name)
        return np.array([self.result])


def contender(name: str, log: list[str], result: float = 1.0) -> Contender:
    return Contender("case", name, "form", "float32", 1, lambda: Recorder(name, log, result))


def test_runs_are_interleaved_and_the_order_rotates() -> None:
    log: list[str] = []
    rows = measure([contender(name, log) for name in "abc"], rounds=2)
    calls = [entry for entry in log if not entry.startswith("reset")]
    assert calls == list("abc") + list("abc") + list("bca") + list("cab")  # first calls, warm-up, two rounds
    assert log.count("reset a") == 4
    assert [row["system"] for row in rows] == list("abc")


def test_a_row_has_exactly_the_documented_keys() -> None:
    (row,) = measure([contender("a", [])], rounds=3)
    assert list(row) == ["case", "system", "form", "dtype", "threads", "median", "minimum", "maximum", "first_call"]
    assert 0 <= row["minimum"] <= row["median"] <= row["maximum"]
    assert row["first_call"] >= 0


def test_one_that_disagrees_is_not_timed() -> None:
    notes: list[str] = []
    rows = measure([contender("a", []), contender("b", [], 1.1)], rounds=1, tolerance=1e-3, note=notes.append)
    assert [row["system"] for row in rows] == ["a"]
    assert any(note.startswith("WRONG: case float32 b") for note in notes)


def test_nan_disagrees() -> None:
    rows = measure([contender("a", []), contender("b", [], float("nan"))], rounds=1)
    assert [row["system"] for row in rows] == ["a"]


def test_one_that_is_not_installed_is_left_out() -> None:
    def missing() -> Recorder:
        raise ImportError("no module named b")

    notes: list[str] = []
    rows = measure(
        [Contender("case", "b", "form", "float32", 1, missing), contender("a", [])], rounds=1, note=notes.append
    )
    assert [row["system"] for row in rows] == ["a"]
    assert "left out: case float32 b (form): no module named b" in notes


def test_one_that_fails_does_not_stop_the_others() -> None:
    def broken() -> Recorder:
        raise ValueError("does not compile")

    notes: list[str] = []
    rows = measure(
        [contender("a", []), Contender("case", "b", "form", "float32", 1, broken)], rounds=1, note=notes.append
    )
    assert len(rows) == 1
    assert "FAILED: case float32 b (form): ValueError: does not compile" in notes


def test_the_budget_ends_the_rounds_but_not_before_the_first() -> None:
    log: list[str] = []
    notes: list[str] = []
    (row,) = measure([contender("a", log)], rounds=100, budget=0.0, note=notes.append)
    assert log.count("a") == 3  # first call, warm-up, one round
    assert row["median"] >= 0
    assert "stopped after 1 of 100 rounds" in notes[-1]


def test_integers_differ_by_share() -> None:
    class Digits(Recorder):
        def call(self) -> np.ndarray[Any, Any]:
            digits = np.zeros(1000, np.int64)
            digits[: int(self.result)] = 1
            return digits

    def digits(count: int) -> Contender:
        return Contender("case", str(count), "form", "float32", 1, lambda: Digits("x", [], count))

    rows = measure([digits(0), digits(1), digits(2)], rounds=1, tolerance=1e-3)
    assert [row["system"] for row in rows] == ["0", "1"]


@pytest.mark.parametrize("threads", [1, 2])
def test_every_peer_is_told_the_number_of_threads(threads: int) -> None:
    environment = thread_environment(threads)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PULLBACK_THREADS"):
        assert environment[name] == str(threads)
    assert f"intra_op_parallelism_threads={threads}" in environment["XLA_FLAGS"]
