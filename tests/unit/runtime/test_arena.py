"""Working memory is shared by all functions and sizes; what nobody uses is bounded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.errors import UsageError
from pullback.runtime.arena import IDLE_BYTES, Arenas, Idle, arenas, empty, most_idle
from pullback.runtime.shim import extension

KIND = ["extension", "Python"]


@pytest.fixture(params=KIND)
def pool(request: pytest.FixtureRequest) -> Iterator[Arenas]:
    found: Any = extension() if request.param == "extension" else Idle()
    if found is None:
        pytest.skip("no Python.h or no compiler for extensions")
    found.keep_idle(0)
    found.give_back(*found.lend(1))  # with nothing kept, only this one stays
    found.keep_idle(IDLE_BYTES)
    yield found
    found.keep_idle(IDLE_BYTES)


def idle(pool: Arenas) -> int:
    return pool.keep_idle(IDLE_BYTES)


def test_one_arena_serves_sizes_in_turn(pool: Arenas) -> None:
    first = pool.lend(100_000)
    assert first[0] % 64 == 0
    assert first[1] >= 100_000
    pool.give_back(*first)
    for count in (100_000, 30_000, 105_000, 99_999):
        again = pool.lend(count)
        assert again == first
        pool.give_back(*again)
    small = pool.lend(10_000)
    assert small[0] != first[0]
    pool.give_back(*small)


def test_growing_sizes_leave_no_trail(pool: Arenas) -> None:
    for count in range(1 << 20, 1 << 22, 1 << 12):
        pool.give_back(*pool.lend(count))
    assert idle(pool) < 2 * (1 << 22)


def test_calls_at_the_same_time_have_arenas_of_their_own(pool: Arenas) -> None:
    lent = [pool.lend(50_000) for _ in range(40)]
    assert len({start for start, _ in lent}) == 40
    for a in lent:
        pool.give_back(*a)
    assert idle(pool) <= 32 * lent[0][1] + 8192


def test_what_is_idle_is_bounded_and_the_last_one_stays(pool: Arenas) -> None:
    pool.keep_idle(300_000)
    lent = [pool.lend(100_000) for _ in range(5)]
    for a in lent:
        pool.give_back(*a)
    assert pool.keep_idle(300_000) <= 300_000
    large = pool.lend(10**6)
    pool.give_back(*large)
    assert pool.keep_idle(300_000) == large[1]
    assert pool.lend(10**6) == large
    pool.give_back(*large)


def test_no_memory_is_an_error(pool: Arenas) -> None:
    with pytest.raises(MemoryError):
        pool.lend(1 << 62)


def test_a_setting_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_IDLE_BYTES", "1 GB")
    with pytest.raises(UsageError) as caught:
        most_idle()
    assert str(caught.value) == (
        "UsageError [E601] PULLBACK_IDLE_BYTES=1 GB is not a number of bytes\n"
        "  try: a whole number from 0      See `pullback explain-error E601`"
    )


@pytest.mark.slow
def test_many_sizes_need_the_memory_of_one() -> None:
    @pb.function
    def f(x: Float64[Array, "N"]):
        n = x.shape[0]
        rows = pb.build((n, 1000), lambda i, j: x[i] * pb.exp(x[i] * j))
        sums = pb.build(n, lambda i: pb.sum_over(1000, lambda j: rows[i, j] * rows[(i + 1) % n, j]))
        return pb.sum(sums), sums

    for n in range(200, 230):
        for _ in range(2):  # the second call goes straight to compiled code
            f(np.ones(n))
    before = idle(arenas())
    for n in range(230, 260):
        for _ in range(2):
            f(np.ones(n))
    assert idle(arenas()) - before < 10**6


def test_threads_share_arenas() -> None:
    f = pb.function(lambda x: pb.sum(pb.exp(x)) + x)
    shapes = [1000 * k for k in range(1, 5)]
    wanted = {n: f(np.full(n, 0.5)) for n in shapes}
    wrong: list[int] = []

    def work(n: int) -> None:
        x = np.full(n, 0.5)
        wrong.extend(n for _ in range(200) if not np.array_equal(f(x), wanted[n]))
        wrong.extend(n for _ in range(200) if not np.array_equal(f(x=x), wanted[n]))

    threads = [threading.Thread(target=work, args=(n,)) for n in shapes * 2]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


LARGE = 1 << 18  # elements of f64: two mebibytes


@pb.function
def doubled(x: Float64[Array, "N"]):
    return 2.0 * x


@pytest.fixture
def large() -> np.ndarray[Any, Any]:
    if extension() is None:
        pytest.skip("no Python.h or no compiler for extensions")
    x = np.arange(float(LARGE))
    doubled(x)
    return x


def test_large_results_lie_where_others_have_been(large: np.ndarray[Any, Any]) -> None:
    places = set()
    for _ in range(5):
        y = doubled(large)
        places.add(y.ctypes.data)
        assert y.flags.owndata
        assert y.flags.writeable
        del y
    assert len(places) == 1


def test_results_that_somebody_holds_keep_their_memory(large: np.ndarray[Any, Any]) -> None:
    held = [doubled(large + k) for k in range(4)]
    rows = doubled(large).reshape(-1, 2).T  # holds what it is a view of
    for _ in range(4):
        doubled(-large)
    for k, y in enumerate(held):
        np.testing.assert_array_equal(y, 2 * (large + k))
    np.testing.assert_array_equal(rows.T.ravel(), 2 * large)


def test_large_results_are_arrays_like_others(large: np.ndarray[Any, Any]) -> None:
    y = doubled(large)
    y.resize(2 * LARGE, refcheck=False)
    np.testing.assert_array_equal(y, np.concatenate([2 * large, np.zeros(LARGE)]))
    y.resize(10, refcheck=False)
    np.testing.assert_array_equal(y, 2 * large[:10])
    np.testing.assert_array_equal(doubled(large).copy(), 2 * large)
    assert empty((LARGE,), np.dtype(np.float64)).shape == (LARGE,)


def test_what_large_results_leave_is_bounded(large: np.ndarray[Any, Any]) -> None:
    pool = arenas()
    try:
        pool.keep_idle(3 << 20)
        held = [doubled(large) for _ in range(8)]
        del held
        assert pool.keep_idle(1 << 20) <= 3 << 20
        y = doubled(large)  # larger than all that is kept
        before = pool.keep_idle(1 << 20)
        del y
        assert pool.keep_idle(IDLE_BYTES) == before
    finally:
        pool.keep_idle(IDLE_BYTES)


def test_threads_take_and_leave_large_results(large: np.ndarray[Any, Any]) -> None:
    wrong = []

    def work(k: int) -> None:
        for j in range(20):
            x = large[:200_000] + k + j
            if not np.array_equal(doubled(x), 2 * x):
                wrong.append((k, j))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong
