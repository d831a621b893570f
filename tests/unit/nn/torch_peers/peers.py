"""The same networks in PyTorch, parameters under the same names. Run as a module, it stores their numbers."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from tests.unit.nn.torch_peers.cases import (
    LABEL_LENGTHS,
    LABELS,
    LAYERS,
    LENGTHS,
    MASK,
    MODELS,
    NUMBERS,
    Case,
    digest,
    filled,
    leaves,
    target,
    wave,
)

PLACES = {"w": "weight_ih", "u": "weight_hh", "b": "bias_ih", "c": "bias_hh"}


def recurrent(kind: Any, p: Any, x: Any, layers: int = 1, *, width: int = 4, both: bool = False) -> Any:
    """torch.nn.LSTM or GRU with parameters of a tree: forward and backward of each layer."""
    name = kind.__name__.lower()
    module = kind(x.shape[2], width, layers, batch_first=True, bidirectional=both).to(x.dtype)
    parameters = {}
    for layer in range(layers):
        own = p[f"{name}{layer + 1}"] if layers > 1 else p
        for suffix, part in (("", own["forward"]), ("_reverse", own["backward"])) if both else (("", own),):
            parameters |= {f"{PLACES[k]}_l{layer}{suffix}": part[k] for k in "wubc"}
    return torch.func.functional_call(module, parameters, x)


def attention(p: Any, x: Any, heads: int, groups: int, *, causal: bool = False, rotary: bool = False) -> Any:
    """Attention by torch's own function, its rotation by complex numbers."""
    n, steps, width = x.shape
    share = width // heads
    parts = (functional.linear(x, p[name]["w"], p[name]["b"]) for name in ("query", "key", "value"))
    q, k, v = (a.reshape(n, steps, -1, share).transpose(1, 2) for a in parts)
    if rotary:
        t, i = torch.arange(steps, dtype=torch.float64), torch.arange(share // 2, dtype=torch.float64)
        angles = torch.outer(t, 10000.0 ** (-2 * i / share))
        turn = torch.polar(torch.ones_like(angles), angles)
        q, k = (
            torch.view_as_real(torch.view_as_complex(a.double().reshape(*a.shape[:-1], -1, 2)) * turn)
            .reshape(a.shape)
            .to(a.dtype)
            for a in (q, k)
        )
    y = functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    return functional.linear(y.transpose(1, 2).reshape(n, steps, width), p["out"]["w"], p["out"]["b"])


def looking(p: Any, x: Any, heads: int, groups: int, *, causal: bool = False) -> Any:
    """Three steps that attend to five others, by torch's own function."""
    share = x.shape[2] // heads
    parts = ((x[:, :3], "query"), (x[:, 3:], "key"), (x[:, 3:], "value"))
    q, k, v = (
        functional.linear(z, p[name]["w"], p[name]["b"]).reshape(*z.shape[:2], -1, share).transpose(1, 2)
        for z, name in parts
    )
    seen = torch.from_numpy(MASK)[:, None, None, :] & torch.ones(3, 5, dtype=torch.bool).tril() if causal else None
    y = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
    return functional.linear(y.transpose(1, 2).reshape(x.shape[0], 3, -1), p["out"]["w"], p["out"]["b"])


def passed_on(kind: Any, p: Any, x: Any) -> Any:
    """Two modules, of which the second begins with the state of the first."""
    found, state = [], None
    for name, part in (("one", x[:, :2]), ("two", x[:, 2:])):
        module = kind(x.shape[2], 4, batch_first=True).to(x.dtype)
        parameters = {f"{PLACES[k]}_l0": p[name]["cell"][k] for k in "wubc"}
        y, state = torch.func.functional_call(module, parameters, (part, state))
        found.append(y)
    last = [state] if kind is torch.nn.GRU else [state[1], state[0]]
    return torch.cat([*found, *(s.transpose(0, 1) for s in last)], 1)


def sinusoids(x: Any) -> Any:
    """Sines and cosines of positions."""
    _, steps, width = x.shape
    angles = np.arange(steps)[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
    return torch.from_numpy(np.stack([np.sin(angles), np.cos(angles)], -1).reshape(steps, width)).to(x.dtype)


def ctc(x: Any) -> Any:
    """Torch's loss of the labels of `cases`."""
    labels, lengths, label_lengths = map(torch.from_numpy, (LABELS, LENGTHS, LABEL_LENGTHS))
    p = x.log_softmax(-1).transpose(0, 1)
    return functional.ctc_loss(p, labels, lengths, label_lengths, reduction="none")


PEERS: dict[str, Any] = {
    "ctc": lambda p, x: ctc(x),
    "embedding": lambda p, x: functional.embedding(x, p["w"]),
    "lstm": lambda p, x: recurrent(torch.nn.LSTM, p, x)[0],
    "lstm-last-backward": lambda p, x: recurrent(torch.nn.LSTM, p, x.flip(1))[1][0][0],
    "lstm-two-both": lambda p, x: recurrent(torch.nn.LSTM, p, x, 2, both=True)[0],
    "gru": lambda p, x: recurrent(torch.nn.GRU, p, x)[0],
    "gru-two-both": lambda p, x: recurrent(torch.nn.GRU, p, x, 2, both=True)[0],
    "attention": lambda p, x: attention(p, x, 2, 2),
    "attention-causal": lambda p, x: attention(p, x, 4, 4, causal=True),
    "attention-groups-rotary": lambda p, x: attention(p, x, 4, 2, causal=True, rotary=True),
    "attention-other": lambda p, x: looking(p["look"], x, 2, 2),
    "attention-other-causal-mask": lambda p, x: looking(p["look"], x, 4, 2, causal=True),
    "lstm-states": lambda p, x: passed_on(torch.nn.LSTM, p, x),
    "gru-states": lambda p, x: passed_on(torch.nn.GRU, p, x),
    "position-learned": lambda p, x: x + p["w"][: x.shape[1]],
    "position": lambda p, x: x + sinusoids(x),
}


def tensors(tree: dict[str, Any]) -> dict[str, Any]:
    """A tree of arrays as parameters of torch."""
    return {
        k: tensors(v) if isinstance(v, dict) else torch.from_numpy(v.copy()).requires_grad_() for k, v in tree.items()
    }


def theirs(name: str, case: Case, dtype: Any) -> dict[str, list[float]]:
    """PyTorch's results of a case: digests as `cases.ours` makes them."""
    parameters = tensors(filled(case.network().init(dtype=dtype)[0], dtype))
    x = torch.from_numpy(case.input(dtype))
    if case.below is None:
        x.requires_grad_()
    y = PEERS[name](parameters, x)
    (y * torch.from_numpy(wave(tuple(y.shape), 3).astype(dtype))).sum().backward()
    out = {"result": digest(y.detach())}
    if case.below is None:
        out["input"] = digest(x.grad)
    return out | {k: digest(p.grad) for k, p in leaves(parameters)}


def their_model(name: str, case: Case) -> dict[str, list[float]]:
    """PyTorch's results of a model: numbers as `cases.our_model` makes them."""
    from tests.unit.nn.torch_peers import models

    parameters = tensors(filled(case.network().init(dtype=np.float64)[0], np.float64))
    x = torch.from_numpy(case.input(np.float64))
    y = models.PEERS[name](models.Part(parameters), x)
    wanted = torch.from_numpy(target(name, case))
    if name == "autoencoder":
        loss = functional.mse_loss(y, wanted)
    else:
        scores = y if isinstance(y, tuple) else (y,)
        each = [functional.cross_entropy(s.flatten(0, -2), wanted.flatten()) for s in scores]
        loss = each[0] + sum(0.3 * other for other in each[1:])
    loss.backward()
    return {"loss": [loss.item(), 0.0]} | {k: digest(p.grad) for k, p in leaves(parameters)}


def main() -> None:
    """Store the numbers of all cases, or of those that are named."""
    stored = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
    for name, case in (LAYERS | MODELS).items():
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            stored[name] = their_model(name, case) if name in MODELS else theirs(name, case, np.float64)
    lines = (f"{json.dumps(name)}: {json.dumps(stored[name])}" for name in sorted(stored))
    NUMBERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
