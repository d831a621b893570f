"""The C of a few small programs, kept beside this file: read the diff after `pytest --update-golden`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pullback.ir.parser import parse_program
from pullback.ir.settings import MODES, MemoryMode
from pullback.memory.table import memory_table
from pullback.nn.models import zhang
from pullback.runtime.emit import c_source, lower_program, with_mode
from tests.unit.runtime.programs import CASES

FOLDER = Path(__file__).parent / "c"
NAMES = ("dense", "padded", "descent", "nested", "collatz", "chosen", "gathered", "positions", "guarded", "triangular",
         "strided", "shared", "rows", "reshaped")


@pytest.mark.parametrize("name", NAMES)
def test_c_text(name: str, request: pytest.FixtureRequest) -> None:
    text, dims = CASES[name]
    found = c_source(parse_program(text), dims)
    file = FOLDER / f"{name}.c"
    if request.config.getoption("--update-golden"):
        FOLDER.mkdir(exist_ok=True)
        file.write_text(found)
    assert file.read_text() == found


@pytest.mark.parametrize("mode", MODES)
def test_memory_table(mode: MemoryMode, request: pytest.FixtureRequest) -> None:
    """The table of Zhang's network, gradient and updates, on six images."""
    made = lower_program(with_mode(zhang.train.program(), mode), {"N": 6})
    found = f"{memory_table(made.function, made.memory, made.mode)}\n"
    file = FOLDER.parent / "memory" / f"zhang_{mode}.txt"
    if request.config.getoption("--update-golden"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(found)
    assert file.read_text() == found


def test_canonical_text_does_not_depend_on_names() -> None:
    text, dims = CASES["dense"]
    renamed = text.replace("dense", "layer").replace("x", "input_").replace("w[", "weights[").replace("w:", "weights:")
    one, other = (c_source(parse_program(t), dims, names="canonical", comments=False)
                  for t in (text, renamed.replace("einput_p", "exp")))
    assert one == other
    assert "int program(const float *restrict v0" in one
