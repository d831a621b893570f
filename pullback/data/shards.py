"""Data that each worker of `nn.fit` loads itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Shards"]


@dataclass(frozen=True)
class Shards:
    """Data in shards, each loaded by the worker of `nn.fit(…, workers=…)` that trains on it.

    A batch joins the next batches of all shards. An epoch ends when the first shard ends.

    Args:
        load: a function (shard, shards) that returns one shard: a Dataset, a tree of arrays, or an iterable of batches.
            It runs in the worker. Of arrays and data sets, `batch_size` is the size of the joined batch.

    >>> from pullback import data
    >>> x = np.arange(6)
    >>> shards = data.Shards(lambda shard, shards: (x[shard::shards], x[shard::shards] ** 2))
    >>> [pair[0].tolist() for pair in (shards.load(0, 2), shards.load(1, 2))]
    [[0, 2, 4], [1, 3, 5]]
    """

    load: Callable[[int, int], Any]
