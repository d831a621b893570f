"""Execution of chunks, as kernels or Python operations; independent chunks run in parallel.

Which nodes get a value is decided by what is alive, not by reference counts (`Straight`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Final, TypeVar
from weakref import ref

from numpy import ndarray

from pullback.lazy.device_kernel import DeviceKernel, note_checks
from pullback.lazy.foreign import ForeignApplication, ForeignTape
from pullback.lazy.kernel import Kernel, alone, thread_count
from pullback.lazy.layers import noted
from pullback.lazy.node import BUSY, LOCK, Array, waiting
from pullback.lazy.operation import Application
from pullback.lazy.piece import LIGHT, Backward, Piece, piece_of, steps_of
from pullback.lazy.places import put
from pullback.lazy.plan import BLOCKING, HEAVY, Chunk, planned
from pullback.lazy.plugins import PLUGGED, having, watched
from pullback.lazy.quick import learn, offer
from pullback.lazy.tape import Kept, Tape
from pullback.state import cached, registered

__all__ = ["UNSETTLED", "Straight", "at_once", "attach", "force", "raise_first", "run_chunks", "thread_count",
           "together", "under_way"]  # fmt: skip

UNSETTLED: Final[list[Straight]] = registered([], "jobs that run", stays="until they end")  # guarded by LOCK
DETACHED: Final[Any] = None  # the operands of a node while its job runs: who reads them without LOCK fails
MOST: Final = 32  # Python operations that may run in parallel
T = TypeVar("T")


class Straight:
    """A chunk that is a piece, looked up by its structure.

    The chunk's nodes are let go, and weak references tell which of them others hold: users, waiting nodes, containers.
    Those are the outputs. The others have ended, and are only steps of the piece.

    Attributes:
        piece: the piece.   leaves: the inputs.   outputs: the computed nodes.
        wrt: the leaves to differentiate with respect to.   tracked: whether derivatives pass through it.
        places: the source locations of nodes that may fail, by step.
    """

    __slots__ = ("_applications", "_kept", "_key", "_serials", "leaves", "outputs", "piece", "places", "tracked",
                 "wrt")  # fmt: skip
    piece: Piece
    _kept: dict[int, Array]  # the outputs by their steps

    def begin(self, chunk: Chunk) -> None:
        """Take the nodes of a chunk, which is empty afterwards, and find the piece."""
        positions: dict[Array, int] = {}
        places: dict[int, Any] = {}
        leaves: list[Array] = []
        key: list[int] = []
        applications: list[Application] = []
        serials: list[int] = []
        x = node = None
        for k, node in enumerate(chunk):
            positions[node] = k
            if node.origin is not None:
                places[k] = node.origin
            application = node.application
            applications.append(application)
            serials.append(node.serial)
            key.append(application.number)
            for x in node.operands:
                p = positions.get(x)
                if p is None:
                    leaves.append(x)
                    p = positions[x] = -len(leaves)
                key.append(p)
        del x, node, positions
        self.places, self.leaves = places, leaves
        self._key, self._applications, self._serials = key, applications, serials
        kept = self._let_go(chunk)
        self.outputs = [*kept.values()]
        key.append(-1 - len(leaves))
        key += kept
        self.piece = piece_of(key, applications, leaves, kept)
        self.wrt = tuple([k for k, x in enumerate(leaves) if x.tracked])
        self.tracked = bool(self.wrt) and any(x.tracked for x in self.outputs)

    def _let_go(self, chunk: Chunk) -> dict[int, Array]:
        """Drop the nodes of the chunk, and keep the outputs; return them by their steps.

        A node that ends lets go of its operands, and so does an output, once it is found. Those before it are looked at
        later, so nothing here holds them then.
        """
        kept = self._kept = {}
        UNSETTLED.append(self)
        handles = [*map(ref, chunk)]
        chunk.clear()
        k = len(handles)
        while k:
            k -= 1
            node = handles[k]()
            if node is not None and node.application.type is not None:
                if node.application.view is not None:
                    Array.watched(node)
                kept[k] = node
                node.operands = DETACHED
        return kept

    def attach(self) -> None:
        """Give outputs without a value their operands again; nodes that have ended are made again."""
        nodes: list[Array] = []
        for k, (application, positions) in enumerate(steps_of(self._key, self._applications)):
            operands = tuple([nodes[p] if p >= 0 else self.leaves[-1 - p] for p in positions])
            node = self._kept.get(k)
            if node is None:
                node = waiting(application, operands, self._serials[k], self.places.get(k))
                if application.item >= 0:
                    operands[0].origin = (*operands[0].origin, ref(node))
            elif node.value is None:
                node.operands = operands
            nodes.append(node)

    @property
    def work(self) -> float:
        """The approximate number of operations."""
        return self.piece.work

    def compute(self, kernel: Kernel | DeviceKernel | None = None) -> Any:
        """Return the results of a kernel of the piece; by default the outputs, and residuals for the tape."""
        values = [x.value for x in self.leaves]
        if kernel is None:
            kernel = self.piece.forward(self.wrt) if self.tracked else self.piece.value()
        try:
            results = watched(self._names, partial(kernel, values), len(self.outputs)) if PLUGGED else kernel(values)
        except IndexError as error:
            step = self.piece.failing([put(v, "") for v in values])
            raise noted(error, None if step is None else self.places[step]) from None
        if self.places and self.piece.device:
            note_checks(results, values, self.places, self.piece.failing)
        return results

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple([a.name for a in self._applications if a.item < 0])

    def note(self, threads: int, both: Backward | None = None) -> None:
        """Let C make further calls of this structure, which was computed as a whole on this many threads.

        Args:
            both: the kernel that computed cotangents, too.
        """
        piece = self.piece
        if self.places or piece.device or not all(a.quick for a in self._applications):
            return
        kernel = both.kernel if both else piece.forward(self.wrt) if self.tracked else piece.value()
        entry = kernel.entry if isinstance(kernel, Kernel) else None
        if entry is not None:
            learn(self._key, len(self.outputs), self.wrt, entry, piece if self.tracked else None,
                  both.places if both else None, threads == 1 and piece.work >= 2 * HEAVY, piece.work <= LIGHT)

    def settle(self, results: Sequence[Any]) -> None:
        """Store the values of the outputs."""
        count = len(self.outputs)
        tape = Tape(self.piece, self.wrt, self.leaves, results[count:]) if self.tracked else None
        self.settle_with(results, tape)

    def settle_with(self, results: Sequence[Any], tape: Tape | None) -> None:
        """Store the values of the outputs, and their tape."""
        for k, (node, value) in enumerate(zip(self.outputs, results)):
            settle(node, value, (tape, k) if tape is not None and node.tracked else None)
        UNSETTLED.remove(self)


class Call:
    """A chunk that is one Python operation, with its items if it has several results."""

    __slots__ = ("application", "items", "node")
    work = BLOCKING

    def begin(self, chunk: Chunk) -> None:
        """Take the nodes of a chunk, which is empty afterwards."""
        self.node, self.items = chunk[0], chunk[1:]
        chunk.clear()
        self.application: ForeignApplication = self.node.application

    def compute(self) -> Any:
        """Return the results and the saved data."""
        operands = [x.value for x in self.node.operands]
        if PLUGGED and having("forward"):
            return self._watched(operands)
        try:
            return self.application.call(operands)
        except Exception as error:
            raise noted(error, self.application.place) from None

    def _watched(self, operands: list[Any]) -> Any:
        """The same, seen by plugins."""
        saved: Any = None

        def compute() -> list[Any]:
            nonlocal saved
            results, saved = self.application.call(operands)
            return results

        try:
            return watched((self.application.name,), compute, len(self.application.results)), saved
        except BaseException:
            if saved is not None:
                self.application.operation.release(saved)
            raise

    def settle(self, found: Any) -> None:
        """Store the values of the nodes."""
        results, saved = found
        leaves = self.node.operands
        tape = ForeignTape(self.application, leaves, saved) if self.node.tracked else None
        if tape is None:
            self.application.operation.release(saved)
        for x in self.items or [self.node]:
            k = max(x.application.item, 0)
            settle(x, results[k], (tape, k) if tape is not None and x.tracked else None)


def settle(node: Array, value: Any, origin: tuple[Kept, int] | None) -> None:
    """Store the value of a node, which is a leaf from now on. Threads that see the value find its tape."""
    if value.__class__ is ndarray:
        value.setflags(write=False)
    node.origin = origin
    node.value = value
    node.application = None
    node.operands = ()


def job_of(chunk: Chunk) -> Straight | Call:
    """The job that runs a chunk."""
    return Call() if chunk[0].application.foreign else Straight()


def under_way() -> int:
    """The number of jobs that this thread runs already; their nodes return to the graph.

    There are some where a finalizer or a signal handler, which comes between two lines, asks for a value. It may want
    their nodes.
    """
    for job in UNSETTLED:
        job.attach()
    return len(UNSETTLED)


def attach(since: int) -> None:
    """Let the jobs that an error has left unsettled return their nodes to the graph."""
    while len(UNSETTLED) > since:
        UNSETTLED[-1].attach()
        UNSETTLED.pop()


# Parallel runs ---------------------------------------------------------------------------------------------------


@cached(1, stays="with the process, as its threads do")
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST, "pullback lazy", alone)


def together(calls: Sequence[tuple[float, Callable[[], T]]], threads: int) -> list[T | BaseException]:
    """Run calls, each with its work estimate, in parallel if that pays; return results or exceptions."""
    blocking = [k for k, (work, _) in enumerate(calls) if work == BLOCKING]
    heavy = [k for k, (work, _) in enumerate(calls) if HEAVY <= work < BLOCKING]
    own = heavy[-1] if heavy and not blocking else None  # this thread runs one of the heavy calls
    pooled = {*blocking, *(heavy if threads > 1 else [])} - {own} if len(calls) > 1 else set()
    slots = threading.Semaphore(max(1, threads - (own is not None)))

    def limited(call: Callable[[], T]) -> T:
        with slots:
            return call()

    futures = {}
    for k in pooled:
        call = calls[k][1]
        futures[k] = _pool().submit(call) if k in blocking else _pool().submit(limited, call)
    found: list[T | BaseException] = []
    for k, (_, call) in enumerate(calls):
        found.append(KeyboardInterrupt() if k in futures else _outcome(call))
    wait(futures.values())
    for k, future in futures.items():
        error = future.exception()
        found[k] = future.result() if error is None else error
    return found


def raise_first(found: list[Any]) -> None:
    """Raise the first exception among results. The list is emptied, because the traceback holds it."""
    errors = [x for x in found if isinstance(x, BaseException)]
    if errors:
        found.clear()
        try:
            raise errors[0]
        finally:
            errors.clear()


def _outcome(call: Callable[[], T]) -> T | BaseException:
    try:
        return call()
    except BaseException as error:
        return error


def at_once(calls: Sequence[tuple[float, Callable[[], T]]], threads: int) -> list[T]:
    """Return the results of calls, or raise the first error."""
    if len(calls) == 1:
        return [calls[0][1]()]
    found: list[Any] = together(calls, threads)
    raise_first(found)
    return found


# Forcing ------------------------------------------------------------------------------------------------------------


def force(wanted: Sequence[Array]) -> None:
    """Compute arrays. Arrays computed before an error stay computed, and others stay as they were."""
    with LOCK, BUSY:
        since = under_way() if UNSETTLED else 0
        try:
            threads = thread_count()
            chunks = planned(wanted, threads)
            if len(chunks) == 1:
                job = job_of(chunks[0])
                job.begin(chunks.pop())
                job.settle(job.compute())
                if job.__class__ is Straight:
                    job.note(threads)
            else:
                run_chunks(chunks, threads)
        except BaseException:
            attach(since)
            raise


def run_chunks(chunks: list[Chunk], threads: int) -> None:
    """Run chunks, each after its inputs, and empty the list, which the traceback of an error holds."""
    try:
        in_order = bool(PLUGGED and having("forward"))  # plugins see one piece after another, in this thread
        if len(chunks) < 2 or in_order or (threads == 1 and not any(c[0].application.foreign for c in chunks)):
            chunks.reverse()
            while chunks:
                job = job_of(chunks[-1])
                job.begin(chunks.pop())
                job.settle(job.compute())
        else:
            for wave in _waves(chunks):
                _run_wave([chunks[k] for k in wave], threads)
    finally:
        chunks.clear()


def _run_wave(chunks: Sequence[Chunk], threads: int) -> None:
    """Run independent chunks; those without an error are settled."""
    jobs = list(map(job_of, chunks))
    for job, chunk in zip(jobs, chunks):
        job.begin(chunk)
    found = together([(job.work, job.compute) for job in jobs], threads)
    for job, result in zip(jobs, found):
        if not isinstance(result, BaseException):
            job.settle(result)
    del result
    raise_first(found)


def _waves(chunks: Sequence[Chunk]) -> list[list[int]]:
    """Group chunks into successive sets; the chunks of a set can run in parallel."""
    home = {node: k for k, chunk in enumerate(chunks) for node in chunk}
    wave: list[int] = []
    for chunk in chunks:
        read = {home[x] for node in chunk for x in node.operands if x in home} - {len(wave)}
        wave.append(max([wave[k] for k in read], default=-1) + 1)
    found: list[list[int]] = [[] for _ in range(max(wave) + 1)]
    for k, w in enumerate(wave):
        found[w].append(k)
    return found


def _forget() -> None:
    """End what another thread of the parent process was computing at the fork."""
    _pool.cache_clear()  # its threads are the parent's
    if not LOCK._is_owned():  # type: ignore[attr-defined]
        attach(0)
        LOCK._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

Array.forced = staticmethod(force)
offer(unsettled=UNSETTLED, force=force, thread_count=thread_count, tape=Tape)
