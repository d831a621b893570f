"""Networks: training and inference beside PyTorch and JAX, with time to first result and memory.

A network is that of `pullback.nn.models`; the peers run its layers one by one on the same parameters
(`bench.systems.networks_walk`). A step is the mean cross-entropy, its gradient by all parameters, and descent. What
inference gives is compared before anything is timed, and the loss of a first step where no layer draws random numbers.
Memory is the peak of a process of its own beyond what it had before the first call: `peak`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.environment import child_environment, limit_threads
from benchmarks.harness import Contender, Note, Repeated, Row, Runner, measure
from pullback.runtime.arena import arenas, most_idle

__all__ = ["CASES", "HEAD", "NETWORKS", "SYSTEMS", "Network", "NetworkCase", "bench_networks", "call_of", "cells",
           "peak"]

SYSTEMS = ("pullback", "jax", "torch")
RATE: Final = 1e-5  # so small that networks without normalization stay finite
FORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "pullback": ("fastest",),
    "jax": ("jit", "jit, channels last"),
    "torch": ("eager", "eager, channels last", "compile"),
}
IMAGES_ONLY: Final = "channels last"
MEASURED: Final = "benchmarks.networks"
LOWEST: Final = "5"  # written to clear_refs: the peak of memory begins anew


@dataclass(frozen=True)
class Network:
    """A network at the sizes at which it is trained.

    Attributes:
        name: as on the command line.
        make: gives it.
        takes: extents of one input.
        batch: of a step.
        classes: of targets.
        integers: below what its inputs are, where they are integers; then there is a target for each.
        random: whether a step draws random numbers.
    """

    name: str
    make: Callable[[], Any]
    takes: tuple[int, ...]
    batch: int
    classes: int
    integers: int = 0
    random: bool = False

    def inputs(self, batch: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """A batch with its targets, the same in every process."""
        random = np.random.default_rng(0)
        if self.integers:
            x = random.integers(0, self.integers, (batch, *self.takes))
            return x, random.integers(0, self.classes, (batch, *self.takes))
        x = random.normal(size=(batch, *self.takes)).astype(np.float32)
        return x, random.integers(0, self.classes, batch)

    def on(self) -> Any:
        """The network for its input."""
        return self.make().on(" ".join(map(str, ("N", *self.takes))))


def _model(name: str, *given: Any, **settings: Any) -> Callable[[], Any]:
    def make() -> Any:
        from pullback.nn import models

        return getattr(models, name)(*given, **settings)

    return make


NETWORKS: Final = (
    Network("lenet", _model("lenet"), (1, 28, 28), 500, 10),
    Network("alexnet", _model("alexnet"), (3, 224, 224), 8, 1000, random=True),
    Network("overfeat", _model("overfeat"), (3, 231, 231), 4, 1000, random=True),
    Network("vgg16", _model("vgg16"), (3, 224, 224), 2, 1000, random=True),
    Network("googlenet", _model("googlenet"), (3, 224, 224), 4, 1000, random=True),
    Network("resnet50", _model("resnet50"), (3, 224, 224), 4, 1000),
    Network("gpt", _model("gpt", 256), (128,), 4, 256, integers=256),
    Network("long-gpt", _model("gpt", 256, max_length=1024), (1024,), 2, 256, integers=256),
    Network("lstm", _model("character_lstm", 96), (64,), 16, 96, integers=96),
)


@dataclass(frozen=True)
class NetworkCase:
    """A use of a network: a training step, or inference on a batch."""

    network: Network
    what: str
    batch: int

    @property
    def name(self) -> str:
        """The name of the case on the command line."""
        return f"{self.network.name}-{self.what}-{self.batch}"


CASES: Final = tuple(
    NetworkCase(n, what, batch)
    for n in NETWORKS
    for what, batch in (("train", n.batch), ("infer", 1), ("infer", n.batch))
)


def bench_networks(
    *,
    cases: Sequence[str] = tuple(c.name for c in CASES),
    systems: Sequence[str] = SYSTEMS,
    threads: int = 1,
    rounds: int = 7,
    budget: float = 60.0,
    slow_forms: bool = False,
    note: Note = lambda text: None,
) -> list[Row]:
    """Measure networks.

    Args:
        cases: names of CASES, or what they begin with.
        systems: any of SYSTEMS; those that are not installed are left out with a note.
        threads: processors for everyone.
        rounds: repetitions of each; short calls are made many times in one.
        budget: seconds for a case after which no further round starts.
        slow_forms: also forms whose first call takes minutes.
        note: called with lines about progress.
    Returns:
        One row per case, system and form; times are of one call.
    """
    limit_threads(threads)
    rows: list[Row] = []
    for case in CASES:
        if any(case.name.startswith(c) for c in cases):
            contenders = [
                Contender(case.name, s, form, "float32", threads, partial(_prepare, case, s, form))
                for s in SYSTEMS
                if s in systems
                for form in _forms(case, s, slow_forms)
            ]
            rows += measure(contenders, rounds=rounds, budget=budget, tolerance=2e-3, note=note)
    return rows


def _forms(case: NetworkCase, system: str, slow: bool) -> list[str]:
    return [
        form
        for form in FORMS[system]
        if (slow or form != "compile") and (len(case.network.takes) == 3 or IMAGES_ONLY not in form)
    ]


def _prepare(case: NetworkCase, system: str, form: str) -> Runner:
    return Repeated(call_of(case, system, form))


def call_of(case: NetworkCase, system: str, form: str) -> Callable[[], Any]:
    """The call that a case measures; its first compiles."""
    module = import_module(f"benchmarks.systems.networks_{system}")
    net = case.network.on()
    parameters, state = net.init(seed=0)
    x, target = case.network.inputs(case.batch)
    if case.what == "infer":
        found: Callable[[], Any] = module.infer(net, form, parameters, state, x)
        return found
    call = module.train(net, form, parameters, state, x, target, RATE)
    return _without_result(call) if case.network.random else call


def _without_result(call: Callable[[], Any]) -> Callable[[], Any]:
    """Hide the result of a random call from comparison."""

    def made() -> Any:
        return np.array(np.isfinite(call()))

    return made


# Memory ---------------------------------------------------------------------------------------------------------


def peak(case: str, system: str, form: str, threads: int = 1) -> int | None:
    """Bytes that a process holds at most while it makes two calls, beyond what it held before the first.

    Parameters and inputs count as held. None where the system says no.
    """
    command = [sys.executable, "-m", MEASURED, case, system, form, str(threads)]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=False)
    return int(json.loads(done.stdout.splitlines()[-1])["peak"]) if done.returncode == 0 else None


def _held(what: str) -> int:
    """VmRSS or VmHWM of this process in bytes."""
    line = next(t for t in Path("/proc/self/status").read_text().splitlines() if t.startswith(what))
    return 1024 * int(line.split()[1])


def _measured(name: str, system: str, form: str, threads: int) -> int:
    limit_threads(threads)
    case = next(c for c in CASES if c.name == name)
    call = call_of(case, system, form)
    call()  # compiles, which takes memory of its own
    _release()
    before = _held("VmRSS")
    Path("/proc/self/clear_refs").write_text(LOWEST)
    for _ in range(2):
        call()
    return _held("VmHWM") - before


def _release() -> None:
    """Give back what is kept between calls: else what the first call took would count as held."""
    gc.collect()
    idle = arenas()
    idle.keep_idle(0)
    idle.give_back(*idle.lend(1))  # of those nobody uses only the last stays
    idle.keep_idle(most_idle())
    ctypes.CDLL(None).malloc_trim(0)


# The table ------------------------------------------------------------------------------------------------------

HEAD = ("case", "pullback ms", "first s", "jax ms", "first s", "torch ms", "first s", "best peer's time by ours")


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """One line per case: the fastest form of each system."""
    out = []
    for case in dict.fromkeys(row["case"] for row in rows):
        best: dict[str, Row] = {}
        for row in rows:
            known = best.get(row["system"])
            if row["case"] == case and (known is None or row["median"] < known["median"]):
                best[row["system"]] = row
        found = [
            cell
            for s in SYSTEMS
            for cell in ((f"{1e3 * best[s]['median']:.2f}", f"{best[s]['first_call']:.2f}") if s in best else ("", ""))
        ]
        peers = [best[s]["median"] for s in SYSTEMS[1:] if s in best]
        ratio = f"{min(peers) / best['pullback']['median']:.2f}" if peers and "pullback" in best else ""
        out.append((case, *found, ratio))
    return out



if __name__ == "__main__":
    name, system, form, threads = sys.argv[1:]
    print(json.dumps({"peak": _measured(name, system, form, int(threads))}))
