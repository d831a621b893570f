"""Metrics of results and labels, without derivatives.

`accuracy` is a mean over samples, which `fit` measures batch by batch. The other traced metrics are of all samples at
once: `fit` measures them on all outputs, as it does any Python function in `on_outputs`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, Final, Literal

import numpy as np

import pullback as pb
from pullback import Array
from pullback.errors import ShapeError, TraceError, UsageError
from pullback.nn.losses import cross_entropy
from pullback.nn.objective import parts
from pullback.pictures import Picture
from pullback.plots import shares
from pullback.source import user_position
from pullback.tracing.array import type_text
from pullback.tracing.making import as_array
from pullback.tracing.public import Answers, unguarded
from pullback.tracing.public import public_module as _public_module

__all__ = ["accuracy", "confusion_matrix", "f1_score", "on_outputs", "perplexity", "plot_confusion_matrix", "precision",
           "recall", "roc_auc_score"]  # fmt: skip

Average = Literal["macro", "micro", "weighted"] | None


def accuracy(input: Any, target: Any, *, top_k: Any = 1, ignore_index: int | None = None) -> Array:
    """The fraction of rows whose label is among the `top_k` classes with the highest scores.

    Among equal scores, the first ranks higher.

    Args:
        input: (…, K) scores.
        target: (…,) labels from 0 to K - 1; a row with another label counts as wrong.
        top_k: the number of highest-scoring classes to consider.
        ignore_index: a label whose rows are ignored.
    Returns:
        A number from 0 to 1, of the element type of the scores.
    Raises:
        ShapeError: [E162] the numbers of labels and rows differ. TraceError: [E163] `top_k` is less than 1.
    Cost:
        A pass over the scores.

    >>> from pullback import nn
    >>> f = pb.function(lambda y, labels: nn.metrics.accuracy(y, labels))
    >>> f(np.array([[0.0, 1.0], [3.0, 2.0]]), np.array([1, 1])).item()
    0.5
    """
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        raise TraceError("E163", f"accuracy: top_k is {top_k!r}", position=user_position(), remedy="a number from 1")
    input, target = _scores("accuracy", input, target)
    *lead, classes = input.shape

    def right(*n: Any) -> Any:
        own = pb.sum_over(classes, lambda k: pb.where(target[n] == k, input[(*n, k)], 0))

        def before(k: Any) -> Any:
            return (input[(*n, k)] > own) | ((input[(*n, k)] == own) & (k < target[n]))

        higher = pb.sum_over(classes, lambda k: pb.where(before(k), 1, 0))
        return (higher < top_k) & (target[n] >= 0) & (target[n] < classes)

    found = pb.build(tuple(lead), right).astype(input.dtype)
    if ignore_index is None:
        return pb.mean(found)
    counted = (target != ignore_index).astype(input.dtype)
    share: Array = pb.sum(found * counted) / pb.maximum(pb.sum(counted), 1)
    return share


def confusion_matrix(input: Any, target: Any) -> Array:
    """The confusion matrix: counts by label (rows) and class with the highest score (columns).

    Args:
        input: (…, K) scores.
        target: (…,) labels from 0 to K - 1; rows with other labels are ignored.
    Returns:
        (K, K) int64.
    Raises:
        ShapeError: [E162] the numbers of labels and rows differ.
    Cost:
        A pass over the scores.

    >>> from pullback import nn
    >>> f = pb.function(lambda y, labels: nn.metrics.confusion_matrix(y, labels))
    >>> f(np.array([[0.0, 1.0], [3.0, 2.0], [0.0, 9.0]]), np.array([1, 1, 1])).tolist()
    [[0, 0], [1, 2]]
    """
    input, target = _scores("confusion_matrix", input, target)
    *lead, classes = input.shape
    found = pb.argmax(input, axis=-1)

    def count(own: Any, other: Any) -> Any:
        return pb.sum_over(tuple(lead), lambda *n: pb.where((target[n] == own) & (found[n] == other), 1, 0))

    matrix: Array = pb.build((classes, classes), count)
    return matrix


def plot_confusion_matrix(counts: Any, classes: Sequence[str] | None = None) -> Picture:
    """Plot a confusion matrix as a picture that notebooks show and `save` writes as SVG.

    Fields are as dark as their share of the row.

    Args:
        counts: (K, K) counts by label (rows) and found class (columns), as `confusion_matrix` gives them.
        classes: the names of the classes; by default their numbers.
    Raises:
        UsageError: [E518] the counts are no square of numbers, or the names are not one for each class.

    >>> from pullback import nn
    >>> nn.metrics.plot_confusion_matrix(np.array([[3, 1], [0, 2]]), ["cat", "dog"])
    <picture 'confusion matrix: 5 of 6 right', 176 × 148>
    """
    table = np.asarray(counts)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or table.dtype.kind not in "iuf" or not table.size:
        raise UsageError("E518", f"plot_confusion_matrix: counts is {table.dtype}{list(table.shape)}",
                         remedy="(K, K) counts, as `nn.metrics.confusion_matrix` gives them")  # fmt: skip
    names = [str(k) for k in range(len(table))] if classes is None else list(map(str, classes))
    if len(names) != len(table):
        raise UsageError("E518", f"plot_confusion_matrix: {len(names)} names for {len(table)} classes",
                         remedy="a name for each class")  # fmt: skip
    right, total = np.trace(table).item(), table.sum().item()
    return shares(f"confusion matrix: {right:,} of {total:,} right", table.tolist(), names, "label", "found")


class on_outputs(Answers):
    """A metric computed by any Python function, such as one of scikit-learn, on all outputs of a data set.

    For `metrics=` of `nn.fit` and `nn.evaluate`. A traced metric is a mean over batches. This one sees the whole set,
    as for a median or an area under a curve.

    Args:
        function: a function of NumPy arrays (outputs, targets) that returns one number.
        name: the column of the history; by default the name of the function.
    Raises:
        UsageError: [E518] `function` is not callable.
    Cost:
        The outputs of the data set are kept in memory.

    >>> from pullback import nn
    >>> worst = nn.metrics.on_outputs(lambda outputs, targets: np.abs(outputs - targets).max(), name="worst")
    >>> x = np.array([[1.0], [2.0], [4.0]])
    >>> net = nn.dense(1, bias=False)
    >>> nn.evaluate(net, nn.mse_loss, (x, 2 * x), parameters={"w": np.array([[1.0]])}, metrics=[worst])
    {'loss': 7.0, 'worst': 4.0}
    """

    def __init__(self, function: Callable[[Any, Any], Any], name: str | None = None) -> None:
        if not callable(function):
            raise UsageError("E518", f"on_outputs: {function!r} is no function",
                             remedy="a function of (outputs, targets)")  # fmt: skip
        self.function = function
        self.__name__ = name or getattr(function, "__name__", type(function).__name__)

    def __call__(self, outputs: Any, targets: Any) -> float:
        """Return the metric of all outputs.

        Raises:
            UsageError: [E526] the function does not return one number.
        """
        found = self.function(outputs, targets)
        if np.ndim(found) or not isinstance(found, Real | np.number | np.ndarray):
            raise UsageError("E526", f"{self.__name__} gives {type(found).__name__}, and a metric is one number",
                             remedy="reduce it, e.g. with `np.mean`")  # fmt: skip
        return float(found)


def precision(input: Any, target: Any, *, average: Average = None) -> Array:
    """Precision: the fraction of rows predicted as each class that belong to it; 0 if there are none.

    Args:
        input: (…, K) scores.
        target: (…,) labels from 0 to K - 1; rows with other labels are ignored.
        average: None for one value per class; "macro" for their mean, "weighted" for their mean by frequency of the
            labels, "micro" for the value of all rows together.
    Returns:
        (K,), or a number with an average, of the element type of the scores.
    Raises:
        ShapeError: [E162] the numbers of labels and rows differ. TraceError: [E163] the average is unknown.
    Cost:
        That of `confusion_matrix`.

    >>> from pullback import nn
    >>> f = pb.function(lambda y, labels: nn.metrics.precision(y, labels))
    >>> f(np.array([[0.0, 1.0], [3.0, 2.0], [0.0, 9.0]]), np.array([1, 1, 0])).tolist()
    [0.0, 0.5]
    """
    return _share(input, target, average, 0)


def recall(input: Any, target: Any, *, average: Average = None) -> Array:
    """Recall: the fraction of rows of each class that are predicted as it; 0 if there are none.

    Args:
        input: (…, K) scores.
        target: (…,) labels from 0 to K - 1; rows with other labels are ignored.
        average: None for one value per class; "macro" for their mean, "weighted" for their mean by frequency of the
            labels, "micro" for the value of all rows together.
    Returns:
        (K,), or a number with an average, of the element type of the scores.
    Raises:
        ShapeError: [E162] the numbers of labels and rows differ. TraceError: [E163] the average is unknown.
    Cost:
        That of `confusion_matrix`.

    >>> from pullback import nn
    >>> f = pb.function(lambda y, labels: nn.metrics.recall(y, labels))
    >>> f(np.array([[0.0, 1.0], [3.0, 2.0], [0.0, 9.0]]), np.array([1, 1, 0])).tolist()
    [0.0, 0.5]
    """
    return _share(input, target, average, 1)


def f1_score(input: Any, target: Any, *, average: Average = None) -> Array:
    """The harmonic mean of `precision` and `recall` of each class; 0 where both are 0.

    Args:
        input: (…, K) scores.
        target: (…,) labels from 0 to K - 1; rows with other labels are ignored.
        average: None for one value per class; "macro" for their mean, "weighted" for their mean by frequency of the
            labels, "micro" for the value of all rows together.
    Returns:
        (K,), or a number with an average, of the element type of the scores.
    Raises:
        ShapeError: [E162] the numbers of labels and rows differ. TraceError: [E163] the average is unknown.
    Cost:
        That of `confusion_matrix`.

    >>> from pullback import nn
    >>> f = pb.function(lambda y, labels: nn.metrics.f1_score(y, labels, average="macro"))
    >>> f(np.array([[0.0, 1.0], [3.0, 2.0], [0.0, 9.0]]), np.array([1, 0, 1])).tolist()
    1.0
    """
    return _share(input, target, average, None)


def _share(input: Any, target: Any, average: str | None, axis: int | None) -> Array:
    """The diagonal of the confusion matrix, divided by its sums along an axis or by the mean of both."""
    if average not in (None, "macro", "micro", "weighted"):
        remedy = 'None, "macro", "micro" or "weighted"'
        raise TraceError("E163", f"the average is {average!r}", position=user_position(), remedy=remedy)
    counts = confusion_matrix(input, target).astype(as_array(input).dtype)
    right, labeled = pb.diagonal(counts), pb.sum(counts, axis=1)
    if average == "micro":
        return _ratio(pb.sum(right), pb.sum(counts))
    share = _ratio(right, (pb.sum(counts, axis=0) + labeled) / 2 if axis is None else pb.sum(counts, axis=axis))
    if average == "weighted":
        return _ratio(pb.sum(share * labeled), pb.sum(labeled))
    return share if average is None else pb.mean(share)


def _ratio(part: Any, whole: Any) -> Array:
    """The quotient, 0 where the whole is 0."""
    found: Array = pb.where(whole > 0, part / pb.where(whole > 0, whole, 1), 0)
    return found


def roc_auc_score(input: Any, target: Any) -> Array:
    """The area under the ROC curve: the probability that a row of class 1 scores above one of class 0.

    Equal scores count half.

    Args:
        input: (N,) scores of class 1, or (N, K) scores for the mean over classes of one class against the rest.
        target: (N,) labels, 0 and 1 or from 0 to K - 1.
    Returns:
        A number from 0 to 1, of the element type of the scores; NaN if a class has no rows or all rows.
    Raises:
        ShapeError: [E162] the numbers of labels and rows differ.
    Cost:
        A sort of the rows, and two bisections for each, for each class.

    >>> from pullback import nn
    >>> f = pb.function(lambda y, labels: nn.metrics.roc_auc_score(y, labels))
    >>> f(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1])).item()
    0.75
    """
    input, target = as_array(input, "roc_auc_score"), as_array(target, "roc_auc_score")
    if input.ndim == 1:
        _check_rows("roc_auc_score", input, target, input.extents)
        return _area(input, target == 1).astype(input.dtype)
    _check_rows("roc_auc_score", input, target, input.extents[:-1])
    classes = input.shape[-1]
    areas = pb.vmap(lambda k: _area(input[:, k], target == k))(pb.arange(classes))
    return pb.mean(areas).astype(input.dtype)


def _area(scores: Any, positive: Any) -> Array:
    """The area from ranks: twice the rank of a score is its positions from the left and from the right."""
    ordered = pb.sort(scores)
    ranks = pb.searchsorted(ordered, scores, side="left") + pb.searchsorted(ordered, scores, side="right") + 1
    count = pb.sum(positive.astype(pb.int64))
    pairs = pb.sum(pb.where(positive, ranks, 0)) - count * (count + 1)  # twice the pairs in order (Mann and Whitney)
    possible = (2 * count * (positive.shape[0] - count)).astype(pb.float64)
    area: Array = pb.where(possible > 0, pairs.astype(pb.float64) / pb.where(possible > 0, possible, 1), pb.nan)
    return area


def perplexity(input: Any, target: Any, *, ignore_index: int | None = None) -> Array:
    """The perplexity exp(cross-entropy) of scores for the next token.

    Args:
        input: (…, K) scores.
        target: (…,) labels from 0 to K - 1.
        ignore_index: a label whose rows are ignored.
    Returns:
        A number from 1, of the element type of the scores; K if all scores are equal.
    Raises:
        ShapeError: [E162] the numbers of labels and rows differ.
    Cost:
        That of `nn.cross_entropy`.

    >>> from pullback import nn
    >>> f = pb.function(lambda y, labels: nn.metrics.perplexity(y, labels))
    >>> f(np.zeros((3, 4)), np.array([0, 3, 1])).round(6).item()
    4.0
    """
    found: Array = pb.exp(cross_entropy(input, target, ignore_index=ignore_index))
    return found


WHOLE: Final = frozenset([confusion_matrix, f1_score, perplexity, precision, recall, roc_auc_score])


class OfPart:
    """A metric of one of several results.

    Args:
        key: the name or position of the result.
        func: the metric.
        name: the name of the metric.
    """

    def __init__(self, key: Any, func: Callable[[Any, Any], Any], name: str) -> None:
        self.key, self.func, self.__name__ = key, func, f"{key}_{name}"

    def __call__(self, input: Any, target: Any) -> Any:
        """The metric.

        Raises:
            UsageError: [E518] there is no such result or target.
        """
        return self.func(self._part(input, "results"), self._part(target, "targets"))

    def _part(self, x: Any, what: str) -> Any:
        found = parts(x)
        if self.key not in found:
            given = ", ".join(map(repr, found)) or "one array"
            raise UsageError("E518", f"metrics: there is no {self.key!r} among the {what}", facts=(f"{what}: {given}",),
                             remedy="a dict with the names of results")  # fmt: skip
        return found[self.key]


def metrics_of_parts(metrics: Mapping[Any, Any], name: Callable[[Any], str]) -> list[Any]:
    """The metrics of several results, a dict of metrics or lists of them, as functions of all results."""
    found = []
    for key, given in metrics.items():
        for metric in given if isinstance(given, list | tuple) else [given]:
            own = OfPart(key, metric.function if isinstance(metric, on_outputs) else metric, name(metric))
            found.append(on_outputs(own, own.__name__) if isinstance(metric, on_outputs) else own)
    return found


def is_of_all(metric: Any) -> bool:
    """Whether a metric is one of all samples at once, which a mean over batches is not."""
    while isinstance(metric, functools.partial | OfPart):
        metric = metric.func
    return unguarded(metric) in WHOLE if callable(metric) else False


def _scores(kind: str, input: Any, target: Any) -> tuple[Any, Any]:
    input, target = as_array(input, kind), as_array(target, kind)
    _check_rows(kind, input, target, input.extents[:-1])
    return input, target


def _check_rows(kind: str, input: Any, target: Any, rows: Any) -> None:
    if target.extents != rows or not target.settled.is_integer:
        raise ShapeError(
            "E162",
            f"{kind}: the input is {type_text(input)}, the target {type_text(target)}",
            position=user_position(),
            remedy="one label for each row of scores, as integers",
        )


_public_module(__name__)
