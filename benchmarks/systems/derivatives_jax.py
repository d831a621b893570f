"""Derivatives by JAX: compiled, in float64, each call waited for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.systems.triangles import places_below

if TYPE_CHECKING:
    from benchmarks.derivatives import DerivativeCase

__all__ = ["FORMS", "prepare"]

FORMS = {
    **dict.fromkeys(("dot", "max", "lse", "nnmf", "nnmf-10", "nnmf-50", "gmm"), ("grad",)),
    **dict.fromkeys(("plus", "scale", "project", "blocks"), ("jacfwd", "jacrev")),
}


def _point(jnp: Any, p: Any, x: Any) -> Any:
    r, c, f, center, k = p[0:3], p[3:6], p[6], p[7:9], p[9:11]
    angle = jnp.sqrt(r @ r)
    v, z = r / angle, x - c
    y = z * jnp.cos(angle) + jnp.cross(v, z) * jnp.sin(angle) + v * (v @ z) * (1 - jnp.cos(angle))
    e = y[0:2] / y[2]
    q = e @ e
    return e * (1 + k[0] * q + k[1] * q * q) * f + center


def _density(jax: Any, alpha: Any, mu: Any, q: Any, l: Any, x: Any) -> Any:
    """The logarithm of a mixture's posterior density without its constants."""
    jnp, log_sum = jax.numpy, jax.scipy.special.logsumexp
    n = x.shape[1]
    each, (rows, columns) = jnp.arange(n), places_below(n)
    factor = jnp.zeros((len(alpha), n, n)).at[:, each, each].set(jnp.exp(q))
    factor = factor.at[:, rows, columns].set(l)
    z = jnp.einsum("kij,nkj->nki", factor, x[:, None] - mu)
    beta = alpha + q.sum(1) - (z**2).sum(2) / 2
    return log_sum(beta, 1).sum() - len(x) * log_sum(alpha) - (factor**2).sum() / 2


def _function(name: str, form: str) -> Callable[..., Any]:
    jax, jnp = import_module("jax"), import_module("jax.numpy")
    jax.config.update("jax_enable_x64", True)
    jacobian = jax.jacrev if form == "jacrev" else jax.jacfwd

    def misfit(a: Any, p: Any) -> Any:
        return (jnp.log(p) + a / p).sum()

    def project(p: Any, x: Any) -> Any:
        return jax.vmap(lambda q: _point(jnp, p, q))(x)

    blocks = jax.vmap(jacobian(lambda p, x: _point(jnp, p, x), argnums=(0, 1)), (None, 0))
    functions: dict[str, Callable[..., Any]] = {
        "dot": jax.grad(lambda v, w: v @ w, argnums=(0, 1)),
        "max": jax.grad(lambda v: v.max()),
        "plus": jacobian(lambda v, w: v + w),
        "scale": jacobian(lambda s, v: s * v),
        "lse": jax.grad(lambda v: jax.scipy.special.logsumexp(v)),
        "nnmf": jax.grad(lambda a, w, h: misfit(a, jnp.outer(w, h)), argnums=(1, 2)),
        "nnmf-10": jax.grad(lambda a, w, h: misfit(a, w @ h), argnums=(1, 2)),
        "nnmf-50": jax.grad(lambda a, w, h: misfit(a, w @ h), argnums=(1, 2)),
        "gmm": jax.grad(lambda *given: _density(jax, *given), argnums=(0, 1, 2, 3)),
        "project": jacobian(project, argnums=(0, 1)),
        "blocks": blocks,
    }
    return jax.jit(functions[name])  # type: ignore[no-any-return]


def prepare(case: DerivativeCase, n: int, form: str) -> Callable[[], Any]:
    """A call on arrays of the device."""
    jax = import_module("jax")
    function = _function(case.name, form)
    arguments = tuple(jax.device_put(a) for a in case.make(n))
    wait = jax.block_until_ready
    return lambda: wait(function(*arguments))
