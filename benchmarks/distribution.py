"""The cost of distribution: constants of this machine, a model, and runs to check it.

    python -m benchmarks.distribution                      # writes results/distribution.md
    python -m benchmarks.distribution --quick              # small networks, prints

Two programs: a mixture of 16 experts that live in processes (`lazy.remote`), and training whose gradients processes
compute (`nn.fit(workers=N)`). The model is `mixture` and `fit` below; what it takes from a run here are the constants,
what it is checked with are runs with two and four processes, interleaved, medians. For machines that are not here the
link between them is given: the software's constants stay, bytes take longer.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ray

from benchmarks.harness import turns
from pullback import lazy, nn
from pullback.cluster import Process, answer, sent
from pullback.nn.training.shared import SharedUpdates
from pullback.nn.training.step import Carry

RESULTS = Path(__file__).parent / "results" / "distribution.md"
EXPERTS = 16


@dataclass(frozen=True)
class Constants:
    """Seconds, and seconds a byte.

    Attributes:
        part: what a part of a batch costs beside its bytes and its kernels: a message, its answer, what they wait for.
        node: the same of an expert in a step: its node here, messages forward, backward and for the update.
        there, back: a byte of an argument, and of an answer.
        shared: a byte of what is sent once to each machine.
        cores: of a machine; beside runs, those that other programs left: what two processes did, of what one did.
    """

    part: float
    node: float
    there: float
    back: float
    shared: float
    cores: float


class Echo:
    """A process that gives arrays back."""

    def nothing(self, *_: Any) -> None:
        """A message."""

    def work(self) -> None:
        """Some work."""
        a = np.ones((300, 300))
        for _ in range(60):
            np.sin(a)

    def zeros(self, count: int, *_: Any) -> Any:
        """An answer of so many bytes."""
        return np.zeros(count, np.uint8)


def mixture(c: Constants, processes: int, machines: int, kernel: float, size: int, used: int = EXPERTS) -> float:
    """The seconds of a step in which `used` experts have a call of `size` bytes each way, both passes.

    Experts run one after another in their process, and processes that are more than cores share these. Messages go
    through one driver, and bytes of all calls through its link.
    """
    rounds = -(-used // processes)
    crowd = max(1.0, min(processes, used) / min(machines, used) / c.cores)
    return used * (c.node + 2 * size * (c.there + c.back)) + rounds * kernel * crowd


def fit(
    c: Constants, processes: int, machines: int, sample: float, batch: int, parameters: int, update: float
) -> float:
    """Seconds of an update: parameters out, gradients of the parts in and added up, one update here."""
    part = -(-batch // processes)
    crowd = max(1.0, processes / machines / c.cores)
    return (
        machines * parameters * c.shared + processes * (c.part + parameters * c.back) + part * sample * crowd + update
    )


def seconds(f: Callable[[], Any], repeat: int = 7) -> float:
    """The median of some runs after one."""
    f()
    return statistics.median(turns([f], repeat)[0])


def together(runs: dict[str, Callable[[], Any]], repeat: int) -> dict[str, float]:
    """Medians of runs that take turns."""
    times = turns(list(runs.values()), repeat + 1)
    return {name: statistics.median(own[1:]) for name, own in zip(runs, times, strict=True)}


def measured_constants() -> Constants:
    """The constants of this machine."""
    held = [Process(f"echo {k}", Echo, options={}) for k in range(4)]
    mega = np.zeros(1 << 20, np.uint8)

    def ask(method: str, *arguments: Any) -> Any:
        return answer(held[0].ask(method, *arguments), "echo")

    def parts() -> None:
        given = sent([np.zeros(1000)])
        for r in [p.ask("zeros", 8000, given, np.zeros(1000)) for p in held]:
            answer(r, "echo")

    part = seconds(parts, 50) / len(held)
    alone = seconds(lambda: ask("nothing"), 200)
    there = (seconds(lambda: ask("nothing", mega), 50) - alone) / mega.size
    back = (seconds(lambda: np.array(ask("zeros", mega.size)), 50) - alone) / mega.size
    shared = seconds(lambda: sent(mega), 50) / mega.size
    worker = lazy.Worker("small")
    net, optimizer = nn.dense(1).on("N 1"), nn.sgd(0.0)
    small = [lazy.remote(net, name=f"small{k}", optimizer=optimizer, worker=worker) for k in range(EXPERTS)]
    node = seconds(stepped(small, np.ones((1, 1), np.float32)), 15) / EXPERTS
    for p in held:
        p.end()
    worker.end()
    return Constants(part, node, there, back, shared, float(os.cpu_count() or 1))


def with_cores(c: Constants, runs: dict[str, Callable[[], Any]], repeat: int) -> tuple[Constants, dict[str, float]]:
    """Medians of interleaved runs, and the free cores meanwhile, from work in one and two processes."""
    held = [Process(f"echo {k}", Echo, options={}) for k in range(2)]

    def work(count: int) -> Callable[[], None]:
        def run() -> None:
            for r in [p.ask("work") for p in held[:count]]:
                answer(r, "echo")

        return run

    times = together({**runs, "one": work(1), "two": work(2)}, repeat)
    for p in held:
        p.end()
    cores = 2 * times.pop("one") / times.pop("two")
    return replace(c, cores=max(1.0, min(c.cores, cores))), times


def stepped(experts: Sequence[Any], x: Any) -> Callable[[], None]:
    """A step of a mixture."""

    def run() -> None:
        w = lazy.Weight(x)
        y = sum(e(w) for e in experts)
        lazy.backward(lazy.mean(y * y))
        for e in experts:
            e.update()
        for e in experts:
            e.wait()

    return run


def mixtures(c: Constants, width: int, batch: int, repeat: int) -> tuple[list[Sequence[str]], float, int, float]:
    """Rows of measured and predicted steps, an expert's kernel time, bytes per call, and free cores."""
    net = nn.sequential(nn.dense(4 * width), nn.relu, nn.dense(width)).on(f"N {width}")
    x = np.random.default_rng(0).normal(size=(batch, width)).astype(np.float32)
    groups = {n: lazy.workers(n) for n in (1, 2, 4)}

    def expert(n: int, k: int) -> Any:
        return lazy.remote(net, seed=k, name=f"{n}/{k}", worker=groups[n][k % n], optimizer=nn.sgd(0.01))

    experts = {n: [expert(n, k) for k in range(EXPERTS)] for n in groups}
    c, times = with_cores(c, {str(n): stepped(own, x) for n, own in experts.items()}, repeat)
    size = x.nbytes
    kernel = (times["1"] - mixture(c, 1, 1, 0.0, size)) / EXPERTS
    for w in (w for held in groups.values() for w in held):
        w.end()
    return checked(times, lambda n: mixture(c, n, 1, kernel, size)), kernel, size, c.cores


def checked(times: dict[str, float], model: Callable[[int], float]) -> list[Sequence[str]]:
    """Measured and predicted milliseconds by process count; kernel time is that of one process."""
    return [(n, f"{t * 1e3:.0f}", f"{model(int(n)) * 1e3:.0f}", f"{t / model(int(n)):.2f}") for n, t in times.items()]


def fits(c: Constants, width: int, batch: int, repeat: int) -> tuple[list[Sequence[str]], float, int, float, float]:
    """Rows of measured and predicted updates, then sample, parameter bytes, update time, and free cores."""
    net = nn.sequential(nn.dense(width), nn.relu, nn.dense(width), nn.relu, nn.dense(10)).on(f"N {width}")
    r = np.random.default_rng(0)
    data = r.normal(size=(1, batch, width)).astype(np.float32), r.integers(0, 10, (1, batch))
    parameters, state = net.init(0)
    optimizer = nn.adam(1e-3)
    start = Carry(parameters, state, optimizer.init(parameters))
    shared = {n: SharedUpdates(nn.objective(net, nn.cross_entropy), optimizer, start, n) for n in (1, 2, 4)}
    c, times = with_cores(c, {str(n): partial(u, data, 0) for n, u in shared.items()}, repeat)
    bytes_ = sum(a.nbytes for layer in parameters.values() for a in layer.values())
    own = shared[1]
    gradient = answer(own.processes[0].ask("gradient", (parameters, state), tuple(a[0] for a in data)), "one")[1]
    given = parameters, [np.array(g) for g in gradient]
    like = {k: {n: given[1].pop(0) for n in sorted(layer)} for k, layer in sorted(parameters.items())}
    update = seconds(lambda: own._applied(own.arrays, like, state, np.array(0), out=own.arrays), repeat)
    fixed = fit(c, 1, 1, 0.0, batch, bytes_, update)
    sample = (times["1"] - fixed) / batch
    for u in shared.values():
        u.end()
    return checked(times, lambda n: fit(c, n, 1, sample, batch, bytes_, update)), sample, bytes_, update, c.cores


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def cluster(c: Constants, latency: float, bandwidth: float) -> Constants:
    """The constants of linked machines: messages wait for each other's latency, not for all."""
    link = 1 / bandwidth
    return replace(c, there=c.there + link, back=c.back + link, shared=c.shared + link, node=c.node + latency)


def main() -> None:
    """Measure, check and extrapolate."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    before = os.getloadavg()[0]
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    try:
        c = measured_constants()
        width, repeat = (128, 3) if quick else (512, 11)
        mixed, kernel, size, first = mixtures(c, width, 256, repeat)
        fitted, sample, parameters, update, second = fits(c, width if quick else 1024, 512, repeat)
    finally:
        ray.shutdown()
    far = cluster(c, 5e-5, 1.25e9)
    nodes = (1, 2, 4, 10, 30, 100, 300, 1000)
    ahead, samples = [], []
    for n in nodes:
        k = c if n == 1 else far
        dense = mixture(k, 2 * n, n, kernel, size, EXPERTS * n)
        sparse = mixture(k, 2 * n, n, kernel, size, EXPERTS)
        ahead.append((f"{n}", f"{EXPERTS * n}", f"{dense * 1e3:.0f}", f"{sparse * 1e3:.0f}"))
        t, large = (fit(k, 2 * n, n, sample, 512 * n, parameters, update), 64 * 512)
        same = fit(k, 2 * n, n, sample, large, parameters, update)
        samples.append((f"{n}", f"{512 * n / t:.0f}", f"{large / same:.0f}"))
    text = f"""\
# Distribution

`python -m benchmarks.distribution` makes this page. This run had {os.cpu_count()} cores, \
Ray {ray.__version__}, and a load of {before:.1f} when it began. Figures are medians of interleaved runs.

{
        table(
            ["constant", "here"],
            [
                ("a part of a batch, beside bytes and kernels", f"{c.part * 1e6:.0f} µs"),
                ("an expert in a step, likewise", f"{c.node * 1e6:.0f} µs"),
                ("cores that were free: what two processes did together", f"{first:.2f}, {second:.2f}"),
                ("arguments", f"{1e-9 / c.there:.1f} GB/s"),
                ("answers", f"{1e-9 / c.back:.1f} GB/s"),
                ("what is sent once to each machine", f"{1e-9 / c.shared:.1f} GB/s"),
                ("an expert forward and backward", f"{kernel * 1e3:.1f} ms"),
                ("a call, each way", f"{size / 1e6:.2f} MB"),
                ("a sample of the network that is trained", f"{sample * 1e6:.0f} µs"),
                ("its parameters", f"{parameters / 1e6:.1f} MB"),
                ("an update of them", f"{update * 1e3:.1f} ms"),
            ],
        )
    }
Milliseconds of a step of a mixture of {EXPERTS} experts, all used:

{table(["processes", "measured", "model", "ratio"], mixed)}
Milliseconds of an update, in training with a batch of 512:

{table(["processes", "measured", "model", "ratio"], fitted)}
The model's figures for linked machines. Each is like this one, with all cores free and two processes. Links have \
10 Gbit/s and 50 µs:

{table(["machines", "experts", "all used, ms a step", f"{EXPERTS} used, ms a step"], ahead)}
{table(["machines", "samples/s, 512 for each machine", "samples/s, 32,768 in all"], samples)}"""
    print(text)
    if not quick:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
