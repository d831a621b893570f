"""Calls on devices from Python, device arrays, and their errors, on a driver for tests."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from jaxtyping import BFloat16, Bool, Float, Float16, Float64, Int64

import pullback as pb
from pullback import Array, nn
from pullback.errors import DeviceError, PullbackError, TraceError
from pullback.runtime.device import cuda as driver
from pullback.runtime.device import dlpack, listing
from pullback.runtime.device.array import DeviceArray, Memory, device_put
from pullback.tracing import tree
from tests.support.devices import fake
from tests.support.devices.fake import on_host

RNG = np.random.default_rng(7)
W, X, Y = RNG.normal(size=5), RNG.normal(size=(7, 5)), RNG.normal(size=7)


pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("devices")]


@pb.function(device="cuda!")
def loss(w: Float64[Array, "M"], x: Float64[Array, "N M"], y: Float64[Array, "N"]) -> Any:
    return pb.sum((x @ w - y) ** 2)


@pb.function
def doubled(x: Float[Array, "N"]) -> Any:
    return 2 * x


@pb.function
def read(x: Float64[Array, "N"], at: Int64[Array, "M"]) -> Any:
    return pb.build(at.shape[0], lambda m: x[at[m]])


HALF = "void half(const double *x, double *y, int64_t n) { for (int64_t k = 0; k < n; ++k) y[k] = x[k] / 2; }"
half = pb.external(HALF, "half(x: f64[N]) -> f64[N]")


@pb.function(device="cuda")
def halved(x: Float64[Array, "N"]) -> Any:
    return half(x)


def value(w: Any, x: Any, y: Any) -> Any:
    return np.sum((x @ w - y) ** 2)


def said(call: Callable[[], Any], kind: type[PullbackError] = DeviceError) -> str:
    """The message of an error without its place."""
    with pytest.raises(kind) as error:
        call()
    kept = [t for t in str(error.value).splitlines() if not t.startswith(("  --> ", "   |  "))]
    return "\n".join(kept)


# Calls ----------------------------------------------------------------------------------------------------------


def test_arrays_of_the_host() -> None:
    """NumPy arrays give NumPy arrays; derivatives run on the device of their function."""
    np.testing.assert_allclose(loss(W, X, Y), value(W, X, Y))
    slope, = pb.grad(loss, wrt=["w"])(W, X, Y)
    np.testing.assert_allclose(slope, 2 * X.T @ (X @ W - Y))
    hessian = pb.hessian(loss, wrt="w")(W, X, Y)
    np.testing.assert_allclose(hessian, 2 * X.T @ X)
    assert isinstance(slope, np.ndarray)


def test_arrays_of_the_device(devices: fake.Driver) -> None:
    """Results are on the device, and calls do not wait."""
    w, x = pb.device_put(W), pb.device_put(X, "cuda:0")
    slope = pb.grad(loss, wrt="w")
    slope(w, x, Y)
    waits = devices.count("cuStreamSynchronize")
    for _ in range(5):
        w = doubled(slope(w, x, Y))
    assert devices.count("cuStreamSynchronize") == waits
    wanted = W
    for _ in range(5):
        wanted = 4 * X.T @ (X @ wanted - Y)
    assert isinstance(w, DeviceArray) and (w.shape, w.dtype, w.device, w.ndim) == ((5,), np.float64, "cuda:0", 1)
    np.testing.assert_allclose(w, wanted)
    np.testing.assert_allclose(float(loss(pb.device_put(W), x, Y)), value(W, X, Y))


def test_both_devices() -> None:
    second = pb.device_put(W, "cuda:1")
    assert doubled(second).device == "cuda:1" and doubled(pb.device_put(W)).device == "cuda:0"
    np.testing.assert_array_equal(doubled(second), 2 * W)
    np.testing.assert_array_equal(pb.device_put(second, "cuda:0"), W)
    assert pb.device_put(second) is second and pb.device_put(second, "cuda:1") is second
    np.testing.assert_array_equal(pb.device_put(second, "cpu"), W)


def test_other_arguments_and_results() -> None:
    """Calls take trees, numbers, captured arrays, integers, bools, empty arrays and `out`."""
    table = RNG.normal(size=5)

    @pb.function(device="cuda!")
    def many(tree: Any, scale: float, at: Int64[Array, "M"], keep: Bool[Array, "M"]) -> Any:
        return {"a": tree["b"] * scale + pb.asarray(table), "n": pb.where(keep, at, -at)}

    at, keep = np.arange(3), np.array([True, False, True])
    for put in (lambda a: a, device_put):
        found = many({"b": put(W)}, 0.5, put(at), put(keep))
        np.testing.assert_allclose(found["a"], W * 0.5 + table)
        np.testing.assert_array_equal(found["n"], [0, -1, 2])
        assert found["n"].dtype == np.int64
    out = np.empty(5)
    assert pb.function(device="cuda!")(lambda x: x + 1)(W, out=out) is out
    np.testing.assert_array_equal(out, W + 1)
    assert np.asarray(doubled(device_put(W[:0]))).shape == (0,)


def test_half_precision() -> None:
    @pb.function
    def halves(x: Float16[Array, "N"], y: BFloat16[Array, "N"]) -> Any:
        return pb.astype(2 * x, pb.float16), pb.astype(2 * y, pb.bfloat16)

    x, y = np.array([1.5, -2.25], np.float16), np.array([0x3FC0, 0x4000], np.uint16)  # 1.5 and 2.0
    known = halves(x, y)
    for found, wanted in zip(halves(device_put(x), y), known, strict=True):
        np.testing.assert_array_equal(np.asarray(found).view(np.uint16), np.asarray(wanted).view(np.uint16))


def test_prints(capsys: pytest.CaptureFixture[str]) -> None:
    @pb.function(device="cuda!")
    def shown(x: Float64[Array, "N"]) -> Any:
        pb.debug.print("x = {}", x)
        return x + 1

    shown(np.ones(2))
    shown(device_put(np.ones(2)))
    first, second = capsys.readouterr().out.splitlines()
    assert first == second and first.startswith("x = ")


def test_a_failed_check_comes_with_the_results() -> None:
    at = np.array([0, 9])
    with pytest.raises(IndexError, match="the index 9 on axis 0 of x is outside 0 … 4"):
        pb.function(device="cuda!")(read.python)(W, at)
    found = read(device_put(W), at)
    later = doubled(found)
    for _ in range(2):
        with pytest.raises(IndexError, match="E401"):
            later.numpy()
    with pytest.raises(IndexError, match="E401"):
        found.__dlpack__()
    np.testing.assert_array_equal(read(device_put(W), np.array([4, 0])), W[[4, 0]])


def test_settings(monkeypatch: pytest.MonkeyPatch, devices: fake.Driver) -> None:
    monkeypatch.setenv("PULLBACK_DEVICE", "cuda:1!")
    f = pb.function(lambda x: 3 * x)
    f(W)
    assert devices.count("cuLaunchKernel") == 1
    assert doubled.python is pb.function(doubled, device="cuda!").python
    monkeypatch.setenv("PULLBACK_DEVICE", "gpu")
    assert said(lambda: pb.function(lambda x: 3 * x), PullbackError) == (
        "UsageError [E601] PULLBACK_DEVICE=gpu is no device\n"
        "  try: cpu, cuda, cuda:1 or opencl      See `pullback explain-error E601`")
    for wrong in ("cuda:", 0, 1):
        with pytest.raises(ValueError) as caught:
            pb.function(device=wrong)(lambda x: x)
        assert str(caught.value) == (
            f'device={wrong!r}: "cpu", "cuda", "cuda:1" or "opencl"; with "!" it runs nowhere else')
    rows = pb.devices()
    assert [r.name for r in rows][:3] == ["cpu", "cuda:0", "cuda:1"] and rows[1].architecture == "sm_90a"


def test_threads_take_turns() -> None:
    x, wrong = device_put(X), []

    def run() -> None:
        for k in range(20):
            w = W + k
            if not np.allclose(loss(device_put(w), x, Y), value(w, X, Y)) or not np.allclose(
                    loss(w, X, Y), value(w, X, Y)):
                wrong.append(k)

    workers = [threading.Thread(target=run) for _ in range(3)]
    for t in workers:
        t.start()
    for t in workers:
        t.join()
    assert not wrong


def test_what_repr_copies(devices: fake.Driver) -> None:
    assert repr(device_put(np.array([1.0, 2.0]))) == "DeviceArray([1., 2.], cuda:0)"
    large = device_put(np.zeros((50, 40), np.float32))
    copies = devices.count("cuMemcpyDtoHAsync_v2")
    assert repr(large) == "DeviceArray(float32[50, 40], cuda:0)"
    assert devices.count("cuMemcpyDtoHAsync_v2") == copies


def test_training() -> None:
    """Training on a device gives the parameters of the processor within rounding."""
    x = RNG.normal(size=(24, 4)).astype(np.float32)
    data = x, (x @ np.array([[1.0], [2.0], [0.0], [-1.0]], np.float32))

    def fitted(**options: Any) -> nn.Run:
        return nn.fit(nn.sequential(nn.dense(3), nn.relu, nn.dense(1)), lambda out, t: pb.mean((out - t) ** 2), data,
                      optimizer=nn.adam(1e-2), epochs=2, batch_size=8, validation_data=data, progress=False, **options)

    plateau = nn.ReduceLROnPlateau(0.5, patience=1, monitor="step", mode="min")
    how: dict[str, Any] = {"early_stopping": 1, "callbacks": [plateau, lambda state: state.parameters]}
    there, here = fitted(device="cuda!", **how), fitted(**how)
    assert there.best_epoch == here.best_epoch is not None
    np.testing.assert_allclose(there.history["validation_loss"], here.history["validation_loss"], rtol=1e-5)
    for a, b in zip(tree.flatten(there.parameters)[0], tree.flatten(here.parameters)[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-7)


def test_validation_leaves_parameters_on_the_device(devices: fake.Driver) -> None:
    """Parameters go there once; each measurement sends its batches and nothing else."""
    x = np.ones((4, 8), np.float32)

    def copies(epochs: int) -> int:
        before = devices.count("cuMemcpyHtoDAsync_v2")
        nn.fit(lambda p, s, batch: pb.mean((p * batch - 1) ** 2), x, parameters=np.zeros(8, np.float32), batch_size=4,
               optimizer=nn.sgd(0.1), epochs=epochs, validation_data=x, progress=False, device="cuda!")  # fmt: skip
        return devices.count("cuMemcpyHtoDAsync_v2") - before

    first, second, third = copies(1), copies(2), copies(3)
    assert third - second == second - first <= 3  # the batch, the step, and the validation set


# Other libraries ------------------------------------------------------------------------------------------------


class Tensor:
    """An array of another library on a device, on a stream of its own."""

    def __init__(self, a: np.ndarray[Any, Any], module: str = "torch") -> None:
        self.inner, self.gpu = device_put(a), driver.gpus()[0]
        self.inner.ready()
        self.stream = ctypes.c_void_p()
        with self.gpu.current("test"):
            self.gpu.driver("cuStreamCreate", ctypes.byref(self.stream), 1)
        type(self).__module__ = module
        self.streams: list[int] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.inner.__dlpack_device__()

    def __dlpack__(self, *, stream: int, **options: Any) -> Any:
        self.streams.append(stream)
        return self.inner.__dlpack__(stream=stream, **options)

    def overwrite(self, a: np.ndarray[Any, Any]) -> None:
        """Write new elements on the tensor's own stream."""
        with self.gpu.current("test"):
            self.gpu.driver("cuMemcpyHtoDAsync_v2", self.inner.at, a.ctypes.data, a.nbytes, self.stream)

    def wait(self) -> None:
        with self.gpu.current("test"):
            self.gpu.driver("cuStreamSynchronize", self.stream)


@pytest.mark.parametrize("library", ["torch", "cupy", "jax", "unknown"])
def test_the_order_of_another_library(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that overwrites its array after a call waits until the call has read it."""
    t = Tensor(W, library)
    current = SimpleNamespace(cuda_stream=t.stream.value, ptr=t.stream.value)
    module = SimpleNamespace(cuda=SimpleNamespace(current_stream=lambda _: current, get_current_stream=lambda: current))
    monkeypatch.setitem(sys.modules, library, module)
    found = doubled(t)
    assert set(t.streams) == {t.gpu.stream}
    if library != "jax":  # its arrays do not change
        t.overwrite(np.zeros(5))
        t.wait()
    np.testing.assert_array_equal(found, 2 * W)


def test_another_library_reads_a_result() -> None:
    found = doubled(device_put(W))
    assert found.__dlpack_device__() == (2, 0)
    for options in ({}, {"max_version": (1, 1)}):
        name = b"dltensor_versioned" if options else b"dltensor"
        capsule = found.__dlpack__(stream=1, **options)
        assert dlpack._is_named(capsule, name)
        foreign = dlpack.Foreign(Given(capsule), 1)
        assert (foreign.shape, foreign.at, foreign.storage, foreign.is_contiguous) == ((5,), found.at, pb.float64, True)
    del capsule, foreign
    assert not dlpack._SHARED
    np.testing.assert_array_equal(on_host(found), 2 * W)
    other = device_put(Given(found.__dlpack__(copy=True)))
    assert other.at != found.at
    for x in (found, other):
        np.testing.assert_array_equal(x, 2 * W)
    for wrong, options in ((BufferError, {"dl_device": (2, 1)}), (BufferError, {"dl_device": (1, 0), "copy": False}),
                           (ValueError, {"stream": 0})):
        with pytest.raises(wrong):
            found.__dlpack__(**options)


class Given:
    """An object with a capsule."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def test_memory_is_given_back(devices: fake.Driver) -> None:
    """Arrays, functions and arrays of other libraries free their memory on the device."""
    assert devices.count("bytes") >= 0  # other processes use a real device
    free, _ = listing.gpu("cuda:0").free_bytes()
    f = pb.function(lambda x: pb.sum(pb.tanh(x @ x.T) @ x))
    x = device_put(X)
    f(x).numpy()
    f(X)
    t = Tensor(W, "jax")
    doubled(t).numpy()
    del f, x, t
    gc.collect()
    listing.gpu("cuda:0").wait()
    with listing.gpu("cuda:0").current("test"):
        listing.gpu("cuda:0").keep(None)
    gc.collect()
    assert listing.gpu("cuda:0").free_bytes()[0] >= free - 4096


# Repeated calls -------------------------------------------------------------------------------------------------


def test_repeated_calls_take_no_steps_of_the_driver(devices: fake.Driver) -> None:
    """Once memory of the results is there, a call is one launch, and memory is neither allocated nor freed."""

    @pb.function
    def chain(w: Float64[Array, "M"], x: Float64[Array, "N M"], scale: float) -> Any:
        return {"a": pb.sum(x @ w), "b": (x.T @ (x @ w) * scale,)}

    w, x = device_put(W), device_put(X)
    wanted = chain(W, X, 0.5)
    for _ in range(4):
        found = chain(w, x, scale=0.5)
    devices.reset()
    devices.set(devices=2, late=1)
    found = chain(w, x, 0.5)
    called = {name: devices.count(name) for name in ("cuMemAllocAsync", "cuMemFreeAsync", "cuMemcpyHtoDAsync_v2",
                                                     "cuLaunchKernel", "cuEventRecord", "cuStreamSynchronize")}
    assert set(called.values()) == {0} and devices.count("cuGraphLaunch") == 1
    assert found["a"].shape == () and type(found["b"]) is tuple
    np.testing.assert_allclose(found["a"], wanted["a"])
    np.testing.assert_allclose(found["b"][0], wanted["b"][0])
    np.testing.assert_allclose(chain(w, x, 1.5)["b"][0], 3 * wanted["b"][0])


def test_results_outlive_their_graph(devices: fake.Driver) -> None:
    """Results that are kept are not overwritten by later calls, and arguments may be results."""
    f = pb.function(lambda x: pb.sum(x) + pb.cumulative_sum(x, axis=0))
    x = device_put(W)
    kept = [f(x) for _ in range(20)]
    for _ in range(20):
        f(kept[-1])
    once = np.sum(W) + np.cumsum(W)
    for k in kept:
        np.testing.assert_allclose(k, once)
    y = x
    for _ in range(12):
        y = f(y)
    wanted = W
    for _ in range(12):
        wanted = np.sum(wanted) + np.cumsum(wanted)
    np.testing.assert_allclose(y, wanted)


def test_other_arguments_of_a_repeated_call() -> None:
    """Repeated calls check their arguments: other shapes, types, devices and trees get calls of their own."""
    @pb.function
    def scaled(x: Float[Array, "N"], by: float = 2.0) -> Any:
        return x * by

    x = device_put(W)
    for _ in range(2):
        np.testing.assert_array_equal(scaled(x), 2 * W)
        np.testing.assert_array_equal(scaled(x, 3.0), 3 * W)
        np.testing.assert_array_equal(scaled(by=-0.0, x=x), -0.0 * W)
        np.testing.assert_array_equal(scaled(device_put(W[:3])), 2 * W[:3])
        np.testing.assert_array_equal(scaled(device_put(W.astype(np.float32))), 2 * W.astype(np.float32))
        np.testing.assert_array_equal(scaled(W), 2 * W)
        assert isinstance(scaled(W), np.ndarray)
        second = scaled(device_put(W, "cuda:1"))
        assert second.device == "cuda:1"
        np.testing.assert_array_equal(second, 2 * W)
        out = np.empty_like(W)
        assert scaled(x, out=out) is out
        np.testing.assert_array_equal(out, 2 * W)
    with pytest.raises(TraceError, match="unknown argument 'at'"):
        scaled(x, at=1)


def test_numpy_arrays_beside_those_of_the_device() -> None:
    """NumPy arguments and captured arrays are sent with each call, with the elements that they have then."""
    table = W.copy()
    f = pb.function(lambda x, y: x * y + pb.asarray(table))
    x, y = device_put(W), X[:, 0].copy()[:5]
    for k in range(4):
        y[0], table[1] = k, k
        np.testing.assert_allclose(f(x, y), W * y + table)
        np.testing.assert_allclose(f(x, X.T[:, 0]), W * X.T[:, 0] + table)  # not contiguous


def test_checks_of_repeated_calls(devices: fake.Driver) -> None:
    """A failed check comes with the results, and many calls in a row wait now and then."""
    x, good, bad = device_put(W), device_put(np.array([4, 0])), device_put(np.array([0, 9]))
    for _ in range(3):
        found = read(x, good)
        wrong = read(x, bad)
        with pytest.raises(IndexError, match="the index 9 on axis 0 of x is outside 0 … 4"):
            wrong.numpy()
        np.testing.assert_array_equal(found, W[[4, 0]])
    waits, steps = devices.count("cuStreamSynchronize"), pb.function(lambda x, at: x[at])
    order = device_put(np.array([1, 2, 3, 4, 0]))
    for _ in range(200):
        x = steps(x, order)
    assert devices.count("cuStreamSynchronize") - waits < 250
    np.testing.assert_array_equal(x, W)


def test_kept_memory(devices: fake.Driver) -> None:
    """Freed memory serves arrays of its size; it is given back if it is too much, or if others need it."""
    gpu = listing.gpu("cuda:0")
    gpu.trim()
    first = device_put(np.ones(1000))
    at = first.at
    del first
    again = device_put(np.ones(1000))
    other = device_put(np.ones(1000))
    assert again.at == at != other.at
    del again, other
    free, total = gpu.free_bytes()
    devices.reset()
    devices.set(devices=2, late=1, memory=total - free + 4000)
    np.testing.assert_array_equal(device_put(np.ones(2400)), np.ones(2400))
    assert devices.count("cuMemFreeAsync") == 2
    devices.set(memory=1 << 31)
    many = [Memory(gpu, 1 << 20, "test") for _ in range(200)]
    del many
    assert sum(n * len(b) for n, b in gpu._kept.items()) <= gpu._most_kept
    assert gpu.trim() and not gpu.trim()


def test_results_that_are_kept_have_graphs(devices: fake.Driver) -> None:
    """A loop that keeps each loss, and whose calls have checks, is one launch a step."""

    @pb.function
    def step(w: Float64[Array, "M"], x: Float64[Array, "N M"], at: Int64[Array, "K"]) -> Any:
        value, slope = pb.value_and_grad(lambda w: pb.sum((x @ w)[at] ** 2))(w)
        return w - 0.01 * slope, value

    w, x, at, losses = device_put(W), device_put(X), device_put(np.array([0, 2, 5])), []
    for k in range(40):
        if k == 30:
            devices.reset()
            devices.set(devices=2, late=1)
        w, value = step(w, x, at)
        losses.append(value)
    assert devices.count("cuGraphLaunch") == 10 and devices.count("cuLaunchKernel") == 0
    here, wanted, rows = W, [], X[[0, 2, 5]]
    for _ in range(40):
        wanted.append(np.sum((rows @ here) ** 2))
        here = here - 0.02 * rows.T @ (rows @ here)
    np.testing.assert_allclose([float(v) for v in losses], wanted)
    np.testing.assert_allclose(w, here)
