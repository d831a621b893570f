"""Calls on devices from Python, device arrays, and their errors, on a driver for tests."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from jaxtyping import BFloat16, Bool, Float, Float16, Float32, Float64, Int64

import pullback as pb
from pullback import Array, nn
from pullback.errors import DeviceError, PullbackError, TraceError
from pullback.runtime.device import cuda as driver
from pullback.runtime.device import dlpack, listing, nvrtc
from pullback.runtime.device.array import DeviceArray, Memory, device_put
from pullback.tracing import tree
from tests.support.devices import fake
from tests.support.devices.fake import on_host

RNG = np.random.default_rng(7)
W, X, Y = RNG.normal(size=5), RNG.normal(size=(7, 5)), RNG.normal(size=7)


pytestmark = pytest.mark.usefixtures("devices")


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


# What goes wrong ------------------------------------------------------------------------------------------------


def test_arrays_of_two_devices() -> None:
    first, second = device_put(W), device_put(X, "cuda:1")
    assert said(lambda: pb.function(loss.python)(first, second, Y)) == (
        "DeviceError [E422] loss: w is on cuda:0, and x is on cuda:1\n"
        '  try: `pb.device_put(x, "cuda:0")` copies it      See `pullback explain-error E422`')
    assert said(lambda: loss(W, second, Y)) == (
        "DeviceError [E422] loss runs on cuda:0, and x is on cuda:1\n"
        '  try: `pb.device_put(x, "cuda:0")` copies it      See `pullback explain-error E422`')
    assert said(lambda: pb.function(doubled, device="cpu")(first)) == (
        "DeviceError [E422] doubled runs on cpu, and x is on cuda:0\n"
        '  try: `pb.device_put(x, "cpu")` copies it      See `pullback explain-error E422`')
    assert said(lambda: device_put(W, "cuda:7")) == (
        "DeviceError [E418] there is no device cuda:7\n  try: one of cuda:0, cuda:1      "
        "See `pullback explain-error E418`")


def test_arrays_inside_a_function_have_no_device() -> None:
    for call, name in ((lambda x: pb.zeros(5, device="cuda") + x, "zeros"),
                       (lambda x: x.to_device("cuda"), "to_device")):  # fmt: skip
        assert said(lambda f=call: pb.function(f)(W), TraceError) == (  # type: ignore[misc]
            f"TraceError [E145] {name}: device='cuda', and arrays inside a function have no device of their own\n"
            "  try: leave it out; `pb.function(device=...)` runs the whole function on a device"
            "      See `pullback explain-error E145`")
    np.testing.assert_array_equal(pb.function(lambda x: pb.zeros(5, device="cpu") + x.to_device("cpu"))(W), W)


def test_no_memory(devices: fake.Driver) -> None:
    """The error has the row of the memory table, and the process goes on."""
    devices.set(memory=1_000_000)

    @pb.function(device="cuda!")
    def wide(x: Float32[Array, "N"]) -> Any:
        y = pb.cumulative_sum(pb.tanh(x[:, None] * x[None, :]), axis=0)
        return pb.cumulative_sum(y, axis=1)[-1]

    with pytest.raises(pb.OutOfMemoryError) as error:
        wide(np.ones(1000, np.float32))
    free, total = listing.gpu("cuda:0").free_bytes()
    row, rest = error.value.facts
    assert ": f32[1000, 1000], 4,000,000 bytes" in row and rest == f"{free:,} of {total:,} bytes are free"
    x = np.ones(300_000, np.float32)
    remedy = ("  try: smaller arguments, fewer arrays on the device, or another device      "
              "See `pullback explain-error E421`")
    assert said(lambda: wide(np.ones(1000, np.float32)), pb.OutOfMemoryError) == (
        f"OutOfMemoryError [E421] {error.value.what}\n   | {row}      {rest}\n{remedy}")
    assert error.value.what.startswith("wide: cuda:0 has no memory for ")
    assert said(lambda: pb.function(device="cuda!")(lambda x: 2 * x)(x), pb.OutOfMemoryError) == (
        "OutOfMemoryError [E421] lambda: cuda:0 has no memory for 2,400,256 bytes\n"
        f"   | x : f32[300000], 1,200,000 bytes      {rest}\n{remedy}")
    assert said(lambda: device_put(x), pb.OutOfMemoryError) == (
        "OutOfMemoryError [E421] x : f32[300000]: cuda:0 has no memory for 1,200,000 bytes\n"
        f"   | x : f32[300000], 1,200,000 bytes      {rest}\n{remedy}")
    np.testing.assert_allclose(wide(np.ones(8, np.float32)).shape, (8,))


def test_a_device_that_fails(devices: fake.Driver) -> None:
    loss(W, X, Y), loss(W, X, Y)
    devices.fail("cuGraphLaunch", 719)
    assert said(lambda: loss(W, X, Y)) == (
        "DeviceError [E420] loss: a kernel failed on cuda:0\n"
        "   | CUDA_ERROR_LAUNCH_FAILED, the words of the driver for tests\n"
        '  try: start a new process, as this one cannot use the device now; `device="cpu"` avoids it      '
        "See `pullback explain-error E420`")
    devices.reset()
    devices.set(devices=2)
    x = device_put(X)
    devices.set(lost=1)
    for what, call in (("reading an array", x.numpy), ("loss", lambda: loss(W, X, Y))):
        assert said(call) == (
            f"DeviceError [E420] {what}: cuda:0 is lost\n"
            "   | CUDA_ERROR_UNKNOWN, the words of the driver for tests\n"
            "  try: start a new process; `nvidia-smi` shows the state of the device      "
            "See `pullback explain-error E420`")
    devices.reset()
    devices.set(devices=2)
    devices.fail("cuMemcpyDtoHAsync_v2", 1)
    assert said(x.numpy) == (
        "DeviceError [E420] reading an array: the driver of cuda:0 refused cuMemcpyDtoHAsync_v2\n"
        "   | CUDA_ERROR_INVALID_VALUE, the words of the driver for tests\n"
        "  try: another device, or report this      See `pullback explain-error E420`")
    devices.fail("cuMemcpyDtoHAsync_v2", 1)
    assert said(lambda: loss(W, X, Y)).startswith(
        "DeviceError [E420] loss: the driver of cuda:0 refused a step of the host program\n")


@pytest.mark.usefixtures("fresh")
def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """One warning names the function that runs on the processor, and the reason; "!" makes it an error."""
    monkeypatch.setenv("PULLBACK_LIBCUDA", "/nowhere/libcuda.so.1")
    monkeypatch.setenv("PULLBACK_LIBOPENCL", "/nowhere/libOpenCL.so.1")
    why = "there is no driver of CUDA: /nowhere/libcuda.so.1: cannot open shared object file: No such file or directory"
    f = pb.function(device="cuda")(lambda x: x + 1)
    with pytest.warns(RuntimeWarning) as caught:
        np.testing.assert_array_equal(f(W), W + 1)
    assert [str(w.message) for w in caught] == [f"lambda runs on the processor: {why} [E418]"]
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(W)
        f(W[:3])
    assert said(lambda: pb.function(device="cuda!")(lambda x: x + 1)(W)) == (
        f'DeviceError [E418] {why}\n  try: install the driver of your device; `device="cpu"` needs none      '
        "See `pullback explain-error E418`")
    assert [d.name for d in pb.devices()] == ["cpu"] and pb.devices()[0].memory > 0


@pytest.mark.usefixtures("fresh")
def test_training_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_LIBCUDA", "/nowhere/libcuda.so.1")

    def fitted(device: str) -> nn.Run:
        return nn.fit(lambda p, s, batch: pb.mean((p * batch[0] - batch[1]) ** 2), (Y, 2 * Y), parameters=np.zeros(()),
                      optimizer=nn.sgd(0.1), epochs=2, progress=False, device=device)  # fmt: skip

    with pytest.warns(RuntimeWarning, match="runs on the processor: there is no driver of CUDA"):
        assert fitted("cuda").steps == 2
    assert said(lambda: fitted("cuda!")).startswith("DeviceError [E418] there is no driver of CUDA: /nowhere/")


@pytest.mark.usefixtures("fresh")
def test_an_old_driver(monkeypatch: pytest.MonkeyPatch, devices: fake.Driver) -> None:
    devices.set(driver=11040)
    remedy = "  try: a driver for CUDA 12.0 or later      See `pullback explain-error E418`"
    assert said(lambda: device_put(W)) == (
        f"DeviceError [E418] the driver is too old: it is for CUDA 11.4\n{remedy}")
    monkeypatch.setenv("PULLBACK_LIBCUDA", str(fake.built(fake.DRIVER, without=("cuMemAllocAsync",))))
    assert said(lambda: device_put(W)) == (
        f"DeviceError [E418] the driver is too old: it has no cuMemAllocAsync\n{remedy}")


@pytest.mark.usefixtures("fresh")
def test_no_device(devices: fake.Driver) -> None:
    devices.fail("cuInit", 100)
    assert said(lambda: device_put(W)) == (
        "DeviceError [E418] the driver finds no device\n"
        "  try: `nvidia-smi` lists devices      See `pullback explain-error E418`")
    devices.fail("cuInit", 999)
    assert said(lambda: device_put(W)) == (
        "DeviceError [E418] the driver does not start: CUDA_ERROR_UNKNOWN, the words of the driver for tests\n"
        "  try: `nvidia-smi` shows why      See `pullback explain-error E418`")


@pytest.mark.usefixtures("fresh")
def test_no_compiler_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_NVRTC", "/nowhere/libnvrtc.so")
    f = pb.function(device="cuda!")(lambda x: x - 1)
    assert said(lambda: f(W)) == (
        "DeviceError [E419] there is no compiler for kernels: NVRTC is not found\n"
        "  try: `pip install 'pullback[cuda]'`, or PULLBACK_NVRTC with the path of libnvrtc      "
        "See `pullback explain-error E419`")


def test_code_that_the_driver_does_not_take(devices: fake.Driver) -> None:
    f = pb.function(device="cuda!")(lambda x: x - 2)
    devices.fail("cuModuleLoadData", 222)
    assert said(lambda: f(W)) == (
        "DeviceError [E419] lambda: the driver of cuda:0 does not take the machine code\n"
        "   | error 222\n"
        "  try: a newer driver, or an older NVRTC: `pip install nvidia-cuda-nvrtc-cu12`      "
        "See `pullback explain-error E419`")
    np.testing.assert_array_equal(f(W), W - 2)


def test_kernels_that_do_not_compile() -> None:
    wrong = "int f() { return missing; }"
    _, log = nvrtc.compiler(12).cubin(wrong, "sm_90a", ())
    assert "missing" in log
    assert said(lambda: nvrtc.compiled(wrong, "sm_90a", 12000)) == (
        f"DeviceError [E419] {nvrtc.compiler(12)} does not compile the kernels for sm_90a\n   | {log}\n"
        "  try: a version of NVRTC that knows the device, or report this with the text of kernels.cu      "
        "See `pullback explain-error E419`")


def test_a_function_that_a_device_cannot_run() -> None:
    """With NumPy arrays the call runs on the processor after a warning; device arrays are refused."""
    with pytest.warns(RuntimeWarning, match=r"halved runs on the processor: halved: the C function half is not"):
        np.testing.assert_array_equal(halved(W), W / 2)
    for call in (lambda: halved(device_put(W)), lambda: pb.function(halved, device="cuda!")(W)):
        assert said(call, pb.CompilerError).startswith(
            "CompilerError [E417] halved: the C function half is not supported on devices yet\n")
    careful = pb.function(doubled, device="cuda!", debug=True)
    exported = pb.function(doubled.python, debug=True)
    for call in (lambda: careful(W), lambda: exported.export_device("unused", N=5)):
        assert said(call, pb.CompilerError) == (
            "CompilerError [E417] doubled: a debug build runs on the processor\n"
            "  try: debug=False      See `pullback explain-error E417`")


def test_arrays_that_are_not_taken() -> None:
    capsule = device_put(W).__dlpack__()
    made = dlpack._Managed.from_address(dlpack._pointer(capsule, b"dltensor"))
    made.tensor.strides[0] = 2
    assert said(lambda: doubled(Given(capsule))) == (
        "DeviceError [E422] x is on cuda:0, and not stored row by row\n"
        "  try: `x.contiguous()` in PyTorch, `cupy.ascontiguousarray(x)`      See `pullback explain-error E422`")
    made.tensor.code = 7
    assert said(lambda: doubled(Given(capsule)), pb.DTypeError) == (
        "DTypeError [E122] x has the element type 7 of DLPack with 1 × 64 bits, which has no counterpart in the "
        "language\n  try: convert it first      See `pullback explain-error E122`")
    assert said(lambda: device_put(np.ones(2, np.clongdouble)), pb.DTypeError) == (
        "DTypeError [E122] x has NumPy dtype complex256, which has no counterpart in the language\n"
        "  try: convert it in NumPy first      See `pullback explain-error E122`")
    assert said(lambda: doubled(device_put(1j * W)), pb.DTypeError) == (
        "DTypeError [E122] x holds complex numbers, its annotation says real ones\n"
        "  try: `x.real`      See `pullback explain-error E122`")


def test_a_function_that_ends_before_its_call() -> None:
    """Working memory is freed after the calls that use it."""
    f = pb.function(lambda x: pb.sum(pb.tanh(x @ x.T) @ x))
    found = f(device_put(X))
    del f
    gc.collect()
    np.testing.assert_allclose(float(found), np.sum(np.tanh(X @ X.T) @ X))


def test_memory_of_a_lost_device(devices: fake.Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """An array on a lost device ends without an error."""
    gpu, errors = listing.gpu("cuda:0"), []
    monkeypatch.setattr(sys, "unraisablehook", errors.append)
    monkeypatch.setattr(gpu, "_most_kept", 0)
    memory = Memory(gpu, 100, "test")
    devices.set(lost=1)
    del memory
    gc.collect()
    assert not errors and devices.count("cuMemFreeAsync") == 1


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
