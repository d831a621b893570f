"""Complex arrays on a device, and device arrays that functions capture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Complex128, Float64

import pullback as pb
from pullback import Array
from pullback.runtime.device import dlpack
from pullback.runtime.device.array import ComplexDeviceArray, DeviceArray, device_put
from tests.support.devices import fake
from tests.support.devices.fake import on_host
from tests.unit.grid.test_calls import Given, Tensor, read, said

RNG = np.random.default_rng(7)
W = RNG.normal(size=5)
Z = RNG.normal(size=(3, 5)) + 1j * RNG.normal(size=(3, 5))


pytestmark = pytest.mark.usefixtures("devices")


@pb.function
def rotated(z: Complex128[Array, "N M"], w: Complex128[Array, "M"]) -> Any:
    return {"z": z * 1j, "sum": pb.sum(z * w), "abs": pb.abs(w)}


# Complex arrays -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(), (4,), (2, 0), (2, 3)])
def test_there_and_back(dtype: Any, shape: tuple[int, ...]) -> None:
    z = (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(dtype)
    x = device_put(z)
    assert isinstance(x, DeviceArray) and (x.shape, x.dtype, x.nbytes, x.device) == (shape, dtype, z.nbytes, "cuda:0")
    for y in (x, device_put(x), device_put(x, "cuda:1"), device_put(x.ready(), "cpu"), on_host(x)):
        found = np.asarray(y)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, z)


def test_numbers_and_text() -> None:
    assert complex(device_put(np.array(1 + 2j))) == 1 + 2j
    assert repr(device_put(np.array([1 + 2j]))) == "DeviceArray([1.+2.j], cuda:0)"
    assert repr(device_put(np.zeros((50, 40), np.complex64))) == "DeviceArray(complex64[50, 40], cuda:0)"


def test_arguments_and_results(devices: fake.Driver) -> None:
    """Complex arguments give complex results on the device, and no call waits."""
    w = device_put(1j * W)
    waits = devices.count("cuStreamSynchronize")
    found = rotated(rotated(Z, w)["z"], w)
    assert devices.count("cuStreamSynchronize") == waits
    assert isinstance(found["z"], ComplexDeviceArray) and isinstance(found["abs"], DeviceArray)
    np.testing.assert_allclose(found["z"], -Z)
    np.testing.assert_allclose(complex(found["sum"]), np.sum(Z * 1j * 1j * W))
    np.testing.assert_allclose(found["abs"], np.abs(W))


def test_derivatives() -> None:
    f = pb.grad(lambda z: pb.sum(pb.real(z * pb.conj(z))), wrt="z")
    np.testing.assert_allclose(f(device_put(Z)), f(Z))


def test_an_argument_without_annotation() -> None:
    f = pb.function(lambda z: z * z)
    np.testing.assert_allclose(f(device_put(Z.astype(np.complex64))), Z.astype(np.complex64) ** 2, rtol=1e-6)


def test_another_library_takes_a_copy() -> None:
    x = device_put(Z)
    for options in ({}, {"max_version": (1, 1)}, {"copy": True}):
        found = dlpack.Foreign(Given(x.__dlpack__(**options)), 1)
        assert (found.shape, found.storage, found.part, found.is_contiguous) == (Z.shape, None, pb.float64, True)
    with pytest.raises(BufferError, match="the parts of a complex array on a device are two arrays"):
        x.__dlpack__(copy=False)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_arrays_of_another_library(devices: fake.Driver, dtype: Any) -> None:
    """Complex arrays are copied on the device, without the host."""
    t = Tensor(Z.astype(dtype), "jax")
    before = devices.count("bytes from devices")
    found = device_put(t)
    assert devices.count("bytes from devices") == before and found.dtype == dtype
    np.testing.assert_array_equal(found, Z.astype(dtype))
    if dtype == np.complex128:
        np.testing.assert_allclose(rotated(t, W + 0j)["z"], Z * 1j)


def test_another_library_may_write_after_the_copy(devices: fake.Driver) -> None:
    t = Tensor(Z, "unknown")
    waits = devices.count("cuStreamSynchronize")
    device_put(t)
    assert devices.count("cuStreamSynchronize") == waits + 1


def test_checks_of_both_parts() -> None:
    good, bad = (read(device_put(W), np.array(at)) for at in ([4, 0], [0, 9]))
    for z in (good.pair_with(bad), bad.pair_with(good)):
        for call in (z.ready, z.__dlpack__):
            with pytest.raises(IndexError, match="E401"):
                call()


def test_complex_arrays_on_two_devices() -> None:
    first, second = device_put(Z), device_put(1j * W, "cuda:1")
    assert said(lambda: rotated(first, second)) == (
        "DeviceError [E422] rotated: z.real is on cuda:0, and w.real is on cuda:1\n"
        '  try: `pb.device_put(w.real, "cuda:0")` copies it      See `pullback explain-error E422`')


# Captured arrays ------------------------------------------------------------------------------------------------


def test_captured_arrays(devices: fake.Driver) -> None:
    """A captured array is an argument that each call passes: it is not copied, and the call runs where it is."""
    weights, at, one, z = (device_put(a) for a in (W, np.array([4, 0]), np.array(2.0), 1j * W))
    copies = devices.count("cuMemcpyDtoHAsync_v2")

    @pb.function
    def f(x: Float64[Array, "5"]) -> Any:
        return x + weights, pb.take(x, at), one * (weights * x), pb.sum(z)

    found = f(W)
    assert devices.count("cuMemcpyDtoHAsync_v2") == copies
    assert all(isinstance(r, DeviceArray) for r in found)
    for r, wanted in zip(found, (2 * W, W[[4, 0]], 2 * W * W, np.sum(1j * W)), strict=True):
        np.testing.assert_allclose(r, wanted)
    assert "weights: f64[5]" in f.ir


@pytest.mark.slow
def test_functions_of_functions_that_capture() -> None:
    """Derivatives, maps, calls inside of functions and the interpreter take captured arrays."""
    weights = device_put(W)
    f = pb.function(lambda x: pb.sum(x * weights * x))
    np.testing.assert_allclose(pb.grad(f)(W), 2 * W * W)
    np.testing.assert_allclose(pb.vmap(f)(np.stack([W, 2 * W])), [np.sum(W**3), 4 * np.sum(W**3)])
    np.testing.assert_allclose(pb.function(lambda x: 2 * f(x))(device_put(W)), 2 * np.sum(W**3))
    np.testing.assert_allclose(f.interpret(W), np.sum(W**3))


def test_captured_indices_are_checked() -> None:
    at = device_put(np.array([9]))
    found = pb.function(lambda x: pb.take(x, at))(W)
    with pytest.raises(IndexError, match="E401"):
        found.numpy()


def test_captured_arrays_on_another_device(tmp_path: Any) -> None:
    weights = device_put(W, "cuda:1")

    @pb.function
    def f(x: Float64[Array, "5"]) -> Any:
        return x + weights

    assert said(lambda: f(device_put(W))) == (
        "DeviceError [E422] f: x is on cuda:0, and weights is on cuda:1\n"
        '  try: `pb.device_put(weights, "cuda:0")` copies it      See `pullback explain-error E422`')
    assert said(lambda: pb.function(f, device="cpu")(W)) == (
        "DeviceError [E422] f runs on cpu, and weights is on cuda:1\n"
        '  try: `pb.device_put(weights, "cpu")` copies it      See `pullback explain-error E422`')
    f.export(tmp_path)  # an argument of the C
    assert "restrict weights, double *restrict out" in next(tmp_path.glob("*.h")).read_text()
