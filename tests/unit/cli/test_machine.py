"""`pullback machine`: the record, and this processor measured beside it."""

from __future__ import annotations

import json

import pytest

from pullback.cli.main import main
from pullback.machine import MACHINES, NEON
from pullback.runtime import limits
from pullback.runtime.compile import compiler_command


@pytest.mark.parametrize("name", MACHINES)
def test_every_field_is_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machine", name, "--json"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    found = json.loads(last)["machine"]
    assert [line.split()[0] for line in lines[: len(found)]] == list(found)
    assert all(line.endswith(".") for line in lines[: len(found)])


def test_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machine", "neon", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["machine"]
    assert (found["vector_bytes"], found["vector_registers"]) == (16, 32)
    assert found["caches"] == list(NEON.caches)


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_measured(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RUNS", 2)
    monkeypatch.setattr(limits, "bandwidth", lambda size: 1e9 + size)
    assert main(["machine", "--measure", "--json"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    found = json.loads(last)["limits"]
    assert len(found) == 9
    assert all(row["measured"] > 0 for row in found)
    assert any(line.startswith("peak, float32") for line in lines)


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_reading_small_arrays() -> None:
    assert limits.bandwidth(4096) > 1e6
