"""Sums of arrays over several workers, in an order that depends on nothing but the parts.

A batch has numbered parts, and each worker holds the vectors of some parts in a row. Every worker gets

    ((part 0 + part 1) + part 2) + …

for any number of workers. So timing, lost workers and the choice of the algorithm change no bit. There are two
algorithms. Both are functions of the messages to and from peers:

* `chain` cuts vectors into pieces. Partial sums of a piece move from worker to worker, up the chain, and its total
  moves back down, while the next pieces follow. It is a ring that starts at worker 0 for each piece.
* `doubling` sends whole vectors, to peers at distances 1, 2, 4, … (Bruck et al. 1997, *Efficient algorithms for
  all-to-all communications in multiport message-passing systems*). Then each worker adds all of them. It has the
  fewest messages, so it is for small vectors, and for two workers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Layout", "Peers", "chain", "doubling", "partners", "parts_of", "pieces_of", "reduce", "seconds_of_sum"]

Bytes = NDArray[np.uint8]
Message = tuple[int, Bytes]  # the peer's rank, and the bytes to send or to fill

LATENCY: Final = 6e-5  # seconds of a message between processes, see benchmarks/results/cluster.md
BANDWIDTH: Final = 1.2e9  # bytes per second, likewise
ALIGNED: Final = 64  # bytes; pieces begin at multiples, so that they cut no element


class Peers(Protocol):
    """The connections of a worker to others.

    Attributes:
        rank: the number of this worker.   count: the number of workers.
    """

    rank: int
    count: int

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message]) -> None:
        """Send and receive these messages at the same time, those of one peer in order."""


class Layout:
    """The arrays of a vector as ranges of bytes: a segment for each element type.

    Args:
        like: the arrays.
    Attributes:
        size: the number of bytes.
        segments: the element types with the ends of their ranges.
    """

    def __init__(self, like: Sequence[Any]) -> None:
        self._shapes = [np.shape(x) for x in like]
        self._dtypes = [np.asarray(x).dtype for x in like]
        self._at = [0] * len(self._dtypes)
        self.segments: list[tuple[np.dtype[Any], int, int]] = []
        end = 0
        for dtype in dict.fromkeys(self._dtypes):
            begin = end
            for k in (k for k, own in enumerate(self._dtypes) if own == dtype):
                self._at[k], end = end, end + math.prod(self._shapes[k]) * dtype.itemsize
            self.segments.append((dtype, begin, end))
            end += -end % ALIGNED
        self.size = end

    def empty(self) -> Bytes:
        """A vector of zeros."""
        return np.zeros(self.size, np.uint8)

    def arrays(self, vector: Bytes) -> list[NDArray[Any]]:
        """The arrays of a vector, as views."""
        ends = (at + math.prod(shape) * d.itemsize for at, shape, d in zip(self._at, self._shapes, self._dtypes))
        return [vector[at:end].view(dtype).reshape(shape)
                for at, end, shape, dtype in zip(self._at, ends, self._shapes, self._dtypes)]  # fmt: skip

    def put(self, vector: Bytes, arrays: Sequence[Any], weight: float, first: bool) -> None:
        """Write the contribution of a part: numbers times a weight; counts are those of the first part alone."""
        for own, x in zip(self.arrays(vector), arrays, strict=True):
            if _is_number(own.dtype):
                np.multiply(np.asarray(x), own.dtype.type(weight), out=own)
            else:
                own[...] = x if first else np.zeros((), own.dtype)

    def add(self, total: Bytes, part: Bytes, begin: int = 0, end: int | None = None) -> None:
        """Add a range of bytes of another vector in place."""
        for dtype, low, high in self.segments:
            low, high = max(low, begin), min(high, self.size if end is None else end)
            if low < high:
                own = total[low:high].view(dtype)
                np.add(own, part[low:high].view(dtype), out=own)


def _is_number(dtype: np.dtype[Any]) -> bool:
    """Whether an element type has means; NumPy knows bfloat16 by its name alone."""
    return dtype.kind in "fc" or dtype.name == "bfloat16"


def parts_of(rank: int, count: int, parts: int) -> range:
    """The parts of a worker: as many as any other has, or one more.

    >>> from pullback.nn.training.reduction import parts_of
    >>> [list(parts_of(rank, 3, 4)) for rank in range(3)]
    [[0], [1], [2, 3]]
    """
    return range(parts * rank // count, parts * (rank + 1) // count)


def partners(rank: int, count: int) -> set[int]:
    """The peers that a worker exchanges messages with."""
    steps = [1 << k for k in range((count - 1).bit_length())]
    return {(rank + way * d) % count for d in steps for way in (1, -1)} - {rank}


def reduce(peers: Peers, layout: Layout, vectors: dict[int, Bytes], total: Bytes, parts: int) -> None:
    """Add the vectors of all parts on every worker.

    Args:
        peers: the connections.
        vectors: those of this worker's parts. Others are added where they are needed.
        total: takes the sum.
        parts: the number of parts.
    Cost:
        `seconds_of_sum`: 2 (n - 1) + pieces messages in a row, or log2(n).
    """
    by_doubling, by_chain = seconds_of_sum(layout.size, peers.count, parts)
    if by_doubling <= by_chain:
        doubling(peers, layout, vectors, total, parts)
    else:
        own = [vectors[p] for p in parts_of(peers.rank, peers.count, parts)]
        chain(peers, layout, own, total, pieces_of(layout.size, peers.count))


def seconds_of_sum(
    size: int, count: int, parts: int, latency: float = LATENCY, bandwidth: float = BANDWIDTH
) -> tuple[float, float]:
    """Estimate the seconds of a sum by doubling, and by a chain.

    Args:
        size: the bytes of a vector.   count: the number of workers.   parts: the number of vectors.
        latency: the seconds of a message.   bandwidth: bytes per second.
    """
    others = parts - max(1, parts // count)
    steps = (count - 1).bit_length()
    cut = pieces_of(size, count)
    return (
        steps * latency + others * size / bandwidth,
        (cut + 2 * (count - 1)) * (latency + 2 * size / cut / bandwidth) if count > 1 else 0.0,
    )


def pieces_of(size: int, count: int) -> int:
    """The number of pieces with which a chain is fastest: √(4 (n - 1) size / (bandwidth · latency))."""
    most = max(1, size // (1 << 14))
    return max(1, min(most, round(math.sqrt(4 * (count - 1) * size / BANDWIDTH / LATENCY))))


def chain(peers: Peers, layout: Layout, own: Sequence[Bytes], total: Bytes, pieces: int) -> None:
    """Add vectors piece by piece along the chain of workers.

    In round t the worker of rank r takes the partial sum of piece t - r from below, and adds its own parts. The last
    worker of n has then the total of piece t - (n - 1). It comes back to rank r in round t' = t + (n - 1) - r.
    """
    rank, last = peers.rank, peers.count - 1
    ends = [layout.size * k // pieces // ALIGNED * ALIGNED for k in range(pieces)] + [layout.size]
    sends: list[Message] = []
    for now in range(pieces + 2 * last + 1):
        up, down = now - rank, now - (2 * last - rank)
        rises, falls = 0 <= up < pieces, rank < last and 0 <= down < pieces
        receives: list[Message] = []
        if rises and rank > 0:
            receives.append((rank - 1, total[ends[up] : ends[up + 1]]))
        if falls:
            receives.append((rank + 1, total[ends[down] : ends[down + 1]]))
        peers.exchange(sends, receives)
        sends = []
        if rises:
            begin, end = ends[up], ends[up + 1]
            if rank == 0:
                total[begin:end] = own[0][begin:end]
            for part in own[rank == 0 :]:
                layout.add(total, part, begin, end)
            if last:
                sends.append((rank + 1 if rank < last else rank - 1, total[begin:end]))
        if falls and rank > 0:
            sends.append((rank - 1, total[ends[down] : ends[down + 1]]))


def doubling(peers: Peers, layout: Layout, vectors: dict[int, Bytes], total: Bytes, parts: int) -> None:
    """Send vectors to peers at distances 1, 2, 4, …, until all workers have all; then add them."""
    rank, count = peers.rank, peers.count
    for p in range(parts):
        if p not in vectors:
            vectors[p] = layout.empty()
    have = 1  # the workers from this one on, whose vectors are here
    while have < count:
        to, source = (rank - have) % count, (rank + have) % count
        moved = min(have, count - have)
        sends, receives = (
            [(peer, vectors[p]) for k in range(moved) for p in parts_of((first + k) % count, count, parts)]
            for peer, first in ((to, rank), (source, source))
        )
        peers.exchange(sends, receives)
        have += moved
    total[...] = vectors[0]
    for p in range(1, parts):
        layout.add(total, vectors[p])
