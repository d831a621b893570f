"""Networks by JAX: jitted, in both layouts of images."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.systems.networks_walk import run
from pullback.nn.layer import Layer
from pullback.tracing import tree

__all__ = ["FORMS", "infer", "train"]

FORMS = ("jit", "jit, channels last")
Call = Callable[[], Any]


def _pair(n: Any) -> tuple[int, int]:
    return (n, n) if isinstance(n, int) else tuple(n)


def _kinds(jax: Any, last: bool, training: bool) -> dict[str, Any]:
    jnp, lax, random = jax.numpy, jax.lax, jax.random
    layout = "NHWC" if last else "NCHW"
    space = (1, 2) if last else (2, 3)
    channel = 3 if last else 1

    def windows(n: Any) -> tuple[int, ...]:
        h, w = _pair(n)
        return (1, h, w, 1) if last else (1, 1, h, w)

    def borders(n: Any) -> list[tuple[int, int]]:
        out = [(0, 0)] * 4
        for axis, p in zip(space, _pair(n)):
            out[axis] = (p, p)
        return out

    def along(x: Any) -> Any:
        return x if last else x[:, None, None]

    def conv(s: Any, p: Any, _: Any, x: Any) -> Any:
        y = lax.conv_general_dilated(
            x,
            p["w"],
            _pair(s["stride"]),
            [(n, n) for n in _pair(s["padding"])],
            rhs_dilation=_pair(s["dilation"]),
            dimension_numbers=(layout, "OIHW", layout),
            feature_group_count=s["groups"],
        )
        return y + along(p["b"]) if "b" in p else y

    def norm(s: Any, p: Any, state: Any, x: Any) -> Any:
        mean, variance = state["mean"], state["variance"]
        if training:
            axes = (0, *space)
            mean, variance = x.mean(axes), x.var(axes)
        scale = p["scale"] * lax.rsqrt(variance + s["eps"])
        return x * along(scale) + along(p["shift"] - mean * scale)

    def max_pool(s: Any, p: Any, _: Any, x: Any) -> Any:
        size, stride = _pair(s["kernel_size"]), _pair(s["stride"] if s["stride"] is not None else s["kernel_size"])
        border = borders(s["padding"])
        for axis, w, step in zip(space, size, stride):
            low, high = border[axis]
            left = (x.shape[axis] + low + high - w) % step
            border[axis] = (low, high + (step - left if s["ceil_mode"] and left else 0))
        return lax.reduce_window(x, -jnp.inf, lax.max, windows(size), windows(stride), border)

    def avg_pool(s: Any, p: Any, _: Any, x: Any) -> Any:
        stride = s["stride"] if s["stride"] is not None else s["kernel_size"]
        total = lax.reduce_window(x, 0.0, lax.add, windows(s["kernel_size"]), windows(stride), borders(s["padding"]))
        return total / np.prod(_pair(s["kernel_size"]))

    def response(s: Any, p: Any, _: Any, x: Any) -> Any:
        size = s["size"]
        window = [1, 1, 1, 1]
        border = [(0, 0)] * 4
        window[channel], border[channel] = size, (size // 2, (size - 1) // 2)
        squares = lax.reduce_window(x * x, 0.0, lax.add, tuple(window), (1, 1, 1, 1), border)
        return x / (s["k"] + s["alpha"] / size * squares) ** s["beta"]

    def flatten(s: Any, p: Any, _: Any, x: Any) -> Any:
        if last and x.ndim == 4:
            x = x.transpose(0, 3, 1, 2)
        return x.reshape(x.shape[0], -1)

    def dropout(s: Any, p: Any, _: Any, x: Any) -> Any:
        if not training:
            return x
        keep = random.bernoulli(random.key(0), 1 - s["p"], x.shape)
        return jnp.where(keep, x / (1 - s["p"]), 0)

    def attention(s: Any, p: Any, _: Any, x: Any) -> Any:
        n, length, width = x.shape
        heads = s["num_heads"]
        parts = (x @ p[name]["w"].T + p[name]["b"] for name in ("query", "key", "value"))
        q, k, v = (part.reshape(n, length, heads, -1).transpose(0, 2, 1, 3) for part in parts)
        scores = jnp.einsum("nhqd,nhkd->nhqk", q, k) / np.sqrt(width // heads)
        if s["is_causal"]:
            scores = jnp.where(np.tri(length, dtype=bool), scores, -jnp.inf)
        y = jnp.einsum("nhqk,nhkd->nhqd", jax.nn.softmax(scores), v)
        return y.transpose(0, 2, 1, 3).reshape(n, length, width) @ p["out"]["w"].T + p["out"]["b"]

    def lstm(s: Any, p: Any, _: Any, x: Any) -> Any:
        for layer in [p[f"lstm{k + 1}"] for k in range(s["num_layers"])] if s["num_layers"] > 1 else [p]:
            x = _lstm(jax, layer, x)
        return x

    def layer_norm(s: Any, p: Any, _: Any, x: Any) -> Any:
        centered = x - x.mean(-1, keepdims=True)
        return centered * lax.rsqrt((centered**2).mean(-1, keepdims=True) + s["eps"]) * p["scale"] + p["shift"]

    def dense(s: Any, p: Any, _: Any, x: Any) -> Any:
        y = x @ p["w"].T
        return y + p["b"] if "b" in p else y

    return {
        "conv": conv,
        "batch_norm": norm,
        "dense": dense,
        "layer_norm": layer_norm,
        "embedding": lambda s, p, _, x: p["w"][x],
        "attention": attention,
        "lstm": lstm,
        "positional_encoding": lambda s, p, _, x: x + p["w"][: x.shape[1]],
        "max_pool": max_pool,
        "avg_pool": avg_pool,
        "global_avg_pool": lambda s, p, _, x: x.mean(space),
        "local_response_norm": response,
        "flatten": flatten,
        "dropout": dropout,
        "relu": lambda s, p, _, x: jnp.maximum(x, 0),
        "gelu": lambda s, p, _, x: jax.nn.gelu(x, approximate=False),
        "tanh": lambda s, p, _, x: jnp.tanh(x),
        "concat": lambda s, p, _, xs: jnp.concatenate(xs, channel if s["axis"] == 1 else s["axis"]),
    }


def _lstm(jax: Any, p: Any, x: Any) -> Any:
    jnp = jax.numpy
    given = x @ p["w"].T + p["b"] + p["c"]

    def step(state: Any, now: Any) -> Any:
        h, cell = state
        i, f, g, o = jnp.split(now + h @ p["u"].T, 4, axis=-1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (h, cell), h

    zeros = jnp.zeros((x.shape[0], p["u"].shape[1]), x.dtype)
    return jax.lax.scan(step, (zeros, zeros), given.swapaxes(0, 1))[1].swapaxes(0, 1)


def _prepared(jax: Any, form: str, x: NDArray[Any]) -> tuple[bool, Any]:
    last = form.endswith("channels last") and x.ndim == 4
    return last, jax.device_put(x.transpose(0, 2, 3, 1) if last else x)


def infer(network: Layer, form: str, parameters: Any, state: Any, x: NDArray[Any]) -> Call:
    """Inference: gives the result."""
    jax = import_module("jax")
    last, inputs = _prepared(jax, form, x)
    kinds = _kinds(jax, last, training=False)
    p, s = jax.device_put(parameters), jax.device_put(state)
    whole = jax.jit(lambda p, s, x: run(network, kinds, p, s, x, False))
    return lambda: np.asarray(whole(p, s, inputs))


def train(
    network: Layer, form: str, parameters: Any, state: Any, x: NDArray[Any], target: NDArray[Any], rate: float
) -> Call:
    """A step of descent on the cross-entropy: gives the loss before it."""
    jax = import_module("jax")
    last, inputs = _prepared(jax, form, x)
    kinds = _kinds(jax, last, training=True)
    held, s = jax.device_put(parameters), jax.device_put(state)
    labels = jax.device_put(target)
    take = jax.numpy.take_along_axis

    def loss(p: Any, x: Any) -> Any:
        found = run(network, kinds, p, s, x, True)
        scores = found if isinstance(found, tuple) else (found,)
        losses = [-take(jax.nn.log_softmax(y), labels[..., None], axis=-1).mean() for y in scores]
        return losses[0] + 0.3 * sum(losses[1:])

    def step(p: Any, x: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(p, x)
        return jax.tree.map(lambda p, g: p - rate * g, p, gradient), value

    compiled = jax.jit(step, donate_argnums=0)
    kept = [tree.map_leaves(lambda a: a + 0, held)]

    def call() -> Any:
        kept[0], value = compiled(kept[0], inputs)
        return np.asarray(value)

    return call
