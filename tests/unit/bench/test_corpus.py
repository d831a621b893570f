"""The corpus: what is in it, that its texts are found again, and that a text that differs is seen and timed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import corpus
from pullback.cli.main import main

FEW = ["dot (D16)", "dot (D16), gradient", "apl turned", "random 3"]


def test_enough_programs_each_by_a_name_of_its_own() -> None:
    names = [e.name for e in corpus.corpus()]
    assert len(names) == len(set(names)) >= 100


def test_saved_texts_are_found_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["bench", "corpus", "--examples", str(tmp_path), "--cases", *FEW]
    assert main([*common, "--save", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == ["11 texts of 4 programs"]
    changed = tmp_path / "dot__D16_.called.c"
    changed.write_text(changed.read_text() + "/* another */\n")
    assert main([*common, "--against", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == ["differs: dot (D16) (called)", "1 texts of 4 programs differ"]


def test_texts_are_timed_against_each_other() -> None:
    (entry,) = (e for e in corpus.corpus() if e.name == "dot (D16)")
    text = next(t for t in corpus.texts(entry) if t.form == corpus.CALLED.name)
    slower = replace(text, record=replace(text.record, units=(text.record.units[0] + "\n",)))
    (found,) = corpus.timings([(text, slower)], lambda _: None, budget=0.01)
    assert found.difference == 0.0
    assert 0.1 < found.ratio < 10
    assert corpus.figures([found])[0].startswith("1 programs timed: geometric mean ")


def test_every_candidate_of_a_statement_is_tried() -> None:
    (entry,) = (e for e in corpus.corpus() if e.name == "apl logistic")
    (found,) = corpus.trials([entry], lambda _: None)
    names = [t.chosen.name for t in found.tried]
    assert names[0] == "tile"
    assert "masked" in names
    assert all(t.seconds > 0 for t in found.tried)
    assert found.ratio >= 1
    assert corpus.judged([found])[0].startswith("1 statements with a choice: ")
