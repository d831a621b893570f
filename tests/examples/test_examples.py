"""Every example runs, and its C is clean: strict C99, no allocation, no complaint of the sanitisers, right numbers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pullback as pb
from pullback.cli.options import import_file, traced_functions
from pullback.nn.models import lenet_by_hand, zhang, zhang_batches, zhang_by_hand
from tests.strict import STRICT

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
COMPILER = next((path for path in map(shutil.which, ("cc", "gcc", "clang")) if path), None)

DIMS: dict[str, dict[str, int]] = {
    "convolution.convolve": {"C": 2, "H": 9, "W": 8, "O": 3, "P": 3, "Q": 2},
    "convolution.energy": {"C": 2, "H": 9, "W": 8, "O": 3, "P": 3, "Q": 2},
    "dense.dense": {"N": 5, "M": 17, "K": 3},
    "dense.loss": {"N": 5, "M": 17, "K": 3},
    "descent.fit": {"N": 20, "M": 3, "S": 10},
    "descent.loss": {"N": 20, "M": 3},
    "gaussian_process.log_likelihood": {"N": 6, "D": 2},
    "gaussian_process.predict": {"N": 6, "D": 2, "M": 3},
    "heat.spread": {"H": 5, "W": 7, "T": 4},
    "mixture.log_likelihood": {"N": 11, "D": 3, "K": 2},
    "zhang_verbs.digit": {},
    "zhang_verbs.gradient": {},
    "zhang_verbs.layers": {},
    "zhang_verbs.loss": {},
}


def functions() -> dict[str, tuple[Any, dict[str, int]]]:
    """Every traced function of the examples, the gradients of those that have one, and the networks."""
    found: dict[str, tuple[Any, dict[str, int]]] = {}
    for path in EXAMPLES:
        for name, function in traced_functions(import_file(path)).items():
            full = f"{path.stem}.{name}"
            found[full] = function, DIMS[full]
            if name in ("loss", "energy", "log_likelihood"):
                found[f"{full} gradient"] = pb.value_and_grad(function, wrt=0), DIMS[full]
    found["zhang.train"] = zhang.train, {"N": 2}
    found["zhang_batches.train_batches"] = zhang_batches.train_batches, {"S": 2, "B": 2}
    found["zhang.recognize"] = zhang.recognize, {"N": 3}
    found["zhang_by_hand.gradient"] = zhang_by_hand.gradient, {}
    found["lenet.loss gradient"] = pb.value_and_grad(lenet_by_hand.loss, wrt="parameters"), {"N": 2}
    return found


FUNCTIONS = functions()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "nan" not in done.stdout


def compile_and_run(folder: Path, *flags: str) -> None:
    """Compile every C file of a folder into one program and run it."""
    assert COMPILER is not None
    program = folder / "program"
    sources = [str(path) for path in sorted(folder.glob("*.c"))]
    for command in ([COMPILER, *flags, *sources, "-lm", "-o", str(program)], [str(program)]):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


@pytest.mark.skipif(COMPILER is None, reason="no C compiler installed")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_x06_its_c_is_clean(name: str, tmp_path: Path) -> None:
    function, dims = FUNCTIONS[name]
    function.export(tmp_path, **dims)
    for path in tmp_path.glob("*.c"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\b(malloc|calloc|realloc|alloca|free)\b", text), path.name
    compile_and_run(tmp_path, *STRICT, "-Og", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="no C compiler installed")
@pytest.mark.parametrize("name", ["dense.dense", "zhang.train"])
def test_its_c_is_portable_and_fast_flags_agree(name: str, tmp_path: Path) -> None:
    """Without vector extensions, and with the flags of a build for this machine."""
    function, dims = FUNCTIONS[name]
    function.export(tmp_path, **dims)
    compile_and_run(tmp_path, *STRICT, "-O1", "-DPB_NO_VECTORS")
    compile_and_run(tmp_path, "-std=gnu99", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno")
