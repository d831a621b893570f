"""The extension between arrays and compiled code: what it takes, what it leaves to the long way, and its results."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import sysconfig
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from jaxtyping import Float, Float64, Int64

import pullback as pb
from pullback import Array
from pullback.ir.parser import parse_program
from pullback.runtime import shim
from pullback.runtime.entry import fast_entry
from pullback.runtime.executor import Executable, compile_program
from pullback.runtime.shim import MOST_TRIED
from pullback.tracing import tree

pytestmark = pytest.mark.usefixtures("entries")


class Failed(Exception):
    """What the entry's `failed` raises here."""


def fail(code: int, index: int, extent: int) -> None:
    raise Failed(code, index, extent)


def entry_of(f: Any, *examples: Any, dims: dict[str, int]) -> Any:
    executable: Executable = compile_program(pb.function(f).program(*examples), dims)
    record = executable.record
    form = 0 if len(record.outputs) == 1 else (0,) * len(record.outputs)
    failed = fail if record.sites else None
    return fast_entry(executable._entry, record.inputs, record.outputs, form, record.arena_bytes, failed)


def double(x: Any) -> Any:
    return pb.build(x.shape[0], lambda i: x[i] * 2)


def pick(x: Any, j: Any) -> Any:
    return pb.build(j.shape[0], lambda i: x[j[i]])


def both(x: Any) -> Any:
    return pb.sum(x), x + 1


def test_arrays_that_fit() -> None:
    f = entry_of(double, np.ones(3), dims=_dims(double, np.ones(3)))
    assert f(np.array([1.0, 2.0, 3.0])).tolist() == [2.0, 4.0, 6.0]
    out = np.empty(3)
    assert f(np.array([1.0, 2.0, 3.0]), out=out) is out
    assert out.tolist() == [2.0, 4.0, 6.0]


def test_an_array_from_elsewhere_has_an_equal_element_type() -> None:
    f = entry_of(double, np.ones(3), dims=_dims(double, np.ones(3)))
    x = pickle.loads(pickle.dumps(np.ones(3)))
    assert x.dtype is not np.dtype(float)
    assert f(x, out=pickle.loads(pickle.dumps(x))).tolist() == [2.0] * 3


def _dims(f: Any, *arrays: Any) -> dict[str, int]:
    from pullback.ir.dims import solve_dims

    return solve_dims(pb.function(f).program(*arrays), [a.shape for a in arrays], {})


@pytest.mark.parametrize(
    "argument",
    [
        np.ones(4),
        np.ones((3, 1)),
        np.ones(3, np.float32),
        np.ones(3).astype(">f8"),
        [1.0, 2.0, 3.0],
        1.0,
        np.float64(1.0),
    ],
    ids=["length", "rank", "dtype", "byte order", "list", "number", "scalar"],
)
def test_what_does_not_fit_goes_the_long_way(argument: Any) -> None:
    f = entry_of(double, np.ones(3), dims=_dims(double, np.ones(3)))
    assert f(argument) is NotImplemented


def test_an_array_that_lies_otherwise_is_copied() -> None:
    f = entry_of(double, np.ones(3), dims=_dims(double, np.ones(3)))
    x = np.arange(6.0)
    assert f(x[::2]).tolist() == [0.0, 4.0, 8.0]
    assert f(x[::-2], out=x[:3]).tolist() == [10.0, 6.0, 2.0]
    odd = np.zeros(25, np.uint8)[1:].view(np.float64)
    assert f(odd).tolist() == [0.0] * 3


def test_a_donated_array_takes_its_own_result() -> None:
    """The array itself is updated in place; a part of it, or another one in its memory, goes the long way."""

    @pb.function(donate=("a",))
    def added(a: Any, x: Any) -> Any:
        return {k: v + x for k, v in a.items()}, pb.sum(x)

    a, x, total = {"u": np.zeros(3), "v": np.ones((2, 3))}, np.ones(3), np.zeros(())
    for _ in range(3):
        added(a, x, out=(a, total))
    assert a["u"].tolist() == [3.0] * 3
    assert (a["v"] == 4.0).all()
    (entry,) = added._entries
    assert entry(a, x, out=(a, total)) is not NotImplemented
    memory = np.zeros(4)
    given, shifted = {**a, "u": memory[:3]}, {**a, "u": memory[1:]}
    assert entry(given, x, out=(shifted, total)) is NotImplemented
    assert entry(given, memory[1:], out=(given, total)) is NotImplemented  # `x` is read after the write
    assert entry({**a, "u": memory[:3]}, memory[:3], out=({**a, "u": memory[:3]}, total)) is NotImplemented
    both = added({**a, "u": np.zeros(3)}, x, out=(shifted, total))[0]  # the long way
    assert both["u"].tolist() == [1.0] * 3


def test_an_overlapping_or_read_only_result_goes_the_long_way() -> None:
    f = entry_of(double, np.ones(3), dims=_dims(double, np.ones(3)))
    x = np.ones(5)
    assert f(x[:3], out=x[2:]) is NotImplemented
    frozen = np.empty(3)
    frozen.flags.writeable = False
    assert f(x[:3], out=frozen) is NotImplemented
    assert f(x[:3], x[:3]) is NotImplemented
    assert f(x[:3], where=1) is NotImplemented


def test_several_results_and_rank_zero() -> None:
    f = entry_of(both, np.ones(3), dims=_dims(both, np.ones(3)))
    total, more = f(np.array([1.0, 2.0, 3.0]))
    assert type(total) is np.float64
    assert total == 6.0
    assert more.tolist() == [2.0, 3.0, 4.0]
    place = (np.empty(()), np.empty(3))
    assert f(np.array([1.0, 2.0, 4.0]), out=place) is place
    assert place[0] == 7.0


def test_a_failed_check_raises() -> None:
    x, j = np.arange(4.0), np.array([0, 3])
    f = entry_of(pick, x, j, dims=_dims(pick, x, j))
    assert f(x, j).tolist() == [0.0, 3.0]
    with pytest.raises(Failed, match=r"\(1, 7, 4\)"):
        f(x, np.array([0, 7]))


def test_a_check_fails_alike_in_calls_that_were_seen_before() -> None:
    f = pb.function(pick)
    x, wrong = np.arange(4.0), np.array([0, 7])
    texts = []
    for _ in range(3):
        with pytest.raises(pb.errors.IndexRangeError) as caught:
            f(x, wrong)
        texts.append(str(caught.value))
    assert texts[0].startswith("IndexRangeError [E401]")
    assert len(set(texts)) == 1
    assert f(x, np.array([3, 0])).tolist() == [3.0, 0.0]


def test_results_in_one_memory_go_the_long_way() -> None:
    def four(x: Any, y: Any) -> Any:
        return x + 1, y + 1, x * y, x - y

    f = entry_of(four, np.ones(3), np.ones(3), dims=_dims(four, np.ones(3), np.ones(3)))
    x, y, room = np.ones(3), np.ones(3), np.zeros(18)
    places = (room[:3], room[3:6], room[12:15], room[9:12])
    assert f(x, y, out=places) is places
    assert f(x, x, out=places) is places  # only results are apart from others
    for other in (room[14:17], room[2:5], x, y[:], y[::-1]):
        assert f(x, y, out=(*places[:3], other)) is NotImplemented
    assert room.tolist() == [2.0] * 6 + [0.0] * 6 + [1.0] * 3 + [0.0] * 3


def test_each_number_of_threads_has_an_entry_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    f: Any = pb.function(lambda x: x * 2)
    f(X)
    with pb.threads(2):
        f(X)
    assert len(f._entries) == 2
    monkeypatch.setattr(type(f), "_call_slowly", None)
    assert f(X).tolist() == [2.0, 4.0]
    with pb.threads(2):
        assert f(X).tolist() == [2.0, 4.0]
    with pb.threads(3), pytest.raises(TypeError, match="not callable"):
        f(X)


@pytest.mark.parametrize("entries", ["python"], indirect=True)
def test_a_call_by_a_function_that_is_traced_is_part_of_it() -> None:
    f = pb.function(lambda x: x * 2.0)
    f(X)
    g = pb.function(lambda y: (lambda table: pb.build(y.shape[0], lambda i: table[i] * y[i]))(f(X)))
    assert g(X).tolist() == [2.0, 8.0]


@pytest.mark.parametrize("entries", ["python"], indirect=True)
def test_entries_far_behind_come_first_by_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    f: Any = pb.function(lambda p: p["x"] * 2, specialize="never")
    trees = [{"x": np.ones(n)} for n in range(1, MOST_TRIED + 5)]
    for _ in range(2):  # the second call of dims counts operations; from then on they have an entry
        for p in trees:
            f(p)
    assert len(f._entries) == len(trees)
    f(trees[0])
    monkeypatch.setattr(type(f), "_call_slowly", None)
    assert f(trees[0]).tolist() == [2.0]
    with pytest.raises(TypeError, match="not callable"):
        f(trees[1])


def test_calls_from_several_threads() -> None:
    f = entry_of(both, np.ones(500), dims=_dims(both, np.ones(500)))
    wrong: list[float] = []

    def work(value: float) -> None:
        x = np.full(500, value)
        wrong.extend(value for _ in range(300) if f(x)[0] != 500 * value)

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_function_goes_straight_to_compiled_code_and_back(entries: str) -> None:
    f = pb.function(double)
    assert f(np.ones(3)).tolist() == [2.0] * 3  # traced and compiled
    quick = type(f)
    assert isinstance(f, pb.Function)
    assert (quick is not pb.Function) == (entries == "extension")
    assert (quick.__name__, quick.__module__) == (pb.Function.__name__, pb.Function.__module__)
    out = np.empty(3)
    assert f(np.ones(3), out=out) is out
    assert f(np.ones(4)).tolist() == [2.0] * 4  # another shape
    assert f(x=np.ones(3)).tolist() == [2.0] * 3  # by name
    assert len(f._entries) == 2
    with pytest.raises(pb.errors.PullbackError):
        f(np.ones(3), out=np.empty(2))


def test_trees_and_names_need_no_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derivatives take tuples and cotangents by name, and give tuples of tuples, with None for what is not there."""

    @pb.function
    def scaled(s: Float64[Array, ""], k: Int64[Array, "N"], x: Float64[Array, "N"]):
        return s * x * pb.astype(k, pb.float64)

    s, k, x = np.array(2.0), np.array([1, 2]), np.array([3.0, 4.0])
    back, forth = pb.vjp(scaled), pb.jvp(scaled)
    expected = scaled(s, k, x).tolist()
    back(s, k, x, cotangent=x)
    forth((s, k, x), (None, None, x))
    for f in (scaled, back, forth):
        monkeypatch.setattr(type(f), "_call_slowly", None)
    assert scaled(s, k=k, x=x).tolist() == expected
    out, (s_bar, k_bar, x_bar) = back(s, k, x, cotangent=x)
    assert (out.tolist(), float(s_bar), k_bar, x_bar.tolist()) == (expected, 41.0, None, [6.0, 16.0])
    given = (np.empty(2), (np.empty(()), None, np.empty(2)))
    assert back(s, k, x, cotangent=x, out=given) is given
    assert given[1][2].tolist() == [6.0, 16.0]
    assert forth((s, k, x), (None, None, x))[1].tolist() == [6.0, 16.0]
    for wrong in [((s, k, x), (x, None, x)), ((s, k), (None, None, x)), ((s, k, x), None), ((s, k, x),)]:
        with pytest.raises(TypeError, match="not callable"):
            forth(*wrong)
    assert scaled(s, x=x, k=k).tolist() == expected


class Pair(NamedTuple):
    """A tree of two."""

    a: Any
    b: Any


@dataclass
class Layer:
    """Another."""

    weight: Any
    rest: Any


X = np.array([1.0, 2.0])
TREES: dict[str, Any] = {
    "dict": {"b": X, "a": 2 * X},
    "list": [X, [2 * X]],
    "nothing in them": {"a": [], "b": {}, "c": (), "d": None, "e": X},
    "named tuple": Pair(X, (2 * X, None)),
    "dataclass": Layer(2 * X, {"x": X}),
    "all": [{"p": Pair(Layer(X, None), [X])}, (X,)],
    "numbers": {"x": X, "f": 0.5, "k": 3, "t": True},
    "complex": {"z": X * 1j, "x": X},
}


@pytest.mark.parametrize("kind", TREES)
def test_trees_of_all_kinds_need_no_long_way(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = TREES[kind]

    def twice(p: Any) -> Any:
        return p["x"] * p["f"] * p["k"] if kind == "numbers" else (p, pb.tree_map(lambda v: v * 2, p))

    f: Any = pb.function(twice)
    expected = f(given)
    monkeypatch.setattr(type(f), "_call_slowly", None)
    for _ in range(3):
        found = f(given)
        assert tree.flatten(found)[1] == tree.flatten(expected)[1]
        for a, b in zip(tree.flatten(found)[0], tree.flatten(expected)[0], strict=True):
            np.testing.assert_array_equal(a, b)
    wrong = {"dict": {"b": X, "c": X}, "list": [X, (X,)], "named tuple": (X, (X, None)), "numbers": {**given, "k": 4.0}
             if kind == "numbers" else None}  # fmt: skip
    for other in (None, X, [], {}, *([wrong[kind]] if kind in wrong else [])):
        with pytest.raises(TypeError, match="not callable"):
            f(other)


def test_a_real_array_where_a_complex_one_was(monkeypatch: pytest.MonkeyPatch) -> None:
    f = pb.function(lambda z, k: z * 2)
    z = np.array([[1 + 1j, 2], [3, 4 - 2j]])
    for _ in range(2):
        assert f(z, 3).tolist() == (2 * z).tolist()
        assert f(z.real.copy(), 3).tolist() == (2 * z.real).tolist()
    monkeypatch.setattr(type(f), "_call_slowly", None)
    assert f(z.T, 3).tolist() == (2 * z.T).tolist()
    with pytest.raises(TypeError, match="not callable"):
        f(3, z)


def test_a_tree_that_changes_during_a_call_stays_alive() -> None:
    f = pb.function(lambda p: pb.sum(pb.sin(p["x"])))
    held = {"x": np.ones(200_000)}
    wanted, wrong = f(held), []

    def call() -> None:
        wrong.extend(r for r in (f(held) for _ in range(50)) if r != wanted)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        held["x"] = np.ones(200_000)
    assert not wrong


def test_defaults_and_names_in_any_order_need_no_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    @pb.function
    def f(
        x: Float64[Array, "N"],
        y: Float64[Array, "N"],
        power: pb.Static = 2,
        *,
        scale: float = 0.5,
        how: pb.Static = "add",
    ):
        return (x**power + y if how == "add" else x - y) * scale

    x, y = np.array([1.0, 2.0]), np.array([10.0, 20.0])
    f(x, y)
    f(x, y, how="sub")
    monkeypatch.setattr(type(f), "_call_slowly", None)
    assert f(x, y).tolist() == [5.5, 12.0]
    assert f(y=y, x=x).tolist() == [5.5, 12.0]
    assert f(x, scale=1.0, y=y).tolist() == [11.0, 24.0]
    assert f(x, y, 2, how="sub", scale=0.5).tolist() == [-4.5, -9.0]
    out = np.empty(2)
    assert f(x, y=y, out=out) is out
    for args, keywords in [((x,), {}), ((x, y), {"z": x}), ((x, y), {"y": y}), ((x, y, 3), {}), ((x, y, 2, 0.5), {}),
                           ((x, y, 2, 0.5, "add"), {})]:  # fmt: skip
        with pytest.raises(TypeError, match="not callable"):
            f(*args, **keywords)


def test_any_number_of_arguments_needs_no_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    f = pb.function(lambda first, *others: sum((x["a"] for x in others), first))
    x = np.ones(2)
    f(x, {"a": x})
    f(x, {"a": x}, {"a": x})
    monkeypatch.setattr(type(f), "_call_slowly", None)
    assert f(x, {"a": 2 * x}).tolist() == [3.0, 3.0]
    assert f(x, {"a": 2 * x}, {"a": x}).tolist() == [4.0, 4.0]
    with pytest.raises(TypeError, match="not callable"):
        f(x)


def test_numbers_are_told_apart_as_the_long_way_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an annotation a float is no array of rank 0, and an int no float; `Float` alone leaves the type open."""
    f = pb.function(lambda x, s: x * s)
    g = pb.function(lambda x: x * 2)
    g.__annotations__ = {}
    x = np.ones(2, np.float32)
    assert f(x, 2.0).dtype == np.float32
    assert f(x, np.float64(2.0)).dtype == np.float64
    assert f(x, np.array(2.0)).dtype == np.float64
    assert f(x.astype(int), 2).dtype == np.int64
    monkeypatch.setattr(type(f), "_call_slowly", None)
    assert f(x, 3.0).tolist() == [3.0, 3.0]
    assert f(x, np.array(3.0)).dtype == np.float64
    assert f(np.array([1, 2]), 2**62).tolist() == [2**62, -(2**63)]
    for s in (True, 2**63, 3 + 0j, None, "3"):
        with pytest.raises(TypeError, match="not callable"):
            f(np.array([1, 2]), s)


def test_one_type_for_all_of_an_annotation_that_leaves_it_open() -> None:
    @pb.function
    def f(x: Float[Array, ""], y: Float[Array, ""]):
        return x * y

    one = np.array(1.0, np.float32)
    assert f(one, one).dtype == np.float32
    assert f(1.0, 1.0).dtype == np.float64


def test_the_entry_that_served_a_call_comes_first() -> None:
    f: Any = pb.function(lambda x: x * 2, specialize="always")
    for n in range(1, 6):
        f(np.ones(n))
    first, *_, last = f._entries
    assert f(np.ones(1)).tolist() == [2.0]
    assert f._entries[:2] == [last, first]
    assert len(set(map(id, f._entries))) == 5
    assert all(f(np.full(n, 3.0)).tolist() == [6.0] * n for n in (3, 1, 5, 2, 4))


@pytest.mark.usefixtures("few_objects")
def test_entries_are_no_circle_that_stays() -> None:
    class Model:
        def __init__(self) -> None:
            self.f = pb.function(lambda model, x: x * model.scale)
            self.scale = 3.0

    model: Any = Model()
    assert model.f(model, X).tolist() == model.f(model, X).tolist() == [3.0, 6.0]
    assert model.f._entries
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("specialize", ["always", "never"])
def test_more_arguments_than_ctypes_passes(specialize: Literal["always", "never"]) -> None:
    @pb.function(specialize=specialize)
    def last(xs: tuple[Float64[Array, "N"], ...]) -> Any:
        return xs[0] + 2 * xs[-1]

    xs = tuple(np.full(3, float(k)) for k in range(1030))
    assert last(xs).tolist() == [2058.0] * 3


def test_sizes_numbers_and_captured_arrays_need_no_long_way() -> None:
    table = np.array([2, 0, 1])

    @pb.function
    def f(n: pb.Size["N"], x: Float64[Array, "3"], share: float, m: pb.Size["M"]):
        return pb.build(n, lambda i: share * x[pb.asarray(table)[0]] + i + m)

    x = np.array([1.0, 2.0, 3.0])

    def entries() -> int:
        return len(f._entries)

    assert f(2, x, 0.5, 4).tolist() == [5.5, 6.5]
    assert entries() == 1
    assert f(2, x, np.float64(1.0), 4).tolist() == [7.0, 8.0]
    assert f(2, x, np.array(1.0), 4).tolist() == [7.0, 8.0]
    assert f(3, x, 1.0, 4).tolist() == [7.0, 8.0, 9.0]
    assert f(2, x, 1.0, 5).tolist() == [8.0, 9.0]
    assert f(2, x, 0.5, m=4).tolist() == [5.5, 6.5]
    assert f(2, x, 0.5, 2**70 - 2**70 + 4).tolist() == [5.5, 6.5]
    (entry,) = (e for e in f._entries if e(2, x, 1.0, 5) is not NotImplemented)
    assert entry(2, x, 1.0, 5).tolist() == [8.0, 9.0]
    for arguments in [
        (3, x, 1.0, 5),
        (2, x, 1.0, 2**70),
        (2.0, x, 1.0, 5),
        (2, x, 1.0, True),
        (2, x, 1, 5),
        (2, x, 1.0),
    ]:
        assert entry(*arguments) is NotImplemented


def test_numbers_whose_type_the_function_takes_from_them_go_the_long_way() -> None:
    f = pb.function(lambda x, y: x * y)
    y = np.ones(2, np.float32)
    assert f(np.array(2.0, np.float32), y).dtype == np.float32
    assert f(2.0, y).dtype == np.float32
    assert f(np.float64(2.0), y.astype(np.float64)).dtype == np.float64


LOCKED = """
import sys
from pullback.runtime.shim import extension
has_lock = sys._is_gil_enabled()
extension()
print(has_lock == sys._is_gil_enabled())
"""


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled"), reason="this version always has its lock")
def test_a_free_threaded_interpreter_stays_without_its_lock() -> None:
    """Importing an extension that does not say that it needs no lock would enable it."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHON_GIL"}
    done = subprocess.run([sys.executable, "-c", LOCKED], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.slow
def test_calls_of_functions_from_several_threads() -> None:
    """Entries change their order, arenas are lent, and large results share memory."""
    f: Any = pb.function(lambda x, y: pb.sum(pb.tanh(x * y)) + x)
    trees: Any = pb.function(lambda t: {"a": t["a"] * 2.0, "b": [t["b"][0] + t["a"]]})
    large: Any = pb.function(lambda x: pb.sum(x) / 2 + x * 0.5)
    errors: list[BaseException] = []

    def work(k: int) -> None:
        for n in range(40):
            size = 3 + (n * (k + 1)) % 5
            x, y = np.arange(size) * 0.1 + k, np.full(size, 0.5)
            np.testing.assert_allclose(f(x, y), np.tanh(x * y).sum() + x, rtol=1e-9)
            found = trees({"a": x, "b": [y]})
            np.testing.assert_allclose(found["b"][0], x + y)
            z = np.full((size, 40_000), float(k))
            np.testing.assert_allclose(large(z), z.sum() / 2 + z * 0.5, rtol=1e-9)

    def run(k: int) -> None:
        try:
            work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


@pytest.mark.usefixtures("few_objects")
def test_a_quick_function_dies_with_its_entries() -> None:
    f: Any = pb.function(double)
    assert isinstance(f, pb.Function)
    f(np.ones(3))
    f(np.ones(4))
    gone, counts = weakref.ref(f), [sys.getrefcount(e) for e in f._entries]
    for _ in range(10):
        f(np.ones(3), out=np.empty(3))
        f(np.ones(4))
    assert [sys.getrefcount(e) for e in f._entries] == counts
    del f
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("count", [1, 12, 13, 14, 15, 22, 28, 29, 36, 49, 61, 62, 70, 255, 256])
def test_every_number_of_arrays(count: int, entries: str) -> None:
    """The extension has entries for up to 256 arrays; those of more than 64 pointers are called through ctypes."""
    names = [f"x{k}" for k in range(count)]
    inputs = ", ".join(f"{n}: f64[3]" for n in names)
    total = " + ".join(f"{k + 1}.0 * {n}[i]" for k, n in enumerate(names))
    executable = compile_program(parse_program(f"f({inputs}) {{ y = build i < 3 {{ {total} }}  return y }}"), {})
    record = executable.record
    entry = fast_entry(executable._entry, record.inputs, record.outputs, 0, record.arena_bytes, None)
    assert (entry is not None) == (count + 1 <= 256 or entries == "python")
    if entry is not None:
        arrays = [np.arange(3.0) + k for k in range(count)]
        np.testing.assert_allclose(entry(*arrays), sum((k + 1) * a for k, a in enumerate(arrays)))


def test_what_a_wheel_brought_and_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shim, "__file__", str(tmp_path / "shim.py"))
    assert shim._prebuilt() is None
    for abi in ("abi3", sysconfig.get_config_var("SOABI")):
        (tmp_path / f"call.{abi}.so").write_bytes(b"no library")
    assert shim._prebuilt() is None
