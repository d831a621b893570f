"""Labels: the valid classes of a network, and the check of all training data."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.data import Batches, Dataset
from pullback.errors import DataError, counted
from pullback.nn.layer import Layer

__all__ = ["Labels", "check_labels", "labels_of"]


@dataclass(frozen=True)
class Labels:
    """The valid labels of a network.

    Attributes:
        classes: the number of classes; labels are from 0 to `classes` - 1.
        axes: the number of axes of an array of labels.
        ignored: a label whose rows are ignored.
    """

    classes: int
    axes: int
    ignored: int | None

    def check_source(self, source: Batches, data: Any, name: str) -> None:
        """Refuse labels out of range: in arrays now, in an iterable as it yields them.

        Raises:
            DataError: [E513] a label is out of range; the first one is named.
        """
        if source.steps is None:
            source.check = lambda batch, place: self._check(batch[1], source.name, place)
        else:
            self._check(data.targets if isinstance(data, Dataset) else data[1], getattr(data, "name", name))

    def _check(self, targets: Any, name: str, place: str = "") -> None:
        labels = np.asarray(targets)
        if labels.dtype.kind in "iu" and labels.ndim == self.axes:
            check_labels(labels, self.classes, name, self.ignored, place)


def labels_of(net: Layer, loss: Callable[..., Any]) -> Labels | None:
    """The labels of a network for a loss; None if its result has no known number of classes."""
    extents = re.findall(r"\[(.*)\]", net.type.result)
    scores = extents[0].split(", ") if extents else []
    axis = _setting(loss, "axis", -1)
    if not -len(scores) <= axis < len(scores) or not scores[axis].isdigit():
        return None
    return Labels(int(scores[axis]), len(scores) - 1, _setting(loss, "ignore_index", None))


def _setting(loss: Any, name: str, default: Any) -> Any:
    """The value of a setting bound by `functools.partial`, or the default."""
    while isinstance(loss, functools.partial):
        if name in loss.keywords:
            return loss.keywords[name]
        loss = loss.func
    return default


def check_labels(labels: Any, classes: int, name: str, ignored: int | None = None, where: str = "") -> None:
    """Refuse labels outside of 0 … classes - 1.

    Raises:
        DataError: [E513] a label is out of range; the first one is named.
    """
    wrong = np.argwhere(((labels < 0) | (labels >= classes)) & (labels != ignored))
    if len(wrong):
        place = tuple(int(i) for i in wrong[0])
        raise DataError(
            "E513",
            f"{name}: the label of sample {place[0]}{where} is {labels[place]}, "
            f"and there are {counted(classes, 'class', 'classes')}",
            facts=(f"labels outside of 0 … {classes - 1}: {len(wrong)} of {labels.size}",),
            remedy=f"labels from 0 to {classes - 1}, or a network with more classes",
        )
