"""`pullback bench sizes`: both forms run and agree, and the table has their ratios."""

from __future__ import annotations

from benchmarks.harness import Row
from benchmarks.sizes import CASES, bench_sizes, cells


def test_a_case_runs_in_both_forms_on_both_numbers_of_threads() -> None:
    notes: list[str] = []
    rows = bench_sizes(cases=["product-64-f32"], rounds=1, budget=0.1, note=notes.append)
    assert [(r["form"], r["threads"]) for r in rows] == [
        ("given", 1), ("all sizes", 1), ("given", 2), ("all sizes", 2)
    ]  # fmt: skip
    assert not any(n.startswith(("WRONG", "FAILED")) for n in notes)
    names = {c.name for c in CASES}
    assert {"product-512-f32", "lenet2-weights", "softmax-rows", "mixture", "lstm", "log-sum-exp"} <= names


def row(form: str, threads: int, seconds: float) -> Row:
    return Row(
        case="lstm",
        system="pullback",
        form=form,
        dtype="",
        threads=threads,
        median=seconds,
        minimum=seconds,
        maximum=seconds,
        first_call=seconds,
    )


def test_the_table_has_ratios() -> None:
    rows = [row("given", 1, 4e-4), row("all sizes", 1, 5e-4), row("given", 2, 2e-4), row("all sizes", 2, 3e-4)]
    assert cells(rows) == [("lstm", "400.0", "500.0", "1.25", "200.0", "300.0", "1.50")]
