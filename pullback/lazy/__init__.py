"""Lazy arrays: an array API library whose operations run when a value is needed.

    from pullback import lazy

    w = lazy.Weight(rng.normal(size=(784, 10)))
    loss = cross_entropy(x @ w, labels)       # builds nodes; nothing runs
    if float(loss) > 1.0:                     # needs a value: the graph below runs as one compiled piece
        lazy.backward(loss)                   # w.grad

Every function of `pullback` is here under its name, with the same definition. Networks, tapes and `await` follow Yang
(2019), *Monadic deep learning*.
"""

from __future__ import annotations

import sys
from typing import Any

from pullback.lazy.awaiting import gather, run, trampoline
from pullback.lazy.counts import Stats, stats
from pullback.lazy.foreign import Foreign
from pullback.lazy.gradients import backward, grad, value_and_grad
from pullback.lazy.kernel import finish_compiling
from pullback.lazy.layers import layer
from pullback.lazy.namespace import asarray, from_dlpack, function_named, lift, names
from pullback.lazy.node import Array
from pullback.lazy.open_shapes import (
    bincount,
    nonzero,
    ravel,
    repeat,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    unstack,
)
from pullback.lazy.plugins import Plugin
from pullback.lazy.remote import Remote, Worker, remote, workers
from pullback.lazy.training import Trainer, weights
from pullback.lazy.weight import Weight
from pullback.lazy.writing import applied as _  # noqa: F401 -- installs writes
from pullback.tracing.public import public_module as _public_module

__all__ = [
    "Array",
    "Foreign",
    "Plugin",
    "Remote",
    "Stats",
    "Trainer",
    "Weight",
    "Worker",
    "asarray",
    "backward",
    "bincount",
    "finish_compiling",
    "from_dlpack",
    "gather",
    "grad",
    "layer",
    "lift",
    "nonzero",
    "ravel",
    "remote",
    "repeat",
    "run",
    "stats",
    "trampoline",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "value_and_grad",
    "weights",
    "workers",
]


Array.namespace = sys.modules[__name__]


def __getattr__(name: str) -> Any:
    found = function_named(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *names()})


_public_module(__name__, Array)
