"""Random networks: derivatives by run, whatever is forced when, and what fails."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import lazy
from pullback.lazy import plan

COUNT = 1000
DIFFERENT = 40  # programs, each with its own values to force


class Program:
    """A random program of 3 vectors: each step an operation of earlier values; the loss is the sum of the last ones."""

    def __init__(self, seed: int) -> None:
        r = np.random.default_rng(seed)
        self.steps = [(int(r.integers(5)), *(int(k) for k in r.integers(0, n + 3, 2))) for n in range(r.integers(2, 9))]

    def __call__(self, xp: Any, xs: Any, look: Any = lambda k, x: x) -> Any:
        values = list(xs)
        for k, (operation, i, j) in enumerate(self.steps):
            a, b = values[i], values[j]
            made = [lambda: a + b, lambda: a * b, lambda: xp.tanh(a), lambda: a - 0.5 * b, lambda: xp.sin(a) * b][
                operation
            ]
            values.append(look(k, made()))
        return xp.sum(values[-1] * values[-2])


def numerical(program: Program, xs: Any) -> Any:
    """The gradient by complex steps, of NumPy alone."""
    out = np.zeros((3, 2))
    for place in np.ndindex(3, 2):
        moved = xs.astype(complex)
        moved[place] += 1e-30j
        out[place] = program(np, moved).imag / 1e-30
    return out


class Fail(lazy.Foreign):
    """An operation in Python that passes values on after a while, or fails."""

    def __init__(self, forward: bool, backward: bool) -> None:
        self.fails = forward, backward
        self.released = 0

    def result(self, x: Any) -> Any:
        return x.shape, x.dtype

    def forward(self, x: Any) -> Any:
        time.sleep(0.0005 * (id(self) % 3))
        if self.fails[0]:
            raise ArithmeticError("forward")
        return x.copy(), None

    def backward(self, saved: Any, gradient: Any) -> Any:
        time.sleep(0.0005 * (id(self) % 3))
        if self.fails[1]:
            raise ArithmeticError("backward")
        return (gradient,)


@pytest.mark.slow
@pytest.mark.usefixtures("few_objects")
def test_random_graphs_forced_anywhere() -> None:
    """A thousand graphs: all in one piece, forced at random nodes, with operations in Python in random places."""
    gc.collect()  # of other tests
    before = lazy.stats()
    for seed in range(COUNT):
        program, xs = Program(seed % DIFFERENT), np.random.default_rng(seed).normal(size=(3, 2))
        r = np.random.default_rng(seed % (2 * DIFFERENT))
        forced = set(r.integers(0, 9, 3).tolist()) if seed % 3 else set()
        python = set(r.integers(0, 9, 2).tolist()) if seed % 10 == 0 else set()

        def look(k: int, x: Any, forced: Any = forced, python: Any = python) -> Any:
            if k in forced:
                x.numpy()
            return Fail(False, False)(x) if k in python else x

        cells = [lazy.Weight(x) for x in xs]
        loss = program(lazy, cells, look)
        value = lazy.backward(loss)
        assert value == pytest.approx(program(np, xs), rel=1e-12, abs=1e-12)
        found = [np.zeros(2) if w.grad is None else w.grad for w in cells]
        np.testing.assert_allclose(found, numerical(program, xs), rtol=1e-11, atol=1e-11)
        del loss
    after = lazy.stats() - before
    assert (after.live_bytes, after.tapes) == (0, 0)


@pytest.mark.slow
@pytest.mark.usefixtures("few_objects")
def test_random_graphs_cut_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """With pieces of few nodes: short ones at first, longer ones when a graph comes again."""
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    for name, value in (("SHORTEST", 2), ("LONGEST", 6), ("ROUNDS", 3), ("UNIT", 4), ("_SEEN", set())):
        monkeypatch.setattr(plan, name, value)
    before = lazy.stats()
    for seed in range(60):
        program, xs = Program(seed), np.random.default_rng(seed).normal(size=(3, 2))
        for _ in range(2):
            cells = [lazy.Weight(x) for x in xs]
            value = lazy.backward(program(lazy, cells))
            assert value == pytest.approx(program(np, xs), rel=1e-12, abs=1e-12)
            found = [np.zeros(2) if w.grad is None else w.grad for w in cells]
            np.testing.assert_allclose(found, numerical(program, xs), rtol=1e-11, atol=1e-11)
    after = lazy.stats() - before
    assert (after.live_bytes, after.tapes) == (0, 0)


def test_the_same_program_traced() -> None:
    for seed in range(8):
        program, xs = Program(seed), np.random.default_rng(seed).normal(size=(3, 2))
        traced = pb.grad(pb.function(lambda a, b, c, program=program: program(pb, (a, b, c))), wrt=(0, 1, 2))
        ours = lazy.grad(lambda a, b, c, program=program: program(lazy, (a, b, c)), (0, 1, 2))(*xs)
        for a, b in zip(ours, traced.interpret(*xs), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.usefixtures("few_objects")
def test_exceptions_surface_once_and_free_everything(backward: bool) -> None:
    gc.collect()  # of other tests
    before = lazy.stats()
    for seed in range(60):
        r = np.random.default_rng(seed)
        program, bad = Program(seed), int(r.integers(len(Program(seed).steps)))
        cells = [lazy.Weight(x) for x in r.normal(size=(3, 2))]

        def look(k: int, x: Any, bad: int = bad) -> Any:
            return Fail(k == bad and not backward, k == bad and backward)(x)

        loss = program(lazy, cells, look)
        try:
            lazy.backward(loss)
        except ArithmeticError as error:
            assert [n for n in error.__notes__ if "test_random.py" in n]
            assert len(error.__notes__) == 1
        del loss
    after = lazy.stats() - before
    assert (after.live_bytes, after.tapes) == (0, 0)


def test_independent_operations_in_python_overlap() -> None:
    barrier = threading.Barrier(2, timeout=10)

    class Meet(lazy.Foreign):
        def result(self, x: Any) -> Any:
            return x.shape, x.dtype

        def forward(self, x: Any) -> Any:
            barrier.wait()
            return 2.0 * x, None

        def backward(self, saved: Any, gradient: Any) -> Any:
            barrier.wait()
            return (2.0 * gradient,)

    meet = Meet()
    assert lazy.grad(lambda x: lazy.sum(meet(x * 1.0) * meet(x * 3.0)))(np.array([1.0, 2.0])).tolist() == [24.0, 48.0]
