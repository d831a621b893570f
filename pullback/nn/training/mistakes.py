"""The error for a loss that is not finite: the batch, and whether data or computation caused it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.errors import DataError
from pullback.nn.training.checkpoint import Folder, Position
from pullback.tracing import tree

__all__ = ["not_finite"]


def not_finite(loss: float, batch: Any, number: int, at: Position, folder: Folder | None, debug: bool) -> DataError:
    """The error for a loss that is not finite.

    Args:
        loss: the value of the loss.
        batch: the data of the loss.
        number: the batch's position in its epoch.
        at: the position of training before the batch.
        folder: the folder of checkpoints, if any.
        debug: whether debug builds ran, which report the source line.
    """
    leaves, structure = tree.flatten(batch)
    pair = structure.kind == "tuple" and len(leaves) == 2
    names = ["inputs", "targets"] if pair else tree.leaf_paths(structure, "batch")
    arrays = dict(zip(names, leaves, strict=True))
    wrong = [_place(name, x) for name, x in arrays.items() if not _is_finite(x)]
    facts = wrong or [f"{name} : all finite, from {x.min():g} to {x.max():g}" for name, x in arrays.items()]
    if folder is not None and (files := folder.files()):
        facts.append(f"the last checkpoint: {files[-1]}")
    remedy = "data without NaN and infinity" if wrong else "a smaller learning rate, or `clip_by_global_norm`"
    if not wrong and any(x.dtype.kind in "iu" for x in arrays.values()):
        remedy += "; labels that are no class give NaN"
    if not wrong and not debug:
        remedy += "; debug=True names the line where it is made"
    return DataError(
        "E514",
        f"the loss is {loss:g} in batch {number + 1} of epoch {at.epoch + 1}",
        facts=tuple(facts),
        remedy=remedy,
    )


def _is_finite(x: Any) -> bool:
    return x.dtype.kind not in "fc" or bool(np.isfinite(x).all())


def _place(name: str, x: Any) -> str:
    first = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
    index = ", ".join(map(str, first))
    return f"{name}[{index}] is {x[first]} in sample {first[0]} of the batch"
