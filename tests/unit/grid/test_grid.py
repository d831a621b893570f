"""Schedules of device kernels, the rules they keep, and refusals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.cli.main import main
from pullback.device import DEVICES, H100, cuda_model
from pullback.errors import CompilerError, VerifyError
from pullback.grid.roofline import roofs
from pullback.grid.steps import group_loop, local_buffer, thread_loop
from pullback.grid.summary import summary
from pullback.grid.verify import verify_grid
from pullback.ir.index import Index, Var, as_index
from pullback.ir.parser import parse_program
from pullback.ir.types import bool_, f32
from pullback.loops.program.nodes import Break, Call, For, Function, If, Kernel, Loop, Stmt, Store, kernels_of
from pullback.loops.program.values import Buffer, Literal, Load, scalar
from pullback.runtime.device.export import compiled_text, lowered_for
from tests.unit.grid.programs import PROGRAMS, program

SCHEDULES = {
    "elements": ["elements: grid n 33 × m 21 | threads 128"],
    "product": ["product: grid rows 3 × columns 2 | threads 8 × 8 | shared x 16 × 16, w 16 × 16 | registers 2 × 2"],
    "tree": ["tree: grid n 5 | threads m 128 | tree"],
    "trees": ["trees: part 1 of 2: grid run 35 | threads n 256 | tree "
              "| part 2 of 2: grid 1 | threads run 64 | tree"] * 2,
    "position": ["trees: part 1 of 2: grid run 25 | threads n 256 | tree "
                 "| part 2 of 2: grid 1 | threads run 32 | tree"],
    "positions": ["tree: grid n 3 | threads m 128 | tree"],
    "rest": ["trees: part 1 of 2: grid run 15 | threads n 256 | tree | part 2 of 2: grid 1 | threads run 32 | tree"],
    "checked": ["tree: part 1 of 2: grid n 300 | threads 128 | part 2 of 2: grid 1 | threads n 128 | tree"],
    "scan": ["elements: grid n 3 | threads 128", "scan: grid n 3 | threads m 64 | in order 10"],
    "scans": ["elements: one thread",
              "scan: part 1 of 3: grid run 18 | threads n 256 | in order 16 | part 2 of 3: grid 1 | threads 1 "
              "| in order 18 | part 3 of 3: grid run 18 | threads n 256 | in order 16"],
    "sort": ["sort: part 1 of 2: grid n 2 × tile 2 | threads m 256 | merge "
             "| part 2 of 2: grid n 2 × m 1100 | threads 128 | merge"],
    "order": ["sort: grid n 3 | threads m 128 | merge"],
    "scatter": ["scatter: part 1 of 2: grid n 100 | threads 128 "
                "| part 2 of 2: grid place0 9 × m 30 | threads n 32 | tree"],
    "tally": ["scatter: part 1 of 2: grid n 9000 | threads 128 | part 2 of 2: grid place0 5 | threads n 256 | tree"],
    "check": ["elements: grid n 40 | threads 128"],
    "branch": ["rows: grid row 1 | threads column 64 | tree | fuse 2",
               "branch: grid 1 | threads 130 | when condition | fuse 2"],
    "sides": ["trees: part 1 of 2: grid run 30 | threads n 256 | tree | part 2 of 2: grid 1 | threads run 32 | tree",
              "elements: one thread",
              "elements: when positive | grid n 60000 | threads 128",
              "copy: when positive | grid k 60000 | threads 128",
              "elements: when not positive | grid n 60000 | threads 128",
              "copy: when not positive | grid k 60000 | threads 128"],
    "either": ["trees: part 1 of 2: grid run 5 | threads m 256 | tree | part 2 of 2: grid 1 | threads run 32 | tree",
               "branch: grid 1 | threads 256 | when condition | fuse 2"],
    "recurrent": ["loop: grid 1 | threads 40 | repeat t 5 | fuse 2"],
    "scalar": ["loop: one thread | repeat trip 50 | fuse 2"],
    "nested": ["loop: grid 1 | threads 33 | repeat i 3 | fuse 2"],
    "until": ["loop: grid 1 | threads 35 | repeat trip 1000 | fuse 2"],
    "choice": ["loop: grid 1 | threads 37 | repeat t 6 | fuse 2"],
    "rows": ["loop: grid 1 | threads 400 | repeat t 4 | fuse 2"],
    "hops": ["loop: grid 1 | threads 7 | repeat t 3 | fuse 1"],
    "later": ["elements: one thread", *3 * ["elements: grid n 40 | threads 128"], "elements: one thread"],
    "around": ["loop: grid 1 | threads 7 | repeat t 3 | fuse 2"],
    "twice": [*2 * ["elements: grid n 7 | threads 128"], "tree: grid n 7 | threads m 256 | tree",
              *2 * ["elements: grid n 7 | threads 128"]],
    "batch": ["loop: grid row 24 | threads 60 | repeat t 5 | fuse 2"],
    "mixed": ["loop: grid 1 | threads 512 | repeat t 4 | fuse 2"],
    "large": ["elements: grid n 400000 | threads 128"],
    "tensor": ["tensor: grid rows 5 × columns 2 | threads 128 | shared x 64 × 64, w 64 × 128 "
               "| tensor cores wgmma bf16, 4 slots | registers 32 × 2"],
    "turn": ["transpose: grid b 3 × m 4 × n 3 | shared x 32 × 32, x 32 × 32 | threads 32 × 8"],
    "columns": ["trees: part 1 of 2: grid m 41 × run 23 | results 32 across | threads n 8 | tree "
                "| part 2 of 2: grid m 41 | results 32 across | threads run 8 | tree"],
    "many": ["elements: grid n 3 × m 250000 | threads 128 | own 4"],
    "all": ["elements: grid n 1001 × m 601 | threads 128 | own 2"],
    "range": ["rows: grid row 5 | results 8 | threads column 8 | tree | fuse 2"],
    "sums": ["trees: part 1 of 2: grid m 132 × run 23 | results 128 across | threads n 8 | tree "
             "| part 2 of 2: grid m 132 | results 32 across | threads run 8 | tree"],
    "firsts": ["tree: grid n 300 | threads m 128 | tree"],
    "short": ["tree: grid n 700 | results 32 | threads m 8 | tree"],
    "softmax": ["rows: grid row 33 | results 4 | threads column 64 | tree | fuse 4"],
    "normal": ["rows: grid row 5 | threads column 512 | tree | fuse 5"],
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_schedules(name: str) -> None:
    lowered = lowered_for(*program(name))
    assert [str(k.choice) for k in kernels_of(lowered.function.body)] == SCHEDULES[name]


def test_few_terms_run_as_one_thread() -> None:
    made = lowered_for(parse_program("f(x: f64[N]) { y = build { prod n < N { x[n] } } return y }"), {"N": 9})
    assert [str(k.choice) for k in kernels_of(made.function.body)] == ["elements: one thread"]


def test_devices_are_those_of_data_sheets() -> None:
    """Operations per second in units of 10^12, of f32, f64 and f16 on tensor cores; GB/s.

    Tensor cores of an H100 run at a lower clock by its sheet (989).
    """
    sheets = {"h100": (66.9, 33.5, 1070.5, 3350), "a100": (19.5, 9.7, 311.9, 2039),
              "rtx 4090": (82.6, 1.3, 165.2, 1008), "radeon 780m": (8.3, 0.5, 0.0, 89.6)}  # fmt: skip
    for name, d in DEVICES.items():
        rates = (round(2e-12 * d.multiprocessors * d.clock * n, 1) for n in (d.single, d.double, d.tensor))
        assert (*rates, d.bandwidth / 1e9) == sheets[name]
    assert len(DEVICES) == len(sheets)


def test_results_do_not_depend_on_the_number_of_multiprocessors() -> None:
    """Small differences of specimens change no tree; the text is that of the family."""
    made, dims = program("trees")
    texts = {compiled_text(made, dims, device=replace(H100, multiprocessors=n)).kernels for n in (114, 132, 144)}
    assert len(texts) == 1


# Rules ----------------------------------------------------------------------------------------------------------

OUT = Buffer("out", f32, (as_index(64),), "parameter", as_index(64))
T, G = Var("thread", as_index(64)), Var("group", as_index(2))
PANEL = local_buffer("panel", f32, (64,), "shared")
OWN = local_buffer("own", f32, (64, 2), "registers")
FLAG = Buffer("flag", bool_, (), "parameter", as_index(1), False)
HUGE = local_buffer("huge", f32, (60_000,), "shared")


def store(b: Buffer, at: Index) -> Store:
    return Store(b, at, Literal(0.0, scalar(f32)))


def function(body: Sequence[Stmt]) -> Function:
    return Function("f", (), (), (Call(Kernel("k", (OUT,), (), tuple(body)), ()),))


def group(*body: Stmt) -> list[Stmt]:
    return [group_loop(G, body)]


ONE = thread_loop(T, (store(PANEL, as_index(T)),))
BROKEN: dict[str, Any] = {
    "k: Store outside of groups": [store(OUT, as_index(0))],
    "k: all threads write the same": group(store(OUT, as_index(0))),
    "k: threads that not all reach": group(If(Load(OWN, as_index(0), scalar(bool_)), (ONE,))),
    "k: a thread loop in a thread": group(thread_loop(T, (ONE,))),
    "k: thread thread to 2000": group(thread_loop(Var("thread", as_index(2000)), ())),
    "k: group group to N": [For(G, as_index(0), parse_program("f(x: f32[N]) { return x }").inputs[0].shape[0], (ONE,),
                                kind="group")],
    "k: 240000 bytes of shared memory": group(thread_loop(T, (store(HUGE, as_index(T)),))),
}  # fmt: skip


def test_rules_that_are_kept() -> None:
    verify_grid(function(group(ONE, thread_loop(T, (store(OWN, as_index(T) * 2 + 1),)))), H100)
    verify_grid(function(group(Loop((ONE, If(Load(FLAG, as_index(0), scalar(bool_)), (ONE, Break())))))), H100)


@pytest.mark.parametrize("message", BROKEN)
def test_rules_that_are_broken(message: str) -> None:
    with pytest.raises(VerifyError) as error:
        verify_grid(function(BROKEN[message]), H100)
    assert error.value.what == message


def test_registers_of_others() -> None:
    with pytest.raises(VerifyError, match="own at 0 is another thread's"):
        verify_grid(function(group(thread_loop(T, (store(OWN, as_index(0)),)))), H100)


# What is refused, and the face ----------------------------------------------------------------------------------


@pb.function
def doubled(x: Float64[Array, "N"]) -> Any:
    """Twice as much."""
    return 2 * x


HALF = "void half(const double *x, double *y, int64_t n) { for (int64_t k = 0; k < n; ++k) y[k] = x[k] / 2; }"
half = pb.external(HALF, "half(x: f64[N]) -> f64[N]")


@pb.function
def halved(x: Float64[Array, "3"]) -> Any:
    return half(x)


def test_a_c_function_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(CompilerError) as error:
        halved.export_device(tmp_path)
    first, place, *rest = str(error.value).splitlines()
    assert place.startswith("  --> ") and "test_grid.py" in place
    assert [first, *rest] == [
        "CompilerError [E417] halved: the C function half is not supported on devices yet",
        '   | half = pb.external(HALF, "half(x: f64[N]) -> f64[N]")',
        "   |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "  try: a function without this part; calls and `export` run all of it on the processor"
        "      See `pullback explain-error E417`",
    ]
    assert not list(tmp_path.iterdir())


def test_rows_that_are_too_long_to_sort() -> None:
    text = "long(x: f32[N]) { y = sort n < N { x[n] } return y }"
    assert refused(lambda: lowered_for(parse_program(text), {"N": 1 << 31})) == [
        "CompilerError [E417] long: sorting of 2,147,483,648 elements or more is not supported on devices yet",
        "  try: a function without this part; calls and `export` run all of it on the processor      "
        "See `pullback explain-error E417`"]


def test_more_groups_than_a_launch_has() -> None:
    text = "many(x: f32[N]) { y = build n < N { 2.0 * x[n] } return y }"
    assert refused(lambda: lowered_for(parse_program(text), {"N": 1 << 40})) == [
        "CompilerError [E417] many: a launch of 2,147,483,648 groups of threads is not supported on devices yet",
        "  try: a function without this part; calls and `export` run all of it on the processor      "
        "See `pullback explain-error E417`"]


def test_other_refusals(tmp_path: Path) -> None:
    assert refused(lambda: doubled.export_device(tmp_path)) == [
        "CompilerError [E417] doubled: a device program has all sizes; open: N",
        "  try: give them: N=…      See `pullback explain-error E417`"]
    assert refused(lambda: doubled.export_device(tmp_path, "metal", N=3)) == [  # type: ignore[arg-type]
        "CompilerError [E417] there are no devices with the language 'metal'",
        "  try: one of cuda, opencl      See `pullback explain-error E417`"]


def refused(call: Callable[[], Any]) -> list[str]:
    """The message of a refusal without its place."""
    with pytest.raises(CompilerError) as error:
        call()
    return [t for t in str(error.value).splitlines() if not t.startswith(("  --> ", "   | "))]


def test_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = doubled.export_device(tmp_path / "python", N=300)
    assert [Path(f).name for f in made["files"]] == ["kernels.cu", "doubled.c", "doubled.h"]
    header = (tmp_path / "python" / "doubled.h").read_text()
    assert "Twice as much." in header and "int doubled(struct doubled *self, const double *x, double *out);" in header
    assert main(["export", f"{__file__}:doubled", "--device", "cuda", "--dim", "N=300", "--out",
                 str(tmp_path / "cli")]) == 0  # fmt: skip
    assert "kernels: 1; memory of the device: 5,120 bytes" in capsys.readouterr().out
    names = ("kernels.cu", "doubled.c", "doubled.h")
    assert all((tmp_path / "cli" / n).read_bytes() == (tmp_path / "python" / n).read_bytes() for n in names)


@pytest.mark.usefixtures("cuda")
def test_export_for_architectures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each architecture has a folder with kernels, machine code and a host program of its own."""
    command = ["export", f"{__file__}:doubled", "--architecture", "sm_80", "--architecture", "sm_90a", "--dim", "N=300"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    assert "kernels: 1" in capsys.readouterr().out
    for name in ("sm_80", "sm_90a"):
        found = {f.name for f in (tmp_path / name).iterdir()}
        assert found == {"kernels.cu", "kernels.cubin", "doubled.c", "doubled.h"}
        assert f"-arch={name} kernels.cu" in (tmp_path / name / "doubled.h").read_text()
    assert refused(lambda: doubled.export_device(tmp_path, "opencl", ("sm_80",), N=3)) == [
        "CompilerError [E417] opencl has no machine code for sm_80",
        "  try: no architectures: the driver compiles the text      See `pullback explain-error E417`"]


def test_models_of_architectures() -> None:
    """Shared memory and tensor cores differ; what decides the order of terms does not."""
    old, ampere, ada, hopper = (cuda_model(a) for a in ("sm_75", "sm_80", "sm_89", "sm_90a"))
    assert hopper == H100
    assert (old.tensor, old.most_shared, ampere.most_shared, ada.most_shared) == (0, 65536, 166912, 101376)
    assert [d.instructions for d in (old, ampere, hopper)] == [(), ("mma",), ("mma", "wgmma")]
    assert {d.multiprocessors for d in (old, ampere, ada, hopper)} == {132}
    assert cuda_model("sm_999").most_shared == H100.shared


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    launches, roof, kernels = doubled.explain(device="cuda", N=300).stages[-3:]
    assert launches.text == ("multiply: elements: grid n 300 | threads 128\n"
                             "launches of a call: 1; the host waits for 0 conditions")  # fmt: skip
    assert roof.text.splitlines()[2:] == [
        "multiply      1  4,800         384         0.0             0.0           3.0  launches",
        "the call      1  4,800         384         0.0             0.0           3.0  launches",
        "the sum of all kernels' bounds: 3.0 µs on h100, 4.3 µs on a100, 2.4 µs on rtx 4090, 2.2 µs on radeon 780m"]
    assert "__global__" in kernels.text
    assert main(["explain", f"{__file__}:doubled", "--device", "cuda", "--dim", "N=300"]) == 0
    assert launches.text in capsys.readouterr().out


def test_the_roofline_counts_elements_and_operations() -> None:
    [product] = roofs(lowered_for(*program("product")).function)
    assert (product.bytes, product.operations) == (4 * (33 * 50 + 50 * 19 + 19 + 33 * 19), 48 * 32 * (64 * 2 + 2))
    loop = roofs(lowered_for(*program("large")).function)
    assert [k.calls for k in loop] == [3.0]


SUMMARIES = {
    "large": """\
b: elements: grid n 400000 | threads 128
repeat t 1, by the host:
    b: elements: grid n 400000 | threads 128
    b: elements: grid n 400000 | threads 128
launches of a call: 3; the host waits for 0 conditions""",
    "choice": """\
y: copy
repeat t 6, by the host:
    d: elements: one thread
    if d, for which the host waits:
        f: elements: grid n 37 | threads 128
        y: copy
launches of a call: 19; the host waits for 1 condition""",
    "branch": """\
s: elements: one thread
positive: elements: one thread
if positive, for which the host waits:
    a: elements: grid n 130 | threads 128
else:
    b: elements: grid n 130 | threads 128
launches of a call: 3; the host waits for 1 condition""",
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_what_the_host_does(name: str) -> None:
    """The summary shows the host's loops and conditions, here for a device with slow groups."""
    device = H100 if name == "large" else replace(H100, launch=1.0, look=0.0, meeting=1e9)
    assert summary(lowered_for(*program(name), device).function) == SUMMARIES[name]


TABLE = np.arange(3.0)
TABLE.setflags(write=False)


@pb.function
def scaled(x: Float64[Array, "3"]) -> Any:
    return x * pb.asarray(TABLE)


def test_read_only_arrays_are_tables() -> None:
    text = compiled_text(*scaled.for_dims({})).host
    assert "static const double table0[] = {0.0, 1.0, 2.0};" in text
    assert "int scaled(struct scaled *self, const double *x, double *out) {" in text
