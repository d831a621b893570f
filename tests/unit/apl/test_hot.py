"""Dfns that a session compiles by itself: the same results and errors, and when it is not done."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from pullback.apl import AplError, Workspace
from pullback.apl.hot import VERSIONS, Hot, compile_by_itself
from pullback.apl.session import Session
from pullback.runtime.compile import compiler_command
from tests.support.hot_dfns import difference, interpreted, sessions

CALLS = {
    "{⍵×⍵+1}": ("1 2 3", "1000000000000 2 3", "3037000500 0 1", "¯9000000000000000 1 2"),
    "{+/⍵}": ("1 2 3", "4611686018427387904 4611686018427387904 1", "9007199254740992 1 1"),
    "{×/⍵}": ("1 2 3", "3000000000 3000000000 3000000000", "0 1 2"),
    "{⍵÷⌽⍵}": ("1.5 2 3", "1.5 2 0", "0 2 0.5", "0 0 0.0", "1E308 2 1E¯308"),
    "{÷1+*-⍵}": ("1.5 2 3", "¯1000 2 3.5", "1000 2 3.5", "¯710 0 0.5", "¯116 1 2.5"),
    "{÷1+(*⍵)×*⍵}": ("1.5 2 3", "400 2 3.5", "100 0 1.5"),
    "{⍟⍵}": ("1.5 2 3", "¯1.5 2 3", "0 2 3.5"),
    "{⍵*0.5}": ("1.5 2 3", "¯1.5 2 3", "0 2 3.5"),
    "{¯1○⍵}": ("0.5 0.2 0", "1.5 0.2 0"),
    "{⌊⍵÷0.1}": ("0.3 0.7 1.1", "1E30 2 3", "0.30000000000000004 1 2"),
    "{1↑÷⍵}": ("1.5 2 3", "1.5 2 0"),
    "{⊃÷¨⍵}": ("1.5 2 3", "1.5 2 0"),
    "{x←÷⍵ ⋄ 3}": ("1.5 2 3", "1.5 2 0"),
    "{0⌈*⍵}": ("1.5 2 3", "1.5 2 1000"),
    "{0=÷⍵}": ("1.5 2 3", "1.5 2 0"),
    "{0<⊃⍵:÷⍵ ⋄ -⍵}": ("1.5 2 3", "¯1.5 0 3", "1.5 0 3"),
    "{(1E200 2 3)×⍵}": ("1.5 2 3", "1E40 2 3", "1E49 2 3.5"),
    "{{⍵×⍵}⍣2⊢1E200 2 3×⍵}": ("1E¯150 2 3", "1.5 2 3"),
    "{{⍵×0.5}⍣9⊢⍵×1E200}": ("1.5 2 3", "1E49 2 3", "1E120 2 3"),
    "{⍵[1]>0:{⍵+1}⍣8⊢⍵ ⋄ ÷⍵}": ("1.5 2 3", "¯1 0 2.5", "¯2 1 2.5"),
    "{⍵×10}": ("1.5 2 3", "1E308 2 3", "1E200 0.5 1"),
    "{⍵×1E10}⍣40": ("1.5 2 3", "1E¯300 0.5 1"),
    "{{÷⍵}⍤1⊢2 2⍴⍵}": ("1.5 2 3 4", "1.5 2 0 4"),
    "{⍵[1]⊃⍵}": ("1.0 2 3",),
    "{(10 20 30)[⍵]}": ("1 2 3", "1 2 4", "0 1 2"),
    "{~⍵}": ("1 0 1", "1 0 2"),
    "{⍵:1 ⋄ 2}": ("1", "0", "2"),
    "{⍵ (⍵>1)}": ("1 2 3", "3 3 3"),
    "{2|⍵}": ("1 2 3", "¯1 ¯2 3"),
    "{0.1|⍵}": ("0.3 0.25 1", "¯0.3 0.7 1.5"),
    "{(⍵×⍵)-⍵×⍵}": ("0.1 0.2 0.3", "1E170 1 2.5"),
    "{1÷(0.1×⍵)-⍵×0.1}": ("0.3 0.2 0.7",),
}


IN_C = [text for text, given in CALLS.items() if len(given) > 3]


@pytest.mark.parametrize("text", CALLS)
def test_results_and_errors_are_those_of_a_session(text: str) -> None:
    check(text, compiled=False)


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
@pytest.mark.parametrize("text", IN_C)
def test_compiled_results_and_errors_are_those_of_a_session(text: str) -> None:
    check(text, compiled=True)


def check(text: str, compiled: bool) -> None:
    given = CALLS[text]
    cold, hot = sessions(compiled)
    for work in (cold, hot):
        work.evaluate(f"f←{text}" if text.endswith("}") else f"f←{{{text}⊢⍵}}")
    for x in (*given, *given):
        assert difference(said(cold, f"f {x}"), said(hot, f"f {x}")) is None, x


def said(work: Workspace, text: str) -> Any:
    try:
        return work.evaluate(text)
    except AplError as error:
        return str(error)


def hot_workspace(**how: Any) -> Workspace:
    work = Workspace(show=lambda _: None)
    work.hot = Hot(0.0, background=False, **{"run": interpreted, **how})
    return work


def states(work: Workspace) -> list[str]:
    return [v.state for record in work.hot.records.values() for v in record.versions.values()]


def calls(work: Workspace) -> int:
    return sum(v.calls - v.misses for record in work.hot.records.values() for v in record.versions.values())


def test_a_second_call_is_compiled() -> None:
    work = hot_workspace()
    work.evaluate("mean←{(+/⍵)÷≢⍵}")
    assert [float(work.evaluate("mean 1 2 6.5")) for _ in range(3)] == [9.5 / 3] * 3
    assert (states(work), calls(work)) == (["compiled"], 2)


def test_a_change_of_a_name_is_seen_at_once() -> None:
    work = hot_workspace()
    work.evaluate("a←2 ⋄ g←{⍵+a} ⋄ f←{g ⍵×2}")
    for text, value in (("⍬", 8), ("", 8), ("a←3", 9), ("", 9), ("g←{⍵×a}", 18), ("", 18), ("a←1 2 3", 6)):
        if text:
            work.evaluate(text)
        before = calls(work)
        assert work.evaluate("⊃f 3").item() == value
        assert (calls(work) > before) is (not text)


def test_a_name_that_appears_and_a_setting_that_changes_are_seen() -> None:
    work = hot_workspace()
    work.evaluate("f←{⍵=⍵+1E¯15 2E¯15 3E¯15}")
    assert [work.evaluate("f 1 2 3.5").tolist() for _ in range(3)] == [[True] * 3] * 3
    work.evaluate("⎕CT←0")
    assert work.evaluate("f 1 2 3.5").tolist() == [False, False, False]
    work.evaluate("h←{⍵[1]}")
    assert [work.evaluate("h 5 6").item() for _ in range(2)] == [5, 5]
    work.evaluate("⎕IO←0")
    assert work.evaluate("h 5 6").item() == 6


@pytest.mark.parametrize("text", ["{⎕←⍵ ⋄ ⍵}", "{⍵+?100}", "{n+←1 ⋄ ⍵}", "{⍵+⊃⎕TS}", "{⍎'⍵+1'}", "{⍵+⎕NC'n'}"])
def test_what_has_effects_is_evaluated(text: str) -> None:
    shown: list[Any] = []
    work = hot_workspace()
    work._show = shown.append
    work.evaluate("n←0")
    work.evaluate(f"f←{text}")
    for _ in range(3):
        said(work, "f 1 2 3")
    assert calls(work) == 0
    assert len(shown) in (0, 3)
    if "n+←" in text:
        assert work["n"] == 3


def test_a_tail_call_of_another_dfn_is_compiled() -> None:
    work = hot_workspace()
    work.evaluate("f←{⍵+1} ⋄ even←{⍵=0:1 ⋄ odd ⍵-1} ⋄ odd←{⍵=0:0 ⋄ even ⍵-1}")
    assert work.evaluate("{f ⍵}¨⍳3").tolist() == [2, 3, 4]
    assert calls(work) == 2
    assert work.evaluate("even 5000").item() == 1


def test_a_function_of_python_is_evaluated() -> None:
    seen: list[Any] = []
    work = hot_workspace()
    work["keep"] = lambda x: seen.append(x) or x
    work.evaluate("f←{keep ⍵+1}")
    for _ in range(3):
        work.evaluate("f 1 2 3")
    assert len(seen) == 3


def test_a_value_that_is_not_printed_stays_so() -> None:
    work = hot_workspace()
    work.evaluate("f←{x←⍵+1}")
    for _ in range(3):
        value, quiet = work.run("f 1 2")
        assert (value.tolist(), quiet) == ([2, 3], True)
    assert calls(work) == 2


def test_numbers_out_of_the_ordinary_end_it() -> None:
    work = hot_workspace()
    work.evaluate("f←{⍵×⍵}")
    work.evaluate("f 1 2 3")
    for _ in range(6):
        assert work.evaluate("f 3000000000 1 2").dtype.kind == "i"
    assert states(work) == ["evaluated: its numbers are often out of the ordinary"]


def test_few_shapes_are_compiled() -> None:
    work = hot_workspace()
    work.evaluate("f←{+/⍵}")
    for n in range(1, VERSIONS + 5):
        for _ in range(2):
            assert work.evaluate(f"f ⍳{n}").item() == n * (n + 1) // 2
    assert len(states(work)) == VERSIONS


def test_a_compiler_that_fails_is_asked_once() -> None:
    asked = []

    def failing(f: Any, *given: Any) -> Any:
        asked.append(f)
        raise OSError("no compiler")

    work = hot_workspace(run=failing)
    work.evaluate("f←{⍵+1}")
    for _ in range(4):
        assert work.evaluate("f 1 2").tolist() == [2, 3]
    assert (len(asked), states(work)) == (1, ["evaluated: OSError"])


def test_arguments_of_other_kinds_are_evaluated() -> None:
    work = hot_workspace()
    work.evaluate("f←{⌽⍵}")
    for text in ("'abc'", "(1 2)'a'", "⍬", "1J2 3", "2 2⍴⊂1 2"):
        for _ in range(3):
            work.evaluate(f"f {text}")
    assert states(work) == []


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_another_thread_compiles_and_ends() -> None:
    before = threading.active_count()
    work = Workspace(show=lambda _: None)
    work.hot = Hot(0.0)
    work.evaluate("f←{÷1+*-⍵} ⋄ x←(⍳5)÷3")
    first = work.evaluate("f x")
    work.hot.wait()
    assert states(work) == ["compiled"]
    assert np.allclose(work.evaluate("f x"), first, rtol=1e-14)
    assert calls(work) == 1
    work.hot.close()
    assert threading.active_count() == before


def test_a_session_that_ends_stops_what_is_traced() -> None:
    started, go = threading.Event(), threading.Event()

    def slow(f: Any, *given: Any) -> Any:
        started.set()
        go.wait(10)
        return f.interpret(*given)

    work = Workspace(show=lambda _: None)
    work.hot = Hot(0.0, run=slow)
    work.evaluate("f←{⍵+1}")
    assert work.evaluate("f 1 2").tolist() == [2, 3]
    assert started.wait(10)
    assert work.evaluate("f 1 2").tolist() == [2, 3]  # the prompt does not wait
    work.hot._ended = True
    go.set()
    work.hot.close()
    assert states(work) == ["evaluated: the session has ended"]


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_APL_COMPILE", "off")
    work = Workspace()
    compile_by_itself(work)
    assert work.hot is None
    lines: list[str] = []
    session = Session(lines.append)
    session.line(")compiled")
    assert lines == ["PULLBACK_APL_COMPILE is off\n"]


def test_the_session_lists_what_it_has_compiled() -> None:
    lines: list[str] = []
    session = Session(lines.append)
    session.work.hot = Hot(0.0, background=False, run=interpreted)
    for text in ("f←{⍵+1}", "f 1 2", "f 1 2", "g←{⍎⍵}", ")compiled"):
        session.line(text)
    assert lines[-1] == "f integer[2]: compiled (1 calls, 0 of them evaluated)\n"
    session.close()
