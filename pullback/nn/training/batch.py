"""Batches of a network, pairs of inputs and targets: their names and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.data import Batches
from pullback.data.loader import first_batch
from pullback.errors import DataError
from pullback.nn.inputs import differs, dims_of, dtype_of, leaves, names, remedy, text_of
from pullback.nn.layer import Layer
from pullback.nn.training.layout import layout_remedy
from pullback.tracing import tree

__all__ = ["check_batches", "sized"]


def sized(net: Layer, batch: Any) -> Layer:
    """Return the network for samples of the batch's sizes.

    Raises:
        DataError: [E508] the network takes inputs of other names or sizes. ShapeError: a layer does not accept them.
    """
    inputs = tree.flatten(batch[0])[0] if isinstance(batch, tuple | list) and len(batch) == 2 else []
    if not inputs or not all(hasattr(x, "shape") for x in inputs):
        raise DataError(
            "E508",
            f"fit: a batch of {net} is a pair (inputs, targets)",
            facts=(f"the data gives {_structure(batch)}",),
            remedy="a Dataset, or a pair of arrays",
        )
    if not hasattr(batch[0], "shape"):
        return _sized_tree(net, batch)
    if not (net.takes is None or isinstance(net.takes, str)):
        raise _differing(net, batch[0])
    shape = np.shape(batch[0])
    wanted = dims_of(net.takes or "N")
    moved = layout_remedy(shape, wanted)
    if moved or not _fits(shape, wanted):
        own = " ".join(["N", *map(str, shape[1:])])
        known = "data of that size, or `net.on(…)` with the size of the data"
        raise DataError(
            "E508",
            f"{net} takes {' '.join(wanted)}",
            facts=(f"a batch of the data is {batch[0].dtype}{list(shape)}",),
            remedy=f'{moved}; `net.on("{own}")` if they are right as they are' if moved else known,
        )
    return net.on(text_of([wanted[0], *map(str, shape[1:])], dtype_of(net.takes or "")))


def _sized_tree(net: Layer, batch: Any) -> Layer:
    """The network for several inputs."""
    arrays, structure = tree.flatten(batch[0])
    _check_counts(f"a batch of {net}", batch)
    if net.takes is None or isinstance(net.takes, str):  # its first layer makes one array of them
        return net.on(tree.unflatten(structure, [_text(x, "N") for x in arrays]))
    if differs(net.takes, batch[0]):
        raise _differing(net, batch[0])
    found = []
    for (name, text), x in zip(leaves(net.takes).items(), arrays, strict=True):
        wanted = dims_of(text)
        if not _fits(x.shape, wanted):
            raise DataError(
                "E508",
                f"{net}: {name} is {text_of(wanted, dtype_of(text))}",
                facts=(f"a batch of the data has {name} : {x.dtype}{list(x.shape)}",),
                remedy="data of that size, or `net.on({…})` with the sizes of the data",
            )
        found.append(text_of([*wanted[:1], *map(str, x.shape[1:])], dtype_of(text)))
    return net.on(tree.unflatten(structure, found))


def _text(x: Any, samples: str) -> str:
    """The text of an array with an open number of samples; floats have the network's element type."""
    sizes = [samples, *map(str, x.shape[1:])]
    return " ".join(sizes) if x.dtype.kind == "f" else text_of(sizes, _own_dtype(x))


def _own_dtype(x: Any) -> Any:
    from pullback.ir.types import dtype_of as of_numpy

    return of_numpy(x.dtype)


def _fits(shape: Any, wanted: list[str]) -> bool:
    """Whether sizes are those that are wanted; any are where all of them are open."""
    fits = len(wanted) == len(shape) and all(not w.isdigit() or int(w) == n for w, n in zip(wanted[1:], shape[1:]))
    return fits or not any(w.isdigit() for w in wanted)


def _differing(net: Layer, inputs: Any) -> DataError:
    return DataError(
        "E508", f"fit: {net}: {differs(net.takes, inputs)}",
        facts=(f"the data gives {_structure(inputs)}",), remedy=remedy(net.takes),
    )  # fmt: skip


def _structure(batch: Any) -> str:
    if hasattr(batch, "shape"):
        return f"one array, {batch.dtype}{list(batch.shape)}"
    return str(tree.flatten(batch)[1])


def _check_counts(what: str, batch: Any, place: str = "") -> None:
    """Refuse a batch whose arrays differ in the number of samples."""
    counts: dict[str, int] = {}
    for part, label in zip(batch, ("", "target "), strict=True):
        found, structure = tree.flatten(part)
        own = ["target"] if label and structure.kind == "leaf" else [label + n for n in names(structure)]
        counts |= {name: len(x) for name, x in zip(own, found, strict=True) if np.ndim(x)}
    if len(set(counts.values())) > 1:
        raise DataError(
            "E512",
            f"{what}: the arrays differ in how many samples they have{place}",
            facts=tuple(f"{name} : {count}" for name, count in counts.items()),
            remedy="arrays with the same first size",
        )


def check_batches(source: Batches) -> None:
    """Have every batch of an iterable checked: the structure of the first one, one number of samples.

    A check of the source that exists, such as that of labels, is made afterwards.
    """
    if source.steps is not None:
        return
    first, after = first_batch(source), source.check
    structure = tree.flatten(first)[1]

    def check(batch: Any, place: str) -> None:
        if tree.flatten(batch)[1] != structure:
            raise DataError(
                "E508",
                f"{source.name}: {differs(first, batch, 'the batch')}{place}",
                facts=(f"the first batch is {structure}",),
                remedy="batches of one structure",
            )
        _check_counts(source.name, batch, place)
        if after is not None:
            after(batch, place)

    source.check = check
