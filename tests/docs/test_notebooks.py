"""Notebooks are those of the tutorials, and their cells still give the outputs that they show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.docs import notebooks

pytestmark = pytest.mark.slow

NEW = "python -m tests.docs.notebooks writes it anew"


def kept(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((notebooks.FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", notebooks.PAGES)
def test_a_notebook_has_the_text_and_the_code_of_its_page(name: str) -> None:
    there = [(cell["cell_type"], "".join(cell["source"])) for cell in kept(name)["cells"]]
    assert there == notebooks.cells(name), NEW


@pytest.mark.parametrize("name", notebooks.PAGES)
def test_the_cells_of_a_notebook_give_what_it_shows(name: str) -> None:
    pytest.importorskip("IPython")
    codes = [cell for cell in kept(name)["cells"] if cell["cell_type"] == "code"]
    for cell, outputs in zip(codes, notebooks.executed(name), strict=True):
        assert notebooks.shown(outputs) == notebooks.shown(cell["outputs"]), f"{''.join(cell['source'])}\n{NEW}"


def test_numbers_that_vary_are_elided() -> None:
    text = ["loss 0.25 in 3 steps,\n", "31,360  bytes 1e-05\n"]
    outputs = [{"output_type": "stream", "name": "stdout", "text": text}]
    assert notebooks.shown(outputs) == "loss … in 3 steps, … bytes …"
