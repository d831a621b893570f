"""Workers of `nn.fit` without Ray: threads of this process, which talk over sockets and can die."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from pullback.cluster import LostError
from pullback.nn.training import reduction, replica, shared

__all__ = ["Crew", "Dies", "crew"]


class Dies(BaseException):
    """The exception of a worker in the place where it dies."""


class Crew:
    """The workers that were started, and what was asked of them.

    Attributes:
        made: the names of the processes, in order.
        asked: pairs of a name and a method.
        ended: the names of those that were told to end.
        threads: the workers.
        before, after_sum: functions of a worker's name, its life (0, 1 after a restart) and the step, called there.
    """

    def __init__(self) -> None:
        self.made: list[str] = []
        self.asked: list[tuple[str, str]] = []
        self.ended: list[str] = []
        self.threads: list[Thread] = []
        self.before: Callable[[str, int, int], None] = lambda name, life, step: None
        self.after_sum: Callable[[str, int, int], None] = lambda name, life, step: None

    def process(self, what: str, make: Any, *arguments: Any, options: Any) -> Thread:
        """Start a worker."""
        self.made.append(what)
        self.threads.append(Thread(self, what, self.made.count(what) - 1, make, arguments))
        return self.threads[-1]


class Thread:
    """A worker on a thread (`cluster.Process`)."""

    def __init__(self, crew: Crew, what: str, life: int, make: Any, arguments: Any) -> None:
        self.crew, self.what, self.life, self.dead = crew, what, life, False
        self.pool = ThreadPoolExecutor(1)
        self.object = make(*arguments)

    def ask(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method there."""
        self.crew.asked.append((self.what, method))
        return self.pool.submit(self._run, method, arguments)

    def _run(self, method: str, arguments: Any) -> Any:
        if self.dead:
            raise LostError("E711", f"{self.what}: its process is lost", remedy=shared.REMEDY)
        self.object.of = self
        try:
            return getattr(self.object, method)(*arguments)
        except Dies:
            self.dead = True
            self.object.links.close()
            return self._run(method, arguments)

    def end(self) -> None:
        """End it."""
        self.crew.ended.append(self.what)
        self.object.links.close()
        self.pool.shutdown()


class Mortal(replica.Replica):
    """A replica that may die: before a step, or when gradients are added but not applied."""

    of: Thread

    def _step(self, sizes: Any, own: Any, step: int) -> float:
        self.of.crew.before(self.of.what, self.of.life, step)
        self.now = step
        return super()._step(sizes, own, step)


@contextmanager
def crew() -> Iterator[Crew]:
    """Have `fit(workers=…)` use threads."""
    found = Crew()

    def reduce(links: Any, *arguments: Any) -> None:
        whole(links, *arguments)
        owner = next(t for t in found.threads if t.object.links is links)
        if hasattr(owner.object, "now"):
            found.after_sum(owner.what, owner.life, owner.object.now)

    def answer(promised: Future[Any], *rest: Any) -> Any:
        return promised.result(120)

    whole = reduction.reduce
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "Process", found.process)
        patch.setattr(shared, "answer", answer)
        patch.setattr(shared, "sent", lambda value: value)
        patch.setattr(shared, "Replica", Mortal)
        patch.setattr(replica, "reduce", reduce)
        yield found
