"""Tests for a real GPU: memory and order shared with PyTorch, JAX and CuPy, exported programs, full memory.

PULLBACK_TEST_CUDA=1 runs these and the other tests of devices on it. Libraries that are not installed are skipped.
"""

from __future__ import annotations

import ctypes
import gc
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Complex64, Float32, Float64, Int64

import pullback as pb
from pullback import Array, lazy, nn
from pullback.errors import IndexRangeError, OutOfMemoryError
from pullback.runtime.buffer import address
from pullback.runtime.device.array import DeviceArray
from pullback.runtime.device.driver import Gpu
from pullback.runtime.device.listing import gpu
from pullback.runtime.device.nvrtc import compiled
from tests.support.devices import fake

pytestmark = pytest.mark.skipif(not fake.IS_REAL, reason="PULLBACK_TEST_CUDA=1 runs it on a GPU")


@pb.function(device="cuda!")
def squares(x: Float32[Array, "M N"]) -> Any:
    return pb.sum(x * x, axis=1)


@pb.function(device="cuda!")
def product(x: Float32[Array, "M K"], y: Float32[Array, "K N"]) -> Any:
    return pb.tanh(x @ y)


@pb.function(device="cuda!")
def taken(x: Float64[Array, "N"], at: Int64[Array, "M"]) -> Any:
    return x[at]


@pb.function(device="cuda!")
def turned(z: Complex64[Array, "N"]) -> Any:
    return z * 1j


def torch() -> tuple[Any, Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], int]]:
    lib = pytest.importorskip("torch")
    return lib, lambda a: lib.asarray(a, device="cuda"), lambda t: t.cpu().numpy(), lambda t: int(t.data_ptr())


def cupy() -> tuple[Any, Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], int]]:
    lib = pytest.importorskip("cupy")
    return lib, lib.asarray, lib.asnumpy, lambda t: int(t.data.ptr)


def jax() -> tuple[Any, Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], int]]:
    lib = pytest.importorskip("jax")
    lib.config.update("jax_enable_x64", True)
    return lib.dlpack, lib.numpy.asarray, np.asarray, lambda t: int(t.unsafe_buffer_pointer())


LIBRARIES = {"torch": torch, "cupy": cupy, "jax": jax}


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_share_memory(library: str) -> None:
    lib, put, back, at = LIBRARIES[library]()
    x = np.random.default_rng(0).normal(size=(300, 70)).astype(np.float32)
    theirs = put(x)
    y = squares(theirs)
    assert isinstance(y, DeviceArray)
    np.testing.assert_allclose(y.numpy(), (x * x).sum(1), rtol=1e-5)
    again = lib.from_dlpack(y)
    assert at(again) == y.at
    np.testing.assert_array_equal(back(again), y.numpy())
    del y
    gc.collect()
    np.testing.assert_allclose(back(again), (x * x).sum(1), rtol=1e-5)


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_libraries_share_order(library: str) -> None:
    """Long work of the library before and after a call, with no wait in between."""
    lib, put, back, _ = LIBRARIES[library]()
    x = np.random.default_rng(1).normal(size=(2000, 2000)).astype(np.float32) / 50
    theirs = put(x)
    for _ in range(20):
        made = theirs @ theirs @ theirs
        ours = product(made, theirs)
        then = lib.from_dlpack(ours) @ theirs
        del ours, made
    np.testing.assert_allclose(back(then), np.tanh(x @ x @ x @ x) @ x, atol=2e-3)


def test_complex_arrays_of_pytorch() -> None:
    lib = pytest.importorskip("torch")
    z = np.random.default_rng(2).normal(size=(50, 2)).astype(np.float32).view(np.complex64)[:, 0]
    made = turned(lib.asarray(z, device="cuda"))
    np.testing.assert_allclose(lib.from_dlpack(made).cpu().numpy(), z * 1j)


def test_checks_of_indices() -> None:
    x = pb.device_put(np.arange(5.0), "cuda")
    assert taken(x, pb.device_put(np.array([4, 0]), "cuda")).numpy().tolist() == [4.0, 0.0]
    bad = taken(x, pb.device_put(np.array([4, 7]), "cuda"))
    with pytest.raises(IndexRangeError, match=r"\[E401\].*index 7"):
        bad.numpy()


def test_the_process_goes_on_when_memory_is_full() -> None:
    @pb.function(device="cuda!")
    def large(x: Float64[Array, "N"]) -> Any:
        return pb.build(1 << 37, lambda k: x[0] * k)

    with pytest.raises(OutOfMemoryError, match=r"\[E421\]"):
        large(pb.device_put(np.ones(3), "cuda"))
    assert squares(pb.device_put(np.ones((2, 3), np.float32), "cuda")).numpy().tolist() == [3.0, 3.0]


@pb.function(device="cuda!")
def descent(w: Float64[Array, "M"], x: Float64[Array, "N M"], at: Int64[Array, "K"]) -> Any:
    value, slope = pb.value_and_grad(lambda w: pb.sum((x @ w)[at] ** 2))(w)
    return w - 0.01 * slope, value


def test_repeated_calls() -> None:
    """Graphs give the bits of launches, with arguments that are results, and results that are kept."""
    rng = np.random.default_rng(6)
    x, start, rows = rng.normal(size=(500, 30)), rng.normal(size=30), rng.integers(0, 500, 40)
    given, losses = (pb.device_put(x, "cuda"), pb.device_put(rows, "cuda")), []
    w = pb.device_put(start, "cuda")
    firsts = [descent(w, *given)[0].numpy().tobytes() for _ in range(5)]
    assert len(set(firsts)) == 1
    for _ in range(40):
        w, value = descent(w, *given)
        losses.append(value)
    here, wanted = start, []
    for _ in range(40):
        wanted.append(np.sum((x[rows] @ here) ** 2))
        here = here - 0.02 * x[rows].T @ (x[rows] @ here)
    np.testing.assert_allclose([float(v) for v in losses], wanted)
    np.testing.assert_allclose(w.numpy(), here)
    bad = descent(w, given[0], pb.device_put(np.full(40, 500), "cuda"))
    with pytest.raises(IndexRangeError, match=r"\[E401\]"):
        bad[1].numpy()
    for kept, known in zip(losses, wanted, strict=True):
        np.testing.assert_allclose(float(kept), known)


def test_training_on_a_device_gives_the_losses_of_the_processor() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(256, 1, 12, 12)).astype(np.float32)
    y = (x.sum((1, 2, 3)) > 0).astype(np.int64)

    def losses(device: str) -> Any:
        net = nn.sequential(nn.conv(4, 3), nn.relu, nn.max_pool(2), nn.flatten(), nn.dense(2))
        return nn.fit(net, nn.cross_entropy, (x, y), optimizer=nn.adam(1e-3), epochs=3, batch_size=32, progress=False,
                      device=device).history["loss"]  # fmt: skip

    np.testing.assert_allclose(losses("cuda!"), losses("cpu"), rtol=1e-4)


def test_lazy_arrays() -> None:
    x = np.random.default_rng(4).normal(size=(200, 300))
    a = lazy.asarray(x, device="cuda:0")
    b = lazy.tanh(a) @ lazy.matrix_transpose(a)
    assert b.device == "cuda:0"
    np.testing.assert_allclose(np.asarray(b.to_device("cpu")), np.tanh(x) @ x.T, atol=1e-11)


def test_exported_programs(tmp_path: Path) -> None:
    """The files of an export, compiled and called without this package's runtime."""
    x = np.random.default_rng(5).normal(size=(40, 70)).astype(np.float32)
    squares.export_device(tmp_path, M=40, N=70)
    [source] = tmp_path.glob("*.c")
    subprocess.run(["cc", "-std=gnu99", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", source.name,
                    "-o", "program.so", "-ldl"], cwd=tmp_path, check=True)  # fmt: skip
    device = gpu("cuda:0")
    image = compiled((tmp_path / "kernels.cu").read_text(), device.entry.architecture, _version(device))
    library, handle, out = ctypes.CDLL(str(tmp_path / "program.so")), ctypes.c_void_p(), np.zeros(40, np.float32)
    assert library[f"{source.stem}_open"](ctypes.byref(handle), image, 0) == 0
    for _ in range(4):
        out[:] = 0
        assert library[source.stem](handle, ctypes.c_void_p(address(x)), ctypes.c_void_p(address(out))) == 0
        np.testing.assert_allclose(out, (x * x).sum(1), rtol=1e-5)
    library[f"{source.stem}_close"](handle)


def _version(device: Gpu) -> int:
    version: int = device.driver.version  # type: ignore[attr-defined]
    return version
