"""Calls in C against calls in Python and NumPy: random graphs, threads, errors, memory."""

from __future__ import annotations

import gc
import inspect
import itertools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import lazy
from pullback.errors import UsageError
from pullback.lazy import kernel, quick, running
from pullback.lazy.kernel import Kernel
from pullback.lazy.node import BUSY, Array
from pullback.lazy.piece import Piece
from tests.unit.lazy.programs import own

GRAPHS = 100  # of each of 24 tests
WAYS = ("c", "python")
PROMOTES_TYPES = np.lib.NumpyVersion(np.__version__) >= "2.0.0"  # whatever the values are


def module() -> Any:
    """The extension."""
    quick.prepare()
    found = quick._FOUND[0]
    if found is None:
        pytest.skip("no Python.h, no compiler for extensions, or no interpreter lock")
    return found


@pytest.fixture
def c() -> Iterator[Any]:
    """The extension, in use."""
    found = module()
    quick.turn(True)
    yield found
    quick.turn(True)
    assert not running.UNSETTLED
    assert not BUSY.count


@pytest.fixture
def uncompiled(c: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The extension, where NumPy stands for compiled code: thousands of structures in a minute."""
    stepwise = property(lambda self: lambda *values: self._stepwise(values))
    monkeypatch.setattr(Kernel, "entry", stepwise)
    monkeypatch.setattr(kernel._COMPILER, "put", lambda own: None)
    yield c
    quick.STRUCTURES.clear()  # entries of this test


# Random graphs --------------------------------------------------------------------------------------------------------

UNARY: dict[str, Callable[[Any, Any], Any]] = {
    "neg": lambda xp, x: -x, "abs": lambda xp, x: abs(x), "exp": lambda xp, x: xp.exp(x * 0.125),
    "tanh": lambda xp, x: xp.tanh(x), "sum": lambda xp, x: xp.sum(x), "ravel": lambda xp, x: xp.reshape(x, (-1,)),
    "first": lambda xp, x: x[0] if x.shape else x + x, "turned": lambda xp, x: x.T if x.ndim == 2 else x * x,
    "less": lambda xp, x: x < 0.5, "plus": lambda xp, x: x + 1.5, "minus": lambda xp, x: 2.0 - x,
    "by": lambda xp, x: x * -0.75, "where": lambda xp, x: xp.where(x > 0.0, x, -x),
    "numpy": lambda xp, x: x + np.float64(0.25), "int": lambda xp, x: x * 3,
}  # fmt: skip
BINARY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda xp, x, y: x + y, "sub": lambda xp, x, y: x - y, "mul": lambda xp, x, y: x * y,
    "maximum": lambda xp, x, y: xp.maximum(x, y), "same": lambda xp, x, y: x == y, "more": lambda xp, x, y: x >= y,
}  # fmt: skip
SHAPES = ((), (1,), (4,), (3, 4), (3, 1))
TYPES = ("float64", "float64", "float32", "int64", "bool", "complex128")


class Graph:
    """A random graph: leaves, steps, and which of its nodes the program keeps."""

    def __init__(self, seed: int) -> None:
        r = np.random.default_rng(seed)
        self.leaves = [self._leaf(r) for _ in range(r.integers(1, 4))]
        self.steps: list[tuple[str, tuple[int, ...]]] = []
        values: list[Any] = list(self.leaves)
        for _ in range(r.integers(1, 11)):
            while not self._step(r, values):
                pass
        self.expected = values
        count = len(self.leaves)
        self.kept = [count + k for k in range(len(self.steps) - 1) if r.random() < 0.2] + [len(values) - 1]

    def _leaf(self, r: np.random.Generator) -> Any:
        shape = SHAPES[r.integers(len(SHAPES))]
        made: Any = r.normal(size=(*shape, 2))[..., 0]  # not contiguous
        dtype = TYPES[r.integers(len(TYPES))]
        made = (made * 3).astype(dtype, order="K") if r.random() < 0.5 else np.asarray(made * 3, dtype)
        if dtype == "complex128":
            made = made + 0.5j
        made = np.asarray(made)
        made.setflags(write=r.random() < 0.5)
        return made

    def _step(self, r: np.random.Generator, values: list[Any]) -> bool:
        table: dict[str, Any] = UNARY if r.random() < 0.5 else BINARY
        name = str(r.choice(list(table)))
        late = max(0, len(values) - 3)
        operands = [int(r.integers(late if r.random() < 0.7 else 0, len(values))) for _ in range(1 + (table is BINARY))]
        given = [values[k] for k in operands]
        try:
            table[name](lazy, *map(lazy.asarray, given))
            with np.errstate(all="ignore"):
                value = np.asarray(own(np, table[name](np, *given)))
        except (TypeError, ValueError):  # neither has everything
            return False
        if value.size > 200 or value.dtype.type is np.float16:  # NumPy's exp of a truth value
            return False
        self.steps.append((name, tuple(operands)))
        values.append(value)
        return True

    def build(self, leaves: list[Any]) -> tuple[list[Any], list[Any]]:
        """The nodes that are kept, and weak references to the others."""
        nodes = list(leaves)
        for name, operands in self.steps:
            step: Any = UNARY.get(name) or BINARY[name]
            nodes.append(step(lazy, *[nodes[k] for k in operands]))
        others = [weakref.ref(x) for k, x in enumerate(nodes) if k not in self.kept and k >= len(leaves)]
        return [nodes[k] for k in self.kept], others

    def run(self, way: str, leaves: list[Any], times: int = 1) -> tuple[list[Any], list[bool], list[bool]]:
        """The values of the kept nodes; which had one when the last was computed, and which of the others are left."""
        quick.turn(way == "c")
        for _ in range(times):
            kept, others = self.build(leaves)
            kept[-1].numpy()
            had = [x.value is not None for x in kept]
            left = [ref() is not None for ref in others]
            found = [x.numpy() for x in kept]
        return found, had, left


def same_bits(a: Any, b: Any) -> bool:
    return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())


def compare(graph: Graph) -> None:
    leaves = [lazy.asarray(x) for x in graph.leaves]
    python = graph.run("python", leaves, 2)
    fast = graph.run("c", leaves, 2)
    assert python[1:] == fast[1:]
    for k, one, other in zip(graph.kept, python[0], fast[0]):
        assert same_bits(one, other), (graph.steps, one, other)
        assert not other.flags.writeable
        expected = graph.expected[k]
        tolerance = 1e-5 if min(other.dtype.itemsize, expected.dtype.itemsize) <= 4 or not PROMOTES_TYPES else 1e-12
        np.testing.assert_allclose(other, expected, rtol=tolerance, atol=tolerance)
        assert other.dtype == expected.dtype or not PROMOTES_TYPES
        assert other.shape == expected.shape


@pytest.mark.parametrize("part", range(24))
def test_random_graphs_in_c_in_python_and_in_numpy(part: int, uncompiled: Any) -> None:
    """2,400 structures: shared and kept nodes, views, numbers, types, layouts."""
    uncompiled.counted()
    for k in range(GRAPHS):
        compare(Graph(part * GRAPHS + k))
    assert uncompiled.counted() > GRAPHS


@pytest.mark.slow
def test_random_graphs_with_compiled_code(c: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_LAZY", "wait")
    c.counted()
    for k in range(40):
        compare(Graph(100_000 + k))
    assert c.counted() >= 40


# Structures -----------------------------------------------------------------------------------------------------------


def counted(c: Any, f: Callable[[], Any]) -> int:
    """The number of calls that C made in a call of f."""
    c.counted()
    f()
    return int(c.counted())


X, Y = np.linspace(-1.0, 1.0, 12), np.linspace(0.5, 2.0, 12)


@pytest.fixture
def product(uncompiled: Any) -> tuple[Any, Any]:
    """Two arrays whose product C knows."""
    x, y = lazy.asarray(X), lazy.asarray(Y)
    for _ in range(2):
        (x * y).numpy()
    assert counted(uncompiled, lambda: (x * y).numpy()) == 1
    return x, y


def test_conversions_use_it(product: tuple[Any, Any], c: Any) -> None:
    x, y = product
    for use in (np.asarray, str, repr, lambda a: a.tolist(), lambda a: a.__array__(), lazy.Array.numpy):
        assert counted(c, lambda use=use: use(x * y)) == 1  # type: ignore[misc]


def test_it_says_so_in_the_counters(product: tuple[Any, Any]) -> None:
    x, y = product
    before = lazy.stats()
    for _ in range(5):
        (x * y).numpy()
    after = lazy.stats() - before
    assert (after.kernels, after.found, after.pieces, after.interpreted) == (5, 5, 0, 0)


def test_known_structures_go_with_the_caches(product: tuple[Any, Any], c: Any) -> None:
    x, y = product
    assert len(quick.STRUCTURES) == c.known() > 0
    pb.debug.clear()
    assert not len(quick.STRUCTURES)
    assert counted(c, lambda: (x * y).numpy()) == 0
    assert counted(c, lambda: (x * y).numpy()) == 1


def test_the_table_is_bounded(c: Any) -> None:
    for k in range(quick.MOST + 10):
        c.learn([k, -1, -2, 0], 1, (), len, None, None, False, True)
    assert 0 < c.known() <= quick.MOST
    c.forget()
    assert c.known() == 0


def test_the_number_of_leaves_belongs_to_the_structure(uncompiled: Any) -> None:
    x, y = lazy.asarray(X), lazy.asarray(Y)
    for _ in range(3):
        np.testing.assert_array_equal((x * y).numpy(), X * Y)
        np.testing.assert_array_equal((x * x).numpy(), X * X)
        z = x + y
        np.testing.assert_array_equal((z * z).numpy(), (X + Y) * (X + Y))
        np.testing.assert_array_equal(((x + y) * (x + y)).numpy(), (X + Y) * (X + Y))
        np.testing.assert_array_equal(z.numpy(), X + Y)


def test_an_operation_of_several_results_is_for_python(uncompiled: Any) -> None:
    x = lazy.asarray(np.arange(6.0).reshape(2, 3))
    for _ in range(3):
        found = lazy.unstack(x * 2.0)
        np.testing.assert_array_equal((found[1] + 1.0).numpy(), [7.0, 9.0, 11.0])


def test_long_graphs_are_for_python(uncompiled: Any) -> None:
    x = lazy.asarray(X)
    for _ in range(3):
        y, expected = x, X
        for _ in range(200):
            y, expected = y + x, expected + X
        np.testing.assert_allclose(y.numpy(), expected)


def test_deep_graphs_end_without_recursion(uncompiled: Any) -> None:
    x = lazy.asarray(X)
    y = x
    for _ in range(100_000):
        y = y + x
    del y


def test_checked_operations_name_their_line(uncompiled: Any) -> None:
    x, at = lazy.asarray(X), lazy.asarray(np.asarray(50))
    for _ in range(3):
        with pytest.raises(IndexError) as caught:
            lazy.take(x * 2.0, at, axis=0).numpy()
        assert "test_quick" in "".join(caught.value.__notes__)


# Methods --------------------------------------------------------------------------------------------------------------


def test_methods_keep_their_names_and_texts(c: Any) -> None:
    quick.turn(False)
    names = [name for owner, name in quick._IN_C if owner is Array and name != "forced"]
    told = [(getattr(Array, n).__name__, getattr(Array, n).__doc__, str(inspect.signature(getattr(Array, n))))
            for n in names]  # fmt: skip
    quick.turn(True)
    assert told == [(getattr(Array, n).__name__, getattr(Array, n).__doc__, str(inspect.signature(getattr(Array, n))))
                    for n in names]  # fmt: skip
    assert {"__add__", "__radd__", "__mul__", "__lt__", "__neg__", "numpy"} <= set(names)


@pytest.mark.parametrize("way", WAYS)
def test_operators_take_what_they_take_in_python(way: str, c: Any) -> None:
    quick.turn(way == "c")
    x = lazy.asarray(X)
    for _ in range(3):
        for number in (2.0, -0.0, 0.0, 3, True, np.float32(2.0), np.float64(0.1), X, Y[0]):
            np.testing.assert_allclose((x + number).numpy(), X + number)
            other: Any = number
            np.testing.assert_allclose((other * x).numpy(), other * X)
        assert np.isnan((x + float("nan")).numpy()).all()
        assert np.signbit((x * 0.0 * -0.0).numpy()).tolist() == np.signbit(X * 0.0 * -0.0).tolist()
        with pytest.raises(TypeError):
            x + "text"
        with pytest.raises(pb.ShapeError):
            x + lazy.asarray(np.ones(5))
        assert Array.__mul__(x, x).tolist() == (X * X).tolist()
        with pytest.raises(TypeError):
            Array.__mul__(x)
    many = [float(k) / 7 for k in range(1, 60)]
    for _ in range(2):
        for number in many:
            np.testing.assert_array_equal((x - number).numpy(), X - number)


@pytest.mark.parametrize("way", WAYS)
def test_written_arrays_and_weights_are_operands(way: str, c: Any) -> None:
    quick.turn(way == "c")
    w = lazy.Weight(X)
    for k in range(3):
        x = lazy.asarray(X) * 1.0
        before = x + 1.0
        view = x[1:3]
        x[0] = float(k)
        expected = X.copy()
        expected[0] = k
        np.testing.assert_array_equal((x + 1.0).numpy(), expected + 1.0)
        np.testing.assert_array_equal(before.numpy(), X + 1.0)
        x[1] = 7.0
        assert view.tolist() == [7.0, X[2]]
        np.testing.assert_array_equal((x * w).numpy(), [float(k) * X[0], 7.0 * X[1], *(X[2:] * X[2:])])
        np.testing.assert_array_equal((w * x).numpy(), [float(k) * X[0], 7.0 * X[1], *(X[2:] * X[2:])])


@pytest.mark.parametrize("way", WAYS)
def test_views_that_are_results_can_be_written(way: str, uncompiled: Any) -> None:
    quick.turn(way == "c")
    for _ in range(3):
        x = lazy.asarray(np.arange(6.0).reshape(2, 3)) * 1.0
        view = x.T
        view.numpy()
        view[0, 0] = 9.0
        assert x.tolist() == [[9.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


# Derivatives ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_derivatives_through_tapes(way: str, c: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value in the middle makes a tape; the rest of the derivative passes through it."""
    monkeypatch.setenv("PULLBACK_LAZY", "wait")
    quick.turn(way == "c")
    gc.collect()  # of other tests
    live = lazy.stats().live_bytes
    for k in range(1, 5):
        w = lazy.Weight(X * k)
        hidden = lazy.tanh(w * 0.5)
        kept = hidden * hidden
        if float(lazy.sum(kept)) > 0.0:
            lazy.backward(lazy.sum(kept * Y))
        t = np.tanh(X * k * 0.5)
        np.testing.assert_allclose(w.grad, Y * 2.0 * t * (1.0 - t * t) * 0.5, rtol=1e-12)
    del hidden, kept, w
    gc.collect()
    assert lazy.stats().live_bytes == live


def test_tapes_are_made_in_c(c: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_LAZY", "wait")

    def step() -> Any:
        w = lazy.Weight(X)
        y = lazy.sum(w * Y)
        y.numpy()
        return y, w

    step()
    assert counted(c, step) == 1
    y, w = step()
    assert y.tracked
    assert y.origin[1] == 0
    assert y.origin[0].leaves[0] is w.leaf
    lazy.backward(y)
    np.testing.assert_array_equal(w.grad, Y)


@pytest.mark.parametrize("way", WAYS)
def test_values_do_not_leave_a_gradient(way: str, c: Any) -> None:
    quick.turn(way == "c")
    for _ in range(3):
        with pytest.raises(pb.DerivativeError, match="E715"):
            lazy.grad(lambda x: x * float(x.numpy()))(2.0)


# Errors and interrupts ------------------------------------------------------------------------------------------------


def taught(c: Any, x: Any, y: Any, entry: Callable[..., Any], **how: bool) -> None:
    """Let C call `entry` for the product of x and y."""
    z = x * y
    number = z.application.number
    key = [number, -1, -2, -3, 0]
    c.learn(key, 1, (), entry, None, None, how.get("alone", False), how.get("light", True))


@pytest.mark.parametrize("light", [True, False])
def test_an_interrupt_leaves_the_graph_as_it_was(light: bool, product: tuple[Any, Any], c: Any) -> None:
    x, y = product

    def interrupted(*values: Any) -> Any:
        raise KeyboardInterrupt

    taught(c, x, y, interrupted, light=light)
    z = x * y
    operands = z.operands
    with pytest.raises(KeyboardInterrupt):
        z.numpy()
    assert z.value is None
    assert z.operands is operands
    assert not running.LOCK._is_owned()  # type: ignore[attr-defined]
    quick.STRUCTURES.clear()
    np.testing.assert_array_equal(z.numpy(), X * Y)


@pytest.mark.parametrize("answer", [NotImplemented, None, (), [X * Y], MemoryError(), ValueError("no")], ids=repr)
def test_what_c_cannot_do_python_does(answer: Any, product: tuple[Any, Any], c: Any) -> None:
    x, y = product

    def entry(*values: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    taught(c, x, y, entry)
    np.testing.assert_array_equal((x * y).numpy(), X * Y)


def test_threads_of_the_call_decide_where_more_would_cut(product: tuple[Any, Any], c: Any) -> None:
    x, y = product
    calls = []

    def entry(*values: Any) -> Any:
        calls.append(1)
        return (values[0] * values[1],)

    taught(c, x, y, entry, alone=True, light=False)
    with pb.threads(2):
        (x * y).numpy()
    assert not calls
    taught(c, x, y, entry, alone=True, light=False)
    with pb.threads(1):
        (x * y).numpy()
    assert calls == [1]


def test_a_finalizer_may_ask_for_values(product: tuple[Any, Any], c: Any) -> None:
    x, y = product
    found = []

    def entry(*values: Any) -> Any:
        found.append((x * y).numpy())  # a handler that runs meanwhile
        return (values[0] * values[1],)

    depth = itertools.count()
    taught(c, x, y, lambda *v: entry(*v) if next(depth) == 0 else (v[0] * v[1],))
    z = x * y
    ended = []
    w = z + 0.0
    weakref.finalize(w, lambda: ended.append((x * y).numpy()))
    del w
    np.testing.assert_array_equal(z.numpy(), X * Y)
    np.testing.assert_array_equal(found[0], X * Y)
    np.testing.assert_array_equal(ended[0], X * Y)


def test_the_same_node_asked_for_meanwhile_keeps_its_first_value(product: tuple[Any, Any], c: Any) -> None:
    x, y = product
    first: list[Any] = []

    def entry(*values: Any) -> Any:
        if not first:
            first.append(None)
            first[0] = z.numpy()
        return (values[0] * values[1],)

    taught(c, x, y, entry)
    z = x * y
    assert z.numpy() is first[0]


# Threads --------------------------------------------------------------------------------------------------------------


def together(count: int, body: Callable[[int], None]) -> None:
    """Run a function in threads; raise the first error."""
    errors: list[BaseException] = []

    def guarded(k: int) -> None:
        try:
            body(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(before)
    if errors:
        raise errors[0]


@pytest.mark.parametrize("light", [True, False])
def test_threads_share_nodes(light: bool, uncompiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread asks for other nodes of one graph, while kernels let other threads come in."""

    def entry_of(self: Any) -> Any:
        def entry(*values: Any) -> Any:
            time.sleep(1e-5)
            return self._stepwise(values)

        return entry

    monkeypatch.setattr(Kernel, "entry", property(entry_of))
    if not light:
        monkeypatch.setattr(running, "LIGHT", -1.0)
    x, y = lazy.asarray(X), lazy.asarray(Y)
    graphs = []
    for _ in range(60):
        a = x * y
        b = a + x
        graphs.append((a, b, b * a, b - y, (b * a) + a))
    expected = [X * Y, X * Y + X, (X * Y + X) * (X * Y), X * Y + X - Y, (X * Y + X) * (X * Y) + X * Y]

    def body(k: int) -> None:
        for j, graph in enumerate(graphs):
            at = (k + j) % 5
            np.testing.assert_array_equal(graph[at].numpy(), expected[at])
            c = (graph[at] * x) + graph[(at + 1) % 5]
            np.testing.assert_array_equal(c.numpy(), expected[at] * X + expected[(at + 1) % 5])

    together(6, body)
    for graph in graphs:
        for node, value in zip(graph, expected):
            np.testing.assert_array_equal(node.numpy(), value)


def test_random_graphs_in_threads(uncompiled: Any) -> None:
    def body(k: int) -> None:
        for j in range(60):
            graph = Graph(200_000 + (j + 7 * k) % 60)
            leaves = [lazy.asarray(x) for x in graph.leaves]
            for _ in range(2):
                kept, _ = graph.build(leaves)
                for at, x in zip(graph.kept, kept):
                    np.testing.assert_allclose(x.numpy(), graph.expected[at], rtol=1e-5, atol=1e-5)

    together(4, body)


def test_results_are_dropped_where_another_thread_is_inside(product: tuple[Any, Any], c: Any) -> None:
    x, y = product
    calls = []

    def entry(*values: Any) -> Any:
        calls.append(1)
        BUSY.count += 1  # as if it had come in now
        return (values[0] + 1.0,)

    taught(c, x, y, entry)
    z = x * y
    try:
        np.testing.assert_array_equal(z.numpy(), X * Y)
    finally:
        BUSY.count -= 1
    assert calls == [1]


# Memory ---------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_calls_leave_nothing_behind(c: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """10⁵ calls: no more blocks, no more references of what lives as long as the process."""
    monkeypatch.setenv("PULLBACK_LAZY", "wait")
    x, y, w = lazy.asarray(X), lazy.asarray(Y), lazy.Weight(X)

    def step() -> None:
        a = x * y
        b = -(a + 0.5)
        b.numpy()
        assert a.value is not None
        (w * x).numpy()
        bool(x[0] < 2.0)

    def counts() -> list[int]:
        gc.collect()
        z = x * y
        held = (None, (), x, y, x.type, z.application, Array, X, np.ndarray)
        return [sys.getallocatedblocks(), *map(sys.getrefcount, held)]

    for _ in range(1000):
        step()
    lazy.finish_compiling()  # of other tests
    before = counts()
    for _ in range(25_000):
        step()
    after = counts()
    assert max(abs(a - b) for a, b in zip(after, before)) < 300, (before, after)


# Without it -----------------------------------------------------------------------------------------------------------


def test_the_environment_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_LAZY_CALLS", "python")
    assert not quick.is_wanted()
    assert quick._module() is None
    monkeypatch.setenv("PULLBACK_LAZY_CALLS", "c")
    assert quick.is_wanted()
    monkeypatch.setenv("PULLBACK_LAZY_CALLS", "fast")
    with pytest.raises(UsageError, match=r"\[E602\] PULLBACK_LAZY_CALLS=fast is no way to call"):
        quick.is_wanted()


def test_its_classes_are_set_once(c: Any) -> None:
    with pytest.raises(TypeError, match="bound"):
        c.bind(Piece, Piece, Piece, len, len, BUSY, iter(()), [], len, len, len, len)
    np.testing.assert_array_equal((lazy.asarray(X) * 2.0).numpy(), X * 2.0)
