"""Await: what is cancelled while it computes, or before it does, lets go of all that it held."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import numpy as np
import pytest

from pullback import TraceError, lazy, nn


class Held(lazy.Foreign):
    """The identity, as soon as it is let go."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.released = 0

    def result(self, x: Any) -> Any:
        return x.shape, x.dtype

    def forward(self, x: Any) -> Any:
        self.begun.set()
        assert self.go.wait(20)
        return x.copy(), x

    def backward(self, saved: Any, gradient: Any) -> Any:
        return (gradient,)

    def release(self, saved: Any) -> None:
        self.released += 1


@pytest.mark.usefixtures("few_objects")
def test_an_await_that_is_cancelled_goes_on_at_once_and_its_work_ends_unseen() -> None:
    gc.collect()  # of other tests
    before = lazy.stats()
    held, w = Held(), lazy.Weight(np.ones(3))

    async def main() -> Any:
        async def wanted() -> Any:
            return await lazy.sum(lazy.exp(held(w * 2.0)))

        task = asyncio.create_task(wanted())
        await asyncio.to_thread(held.begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not held.go.is_set()  # it still computes, and nobody waits for it
        held.go.set()
        return await (w * 3.0)  # other values: they come when what is under way has ended

    assert asyncio.run(main()).tolist() == [3.0, 3.0, 3.0]
    gc.collect()
    assert (lazy.stats() - before).live_bytes == 0
    assert held.released == 1


def test_what_is_cancelled_before_it_runs_never_does() -> None:
    held = Held()

    async def main() -> None:
        task = asyncio.create_task(asyncio.sleep(0))
        waiting = asyncio.create_task(held(lazy.asarray(1.0)).predict())
        await task
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await asyncio.sleep(0.01)

    asyncio.run(main())
    assert not held.begun.is_set()


def test_a_step_of_training_that_is_cancelled_is_whole() -> None:
    """A step that has begun changes the weights entirely; one that has not, not at all."""
    held, w = Held(), lazy.Weight(np.array([1.0, 2.0]))
    trainer = lazy.Trainer([w], nn.sgd(0.25))

    async def main() -> None:
        task = asyncio.create_task(trainer.train(lazy.sum(held(w) ** 2)))
        await asyncio.to_thread(held.begun.wait)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert w.tolist() == [1.0, 2.0]
        held.go.set()

    asyncio.run(main())  # ends when its threads have
    assert (w.tolist(), w.grad, trainer.steps) == ([0.5, 1.0], None, 1)


@lazy.trampoline
async def descend(n: int, last: Any) -> Any:
    """The value of an array plus the depth of the call that reads it."""
    return await last if n == 0 else 1 + await descend(n - 1, last)


def test_f10_awaits_nest_to_any_depth() -> None:
    """In `lazy.run`, beside each other, and in asyncio, where Python alone raises RecursionError."""
    deep = 100_000
    x = lazy.asarray(2.0)

    async def plain(n: int) -> int:
        return 0 if n == 0 else 1 + await plain(n - 1)

    with pytest.raises(RecursionError):
        lazy.run(plain(deep))
    assert lazy.run(descend(deep, x * 3.0)) == deep + 6.0

    async def together() -> Any:
        return await lazy.gather(descend(20_000, x + 1.0), descend(3, x), x * 2.0)

    for found in (lazy.run(together()), asyncio.run(together())):
        assert [float(v) for v in found] == [20_003.0, 5.0, 4.0]


def test_errors_pass_through_nested_awaits() -> None:
    caught = list[int]()

    @lazy.trampoline
    async def failing(n: int) -> str:
        if n == 0:
            raise ValueError("at the bottom")
        try:
            return await failing(n - 1)
        except ValueError:
            caught.append(n)
            if n < 3:
                raise
            return f"caught at {n}"

    assert lazy.run(failing(5_000)) == "caught at 3"
    assert caught == [1, 2, 3]
    with pytest.raises(ValueError, match="at the bottom"):
        lazy.run(failing(2))
    with pytest.raises(TraceError, match="E705"):
        descend(1, lazy.asarray(1.0) * 2.0).__await__().send(None).coroutine.send(None).coroutine.send(None)
