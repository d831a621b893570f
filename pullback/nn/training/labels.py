"""Labels: the valid classes of a loss, and the check of all training data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback.calls.specs import spec_like
from pullback.data import Batches, Dataset
from pullback.errors import DataError, PullbackError, counted
from pullback.nn.inputs import dims_of, leaves
from pullback.nn.layer import Layer
from pullback.nn.losses import label_reads
from pullback.tracing import tree

__all__ = ["Classes", "Labels", "check_labels", "labels_of"]

IGNORED: Final = (-100, -1, 255)  # labels that usually mark rows to ignore


@dataclass(frozen=True)
class Classes:
    """The valid labels of one array of the target.

    Attributes:
        leaf: the position of the array among the arrays of the target.
        classes: the number of classes; labels are from 0 to `classes` - 1.
        ignored: a label whose rows are ignored.
    """

    leaf: int
    classes: int
    ignored: int | None = None


@dataclass(frozen=True)
class Labels:
    """The arrays of labels in the target of a loss."""

    arrays: tuple[Classes, ...]

    def check_source(self, source: Batches, data: Any, name: str) -> None:
        """Refuse labels out of range: in arrays now, in an iterable as it yields them.

        Raises:
            DataError: [E513] a label is out of range; the first one is named.
        """
        if source.steps is None:
            source.check = lambda batch, place: self._check(batch[1], source.name, place)
        else:
            self._check(data.targets if isinstance(data, Dataset) else data[1], getattr(data, "name", name))

    def _check(self, target: Any, name: str, place: str = "") -> None:
        leaves, structure = tree.flatten(target)
        paths = tree.leaf_paths(structure, "targets")
        for one in self.arrays:
            labels = np.asarray(leaves[one.leaf])
            if labels.dtype.kind in "iu":
                own = name if structure.kind == "leaf" else f"{name}, {paths[one.leaf]}"
                check_labels(labels, one.classes, own, one.ignored, place)


def labels_of(net: Layer, loss: Callable[..., Any], batch: Any) -> Labels | None:
    """Return the arrays of the target that a loss of a network reads as labels; None if there are none.

    The loss is traced for the first batch. It reads an array as labels if `nn.cross_entropy` or another loss of
    classes is given that array itself.
    """
    samples = dims_of(next(iter(leaves(net.takes or "N").values()), ""))[:1]  # the name of the first size
    result = net.type.results(**dict.fromkeys(samples, len(tree.flatten(batch[0])[0][0])))
    if result is None:
        return None
    found: list[Classes] = []

    def trace(result: Any, target: Any) -> Any:
        with label_reads() as reads:
            value = loss(result, target)
        leaves = tree.flatten(target)[0]
        found.extend(Classes(k, r.classes, r.ignored) for r in reads for k, x in enumerate(leaves) if x is r.labels)
        return value

    trace.__name__ = getattr(loss, "__name__", "loss")
    trace.__annotations__ = {"result": spec_like(result), "target": spec_like(batch[1])}
    try:
        pb.function(trace).check()
    except PullbackError:
        return None  # the trace of the update reports it, with the network around the loss
    return Labels(tuple(dict.fromkeys(found))) if found else None


def check_labels(labels: Any, classes: int, name: str, ignored: int | None = None, where: str = "") -> None:
    """Refuse labels outside of 0 … classes - 1.

    Raises:
        DataError: [E513] a label is out of range; the first one is named.
    """
    wrong = np.argwhere(((labels < 0) | (labels >= classes)) & (labels != ignored))
    if len(wrong):
        place = tuple(int(i) for i in wrong[0])
        label = int(labels[place])
        row = f", row {', '.join(map(str, place[1:]))}," if len(place) > 1 else ""
        also = f"; `ignore_index={label}` in `nn.cross_entropy` ignores such rows" if label in IGNORED else ""
        raise DataError(
            "E513",
            f"{name}: the label of sample {place[0]}{row}{where} is {label}, "
            f"and there are {counted(classes, 'class', 'classes')}",
            facts=(f"labels outside of 0 … {classes - 1}: {len(wrong)} of {labels.size}",),
            remedy=f"labels from 0 to {classes - 1}, or a network with more classes{also}",
        )
