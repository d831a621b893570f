"""OpenCL: words that differ from C, and runs on a device such as PoCL."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64
from numpy.typing import NDArray

import pullback as pb
from benchmarks.corpus import Entry, corpus
from benchmarks.devices import on_opencl, right, run
from pullback import Array
from pullback.cli.main import main
from pullback.codegen.device.dialect import CUDA, OPENCL
from pullback.codegen.device.program import DeviceProgram, device_program
from pullback.device import H100
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.loops.program.nodes import Function
from pullback.runtime.device.export import compiled_text, lowered_for
from tests.support.devices import opencl
from tests.support.devices.plain import reading
from tests.unit.grid.programs import PROGRAMS, program

SOME = [e for e in corpus() if e.name.startswith(("apl", "derivative")) or e.name == "random 1"]
NUMBERS = """numbers(x: f32[N], h: f16[N], w: bf16[N], n: i64[N], m: i8[N], u: u64[N], t: bool[N]) {
  y = build i < N { f32(h[i]) + x[i] * f32(w[i]) }
  half = build i < N { f16(x[i]) }
  low = build i < N { bf16(x[i]) }
  wide = build i < N { n[i] * 5000000000 - 9223372036854775807 }
  quotient = build i < N { m[i] // i8(n[i] - 3) }
  top = build i < N { u[i] ** u[i] }
  both = build i < N { t[i] && x[i] > 0.0 }
  far = build i < N { x[i] / 0.0 }
  least = build i < N { i32(x[i] * 1e30) }
  first = build { argmin i < N { x[i] } }
  return y, half, low, wide, quotient, top, both, far, least, first }"""


def text_of(made: Program, dims: Any, exact: bool = True) -> tuple[DeviceProgram, Function]:
    """Return a program in OpenCL, and its loops."""
    lowered = lowered_for(made, dims)
    return device_program(lowered.function, lowered.memory, OPENCL, H100, exact=exact), lowered.function


def inputs_of(function: Function) -> list[NDArray[Any]]:
    """Return random arguments."""
    rng = np.random.default_rng(1)
    shapes = [[i.constant or 0 for i in b.shape] for b in function.given]
    draws = [rng.normal(size=s) if b.dtype.is_floating else rng.integers(0, 7, s)
             for s, b in zip(shapes, function.given, strict=True)]  # fmt: skip
    return [a.astype(b.dtype.numpy) for a, b in zip(draws, function.given, strict=True)]


# Text -----------------------------------------------------------------------------------------------------------


def barriers_in_branches(text: str, barrier: str) -> int:
    """The number of barriers inside of a branch."""
    branches, found = list[bool](), 0
    for line in map(str.strip, text.splitlines()):
        if line.startswith("}"):
            branches.pop()
        if line.endswith("{"):
            branches.append(line.startswith(("if ", "} else")))
        found += barrier in line and any(branches)
    return found


def kernels_alone(text: str, prefix: str) -> str:
    """The definitions of kernels, without comments and what is before the first."""
    return re.sub(r"/\*.*?\*/", "", text[text.index(prefix) :], flags=re.DOTALL)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_barrier_is_in_a_branch(name: str) -> None:
    """All threads reach all barriers, whatever a condition is: PoCL runs parts of untaken branches with barriers."""
    text = compiled_text(*program(name), language="opencl").kernels
    assert not barriers_in_branches(kernels_alone(text, "__kernel"), OPENCL.meet)


def test_cuda_leaves_an_untaken_branch_at_once() -> None:
    """A kernel of CUDA tests a condition once."""
    for name in ("either", "choice"):
        text = compiled_text(*program(name), language="cuda").kernels
        assert barriers_in_branches(kernels_alone(text, 'extern "C" __global__'), CUDA.meet)


def test_words() -> None:
    """OpenCL's words stand where C has others, and only the extensions that are needed are asked for."""
    text = compiled_text(*program("product"), language="opencl").kernels
    assert text.count("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);") == 4
    assert "__local float x_panels[640];" in text and "= tanh(sums[" in text
    assert "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n" in text
    assert "cl_khr_fp64" not in text and "FP_CONTRACT" not in text
    assert "cl_khr_fp64" in compiled_text(*program("tree"), language="opencl").kernels
    assert text_of(*program("product"))[0].kernels.startswith("#pragma OPENCL FP_CONTRACT OFF\n")


def test_no_word_of_c_is_left() -> None:
    text = text_of(parse_program(NUMBERS), {"N": 50})[0].kernels
    assert not re.findall(r"\bu?int\d+_t\b|INT\d+_M\w+|\bmemcpy\b|\b(?:fabs|floor|exp)f\b", text)
    assert "#define INT64_C(x) x##L\n" in text and "static inline void pb_copy(void *to" in text


def test_reserved_names() -> None:
    """The user's names that OpenCL reserves are changed, also in names of kernels."""
    text = """half(kernel: f32[N], LONG_MAX: f32[N]) {
      sqrt = build uint < N { kernel[uint] * LONG_MAX[uint] } return sqrt }"""
    made = text_of(parse_program(text), {"N": 50})[0].kernels
    assert "sqrt_[uint5] = kernel2[uint5] * LONG_MAX2[uint5];" in made
    assert "\nvoid half_sqrt2(" in made


@pb.function
def doubled(x: Float64[Array, "N"]) -> Any:
    """Twice as much."""
    return 2 * x


def test_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = doubled.export_device(tmp_path / "python", "opencl", N=300)
    names = ["kernels.cl", "doubled.c", "doubled.h"]
    assert [Path(f).name for f in made["files"]] == names
    header = (tmp_path / "python" / "doubled.h").read_text()
    assert "int doubled_open(struct doubled **made, const void *image, int device);" in header
    assert "const char *doubled_messages(void);" in header and "nvcc -" not in header
    assert """
int doubled_open_in(struct doubled **made, const void *image,
                   struct _cl_context *context, struct _cl_device_id *device);
""" in header
    assert "int doubled_enqueue(struct doubled *self, struct _cl_command_queue *stream, struct _cl_mem *x, " in header
    command = ["export", f"{__file__}:doubled", "--device", "opencl", "--dim", "N=300", "--out", str(tmp_path / "cli")]
    assert main(command) == 0
    assert "kernels: 1; memory of the device: 5,120 bytes" in capsys.readouterr().out
    assert all((tmp_path / "cli" / n).read_bytes() == (tmp_path / "python" / n).read_bytes() for n in names)


# Runs -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def device() -> None:
    """Skip the test if there is no OpenCL device."""
    if reason := opencl.missing():
        pytest.skip(reason)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str) -> None:
    """A device gives the interpreter's values."""
    made, dims = program(name)
    text, function = text_of(made, dims)
    inputs = inputs_of(function)
    wanted = interpret(made, inputs)
    found = opencl.ran(text, function, inputs)
    assert found.status == 0
    for a, b in zip(found.results, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4 if a.dtype == np.float32 else 1e-12, atol=1e-5)


SAME = {
    "product": "f(x: f32[N, M], w: f32[M, N]) { y = build n < N, k < N { sum m < M { x[n, m] * w[m, k] } } return y }",
    "elements": "f(x: f32[N], w: f32[N]) { y = build n < N { sqrt(abs(x[n] * w[n] + 9.0)) / 3.0 } return y }",
}


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", SAME)
def test_the_same_bits_as_c(name: str) -> None:
    """Products and elementwise arithmetic have the bits of C if contraction is off."""
    made = parse_program(SAME[name])
    lowered = lowered_for(made, {"N": 35, "M": 70} if name == "product" else {"N": 999})
    text = device_program(lowered.function, lowered.memory, OPENCL, H100, exact=True)
    inputs = inputs_of(lowered.function)
    (one,) = opencl.ran(text, lowered.function, inputs).results
    (other,), _ = run(reading(lowered), lowered.function, inputs)
    assert one.tobytes() == other.tobytes()


@pytest.mark.usefixtures("device")
def test_all_types_of_numbers() -> None:
    """Integers wrap, conversions saturate, halves round, and infinities and NaN are kept."""
    made = parse_program(NUMBERS)
    text, function = text_of(made, {"N": 50})
    inputs = inputs_of(function)
    inputs[0][:4] = np.nan, np.inf, -np.inf, 1e-8
    inputs[3][0] = 4_000_000_000
    with np.errstate(all="ignore"):
        wanted = interpret(made, inputs)
    for a, b in zip(opencl.ran(text, function, inputs).results, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(a, b.dtype), b)


@pytest.mark.usefixtures("device")
def test_a_check_that_fails() -> None:
    made, dims = program("check")
    text, function = text_of(made, dims)
    x, at = inputs_of(function)
    at[3] = 9
    found = opencl.ran(text, function, [x, at])
    assert (found.status, found.fault) == (1, "9 7")


@pytest.mark.usefixtures("device")
def test_messages_of_the_compiler(tmp_path: Path) -> None:
    """A text that does not compile gives OpenCL's error and the compiler's message."""
    made, function = text_of(*program("elements"))
    wrong = replace(made, kernels=made.kernels.replace("exp(", "no_such_function("))
    with pytest.raises(ValueError, match=r"^-11: .*(?s:.*no_such_function)"):
        opencl.Loaded(wrong, function, tmp_path)


@pytest.mark.skipif(not opencl.oclgrind(), reason="no Oclgrind: apt-get install oclgrind ocl-icd-libopencl1")
@pytest.mark.parametrize(
    ("name", "barrier"), [("product", -1), ("product", 0), ("product", 1), ("tree", -1), ("tree", 2)]
)
def test_races(name: str, barrier: int) -> None:
    """Oclgrind reports no race in the text, and one if a barrier is left out."""
    call = f"from tests.unit.grid.test_opencl import left_out; left_out({name!r}, {barrier})"
    done = subprocess.run([sys.executable, "-c", call], cwd=Path(__file__).parents[3], check=True, capture_output=True,
                          text=True, env={**os.environ, **opencl.oclgrind()})  # fmt: skip
    assert ("data race" in done.stdout + done.stderr) == (barrier >= 0)


def left_out(name: str, barrier: int) -> None:
    """Run a program without one of its barriers; -1 keeps all of them."""
    made, function = text_of(*program(name))
    first, *others = made.kernels.split(OPENCL.meet)
    kernels = first + "".join(f"{OPENCL.meet * (k != barrier)}{text}" for k, text in enumerate(others))
    assert opencl.ran(replace(made, kernels=kernels), function, inputs_of(function)).status == 0


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("entry", SOME, ids=lambda e: e.name)
def test_corpus(entry: Entry) -> None:
    """Programs give the values of C for processors."""
    made, dims = entry.make()
    found = on_opencl(entry.name, made, dims)
    assert bool(found.launches) == bool(found.kernels)  # some results are copies of arguments
    assert right(found, {np.dtype(r.dtype.numpy).char for r in made.outputs})
