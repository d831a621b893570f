"""The suite's programs on the driver for tests: corpus, networks, GradBench and lazy arrays."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from benchmarks.corpus import Entry, corpus
from benchmarks.devices import examined, right
from benchmarks.gradbench.inputs import SMALL
from benchmarks.gradbench.references import differences, expected
from benchmarks.gradbench.workloads import MODULES, workload
from pullback.codegen.device.dialect import CUDA
from pullback.codegen.device.program import device_program
from pullback.device import H100
from pullback.lazy.kernel import Kernel, joined, parts
from pullback.runtime.device.export import lowered_for
from tests.support.devices import fake
from tests.support.devices.hosted import hosted
from tests.unit.bench import test_dynamic
from tests.unit.nn.torch_peers import cases

pytestmark = pytest.mark.slow

LARGE = "kernel product-2048"  # a minute each, with the kernel of smaller products; `benchmarks.devices` runs them
HEAVY = ("program ", "kernel ", "network mobilenet_v2", "network resnet18", "network lenet", "derivative nnmf")
ALL = not os.environ.get("PULLBACK_TESTS_TURN")  # otherwise these take too long
ENTRIES = [e for e in corpus() if not e.name.startswith(LARGE if ALL else (LARGE, *HEAVY))]
GRADBENCH = [(module, function, size, given) for module, sizes in SMALL.items() for size, given in sizes
             for function in MODULES[module][1]]  # fmt: skip


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.name)
def test_corpus(entry: Entry) -> None:
    """Programs give the values of C for processors, and equal bits in all orders of groups and threads.

    Repeated calls are one launch, unless the host has to read a condition.
    """
    made, dims = entry.make()
    found = examined(entry.name, made, dims, slow=1.0)
    assert found.same and right(found, {np.dtype(r.dtype.numpy).char for r in made.outputs})
    assert found.serial == []
    assert found.again <= 1 or found.looks


@pytest.fixture
def on_device(cuda: fake.Driver, monkeypatch: pytest.MonkeyPatch) -> fake.Driver:
    """Let all functions made in this test run on a device, and nowhere else."""
    monkeypatch.setenv("PULLBACK_DEVICE", "cuda!")
    return cuda


@pytest.mark.parametrize("name", cases.MODELS)
def test_networks(name: str, on_device: fake.Driver) -> None:
    """Networks on a device give PyTorch's losses and gradients."""
    far, where = cases.distance(cases.our_model(name, interpreted=False), cases.expected()[name])
    assert far < 1e-11, where
    assert on_device.launched


@pytest.fixture
def gradbench_modules(on_device: fake.Driver) -> Iterator[None]:
    """Import GradBench's programs again with functions for devices, and drop them after the test."""

    def forget() -> dict[str, ModuleType]:
        return {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith("examples.gradbench.")}

    before = forget()
    yield
    forget()
    sys.modules.update(before)


@pytest.mark.usefixtures("gradbench_modules")
@pytest.mark.parametrize(("module", "function", "size", "given"), GRADBENCH, ids=[" ".join(c[:3]) for c in GRADBENCH])
def test_gradbench(module: str, function: str, size: str, given: Any, on_device: fake.Driver) -> None:
    """GradBench's functions on a device give the answers of the reference."""
    work = workload(module, function, given)
    assert differences(work.answer(work.run()), expected(module, function, given), 1e-9) == []
    assert on_device.launched


@pytest.mark.parametrize("case", ["skip-2", "gated", "skip-conv"])
def test_pieces_of_lazy_networks(case: str, cuda: fake.Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks with control flow give the known first loss, with all pieces on a device."""

    def on_device(piece: Kernel, values: Sequence[Any]) -> tuple[Any, ...]:
        given = [part for v, t in zip(values, piece._inputs) for part in parts(v, t)]
        lowered = lowered_for(piece.program, {})
        with hosted(device_program(lowered.function, lowered.memory, CUDA, H100), lowered.function) as call:
            found = call([*given, *piece.program.settings.captured])
        assert found.status == 0, cuda.message
        return tuple(joined(found.arrays, piece._outputs))

    monkeypatch.setattr(Kernel, "__call__", on_device)
    test_dynamic.test_b28_b32_the_first_loss(case)
    assert cuda.count("cuLaunchKernel") > 10
