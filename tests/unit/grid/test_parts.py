"""Tools of the device strategies: places of threads and groups, conditions, and parts of a kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.devices import restricted
from pullback.codegen.device.dialect import CUDA
from pullback.codegen.device.host import DeviceUnit
from pullback.codegen.device.kernels import Touched
from pullback.codegen.device.program import device_program
from pullback.device import H100
from pullback.grid.branches import predicated
from pullback.grid.checks import uses_elements, variables_read
from pullback.grid.groups import are_apart
from pullback.grid.parts import parts_of
from pullback.grid.steps import group_loop, local_buffer, thread_loop
from pullback.ir import expr
from pullback.ir.index import Index, Var, as_index
from pullback.ir.nodes import Ref
from pullback.ir.parser import parse_program
from pullback.ir.types import bool_, f32, i32
from pullback.loops.program import nodes
from pullback.loops.program.nodes import Break, Call, Fill, For, If, Kernel, Let, LetIndex, Loop, Store
from pullback.loops.program.values import Buffer, Literal, Load, Read, Temp, scalar
from pullback.runtime.device.export import lowered_for
from tests.unit.grid.programs import PROGRAMS, program

OUT = Buffer("out", f32, (as_index(64),), "parameter", as_index(64))
PANEL = local_buffer("panel", f32, (64,), "shared")
FLAGS = Buffer("flags", bool_, (as_index(8),), "arena", as_index(8))
OTHER = Buffer("other", bool_, (as_index(8),), "arena", as_index(8))
T, G, K = Var("thread", 32), Var("group", 8), Var("k", 4)


def store(b: Buffer, at: Index) -> Store:
    return Store(b, at, Literal(0.0, scalar(f32)))


def test_groups_that_share_an_element_are_not_apart() -> None:
    for width, apart in ((2, True), (3, False)):
        t = Var("thread", width)
        assert are_apart(group_loop(G, (thread_loop(t, (store(OUT, as_index(G) * 2 + as_index(t)),)),))) == apart


def test_threads_meet_elements_of_others_in_the_next_iteration() -> None:
    mine = Touched.by(thread_loop(T, (store(PANEL, as_index(T) + as_index(K)),)), 32)
    assert not mine.conflicts(mine)
    assert mine.after(For(K, as_index(0), K.extent, ())).conflicts(mine)


def test_places_that_depend_on_elements_are_unknown() -> None:
    read = expr.data_index(expr.get(Ref("at", i32, (as_index(4),)), as_index(0)))
    mine = Touched.by(thread_loop(T, (store(PANEL, as_index(T) + read),)), 32)
    assert mine.conflicts(mine)


def test_indices_that_depend_on_elements_by_a_variable() -> None:
    at = Buffer("at", i32, (as_index(4),), "parameter", as_index(4), False)
    read = variables_read((LetIndex(K, Load(at, as_index(0), scalar(i32))),))
    assert read == {K}
    assert uses_elements(store(OUT, as_index(K) + 1), read) and not uses_elements(store(OUT, as_index(T)), read)


def test_a_branch_that_changes_its_condition_is_the_hosts() -> None:
    def made(changed: Buffer) -> tuple[nodes.Stmt, ...] | None:
        test = Load(FLAGS, as_index(3), scalar(bool_))
        return predicated(If(test, (Fill(changed, as_index(0), as_index(8)),)), H100)

    assert made(FLAGS) is None
    (call,) = made(OTHER) or ()
    assert isinstance(call, Call) and call.arguments[0].offset is as_index(3)
    (group,) = call.kernel.body
    (inside,) = [s for s in nodes.walk((group,)) if isinstance(s, If) and isinstance(s.test, Load)]
    assert isinstance(inside.test, Load) and inside.test.offset is as_index(0)


def test_values_that_a_kernel_changes_are_not_read_anew() -> None:
    """A value that is read before a loop changes its array has no copy in each thread."""
    kept, n = Temp("kept", scalar(f32)), Var("n", 64)
    let = Let(kept, Load(OUT, as_index(0), scalar(f32)))
    loop = For(n, as_index(0), as_index(64), (Store(OUT, as_index(n), Read(kept)),), independent=True)
    (part,) = parts_of((let, loop), Kernel("k", (OUT,), (), (let, loop)))
    assert (part.lets, part.loops) == ((), [])
    m = Var("m", 2)
    inner = replace(loop, body=(Store(OUT, as_index(n) * 2 + as_index(m), Read(kept)),))
    outer = For(m, as_index(0), as_index(2), (let, inner), independent=True)
    (part,) = parts_of((outer,), Kernel("k", (OUT,), (), (outer,)))
    assert [v for v, _, _ in part.loops] == [m]


def test_a_loop_in_one_group_reads_the_states_that_it_is_given() -> None:
    (kernel,) = nodes.kernels_of(lowered_for(*program("recurrent")).function.body)
    assert {p for p in kernel.params if p.written} > kernel.fresh


def test_a_loop_in_one_group_fits_in_shared_memory() -> None:
    """Two kernels that each fit, and do not together, stay separate launches."""
    made = parse_program("""sums(x: f64[2, 200], w: f64[2, 2000]) {
      y = fold t < 4 (a = x) {
        s = build n < 2 { sum m < 200 { a[n, m] } }
        u = build n < 2 { sum k < 2000 { w[n, k] * s[n] } }
        b = build n < 2, m < 200 { a[n, m] / (1.0 + u[n] * u[n]) }
        yield b }
      return y }""")
    for shared, names in ((3000, {"loop"}), (2200, {"tree", "elements"})):
        f = lowered_for(made, {}, replace(H100, shared=shared)).function
        assert {k.choice.name for k in nodes.kernels_of(f.body) if k.choice is not None} == names


FLAG = Buffer("flag", bool_, (as_index(1),), "parameter", as_index(1), False)
SECOND = local_buffer("second", f32, (64,), "shared")
N = Var("n", 100)
WRITE = thread_loop(T, (store(PANEL, as_index(T)),))
HOLDS = Load(FLAG, as_index(0), scalar(bool_))


def reading(b: Buffer) -> For:
    """A thread loop in which each thread reads what another one has written."""
    return thread_loop(T, (Store(OUT, as_index(T), Load(b, 31 - as_index(T), scalar(f32))),))


def text_of(*body: nodes.Stmt) -> str:
    """The text of a kernel of one group."""
    lowered = lowered_for(*program("scalar"))
    unit = DeviceUnit(lowered.function, lowered.memory, CUDA, comments=False)
    (launch,) = unit.kernels.launches(Kernel("hand", (FLAG, OUT), (N,), (group_loop(G, body),)))
    return unit.kernels.texts[launch.name]


def meets_at_end(*body: nodes.Stmt) -> bool:
    """Whether threads meet right before the last thread loop of a kernel."""
    lines = text_of(*body).splitlines()
    last = max(k for k, line in enumerate(lines) if line == "    {")
    return "__syncthreads" in lines[last - 1]


def test_threads_meet_after_either_side_of_a_branch() -> None:
    other = thread_loop(T, (store(SECOND, as_index(T)),))
    for then, otherwise in (((WRITE,), (other,)), ((other,), (WRITE,)), ((WRITE,), ())):
        assert meets_at_end(If(HOLDS, then, otherwise), reading(PANEL))
    assert not meets_at_end(If(HOLDS, (other,), ()), reading(PANEL))


def test_threads_meet_after_a_loop_that_may_have_no_iterations() -> None:
    """A meeting inside the loop is none where it has no iterations."""
    inside = (thread_loop(T, (store(SECOND, as_index(T)),)), reading(SECOND))
    for trips, meets in ((as_index(4), False), (as_index(N), True)):
        v = Var("k", 100)
        assert meets_at_end(WRITE, For(v, as_index(0), trips, inside), reading(PANEL)) == meets


def test_threads_meet_after_a_loop_that_they_leave_in_its_midst() -> None:
    """A loop needs a barrier after it if threads leave it between an access and the next barrier."""
    leave = If(HOLDS, (Break(),))
    assert meets_at_end(Loop((WRITE, leave, reading(PANEL))), reading(PANEL))
    assert not meets_at_end(Loop((WRITE, reading(PANEL), leave)), reading(PANEL))


@pytest.mark.parametrize("name", PROGRAMS)
def test_arrays_that_other_threads_write_are_not_restricted(name: str) -> None:
    """`examined` asks the same of the corpus."""
    lowered = lowered_for(*program(name))
    made = device_program(lowered.function, lowered.memory, CUDA, H100)
    assert restricted(made.kernels) == []


def test_a_restricted_array_is_found() -> None:
    kernel = 'extern "C" __global__ void f(const float *__restrict__ x, float *{}y) {{\n    __syncthreads();\n}}\n'
    assert restricted(kernel.format("__restrict__ ")) == ["y"]
    assert restricted(kernel.format("")) == []
