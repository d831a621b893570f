"""GradBench's programs against independent references, and the tool that speaks its protocol."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gradbench import eval as local_eval
from benchmarks.gradbench import inputs
from benchmarks.gradbench.fused import ARGUMENTS, fused
from benchmarks.gradbench.inputs import SMALL
from benchmarks.gradbench.references import differences, expected
from benchmarks.gradbench.tool import respond, serve
from benchmarks.gradbench.workloads import MODULES
from pullback.runtime.compile import compiler_command, find_compiler

ROOT = Path(__file__).resolve().parents[2]
WITH_GCC = compiler_command() is not None and "clang" not in find_compiler().version.lower()
CASES = [(module, function, size, given) for module, sizes in SMALL.items() for size, given in sizes
         for function in MODULES[module][1]]  # fmt: skip


LARGER = {"llsq": [("", inputs.llsq(141))], "lse": [("", inputs.lse(141))], "kmeans": [("", inputs.kmeans(5, 141, 7))],
          "gmm": [("", inputs.gmm(9, 3, 70))], "ht": [("", inputs.ht(5, 40, mirrored=True))],
          "lstm": [("", inputs.lstm(3, 3, 8)), ("", inputs.lstm(2, 1100, 9))],
          "det": [("", inputs.det(n)) for n in (2, 3, 4, 9)]}  # fmt: skip


def ask(**message: Any) -> dict[str, Any]:
    return respond(json.dumps({"id": 7, **message}))


def evaluate(module: str, function: str, given: Any) -> dict[str, Any]:
    return ask(kind="evaluate", module=module, function=function, input=given)


@pytest.mark.parametrize(("module", "function", "size", "given"), CASES, ids=[" ".join(c[:3]) for c in CASES])
def test_answers_are_those_of_the_reference(module: str, function: str, size: str, given: Any) -> None:
    answer = evaluate(module, function, given)
    assert answer["success"], answer
    assert differences(answer["output"], expected(module, function, given), 1e-9) == []
    json.loads(json.dumps(answer, allow_nan=False))


@pytest.mark.slow
def test_all_modules_are_there() -> None:
    assert len(MODULES) == 12
    for module in MODULES:
        assert ask(kind="define", module=module)["success"]


@pytest.mark.skipif(not WITH_GCC, reason="the C by hand is written for gcc")
@pytest.mark.parametrize("module", ARGUMENTS)
def test_c_written_by_hand_answers_the_same(module: str) -> None:
    """At each small size, and at one that fills blocks of lanes and leaves a rest."""
    for size, given in [*SMALL[module], *LARGER.get(module, [])]:
        calls = fused(module, given)
        assert calls or "simple" in size
        for function, made in zip(MODULES[module][1], calls, strict=False):
            assert differences(made.answer(made.run()), expected(module, function, given), 1e-9) == []


def test_a_conversation() -> None:
    given = {"x": [1.0, 2.0], "n": 4, "min_runs": 3, "min_seconds": 0}
    messages = [
        {"id": 0, "kind": "start", "eval": "llsq"},
        {"id": 1, "kind": "define", "module": "llsq"},
        {"id": 2, "kind": "evaluate", "module": "llsq", "function": "primal", "input": given},
        {"id": 3, "kind": "analysis", "of": 2, "valid": True},
    ]
    answers = io.StringIO()
    serve(io.StringIO("\n".join(map(json.dumps, messages)) + "\n\n"), answers)
    start, define, done, analysis = map(json.loads, answers.getvalue().splitlines())
    assert start == {"id": 0, "tool": "pullback"}
    assert (define["id"], define["success"]) == (1, True)
    assert (done["id"], done["success"]) == (2, True)
    assert [t["name"] for t in done["timings"]] == ["convert", "compile", "evaluate", "evaluate", "evaluate"]
    assert all(isinstance(t["nanoseconds"], int) for t in done["timings"])
    assert analysis == {"id": 3}


def test_runs_until_enough_seconds_have_passed() -> None:
    answer = evaluate("lse", "primal", {"x": [1.0, 2.0], "min_runs": 1, "min_seconds": 0.01})
    spent = [t["nanoseconds"] for t in answer["timings"] if t["name"] == "evaluate"]
    assert sum(spent) >= 1e7 > sum(spent[:-1])


LLSQ = {"x": [1.0, 2.0], "n": 4}
HAND = SMALL["ht"][0][1]


def hand(**changes: Any) -> Any:
    data = HAND["data"]
    return HAND | {"data": data | {"model": data["model"] | changes}}


BAD = [
    ("llsq", "hessian", LLSQ, "no function 'hessian'"),
    ("nothing", "primal", LLSQ, "no module 'nothing'"),
    ("llsq", "primal", [1.0], "input is an array, not an object"),
    ("llsq", "primal", {"x": [1.0]}, "no field 'n'"),
    ("llsq", "primal", {"x": [], "n": 4}, "x is empty"),
    ("llsq", "primal", {"x": [1.0], "n": 0}, "n is 0; it must be at least 2"),
    ("llsq", "primal", {"x": [1.0], "n": -3}, "at least"),
    ("llsq", "primal", {"x": [1.0], "n": 2.5}, "not an integer"),
    ("llsq", "primal", {"x": [1.0], "n": True}, "not an integer"),
    ("llsq", "primal", {"x": "text", "n": 4}, "not an array of numbers"),
    ("llsq", "primal", LLSQ | {"min_runs": "many"}, "min_runs"),
    ("llsq", "primal", LLSQ | {"min_seconds": -1}, "min_seconds"),
    ("lse", "gradient", {"x": [[1.0], [1.0, 2.0]]}, "equal rows"),
    ("lse", "gradient", {"x": [[1.0, 2.0]]}, "shape (1, 2)"),
    ("lse", "primal", {"x": [1e400]}, "not finite"),
    ("hello", "double", "three", "not a number"),
    ("gmm", "objective", SMALL["gmm"][0][1] | {"gamma": 0.0}, "gamma"),
    ("gmm", "objective", SMALL["gmm"][0][1] | {"k": 0}, "k is 0"),
    ("gmm", "objective", SMALL["gmm"][0][1] | {"k": 7}, "alpha has the shape (4,), not 7"),
    ("lstm", "jacobian", SMALL["lstm"][0][1] | {"main_params": [[1.0, 2.0, 3.0]]}, "not 2 l × 4 b"),
    ("lstm", "jacobian", SMALL["lstm"][0][1] | {"sequence": [[1.0] * 5]}, "nothing to predict"),
    ("ode", "primal", {"x": [1.0], "s": 0}, "s is 0"),
    ("det", "primal", {"A": [1.0, 2.0, 3.0], "ell": 2}, "not 4"),
    ("det", "primal", {"A": [1.0] * 400, "ell": 20}, "minors"),
    ("kmeans", "dir", {"points": [[1.0, 2.0]], "centroids": [[1.0]]}, "centroids"),
    ("kmeans", "dir", {"points": [[1.0], [2.0]], "centroids": [[1.0], [9.0]]}, "not finite"),
    ("ba", "objective", SMALL["ba"][0][1] | {"p": 0}, "p is 0"),
    ("ba", "objective", SMALL["ba"][0][1] | {"w": "heavy"}, "w is a text"),
    ("ht", "objective", HAND | {"theta": [0.0]}, "not 26"),
    ("ht", "objective", HAND | {"us": [[0.5, 0.5]]}, "1 rows for 5"),
    ("ht", "objective", hand(parents=[3] * 22), "is not before it"),
    ("ht", "objective", hand(is_mirrored=1), "is_mirrored"),
    ("ht", "objective", hand(triangles=[[0, 1, 10**6]] * 8), "outside 0 … 39"),
    ("particle", "ff", {}, "no field 'w'"),
    ("saddle", "ff", {"start": [1.0]}, "not 2"),
]


@pytest.mark.parametrize(("module", "function", "given", "reason"), BAD, ids=lambda v: v if isinstance(v, str) else "")
def test_bad_inputs_are_answered(module: str, function: str, given: Any, reason: str) -> None:
    answer = evaluate(module, function, given)
    assert (answer["id"], answer["success"]) == (7, False)
    assert reason in answer["error"]
    assert evaluate("hello", "square", 3)["output"] == 9


@pytest.mark.parametrize("line", ["not JSON", "[1, 2]", '{"id": 1', "3"])
def test_what_is_no_message_is_answered(line: str) -> None:
    answer = respond(line)
    assert (answer["id"], answer["success"]) == (None, False)
    assert "not a JSON object" in answer["error"]


def test_other_messages() -> None:
    assert ask(kind="evaluate", module="llsq", function="primal") == {
        "id": 7, "success": False, "error": "the message has no field 'input'",
    }  # fmt: skip
    assert "'module'" in ask(kind="define")["error"]
    assert not ask(kind="define", module="os")["success"]
    assert "'function'" in ask(kind="evaluate", module="llsq", input={})["error"]
    assert ask(kind="something else") == {"id": 7}


def test_wrong_answers_are_found() -> None:
    assert differences([1.0, float("nan")], [1.0, 2.0], 1e-9)
    assert differences([1.0, 2.0 + 1e-6], [1.0, 2.0], 1e-9)
    assert differences([1e-20], [2e-20], 1e-9)
    assert differences([1.0], [1.0, 2.0], 1e-9)
    assert differences({"a": 1.0}, {"b": 1.0}, 1e-9)
    assert differences("text", 1.0, 1e-9)
    assert not differences([1.0, 2.0], [1.0, 2.0 + 1e-12], 1e-9)


def test_the_eval_with_the_tool_as_a_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert local_eval.main(["hello", "--tool", f"{sys.executable} -m benchmarks.gradbench.tool"]) == 0
    assert capsys.readouterr().out.count("right") == 2


def test_the_eval_finds_a_tool_that_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    liar = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps({'id': json.loads(line)['id'], 'success': True, 'output': 0.0}), flush=True)\n"
    )
    assert local_eval.main(["hello", "--tool", f'{sys.executable} -c "{liar}"']) == 1
    assert "instead of 9.0" in capsys.readouterr().out


PROGRAMS = sorted(p.stem for p in (ROOT / "examples" / "gradbench").glob("*.py") if p.stem != "steepest")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_run_on_their_own(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", f"examples.gradbench.{name}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert " nan" not in done.stdout
