"""The verifier passes what lowering makes, and finds what is planted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pullback.errors import VerifyError
from pullback.ir.index import ZERO_INDEX, Var, as_index
from pullback.ir.parser import parse_program
from pullback.ir.traverse import specialize
from pullback.ir.types import f32, f64
from pullback.loops.memory.plan import MemoryPlan, plan
from pullback.loops.memory.verify import verify_function
from pullback.loops.plain.builder import KernelBuilder, Work
from pullback.loops.plain.lower import plain_build
from pullback.loops.plain.storage import assign_storage
from pullback.loops.program.nodes import Assign, Call, For, Function, Let, Stmt, Store, walk
from pullback.loops.program.values import Binary, Literal, Load, Read, Temp, scalar
from pullback.machine import of_width
from pullback.runtime.emit import lower_program
from tests.unit.runtime.programs import CASES


def lowered(name: str, vector_bytes: int = 32, **other: int) -> tuple[Function, MemoryPlan]:
    text, dims = CASES[name]
    made = lower_program(parse_program(text), {**dims, **other}, False, of_width(vector_bytes))
    return made.function, made.memory


@pytest.mark.parametrize("vector_bytes", [0, 32])
@pytest.mark.parametrize("name", CASES)
def test_passes_what_lowering_makes(name: str, vector_bytes: int) -> None:
    verify_function(*lowered(name, vector_bytes))


def test_finds_buffers_that_share_memory_while_both_are_needed() -> None:
    function, memory = lowered("same_init", N=20)
    assert len(memory.offsets) > 1
    together = MemoryPlan(dict.fromkeys(memory.offsets, 0), memory.bytes, memory.lives, memory.moments)
    with pytest.raises(VerifyError, match=r"share memory|holds something else"):
        verify_function(function, together)


def test_finds_an_offset_outside_the_arena() -> None:
    function, memory = lowered("same_init", N=20)
    with pytest.raises(VerifyError, match="leaves the arena"):
        verify_function(function, replace(memory, bytes=0))


def test_finds_what_is_not_bound() -> None:
    function, _ = lowered("dense", 0)
    call = next(s for s in walk(function.body) if isinstance(s, Call))
    loop = call.kernel.body[0]
    stray = replace(call.kernel, body=loop.body)
    with pytest.raises(VerifyError, match=r"n in .* is not bound"):
        verify_function(replace(function, body=(Call(stray, call.arguments),)))
    t = Temp("t", scalar(f32))
    frozen = replace(call.kernel, body=(Let(t, Literal(0.0, t.type)), Assign(t, Literal(1.0, t.type))))
    with pytest.raises(VerifyError, match="t is assigned and not mutable"):
        verify_function(replace(function, body=(Call(frozen, call.arguments),)))


def test_finds_states_that_do_not_change_together() -> None:
    function, _ = lowered("dense", 0)
    call = next(s for s in walk(function.body) if isinstance(s, Call))
    a, b, new = (Temp(name, scalar(f32)) for name in ("a", "b", "new"))
    start = (Let(a, Literal(0.0, a.type), mutable=True), Let(b, Literal(1.0, b.type), mutable=True))

    def loop(*body: Stmt) -> Function:
        var = Var("t", 3)
        kernel = replace(call.kernel, body=(*start, For(var, ZERO_INDEX, var.extent, body)))
        return replace(function, body=(Call(kernel, call.arguments),))

    swap = Assign(a, Read(b)), Assign(b, Read(a))
    with pytest.raises(VerifyError, match="a is read after it took its value for the next trip"):
        verify_function(loop(*swap))
    verify_function(loop(Let(new, Read(a)), Assign(a, Read(b)), Assign(b, Read(new))))
    verify_function(loop(*(Assign(a, Binary("+", Read(a), Read(b), a.type)) for _ in range(2))))


def test_lives_of_a_plan_end_where_nothing_reads_any_more() -> None:
    text = """chain(x: f64[N]) {
      a = build n < N { sum m < N { x[m] * x[n] } }
      b = build n < N { sum m < N { a[m] * a[n] } }
      c = build n < N { sum m < N { b[m] * b[n] } }
      d = build n < N { sum m < N { c[m] * c[n] } }
      return d }"""
    made = lower_program(parse_program(text), {"N": 100}, False)
    assert [b.name for b in made.memory.offsets] == ["a", "b", "c"]
    assert made.memory.bytes == 2 * 832
    verify_function(made.function, plan(made.function))


def test_state_carried_from_trip_to_trip_lives_through_the_loop() -> None:
    text = """carried(x: f64[N]) {
      s = fold t < 10 (a = x) { b = build n < N { a[n] * a[n] } yield b }
      y = build n < N { sum m < N { s[m] * s[n] } }
      return y }"""
    made = lower_program(parse_program(text), {"N": 9}, False)
    (buffer,) = made.memory.offsets
    first, last = made.memory.lives[buffer]
    assert last - first >= 3


def test_a_few_elements_that_a_loop_uses_are_an_array_of_the_function() -> None:
    text = """small(x: f64[N], k: f64) {
      u = build n < N { x[n] + k }
      s = fold t < 10 (a = u) { b = build n < N { a[N - 1 - n] * k } yield b }
      y = build n < N { s[n] + s[N - 1 - n] }
      return y }"""
    made = lower_program(parse_program(text), {"N": 8}, False)
    assert made.memory.bytes == 0
    assert {b.name for b in made.memory.local} == {"u", "b"}
    verify_function(made.function, made.memory)
    assert not lower_program(parse_program(text), {"N": 9}, False).memory.local


def test_working_memory_of_a_kernel_is_planned_for_its_call() -> None:
    program = specialize(parse_program("f(x: f64[N]) { y = build n < N { x[n] + 1.0 } return y }"), {"N": 8})
    (statement,) = program.body.statements
    storage = assign_storage(program)
    builder = KernelBuilder(Work.of(statement, storage.views))
    work = builder.scratch("work", storage.outputs[0], 100)
    body = (Store(work, as_index(0), Literal(1.0, scalar(f64))), *plain_build(statement, builder),
            Let(Temp("t", scalar(f64)), Load(work, as_index(0), scalar(f64))))
    call = Call(builder.kernel(body), tuple(builder.arguments))
    function = Function("f", storage.inputs, storage.outputs, (call,))
    memory = plan(function)
    assert memory.bytes == 832
    verify_function(function, memory)


def test_finds_a_call_with_an_argument_too_many() -> None:
    function, memory = lowered("same_init", N=20)
    calls = [s for s in function.body if isinstance(s, Call)]
    wrong = replace(calls[0], arguments=(*calls[0].arguments, calls[0].arguments[0]))
    body = tuple(wrong if s is calls[0] else s for s in function.body)
    with pytest.raises(VerifyError, match="arguments"):
        verify_function(replace(function, body=body), memory)
