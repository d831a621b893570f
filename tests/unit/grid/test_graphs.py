"""Repeated calls as graphs: their launches, their bits, arrays that change, and what may fail."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from ctypes import byref, c_size_t, c_uint64, c_void_p
from typing import Any

import numpy as np
import pytest

from pullback.codegen.device.drivers import CUDA
from pullback.runtime.buffer import address
from pullback.runtime.device.export import compiled_text, lowered_for
from tests.support.devices import fake
from tests.support.devices.hosted import Hosted, hosted
from tests.unit.grid.programs import PROGRAMS, program
from tests.unit.grid.test_fake import entries

pytestmark = pytest.mark.slow

LAUNCHES = ("cuLaunchKernel", "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async")
X = np.linspace(-1, 2, 33)


def inputs_of(name: str) -> list[Any]:
    made, dims = program(name)
    rng = np.random.default_rng(5)
    shapes = [tuple(int(e.constant or dims[str(e)]) for e in r.shape) for r in made.inputs]
    return [rng.integers(0, 5, s) if r.dtype.is_integer else rng.normal(size=s).astype(r.dtype.numpy)
            for r, s in zip(made.inputs, shapes, strict=True)]  # fmt: skip


def opened(name: str) -> Hosted:
    return hosted(compiled_text(*program(name)), lowered_for(*program(name)).function)


@pytest.mark.parametrize("name", PROGRAMS)
def test_repeated_calls(name: str, cuda: fake.Driver) -> None:
    """The first call launches kernels, the second is captured, and later ones are one launch with the same bits."""
    inputs, before = inputs_of(name), cuda.count("graphs")
    with opened(name) as call:
        first = call(inputs)
        direct = sum(map(cuda.count, LAUNCHES))
        second = call(inputs)
        cuda.reset()
        third = call(inputs)
        found = sum(map(cuda.count, LAUNCHES)), cuda.count("cuGraphLaunch")
        for again in (second, third):
            assert (again.status, again.fault) == (first.status, first.fault)
            assert [a.tobytes() for a in again.arrays] == [a.tobytes() for a in first.arrays] or first.status
    looks = "OK(look(" in compiled_text(*program(name)).host
    assert found == ((0, 1) if direct > 1 and not looks else (direct, 0))
    assert cuda.count("graphs") == before


class Arrays:
    """A program that is open, and arrays of the device, which it takes in any order.

    `nested` takes x and w, and gives y.
    """

    def __init__(self, call: Hosted) -> None:
        self.cu, self._call = ctypes.CDLL(fake.DRIVER), call
        context, self.stream = c_void_p(), c_void_p()
        self.cu.cuDevicePrimaryCtxRetain(byref(context), 0)
        self.cu.cuCtxPushCurrent_v2(context)
        assert self.cu.cuStreamCreate(byref(self.stream), 1) == 0
        self._living: list[int] = []

    def made(self, values: np.ndarray[Any, Any]) -> int:
        at = c_uint64()
        assert self.cu.cuMemAlloc_v2(byref(at), c_size_t(values.nbytes)) == 0
        assert self.cu.cuMemcpyHtoDAsync_v2(at, c_void_p(address(values)), c_size_t(values.nbytes), None) == 0
        self._living.append(at.value)
        assert self.cu.cuStreamSynchronize(None) == 0
        return at.value

    def values(self, at: int, like: np.ndarray[Any, Any] = X) -> np.ndarray[Any, Any]:
        out = np.zeros_like(like)
        self.cu.cuStreamSynchronize(self.stream)
        assert self.cu.cuMemcpyDtoHAsync_v2(c_void_p(address(out)), c_uint64(at), c_size_t(out.nbytes), None) == 0
        return out

    def __call__(self, *places: int, stream: c_void_p | None = None) -> int:
        given = [c_void_p(p) for p in places]
        return int(self._call._entry("_enqueue")(self._call._handle, stream or self.stream, *given))

    def end(self) -> None:
        for at in self._living:
            self.cu.cuMemFree_v2(c_uint64(at))
        self.cu.cuStreamDestroy_v2(self.stream)
        self.cu.cuCtxPopCurrent_v2(None)


@pytest.fixture
def nested(cuda: fake.Driver) -> Iterator[Arrays]:
    with opened("nested") as call:
        made = Arrays(call)
        yield made
        made.end()


W = np.eye(33) * 0.5 + np.eye(33)[::-1] * 0.25


def wanted(x: np.ndarray[Any, Any], w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    a = x
    for i in range(3):
        for _ in range(4):
            a = w @ a
        a = a + x * i
    return a


def test_arrays_that_change(nested: Arrays, cuda: fake.Driver) -> None:
    """Each set of arrays has a graph of its own, which reads what the arrays hold when it is launched."""
    before = cuda.count("graphs")
    x, w, y, z = nested.made(X), nested.made(W), nested.made(0 * X), nested.made(0 * X)
    for _ in range(3):
        assert nested(x, w, y) == 0 == nested(y, w, z)
    np.testing.assert_allclose(nested.values(z), wanted(wanted(X, W), W))
    assert (cuda.count("graphs") - before, cuda.count("cuGraphLaunch")) == (2, 4)
    new = X[::-1].copy()
    assert nested.cu.cuMemcpyHtoDAsync_v2(c_uint64(x), c_void_p(address(new)), c_size_t(new.nbytes), None) == 0
    cuda.reset()
    assert nested(x, w, y) == 0 == nested(y, w, z)
    np.testing.assert_allclose(nested.values(z), wanted(wanted(new, W), W))
    assert (cuda.count("cuLaunchKernel"), cuda.count("cuGraphLaunch")) == (0, 2)


def test_small_arrays_that_are_new_in_each_call(nested: Arrays, cuda: fake.Driver) -> None:
    """A graph has places of its own for results that the caller keeps, and for small arguments."""
    x, w = nested.made(X), nested.made(W)
    results = [nested.made(0 * X) for _ in range(20)]
    for y in results:
        assert nested(x, w, y) == 0
    launches, copies = cuda.count("cuGraphLaunch"), cuda.count("cuMemcpyDtoDAsync_v2")
    assert launches >= 8 and cuda.count("cuStreamBeginCapture_v2") == 1
    for y in results:
        np.testing.assert_allclose(nested.values(y), wanted(X, W))
    cuda.reset()
    for k in range(20):
        other, y = nested.made(X + k), nested.made(0 * X)
        assert nested(other, w, y) == 0
        np.testing.assert_allclose(nested.values(y), wanted(X + k, W))
        np.testing.assert_array_equal(nested.values(other), X + k)
    assert cuda.count("cuGraphLaunch") >= 15 and cuda.count("cuStreamBeginCapture_v2") == 1
    cuda.reset()
    assert nested(other, w, y) == 0
    assert [cuda.count(n) for n in ("cuLaunchKernel", "cuGraphLaunch", "cuMemcpyDtoDAsync_v2")] == [0, 1, 2]
    assert copies > 0


def test_checks_of_calls_that_are_kept(cuda: fake.Driver) -> None:
    """Each call has a fault of its own."""
    with opened("around") as call:
        made = Arrays(call)
        at = np.arange(7)[::-1].copy()
        bad = at.copy()
        bad[3] = 9
        x, good, wrong = made.made(at), made.made(at), made.made(bad)
        results = [(made.made(at), made.made(np.zeros(3, np.int64)), k % 3 == 2) for k in range(30)]
        for y, fault, fails in results:
            assert made(x, wrong if fails else good, y, fault) == 0
        assert cuda.count("cuGraphLaunch") > 10
        for _, fault, fails in results:
            assert bool(made.values(fault, np.zeros(3, np.int64))[0]) == fails
        made.end()


def test_arrays_that_do_not_come_again(cuda: fake.Driver) -> None:
    """Calls launch kernels; arrays that come twice and never again cost few captures."""
    with opened("large") as call:
        made, values = Arrays(call), np.linspace(0, 1, 400_000)
        x, many = made.made(values), [made.made(0 * values) for _ in range(12)]
        for _ in range(2):
            for y in many:
                assert made(x, y) == 0
        assert cuda.count("cuStreamBeginCapture_v2") == 0
        for _ in range(5):
            for y in many:
                assert made(x, y) == 0 == made(x, y)
        assert cuda.count("cuStreamBeginCapture_v2") < 18
        for _ in range(70):
            assert made(x, y) == 0
        cuda.reset()
        assert made(x, y) == 0 and cuda.count("cuGraphLaunch") == 1
        made.end()


def test_memory_that_was_freed(nested: Arrays, cuda: fake.Driver) -> None:
    """A graph of arrays that were freed is not launched, unless the same addresses come again."""
    x, w, y = nested.made(X), nested.made(W), nested.made(0 * X)
    for _ in range(3):
        assert nested(x, w, y) == 0
    nested._living.remove(y)
    assert nested.cu.cuMemFree_v2(c_uint64(y)) == 0
    keep = nested.made(0 * X)
    for k in range(3):
        z = nested.made(0 * X)
        assert nested(x, w, z) == 0, (k, cuda.message)
        np.testing.assert_allclose(nested.values(z), wanted(X, W))
    np.testing.assert_array_equal(nested.values(keep), 0 * X)


def test_the_stream_of_a_caller_that_captures(nested: Arrays, cuda: fake.Driver) -> None:
    """A caller who captures a call gets its kernels, even if the call has a graph."""
    x, w, y = nested.made(X), nested.made(W), nested.made(0 * X)
    for _ in range(3):
        assert nested(x, w, y) == 0
    nested.values(y)
    cuda.reset()
    graph, made = c_void_p(), c_void_p()
    assert nested.cu.cuStreamBeginCapture_v2(nested.stream, 2) == 0 == nested(x, w, y)
    assert nested.cu.cuStreamEndCapture(nested.stream, byref(graph)) == 0 and cuda.count("cuGraphLaunch") == 0
    assert nested.cu.cuGraphInstantiateWithFlags(byref(made), graph, c_uint64(0)) == 0
    zero = 0 * X
    assert nested.cu.cuMemcpyHtoDAsync_v2(c_uint64(y), c_void_p(address(zero)), c_size_t(zero.nbytes), None) == 0
    assert nested.cu.cuGraphLaunch(made, nested.stream) == 0
    np.testing.assert_allclose(nested.values(y), wanted(X, W))
    assert nested.cu.cuGraphExecDestroy(made) == 0 == nested.cu.cuGraphDestroy(graph)


def test_late_work(nested: Arrays, cuda: fake.Driver) -> None:
    """Graphs may be made and dropped while earlier calls have yet to run."""
    cuda.set(late=1)
    x, w = nested.made(X), nested.made(W)
    results = [nested.made(0 * X) for _ in range(12)]
    for _ in range(2):
        for y in results:
            assert nested(x, w, y) == 0 == nested(x, w, y)
    for y in results:
        np.testing.assert_allclose(nested.values(y), wanted(X, W))


@pytest.mark.parametrize("call", entries(CUDA.graphs))
def test_each_call_for_graphs_may_fail(call: str, cuda: fake.Driver) -> None:
    """Without a graph a call launches its kernels; only a graph that cannot be launched is an error."""
    inputs, before = inputs_of("nested"), cuda.count("graphs")
    with opened("nested") as whole:
        first = whole(inputs)
    cuda.fail(call, 999)
    with opened("nested") as failing:
        found = [failing(inputs) for _ in range(5)]
    for f in found:
        if not f.status:
            assert f.arrays[0].tobytes() == first.arrays[0].tobytes()
    assert [f.status for f in found] == [0, -999 if call == "cuGraphLaunch" else 0, 0, 0, 0]
    assert cuda.count("graphs") - before == (1 if call == "cuGraphExecDestroy" else 0)


def test_a_kernel_that_is_refused_while_captured(cuda: fake.Driver) -> None:
    """The capture ends, and the call launches its kernels."""
    inputs = inputs_of("nested")
    with opened("nested") as call:
        first = call(inputs)
        cuda.fail("cuLaunchKernel", 701)
        for _ in range(3):
            again = call(inputs)
            assert again.status == 0 and again.arrays[0].tobytes() == first.arrays[0].tobytes()
        assert cuda.count("cuGraphInstantiateWithFlags") == 0 == cuda.count("cuGraphLaunch")


WITHOUT = """
from tests.support.devices import fake
without = fake.built(fake.DRIVER, without=("cuStreamEndCapture",))
fake.built = lambda name=fake.DRIVER, *_, f=fake.built: without if name == fake.DRIVER else f(name)
from tests.unit.grid import test_graphs
with fake.loaded() as driver, test_graphs.opened("nested") as call:
    for _ in range(3):
        assert call(test_graphs.inputs_of("nested")).status == 0
    print(driver.count("cuLaunchKernel"), driver.count("cuStreamBeginCapture_v2"))
"""


def test_a_driver_without_graphs(cuda: fake.Driver) -> None:
    """A program finds its driver by name, so the older one needs a process of its own."""
    with opened("nested") as call:
        call(inputs_of("nested"))
    found = subprocess.run([sys.executable, "-c", WITHOUT], check=True, capture_output=True, text=True).stdout
    assert found.split() == [str(3 * cuda.count("cuLaunchKernel")), "0"]
