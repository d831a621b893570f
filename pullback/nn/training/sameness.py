"""Compatibility of a resumed run with its checkpoint: the required properties, and their differences."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback.data import Batches
from pullback.data.fingerprint import array_digest
from pullback.ir.identity import digest
from pullback.ir.printer import print_program
from pullback.nn.training.step import Carry, pair
from pullback.nn.training.task import Task
from pullback.tracing import tree

__all__ = ["PARTS", "PLACES", "WHOLE", "Shared", "differing", "shared"]

Shared = dict[str, Any]
"""Properties by name: a text, a number, or a list of a text, a digest and the digest's subject.

The digest covers the details that the text omits. Digests with different subjects are not compared.
"""

PARTS: Final = "parts of a batch"  # whose gradients are added
WHOLE: Final = "none"  # batches are whole; checkpoints of earlier versions do not say so
PLACES: Final = frozenset({"samples in a batch", "batches in an epoch"})  # they define positions


def shared(task: Task, source: Batches, optimizer: Any, start: Carry, batch: Any, **order: Any) -> Shared:
    """The properties that a resumed run and its checkpoint must share.

    Args:
        task, source, optimizer: the task, its data, and the optimizer.
        start: the initial parameters and state.
        batch: the first batch.
        order: the settings for the order of samples, including the seed.
    """

    def loss(parameters: Any, state: Any, batch: Any) -> Any:
        return pair(task.loss(parameters, state, batch))

    def update(gradients: Any, memory: Any, parameters: Any, step: Any) -> Any:
        return optimizer.update(gradients, memory, parameters, step)

    given = start.parameters, start.optimizer, start.parameters, np.zeros((), np.int64)
    return {
        "model": _text(task.name),
        "loss": [_text(task.loss_name), *_program(loss, start.parameters, start.state, batch)],
        "optimizer": [_text(optimizer), *_program(update, *given)],
        "data": [*source.fingerprint(batch), ""],
        "batches in an epoch": source.steps,
        "samples in a batch": source.items,
        **order,
    }


def _text(x: Any) -> str:
    """A text for an object, equal in every process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", str(x))


def _program(f: Callable[..., Any], *arguments: Any) -> tuple[str, str]:
    """Digest the program of a function with the arrays it captures, and the types of its arguments.

    Names are left out: a traced value is named after the variable that the calling line assigns to.
    """
    program = pb.function(f).program(*arguments)
    leaves, structure = tree.flatten(arguments)
    types = digest(str(structure), *(f"{np.asarray(x).dtype}{np.shape(x)}" for x in leaves))
    text = print_program(program, canonical=True)
    return digest(text, program.settings.text, *map(array_digest, program.settings.captured)), types


def differing(theirs: Shared, ours: Shared) -> dict[str, str]:
    """The properties that differ, by name, each with a description."""
    found = {}
    for name, own in ours.items():
        before = theirs.get(name, WHOLE if name == PARTS else "unknown")
        (then, digest_then, of_then), (now, digest_now, of_now) = _parts(before), _parts(own)
        if then != now:
            found[name] = f"{name}: {then} in the checkpoint, {now} now"
        elif of_then == of_now and digest_then != digest_now:
            found[name] = f"{name}: {now} in both, with other {'values' if name == 'data' else 'computations'}"
    return found


def _parts(value: Any) -> tuple[Any, Any, Any]:
    """The text, the digest, and the subject of the digest."""
    return (value[0], value[1], value[2]) if isinstance(value, list) and len(value) == 3 else (value, "", "")
