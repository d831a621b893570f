"""Programs that move arrays out of memory: the bits are those without a limit, and memory keeps the limit."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32, Float64

import pullback as pb
from pullback import Array, nn
from pullback.calls.specs import spec_like
from pullback.errors import CompilerError, UsageError
from pullback.loops.memory.plan import mentioned
from pullback.loops.program.nodes import Copy, walk
from pullback.machine import native
from pullback.runtime.emit import lower_program, print_lowered
from pullback.runtime.executor import compile_program
from pullback.tracing import tree

needs_files = pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="files cannot be reserved here")
rng = np.random.default_rng(0)


def perceptron() -> tuple[Callable[..., Any], list[Any]]:
    """The loss of seven layers, which keep their results for the backward pass."""
    net = nn.sequential(*[nn.dense(40), nn.tanh] * 6, nn.dense(5)).on("N 40")
    x, labels = rng.normal(size=(300, 40)).astype(np.float32), rng.integers(0, 5, 300)
    return lambda p, x, t: nn.cross_entropy(net(p, x), t), [net.init(0)[0], x, labels]


def convolutions() -> tuple[Callable[..., Any], list[Any]]:
    layers = [layer for _ in range(3) for layer in (nn.conv(6, 3, padding=1), nn.relu, nn.max_pool(3, 1, 1))]
    net = nn.sequential(*layers, nn.flatten(), nn.dense(3)).on("N 2 12 12")
    x, labels = rng.normal(size=(10, 2, 12, 12)).astype(np.float32), rng.integers(0, 3, 10)
    return lambda p, x, t: nn.cross_entropy(net(p, x), t), [net.init(0)[0], x, labels]


def reused() -> tuple[Callable[..., Any], list[Any]]:
    """Arrays with several idle times: every third one is read by all later ones."""

    def loss(w: Any, x: Any, y: Any) -> Any:
        kept = []
        for k in range(8):
            x = pb.tanh(x @ w + sum(kept, start=y))
            kept += [x] * (k % 3 == 0)
        return pb.sum(x * y)

    return loss, [rng.normal(size=(40, 40)) / 6, rng.normal(size=(60, 40)), rng.normal(size=(60, 40))]


def with_a_loop() -> tuple[Callable[..., Any], list[Any]]:
    """A loop in the middle, which keeps the arrays that it uses."""

    def loss(w: Any, x: Any, y: Any) -> Any:
        first = pb.exp(pb.tanh(x @ w))
        second = pb.tanh(first @ w)
        third = pb.fold(5, second, lambda z, k: pb.tanh(z @ w))
        return pb.sum(third * pb.tanh(third @ w) * first * y)

    return loss, [rng.normal(size=(30, 30)) / 5, rng.normal(size=(50, 30)), rng.normal(size=(50, 30))]


PROGRAMS = {f.__name__: f for f in (perceptron, convolutions, reused, with_a_loop)}


def gradient(loss: Callable[..., Any], arguments: list[Any], **options: Any) -> pb.Function:
    """The gradient by the first argument, for arguments of these types."""
    names = loss.__code__.co_varnames[: loss.__code__.co_argcount]
    loss.__annotations__ = {name: spec_like(x) for name, x in zip(names, arguments)}
    return pb.grad(pb.function(**options)(loss) if options else pb.function(loss), wrt=names[0])


def same_bits(a: Any, b: Any) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(tree.flatten(a)[0], tree.flatten(b)[0], strict=True))


@pytest.mark.slow
@needs_files
@pytest.mark.parametrize("name", PROGRAMS)
def test_f13_swapping_changes_no_bit(name: str, tmp_path: Path) -> None:
    """Limits from the whole to what swapping cannot reach: memory keeps them, and results are the same bits."""
    loss, arguments = PROGRAMS[name]()
    threads = 1 + len(name) % 2
    free = gradient(loss, arguments, threads=threads)
    wanted, less = free(*arguments), free.memory("less").resident_bytes
    swapping = 0
    for part in (0.9, 0.75, 0.5):
        limit = int(part * less)
        f = gradient(loss, arguments, threads=threads, memory_limit=limit, swap=str(tmp_path))
        try:
            found = f.memory()
        except CompilerError:
            break
        if not found.swap_bytes:
            assert found.mode in ("less", "least")
            continue
        swapping += 1
        assert found.resident_bytes <= limit
        room = [-(-row.bytes // 64) * 64 for row in found.swapped]  # two at different times may share it
        assert max(room) <= found.swap_bytes <= sum(room)
        if found.mode == "less":
            assert same_bits(f(*arguments), wanted), (name, part)
            assert same_bits(f(*arguments), wanted), (name, part)
    assert swapping
    assert not list(tmp_path.iterdir()), "the file has no name"


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_statement_but_copies_touches_what_is_away(name: str) -> None:
    """Memory is what the plan says: the program runs in an arena of random bytes, and the verifier follows it."""
    loss, arguments = PROGRAMS[name]()
    free = gradient(loss, arguments)
    program = gradient(loss, arguments, memory_limit=int(0.8 * free.memory("less").peak_bytes), swap=True).program()
    lowered = lower_program(program, {}, machine=native(), threaded=True)
    assert lowered.memory.swap_bytes
    touching = [s for s in walk(lowered.function.body) if any(b.space == "swap" for b in mentioned(s))]
    assert len(touching) >= 2
    assert all(isinstance(s, Copy) for s in touching)
    flat = [np.asarray(x) for x in tree.flatten(tuple(arguments))[0]]
    ran = compile_program(program, {}).run_poisoned(flat)
    assert ran.stray == 0
    assert "Copies alone touch those from" in print_lowered(lowered).text


@pytest.mark.slow
def test_the_printed_plan_is_carried_out() -> None:
    loss, arguments = perceptron()
    table = gradient(loss, arguments).memory("less")
    limit = int(0.7 * table.peak_bytes)
    planned = [m.array for m in table.swap_plan(limit).moves]
    carried = gradient(loss, arguments, memory_limit=limit, swap=True).memory()
    assert {row.name for row in carried.swapped} == {f"{name}_away" for name in planned}
    assert f"{carried.swap_bytes:,} bytes more for what is swapped out" in str(carried)


RESIDENT = """
import re, sys
import numpy as np, pullback as pb
def private():
    return int(re.search(r"RssAnon:\\s*(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
def loss(w, x):
    for _ in range(12):
        x = pb.tanh(x @ w)
    return pb.sum(x * x)
options = {"memory_limit": int(sys.argv[1]), "swap": sys.argv[2]} if len(sys.argv) > 2 else {"memory": "less"}
f = pb.grad(pb.function(**options)(loss), wrt="x")
x = np.ones((20_000, 40), np.float32)
w = np.full((40, 40), 0.01, np.float32)
out = np.empty_like(x)
f(w, x[:10].copy(), out=out[:10])
before = private()
f(w, x, out=out)
print(private() - before)
"""


@pytest.mark.slow
@needs_files
@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which memory is in files")
def test_what_is_away_lies_in_a_file(tmp_path: Path) -> None:
    """Twelve results of 3.2 MB wait for the backward pass. Without swapping they are memory of the process."""

    def growth(*arguments: str) -> int:
        ran = subprocess.run([sys.executable, "-c", RESIDENT, *arguments], check=True, capture_output=True, text=True)
        return int(ran.stdout)

    limit = 16_000_000
    assert growth() > 35_000_000
    assert growth(str(limit), str(tmp_path)) < limit + 4_000_000


@pytest.mark.slow
def test_a_limit_that_swapping_cannot_keep() -> None:
    loss, arguments = perceptron()
    with pytest.raises(CompilerError, match=r"E260\] .* its limit is 1,000"):
        gradient(loss, arguments, memory_limit=1000, swap=True)(*arguments)


def test_swapping_needs_a_limit() -> None:
    with pytest.raises(ValueError, match=r"^swap=True: it keeps a `memory_limit`, and there is none$"):
        pb.function(swap=True)


@pytest.mark.slow
@needs_files
def test_a_file_that_is_not_to_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loss, arguments = perceptron()
    limit = int(0.7 * gradient(loss, arguments).memory("less").peak_bytes)

    def message(folder: Path) -> str:
        with pytest.raises(UsageError) as caught:
            gradient(loss, arguments, memory_limit=limit, swap=folder)(*arguments)
        return str(caught.value)

    missing = message(tmp_path / "nowhere")
    assert missing.startswith("UsageError [E607] swap: ")
    assert f"bytes of {tmp_path / 'nowhere'} are not to be had" in missing
    assert "try: swap='FOLDER' on a disk with room, or a larger `memory_limit`" in missing

    def full(file: int, start: int, count: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert "No space left on device" in message(tmp_path)


@pytest.mark.slow
@needs_files
def test_f13_training_keeps_a_limit_and_its_bits(tmp_path: Path) -> None:
    """A call makes one update, within the limit: parameters, losses and measurements are those of a wide limit."""
    net = nn.sequential(*[nn.dense(60), nn.tanh] * 6, nn.dense(4)).on("N 30")
    train = rng.normal(size=(640, 30)).astype(np.float32), rng.integers(0, 4, 640)

    def run(limit: int) -> Any:
        return nn.fit(net, nn.cross_entropy, train, optimizer=nn.adam(0.01), batch_size=160, epochs=2, progress=False,
                      memory_limit=limit, swap=str(tmp_path))  # fmt: skip

    wide = run(1 << 30)
    narrow = run(270_000)
    assert list(wide.arena_bytes) == list(narrow.arena_bytes) == [1]
    assert wide.arena_bytes[1] > 300_000
    assert narrow.arena_bytes[1] > 270_000  # with the part in the file
    assert same_bits(narrow.parameters, wide.parameters)
    assert narrow.history["loss"] == wide.history["loss"]


# The working memory of kernels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1 << 20, 60_000, 20_000, 2_000, 0])
def test_f13_kernels_keep_a_limit_of_working_memory(limit: int) -> None:
    net = nn.sequential(nn.conv(8, 5), nn.relu, nn.conv(12, 3), nn.flatten(), nn.dense(70)).on("N 3 16 16")
    parameters, _ = net.init(0)
    x = rng.normal(size=(4, 3, 16, 16)).astype(np.float32)

    def f(p: Any, x: Any) -> Any:
        return pb.sum(net(p, x) ** 2)

    free, limited = gradient(f, [parameters, x]), gradient(f, [parameters, x], workspace_limit=limit)
    needed, found = ([row.workspace for row in each.memory().statements] for each in (free, limited))
    assert max(needed) > 60_000
    assert max(found) <= limit
    for a, b in zip(tree.flatten(limited(parameters, x))[0], tree.flatten(free(parameters, x))[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-4 * np.abs(b).max())


def test_products_of_any_size_keep_a_limit_of_working_memory() -> None:
    @pb.function(workspace_limit=0, specialize="never")
    def product(x: Float64[Array, "N K"], y: Float64[Array, "K M"]) -> Any:
        return x @ y

    for n, k, m in ((1, 1, 1), (70, 80, 90), (3, 200, 129)):
        x, y = rng.normal(size=(n, k)), rng.normal(size=(k, m))
        np.testing.assert_allclose(product(x, y), x @ y, rtol=1e-12, atol=1e-12)


def test_bad_limits_of_working_memory() -> None:
    for wrong in (-1, 1.5, "1 MB"):
        with pytest.raises(ValueError, match=r"workspace_limit=.*: a number of bytes, an int of at least 0"):
            pb.function(workspace_limit=wrong)  # type: ignore[call-overload]


def test_options_stay_with_derivatives() -> None:
    @pb.function(workspace_limit=0, memory_limit=10**9, swap="/tmp")
    def f(x: Float32[Array, "90 90"]) -> Any:
        return pb.sum(pb.tanh(x @ x) @ x)

    for g in (f, pb.grad(f)):
        settings = g.program().settings
        assert (settings.workspace_limit, settings.memory_limit, settings.swap) == (0, 10**9, "/tmp")
