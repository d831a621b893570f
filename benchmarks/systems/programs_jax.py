"""Whole programs by JAX: compiled, on arrays of the device, each call waited for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.program_cases import ProgramCase

__all__ = ["FORMS", "prepare"]

FORMS = {
    **dict.fromkeys(("softmax-regression", "nnmf-20", "mlp", "log-sum-exp", "mixture", "lstm"), ("jit",)),
    **dict.fromkeys(("max-pool", "lenet-64", "lenet-500"), ("reduce_window", "reshape")),
}


def _losses(form: str) -> dict[str, Callable[..., Any]]:
    jax, jnp = import_module("jax"), import_module("jax.numpy")

    def likelihood(z: Any, labels: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(z), labels[:, None].astype(jnp.int32), 1).mean()

    def pool(x: Any) -> Any:
        if form == "reshape":
            *lead, h, w = x.shape
            return x.reshape(*lead, h // 2, 2, w // 2, 2).max((-3, -1))
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def softmax_regression(w: Any, b: Any, x: Any, labels: Any) -> Any:
        return likelihood(x @ w.T + b, labels)

    def nnmf(w: Any, h: Any, a: Any) -> Any:
        p = w @ h
        return (jnp.log(p) + a / p).sum()

    def mlp(w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, x: Any, labels: Any) -> Any:
        h = jax.nn.relu(jax.nn.relu(x @ w1.T + b1) @ w2.T + b2)
        return likelihood(h @ w3.T + b3, labels)

    def mixture(weight: Any, mean: Any, scale: Any, x: Any) -> Any:
        z = (x[:, None] - mean) * jnp.exp(-scale)
        height = weight - jax.scipy.special.logsumexp(weight) - scale.sum(1)
        return jax.scipy.special.logsumexp(height - (z * z).sum(-1) / 2, axis=1).sum()

    def lstm(u: Any, v: Any, b: Any, x: Any) -> Any:
        wide = b.shape[1]
        all_u, all_v, all_b = u.reshape(4 * wide, -1), v.reshape(4 * wide, wide), b.reshape(4 * wide)
        inputs = x @ all_u.T + all_b

        def step(state: Any, own: Any) -> Any:
            cell, hidden = state
            keep, take, new, give = jnp.split(own + hidden @ all_v.T, 4, axis=1)
            cell = jax.nn.sigmoid(keep) * cell + jax.nn.sigmoid(take) * jnp.tanh(new)
            hidden = jax.nn.sigmoid(give) * jnp.tanh(cell)
            return (cell, hidden), (hidden * hidden).sum()

        zero = jnp.zeros((x.shape[1], wide), x.dtype)
        return jax.lax.scan(step, (zero, zero), inputs)[1].sum()

    def convolution(x: Any, k: Any, b: Any) -> Any:
        return jax.lax.conv_general_dilated(x, k, (1, 1), "VALID") + b[:, None, None]

    def lenet(k1: Any, b1: Any, k2: Any, b2: Any, w3: Any, b3: Any, w4: Any, b4: Any, x: Any, labels: Any) -> Any:
        s1 = pool(convolution(x[:, None], k1[:, None], b1))
        s2 = pool(convolution(s1, k2, b2))
        h = jax.nn.relu(s2.reshape(len(x), -1) @ w3.reshape(len(w3), -1).T + b3)
        return likelihood(h @ w4.T + b4, labels)

    return {
        "softmax-regression": softmax_regression,
        "nnmf-20": nnmf,
        "mlp": mlp,
        "log-sum-exp": jax.scipy.special.logsumexp,
        "mixture": mixture,
        "lstm": lstm,
        "max-pool": pool,
        "lenet-64": lenet,
        "lenet-500": lenet,
    }


def prepare(case: ProgramCase, form: str) -> Callable[[], Any]:
    """A call on arrays of the device."""
    jax = import_module("jax")
    loss = _losses(form)[case.name]
    arguments = tuple(jax.device_put(a) for a in case.make())

    def by_vjp(x: Any, g: Any) -> Any:
        value, back = jax.vjp(loss, x)
        return value, back(g)

    gradient = jax.value_and_grad(loss, argnums=tuple(range(case.parameters)))
    function = jax.jit(by_vjp if case.name == "max-pool" else gradient)
    wait = jax.block_until_ready
    return lambda: _flat(wait(function(*arguments)))


def _flat(result: Any) -> tuple[Any, ...]:
    value, gradients = result
    return (value, *gradients) if isinstance(gradients, tuple) else (value, gradients)
