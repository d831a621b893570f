"""The networks of `bench.dynamic` in PyTorch, operations at once, with Python's control flow."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.dynamic import COARSE, RATE, STRIDE, fine, fine_of, inputs, network, parameters, parts

__all__ = ["prepare"]


class _DynamicTrainingByTorch:
    def __init__(self, case: str, threads: int) -> None:
        self.torch = torch = import_module("torch")
        self.threads = threads
        self.kind, self.columns, conv = parts(case)
        self.start = parameters(self.columns, conv)
        self.xp = _NamesForTorch(torch)
        self.batches = [(torch.from_numpy(x), c, torch.from_numpy(y).argmax(1)) for x, c, y in inputs()]

    def reset(self) -> None:
        torch = self.torch
        self.p = {name: torch.from_numpy(x.copy()).requires_grad_() for name, x in self.start.items()}

    def call(self) -> Any:
        self.torch.set_num_threads(self.threads)
        return np.array([self.step(*batch) for batch in self.batches])

    def step(self, x: Any, c: int, y: Any) -> float:
        torch, p = self.torch, self.p
        entropy = torch.nn.functional.cross_entropy
        h, coarse = network(self.xp, p, x, self.columns)
        loss = entropy(coarse, torch.full((len(x),), c))
        if self.kind == "all":
            for k in range(COARSE):
                loss = loss + entropy(fine(torch, fine_of(p, k), h), y) * float(k == c)
        else:
            k = c if self.kind == "skip" else int(coarse.sum(0).argmax())
            loss = loss + entropy(fine(torch, fine_of(p, k), h), y)
        for w in p.values():
            w.grad = None
        loss.backward()
        with torch.no_grad():
            changed = [w for w in p.values() if w.grad is not None]
            torch._foreach_add_(changed, [w.grad for w in changed], alpha=-RATE)
        return float(loss.item())


class _NamesForTorch:
    """The functions that the networks need, by the names that all libraries have here."""

    def __init__(self, torch: Any) -> None:
        self.relu, self.reshape = torch.relu, torch.reshape
        self.conv = partial(torch.conv2d, stride=STRIDE)


def prepare(case: str, form: str, threads: int) -> Any:
    """A case."""
    return _DynamicTrainingByTorch(case, threads)
