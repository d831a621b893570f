"""Arrays stored in 16 bits: in and out, computed with in f32, the same bits in C as in the interpreter."""

import shutil
import subprocess
import sys
import types as python_types

import numpy as np
import pytest
from jaxtyping import BFloat16, Float, Float16, Float32

import pullback as pb
from pullback import Array
from pullback.ir.halves import from_half, to_half
from pullback.ir.types import HALVES, bf16, f16

RNG = np.random.default_rng(3)
NAMES = {f16: Float16, bf16: BFloat16}
ALL = np.arange(1 << 16, dtype=np.uint16)


@pytest.fixture(autouse=True)
def _no_package_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are NumPy's types, whatever other tests have imported."""
    monkeypatch.delitem(sys.modules, "ml_dtypes", raising=False)


def stored(x, dtype):
    """An array of a type of storage."""
    return to_half(np.asarray(x), dtype).view(dtype.numpy)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_every_pattern_of_bits_is_read_and_written(dtype):
    kind = NAMES[dtype]

    @pb.function
    def read(x: kind[Array, "N"]):
        return x.astype(pb.float32), x, x.astype(dtype)

    @pb.function
    def write(x: Float32[Array, "N"]):
        return x.astype(dtype)

    for count in (1 << 16, 5):  # vectors, and what is left of them
        given = ALL[-count:].view(dtype.numpy)
        for f in (read, read.interpret):
            wide, same, again = f(given)
            assert np.array_equal(wide.view(np.uint32), from_half(ALL[-count:], dtype).view(np.uint32))
            assert np.array_equal(same.view(np.uint16), again.view(np.uint16)) or np.isnan(wide).any()
    numbers = RNG.integers(0, 1 << 32, 1_000_003, dtype=np.uint32).view(np.float32)
    wanted = to_half(numbers, dtype)
    assert np.array_equal(write(numbers).view(np.uint16), wanted)
    assert np.array_equal(write.interpret(numbers).view(np.uint16), wanted)


def test_what_is_read_is_computed_with_in_f32():
    @pb.function
    def f(x: Float16[Array, "N M"], y: Float32[Array, "M"], h: BFloat16[Array, "M"]):
        assert x.dtype is pb.float16
        assert x[1:].dtype is (x + x).dtype is pb.concat([x, x]).dtype is pb.float32
        total = pb.fold(x.shape[0], h, lambda s, n: (0.5 * s + x[n]).astype(pb.bfloat16))
        return x @ y, x * h, pb.max(x, axis=1), total.astype(pb.bfloat16), pb.sort(x[0]).astype(pb.float16)

    results = "(f32[N], f32[N, M], f32[N], bf16[M], f16[M])"
    assert f.type == f"(x: f16[N, M], y: f32[M], h: bf16[M]) -> {results} where N >= 2"
    x, y, h = stored(RNG.normal(size=(37, 45)), f16), np.float32(RNG.normal(size=45)), stored(RNG.normal(size=45), bf16)
    wide, low = x.astype(np.float32), from_half(h, bf16)
    rows = low
    for row in wide:
        rows = from_half(to_half(np.float32(0.5) * rows + row, bf16), bf16)
    product, scaled, largest, last, ordered = f(x, y, h)
    np.testing.assert_allclose(product, wide @ y, rtol=1e-5, atol=1e-5)
    assert np.array_equal(scaled, wide * low)
    assert np.array_equal(largest, wide.max(1))
    assert np.array_equal(from_half(last, bf16), rows)
    assert np.array_equal(ordered, np.sort(x[0]))
    for a, b in zip(f(x, y, h)[1:], f.interpret(x, y, h)[1:], strict=True):
        assert np.array_equal(a, b)


READERS = {  # of an array that was rounded, each with several reads, so that it is stored
    "sort": lambda y: pb.sort(y, axis=1),
    "sort down": lambda y: pb.sort(y, axis=1, descending=True),
    "positions": lambda y: (pb.argsort(y, axis=1), pb.argmax(y, axis=1)),
    "sums": lambda y: (pb.sum(y, axis=1), pb.max(y), pb.mean(y, axis=0)),
    "itself": lambda y: (y, pb.sum(y, axis=1)),
    "twice rounded": lambda y: (pb.sqrt(pb.abs(y)).astype(pb.bfloat16), pb.cumulative_sum(y, axis=1)),
    "products": lambda y: (y @ y.T, y.T @ y),
    "rows": lambda y: pb.fold(y.shape[0], y[0], lambda s, n: (s + y[n]).astype(pb.float16)),
    "choice": lambda y: pb.cond(y[0, 0] > 0, lambda: y, lambda: -y),
    "until": lambda y: pb.while_loop(lambda s: pb.max(s) < 100, lambda s: s + pb.abs(y) + 1, y, max_trips=200),
    "slices": lambda y: pb.concat([y[1:], y[:-1], y[::-1]], axis=0),
    "gather": lambda y: pb.build(y.shape[0], lambda n: y[y.shape[0] - 1 - n, n] + y[n, 0]),
    "solve": lambda y: pb.linalg.solve(y[:, :5] @ y[:, :5].T + 70 * pb.eye(5), y),
}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("given", [False, True], ids=["rounded", "given"])
def test_rounded_arrays_inside_a_function_are_stored_in_f32(name, dtype, given):
    """Memory for an intermediate array holds the type of the computation, not the storage type."""
    kind = NAMES[dtype] if given else Float32

    @pb.function
    def f(x: kind[Array, "5 70"]):
        return READERS[name]((x + 0).astype(dtype))

    x = RNG.normal(size=(5, 70))
    x = stored(x, dtype) if given else np.float32(x)
    found, wanted = f(x), f.interpret(x)
    for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, wanted)), strict=True):
        assert a.dtype == b.dtype
        if a.dtype.itemsize == 2:
            a, b = (from_half(c.view(np.uint16), f16 if c.dtype == np.float16 else bf16) for c in (a, b))
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_for_all_sizes_and_by_threads():
    def f(x: Float16[Array, "N M"], y: Float32[Array, "M"]):
        return x @ y, (2.0 * x).astype(pb.float16)

    x, y = stored(RNG.normal(size=(300, 41)), f16), np.float32(RNG.normal(size=41))
    for made in (pb.function(f, specialize="never"), pb.function(f, threads=2)):
        product, twice = made(x, y)
        np.testing.assert_allclose(product, x.astype(np.float32) @ y, rtol=1e-4, atol=1e-5)
        assert np.array_equal(twice, 2 * x)


def test_derivatives_are_f32_and_a_conversion_is_linear():
    @pb.function
    def f(x: Float16[Array, "N"]):
        return pb.sum(pb.sin(x) * x)

    x = stored([0.5, -1.25, 1e-7], f16)
    wide = x.astype(np.float64)
    slopes = np.sin(wide) + wide * np.cos(wide)
    assert pb.grad(f)(x).dtype == np.float32
    np.testing.assert_allclose(pb.grad(f)(x), slopes, rtol=1e-6)
    np.testing.assert_allclose(pb.jvp(f)((x,), (np.ones(3, np.float32),))[1], slopes.sum(), rtol=1e-6)
    np.testing.assert_allclose(pb.vmap(pb.grad(f))(np.stack([x, x]))[1], slopes, rtol=1e-6)
    rounded = pb.function(lambda x: pb.sum(x.astype(pb.bfloat16) * x))
    given = np.float32([1.001, 2.0])
    near = from_half(to_half(given, bf16), bf16)
    np.testing.assert_allclose(pb.grad(rounded)(given), near + given, rtol=1e-6)
    out, (cotangent,) = pb.vjp(lambda x: (2.0 * x).astype(pb.float16))(x, cotangent=np.full(3, 1e-9, np.float32))
    assert out.dtype == np.float16
    np.testing.assert_allclose(cotangent, np.full(3, 2e-9), rtol=1e-6)


def test_captured_arrays_created_arrays_and_numbers():
    weights = stored([1.5, 2.5], f16)

    @pb.function
    def f(x):
        third = pb.full((2,), 1 / 3, dtype=pb.float16)
        return x * weights, third, pb.sum(x).astype(pb.float16), pb.arange(3, dtype=pb.bfloat16), x.shape[0] * 0.1

    product, third, total, numbers, tenth = f(np.float32([2, 4]))
    assert product.tolist() == [3, 10]
    assert third.tolist() == [float(np.float16(1 / 3))] * 2
    assert (total, total.dtype) == (6, np.float16)
    assert from_half(numbers, bf16).tolist() == [0, 1, 2]
    assert tenth.dtype == np.float32
    out = np.empty(2, np.float16)
    assert pb.function(lambda x: x.astype(pb.float16))(np.float32([1, 2]), out=out) is out
    assert out.tolist() == [1, 2]


def test_types_are_told():
    assert pb.finfo(pb.float16).eps == 2**-10
    assert pb.finfo(pb.bfloat16).max == float(from_half(np.uint16(0x7F7F), bf16))
    assert pb.result_type(pb.float16, pb.bfloat16) is pb.float32
    assert pb.can_cast(pb.float16, pb.float32)
    assert pb.can_cast(pb.float16, pb.float16)
    assert not pb.can_cast(pb.float32, pb.float16)
    assert pb.isdtype(pb.bfloat16, "real floating")

    @pb.function
    def f(x: Float[Array, "N"]):
        return x

    with pytest.raises(pb.DTypeError, match="x has dtype float16, its annotation says float32 or float64"):
        f(np.zeros(2, np.float16))

    @pb.function
    def g(x: BFloat16[Array, "N"]):
        return x

    with pytest.raises(pb.DTypeError, match="x has dtype float32, its annotation says bfloat16"):
        g(np.zeros(2, np.float32))


def test_bfloat16_of_a_package_is_known_by_its_name(monkeypatch):
    package = pytest.importorskip("ml_dtypes")

    @pb.function
    def f(x: BFloat16[Array, "N"]):
        return x, (2.0 * x).astype(pb.bfloat16)

    for same, twice in (f(np.array([1.5, -3], package.bfloat16)), f(np.array([0x3FC0, 0xC040], np.uint16))):
        assert same.dtype == twice.dtype == package.bfloat16
        assert twice.astype(np.float32).tolist() == [3, -6]
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert f(np.array([0x3FC0], np.uint16))[1].tolist() == [0x4040]


def test_results_are_of_the_package_that_is_there(monkeypatch):
    shown = python_types.SimpleNamespace(bfloat16=np.dtype("V2"))
    f = pb.function(lambda x: x.astype(pb.bfloat16))
    monkeypatch.delitem(sys.modules, "ml_dtypes", raising=False)
    assert f(np.float32([1])).dtype == np.uint16
    monkeypatch.setitem(sys.modules, "ml_dtypes", shown)
    assert f(np.float32([1])).dtype == shown.bfloat16


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_exported_c(tmp_path):
    table = stored(np.arange(37) / 8, f16).copy()
    table.setflags(write=False)

    @pb.function
    def scaled(x: Float16[Array, "N 37"], b: BFloat16[Array, "37"], y: Float32[Array, "37"]):
        return x @ y, (x * b).astype(pb.float16), (pb.exp(x) + table).astype(pb.bfloat16)

    scaled.export(tmp_path, N=5)
    assert "const uint16_t *restrict x" in (tmp_path / "scaled.h").read_text()
    for flags in (["-DPB_NO_VECTORS"], [], ["-mavx2", "-mf16c"] if sys.platform == "linux" else []):
        command = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wno-psabi", "-O1", *flags]
        subprocess.run([*command, "scaled.c", "main.c", "-o", "example", "-lm"], cwd=tmp_path, check=True)
        if not flags or flags == ["-DPB_NO_VECTORS"]:
            subprocess.run([str(tmp_path / "example")], check=True, capture_output=True)
