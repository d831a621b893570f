"""Results of JAX for every case in double precision: writes `numbers.npz`.

    python -m benchmarks.functions.numbers [NAME ...]

With names, those alone are computed anew; with `--missing`, those that the file lacks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.functions import CASES, Case
from benchmarks.functions.check import load_numbers, save_numbers
from benchmarks.functions.references import reference


def numbers_of(case: Case, size: int) -> dict[str, list[Any]]:
    """The value, gradient, tangent and gradient tangent; for small sizes value and gradient only."""
    f, arguments = reference(case), [jnp.asarray(a) for a in case.arguments(size)]
    tangents = tuple(jnp.asarray(t) for t in case.tangents(size) if t is not None)
    places = [i for i, s in enumerate(case.samples) if s.differentiable]
    primals = tuple(arguments[p] for p in places)

    def moved(*moving: Any) -> Any:
        whole = list(arguments)
        for place, value in zip(places, moving):
            whole[place] = value
        return f(*whole)

    def gradient(*moving: Any) -> Any:
        out, pull = jax.vjp(moved, *moving)
        return pull(jnp.asarray(case.cotangent(size, out.shape)))

    def first(p: Any, t: Any) -> dict[str, list[Any]]:
        found = {"value": [moved(*p)], "reverse": list(gradient(*p))}
        return found | {"forward": [jax.jvp(moved, p, t)[1]]} if size == case.sizes[-1] else found

    numbers = jax.jit(first)(primals, tangents)
    if size == case.sizes[-1]:
        with suppress(NotImplementedError):  # a derivative of a derivative that JAX has as a number only
            numbers["second"] = list(jax.jit(lambda p, t: jax.jvp(gradient, p, t)[1])(primals, tangents))
    return {kind: [np.asarray(a) for a in arrays] for kind, arrays in numbers.items()}


def _of(name: str) -> dict[str, Any]:
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_disable_most_optimizations", True)
    case = CASES[name]
    store: dict[str, Any] = {}
    try:
        for size in case.sizes:
            for kind, arrays in numbers_of(case, size).items():
                store |= {f"{name}/{size}/{kind}/{i}": a for i, a in enumerate(arrays)}
    except Exception as failure:
        print(name, repr(failure)[:500], flush=True)
        return {}
    if not all(np.isfinite(a).all() for a in store.values()):
        print(name, "is not finite everywhere", flush=True)
    return store


def main(arguments: Sequence[str]) -> None:
    old = load_numbers()
    known = {key.split("/")[0] for key in old}
    names = [n for n in CASES if n not in known] if "--missing" in arguments else list(arguments) or list(CASES)
    store = {k: v for k, v in old.items() if k.split("/")[0] in CASES and k.split("/")[0] not in names}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for done, found in enumerate(pool.map(_of, names), 1):
            store |= found
            if done % 20 == 0 or done == len(names):  # what is known so far, for --missing
                save_numbers(store)
                print(f"{done} of {len(names)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
