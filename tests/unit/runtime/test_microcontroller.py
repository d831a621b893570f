"""C for small machines: one header, one source, plain text, arrays in it, and its arena where asked for."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32, Float64

import pullback as pb
from pullback import Array
from pullback.cli.main import main
from pullback.codegen.c.vectors.text import views
from pullback.errors import CompilerError
from tests.support.targets.toolchains import STRICT

WEIGHTS = np.random.default_rng(0).normal(size=(4, 9)).astype(np.float32)
WEIGHTS.setflags(write=False)


@pb.function
def layers(x: Float32[Array, "9"]) -> Any:
    w = pb.asarray(WEIGHTS)
    h = pb.build(4, lambda k: pb.exp(pb.sum_over(9, lambda n: w[k, n] * x[n])))
    return pb.build(4, lambda k: h[k] / pb.sum_over(4, lambda j: h[j]))


@pb.function
def doubles(x: Float64[Array, "N"]) -> Any:
    return 2 * x


def test_static_arena(tmp_path: Path) -> None:
    made = layers.export_microcontroller(tmp_path, arena="static", float_only=True)
    assert [Path(f).name for f in made["files"]] == ["layers.h", "layers.c"]
    assert made["const_bytes"] == WEIGHTS.nbytes
    text = (tmp_path / "layers.c").read_text()
    assert "PB_VECTORS" not in text and "printf" not in text and "double" not in text
    if not shutil.which("gcc"):
        pytest.skip("no gcc")
    library = tmp_path / "layers.so"
    command = ["gcc", "-O1", *STRICT, "-Wdouble-promotion", "-shared", "-fPIC", str(tmp_path / "layers.c")]
    subprocess.run([*command, "-o", str(library), "-lm"], check=True)
    x, found = np.linspace(-1, 1, 9, dtype=np.float32), np.empty(4, np.float32)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, found)]
    assert ctypes.CDLL(str(library)).layers_run(*pointers) == 0
    h = np.exp(WEIGHTS.astype(np.float64) @ x)
    np.testing.assert_allclose(found, h / h.sum(), rtol=1e-6)


def test_what_does_not_fit() -> None:
    with pytest.raises(CompilerError, match=r"(?s)E414\] doubles: sizes are open: N\n.*try: give them: N=…"):
        doubles.export_microcontroller("unused")
    with pytest.raises(CompilerError, match=r"(?s)E414\] doubles: it computes in double precision.*x is f64"):
        doubles.export_microcontroller("unused", float_only=True, N=3)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sizes.py"
    file.write_text(
        "import pullback as pb\nfrom pullback import Array\nfrom jaxtyping import Float32\n\n"
        '@pb.function\ndef twice(x: Float32[Array, "N"]):\n    return 2 * x\n'
    )
    words = ["export", f"{file}:twice", "--microcontroller", "--out", str(tmp_path / "c"), "--float-only"]
    assert main([*words, "--dim", "N=3"]) == 0
    assert "arena: 0 bytes; constants: 0 bytes" in capsys.readouterr().out
    assert sorted(f.name for f in (tmp_path / "c").iterdir()) == ["twice.c", "twice.h"]


def test_views_of_conditions_inside() -> None:
    text = "a\n#ifdef PB_VECTORS\n#if X\nb\n#else\nc\n#endif\n#else\nd\n#endif\ne"
    assert views(text) == ("a\n#if X\nb\n#else\nc\n#endif\ne", "a\nd\ne")
