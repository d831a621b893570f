"""The networks of `pullback bench dynamic`: the losses are NumPy's, rows become a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks import dynamic
from benchmarks.harness import Contender, Row, row_of
from benchmarks.systems import dynamic_pullback
from pullback.cli.main import main
from pullback.lazy.plan import planned


class NumPy:
    """What the networks need of a library."""

    @staticmethod
    def relu(x: Any) -> Any:
        return np.maximum(x, 0)

    reshape = staticmethod(np.reshape)

    @staticmethod
    def conv(x: Any, w: Any) -> Any:
        """A window every second row and column."""
        windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, ::2, ::2]
        return np.einsum("bcijuv,ocuv->boij", windows, w)


def entropy(scores: Any, wanted: Any) -> float:
    likely = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    return float(-np.mean((likely * wanted).sum(1)))


@pytest.mark.slow
@pytest.mark.parametrize("case", ["skip-2", "gated", "skip-conv"])
def test_b28_b32_the_first_loss(case: str) -> None:
    _, columns, conv = dynamic.parts(case)
    p = dynamic.parameters(columns, conv)
    x, c, y = dynamic.inputs()[0]
    h, coarse = dynamic.network(NumPy, p, x, columns)
    k = int(coarse.sum(0).argmax()) if case == "gated" else c
    expected = entropy(coarse, np.eye(dynamic.COARSE)[c]) + entropy(dynamic.fine(NumPy, dynamic.fine_of(p, k), h), y)
    training = dynamic_pullback.prepare(case, "lazy", 1)
    training.reset()
    assert training.trainer.step(training.loss(*training.batches[0])) == pytest.approx(expected, rel=1e-4)
    changed = {name for name, w in training.cells.items() if not np.array_equal(w.numpy(), p[name])}
    assert {name.split("/")[0] for name in changed} <= {"column0", "column1", "coarse", f"fine{k}"}
    assert any(name.startswith(f"fine{k}/") for name in changed)


def test_b28_skipping_builds_a_fifth() -> None:
    """What is not built does not run: of the nodes of a loss less than a fifth."""
    counts = {}
    for case in ("all-1", "skip-1"):
        training = dynamic_pullback.prepare(case, "lazy", 1)
        counts[case] = sum(map(len, planned([training.loss(*training.batches[0])], 1)))
    assert counts["all-1"] > 5 * counts["skip-1"] > 0


def test_b28_both_tables_are_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Columns by threads, with every classifier and with the one that is needed."""

    def measured(found: list[Contender], **_: Any) -> list[Row]:
        return [row_of(c, (2.0, 4.0, 8.0), 1.0) for c in found]

    monkeypatch.setattr(dynamic, "measure", measured)
    monkeypatch.setattr("benchmarks.environment.limit_threads", lambda _: None)
    names = [f"{kind}-{n}" for kind in ("all", "skip") for n in (1, 2, 4)]
    assert main(["bench", "dynamic", "--cases", *names, "--systems", "pullback", "--threads", "1", "2", "4"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [(line[0], line[3]) for line in lines] == [(n, t) for n in names for t in "124"]
    assert {tuple(line[4:]) for line in lines} == {("8", "3")}
    assert main(["bench", "kernels", "--threads", "1", "2"]) == 1
    assert "E601" in capsys.readouterr().err


def test_cells() -> None:
    row = Row(case="skip-1", system="pullback", form="lazy", dtype="float32", threads=1, median=32e-3, minimum=16e-3,
              maximum=64e-3, first_call=1.0)  # fmt: skip
    assert dynamic.cells([row]) == [("skip-1", "pullback", "lazy", "1", "1000", "375")]
