"""The networks of `bench.dynamic` as lazy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb
from pullback import lazy, nn
from pullback.bench.dynamic import BATCH, COARSE, RATE, fine, fine_of, inputs, network, parameters

__all__ = ["prepare"]


def cross_entropy(scores: Any, wanted: Any) -> Any:
    """The mean over the batch, for one-hot rows."""
    return lazy.sum((lazy.logsumexp(scores, axis=1) - lazy.sum(scores * wanted, axis=1)) * (1.0 / BATCH))


class _Training:
    def __init__(self, case: str, threads: int) -> None:
        kind, _, columns = case.partition("-")
        self.kind, self.columns, self.threads = kind, int(columns or 1), threads
        self.start = parameters(self.columns)
        self.batches = [(lazy.asarray(x), c, lazy.asarray(y)) for x, c, y in inputs()]
        one_hot = np.eye(COARSE, dtype=np.float32)
        self.classes = [lazy.asarray(np.repeat(one_hot[c : c + 1], BATCH, 0)) for c in range(COARSE)]
        self.cells = lazy.weights(self.start)
        self.trainer = lazy.Trainer(self.cells, nn.sgd(RATE))
        self.rounds = 0

    def reset(self) -> None:
        for name, value in self.start.items():
            self.cells[name].set_value(value)
        self.rounds += 1
        if self.rounds == 2:  # pieces are compiled from their second call on, in the background
            for _ in range(2):
                self.call()
                lazy.finish_compiling()

    def call(self) -> Any:
        with pb.threads(self.threads):
            return np.array([self.trainer.step(self.loss(*batch)) for batch in self.batches])

    def loss(self, x: Any, c: int, y: Any) -> Any:
        p = self.cells
        h, coarse = network(lazy, p, x, self.columns)
        loss = cross_entropy(coarse, self.classes[c])
        if self.kind == "all":
            for k in range(COARSE):
                loss = loss + cross_entropy(fine(lazy, fine_of(p, k), h), y) * float(k == c)
            return loss
        k = c if self.kind == "skip" else int(lazy.argmax(lazy.sum(coarse, axis=0)))
        return loss + cross_entropy(fine(lazy, fine_of(p, k), h), y)


def prepare(case: str, form: str, threads: int) -> Any:
    """A case."""
    return _Training(case, threads)
