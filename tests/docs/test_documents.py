"""The code in the README and in the documents runs and prints the output shown; links lead somewhere."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import functions_page
from tests.support.devices import fake

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCUMENTS = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
WIDEST = 88  # of a code block in the README
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```$(?:\n+^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)  # and its output
VECTORS = {"add_a_kernel": {"PULLBACK_MACHINE": ""}}  # pages on kernels in vectors: for the processor at hand
ON_DEVICES = {"device"}  # pages that run on the driver for tests
BETWEEN = 'print(end="\\x03")\n'  # run between two blocks


def blocks(path: Path, language: str) -> list[str]:
    return [body for kind, body in FENCE.findall(path.read_text(encoding="utf-8")) if kind == language]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


RUN = """
import builtins, runpy, sys
shown = builtins.print
def tagged(*values, **options):  # put the line of the call before its output
    shown(end=f"\\x01{sys._getframe(1).f_lineno}\\x02")
    shown(*values, **options)
builtins.print = tagged
runpy.run_path(sys.argv[1], run_name="__main__")
"""
WITH_PYTHON = [path for path in DOCUMENTS if blocks(path, "python")]


def folded(output: str) -> str:
    """Output with its widest lines broken at the gap before their last sentence, as pages may show it."""
    lines = output.splitlines(keepends=True)
    return "".join(re.sub(r"(?<=\S) {6}See ", f"\n{7 * ' '}See ", x) if len(x) > WIDEST else x for x in lines)


def run(path: Path, folder: Path) -> tuple[str, str]:
    """Return the Python blocks of a document as one program, and what it prints, with the line before each print."""
    program = folder / (path.stem + ".py")
    text = BETWEEN.join(blocks(path, "python"))
    device: dict[str, str] = {}
    if path.stem in ON_DEVICES:
        if not fake.HAS_COMPILER:
            pytest.skip("no g++")
        device = {"PULLBACK_LIBCUDA": str(fake.built()), "PULLBACK_NVRTC": str(fake.built(fake.COMPILER))}
    program.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", RUN, str(program)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **VECTORS.get(path.stem, {}), **device},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return text, done.stdout.replace(f"{folder}{os.sep}", "")


def plain(text: str) -> str:
    """Return a text without the tags of `RUN`, spaces at the ends of lines, and empty lines around it."""
    return re.sub(r"\x01\d+\x02|[ \t]+$", "", text, flags=re.MULTILINE).strip("\n")


@pytest.mark.parametrize("path", WITH_PYTHON, ids=name)
def test_python_blocks_run(path: Path, tmp_path: Path) -> None:
    """A comment after a print, and a `text` block after a Python block, are its output; `...` is any text."""
    text, printed = run(path, tmp_path)
    assert plain(printed)
    lines = text.splitlines()
    for number, shown in re.findall(r"\x01(\d+)\x02([^\x01]*)", printed):
        said = re.search(r"\)\s+# ((?:True|False|[-\d.,()\[\]e ]*\d[-\d.,()\[\]e ]*).*)$", lines[int(number) - 1])
        if said:
            assert said[1].startswith(shown.strip()), f"{lines[int(number) - 1]}\nprints {shown}"
    check = doctest.OutputChecker()
    documented = [output for _, output in PYTHON.findall(path.read_text(encoding="utf-8"))]
    for block, output, shown in zip(blocks(path, "python"), documented, printed.split("\x03"), strict=True):
        if output:
            same = check.check_output(folded(plain(output)), folded(plain(shown)), doctest.ELLIPSIS)
            assert same, f"{block}\nprints\n{plain(shown)}"


def test_the_readme_shows_all_that_its_examples_print(tmp_path: Path) -> None:
    _, printed = run(README, tmp_path)
    shown = [plain(output) for _, output in PYTHON.findall(README.read_text(encoding="utf-8"))]
    assert [folded(plain(output)) for output in printed.split("\x03")] == shown


def test_the_readme_is_short() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    assert all(len(line) <= WIDEST for _, body in FENCE.findall(text) for line in body.splitlines())
    prose = re.sub(r"^[|#<!].*$", ".", FENCE.sub(".", text), flags=re.MULTILINE).replace("* ", ". ")
    for sentence in re.split(r"[.:]\s", re.sub(r"\]\([^)]*\)", "]", prose)):
        assert len(sentence.split()) <= 25, sentence


def test_all_examples_are_in_the_index() -> None:
    pages = (ROOT / "docs" / "howto" / name for name in ("examples.md", "training_tasks.md"))
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    there = {path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").rglob("*.py")}
    assert set(re.findall(r"\(../../(examples/[\w/]+\.py)\)", text)) == there


def test_the_examples_of_the_readme_are_about_ten_lines() -> None:
    for example in blocks(README, "python"):
        assert len([line for line in example.splitlines() if line.strip()]) <= 12


def test_the_readme_has_the_two_commands() -> None:
    text = README.read_text(encoding="utf-8")
    for marker, last in (("run command", "pullback demo"), ("test command", "pytest -n auto")):
        found = re.search(rf"<!-- {marker} -->\n```sh\n(.*)\n```", text)
        assert found, f"no one-line block after <!-- {marker} -->"
        assert found[1].startswith("python3 -m venv .venv && ")
        assert found[1].endswith(last)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"`[^`\n]+`", "", FENCE.sub("", path.read_text(encoding="utf-8")))
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not target.startswith(("http:", "https:")):
            assert (path.parent / target).exists(), f"{name(path)} links to {target}"


def test_files_that_pages_name_are_there() -> None:
    """A file in backticks is named from the root, from the package, or from one of its rooms."""
    bases = [ROOT, ROOT / "pullback", *(p for p in (ROOT / "pullback").iterdir() if p.is_dir())]
    named = {(name(page), path) for page in DOCUMENTS if page.name != "CHANGELOG.md"
             for path in re.findall(r"`((?:\.?\w+/)+\w+\.(?:py|c|toml))`", page.read_text(encoding="utf-8"))}
    assert len(named) > 20
    assert {(page, path) for page, path in named if not any((base / path).exists() for base in bases)} == set()


def test_the_page_of_functions_is_that_of_the_code() -> None:
    made = functions_page.page(functions_page.PAGE.read_text(encoding="utf-8"))
    assert functions_page.PAGE.read_text(encoding="utf-8") == made, "python -m tests.docs.functions_page writes it anew"


def test_the_page_says_since_which_release_a_function_is_there():
    """`functions_0.1.0.txt` lists the functions on the page of that release; all others are later."""
    released = set((functions_page.PAGE.parents[2] / "tests/docs/functions_0.1.0.txt").read_text().split())
    since = functions_page.known(functions_page.PAGE.read_text(encoding="utf-8"))
    assert {name for name, version in since.items() if version == "0.1.0"} == released & since.keys()
    assert set(since.values()) <= {"0.1.0", "0.2.0"}


SOUGHT = (
    "augmentation", "batch size", "checkpoints", "cross entropy", "dropout", "early stopping", "epochs", "fine-tuning",
    "hyperparameters", "initialization", "learning rate", "loss functions", "metrics", "mixed precision", "overfitting",
    "regularization", "reproducibility", "schedules", "sparsity", "transfer learning", "validation", "weight decay",
)  # fmt: skip


def test_the_page_of_topics_has_the_words_of_the_field() -> None:
    """The site's search finds a page by its words, and this page has them all with links."""
    text = (ROOT / "docs/reference/topics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| \[", text, re.MULTILINE)
    assert [word for word in SOUGHT if not any(word in row for row in rows)] == []
    assert rows == sorted(rows, key=str.lower)
