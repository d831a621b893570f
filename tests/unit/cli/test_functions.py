"""`export`, `explain`, `check`, `primitives`, `bench`: their JSON and their errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pullback.cli import bench
from pullback.cli.main import main
from pullback.runtime.compile import compiler_command

GOOD = """
import pullback as pb
from jaxtyping import Float32
from pullback import Array


@pb.function
def dense(x: Float32[Array, "N M"], w: Float32[Array, "K M"], b: Float32[Array, "K"]):
    (N, M), K = x.shape, b.shape[0]
    return pb.build((N, K), lambda n, k: pb.sum_over(M, lambda m: x[n, m] * w[k, m]) + b[k])


@pb.function
def twice(x: Float32[Array, "N"]):
    return x + x


def plain(x):
    raise AssertionError("not to be called")
"""

BAD = """
import pullback as pb
from jaxtyping import Float32
from pullback import Array


@pb.function
def first(x: Float32[Array, "N M"]):
    return pb.build(x.shape[0], lambda n: x[n, n])


@pb.function
def fine(x: Float32[Array, "N"]):
    return x * 2


@pb.function
def second(x: Float32[Array, "N"]):
    if x[0] > 0:
        return x
    return -x
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "layer.py"
    path.write_text(GOOD)
    return path


def last_object(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found


DIMS = ["--dim", "N=5", "--dim", "M=4", "--dim", "K=3"]


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler installed")
def test_export(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    assert main(["export", f"{good}:dense", *DIMS, "--out", str(folder), "--json"]) == 0
    result = last_object(capsys.readouterr().out)
    assert list(result) == ["files", "peak_bytes"]
    assert isinstance(result["peak_bytes"], int)
    assert result["peak_bytes"] >= 0
    on_disk = {path.name for path in folder.rglob("*") if path.is_file()}
    assert {Path(file).name for file in result["files"]} == on_disk
    assert {"CMakeLists.txt"} < on_disk


def test_export_to_a_place_that_cannot_be_written(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", f"{good}:dense", *DIMS, "--out", str(good)]) == 1
    assert "UsageError [E607]" in capsys.readouterr().err


def test_export_without_a_dim(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", f"{good}:dense", "--dim", "N=5", "--out", str(tmp_path / "out"), "--json"]) == 0
    assert last_object(capsys.readouterr().out)["peak_bytes"] is not None
    assert "dense_arena_bytes(int64_t" in (tmp_path / "out" / "dense.h").read_text()


def test_explain(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"{good}:dense", *DIMS, "--json"]) == 0
    stages = last_object(capsys.readouterr().out)["stages"]
    assert len(stages) >= 2
    for stage in stages:
        assert list(stage) == ["name", "text", "rules"]
        assert isinstance(stage["rules"], list)
        assert stage["text"].strip()


def test_explain_a_gradient(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "losses.py"
    file.write_text(
        "import pullback as pb\nfrom jaxtyping import Float64\nfrom pullback import Array\n\n@pb.function\n"
        'def loss(x: Float64[Array, "N"], w: Float64[Array, "N"]):\n    return pb.sum(pb.exp(x) * w)\n'
    )
    assert main(["explain", f"{file}:loss", "--grad", "x", "--json"]) == 0
    out = capsys.readouterr().out
    assert "002: 6, 7, 9, 15 | 003: D-Var, D-Build, D-Get, D-Exp" in out
    lines = last_object(out)["derivation"]
    assert {"section", "formula", "relation", "rules", "cited"} == set(lines[0])
    assert lines[-1]["formula"] == "z_x = w .* exp(x)"
    assert main(["explain", f"{file}:loss", "--grad", "x", "--format", "markdown"]) == 0
    assert r"\frac{\partial" in capsys.readouterr().out
    assert main(["explain", f"{file}:loss", "--grad", "y"]) == 1
    assert "names no parameter" in capsys.readouterr().err


def test_explain_without_sizes_says_how_to_give_them(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = "kernels, memory and C need sizes: give some or all with --dim N=64 --dim M=64 --dim K=64\n"
    page = tmp_path / "page.html"
    for how in ([], ["--html", str(page)]):
        assert main(["explain", f"{good}:dense", *how]) == 0
        assert capsys.readouterr().err == wanted
        assert main(["explain", f"{good}:dense", "--dim", "N=5", *how]) == 0
        assert capsys.readouterr().err == ""


def test_explain_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--rules", "--json"]) == 0
    out = capsys.readouterr().out
    assert "002 22: a sum over a delta" in out and "003 D-Mult: product" in out
    assert len(last_object(out)["rules"]) > 100
    assert main(["explain"]) == 1
    assert "no function" in capsys.readouterr().err


def test_an_unknown_function_names_those_there_are(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"{good}:danse"]) == 1
    assert "traced functions: dense, twice" in capsys.readouterr().err
    assert main(["explain", f"{good}:plain"]) == 1
    assert "plain is not a traced function" in capsys.readouterr().err


def test_check_without_errors(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(good), "--json"]) == 0
    out, err = capsys.readouterr()
    assert "2 functions, no errors" in out
    assert last_object(out) == {"errors": []}
    assert err == ""


def test_check_reports_all_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.py"
    path.write_text(BAD)
    assert main(["check", str(path), "--json"]) == 1
    out, err = capsys.readouterr()
    errors = last_object(out)["errors"]
    assert [list(error) for error in errors] == [["code", "file", "line", "column", "message"]] * 2
    assert [error["line"] for error in errors] == [9, 19]
    assert all(Path(error["file"]).name == "bad.py" for error in errors)
    assert all(error["column"] >= 1 for error in errors)
    assert err.count("bad.py:9") >= 1
    assert err.count("bad.py:19") >= 1


def test_check_does_not_run_as_main(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "script.py"
    path.write_text(GOOD + '\nif __name__ == "__main__":\n    raise SystemExit("ran")\n')
    assert main(["check", str(path)]) == 0
    capsys.readouterr()


def test_check_of_a_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "missing.py", "--json"]) == 1
    out, _ = capsys.readouterr()
    assert [error["code"] for error in last_object(out)["errors"]] == ["E602"]


EVERY_KIND = """
import pullback as pb
from pullback import function
from jaxtyping import Float32
from pullback import Array

@function
def uses_one_below(x: Float32[Array, "N"]):
    return helper(x)

@pb.function
def misspelled(x: Float32[Array, "N"]):
    return x * scael

@pb.function
def python_error(x: Float32[Array, "N"]):
    return x * {}["a"]

@pb.function
def left_open(x):
    return x

class Model:
    @staticmethod
    @pb.function
    def run(x: Float32[Array, "N"], y: Float32[Array, "M"]):
        return x + y

@pb.function
def helper(x: Float32[Array, "N"]):
    return x

print(1 / 0)

@pb.function
def below(x: Float32[Array, "N"]):
    return x + None
"""


def test_check_says_what_it_could_not_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kinds.py"
    path.write_text(EVERY_KIND)
    assert main(["check", str(path), "--json"]) == 1
    out, err = capsys.readouterr()
    assert err.replace(str(path), "kinds.py") == """\
UndefinedNameError [E148] misspelled: the name 'scael' is not defined
  --> kinds.py:13:16
   |     return x * scael
   |                ^^^^^
  try: define it before the first call      See `pullback explain-error E148`
UsageError [E608] python_error could not be checked: KeyError: 'a'
  --> kinds.py:17:16
   |     return x * {}["a"]
   |                ^^^^^^^
  try: mend it: it would stop at its first use      See `pullback explain-error E608`
ShapeError [E101] add: shapes [N] and [M] do not broadcast: axis 0 of x = N, axis 0 of y = M
  --> kinds.py:27:16
   |         return x + y
   |                ^^^^^
   | x : f32[N]      y : f32[M]
  try: give both the same dim name in the annotations if they are equal, or reshape one of them\
      See `pullback explain-error E101`
UsageError [E602] kinds.py could not be imported: ZeroDivisionError: division by zero; what is below was not looked at
  --> kinds.py:33:7
   | print(1 / 0)
   |       ^^^^^
  try: python kinds.py      See `pullback explain-error E602`
"""
    why = "its annotations leave element types, ranks or static values open"
    assert f"not checked: left_open, line 19: {why}" in out
    assert last_object(out)["unchecked"] == [{"name": "left_open", "line": 19, "why": why}]


def test_errors_without_a_place_are_placed_where_the_function_is(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", f"{good}:twice", "--out", str(tmp_path), "--dim", "M=3"]) == 1
    _, err = capsys.readouterr()
    assert err.replace(str(good), "good.py") == """\
ShapeError [E106] twice has no dim M
  --> good.py:13:2
   | @pb.function
   |  ^^^^^^^^^^^
   | (x: f32[N]) -> f32[N]
  try: its dims are N      See `pullback explain-error E106`
"""


def test_explain_error(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    section = "E102: A product sums over an axis that has different sizes in its two operands.\n"
    monkeypatch.setenv("COLUMNS", "50")
    assert main(["explain-error", "E103"]) == 0
    folded = capsys.readouterr().out
    assert folded.startswith("E103: ") and max(map(len, folded.splitlines())) <= 50
    monkeypatch.delenv("COLUMNS")
    for code in ("E102", "e102", "102", "[E102]"):
        assert main(["explain-error", code]) == 0
        assert capsys.readouterr().out == section
    assert main(["explain-error"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 80
    assert main(["explain-error", "E999"]) == 1
    assert "E609" in capsys.readouterr().err


def test_check_leaves_the_decorator_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pullback

    before = pullback.function
    path = tmp_path / "bad.py"
    path.write_text(BAD + "\n1 / 0\n")
    assert main(["check", str(path)]) == 1
    assert pullback.function is before
    capsys.readouterr()


def test_primitives(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["primitives", "--json"]) == 0
    rows = last_object(capsys.readouterr().out)["primitives"]
    names = [row["name"] for row in rows]
    assert len(set(names)) == len(names)
    assert {"exp", "log", "tanh", "logistic"} <= set(names)
    for row in rows:
        assert row["doc"]
        assert row["derivative"] or row["no_derivative"], row["name"]


@pytest.mark.slow
def test_bench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import zhang

    monkeypatch.setattr(zhang, "TRAINING", 5)
    monkeypatch.setattr(zhang, "limit_threads", lambda threads: None)
    arguments = ["bench", "zhang", "--cases", "train-1000", "--dtypes", "float64", "--systems", "c", "pullback"]
    assert main([*arguments, "--rounds", "2", "--json"]) == 0
    rows = last_object(capsys.readouterr().out)["rows"]
    assert "pullback" in [row["system"] for row in rows]
    for row in rows:
        assert list(row) == [
            *("case", "system", "form", "dtype", "threads"),
            *("median", "minimum", "maximum", "first_call"),
        ]
        assert row["threads"] == 1


def test_bench_in_an_installed_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "CHECKOUT", tmp_path)
    assert main(["bench", "zhang", "--rounds", "1"]) == 1
    assert capsys.readouterr().err == (
        "UsageError [E613] the benchmarks are not installed with the package\n"
        f"   | there is no {tmp_path / 'benchmarks'}\n"
        "  try: git clone the repository, and `python -m benchmarks` in it"
        "      See `pullback explain-error E613`\n"
    )


def test_options_of_bench_are_those_of_the_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["bench", "--help"])
    assert left.value.code == 0
    assert "--candidates" in capsys.readouterr().out


def test_bench_of_an_unknown_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "zhang", "--cases", "train-7"]) == 1
    assert "E605" in capsys.readouterr().err


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_explain_time(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"{good}:dense", "--time", "--dim", "N=4", "--dim", "M=3", "--dim", "K=2", "--json"]) == 0
    *lines, last = capsys.readouterr().out.strip().splitlines()
    found = json.loads(last)
    names = [s["stage"] for s in found["stages"]]
    wanted = ["trace dense", "specialize", "pass fuse", "lower", "plan memory", "print C", "unit 1", "load"]
    assert [n for n in names if n in wanted] == wanted
    assert lines[0].split() == ["stage", "seconds"]
    assert any(line.startswith("  unit 1 ") and line.endswith("at once") for line in lines)
    own = sum(s["seconds"] for s in found["stages"] if not s["at_once"])
    assert own == pytest.approx(found["total"])
    assert 0 < found["warm"] < found["total"]
    assert "the cache does not have it yet" in lines
    assert not found["cached"]
    (kernel,) = found["kernels"]
    assert kernel["by"] in ("tile", "plain", "masked")
    assert {"plain", "masked", "tile"} - {kernel["by"]} >= set(kernel["others"])
    assert kernel["seconds"] > 0
    assert lines[-1].split()[:2] == [kernel["kernel"], kernel["by"]]
