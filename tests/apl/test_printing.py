"""Sessions and what they print: every ⎕← once, and a value once, whichever way a function is evaluated."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.apl import AplError, Workspace
from pullback.apl.session import Session


def printed(*lines: str) -> str:
    """Return the output of a session for some lines."""
    written: list[str] = []
    session = Session(written.append)
    for line in lines:
        session.line(line)
    return "".join(written)


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (["g←{⎕←⍵+1}", "g 3"], "4\n"),
        (["{⎕←⍵+1}3"], "4\n"),
        (["{a←⍵}3"], ""),
        (["⊢{a←⍵}3"], "3\n"),
        (["1+{a←⍵}3"], "4\n"),
        (["f←{a←⍵}", "{f ⍵}3", "{{a←⍵}⍵}3"], ""),
        (["{1:a←⍵ ⋄ ⍵}4"], ""),
        (["{0:a←⍵ ⋄ ⍵}4"], "4\n"),
        (["2{⎕←⍺+⍵}3"], "5\n"),
        (["x←{⎕←⍵}3", "x"], "3\n3\n"),
        (["⍎'⎕←5'", "⍎'x←5'", "⍎'x'"], "5\n5\n"),
        (["{⎕←⍵+1}¨1 2"], "2\n3\n2 3\n"),
        (["({⎕←⍵+1}⍣2)1"], "2\n3\n3\n"),
        (["({⎕←⍵+1}⍤0)1 2"], "2\n3\n2 3\n"),
        (["({⎕←⍵+1}@1)1 2"], "2\n2 2\n"),
        (["{⎕←⍺+⍵}/1 2 3"], "5\n6\n6\n"),
        (["x←0 0", "x[⎕←2]+←5", "((⎕←1)↑x)+←1", "x"], "2\n1\n1 5\n"),
        (["⎕←⎕←3"], "3\n3\n"),
        (["(⎕ x)←1 2"], "1\n"),
        (["{⍵>2:⎕←⍵ ⋄ ∇⍵+1}0"], "3\n"),
    ],
)
def test_what_a_session_prints(lines: list[str], shown: str) -> None:
    assert printed(*lines) == shown


@pytest.mark.parametrize(
    ("header", "shown"), [("∇ r←f x", "2\n2\n"), ("∇ {r}←f x", "2\n"), ("∇ f x", "2\n")], ids=["result", "shy", "none"]
)
def test_what_a_definition_prints(header: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    Workspace().run(f"{header}\n⎕←r←x+1\n∇\nf 1", shows=True)
    assert capsys.readouterr().out == shown


def test_a_compiled_function_prints_at_each_call(capsys: pytest.CaptureFixture[str]) -> None:
    f = pb.apl("{⎕←'at'⍵(1 2) ⋄ y←⎕←⍵×2 ⋄ y+1}")
    for x in (3.0, 4.0):
        assert float(f(x)) == 2 * x + 1
        assert capsys.readouterr().out == f" at  {x:g}  1 2 \n{2 * x:g}\n"
    assert float(f.interpret(5.0)) == 11
    assert capsys.readouterr().out == " at  5  1 2 \n10\n"
    assert float(pb.grad(f)(3.0)) == 2
    assert capsys.readouterr().out == " at  3  1 2 \n6\n"


@pytest.mark.parametrize("operator", ["⎕C", "⎕GRAD"])
def test_a_session_prints_what_its_compiled_functions_print(operator: str, capsys: pytest.CaptureFixture[str]) -> None:
    work = Workspace()
    work.evaluate(f"f←{{⎕←⍵+1}}{operator}")
    for _ in range(2):
        work.evaluate("x←f 3")
        assert capsys.readouterr().out == "4\n"


def test_a_repeated_function_prints_once_for_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    f = pb.apl("{({⎕←⍵+1}⍣6)⍵}")
    assert float(f(1.0)) == 7
    assert capsys.readouterr().out == "2\n3\n4\n5\n6\n7\n"


@pytest.mark.parametrize("body", ["{⎕←⍵}¨⍵", "{⎕←⍵ ⋄ ⍵>2:⍵ ⋄ ∇⍵+1}+/⍵"])
def test_a_print_that_is_not_known_to_happen_is_refused(body: str) -> None:
    with pytest.raises(AplError, match="DOMAIN ERROR: ⎕← stands where") as caught:
        pb.apl(f"{{{body}}}")(np.array([1.0, 2.0]))
    _, _, line, caret, *_ = caught.value.message.splitlines()
    assert line[caret.index("^")] == "⎕"


@pytest.mark.parametrize("change", ["n+←1", "n[1]←5", "(1↑n)←5", "n,←⍵"])
def test_a_compiled_function_changes_no_name_outside_of_it(change: str) -> None:
    work = Workspace()
    work.evaluate(f"n←0 0 ⋄ f←{{{change} ⋄ +/n,⍵}}")
    with pytest.raises(AplError) as caught:
        work.evaluate("f ⎕C 3")
    assert caught.value.message.splitlines()[0] == (
        "AplError [E804] DOMAIN ERROR: a compiled function does not change n, which is outside of it"
    )
    assert work.evaluate("n").tolist() == [0, 0]
    assert work.evaluate("f 3") != 3, "in a session it does"
    inside = f"{{n←0 0 ⋄ {{{change} ⋄ +/n,⍵}}⍵}}"
    assert float(pb.apl(inside)(3.0)) == float(work.evaluate(f"{inside}3"))


def test_a_compiled_function_sees_names_as_they_are_when_it_is_called() -> None:
    work = Workspace()
    work.evaluate("n←1 ⋄ g←{⍵×2} ⋄ f←{(n+g ⍵)+⊃⍳3}⎕C ⋄ h←{f ⍵}⎕C")
    for change, value in (("0", 8), ("n←2", 9), ("n+←1", 10), ("g←{⍵×3}", 13), ("⎕IO←0", 12)):
        work.evaluate(change)
        assert work.evaluate("f 3") == work.evaluate("h 3") == work.evaluate("{(n+g ⍵)+⊃⍳3}3") == value


@pytest.mark.parametrize("body", ["⍵+?6", "⍵+2?6", "⍵+1↑⎕TS", "'f'⎕NTIE 0", "⎕CSV'f'", "≢⎕NNUMS"])
def test_a_compiled_function_takes_nothing_that_each_call_would_have_anew(body: str) -> None:
    with pytest.raises(AplError, match="which would have its value from when it was compiled") as caught:
        Workspace().evaluate(f"{{{body}}}⎕C 3")
    _, _, line, caret, *_ = caught.value.message.splitlines()
    assert line[caret.index("^")] in "?⎕"
