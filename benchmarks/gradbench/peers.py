"""The same programs in JAX, jitted, in float64: what `measure` puts beside Pullback's.

Each is written as a user of JAX would: whole-array operations, `lax.scan` for loops, `stop_gradient` nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

Pair = tuple[Callable[[], Any], Callable[[], Any]]


def both(primal: Callable[..., Any], gradient: Callable[..., Any], *arguments: Any) -> Pair:
    """Calls of both functions that end when the result is there."""
    arguments = jax.tree.map(jnp.asarray, arguments)
    f, g = jax.jit(primal), jax.jit(gradient)
    return lambda: jax.block_until_ready(f(*arguments)), lambda: jax.block_until_ready(g(*arguments))


def llsq(given: Any) -> Pair:
    """Horner's rule as a scan over the coefficients; all points at once."""
    t = -1 + 2 * jnp.arange(given["n"], dtype=float) / (given["n"] - 1)

    def primal(x: Any) -> Any:
        value = jax.lax.scan(lambda v, c: (v * t + c, None), jnp.zeros_like(t), x[::-1])[0]
        return ((jnp.sign(t) - value) ** 2).sum() / 2

    return both(primal, jax.grad(primal), np.array(given["x"]))


def lse(given: Any) -> Pair:
    """Maximum, exponentials, sum."""

    def primal(x: Any) -> Any:
        m = x.max()
        return m + jnp.log(jnp.exp(x - m).sum())

    return both(primal, jax.grad(primal), np.array(given["x"]))


def gmm(given: Any) -> Pair:
    """One triangular matrix a component, and products over all points."""
    D, K, N, m, gamma = (given[name] for name in ("d", "k", "n", "m", "gamma"))
    x = jnp.array(given["x"])
    columns, rows = np.triu_indices(D, 1)

    def primal(parameters: Any) -> Any:
        alpha, mu, q, l = parameters
        Q = jnp.zeros((K, D, D)).at[:, rows, columns].set(l).at[:, np.arange(D), np.arange(D)].set(jnp.exp(q))
        z = jnp.einsum("kij,nkj->nki", Q, x[:, None] - mu)
        beta = alpha + q.sum(1) - (z**2).sum(2) / 2
        high = beta.max(1)
        likelihood = (high + jnp.log(jnp.exp(beta - high[:, None]).sum(1))).sum()
        weights = alpha.max() + jnp.log(jnp.exp(alpha - alpha.max()).sum())
        n = D + m + 1
        log_gamma = D * (D - 1) / 4 * math.log(math.pi) + sum(math.lgamma((n - j) / 2) for j in range(D))
        constant = K * (n * D * math.log(gamma / math.sqrt(2)) - log_gamma) - N * D / 2 * math.log(2 * math.pi)
        return likelihood - N * weights + constant - gamma**2 / 2 * (Q**2).sum() + m * q.sum()

    return both(primal, jax.grad(primal), [np.array(given[name]) for name in ("alpha", "mu", "q", "l")])


def lstm(given: Any) -> Pair:
    """A scan over the characters; the layers are unrolled."""
    main, extra, state, sequence = (
        np.array(given[name]) for name in ("main_params", "extra_params", "state", "sequence")
    )
    L, B = len(main) // 2, main.shape[1] // 4

    def primal(parameters: Any) -> Any:
        layers, around = parameters[0].reshape(L, 2, 4, B), parameters[1]

        def step(carry: Any, pair: Any) -> Any:
            now, after = pair
            x, states = now * around[0], []
            for n in range(L):
                (wf, wi, wo, wc), (bf, bi, bo, bc) = layers[n]
                hidden, cell = carry[n]
                cell = cell * jax.nn.sigmoid(x * wf + bf) + jax.nn.sigmoid(hidden * wi + bi) * jnp.tanh(
                    hidden * wc + bc
                )
                x = jax.nn.sigmoid(x * wo + bo) * jnp.tanh(cell)
                states.append(jnp.stack([x, cell]))
            y = x * around[1] + around[2]
            return jnp.stack(states), (after * (y - jnp.log(2 + jnp.exp(y).sum()))).sum()

        parts = jax.lax.scan(step, jnp.asarray(state).reshape(L, 2, B), (sequence[:-1], sequence[1:]))[1]
        return -parts.sum() / ((len(sequence) - 1) * B)

    return both(primal, jax.grad(primal), (main, extra))


def ode(given: Any) -> Pair:
    """A scan over the steps."""
    s = given["s"]
    h = 2 / s

    def primal(x: Any) -> Any:
        def rate(y: Any) -> Any:
            return x * jnp.concatenate([jnp.ones(1), y[:-1]])

        def step(y: Any, _: Any) -> Any:
            a = rate(y)
            b = rate(y + h / 2 * a)
            c = rate(y + h / 2 * b)
            return y + h / 6 * (a + 2 * b + 2 * c + rate(y + h * c)), None

        return jax.lax.scan(step, jnp.zeros_like(x), None, length=s)[0]

    return both(primal, jax.grad(lambda x: primal(x)[-1]), np.array(given["x"]))


def kmeans(given: Any) -> Pair:
    """Distances by differences, and the direction by the derivative of the gradient along ones."""
    points, centroids = np.array(given["points"]), np.array(given["centroids"])

    def primal(c: Any, p: Any) -> Any:
        return ((p[:, None] - c) ** 2).sum(2).min(1).sum()

    def direction(c: Any, p: Any) -> Any:
        gradient, curvature = jax.jvp(lambda c: jax.grad(primal)(c, p), (c,), (jnp.ones_like(c),))
        return gradient / curvature

    return both(primal, direction, centroids, points)


PEERS: dict[str, Callable[[Any], Pair]] = {
    "llsq": llsq, "lse": lse, "gmm": gmm, "lstm": lstm, "ode": ode, "kmeans": kmeans,
}  # fmt: skip
