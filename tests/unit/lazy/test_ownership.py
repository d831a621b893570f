"""Arrays that something holds get a value when others are computed, whatever a reference count says."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pullback import lazy
from pullback.lazy import kernel, running
from pullback.lazy.node import Array

X = np.array([0.25, 0.5, -1.0])


@pytest.fixture(autouse=True)
def _nothing_unsettled() -> Iterator[None]:
    yield
    assert not running.UNSETTLED


def holds_list(x: Any) -> Any:
    return [x]


def holds_dict(x: Any) -> Any:
    return {"x": (x, None)}


def holds_closure(x: Any) -> Any:
    return lambda: x


def holds_generator(x: Any) -> Any:
    def walk() -> Iterator[Any]:
        yield 1
        yield x

    made = walk()
    next(made)
    return made


def holds_attribute(x: Any) -> Any:
    class Holder: ...

    made = Holder()
    made.x = x  # type: ignore[attr-defined]
    return made


def holds_waiting(x: Any) -> Any:
    return lazy.sin(x) + 1.0


def holds_exception(x: Any) -> Any:
    def fail(x: Any) -> None:
        raise ValueError("with a frame that holds x")

    try:
        fail(x)
    except ValueError as error:
        return error


def holds_value_of_weak_dictionary(x: Any) -> Any:
    return weakref.WeakValueDictionary({"x": x}), [x]


HOLDERS = [holds_list, holds_dict, holds_closure, holds_generator, holds_attribute, holds_waiting, holds_exception,
           holds_value_of_weak_dictionary]  # fmt: skip


@pytest.mark.parametrize("holder", HOLDERS, ids=lambda f: f.__name__)
def test_what_is_held_gets_a_value(holder: Callable[[Any], Any]) -> None:
    x = lazy.asarray(X)
    between = lazy.exp(x)
    kept, seen = holder(between), weakref.ref(between)
    wanted = lazy.tanh(between) * 2.0
    del between
    np.testing.assert_allclose(wanted, np.tanh(np.exp(X)) * 2.0, rtol=1e-12)
    held = seen()
    assert held is not None
    np.testing.assert_allclose(held.value, np.exp(X), rtol=1e-12)
    del kept


def test_what_nobody_holds_has_ended_when_the_kernel_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    x = lazy.asarray(X)
    between = lazy.exp(x)
    seen, alive = weakref.ref(between), []
    wanted = lazy.tanh(between) * 3.0
    del between
    call = kernel.Kernel.__call__

    def observed(self: Any, values: Any) -> Any:
        alive.append(seen())
        return call(self, values)

    monkeypatch.setattr(kernel.Kernel, "__call__", observed)
    np.testing.assert_allclose(wanted, np.tanh(np.exp(X)) * 3.0, rtol=1e-12)
    if sys.implementation.name == "cpython":
        assert alive == [None]


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="no immediate reclamation")
@pytest.mark.parametrize("count", [1, 2, 5, 20])
def test_a_kernel_has_no_result_that_nobody_holds(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = lazy.asarray(X)
    found: list[int] = []
    begin = running.Straight.begin

    def observed(self: Any, chunk: Any) -> None:
        begin(self, chunk)
        found.append(len(self.outputs))

    monkeypatch.setattr(running.Straight, "begin", observed)
    y = h = x * 0.5
    for _ in range(count):
        h = lazy.sin(h) * lazy.exp(h) + x
        h = x - h
    expected = h * x
    del h
    expected.numpy()
    assert found[0] == 2  # y, and the last before a cut
    assert set(found[1:]) <= {1}
    assert y.value is not None


@pytest.mark.slow
def test_a_weak_reference_alone_holds_nothing_and_an_ended_array_stays_ended() -> None:
    x = lazy.asarray(X)
    table: Any = weakref.WeakValueDictionary()
    table["a"] = a = lazy.exp(x)
    table["b"] = b = a + 1.0
    wanted = b * 2.0
    del a
    assert sorted(table) == ["a", "b"]
    wanted.numpy()
    gc.collect()
    assert sorted(table) == ["b"]
    np.testing.assert_allclose(table["b"].value, np.exp(X) + 1.0, rtol=1e-12)


@pytest.mark.slow
def test_an_array_in_a_cycle_is_kept_until_the_cycle_is_collected() -> None:
    x = lazy.asarray(X)
    between = lazy.exp(x)
    cycle: list[Any] = [between]
    cycle.append(cycle)
    seen = weakref.ref(between)
    wanted = between * 2.0
    gc.disable()
    try:
        del between, cycle
        wanted.numpy()
        held = seen()
        assert held is not None
        np.testing.assert_allclose(held.value, np.exp(X), rtol=1e-12)
        del held
    finally:
        gc.enable()
    gc.collect()
    assert seen() is None


def test_a_second_reader_that_waits_needs_no_second_computation() -> None:
    x = lazy.asarray(X)
    shared = lazy.exp(x) + 5.0
    first, second = shared * 2.0, shared * 3.0
    seen = weakref.ref(shared)
    del shared
    first.numpy()
    before = lazy.stats()
    node = seen()
    assert node is not None
    assert node.value is not None
    np.testing.assert_allclose(second, (np.exp(X) + 5.0) * 3.0, rtol=1e-12)
    assert (lazy.stats() - before).kernels == 1


# Errors ---------------------------------------------------------------------------------------------------------------


def failing(x: Any, place: Any) -> tuple[Any, Any]:
    """An array that cannot be computed, and one that can, of a part that nobody holds."""
    shared = lazy.exp(x) * 2.0
    return lazy.take(lazy.sin(shared), place) + 1.0, lazy.cos(shared)


def test_arrays_stay_as_they_were_when_a_kernel_fails() -> None:
    x, place = lazy.asarray(X), lazy.asarray([0, 7])
    bad, good = failing(x, place)
    errors: list[Any] = []
    pieces = []
    for _ in range(4):
        before = lazy.stats()
        with pytest.raises(IndexError) as caught:
            running.force([bad, good])
        errors.append(caught.value)  # its traceback holds frames
        pieces.append((lazy.stats() - before).pieces)
        assert bad.value is good.value is None
    assert pieces[1:] == [0, 0, 0]
    assert all("test_ownership.py" in str(e.__notes__) for e in errors)
    np.testing.assert_allclose(good, np.cos(np.exp(X) * 2.0), rtol=1e-12)
    with pytest.raises(IndexError):
        bad.numpy()
    np.testing.assert_allclose(lazy.exp(x), np.exp(X), rtol=1e-12)


def test_results_of_one_operation_survive_a_failure() -> None:
    r = np.random.default_rng(3)
    a = r.normal(size=(3, 3))
    x, place = lazy.asarray(a), lazy.asarray([9])
    q, upper = lazy.linalg.qr(x)
    bad, product = lazy.take(lazy.sum(upper, axis=0), place), q @ upper
    del q, upper
    for _ in range(3):
        with pytest.raises(IndexError):
            running.force([bad, product])
    np.testing.assert_allclose(product, a, rtol=1e-12, atol=1e-13)


class Interrupted(BaseException):
    """Stands for Ctrl-C."""


@pytest.mark.parametrize("method", ["_let_go", "compute", "settle"])
def test_an_interrupt_anywhere_leaves_arrays_that_can_be_computed(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    w = lazy.Weight(X)
    part = lazy.exp(w) * 2.0
    y, z = lazy.sin(part) + 1.0, lazy.sum(lazy.tanh(part * part))
    del part
    original = getattr(running.Straight, method)

    def early(self: Any, *args: Any) -> Any:
        raise Interrupted

    def late(self: Any, *args: Any) -> Any:
        original(self, *args)
        raise Interrupted

    for stop in (early, late, early):
        if stop is late and method == "settle":
            continue
        for attempt in (lambda: running.force([y, z]), lambda: lazy.backward(z)):
            with monkeypatch.context() as patch:
                patch.setattr(running.Straight, method, stop)
                if method == "settle":
                    patch.setattr(running.Straight, "settle_with", stop)
                with pytest.raises(Interrupted):
                    attempt()
            assert y.value is z.value is None
            assert not running.UNSETTLED
    p = np.exp(X) * 2.0
    assert lazy.backward(z) == pytest.approx(np.tanh(p * p).sum(), rel=1e-12)
    np.testing.assert_allclose(w.grad, 2 * p * p / np.cosh(p * p) ** 2, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(y, np.sin(p) + 1.0, rtol=1e-12)


def test_an_interrupt_between_two_nodes_leaves_arrays_that_can_be_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    for count in range(1, 12):
        x = lazy.asarray(X)
        a = lazy.exp(x)
        b, c = lazy.sin(a * a) + 1.0, lazy.cos(a) - x
        del a
        calls = iter(range(count))

        def stopping(node: Array, calls: Any = calls) -> Any:
            if next(calls, None) is None:
                raise Interrupted
            return weakref.ref(node)

        with monkeypatch.context() as patch:
            patch.setattr(running, "ref", stopping)
            try:
                running.force([b, c])
            except Interrupted:
                assert b.value is c.value is None
        e = np.exp(X)
        np.testing.assert_allclose(c, np.cos(e) - X, rtol=1e-12)
        np.testing.assert_allclose(b, np.sin(e * e) + 1.0, rtol=1e-12)


@pytest.mark.parametrize("gradient", [False, True])
def test_a_finalizer_or_signal_handler_may_ask_for_what_its_thread_computes(
    gradient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = lazy.Weight(X)
    part = lazy.exp(w) * 2.0
    y, z = lazy.sin(part), lazy.sum(part * part)
    del part
    compute, seen = running.Straight.compute, []

    def interrupted(self: Any, *args: Any) -> Any:
        monkeypatch.setattr(running.Straight, "compute", compute)
        seen.append((y.numpy(), float(z)))
        return compute(self, *args)

    monkeypatch.setattr(running.Straight, "compute", interrupted)
    if gradient:
        lazy.backward(z)
        np.testing.assert_allclose(w.grad, 8 * np.exp(2 * X), rtol=1e-12)
    p = np.exp(X) * 2.0
    np.testing.assert_allclose(y, np.sin(p), rtol=1e-12)
    np.testing.assert_allclose(z, (p * p).sum(), rtol=1e-12)
    np.testing.assert_allclose(seen[0][0], np.sin(p), rtol=1e-12)
    assert seen[0][1] == pytest.approx((p * p).sum(), rel=1e-12)


def test_a_failure_in_a_later_chunk_keeps_no_nodes_by_its_traceback() -> None:
    class Slow(lazy.Foreign):
        def result(self, *operands: Any) -> Any:
            return operands[0].shape, operands[0].dtype

        def forward(self, x: Any) -> Any:
            raise OSError("not now")

    x = lazy.asarray(X)
    inner = lazy.exp(x)
    seen = weakref.ref(inner)
    wanted = lazy.sum(Slow()(lazy.sin(inner)) * 2.0)
    del inner
    kept = []
    for _ in range(2):
        with pytest.raises(OSError, match="not now") as caught:
            wanted.numpy()
        kept.append(caught.value)
    assert seen() is None or sys.implementation.name != "cpython"


@pytest.mark.slow
def test_views_and_writes_of_arrays_that_end() -> None:
    a = np.arange(12.0).reshape(3, 4)
    x = lazy.asarray(a)
    base = x * 2.0
    view = base[1:]
    other = view.T
    total = lazy.sum(base) + lazy.sum(other)
    del base
    assert float(total) == a.sum() * 2 + a[1:].sum() * 2
    view[0, 0] = 100.0
    expected = a[1:] * 2
    expected[0, 0] = 100.0
    np.testing.assert_array_equal(view, expected)
    np.testing.assert_array_equal(other, expected.T)


# Processes ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_computes_what_another_thread_was_computing_at_the_fork() -> None:
    import threading

    started, ended = threading.Event(), threading.Event()

    class Waiting(lazy.Foreign):
        def result(self, *operands: Any) -> Any:
            return operands[0].shape, operands[0].dtype

        def forward(self, x: Any) -> Any:
            started.set()
            ended.wait(30)
            return x + 1.0, None

    x = lazy.asarray(X)
    a = lazy.exp(x)
    straight, foreign = lazy.sin(a) * 2.0, Waiting()(lazy.cos(x))
    del a
    thread = threading.Thread(target=lambda: running.force([straight, foreign]))
    thread.start()
    assert started.wait(30)
    child = os.fork()
    if not child:
        code = 1
        try:
            ended.set()
            code = 0 if np.allclose(straight, np.sin(np.exp(X)) * 2.0) and np.allclose(foreign, np.cos(X) + 1) else 2
        finally:
            os._exit(code)
    ended.set()
    thread.join(30)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_allclose(straight, np.sin(np.exp(X)) * 2.0, rtol=1e-12)
