"""The networks of `bench.dynamic` in PyTorch, operations at once, with Python's control flow."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from pullback.bench.dynamic import COARSE, RATE, fine, fine_of, inputs, network, parameters

__all__ = ["prepare"]


class _Training:
    def __init__(self, case: str, threads: int) -> None:
        self.torch = torch = import_module("torch")
        torch.set_num_threads(threads)
        kind, _, columns = case.partition("-")
        self.kind, self.columns = kind, int(columns or 1)
        self.start = parameters(self.columns)
        self.batches = [(torch.from_numpy(x), c, torch.from_numpy(y).argmax(1)) for x, c, y in inputs()]

    def reset(self) -> None:
        torch = self.torch
        self.p = {name: torch.from_numpy(x.copy()).requires_grad_() for name, x in self.start.items()}

    def call(self) -> Any:
        return np.array([self.step(*batch) for batch in self.batches])

    def step(self, x: Any, c: int, y: Any) -> float:
        torch, p = self.torch, self.p
        entropy = torch.nn.functional.cross_entropy
        h, coarse = network(torch, p, x, self.columns)
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


def prepare(case: str, form: str, threads: int) -> Any:
    """A case."""
    return _Training(case, threads)
