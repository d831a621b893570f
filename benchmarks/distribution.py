"""The cost of distribution: constants of this machine, a model, and runs to check it.

    python -m benchmarks.distribution                      # writes results/distribution.md
    python -m benchmarks.distribution --quick              # small networks, prints

The program is a mixture of 16 experts that live in processes (`lazy.remote`). The model is `mixture` below. What it
takes from a run here are the constants, what it is checked with are runs with two and four processes, interleaved,
medians. For machines that are not here the link between them is given: the software's constants stay, bytes take
longer.
`benchmarks.cluster` is the same for `nn.fit(workers=N)`.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import ray

from benchmarks.harness import turns
from pullback import lazy, nn
from pullback.cluster import Process, answer

RESULTS = Path(__file__).parent / "results" / "distribution.md"
EXPERTS = 16


@dataclass(frozen=True)
class Constants:
    """Seconds, and seconds a byte.

    Attributes:
        node: what an expert costs in a step beside its bytes and its kernels: its node here, and the messages.
        there, back: a byte of an argument, and of an answer.
        cores: of a machine; beside runs, those that other programs left: what two processes did, of what one did.
    """

    node: float
    there: float
    back: float
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
    held = [Process(f"echo {k}", Echo, options={}) for k in range(1)]
    mega = np.zeros(1 << 20, np.uint8)

    def ask(method: str, *arguments: Any) -> Any:
        return answer(held[0].ask(method, *arguments), "echo")

    alone = seconds(lambda: ask("nothing"), 200)
    there = (seconds(lambda: ask("nothing", mega), 50) - alone) / mega.size
    back = (seconds(lambda: np.array(ask("zeros", mega.size)), 50) - alone) / mega.size
    worker = lazy.Worker("small")
    net, optimizer = nn.dense(1).on("N 1"), nn.sgd(0.0)
    small = [lazy.remote(net, name=f"small{k}", optimizer=optimizer, worker=worker) for k in range(EXPERTS)]
    node = seconds(stepped(small, np.ones((1, 1), np.float32)), 15) / EXPERTS
    for p in held:
        p.end()
    worker.end()
    return Constants(node, there, back, float(os.cpu_count() or 1))


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


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def cluster(c: Constants, latency: float, bandwidth: float) -> Constants:
    """The constants of linked machines: messages wait for each other's latency, not for all."""
    link = 1 / bandwidth
    return replace(c, there=c.there + link, back=c.back + link, node=c.node + latency)


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
    finally:
        ray.shutdown()
    far = cluster(c, 5e-5, 1.25e9)
    nodes = (1, 2, 4, 10, 30, 100, 300, 1000)
    ahead = []
    for n in nodes:
        k = c if n == 1 else far
        dense = mixture(k, 2 * n, n, kernel, size, EXPERTS * n)
        sparse = mixture(k, 2 * n, n, kernel, size, EXPERTS)
        ahead.append((f"{n}", f"{EXPERTS * n}", f"{dense * 1e3:.0f}", f"{sparse * 1e3:.0f}"))
    text = f"""\
# Distribution

`python -m benchmarks.distribution` makes this page. This run had {os.cpu_count()} cores, \
Ray {ray.__version__}, and a load of {before:.1f} when it began. Figures are medians of interleaved runs.

{
        table(
            ["constant", "here"],
            [
                ("an expert in a step, beside bytes and kernels", f"{c.node * 1e6:.0f} µs"),
                ("cores that were free: what two processes did together", f"{first:.2f}"),
                ("arguments", f"{1e-9 / c.there:.1f} GB/s"),
                ("answers", f"{1e-9 / c.back:.1f} GB/s"),
                ("an expert forward and backward", f"{kernel * 1e3:.1f} ms"),
                ("a call, each way", f"{size / 1e6:.2f} MB"),
            ],
        )
    }
Milliseconds of a step of a mixture of {EXPERTS} experts, all used:

{table(["processes", "measured", "model", "ratio"], mixed)}
The model's figures for linked machines. Each is like this one, with all cores free and two processes. Links have \
10 Gbit/s and 50 µs:

{table(["machines", "experts", "all used, ms a step", f"{EXPERTS} used, ms a step"], ahead)}"""
    print(text)
    if not quick:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
