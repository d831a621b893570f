"""Functions of trees, numbers and arrays without types."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64

import pullback as pb


@pb.function
def loss(params: dict[str, pb.Array], n: int, a: Float64[pb.Array, "N M"]) -> Any:
    return {"loss": pb.sum(a) * pb.sum(params["w"]) * n, "shape": a.at(0, 0)}


@pb.function
def plain(a: Float64[pb.Array, "N"], b: Float64[pb.Array, "N"] | None = None) -> Float64[pb.Array, "N"]:
    return a if b is None else a + b


found = loss({"w": np.ones(2)}, 3, a=np.ones((2, 2)))
print(found["loss"], plain([1.0, 2.0]), plain(np.ones(2), b=[1.0, 2.0]).tolist(), pb.grad(plain).name)
