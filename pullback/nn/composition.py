"""Layers made of layers: chains, and layers side by side."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final

import pullback as pb
from pullback.errors import ShapeError, TraceError, counted
from pullback.nn.inputs import Takes, dims_of, leaves, map_dims, of_type
from pullback.nn.layer import Layer, as_layer
from pullback.nn.scope import Scope, type_of
from pullback.source import user_position
from pullback.tracing.array import Array

__all__ = ["branches", "heads", "parallel", "residual", "sequential"]

IMAGE_AXES: Final = 4  # N C H W; with fewer, `dense` works on the steps of a sequence
IMAGE_LAYERS: Final = frozenset({"conv", "conv_transpose", "max_pool", "avg_pool"})
KEEPING_LAYERS: Final = frozenset({  # shapes of results are those of inputs
    "batch_norm", "dropout", "group_norm", "instance_norm", "local_response_norm", "clipped_relu", "elu", "gelu",
    "gelu_tanh", "hard_sigmoid", "hard_silu", "leaky_relu", "relu", "sigmoid", "silu", "softplus", "tanh",
})  # fmt: skip


def sequential(*layers: Any) -> Layer:
    """Chain layers: each takes the result of the one before it.

    Images N C H W, from convolutions and pools, are flattened where a `dense` follows. Elementwise layers and
    normalizations may stand between. Types and descriptions list the inserted `flatten()`. Sequences N C L and images
    N H W C are not flattened: `dense` works on their last axis.

    Args:
        layers: layers and functions of arrays. A `sequential` without a name among them becomes part of this one.

    >>> from pullback import nn
    >>> net = nn.sequential(nn.dense(3), nn.relu) >> nn.dense(2)
    >>> net
    sequential(dense(3), relu, dense(2))
    >>> nn.sequential(nn.max_pool(2), nn.dense(2)).on("N 1 4 4").type
    (x: f32[N, 1, 4, 4]) -> f32[N, 2]
      max_pool1  max_pool(2)           f32[N, 1, 2, 2]
      flatten1   flatten() (inserted)  f32[N, 4]
      dense1     dense(2)              f32[N, 2]        w f32[2, 4], b f32[2]
    """
    if not layers:
        remedy = "`nn.sequential(nn.dense(10))`"
        raise TraceError("E163", "sequential of no layers", position=user_position(), remedy=remedy)
    parts: list[Layer] = []
    for given in map(as_layer, layers):
        parts += given.parts if given.kind == "sequential" and given.name is None else [given]

    images = list(accumulate(parts, _gives_images, initial=False))

    def forward(scope: Scope, x: Any) -> Any:
        for part, is_image in zip(parts, images, strict=False):
            if is_image and _is_dense(part) and x.ndim >= IMAGE_AXES:
                x = scope.call(_INSERTED, x)
            x = scope.call(part, x)
        return x

    first = next((part for part in parts if part.takes is not None), None)
    return Layer(
        "sequential",
        forward,
        first.takes if first else None,
        first.integers if first else False,
        text=f"sequential({', '.join(p.name or repr(p) for p in parts)})",
        parts=tuple(parts),
    )


Layer.chain = staticmethod(sequential)


def _flat(scope: Scope, x: Any) -> Any:
    return pb.reshape(x, (x.shape[0], -1))


_INSERTED: Final = Layer("flatten", _flat, text="flatten() (inserted)")


def _is_dense(part: Layer) -> bool:
    """Whether a layer is `nn.dense`, and not one of the user's of this name."""
    return part.kind == "dense" and "units" in part.settings and part.accepts == "... M"


def _gives_images(before: bool, part: Layer) -> bool:
    """Whether the result of a layer is an image with its channels first, if its input is one or not."""
    if part.kind in IMAGE_LAYERS:
        return part.settings.get("layout") == "NCHW"
    if part.kind in KEEPING_LAYERS:
        return before
    if part.kind == "sequential":
        return functools.reduce(_gives_images, part.parts, before)
    return part.kind == "residual" and _gives_images(before, part.parts[0])


def residual(*layers: Any, shortcut: Any = None) -> Layer:
    """Add the result of a chain of layers to its input.

    Args:
        layers: as for `sequential`.
        shortcut: a layer that is applied to the input before the addition, such as a 1 × 1 convolution.
    Raises:
        ShapeError: [E162] the result and the input differ in shape.

    >>> from pullback import nn
    >>> nn.residual(nn.dense(8), nn.relu).type.result  # what is added has the shape of the input
    'f32[N, 8]'
    """
    body = sequential(*layers)
    other = None if shortcut is None else as_layer(shortcut)

    def forward(scope: Scope, x: Any) -> Any:
        y: Array = scope.call(body, x, "body")
        kept: Array = x if other is None else scope.call(other, x, "shortcut")
        scope.unify(kept.shape, y.shape, "what is added has another shape")
        return kept + y

    parts = (body,) if other is None else (body, other)
    inner = ", ".join(map(repr, body.parts)) + ("" if other is None else f", shortcut={other!r}")
    return Layer("residual", forward, body.takes, body.integers, text=f"residual({inner})", parts=parts)


def branches(*layers: Any, axis: int = 1) -> Layer:
    """Apply several layers to one input and join their results along an axis.

    Args:
        layers: layers and functions of arrays, each given the input.
        axis: the axis to join results along: 1 for the channels of N C H W.
    Raises:
        ShapeError: [E162] results differ along another axis.

    >>> from pullback import nn
    >>> nn.branches(nn.dense(3), nn.dense(5)).type.result
    'f32[N, 8]'
    """
    parts = [as_layer(x) for x in layers]
    if not parts:
        raise TraceError("E163", "branches of no layers", position=user_position(), remedy="`nn.branches(a, b)`")

    def forward(scope: Scope, x: Any) -> Any:
        results = [scope.call(part, x) for part in parts]
        at = axis % results[0].ndim
        for y in results[1:]:
            _same_but(scope, results[0], y, at)
        return pb.concat(results, axis=at)

    first = next((part for part in parts if part.takes is not None), None)
    return Layer(
        "branches",
        forward,
        first.takes if first else None,
        first.integers if first else False,
        text=f"branches({', '.join(map(repr, parts))})",
        parts=tuple(parts),
        settings={"axis": axis},
    )


def parallel(**layers: Any) -> Layer:
    """Apply a layer to each of several inputs: a dict of results by the same names.

    Args:
        layers: layers and functions of arrays by name. Their parameters are under these names.
    Returns:
        A layer whose input and result are dicts. The first sizes of the inputs are one size; others are apart.

    >>> from pullback import nn
    >>> net = nn.parallel(words=nn.embedding(100, 8) >> nn.lstm(4, return_sequences=False), age=nn.dense(2))
    >>> whole = (net >> nn.concat() >> nn.dense(3)).type
    >>> whole.takes, whole.result
    ('{age: f32[N, M], words: i64[N, L]}', 'f32[N, 3]')
    """
    parts = _by_name("parallel", layers)

    def forward(scope: Scope, x: Any) -> Any:
        if not isinstance(x, Mapping) or x.keys() != parts.keys():
            what = f"parallel takes a dict of {', '.join(map(repr, parts))}, and was given {type_of(x)}"
            raise TraceError("E168", what, position=user_position(), remedy="an input for each layer, by its name")
        return {name: scope.call(part, x[name], name) for name, part in parts.items()}

    takes = {name: _apart(of_type(part.takes, part.integers), name, parts) for name, part in parts.items()}
    known = None if any(t is None for t in takes.values()) else takes
    return Layer("parallel", forward, known, text=_named_text("parallel", parts), parts=tuple(parts.values()))


def heads(**layers: Any) -> Layer:
    """Apply several layers to one input: a dict of their results.

    Args:
        layers: layers and functions of arrays by name. Their parameters are under these names.

    >>> from pullback import nn
    >>> (nn.dense(8) >> nn.heads(label=nn.dense(10), box=nn.dense(4))).on("N 64").type.result
    '{box: f32[N, 4], label: f32[N, 10]}'
    """
    parts = _by_name("heads", layers)

    def forward(scope: Scope, x: Any) -> Any:
        return {name: scope.call(part, x, name) for name, part in parts.items()}

    first = next((part for part in parts.values() if part.takes is not None), None)
    return Layer(
        "heads",
        forward,
        first.takes if first else None,
        first.integers if first else False,
        text=_named_text("heads", parts),
        parts=tuple(parts.values()),
    )


def _by_name(kind: str, layers: Mapping[str, Any]) -> dict[str, Layer]:
    if not layers:
        remedy = f"`nn.{kind}(left=nn.dense(3), right=nn.dense(5))`"
        raise TraceError("E163", f"{kind} of no layers", position=user_position(), remedy=remedy)
    return {name: as_layer(given) for name, given in layers.items()}


def _named_text(kind: str, parts: Mapping[str, Layer]) -> str:
    return f"{kind}({', '.join(f'{name}={part!r}' for name, part in parts.items())})"


def _apart(takes: Takes, name: str, parts: Mapping[str, Layer]) -> Takes:
    """The sizes of one of several inputs; names that others use get its name, but for that of the samples."""
    others = {d for other, part in parts.items() if other != name for text in leaves(part.takes).values()
              for d in dims_of(text)[1:]}  # fmt: skip

    def renamed(dims: list[str]) -> list[str]:
        return ["N", *(f"{d}_{name}" if d in others and d.isidentifier() else d for d in dims[1:])]

    return None if takes is None else map_dims(takes, renamed)


def _same_but(scope: Scope, a: Array, b: Array, axis: int) -> None:
    if a.ndim != b.ndim:
        what = f"branches give {a.ndim} and {counted(b.ndim, 'axis', 'axes')}"
        raise ShapeError("E162", what, position=user_position())
    rest = [k for k in range(a.ndim) if k != axis]
    scope.unify(tuple(a.shape[k] for k in rest), tuple(b.shape[k] for k in rest), f"branches differ beside axis {axis}")
