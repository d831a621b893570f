"""Threads that build, compute, differentiate and write arrays, their own and common ones, against NumPy."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from pullback import lazy
from pullback.lazy import memory, running

THREADS = 6
ROUNDS = 60
SIZE = 5
Pair = tuple[Any, np.ndarray[Any, Any]]


@pytest.fixture(autouse=True)
def _often_switched() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)
    assert not running.UNSETTLED


def in_threads(work: Callable[[int], None]) -> None:
    """Run work in threads that start together; raise the first error."""
    errors: list[BaseException] = []
    ready = threading.Barrier(THREADS)

    def run(k: int) -> None:
        ready.wait()
        try:
            work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(240)
        assert not t.is_alive()
    if errors:
        raise errors[0]


STEPS: list[Callable[[Any, Any, Any], Any]] = [
    lambda m, a, b: a + b,
    lambda m, a, b: a * b - a,
    lambda m, a, b: m.tanh(a) + b * 0.5,
    lambda m, a, b: m.sin(a) * m.cos(b),
    lambda m, a, b: a[::-1] - b,
    lambda m, a, b: m.sum(a * b) + a,
]


def step(random: Random, first: Pair, second: Pair) -> Pair:
    """A further pair of an array and its value."""
    f = random.choice(STEPS)
    return lazy.tanh(f(lazy, first[0], second[0])), np.tanh(f(np, first[1], second[1]))


def agree(pair: Pair) -> None:
    np.testing.assert_allclose(pair[0], pair[1], rtol=1e-9, atol=1e-11)


def test_common_arrays_are_built_on_and_computed_by_all_threads() -> None:
    values = np.random.default_rng(0).normal(size=(8, SIZE))
    common: list[Pair] = [(lazy.asarray(v), v) for v in values]

    def work(k: int) -> None:
        random = Random(k)
        own = common[k % 8]
        for _ in range(ROUNDS):
            own = step(random, random.choice(common), own)
            common[random.randrange(8)] = own
            if random.random() < 0.3:
                agree(random.choice(common))
            if random.random() < 0.1:
                own = random.choice(common)

    in_threads(work)
    for pair in common:
        agree(pair)


def test_one_waiting_graph_is_computed_from_all_ends() -> None:
    for seed in range(6):
        random = Random(seed)
        values = np.random.default_rng(seed).normal(size=(3, SIZE))
        pairs: list[Pair] = [(lazy.asarray(v), v) for v in values]
        for _ in range(40):
            pairs.append(step(random, random.choice(pairs[-6:]), random.choice(pairs)))
        del pairs[3:30:2]

        def work(k: int, pairs: list[Pair] = pairs) -> None:
            for pair in Random(k).sample(pairs, len(pairs)):
                agree(pair)

        in_threads(work)


def test_derivatives_of_common_and_own_weights() -> None:
    v = np.linspace(-1.0, 1.0, SIZE)
    common = lazy.exp(lazy.asarray(v)) * 0.5
    expected = np.exp(v) * 0.5

    def work(k: int) -> None:
        w = lazy.Weight(v + k)
        for n in range(ROUNDS // 4):
            w.grad = None
            s = 1.0 + n % 3
            loss = lazy.sum(lazy.tanh(w * common) * s)
            if n % 2:
                assert float(loss) == pytest.approx((np.tanh((v + k) * expected) * s).sum())
            lazy.backward(loss)
            slope = s * expected / np.cosh((v + k) * expected) ** 2
            np.testing.assert_allclose(w.grad, slope, rtol=1e-9)
            first = lazy.grad(lambda x, s=s: lazy.sum(lazy.sin(x * common) * s))
            found = lazy.grad(lambda x, first=first: lazy.sum(first(x) * x))(lazy.asarray(v))
            e = expected
            np.testing.assert_allclose(found, s * e * (np.cos(v * e) - v * e * np.sin(v * e)), rtol=1e-9, atol=1e-12)

    in_threads(work)


def test_writes_to_own_arrays_made_from_common_ones() -> None:
    a = np.arange(24.0).reshape(4, 6)
    common = lazy.asarray(a) * 2.0

    def work(k: int) -> None:
        random = Random(k)
        for _ in range(ROUNDS // 6):
            x, expected = common + 1.0, a * 2.0 + 1.0
            view, other = x[1:], expected[1:]
            for _ in range(6):
                i, j, v = random.randrange(3), random.randrange(6), random.random()
                view[i, j] = v
                other[i, j] = v
                x[:, j] += v
                expected[:, j] += v
            np.testing.assert_allclose(x, expected, rtol=1e-12)
            np.testing.assert_allclose(view.T, other.T, rtol=1e-12)
            np.testing.assert_allclose(common, a * 2.0, rtol=1e-15)

    in_threads(work)


def test_errors_of_common_arrays_reach_every_thread() -> None:
    x, place = lazy.asarray(np.linspace(0.0, 1.0, SIZE)), lazy.asarray([SIZE + 2])
    for _ in range(4):
        part = lazy.exp(x)
        bad, good = lazy.take(part, place) + 1.0, part * 2.0
        del part

        def work(k: int, bad: Any = bad, good: Any = good) -> None:
            with pytest.raises(IndexError):
                running.force([bad, good] if k % 2 else [bad])
            if not k:
                np.testing.assert_allclose(good, np.exp(np.linspace(0.0, 1.0, SIZE)) * 2.0, rtol=1e-12)

        in_threads(work)


@pytest.mark.slow
def test_a_view_that_a_thread_is_making_at_the_first_write_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first write of a process looks for all views; one of them has no fields yet."""
    a = np.arange(6.0)
    x = lazy.asarray(a) + 0.0
    half = object.__new__(lazy.Array)
    view = x[1:4]

    def finish() -> None:
        for name in ("application", "operands", "type", "tracked", "serial", "value"):
            setattr(half, name, getattr(view, name))
        half.origin = None

    timer = threading.Timer(0.02, finish)
    timer.start()
    monkeypatch.setattr(memory, "_WATCHING", [])
    monkeypatch.setattr(memory, "PATIENCE", 100_000)  # the timer's thread may wait on a busy machine
    plain = lazy.Array.__init__
    try:
        x[2] = 9.0
        timer.join()
        expected = a.copy()
        expected[2] = 9.0
        np.testing.assert_array_equal(half, expected[1:4])
        np.testing.assert_array_equal(view, expected[1:4])
    finally:
        lazy.Array.__init__ = plain  # type: ignore[method-assign]
