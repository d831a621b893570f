"""Sums among workers: threads that talk over queues or sockets, and processes, one of which is killed."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pullback.nn.training import links as links_module
from pullback.nn.training import reduction
from pullback.nn.training.links import HELLO, LinkLostError, Links
from pullback.nn.training.reduction import Layout, chain, doubling, partners, parts_of, reduce

TOKEN = b"0123456789abcdef"


class Queues:
    """Peers whose messages are queues of this process; each is a copy."""

    def __init__(self, rank: int, count: int, messages: dict[tuple[int, int], queue.Queue[bytes]]) -> None:
        self.rank, self.count, self.messages = rank, count, messages
        self.sent = 0

    def exchange(self, sends: Sequence[Any], receives: Sequence[Any]) -> None:
        for to, data in sends:
            assert to in partners(self.rank, self.count)
            self.sent += 1
            self.messages[self.rank, to].put(data.tobytes())
        for source, into in receives:
            found = self.messages[source, self.rank].get(timeout=60)
            assert len(found) == into.size
            into[...] = np.frombuffer(found, np.uint8)


def arrays_of(parts: int, size: int) -> list[list[Any]]:
    """The arrays of the parts: numbers of three types, one count, nothing."""
    r = np.random.default_rng(parts * 100 + size)
    return [
        [r.normal(size=(size, 3)).astype(np.float32), r.normal(size=size), np.int64(10 + p), np.zeros((0, 4)),
         (r.normal(size=2) + 1j).astype(np.complex128), r.normal(size=5).astype(np.float16)]
        for p in range(parts)
    ]  # fmt: skip


def added(parts: list[list[Any]], weights: Sequence[float]) -> list[Any]:
    """The sum in order, by NumPy alone."""
    total = [np.asarray(x) * np.asarray(x).dtype.type(weights[0]) if np.asarray(x).dtype.kind in "fc" else x
             for x in parts[0]]  # fmt: skip
    for own, weight in zip(parts[1:], weights[1:]):
        total = [t + np.asarray(x) * np.asarray(x).dtype.type(weight) if np.asarray(x).dtype.kind in "fc" else t
                 for t, x in zip(total, own)]  # fmt: skip
    return total


def sums(count: int, parts: int, size: int, how: Callable[..., None]) -> tuple[list[list[Any]], list[Any], list[Any]]:
    """The sum of every worker, that of NumPy, and the peers."""
    data = arrays_of(parts, size)
    weights = [(p + 1) / 7 for p in range(parts)]
    layout = Layout(data[0])
    vectors = [layout.empty() for _ in data]
    for p, (vector, own) in enumerate(zip(vectors, data)):
        layout.put(vector, own, weights[p], p == 0)
    messages: dict[tuple[int, int], queue.Queue[bytes]] = {
        (a, b): queue.Queue() for a in range(count) for b in range(count)
    }
    peers = [Queues(rank, count, messages) for rank in range(count)]
    totals = [layout.empty() for _ in range(count)]

    def work(rank: int) -> None:
        how(peers[rank], layout, {p: vectors[p].copy() for p in parts_of(rank, count, parts)}, totals[rank], parts)

    together([lambda rank=rank: work(rank) for rank in range(count)])  # type: ignore[misc]
    return [layout.arrays(t) for t in totals], added(data, weights), peers


def together(runs: Sequence[Callable[[], None]]) -> None:
    """Run functions on threads; raise what one raises."""
    raised: list[BaseException] = []

    def run(f: Callable[[], None]) -> None:
        try:
            f()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(f,)) for f in runs]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    if raised:
        raise raised[0]
    assert not any(t.is_alive() for t in threads)


def by_chain(pieces: int) -> Callable[..., None]:
    """A chain in a number of pieces."""

    def run(peers: Any, layout: Layout, vectors: Any, total: Any, parts: int) -> None:
        chain(peers, layout, [vectors[p] for p in sorted(vectors)], total, pieces)

    return run


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 7), st.integers(0, 9), st.integers(0, 40), st.integers(0, 6))
def test_every_algorithm_adds_in_the_order_of_the_parts(count: int, more: int, size: int, pieces: int) -> None:
    """To the bit, whoever holds which parts: 0 pieces stand for doubling."""
    found, wanted, peers = sums(count, count + more, size, by_chain(pieces) if pieces else doubling)
    for own in found:
        for x, y in zip(own, wanted, strict=True):
            assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
    if pieces:
        rounds = [p.sent for p in peers]
        assert sum(rounds) == 2 * (count - 1) * pieces
    else:
        assert all(p.sent >= (count - 1).bit_length() for p in peers)


@pytest.mark.parametrize(("count", "size", "chains"), [(2, 10**8, False), (3, 10**3, False), (8, 10**8, True)])
def test_the_choice_of_the_algorithm(count: int, size: int, chains: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    monkeypatch.setattr(reduction, "chain", lambda *_: used.append("chain"))
    monkeypatch.setattr(reduction, "doubling", lambda *_: used.append("doubling"))
    layout = Layout([np.broadcast_to(np.zeros((), np.uint8), size)])
    own = dict.fromkeys(parts_of(0, count, count))
    reduce(Queues(0, count, {}), layout, own, None, count)  # type: ignore[arg-type]
    assert used == ["chain" if chains else "doubling"]


def test_a_model_of_the_time() -> None:
    """For two workers a vector each way; for many, a chain takes the time of two vectors and of its rounds."""
    by_doubling, _ = reduction.seconds_of_sum(10**6, 2, 2, 1e-4, 1e9)
    assert by_doubling == pytest.approx(1e-4 + 1e-3)
    by_doubling, long = reduction.seconds_of_sum(10**9, 16, 16, 1e-4, 1e9)
    assert by_doubling == pytest.approx(4e-4 + 15)
    assert 2 < long < 2.5
    assert reduction.seconds_of_sum(10**6, 1, 1)[1] == 0


def test_parts_of_workers() -> None:
    for count in range(1, 9):
        for parts in range(count, 20):
            held = [parts_of(rank, count, parts) for rank in range(count)]
            assert [p for own in held for p in own] == list(range(parts))
            assert max(map(len, held)) - min(map(len, held)) <= 1
    assert partners(0, 1) == set()
    assert partners(0, 6) == {1, 2, 4, 5}
    assert all(a in partners(b, n) for n in range(1, 12) for a in range(n) for b in partners(a, n))


# Sockets ----------------------------------------------------------------------------------------------------------


def linked(count: int) -> list[Links]:
    """Workers that are connected."""
    found = [Links("127.0.0.1") for _ in range(count)]
    addresses = [x.address for x in found]
    together([lambda k=k, x=x: x.join(k, addresses, TOKEN) for k, x in enumerate(found)])  # type: ignore[misc]
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [1, 300_000])
def test_sums_over_sockets(count: int, size: int) -> None:
    """Vectors larger than the buffers of sockets go both ways at once."""
    held = linked(count)
    r = np.random.default_rng(0)
    data = [[r.normal(size=size)] for _ in range(count)]
    layout = Layout(data[0])
    wanted = added(data, [1.0] * count)[0]
    for how in (by_chain(4), doubling):
        totals = [layout.empty() for _ in held]

        def work(k: int, how: Any = how, totals: Any = totals) -> None:
            own = layout.empty()
            layout.put(own, data[k], 1.0, k == 0)
            how(held[k], layout, {k: own}, totals[k], count)

        together([lambda k=k, work=work: work(k) for k in range(count)])  # type: ignore[misc]
        assert all(layout.arrays(t)[0].tobytes() == wanted.tobytes() for t in totals)
    for x in held:
        x.close()


def test_strangers_are_turned_away() -> None:
    """Another token, fewer bytes, and a rank that is there already; then the peer itself."""
    one, two = Links("127.0.0.1"), Links("127.0.0.1")
    addresses = [one.address, two.address]
    strangers = [socket.create_connection(one.address) for _ in range(3)]
    strangers[0].sendall(HELLO.pack(b"x" * 16, 1))
    strangers[1].sendall(b"GET")
    strangers[1].close()
    strangers[2].sendall(HELLO.pack(TOKEN, 7))
    together([lambda: one.join(0, addresses, TOKEN), lambda: two.join(1, addresses, TOKEN)])
    into = np.zeros(3, np.uint8)
    together([lambda: one.exchange([(1, np.arange(3, dtype=np.uint8))], []), lambda: two.exchange([], [(0, into)])])
    assert into.tolist() == [0, 1, 2]
    for s in (*strangers, one, two):
        s.close()


def test_a_peer_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "PATIENCE", 0.2)
    one = Links("127.0.0.1")
    with pytest.raises(LinkLostError):
        one.join(0, [one.address, ("127.0.0.1", 9)], TOKEN)
    two = Links("127.0.0.1")
    two.close()
    three = Links("127.0.0.1")
    with pytest.raises(LinkLostError):
        three.join(1, [two.address, three.address], TOKEN)


def test_all_learn_of_a_loss() -> None:
    """Four of five workers learn that one is gone, wherever they wait."""
    held = linked(5)
    layout = Layout([np.zeros(1000)])
    lost = []

    def work(k: int) -> None:
        if k == 3:
            held[k].close()
            return
        try:
            for _ in range(3):
                own = {k: layout.empty()}
                chain(held[k], layout, list(own.values()), layout.empty(), 2)
        except LinkLostError:
            lost.append(k)

    together([lambda k=k: work(k) for k in range(5)])  # type: ignore[misc]
    assert sorted(lost) == [0, 1, 2, 4]


def _process(rank: int, address: Any, addresses: Any, results: Any) -> None:
    """A worker that adds until a peer is gone."""
    own = Links("127.0.0.1")
    address.put((rank, own.address))
    own.join(rank, addresses.get(), TOKEN)
    layout = Layout([np.zeros(50_000)])
    done = 0
    try:
        while True:
            vector, total = layout.empty(), layout.empty()
            layout.put(vector, [np.full(50_000, rank + done)], 1.0, False)
            reduce(own, layout, {rank: vector}, total, 3)
            assert (layout.arrays(total)[0] == 3 + 3 * done).all()
            done += 1
            results.put((rank, done))
    except LinkLostError:
        results.put((rank, -1))


@pytest.mark.slow
def test_a_process_that_is_killed() -> None:
    context = multiprocessing.get_context("spawn")
    address, addresses, results = context.Queue(), context.Queue(), context.Queue()
    held = [context.Process(target=_process, args=(k, address, addresses, results), daemon=True) for k in range(3)]
    for p in held:
        p.start()
    try:
        known = dict(address.get(timeout=120) for _ in held)
        for _ in held:
            addresses.put([known[k] for k in range(3)])
        while results.get(timeout=120)[1] < 5:
            pass
        pid = held[1].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        ends = set()
        while len(ends) < 2:
            rank, done = results.get(timeout=120)
            if done < 0:
                ends.add(rank)
        assert ends == {0, 2}
    finally:
        for p in held:
            p.kill()
            p.join(10)
