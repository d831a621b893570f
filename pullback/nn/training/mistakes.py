"""The error for a loss that is not finite: the batch, and whether data or computation caused it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.data import Batches
from pullback.data.loader import Samples
from pullback.errors import DataError
from pullback.nn.training.checkpoint import Folder, Position
from pullback.tracing import tree

__all__ = ["not_finite"]


def not_finite(
    loss: float, batch: Any, number: int, at: Position, folder: Folder | None, debug: bool,
    source: Batches | None = None,
) -> DataError:  # fmt: skip
    """The error for a loss that is not finite.

    Args:
        loss: the value of the loss.
        batch: the data of the loss.
        number: the batch's position in its epoch.
        at: the position of training before the batch.
        folder: the folder of checkpoints, if any.
        debug: whether debug builds ran, which report the source line.
        source: the source of the batch, which knows the rows of its samples.
    """
    leaves, structure = tree.flatten(batch)
    pair = structure.kind == "tuple" and len(leaves) == 2
    names = ["inputs", "targets"] if pair else tree.leaf_paths(structure, "batch")
    arrays = dict(zip(names, leaves, strict=True))
    rows = _rows(source, number, at.epoch)
    wrong = [_place(name, x, rows) for name, x in arrays.items() if not _is_finite(x)]
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


def _rows(source: Batches | None, number: int, epoch: int) -> Any:
    """The rows in the data of a batch's samples; None for batches of an iterable."""
    if not isinstance(source, Samples):
        return None
    return np.arange(source.count)[source.samples(epoch, number * source.items, (number + 1) * source.items)]


def _place(name: str, x: Any, rows: Any) -> str:
    first = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
    index = ", ".join(map(str, first))
    row = "" if rows is None else f", row {rows[first[0]]} of the data"
    return f"{name}[{index}] is {x[first]} in sample {first[0]} of the batch{row}"
