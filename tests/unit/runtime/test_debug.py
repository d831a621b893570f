"""Debug builds compute the same, trap what is not finite where it is made, and know the user's lines."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.cli.options import import_file
from pullback.errors import NotFiniteError, UsageError
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.settings import Settings
from pullback.runtime.compile import compiled_library, compiler_command
from pullback.runtime.emit import lower_debug, print_lowered
from pullback.runtime.executor import compile_program
from tests.unit.runtime.programs import CASES
from tests.unit.runtime.test_executor import sample_inputs

needs_compiler = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
FEW = ("dense", "padded", "descent", "rows", "nested")

USER = '''import pullback as pb
from jaxtyping import Float64
from pullback import Array

@pb.function(debug=True)
def energy(x: Float64[Array, "N"]):
    squares = pb.build(x.shape[0], lambda n: x[n] * x[n])
    return pb.sum_over(x.shape[0], lambda n: pb.sqrt(squares[n]))
'''


@needs_compiler
@pytest.mark.parametrize("name", FEW)
def test_the_same_numbers(name: str) -> None:
    text, dims = CASES[name]
    program = parse_program(text)
    program = replace(program, settings=Settings(debug=True))
    inputs = sample_inputs(program, dims)
    executable = compile_program(program, dims)
    assert executable.record.sites
    for got, wanted in zip(executable.run(inputs), interpret(program, inputs, dims), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)


@needs_compiler
def test_what_comes_in_or_is_written_passes() -> None:
    @pb.function(debug=True)
    def masked(x: Float64[Array, "N"]) -> Any:
        shown = pb.build(x.shape[0], lambda n: pb.where(n < 2, x[n], -pb.inf))
        return pb.max(shown), pb.sum(shown * 2)

    assert masked(np.array([1.0, 2.0, 3.0])) == (2.0, -np.inf)
    assert np.isnan(masked(np.array([1.0, np.nan, 3.0]))[0])


@needs_compiler
@pytest.mark.parametrize(("x", "element"), [([1.0, 0.0], "logs[1] is infinite"), ([-1.0, 1.0], "logs[0] is NaN")])
def test_traps_name_the_element(x: list[float], element: str) -> None:
    @pb.function(debug=True)
    def f(x: Float64[Array, "N"]) -> Any:
        logs = pb.log(x)
        return pb.sum(logs)

    for g in (f, pb.value_and_grad(f)):
        with pytest.raises(NotFiniteError, match=re.escape(element)):
            g(np.array(x))


def test_the_environment_decides_for_functions_that_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def double(x: Float64[Array, "N"]) -> Any:
        return x * 2

    monkeypatch.setenv("PULLBACK_DEBUG", "1")
    assert pb.function(double).program().settings.debug
    assert not pb.function(debug=False)(double).program().settings.debug
    monkeypatch.setenv("PULLBACK_DEBUG", "yes")
    with pytest.raises(UsageError, match="PULLBACK_DEBUG=yes is neither 0 nor 1"):
        pb.function(double)


def user_function(folder: Path) -> tuple[Path, Any]:
    path = folder / "user.py"
    path.write_text(USER)
    return path, import_file(path).energy


def test_lines_of_the_text(tmp_path: Path) -> None:
    path, energy = user_function(tmp_path)
    text = print_lowered(lower_debug(energy.program(), {"N": 3}), lines=True).text
    lines = text.splitlines()
    at = next(k for k, line in enumerate(lines) if "squares[n] =" in line)
    assert lines[at - 1] == f'#line 7 "{path}"'
    at = next(k for k, line in enumerate(lines) if "sqrt(squares[n])" in line)
    assert lines[at - 1] == f'#line 8 "{path}"'


@needs_compiler
@pytest.mark.skipif(shutil.which("gdb") is None, reason="no gdb")
def test_gdb_shows_the_users_lines(tmp_path: Path) -> None:
    _, energy = user_function(tmp_path)
    record = compile_program(energy.program(), {"N": 3}).record
    library = str(compiled_library(record.text, record.flags))
    found = subprocess.run(
        ["gdb", "-batch", "-nx", "-ex", "info line user.py:7", "-ex", "list user.py:7,7", library],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert 'Line 7 of "' in found
    assert "starts at address" in found
    assert USER.splitlines()[6] in found
