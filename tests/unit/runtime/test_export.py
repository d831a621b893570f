"""Exported projects build cleanly everywhere and agree with the interpreter when they check themselves."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.ir.parser import parse_program
from pullback.loops.memory.plan import FEW
from pullback.runtime.export import export
from tests.strict import STRICT
from tests.unit.runtime.programs import CASES

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


def test_plain_projects(tmp_path: Path) -> None:
    @pb.function
    def dense(w: Float64[Array, "K M"], x: Float64[Array, "M"]) -> Array:
        return pb.tanh(w @ x)

    dense.export(tmp_path / "vectors", K=20, M=30)
    dense.export(tmp_path / "plain", K=20, M=30, plain=True)
    texts = [(tmp_path / name / "dense.c").read_text() for name in ("vectors", "plain")]
    assert ["PB_VECTORS" in text for text in texts] == [True, False]
    flags = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror")
    assert "0 numbers differ" in build_and_run(tmp_path / "plain", *flags)


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


WEIGHTS = np.array([0.5, -1.0, 2.0])
FIXED = np.array([1.0, 2.0, 4.0])
FIXED.setflags(write=False)


@pb.function
def scored(x: Float64[Array, "N 3"]):  # type: ignore[no-untyped-def]
    score = x @ WEIGHTS
    return score, pb.sum(x * FIXED), {"largest": pb.max(score)}


def test_the_header_has_the_names_and_shapes_of_the_user(tmp_path: Path) -> None:
    scored.export(tmp_path, N=5)
    header = (tmp_path / "scored.h").read_text()
    assert """
/* Arrays are stored row by row.
   Arguments:
     x        f64[N, 3] = [5, 3]
     WEIGHTS  f64[3]
   Results:
     score    f64[N]    = [5]
     out_1    f64
     largest  f64
   `arena` must be aligned to 64 bytes.
   Returns 0.
*/
int scored(const double *restrict x, const double *restrict WEIGHTS, double *restrict score, double *restrict out_1,
           double *restrict largest, void *restrict arena);
""" in header
    source = (tmp_path / "scored.c").read_text()
    assert "static const double FIXED[3] = {1.0, 2.0, 4.0};" in source
    assert "static const double input1[3] = {0.5, -1.0, 2.0}; /* WEIGHTS */" in (tmp_path / "main.c").read_text()
    assert "0 numbers differ" in build_and_run(tmp_path, *STRICT)
    table = str(scored.memory("fastest", "export", N=5))
    assert re.search(r"constants\n +FIXED", table)
    assert re.search(r"FIXED +f64\[3\] +24 +constant\n", str(scored.memory(None, "export")))
    assert "constant" not in str(scored.memory(N=5))


def test_tables_of_the_library_are_in_its_c(tmp_path: Path) -> None:
    spectrum = pb.function(lambda x: pb.real(pb.fft.fft(x)))
    x = np.linspace(-1.0, 1.0, 22) ** 3  # 11 · 2: an odd stage with tables
    spectrum(x)
    spectrum.export(tmp_path)
    assert "0 numbers differ" in build_and_run(tmp_path, *STRICT)
    prototype = re.search(r"int lambda\(([^)]*)\)", (tmp_path / "lambda.h").read_text())
    assert prototype
    assert re.findall(r"\w+(?=,|$)", prototype[1]) == ["x", "out", "arena"]


def test_constants_of_every_kind(tmp_path: Path) -> None:
    tables = {
        "half": np.array([0.5, 2.0, 1 / 3], np.float16), "flags": np.array([True, False, True]),
        "counts": np.array([1, 2, 2**63], np.uint64), "least": np.array([-(2**31), 2, 3], np.int32),
        "nothing": np.zeros(0), "special": np.array([np.nan, np.inf, -0.0]),
    }  # fmt: skip
    for table in tables.values():
        table.setflags(write=False)
    half, flags, counts, least, nothing, special = (lambda a=a: pb.asarray(a) for a in tables.values())

    @pb.function
    def read(x: Float64[Array, "3"]):  # type: ignore[no-untyped-def]
        numbers = x * half() + pb.where(flags(), x, -x) + special() * x
        return numbers, counts() + 1, least() - 1, pb.sum(nothing())

    read.export(tmp_path)
    assert (tmp_path / "read.c").read_text().count("static const") == len(tables)
    assert "0 numbers differ" in build_and_run(tmp_path, *STRICT)
