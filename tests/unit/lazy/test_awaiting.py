"""Await: what is cancelled while it computes, or before it does, lets go of all that it held."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import numpy as np
import pytest

from pullback import lazy, nn


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
