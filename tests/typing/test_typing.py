"""Messages of type checkers: twenty programs without a mistake, twenty with one each, in the line marked `# wrong`."""

from __future__ import annotations

import io
import json
import re
import runpy
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from pullback import lazy, names
from pullback.lazy.weight import INSTALLED

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GOOD = sorted((HERE / "good").glob("*.py"))
BAD = sorted((HERE / "bad").glob("*.py"))
WRONG = {(p.name, n) for p in BAD for n, line in enumerate(p.read_text().splitlines(), 1) if "# wrong" in line}


def test_there_are_twenty_of_each() -> None:
    assert len(GOOD) >= 20 and len(BAD) >= 20
    assert {name for name, _ in WRONG} == {p.name for p in BAD} and len(WRONG) == len(BAD)


@pytest.mark.slow
def test_mypy_finds_the_mistakes_and_nothing_else() -> None:
    api = pytest.importorskip("mypy.api")
    flags = ["--config-file", str(ROOT / "pyproject.toml"), "--strict", "--enable-error-code", "name-defined",
             "--follow-imports", "silent", "--hide-error-context", "--no-error-summary"]  # fmt: skip
    found, problems, _ = api.run([*flags, *map(str, (HERE / "forms.py", *GOOD, *BAD))])
    errors = {(Path(m[1]).name, int(m[2])) for m in re.finditer(r"^(.+?):(\d+): error:", found, re.MULTILINE)}
    assert problems == ""
    assert (sorted(WRONG - errors), sorted(errors - WRONG)) == ([], []), found


def test_pyright_finds_the_mistakes_and_nothing_else() -> None:
    pyright = shutil.which("pyright") or shutil.which("basedpyright")
    if pyright is None:
        pytest.skip("pyright is not installed")
    command = [pyright, "--outputjson", "--pythonpath", sys.executable, *map(str, (*GOOD, *BAD))]
    answer = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout)
    found = [d for d in answer["generalDiagnostics"] if d["severity"] == "error"]
    errors = {(Path(d["file"]).name, d["range"]["start"]["line"] + 1) for d in found}
    assert (sorted(WRONG - errors), sorted(errors - WRONG)) == ([], []), json.dumps(found, indent=1)


@pytest.mark.parametrize("program", GOOD, ids=lambda p: p.stem)
def test_the_programs_run(program: Path) -> None:
    with redirect_stdout(io.StringIO()):
        runpy.run_path(str(program))


def test_the_stubs_have_all_names() -> None:
    stub = (ROOT / "pullback/lazy/__init__.pyi").read_text(encoding="utf-8")
    listed = set(re.findall(r'^    "(\w+)",$', stub, re.MULTILINE))
    assert listed == {*lazy.__all__, *(n for n in names.public() if n in dir(lazy))}
    typed = (ROOT / "pullback/lazy/typed.pyi").read_text(encoding="utf-8")
    members = typed[typed.index("class Typed") : typed.index("class Transposed")]
    declared = set(re.findall(r"def (\w+)\(|^    (\w+)(?::| =)", members, re.MULTILINE))
    assert set(INSTALLED) <= {a or b for a, b in declared}
