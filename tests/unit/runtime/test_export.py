"""Exported projects build cleanly everywhere and agree with the interpreter when they check themselves."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pullback.ir.parser import parse_program
from pullback.loops.memory import FEW
from pullback.runtime.export import export
from tests.unit.runtime.programs import CASES

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
SANITISED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def build_and_run(folder: Path, *flags: str) -> str:
    program = folder / "example"
    sources = [str(p) for p in sorted(folder.glob("*.c"))]
    subprocess.run(["cc", *flags, *sources, "-o", str(program), "-lm"], check=True, timeout=120)
    result = subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("name", CASES)
def test_strict_and_sanitised(name: str, tmp_path: Path) -> None:
    text, dims = CASES[name]
    result = export(parse_program(text), dims, tmp_path)
    assert {Path(f).name for f in result["files"]} == {f"{name}.h", f"{name}.c", "CMakeLists.txt", "main.c"}
    assert "0 numbers differ" in build_and_run(tmp_path, *STRICT, *SANITISED)
    source = (tmp_path / f"{name}.c").read_text()
    assert "malloc" not in source
    arrays = re.findall(r"^\s+(?:bool|float|double|u?int\d+_t) \w+\[(\d+)\];", source, re.MULTILINE)
    assert all(int(n) <= FEW for n in arrays), "a large array on the stack"


@pytest.mark.parametrize("name", ["dense", "strided", "descent", "packed"])
def test_without_vector_extensions(name: str, tmp_path: Path) -> None:
    text, dims = CASES[name]
    export(parse_program(text), dims, tmp_path)
    assert "0 numbers differ" in build_and_run(tmp_path, "-std=c99", "-DPB_NO_VECTORS")


def test_the_line_in_the_header_and_cmake(tmp_path: Path) -> None:
    text, dims = CASES["dense"]
    result = export(parse_program(text), dims, tmp_path)
    header = (tmp_path / "dense.h").read_text()
    match = re.search(r"(cc .*)", header)
    assert match
    subprocess.run(match[1], shell=True, check=True, cwd=tmp_path, timeout=120)
    assert "0 numbers" in subprocess.run([tmp_path / "example"], capture_output=True, text=True, check=True).stdout
    assert f"#define DENSE_ARENA_BYTES {result['peak_bytes']}\n" in header
    if shutil.which("cmake"):
        build = tmp_path / "build"
        quiet = {"check": True, "capture_output": True, "timeout": 120}
        subprocess.run(["cmake", "-S", tmp_path, "-B", build], **quiet)
        subprocess.run(["cmake", "--build", build], **quiet)
        subprocess.run([build / "example"], **quiet)


def test_reference_inputs_and_failures_are_in_the_example(tmp_path: Path) -> None:
    text, dims = CASES["gathered"]
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    j = np.array([4, 0, 1, 1, 2, 3, 4], np.int32)
    export(parse_program(text), dims, tmp_path, [x, j, np.ones(7, np.float32)])
    assert "{4, 0, 1, 1, 2, 3, 4}" in (tmp_path / "main.c").read_text()
    build_and_run(tmp_path, *STRICT)
    assert "an index left the range of x" in (tmp_path / "gathered.h").read_text()
    (tmp_path / "main.c").write_text((tmp_path / "main.c").read_text().replace("{4, 0, 1,", "{5, 0, 1,"))
    with pytest.raises(AssertionError, match="range check 1 failed"):
        build_and_run(tmp_path, *STRICT)


def test_the_header_is_fit_for_cpp(tmp_path: Path) -> None:
    text, dims = CASES["dense"]
    export(parse_program(text), dims, tmp_path)
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    (tmp_path / "use.cpp").write_text('#include "dense.h"\nint main() { return 0; }\n')
    subprocess.run(["c++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "use.cpp"], check=True, cwd=tmp_path)
