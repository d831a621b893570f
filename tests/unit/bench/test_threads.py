"""`pullback bench threads`: cases, bits and the table."""

from __future__ import annotations

from benchmarks.harness import Row
from benchmarks.threads import CASES, bench_threads, cells


def test_a_case_runs_with_both_numbers_of_threads() -> None:
    notes: list[str] = []
    rows = bench_threads(cases=["log-sum-exp-rows"], threads=2, rounds=1, note=notes.append)
    assert [(r["case"], r["threads"]) for r in rows] == [("log-sum-exp-rows", 1), ("log-sum-exp-rows", 2)]
    assert not any(n.startswith(("WRONG", "FAILED")) for n in notes)
    assert {"product-512-f32", "lenet-64", "mixture", "exp-million"} <= set(CASES)


def row(threads: int, seconds: float) -> Row:
    return Row(
        case="exp-million", system="pullback", form="", dtype="", threads=threads,
        median=seconds, minimum=seconds, maximum=seconds, first_call=seconds,
    )  # fmt: skip


def test_the_table_has_ratios() -> None:
    assert cells([row(1, 3e-4), row(2, 2e-4)]) == [("exp-million", "300.0", "200.0", "1.50")]
