"""Metrics of results and labels for people, without derivatives."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback import Array
from pullback.errors import ShapeError, TraceError
from pullback.source import user_position
from pullback.tracing.array import type_text
from pullback.tracing.making import as_array

__all__ = ["accuracy", "confusion", "f_score", "precision", "recall"]


def accuracy(y: Any, labels: Any, *, top: Any = 1) -> Array:
    """The share of rows whose label is among the `top` classes of the highest scores.

    Of equal scores the first is higher.

    Args:
        y: (…, K) scores.
        labels: (…,) from 0 to K - 1; a row with another one is wrong.
        top: how many classes count.
    Returns:
        0 to 1, of the element type of the scores.
    Raises:
        ShapeError: [E162] there is not a label for each row. TraceError: [E163] top is less than 1.

    >>> from pullback import nn
    >>> f = pb.function(lambda y, labels: nn.metrics.accuracy(y, labels))
    >>> f(np.array([[0.0, 1.0], [3.0, 2.0]]), np.array([1, 1])).item()
    0.5
    """
    if isinstance(top, bool) or not isinstance(top, int) or top < 1:
        raise TraceError("E163", f"accuracy: top is {top!r}", position=user_position(), remedy="a number from 1")
    y, labels = _scores("accuracy", y, labels)
    *lead, classes = y.shape

    def right(*n: Any) -> Any:
        own = pb.sum_over(classes, lambda k: pb.where(labels[n] == k, y[(*n, k)], 0))

        def before(k: Any) -> Any:
            return (y[(*n, k)] > own) | ((y[(*n, k)] == own) & (k < labels[n]))

        higher = pb.sum_over(classes, lambda k: pb.where(before(k), 1, 0))
        return (higher < top) & (labels[n] >= 0) & (labels[n] < classes)

    share: Array = pb.mean(pb.build(tuple(lead), right).astype(y.dtype))
    return share


def confusion(y: Any, labels: Any) -> Array:
    """The confusion matrix: counts of labels (rows) by the class of the highest score (columns).

    Args:
        y: (…, K) scores.
        labels: (…,) from 0 to K - 1; rows with another one do not count.
    Returns:
        (K, K) int64.
    Raises:
        ShapeError: [E162] there is not a label for each row.

    >>> from pullback import nn
    >>> f = pb.function(lambda y, labels: nn.metrics.confusion(y, labels))
    >>> f(np.array([[0.0, 1.0], [3.0, 2.0], [0.0, 9.0]]), np.array([1, 1, 1])).tolist()
    [[0, 0], [1, 2]]
    """
    y, labels = _scores("confusion", y, labels)
    *lead, classes = y.shape
    found = pb.argmax(y, axis=-1)

    def count(own: Any, other: Any) -> Any:
        return pb.sum_over(tuple(lead), lambda *n: pb.where((labels[n] == own) & (found[n] == other), 1, 0))

    matrix: Array = pb.build((classes, classes), count)
    return matrix


def precision(y: Any, labels: Any) -> Array:
    """Precision: the share of rows predicted as each class that belong to it; 0 if there are none.

    Args:
        y: (…, K) scores.
        labels: (…,) from 0 to K - 1.
    Returns:
        (K,), of the element type of the scores; its mean is the macro average.

    >>> from pullback import nn
    >>> f = pb.function(lambda y, labels: nn.metrics.precision(y, labels))
    >>> f(np.array([[0.0, 1.0], [3.0, 2.0], [0.0, 9.0]]), np.array([1, 1, 0])).tolist()
    [0.0, 0.5]
    """
    return _share(y, labels, 0)


def recall(y: Any, labels: Any) -> Array:
    """Recall: the share of rows of each class that are predicted as it; 0 if there are none.

    Args:
        y: (…, K) scores.
        labels: (…,) from 0 to K - 1.
    Returns:
        (K,), of the element type of the scores.

    >>> from pullback import nn
    >>> f = pb.function(lambda y, labels: nn.metrics.recall(y, labels))
    >>> f(np.array([[0.0, 1.0], [3.0, 2.0], [0.0, 9.0]]), np.array([1, 1, 0])).tolist()
    [0.0, 0.5]
    """
    return _share(y, labels, 1)


def f_score(y: Any, labels: Any) -> Array:
    """The harmonic mean of `precision` and `recall` of each class; 0 where both are.

    Args:
        y: (…, K) scores.
        labels: (…,) from 0 to K - 1.
    Returns:
        (K,), of the element type of the scores.

    >>> from pullback import nn
    >>> f = pb.function(lambda y, labels: nn.metrics.f_score(y, labels))
    >>> f(np.array([[0.0, 1.0], [3.0, 2.0], [0.0, 9.0]]), np.array([1, 0, 1])).tolist()
    [1.0, 1.0]
    """
    return _share(y, labels, None)


def _share(y: Any, labels: Any, axis: int | None) -> Array:
    """The diagonal of the confusion by its sums along an axis, or by the mean of both."""
    counts = confusion(y, labels).astype(as_array(y).dtype)
    whole = (pb.sum(counts, axis=0) + pb.sum(counts, axis=1)) / 2 if axis is None else pb.sum(counts, axis=axis)
    share: Array = pb.where(whole > 0, pb.diagonal(counts) / pb.where(whole > 0, whole, 1), 0)
    return share


def _scores(kind: str, y: Any, labels: Any) -> tuple[Any, Any]:
    y, labels = as_array(y, kind), as_array(labels, kind)
    if labels.extents != y.extents[:-1] or not labels.settled.is_integer:
        raise ShapeError(
            "E162",
            f"{kind}: the scores are {type_text(y)}, the labels {type_text(labels)}",
            position=user_position(),
            remedy="one label for each row of scores, as integers",
        )
    return y, labels
