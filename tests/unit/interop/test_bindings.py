"""Bindings for other languages: each is compiled where its compiler is, and gives the bits that Python gives."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32, Float64, Int64

import pullback as pb
from pullback import Array
from pullback.codegen.c.build import ROUNDING
from pullback.errors import TraceError, UsageError
from pullback.interop.bindings import LANGUAGES, bind, build

NEEDED = {"cpp": ["c++", "cc"], "rust": ["cargo", "cc", "ar"], "julia": ["julia", "cc"], "python": ["cc"]}


@pb.function
def mix(x: Float64[Array, "N 3"], w: Float32[Array, "3"], type: Int64[Array, "2"], k: float):
    """A result of each kind, and an index that is checked."""
    y = pb.tanh(x) * pb.astype(w, pb.float64) * k
    return y, pb.build(2, lambda i: x[type[i], 0] ** 2), pb.sum(x) > 0.0


@pb.function
def names(data: Float64[Array, "2"], names: Float64[Array, "2"], new: Float64[Array, "2"], new_: Float64[Array, "2"]):
    """Names that the texts use themselves, a word of C++, and what it would be called instead; the result is `out`."""
    return data - names * new + new_


def dot(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    """A single sum; some processors would round its products."""
    return pb.sum(x * y)


def exact_dot() -> pb.Function:
    """Return the sum as an exact function, whose products are not fused."""
    with pb.exact():
        return pb.function(dot)


rng = np.random.default_rng(0)
CASES: dict[str, tuple[Any, dict[str, int], tuple[Any, ...]]] = {
    "mix": (mix, {"N": 4}, (rng.normal(size=(4, 3)), rng.normal(size=3).astype(np.float32), np.array([3, 1]), 1.5)),
    "names": (names, {}, tuple(rng.normal(size=(4, 2)))),
    "dot": (exact_dot(), {"N": 1001}, tuple(rng.normal(size=(2, 1001)))),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_same_bits_from_every_language(
    language: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULLBACK_MACHINE", "generic")  # calls run the C that is exported
    f, dims, arguments = CASES[name]
    if extra := os.environ.get("CARGO_HOME", str(Path.home() / ".cargo")):
        monkeypatch.setenv("PATH", os.environ["PATH"] + os.pathsep + str(Path(extra) / "bin"))
    if missing := [tool for tool in NEEDED[language] if shutil.which(tool) is None]:
        pytest.skip(f"{missing[0]} is not there")
    bind(f, language, tmp_path, **dims)
    command = build(language, tmp_path, name)
    (tmp_path / "in").write_bytes(b"".join(np.ascontiguousarray(a).tobytes() for a in arguments))
    subprocess.run([*command, str(tmp_path / "in"), str(tmp_path / "out")], check=True, cwd=tmp_path)
    found = f(*arguments)
    wanted = found if isinstance(found, tuple) else (found,)
    assert (tmp_path / "out").read_bytes() == b"".join(np.asarray(a).tobytes() for a in wanted)


def test_texts_say_what_the_function_takes(tmp_path: Path) -> None:
    for language in LANGUAGES:
        bind(mix, language, tmp_path / language, N=4)
    cpp = (tmp_path / "cpp" / "mix.hpp").read_text()
    assert "std::span<const double, 12> x, std::span<const float, 3> w, std::span<const int64_t, 2> type_" in cpp
    rust = (tmp_path / "rust" / "src" / "lib.rs").read_text()
    assert "pub fn mix(x: &[f64; 12], w: &[f32; 3], type_: &[i64; 2], k: &[f64; 1], y: &mut [f64; 12]" in rust
    julia = (tmp_path / "julia" / "mix.jl").read_text()
    assert "x::DenseArray{Float64}, w::DenseArray{Float32}, type_::DenseArray{Int64}" in julia
    words = re.findall(r"\b(module|function|end)\b", re.sub(r'""".*?"""', "", julia, flags=re.DOTALL))
    assert words == ["module", "function", "end", "end"]
    assert julia.count("(") == julia.count(")") and julia.count("{") == julia.count("}")


def test_wrong_sizes_do_not_compile(tmp_path: Path) -> None:
    if shutil.which("c++") is None:
        pytest.skip("c++ is not there")
    bind(mix, "cpp", tmp_path, N=4)
    text = (tmp_path / "example.cpp").read_text().replace("std::array<double, 12> x;", "std::array<double, 11> x;")
    (tmp_path / "example.cpp").write_text(text)
    done: Any = subprocess.run(["c++", "-std=c++20", "-fsyntax-only", "example.cpp"], cwd=tmp_path, capture_output=True)
    assert done.returncode


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"\[E611\] there is no binding for cobol"):
        bind(mix, "cobol", tmp_path, N=4)
    with pytest.raises(TraceError, match=r"\[E531\] mix: a binding is for fixed sizes"):
        bind(mix, "rust", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"\[E611\] a binding for rust is built by cargo, which is not there"):
        build("rust", tmp_path, "mix")


@pytest.mark.parametrize("exact", [False, True])
def test_all_texts_have_the_flags_of_calls(exact: bool, tmp_path: Path) -> None:
    """All build files fix the rounding of single sums, and forbid fused products in exact functions."""
    f = exact_dot() if exact else pb.function(dot)
    has, lacks = ("-ffp-contract=off", ROUNDING) if exact else (ROUNDING, "-ffp-contract")
    f.export(tmp_path, N=3)
    bind(f, "rust", tmp_path, N=3)
    bind(f, "python", tmp_path, N=3)
    for file in ("dot.h", "CMakeLists.txt", "build.rs", "dot.py"):
        text = (tmp_path / file).read_text()
        assert has in text, file
        assert lacks not in text, file
