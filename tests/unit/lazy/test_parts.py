"""Parts of lazy arrays by themselves: types, kernels, threads, layers, counts, weights, deltas, names."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import DerivativeError, TraceError, lazy, nn
from pullback.errors import CompilerError, PullbackError
from pullback.ir import types
from pullback.lang.tree import LEAF, Structure
from pullback.lazy import elsewhere, kernel, methods, running, training
from pullback.lazy.counts import COUNTS, Stats
from pullback.lazy.foreign import ForeignTape
from pullback.lazy.kernel import Kernel
from pullback.lazy.layers import Place, here, noted
from pullback.lazy.node import Array, value_of
from pullback.lazy.operation import Operation, apply, leaves_of, quick_key, traced_program
from pullback.lazy.plan import BLOCKING, HEAVY
from pullback.lazy.types import array_type, type_of_value
from pullback.source import Position

X = np.array([1.0, 2.0, 4.0])


def refused(f: Any, *args: Any) -> Any:
    with pytest.raises(PullbackError) as caught:
        f(*args)
    return caught.value


# Types and values ---------------------------------------------------------------------------------------------------


def test_types() -> None:
    wide, none = array_type(types.f32, (2, 3)), array_type(types.i64, ())
    assert (wide.size, wide.bytes, wide.floating, wide.form, wide.part, repr(wide)) == (
        6, 24, True, 0, types.f32, "f32[2, 3]")  # fmt: skip
    assert (none.size, none.bytes, none.floating, repr(none)) == (1, 8, False, "i64")
    both = type_of_value(np.zeros(3, np.complex64))
    assert both is not None
    assert (both.form, both.part, both.bytes, both.floating) == (2, types.f32, 24, True)
    assert array_type(types.f32, (2, 3)) is wide is type_of_value(np.zeros((2, 3), "f4"))
    assert type_of_value(np.array(["text"])) is None
    assert refused(lazy.asarray, np.array(["text"])).code == "E122"


def test_what_is_known_without_running() -> None:
    before = lazy.stats()
    x = lazy.ones((2, 3), dtype=lazy.float32) * 2.0
    assert (x.shape, x.ndim, x.size, len(x), x.dtype, x.device) == ((2, 3), 2, 6, 2, lazy.float32, "cpu")
    assert (x.leaf is x, x.__dlpack_device__(), x.value) == (True, (1, 0), None)
    with pytest.raises(TypeError, match=r"len\(\) of a lazy array without axes"):
        len(x[0, 0])
    with pytest.raises(AttributeError):
        _ = x._private
    error = refused(lambda: x.softmax)
    assert error.what == "a lazy array has no attribute 'softmax'"
    assert error.remedy == "`lazy.softmax(x)`: it is a function"
    assert refused(lambda: x.to_device("cuda")).code
    assert (lazy.stats() - before).kernels == 0


def test_values_and_their_text() -> None:
    x = lazy.asarray(X)
    assert (repr(x), str(x), f"{x}", f"{x[1]:.2f}") == ("lazy([1., 2., 4.])", "[1. 2. 4.]", "[1. 2. 4.]", "2.00")
    assert (2.0 in x, 3.0 in x, int(x[2]), bool(x[0] > 1), complex(x[1])) == (True, False, 4, False, 2 + 0j)
    assert np.asarray(x, "f4").dtype == np.float32
    assert np.array(x, copy=True) is not x.numpy() and x.__array__() is x.numpy()
    assert not np.shares_memory(x.__array__(copy=True), x.numpy())
    assert x.__array__("f8") is x.numpy()
    y = x + 1.0
    assert y.value is None and value_of(y) is y.numpy() and y.value is not None
    assert (y.application, y.operands, y.numpy().flags.writeable) == (None, (), False)
    assert lazy.asarray(X[::2]).numpy().flags.c_contiguous


def test_where_arrays_come_from() -> None:
    assert np.shares_memory(lazy.asarray(X).numpy(), X)
    assert not np.shares_memory(lazy.asarray(X, copy=True).numpy(), X)
    assert lazy.asarray(X, dtype="float32").dtype == lazy.float32
    assert lazy.asarray([1, 2.5]).tolist() == [1.0, 2.5]
    x = lazy.asarray(X)
    assert lazy.asarray(x) is x is lazy.asarray(x, dtype=lazy.float64, copy=False)
    assert lazy.asarray(x, copy=True).tolist() == x.tolist()
    assert lazy.asarray(x, copy=True) is not x and not np.shares_memory(lazy.asarray(x, copy=True).numpy(), X)
    assert lazy.asarray(x, dtype="float32").dtype == lazy.float32
    for wrong in (lambda: lazy.asarray(x, dtype="float32", copy=False), lambda: lazy.asarray([1.0], copy=False),
                  lambda: lazy.asarray(X, dtype="float32", copy=False), lambda: lazy.asarray(X[::2], copy=False)):
        with pytest.raises(ValueError, match="copy=False"):
            wrong()
    assert lazy.asarray([[x[0], 2.0], [lazy.asarray(3), 4]]).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert lazy.asarray((1, (2,)[0]), dtype="int8").dtype == lazy.int8
    assert lazy.from_dlpack(X).tolist() == X.tolist() and lazy.from_dlpack(x) is x
    assert np.shares_memory(lazy.from_dlpack(X).numpy(), X)
    assert not np.shares_memory(lazy.from_dlpack(X, copy=True).numpy(), X)
    w = lazy.Weight(X)
    assert lazy.asarray(w) is w.leaf
    for made in (lambda v: lazy.asarray([v[0], 3.0, v[2]]), lambda v: lazy.asarray([v[0], 3, v[2]], dtype="float32")):
        assert lazy.grad(lambda v, made=made: lazy.sum(made(v) ** 2))(X).tolist() == [2.0, 0.0, 8.0]


def test_shapes_that_depend_on_values() -> None:
    with pytest.raises(ValueError, match="nonzero: an array without axes has no places"):
        lazy.nonzero(lazy.asarray(3.0))
    x = lazy.asarray([[3.0, 1.0], [3.0, 0.0]])
    assert [i.tolist() for i in lazy.nonzero(x)] == [[0, 0, 1], [0, 1, 0]]
    values, places, inverse, counts = lazy.unique_all(x)
    assert (values.tolist(), places.tolist(), inverse.tolist(), counts.tolist()) == (
        [0, 1, 3], [3, 1, 0], [[2, 1], [2, 0]], [1, 1, 2])  # fmt: skip
    assert [i.dtype for i in (places, inverse, counts, *lazy.nonzero(x))] == [lazy.int64] * 5
    assert len(lazy.unique_values([np.nan, np.nan]).tolist()) == 2
    assert [a.tolist() for a in lazy.unique_counts(x)] == [[0, 1, 3], [1, 1, 2]]
    assert [a.tolist() for a in lazy.unique_inverse(x)] == [[0, 1, 3], [[2, 1], [2, 0]]]
    assert x[x > 0].tolist() == x[np.asarray(x) > 0].tolist() == [3, 1, 3]
    assert x[[True, False]].tolist() == [[3, 1]] and x[[1, 0], 0].tolist() == [3, 3]
    assert x[lazy.asarray([False, True]), 0].tolist() == [3.0]


# Operations ---------------------------------------------------------------------------------------------------------


def test_an_operation_is_traced_once_for_equal_arguments() -> None:
    traced: list[Any] = []

    def run(x: Any, *args: Any, **keywords: Any) -> Any:
        traced.append((args, keywords))
        return x * 2.0

    operation = Operation("test.run", run)
    x, y = lazy.asarray(X), lazy.asarray(X + 1)
    for args, keywords in (((x,), {}), ((x, 1), {}), ((x, 1.0), {}), ((x, True), {}), ((x, (1, 2)), {}),
                           ((x, [1, 2]), {}), ((x, slice(1, 2)), {}), ((x,), {"k": 1}), ((x,), {"k": None}),
                           ((x, 0.0), {}), ((x, -0.0), {}), ((x, x), {}), ((x, {"a": x, "b": 2}), {}), ((x, "s"), {}),
                           ((x, ...), {}), ((x, pb.float32), {}), ((x, np.dtype("i4")), {})):  # fmt: skip
        before = len(traced)
        first = apply(operation, args, keywords)
        assert len(traced) == before + 1, (args, keywords)
        other = apply(operation, tuple(y if a is x else a for a in args), keywords)
        assert len(traced) == before + 1
        assert first.application is other.application
        assert (first.tolist(), other.tolist()) == ((2 * X).tolist(), (2 * X + 2).tolist())
    assert apply(operation, (x[:2],), {}).shape == (2,)
    error = refused(apply, operation, (x, object()), {})
    assert (error.code, error.what) == ("E701", "object is no argument of an operation on lazy arrays")


def test_what_an_application_is() -> None:
    x = lazy.ones((4, 8))
    made = {name: f().application for name, f in {
        "exp": lambda: lazy.exp(x), "sum": lambda: lazy.sum(x), "product": lambda: x @ x.T,
        "floor": lambda: lazy.floor(x), "stop": lambda: lazy.stop_gradient(x), "compare": lambda: x > 1.0,
        "take": lambda: lazy.take(x, np.array([1]), axis=0),
        "row": lambda: x[1], "sort": lambda: lazy.sort(x), "cumulative": lambda: lazy.cumulative_sum(x, axis=1),
        "zeros": lambda: lazy.zeros_like(x)}.items()}  # fmt: skip
    assert {n for n, a in made.items() if a.checked} == {"take", "sort", "cumulative"}
    assert {n for n, a in made.items() if not a.floating} == {"floor", "stop", "compare", "zeros"}
    assert {n for n, a in made.items() if not a.quick} == {"take", "sort", "cumulative"}
    assert {n: a.work for n, a in made.items() if n in ("exp", "sum", "row")} == {"exp": 32, "sum": 3, "row": 8}
    assert made["product"].work == 16 * (1 + 8 / 16)
    numbers = [a.number for a in made.values()]
    assert len(set(numbers)) == len(numbers)
    assert (repr(made["exp"]), made["exp"].item, made["exp"].foreign) == (made["exp"].text, -1, False)
    assert made["exp"].text.startswith("pb.exp(") and "f64[4, 8]" in made["exp"].text
    assert made["exp"].rank != made["sum"].rank


def test_quick_keys() -> None:
    x, w = lazy.asarray(X), lazy.Weight(X)
    operands: list[Any] = []
    key = quick_key((x, 1, 2.0, None, ..., (1, [w, slice(0, 1)]), pb.float32), operands)
    assert operands == [x, w.leaf] and key is not None
    assert quick_key((x, 1, 3.0, None, ..., (1, [w, slice(0, 1)]), pb.float32), []) != key
    assert quick_key((x, 1, 2.0, None, ..., [1, [w, slice(0, 1)]], pb.float32), []) != key
    for other in (True, "s", X, object(), (1, "s"), slice("s", 1)):
        assert quick_key((x, other), []) is None
    assert quick_key((0.0,), []) != quick_key((-0.0,), [])


def test_several_results_are_a_tree() -> None:
    f = lazy.lift(lambda x: {"a": (x + 1.0, [pb.sum(x)]), "n": None, "z": x.astype(pb.complex64)})
    x = lazy.Weight(X)
    found = f(x)
    assert (found["a"][0].tolist(), found["a"][1][0].tolist(), found["n"]) == ([2, 3, 5], 7.0, None)
    assert (found["z"].dtype, found["z"].tolist()) == (lazy.complex64, X.tolist())
    assert found["a"][0].tracked
    leaves, structure = leaves_of({"a": (1, [2]), "n": None})
    assert leaves == [1, 2] and structure.kind == "dict"
    lazy.backward(lazy.sum(f(x)["a"][0] * f(x)["a"][1][0]))
    assert x.delta.tolist() == [10.0 + 7] * 3
    program, types_, form = traced_program("two", [array_type(types.f32, (3,))], lambda h: (h[0] * 2.0, pb.sum(h[0])))
    assert (types_, form.kind) == ((array_type(types.f32, (3,)), array_type(types.f32, ())), "tuple")
    assert [o.dtype for o in program.outputs] == [types.f32, types.f32]


def test_the_methods_of_the_class() -> None:
    wanted = {n for n, f in vars(pb.lang.array.Array).items() if callable(f) and not n.startswith("_")}
    made = methods.installed()
    assert wanted - {"to_device", "element"} <= set(made) | {"shape", "dtype", "ndim", "size", "device"}
    assert {f"__{n}__" for n in ("add", "radd", "matmul", "rmatmul", "lt", "neg", "getitem", "divmod")} <= set(made)
    assert {"T", "mT", "real", "imag", "conj", "sum", "reshape"} <= set(made)
    assert made["sum"].__name__ == "sum" and made["sum"].__doc__ == pb.lang.array.Array.sum.__doc__
    x = lazy.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert (x.T.tolist(), x.sum(axis=0).tolist(), divmod(x[1], 2.0)[1].tolist()) == ([[1, 3], [2, 4]], [4, 6], [1, 0])
    assert (x - 1.0).tolist() == (-(1.0 - x)).tolist() and (2.0 ** x[0]).tolist() == [2, 4]
    assert (x // 2).tolist() == [[0, 1], [1, 2]] and (5 % x[1]).tolist() == [2, 1]
    assert round(x[0] * 1.26).tolist() == [1, 3]
    assert x.__add__("text") is NotImplemented and x.__radd__("text") is NotImplemented
    w = lazy.Weight(X)
    for found in (w - 1.0, w - lazy.asarray([1.0] * 3), lazy.asarray(X) - w + w - 1.0, -(1.0 - w), -w.__rsub__(1.0)):
        assert found.tolist() == [0, 1, 3] and found.tracked
    assert (w @ w).item() == 21 and (X - w).tolist() == [0, 0, 0] and w[1:].tolist() == [2, 4]
    error = refused(x.__setitem__, 0, 1.0)
    assert (error.code, error.what) == ("E147", "x[...] = ...: an array never changes")


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
    monkeypatch.setattr(running, "_processors", lambda: 7)
    assert running.thread_count() == 7
    monkeypatch.setenv("PULLBACK_THREADS", "3")
    assert running.thread_count() == 3
    with pb.threads(2):
        assert running.thread_count() == 2
    monkeypatch.delenv("PULLBACK_THREADS")
    with pb.threads(2):
        assert running.thread_count() == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_heavy_parts_run_on_threads(threads: int) -> None:
    n = 200
    a = np.random.default_rng(0).normal(size=(n, n)) / n
    with pb.threads(threads):
        w = lazy.Weight(a)
        both = lazy.sum((w @ w) * (w @ w.T))
        assert lazy.backward(both) == pytest.approx(np.sum((a @ a) * (a @ a.T)))
    p, q = a @ a, a @ a.T
    wanted = q @ a.T + a.T @ q + p @ a + p.T @ a
    np.testing.assert_allclose(w.delta, wanted, rtol=1e-9, atol=1e-12)


# Layers, counts -----------------------------------------------------------------------------------------------------


def test_places_and_notes() -> None:
    position = Position("net.py", 3, 1, 1, 1) if len(Position.__annotations__) == 5 else here().position
    assert position is not None
    where = f"{position.file}:{position.line}"
    assert str(Place(position, ())) == where and str(Place(None, ())) == "?"
    assert str(Place(position, ("a", "b"))) == f"{where} in layer a/b"
    error = ValueError()
    for _ in range(2):
        assert noted(error, Place(position, ("a",))) is error
        noted(error, None)
    assert error.__notes__ == [f"the value was built at {where} in layer a"]

    @lazy.layer
    def outer(x: Any, *, fail: bool = True) -> Any:
        return inner(x, fail)

    @lazy.layer
    def inner(x: Any, fail: bool) -> Any:
        if fail:
            raise ValueError("no")
        return here()

    with pytest.raises(ValueError, match="no") as caught:
        outer(1.0)
    assert caught.value.__notes__ == ["in layer outer/inner"]
    assert outer(1.0, fail=False).layers == ("outer", "inner")
    assert here().layers == () and outer.__name__ == "outer"
    assert str(here().position).endswith(f"{here().position.line}") or here().position.line > 0  # type: ignore[union-attr]


def test_an_index_that_is_out_of_range_names_its_layer() -> None:
    @lazy.layer
    def lookup(x: Any, k: Any) -> Any:
        return lazy.take(x, k) * 2.0

    x = lazy.asarray(X)
    good, bad = lookup(x, lazy.asarray([0, 2])), lookup(x, lazy.asarray([0, 7]))
    assert good.tolist() == [2.0, 8.0]
    with pytest.raises(IndexError) as caught:
        bad.numpy()
    (note,) = caught.value.__notes__
    assert note.startswith("the value was built at ") and note.endswith(" in layer lookup")
    with pytest.raises(IndexError) as caught:
        (lazy.exp(good + 1.0) + lookup(x, lazy.asarray([9, 0])) + good).numpy()
    assert caught.value.__notes__[0].endswith("in layer lookup")


def test_counts() -> None:
    assert Stats(9, 8, 7, 6, 5, 4, 3, 2) - Stats(1, 1, 1, 1, 1, 1, 1, 1) == Stats(8, 7, 6, 5, 4, 3, 2, 1)
    before = lazy.stats()
    assert before == COUNTS and before is not COUNTS
    w = lazy.Weight(np.ones(1000))
    h = lazy.exp(w * 1.000123)
    h.numpy()
    held = lazy.stats() - before
    assert (held.tapes, held.kernels, held.pieces + held.found) == (1, 1, 1)
    assert held.live_bytes >= 8000
    lazy.backward(lazy.sum(h))
    after = lazy.stats() - before
    assert (after.tapes, after.live_bytes) == (0, 0)
    again = lazy.exp(lazy.Weight(np.ones(1000)) * 1.000123)
    known = lazy.stats()
    again.numpy()
    assert (lazy.stats() - known).found == 1 and (lazy.stats() - known).pieces == 0


# Weights, derivatives -----------------------------------------------------------------------------------------------


def test_weights() -> None:
    w = lazy.Weight([1.0, 2.0], "w")
    assert (w.name, w.version, w.delta, w.tracked, w.shape, repr(w)) == ("w", 0, None, True, (2,), "Weight(w : f64[2])")
    first = w.leaf
    w.set_value(np.array([[3.0]]))
    assert (w.version, w.shape, w.tolist(), first.tolist(), w.leaf is first) == (1, (1, 1), [[3.0]], [1.0, 2.0], False)
    assert lazy.Weight(1.0).name != lazy.Weight(1.0).name
    made = lazy.weights({"conv1": {"w": X, "b": np.zeros(2)}, "out": (X, X)})
    assert made["conv1"]["w"].name == "conv1/w" and made["out"][1].name == "out/1"
    assert made["conv1"]["w"].tolist() == X.tolist()


def test_backward() -> None:
    w = lazy.Weight(X, "w")
    assert lazy.backward(lazy.sum(w * w), retain=True) == 21.0
    loss = lazy.sum(w * w * 1.5)
    assert [lazy.backward(loss, retain=True), lazy.backward(loss)] == [31.5, 31.5]
    assert w.delta.tolist() == (2 * X + 6 * X).tolist()
    w.delta = None
    assert np.isnan(lazy.backward(w * 2.0, np.array([1.0, 0.0, 3.0])))
    assert w.delta.tolist() == [2.0, 0.0, 6.0]
    lazy.backward(lazy.sum(w), 0.5)
    assert w.delta.tolist() == [2.5, 0.5, 6.5]
    w.delta = None
    assert lazy.backward(w[1]) == 2.0
    assert w.delta.tolist() == [0, 1, 0]
    whole = lazy.sum(w)
    for loss, says in ((w * 2.0, "f64[3]"), (whole > 1, "bool"), (3.0, "float"), (whole * 1j, "complex128")):
        error = refused(lazy.backward, loss)
        assert (error.code, error.what) == (
            "E201", f"backward: the loss is {says}, and a gradient is that of one floating-point number")  # fmt: skip
    h = w * 3.0
    h.numpy()
    lazy.backward(lazy.sum(h * h))
    error = refused(lambda: lazy.backward(lazy.sum(h)))
    assert (error.code, error.remedy) == ("E702", "`retain=True` in the first backward pass keeps it for another")
    loss = lazy.sum(w * 2.0)
    w.set_value(X + 1)
    assert refused(lazy.backward, loss).what == "w was changed between the forward and the backward pass"
    assert lazy.backward(lazy.sum(lazy.asarray(X))) == 7.0


def test_results_of_one_piece_have_deltas_of_their_own() -> None:
    """Two that were computed together, of which the loss reads one, the other, and both."""
    for share in ((3.0, 0.0), (0.0, 5.0), (3.0, 5.0)):
        w, v = lazy.Weight(X), lazy.Weight(X)
        a, b = w * 2.0, v * w
        both = lazy.sum(a) + lazy.sum(b)
        both.numpy()
        assert a.origin[0] is b.origin[0]
        loss = lazy.sum(sum(k * x for k, x in zip(share, (a, b), strict=True) if k))
        lazy.backward(loss)
        assert w.delta.tolist() == (2 * share[0] + share[1] * X).tolist()
        assert (v.delta is None and not share[1]) or v.delta.tolist() == (share[1] * X).tolist()


@pytest.mark.parametrize("forced", ["", "z", "zu", "v", "zuv"])
def test_complex_values_between_pieces(forced: str) -> None:
    """Complex leaves and results of a piece, before and behind real ones."""
    a, b, c = X / 4, X[::-1] / 3, X - 2.5

    def f(xp: Any, a: Any, b: Any, c: Any, look: Any = lambda n, x: x) -> Any:
        z = look("z", a + b * 1j)
        u = look("u", z * c)
        v = look("v", xp.conj(u) * (z + 2.0) + c)
        return xp.sum(xp.real(v) * c) + xp.sum(xp.imag(v) * a) + xp.sum(xp.real(xp.conj(u) * u))

    def look(name: str, x: Any) -> Any:
        if name in forced:
            x.numpy()
        held.append(x)
        return x

    held: list[Any] = []
    cells = [lazy.Weight(v) for v in (a, b, c)]
    loss = f(lazy, *cells, look)
    before = lazy.stats()
    for _ in range(2):
        assert lazy.backward(loss, retain=True) == pytest.approx(f(np, a, b, c))
    step = 1e-6
    for k, w in enumerate(cells):
        for j in range(3):
            moved = [np.array(v) for v in (a, b, c)], [np.array(v) for v in (a, b, c)]
            moved[0][k][j] += step
            moved[1][k][j] -= step
            slope = (f(np, *moved[0]) - f(np, *moved[1])) / (2 * step)
            assert w.delta[j] == pytest.approx(2 * slope, rel=1e-7, abs=1e-8)
    held.clear()
    del loss
    assert (lazy.stats() - before).tapes <= 0


def test_gradients_by_several_and_keywords() -> None:
    f = lambda x, y, *, k=1.0: lazy.sum(x * y) * k
    value, (dx, dy) = lazy.value_and_grad(f, (0, 1))(X, 2.0 * X, k=3.0)
    assert (float(value), dx.tolist(), dy.tolist()) == (126.0, (6 * X).tolist(), (3 * X).tolist())
    assert lazy.grad(f, 1)(X, X).tolist() == X.tolist()
    assert lazy.grad(lambda x, y: lazy.sum(x))(X, X).tolist() == [1, 1, 1]
    assert lazy.grad(lambda x, y: lazy.sum(x), 1)(X, X).tolist() == [0, 0, 0]
    found = lazy.grad(lambda p: p["a"] * p["b"][0] ** 2)({"a": 2.0, "b": [3.0]})
    assert (found["a"].item(), [v.item() for v in found["b"]]) == (9.0, [12.0])
    assert refused(lambda: lazy.grad(lambda x: x * 2.0)(X)).what == (
        "grad(<lambda>): the result is f64[3], and a gradient is that of one floating-point number")  # fmt: skip
    cube = lambda x: x * x * x
    assert lazy.grad(lazy.grad(lazy.grad(cube)))(2.0).item() == 6.0
    w = lazy.Weight(3.0)
    lazy.backward(lazy.grad(lambda x: cube(x) * w, differentiable=True)(2.0))
    assert w.delta == 12.0
    w.delta = None
    plain = lazy.grad(lambda x: cube(x) * w)(2.0)
    assert plain.item() == 36.0 and not plain.tracked and w.delta is None
    inner = lazy.grad(lambda x: cube(x) * w)(w)  # an argument that is tracked
    lazy.backward(inner)
    assert w.delta == 6 * 9.0 + 27.0
    mixed = lazy.grad(lambda x, y: lazy.grad(lambda t: cube(t) * y)(x) * x)(2.0, 5.0)
    assert mixed.item() == 9 * 4 * 5.0


class Twice(lazy.Foreign):
    """Two results, the second of which may have no delta."""

    def __init__(self) -> None:
        self.released: list[Any] = []
        self.seen: list[Any] = []

    def result(self, x: Any, y: Any) -> Any:
        return [(x.shape, x.dtype), (y.shape, "float32")]

    def forward(self, x: Any, y: Any) -> Any:
        return (2 * x, np.float32(3) * y.astype("f4")), (x, y)

    def backward(self, saved: Any, deltas: Any) -> Any:
        self.seen.append([None if d is None else np.asarray(d).tolist() for d in deltas])
        return None if deltas[0] is None else 2 * deltas[0], None if deltas[1] is None else 3.0 * deltas[1]

    def release(self, saved: Any) -> None:
        self.released.append(saved)


def test_operations_in_python() -> None:
    twice, w = Twice(), lazy.Weight(X)
    before = lazy.stats()
    a, b = twice(w, lazy.asarray(X))
    assert (a.dtype, b.dtype, b.shape, (lazy.stats() - before).foreign) == (lazy.float64, lazy.float32, (3,), 0)
    assert b.tolist() == (3 * X).tolist() and (lazy.stats() - before).foreign == 1
    lazy.backward(lazy.sum(a))
    assert (w.delta.tolist(), twice.seen, (lazy.stats() - before).foreign) == ([2, 2, 2], [[[1, 1, 1], None]], 2)
    assert len(twice.released) == 1
    plain = twice(X, X)[0]
    plain.numpy()
    assert len(twice.released) == 2  # at once where no derivative is wanted
    del a, b

    class Wrong(lazy.Foreign):
        name = "wrong"

        def result(self, x: Any) -> Any:
            return x.shape, x.dtype

        def forward(self, x: Any) -> Any:
            return x.astype("f4") if x[0] > 1 else x[:1], None

        def backward(self, saved: Any, delta: Any) -> Any:
            return (delta,)

    for value, says in ((X + 1, "float32[3]"), (X, "float64[1]")):
        error = refused(lambda value=value: Wrong()(value).numpy())
        assert (error.code, error.what) == ("E704", f"wrong: forward gave {says}, and its result was said to be f64[3]")
        assert error.position is not None
    error = refused(lambda: lazy.grad(lambda x: lazy.sum(lazy.grad(lambda y: lazy.sum(twice(y, X)[0]))(x)))(X))
    assert error.code == "E708"
    assert error.what == "Twice is an operation in Python, whose backward pass has no derivative"
    tape = ForeignTape(plain_application(twice), (lazy.asarray(X),), np.zeros(2))
    assert (tape.count, tape.released, tape.work) == (2, False, float("inf"))
    tape.release()
    assert tape.released and tape.leaves == ()


def plain_application(operation: Any) -> Any:
    return operation(X, X)[0].operands[0].application


def test_trainers() -> None:
    w, v = lazy.Weight(X, "w"), lazy.Weight(np.float32([1.0]), "v")
    trainer = lazy.Trainer({"w": w, "v": v, "n": 3}, nn.adam(0.1))
    trainer.update()
    assert (trainer.steps, sorted(trainer.weights)) == (0, ["v", "w"])
    assert trainer.step(lazy.sum(w * 1.0)) == 7.0
    np.testing.assert_allclose(w, X - 0.1, rtol=1e-6)
    assert (trainer.steps, w.delta, v.tolist(), w.version) == (1, None, [1.0], 1)
    assert sorted(trainer.state["mean"]) == ["v", "w"] and trainer.state["mean"]["v"].dtype == np.float32
    asyncio.run(trainer.train(lazy.sum(w) + lazy.sum(v)))
    assert trainer.steps == 2 and v.tolist() != [1.0] and v.dtype == lazy.float32
    assert lazy.run(trainer.train(lazy.sum(w))) == pytest.approx(float(np.sum(X)) - 0.6, abs=1e-6)
    w.delta = np.asfortranarray([[1.0, 1.0, 1.0]])  # whatever is an array of as many elements
    trainer.update()
    assert trainer.steps == 4
    assert len(trainer._kernels) == 2  # of one weight of each type, and of both
    error = refused(lazy.Trainer, [lazy.Weight(X, "w"), w], nn.sgd(0.1))
    assert (error.code, error.what) == ("E707", "Trainer: two weights have one name")
    assert training._nested({("a", "b"): 1, ("a", "c"): 2, ("d",): 3}) == {"a": {"b": 1, "c": 2}, "d": 3}
    assert dict(training._leaves({"a": {"b": X}, "d": 3})) == {("a", "b"): X, ("d",): np.asarray(3)}
    assert training._reads_names(nn.groups({"a": nn.sgd(0.1)})) and not training._reads_names(nn.sgd(0.1))
    assert training._reads_names(nn.clip_by_norm(1.0) >> nn.groups({"a": nn.sgd(0.1)}))


# Await, names -------------------------------------------------------------------------------------------------------


def test_awaiting_together_and_apart() -> None:
    x = lazy.asarray(X)

    async def three() -> Any:
        return await lazy.gather(lazy.sum(x * 1.5), lazy.max(x), nested())

    async def nested() -> Any:
        return float(await (x[0] + 0.5)) + float(await x[1].predict())

    async def fails() -> Any:
        return await lazy.take(x, lazy.asarray([7]))

    for run in (lazy.run, asyncio.run):
        before = lazy.stats()
        assert [float(v) for v in run(three())] == [10.5, 4.0, 3.5]
        assert (lazy.stats() - before).kernels <= 4
        with pytest.raises(IndexError):
            run(fails())

    async def both() -> Any:
        return await asyncio.gather(fails(), three(), fails(), return_exceptions=True)

    first, second, third = asyncio.run(both())
    assert isinstance(first, IndexError) and isinstance(third, IndexError) and float(second[1]) == 4.0

    class Other:
        def __await__(self) -> Any:
            yield 3

    async def waits_for_another() -> None:
        await Other()

    async def inside() -> None:
        lazy.run(nested())

    async def caught() -> Any:
        try:
            return await fails()
        except IndexError:
            return await x[2]

    assert refused(lazy.run, waits_for_another()).what == "a coroutine in lazy.run awaits int, which is asyncio's"
    assert refused(asyncio.run, inside()).what == "lazy.run, where asyncio is running"
    assert lazy.run(caught()) == asyncio.run(caught()) == 4.0
    assert refused((x + 3.0).predict().send, None).code == "E705"  # no run is under way any more


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("cond", "`if` of Python, which looks at the value"),
        ("scan", "a loop of Python; or `lazy.lift(f)` of a traced function that has one"),
        ("jvp", "`lazy.lift` of a traced function that uses `pb.jvp`"),
        ("relu", elsewhere.remedy("relu")),
        ("zero_grad", "`lazy.Trainer.update` forgets deltas; so does `w.delta = None`"),
        ("sigmoid", "`lazy.logistic`"),
        ("gelu", "`lazy.lift(nn.gelu)`"),
    ],
)
def test_remedies(name: str, wanted: str) -> None:
    error = refused(getattr, lazy, name) if not hasattr(lazy, name) else None
    if error is not None:
        assert (error.code, error.what, error.remedy) == ("E146", f"lazy has no {name!r}", wanted)
    assert elsewhere.unknown("x has no", "odd", "this").remedy == "this"
    assert elsewhere.unknown("x has no", "cond", "this").remedy == "`if` of Python, which looks at the value"
    assert "dir(lazy)" in elsewhere.remedy("nothing_like_it")


def test_functions_of_numpy_go_here() -> None:
    x = lazy.asarray(X)
    made = np.exp(x), np.add(x, X), X + x, np.sum(x), np.linalg.det(np.diag(x)), np.invert(x > 1), np.fft.fft(x)
    assert [type(v) for v in made] == [Array] * 7
    assert np.exp(x).tolist() == np.exp(X).tolist()
    assert np.median(x) == 2.0 and np.array_repr(x).startswith("array(")
    out = np.zeros(3)
    with pytest.raises(TypeError):
        np.add(x, X, out=out)
    with pytest.raises(TypeError):
        np.sum(x, out=np.zeros(()))
    with pytest.raises(TypeError):
        np.add.accumulate(x)
    error = refused(lambda: lazy.grad(lambda v: lazy.sum(v * np.unwrap(v)))(X))
    assert (error.code, isinstance(error, DerivativeError)) == ("E715", True)
    assert lazy.grad(lambda v: lazy.sum(v) * float(np.array_equal(v, v)))(X).tolist() == [1, 1, 1]
    assert isinstance(refused(lazy.run, 3.0), TraceError)
    assert Structure is type(LEAF)
