"""Data-parallel updates: several workers compute gradients, each of its parts of the batch.

Every worker holds a replica of parameters and states (`replica.Replica`). The workers add their gradients up among
themselves. This process, the driver, sends them the numbers of batches, and gets losses. It has the arrays only where
they are needed: for a checkpoint, for validation and for callbacks.

If a worker is lost, the others notice it by their connections and report how many updates they have made. All go on
from the arrays of one that has made the most. So no update is lost, and none is made twice.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from pullback.cluster import LostError, Process, answer, sent
from pullback.data import Batches
from pullback.data.loader import Samples
from pullback.errors import UsageError, counted
from pullback.nn.training.devices import Devices
from pullback.nn.training.feeds import Feed, Given, Rows, given
from pullback.nn.training.reduction import parts_of
from pullback.nn.training.replica import Done, Replica
from pullback.nn.training.step import BACKWARD, Carry, Updates, pair, seconds_of
from pullback.tracing import tree

__all__ = ["SharedUpdates", "Workers", "feed_of"]

REMEDY: Final = '`fit(…, save="folder")`: called again, it goes on from the last checkpoint there'
MESSAGE: Final = 5e-4  # seconds of a request to a worker, see benchmarks/results/cluster.md
PATIENCE: Final = 60.0  # seconds until a replaced worker answers
ATTEMPTS: Final = 3  # to connect the workers


@dataclass(frozen=True)
class Workers:
    """The processes of `fit(…, workers=…)`, on this machine or on the cluster of `ray.init`.

    Each batch is cut into numbered parts. Gradients are added in the order of the parts. So the parts determine the
    result, to the last bit, and the number of workers does not.

    Args:
        count: the number of processes.
        parts: the number of parts of each batch: by default those of the checkpoint that the run continues from, or one
            for each worker.
        restarts: how often a lost worker is started again. After that, training goes on without it.
        options: options of a Ray actor, such as `{"num_cpus": 4}`.
    Raises:
        UsageError: [E518] a number is out of range.

    >>> from pullback import nn
    >>> nn.Workers(2, parts=8)
    Workers(count=2, parts=8, restarts=1, options={})
    """

    count: int
    parts: int | None = None
    restarts: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _is_whole(self.count) or self.count < 1:
            raise UsageError("E518", f"fit: workers={self.count}",
                             remedy="the number of processes, or None for this one")  # fmt: skip
        if self.parts is not None and (not _is_whole(self.parts) or self.parts < self.count):
            raise UsageError("E518", f"Workers: parts={self.parts} for {counted(self.count, 'worker')}",
                             remedy="at least one part for each worker")  # fmt: skip
        if not _is_whole(self.restarts) or self.restarts < 0:
            raise UsageError("E518", f"Workers: restarts={self.restarts}", remedy="a number of at least 0")


def _is_whole(x: Any) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


class Tickets(list[tuple[int, int]]):
    """The epochs and numbers of batches that workers load."""


@dataclass
class Member:
    """A worker: its number, its process, and how often it was lost."""

    number: int
    process: Process
    lost: int = 0


def feed_of(source: Batches, shards: Feed | None) -> Feed:
    """The source of parts for workers: their shards, data that each has, or the driver's iterable."""
    return shards or (Rows(source) if isinstance(source, Samples) else Given())


class SharedUpdates(Updates):
    """Parallel updates, equal to those of one process within rounding.

    Args:
        loss, optimizer, carry, options: as for `Updates`.
        workers: the processes.
        source: the batches.
        batch: the first batch.
        feed: what workers load batches from.
        devices: a device for each worker; None for that of the options.
    """

    def __init__(
        self, loss: Callable[..., Any], optimizer: Any, carry: Carry, workers: Workers, source: Batches, batch: Any,
        feed: Feed, devices: Devices | None = None, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(loss, optimizer, carry, **options)
        self.devices = devices
        self.workers, self.source, self.feed = workers, source, feed
        self.parts = workers.parts or workers.count
        self.members: list[Member] = []
        self._joined = False
        self._given = False  # whether workers have these arrays
        self._known = True  # whether these arrays are those of the workers
        self._uneven = False  # whether unequal shards were reported
        self._lost = LostError("E711", "fit: all workers are lost", remedy=REMEDY)
        self._addresses: list[str] = []
        self._attempts = 0
        self._program = pb.function(lambda parameters, state, batch: pair(loss(parameters, state, batch))).program(
            carry.parameters, carry.state, batch
        )

    # What training asks for -----------------------------------------------------------------------------------

    @property
    def carry(self) -> Carry:
        """The current arrays, fetched from a worker."""
        if not self._known:
            self._fetch(self.members)
        found: Carry = tree.unflatten(self.structure, self.arrays)
        return found

    def seconds(self, batch: Any) -> float:
        """Estimate the seconds of one update; a request to workers is a call."""
        return max(MESSAGE, BACKWARD * seconds_of(self._program) / self.workers.count)

    def loader(self, source: Batches) -> tuple[Callable[..., Any], Callable[..., bool]]:
        """The functions that load batches, or else the tickets of batches that workers load."""
        if isinstance(self.feed, Given):
            return super().loader(source)
        return lambda epoch, first, count: Tickets((epoch, first + k) for k in range(count)), lambda *request: True

    def batches(self, loaded: Any) -> Any:
        """The stacked batches of a load, for messages; nothing of shards, which are not here."""
        if not isinstance(loaded, Tickets):
            return loaded
        return self.source.stacked(*loaded[0], len(loaded)) if isinstance(self.source, Samples) else ()

    def scale_learning_rate(self, before: float, after: float) -> None:
        """Set the factor of a `Scaled` optimizer."""
        super().scale_learning_rate(before, after)
        self._given = self._given and before == after

    def __call__(self, loaded: Any, step: int) -> NDArray[Any]:
        """Make an update for each batch; return the losses, none at the end of an epoch of shards."""
        count = len(loaded) if isinstance(loaded, Tickets) else len(tree.flatten(loaded)[0][0])
        losses: list[float] = []
        while len(losses) < count:
            self._prepare(step + len(losses))
            found = self._all("steps", [(self._tickets(loaded, len(losses), rank), step + len(losses))
                                        for rank in range(len(self.members))])  # fmt: skip
            done = self._settled(found, step + len(losses))
            losses += done.losses
            if done.left and done.intact:
                self._report(done.left, step + len(losses))
                break
        return np.array(losses)

    def end(self) -> None:
        """End the processes."""
        for m in self.members:
            m.process.end()
        self.members = []

    def _tickets(self, loaded: Any, done: int, rank: int) -> Sequence[Any]:
        """The tickets of the remaining batches for a worker."""
        if isinstance(loaded, Tickets):
            return loaded[done:]
        mine = parts_of(rank, len(self.members), self.parts)
        count = len(tree.flatten(loaded)[0][0])
        return [given(tree.map_leaves(lambda x, k=k: x[k], loaded), mine, self.parts) for k in range(done, count)]

    def _report(self, left: Sequence[int], step: int) -> None:
        """Say once that shards are unequal."""
        if any(left) and not self._uneven:
            self._uneven = True
            ended = [k for k, n in enumerate(left) if not n]
            _say(
                f"shard {', '.join(map(str, ended))} of the data ended after {counted(step, 'update')}, and others did "
                "not. An epoch ends with its shortest shard, so the rest of the others is not used in it"
            )

    # Workers that are lost ------------------------------------------------------------------------------------

    def _all(self, method: str, arguments: Sequence[Any] = (), patience: float | None = None) -> list[Any]:
        """Ask all workers. A lost one gives None, and what another one raises is raised here."""
        found: list[Any] = []
        raised: list[BaseException] = []
        asked = [m.process.ask(method, *given) for m, given in zip(self.members, arguments or [()] * len(self.members))]
        for m, promised in zip(self.members, asked, strict=True):
            try:
                wait = patience if m.lost else None
                found.append(answer(promised, m.process.what, REMEDY, wait))
            except LostError as error:
                self._lost = error
                found.append(None)
            except Exception as error:
                raised.append(error)
        if raised:
            raise raised[0]
        return found

    def _prepare(self, step: int) -> None:
        """Have all workers connected, with the same arrays."""
        if not self.members:
            self._sent = sent(self.feed)
            self.members = [Member(k, self._make(k)) for k in range(min(self.workers.count, self.parts))]
        while not (self._joined and self._given):
            found = self._give() if self._joined else self._connect()
            if None in found:
                self._replace(found, step)
            elif not all(found):
                self._retry()

    def _retry(self) -> None:
        """Count attempts without an update, by workers that are all there but cannot talk to each other.

        Raises:
            LostError: [E711] there were too many.
        """
        self._attempts += 1
        if self._attempts == ATTEMPTS:
            raise LostError("E711", "fit: the workers cannot connect to each other", facts=self._addresses,
                            remedy="machines whose TCP ports are open to each other")  # fmt: skip

    def _connect(self) -> list[Any]:
        """Connect the workers; return for each whether it is, or None where it is lost."""
        addresses = self._all("listen", patience=PATIENCE)
        if None in addresses:
            return addresses
        token = secrets.token_bytes(16)
        self._addresses = [f"{host}:{port}" for host, port in addresses]
        joined = self._all("join", [(rank, addresses, token, self.parts) for rank in range(len(self.members))])
        self._joined = all(joined)
        return joined

    def _give(self) -> list[Any]:
        """Give all workers these arrays; return for each whether it has them, or None where it is lost."""
        taken = self._all("take", [(sent(self.arrays),)] * len(self.members))
        self._given = all(taken)
        return taken

    def _make(self, number: int) -> Process:
        """Start the process of a worker."""
        stateful = len(self._program.outputs) > 1
        own = {} if self.devices is None else {"device": f"{self.devices.names[number]}!"}
        return Process(f"worker {number} of fit", Replica, self.loss, stateful, self.optimizer, self.structure,
                       self._sent, self.options | own, options=self.workers.options)  # fmt: skip

    def _settled(self, found: Sequence[Done | None], step: int) -> Done:
        """The updates that are made, by the worker that has made the most; lost ones are replaced."""
        self._known = False
        if all(f is not None and f.intact for f in found):
            assert found[0] is not None
            return found[0]
        made = [(f, m) for f, m in zip(found, self.members, strict=True) if f is not None]
        for best, m in sorted(made, key=lambda pair: -len(pair[0].losses)):
            with suppress(LostError):
                self._copy(m)
                self._replace(found, step + len(best.losses))
                break
        else:
            raise self._lost
        if best.losses or None in found:
            self._attempts = 0
        else:
            self._retry()
        return best._replace(intact=False)

    def _replace(self, found: Sequence[Any], step: int) -> None:
        """Start lost workers again, or leave them out. All others go on from these arrays, which are current."""
        self._joined = self._given = False
        for m, f in zip([*self.members], found, strict=True):
            if f is None:
                m.lost += 1
                m.process.end()
                when = f"{m.process.what} was lost after {counted(step, 'update')}"
                if m.lost <= self.workers.restarts:
                    m.process = self._make(m.number)
                    _say(f"{when}. It is started again, and training goes on from there")
                else:
                    self.members.remove(m)
                    if not self.members:
                        raise self._lost
                    left = counted(len(self.members), "worker")
                    _say(f"{when}{' again' if m.lost > 1 else ''}. Training goes on with {left}, with the same result")

    def _fetch(self, members: Sequence[Member]) -> None:
        """Copy the arrays of one of these workers, which have the same; compare digests of all."""
        digests = {d for d in self._all("digest") if d is not None}
        for m in members:
            with suppress(LostError):
                self._copy(m)
                break
        else:
            raise self._lost
        if len(digests) > 1:
            self._given = False
            _say("the workers' parameters differ, as on processors of different kinds. All take those of one")

    def _copy(self, m: Member) -> None:
        try:
            arrays = answer(m.process.ask("held"), m.process.what, REMEDY)
        except LostError as error:
            self._lost = error
            raise
        for own, x in zip(self.arrays, arrays, strict=True):
            own[...] = x
        self._known = True


def _say(what: str) -> None:
    warnings.warn(f"fit: {what}", RuntimeWarning, stacklevel=2)
