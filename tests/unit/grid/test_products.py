"""Tiled products: each tile, parts of the terms, layouts of operands, and the machine code."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.devices import run
from pullback.codegen.device.dialect import CUDA
from pullback.codegen.device.program import DeviceProgram, device_program
from pullback.device import H100, Device
from pullback.grid import products, table
from pullback.grid.products import TILES
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.loops.plain.builder import Work
from pullback.loops.plain.candidates import Candidate
from pullback.machine import Machine
from pullback.runtime.device.array import aligned, device_put
from pullback.runtime.device.export import lowered_for
from pullback.runtime.emit import Lowered
from tests.support.devices import nvrtc
from tests.support.devices.plain import reading
from tests.support.devices.threads import built, ran

pytestmark = pytest.mark.slow

needs_compilers = pytest.mark.skipif(not shutil.which("g++") or not shutil.which("gcc"), reason="no gcc and g++")
FORMS = {
    "rows": "f(x: f32[M, K], y: f32[K, N]) { z = build m < M, n < N { sum k < K { x[m, k] * y[k, n] } } return z }",
    "turned": "f(x: f32[K, M], y: f32[N, K]) { z = build m < M, n < N { sum k < K { x[k, m] * y[n, k] } } return z }",
    "double": "f(x: f64[M, K], y: f64[K, N]) { z = build m < M, n < N { sum k < K { x[m, k] * y[k, n] } } return z }",
    "layer": """f(x: f32[M, K], y: f32[K, N], b: f32[N]) { z = build m < M, n < N {
      tanh(sum k < K { x[m, k] * y[k, n] } + b[n]) } return z }""",
    "point": """f(x: f32[B, C, H, W], y: f32[O, C]) { z = build b < B, o < O, h < H, w < W {
      sum c < C { x[b, c, h, w] * y[o, c] } } return z }""",
    "window": """f(x: f32[B, C, H, W], y: f32[O, C, U, V]) { z = build b < B, o < O, h < H, w < W {
      sum c < C, u < U, v < V { [H >= h + u, W >= w + v, h + u >= 1, w + v >= 1]
        x[b, c, h + u - 1, w + v - 1] * y[o, c, u, v] } } return z }""",
    "weights": """f(x: f32[B, C, H, W], y: f32[B, O, H, W]) { z = build o < O, c < C, u < 3, v < 3 {
      sum b < B, h < H, w < W { [H >= h + u, W >= w + v, h + u >= 1, w + v >= 1]
        x[b, c, h + u - 1, w + v - 1] * y[b, o, h, w] } } return z }""",
}  # fmt: skip
ODD, EVEN = {"M": 33, "K": 50, "N": 19}, {"M": 132, "K": 72, "N": 140}
IMAGE = {"B": 2, "C": 8, "H": 8, "W": 12, "O": 19, "U": 3, "V": 3}


def tiled(form: str, dims: Mapping[str, int], monkeypatch: pytest.MonkeyPatch, tile: int, parts: int = 1) -> Lowered:
    """A program with this tile."""

    def plain(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
        yield from (replace(c, cycles=c.cycles + 1e12) for c in table.elements(work, machine, device))

    def plans(shape: Any, *_: Any) -> Iterator[Any]:
        panels = -(-shape.terms // TILES[tile].depth)
        yield products._Plan(TILES[tile], parts, -(-panels // parts))

    monkeypatch.setattr(products, "_plans", plans)
    monkeypatch.setattr(table, "STRATEGIES", (products.products, plain))
    made = parse_program(FORMS[form])
    names = set(re.findall(r"\b[A-Z]\b", FORMS[form]))
    return lowered_for(made, {k: n for k, n in dims.items() if k in names})


def text_of(lowered: Lowered) -> DeviceProgram:
    return device_program(lowered.function, lowered.memory, CUDA, H100)


def inputs_of(lowered: Lowered) -> list[Any]:
    rng = np.random.default_rng(1)
    return [rng.normal(size=[i.constant or 0 for i in b.shape]).astype(b.dtype.numpy) for b in lowered.function.given]


CASES = [
    *(("rows", dims, tile, 1) for dims in (ODD, EVEN) for tile in range(len(TILES))),
    ("turned", ODD, 1, 1), ("turned", EVEN, 2, 1), ("double", ODD, 1, 1), ("double", EVEN, 3, 1), ("layer", EVEN, 3, 1),
    ("rows", {"M": 40, "K": 300, "N": 24}, 1, 3), ("layer", {"M": 40, "K": 300, "N": 24}, 3, 4),
    ("point", IMAGE, 3, 1), ("window", IMAGE, 1, 1), ("window", IMAGE, 5, 2), ("weights", IMAGE, 1, 2)]  # fmt: skip


@pytest.mark.parametrize(("form", "dims", "tile", "parts"), CASES)
def test_tiles(form: str, dims: Mapping[str, int], tile: int, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tile gives the interpreter's values, with the same bits in both orders of groups and threads."""
    lowered = tiled(form, dims, monkeypatch, tile, parts)
    inputs = inputs_of(lowered)
    assert any("product" in str(k.choice) for k in _kernels(lowered))
    one, two = (run(reading(lowered, backward), lowered.function, inputs)[0] for backward in (False, True))
    assert [a.tobytes() for a in one] == [a.tobytes() for a in two]
    for a, b in zip(one, interpret(parse_program(FORMS[form]), inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def _kernels(lowered: Lowered) -> list[Any]:
    return [s.kernel for s in lowered.function.body if hasattr(s, "kernel")]


@needs_compilers
@pytest.mark.parametrize(("form", "dims", "tile", "parts"), [
    ("rows", {"M": 64, "K": 96, "N": 36}, 1, 1), ("turned", {"M": 20, "K": 40, "N": 36}, 3, 1),
    ("window", IMAGE, 3, 1), ("rows", {"M": 36, "K": 260, "N": 36}, 3, 3)])  # fmt: skip
def test_text_on_threads(form: str, dims: Mapping[str, int], tile: int, parts: int, tmp_path: Path,
                         monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """The text of CUDA gives the interpreter's values, and touches no memory beside its arrays."""
    lowered = tiled(form, dims, monkeypatch, tile, parts)
    inputs, made = inputs_of(lowered), text_of(lowered)
    built(made, lowered.function, tmp_path, "address")
    found = ran(lowered.function, inputs, tmp_path)
    assert (found.status, found.reports) == (0, "")
    (wanted,) = interpret(parse_program(FORMS[form]), inputs)
    np.testing.assert_allclose(found.results[0], wanted, rtol=1e-4, atol=1e-5)


@needs_compilers
@pytest.mark.parametrize("panels", [1, 2, 3, 4])
def test_each_barrier_is_needed(panels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both halves of the panels are guarded, whatever the number of panels: one barrier for each panel."""
    lowered = tiled("rows", {"M": 16, "K": 16 * panels, "N": 16}, monkeypatch, len(TILES) - 1)
    inputs, made = inputs_of(lowered), text_of(lowered)
    count = made.kernels.count(CUDA.meet)
    assert count == {1: 1, 2: 2, 3: 3, 4: 4}[panels]
    built(made, lowered.function, tmp_path, "thread")
    assert ran(lowered.function, inputs, tmp_path).reports == ""
    for k in range(count):
        assert "data race" in ran(lowered.function, inputs, tmp_path, WITHOUT_BARRIER=str(k)).reports, f"barrier {k}"


def test_wide_accesses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements are loaded and stored by fours where sizes are multiples of four, and one by one elsewhere."""
    even = text_of(tiled("rows", EVEN, monkeypatch, 1))
    odd = text_of(tiled("rows", ODD, monkeypatch, 1))
    double = text_of(tiled("double", EVEN, monkeypatch, 1))
    for text in ("&x[", "&y[", "&z["):
        assert f"pb_wide<4>({text}" in even.kernels or f"], {text}" in even.kernels
        assert text not in odd.kernels
    assert "pb_wide<2>(&x_next" in double.kernels
    assert (even.start, odd.start, double.start) == (16, 1, 16)
    assert "% 16) return NOT_ALIGNED;" in even.host
    assert "NOT_ALIGNED;" not in odd.host
    assert "Arrays begin at multiples of 16 bytes; otherwise it returns -1005." in even.header


@pytest.mark.usefixtures("devices")
def test_arrays_that_begin_elsewhere() -> None:
    """The array of another library is copied if it begins at no multiple of 16 bytes."""
    x = device_put(np.arange(8.0))
    assert aligned(x, 16) is x
    shifted = type(x)(x.gpu, (7,), x.storage, x.memory, x.at + 8)
    made = aligned(shifted, 16)
    assert made.at % 16 == 0
    assert made.numpy().tolist() == list(range(1, 8))
    assert aligned(shifted, 8) is shifted


def disassembler() -> Path | None:
    """NVIDIA's disassembler in its wheel, or of a toolkit; None where it is not installed."""
    spec = find_spec("nvidia")
    folders = [Path(p) for p in (spec.submodule_search_locations or [])] if spec else []
    found = [f for folder in folders for f in folder.glob("*/bin/nvdisasm")]
    known = shutil.which("nvdisasm")
    return Path(known) if known else found[0] if found else None


@pytest.mark.skipif(nvrtc.loaded() is None or disassembler() is None, reason=f"no nvdisasm, or {nvrtc.MISSING}")
@pytest.mark.parametrize(("tile", "share"), [(0, 0.91), (1, 0.88), (2, 0.88), (3, 0.82), (4, 0.83)])
def test_machine_code(tile: int, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the innermost loop this share of the instructions multiplies; all loads of memory have 16 bytes."""
    made = text_of(tiled("rows", {"M": 1024, "K": 1024, "N": 1024}, monkeypatch, tile))
    cubin, resources = nvrtc.compiled(made.kernels)
    assert all(r.spills == r.stack == 0 for r in resources.values()), resources
    (tmp_path / "cubin").write_bytes(cubin)
    command = [str(disassembler()), "-c", "cubin"]
    text = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    lines = re.findall(r"(\.L_\w+):|/\*[0-9a-f]{4,}\*/\s+(?:@!?\w+ )?([A-Z][\w.]+)([^;]*);", text)
    loops = []
    for k, (_, word, rest) in enumerate(lines):
        target = re.search(r"\((\.L_\w+)\)", rest)
        starts = [n for n, (label, _, _) in enumerate(lines[:k]) if target and label == target[1]]
        if word == "BRA" and starts:
            loops.append(Counter(w for _, w, _ in lines[starts[0] : k + 1] if w))
    loop = max(loops, key=lambda c: c["FFMA"])
    assert loop["FFMA"] >= share * loop.total()
    assert {w for _, w, _ in lines if w.startswith(("LDG", "STG"))} == {"LDG.E.128.CONSTANT", "STG.E.128"}
