"""Errors of calls on devices and of device arrays, on a driver for tests."""

from __future__ import annotations

import gc
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32

import pullback as pb
from pullback import Array, nn
from pullback.errors import TraceError
from pullback.runtime.device import dlpack, listing, nvrtc
from pullback.runtime.device.array import Memory, device_put
from tests.support.devices import fake
from tests.unit.grid.test_calls import Given, W, X, Y, doubled, halved, loss, said

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("devices")]


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
