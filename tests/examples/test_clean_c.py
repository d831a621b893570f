"""The C of every example program, for its dims and for all, passes the strictest checks, with vectors and without."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from benchmarks import kernels
from benchmarks.systems import kernels_pullback
from pullback.cli.options import import_file, traced_functions
from pullback.codegen.c.names import Style
from pullback.errors import CompilerError, PullbackError
from pullback.ir.dims import solve_dims
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.runtime.emit import c_source
from tests.examples.test_examples import COMPILER, FUNCTIONS, ROOT, STRICT
from tests.laws.test_sizes import PROGRAMS, some_dims

pytestmark = pytest.mark.slow

# What gcc does not see, such as sums that nothing reads, clang does; it is asked where it is installed.
CLANG = [path for path in map(shutil.which, ("clang", "clang-19")) if path and path != COMPILER][:1]
NIGHTLY = bool(os.environ.get("PULLBACK_NIGHTLY"))
STYLES: tuple[Style, ...] = ("user", "canonical")
GRADBENCH = [p for p in sorted((ROOT / "examples" / "gradbench").glob("*.py")) if p.stem != "steepest"]  # a part of two


def gradbench(path: Path) -> Iterator[tuple[str, Program]]:
    """The functions of a file whose annotations say enough, and the gradients of those that have one."""
    module = import_file(path)
    functions = traced_functions(module) or {"determinant": module.determinant(5)}
    for name, function in functions.items():
        for kind, made in (("", function), (" gradient", pb.grad(function))):
            try:
                yield name + kind, made.program()
            except PullbackError:
                continue


def sources(program: Program) -> Iterator[str]:
    """The C for some dims, and that for all sizes where there is any."""
    dims = some_dims(program, np.random.default_rng(0), 1)
    yield c_source(program, dims[0] if dims else {})
    if dims:
        try:
            yield c_source(program, {})
        except CompilerError as error:
            assert error.code == "E262"  # it has a memory limit


def check(texts: dict[str, str], folder: Path, clang: bool = NIGHTLY) -> None:
    assert COMPILER is not None
    for k, (name, text) in enumerate(texts.items()):
        (folder / f"program{k}.c").write_text(f"/* {name} */\n{text}", encoding="utf-8")
    files = sorted(path.name for path in folder.glob("*.c"))
    for compiler in (COMPILER, *(CLANG if clang else [])):
        for flags in ((), ("-DPB_NO_VECTORS",)):
            done = subprocess.run([compiler, *STRICT, *flags, "-fsyntax-only", *files], cwd=folder, capture_output=True,
                                  text=True, check=False)  # fmt: skip
            assert done.returncode == 0, done.stderr[:4000]


@pytest.mark.skipif(COMPILER is None, reason="no C compiler installed")
def test_examples(tmp_path: Path) -> None:
    texts = {name: c_source(function.program(), dims) for name, (function, dims) in FUNCTIONS.items()}
    texts |= {f"{n} general": c_source(f.program(), {}) for n, (f, dims) in FUNCTIONS.items() if dims}
    check(texts, tmp_path)


@pytest.mark.skipif(COMPILER is None, reason="no C compiler installed")
@pytest.mark.parametrize("path", GRADBENCH, ids=lambda path: path.stem)
def test_gradbench(path: Path, tmp_path: Path) -> None:
    texts = {f"{name} {k}": text for name, program in gradbench(path) for k, text in enumerate(sources(program))}
    assert texts
    check(texts, tmp_path)


@pytest.mark.skipif(COMPILER is None, reason="no C compiler installed")
def test_programs(tmp_path: Path) -> None:
    programs = {name: parse_program(text) for name, text in PROGRAMS.items()}
    check({f"{n} {k}": text for n, p in programs.items() for k, text in enumerate(sources(p))}, tmp_path)


@pytest.mark.skipif(COMPILER is None, reason="no C compiler installed")
def test_layers(tmp_path: Path) -> None:
    """Functions of one statement: their kernel stands in the function itself."""
    texts = {}
    for case in kernels.CASES:
        if case.name.startswith(("zhang", "lenet", "product-16x64", "exp")):
            function = kernels_pullback.function(case)
            _, traced, arrays, sizes = function.arrays_of(case.make())
            dims = solve_dims(traced.program, [a.shape for a in arrays], sizes)
            texts |= {f"{case.name} {names}": c_source(traced.program, dims, names=names) for names in STYLES}
    check(texts, tmp_path)


# Rows and lanes that are left of a tile, of all kinds.
TILES = [(33, 20, 0), (7, 20, 0), (33, 20, 6), (5, 3, 40), (17, 33, 5), (3, 4, 5), (1, 9, 20)]


@pytest.mark.skipif(COMPILER is None, reason="no C compiler installed")
def test_tiles(tmp_path: Path) -> None:
    """Values made of a sum are computed beside it: the rest of a tile had sums that nothing read."""
    random = np.random.default_rng(0)
    drawn = [(*random.integers(1, 40, 2).tolist(), int(k % 3 and random.integers(1, 40))) for k in range(300)]
    texts = {}
    for rows, steps, columns in TILES + (drawn if NIGHTLY else []):
        x, w = np.zeros((rows, steps), np.float32), np.zeros((steps, columns) if columns else steps, np.float32)
        f = pb.grad(lambda x, w: pb.sum(pb.tanh(x @ w) ** 2), wrt=(0, 1))
        texts[f"{rows} {steps} {columns}"] = text = c_source(f.program(x, w), {})
        assert text.count("tanhf(total") == 0 or "tanhf(sum)" not in text.partition("#else")[0]
    check(texts, tmp_path, clang=True)


BETWEEN: dict[str, tuple[str, str, Callable[[Any, Any], Any]]] = {
    **{f"{n}{k}": (k, k, f) for k in "fius" for n, f in {
        "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}.items()},
    **{f"{n}{k}": (k, "b", f) for k in "fius" for n, f in {
        "<": lambda a, b: a < b, ">=": lambda a, b: a >= b, "==": lambda a, b: a == b}.items()},
    **{f"{n}{k}": (k, k, f) for k in "iu" for n, f in {
        "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "<<": lambda a, b: a << b,
        ">>": lambda a, b: a >> b, "%": lambda a, b: a % b}.items()},
    "/": ("f", "f", lambda a, b: a / b), "and": ("b", "b", pb.logical_and), "or": ("b", "b", pb.logical_or),
    "xor": ("b", "b", pb.logical_xor), "same": ("b", "b", lambda a, b: a == b),
}  # fmt: skip
KINDS = {"f": np.float64, "i": np.int64, "u": np.uint32, "s": np.int16, "b": np.bool_}


@pytest.mark.skipif(COMPILER is None, reason="no C compiler installed")
def test_operators_within_operators(tmp_path: Path) -> None:
    """Each operator within each other, on both sides: with parentheses where compilers want them."""

    def every(x: Any, y: Any, z: Any) -> Any:
        found = []
        for (takes, _, outer), (given, gives, inner) in itertools.product(BETWEEN.values(), repeat=2):
            if gives == takes:
                part = inner(x[given], y[given])
                found += [outer(part, z[takes]), outer(z[takes], part), outer(part, inner(y[given], z[given]))]
        return tuple(found)

    arrays = {k: np.zeros(3, dtype) for k, dtype in KINDS.items()}
    program = pb.function(every).program(arrays, arrays, arrays)
    check({f"operators {plain}": c_source(program, {}, plain=plain) for plain in (False, True)}, tmp_path, clang=True)
