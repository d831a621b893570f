"""Data sets: inputs, targets, and transforms that are applied when samples are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.data.mixing import Mixing
from pullback.data.order import Draws, permutation, weighted_choice
from pullback.data.sequences import with_padded_rows
from pullback.data.transforms import Transform
from pullback.errors import DataError, counted
from pullback.tracing import tree
from pullback.tracing.making import unmasked
from pullback.tracing.public import Answers

__all__ = ["Dataset", "Splits"]


@dataclass(frozen=True, eq=False)
class Dataset(Answers):
    """Samples with their targets.

    Attributes:
        inputs: (N, ...) an array, a memory-mapped file, or an object with `shape` and `dtype` that returns an array for
            a slice or an index array, such as images that are decoded on demand. Several inputs are a tree of these. A
            jagged array (`pb.jagged`) becomes a dict of padded `values` (N, L, ...) and `mask` (N, L), which is true
            where they are.
        targets: (N, ...) the same; labels are integers of shape (N,).
        name: the name in messages.
        transforms: applied when samples are read, in order.
        classes: the names of the labels, if known.
        weights: (N,) nonnegative numbers. A shuffled epoch draws its samples in proportion, with replacement.

    >>> from pullback import data
    >>> digits = data.Dataset(np.zeros((10, 8, 8), np.float32), np.arange(10))
    >>> len(digits), [len(part) for part in digits.split(0.8)]
    (10, [8, 2])
    """

    inputs: Any
    targets: Any
    name: str = "data"
    transforms: tuple[Transform | Mixing, ...] = ()
    classes: tuple[str, ...] | None = None
    weights: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        for own in ("inputs", "targets"):
            object.__setattr__(self, own, with_padded_rows(getattr(self, own)))
        counts = {name: len(unmasked(x, name)) for name, x in self.arrays.items()}
        first, *others = counts.values()
        if any(other != first for other in others):
            single = list(counts) == ["inputs", "targets"]
            raise DataError(
                "E507",
                f"{self.name}: {first} inputs and {others[0]} targets" if single
                else f"{self.name}: the arrays differ in how many samples they have",
                facts=() if single else tuple(f"{name} : {count}" for name, count in counts.items()),
                remedy="one target for each input" if single else "arrays with the same first size",
            )  # fmt: skip

    @property
    def arrays(self) -> dict[str, Any]:
        """The arrays of inputs and targets by name: `inputs`, or `inputs['image']` of a tree."""
        return arrays_of(self.inputs, "inputs") | arrays_of(self.targets, "targets")

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __repr__(self) -> str:
        parts = (f"{name} {x.dtype}{list(x.shape)}" for name, x in self.arrays.items())
        return f"Dataset({self.name}: {', '.join(parts)})"

    def batch(self, samples: Any, seed: int = 0, epoch: int = 0) -> tuple[Any, Any]:
        """Return the inputs and targets of some samples.

        Args:
            samples: an array of indices, or a slice.
            seed: seed of the transforms' random draws.
            epoch: the epoch, which also determines the draws.
        Returns:
            Transformed inputs (B, ...) and targets.
        Raises:
            DataError: [E512] the inputs or targets end before the last of these samples.
        """
        return self._transformed(samples, len(self.transforms), seed, epoch)

    def _transformed(self, samples: Any, count: int, seed: int, epoch: int) -> tuple[Any, Any]:
        """Read some samples and apply the first `count` transforms."""
        inputs, targets = (
            map_arrays(partial(self._read, samples), x, name)
            for x, name in ((self.inputs, "inputs"), (self.targets, "targets"))
        )
        numbers = np.arange(len(self))[samples] if count else samples
        for place, transform in enumerate(self.transforms[:count]):
            draws = Draws((seed, epoch, place), numbers)
            if isinstance(transform, Mixing):
                partners = self._transformed(draws.integers(len(self)), place, seed, epoch)
                inputs, targets = transform((inputs, targets), partners, draws)
            else:
                inputs = transform(inputs, draws)
        return inputs, targets

    def _read(self, samples: Any, x: Any, name: str) -> NDArray[Any]:
        """Read some samples of an array, and check that all of them are there."""
        found = np.asarray(x[samples])
        count = len(range(len(self))[samples]) if isinstance(samples, slice) else len(samples)
        if len(found) != count:
            raise DataError(
                "E512",
                f"{self.name}: {counted(count, 'sample')} were asked for, and the {name} gave {len(found)}",
                facts=(f"len({name}) : {len(x)}",),
                remedy=f"{name} that hold as many samples as their `len` says",
            )
        return found

    def transformed(self, *transforms: Transform | Mixing, **by_name: Transform) -> Dataset:
        """Return the data set with further transforms.

        Args:
            transforms: functions of the inputs.
            by_name: of several inputs, functions of one of them.
        Raises:
            DataError: [E508] there is no input of this name; several inputs have a transform without a name.

        >>> from pullback import data
        >>> x = {"image": np.full((2, 1), 51, np.uint8), "age": np.array([[1.0], [2.0]])}
        >>> both = data.Dataset(x, np.arange(2)).transformed(image=data.scale(51))
        >>> both.batch([0])[0]["image"].tolist(), both.batch([0])[0]["age"].tolist()
        ([[1.0]], [[1.0]])
        """
        inputs = self.inputs if isinstance(self.inputs, dict) else {}
        if unknown := next((name for name in by_name if name not in inputs), None):
            raise DataError("E508", f"{self.name}: a transform of {unknown!r}, which is no input",
                            facts=tuple(f"{name} {x.dtype}{list(x.shape)}" for name, x in self.arrays.items()),
                            remedy="the name of an input, where inputs are a dict")  # fmt: skip
        if transforms and not hasattr(self.inputs, "shape"):
            raise DataError("E508", f"{self.name}: a transform of several inputs without a name",
                            facts=tuple(arrays_of(self.inputs, "inputs")),
                            remedy="`transformed(image=data.scale())`")  # fmt: skip
        named = (OfInput(name, transform) for name, transform in by_name.items())
        return replace(self, transforms=(*self.transforms, *transforms, *named))

    def take(self, count: int | None) -> Dataset:
        """Return the first `count` samples, or all for None.

        Raises:
            DataError: [E508] there are fewer samples.
        """
        if count is None:
            return self
        if count > len(self):
            raise DataError(
                "E508",
                f"{count} samples were asked for and {self.name} has {len(self)}",
                remedy=f"at most {len(self)}, or leave the number out to use all",
            )
        return self._part(slice(count))

    def split(self, share: float, seed: int | None = None, *, stratified: bool = False) -> tuple[Dataset, Dataset]:
        """Split the samples into two data sets: a fraction `share`, and the rest.

        Each part keeps the order of the samples.

        Args:
            share: a fraction from 0 to 1. Neither part is empty if there are at least two samples.
            seed: seed of a random choice; by default, the first part has the first samples.
            stratified: whether both parts have the same fraction of each label, up to one sample.
        Raises:
            DataError: [E507] with `stratified`, the targets are not one label per sample.
        Cost:
            A sort of the samples if they are shuffled or stratified.

        >>> from pullback import data
        >>> digits = data.Dataset(np.zeros((10, 8, 8), np.float32), np.array([0] * 6 + [1] * 4))
        >>> [part.targets.tolist() for part in digits.split(0.5, seed=0, stratified=True)]
        [[0, 0, 0, 1, 1], [0, 0, 0, 1, 1]]
        """
        cut = min(max(1, round(share * len(self))), max(1, len(self) - 1))
        if seed is None and not stratified:
            return self._part(slice(cut)), self._part(slice(cut, None))
        order = np.arange(len(self)) if seed is None else permutation(len(self), seed)
        if stratified:
            order = order[_spread(self._labels("a stratified split")[order])]
        return self._part(np.sort(order[:cut])), self._part(np.sort(order[cut:]))

    def k_fold(
        self, n_splits: int, seed: int | None = None, *, stratified: bool = False
    ) -> list[tuple[Dataset, Dataset]]:
        """Return pairs of data sets for cross-validation: all samples but a fold, and the fold.

        Each part keeps the order of the samples.

        Args:
            n_splits: the number of folds, from 2 to the number of samples.
            seed: seed of a random choice; by default, folds are ranges of samples.
            stratified: whether all folds have the same number of each label, up to one.
        Raises:
            DataError: [E507] with `stratified`, the targets are not one label per sample; [E508] the number of folds is
                below 2 or above the number of samples.
        Cost:
            A copy of the samples for each fold, and a sort if they are shuffled or stratified.

        >>> from pullback import data
        >>> six = data.Dataset(np.arange(6), np.array([0, 0, 0, 1, 1, 1]))
        >>> [test.inputs.tolist() for _, test in six.k_fold(3, stratified=True)]
        [[0, 3], [1, 4], [2, 5]]
        """
        if not 2 <= n_splits <= len(self):
            raise DataError(
                "E508",
                f"{self.name}: {n_splits} folds of {counted(len(self), 'sample')}",
                remedy=f"from 2 to {len(self)} folds",
            )
        order = np.arange(len(self)) if seed is None else permutation(len(self), seed)
        if stratified:  # samples of one label go to the folds by turns
            order = order[np.argsort(self._labels("a stratified split")[order], kind="stable")]
            folds = [np.sort(order[k::n_splits]) for k in range(n_splits)]
        else:
            folds = [np.sort(fold) for fold in np.array_split(order, n_splits)]
        every = np.arange(len(self))
        return [(self._part(np.setdiff1d(every, fold)), self._part(fold)) for fold in folds]

    def weighted(self, weights: Any) -> Dataset:
        """Return the data set with weights for sampling.

        Shuffled epochs have as many samples as the data set, drawn with replacement in proportion to the weights.

        Args:
            weights: (N,) finite nonnegative numbers, at least one positive.
        Raises:
            DataError: [E508] the weights are not such numbers.
        Cost:
            A bisection per sample in each epoch.

        >>> from pullback import data
        >>> data.Dataset(np.arange(3), np.zeros(3)).weighted([0, 1, 0]).order(0).tolist()
        [1, 1, 1]
        """
        given = np.asarray(weights, np.float64)
        if given.shape != (len(self),) or not np.isfinite(given).all() or given.min() < 0 or not given.any():
            raise DataError(
                "E508",
                f"{self.name}: the weights are no numbers of at least 0, one for each of {len(self)} samples",
                facts=(f"weights : {given.dtype}{list(given.shape)}",),
                remedy="finite weights (N,), at least one positive",
            )
        return replace(self, weights=given)

    def balanced(self) -> Dataset:
        """Return the data set with weights that draw every label equally often.

        Raises:
            DataError: [E507] the targets are not one label per sample.
        Cost:
            A sort of the labels.

        >>> from pullback import data
        >>> data.Dataset(np.arange(4), np.array([0, 0, 0, 1])).balanced().weights.tolist()
        [0.3333333333333333, 0.3333333333333333, 0.3333333333333333, 1.0]
        """
        labels = self._labels("balanced sampling", "`weighted`")
        _, own, counts = np.unique(labels, return_inverse=True, return_counts=True)
        return self.weighted(1 / counts[own])

    def order(self, *counters: int) -> NDArray[np.intp]:
        """Return the samples of a shuffled epoch: a permutation, or draws in proportion to the weights.

        Args:
            counters: the seed and further numbers, such as the epoch, that determine the order.
        Returns:
            (N,) indices of samples.
        Cost:
            A sort of N numbers, or a bisection for each with weights.

        >>> from pullback import data
        >>> sorted(data.Dataset(np.zeros(5), np.zeros(5)).order(0, 1).tolist())
        [0, 1, 2, 3, 4]
        """
        if self.weights is None:
            return permutation(len(self), *counters)
        return weighted_choice(self.weights, len(self), *counters)

    def _labels(self, use: str, instead: str = "a split that is not stratified") -> NDArray[Any]:
        """The targets, checked to be one label per sample."""
        labels = np.asarray(self.targets) if hasattr(self.targets, "shape") else np.zeros(())
        if labels.ndim != 1:
            found = f"shape {labels.shape}" if hasattr(self.targets, "shape") else "several arrays"
            raise DataError(
                "E507",
                f"{self.name}: {use} needs one label for each sample",
                facts=(f"targets: {found}",),
                remedy=f"labels of shape (N,), or {instead}",
            )
        return labels

    def _part(self, samples: Any) -> Dataset:
        weights = None if self.weights is None else self.weights[samples]
        inputs, targets = (map_arrays(lambda x, name: x[samples], x) for x in (self.inputs, self.targets))
        return replace(self, inputs=inputs, targets=targets, weights=weights)


@dataclass(frozen=True)
class OfInput:
    """A transform of one of several inputs."""

    name: str
    transform: Transform

    def __call__(self, inputs: Any, draws: Draws) -> Any:
        """All inputs, this one transformed."""
        return {**inputs, self.name: self.transform(inputs[self.name], draws)}


def map_arrays(f: Callable[[Any, str], Any], x: Any, name: str = "") -> Any:
    """Apply a function of an array and its name to each array of a tree.

    An object with a shape is an array.
    """
    node = None if hasattr(x, "shape") else tree.open_node(x)
    if node is None:
        return f(x, name)
    structure, children = node
    found = [map_arrays(f, c, name + tree.step(structure.kind, k)) for k, c in zip(structure.keys, children)]
    return tree.unflatten(replace(structure, children=(tree.LEAF,) * len(found)), found)


def arrays_of(x: Any, name: str) -> dict[str, Any]:
    """The arrays of a tree by their names."""
    found: dict[str, Any] = {}
    map_arrays(lambda x, name: found.setdefault(name, x), x, name)
    return found


def _spread(labels: NDArray[Any]) -> NDArray[np.intp]:
    """Return an order in which every prefix has each label in proportion.

    The k-th of n samples of a label is at the fraction (k + 1/2) / n.
    """
    place = np.empty(len(labels))
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        place[own] = (np.arange(len(own)) + 0.5) / len(own)
    return np.argsort(place, kind="stable")


@dataclass(frozen=True, eq=False)
class Splits:
    """A data set in two parts, one for training and one for testing."""

    name: str
    train: Dataset
    test: Dataset

    def transformed(self, *transforms: Transform | Mixing, **by_name: Transform) -> Splits:
        """Return the data set with further transforms for both parts."""
        train, test = (part.transformed(*transforms, **by_name) for part in (self.train, self.test))
        return replace(self, train=train, test=test)
