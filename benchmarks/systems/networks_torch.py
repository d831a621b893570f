"""Networks by PyTorch: eager, in both layouts of images, and compiled."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.environment import allowed_threads
from benchmarks.systems.networks_walk import run
from pullback.nn.layer import Layer
from pullback.tracing import tree

__all__ = ["FORMS", "SLOW_FORMS", "infer", "loss_of", "train"]

FORMS = ("eager", "eager, channels last")
SLOW_FORMS = ("compile",)
Call = Callable[[], Any]


def _kinds(torch: Any, training: bool) -> dict[str, Any]:
    f = torch.nn.functional

    def conv(s: Any, p: Any, _: Any, x: Any) -> Any:
        return f.conv2d(x, p["w"], p.get("b"), s["stride"], s["padding"], s["dilation"], s["groups"])

    def norm(s: Any, p: Any, state: Any, x: Any) -> Any:
        mean, variance = state["mean"], state["variance"]
        return f.batch_norm(x, mean, variance, p["scale"], p["shift"], training, s["momentum"], s["eps"])

    def attention(s: Any, p: Any, _: Any, x: Any) -> Any:
        n, length, width = x.shape
        w, b = (torch.cat([p[name][k] for name in ("query", "key", "value")]) for k in ("w", "b"))
        q, k, v = f.linear(x, w, b).view(n, length, 3, s["num_heads"], -1).permute(2, 0, 3, 1, 4)
        y = f.scaled_dot_product_attention(q, k, v, is_causal=s["is_causal"])
        return f.linear(y.transpose(1, 2).reshape(n, length, width), p["out"]["w"], p["out"]["b"])

    def lstm(s: Any, p: Any, _: Any, x: Any) -> Any:
        layers = [p[f"lstm{k + 1}"] for k in range(s["num_layers"])] if s["num_layers"] > 1 else [p]
        weights = [layer[name] for layer in layers for name in ("w", "u", "b", "c")]
        zeros = x.new_zeros(len(layers), x.shape[0], s["hidden_size"])
        return torch.lstm(x, (zeros, zeros), weights, True, len(layers), 0.0, training, False, True)[0]

    return {
        "conv": conv,
        "batch_norm": norm,
        "dense": lambda s, p, _, x: f.linear(x, p["w"], p.get("b")),
        "layer_norm": lambda s, p, _, x: f.layer_norm(x, p["scale"].shape, p["scale"], p["shift"], s["eps"]),
        "embedding": lambda s, p, _, x: f.embedding(x, p["w"]),
        "attention": attention,
        "lstm": lstm,
        "positional_encoding": lambda s, p, _, x: x + p["w"][: x.shape[1]],
        "max_pool": lambda s, p, _, x: f.max_pool2d(
            x, s["kernel_size"], s["stride"], s["padding"], ceil_mode=s["ceil_mode"]
        ),
        "avg_pool": lambda s, p, _, x: f.avg_pool2d(x, s["kernel_size"], s["stride"], s["padding"], s["ceil_mode"]),
        "global_avg_pool": lambda s, p, _, x: x.mean((2, 3)),
        "local_response_norm": lambda s, p, _, x: f.local_response_norm(x, s["size"], s["alpha"], s["beta"], s["k"]),
        "flatten": lambda s, p, _, x: x.flatten(1),
        "dropout": lambda s, p, _, x: f.dropout(x, s["p"], training),
        "relu": lambda s, p, _, x: f.relu(x),
        "gelu": lambda s, p, _, x: f.gelu(x),
        "tanh": lambda s, p, _, x: torch.tanh(x),
        "concat": lambda s, p, _, xs: torch.cat(xs, s["axis"]),
    }


def _prepared(torch: Any, form: str, parameters: Any, state: Any, x: NDArray[Any]) -> tuple[Any, Any, Any]:
    torch.set_num_threads(allowed_threads())
    last = form.endswith("channels last")

    def tensor(a: NDArray[Any]) -> Any:
        t = torch.from_numpy(np.array(a))
        return t.contiguous(memory_format=torch.channels_last) if last and t.ndim == 4 else t

    return tree.map_leaves(tensor, parameters), tree.map_leaves(tensor, state), tensor(x)


def infer(network: Layer, form: str, parameters: Any, state: Any, x: NDArray[Any]) -> Call:
    """Inference: gives the result."""
    torch = import_module("torch")
    p, s, inputs = _prepared(torch, form, parameters, state, x)
    kinds = _kinds(torch, training=False)

    def whole(p: Any, x: Any) -> Any:
        return run(network, kinds, p, s, x, False)

    if form == "compile":
        whole = torch.compile(whole)

    def call() -> Any:
        with torch.inference_mode():
            return whole(p, inputs).numpy()

    return call


def loss_of(
    network: Layer,
    parameters: Any,
    state: Any,
    x: NDArray[Any],
    target: NDArray[Any],
    device: str = "cpu",
    form: str = "eager",
) -> tuple[Call, list[Any]]:
    """The mean cross-entropy as a function, and the parameters that it reads."""
    torch = import_module("torch")
    prepared = _prepared(torch, form, parameters, state, x)
    p, s, inputs = (tree.map_leaves(lambda t: t.to(device), each) for each in prepared)
    labels, leaves = torch.from_numpy(target).to(device), tree.flatten(p)[0]
    for leaf in leaves:
        leaf.requires_grad_()
    kinds, cross_entropy = _kinds(torch, training=True), torch.nn.functional.cross_entropy

    def loss() -> Any:
        found = run(network, kinds, p, s, inputs, True)
        scores = found if isinstance(found, tuple) else (found,)
        losses = [cross_entropy(y.reshape(-1, y.shape[-1]), labels.reshape(-1)) for y in scores]
        return losses[0] + 0.3 * sum(losses[1:])

    return loss, leaves


def train(
    network: Layer, form: str, parameters: Any, state: Any, x: NDArray[Any], target: NDArray[Any], rate: float
) -> Call:
    """A step of descent on the cross-entropy: gives the loss before it."""
    torch = import_module("torch")
    loss, leaves = loss_of(network, parameters, state, x, target, form=form)
    if form == "compile":
        loss = torch.compile(loss)

    def call() -> Any:
        value = loss()
        gradients = torch.autograd.grad(value, leaves)
        with torch.no_grad():
            torch._foreach_add_(leaves, gradients, alpha=-rate)
        return np.array(value.item())

    return call
