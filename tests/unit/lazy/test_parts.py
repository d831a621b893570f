"""Parts of lazy arrays by themselves: types, operations, layers, counts, await, names."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import DerivativeError, TraceError, lazy
from pullback.ir import types
from pullback.lazy import elsewhere, methods
from pullback.lazy.counts import COUNTS, Stats
from pullback.lazy.layers import Place, here, noted
from pullback.lazy.node import Array, value_of
from pullback.lazy.operation import Operation, apply, leaves_of, quick_key, traced_program
from pullback.lazy.types import array_type, type_of_value
from pullback.source import Position
from pullback.tracing.array import TracedArray
from pullback.tracing.tree import LEAF, Structure
from tests.unit.lazy.common import X, refused

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
    assert refused(lambda: x.to_device("gpu")).code == "E145"
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
        if threading.current_thread() is here:  # the compiling thread traces pieces
            traced.append((args, keywords))
        return x * 2.0

    here = threading.current_thread()
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
    assert x.grad.tolist() == [10.0 + 7] * 3
    program, types_, form = traced_program("two", [array_type(types.f32, (3,))], lambda h: (h[0] * 2.0, pb.sum(h[0])))
    assert (types_, form.kind) == ((array_type(types.f32, (3,)), array_type(types.f32, ())), "tuple")
    assert [o.dtype for o in program.outputs] == [types.f32, types.f32]


def test_the_methods_of_the_class() -> None:
    wanted = {n for n, f in vars(TracedArray).items() if callable(f) and not n.startswith("_")}
    made = methods.installed()
    assert wanted - {"to_device", "element"} <= set(made) | {"shape", "dtype", "ndim", "size", "device"}
    assert {f"__{n}__" for n in ("add", "radd", "matmul", "rmatmul", "lt", "neg", "getitem", "divmod")} <= set(made)
    assert {"T", "mT", "real", "imag", "conj", "sum", "reshape"} <= set(made)
    assert made["sum"].__name__ == "sum" and made["sum"].__doc__ == TracedArray.sum.__doc__
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
    error = refused(w.__setitem__, 0, 1.0)
    assert (error.code, error.what) == ("E147", f"{w.name} is a weight, whose array changes as a whole")


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
        ("zero_grad", "`lazy.Trainer.update` forgets gradients; so does `w.grad = None`"),
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
    assert np.add.accumulate(x).tolist() == np.add.accumulate(X).tolist()  # NumPy's own, of values
    error = refused(lambda: lazy.grad(lambda v: lazy.sum(v * np.unwrap(v)))(X))
    assert (error.code, isinstance(error, DerivativeError)) == ("E715", True)
    assert lazy.grad(lambda v: lazy.sum(v) * float(np.array_equal(v, v)))(X).tolist() == [1, 1, 1]
    assert isinstance(refused(lazy.run, 3.0), TraceError)
    assert Structure is type(LEAF)
