"""The embedding layer: rows of a table, selected by integers."""

from __future__ import annotations

from typing import Any, Final

import pullback as pb
from pullback import Array
from pullback.nn import init
from pullback.nn.layer import layer
from pullback.nn.layers.checks import check_count
from pullback.nn.scope import Initializer, Scope

__all__ = ["embedding"]

NORMAL: Final = init.normal(1.0)


def _takes(num_embeddings: int, embedding_dim: int, **_: Any) -> str:
    check_count("embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
    return "N L"


@layer(_takes, integers=True)
def embedding(scope: Scope, x: Any, num_embeddings: int, embedding_dim: int, *, init: Initializer = NORMAL) -> Array:
    """Select a row of a table for each integer: y[…, m] = w[x[…], m].

    Args:
        scope: provides the parameter w (num_embeddings, embedding_dim).
        x: integers, (…).
        num_embeddings: the number of rows; an integer outside [0, num_embeddings) raises IndexRangeError.
        embedding_dim: the length of a row.
        init: the initializer of w.
    Returns:
        (…, embedding_dim).
    Derivative:
        The cotangents of equal integers add up in their row.

    >>> from pullback import nn
    >>> nn.embedding(3, 2)({"w": np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])}, np.array([[2, 0]])).tolist()
    [[[4.0, 5.0], [0.0, 1.0]]]
    """
    w = scope.parameter("w", (num_embeddings, embedding_dim), init)
    rows: Array = pb.build((*x.shape, embedding_dim), lambda *i: w[x[i[:-1]], i[-1]])
    return rows
