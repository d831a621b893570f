"""The CTC loss, for a sequence of labels whose positions in a longer sequence are unknown."""

from __future__ import annotations

from typing import Any, Final

import pullback as pb
from pullback import Array
from pullback.errors import ShapeError, TraceError, counted
from pullback.nn.activations import log_softmax
from pullback.source import user_position
from pullback.tracing.making import extent_of

__all__ = ["ctc_loss"]

NEVER: Final = -1e30  # stands for log 0, and stays finite in sums and differences


def ctc_loss(
    input: Any, targets: Any, input_lengths: Any = None, target_lengths: Any = None, *, blank: int = 0
) -> Array:
    """Connectionist temporal classification (Graves et al. 2006): -log of the probability of the labels.

    At every step one of K classes is read. Repetitions count once, and `blank` does not count. Let e be the labels with
    a blank before, between and after them. a[t, s] is the probability of having read e up to s at step t, here as a
    logarithm:

        a[t, s] = p[t, e[s]] (a[t - 1, s] + a[t - 1, s - 1] + (a[t - 1, s - 2] if e[s] ≠ blank and ≠ e[s - 2]))

    Args:
        input: scores (N, L, K); their softmax along K gives the probabilities.
        targets: labels (N, S), integers in [0, K).
        input_lengths: (N,), the number of steps of each sequence, at least 1; L by default.
        target_lengths: (N,), the number of labels; S by default.
        blank: the class that stands for no label.
    Returns:
        (N,), one loss per sequence. It is infinite, with derivative 0, if the sequence is too short for its labels.
    Raises:
        ShapeError: [E102] the numbers of sequences differ. TraceError: [E163] the blank is out of range.
        IndexRangeError: [E401] a label is out of range.
    Cost:
        N L (2 S + 1) exponentials of three terms, sequentially over the steps.

    >>> from pullback import nn
    >>> loss = pb.function(lambda scores, labels: nn.ctc_loss(scores, labels))
    >>> loss(np.zeros((1, 2, 2)), np.array([[1]])).round(4).tolist()  # "11", "_1" and "1_" of 4
    [0.2877]
    """
    input, targets = pb.asarray(input), pb.asarray(targets)
    n, steps, _ = input.shape
    count = targets.shape[1]
    _check(input, targets, blank)
    states = 2 * count + 1
    p = log_softmax(input)
    own = pb.build((n, states), lambda i, s: pb.where(s % 2 == 1, targets.at(i, s // 2), blank))
    read = pb.build((steps, n, states), lambda t, i, s: p[i, t, own[i, s]])  # for valid classes
    skips = pb.build(
        (n, states), lambda i, s: pb.where(s % 2 == 1, targets.at(i, s // 2) != targets.at(i, s // 2 - 1), False)
    )
    ends = _whole(input_lengths, n, steps), _whole(target_lengths, n, count)

    def step(a: Any, t: Any) -> Any:
        def after(i: Any, s: Any) -> Any:
            stay, move = a[i, s], a.at(i, s - 1, fill=NEVER)
            skip = pb.where(skips[i, s], a.at(i, s - 2, fill=NEVER), NEVER)
            top = pb.stop_gradient(pb.maximum(stay, pb.maximum(move, skip)))
            total = pb.log(pb.exp(stay - top) + pb.exp(move - top) + pb.exp(skip - top))
            return pb.where(t < ends[0][i], top + total + read[t, i, s], stay)

        return pb.build((n, states), after)

    start = pb.build((n, states), lambda i, s: pb.where(s <= 1, read[0, i, s], NEVER))
    a = pb.fold(steps - 1, start, lambda a, t: step(a, t + 1))
    last = pb.build((n,), lambda i: pb.logaddexp(_at(a, i, 2 * ends[1][i]), _at(a, i, 2 * ends[1][i] - 1)))
    loss: Array = pb.where(last < NEVER / 2, pb.inf, -last)
    return loss


def _whole(lengths: Any, n: Any, most: Any) -> Any:
    """The length of each sequence."""
    return pb.build((n,), lambda i: most) if lengths is None else pb.asarray(lengths)


def _at(a: Array, i: Any, s: Any) -> Any:
    """Return `a[i, s]` for a data-dependent s, `NEVER` if there is no such state."""
    return pb.max_over(a.shape[1], lambda k: pb.where(k == s, a[i, k], NEVER))


def _check(input: Any, targets: Any, blank: int) -> None:
    n, other, classes = (extent_of(e, "ctc_loss") for e in (input.shape[0], targets.shape[0], input.shape[2]))
    if n != other:
        raise ShapeError(
            "E102",
            f"ctc_loss: the input has {n} sequences, the targets {other}",
            position=user_position(),
            remedy="targets (N, S) for an input (N, L, K), with `target_lengths` where some have fewer",
        )
    if blank < 0 or (classes.constant is not None and blank >= classes.constant):
        raise TraceError(
            "E163",
            f"ctc_loss: blank is {blank}, of {counted(classes, 'class', 'classes')}",
            position=user_position(),
            remedy="the number of a class, from 0 up",
        )
