"""The cost of training with several workers: messages, steps, a model, and where it pays off.

    python -m benchmarks.cluster                      # writes results/cluster.md
    python -m benchmarks.cluster --quick              # fewer sizes and rounds, prints

Messages are timed between two workers of `nn.fit`, and through the driver as a comparison. Steps are those of three
networks in one process with one and two threads, and with one and two workers. All runs of a network take turns.
Figures are the best of the rounds, as other programs use the same cores. The model is `step`. It takes the times of a
worker's own computation, which are measured in this process, and the constants of messages. What it is checked with are
the runs of two workers.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import ray

from benchmarks.harness import turns
from pullback import nn
from pullback.cluster import Process, answer, host, sent
from pullback.data.loader import Samples
from pullback.nn import models
from pullback.nn.models import zhang
from pullback.nn.training.feeds import Rows
from pullback.nn.training.links import Links
from pullback.nn.training.reduction import seconds_of_sum
from pullback.nn.training.replica import Replica
from pullback.nn.training.shared import SharedUpdates, Workers
from pullback.nn.training.step import Carry, Updates, stack_size
from pullback.tracing import tree

RESULTS: Final = Path(__file__).parent / "results" / "cluster.md"
SIZES: Final = (10**3, 10**4, 10**5, 10**6, 10**7, 10**8)
MEGABYTES: Final = (0.001, 0.01, 0.1, 1, 10, 100)
SAMPLES: Final = 4096


@dataclass(frozen=True)
class Constants:
    """The constants of messages.

    Attributes:
        latency, bandwidth: seconds of a message between workers, and bytes per second.
        request: seconds of a request of the driver to all workers.
        cores: the cores that other programs leave free.
    """

    latency: float
    bandwidth: float
    request: float
    cores: float = 2.0


@dataclass(frozen=True)
class Computation:
    """A worker's own work.

    Attributes:
        part: seconds of the gradients of half a batch.   update: seconds of an update.
        size: bytes of the gradients.   stack: updates for each request.
    """

    part: float
    update: float
    size: int
    stack: int


class Echo:
    """A worker that exchanges bytes with another one."""

    def __init__(self) -> None:
        self.links = Links(host())

    def address(self) -> Any:
        """The address for its peer."""
        return self.links.address

    def join(self, rank: int, addresses: Any) -> None:
        """Connect."""
        self.links.join(rank, addresses, b"0123456789abcdef")

    def exchange(self, size: int, repeat: int) -> float:
        """The fastest of some exchanges of so many bytes in both directions at once."""
        out, into, other = np.zeros(size, np.uint8), np.zeros(size, np.uint8), 1 - self.links.rank

        def run() -> None:
            self.links.exchange([(other, out)], [(other, into)])

        run()
        return min(turns([run], repeat)[0])

    def work(self) -> None:
        """Some work."""
        a = np.ones((300, 300))
        for _ in range(60):
            np.sin(a)

    def back(self, x: Any) -> Any:
        """Return the argument."""
        return x


def step(c: Constants, w: Computation, workers: int = 2) -> float:
    """The seconds of an update with as many parts as workers."""
    total = min(seconds_of_sum(w.size, workers, workers, c.latency, c.bandwidth))
    return (w.part + w.update) * max(1.0, workers / c.cores) + total + c.request / w.stack


def messages(sizes: Sequence[int], repeat: int) -> tuple[Constants, list[Sequence[str]]]:
    """The constants, and rows of seconds by size: between workers, and through the driver."""
    held = [Process(f"echo {k}", Echo, options={}) for k in range(2)]

    def both(method: str, arguments: Sequence[Any]) -> list[Any]:
        return [answer(r, "echo") for r in [p.ask(method, *given) for p, given in zip(held, arguments)]]

    addresses = both("address", [(), ()])
    both("join", [(k, addresses) for k in range(2)])
    direct = {n: max(both("exchange", [(n, max(3, min(repeat, 10**9 // n)))] * 2)) for n in sizes}
    through = {}
    for n in sizes:
        own = np.zeros(n, np.uint8)

        def run(own: Any = own) -> None:
            given = sent(own)
            for r in [p.ask("back", given) for p in held]:
                np.array(answer(r, "echo"))

        run()
        through[n] = min(turns([run], max(3, min(repeat, 10**8 // n)))[0])
    request = min(turns([lambda: both("back", [(0,), (0,)])], repeat)[0])
    one, two = turns([lambda: answer(held[0].ask("work"), "echo"), lambda: both("work", [(), ()])], 21)
    cores = max(1.0, min(2.0, 2 * min(one) / min(two)))
    for p in held:
        p.end()
    latency = direct[sizes[0]]
    large = sizes[-1]
    c = Constants(latency, large / (direct[large] - latency), request, cores)
    model = {n: latency + n / c.bandwidth for n in sizes}
    rows: list[Sequence[str]] = [(f"{n:,}", *(_time(t[n]) for t in (direct, model, through))) for n in sizes]
    return c, rows


Network = tuple[str, Callable[[], tuple[Any, Any, Any]], int]


def networks(quick: bool) -> list[Network]:
    """Names, functions that give a loss with parameters and state, and batch sizes."""

    def layered(net: Any) -> tuple[Any, Any, Any]:
        return (nn.objective(net, nn.cross_entropy), *net.init(0))

    found: list[Network] = [
        ("Zhang", lambda: (zhang.batch_loss, zhang.start(), {}), 64),
        ("LeNet", lambda: layered(models.lenet().on("N 1 28 28")), 64),
        ("ResNet-18, width 1/4", lambda: layered(models.resnet18(10, width_mult=0.25).on("N 3 32 32")), 32),
    ]
    return found[:2] if quick else found


def steps(c: Constants, network: Network, rounds: int) -> tuple[Sequence[str], Computation]:
    """A row of milliseconds: one process with one and two threads, workers, and the model for two."""
    name, make, batch = network
    loss, parameters, state = make()
    shape = {"Zhang": (28, 28), "LeNet": (1, 28, 28)}.get(name, (3, 32, 32))
    r = np.random.default_rng(0)
    data = r.normal(size=(SAMPLES, *shape)).astype(np.float32), r.integers(0, 10, SAMPLES).astype(np.uint8)
    optimizer = nn.sgd(1e-4, momentum=0.9)
    carry = Carry(parameters, state, optimizer.init(parameters))
    source = Samples(data, batch)
    first = tree.map_leaves(lambda x: x[0], source.stacked(0, 0, 1))

    def shared(workers: int) -> SharedUpdates:
        crew = Workers(workers, parts=2)
        return SharedUpdates(loss, optimizer, carry, crew, source, first, Rows(source), threads=1)

    engines: list[Updates] = [*(Updates(loss, optimizer, carry, threads=t) for t in (1, 2)), shared(1), shared(2)]
    runs, counts = [], []
    for updates in engines:
        count = stack_size(updates.seconds(first), source.whole or 1)
        loaded = updates.loader(source)[0](0, 0, count)
        runs.append(partial(updates, loaded, 0))
        counts.append(count)
    for run in runs:  # compile
        run()
    best = [min(own) / n for own, n in zip(turns(runs, rounds), counts, strict=True)]
    for updates in engines:
        updates.end()
    work = computation(loss, optimizer, carry, Rows(source), counts[-1], rounds)
    row = (name, f"{batch}", f"{work.size / 1e6:.2f}", *map(_time, best), _time(step(c, work)),
           f"{best[3] / step(c, work):.2f}", f"{best[0] / best[3]:.2f}")  # fmt: skip
    return row, work


def computation(loss: Any, optimizer: Any, carry: Carry, feed: Rows, stack: int, rounds: int) -> Computation:
    """Time a worker's own work in this process."""
    leaves, structure = tree.flatten(carry)
    own = Replica(loss, bool(tree.flatten(carry.state)[0]), optimizer, structure, feed, {"threads": 1})
    own.join(0, [own.listen()], b"0123456789abcdef", 2)
    own.take(leaves)
    half = feed.part((0, 0), 0, 2)

    def part() -> None:
        found = own._gradient(carry.parameters, carry.state, half)
        own._layout.put(own._total, tree.flatten(found)[0], 0.5, True)

    def update() -> None:
        _, gradients, state = own._sum
        state = state if own.stateful else carry.state
        own._applied(own.arrays, gradients, state, np.array(0, np.int64), out=own.arrays)

    for run in (part, update):
        run()
    times = turns([part, update], max(rounds, 15))
    own.links.close()
    return Computation(min(times[0]), min(times[1]), own._layout.size, stack)


def worth(c: Constants, workers: int) -> list[Sequence[str]]:
    """Rows of gradient sizes with the batch times from which workers pay off."""
    rows: list[Sequence[str]] = []
    for mega in MEGABYTES:
        total = min(seconds_of_sum(int(mega * 1e6), workers, workers, c.latency, c.bandwidth)) + c.request
        even = total / (1 - 1 / workers)
        most = total / (1 / (0.75 * workers) - 1 / workers)
        rows.append((f"{mega:g} MB", _time(total), _time(even), _time(most)))
    return rows


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def main() -> None:
    """Measure, check and extrapolate."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    before = os.getloadavg()[0]
    os.environ.setdefault("RAY_worker_niceness", str(os.nice(0)))  # as this process; Ray's own is 15
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    try:
        c, sent_rows = messages(SIZES[:5] if quick else SIZES, 20 if quick else 200)
        stepped = [steps(c, network, 5 if quick else 15)[0] for network in networks(quick)]
    finally:
        ray.shutdown()
    far = Constants(c.latency + 5e-5, 1.25e9, c.request + 1e-4)
    head = ["gradients", "sum and request", "faster than one process from", "3/4 of the ideal from"]
    text = f"""\
# Training with several workers

`python -m benchmarks.cluster` makes this page. This run had {os.cpu_count()} cores, Ray {ray.__version__}, and a \
load of {before:.1f} when it began. Figures are the best of some rounds in which runs take turns.

Bytes that two workers exchange, both ways at once, and the same bytes sent to both by the driver and back:

{table(["bytes", "between workers", "model", "through the driver"], sent_rows)}
The model is {_time(c.latency)} + bytes / ({c.bandwidth / 1e9:.2f} GB/s). A request of the driver to both workers, \
without data, takes {_time(c.request)}. Two processes did together what {c.cores:.2f} free cores do.

A step. One process runs whole batches; workers run two parts of each. The model is for two workers on these cores:

{
        table(
            ["network", "batch", "gradients, MB", "1 thread", "2 threads", "1 worker", "2 workers", "model",
             "measured / model", "speed of 2 workers"],
            stepped,
        )
    }
From which time of a batch's gradients in one process workers pay off, with a core or a machine for each. Two workers \
on this machine:

{table(head, worth(c, 2))}
Eight machines with links of 10 Gbit/s and 50 µs, by the model:

{table(head, worth(far, 8))}"""
    print(text)
    if not quick:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
