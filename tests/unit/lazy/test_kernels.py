"""Kernels from the interpreter to compiled code, the thread that compiles, and calls side by side."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import lazy
from pullback.errors import CompilerError
from pullback.ir import types
from pullback.lazy import kernel, plan, running
from pullback.lazy.kernel import Kernel
from pullback.lazy.operation import traced_program
from pullback.lazy.plan import BLOCKING, HEAVY
from pullback.lazy.types import array_type, type_of_value
from tests.unit.lazy.common import X

# Kernels ------------------------------------------------------------------------------------------------------------


def doubled(shape: tuple[int, ...] = (3,), dtype: Any = types.f64) -> Kernel:
    own = array_type(dtype, shape)
    program, results, _ = traced_program("doubled", [own], lambda h: [h[0] * 2.0])
    return Kernel(program, [own], results)


def test_a_kernel_is_interpreted_then_queued_then_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    queued: list[Kernel] = []
    lazy.finish_compiling()
    monkeypatch.setenv("PULLBACK_BACKEND", "c")
    monkeypatch.setattr(kernel, "_COMPILER", type("Compiler", (), {"put": staticmethod(queued.append)}))
    monkeypatch.setattr(Kernel, "_is_on_disk", lambda self: False)
    made = doubled()
    before = lazy.stats()
    for wanted in (0, 1, 1):
        assert made([X])[0].tolist() == (2 * X).tolist()
        assert len(queued) == wanted
    assert (lazy.stats() - before).interpreted == (lazy.stats() - before).kernels == 3
    assert queued == [made]
    made.compile()
    assert (lazy.stats() - before).compiled == 1
    made.compile()  # once
    assert made([X])[0].tolist() == (2 * X).tolist()
    assert made([np.repeat(X, 2)[::2]])[0].tolist() == (2 * X).tolist()  # not in row-major order
    after = lazy.stats() - before
    assert (after.compiled, after.kernels, after.interpreted) == (1, 5, 3)


def test_kernels_that_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    queued: list[Kernel] = []
    monkeypatch.setattr(kernel.policy, "warn_without_compiler", told.append)
    monkeypatch.setattr(kernel, "_COMPILER", type("Compiler", (), {"put": staticmethod(queued.append)}))
    monkeypatch.setattr(Kernel, "_is_on_disk", lambda self: True)

    def fails(*_: Any) -> Any:
        raise CompilerError("E501", "no compiler")

    monkeypatch.setattr("pullback.runtime.executor.compile_program", fails)
    monkeypatch.setenv("PULLBACK_BACKEND", "c")
    for made, value, says in ((doubled(), X, ["no compiler"]), (doubled((0,)), X[:0], [])):
        told.clear()
        for _ in range(3):
            assert made([value])[0].tolist() == (2 * value).tolist()
        assert (told, made._state, queued) == (says, "refused", [])
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    made = doubled()
    assert made([X])[0].tolist() == (2 * X).tolist() and made._state == "refused"


def test_the_compiling_thread_goes_on_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(kernel.policy, "warn_without_compiler", told.append)

    class Bad:
        def compile(self) -> None:
            raise ValueError("odd")

    class Good:
        done = 0

        def compile(self) -> None:
            Good.done += 1

    compiler: Any = kernel._Compiler()
    for job in (Good(), Bad(), Good()):
        compiler.put(job)
    compiler.wait()
    assert Good.done == 2 and told == ["a piece of a lazy program was not compiled: odd"]
    thread = compiler._thread
    assert thread.daemon and thread.is_alive() and thread.name == "pullback lazy compiler"
    compiler.stop()
    assert not thread.is_alive()
    compiler.put(Good())
    compiler.wait()
    assert Good.done == 3 and compiler._thread is not thread
    compiler.stop()
    kernel._Compiler().stop()  # that never began


def test_what_waits_for_the_compiler() -> None:
    class Slow:
        done = False

        def compile(self) -> None:
            time.sleep(0.05)
            Slow.done = True

    job: Any = Slow()
    kernel._COMPILER.put(job)
    lazy.finish_compiling()
    assert Slow.done


def test_complex_kernels() -> None:
    z = np.array([1 + 2j, 3 - 1j])
    own = type_of_value(z)
    assert own is not None
    program, results, _ = traced_program("turned", [own], lambda h: [h[0] * 1j, h[0].real])
    made = Kernel(program, [own], results)
    for route in (made.interpret, made, lambda v: made._slow_entry(_Executable(made))(*v)):
        turned, real = route([z])
        assert turned.tolist() == (1j * z).tolist() and real.tolist() == z.real.tolist() and turned.dtype == z.dtype
    assert lazy.grad(lambda x: lazy.sum(lazy.abs(x * (3 + 4j))))(X).tolist() == [5.0] * 3


class _Executable:
    """A program that the interpreter runs, as the runtime has them."""

    def __init__(self, made: Kernel) -> None:
        self.program = made._program

    def run(self, values: Any) -> Any:
        from pullback.ir.interpret import interpret

        return interpret(self.program, values)


# Threads ------------------------------------------------------------------------------------------------------------


def test_calls_side_by_side() -> None:
    here_ = threading.current_thread()
    barrier = threading.Barrier(2, timeout=20)

    def meets() -> Any:
        barrier.wait()
        return threading.current_thread()

    def where() -> Any:
        return threading.current_thread()

    def fails() -> Any:
        raise ValueError("no")

    assert running.together([(1.0, where), (HEAVY * 0.9, where)], 4) == [here_, here_]
    found = running.together([(HEAVY, meets), (HEAVY, meets)], 2)
    assert found[0] is not here_ and found[1] is here_
    assert running.together([(HEAVY, where), (HEAVY, where)], 1) == [here_, here_]
    found = running.together([(BLOCKING, meets), (BLOCKING, meets)], 1)  # which may wait for one another
    assert here_ not in found
    assert running.together([(BLOCKING, where)], 2) == [here_]
    found = running.together([(BLOCKING, where), (1.0, where), (HEAVY, where)], 2)
    assert [t is here_ for t in found] == [False, True, False]
    found = running.together([(HEAVY, fails), (1.0, fails), (HEAVY, where)], 2)
    assert [type(t).__name__ for t in found] == ["ValueError", "ValueError", "_MainThread"]
    assert running.at_once([(1.0, lambda: 3)], 2) == [3]
    assert running.at_once([(1.0, lambda: 3), (1.0, lambda: 4)], 2) == [3, 4]
    for calls in ([(1.0, fails)], [(1.0, where), (1.0, fails)]):
        with pytest.raises(ValueError, match="no"):
            running.at_once(calls, 2)
    active: list[int] = []
    most: list[int] = []

    def counted() -> None:
        active.append(1)
        time.sleep(0.005)
        most.append(len(active))
        active.pop()

    running.together([(HEAVY, counted)] * 5, 2)
    assert max(most) <= 2  # this thread is one of them
    kept: list[Any] = [1, ValueError("first"), KeyError("second")]
    with pytest.raises(ValueError, match="first"):
        running.raise_first(kept)
    assert kept == []


def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULLBACK_THREADS", raising=False)
    monkeypatch.setattr(kernel, "_processors", lambda: 7)
    assert running.thread_count() == 7
    monkeypatch.setenv("PULLBACK_THREADS", "3")
    assert running.thread_count() == 3
    with pb.threads(2):
        assert running.thread_count() == 2
    monkeypatch.delenv("PULLBACK_THREADS")
    with pb.threads(2):
        assert running.thread_count() == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_heavy_parts_run_on_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "HEAVY", 60.0)
    monkeypatch.setattr(running, "HEAVY", 60.0)
    a = np.random.default_rng(0).normal(size=(7, 7))
    before = lazy.stats()
    with pb.threads(threads):
        w = lazy.Weight(a)
        both = lazy.sum((w @ w) * (w @ w.T))
        assert lazy.backward(both) == pytest.approx(np.sum((a @ a) * (a @ a.T)))
    p, q = a @ a, a @ a.T
    np.testing.assert_allclose(w.grad, q @ a.T + a.T @ q + p @ a + p.T @ a, rtol=1e-9, atol=1e-12)
    assert (lazy.stats() - before).kernels == (1 if threads == 1 else 5)  # by regions
