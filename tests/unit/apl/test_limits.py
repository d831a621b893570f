"""Sessions that nothing ends: limits of time and memory, Ctrl-C, and exceptions of Python as errors of APL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pullback.apl import AplError, Workspace
from pullback.apl.limits import Limits
from pullback.apl.session import Session
from pullback.cli.main import main

ENDED = {
    "{⊂}⌸1 2 1": "SYNTAX ERROR",
    "{⍺+⊆}/⍳5": "SYNTAX ERROR",
    "{f←+}1": "SYNTAX ERROR",
    "+{⊂}¨1 2": "SYNTAX ERROR",
    "1e8⍕1": "LIMIT ERROR",
    "1e12⍕1": "LIMIT ERROR",
    "¯1e9⍕1": "LIMIT ERROR",
    "1e8 2⍕1": "LIMIT ERROR",
    "('a',⎕UCS 0)⎕NTIE 0": "FILE ERROR",
    "⎕CSV 'a',⎕UCS 0": "FILE ERROR",
    "''⎕NTIE 0": "FILE ERROR",
    "'/'⎕NTIE 0": "FILE ERROR",
    "⍎⎕UCS 0": "SYNTAX ERROR",
    "(0 9223372036854775807 3⍴0)⌽1": "LIMIT ERROR",
    "{⍵ ⍵}⍣40⊢1": "WS FULL",
    "≢{⍵ ⍵}⍣40⊢1": "WS FULL",
    "⊃{⍺⍵}/⊂¨⍳20000": "LIMIT ERROR",
    "⊂⍣100000⊢1 2": "LIMIT ERROR",
    "x←⊂1 2 ⋄ {x←⊂⍵ x ⋄ x}¨⍳9 ⋄ {∇⊂⍵ ⍵}1": "WS FULL",
    "2e9⍴1.5": "WS FULL",
    "+/{⍵,⍵}⍣40⊢1": "WS FULL",
}


def session(limits: Limits | None = None) -> tuple[Session, list[str]]:
    """A session that has a name, and what it writes."""
    written: list[str] = []
    made = Session(written.append, limits=limits)
    assert made.line("kept←3 1 4")
    return made, written


@pytest.mark.parametrize("line", ENDED, ids=ENDED)
def test_a_line_that_ended_the_session_is_an_error(line: str) -> None:
    own, written = session(Limits(20.0, 1 << 27))
    assert own.line(line)
    assert f"] {ENDED[line]}: " in "".join(written)
    written.clear()
    assert own.line("kept") and written == ["3 1 4\n"]


@pytest.fixture(params=["handled", "ignored"])
def interrupts(request: pytest.FixtureRequest) -> Iterator[None]:
    """SIGINT as a terminal has it, and as shells give it to jobs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler if request.param == "handled" else signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("line", ["{∇⍵+1}0", "{⍵+1}⍣1e12⊢0", "{⍵+÷⍵}⍣{0}⊢1", "{+/⍳⍵}¨1e9⍴9"])
def test_a_line_without_end_ends_by_its_time(line: str) -> None:
    own, written = session(Limits(0.2, 1 << 33))
    start = time.monotonic()
    assert own.line(line)
    assert time.monotonic() - start < 10
    assert "".join(written).startswith(
        """\
AplError [E807] LIMIT ERROR: the line has taken more than 0.2 seconds
  try: `pullback apl --limit SECONDS` gives lines more time      See `pullback explain-error E807`
"""
    )
    written.clear()
    assert own.line("+/kept") and written == ["8\n"]


def test_the_time_is_that_of_each_line() -> None:
    own, written = session(Limits(0.3))
    for _ in range(3):
        time.sleep(0.15)
        own.line("x←+/⍳10")
    time.sleep(0.4)
    assert not written


@pytest.mark.slow
def test_the_workspace_is_full_and_serves_again() -> None:
    own, written = session(Limits(memory=1 << 28))
    own.line("before←⎕WA")
    own.line("x←1e9⍴1.5")
    assert written == [
        """\
AplError [E810] WS FULL: there is no memory for the result
  --> apl:1:6
   | x←1e9⍴1.5
   |      ^
  See `pullback explain-error E810`
"""
    ]
    written.clear()
    own.line("0<before")
    own.line("y←1e7⍴1.5 ⋄ (before-⎕WA)≥7e7")
    own.line("before≤2*28")
    assert written == ["1\n", "1\n", "1\n"]
    assert np.ones(1 << 26).nbytes == 1 << 29  # the process has its memory after the line


def test_ctrl_c_is_an_error_of_the_line() -> None:
    own, written = session()

    def stop(x: object) -> None:
        signal.raise_signal(signal.SIGINT)

    own.work["stop"] = stop
    assert own.line("z←7 ⋄ stop 1")
    assert written == [
        """\
AplError [E811] INTERRUPT: the line was interrupted; names have the values that it gave them
  See `pullback explain-error E811`
"""
    ]
    written.clear()
    assert own.line("z,kept") and written == ["7 3 1 4\n"]


def test_an_exception_of_python_is_an_error_to_report() -> None:
    own, written = session()
    own.work["broken"] = lambda x: {}["key"]
    assert own.line("broken 1")
    (text,) = written
    first, facts, remedy = text.splitlines()
    assert first == "AplError [E812] SYSTEM ERROR: KeyError in Pullback itself"
    assert facts.startswith("   | 'key'      at test_limits.py:")
    assert "try: report the line with this message to the makers of Pullback; the workspace is as it was" in remedy
    written.clear()
    assert own.line("kept") and written == ["3 1 4\n"]


def test_a_workspace_of_python_raises_what_its_functions_raise() -> None:
    work = Workspace()
    work["broken"] = lambda x: {}["key"]
    with pytest.raises(KeyError):
        work.evaluate("broken 1")


def test_a_nest_of_two_billion_elements_is_refused_before_it_is_walked() -> None:
    with pytest.raises(AplError) as caught:
        Workspace().evaluate("≢∊{⍵ ⍵}⍣31⊢1")
    assert caught.value.kind == "WS FULL" and caught.value.facts == ("limit: 268435456",)
    assert int(Workspace().evaluate("≢∊{⍵ ⍵}⍣10⊢1")) == 1024
    assert int(Workspace().evaluate("≡{⍵ 1}⍣1000⊢1")) == -1000


def test_a_character_without_a_glyph_stays_a_character() -> None:
    assert Workspace().evaluate("⎕UCS ⎕UCS 0 97 0").tolist() == [0, 97, 0]


def test_the_command_line_takes_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.apl"
    path.write_text("{∇⍵+1}0\n", encoding="utf-8")
    assert main(["apl", "--limit", "0.2", str(path)]) == 1
    assert "LIMIT ERROR: the line has taken more than 0.2 seconds" in capsys.readouterr().err
    path.write_text("⎕←⎕WA≤2*28\nx←1e9⍴1.5\n", encoding="utf-8")
    assert main(["apl", "--workspace", "256M", str(path)]) == 1
    found = capsys.readouterr()
    assert found.out == "1\n" and "WS FULL" in found.err
    assert main(["apl", "--workspace", "much"]) == 1
    assert "much: a number of bytes is needed, as in 512M or 2G" in capsys.readouterr().err
    assert main(["apl", "--limit", "nan"]) == 1


@pytest.mark.slow
def test_a_session_on_a_terminal_outlives_ctrl_c_and_text_that_is_none() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "pullback", "apl"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"x`[5\n2 2\n\xff\xfe\n'ready'\n{`w+1}`P1e12`\\0\n")
    process.stdin.flush()
    said = b""
    while b"ready" not in said:
        said += process.stdout.read(1)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.stdin.write(b"x\n)off\n")
    process.stdin.flush()
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, err.decode()
    assert b"INTERRUPT" in out and out.rstrip().endswith(b"5")
