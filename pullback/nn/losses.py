"""Loss functions: the distance of a result from a target, as one number to minimize.

Each is a function of `input`, the result of a network, of `target`, and of settings by name, which
`functools.partial(cross_entropy, label_smoothing=0.1)` binds. `reduction` reduces the losses of single rows or
elements: "mean", "sum", or "none" for an array of all losses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

import numpy as np

import pullback as pb
from pullback import Array
from pullback.errors import ShapeError, TraceError
from pullback.nn.activations import lowered_scores
from pullback.source import user_position
from pullback.state import context_variable
from pullback.tracing.array import type_text
from pullback.tracing.making import as_array

__all__ = [
    "bce_with_logits",
    "cross_entropy",
    "hinge_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "poisson_nll_loss",
]

Reduction = Literal["mean", "sum", "none"]


class LabelRead(NamedTuple):
    """An array that a loss reads as labels while it is traced: 0 … classes - 1, or the ignored label."""

    labels: Array
    classes: int
    ignored: int | None


_READS: ContextVar[list[LabelRead] | None] = context_variable("label_reads", None)


@contextmanager
def label_reads() -> Iterator[list[LabelRead]]:
    """Collect the arrays that losses read as labels within the block."""
    reads: list[LabelRead] = []
    token = _READS.set(reads)
    try:
        yield reads
    finally:
        _READS.reset(token)


# Numbers ----------------------------------------------------------------------------------------------------------


def mse_loss(input: Any, target: Any, *, reduction: Reduction = "mean") -> Array:
    """Squared error (input - target)² of every element.

    Args:
        input: an array of any shape.
        target: an array of the same shape.
        reduction: "mean" over all elements, "sum" or "none".
    Raises:
        ShapeError: [E162] the shapes differ.

    >>> from pullback import nn
    >>> pb.function(lambda y, t: nn.mse_loss(y, t))(np.array([1.0, 4.0]), np.array([1.0, 2.0])).item()
    2.0
    """
    input, target = _equal("mse_loss", input, target)
    difference = input - target
    return _reduced("mse_loss", difference * difference, reduction)


def l1_loss(input: Any, target: Any, *, reduction: Reduction = "mean") -> Array:
    """Absolute error |input - target| of every element; the derivative at 0 is 0.

    Args:
        input: an array of any shape.
        target: an array of the same shape.
        reduction: "mean" over all elements, "sum" or "none".
    Raises:
        ShapeError: [E162] the shapes differ.

    >>> from pullback import nn
    >>> pb.function(lambda y, t: nn.l1_loss(y, t))(np.array([1.0, 4.0]), np.array([1.0, 2.0])).item()
    1.0
    """
    input, target = _equal("l1_loss", input, target)
    return _reduced("l1_loss", pb.abs(input - target), reduction)


def huber_loss(input: Any, target: Any, *, delta: float = 1.0, reduction: Reduction = "mean") -> Array:
    """Huber loss: d² / 2 for d = |input - target| up to delta, else delta (d - delta / 2) (Huber 1964).

    Args:
        input: an array of any shape.
        target: an array of the same shape.
        delta: the difference at which the loss changes from quadratic to linear.
        reduction: "mean" over all elements, "sum" or "none".
    Raises:
        ShapeError: [E162] the shapes differ. TraceError: [E163] delta is not positive.

    >>> from pullback import nn
    >>> pb.function(lambda y, t: nn.huber_loss(y, t, reduction="none"))(np.array([0.5, 3.0]), np.zeros(2)).tolist()
    [0.125, 2.5]
    """
    if not delta > 0:
        raise _setting("huber_loss", f"delta is {delta!r}", "a positive number")
    input, target = _equal("huber_loss", input, target)
    d = input - target
    distance = pb.abs(d)
    return _reduced("huber_loss", pb.where(distance < delta, 0.5 * d * d, delta * (distance - delta / 2)), reduction)


def poisson_nll_loss(input: Any, target: Any, *, log_input: bool = True, reduction: Reduction = "mean") -> Array:
    """Negative log-likelihood exp(y) - target y of counts with rate exp(y), without its constant term.

    Args:
        input: logarithms y of the rates, of any shape; with `log_input=False`, the rates, which must be positive.
        target: an array of the same shape: counts, of any integer or floating-point type.
        log_input: whether the input holds logarithms.
        reduction: "mean" over all elements, "sum" or "none".
    Raises:
        ShapeError: [E162] the shapes differ.

    >>> from pullback import nn
    >>> pb.function(lambda y, t: nn.poisson_nll_loss(y, t))(np.array([0.0, 0.0]), np.array([1, 4])).item()
    1.0
    """
    input, target = _equal("poisson_nll_loss", input, target)
    loss = pb.exp(input) - target * input if log_input else input - target * pb.log(input)
    return _reduced("poisson_nll_loss", loss, reduction)


# Classes ----------------------------------------------------------------------------------------------------------


def cross_entropy(
    input: Any,
    target: Any,
    *,
    label_smoothing: float = 0.0,
    weight: Any = None,
    ignore_index: int | None = None,
    axis: int = -1,
    reduction: Reduction = "mean",
) -> Array:
    """Cross-entropy -Σ k t[k] log softmax(input)[k] of scores and a label or distribution t for each row.

    Args:
        input: (…, K) scores.
        target: (…,) labels from 0 to K - 1, of any integer type, or (…, K) distributions. A label that is out of range
            makes the loss of its row NaN.
        label_smoothing: the fraction of each target spread evenly over all classes (Szegedy et al. 2016).
        weight: (K,), factors for the terms of the classes.
        ignore_index: a label whose rows are ignored.
        axis: the axis of the classes.
        reduction: "mean" over rows, weighted by the class weights of their labels; "sum" or "none".
    Raises:
        ShapeError: [E162] the shapes do not match. TraceError: [E163] `label_smoothing` is not within 0 and 1.

    >>> from pullback import nn
    >>> loss = pb.function(lambda y, label: nn.cross_entropy(y, label))
    >>> loss(np.array([[0.0, 0.0], [0.0, 1000.0]]), np.array([0, 1])).round(6).item()
    0.346574
    """
    if not 0 <= label_smoothing <= 1:
        raise _setting("cross_entropy", f"label_smoothing is {label_smoothing!r}", "a number from 0 to 1")
    input, target = as_array(input, "cross_entropy"), as_array(target, "cross_entropy")
    if labeled := bool(target.settled.is_integer):
        ignore_index = _held(ignore_index, target)
        _check_labels("cross_entropy", input, target, axis, ignore_index)
    else:
        input, target = _equal("cross_entropy", input, target)
        target = pb.moveaxis(target, axis, -1)
    scores = pb.moveaxis(input, axis, -1)
    lowered, total = lowered_scores(scores)
    classes = scores.shape[-1]
    w = None if weight is None else pb.asarray(weight).astype(scores.dtype)
    if not labeled or label_smoothing:
        every = pb.expand_dims(total, total.ndim) - lowered
        every = every if w is None else every * w
    if not labeled:
        t = target if label_smoothing == 0 else (1 - label_smoothing) * target + label_smoothing / classes
        return _reduced("cross_entropy", pb.sum(t * every, axis=-1), reduction)
    loss = total - _picked(lowered, target)
    share = None if w is None else _picked(pb.broadcast_to(w, scores.shape), target)
    loss = loss if share is None else loss * share
    if label_smoothing:
        loss = (1 - label_smoothing) * loss + label_smoothing / classes * pb.sum(every, axis=-1)
    known = (target >= 0) & (target < classes)
    if ignore_index is not None:
        counted = target != ignore_index
        known, loss = known | (target == ignore_index), pb.where(counted, loss, 0)
        share = pb.where(counted, 1 if share is None else share, 0).astype(scores.dtype)
    loss = pb.where(known, loss, pb.nan)
    if reduction == "mean" and share is not None:
        return pb.sum(loss) / pb.sum(share)
    return _reduced("cross_entropy", loss, reduction)


def _picked(x: Any, labels: Any) -> Array:
    """The element of each row that its label selects, 0 if there is none."""
    *lead, classes = x.shape

    def at(*n: Any) -> Any:
        return pb.sum_over(classes, lambda k: pb.where(labels[n] == k, x[(*n, k)], 0))

    y: Array = pb.build(tuple(lead), at) if lead else at()
    return y


def bce_with_logits(input: Any, target: Any, *, pos_weight: Any = None, reduction: Reduction = "mean") -> Array:
    """Binary cross-entropy of scores: log(1 + exp y) - target y, where class 1 has probability sigmoid(y).

    Args:
        input: scores y, of any shape.
        target: an array of the same shape: 0 or 1, probabilities, or bools.
        pos_weight: a factor for the terms of class 1, a number or an array that broadcasts against the scores.
        reduction: "mean" over all elements, "sum" or "none".
    Raises:
        ShapeError: [E162] the shapes differ.

    >>> from pullback import nn
    >>> pb.function(lambda y, t: nn.bce_with_logits(y, t))(np.array([0.0, 1000.0]), np.array([0, 1])).round(6).item()
    0.346574
    """
    labels = as_array(target, "bce_with_logits")
    if labels.settled.is_integer:
        _note(labels, 2)
    input, target = _equal("bce_with_logits", input, labels)
    target = target.astype(input.dtype)
    loss = pb.logaddexp(input, 0) - target * input
    if pos_weight is not None:  # the loss of class 1 is log(1 + exp -y)
        loss = loss + (pb.asarray(pos_weight).astype(input.dtype) - 1) * target * pb.logaddexp(-input, 0)
    return _reduced("bce_with_logits", loss, reduction)


def hinge_loss(input: Any, target: Any, *, margin: float = 1.0, reduction: Reduction = "mean") -> Array:
    """Hinge loss max(0, margin - target y), for targets 1 and -1.

    With one label per row instead of targets, it is Σ k ≠ label max(0, margin - y[label] + y[k]) / K. Each class should
    score at least `margin` below the label.

    Args:
        input: scores y, of any shape; (…, K) with labels.
        target: an array of the same shape with 1 or -1; or (…,) integer labels.
        margin: the required distance between scores.
        reduction: "mean" over all elements or rows, "sum" or "none".
    Raises:
        ShapeError: [E162] the shapes do not match.

    >>> from pullback import nn
    >>> loss = pb.function(lambda y, t: nn.hinge_loss(y, t, reduction="none"))
    >>> loss(np.array([0.5, 2.0]), np.array([1.0, -1.0])).tolist()
    [0.5, 3.0]
    """
    input, target = as_array(input, "hinge_loss"), as_array(target, "hinge_loss")
    if target.ndim == input.ndim:
        input, target = _equal("hinge_loss", input, target)
        return _reduced("hinge_loss", pb.relu(margin - target.astype(input.dtype) * input), reduction)
    _check_labels("hinge_loss", input, target, -1)
    *lead, classes = input.shape
    right = _picked(input, target)

    def at(*n: Any) -> Any:
        return pb.sum_over(classes, lambda k: pb.where(target[n] == k, 0, pb.relu(margin - right[n] + input[(*n, k)])))

    return _reduced("hinge_loss", pb.build(tuple(lead), at) / classes, reduction)


def kl_div(input: Any, target: Any, *, reduction: Reduction = "mean") -> Array:
    """Kullback-Leibler divergence Σ k t[k] (log t[k] - y[k]) for log-probabilities y; 0 log 0 is 0.

    Args:
        input: (…, K) log-probabilities y.
        target: (…, K) distributions.
        reduction: "mean" over rows, "sum" or "none".
    Raises:
        ShapeError: [E162] the shapes differ.

    >>> from pullback import nn
    >>> f = pb.function(lambda y, t: nn.kl_div(y, t))
    >>> f(np.log([[0.5, 0.5]]), np.array([[1.0, 0.0]])).round(6).item()
    0.693147
    """
    input, target = _equal("kl_div", input, target)
    terms = pb.where(target > 0, target * pb.log(pb.where(target > 0, target, 1)), 0) - target * input
    return _reduced("kl_div", pb.sum(terms, axis=-1), reduction)


# ------------------------------------------------------------------------------------------------------------------


def _reduced(kind: str, losses: Any, reduction: str) -> Array:
    if reduction not in ("mean", "sum", "none"):
        raise _setting(kind, f"the reduction is {reduction!r}", '"mean", "sum" or "none"')
    if reduction == "none":
        return losses  # type: ignore[no-any-return]
    return pb.mean(losses) if reduction == "mean" else pb.sum(losses)


def _equal(kind: str, input: Any, target: Any) -> tuple[Array, Array]:
    """Return both as arrays of equal shape, the target as floating-point numbers.

    Broadcasting is refused, as it hides mistakes.
    """
    a, b = as_array(input, kind), as_array(target, kind)
    if a.extents != b.extents:
        labels = kind == "cross_entropy" and b.ndim + 1 == a.ndim
        _refuse(kind, a, b, "labels are integers: `y.astype(int)`" if labels else "a target of the shape of the input")
    return a, b if b.settled.is_floating else b.astype(a.dtype)


def _check_labels(kind: str, input: Any, labels: Any, axis: int, ignored: int | None = None) -> None:
    at = axis % input.ndim
    if labels.extents != (*input.extents[:at], *input.extents[at + 1 :]):
        _refuse(kind, input, labels, "one label for each row of scores, as integers")
    _note(labels, input.extents[at].constant, ignored)


def _note(labels: Array, classes: int | None, ignored: int | None = None) -> None:
    """Record an array of labels where `label_reads` asks for them."""
    reads = _READS.get()
    if reads is not None and classes is not None:
        reads.append(LabelRead(labels, classes, ignored))


def _held(ignored: int | None, labels: Any) -> int | None:
    """The ignored label, or None if the labels' element type cannot hold it: -100 is no label of bytes."""
    if ignored is None:
        return None
    bounds = np.iinfo(labels.settled.numpy)
    return ignored if bounds.min <= ignored <= bounds.max else None


def _refuse(kind: str, input: Any, target: Any, remedy: str) -> None:
    raise ShapeError(
        "E162",
        f"{kind}: the input is {type_text(input)}, the target {type_text(target)}",
        position=user_position(),
        remedy=remedy,
    )


def _setting(kind: str, what: str, remedy: str) -> TraceError:
    return TraceError("E163", f"{kind}: {what}", position=user_position(), remedy=remedy)
