"""Sequences of different lengths: layers that leave out steps that are not there, and losses of steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pullback as pb
from pullback import Array
from pullback.errors import TraceError
from pullback.nn.composition import sequential
from pullback.nn.inputs import of_type
from pullback.nn.layer import Layer, as_layer
from pullback.nn.layers.checks import check_one_of
from pullback.nn.scope import Scope, type_of
from pullback.source import user_position
from pullback.tracing.making import as_array

__all__ = ["masked", "sequence_loss"]

NAMES = {"values", "mask"}


def masked(*layers: Any, pool: str | None = None) -> Layer:
    """Apply layers to sequences of different lengths: steps that are not there change no result.

    In data for `nn.fit`, `nn.evaluate` and `nn.predict`, a jagged array (`pb.jagged`) stands for such sequences. Layers
    of single steps, `lstm`, `gru`, `bidirectional` and `attention` may be inside, at any depth. Layers of `nn` that mix
    steps otherwise are refused. Layers of your own that do so read `scope.mask`.

    Args:
        layers: as for `sequential`.
        pool: makes one array of each sequence: "mean", "sum" or "max" over its steps, or its "last" step; zeros of an
            empty one. By default, all steps are the result.
    Returns:
        A layer of a dict: "values" (N, L, ...), and "mask", bools (N, L) that are true where a step is there. Its
        result is such a dict, with zeros elsewhere. It is an array (N, ...) with `pool`, or if the layers give one of
        two axes, as `nn.lstm(5, return_sequences=False)` does. Parameters are those of the layers without it.
    Raises:
        TraceError: [E163] a layer would mix steps that are not there with others. [E168] The input is no such dict.
        ShapeError: [E162] the layers change the number of steps.
    Cost:
        That of the layers for N L steps, where L is the length of the longest sequence of the data.

    >>> from pullback import nn
    >>> net = nn.masked(nn.embedding(50, 8), nn.gru(4), pool="last") >> nn.dense(2)
    >>> net.type.takes
    '{mask: bool[N, L], values: i64[N, L]}'
    >>> rows = pb.jagged([[3, 1, 4], [1], [5, 9]])
    >>> nn.predict(net, rows, parameters=net.init(seed=0)[0]).shape
    (3, 2)
    """
    body = as_layer(layers[0]) if len(layers) == 1 else sequential(*layers)
    if pool is not None:
        check_one_of("masked", "pool", pool, ("mean", "sum", "max", "last"))

    def forward(scope: Scope, given: Any) -> Any:
        if not (isinstance(given, Mapping) and set(given) == NAMES):
            raise TraceError("E168", f"masked takes a dict of 'values' and 'mask', and was given {type_of(given)}",
                             position=user_position(),
                             remedy="`pb.jagged(rows)` in the data; `{\"values\": x, \"mask\": is_there}`")  # fmt: skip
        values, mask = as_array(given["values"]), as_array(given["mask"])
        scope.unify(values.shape[:2], mask.shape, "the mask has other sizes than the sequences")
        y = scope.masking(mask, lambda: _run(scope, body, values))
        if y.ndim == 2:
            return y
        scope.unify(y.shape[:2], mask.shape, "the layers within `nn.masked` change the number of steps")
        return {"values": _where(mask, y, 0), "mask": mask} if pool is None else _pooled(pool, y, mask)

    own = of_type(body.takes, body.integers)
    takes = {"values": own if isinstance(own, str) else "N L M", "mask": "bool[N, L]"}
    inner = ", ".join(map(repr, layers)) + ("" if pool is None else f", pool={pool!r}")
    return Layer("masked", forward, takes, text=f"masked({inner})", name=body.name, parts=(body,))


def sequence_loss(loss: Callable[..., Any]) -> Callable[[Any, Any], Array]:
    """Make a loss of all steps of sequences: the mean over sequences of the mean over their steps.

    The loss of an empty sequence is 0. A sequence whose target has other steps makes it NaN.

    Args:
        loss: a function with `reduction="none"`, such as `nn.cross_entropy` or a `functools.partial` of it.
    Returns:
        A function of the result of `nn.masked` and the target, which was a jagged array of the data. It gives a number.
    Raises:
        TraceError: [E168] when it is called: one of both is no dict of "values" and "mask".
    Cost:
        That of the loss for all steps, those that are not there included.

    >>> from pullback import nn
    >>> loss = nn.sequence_loss(nn.mse_loss)
    >>> y = {"values": np.array([[1.0, 3.0], [5.0, 0.0]]), "mask": np.array([[True, True], [True, False]])}
    >>> pb.function(loss)(y, {**y, "values": np.array([[0.0, 0.0], [3.0, 7.0]])}).item()
    4.5
    """

    def of_sequences(result: Any, target: Any) -> Array:
        for what, x in (("result", result), ("target", target)):
            if not (isinstance(x, Mapping) and set(x) == NAMES):
                raise TraceError("E168", f"sequence_loss: the {what} is {type_of(x)}, no dict of 'values' and 'mask'",
                                 position=user_position(),
                                 remedy="a network `nn.masked(…)`, and a jagged array as the target")  # fmt: skip
        each = loss(result["values"], target["values"], reduction="none")
        if each.ndim > 2:
            each = pb.mean(each, axis=tuple(range(2, each.ndim)))
        mask = as_array(result["mask"])
        counts = pb.sum(mask.astype(each.dtype), axis=1)
        means = pb.sum(pb.where(mask, each, 0), axis=1) / pb.maximum(counts, 1)
        alike = pb.all(mask == as_array(target["mask"]), axis=1)
        found: Array = pb.mean(pb.where(alike, means, pb.nan))
        return found

    of_sequences.__name__ = f"sequence_{getattr(getattr(loss, 'func', loss), '__name__', 'loss')}"
    return of_sequences


def _run(scope: Scope, body: Layer, x: Array) -> Any:
    """The result of layers whose arrays are those of this scope."""
    scope.check(body, x)
    return body.forward(scope, x)


def _where(mask: Array, y: Array, otherwise: Any) -> Array:
    """The steps that are there; another number elsewhere."""
    found: Array = pb.where(mask[(..., *[None] * (y.ndim - 2))], y, otherwise)
    return found


def _pooled(pool: str, y: Array, mask: Array) -> Array:
    """One element for each sequence."""
    steps = pb.arange(y.shape[1])
    counts: Any = pb.sum(mask.astype(y.dtype), axis=1)[(..., *[None] * (y.ndim - 2))]
    if pool == "last":
        last = pb.max(pb.where(mask, steps, -1), axis=1)
        found = pb.sum(_where(steps == last[:, None], y, 0), axis=1)
    elif pool == "max":
        found = pb.where(counts > 0, pb.max(_where(mask, y, -pb.inf), axis=1), 0)
    else:
        found = pb.sum(_where(mask, y, 0), axis=1)
        found = found / pb.maximum(counts, 1) if pool == "mean" else found
    return found
