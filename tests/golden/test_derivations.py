"""The derivations of five worked examples, kept beside this file: read the diff after `pytest --update-golden`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.papers.deepdsl_examples import EXAMPLES, derivative

FOLDER = Path(__file__).parent / "derivations"


@pytest.mark.parametrize("form", ["txt", "md"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_c15_x02_derivation(name: str, form: str, request: pytest.FixtureRequest) -> None:
    derivation = derivative(name).derivation()
    assert derivation is not None
    found = derivation.text() if form == "txt" else derivation.markdown()
    file = FOLDER / f"{name}.{form}"
    if request.config.getoption("--update-golden"):
        FOLDER.mkdir(exist_ok=True)
        file.write_text(found, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == found
