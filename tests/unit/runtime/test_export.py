"""Exported projects build cleanly everywhere and agree with the interpreter when they check themselves."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64, Int32, Int64

import pullback as pb
from pullback import Array
from pullback.errors import ShapeError
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


Numbers = Float64[Array, "N"]
Square = Float64[Array, "N N"]


@pb.function
def logarithms(x: Numbers, y: Numbers) -> Any:
    return pb.log(x) + pb.sqrt(-y)


@pb.function
def odds(p: Numbers) -> Any:
    return pb.log(p) - pb.log(1 - p)


@pb.function
def likelihood(covariance: Square, x: Numbers) -> Any:
    factor = pb.linalg.cholesky(covariance)
    return pb.sum(pb.linalg.solve(covariance, x) * x) + pb.sum_over(x.shape[0], lambda n: pb.log(factor[n, n]))


@pb.function
def from_one(x: Numbers, j: Int32[Array, "K"], k: Int64[Array, ""]) -> Any:
    return pb.build(j.shape[0], lambda i: x[j[i] - 1] * x[k])


@pb.function
def permuted(x: Numbers) -> Any:
    order = pb.asarray(np.array([6, 0, 5]))
    return pb.build(3, lambda i: x[order[i]])


@pytest.mark.parametrize("function", [logarithms, odds, likelihood, from_one, permuted], ids=lambda f: f.name)
def test_the_example_is_in_the_domain(function: pb.Function, tmp_path: Path) -> None:
    function.export(tmp_path, **{n: v for n, v in {"N": 7, "K": 3}.items() if f"{n}" in function.type})
    assert "0 numbers differ" in build_and_run(tmp_path, *STRICT)
    main = (tmp_path / "main.c").read_text()
    assert "NAN" not in main
    assert "INFINITY" not in main
    assert "wanted0" in main


def test_the_example_is_what_the_caller_says(tmp_path: Path) -> None:
    given = np.arange(1.0, 4.0), np.full(3, -4.0)
    for dims in {"N": 3}, {}:
        logarithms.export(tmp_path, example=given, **dims)
        assert "static const double input1[3] = {-4.0, -4.0, -4.0}; /* y */" in (tmp_path / "main.c").read_text()
        assert "0 numbers differ" in build_and_run(tmp_path, *STRICT)
    with pytest.raises(ShapeError) as error:
        logarithms.export(tmp_path, example=given, N=4)
    assert str(error.value) == """\
ShapeError [E111] x has shape (3,), not (4,)
  See docs/reference/errors.md#E111"""


def test_results_that_a_rounding_changes_are_not_compared(tmp_path: Path) -> None:
    @pb.function
    def chaos(x: Numbers) -> Any:
        return pb.fold(500, x, lambda a, _: 4 * a * (1 - a)), x

    chaos.export(tmp_path, example=(np.full(2, 0.3),))
    assert "is not compared: small changes" in (tmp_path / "main.c").read_text()
    assert "0 numbers differ" in build_and_run(tmp_path, *STRICT)


NAMES = (
    "status wrong mixed close_to memory input0 output0 position0 wanted0 gamma y0 jn erf erff exp expf time div abs "
    "remove printf select environ std main errno signgam I NAN int restrict class nullptr not_eq wchar_t div_t va_list "
    "math stdio example test int8 pb_max PB_VECTORS Math arena fault got i"
)


def export_named(name: str, folder: Path) -> str:
    """Export a function whose argument and result have its name, too; the name of the header."""
    head = f"{name}({name}: f64[N], other: f64[N])"
    text = f"{head} {{ {name}2 = build n < N {{ exp({name}[n]) + other[n] }} return {name}2 }}"
    return Path(export(parse_program(text), {"N": 5}, folder)["files"][0]).name


@pytest.mark.parametrize("name", NAMES.split())
def test_any_name_will_do(name: str, tmp_path: Path) -> None:
    export_named(name, tmp_path)
    assert "0 numbers differ" in build_and_run(tmp_path, *STRICT)


def test_any_name_will_do_in_cpp(tmp_path: Path) -> None:
    """After what a program is likely to include besides."""
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    headers = "cmath", "complex", "cstdio", "cstdlib", "ctime", "string", "unistd.h"
    own = [f'"{name}/{export_named(name, tmp_path / name)}"' for name in NAMES.split()]
    uses = [*(f"<{h}>" for h in headers), *own]
    (tmp_path / "use.cpp").write_text("".join(f"#include {u}\n" for u in uses) + "int main() { return 0; }\n")
    subprocess.run(["c++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "use.cpp"], check=True, cwd=tmp_path)


def test_the_header_is_fit_for_cpp(tmp_path: Path) -> None:
    text, dims = CASES["dense"]
    export(parse_program(text), dims, tmp_path)
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    (tmp_path / "use.cpp").write_text('#include "dense.h"\nint main() { return 0; }\n')
    subprocess.run(["c++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "use.cpp"], check=True, cwd=tmp_path)
