"""The gated network of `bench.dynamic` in JAX: one compiled step that chooses inside.

`switch` is `lax.switch` over the classifiers, `gather` takes the parameters of the chosen one out of stacked arrays,
`masks` runs all and keeps one.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.dynamic import BATCH, COARSE, RATE, fine, inputs, network, parameters

__all__ = ["prepare"]


class _DynamicTrainingByJax:
    def __init__(self, form: str) -> None:
        self.jax = jax = import_module("jax")
        jnp = import_module("jax.numpy")
        found = parameters(1)
        self.start = {n: x for n, x in found.items() if not n.startswith("fine")}
        for k in range(3):
            for kind in "wb":
                self.start[f"fine/{kind}{k}"] = np.stack([found[f"fine{c}/{kind}{k}"] for c in range(COARSE)])
        self.batches = [(jnp.asarray(x), c, jnp.asarray(y)) for x, c, y in inputs()]
        xp = _NamesForJax(jax)

        def entropy(scores: Any, wanted: Any) -> Any:
            return jnp.sum(jax.nn.logsumexp(scores, axis=1) - jnp.sum(scores * wanted, axis=1)) / BATCH

        def classifier(p: Any, c: Any) -> Any:
            return lambda k: (p[f"fine/w{k}"][c], p[f"fine/b{k}"][c])

        def loss(p: Any, x: Any, c: Any, y: Any) -> Any:
            h, coarse = network(xp, p, x, 1)
            own = entropy(coarse, jax.nn.one_hot(jnp.full(BATCH, c), COARSE))
            k = jnp.argmax(jnp.sum(coarse, axis=0))
            if form == "gather":
                return own + entropy(fine(xp, classifier(p, k), h), y)
            if form == "switch":
                ways = [lambda h, c=c: fine(xp, classifier(p, c), h) for c in range(COARSE)]
                return own + entropy(jax.lax.switch(k, ways, h), y)
            every = [jnp.where(k == c, entropy(fine(xp, classifier(p, c), h), y), 0.0) for c in range(COARSE)]
            return own + sum(every)

        def step(p: Any, x: Any, c: Any, y: Any) -> Any:
            value, gradient = jax.value_and_grad(loss)(p, x, c, y)
            return value, {n: p[n] - RATE * gradient[n] for n in p}

        self.step = jax.jit(step, donate_argnums=0)

    def reset(self) -> None:
        jnp = import_module("jax.numpy")
        self.p = {n: jnp.array(x) for n, x in self.start.items()}

    def call(self) -> Any:
        losses = []
        for x, c, y in self.batches:
            value, self.p = self.step(self.p, x, c, y)
            losses.append(float(value))
        self.jax.block_until_ready(self.p)
        return np.array(losses)


class _NamesForJax:
    """The function that the networks need, by the name that other libraries have."""

    def __init__(self, jax: Any) -> None:
        self.relu = jax.nn.relu


def prepare(case: str, form: str, threads: int) -> Any:
    """The gated network in a form."""
    return _DynamicTrainingByJax(form)
