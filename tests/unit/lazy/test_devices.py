"""Lazy arrays on devices, by a driver for tests with two devices."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import lazy, nn
from pullback.errors import DeviceError, DTypeError, OutOfMemoryError, PullbackError, TraceError
from pullback.lazy import namespace, places
from pullback.runtime.device import listing
from pullback.runtime.device.array import DeviceArray
from tests.support.devices import fake
from tests.support.devices.fake import on_host
from tests.unit.lazy import programs

RNG = np.random.default_rng(3)
A, B = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))


pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("devices")]


@pytest.fixture
def wish(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Set PULLBACK_DEVICE, as for a new process."""

    def wished(device: str) -> None:
        monkeypatch.setenv("PULLBACK_DEVICE", device)
        places.default_place.cache_clear()

    return wished


def on(x: Any, device: str = "cuda:0") -> Any:
    return lazy.asarray(x, device=device)


def said(call: Callable[[], Any], kind: type[PullbackError] = DeviceError) -> str:
    """The message of an error without its place."""
    with pytest.raises(kind) as error:
        call()
    kept = [t for t in str(error.value).splitlines() if not t.startswith(("  --> ", "   |  "))]
    return "\n".join(kept)


# Expressions ----------------------------------------------------------------------------------------------------

UNARY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda xp, x: xp.tanh(x), lambda xp, x: xp.exp(-x * x), lambda xp, x: xp.sin(x) * 0.5, lambda xp, x: abs(x) + 1.0,
    lambda xp, x: xp.sum(x, axis=-1, keepdims=True) * xp.ones(x.shape), lambda xp, x: x[::-1],
    lambda xp, x: xp.where(x > 0.0, x, -0.1 * x), lambda xp, x: xp.flip(x, axis=1), lambda xp, x: x - xp.mean(x),
    lambda xp, x: (x @ x.T) @ x / 4.0)  # fmt: skip
BINARY: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda xp, x, y: x + y, lambda xp, x, y: x * y, lambda xp, x, y: x - 2.0 * y,
    lambda xp, x, y: x / (1.0 + y * y), lambda xp, x, y: xp.maximum(x, y), lambda xp, x, y: (x @ y.T) @ y)  # fmt: skip


def expression(seed: int, xp: Any, x: Any, y: Any) -> Any:
    """A random expression of two arrays of one shape."""
    r = np.random.default_rng(seed)
    values = [x, y]
    for _ in range(int(r.integers(2, 7))):
        a, b = (values[int(k)] for k in r.integers(0, len(values), 2))
        one = int(r.integers(len(UNARY) + len(BINARY)))
        values.append(UNARY[one](xp, a) if one < len(UNARY) else BINARY[one - len(UNARY)](xp, a, b))
    return values[-1] * values[-2] + x


@pytest.mark.parametrize("first", range(0, 50, 5))
def test_random_expressions(first: int, devices: fake.Driver) -> None:
    """Values and gradients are NumPy's and the processor's; nothing waits before a value is read."""
    for seed in range(first, first + 5):
        x, y = on(A), on(B) if seed % 3 else B
        waits = devices.count("cuStreamSynchronize")
        found = expression(seed, lazy, x, y)
        assert found.device == "cuda:0"
        lazy.sum(found).__device_array__()
        assert devices.count("cuStreamSynchronize") == waits
        np.testing.assert_allclose(found.numpy(), expression(seed, np, A, B), rtol=1e-12, atol=1e-13)

    def total(x: Any, y: Any) -> Any:
        return lazy.sum(expression(first, lazy, x, y))

    there, here = lazy.grad(total, (0, 1))(x, y), lazy.grad(total, (0, 1))(A, B)
    assert [g.device for g in there] == [x.device, "cuda:0" if isinstance(y, lazy.Array) else "cpu"]
    for a, b in zip(there, here, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def test_an_array_on_a_device(devices: fake.Driver) -> None:
    """An array knows its device before it has a value; conversions to Python wait, and copy."""
    x = on(A)
    y = lazy.sum(x * 2.0, axis=1)
    assert (x.device, y.device, y.shape, y.value, repr(y.type)) == ("cuda:0", "cuda:0", (3,), None, "f64[3] on cuda:0")
    assert on(A, "cuda").device == "cuda:0" and on(A, "cuda:1").device == "cuda:1" and on(A, "cpu").device == "cpu"
    assert isinstance(y.__device_array__(), DeviceArray)
    copies = devices.count("cuMemcpyDtoHAsync_v2")
    wanted = (A * 2).sum(1)
    np.testing.assert_allclose(y.tolist(), wanted)
    assert float(y[0]) == pytest.approx(wanted[0]) and bool(y[0] > wanted[0] - 1)
    assert devices.count("cuMemcpyDtoHAsync_v2") == copies + 3
    assert lazy.run(y.predict()).shape == (3,)
    large = on(np.zeros((50, 40)))
    copies = devices.count("cuMemcpyDtoHAsync_v2")
    assert repr(large) == "lazy(f64[50, 40] on cuda:0)" and repr(on([1, 2])) == "lazy([1, 2])"
    assert devices.count("cuMemcpyDtoHAsync_v2") == copies + 1
    assert copy.deepcopy(y).device == y.device and on_host(copy.deepcopy(y)).tolist() == on_host(y).tolist()
    again = pickle.loads(pickle.dumps(y))
    assert again.device == "cpu"
    np.testing.assert_array_equal(again, y)


def test_asyncio_waits_on_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, ready = list[str](), DeviceArray.ready

    def noted(x: DeviceArray) -> DeviceArray:
        threads.append(threading.current_thread().name)
        return ready(x)

    monkeypatch.setattr(DeviceArray, "ready", noted)

    async def both() -> Any:
        return await asyncio.gather(lazy.sum(on(A)).predict(), lazy.max(on(B)).predict())

    np.testing.assert_allclose(asyncio.run(both()), [A.sum(), B.max()])
    assert len(threads) == 2 and threading.main_thread().name not in threads


def test_creation_on_a_device(devices: fake.Driver) -> None:
    made = lazy.zeros((2, 3), device="cuda:1")
    assert (made.device, made.value) == ("cuda:1", None)
    for found, wanted in ((made, np.zeros((2, 3))), (lazy.arange(4, device="cuda:1"), np.arange(4)),
                          (lazy.zeros_like(on(A, "cuda:1")), 0 * A), (lazy.ones_like(A, device="cuda:1"), A * 0 + 1),
                          (lazy.astype(on(A), "float32", device="cuda:1"), A.astype(np.float32))):  # fmt: skip
        assert found.device == "cuda:1"
        np.testing.assert_allclose(found, wanted)
    assert lazy.zeros((2, 3), device="cpu").device == lazy.zeros((2, 3)).device == "cpu"
    assert lazy.zeros_like(on(A), device="cpu").device == "cpu"
    rows = lazy.asarray([on(1.0), 2.0, on(3.0)])
    assert rows.device == "cuda:0" and rows.tolist() == [1.0, 2.0, 3.0]
    assert lazy.asarray([on(1.0), 2.0], device="cpu").device == "cpu"
    with pytest.raises(ValueError, match="another device needs a copy"):
        lazy.asarray(lazy.asarray(A), device="cuda:0", copy=False)
    with pytest.raises(ValueError, match="without a copy"):
        lazy.asarray(A, device="cuda:0", copy=False)
    for make, name in ((lambda: lazy.zeros(2, device="gpu"), "pb.zeros"), (lambda: on(A).to_device(0), "to_device")):
        shown = "'gpu'" if name == "pb.zeros" else "0"
        assert said(make, TraceError) == (
            f"TraceError [E145] {name}: there is no device {shown}\n  try: \"cpu\", or a name of `pb.devices()` such "
            "as \"cuda:0\"      See `pullback explain-error E145`")
    assert said(lambda: on(A, "cuda:7")) == (
        "DeviceError [E418] there is no device cuda:7\n"
        "  try: one of cuda:0, cuda:1      See `pullback explain-error E418`")
    with pytest.raises(TypeError, match="device"):
        lazy.lift(lambda x: x * 2.0)(A, device="cuda:0")
    np.testing.assert_allclose(lazy.lift(lambda x, device: x * len(device))(A, device="its own"), 7 * A)


def test_copies_between_devices() -> None:
    """Derivatives of any order pass through copies."""

    def f(x: Any) -> Any:
        return lazy.sum((x * x).to_device("cuda:1") * 3.0 * x.to_device("cuda:1"))  # 3 x³

    for x in (on(A), lazy.asarray(A)):
        slope = lazy.grad(f)(x)
        assert slope.device == x.device and f(x).device == "cuda:1"
        np.testing.assert_allclose(slope, 9 * A**2)
        second = lazy.grad(lambda x: lazy.sum(lazy.grad(f)(x)))(x)
        assert second.device == x.device
        np.testing.assert_allclose(second, 18 * A)
    there = on(A)
    assert there.to_device("cuda:0") is there and there.to_device("cpu").device == "cpu"
    np.testing.assert_array_equal(there.to_device("cpu"), A)
    w = lazy.Weight(A)
    lazy.backward(lazy.sum(w.to_device("cuda:0") * B))
    assert isinstance(w.grad, np.ndarray)
    np.testing.assert_allclose(w.grad, B)


def test_arrays_of_other_libraries() -> None:
    """Device arrays are operands, and functions take lazy arrays on a device, without a copy."""
    x, b = on(A), pb.device_put(B)
    for found, wanted in ((x + b, A + B), (b - x, B - A), (lazy.maximum(x, b), np.maximum(A, B)),
                          (lazy.asarray(A) * b, A * B), (lazy.asarray(b), B)):  # fmt: skip
        assert found.device == "cuda:0"
        np.testing.assert_allclose(found, wanted)
    assert lazy.asarray(b).value is b and copy.deepcopy(b) is b
    assert isinstance(pickle.loads(pickle.dumps(b)), np.ndarray)
    assert pb.device_put(x) is x.value and pb.device_put(x, "cuda:1").device == "cuda:1"
    assert isinstance(pb.device_put(x, "cpu"), np.ndarray)
    doubled = pb.function(lambda x: 2 * x)(x + 1.0)
    assert isinstance(doubled, DeviceArray)
    np.testing.assert_allclose(doubled, 2 * (A + 1))
    assert x.__dlpack_device__() == (2, 0) and on(A, "cuda:1").__dlpack_device__() == (2, 1)
    for owner, at in ((b, b.at), (x, x.value.at)):
        shared = lazy.from_dlpack(Tensor(owner))
        assert shared.device == "cuda:0" and shared.value.at == at
    np.testing.assert_array_equal(on_host(x), A)
    with pytest.raises(PullbackError, match="E715"):
        lazy.grad(lambda x: lazy.sum(x) * float(np.asarray(pb.device_put(x))[0, 0]))(x)


class Tensor:
    """An array of another library on a device."""

    def __init__(self, inner: DeviceArray | lazy.Array) -> None:
        self.inner = inner

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.inner.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.inner.__dlpack__(**options)


def test_structures_are_compiled_once(devices: fake.Driver) -> None:
    """Pieces with leaves in common, and further calls of a structure, send and compile nothing."""
    x = on(A)

    def run(scale: Any) -> list[Any]:
        return [lazy.sum(x * scale, axis=0).numpy(), lazy.exp(x - scale).numpy()]

    run(on(2.0))
    before, sent, texts = lazy.stats(), devices.count("cuMemcpyHtoDAsync_v2"), devices.compilations
    three = on(3.0)
    first, second = run(three)
    after = lazy.stats() - before
    assert (after.pieces, after.compiled, after.found, after.kernels, after.interpreted) == (0, 0, 2, 2, 0)
    assert (devices.count("cuMemcpyHtoDAsync_v2"), devices.compilations) == (sent + 1, texts)
    np.testing.assert_allclose(first, (A * 3).sum(0))
    np.testing.assert_allclose(second, np.exp(A - 3))
    elsewhere = on(A, "cuda:1") * 2.0
    np.testing.assert_allclose(elsewhere, A * 2)


def test_one_plan_for_several_devices() -> None:
    """Parts of the processor run before those of devices that read them; each stays where it is."""
    x, y = lazy.asarray(A), on(B)
    here = lazy.tanh(x) * 2.0
    there = lazy.exp(y) + here
    lazy.run(lazy.gather(lazy.sum(there), lazy.sum(here), lazy.sum(on(A, "cuda:1"))))
    assert (here.device, type(here.value)) == ("cpu", np.ndarray)
    assert (there.device, type(there.value)) == ("cuda:0", DeviceArray)
    np.testing.assert_allclose(there, np.exp(B) + np.tanh(A) * 2)


def test_arrays_of_two_devices() -> None:
    x, y = on(A), on(B, "cuda:1")
    assert said(lambda: x + y) == (
        "DeviceError [E422] add: operand 1 is on cuda:0, and operand 2 is on cuda:1\n"
        '  try: `x.to_device("cuda:0")` copies an array      See `pullback explain-error E422`')
    with pytest.raises(DeviceError, match="E422] Trainer: a is on cuda:0, and b is on cpu"):
        lazy.Trainer([lazy.Weight(A, "a", device="cuda:0"), lazy.Weight(A, "b")], nn.sgd(0.1))


# Derivatives and training ---------------------------------------------------------------------------------------


def test_control_flow() -> None:
    def f(x: Any) -> Any:
        while x < 100.0:
            x = x * x if x > 1.5 else x + 1.0
        return x

    slope = lazy.grad(f)(on(3.0))
    assert (slope.device, float(slope)) == ("cuda:0", 8 * 3.0**7)
    x = on(np.array([1.0, 2.0, 3.0]))
    assert lazy.grad(lambda x: lazy.sum(x[x > 1.5] ** 2))(x).tolist() == [0.0, 4.0, 6.0]


def test_cotangents_are_added_where_arrays_are() -> None:
    """Pieces that were forced apart, weights read twice, backward passes in a row, and given cotangents."""
    w = lazy.Weight(A, device="cuda:0")
    h = lazy.sin(w)
    h.numpy()
    lazy.backward(lazy.sum(h * h) + lazy.sum(w * B))
    lazy.backward(w * 2.0, gradient=B)
    assert isinstance(w.grad, DeviceArray)
    np.testing.assert_allclose(w.grad, 2 * np.sin(A) * np.cos(A) + 3 * B)
    mixed = lazy.Weight(A)
    lazy.backward(lazy.sum(lazy.exp(mixed) * on(B)) + lazy.sum(mixed))
    assert isinstance(mixed.grad, np.ndarray)
    np.testing.assert_allclose(mixed.grad, np.exp(A) * B + 1)
    sent = lazy.Weight(A)
    lazy.backward(lazy.sum(sent * on(B)))
    assert isinstance(sent.grad, np.ndarray)
    np.testing.assert_allclose(sent.grad, B)


def test_trainers() -> None:
    """Weights, cotangents and the optimizer's state stay on the device; the steps are those of the processor."""
    start = {"w": A, "b": np.zeros(4)}
    x, target = RNG.normal(size=(5, 3)), RNG.normal(size=(5, 4))

    def trained(device: str | None) -> tuple[Any, list[float], Any]:
        cells = lazy.weights(start, device)
        trainer = lazy.Trainer(cells, nn.clip_by_global_norm(1.0) >> nn.adam(0.1))
        given, wanted = lazy.asarray(x, device=device), lazy.asarray(target, device=device)

        @lazy.layer
        def dense(h: Any) -> Any:
            return lazy.tanh(h @ cells["w"] + cells["b"])

        losses = [trainer.step(lazy.mean((dense(given) - wanted) ** 2)) for _ in range(4)]
        return cells, losses, trainer.state

    here, there = trained(None), trained("cuda:0")
    assert {c.device for c in there[0].values()} == {"cuda:0"} and isinstance(there[0]["w"].value, DeviceArray)
    np.testing.assert_allclose(there[1], here[1], rtol=1e-11)
    for a, b in zip(pb.tracing.tree.flatten(there[2])[0], pb.tracing.tree.flatten(here[2])[0], strict=True):
        assert isinstance(a, np.ndarray)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-14)
    cell = there[0]["w"]
    np.testing.assert_allclose(cell, here[0]["w"], rtol=1e-10)
    assert copy.deepcopy(cell).device == "cuda:0" and pickle.loads(pickle.dumps(cell)).device == "cpu"
    cell.set_value(A)
    assert cell.device == "cuda:0" and repr(cell) == "Weight(w : f64[3, 4] on cuda:0)"
    assert lazy.Weight(on(A)).device == "cuda:0" and lazy.Weight(on(A), device="cpu").device == "cpu"


def test_a_step_of_training_copies_nothing_but_the_loss(devices: fake.Driver) -> None:
    """Weights, cotangents and the optimizer's state stay on the device, from the first step on."""
    w = lazy.Weight(np.ones(100), device="cuda:0")
    trainer = lazy.Trainer([w], nn.adam(0.1))
    sent, read = devices.count("bytes to devices"), devices.count("bytes from devices")
    trainer.step(lazy.sum(w * w))
    assert devices.count("bytes to devices") - sent < 100
    assert devices.count("bytes from devices") - read == 8
    hidden = lazy.tanh(w * 2.0)
    hidden.__device_array__()  # with residuals
    trainer.step(lazy.sum(hidden * hidden))
    assert devices.count("bytes from devices") - read == 16


def test_operations_in_python() -> None:
    """Foreign operations take arrays on their device; results and cotangents go there."""

    class Square(lazy.Foreign):
        def result(self, x: Any) -> Any:
            return x.shape, x.dtype

        def forward(self, x: Any) -> Any:
            assert isinstance(x, DeviceArray)
            return np.asarray(x) ** 2, x

        def backward(self, saved: Any, gradient: Any) -> Any:
            return (2.0 * np.asarray(saved) * np.asarray(gradient),)

    x, w = on(A), lazy.Weight(A, device="cuda:0")
    assert Square()(x * 1.0).device == "cuda:0"
    lazy.backward(lazy.sum(Square()(w)))
    assert isinstance(w.grad, DeviceArray)
    slope = lazy.grad(lambda x: lazy.sum(Square()(x * 1.0) * x))(x)
    assert slope.device == "cuda:0"
    np.testing.assert_allclose(slope, 3 * A**2)


# What fails -----------------------------------------------------------------------------------------------------


def test_a_failed_check_names_the_node() -> None:
    """The error of a failed check is raised when a result that depends on it is first read."""
    x = on(np.arange(5.0))
    first, second = on(np.array([1, 2])), on(np.array([0, 9]))

    @lazy.layer
    def chosen(at: Any) -> Any:
        return x[at]

    for found in (chosen(second), chosen(first) + chosen(second)):
        later = lazy.sum(found * 2.0)
        later.__device_array__()
        for _ in range(2):
            with pytest.raises(IndexError, match="the index 9 on axis 0") as error:
                float(later)
            line = chosen.__wrapped__.__code__.co_firstlineno + 2
            assert error.value.__notes__ == [f"the value was built at {__file__}:{line} in layer chosen"]
    computed = chosen(second)
    computed.__device_array__()  # in a piece of its own
    with pytest.raises(IndexError, match="E401") as error:
        float(lazy.sum((computed * 3.0)[first]))
    assert error.value.__notes__ == [f"the value was built at {__file__}:{line} in layer chosen"]
    w = lazy.Weight(np.arange(5.0), device="cuda:0")
    with pytest.raises(IndexError, match="E401") as error:
        lazy.backward(lazy.sum(w[second]))
    assert "the value was built at" in error.value.__notes__[0]
    np.testing.assert_array_equal(chosen(first), [1.0, 2.0])


def test_out_of_memory(devices: fake.Driver) -> None:
    """The error names the array, and the process goes on: the same node is computed when there is memory."""
    x = on(A)
    large = on(np.ones(20_000)) * 2.0
    listing.gpu("cuda:0").trim()
    free, total = listing.gpu("cuda:0").free_bytes()
    devices.set(memory=total - free + 90_000)  # beside what earlier tests hold
    free, total = listing.gpu("cuda:0").free_bytes()
    rest = (f"{free:,} of {total:,} bytes are free\n  try: smaller arguments, fewer arrays on the device, or another "
            "device      See `pullback explain-error E421`")
    assert said(large.numpy, OutOfMemoryError) == (
        "OutOfMemoryError [E421] piece: the result out_0 : f64[20000]: cuda:0 has no memory for 160,000 bytes\n"
        f"   | piece: the result out_0 : f64[20000], 160,000 bytes      {rest}")
    assert said(lambda: on(np.ones(30_000)), OutOfMemoryError) == (
        "OutOfMemoryError [E421] x : f64[30000]: cuda:0 has no memory for 240,000 bytes\n"
        f"   | x : f64[30000], 240,000 bytes      {rest}")
    np.testing.assert_array_equal(x * 2.0, A * 2)
    devices.set(memory=1 << 31)
    assert large.numpy()[-1] == 2.0


def test_the_arrays_of_a_device() -> None:
    """Complex numbers are refused where the node is built; functions with real results may use them inside."""
    with pytest.raises(DTypeError, match="E122] cuda:0 holds no complex lazy arrays"):
        lazy.fft.fft(on(A))
    with pytest.raises(DTypeError, match="E122"):
        on(A * 1j)
    power = lazy.lift(lambda x: pb.abs(pb.fft.fft(x)) * B)
    np.testing.assert_allclose(power(on(A)), np.abs(np.fft.fft(A)) * B, rtol=1e-9)
    assert on(A[:0]).device == (on(A[:0]) * 2.0).device == "cuda:0" and (on(A[:0]) * 2.0).numpy().shape == (0, 4)
    before = lazy.stats()
    assert (on(A[:0]) * 5.0).tolist() == [] and (lazy.stats() - before).compiled == 0
    assert on(A.astype(np.float16)).numpy().dtype == np.float16


HALF = "void half(const double *x, double *y, int64_t n) { for (int64_t k = 0; k < n; ++k) y[k] = x[k] / 2; }"
halved = lazy.lift(pb.function(pb.external(HALF, "half(x: f64[N]) -> f64[N]")))


def test_parts_that_a_device_cannot_run(wish: Any) -> None:
    """An error where a program put its arrays there; a warning and the processor where PULLBACK_DEVICE did."""
    x = np.arange(4.0)
    assert said(lambda: halved(on(x)).numpy(), PullbackError).startswith(
        "CompilerError [E417] piece: the C function half is not supported on devices yet")
    wish("cuda")
    with pytest.warns(RuntimeWarning, match=r"^piece runs on the processor: .* C function half .*\[E417\]") as caught:
        found = [halved(lazy.asarray(x) + k) for k in (1.0, 2.0)]
        assert [f.device for f in found] == ["cuda:0", "cuda:0"]
        np.testing.assert_array_equal(found[0], (x + 1) / 2)
        np.testing.assert_array_equal(found[1] * 2.0, x + 2)
    assert len(caught) == 1
    wish("cuda!")
    with pytest.raises(PullbackError, match="E417"):
        halved(lazy.asarray(x) + 3.0).numpy()


def test_the_device_of_new_arrays(wish: Any) -> None:
    zeros = namespace._lazy("pb.zeros", pb.zeros)  # as in a new process, which knows no node yet
    wish("cuda:1")
    made = (lazy.asarray(A), zeros((2,)), lazy.Weight(A), lazy.sum(A), lazy.asarray([1.0]), zeros((2,)) + 1,
            lazy.grad(lambda x: lazy.sum(x * x))(A))  # fmt: skip
    assert {x.device for x in made} == {"cuda:1"}
    assert lazy.asarray(A, device="cpu").device == "cpu" and (lazy.asarray(A, device="cpu") * 2.0).device == "cpu"
    np.testing.assert_allclose(made[-1], 2 * A)
    wish("cuda:9")
    with pytest.warns(RuntimeWarning, match=r"pullback.lazy runs on the processor: there is no device cuda:9 \[E418\]"):
        assert lazy.asarray(B).device == "cpu"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lazy.asarray(A).device == "cpu"
    wish("cuda:9!")
    with pytest.raises(DeviceError, match="E418"):
        lazy.asarray(A)


def test_the_interpreter_runs_the_pieces_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    found = lazy.cumulative_sum(on(A) * 7.0, axis=1)
    assert isinstance(found.__device_array__(), DeviceArray)
    np.testing.assert_allclose(found, np.cumsum(A * 7, axis=1))


def test_a_check_that_fails_in_the_interpreter_names_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    x, at = on(np.arange(5.0)), on(np.array([0, 9]))
    with pytest.raises(IndexError, match="E401") as error:
        float(lazy.sum((x * 3.0)[at]))
    assert error.value.__notes__[0].startswith(f"the value was built at {__file__}:")


def test_memory_is_given_back() -> None:
    gpu = listing.gpu("cuda:0")
    w = lazy.Weight(A, device="cuda:0")

    def step() -> None:
        lazy.backward(lazy.sum(lazy.tanh(w @ on(B).T)))
        w.grad = None

    def free() -> int:
        gc.collect()
        gpu.wait()
        with gpu.current("test"):
            gpu.keep(None)
        return gpu.free_bytes()[0]

    step()
    before, tapes = free(), lazy.stats().tapes
    for _ in range(3):
        step()
    assert free() == before and lazy.stats().tapes == tapes


# Writes in place ----------------------------------------------------------------------------------------------------


class OnDevice:
    """The namespace, with new arrays on a device."""

    def __getattr__(self, name: str) -> Any:
        return getattr(lazy, name)

    def asarray(self, values: Any) -> Any:
        """An array on the device."""
        return on(values)

    def zeros(self, shape: Any) -> Any:
        """Zeros on the device."""
        return lazy.zeros(shape, device="cuda:0")


@pytest.mark.parametrize("seed", range(20))
def test_writes_in_place(seed: int) -> None:
    program = programs.Generator(20_000 + seed).source
    found = programs.run(program, OnDevice())
    for name, wanted in programs.run(program, np).items():
        assert found[name].device == "cuda:0", name
        np.testing.assert_allclose(found[name].to_device("cpu"), wanted, rtol=1e-12, atol=1e-12, err_msg=name)


def test_a_value_on_another_device_is_refused() -> None:
    x = on(A)
    assert "E422" in said(lambda: x.__setitem__(0, on(B, "cuda:1")[0]))
    x[0] = lazy.asarray(B)[0]  # from the processor, as operands of other operations
    x[1] = B[1]
    assert on_host(x).tolist() == [B[0].tolist(), B[1].tolist(), A[2].tolist()]
