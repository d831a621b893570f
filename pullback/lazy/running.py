"""Execution of chunks, as kernels or Python operations; independent chunks run in parallel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from sys import getrefcount
from typing import Any, Final, TypeVar

from numpy import ndarray

from pullback.lazy.device_kernel import DeviceKernel, note_checks
from pullback.lazy.foreign import ForeignApplication, ForeignTape
from pullback.lazy.kernel import Kernel, alone, thread_count
from pullback.lazy.layers import noted
from pullback.lazy.node import Array
from pullback.lazy.piece import Piece, piece_of
from pullback.lazy.places import put
from pullback.lazy.plan import BLOCKING, HEAVY, Chunk, planned
from pullback.lazy.tape import Kept, Tape
from pullback.state import cached

__all__ = ["LOCK", "Straight", "at_once", "force", "job_of", "raise_first", "run_chunks", "thread_count", "together"]

LOCK: Final = threading.RLock()
HELD: Final = 3  # internal references to a node: a chunk, `places`, an argument
MOST: Final = 32  # Python operations that may run in parallel
T = TypeVar("T")


class Straight:
    """A chunk that is a piece, looked up by its structure.

    Attributes:
        piece: the piece.   leaves: the inputs.   outputs: the computed nodes.
        wrt: the leaves to differentiate with respect to.   tracked: whether derivatives pass through it.
        places: the source locations of nodes that may fail, by step.
    """

    __slots__ = ("leaves", "outputs", "piece", "places", "tracked", "wrt")
    piece: Piece

    def __init__(self, chunk: Chunk, wanted: Sequence[Array]) -> None:
        places: dict[Array, int] = {}
        leaves: list[Array] = []
        key: list[int] = []
        uses = [0] * len(chunk)
        self.places: dict[int, Any] = {}
        x = node = None
        for k, node in enumerate(chunk):
            places[node] = k
            if node.origin is not None:
                self.places[k] = node.origin
            key.append(node.application.number)
            for x in node.operands:
                p = places.get(x)
                if p is None:
                    leaves.append(x)
                    p = places[x] = -len(leaves)
                elif p >= 0:
                    uses[p] += 1
                key.append(p)
        del x, node
        found = [k for k, (count, own) in enumerate(zip(map(getrefcount, chunk), uses))
                 if count - own > HELD and chunk[k].application.type is not None]  # fmt: skip
        for node in wanted:
            k = places.get(node, -1)
            if k >= 0 and k not in found:
                found.append(k)
        key.append(-1 - len(leaves))
        key += found
        self.piece = piece_of(key, chunk, places, leaves, found)
        self.leaves = leaves
        self.outputs = [chunk[k] for k in found]
        self.wrt = tuple([k for k, x in enumerate(leaves) if x.tracked])
        self.tracked = bool(self.wrt) and any(x.tracked for x in self.outputs)

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
            results = kernel(values)
        except IndexError as error:
            step = self.piece.failing([put(v, "") for v in values])
            raise noted(error, None if step is None else self.places[step]) from None
        if self.places and self.piece.device:
            note_checks(results, values, self.places, self.piece.failing)
        return results

    def settle(self, results: Sequence[Any]) -> None:
        """Store the values of the outputs."""
        count = len(self.outputs)
        tape = Tape(self.piece, self.wrt, self.leaves, results[count:]) if self.tracked else None
        self.settle_with(results, tape)

    def settle_with(self, results: Sequence[Any], tape: Tape | None) -> None:
        """Store the values of the outputs, and their tape."""
        for k, (node, value) in enumerate(zip(self.outputs, results)):
            settle(node, value, (tape, k) if tape is not None and node.tracked else None)


class Call:
    """A chunk that is one Python operation, with its items if it has several results."""

    __slots__ = ("application", "items", "node")
    work = BLOCKING

    def __init__(self, chunk: Chunk) -> None:
        self.node, self.items = chunk[0], chunk[1:]
        self.application: ForeignApplication = self.node.application

    def compute(self) -> Any:
        """Return the results and the saved data."""
        try:
            return self.application.call([x.value for x in self.node.operands])
        except Exception as error:
            raise noted(error, self.application.place) from None

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
    """Store the value of a node, which is a leaf from now on."""
    if value.__class__ is ndarray:
        value.setflags(write=False)
    if node.application.view is not None:
        Array.watched(node)
    node.value = value
    node.origin = origin
    node.application = None
    node.operands = ()


def job_of(chunk: Chunk, wanted: Sequence[Array]) -> Straight | Call:
    """The job that runs a chunk."""
    return Call(chunk) if chunk[0].application.foreign else Straight(chunk, wanted)


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
    """Compute arrays. Arrays computed before an error stay computed."""
    with LOCK:
        threads = thread_count()
        chunks = planned(wanted, threads)
        if len(chunks) == 1:
            job = job_of(chunks.pop(), wanted)
            job.settle(job.compute())
        else:
            run_chunks(chunks, wanted, threads)


def run_chunks(chunks: list[Chunk], wanted: Sequence[Array], threads: int) -> None:
    """Run chunks, each after its inputs, and empty the list."""
    if len(chunks) < 2 or (threads == 1 and not any(c[0].application.foreign for c in chunks)):
        chunks.reverse()
        while chunks:
            job = job_of(chunks.pop(), wanted)
            job.settle(job.compute())
        return
    for wave in _waves(chunks):
        jobs = [job_of(chunks[k], wanted) for k in wave]
        for k in wave:
            chunks[k] = []
        found = together([(job.work, job.compute) for job in jobs], threads)
        for job, result in zip(jobs, found):
            if not isinstance(result, BaseException):
                job.settle(result)
        del result
        raise_first(found)
    chunks.clear()


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


Array.forced = staticmethod(force)
