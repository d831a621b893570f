"""Convolutions by cuDNN, a candidate of the tuner, with a library for tests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.device import cuda_model
from pullback.grid import vendor
from pullback.grid.called import LibraryConvolution
from pullback.grid.table import libraries
from pullback.ir.halves import from_half, to_half
from pullback.ir.parser import parse_program
from pullback.ir.types import dtype_named
from pullback.loops.plain.builder import Work
from pullback.loops.plain.storage import assign_storage
from pullback.loops.program.schedule import EVERY
from pullback.machine import SCALAR
from pullback.records import replace
from pullback.runtime.device.cudnn import Cudnn
from tests.support.devices import fake
from tests.support.devices.vendor import Library, fast
from tests.unit.grid.test_tuner import entries, said

calls = pytest.mark.slow
TEXT = "f(x: {t}[2, 4, 9, 8], w: {t}[6, 4, 3, 3]) {{ y = build n < 2, k < 6, i < 7, j < 6 {{ {value} }} return y }}"
PLAIN = "sum c < 4, u < 3, v < 3 { x[n, c, i + u, j + v] * w[k, c, u, v] }"


def found(text: str, tf32: bool = False) -> list[LibraryConvolution]:
    """The convolutions of a program's statements that a library may compute."""
    made = parse_program(text)
    device = replace(cuda_model("sm_90a"), libraries=True, tf32=tf32)
    works = [replace(Work.of(s, assign_storage(made).views), wish=EVERY) for s in made.body.statements]
    calls: list[Any] = [c.build for work in works for c in libraries(work, SCALAR, device)]
    return [c.args[1] for c in calls if isinstance(c.args[1], LibraryConvolution)]


def plain(value: str = PLAIN, kind: str = "f32") -> str:
    return TEXT.format(t=kind, value=value)


# Statements ------------------------------------------------------------------------------------------------------


def test_a_convolution() -> None:
    [c] = found(plain())
    assert c.kind == "forward"
    assert (c.image.sizes, c.weights.sizes, c.out.sizes) == ((2, 4, 9, 8), (6, 4, 3, 3), (2, 6, 7, 6))
    assert (c.padding, c.stride, c.dilation, c.groups, c.tf32) == ((0, 0), (1, 1), (1, 1), 1, False)
    assert c.count == 2 * 6 * 7 * 6 * 4 * 9
    assert found(plain(), tf32=True)[0].tf32


SIMILAR = {
    "an epilogue": f"tanh({PLAIN})",
    "a bias": f"{PLAIN} + 1.0",
    "a scale": "sum c < 4, u < 3, v < 3 { x[n, c, i + u, j + v] * w[k, c, u, v] * 2.0 }",
    "a maximum": PLAIN.replace("sum", "max"),
    "a reversed window": "sum c < 4, u < 3, v < 3 { x[n, c, i + u, j + v] * w[k, c, 2 - u, v] }",
    "a transposed window": "sum c < 4, u < 3, v < 3 { x[n, c, i + u, j + v] * w[k, c, v, u] }",
    "a part of the window": "sum c < 4, u < 2, v < 3 { x[n, c, i + u, j + v] * w[k, c, u, v] }",
    "a part of the channels": "sum c < 3, u < 3, v < 3 { x[n, c, i + u, j + v] * w[k, c, u, v] }",
    "a shift": "sum c < 4, u < 3, v < 3 { x[n, c, i + u + 1, j + v] * w[k, c, u, v] }",
    "a condition": "sum c < 4, u < 3, v < 3 { [i >= u] x[n, c, i + u, j + v] * w[k, c, u, v] }",
    "a condition about both axes": "sum c < 4, u < 3, v < 3 { [u >= v] x[n, c, i + u, j + v] * w[k, c, u, v] }",
    "a term twice": "sum c < 4, u < 3, v < 3, t < 2 { x[n, c, i + u, j + v] * w[k, c, u, v] }",
    "axes that meet": "sum c < 4, u < 3, v < 3 { x[n, c, i + v, j + u] * w[k, c, u, v] }",
    "channels in another order": "sum c < 4, u < 3, v < 3 { x[n, 3 - c, i + u, j + v] * w[k, c, u, v] }",
    "images in another order": "sum c < 4, u < 3, v < 3 { x[1 - n, c, i + u, j + v] * w[k, c, u, v] }",
}  # fmt: skip


@pytest.mark.parametrize("what", SIMILAR)
def test_similar_statements(what: str) -> None:
    """Statements that differ from a convolution in one thing are not offered to the library."""
    assert found(plain(SIMILAR[what])) == []


def test_padding_as_conditions() -> None:
    """On one side more than on the other, it is none."""
    text = ("f(x: f32[2, 4, 9, 8], w: f32[6, 4, 3, 3]) {{ y = build n < 2, k < 6, i < {}, j < 8 {{ "
            "sum c < 4, u < 3, v < 3 {{ [i + u >= {}, {} >= i + u, j + v >= 1, 8 >= j + v] "
            "x[n, c, i + u - {}, j + v - 1] * w[k, c, u, v] }} }} return y }}")  # fmt: skip
    [c] = found(text.format(9, 1, 9, 1))
    assert c.padding == (1, 1) and c.out.sizes == (2, 6, 9, 8)
    assert [c.padding for c in found(text.format(11, 2, 10, 2))] == [(2, 1)]
    assert found(text.format(8, 1, 9, 1)) == found(text.format(10, 1, 9, 1)) == []


def test_a_gradient_that_reads_no_more_than_there_is() -> None:
    """With padding as wide as the window, rows of the cotangent meet padding alone; a library reads them all."""
    text = ("f(x: f32[2, 4, 4, 8], y: f32[2, 6, {rows}, 8]) {{ w = build k < 6, c < 4, u < 1, v < 1 {{ "
            "sum n < 2, i < {rows}, j < 8 {{ [i >= 1, 4 >= i] x[n, c, i - 1, j] * y[n, k, i, j] }} }} return w }}")
    assert [(c.kind, c.padding, c.out.sizes) for c in found(text.format(rows=6))] == [("weights", (1, 0), (2, 6, 6, 8))]
    assert found(text.format(rows=5)) == []


def test_types() -> None:
    """All arrays have one type; sums of 16 bits are f32."""
    half = "bf16(sum c < 4, u < 3, v < 3 { f32(x[n, c, i + u, j + v]) * f32(w[k, c, u, v]) })"
    assert [c.dtype.name for kind in ("f64", "f16", "bf16") for c in found(
        plain(PLAIN if kind == "f64" else half.replace("bf16", kind, 1), kind))] == ["f64", "f16", "bf16"]  # fmt: skip
    assert found(plain(half[5:-1], "bf16")) == []


# Calls ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def library(devices: fake.Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """A device with a fast library, and a table of its own."""
    if fake.IS_REAL:
        pytest.skip("it controls the library")
    monkeypatch.setattr(vendor, "_cycles", lambda *given: 1.0)  # then the library is tried first
    with fast("cudnn", devices, monkeypatch) as found:
        yield found


def tuned(f: Any, **options: Any) -> Any:
    return pb.function(f, device="cuda!", tune="libraries", **options)


def convolve(x: Any, w: Any, stride: Any = 1, padding: Any = 0, groups: int = 1, layout: Any = "NCHW") -> Any:
    """A convolution as networks have it, of any array of weights."""
    layer = nn.conv(w.shape[0], w.shape[2:], stride=stride, padding=padding, groups=groups, bias=False, layout=layout)
    return layer.apply({"w": w}, {}, x)[0]


def simple(x: Any, w: Any) -> Any:
    return convolve(x, w)


def reference(x: Any, w: Any, stride: int, padding: int, groups: int, layout: str) -> Any:
    """A convolution in NumPy, one element of the window at a time."""
    x = x if layout == "NCHW" else x.transpose(0, 3, 1, 2)
    x = np.pad(x, ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2))
    own, each, size = w.shape[1], w.shape[0] // groups, w.shape[2]
    count = (x.shape[2] - size) // stride + 1
    y = np.zeros((x.shape[0], w.shape[0], count, count), x.dtype)
    for g, u, v in product(range(groups), range(size), range(size)):
        part = x[:, g * own : (g + 1) * own, u : u + stride * count : stride, v : v + stride * count : stride]
        part = part[:, :, :count, :count]
        y[:, g * each : (g + 1) * each] += np.einsum("nchw,kc->nkhw", part, w[g * each : (g + 1) * each, :, u, v])
    return y if layout == "NCHW" else y.transpose(0, 2, 3, 1)


def numbers(*shapes: tuple[int, ...], kind: Any = np.float32) -> list[Any]:
    """Small whole numbers, whose sums are exact in any order."""
    rng = np.random.default_rng(5)
    return [rng.integers(-3, 4, shape).astype(kind) for shape in shapes]


CASES = {
    "plain": (2, 4, 6, 3, 1, 0, 1, "NCHW"), "padded": (2, 4, 6, 3, 1, 1, 1, "NCHW"),
    "strided": (2, 4, 6, 3, 2, 0, 1, "NCHW"), "5x5": (1, 3, 8, 5, 2, 2, 1, "NCHW"),
    "1x1": (2, 4, 6, 1, 1, 0, 1, "NCHW"), "1x1 strided": (3, 4, 6, 1, 2, 0, 1, "NCHW"),
    "groups": (2, 4, 6, 3, 1, 1, 2, "NCHW"), "each channel": (2, 4, 4, 3, 1, 1, 4, "NCHW"),
    "channels last": (2, 4, 6, 3, 1, 1, 1, "NHWC"), "f64": (2, 3, 4, 3, 1, 1, 1, "NCHW")}  # fmt: skip


@calls
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case: str, library: Library) -> None:
    """The convolution and both gradients are the library's, and have the bits of NumPy's on whole numbers."""
    count, channels, out, size, stride, padding, groups, layout = CASES[case]
    shape = (count, channels, 9, 9) if layout == "NCHW" else (count, 9, 9, channels)
    x, w = numbers(shape, (out, channels // groups, size, size), kind=np.float64 if case == "f64" else np.float32)
    rest = (stride, padding, groups, layout)
    wanted = reference(x, w, *rest)
    [g] = numbers(wanted.shape, kind=x.dtype)
    f = tuned(lambda x, w: convolve(x, w, *rest))
    np.testing.assert_array_equal(f(x, w), wanted)
    first = library.asked
    assert first > 0, entries()
    by_x, by_w = pb.grad(tuned(lambda x, w: pb.sum(convolve(x, w, *rest) * g)), (0, 1))(x, w)
    on_host = pb.grad(pb.function(lambda x, w: pb.sum(convolve(x, w, *rest) * g), device="cpu"), (0, 1))(x, w)
    np.testing.assert_array_equal(by_x, on_host[0])
    np.testing.assert_array_equal(by_w, on_host[1])
    assert [e["schedule"] for e in entries()].count("library: cuDNN") >= (2 if case == "5x5" else 3)


@calls
def test_axes_that_differ(library: Library) -> None:
    """Height and width have settings of their own."""
    x, w, g = numbers((2, 3, 9, 8), (4, 3, 3, 2), (2, 4, 4, 9))

    def f(x: Any, w: Any) -> Any:
        return convolve(x, w, (2, 1), ((0, 0), (1, 1)))

    np.testing.assert_array_equal(tuned(f)(x, w), pb.function(f, device="cpu")(x, w))
    found = (pb.grad(pb.function(lambda x, w: pb.sum(f(x, w) * g), **options), (0, 1))(x, w)
             for options in ({"device": "cuda!", "tune": "libraries"}, {"device": "cpu"}))  # fmt: skip
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert [e["schedule"] for e in entries()].count("library: cuDNN") == 3


@calls
def test_16_bits(library: Library) -> None:
    """Sums are f32, and rounded once."""
    x, w = numbers((2, 4, 9, 9), (6, 4, 3, 3))
    for kind in ("float16", "bfloat16"):
        storage = dtype_named("f16" if kind == "float16" else "bf16")
        halved = pb.function(lambda x, k=kind: x.astype(getattr(pb, k)), device="cuda!")
        before = library.asked
        f = tuned(lambda x, w, k=kind: simple(x, w).astype(getattr(pb, k)))
        y = f(halved(pb.device_put(x)), halved(pb.device_put(w))).numpy()
        assert library.asked > before
        wanted = from_half(to_half(np.asarray(reference(x, w, 1, 0, 1, "NCHW")), storage), storage)
        np.testing.assert_array_equal(from_half(y.view(np.uint16), storage), wanted)


def arrays() -> tuple[Any, Any, Any]:
    """An image, weights and their convolution."""
    rng = np.random.default_rng(2)
    x, w = (rng.normal(size=s).astype(np.float32) for s in ((2, 4, 9, 9), (6, 4, 3, 3)))
    return x, w, reference(x, w, 1, 0, 1, "NCHW")


@calls
def test_precision(library: Library) -> None:
    """The library multiplies f32 as they are, and rounds them only where that is permitted."""
    x, w, wanted = arrays()
    np.testing.assert_allclose(tuned(simple)(x, w), wanted, rtol=1e-5, atol=1e-5)
    rough = np.asarray(tuned(simple, precision="tf32")(x, w))
    assert library.asked > 0 and 1e-4 < np.abs(rough - wanted).max() < 0.05


@calls
def test_repeated_calls_are_graphs(library: Library) -> None:
    """Kernels before and after see the library's results."""
    x, w, wanted = arrays()
    f = tuned(lambda x, w: pb.sum(convolve(x + 1, w), axis=1))
    given = pb.device_put(x - 1), pb.device_put(w)
    for _ in range(4):
        np.testing.assert_allclose(f(*given).numpy(), wanted.sum(axis=1), rtol=1e-4, atol=1e-4)
    assert library.asked > 0


@calls
def test_it_is_off_by_default(library: Library) -> None:
    """`tune=True` and exact programs use none."""
    x, w, _ = arrays()
    pb.function(simple, device="cuda!", tune=True)(x, w)
    with pb.exact():
        exact = tuned(lambda x, w: convolve(x, w))
    np.testing.assert_array_equal(exact(x, w), pb.function(exact, device="cpu")(x, w))
    assert library.asked == 0 and all("library" not in e["schedule"] for e in entries())


@calls
@pytest.mark.parametrize(("mode", "why"), [
    ("wrong", "value on cuda:0: the schedule library: cuDNN is wrong and not used: value is apart by "),
    ("fails", "value: cuDNN fails with status 8; kernels compute convolutions on cuda:0 [E424]"),
    ("refuses", "value: cuDNN has no way to compute a convolution of 2x4x9x9 by 6x4x3x3; its kernels compute "
     "convolutions on cuda:0 [E424]"),
])  # fmt: skip
def test_libraries_that_are_wrong(mode: str, why: str, library: Library) -> None:
    """A library that fails or is wrong is reported and not used; results stay right."""
    library.set(mode)
    x, w, wanted = arrays()
    y: list[Any] = []
    [message] = said(lambda: y.append(tuned(simple)(x, w)))
    assert message.startswith(why)
    np.testing.assert_allclose(y[0], wanted, rtol=1e-4, atol=1e-4)
    assert all("library" not in e["schedule"] for e in entries())


@calls
def test_a_library_that_fails_later(library: Library) -> None:
    """The kernels of the program compute from then on, and a warning says so."""
    x, w, wanted = arrays()
    f = tuned(simple)
    f(x, w)
    library.set("fails")
    y: list[Any] = []
    for count in (1, 0, 0):
        warned = said(lambda: y.append(f(pb.device_put(x), pb.device_put(w)).numpy()))
        np.testing.assert_allclose(y[-1], wanted, rtol=1e-4, atol=1e-4)
        assert len(warned) == count
    assert library.asked == 1


@calls
@pytest.mark.parametrize(("variable", "value", "why"), [
    ("FAKE_CUDNN_VERSION", "7605", "has the version 7605, and 8000 is the oldest that is used; convolutions have the "
     "kernels of Pullback [E424]"),
    ("PULLBACK_CUDNN", "/nowhere/libcudnn.so", "/nowhere/libcudnn.so is no cuDNN: "),
    ("PULLBACK_CUDNN", "libm.so.6", "libm.so.6 is no cuDNN: "),
    ("PULLBACK_CUDNN", "", "cuDNN is not found: `pip install nvidia-cudnn-cu13`, or PULLBACK_CUDNN with the path of "
     "libcudnn; convolutions have the kernels of Pullback [E424]"),
])  # fmt: skip
def test_libraries_that_are_not_used(variable: str, value: str, why: str, library: Library,
                                     monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """One that is old, missing, or another one is reported once."""
    monkeypatch.setenv(variable, value)
    monkeypatch.setattr(Cudnn, "versions", (".0",))
    x, w, wanted = arrays()
    y: list[Any] = []
    [message] = said(lambda: y.append(tuned(simple)(x, w)))
    assert why in message
    np.testing.assert_allclose(y[0], wanted, rtol=1e-4, atol=1e-4)
    assert library.asked == 0
