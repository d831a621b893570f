"""Training on several devices, on a driver for tests: the bits are those of one device, and of a plain loop."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.data.loader import Samples
from pullback.errors import DataError, DeviceError, IndexRangeError, OutOfMemoryError, PullbackError, UsageError
from pullback.ir.types import f32
from pullback.nn.training.packing import Packing
from pullback.nn.training.sums import Sums
from pullback.runtime.device import cuda, listing
from pullback.tracing import tree
from tests.support.crew import crew
from tests.support.devices import fake
from tests.unit.nn.test_shared_updates import HOW, NET, X, Y, bits, plain

pytestmark = pytest.mark.slow

TINY: Any = {"parameters": np.zeros(3), "optimizer": nn.sgd(0.05), "epochs": 2, "batch_size": 8, "progress": False}
COLUMNS = np.random.default_rng(5).normal(size=(16, 3))


@pytest.fixture
def four(devices: fake.Driver) -> Iterator[fake.Driver]:
    """Four devices, whose work runs only when a call waits for it."""
    devices.set(devices=4)
    cuda.gpus.cache_clear()
    yield devices
    gc.collect()
    devices.reset()
    devices.set(devices=4)
    for g in cuda.gpus():  # frees what is queued
        g.trim()
        g.wait()
    cuda.gpus.cache_clear()


@pytest.fixture
def by_host(four: fake.Driver, monkeypatch: pytest.MonkeyPatch) -> fake.Driver:
    """Four devices of a driver that does not copy between them."""
    monkeypatch.setattr(cuda.driver(), "has_peers", False)
    return four


def on(count: int, parts: int | None = None) -> nn.Devices:
    return nn.Devices([f"cuda:{k}" for k in range(count)], parts)


def fit(devices: Any, **more: Any) -> nn.Run:
    return nn.fit(NET, nn.cross_entropy, (X, Y), devices=devices, **{**HOW, **more})


def squares(p: Any, s: Any, batch: Any) -> Any:
    return pb.mean((batch @ p - 1) ** 2)


def tiny(devices: Any, **more: Any) -> nn.Run:
    return nn.fit(squares, COLUMNS, devices=devices, **{**TINY, **more})


def said(f: Any, kind: type[PullbackError]) -> str:
    """The message of an error, without the place in this file."""
    with pytest.raises(kind) as caught:
        f()
    lines = str(caught.value).splitlines()
    at = next((k for k, line in enumerate(lines) if line.startswith("  --> ")), None)
    return "\n".join(lines if at is None else lines[:at] + lines[at + 3 :])


# The result ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [4, 7])
def test_the_bits_are_those_of_one_device(four: fake.Driver, parts: int) -> None:
    """With batch statistics, and with parts of unequal sizes: 31 samples in 4 or 7 parts."""
    runs = [fit(on(n, parts)) for n in (1, 2, 3, 4)]
    assert len({bits(r) for r in runs}) == 1
    assert four.count("cuMemcpyPeerAsync") > 0
    assert {type(a) for a in tree.flatten(runs[1].parameters)[0]} == {np.ndarray}


def test_the_bits_through_the_host_are_the_same(four: fake.Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    direct = fit(on(3))
    copies = four.count("cuMemcpyPeerAsync")
    monkeypatch.setattr(cuda.driver(), "has_peers", False)
    cuda.gpus.cache_clear()
    assert bits(fit(on(3))) == bits(direct)
    assert four.count("cuMemcpyPeerAsync") == copies > 0


@pytest.mark.parametrize("count", [2, 3])
def test_the_result_is_that_of_a_plain_loop_over_the_parts(four: fake.Driver, count: int) -> None:
    """The loop adds in NumPy, and runs on the processor, whose sums round differently."""
    run = fit(on(count), optimizer=nn.sgd(0.1, momentum=0.9))
    source = Samples((X, Y), 31, seed=1)
    batches = [tree.map_leaves(lambda a: a[0], source.stacked(e, k, 1)) for e in range(3) for k in range(2)]
    wanted, losses = plain(count, nn.objective(NET, nn.cross_entropy), batches, *NET.init(1),
                           nn.sgd(0.1, momentum=0.9))  # fmt: skip
    for x, y in zip(tree.flatten((run.parameters, run.state, run.optimizer_state))[0], tree.flatten(wanted)[0],
                    strict=True):  # fmt: skip
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-6)
    np.testing.assert_allclose(run.history.losses, [(losses[k] + losses[k + 1]) / 2 for k in (0, 2, 4)], rtol=1e-5)


def test_the_order_of_a_sum_is_that_of_the_parts(four: fake.Driver) -> None:
    """Gradients whose sum depends on the order: 1e8 + 1 - 1e8 is 0 in float32, and 1 in another order."""

    def total(p: Any, s: Any, batch: Any) -> Any:
        return pb.mean(batch * p)

    x = np.array([1e8, 1.0, -1e8, 0.0], np.float32) * 4
    for values in (x, x[[0, 2, 1, 3]]):
        wanted = np.float32(0)
        for value in values:
            wanted = wanted + value * np.float32(0.25)
        for count in (1, 2, 3, 4):
            run = nn.fit(total, values, parameters=np.zeros((), np.float32), optimizer=nn.sgd(1.0), steps=1,
                         batch_size=4, shuffle=False, progress=False, devices=on(count, 4))  # fmt: skip
            assert float(run.parameters) == -wanted


@pytest.mark.parametrize("drop_last", [True, False])
def test_batches_with_fewer_samples_than_parts(four: fake.Driver, drop_last: bool) -> None:
    """The last batch of 17 samples has one: most parts have none."""
    how = {"batch_size": 8, "drop_last": drop_last, "epochs": 1}
    runs = [nn.fit(squares, np.ones((17, 3)), devices=on(n, 4), **{**TINY, **how}) for n in (1, 3, 4)]
    assert len({bits(r) for r in runs}) == 1
    assert runs[0].steps == (2 if drop_last else 3)


def test_counts_are_those_of_the_first_part_and_states_are_means(four: fake.Driver) -> None:
    def counting(parameters: Any, state: Any, batch: Any) -> Any:
        value = pb.mean((parameters * batch - 1) ** 2)
        return value, {"mean": state["mean"] + pb.mean(batch), "seen": state["seen"] + batch.shape[0],
                       "odd": ~state["odd"]}  # fmt: skip

    x = np.arange(16.0)
    start = {"mean": np.zeros(()), "seen": np.zeros((), np.int64), "odd": np.zeros(300, bool)}
    run = nn.fit(counting, x, parameters=np.zeros(()), state=start, optimizer=nn.sgd(1e-4), epochs=1, batch_size=8,
                 shuffle=False, progress=False, devices=on(3), drop_last=True)  # fmt: skip
    assert int(run.state["seen"]) == 2 * 2  # of 8 samples in 3 parts the first has 2
    assert float(run.state["mean"]) == pytest.approx(x[:8].mean() + x[8:].mean())
    assert not run.state["odd"].any()


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_element_types(four: fake.Driver, dtype: str) -> None:
    """Vectors of several element types in one sum, each above one range."""
    kind = np.dtype(dtype)
    start = {"w": np.ones((3, 400)).astype(kind), "b": np.zeros(500, np.float32)}

    def loss(p: Any, s: Any, batch: Any) -> Any:
        return pb.mean((pb.abs(batch @ p["w"]) - 2) ** 2) + pb.mean((p["b"] - 1) ** 2)

    how: Any = {**TINY, "parameters": start, "epochs": 1}
    x = COLUMNS.astype(kind.char if kind.kind == "f" else np.float32)
    runs = [nn.fit(loss, x, devices=on(n, 4), **how) for n in (1, 2, 3)]
    assert len({bits(r) for r in runs}) == 1
    assert runs[0].parameters["w"].dtype == kind
    np.testing.assert_allclose(runs[0].parameters["w"], nn.fit(loss, x, **how).parameters["w"], atol=1e-5)


def test_a_run_is_resumed_with_another_number_of_devices(four: fake.Driver, tmp_path: Path) -> None:
    """The parts are those of the checkpoint; the learning rate of a plateau rule reaches all devices."""
    rule = nn.ReduceLROnPlateau(0.5, monitor="loss", patience=1, min_delta=0.5)
    how: Any = {"callbacks": [rule], "average": 0.9, "early_stopping": 9, "validation_data": (X[:30], Y[:30]),
                "metrics": [nn.metrics.accuracy], "epochs": 5}  # fmt: skip
    whole = fit(on(2, 4), **how)
    assert len({row["learning_rate"] for row in whole.history.rows}) > 1
    fit(on(2, 4), **{**how, "steps": 5, "epochs": None}, save=str(tmp_path))
    assert bits(fit(on(3), **how, save=str(tmp_path), resume=True)) == bits(whole)
    with pytest.raises(DataError, match=r"E515(.|\n)*parts of a batch: 4 in the checkpoint, 3 now"):
        fit(on(3, 3), **how, save=str(tmp_path))


def test_several_updates_in_a_call(four: fake.Driver) -> None:
    """Small updates are stacked; with a callback for batches each is a call."""
    each = SimpleNamespace(on_batch_end=lambda state: None)
    assert bits(tiny(on(2))) == bits(tiny(on(2), callbacks=[each]))


# The work of the devices --------------------------------------------------------------------------------------------


def test_devices_work_at_the_same_time(four: fake.Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work runs only when the host waits, and it waits once, at the end of a call. So in each step all launches of the
    second device are queued while those of the first have not run, and so on."""
    four.set(late=1)
    tiny(on(4))
    before = four.count("launches beside other devices")
    waits: list[str] = []
    monkeypatch.setattr(cuda.CudaGpu, "wait", lambda g, what="wait": waits.append(g.name))
    tiny(on(4), steps=2, epochs=None)
    launches = four.count("launches beside other devices") - before
    assert launches > 3 * 2 * 4
    assert waits == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]


def test_memory_that_others_read_is_used_again_after_that(four: fake.Driver) -> None:
    """The first device overwrites what it has freed, before the second one is waited for."""
    first, second = listing.gpu("cuda:0"), listing.gpu("cuda:1")
    vectors = [(pb.device_put(np.full(1024, 1 + k, np.float32), g.name),) for k, g in enumerate((first, second))]
    _, (total,) = Sums([first, second], [f32], [True])(vectors, 0)
    del vectors
    filled = [pb.device_put(np.full(n, 9, np.float32), "cuda:0") for n in (512, 512, 512, 1024)]
    first.wait()
    np.testing.assert_array_equal(total.numpy(), np.full(1024, 3, np.float32))
    assert len(filled) == 4


def test_what_a_device_receives(four: fake.Driver) -> None:
    """2 (n - 1) / n vectors for each of n devices, whatever their number."""
    size = 1 << 14

    def loss(p: Any, s: Any, batch: Any) -> Any:
        return pb.mean((batch[:, 0][:, None] * p - 1) ** 2)

    for count in (2, 4):
        moved = []
        for steps in (1, 2):
            four.reset()
            four.set(devices=4, late=1)
            nn.fit(loss, COLUMNS.astype(np.float32), parameters=np.zeros(size, np.float32), optimizer=nn.sgd(0.1),
                   steps=steps, batch_size=8, progress=False, devices=on(count))  # fmt: skip
            moved.append(four.count("bytes between devices"))
        own = 4 * size // count * count  # each copies its own range once, on itself
        assert moved[1] - moved[0] == 2 * (count - 1) * 4 * size + own


def test_programs_are_lowered_once(four: fake.Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    from pullback.runtime.device import loading

    lowered: list[str] = []
    whole = loading.loops_for

    def loops_for(program: Any, *rest: Any) -> Any:
        lowered.append(program.name)
        return whole(program, *rest)

    monkeypatch.setattr(loading, "loops_for", loops_for)
    tiny(on(4))
    assert sorted(lowered) == sorted({*lowered}) and len(lowered) == 4


# Errors -------------------------------------------------------------------------------------------------------------


def test_lists_of_devices_that_are_wrong(four: fake.Driver) -> None:
    more = "See `pullback explain-error"
    assert said(lambda: tiny(["cuda:1", "cuda", "cuda:0"]), DeviceError) == (
        f"DeviceError [E423] fit: devices= lists cuda:0 twice\n  try: each device once      {more} E423`"
    )
    assert said(lambda: tiny(["cuda:0", "opencl:0"]), DeviceError) == (
        "DeviceError [E423] fit: devices= lists cuda:0 and opencl:0, which have different drivers\n"
        f'  try: only devices of "cuda", or only of "opencl"      {more} E423`'
    )
    assert said(lambda: tiny(["cpu", "cuda:0"]), DeviceError) == (
        "DeviceError [E423] fit: devices= lists the processor\n"
        f"  try: `workers=` trains in several processes of the processor      {more} E423`"
    )
    assert said(lambda: tiny(["cuda:0", "cuda:9"]), DeviceError) == (
        f"DeviceError [E418] there is no device cuda:9\n  try: one of cuda:0, cuda:1, cuda:2, cuda:3      {more} E418`"
    )
    for wrong in ("cuda:0", [], ["gpu"], [0], 2):
        assert said(lambda w=wrong: tiny(w), UsageError) == (  # type: ignore[misc]
            f"UsageError [E518] fit: devices={wrong!r}\n"
            f'  try: a list of names of `pb.devices()`, such as ["cuda:0", "cuda:1"]      {more} E518`'
        )
    for given, what in (
        ({"device": "cuda"}, "fit: device='cuda' and devices=['cuda:0', 'cuda:1']"),
        ({"swap": True}, "fit: swap=True with devices=['cuda:0', 'cuda:1']"),
        ({"workers": 3}, "fit: 2 devices for 3 workers"),
    ):
        assert said(lambda g=given: tiny(["cuda:0", "cuda:1"], **g), UsageError).startswith(  # type: ignore[misc]
            f"UsageError [E518] {what}\n"
        )
    with pytest.raises(UsageError, match=r"E518.*Devices: parts=1 for 2 devices"):
        on(2, 1)
    with pytest.raises(UsageError, match=r"E518.*Devices\(…, parts=4\) with workers"):
        tiny(on(2, 4), workers=2)


def test_devices_of_two_architectures(four: fake.Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    other = listing.gpu("cuda:1")
    monkeypatch.setattr(other, "entry", replace(other.entry, architecture="sm_80"))
    assert said(lambda: tiny(on(2)), DeviceError) == (
        "DeviceError [E423] fit: devices= lists cuda:0 (Device 0 for tests, sm_90a) and cuda:1 (Device 1 for tests, "
        "sm_80), whose results may differ in their last bits\n"
        "  try: devices of one architecture      See `pullback explain-error E423`"
    )


@pytest.mark.parametrize("device", [0, 1, 2])
def test_a_device_without_memory_is_named(four: fake.Driver, device: int) -> None:
    """The arrays of another program fill it."""
    gpus = [listing.gpu(f"cuda:{k}") for k in range(3)]
    used = [total - free for free, total in (g.free_bytes() for g in gpus)]  # by what other tests left
    four.set(memory=max(used) + 8_000_000)
    held = pb.device_put(np.zeros(gpus[device].free_bytes()[0] // 8 - 7_000), f"cuda:{device}")
    wide: Any = {**TINY, "parameters": np.zeros(10_000)}
    text = said(lambda: nn.fit(lambda p, s, b: pb.mean((p - b[0, 0]) ** 2), COLUMNS, devices=on(3), **wide),
                OutOfMemoryError)  # fmt: skip
    assert re.match(rf"OutOfMemoryError \[E421\] .*: cuda:{device} has no memory for [\d,]+ bytes\n", text)
    del held


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("device", [0, 1, 2])
def test_a_device_that_fails_is_named(four: fake.Driver, device: int, late: int, tmp_path: Path) -> None:
    """A kernel of it fails, or the device is lost. The last checkpoint stays, and a run of the others goes on."""
    saved: Any = {"epochs": 4, "save": nn.Checkpoints(str(tmp_path), every_steps=1)}
    whole = tiny(on(3), epochs=4)
    four.set(late=late)

    def fail(state: Any) -> None:
        if state.epoch == 2:
            four.set(broken=device)

    text = said(lambda: tiny(on(3), **saved, callbacks=[fail]), DeviceError)
    assert re.match(rf"DeviceError \[E420\] .*: cuda:{device} is lost\n", text), text
    four.reset()
    four.set(devices=4)
    assert bits(tiny(on(2, 3), **saved)) == bits(whole)


def test_an_index_out_of_range(four: fake.Driver) -> None:
    """In the part of the second device."""
    table, at = np.zeros(5), np.array([0, 1, 2, 7])
    with pytest.raises(IndexRangeError, match="E401"):
        nn.fit(lambda p, s, b: pb.mean(pb.build(b.shape[0], lambda k: p[b[k]]) ** 2), at, parameters=table, steps=1,
               optimizer=nn.sgd(0.1), batch_size=4, shuffle=False, progress=False, devices=on(2))  # fmt: skip


# Workers ------------------------------------------------------------------------------------------------------------


def test_workers_have_a_device_each(four: fake.Driver) -> None:
    """To the bit, for any number of workers; parameters stay on their devices."""
    with crew() as held:
        runs = [nn.fit(NET, nn.cross_entropy, (X, Y), workers=nn.Workers(n, parts=4),
                       devices=[f"cuda:{k}" for k in range(n)], **HOW) for n in (1, 2, 4)]  # fmt: skip
    assert len({bits(r) for r in runs}) == 1
    assert [{a.device for a in t.object.arrays} for t in held.threads[-4:]] == [{f"cuda:{k}"} for k in range(4)]
    direct = fit(on(2, 4))
    for x, y in zip(tree.flatten(runs[0].parameters)[0], tree.flatten(direct.parameters)[0], strict=True):
        np.testing.assert_array_equal(x, y)
    assert runs[0].history.losses == direct.history.losses


# Packing ------------------------------------------------------------------------------------------------------------


def test_packing() -> None:
    """On the processor: what was packed is unpacked, and numbers are weighted."""
    r = np.random.default_rng(0)
    arrays = [r.normal(size=(2, 3)), np.arange(4), r.normal(size=()).astype(np.float32), np.array([True, False]),
              r.normal(size=2) + 1j * r.normal(size=2), r.normal(size=0)]  # fmt: skip
    own = Packing(arrays)
    assert [d.name for d in own.dtypes] == ["f64", "i64", "f32", "bool"]
    assert (own.sizes, own.summed) == ([10, 4, 1, 2], [True, False, True, False])
    weights = own.weights(0.25)
    assert [type(w) for w in weights] == [np.float64, np.float32]
    flat = tuple(x.reshape(-1) for x in own.parts(arrays))
    vectors = pb.function(lambda parts, weights: own.packed(parts, weights))(flat, weights)
    found = pb.function(lambda vectors: tuple(own.unpacked(vectors)))(vectors)
    for x, y in zip(arrays, found, strict=True):
        np.testing.assert_array_equal(y, x * 0.25 if x.dtype.kind in "fc" else x)
        assert x.shape == y.shape
    assert [z.shape[0] for z in own.zeros()] == own.sizes
