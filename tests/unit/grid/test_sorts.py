"""Sorts on devices: NumPy's stable order for all types and sizes, and functions that sort."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64
from numpy.typing import NDArray

import pullback as pb
from benchmarks.devices import run
from pullback import Array
from pullback.codegen.device.dialect import CUDA
from pullback.codegen.device.program import device_program
from pullback.device import H100
from pullback.grid import sorts
from pullback.ir.parser import parse_program
from pullback.loops.program.nodes import kernels_of
from pullback.runtime.device.export import lowered_for
from pullback.runtime.emit import Lowered
from tests.support.devices.plain import reading
from tests.support.devices.threads import built, ran

pytestmark = pytest.mark.slow

needs_compilers = pytest.mark.skipif(not shutil.which("g++") or not shutil.which("gcc"), reason="no gcc and g++")
SIZES = (1, 2, 15, 16, 17, 31, 32, 33, 127, 128, 129, 1000, 1024, 1025, 5003)


def lowered_sort(what: str, dtype: str, rows: int, size: int) -> Lowered:
    text = f"f(x: {dtype}[R, N]) {{ y = {what} r < R, n < N {{ x[r, n] }} return y }}"
    return lowered_for(parse_program(text), {"R": rows, "N": size})


def elements(dtype: str, shape: tuple[int, int], seed: int) -> NDArray[Any]:
    """Random elements, many of them equal, with NaN, infinities and zeros of both signs."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("f"):
        special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.5])
        return np.where(rng.random(shape) < 0.5, rng.choice(special, shape), rng.normal(size=shape)).astype(
            {"f32": np.float32, "f64": np.float64}[dtype])  # fmt: skip
    name = np.dtype({"i": "int", "u": "uint"}[dtype[0]] + dtype[1:])
    info = np.iinfo(name)
    made = np.where(rng.random(shape) < 0.5, rng.integers(0, 9, shape), rng.integers(info.min, info.max, shape, name))
    return made.astype(name)


def sorted_alike(dtypes: Sequence[str], rows: int, size: int) -> None:
    """Sort elements of these types in one program, in both orders of threads; compare with NumPy."""
    inputs = ", ".join(f"x{k}: {dtype}[R, N]" for k, dtype in enumerate(dtypes))
    body = " ".join(f"{what[0]}{k} = {what} r < R, n < N {{ x{k}[r, n] }}"
                    for k in range(len(dtypes)) for what in ("sort", "order"))  # fmt: skip
    results = ", ".join(f"{what}{k}" for k in range(len(dtypes)) for what in "so")
    lowered = lowered_for(parse_program(f"f({inputs}) {{ {body} return {results} }}"), {"R": rows, "N": size})
    xs = [elements(dtype, (rows, size), 7 * size + k) for k, dtype in enumerate(dtypes)]
    one, two = (run(reading(lowered, backward), lowered.function, xs)[0] for backward in (False, True))
    wanted = [f(x, axis=1, kind="stable") for x in xs for f in (np.sort, np.argsort)]
    for a, b, c in zip(one, two, wanted, strict=True):
        assert a.tobytes() == b.tobytes()
        np.testing.assert_array_equal(a, c)
        assert a.dtype.kind != "f" or (np.signbit(a) == np.signbit(c))[a == 0].all()


@pytest.mark.parametrize("size", SIZES)
def test_sizes(size: int) -> None:
    sorted_alike(["f64", "i32"], 3, size)


def test_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """All types are sorted, with tiles so small that several merges follow."""
    monkeypatch.setattr(sorts, "TILE", 64)
    sorted_alike(["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64"], 2, 300)


def test_schedule() -> None:
    def found(size: int) -> list[str]:
        return [str(k.choice) for k in kernels_of(lowered_sort("sort", "f32", 3, size).function.body)]

    assert found(900) == ["sort: grid r 3 | threads n 256 | merge"]
    assert found(2000) == ["sort: part 1 of 2: grid r 3 × tile 2 | threads n 256 | merge "
                           "| part 2 of 2: grid r 3 × n 2000 | threads 128 | merge"]  # fmt: skip


@needs_compilers
@pytest.mark.parametrize("what", ["sort", "order"])
def test_each_barrier_is_needed(what: str, tmp_path: Path) -> None:
    lowered = lowered_sort(what, "f32", 2, 200)
    program = device_program(lowered.function, lowered.memory, CUDA, H100)
    x = elements("f32", (2, 200), 3)
    built(program, lowered.function, tmp_path, "thread")
    assert ran(lowered.function, [x], tmp_path).reports == ""
    barriers = program.kernels.count("__syncthreads();")
    assert barriers == 4
    for k in range(barriers):
        assert "data race" in ran(lowered.function, [x], tmp_path, WITHOUT_BARRIER=str(k)).reports, f"barrier {k}"


@needs_compilers
def test_text_on_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles and merges sort a row without an access out of range."""
    monkeypatch.setattr(sorts, "TILE", 64)
    lowered = lowered_sort("order", "f64", 2, 300)
    x = elements("f64", (2, 300), 5)
    built(device_program(lowered.function, lowered.memory, CUDA, H100), lowered.function, tmp_path, "address")
    found = ran(lowered.function, [x], tmp_path)
    assert (found.status, found.reports) == (0, "")
    np.testing.assert_array_equal(found.results[0], np.argsort(x, axis=1, kind="stable"))


@pb.function
def descending(x: Float64[Array, "N M"]) -> Any:
    return pb.sort(x, axis=0, descending=True), pb.argsort(x, axis=1)


@pb.function
def largest(x: Float64[Array, "N M"]) -> Any:
    return pb.top_k(x, 3)


@pb.function
def shares(x: Float64[Array, "N M"]) -> Any:
    return pb.quantile(x, 0.3, axis=1), pb.median(x)


@pb.function
def weighted(x: Float64[Array, "N M"]) -> Any:
    return pb.sum(pb.sort(x, axis=1)[:, 0] ** 2)


@pytest.mark.parametrize("f", [descending, largest, shares, pb.grad(weighted)], ids=lambda f: f.__name__)
def test_functions_that_sort(f: Callable[..., Any]) -> None:
    """Functions that sort give the values of calls on processors."""
    lowered = lowered_for(*f.for_dims({"N": 5, "M": 70}))  # type: ignore[attr-defined]
    x = np.random.default_rng(2).normal(size=(5, 70))
    wanted = f(x)
    found = run(reading(lowered), lowered.function, [x])[0]
    for a, b in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
