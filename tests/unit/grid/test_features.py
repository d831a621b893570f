"""Parts of the language on devices: each gives the values of C for processors, and compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxtyping import Bool, Complex128, Float16, Float64, Int32, Int64

import pullback as pb
from benchmarks.devices import long_ones, run
from pullback import Array
from pullback.codegen.device.dialect import CUDA
from pullback.codegen.device.program import device_program
from pullback.codegen.targets import PLAIN_C
from pullback.device import H100
from pullback.ir.types import DType
from pullback.runtime.device.export import lowered_for
from pullback.runtime.emit import emit_c
from tests.support.devices import nvrtc
from tests.support.devices.plain import reading


@pb.function
def fourier(x: Float64[Array, "64"]) -> Any:
    return pb.abs(pb.fft.fft(x)), pb.fft.irfft(pb.fft.rfft(x))


@pb.function
def drawn(x: Float64[Array, "64"]) -> Any:
    return x + pb.random.normal(pb.random.key(3), (64,)), x[pb.random.permutation(pb.random.key(4), 64)]


@pb.function
def complex_numbers(z: Complex128[Array, "40 70"]) -> Any:
    return pb.sum(z * z, axis=1), pb.exp(z), pb.cumulative_sum(z, axis=1)


@pb.function
def halves(x: Float16[Array, "40 70"]) -> Any:
    return pb.sum(x, axis=1), pb.sort(x, axis=1), pb.argmax(x), pb.cumulative_sum(x, axis=1), x @ x.T


@pb.function
def integers(x: Int32[Array, "40 70"]) -> Any:
    return pb.sum(x, axis=1), x // 3, x % 5, pb.argmin(x, axis=0), pb.bitwise_xor(x, 3), x >> 1, pb.bincount(x[0], 9)


@pb.function
def bools(x: Bool[Array, "40 70"]) -> Any:
    return pb.any(x, axis=1), pb.all(x), pb.logical_not(x), pb.sort(x, axis=1), pb.argsort(x, axis=1)


@pb.function
def solved(a: Float64[Array, "12 12"], b: Float64[Array, "12"]) -> Any:
    return pb.linalg.solve(a @ a.T + 10 * pb.eye(12), b), pb.linalg.cholesky(a @ a.T + 10 * pb.eye(12))


@pb.function
def searched(x: Float64[Array, "300"], v: Float64[Array, "70"]) -> Any:
    return pb.searchsorted(pb.sort(x), v), *pb.histogram(x, 10)


@pb.function
def written(x: Float64[Array, "30"], at: Int64[Array, "30"]) -> Any:
    return pb.zeros(7).set(at % 7, x), pb.zeros(7).add(at % 7, x), x.set(3, 1.0)


@pb.function
def printed(x: Float64[Array, "30"]) -> Any:
    pb.debug.print("x is {}", x)
    return pb.cumulative_prod(x)


@pb.function
def looked_up(x: Float64[Array, "300 9"], at: Int64[Array, "300"]) -> Any:
    return pb.sum_over(300, lambda n: x[n, at[n] % 9])


FUNCTIONS = [fourier, drawn, complex_numbers, halves, integers, bools, solved, searched, written, printed,
             looked_up, pb.grad(looked_up)]  # fmt: skip


def elements(dtype: DType, shape: list[int], rng: np.random.Generator) -> Any:
    if dtype.is_bool or dtype.is_integer:
        return rng.integers(0, 2 if dtype.is_bool else 50, shape).astype(dtype.numpy)
    return rng.normal(size=shape).astype(dtype.numpy)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_values_of_c(f: Callable[..., Any]) -> None:
    """Each function gives C's values, equal bits in both orders of threads, and no long serial kernel."""
    program, dims = f.for_dims({})  # type: ignore[attr-defined]
    lowered = lowered_for(program, dims)
    rng = np.random.default_rng(0)
    inputs = [elements(b.dtype, [i.constant or 0 for i in b.shape], rng) for b in lowered.function.given]
    one, two = (run(reading(lowered, backward), lowered.function, inputs)[0] for backward in (False, True))
    wanted = run(emit_c(program, dims, target=PLAIN_C), lowered.function, inputs)[0]
    for a, b, c in zip(one, two, wanted, strict=True):
        assert a.tobytes() == b.tobytes()
        np.testing.assert_allclose(a.astype(float), c.astype(float), rtol=1e-3 if a.itemsize < 8 else 1e-9, atol=1e-3)
    assert long_ones(lowered) == []
    if nvrtc.loaded() is not None:
        made = device_program(lowered.function, lowered.memory, CUDA, H100)
        assert all(r.spills == 0 for r in nvrtc.compiled(made.kernels)[1].values())
