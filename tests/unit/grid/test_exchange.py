"""Memory and work that Python and devices exchange: order, sharing, other libraries' arrays, and cached kernels."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array
from pullback.errors import CompilerError
from pullback.runtime.device import cuda as driver
from pullback.runtime.device import dlpack, executor, loading, nvrtc
from pullback.runtime.device.array import device_put
from tests.support.devices import fake

W = np.random.default_rng(7).normal(size=5)
TABLE = np.arange(5.0)
TABLE.setflags(write=False)


pytestmark = pytest.mark.usefixtures("devices")


class Given:
    """An object with a capsule."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule


def foreign(a: Any, strides: Sequence[int] = (), **fields: int) -> tuple[dlpack.Foreign, int]:
    """An array of another library with these strides and fields of its tensor; its address."""
    x = device_put(a)
    capsule = x.__dlpack__()
    tensor = dlpack._Managed.from_address(dlpack._pointer(capsule, b"dltensor")).tensor
    for k, stride in enumerate(strides):
        tensor.strides[k] = stride
    for name, n in fields.items():
        setattr(tensor, name, n)
    return dlpack.Foreign(Given(capsule), 1), x.at


def test_arrays_of_other_libraries() -> None:
    assert foreign(np.ones((1, 5)), (99, 1))[0].is_contiguous  # an axis of size 1 has any stride
    assert foreign(np.ones((0, 5)), (7, 3))[0].is_contiguous
    assert not foreign(np.ones((2, 5)), (6, 1))[0].is_contiguous
    found, at = foreign(W, byte_offset=8)
    assert found.at == at + 8
    assert foreign(W, lanes=2)[0].storage is None


def test_another_library_waits_unless_it_says_that_it_does(devices: fake.Driver) -> None:
    x = device_put(W)
    for stream, waits in ((1, 1), (None, 1), (-1, 0)):
        before = devices.count("cuStreamWaitEvent")
        x.__dlpack__(stream=stream)
        assert devices.count("cuStreamWaitEvent") == before + waits


def test_shared_memory_is_freed_after_all_work(devices: fake.Driver) -> None:
    for share in (False, True):
        x = device_put(W)
        if share:
            x.__dlpack__(stream=-1)
        freed, waits = devices.count("cuMemFree_v2"), devices.count("cuCtxSynchronize")
        del x
        gc.collect()
        assert (devices.count("cuMemFree_v2"), devices.count("cuCtxSynchronize")) == (freed + share, waits + share)


def test_events_and_sent_arrays_do_not_pile_up(devices: fake.Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are destroyed, and if 256 copies are not done, the next one waits."""
    gpu = driver.gpus()[0]

    def left() -> int:
        gpu.wait()
        with gpu.current("test"):
            gpu.keep(None)
        return devices.count("cuEventCreate") - devices.count("cuEventDestroy_v2")

    before, large = left(), np.zeros(10_000)
    for count, waits in ((200, False), (300, True)):
        start = devices.count("cuStreamSynchronize")
        with monkeypatch.context() as patch:
            patch.setattr(driver.CudaGpu, "_is_done", lambda *_: False)
            for _ in range(count):
                x = device_put(large)
        assert (devices.count("cuStreamSynchronize") > start) == waits
        x.__dlpack__(stream=1)
        assert left() == before
    recorded = devices.count("cuEventRecord")
    for _ in range(320):
        device_put(W)
    assert devices.count("cuEventRecord") - recorded <= 11  # small arrays share events


def test_exact_kernels_have_no_contraction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "compiled", lambda text, architecture, version, options: options)
    program: Any = SimpleNamespace(kernels="")
    assert driver.gpus()[0].image(program, True) == ("--fmad=false",)
    assert driver.gpus()[0].image(program, False) == ()


def test_an_array_on_a_device_is_not_on_the_host() -> None:
    with pytest.raises(ValueError, match="is copied to the host"):
        device_put(W).__array__(copy=False)


def test_an_argument_may_be_changed_after_the_call() -> None:
    a = W.copy()
    x = device_put(a)
    a[:] = 0
    np.testing.assert_array_equal(x, W)


def test_working_memory_is_in_use_until_the_device_is_waited_for(devices: fake.Driver) -> None:
    f = pb.function(device="cuda!")(lambda x: pb.sum(pb.tanh(x @ x.T) @ x))
    x = np.ones((7, 5))
    f(x)

    def waits(given: Any) -> int:
        before = devices.count("cuStreamSynchronize")
        f(given)
        return devices.count("cuStreamSynchronize") - before

    alone = waits(x)
    waits(device_put(x))
    assert waits(x) == alone + 1 and waits(x) == alone
    f(device_put(x))
    before, modules = devices.count("cuStreamSynchronize"), devices.count("cuModuleUnload")
    del f
    gc.collect()
    assert (devices.count("cuStreamSynchronize"), devices.count("cuModuleUnload")) == (before + 1, modules + 1)


def test_architectures(devices: fake.Driver) -> None:
    for capability, architecture in ((89, "sm_89"), (90, "sm_90a")):
        devices.set(late=1, capability=capability)
        assert driver.gpus.__wrapped__()[0].entry.architecture == architecture


def test_tables_are_there_before_the_first_call() -> None:
    f = pb.function(lambda x: x * pb.asarray(TABLE))
    np.testing.assert_array_equal(f(device_put(np.ones(5))), TABLE)


def test_old_checks_are_waited_for() -> None:
    @pb.function
    def read(x: Float64[Array, "N"], at: Int64[Array, "M"]) -> Any:
        return pb.build(at.shape[0], lambda m: x[at[m]])

    found = read(device_put(W), np.array([0, 9]))
    with pytest.raises(IndexError, match="E401"):
        for _ in range(executor.MOST_CHECKS + 1):
            found = read(found, np.array([0, 1]))


def test_what_must_run_on_a_device_is_not_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise CompilerError("E410", "there is no C compiler")

    monkeypatch.setattr(loading, "compile_on", none)
    with pytest.raises(CompilerError, match="E410"):
        pb.function(device="cuda!")(lambda x: x + 3)(W)


def test_the_compiler_of_the_drivers_version_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULLBACK_NVRTC", raising=False)
    monkeypatch.setattr(nvrtc, "find_spec", lambda _: SimpleNamespace(submodule_search_locations=[str(tmp_path)]))
    for major in (11, 12, 13):
        file = tmp_path / f"cuda{major}" / "lib" / f"libnvrtc.so.{major}"
        file.parent.mkdir(parents=True)
        file.touch()
    for most, order in ((13, [13, 12, 11]), (12, [12, 11, 13]), (11, [11, 13, 12])):
        assert [int(p.rpartition(".")[2]) for p in list(nvrtc._places(most))[:3]] == order


def test_the_key_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text, architecture and options each compile anew; the same again does not."""
    kept: dict[str, Any] = {}
    made: list[tuple[Any, ...]] = []

    class Compiler:
        def cubin(self, *what: Any) -> tuple[bytes, str]:
            made.append(what)
            return b"code", ""

        def __str__(self) -> str:
            return "NVRTC for tests"

    monkeypatch.setattr(nvrtc, "compiler", lambda _: Compiler())
    monkeypatch.setattr(nvrtc, "find", lambda _, key: kept.get(key))
    monkeypatch.setattr(nvrtc, "keep", lambda _, key, code: kept.update({key: SimpleNamespace(content=code)}))
    for text, architecture, options in (("a", "sm_90a", ()), ("b", "sm_90a", ()), ("a", "sm_80", ()),
                                        ("a", "sm_90a", ("--fmad=false",))) * 2:  # fmt: skip
        assert nvrtc.compiled(text, architecture, 12_040, options) == b"code"
    assert len(made) == 4
