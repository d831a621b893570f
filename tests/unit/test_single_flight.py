"""State that threads share: single-flight, the recursion limit, and objects created once."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.errors import TraceError
from pullback.ir.index import DimSymbol, as_index, symbol
from pullback.single_flight import deep_recursion, single_flight


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads that change places after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(work: Callable[[int], Any], count: int = 8) -> list[Any]:
    """The results, or what was raised, of so many threads that begin together."""
    barrier = threading.Barrier(count)
    out: list[Any] = [None] * count

    def run(k: int) -> None:
        barrier.wait()
        try:
            out[k] = work(k)
        except Exception as error:
            out[k] = error

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out


def test_one_thread_at_a_time_has_a_turn(hasty: None) -> None:
    inside, most = [], []

    def work(k: int) -> None:
        for _ in range(50):
            with single_flight("a"):
                inside.append(k)
                time.sleep(0)
                most.append(len(inside))
                inside.remove(k)

    assert at_once(work) == [None] * 8
    assert max(most) == 1


def test_the_recursion_limit_is_put_back_by_the_last_to_leave() -> None:
    before = sys.getrecursionlimit()
    second_in, first_out = threading.Event(), threading.Event()
    found = []

    def second() -> None:
        with deep_recursion():
            second_in.set()
            first_out.wait(10)
            found.append(sys.getrecursionlimit())

    thread = threading.Thread(target=second)
    with deep_recursion():
        thread.start()
        assert second_in.wait(10)
    first_out.set()
    thread.join()
    assert found == [20_000]
    assert sys.getrecursionlimit() == before


def test_equal_nodes_made_at_the_same_time_are_one(hasty: None) -> None:
    def work(k: int) -> list[Any]:
        n = symbol("N")
        return [n * k + (n + j) // 7 + (n + j) % 5 for _ in range(30) for j, k in enumerate(range(20))]

    first, *others = at_once(work)
    for o in others:
        assert all(a is b for a, b in zip(first, o, strict=True))


def test_what_divides_is_there_with_the_remainder(hasty: None) -> None:
    """A remainder that another thread has just made can be merged with its quotient."""

    def work(k: int) -> bool:
        found = []
        for j in range(200):
            d = as_index(DimSymbol(f"d{j}"))
            n = symbol("N")
            found.append(n % d + d * (n // d) is n)
        return all(found)

    assert at_once(work) == [True] * 8


def test_a_first_call_from_many_threads(hasty: None) -> None:
    traced = []

    def energy(x: Any) -> Any:
        traced.append(threading.get_ident())
        return pb.sum(pb.exp(x) * x)

    gradient = pb.grad(pb.function(energy))
    found = at_once(lambda k: gradient(np.zeros(3)).tolist(), 16)
    assert found == [[1.0, 1.0, 1.0]] * 16
    assert len(traced) == 1
    assert len(set(map(id, at_once(lambda k: pb.grad(gradient.base))))) == 1  # type: ignore[attr-defined]


def test_functions_that_call_one_another_wait_for_nobody(hasty: None) -> None:
    def down(x: Any, n: Any, other: Any) -> Any:
        return x + 1 if n == 0 else other(x, n - 1)

    @pb.function
    def f(x: Any, n: pb.Static) -> Any:
        return down(x, n, g)

    @pb.function
    def g(x: Any, n: pb.Static) -> Any:
        return 2 * down(x, n, f)

    found = at_once(lambda k: (f if k % 2 else g)(np.zeros(1), 3).tolist())
    assert found == [[4.0]] * 8


def test_a_function_that_calls_itself_is_still_refused() -> None:
    @pb.function
    def f(x: Any, n: pb.Static) -> Any:
        return f(x, n)

    found = at_once(lambda k: f(np.zeros(1), 3), 2)
    assert all(isinstance(e, TraceError) and e.code == "E142" for e in found)
