"""Calls on OpenCL's devices from Python, their arrays, and errors. Kernels run where OpenCL has a device."""

from __future__ import annotations

import ctypes
import gc
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array, lazy, nn
from pullback.errors import DeviceError, PullbackError
from pullback.runtime.device import listing, opencl
from pullback.runtime.device.array import ComplexDeviceArray, DeviceArray
from pullback.runtime.device.driver import StatusError
from tests.support.devices import fake
from tests.support.devices import opencl as support
from tests.support.devices.fake import on_host

RNG = np.random.default_rng(7)
W, X, Y = RNG.normal(size=5), RNG.normal(size=(7, 5)), RNG.normal(size=7)


@pytest.fixture
def gpu() -> opencl.OpenclGpu:
    """The first device; the test is skipped if there is none."""
    if reason := support.missing():
        pytest.skip(reason)
    return opencl.gpus()[0]


@pb.function(device="opencl!")
def loss(w: Float64[Array, "M"], x: Float64[Array, "N M"], y: Float64[Array, "N"]) -> Any:
    return pb.sum((x @ w - y) ** 2)


@pb.function
def read(x: Float64[Array, "N"], at: Int64[Array, "M"]) -> Any:
    return pb.build(at.shape[0], lambda m: x[at[m]])


@pb.function(device="opencl!")
def turned(z: Any) -> Any:
    return z * z + 1j * z


def said(call: Callable[[], Any], kind: type[PullbackError] = DeviceError) -> str:
    """The message of an error without its place."""
    with pytest.raises(kind) as error:
        call()
    kept = [t for t in str(error.value).splitlines() if not t.startswith(("  --> ", "   |  "))]
    return "\n".join(kept)


# Calls and arrays -----------------------------------------------------------------------------------------------


def test_calls(gpu: opencl.OpenclGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy arrays give NumPy arrays, arrays on the device give arrays there; derivatives inherit the device."""
    slope = pb.grad(loss, wrt="w")
    wanted = 2 * X.T @ (X @ W - Y)
    np.testing.assert_allclose(slope(W, X, Y), wanted)
    used = gpu.free_bytes()[0]
    w, x = pb.device_put(W, "opencl"), pb.device_put(X, "opencl:0")
    found = slope(w, x, Y)
    assert isinstance(found, DeviceArray) and (found.device, found.shape, found.dtype) == ("opencl:0", (5,), np.float64)
    np.testing.assert_allclose(slope(found, x, Y), 2 * X.T @ (X @ wanted - Y))
    assert repr(pb.device_put(np.arange(2), gpu.name)) == "DeviceArray([0, 1], opencl:0)"
    assert used - 2000 < gpu.free_bytes()[0] < used
    del w, x, found
    gc.collect()
    assert gpu.free_bytes()[0] == used
    monkeypatch.setenv("PULLBACK_DEVICE", "opencl!")
    np.testing.assert_allclose(pb.grad(loss.python, wrt="w")(W, X, Y), wanted)


def test_lazy_arrays(gpu: opencl.OpenclGpu) -> None:
    x = lazy.asarray(X, device="opencl")
    assert (x.device, x.__dlpack_device__()) == ("opencl:0", (4, 0))
    found = lazy.grad(lambda x: lazy.sum(x * x * 3.0))(x)
    assert found.device == "opencl:0"
    np.testing.assert_allclose(found, 6 * X)
    doubled = pb.function(lambda x: 2 * x)(x + 1.0)
    assert isinstance(doubled, DeviceArray)
    np.testing.assert_allclose(doubled, 2 * X + 2)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_arrays(dtype: type, gpu: opencl.OpenclGpu) -> None:
    z = (X + 1j * X[::-1]).astype(dtype)
    on_device = pb.device_put(z, gpu.name)
    assert isinstance(on_device, ComplexDeviceArray) and on_device.dtype == dtype
    np.testing.assert_array_equal(on_device.numpy(), z)
    for x, kind in ((on_device, ComplexDeviceArray), (z, np.ndarray)):
        found = turned(x)
        assert isinstance(found, kind)
        np.testing.assert_allclose(np.asarray(found), z * z + 1j * z, rtol=1e-5)
    assert said(on_device.__dlpack__) == (
        "DeviceError [E422] other libraries cannot share arrays on opencl:0\n"
        "  try: `x.numpy()` copies the array to the host      See `pullback explain-error E422`")


def test_a_failed_check_comes_with_the_results(gpu: opencl.OpenclGpu) -> None:
    x, at = pb.device_put(W, gpu.name), np.array([0, 9])
    found = read(x, at)
    for _ in range(2):
        with pytest.raises(IndexError, match="the index 9 on axis 0 of x is outside 0 … 4"):
            found.numpy()
    np.testing.assert_array_equal(read(x, np.array([4, 0])), W[[4, 0]])
    with pytest.raises(IndexError, match="E401"):
        pb.function(read, device="opencl!")(W, at)


def test_training(gpu: opencl.OpenclGpu) -> None:
    """Training gives the parameters of the processor within rounding."""
    x = RNG.normal(size=(24, 4)).astype(np.float32)
    data = x, (x @ np.array([1.0, 2.0, 0.0, -1.0], np.float32))

    def fitted(device: str) -> nn.Run:
        return nn.fit(lambda p, s, batch: pb.mean((batch[0] @ p - batch[1]) ** 2), data, optimizer=nn.sgd(0.1),
                      parameters=np.zeros(4, np.float32), epochs=2, batch_size=8, progress=False, device=device)

    there, here = fitted(f"{gpu.name}!"), fitted("cpu")
    np.testing.assert_allclose(there.parameters, here.parameters, rtol=1e-5)


def test_arrays(gpu: opencl.OpenclGpu) -> None:
    x = pb.device_put(X, gpu.name)
    for a in (x.numpy(), np.asarray(x), on_host(x), pb.device_put(x, "cpu")):
        np.testing.assert_array_equal(a, X)
    assert pb.device_put(x, gpu.name) is x and x.ready() is x
    assert np.asarray(pb.device_put(X[:0], gpu.name)).shape == (0, 5)
    assert repr(pb.device_put(np.zeros((50, 40), np.float32), gpu.name)) == "DeviceArray(float32[50, 40], opencl:0)"
    many = [pb.device_put(np.full(3, float(k)), gpu.name) for k in range(300)]  # more copies than are kept
    assert float(sum(float(m.numpy()[0]) for m in many)) == 44850.0


def test_a_context_of_the_caller(gpu: opencl.OpenclGpu, tmp_path: Path) -> None:
    """An exported program runs in another context, on the caller's queue and buffers."""
    read.export_device(tmp_path, "opencl", N=5, M=2)
    subprocess.run(["cc", "-std=gnu99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "read.c", "-o", "read.so"],
                   cwd=tmp_path, check=True)  # fmt: skip
    library, handle = ctypes.CDLL(str(tmp_path / "read.so")), ctypes.c_void_p()
    caller = opencl.OpenclGpu(opencl.loader(), gpu._device, 0)
    text = (tmp_path / "kernels.cl").read_bytes() + b"\0"
    assert caller._context != gpu._context
    assert library.read_open_in(ctypes.byref(handle), text, *caller.opening[1]) == 0
    x, at, out, fault = (ctypes.c_void_p(caller.allocate(n)) for n in (40, 16, 16, 24))
    for place, wanted in (([4, 0], [0, 0, 0]), ([0, 9], [1, 9, 5])):
        caller.send(x.value or 0, W)
        caller.send(at.value or 0, np.array(place))
        assert library.read_enqueue(handle, ctypes.c_void_p(caller.stream), x, at, out, fault) == 0
        found, values = np.empty(3, np.int64), np.empty(2)
        caller.fetch(found, fault.value or 0)
        np.testing.assert_array_equal(found, wanted)
        if not wanted[0]:
            caller.fetch(values, out.value or 0)
            np.testing.assert_array_equal(values, W[place])
    gc.collect()
    library.read_close.restype = None
    library.read_close(handle)


def test_devices(gpu: opencl.OpenclGpu) -> None:
    rows = [r for r in pb.devices() if r.name.startswith("opencl:")]
    assert [r.name for r in rows] == [f"opencl:{k}" for k in range(len(opencl.gpus()))]
    assert rows[0].title and rows[0].memory > 0 and rows[0].architecture.startswith("OpenCL C ")
    assert "__kernel" in str(loss.explain(device=gpu.name, M=5, N=7))
    assert said(lambda: pb.device_put(W, "opencl:99")).startswith("DeviceError [E418] there is no device opencl:99\n")


def test_no_exchange_with_other_libraries(gpu: opencl.OpenclGpu) -> None:
    """DLPack does not say in which context a buffer is, so it is refused."""
    x = pb.device_put(W, gpu.name)
    assert x.__dlpack_device__() == (4, 0)
    for stream in (None, -1):
        assert said(lambda s=stream: x.__dlpack__(stream=s)) == (  # type: ignore[misc]
            "DeviceError [E422] other libraries cannot share arrays on opencl:0\n"
            "  try: `x.numpy()` copies the array to the host      See `pullback explain-error E422`")

    class Buffer:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 4, 0

        def __dlpack__(self, **_: Any) -> Any:
            raise AssertionError

    assert said(lambda: loss(Buffer(), X, Y)) == (
        "DeviceError [E422] w is on a device of OpenCL, and of another library\n"
        "  try: copy it to the host: DLPack does not say in which context it is      See `pullback explain-error E422`")


def test_two_drivers(gpu: opencl.OpenclGpu, cuda: fake.Driver) -> None:
    x = pb.device_put(X, "cuda:0")
    assert said(lambda: loss(W, x, Y)) == (
        "DeviceError [E422] loss runs on opencl:0, and x is on cuda:0\n"
        '  try: `pb.device_put(x, "opencl:0")` copies it      See `pullback explain-error E422`')
    there = pb.device_put(x, gpu.name)
    assert there.device == "opencl:0"
    np.testing.assert_array_equal(pb.device_put(there, "cuda:0"), X)


# What goes wrong ------------------------------------------------------------------------------------------------


def test_no_memory(gpu: opencl.OpenclGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that is missing is found before work is queued, and smaller calls still run."""
    free, total = gpu.free_bytes()
    rest = f"{free:,} of {total:,} bytes are free      an allocation has at most 1,000 bytes\n"
    remedy = ("  try: smaller arguments, fewer arrays on the device, or another device      "
              "See `pullback explain-error E421`")
    monkeypatch.setattr(gpu, "largest", 1000)
    assert said(lambda: pb.device_put(np.zeros(200), gpu.name), pb.OutOfMemoryError) == (
        "OutOfMemoryError [E421] x : f64[200]: opencl:0 has no memory for 1,600 bytes\n"
        f"   | x : f64[200], 1,600 bytes      {rest}{remedy}")
    wide = pb.function(lambda x: pb.cumulative_sum(pb.cumulative_sum(x[:, None] * x, axis=0)[-1]), device="opencl!")
    with pytest.raises(pb.OutOfMemoryError) as error:
        wide(np.ones(20))
    assert error.value.what.startswith("lambda: opencl:0 has no memory for ")
    assert ": f64[20, 20], 3,200 bytes" in error.value.facts[0]
    assert gpu.free_bytes()[0] == free
    monkeypatch.setattr(gpu, "largest", total)
    monkeypatch.setattr(gpu, "_used", total - 1000)
    assert said(lambda: pb.device_put(np.zeros(200), gpu.name), pb.OutOfMemoryError) == (
        "OutOfMemoryError [E421] x : f64[200]: opencl:0 has no memory for 1,600 bytes\n"
        f"   | x : f64[200], 1,600 bytes      1,000 of {total:,} bytes are free\n{remedy}")
    np.testing.assert_array_equal(pb.device_put(W, gpu.name), W)


def test_memory_that_the_driver_refuses(gpu: opencl.OpenclGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that was not allocated, and that of programs that are gone, counts as free."""
    gc.collect()
    free, _ = gpu.free_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(gpu, "_cl", Recorded(gpu._cl, refusing=4))
        with pytest.raises(pb.OutOfMemoryError, match="E421] x : f64\\[5\\]: opencl:0 has no memory for 40 bytes"):
            pb.device_put(W, gpu.name)
    assert gpu.free_bytes()[0] == free
    f = pb.function(lambda x: pb.cumulative_sum(pb.cumulative_sum(x[:, None] * x, axis=0)[-1]), device="opencl!")
    f(np.ones(20))
    used = free - gpu.free_bytes()[0]
    f(np.ones(20))
    assert free - gpu.free_bytes()[0] == used >= 3200 + 320
    del f
    gc.collect()
    assert gpu.free_bytes()[0] == free


class Recorded:
    """A loader that notes the calls of entry points, and may refuse to make objects."""

    def __init__(self, cl: opencl.Loader, refusing: int = 0) -> None:
        self.cl, self.refusing, self.names = cl, refusing, list[str]()

    def __call__(self, name: str, *arguments: Any) -> None:
        self.names.append(name)
        self.cl(name, *arguments)

    def made(self, name: str, *arguments: Any) -> int:
        if self.refusing:
            raise StatusError(self.refusing, name)
        return self.cl.made(name, *arguments)


def test_work_begins_at_once(gpu: opencl.OpenclGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers may hold work back until the queue is flushed, or waited for."""
    f = pb.function(lambda x: x - 5.0)
    x = pb.device_put(W, gpu.name)
    f(x).ready()
    recorded = Recorded(gpu._cl)
    monkeypatch.setattr(gpu, "_cl", recorded)
    found = f(x)
    assert recorded.names == ["clFlush"]
    pb.device_put(W, gpu.name)
    assert recorded.names[1:4] == ["clEnqueueWriteBuffer", "clEnqueueMarkerWithWaitList", "clFlush"]
    np.testing.assert_array_equal(found, W - 5.0)


def test_an_array_may_be_changed_after_it_was_sent(gpu: opencl.OpenclGpu) -> None:
    pb.device_put(np.ones(4_000_000), gpu.name)  # the queue is busy
    a = np.full(64, 7.0)
    x = pb.device_put(a, gpu.name)
    a[:] = 0
    others = [np.full(64, 9.0) for _ in range(8)]  # in memory that is free
    np.testing.assert_array_equal(x, np.full(64, 7.0))
    assert len(others) == 8


def test_a_device_without_f64(gpu: opencl.OpenclGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "has_double", False)
    remedy = ("  try: arrays of f32 and no conversions to integers, or another device      "
              "See `pullback explain-error E417`")
    f = pb.function(lambda x, y: x + y, device="opencl!")
    assert said(lambda: f(W, W), pb.CompilerError) == (
        f"CompilerError [E417] lambda: opencl:0 has no f64 (cl_khr_fp64), needed for x, y, add\n{remedy}")
    h = pb.function(lambda x: pb.astype(x, pb.int32), device="opencl!")
    assert said(lambda: h(np.ones(3, np.float32)), pb.CompilerError) == (
        "CompilerError [E417] lambda: opencl:0 has no f64 (cl_khr_fp64), needed for conversions from f32 to integers\n"
        f"{remedy}")
    with pytest.warns(RuntimeWarning, match="runs on the processor: lambda: opencl:0 has no f64"):
        np.testing.assert_array_equal(pb.function(lambda x: x + 1, device="opencl")(W), W + 1)


@pytest.mark.parametrize(
    ("which", "text"),
    [(opencl.GROUP, "128 threads"), (opencl.SHARED, "1,024 bytes of shared memory")])  # fmt: skip
def test_a_device_with_small_groups(which: int, text: str, gpu: opencl.OpenclGpu,
                                    monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    own = gpu._number
    monkeypatch.setattr(gpu, "_number", lambda fact: 64 if fact == which else own(fact))
    assert said(lambda: pb.function(lambda x: pb.sum(x), device="opencl!")(np.ones(300)), pb.CompilerError) == (
        f"CompilerError [E417] lambda: opencl:0 has no groups with {text}: it has at most 64\n"
        "  try: another device      See `pullback explain-error E417`")
    most = int(text.split()[0].replace(",", ""))
    monkeypatch.setattr(gpu, "_number", lambda fact: most if fact == which else own(fact))
    assert pb.function(lambda x: pb.sum(x), device="opencl!")(np.ones(300)) == 300.0


def test_kernels_that_do_not_compile(gpu: opencl.OpenclGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the messages of the driver's compiler."""
    monkeypatch.setattr(gpu, "image", lambda *_: b"__kernel void f() { no_such_function(); }\0")
    with pytest.raises(DeviceError) as error:
        pb.function(lambda x: x - 3, device="opencl!")(W)
    what = "lambda: the driver of opencl:0 does not compile the kernels"
    assert (error.value.code, error.value.what) == ("E419", what)
    assert "no_such_function" in error.value.facts[0]
    assert error.value.remedy == "another driver of the device, or report this with the text of kernels.cl"


def test_a_driver_without_a_compiler(gpu: opencl.OpenclGpu) -> None:
    def refused() -> None:
        error = gpu.refusal("f", 3, ctypes.CDLL(None))
        assert error is not None
        raise error

    assert said(refused) == (
        "DeviceError [E419] f: the driver of opencl:0 has no compiler\n   | CL_COMPILER_NOT_AVAILABLE\n"
        "  try: another driver of the device, or another device      See `pullback explain-error E419`")
    assert gpu.refusal("f", 4, ctypes.CDLL(None)) is None


def test_an_old_device(gpu: opencl.OpenclGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_text", lambda _: "OpenCL 1.1 of a maker")
    assert said(lambda: pb.function(lambda x: x - 4, device="opencl!")(W)) == (
        "DeviceError [E418] opencl:0 is too old: it is for OpenCL 1.1\n"
        "  try: a device with OpenCL 1.2 or later      See `pullback explain-error E418`")
    monkeypatch.setattr(gpu, "_text", lambda _: "OpenCL 1.2 of a maker")
    np.testing.assert_array_equal(pb.function(lambda x: x - 4, device="opencl!")(W), W - 4)


@pytest.mark.parametrize(
    ("status", "text"),
    [(34, "is lost\n   | CL_INVALID_CONTEXT\n  try: start a new process; `clinfo` shows the state of the device"),
     (9999, "\n   | error -9999 of OpenCL\n  try: start a new process, as this one cannot use the device now; "
            '`device="cpu"` avoids it'),
     (5, "\n   | CL_OUT_OF_RESOURCES\n  try: another device, or report this")])  # fmt: skip
def test_a_device_that_fails(status: int, text: str, gpu: opencl.OpenclGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_: Any) -> None:
        raise StatusError(status, "clEnqueueReadBuffer")

    x = pb.device_put(W, gpu.name)
    monkeypatch.setattr(gpu, "fetch", fetch)
    first = {34: "opencl:0 ", 9999: "a kernel failed on opencl:0",
             5: "the driver of opencl:0 refused clEnqueueReadBuffer"}[status]  # fmt: skip
    assert said(x.numpy) == (
        f"DeviceError [E420] reading an array: {first}{text}      See `pullback explain-error E420`")


@pytest.mark.usefixtures("fresh")
def test_no_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LIBOPENCL", "LIBCUDA"):
        monkeypatch.setenv(f"PULLBACK_{name}", "/nowhere/lib.so")
    assert said(lambda: pb.device_put(W, "opencl:0")) == (
        "DeviceError [E418] there is no loader of OpenCL's drivers: /nowhere/lib.so: cannot open shared object file: "
        "No such file or directory\n"
        "  try: `apt-get install ocl-icd-libopencl1`, and install the OpenCL driver of your device; `clinfo` lists "
        "what is found      See `pullback explain-error E418`")
    assert [d.name for d in pb.devices()] == ["cpu"]
    assert said(lambda: pb.device_put(W, "metal:0")) == (
        "DeviceError [E418] there is no device metal:0\n"
        "  try: names begin with cuda or opencl; `pb.devices()` lists them      See `pullback explain-error E418`")


def test_an_old_loader() -> None:
    assert said(lambda: opencl.Loader(ctypes.CDLL(None))) == (
        "DeviceError [E418] the loader of OpenCL is too old: it has no clGetPlatformIDs\n"
        "  try: a loader for OpenCL 1.2 or later      See `pullback explain-error E418`")


class Without:
    """A loader that lists some platforms, or fails, and no device."""

    def __init__(self, platforms: int, devices: int) -> None:
        self.failing = {"clGetPlatformIDs": platforms, "clGetDeviceIDs": devices}

    def listed(self, name: str, *_: Any) -> list[int]:
        if self.failing[name]:
            raise StatusError(self.failing[name], name)
        return [1]


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("platforms", "devices", "text"),
    [(1001, 0, "OpenCL has no platform"), (6, 0, "OpenCL does not list its platforms: error -6"),
     (0, 1, "the platforms of OpenCL have no device"),
     (0, 30, "OpenCL does not list the devices of a platform: error -30")])  # fmt: skip
def test_no_device(platforms: int, devices: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl, "loader", lambda: Without(platforms, devices))
    assert said(lambda: listing.gpu("opencl:0")) == (
        f"DeviceError [E418] {text}\n  try: install the OpenCL driver of your device; `clinfo` lists what is found"
        "      See `pullback explain-error E418`")


def test_the_order_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs and accelerators of all platforms come before processors."""

    class Two:
        def listed(self, name: str, *arguments: int) -> list[int]:
            return [10, 20] if name == "clGetPlatformIDs" else [arguments[0] + {12: 1, 2: 2}[arguments[1]]]

    monkeypatch.setattr(opencl, "loader", Two)
    monkeypatch.setattr(opencl, "OpenclGpu", lambda _, device, number: (device, number))
    assert opencl.gpus.__wrapped__() == ((11, 0), (21, 1), (12, 2), (22, 3))
