"""The networks of `bench.dynamic` as lazy arrays."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import pullback as pb
from benchmarks.dynamic import (
    BATCH,
    COARSE,
    KERNELS,
    RATE,
    STRIDE,
    fine,
    fine_of,
    inputs,
    network,
    parameters,
    parts,
)
from pullback import lazy, nn

__all__ = ["prepare"]


def cross_entropy(scores: Any, wanted: Any) -> Any:
    """The mean over the batch, for one-hot rows."""
    return lazy.sum((lazy.logsumexp(scores, axis=1) - lazy.sum(scores * wanted, axis=1)) * (1.0 / BATCH))


class _NamesForPullback:
    """The functions that the networks need."""

    relu = lazy.relu
    reshape = lazy.reshape
    _layers: Final = {s: lazy.lift(nn.conv(s[0], s[2:], stride=STRIDE, bias=False)) for s in KERNELS}

    @classmethod
    def conv(cls, x: Any, w: Any) -> Any:
        """A layer of `pullback.nn` as an operation."""
        return cls._layers[w.shape]({"w": w}, x)


class _DynamicTrainingByPullback:
    def __init__(self, case: str, threads: int) -> None:
        self.kind, self.columns, conv = parts(case)
        self.threads = threads
        self.start = parameters(self.columns, conv)
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
        h, coarse = network(_NamesForPullback, p, x, self.columns)
        loss = cross_entropy(coarse, self.classes[c])
        if self.kind == "all":
            for k in range(COARSE):
                loss = loss + cross_entropy(fine(lazy, fine_of(p, k), h), y) * float(k == c)
            return loss
        k = c if self.kind == "skip" else int(lazy.argmax(lazy.sum(coarse, axis=0)))
        return loss + cross_entropy(fine(lazy, fine_of(p, k), h), y)


def prepare(case: str, form: str, threads: int) -> Any:
    """A case."""
    return _DynamicTrainingByPullback(case, threads)
