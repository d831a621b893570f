"""Whole programs by PyTorch: eager reverse mode, and compiled."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.environment import allowed_threads

if TYPE_CHECKING:
    from benchmarks.program_cases import ProgramCase

__all__ = ["FORMS", "SLOW_FORMS", "prepare"]

SLOW_FORMS = ("compiled",)
FORMS = dict.fromkeys(
    ("softmax-regression", "nnmf-20", "mlp", "log-sum-exp", "mixture", "lstm", "max-pool", "lenet-64", "lenet-500"),
    ("eager",),
)


def _losses() -> dict[str, Callable[..., Any]]:
    torch: Any = import_module("torch")
    functional: Any = import_module("torch.nn.functional")

    def likelihood(z: Any, labels: Any) -> Any:
        return functional.cross_entropy(z, labels)

    def pool(x: Any) -> Any:
        return functional.max_pool2d(x, 2)

    def softmax_regression(w: Any, b: Any, x: Any, labels: Any) -> Any:
        return likelihood(functional.linear(x, w, b), labels)

    def nnmf(w: Any, h: Any, a: Any) -> Any:
        p = w @ h
        return (torch.log(p) + a / p).sum()

    def mlp(w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, x: Any, labels: Any) -> Any:
        h = functional.relu(functional.linear(functional.relu(functional.linear(x, w1, b1)), w2, b2))
        return likelihood(functional.linear(h, w3, b3), labels)

    def mixture(weight: Any, mean: Any, scale: Any, x: Any) -> Any:
        z = (x[:, None] - mean) * torch.exp(-scale)
        height = weight - torch.logsumexp(weight, 0) - scale.sum(1)
        return torch.logsumexp(height - (z * z).sum(-1) / 2, 1).sum()

    def lstm(u: Any, v: Any, b: Any, x: Any) -> Any:
        wide = b.shape[1]
        all_v = v.reshape(4 * wide, wide)
        inputs = functional.linear(x, u.reshape(4 * wide, -1), b.reshape(4 * wide))
        cell = hidden = torch.zeros(x.shape[1], wide)
        total = 0.0
        for own in inputs:
            keep, take, new, give = torch.chunk(own + functional.linear(hidden, all_v), 4, 1)
            cell = torch.sigmoid(keep) * cell + torch.sigmoid(take) * torch.tanh(new)
            hidden = torch.sigmoid(give) * torch.tanh(cell)
            total = total + (hidden * hidden).sum()
        return total

    def lenet(k1: Any, b1: Any, k2: Any, b2: Any, w3: Any, b3: Any, w4: Any, b4: Any, x: Any, labels: Any) -> Any:
        s1 = pool(functional.conv2d(x[:, None], k1[:, None], b1))
        s2 = pool(functional.conv2d(s1, k2, b2))
        h = functional.relu(functional.linear(s2.flatten(1), w3.flatten(1), b3))
        return likelihood(functional.linear(h, w4, b4), labels)

    return {
        "softmax-regression": softmax_regression,
        "nnmf-20": nnmf,
        "mlp": mlp,
        "log-sum-exp": lambda v: torch.logsumexp(v, 0),
        "mixture": mixture,
        "lstm": lstm,
        "max-pool": pool,
        "lenet-64": lenet,
        "lenet-500": lenet,
    }


def prepare(case: ProgramCase, form: str) -> Callable[[], Any]:
    """A call on tensors that share the inputs' memory; class labels as PyTorch wants them."""
    torch: Any = import_module("torch")
    torch.set_num_threads(allowed_threads())
    loss = _losses()[case.name]
    if form == "compiled":
        loss = torch.compile(loss)
    arrays = [a.astype(np.int64) if a.dtype.kind in "iu" else a for a in case.make()]
    tensors = [torch.from_numpy(a) for a in arrays]
    parameters = [t.requires_grad_() for t in tensors[: case.parameters]]
    pooling = case.name == "max-pool"

    def call() -> Any:
        value = loss(*(parameters if pooling else tensors))
        gradients = torch.autograd.grad(value, parameters, tensors[-1] if pooling else None)
        return (value.detach().numpy(), *(g.numpy() for g in gradients))

    return call
