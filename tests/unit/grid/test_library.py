"""Products by cuBLASLt, a candidate of the tuner, with a library for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.device import cuda_model
from pullback.grid.table import libraries
from pullback.ir.halves import from_half, to_half
from pullback.ir.parser import parse_program
from pullback.ir.types import dtype_named
from pullback.loops.plain.builder import Work
from pullback.loops.plain.storage import assign_storage
from pullback.loops.program.schedule import EVERY
from pullback.machine import SCALAR
from pullback.records import replace
from pullback.runtime.device.cublas import CublasLt
from tests.support.devices import fake
from tests.support.devices.vendor import Library, fast
from tests.unit.grid.test_tuner import entries, said

pytestmark = [pytest.mark.slow, pytest.mark.skipif(fake.IS_REAL, reason="it controls the library")]

X, Y = (np.random.default_rng(3).normal(size=s).astype(np.float32) for s in ((64, 80), (80, 96)))


@pytest.fixture
def library(devices: fake.Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """A device with a fast library, and a table of its own."""
    with fast("cublaslt", devices, monkeypatch) as found:
        yield found


def product(x: Any, y: Any) -> Any:
    return x @ y


def tuned(f: Any = product) -> Any:
    return pb.function(f, device="cuda!", tune="libraries")


def test_the_library_computes_products(library: Library) -> None:
    """The fastest schedule may be the library; repeated calls are graphs, and sums after it see its results."""
    f = tuned(lambda x, y: pb.sum(x @ y + 1, axis=0))
    x, y = pb.device_put(X), pb.device_put(Y)
    for _ in range(4):
        np.testing.assert_allclose(f(x, y).numpy(), np.sum(X @ Y + 1, axis=0), rtol=1e-4, atol=1e-4)
    assert library.asked > 0
    g = tuned()
    np.testing.assert_allclose(g(X, Y), X @ Y, rtol=1e-4, atol=1e-4)
    assert "library: cuBLASLt" in {e["schedule"] for e in entries()}


def test_it_is_off_by_default(library: Library) -> None:
    """`tune=True` and exact programs use none, nor does what is exported."""
    pb.function(product, device="cuda!", tune=True)(X, Y)
    with pb.exact():
        exact = tuned(lambda x, y: x @ y)
    np.testing.assert_array_equal(exact(X, Y), pb.function(exact, device="cpu")(X, Y))
    assert library.asked == 0 and all("library" not in e["schedule"] for e in entries())


SHAPES = {
    "rows": ((24, 32), "m k", (32, 40), "k n", "m n"), "left turned": ((32, 24), "k m", (32, 40), "k n", "m n"),
    "right turned": ((24, 32), "m k", (40, 32), "n k", "m n"), "both turned": ((32, 24), "k m", (40, 32), "n k", "m n"),
    "batch": ((3, 24, 32), "b m k", (3, 32, 40), "b k n", "b m n"),
    "heads": ((24, 3, 32), "m b k", (40, 3, 32), "n b k", "b m n"),
    "one right": ((3, 24, 32), "b m k", (32, 40), "k n", "b m n")}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
def test_layouts(shape: str, kind: str, library: Library) -> None:
    """Transposes, batches and all element types give the sums of NumPy."""
    one, first, other, second, out = SHAPES[shape]
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-4, 5, s).astype(np.float32) for s in (one, other))
    storage = dtype_named(kind)
    given = [to_half(a, storage).view(storage.numpy) if storage.is_half else a.astype(storage.numpy) for a in (x, y)]
    words = f"{first.replace(' ', '')},{second.replace(' ', '')}->{out.replace(' ', '')}"
    f = tuned(lambda x, y: pb.einsum(words, x, y))
    if storage.is_half:
        text = storage_program(one, first, other, second, out, kind)
        assert found(text, permitted=True)
        return
    np.testing.assert_array_equal(np.asarray(f(*given)), np.einsum(words, x, y))
    assert library.asked > 0, entries()


def storage_program(one: Sequence[int], first: str, other: Sequence[int], second: str, out: str, kind: str) -> str:
    sizes = dict(zip(first.split() + second.split(), [*one, *other]))
    sums, results = ([v for v in sizes if (v in out.split()) is known] for known in (False, True))
    at = [", ".join(names.split()) for names in (first, second)]
    build = ", ".join(f"{v} < {sizes[v]}" for v in out.split())
    assert set(results) == set(out.split())
    arrays = (f"{name}: {kind}[{', '.join(map(str, shape))}]" for name, shape in (("x", one), ("y", other)))
    return (f"f({', '.join(arrays)}) {{ z = build {build} {{ "
            f"sum {sums[0]} < {sizes[sums[0]]} {{ f32(x[{at[0]}]) * f32(y[{at[1]}]) }} }} return z }}")  # fmt: skip


def found(text: str, permitted: bool) -> list[Any]:
    """The library's candidates for a statement."""
    made = parse_program(text)
    work = Work.of(made.body.statements[0], assign_storage(made).views)
    device = replace(cuda_model("sm_90a"), libraries=permitted)
    return list(libraries(replace(work, wish=EVERY), SCALAR, device))


def test_other_statements_are_none(library: Library) -> None:
    """An epilogue, a condition, a third factor or a gap in the sum is not for the library."""
    head = "f(x: f32[64, 80], y: f32[80, 96]) { z = build m < 64, n < 96 "
    plain = "sum k < 80 { x[m, k] * y[k, n] }"
    assert len(found(f"{head} {{ {plain} }} return z }}", True)) == 1
    assert found(f"{head} {{ {plain} }} return z }}", False) == []
    for value in (f"tanh({plain})", "sum k < 80 { [m >= k] x[m, k] * y[k, n] }",
                  "sum k < 80 { x[m, k] * y[k, n] * 2.0 }",
                  "sum k < 40 { x[m, 2 * k] * y[k, n] }", "max k < 80 { x[m, k] * y[k, n] }"):  # fmt: skip
        assert found(f"{head} {{ {value} }} return z }}", True) == [], value


def test_small_whole_numbers_in_16_bits(library: Library) -> None:
    """Operands of 16 bits with sums in f32, rounded once if the result has 16 bits."""
    for kind in ("float16", "bfloat16"):
        storage = dtype_named("f16" if kind == "float16" else "bf16")
        rng = np.random.default_rng(1)
        x, y = (rng.integers(-3, 4, s).astype(np.float32) for s in ((64, 80), (80, 96)))
        halved = pb.function(lambda x, k=kind: x.astype(getattr(pb, k)), device="cuda!")
        before = library.asked
        z = tuned(lambda x, y: x @ y)(halved(pb.device_put(x)), halved(pb.device_put(y)))
        assert library.asked > before
        a = z.numpy()
        numbers = from_half(a.view(np.uint16), storage) if a.dtype.itemsize == 2 else a
        wanted = from_half(to_half(x @ y, storage), storage) if a.dtype.itemsize == 2 else x @ y
        np.testing.assert_array_equal(numbers, wanted)


@pytest.mark.parametrize(("mode", "why"), [
    ("wrong", "z on cuda:0: the schedule library: cuBLASLt is wrong and not used: z is apart by "),
    ("rough", "z on cuda:0: the schedule library: cuBLASLt is wrong and not used: z is apart by "),
    ("fails", "z: cuBLASLt fails with status 13; kernels compute products on cuda:0 [E424]"),
    ("refuses", "z: cuBLASLt has no way to multiply 64 x 80 by 80 x 96; its kernels compute products on cuda:0 [E424]"),
])  # fmt: skip
def test_libraries_that_are_wrong(mode: str, why: str, library: Library) -> None:
    """A library that fails or is wrong is reported and not used; results stay right."""
    library.set(mode)
    z: list[Any] = []

    warned = said(lambda: z.append(tuned()(X, Y)))
    [message] = (w.replace("matmul", "z") for w in warned)
    assert message.startswith(why)
    np.testing.assert_allclose(z[0], X @ Y, rtol=1e-4, atol=1e-4)
    assert all("library" not in e["schedule"] for e in entries())


def test_a_library_that_fails_later(library: Library) -> None:
    """The kernels of the program compute its products from then on, and a warning says so."""
    f = tuned()
    f(X, Y)
    library.set("fails")
    z: list[Any] = []
    for _ in range(3):
        warned = said(lambda: z.append(f(pb.device_put(X), pb.device_put(Y)).numpy()))
        np.testing.assert_allclose(z[-1], X @ Y, rtol=1e-4, atol=1e-4)
        if len(z) == 1:
            [message] = warned
            assert message.endswith(": cuBLASLt fails with status 13; kernels compute products on cuda:0 [E424]")
    assert warned == [] and library.asked == 1


@pytest.mark.parametrize(("variable", "value", "why"), [
    ("FAKE_CUBLASLT_VERSION", "111103", "has the version 111103, and 120000 is the oldest that is used; products have "
     "the kernels of Pullback [E424]"),
    ("PULLBACK_CUBLASLT", "/nowhere/libcublasLt.so", "/nowhere/libcublasLt.so is no cuBLASLt: "),
    ("PULLBACK_CUBLASLT", "libm.so.6", "libm.so.6 is no cuBLASLt: "),
])  # fmt: skip
def test_libraries_that_are_not_used(variable: str, value: str, why: str, library: Library,
                                     monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """One that is old, missing, or another one is reported once."""
    monkeypatch.setenv(variable, value)
    z: list[Any] = []
    [message] = said(lambda: z.append(tuned()(X, Y)))
    assert why in message
    np.testing.assert_allclose(z[0], X @ Y, rtol=1e-4, atol=1e-4)
    assert library.asked == 0


def test_there_is_no_library(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULLBACK_CUBLASLT")
    monkeypatch.setattr(CublasLt, "versions", (".0",))
    assert said(lambda: tuned()(X, Y)) == [
        "cuBLASLt is not found: `pip install nvidia-cublas`, or PULLBACK_CUBLASLT with the path of libcublasLt; "
        "products have the kernels of Pullback [E424]"]  # fmt: skip
