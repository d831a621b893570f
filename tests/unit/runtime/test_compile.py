"""The compiler is found, called once, and its failures are told; the cache survives what happens to folders."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pullback.errors import CompilerError
from pullback.ir.parser import parse_program
from pullback.runtime import compile as compiling
from pullback.runtime.executor import compile_program
from pullback.runtime.load import compiled_entry
from pullback.runtime.record import find_record, record_path

TEXT = "int answer(void *arena) {\n    return arena ? 0 : 42;\n}\n"
TWICE = "twice(x: f64[N]) { y = build n < N { 2.0 * x[n] } return y }"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(folder))
    monkeypatch.setattr(compiling, "_spare_folders", [])
    compiling._version.cache_clear()
    return folder


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_compiles_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled_entry(TEXT, "answer", 1)(0) == 42
    monkeypatch.setattr(compiling, "build_library", None)
    assert compiled_entry(TEXT, "answer", 1)(0) == 42
    assert len(list(cache.rglob("*.so"))) == 1
    assert not list(cache.rglob("build-*"))


def test_a_damaged_library_is_made_anew(cache: Path) -> None:
    path = compiling.compiled_library(TEXT)
    path.write_bytes(b"not a library")
    assert compiled_entry(TEXT, "answer", 1)(0) == 42


def test_the_version_is_asked_once_per_compiler(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "calls"
    monkeypatch.setenv("CC", str(script(tmp_path / "mycc", f'echo "$@" >> {log}; exec cc "$@"')))
    for _ in range(2):
        compiling._version.cache_clear()
        assert compiling.find_compiler().version
    assert log.read_text().count("--version") == 1


def test_no_compiler(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/no/such/compiler")
    with pytest.raises(CompilerError, match=r"E410.*CC=/no/such/compiler"):
        compiling.find_compiler()
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(cache))
    monkeypatch.setattr(compiling.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CompilerError, match=r"E410.*tried CC, cc, gcc, clang and ziglang"):
        compiling.compiled_library(TEXT)


def test_a_failing_compiler_is_quoted(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompilerError, match=r"(?s)E411.*status 1.*nonsense"):
        compiling.compiled_library("nonsense(;\n")
    monkeypatch.setenv("CC", str(script(tmp_path / "crash", "kill -SEGV $$")))
    with pytest.raises(CompilerError, match=r"(?s)E411.*it said nothing"):
        compiling.compiled_library(TEXT)


def test_a_cache_that_cannot_be_written(cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        assert compiled_entry(TEXT, "answer", 1)(0) == 42
    assert compiled_entry(TEXT.replace("42", "43"), "answer", 1)(0) == 43  # no second warning
    executable = compile_program(parse_program(TWICE), {"N": 2})
    np.testing.assert_array_equal(executable.run([np.ones(2)])[0], [2, 2])


def test_a_damaged_record_is_no_harm(cache: Path) -> None:
    program = parse_program(TWICE)
    compile_program(program, {"N": 3})
    path = record_path(program, {"N": 3})
    assert find_record(path) is not None
    path.write_text("{")
    np.testing.assert_array_equal(compile_program(program, {"N": 3}).run([np.ones(3)])[0], [2, 2, 2])
    assert find_record(path) is not None


def test_a_warm_start_imports_no_compiler(cache: Path) -> None:
    code = f"""
import sys
from pullback.ir.parser import parse_program
from pullback.runtime.executor import compile_program
import numpy as np
print(compile_program(parse_program({TWICE!r}), {{"N": 4}}).run([np.ones(4)])[0].sum())
print(any(m.startswith(("pullback.loops", "pullback.codegen", "pullback.passes")) for m in sys.modules))
"""
    def run() -> list[str]:
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                             env={**os.environ, "PYTHONPATH": os.getcwd()})
        return out.stdout.split()

    assert run() == ["8.0", "True"]
    assert run() == ["8.0", "False"]


def test_text_and_keys_are_the_same_in_every_process(cache: Path) -> None:
    code = """
from tests.unit.runtime.programs import CASES
from pullback.ir.parser import parse_program
from pullback.runtime.emit import c_source
from pullback.runtime.record import record_path
for text, dims in CASES.values():
    print(record_path(parse_program(text), dims))
    print(c_source(parse_program(text), dims))
"""
    outputs = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                              env={**os.environ, "PYTHONPATH": os.getcwd(), "PYTHONHASHSEED": seed}).stdout
               for seed in ("1", "2")}
    assert len(outputs) == 1
