"""Products on tensor cores: panels, fragments, copies that run ahead, and their barrier."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pullback as pb
import tests.support.equivalence  # noqa: F401 -- it is asked for by PULLBACK_VERIFY
from benchmarks.devices import run
from pullback.codegen.device.dialect import CUDA, OPENCL
from pullback.codegen.device.program import device_program
from pullback.codegen.device.tensor import TENSOR
from pullback.device import GENERIC, H100, Device
from pullback.grid import table, tensor
from pullback.grid.tensor import MORE_TILES, TILES, TensorTile
from pullback.ir.halves import from_half, to_half
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.types import bf16, dtype_named, f16, f32
from pullback.loops.plain.builder import Work
from pullback.loops.plain.candidates import Candidate
from pullback.loops.program.nodes import kernels_of
from pullback.machine import Machine
from pullback.records import replace as changed
from pullback.runtime.device.export import compiled_text, lowered_for
from pullback.runtime.emit import Lowered
from tests.support.devices import fake, nvrtc
from tests.support.devices.hosted import hosted
from tests.support.devices.plain import reading
from tests.support.devices.threads import built, ran

pytestmark = pytest.mark.slow

needs_compilers = pytest.mark.skipif(not shutil.which("g++") or not shutil.which("gcc"), reason="no gcc and g++")
LAYOUTS = {"nn": ("M, K", "m, k", "K, N", "k, n"), "tn": ("K, M", "k, m", "K, N", "k, n"),
           "nt": ("M, K", "m, k", "N, K", "n, k"), "tt": ("K, M", "k, m", "N, K", "n, k")}  # fmt: skip
SIZES = {"M": 136, "N": 264, "K": 200}
RNG = np.random.default_rng(3)


BLACKWELL = replace(H100, architecture="sm_100a")


def device_of(tile: TensorTile) -> Device:
    """The device whose instruction the tile has."""
    return BLACKWELL if tile.instruction == "tcgen05" else H100


def lowered(layout: str, kind: str = "bf16", term: str = "", device: Device = H100, **sizes: int) -> Lowered:
    """A product as loops; f32 is multiplied as TF32."""
    a, at, b, there = LAYOUTS[layout]
    stored = "" if kind == "f32" else f" as {kind}"
    term = term or f"x[{at}] * y[{there}]"
    made = parse_program(f"""product(x{stored}: f32[{a}], y{stored}: f32[{b}]) {{
      z = build m < M, n < N {{ sum k < K {{ {term} }} }} return z }}""")
    if kind == "f32":
        made = changed(made, settings=changed(made.settings, precision="tf32"))
    return lowered_for(made, SIZES | sizes, device)


def inputs_of(x: Lowered, kind: str) -> list[NDArray[Any]]:
    shapes = [[i.constant or 0 for i in b.shape] for b in x.function.given]
    numbers = [RNG.normal(size=s).astype(np.float32) for s in shapes]
    return numbers if kind == "f32" else [to_half(a, dtype_named(kind)) for a in numbers]


def product(layout: str, kind: str, inputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
    x, y = (a if kind == "f32" else from_half(a, dtype_named(kind)) for a in inputs)
    made: NDArray[Any] = np.float64(x.T if layout[0] == "t" else x) @ np.float64(y.T if layout[1] == "t" else y)
    return made


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that leaves one tile, and makes it cheap."""

    def cheap(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
        return (replace(c, cycles=1.0, has_run=True) for c in tensor.tensor_products(work, machine, device))

    def leave(tile: TensorTile) -> None:
        monkeypatch.setattr(tensor, "TILES", (tile,))
        monkeypatch.setattr(table, "STRATEGIES", (cheap, table.elements))

    return leave


CASES = [(tile, layout, kind) for tile in TILES for layout in LAYOUTS for kind in ("bf16", "f16", "f32")
         if not (tile.together and kind == "f32") and (layout in ("nn", "tt") or kind != "f16")]  # fmt: skip
CASES += [(tile, layout, kind) for tile in MORE_TILES for layout, kind in (("nn", "bf16"), ("tt", "f32"))
          if not (tile.together and kind == "f32")]  # fmt: skip


@needs_compilers
@pytest.mark.parametrize(("tile", "layout", "kind"), CASES, ids=str)
def test_all_readings_agree(tile: TensorTile, layout: str, kind: str, only: Any, cuda: fake.Driver) -> None:
    """Plain C and CUDA's text give one value in all orders of groups and threads; the bits are equal."""
    only(tile)
    device = device_of(tile)
    made = lowered(layout, kind, device=device)
    inputs = inputs_of(made, kind)
    found = [run(reading(made, backward), made.function, inputs)[0][0] for backward in (False, True)]
    with hosted(device_program(made.function, made.memory, CUDA, device), made.function, "--fmad=false") as call:
        for order in ({}, {"order": "reversed"}, {"order": 1}, {"multiprocessors": 1}):
            cuda.reset()
            cuda.set(**order)  # type: ignore[arg-type]
            found.append(call(inputs).arrays[0])
    wanted = product(layout, kind, inputs)
    for f in found:
        assert np.abs(f - wanted).max() < (2e-3 if kind == "f32" else 2e-6) * np.abs(wanted).max()
    assert len({f.tobytes() for f in found[:2]}) == len({f.tobytes() for f in found[2:]}) == 1
    assert kind == "f32" or found[0].tobytes() == found[2].tobytes()


@needs_compilers
@pytest.mark.parametrize("tile", [t for t in TILES if t.threads < 256 or t.part[1] < 256], ids=str)
@pytest.mark.parametrize("term", ["", "[m >= 9] x[m, k] * y[k, n]", "[m + k >= 9] x[m, k] * y[k, n]"])
def test_the_barrier_is_needed(tile: TensorTile, term: str, only: Any, tmp_path: Path) -> None:
    """There is one barrier; copies may be done at once or as late as possible. Without it there is a race."""
    only(tile)
    made = lowered("nn", "bf16", term, device_of(tile), M=70, N=72, K=264)
    text, inputs = device_program(made.function, made.memory, CUDA, device_of(tile)), inputs_of(made, "bf16")
    assert text.kernels.partition("__global__")[2].count("__syncthreads();") == 1
    built(text, made.function, tmp_path, "thread")
    one, two = (ran(made.function, inputs, tmp_path, **late) for late in ({}, {"LATE_COPIES": "1"}))
    assert one.reports == two.reports == ""
    assert one.results[0].tobytes() == two.results[0].tobytes()
    for late in ({}, {"LATE_COPIES": "1"}):
        assert "data race" in ran(made.function, inputs, tmp_path, WITHOUT_BARRIER="0", **late).reports


@pytest.mark.parametrize("layout", ["nt"])
def test_equal_to_the_source(layout: str, only: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops equal the sum as functions over the reals."""
    monkeypatch.setenv("PULLBACK_VERIFY", "equivalence")
    only(TensorTile((1, 1), (16, 16), 2))
    lowered(layout, M=17, N=16, K=40)


@needs_compilers
def test_a_wait_is_needed(only: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Copies that run late show a wait that leaves too many of them."""
    only(TILES[-1])
    right = tensor._TensorProduct._wait
    monkeypatch.setattr(tensor._TensorProduct, "_wait", lambda self, panel, pending: right(self, panel, pending + 1))
    made = lowered("nn")
    inputs = inputs_of(made, "bf16")
    built(device_program(made.function, made.memory, CUDA, H100), made.function, tmp_path)
    one, two = (ran(made.function, inputs, tmp_path, **late).results[0] for late in ({}, {"LATE_COPIES": "1"}))
    assert np.abs(one - product("nn", "bf16", inputs)).max() < 1e-3
    assert not np.abs(two - product("nn", "bf16", inputs)).max() < 1e-3


@needs_compilers
def test_operands_of_any_kind(only: Any, cuda: fake.Driver) -> None:
    """Elements that are no aligned chunks are copied one by one; rounded expressions are operands, too."""
    terms = "", "[k + m >= 5, 100 >= k + m] x[m, k] * y[k, n]", "f32(bf16(tanh(x[m, k]))) * y[k, n]"
    for n, term in enumerate(terms):
        only(TILES[-1 - n % 2])
        made = lowered("nn", "bf16", term, M=37, N=51, K=45)
        inputs = inputs_of(made, "bf16")
        assert "tensor" in [k.choice.name for k in kernels_of(made.function.body) if k.choice]
        with hosted(device_program(made.function, made.memory, CUDA, H100), made.function) as call:
            results = call(inputs)
        assert (results.status, cuda.message) == (0, "")
        plain = run(reading(made), made.function, inputs)[0][0]
        np.testing.assert_allclose(results.arrays[0], plain, rtol=1e-4, atol=1e-4)


LAYERS = """layers(x as bf16: f32[B, I], w as bf16: f32[I, I], v as bf16: f32[I, I]) {
  h = build b < B, i < I { f32(bf16(tanh(sum k < I { x[b, k] * w[k, i] }))) }
  z = build b < B, i < I { sum k < I { h[b, k] * v[k, i] } }
  y = fold t < 2 (s = z) {
    r = build b < B, i < I { f32(bf16(sum k < I { h[b, k] * w[k, i] } + s[b, i])) }
    a = build b < B, i < I { r[b, i] + r[B - 1 - b, i] }
    yield a }
  return y }"""


@needs_compilers
def test_rounded_arrays_have_16_bits(only: Any, cuda: fake.Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products after the first one run on tensor cores, too."""
    only(TILES[-1])
    made, sizes = parse_program(LAYERS), {"B": 72, "I": 80}
    found = lowered_for(made, sizes)
    inputs = [to_half(RNG.normal(size=s) / 4, bf16) for s in ((72, 80), (80, 80), (80, 80))]
    kernels = {k.name: k for k in kernels_of(found.function.body)}
    stored = {b.name: b.dtype.name for k in kernels.values() for b in k.params}
    assert (stored["h"], stored["r"]) == ("bf16", "bf16")
    assert kernels["z"].choice is not None and kernels["z"].choice.name == "tensor"
    with hosted(device_program(found.function, found.memory, CUDA, H100), found.function) as call:
        results = call(inputs)
    assert (results.status, cuda.message) == (0, "")
    np.testing.assert_allclose(results.arrays[0], interpret(made, inputs)[0], rtol=2e-2, atol=2e-2)
    monkeypatch.setenv("PULLBACK_VERIFY", "equivalence")
    only(TensorTile((1, 1), (16, 16), 2))
    lowered_for(made, {"B": 3, "I": 2})


# Fragments ------------------------------------------------------------------------------------------------------

RECORD = """\
#include <stdint.h>
#define __device__
#define __forceinline__ inline
static unsigned found[4], count;
"""


def recorded(text: str) -> str:
    """The text of `pb_fragment` with its loads replaced by a record of their addresses."""
    record = "#define PB_LDMATRIX(way) found[0] = panel + line * 128 + (chunk ^ turn) * 16, count = sizeof way\n"
    text = re.sub(r"#define PB_LDMATRIX.*?\"memory\"\)\n", record, text, flags=re.S)
    text = re.sub(r"asm volatile\(\"ld.shared.*?\"r\"\((.*?)\) : \"memory\"\);", r"found[k] = \1, count = 0;", text,
                  flags=re.S)  # fmt: skip
    return re.sub(r"if constexpr \(kind == PB_F32\)\n.*?;\n", "", text, flags=re.S)


@pytest.fixture(scope="module")
def fragments(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function that gives the addresses that the lanes of a warp load."""
    folder = tmp_path_factory.mktemp("fragments")
    calls = "".join(f"""case {n}: pb_fragment<{kind}, {left}, {along}, {32 if kind == "PB_F32" else 64}>
        (f, 0, first, step, lane); break;\n""" for n, (kind, left, along) in enumerate(WAYS))  # fmt: skip
    (folder / "f.cpp").write_text(f"""{RECORD}{TENSOR["PB_BF16"]}
{TENSOR["pb_swizzled"]}{recorded(TENSOR["pb_fragment"])}
extern "C" unsigned load(int way, int first, int step, int lane, unsigned *out) {{
    unsigned f[4];
    switch (way) {{ {calls} }}
    for (int k = 0; k < 4; ++k) out[k] = found[k];
    return count;
}}
extern "C" int swizzled(int bytes, int i) {{ return bytes == 2 ? pb_swizzled<2>(i) : pb_swizzled<4>(i); }}
""")
    flags = ["-std=c++17", "-w", "-shared", "-fPIC", "-O1"]
    subprocess.run(["g++", *flags, "f.cpp", "-o", "f.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "f.so"))


BOTH = "true", "false"
WAYS = [(kind, left, along) for kind in ("PB_BF16", "PB_F32") for left in BOTH for along in BOTH]


def loaded(library: Any, way: int, first: int, step: int) -> tuple[list[list[int]], int]:
    """The addresses of all lanes, and the size of the word for the way."""
    out, rows = (ctypes.c_uint * 4)(), []
    for lane in range(32):
        size = library.load(way, first, step, lane, out)
        rows.append(list(out))
    return rows, size


@needs_compilers
@pytest.mark.parametrize("way", range(len(WAYS)), ids=map(str, WAYS))
def test_fragments(fragments: Any, way: int) -> None:
    """Each lane gets the elements that the instruction expects, and no two lanes wait for one bank of memory."""
    kind, is_left, is_along = WAYS[way]
    left, along, size = is_left == "true", is_along == "true", 4 if kind == "PB_F32" else 2
    line, depth, chunk = 128 // size, 128 // size, 16 // size
    for first in range(0, 64, 16):
        for step in range(4):
            rows, found = loaded(fragments, way, first, step)
            for r in range(4):
                low, high = (r % 2, r // 2) if left else (r // 2, r % 2)
                if found:  # lanes 8 r ... 8 r + 7 give the rows of matrix r, and lane t gets a part of row t / 4
                    starts = [rows[8 * r + n][0] for n in range(8)]
                    assert sorted(a // 16 % 8 for a in starts) == list(range(8))
                else:
                    assert sorted(rows[t][r] // 4 % 32 for t in range(32)) == list(range(32))
                for t in range(32):
                    for e in range(4 // size):
                        i, k = first + 8 * low + t // 4, (2 * step + high) * chunk + t % 4 * (4 // size) + e
                        if along:
                            at = i * line + k
                        else:
                            at = (i // line * depth + k) * line + i % line
                        wanted = fragments.swizzled(size, at) * size
                        if not found:
                            got = rows[t][r]
                        elif along:
                            got = starts[t // 4] + t % 4 * 4 + e * size
                        else:  # a transposed matrix
                            got = starts[2 * (t % 4) + e] + t // 4 * size
                        assert got == wanted


@needs_compilers
@pytest.mark.parametrize("size", [2, 4])
def test_lines_are_permuted(fragments: Any, size: int) -> None:
    """Chunks stay whole, in their line; eight lines have a chunk in eight places."""
    chunk, line = 16 // size, 128 // size
    for n in range(16):
        places = [fragments.swizzled(size, n * line + c * chunk) for c in range(8)]
        assert sorted(p // chunk for p in places) == list(range(8 * n, 8 * n + 8))
    for c in range(8):
        assert len({fragments.swizzled(size, n * line + c * chunk) // chunk % 8 for n in range(8)}) == 8


# Compilers ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(nvrtc.loaded() is None, reason=nvrtc.MISSING)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_100a", "sm_120"])
@pytest.mark.parametrize("kind", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_nvrtc(tile: TensorTile, kind: str, architecture: str, only: Any) -> None:
    """No sum leaves its register, and two groups fit on a multiprocessor where the strategy counts on it."""
    only(tile)
    device = replace(H100, architecture=architecture)
    if tile.instruction not in device.instructions or (tile.together and kind == "f32"):
        pytest.skip("no such instruction")
    for layout in LAYOUTS:
        made = lowered(layout, kind, "", device, M=4096, N=4096, K=4096)
        text = device_program(made.function, made.memory, CUDA, device).kernels
        ((_, found),) = nvrtc.compiled(text, architecture)[1].items()
        assert (found.spills, found.stack) == (0, 0)


def test_devices_without_tensor_cores() -> None:
    """OpenCL's text has no instructions of CUDA, and other devices get the tiles that they have."""
    made = parse_program("f(x as f16: f32[M, K], y as f16: f32[K, N]) { z = build m < M, n < N "
                         "{ sum k < K { x[m, k] * y[k, n] } } return z }")  # fmt: skip
    sizes = {"M": 4096, "N": 4096, "K": 4096}
    assert "pb_multiply" in compiled_text(made, sizes).kernels
    assert "pb_multiply" not in compiled_text(made, sizes, "opencl").kernels
    names = {H100: "pb_multiply_64x256", replace(H100, architecture="sm_80"): "pb_multiply", BLACKWELL: "pb_multiply"}
    for device, name in names.items():
        found = lowered_for(made, sizes, device)
        assert f" {name}<PB_F16" in device_program(found.function, found.memory, CUDA, device).kernels
    for device in (GENERIC, replace(H100, tensor=0)):
        text = lowered_for(made, sizes, device)
        assert "multiply" not in device_program(text.function, text.memory, OPENCL, device).kernels


# Calls ----------------------------------------------------------------------------------------------------------


def multiplied(x: Any, y: Any) -> Any:
    return x @ y


@needs_compilers
def test_calls(devices: fake.Driver, only: Any) -> None:
    """Device arrays of 16 bits need no annotation; a product of two is f32."""
    only(TILES[-1])
    for dtype in (bf16, f16):
        x, y = (to_half(RNG.normal(size=s), dtype) for s in ((72, 80), (80, 72)))
        if dtype is f16:
            given = [pb.device_put(a.view(np.float16), "cuda:0") for a in (x, y)]
        else:
            package = pytest.importorskip("ml_dtypes")
            given = [pb.device_put(a.view(package.bfloat16), "cuda:0") for a in (x, y)]
        f = pb.function(multiplied)
        found = f(*given)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found.numpy(), from_half(x, dtype) @ from_half(y, dtype), rtol=1e-4, atol=1e-4)


@needs_compilers
def test_precision(devices: fake.Driver, only: Any) -> None:
    """f32 stays f32 unless a function permits TF32; its derivatives inherit that."""
    x, y = (RNG.normal(size=s).astype(np.float32) for s in ((72, 80), (80, 72)))
    exact = np.float64(x) @ np.float64(y)
    only(TILES[-1])
    f = pb.function(multiplied, precision="tf32")
    far = np.abs(f(*(pb.device_put(a, "cuda:0") for a in (x, y))).numpy() - exact).max()
    assert 1e-4 < far < 1e-1
    assert np.abs(f(x, y) - exact).max() < 1e-4  # on the processor
    with pytest.raises(ValueError, match="tf16"):
        pb.function(multiplied, precision="tf16")  # type: ignore[call-overload]
    assert f32.name == "f32"
