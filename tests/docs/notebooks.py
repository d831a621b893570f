"""The notebooks in `docs/notebooks`, made from the tutorials: `python -m tests.docs.notebooks` writes them anew.

A paragraph becomes a text cell, a Python block a code cell, and a block of APL a cell of `%%apl`. The text of a comment
`<!-- notebook: ... -->` becomes a cell that only the notebook has, for a picture. IPython runs the cells in a process
of its own, without a kernel.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "notebooks"
PAGES = {
    "first_hour": ["tutorials/first_hour"],
    "first_network": ["tutorials/first_network"],
    "dynamic_networks": ["tutorials/dynamic_networks"],
    "apl": ["howto/reading_apl", "howto/apl"],
}
PART = re.compile(
    r"^```(?P<language>\w*)\n(?P<code>.*?)^```$|^<!-- notebook: (?P<own>.*?) -->$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\]\((?!https?:|#|\.\./)")
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d*(?:e[-+]?\d+)?|,\d{3}|e[-+]?\d+)")


def cells(name: str) -> list[tuple[str, str]]:
    """Return the kind and the source of each cell of a notebook."""
    return [cell for page in PAGES[name] for cell in _of_page(ROOT / "docs" / f"{page}.md")]


def _of_page(page: Path) -> list[tuple[str, str]]:
    """Return the cells that a page makes."""
    text = page.read_text(encoding="utf-8")
    found, end = [], 0
    for part in [*PART.finditer(text), None]:
        between = text[end : part.start() if part else len(text)].strip()
        if between:
            found.append(("markdown", LINK.sub(f"](../{page.parent.name}/", between)))
        if part is None:
            break
        end = part.end()
        if part["own"]:
            found.append(("code", part["own"]))
        elif part["language"] == "python":
            found.append(("code", part["code"].strip("\n")))
        elif part["language"] == "apl":
            if "      ]" in part["code"]:  # commands of a session
                found.append(("markdown", part[0]))
                continue
            if not any(source.startswith("%") for _, source in found):
                found.append(("code", "%load_ext pullback.apl.jupyter"))
            typed = [line.strip() for line in part["code"].splitlines() if line.startswith("      ")]
            found.append(("code", "\n".join(["%%apl", *typed])))
        elif part["language"] != "text":
            found.append(("markdown", part[0]))
    return found


def executed(name: str) -> list[list[dict[str, Any]]]:
    """Return the outputs of each code cell of a notebook, run in a process of its own for a generic processor."""
    with tempfile.TemporaryDirectory() as folder:
        sources = [source for kind, source in cells(name) if kind == "code"]
        done = subprocess.run(
            [sys.executable, "-c", "from tests.docs.notebooks import serve; serve()"],
            input=json.dumps(sources), cwd=folder, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": folder, "PULLBACK_MACHINE": "generic"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        text = re.sub(r"<ipython-input-(\d+)-\w+>", r"In[\1]", done.stdout.replace(f"{folder}{os.sep}", ""))
        outputs: list[list[dict[str, Any]]] = json.loads(text)
    return outputs


def serve() -> None:
    """Run the cells that standard input lists, and print their outputs as JSON."""
    from IPython.core.displayhook import CapturingDisplayHook
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell.instance(colors="nocolor", history_length=0)
    shell.display_formatter.active_types = shell.display_formatter.format_types
    values: list[dict[str, Any]] = []
    shell.display_trap.hook = CapturingDisplayHook(shell=shell, outputs=values)
    found = []
    for number, source in enumerate(json.load(sys.stdin), 1):
        with capture_output() as got:
            done = shell.run_cell(source, store_history=True)
        if done.error_before_exec or done.error_in_exec:
            sys.exit(f"{source}\n{got.stdout}{got.stderr}")
        printed = {"output_type": "stream", "name": "stdout", "text": got.stdout.splitlines(keepends=True)}
        shown = [
            {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": _lines(value["data"])}
            for value in values
        ]
        values.clear()
        found.append(([printed] if got.stdout else []) + shown)
    print(json.dumps(found))


def _lines(data: dict[str, str]) -> dict[str, list[str]]:
    """Return the forms of a value, each as a list of lines."""
    return {form: text.splitlines(keepends=True) for form, text in data.items()}


def notebook(name: str) -> dict[str, Any]:
    """Return a notebook with its outputs."""
    outputs, found = iter(enumerate(executed(name), 1)), []
    for kind, source in cells(name):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{len(found)}", "metadata": {}}
        if kind == "code":
            cell["execution_count"], cell["outputs"] = next(outputs)
        found.append({**cell, "source": source.splitlines(keepends=True)})
    return {"cells": found, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def shown(outputs: list[dict[str, Any]]) -> str:
    """Return the text of a cell's outputs; decimal fractions and large numbers, which vary, are elided."""
    texts = ["".join(o["text"] if o["output_type"] == "stream" else o["data"]["text/plain"]) for o in outputs]
    return re.sub(r"\s+", " ", NUMBER.sub("…", "\n".join(texts))).strip()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in PAGES:
        text = json.dumps(notebook(name), indent=1, ensure_ascii=False)
        (FOLDER / f"{name}.ipynb").write_text(f"{text}\n", encoding="utf-8")
